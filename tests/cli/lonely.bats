#!/usr/bin/env bats
# Transfers of which one side has no record: whoever asks when their data began to move gets the same answer.
load ../helper

setup_file() {
    "$HINDMOST" synth -o "$BATS_FILE_TMPDIR/whole.parquet" --dp 2 --pp 2 --microbatches 4 --steps 9 --noise 0.02 --seed 3 >/dev/null
    "$BUILD/tests/sql" "COPY (SELECT * FROM '$BATS_FILE_TMPDIR/whole.parquet' WHERE NOT (stage = 0 AND optype = 'forward-send'))
        TO '$BATS_FILE_TMPDIR/lonely.parquet'"
    export FOLDER=$BATS_FILE_TMPDIR
}

@test "a healthy job without the sends' records has no late data" {
    "$HINDMOST" analyze "$FOLDER/whole.parquet" --json "$BATS_TEST_TMPDIR/whole.json"
    "$HINDMOST" analyze "$FOLDER/lonely.parquet" --json "$BATS_TEST_TMPDIR/lonely.json"
    expect '[.causes[].cause] | index("data-loading") == null' "$BATS_TEST_TMPDIR/whole.json"
    expect '[.causes[].cause] | index("data-loading") == null' "$BATS_TEST_TMPDIR/lonely.json"
}

# start and end of every forward-recv in ns, by process, step and number
receives() { # TRACE
    "$HINDMOST" convert "$1" -o "$BATS_TEST_TMPDIR/timeline.json" >/dev/null
    jq -c '.traceEvents[] | select(.name == "forward-recv") | [.pid, .args.step, .args.seq, .ts, (.ts + .dur | . * 1000 | round)]' \
        "$BATS_TEST_TMPDIR/timeline.json" | sort
}

@test "the timeline draws a receive as long as it was recorded, with and without the send's record" {
    receives "$FOLDER/whole.parquet" >"$BATS_TEST_TMPDIR/whole"
    receives "$FOLDER/lonely.parquet" >"$BATS_TEST_TMPDIR/lonely"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/whole")" = 72 ]
    diff "$BATS_TEST_TMPDIR/whole" "$BATS_TEST_TMPDIR/lonely"
}
