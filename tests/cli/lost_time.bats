# lost_time.bats - the verdict, --check and fleet follow the time that is really lost, not only what replays can see.

load ../helper

@test "late data: the verdict and --check follow the waits" {
    cd "$BATS_TEST_TMPDIR"
    "$HINDMOST" synth --dp 4 --pp 1 --steps 10 --noise 0 --inject data-loading:dp=2,ms=400,share=1 -o late.parquet >synth.txt
    run "$HINDMOST" analyze late.parquet --check --json late.json
    [ "$status" = 2 ]
    expect '.slowdown < 1.001 and .slowdown_real > 1.2 and (.lost_s.launch_waits - 0.4 | fabs) < 1e-6' late.json
    expect '.verdict.straggling and .causes[0].cause == "data-loading" and .causes[0].where.dp_ranks == [2]' late.json
    expect '.fixes[0].fix == "load-data-earlier"' late.json
    run "$HINDMOST" analyze late.parquet
    grep -q '400.00 ms of a step' <<<"$output"
    if grep -qE 'inf|nan' <<<"$output"; then return 1; fi
    "$HINDMOST" fleet --json fleet.json late.json >fleet.txt
    expect '.slowdown.p50 > 1.3' fleet.json
}

@test "a real late-data case" {
    need_shared_data outside-cases/analyze
    local json=$BATS_TEST_TMPDIR/a6.json
    run "$HINDMOST" analyze "$SHARED_DATA/outside-cases/analyze/a6-late-data.parquet" --check --json "$json"
    [ "$status" = 2 ]
    expect '(.lost_s.launch_waits - 0.4 | fabs) < 1e-6 and (.slowdown_real - 2.1976 | fabs) < 1e-3' "$json"
    expect '.causes[0].recovers <= 1.001 and .causes[0].where.dp_ranks == [2]' "$json"
}
