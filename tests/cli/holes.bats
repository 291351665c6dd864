# holes.bats - traces as they come: what can be used is used, what cannot is left out, counted and named, and the answer is that of
# the trace without it.

load ../helper

setup_file() {
    export DIR="$BATS_FILE_TMPDIR"
    "$BUILD/tests/job" "$DIR/base.csv" pp=4 dp=3 mb=8 steps=6
    "$HINDMOST" analyze --per-step --json "$DIR/base.json" "$DIR/base.csv"
    # the third step and the last one, for the statements below
    export STEP LAST
    STEP=$(sql "SELECT DISTINCT step FROM '$DIR/base.csv' ORDER BY 1 LIMIT 1 OFFSET 2")
    LAST=$(sql "SELECT max(step) FROM '$DIR/base.csv'")
}

# variant NAME SQL...: the base table changed by statements on t, as a trace and its analysis.
variant() {
    local name=$1 out=$DIR/$1
    shift
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/base.csv'" "$@" "COPY t TO '$out'" >/dev/null
    "$HINDMOST" analyze --per-step --json "$DIR/result.json" "$out"
}

# Without the diagnosis, which is less sure of itself where something was left out.
numbers() { jq 'del(.job.dropped, .job.name, .causes, .fixes, .verdict)' "$1"; }

# The variant's numbers equal those of the base table changed by these statements instead, to the last digit.
equals() {
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/base.csv'" "$@" "COPY t TO '$DIR/kept.csv'" >/dev/null
    "$HINDMOST" analyze --per-step --json "$DIR/kept.json" "$DIR/kept.csv"
    expect '.job.dropped | map(select(.why | test("has no rows") | not)) == []' "$DIR/kept.json"
    diff <(numbers "$DIR/result.json") <(numbers "$DIR/kept.json")
}

# The same where a replica is left out: what waiting for it explains is no transfer any more. The recorded time is the same, the steps are replayed
# faster by at most that waiting, and what is lost in all is no less.
equals_but_for_waiting() {
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/base.csv'" "$@" "COPY t TO '$DIR/kept.csv'" >/dev/null
    "$HINDMOST" analyze --per-step --json "$DIR/kept.json" "$DIR/kept.csv"
    jq -ne --slurpfile a "$DIR/result.json" --slurpfile b "$DIR/kept.json" '$a[0] as $a | $b[0] as $b |
        ($a.mean_step_s.actual == $b.mean_step_s.actual) and ([$a.steps[].step] == [$b.steps[].step]) and ($a.job.ops == $b.job.ops) and
        ($a.mean_step_s.replayed <= $b.mean_step_s.replayed + 1e-9) and
        ($a.lost_s.left_out_waits >= 0) and ($a.mean_step_s.replayed + $a.lost_s.left_out_waits <= $a.mean_step_s.actual + 1e-9) and
        ($a.mean_step_s.replayed + $a.lost_s.left_out_waits >= $b.mean_step_s.replayed * 0.95) and
        ($a.by_op_type["forward-compute"] * $a.mean_step_s.ideal / ($b.by_op_type["forward-compute"] * $b.mean_step_s.ideal) | . > 0.9 and . < 1.001)' >/dev/null
}

equals_base() { diff <(numbers "$DIR/result.json") <(numbers "$DIR/base.json"); }

near_base() { # RELATIVE
    jq -ne --slurpfile a "$DIR/result.json" --slurpfile b "$DIR/base.json" --argjson limit "$1" '
        def apart: [$a[0], $b[0]] | map([.slowdown, .mean_step_s[], .by_stage[], .by_dp_rank[], .by_worker[][]]) | transpose | map((.[0] / .[1] - 1) | fabs) | max;
        apart < $limit' >/dev/null
}

@test "rows in any order" {
    variant shuffled.csv "CREATE TABLE u AS SELECT * FROM t ORDER BY hash(step, optype, seq_id, stage, dp_rank)" "DROP TABLE t" "ALTER TABLE u RENAME TO t"
    expect '.job.dropped == []' "$DIR/result.json"
    equals_base
    variant shuffled.parquet "CREATE TABLE u AS SELECT * FROM t ORDER BY hash(seq_id, optype, step, dp_rank, stage)" "DROP TABLE t" "ALTER TABLE u RENAME TO t"
    equals_base
}

@test "a step with a missing op is left out, counted and named" {
    variant missing.csv "DELETE FROM t WHERE step = $STEP AND dp_rank = 1 AND stage = 2 AND optype = 'forward-compute' AND seq_id = 3"
    expect ".job.dropped == [{what: \"steps\", count: 1, why: \"step $STEP: dp rank 1, stage 2 has 7 of 8 forward-compute\"}]" "$DIR/result.json"
    expect '.job.steps == 5' "$DIR/result.json"
    equals "DELETE FROM t WHERE step = $STEP"
}

@test "a step with a surplus op is left out" {
    variant surplus.csv "INSERT INTO t SELECT * REPLACE (8 AS seq_id, start_ts + 0.001 AS start_ts) FROM t WHERE step = $STEP AND dp_rank = 1 AND stage = 2 AND optype = 'forward-compute' AND seq_id = 7"
    expect ".job.dropped == [{what: \"steps\", count: 1, why: \"step $STEP: dp rank 1, stage 2 has 9 of 8 forward-compute\"}]" "$DIR/result.json"
    equals "DELETE FROM t WHERE step = $STEP"
}

@test "a replica with holes in most steps is left out rather than the steps" {
    variant replica.csv "DELETE FROM t WHERE step >= $STEP AND dp_rank = 1 AND stage = 0 AND optype = 'optimizer'"
    expect '.job.dropped | length == 1 and .[0].what == "dp ranks" and .[0].count == 1 and (.[0].why | test("dp rank 1: .*stage 0 has 0 of 1 optimizer"))' "$DIR/result.json"
    expect '.job.steps == 6 and .by_dp_rank[1] == null and .by_worker[0][1] == null and .by_dp_rank[2] > 0' "$DIR/result.json"
    equals_but_for_waiting "DELETE FROM t WHERE dp_rank = 1"
}

@test "holes in a replica and in a step" {
    variant both.csv "DELETE FROM t WHERE dp_rank = 1 AND stage = 3 AND seq_id = 5" "DELETE FROM t WHERE step = $STEP AND dp_rank = 0 AND optype = 'gc'"
    expect '[.job.dropped[].what] | sort == ["dp ranks", "steps"]' "$DIR/result.json"
    equals_but_for_waiting "DELETE FROM t WHERE dp_rank = 1 OR step = $STEP"
}

@test "a missing rank: its replica is left out" {
    variant rank.csv "DELETE FROM t WHERE rank = 2 * 3 + 1"
    expect '.job.dropped | length == 1 and .[0].what == "dp ranks" and (.[0].why | test("dp rank 1: .*stage 2 has 0 of"))' "$DIR/result.json"
    equals_but_for_waiting "DELETE FROM t WHERE dp_rank = 1"
}

@test "a replica without any row, in the middle and first, is named" {
    variant middle.csv "DELETE FROM t WHERE dp_rank = 1"
    expect '.job.dp == 3 and .job.dropped[0].what == "dp ranks" and (.job.dropped[0].why | test("dp rank 1 has no rows")) and .by_dp_rank[1] == null' "$DIR/result.json"
    variant first.csv "DELETE FROM t WHERE dp_rank = 0"
    expect '.job.dp == 3 and (.job.dropped[0].why | test("dp rank 0 has no rows")) and .by_dp_rank[0] == null' "$DIR/result.json"
}

@test "the last replica missing is no contradiction of the metadata that names it" {
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/base.csv'" "DELETE FROM t WHERE dp_rank = 2" "COPY t TO '$DIR/last.csv'" >/dev/null
    printf 'dp_size: 3\npp_size: 4\ntp_size: 1\ndsp_size: 1\nvpp_size: 1\nworld_size: 12\n' >"$DIR/meta.yaml"
    "$HINDMOST" analyze -m "$DIR/meta.yaml" --json "$DIR/result.json" "$DIR/last.csv"
    expect '.job.dp == 3 and .by_dp_rank[2] == null and .by_dp_rank[1] > 0' "$DIR/result.json"
}

@test "a missing stage is named" {
    variant stage.csv "DELETE FROM t WHERE stage = 1"
    expect '.job.dropped == [{what: "stages", count: 1, why: "stage 1 has no rows; the others are replayed without it"}]' "$DIR/result.json"
}

@test "rows written twice count once" {
    variant twice.csv "INSERT INTO t SELECT * FROM t WHERE dp_rank = 1 AND stage = 2 AND seq_id = 7"
    expect '.job.dropped | length == 1 and .[0].what == "rows" and .[0].count == 36 and (.[0].why | test("written twice"))' "$DIR/result.json"
    equals_base
    variant all-twice.csv "INSERT INTO t SELECT * FROM t"
    expect '.job.dropped | length == 1 and .[0].count == 3348' "$DIR/result.json"
    equals_base
}

@test "the same op with two different times makes its step unusable" {
    variant twofold.csv "INSERT INTO t SELECT * REPLACE (start_ts + 0.001 AS start_ts) FROM t WHERE step = $STEP AND dp_rank = 1 AND stage = 2 AND optype = 'forward-compute' AND seq_id = 7"
    expect ".job.dropped | length == 1 and .[0].what == \"steps\"" "$DIR/result.json"
    equals "DELETE FROM t WHERE step = $STEP"
}

@test "gaps in seq_id are closed: in one worker, everywhere, and beginning with 1" {
    variant gaps.csv "UPDATE t SET seq_id = seq_id * 2 WHERE dp_rank = 1 AND stage = 2"
    expect '.job.dropped | length == 1 and .[0].what == "numberings" and .[0].count == 6' "$DIR/result.json"
    equals_base
    variant gaps-all.csv "UPDATE t SET seq_id = seq_id * 3 + 5"
    equals_base
    variant from-one.csv "UPDATE t SET seq_id = seq_id + 1 WHERE step = $STEP"
    equals_base
    variant reference.csv "UPDATE t SET seq_id = seq_id * 2 + 1 WHERE dp_rank = 0 AND step = (SELECT min(step) FROM t)"
    equals_base
}

@test "steps that overlap the recording's start and end are left out" {
    variant cut.csv "DELETE FROM t WHERE step = (SELECT min(step) FROM t) AND start_ts < 0.3" "DELETE FROM t WHERE step = $LAST AND start_ts > 0.3"
    expect '.job.dropped | length == 2 and all(.what == "steps")' "$DIR/result.json"
    expect '.job.steps == 4' "$DIR/result.json"
    equals "DELETE FROM t WHERE step IN ((SELECT min(step) FROM t), $LAST)"
}

@test "many incomplete steps are counted, the first of them named" {
    "$BUILD/tests/job" "$DIR/long.csv" pp=2 dp=2 mb=2 steps=40
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/long.csv'" "DELETE FROM t WHERE optype = 'gc' AND stage = 1 AND dp_rank = step % 2 AND step IN (SELECT DISTINCT step FROM t ORDER BY 1 LIMIT 20)" \
        "COPY t TO '$DIR/many.csv'" >/dev/null
    "$HINDMOST" analyze --json "$DIR/result.json" "$DIR/many.csv"
    expect '(.job.dropped | map(.count) | add) == 20 and .job.steps == 20' "$DIR/result.json"
}

@test "absolute times" {
    variant absolute.csv "UPDATE t SET start_ts = start_ts + 1700000000 + step * 10"
    expect '.job.dropped == []' "$DIR/result.json"
    near_base 2e-5 # a double of 1.7e9 s holds 2e-7 s
    variant hours.csv "UPDATE t SET start_ts = start_ts + 3600 + step * 10"
    near_base 1e-9
}

@test "float columns, all columns as text, integers as floats, enums and decimals" {
    variant float.parquet "ALTER TABLE t ALTER start_ts TYPE FLOAT" "ALTER TABLE t ALTER duration TYPE FLOAT"
    near_base 1e-5
    variant text.parquet "CREATE TABLE u AS SELECT COLUMNS(*)::VARCHAR FROM t" "DROP TABLE t" "ALTER TABLE u RENAME TO t"
    equals_base
    variant double.parquet "CREATE TABLE u AS SELECT * REPLACE (step::DOUBLE AS step, stage::FLOAT AS stage, seq_id::DOUBLE AS seq_id, dp_rank::DOUBLE AS dp_rank, mb_id::DOUBLE AS mb_id, mc::DOUBLE AS mc) FROM t" \
        "DROP TABLE t" "ALTER TABLE u RENAME TO t"
    equals_base
    variant small.parquet "CREATE TYPE op AS ENUM (SELECT DISTINCT optype FROM t)" \
        "CREATE TABLE u AS SELECT * REPLACE (stage::UTINYINT AS stage, dp_rank::SMALLINT AS dp_rank, step::UBIGINT AS step, optype::op AS optype) FROM t" \
        "DROP TABLE t" "ALTER TABLE u RENAME TO t"
    equals_base
    variant nulls.parquet "UPDATE t SET mc = NULL WHERE mc < 0" "UPDATE t SET mb_id = NULL WHERE mb_id < 0" "UPDATE t SET gmc = NULL WHERE gmc < 0"
    equals_base
    sql "COPY (SELECT * FROM '$DIR/base.csv') TO '$DIR/quoted.csv' (FORCE_QUOTE *)" >/dev/null
    "$HINDMOST" analyze --per-step --json "$DIR/result.json" "$DIR/quoted.csv"
    equals_base
    gzip -c "$DIR/base.csv" >"$DIR/zipped.csv.gz"
    "$HINDMOST" analyze --per-step --json "$DIR/result.json" "$DIR/zipped.csv.gz"
    equals_base
}

@test "further columns and another column order" {
    variant wide.csv "ALTER TABLE t ADD COLUMN host VARCHAR DEFAULT 'a,b'" "CREATE TABLE u AS SELECT host, gmc, mb_id, mc, seq_id, duration, start_ts, optype, step, rank, stage, dp_rank, 1 AS more FROM t" \
        "DROP TABLE t" "ALTER TABLE u RENAME TO t"
    equals_base
}

@test "unknown op types and first-op rows are left out, counted and named" {
    variant unknown.csv "INSERT INTO t SELECT * REPLACE ('first-op' AS optype) FROM t WHERE optype = 'gc'" "INSERT INTO t SELECT * REPLACE ('expert-all-to-all' AS optype) FROM t WHERE optype = 'optimizer' AND stage = 1"
    expect '[.job.dropped[] | {what, count, why}] | sort_by(.count) == [{what: "rows", count: 18, why: "op type expert-all-to-all is not known"}, {what: "rows", count: 72, why: "op type first-op is not known"}]' "$DIR/result.json"
    equals_base
    variant null-type.csv "INSERT INTO t SELECT * REPLACE (NULL AS optype) FROM t WHERE optype = 'gc'"
    expect '.job.dropped[0].count == 72' "$DIR/result.json"
    equals_base
}

@test "zero durations" {
    variant zero.csv "UPDATE t SET duration = 0 WHERE optype IN ('gc', 'layernorm-grads-all-reduce')"
    expect '.job.dropped == [] and .slowdown > 1 and .slowdown < 2' "$DIR/result.json"
    variant zero-compute.csv "UPDATE t SET duration = 0 WHERE optype = 'backward-compute' AND seq_id % 2 = 1"
    expect '.job.dropped == [] and .slowdown > 1' "$DIR/result.json"
}

@test "no gc rows: as if each had lasted no time" {
    variant gc-zero.csv "UPDATE t SET duration = 0 WHERE optype = 'gc'"
    cp "$DIR/result.json" "$DIR/gc-zero.json"
    variant gc-none.csv "DELETE FROM t WHERE optype = 'gc'"
    expect '.job.dropped == [] and (.by_op_type | has("gc") | not)' "$DIR/result.json"
    diff <(jq '[.slowdown, .mean_step_s.replayed, .mean_step_s.ideal, .by_stage, .by_worker, .worker_share]' "$DIR/result.json") \
        <(jq '[.slowdown, .mean_step_s.replayed, .mean_step_s.ideal, .by_stage, .by_worker, .worker_share]' "$DIR/gc-zero.json")
}

@test "point-to-point rows missing on a middle stage, of one type, one row, or all" {
    for what in "optype = 'forward-recv' AND stage = 1" "optype LIKE '%-send' AND stage = 2" "(optype LIKE '%-send' OR optype LIKE '%-recv') AND stage = 1" \
        "optype = 'backward-recv' AND stage = 1 AND seq_id = 3" "optype = 'forward-send' AND stage = 2 AND seq_id = 0"; do
        variant p2p.csv "DELETE FROM t WHERE $what"
        expect '.job.dropped == [] and (.discrepancy | fabs) < 0.05' "$DIR/result.json"
        near_base 0.05
    done
    variant p2p.csv "DELETE FROM t WHERE optype LIKE '%-send' OR optype LIKE '%-recv'"
    expect '.job.dropped == [] and .slowdown > 1.1 and (.by_op_type | has("forward-pp-comm") | not)' "$DIR/result.json"
}

@test "interleaved schedule without the rows that move nothing" {
    "$BUILD/tests/job" "$DIR/vpp.csv" pp=4 vpp=2 dp=2 mb=8 steps=3 exact=1
    "$HINDMOST" analyze --json "$DIR/result.json" "$DIR/vpp.csv"
    expect '.job.vpp == 2 and .job.dropped == [] and (.discrepancy | fabs) < 1e-9' "$DIR/result.json"
    expect '[.steps[] | (.replayed_s / .actual_s - 1) | fabs] | max < 1e-9' "$DIR/result.json"
}

@test "more than one DP rank without reduce-scatter, without all-gather, without either" {
    for what in "'grads-reduce-scatter'" "'params-all-gather'" "'grads-reduce-scatter', 'params-all-gather'"; do
        variant dp.csv "DELETE FROM t WHERE optype IN ($what)"
        expect '.job.dropped == [] and (.discrepancy | fabs) < 0.05 and .slowdown > 1.1' "$DIR/result.json"
        near_base 0.05
    done
}

@test "float times as the artefact stores them do not shift the answer" {
    need_shared_data what-if
    sql "COPY (SELECT * REPLACE (start_ts::DOUBLE AS start_ts, duration::DOUBLE AS duration) FROM '$SHARED_DATA/what-if/trace-AR.parquet') TO '$DIR/double.csv'" >/dev/null
    "$HINDMOST" analyze --json "$DIR/result.json" "$DIR/double.csv"
    "$HINDMOST" analyze --json "$DIR/float.json" "$SHARED_DATA/what-if/trace-AR.parquet"
    diff <(numbers "$DIR/result.json" | jq 'del(.evaluated_ops)') <(numbers "$DIR/float.json" | jq 'del(.evaluated_ops)')
}

@test "published trace with one step torn: the rest equals the artefact's steps" {
    need_shared_data what-if
    sql "COPY (SELECT * FROM '$SHARED_DATA/what-if/trace-AR.parquet' WHERE NOT (step = (SELECT max(step) FROM '$SHARED_DATA/what-if/trace-AR.parquet') AND start_ts > 20)) TO '$DIR/torn.parquet'" >/dev/null
    "$HINDMOST" analyze --json "$DIR/result.json" "$DIR/torn.parquet"
    expect '.job.steps == 43 and (.job.dropped | length == 1)' "$DIR/result.json"
    jq -ne --slurpfile a "$DIR/result.json" --slurpfile b "$SHARED_DATA/what-if/result-AR.json" \
        '[$a[0].steps[] | (.replayed_s / $b[0].step_t_nodelay[.step | tostring] - 1) | fabs] | max < 2e-6' >/dev/null
}
