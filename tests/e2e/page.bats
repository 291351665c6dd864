#!/usr/bin/env bats
# The report page in Debian's Chromium: what it shows equals the JSON, by pointer and by keyboard, on real and on large jobs.
load ../helper

setup() {
    [ -x /usr/bin/chromium ] || skip "chromium is not installed (scripts/setup --tests)"
    [ -d "$SOURCE/.deps/node_modules/playwright-core" ] || skip "playwright-core is not under .deps (scripts/setup)"
    cd "$BATS_TEST_TMPDIR" || return 1
}

# analyze TRACE [OPTIONS]: the page and its JSON, and the checks of page.mjs.
check_page() {
    "$HINDMOST" analyze "$@" --html page.html --json page.json --per-step >report.txt
    node "$SOURCE/tests/e2e/page.mjs" "$SOURCE" page.html page.json
}

@test "page: one slowed worker (real trace AR)" {
    need_shared_data what-if
    check_page "$SHARED_DATA/what-if/trace-AR.parquet" -m "$SHARED_DATA/what-if/meta-AR.yaml"
}

@test "page: sequence lengths (real trace SE)" {
    need_shared_data what-if
    check_page "$SHARED_DATA/what-if/trace-SE.parquet" -m "$SHARED_DATA/what-if/meta-SE.yaml"
}

@test "page: a job without a pipeline, a single replica, one step" {
    "$HINDMOST" synth -o flat.parquet --dp 6 --pp 1 --steps 4 --noise 0.03
    check_page flat.parquet
    "$HINDMOST" synth -o one.parquet --dp 1 --pp 2 --steps 1 --noise 0.03
    check_page one.parquet
}

@test "page: every cause and fix, with texts that try to break out of the page" {
    "$HINDMOST" synth -o job.parquet --dp 4 --pp 3 --steps 6 --noise 0.03 --inject slow-worker:stage=1,dp=2,factor=1.5
    "$BUILD/tests/page" job.parquet page.html page.json
    node "$SOURCE/tests/e2e/page.mjs" "$SOURCE" page.html page.json
}

@test "page: 10,240 workers" {
    "$HINDMOST" synth -o big.parquet --dp 640 --pp 16 --microbatches 16 --steps 6 --noise 0.03 --inject slow-worker:stage=5,dp=200,factor=1.5
    check_page big.parquet
}

@test "page: a replica and a step with holes are named and stay grey" {
    "$HINDMOST" synth -o job.csv --dp 4 --pp 2 --steps 8 --noise 0.02
    sql "COPY (FROM read_csv('job.csv') WHERE NOT (dp_rank = 2 AND optype = 'backward-compute' AND seq_id = 3)) TO 'holes.csv'"
    check_page holes.csv
    expect '.job.dropped | length > 0' page.json
    expect '.by_dp_rank[2] == null' page.json
}

@test "page: cannot be written" {
    "$HINDMOST" synth -o job.parquet --dp 2 --pp 1 --steps 2
    must_fail "nowhere/page.html" analyze job.parquet --html nowhere/page.html
    must_fail "map.gif" analyze job.parquet --heatmap map.gif
    [ "$(ls)" = "$(printf 'job.parquet\njob.yaml\nstderr\nstdout')" ]
}
