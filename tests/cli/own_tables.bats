# own_tables.bats - op tables as people write them: what can be understood is, what cannot is counted and named, and the answer is that of the
# same job written as it should be.

load ../helper

setup_file() {
    export DIR="$BATS_FILE_TMPDIR"
    "$HINDMOST" synth --dp 3 --pp 2 --microbatches 4 --steps 6 --seed 5 --inject slow-worker:stage=1,dp=1,factor=1.5 -o "$DIR/base.csv" >/dev/null
    "$HINDMOST" analyze --json "$DIR/base.json" "$DIR/base.csv" >/dev/null
    export STEP
    STEP=$(sql "SELECT DISTINCT step FROM '$DIR/base.csv' ORDER BY 1 LIMIT 1 OFFSET 2")
}

# made OUTPUT COPY-OPTIONS SQL...: the base table changed by statements on t, analysed.
made() {
    local out=$DIR/$1 options=$2
    shift 2
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/base.csv'" "$@" "COPY t TO '$out' $options" >/dev/null
    "$HINDMOST" analyze --json "$DIR/result.json" "$out" >/dev/null
}

same_as_base() {
    jq -ne --slurpfile a "$DIR/result.json" --slurpfile b "$DIR/base.json" \
        '($a[0].slowdown / $b[0].slowdown - 1 | fabs) < 1e-9 and ($a[0].mean_step_s.actual / $b[0].mean_step_s.actual - 1 | fabs) < 1e-9' >/dev/null
}

@test "capitals, blanks, other names, op types with underscores" {
    for edit in 's/^[^\n]*/\U&/;q' 's/,/, /g' 's/_compute/-compute/'; do
        if [ "$edit" = 's/^[^\n]*/\U&/;q' ]; then
            { head -1 "$DIR/base.csv" | tr 'a-z' 'A-Z'; tail -n +2 "$DIR/base.csv"; } >"$DIR/edited.csv"
        elif [ "$edit" = 's/,/, /g' ]; then
            sed "$edit" "$DIR/base.csv" >"$DIR/edited.csv"
        else
            sed '2,$s/\([a-z]\)-\([a-z]\)/\1_\2/g' "$DIR/base.csv" >"$DIR/edited.csv"
        fi
        "$HINDMOST" analyze --json "$DIR/result.json" "$DIR/edited.csv" >/dev/null
        same_as_base
    done
    sed '1s/dp_rank/DP/;1s/seq_id/Seq/;1s/mb_id/microbatch/' "$DIR/base.csv" >"$DIR/edited.csv"
    "$HINDMOST" analyze --json "$DIR/result.json" "$DIR/edited.csv" >/dev/null
    same_as_base
}

@test "columns that a trace can do without" {
    made few.csv "" "ALTER TABLE t DROP COLUMN rank" "ALTER TABLE t DROP COLUMN mc" "ALTER TABLE t DROP COLUMN mb_id" "ALTER TABLE t DROP COLUMN gmc"
    same_as_base
    made unnumbered.csv "" "ALTER TABLE t DROP COLUMN seq_id"
    same_as_base
    sql "CREATE TABLE t AS SELECT * EXCLUDE (duration) FROM '$DIR/base.csv'" "COPY t TO '$DIR/bad.csv'" >/dev/null
    must_fail "no column duration" analyze "$DIR/bad.csv"
}

@test "decimal commas between semicolons" {
    { head -1 "$DIR/base.csv" | tr , ';'; tail -n +2 "$DIR/base.csv" | tr ',.' ';,'; } >"$DIR/commas.csv"
    "$HINDMOST" analyze --json "$DIR/result.json" "$DIR/commas.csv" >/dev/null
    same_as_base
}

@test "any origin of the times, also negative ones" {
    made negative.parquet "" "UPDATE t SET start_ts = start_ts - 3600"
    jq -ne --slurpfile a "$DIR/result.json" --slurpfile b "$DIR/base.json" '($a[0].slowdown - $b[0].slowdown | fabs) < 1e-6' >/dev/null
}

@test "one row whose times are none costs its step and is counted" {
    local row="WHERE step = $STEP AND dp_rank = 0 AND stage = 0 AND optype = 'forward-compute' AND seq_id = 1"
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/base.csv'" "DELETE FROM t WHERE step = $STEP" "COPY t TO '$DIR/without.csv'" >/dev/null
    "$HINDMOST" analyze --json "$DIR/without.json" "$DIR/without.csv" >/dev/null
    for bad in "duration = -1e-6" "duration = 'nan'" "duration = 1e300" "start_ts = 'inf'"; do
        for kind in csv parquet; do
            made "bad.$kind" "" "UPDATE t SET $bad $row"
            expect '.job.steps == 5 and (.job.dropped | map(.what)) == ["rows", "steps"] and .job.dropped[0].count == 1' "$DIR/result.json"
            jq -ne --slurpfile a "$DIR/result.json" --slurpfile b "$DIR/without.json" '($a[0].slowdown - $b[0].slowdown | fabs) < 1e-9' >/dev/null
        done
    done
}

@test "a last line that was cut is named" {
    local bytes
    bytes=$(wc -c <"$DIR/base.csv")
    head -c $((bytes - 60)) "$DIR/base.csv" >"$DIR/cut.csv"
    "$HINDMOST" analyze --json "$DIR/result.json" "$DIR/cut.csv" >/dev/null
    expect '.job.dropped | any(.why | test("cut short"))' "$DIR/result.json"
    expect '.job.steps == 5' "$DIR/result.json"
}

@test "numbers that do not follow the starts: the starts count" {
    made backwards.parquet "" "UPDATE t SET seq_id = 3 - seq_id WHERE dp_rank = 1 AND stage = 0 AND optype IN ('forward-compute', 'backward-compute')"
    same_as_base
    expect '.job.dropped | length == 1 and .[0].what == "numberings"' "$DIR/result.json"
    made first.csv "" "UPDATE t SET seq_id = 3 - seq_id WHERE dp_rank = 0 AND step = (SELECT min(step) FROM t) AND optype = 'forward-compute' AND seq_id IN (1, 2)"
    same_as_base
}

@test "all GPUs of a TP group: the slowest counts" {
    made ranks.parquet "" "INSERT INTO t SELECT * REPLACE (rank * 2 + 1 AS rank, CASE WHEN optype LIKE '%-compute' THEN duration * 0.9 ELSE duration END AS duration) FROM t"
    same_as_base
    expect '.job.dropped[0].what == "ranks"' "$DIR/result.json"
}

@test "an all-gather after the optimizer is for the next step" {
    made trailing.parquet "" "CREATE TABLE e AS SELECT step, dp_rank, stage, max(start_ts + duration) AS last FROM t GROUP BY ALL" \
        "UPDATE t SET start_ts = e.last FROM e WHERE t.step = e.step AND t.dp_rank = e.dp_rank AND t.stage = e.stage AND optype = 'params-all-gather'"
    jq -ne --slurpfile a "$DIR/result.json" --slurpfile b "$DIR/base.json" '($a[0].slowdown / $b[0].slowdown - 1 | fabs) < 0.02' >/dev/null
    expect '.causes[0].cause == "slow-worker" and .causes[0].where.workers == [{stage: 1, dp_rank: 1}]' "$DIR/result.json"
}

@test "a recording without computes is refused" {
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/base.csv' WHERE optype NOT LIKE '%-compute'" "COPY t TO '$DIR/none.csv'" >/dev/null
    must_fail "compute" analyze "$DIR/none.csv"
}

@test "cases from outside" {
    need_shared_data outside-cases/analyze
    local in=$SHARED_DATA/outside-cases/analyze case
    "$HINDMOST" analyze --json "$DIR/o.json" "$in/base.csv" >/dev/null
    for case in b10-spaces.csv b10-upper.csv b10-without-rank-mc-mb-gmc.csv b11-negative-starts.parquet b3-underscores.parquet; do
        "$HINDMOST" analyze --json "$DIR/c.json" "$in/$case" >/dev/null
        jq -ne --slurpfile a "$DIR/c.json" --slurpfile b "$DIR/o.json" '($a[0].slowdown - $b[0].slowdown | fabs) < 1e-6' >/dev/null
    done
    for case in b10-cut.csv b8-one-unfinished-op.parquet b7-both-ranks-of-a-tp-group.parquet b6-all-gather-after-optimizer.parquet c4-first-cell-numbering.csv; do
        "$HINDMOST" analyze --json "$DIR/c.json" "$in/$case" >/dev/null
        expect '.causes[0].cause == "slow-worker"' "$DIR/c.json"
    done
    "$HINDMOST" analyze --json "$DIR/c.json" "$in/b9-seq-counted-backwards.parquet" >/dev/null
    expect '.causes == [] and .slowdown < 1.02' "$DIR/c.json"
    "$HINDMOST" analyze --json "$DIR/c.json" "$in/c5-same-seq-twice.csv" >/dev/null
    expect '.causes == [] and .slowdown < 1.02' "$DIR/c.json"
    must_fail compute analyze "$in/b3-no-computes.parquet"
}

@test "an op with an impossible time costs its step, the first one too; times in nanoseconds get a caution" {
    "$HINDMOST" synth -o t.csv --dp 4 --pp 2 --microbatches 4 --steps 8 --inject slow-worker:stage=1,dp=1,factor=1.5
    "$HINDMOST" analyze t.csv --json whole.json
    for step in $(cut -d, -f4 t.csv | sort -un | sed -n '2p;5p'); do
        awk -F, -v OFS=, -v step="$step" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print; next }
            { $at["start_ts"] = sprintf("%.6f", $at["start_ts"] + 1.7e9) }
            !done && $at["step"] == step && $at["dp_rank"] == 2 && $at["optype"] == "backward-compute" { $at["start_ts"] = 0; done = 1 }
            { print }' t.csv >odd.csv
        "$HINDMOST" analyze odd.csv --json odd.json
        jq -e --slurpfile w whole.json '.slowdown_real / $w[0].slowdown_real | . > 0.95 and . < 1.05' odd.json
        jq -e --argjson s "$step" '.job.steps == 7 and (.job.dropped | any(.why | contains("step \($s): an op has an impossible time")))' odd.json
        jq -e '.causes[0].cause == "slow-worker" and .causes[0].where.workers == [{stage: 1, dp_rank: 1}]' odd.json
    done
    awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print; next }
        { $at["start_ts"] = sprintf("%.0f", $at["start_ts"] * 1e9); $at["duration"] = sprintf("%.0f", $at["duration"] * 1e9); print }' t.csv >ns.csv
    "$HINDMOST" analyze ns.csv | tr -s ' \n' ' ' | grep -q "longer than a day: times are in seconds, are these?"
}
