# left_out.bats - a replica that cannot be analysed may be the one that all wait for: it is looked at for blame.

load ../helper

# analysed DP PP SEED NOISE INJECTION: a job made to order, and its analysis, in DIR.
analysed() {
    export DIR="$BATS_TEST_TMPDIR"
    local inject=()
    [ -z "$5" ] || inject=(--inject "$5")
    "$HINDMOST" synth -o "$DIR/whole.parquet" --dp "$1" --pp "$2" --microbatches 6 --steps 6 --seed "$3" --noise "$4" "${inject[@]}" >/dev/null
    "$HINDMOST" analyze "$DIR/whole.parquet" --json "$DIR/whole.json" >/dev/null
}

# without CONDITION: the same job without these rows, analysed.
without() {
    sql "COPY (SELECT * FROM '$DIR/whole.parquet' WHERE NOT ($1)) TO '$DIR/holes.parquet'" >/dev/null
    "$HINDMOST" analyze "$DIR/holes.parquet" --json "$DIR/holes.json" >"$DIR/holes.txt"
}

@test "one op missing in each of its steps does not hide the straggler" {
    local op
    analysed 4 2 3 0.01 slow-worker:stage=1,dp=2,factor=1.5
    for op in forward-compute backward-compute backward-send params-all-gather grads-reduce-scatter optimizer-clip-main-grad optimizer; do
        without "dp_rank = 2 AND optype = '$op' AND stage = 1 AND seq_id = 0"
        expect '.job.dropped | any(.what == "dp ranks" and (.why | test("dp rank 2")))' "$DIR/holes.json"
        expect '.verdict.straggling and .causes[0].cause == "slow-worker" and .causes[0].where.workers == [{stage: 1, dp_rank: 2}]' "$DIR/holes.json"
        expect '.causes[0].recovers > 0.8 and .causes[0].recovers <= 1.001 and .fixes[0].fix == "replace-workers"' "$DIR/holes.json"
        expect '(.slowdown_real * .mean_step_s.ideal / .mean_step_s.actual - 1 | fabs) < 0.01' "$DIR/holes.json" # all of the recorded step is accounted for
        if grep -q Caution "$DIR/holes.txt"; then return 1; fi
    done
}

@test "two replicas left out: each is charged with what the others wait for it" {
    analysed 4 1 5 0.01 slow-worker:stage=0,dp=3,factor=1.8
    without "dp_rank IN (1, 3) AND optype = 'forward-compute' AND seq_id = 2"
    expect '.causes | map(select(.cause == "slow-worker")) | length == 1 and .[0].where.workers == [{stage: 0, dp_rank: 3}]' "$DIR/holes.json"
}

@test "a replica whose data come late, left out, is named without a reason that does not show" {
    analysed 4 2 7 0.01 data-loading:dp=1,ms=500,share=1
    without "dp_rank = 1 AND optype = 'backward-compute' AND stage = 0 AND seq_id = 2"
    expect '.verdict.straggling and .causes[0].cause == "unexplained" and .causes[0].where.dp_ranks == [1]' "$DIR/holes.json"
}

@test "a healthy replica that is left out is not blamed" {
    local seed
    for seed in 1 2 3; do
        analysed 4 2 $seed 0.02 ""
        without "dp_rank = 2 AND optype = 'forward-compute' AND stage = 1 AND seq_id = 3"
        expect '(.verdict.straggling | not) and .causes == []' "$DIR/holes.json"
    done
    analysed 4 2 4 0.02 slow-worker:stage=1,dp=0,factor=1.5
    without "dp_rank = 2 AND optype = 'forward-compute' AND stage = 1 AND seq_id = 3"
    expect '[.causes[] | select(.cause == "slow-worker") | .where.workers] == [[{stage: 1, dp_rank: 0}]]' "$DIR/holes.json"
}

@test "the answer is the same whatever the memory" {
    analysed 4 2 3 0.01 slow-worker:stage=1,dp=2,factor=1.5
    without "dp_rank = 2 AND optype = 'forward-compute' AND stage = 1 AND seq_id = 0"
    "$HINDMOST" analyze "$DIR/holes.parquet" --memory 20K --json "$DIR/small.json" >/dev/null
    diff "$DIR/holes.json" "$DIR/small.json"
}
