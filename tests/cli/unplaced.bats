#!/usr/bin/env bats
# Op types that no rule connects: named, left out, and S follows from what is printed.
load ../helper

setup_file() {
    "$HINDMOST" synth -o "$BATS_FILE_TMPDIR/whole.parquet" --dp 2 --pp 2 --microbatches 4 --steps 9 --noise 0.05 --seed 5 >/dev/null
    "$BUILD/tests/sql" "COPY (SELECT * FROM '$BATS_FILE_TMPDIR/whole.parquet' WHERE NOT optype LIKE 'backward-compute') TO '$BATS_FILE_TMPDIR/part.parquet'"
    export FOLDER=$BATS_FILE_TMPDIR
}

@test "transfers of computes that were not recorded have no place, and that is said" {
    "$HINDMOST" analyze "$FOLDER/part.parquet" --json "$BATS_TEST_TMPDIR/part.json"
    expect '[.job.dropped[] | select(.what == "ops" and (.why | startswith("no rule places backward-"))) | .count] == [72, 72]' "$BATS_TEST_TMPDIR/part.json"
    expect '.by_op_type | has("backward-pp-comm") | not' "$BATS_TEST_TMPDIR/part.json"
    expect '(.mean_step_s | .replayed / .ideal) - .slowdown | fabs < 1e-9' "$BATS_TEST_TMPDIR/part.json"
}

@test "a whole job has none of them" {
    "$HINDMOST" analyze "$FOLDER/whole.parquet" --json "$BATS_TEST_TMPDIR/whole.json"
    expect '.job.dropped == []' "$BATS_TEST_TMPDIR/whole.json"
}
