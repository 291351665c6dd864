# synth.bats - `hindmost synth` on the command line: what it writes, what an analysis finds in it, what it refuses.

load ../helper

synth() {
    "$HINDMOST" synth -o "$BATS_TEST_TMPDIR/t.parquet" "$@"
}

result() { # OPTIONS of analyze
    "$HINDMOST" analyze "$BATS_TEST_TMPDIR/t.parquet" -m "$BATS_TEST_TMPDIR/t.yaml" --json "$BATS_TEST_TMPDIR/r.json" "$@"
}

@test "a trace has the columns and types of the public ones" {
    cd "$BATS_TEST_TMPDIR"
    synth --tp 2 --vpp 2 --overlap-dp --float32
    run sql "SELECT string_agg(column_name || ' ' || column_type, ', ') FROM (DESCRIBE SELECT * FROM 't.parquet')"
    [ "$status" = 0 ]
    [[ "$output" = *"dp_rank TINYINT, stage TINYINT, rank SMALLINT, step BIGINT, optype VARCHAR, start_ts FLOAT, duration FLOAT, seq_id INTEGER, mc TINYINT, mb_id TINYINT, gmc SMALLINT"* ]]
    [ "$(sql "SELECT count(*) FILTER (rank <> (stage * 4 + dp_rank) * 2), min(start_ts), count(DISTINCT step), max(step) > 16 FROM 't.parquet'")" = $'0\t0.0\t16\ttrue' ]
    grep -q '^tp_size: 2$' t.yaml
    grep -q '^vpp_size: 2$' t.yaml
    grep -q '^world_size: 32$' t.yaml
}

@test "same seed, same bytes; another seed, others" {
    cd "$BATS_TEST_TMPDIR"
    for ending in parquet csv; do
        "$HINDMOST" synth -o a.$ending --noise 0.05 --inject sequences --seed 5
        "$HINDMOST" synth -o b.$ending --noise 0.05 --inject sequences --seed 5 -j 1
        "$HINDMOST" synth -o c.$ending --noise 0.05 --inject sequences --seed 6
        cmp a.$ending b.$ending
        if cmp -s a.$ending c.$ending; then return 1; fi
    done
}

@test "analysing a trace gives its recorded step times back" {
    for layout in "--dp 1 --pp 1" "--dp 3 --pp 1" "--dp 1 --pp 4" "--pp 3 --vpp 3 --microbatches 6 --overlap-dp" "--pp 4 --microbatches 3"; do
        synth $layout --noise 0.1 --steps 5
        result
        expect '(.discrepancy | fabs) < 1e-9 and (.steps | all((.actual_s - .replayed_s | fabs) < 1e-9))' "$BATS_TEST_TMPDIR/r.json"
    done
}

@test "the slow worker has the largest S" {
    synth --noise 0.02 --inject slow-worker:stage=1,dp=2,factor=2
    result
    expect '.by_worker as $w | ($w | flatten | max) == $w[1][2] and $w[1][2] > 1.3 and .worker_share.workers[0] == {"stage": 1, "dp_rank": 2}' "$BATS_TEST_TMPDIR/r.json"
}

@test "a heavy last stage shows as the last stage's share" {
    synth --noise 0.02 --inject last-stage:factor=2
    result
    expect '.last_stage_share.value > 0.9 and (.by_stage | max) == .by_stage[3]' "$BATS_TEST_TMPDIR/r.json"
}

@test "late data are a gap that the replay does not explain" {
    synth --inject data-loading:dp=2,ms=200,share=1
    result
    expect '(.slowdown - 1 | fabs) < 1e-9 and (.mean_step_s.actual - .mean_step_s.replayed - 0.2 | fabs) < 1e-9' "$BATS_TEST_TMPDIR/r.json"
}

@test "what cannot be made is refused in one line, and nothing is written" {
    cd "$BATS_TEST_TMPDIR"
    mkdir empty
    must_fail "--microbatches 6" synth -o empty/t.parquet --vpp 2 --microbatches 6
    must_fail "--vpp 2" synth -o empty/t.parquet --vpp 2 --pp 1
    must_fail "has no key 'colour'" synth -o empty/t.parquet --inject slow-worker:colour=2
    must_fail "no such kind" synth -o empty/t.parquet --inject sloth
    must_fail "empty/t.txt" synth -o empty/t.txt
    must_fail "needs -o" synth
    must_fail "none/t" synth -o none/t.parquet
    must_fail "--dp 0" synth -o empty/t.parquet --dp 0
    must_fail "--noise" synth -o empty/t.parquet --noise -1
    [ -z "$(ls -A empty)" ]
}

@test "a full disk leaves nothing behind" {
    cd "$BATS_TEST_TMPDIR"
    mkdir full
    mount -t tmpfs -o size=1M tmpfs full 2>/dev/null || skip "needs the right to mount"
    status=0
    output=$("$HINDMOST" synth -o full/t.parquet --dp 64 --pp 8 --noise 0.1 2>&1) || status=$?
    left=$(ls -A full)
    umount full
    [ "$status" = 3 ]
    [[ "$output" = "hindmost: full/t.parquet: cannot write: No space left on device"* ]]
    [ -z "$left" ]
}
