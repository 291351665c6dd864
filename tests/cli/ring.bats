# ring.bats - hindmost ring: prints, follows and converts what a probe recorded.

load ../helper
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR"
    unset HINDMOST_OFF HINDMOST_JOB HINDMOST_DIR
    "$BUILD/tests/ring" "$PWD/rings" made 4 3
}

@test "prints header, records and counts of a folder of rings" {
    "$HINDMOST" ring rings >out
    [ "$(grep -c '^rings/made/rank' out)" = 4 ]
    grep -q 'job made, rank 2 of 4 on .* written by c in process [0-9]* (closed), opened' out
    [ "$(grep -c ' 30 records begun, room for 1024: 30 read, 0 overwritten before that, 0 unfinished, 0 refused' out)" = 4 ]
    grep -qE '^ +3 +2 +0  collective all_reduce +[0-9.-]+ +5\.000000  group=tp members=2-3 seq=0 bytes=4096$' out
    [ "$(grep -c ' async$' out)" = 24 ]
}

@test "--summary prints no records" {
    "$HINDMOST" ring --summary rings/made >out
    [ "$(wc -l <out)" = 12 ]
    grep -q '30 read' out
}

@test "-f goes on with new records and new rings, and ends on a signal" {
    "$HINDMOST" ring -f rings >out &
    local pid=$!
    for _ in $(seq 100); do grep -q ' 29 ' out && break; sleep 0.1; done
    "$BUILD/tests/ring" "$PWD/rings" later 1 1
    for _ in $(seq 100); do grep -q 'job later' out && grep -q optimizer out && break; sleep 0.1; done
    kill -INT $pid
    wait $pid
    grep -q 'job later, rank 0 of 1' out
    [ "$(grep -c optimizer out)" = 13 ]
}

@test "converts to an event table: regions without what they enclose, streams without overlap, numbers within the step" {
    "$HINDMOST" ring rings --as events -o events.csv | grep -qx 'events.csv: 132 events of 4 ranks from 4 rings'
    head -1 events.csv | grep -qx 'rank,host,gpu,pp,dp,tp,cp,ep,step,stream,kind,name,group,peer,seq,start_ns,end_ns,launch_ns,microbatch,chunk,bytes,tokens'
    one() { sql "$1" | grep -oE -- '-?[0-9]+$' | tail -1; }
    # forward: 35 ms around an all-reduce of 5 ms, in two parts
    [ "$(one "SELECT count(*) * 1000000000 + sum(end_ns - start_ns) FROM 'events.csv' WHERE rank = 1 AND step = 2 AND name = 'forward'")" = 2030000000 ]
    # two transfers in flight together are on two streams, numbered from 0 in every step
    [ "$(one "SELECT count(DISTINCT stream) FROM 'events.csv' WHERE rank = 0 AND step = 1 AND \"group\" = 'world' AND kind = 'collective'")" = 2 ]
    [ "$(one "SELECT min(seq) * 10 + max(seq) FROM 'events.csv' WHERE \"group\" = 'world' AND kind = 'collective'")" = 1 ]
    [ "$(one "SELECT count(*) FROM 'events.csv' w JOIN 'events.csv' c ON w.kind = 'wait' AND c.kind = 'collective' AND w.rank = c.rank AND w.step = c.step AND w.\"group\" = c.\"group\" AND w.seq = c.seq AND w.end_ns = c.end_ns")" = 24 ]
    # no overlap on any stream
    [ "$(one "SELECT count(*) FROM (SELECT start_ns, lag(end_ns) OVER (PARTITION BY rank, stream ORDER BY start_ns, end_ns) e FROM 'events.csv' WHERE kind <> 'marker') WHERE start_ns < e")" = 0 ]
    # every rank calls its group "tp": the members tell them apart
    [ "$(one "SELECT count(DISTINCT \"group\") FROM 'events.csv' WHERE \"group\" LIKE 'tp%'")" = 2 ]
    diff - events.groups.csv <<'END'
group,members
tp[0-1],0 1
tp[2-3],2 3
world,0 1 2 3
END
}

@test "the Parquet table has the same rows" {
    "$HINDMOST" ring rings --as events -o events.csv >/dev/null
    "$HINDMOST" ring rings --as events -o events.parquet >/dev/null
    [ "$(sql "SELECT count(*) FROM (SELECT rank, step, stream, kind, name, \"group\", seq, start_ns, end_ns, bytes FROM 'events.csv' EXCEPT SELECT rank, step, stream, kind, name, \"group\", seq, start_ns, end_ns, bytes FROM 'events.parquet')" | grep -oE '[0-9]+$' | tail -1)" = 0 ]
    [ "$(ls)" = "$(printf '%s\n' events.csv events.groups.csv events.parquet rings)" ]
}

@test "the newest attempt of a rank counts" {
    "$BUILD/tests/ring" "$PWD/rings" made 4 1
    "$HINDMOST" ring rings/made --as events -o events.csv >out
    grep -q '^left out: 4 rings of an earlier attempt' out
    grep -q '44 events of 4 ranks from 4 rings' out
}

@test "bad input: one line, exit 3, nothing written" {
    must_fail nothere ring nothere
    mkdir empty
    must_fail empty ring empty
    echo hello >text.ring
    must_fail text.ring ring text.ring
    must_fail text.ring ring text.ring --as events -o x.csv
    cp rings/made/rank0.*.ring new.ring
    printf '\x63' | dd of=new.ring bs=1 seek=8 conv=notrunc status=none
    must_fail 'version 99' ring new.ring
    must_fail 'x.txt' ring rings --as events -o x.txt
    must_fail 'x.csv' ring rings --as events -o nofolder/x.csv
    must_fail '-o OUT' ring rings --as events
    must_fail 'kineto' ring rings --as kineto -o x.csv
    must_fail 'ring needs' ring
    [ ! -e x.csv ]
}

@test "a damaged ring among others is named, the others are printed, and the status says so" {
    head -c 5000 /dev/zero | tr '\0' x >rings/made/damaged.ring
    : >rings/made/opening.ring
    run -3 --separate-stderr "$HINDMOST" ring --summary rings
    [ "$(grep -c '30 read' <<<"$output")" = 4 ]
    [ "$(wc -l <<<"$stderr")" = 1 ]
    grep -q 'damaged.ring: is not a ring' <<<"$stderr"
}

@test "a ring cut short keeps the records that are left" {
    cp rings/made/rank0.*.ring cut.ring
    truncate -s $((65536 + 64 * 10)) cut.ring
    "$HINDMOST" ring --summary cut.ring | grep -q '10 read, 0 overwritten before that, 20 unfinished'
}
