# probe_mpi.bats - the MPI wrapper, preloaded into a program that knows nothing of it.

load ../helper

setup() {
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST_OFF HINDMOST_RECORDS
    export HINDMOST_DIR=$PWD/rings HINDMOST_JOB=job OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    [ -x "$BUILD/tests/mpi_calls" ] || skip "no MPI: built without it"
    command -v mpirun >/dev/null || skip "no MPI: mpirun is missing"
    # a library under AddressSanitizer can only be preloaded into a program that is under it too
    if ldd "$BUILD/libhindmost-mpi.so" | grep -q libasan; then skip "the wrapper is instrumented, the program is not"; fi
}

one() { sql "$1" | grep -oE -- '-?[0-9]+$' | tail -1; }

calls() { timeout 120 mpirun --oversubscribe -np 4 --mca btl self,vader -x HINDMOST_DIR -x HINDMOST_JOB "$@" "$BUILD/tests/mpi_calls"; }

@test "every call is recorded once, with its group and number, and the program's results are right" {
    calls -x LD_PRELOAD="$BUILD/libhindmost-mpi.so" >out
    [ "$(cat out)" = good ]
    "$HINDMOST" ring rings --as events -o e.csv
    # collectives a rank: 6 in each of three communicators, 10 of the thread, 6 nonblocking
    [ "$(one "SELECT count(*) FROM 'e.csv' WHERE kind = 'collective'")" = $((4 * (18 + 10 + 6))) ]
    [ "$(one "SELECT count(*) FROM 'e.csv' WHERE kind = 'send'")" = 12 ]
    [ "$(one "SELECT count(*) FROM 'e.csv' WHERE kind = 'recv'")" = 12 ]
    # all members give a collective of a group the same number, name and bytes
    [ "$(one "SELECT count(*) FROM (SELECT \"group\", seq, count(*) n, count(DISTINCT name) k, count(DISTINCT coalesce(bytes, 0)) b FROM 'e.csv'
        WHERE kind = 'collective' GROUP BY ALL) WHERE k <> 1 OR b <> 1 OR n <> CASE WHEN \"group\" LIKE 'world/1%' THEN 2 ELSE 4 END")" = 0 ]
    # every send has its receive: same pair, same number, same bytes
    [ "$(one "SELECT count(*) FROM 'e.csv' s JOIN 'e.csv' r ON s.kind = 'send' AND r.kind = 'recv' AND s.rank = r.peer AND s.peer = r.rank
        AND s.seq = r.seq AND s.bytes = r.bytes")" = 12 ]
    # split, duplicated, and the world's duplicate: groups of their own, with members
    diff - e.groups.csv <<'END'
group,members
world,0 1 2 3
world/1/1[0 2],0 2
world/1/1[1 3],1 3
world/1[0 2],0 2
world/1[1 3],1 3
world/2,0 1 2 3
END
    # waits name what they wait for
    [ "$(one "SELECT count(*) FROM 'e.csv' WHERE kind = 'wait' AND seq IS NULL")" = 0 ]
    [ "$(one "SELECT count(*) FROM 'e.csv' w JOIN 'e.csv' c ON w.kind = 'wait' AND c.kind <> 'wait' AND c.kind <> 'marker' AND w.rank = c.rank AND
        w.\"group\" = c.\"group\" AND w.seq = c.seq AND w.peer IS NOT DISTINCT FROM c.peer AND w.end_ns = c.end_ns")" -ge 20 ]
    # the thread's calls are not on the main line
    [ "$(one "SELECT count(*) FROM 'e.csv' WHERE \"group\" = 'world/2' AND stream = 0")" = 0 ]
    [ "$("$HINDMOST" ring --summary rings | grep -c ' 0 unfinished, 0 refused')" = 4 ]
}

@test "switched off, or without room, the program runs the same" {
    HINDMOST_OFF=1 calls -x HINDMOST_OFF -x LD_PRELOAD="$BUILD/libhindmost-mpi.so" >out
    [ "$(cat out)" = good ]
    [ ! -e rings ]
    HINDMOST_DIR=/proc/none calls -x LD_PRELOAD="$BUILD/libhindmost-mpi.so" >out 2>err
    [ "$(cat out)" = good ]
    [ "$(grep -c 'hindmost-probe: not recording' err)" = 4 ]
}
