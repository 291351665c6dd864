# partial.bats - part of a pipeline, or of the op types, was not recorded: what is missing is said; it is neither slow nor a place for work, and
# waiting for it is no work.

load ../helper

# made PP SEED ARGUMENTS...: a job made to order, in DIR.
made() {
    export DIR="$BATS_TEST_TMPDIR"
    local pp=$1 seed=$2
    shift 2
    "$HINDMOST" synth -o "$DIR/whole.parquet" --dp 4 --pp "$pp" --microbatches 8 --steps 6 --noise 0.02 --seed "$seed" "$@" >/dev/null
}

# without CONDITION: the same job without these rows, analysed.
without() {
    sql "COPY (SELECT * FROM '$DIR/whole.parquet' WHERE NOT ($1)) TO '$DIR/part.parquet'" >/dev/null
    "$HINDMOST" analyze "$DIR/part.parquet" --json "$DIR/part.json" >"$DIR/part.txt"
}

@test "a healthy job stays healthy without any of its stages" {
    local stages
    made 4 1
    for stages in 0 1 2 3 0,1 1,2 2,3; do
        without "stage IN ($stages)"
        expect '(.verdict.straggling | not) and .causes == [] and .fixes == [] and .slowdown < 1.02 and .slowdown > 0.98' "$DIR/part.json"
        expect '(.job.dropped | any(.what == "stages")) and (.cannot_tell | any(test("of 4 stages recorded|of [34] stages")))' "$DIR/part.json"
        jq -e --argjson gone "[$stages]" '. as $all | $gone | all(. as $s | $all.by_stage[$s] == null and ($all.by_worker[$s] // [null] | all(. == null)))' "$DIR/part.json" >/dev/null
    done
    for stages in 0 2 3; do
        made 4 2 --vpp 2
        without "stage = $stages"
        expect '(.verdict.straggling | not) and .causes == [] and (.job.dropped | any(.what == "stages"))' "$DIR/part.json"
    done
}

@test "a slow worker is found without the first, a middle or the last stage; nothing is priced that was not recorded" {
    local stage
    made 4 3 --inject slow-worker:stage=2,dp=1,factor=1.5
    for stage in 0 1 3; do
        without "stage = $stage"
        expect '.verdict.straggling and ([.causes[] | select(.cause != "unexplained")] | length == 1 and .[0].cause == "slow-worker" and .[0].where.workers == [{stage: 2, dp_rank: 1}])' "$DIR/part.json"
        expect '[.fixes[].fix] == ["replace-workers"]' "$DIR/part.json"
    done
    without "stage = 2" # the culprit was not recorded: nobody else is blamed
    expect '[.causes[].cause] | . == ["unexplained"] or . == []' "$DIR/part.json"
    without "stage <> 2" # the culprit alone
    expect '.causes[0].cause == "slow-worker" and .causes[0].where.workers == [{stage: 2, dp_rank: 1}]' "$DIR/part.json"
}

@test "a heavy stage beside one that was not recorded" {
    made 4 4 --inject last-stage:factor=2
    without "stage = 1"
    expect '.causes[0].cause == "stage-imbalance" and .causes[0].where.stages == [3] and (.fixes | all(.fix != "move-layers"))' "$DIR/part.json"
    without "stage = 3"
    expect '.causes == [] and (.last_stage_share.value == null)' "$DIR/part.json"
}

@test "op types that were not recorded are said, everywhere or on one stage" {
    made 2 5
    without "optype = 'forward-send'"
    expect '.causes == [] and (.cannot_tell | any(test("no forward-send recorded: slow links")))' "$DIR/part.json"
    without "optype = 'grads-reduce-scatter'"
    expect '.cannot_tell | any(test("no grads-reduce-scatter recorded: waiting"))' "$DIR/part.json"
    without "optype = 'backward-compute' AND stage = 1"
    expect '.cannot_tell | any(test("no backward-compute recorded on stage 1: who is slow"))' "$DIR/part.json"
    without "optype = 'params-all-gather' AND stage = 0"
    expect '.causes == [] and (.cannot_tell | any(test("no params-all-gather recorded on stage 0")))' "$DIR/part.json"
    without "false"
    expect '.cannot_tell | all(test("recorded") | not)' "$DIR/part.json"
}

@test "cases from outside" {
    need_shared_data outside-cases/analyze
    local in=$SHARED_DATA/outside-cases/analyze json=$BATS_TEST_TMPDIR/out.json
    "$HINDMOST" analyze "$in/c2-missing-middle-stage.csv" --json "$json" >/dev/null
    expect '(.verdict.straggling | not) and .slowdown < 1.01 and .causes == [] and .fixes == []' "$json"
    expect '.by_stage[1] == null and (.job.dropped | any(.why | test("stage 1 has no rows")))' "$json"
    "$HINDMOST" analyze "$in/b1-first-stage-unrecorded.parquet" --json "$json" >/dev/null
    expect '.causes[0].cause == "slow-worker" and .causes[0].where.workers == [{stage: 1, dp_rank: 1}]' "$json"
    expect '[.fixes[].fix] == ["replace-workers"] and .by_stage[0] == null and (.cannot_tell | any(test("1 of 2 stages recorded")))' "$json"
}
