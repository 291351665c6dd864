# big_files.bats - traces larger than the memory allowed: the same answers, within the limit. Part of `scripts/test long`.

load ../helper

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# peak MB COMMAND...: the command's peak memory stays below.
peak() {
    local most=$1
    shift
    /usr/bin/env time -f '%M' -o peak "$@"
    [ $(($(tail -1 peak) / 1024)) -lt "$most" ]
}

@test "16 million ops within 1 GB: the same result as with all the memory" {
    command -v time >/dev/null || skip "no time(1)"
    "$HINDMOST" synth -o t.parquet --dp 64 --pp 8 --tp 1 --microbatches 32 --steps 120 --noise 0.05 --inject slow-worker:stage=3,dp=17,factor=1.4
    "$HINDMOST" analyze t.parquet --json all.json >/dev/null
    peak 1300 "$HINDMOST" analyze t.parquet --memory 1G --json little.json >/dev/null
    jq -e '.job.ops > 15e6' all.json
    jq -ne --slurpfile a all.json --slurpfile b little.json '
        def near(x; y): ((x - y) | fabs) < 1e-9 * (x | fabs) + 1e-12;
        near($a[0].slowdown; $b[0].slowdown) and
        ([$a[0].by_worker, $b[0].by_worker | flatten] | transpose | all(near(.[0]; .[1])))'
}

@test "16 million ops as CSV: the same slowdown as from Parquet" {
    "$HINDMOST" synth -o t.parquet --dp 64 --pp 8 --tp 1 --microbatches 32 --steps 120 --noise 0.05
    "$HINDMOST" convert t.parquet -o t.csv
    "$HINDMOST" analyze t.parquet --json p.json >/dev/null
    "$HINDMOST" analyze t.csv --json c.json >/dev/null
    jq -ne --slurpfile a p.json --slurpfile b c.json '$a[0].slowdown == $b[0].slowdown and $a[0].job.ops == $b[0].job.ops'
}
