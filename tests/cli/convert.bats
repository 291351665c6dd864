# convert.bats - `hindmost convert` on the command line: tables to tables, tables to timelines.

load ../helper

setup_file() {
    export DIR="$BATS_FILE_TMPDIR"
    "$HINDMOST" synth -o "$DIR/t.parquet" --noise 0.05 --vpp 2 --steps 4
}

@test "a table survives the way through the other format" {
    cd "$DIR"
    "$HINDMOST" convert t.parquet -o t1.csv
    "$HINDMOST" convert t1.csv -o t2.parquet
    "$HINDMOST" analyze t.parquet --json a.json
    "$HINDMOST" analyze t2.parquet --json b.json
    jq 'del(.job.name)' a.json >a1.json
    jq 'del(.job.name)' b.json >b1.json
    cmp a1.json b1.json
}

@test "real traces keep every row" {
    need_shared_data what-if
    cd "$DIR"
    for trace in AR SE; do
        "$HINDMOST" convert "$SHARED_DATA/what-if/trace-$trace.parquet" -o real.csv
        [ "$(sql "SELECT count(*) FROM ((SELECT * FROM '$SHARED_DATA/what-if/trace-$trace.parquet') EXCEPT (SELECT dp_rank, stage, rank, step, optype, start_ts::FLOAT, duration::FLOAT, seq_id, mc, mb_id, gmc FROM 'real.csv'))" | tr -dc 0-9)" = 0 ]
        [ "$(sql "SELECT count(*) - (SELECT count(*) FROM 'real.csv') FROM '$SHARED_DATA/what-if/trace-$trace.parquet'" | tr -dc 0-9)" = 0 ]
    done
}

@test "parts of a trace become one" {
    cd "$DIR"
    sql "COPY (SELECT * FROM 't.parquet' WHERE dp_rank < 2) TO 'p1.parquet'" "COPY (SELECT * FROM 't.parquet' WHERE dp_rank >= 2) TO 'p2.csv'" >/dev/null
    "$HINDMOST" convert p1.parquet p2.csv -o whole.parquet
    "$HINDMOST" analyze whole.parquet --json w.json
    "$HINDMOST" analyze t.parquet --json a.json
    [ "$(jq .slowdown w.json)" = "$(jq .slowdown a.json)" ]
    "$HINDMOST" convert p1.parquet p2.csv -o parts.json.gz
    "$HINDMOST" convert t.parquet -o one.json.gz
    cmp parts.json.gz one.json.gz
    [ -z "$(ls | grep tmp)" ]
}

@test "timelines are JSON with one event an op" {
    cd "$DIR"
    rows=$("$HINDMOST" analyze t.parquet --json - | jq .job.ops)
    for what in "" --ideal; do
        "$HINDMOST" convert t.parquet -o t.json.gz $what
        [ "$(gzip -dc t.json.gz | jq '[.traceEvents[] | select(.ph == "X")] | length')" = "$rows" ]
        gzip -dc t.json.gz | jq -e '[.traceEvents[] | select(.ph == "M" and .name == "process_name") | .args.name] == ["DP rank 0", "DP rank 1", "DP rank 2", "DP rank 3"]' >/dev/null
        gzip -dc t.json.gz | jq -e '[.traceEvents[] | select(.ph == "X")] | all(.args | has("step") and has("microbatch") and has("chunk") and has("seq"))' >/dev/null
    done
    first=$("$HINDMOST" analyze t.parquet --json - | jq '.steps[0].step')
    "$HINDMOST" convert t.parquet -o t.json --steps "$first"
    jq -e "[.traceEvents[] | select(.ph == \"X\") | .args.step] | unique == [$first]" t.json >/dev/null
}

@test "what cannot be read or written is refused in one line, and nothing is written" {
    cd "$DIR"
    mkdir -p empty
    head -c 20000 t.parquet >cut.parquet
    must_fail cut.parquet convert cut.parquet -o empty/o.parquet
    must_fail cut.parquet convert t.parquet cut.parquet -o empty/o.csv
    must_fail absent convert absent.parquet -o empty/o.json.gz
    must_fail empty/o.xyz convert t.parquet -o empty/o.xyz
    must_fail "at least one trace" convert -o empty/o.csv
    must_fail "needs -o" convert t.parquet
    must_fail "--ideal" convert t.parquet -o empty/o.csv --ideal
    must_fail "none/o" convert t.parquet -o none/o.csv
    printf 'step,dp_rank,stage,optype,seq_id,start_ts,duration,rank,mc,mb_id,gmc\n3,0,0,gc,0,0,-1,0,0,0,0\n' >bad.csv
    must_fail "bad.csv: gc at step 3" convert bad.csv -o empty/o.parquet
    [ -z "$(ls -A empty)" ]
}
