# many.bats - hindmost-many: many traces over the ranks of an MPI program on this machine.

load ../helper

setup_file() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mkdir -p "$BATS_FILE_TMPDIR/in/sub"
    for i in 1 2 3; do
        "$HINDMOST" synth -o "$BATS_FILE_TMPDIR/in/t$i.parquet" --dp 4 --pp 2 --steps $((4 * i)) --seed $i --inject slow-worker:factor=1.3
    done
    "$HINDMOST" synth -o "$BATS_FILE_TMPDIR/in/sub/t1.csv" --dp 2 --pp 2 --steps 4
}

setup() {
    [ -x "$BUILD/hindmost-many" ] || skip "hindmost-many is not built (no MPI at build time)"
    command -v mpirun >/dev/null || skip "mpirun is not installed"
    cd "$BATS_TEST_TMPDIR" || return
    cp -rp "$BATS_FILE_TMPDIR/in" .
}

many() { # RANKS ARGUMENT...
    local ranks=$1 status=0
    shift
    mpirun --oversubscribe --enable-recovery -n "$ranks" "$BUILD/hindmost-many" "$@" >out.txt 2>err.txt 3>&- || status=$?
    return $status
}

@test "one result a trace, what the single program writes, whatever the ranks; a summary at the end" {
    for ranks in 1 3; do
        many $ranks analyze in -o results$ranks
        [ "$(cd results$ranks && find . -name '*.json*' | sort | xargs)" = "./sub/t1.json ./t1.json ./t2.json ./t3.json" ]
        for t in t1 t2 t3; do
            "$HINDMOST" analyze in/$t.parquet --json single.json >/dev/null
            cmp single.json results$ranks/$t.json
        done
        grep -q '^4 jobs' out.txt
        [ "$("$HINDMOST" fleet results$ranks/jobs.parquet --sql 'SELECT count(*) AS n FROM jobs' --json - | jq '.[0].n')" = 4 ]
    done
}

@test "a trace that fails is named with its reason, the rest goes on; a second run does what is missing or older" {
    echo garbage >in/bad.csv
    run "$BUILD/hindmost-many" analyze in -o alone 3>&- # mpirun --enable-recovery hides the status
    [ "$status" = 3 ]
    many 2 analyze in -o results
    jq -e '.trace == "in/bad.csv" and (.why | contains("no column"))' results/failures.jsonl
    [ -s results/t3.json ]
    grep -q '5 traces: 4 analysed, 0 were there, 1 failed' err.txt

    rm in/bad.csv
    touch -d '1 hour ago' results/t2.json
    touch in/t2.parquet
    rm results/sub/t1.json
    many 2 analyze in -o results
    grep -q '4 traces: 2 analysed, 2 were there, 0 failed' err.txt
    [ ! -e results/failures.jsonl ]
    many 2 analyze in -o results
    grep -q '4 traces: 0 analysed, 4 were there, 0 failed' err.txt
    many 2 analyze in -o results --again
    grep -q '4 traces: 4 analysed' err.txt
}

@test "the largest goes first; a list names recordings; of two traces of one name both have results" {
    printf '# two of one name\nin/t1.parquet\n\n  in/sub/t1.csv\nin/t1.parquet\n' >list.txt
    many 1 analyze list.txt in/t3.parquet -o results
    grep -m1 left err.txt | grep -qF "$(ls -S in/*.parquet in/sub/*.csv | grep -v t2 | head -1)"
    [ "$(find results -name 't1-????????.json' | wc -l)" = 2 ]
    [ -s results/t3.json ]
    printf 'in/t2.parquet\n' | mpirun --oversubscribe -n 2 "$BUILD/hindmost-many" analyze - -o results2 >out.txt 3>&-
    [ -s results2/t2.json ]
}

@test "what cannot be run is said in one line, exit 3" {
    for words in "analyze" "analyze in" "count in -o r" "analyze absent -o r" "analyze in -o r --no-such" "analyze in -o in/t1.parquet" "analyze in -o r --lost-after x"; do
        read -ra argument <<<"$words"
        run "$BUILD/hindmost-many" "${argument[@]}" 3>&-
        [ "$status" = 3 ]
        [ "$(grep -c '^hindmost: ' <<<"$output")" = 1 ]
    done
    "$BUILD/hindmost-many" --help | grep -q 'usage: mpirun'
    [ "$("$BUILD/hindmost-many" --version)" = "$("$HINDMOST" --version)" ]
}

# rank_at_work RANK: the process of that rank of this test, once it has a trace to analyse.
rank_at_work() {
    local pid
    for pid in $(pgrep -x hindmost-many); do
        [ "$(readlink "/proc/$pid/cwd")" = "$PWD" ] && grep -qz "^OMPI_COMM_WORLD_RANK=$1$" "/proc/$pid/environ" || continue
        if pgrep -P "$pid" >/dev/null; then echo "$pid"; fi
    done
}

@test "a rank that dies costs what it was at, which another does" {
    "$HINDMOST" synth -o big1.parquet --dp 64 --pp 4 --steps 160 --microbatches 16
    for i in 2 3 4 5; do ln big1.parquet big$i.parquet; done
    many 3 analyze big?.parquet -o results --lost-after 3 &
    local job=$! victim=
    for _ in $(seq 200); do
        victim=$(rank_at_work 2)
        [ -z "$victim" ] || break
        sleep 0.05
    done
    kill -9 "$victim"
    wait $job || true
    grep -q 'given up' err.txt
    [ "$(find results -name 'big*.json' | wc -l)" = 5 ]
    grep -q '5 traces: 5 analysed' err.txt
}
