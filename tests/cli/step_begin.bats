#!/usr/bin/env bats
# A step begins where its earliest op begins, in the recording and in the replay of it.
load ../helper

# Two replicas. The all-gather of dp 0 is recorded to end 3 ms before dp 1 launches: a transfer of -3 ms, clocks apart.
write_job() {
    echo dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc
    local dp
    for dp in 0 1; do
        local start=$((dp * 13)) gather=$((dp ? 4 : 10))
        printf '%d,0,%d,7,params-all-gather,0.%03d,0.%03d,0,0,-1,0\n' $dp $dp $start $gather
        echo "$dp,0,$dp,7,forward-compute,0.020,0.100,0,0,0,0"
        echo "$dp,0,$dp,7,backward-compute,0.130,0.100,0,0,0,0"
        echo "$dp,0,$dp,7,optimizer,0.240,0.010,0,-1,-1,-1"
    done
}

@test "an op that follows a negative transfer starts before 0, and the step with it" {
    write_job >"$BATS_TEST_TMPDIR/job.csv"
    run -0 "$HINDMOST" analyze "$BATS_TEST_TMPDIR/job.csv" --json -
    # dp 0 runs from -3 ms to 207 ms, dp 1 from 4 to 214 ms. Ideal: the median transfer is 0.5 ms, so 210.5 ms.
    jq -e '.steps[0] | (.actual_s - 0.250 | fabs < 1e-9) and (.replayed_s - 0.217 | fabs < 1e-9)
        and (.ideal_s - 0.2105 | fabs < 1e-9) and (.slowdown - 0.217 / 0.2105 | fabs < 1e-9)' <<<"$output"
    jq -e '.mean_step_s.replayed / .mean_step_s.ideal - .slowdown | fabs < 1e-9' <<<"$output"
}

@test "whatif counts from the earliest start too" {
    write_job >"$BATS_TEST_TMPDIR/job.csv"
    run -0 "$HINDMOST" whatif "$BATS_TEST_TMPDIR/job.csv" --set dp:0,type:params-all-gather=original --json -
    jq -e '.baseline_s - 0.217 | fabs < 1e-9' <<<"$output"
    run -0 "$HINDMOST" whatif "$BATS_TEST_TMPDIR/job.csv" --set dp:0,type:params-all-gather=1ms --json -
    jq -e '.result_s - 0.214 | fabs < 1e-9' <<<"$output"
}

@test "the given case is the artefact's, to the tolerance" {
    local cases=$SHARED_DATA/outside-cases/analyze
    [ -e "$cases/c1-earliest-start.csv" ] || skip "the given cases are not here"
    run -0 "$HINDMOST" analyze "$cases/c1-earliest-start.csv" -m "$cases/c1-earliest-start.yaml" --attribution paper --json "$BATS_TEST_TMPDIR/c1.json"
    local step
    for step in $(jq -r '.step_t_base | keys[]' "$cases/c1-earliest-start.result.json"); do
        jq -e --argjson step "$step" --slurpfile r "$cases/c1-earliest-start.result.json" '.steps[] | select(.step == $step) |
            (.actual_s - $r[0].step_t_base[$step | tostring] | fabs < 1e-6) and
            (.replayed_s - $r[0].step_t_nodelay[$step | tostring] | fabs < 1e-6)' "$BATS_TEST_TMPDIR/c1.json"
    done
    jq -e --slurpfile r "$cases/c1-earliest-start.result.json" '.slowdown - $r[0].blocking_slowdown | fabs < 2e-6' "$BATS_TEST_TMPDIR/c1.json"
}
