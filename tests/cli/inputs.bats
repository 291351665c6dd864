# inputs.bats - what may be named as a recording: files, folders, patterns, standard input; and what decides the format.

load ../helper

setup_file() {
    export DIR="$BATS_FILE_TMPDIR"
    "$HINDMOST" synth -o "$DIR/whole.parquet" --dp 4 --pp 2 --steps 6 --noise 0.05
    mkdir "$DIR/parts"
    for k in 0 1 2 3; do
        sql "COPY (SELECT * FROM '$DIR/whole.parquet' WHERE dp_rank = $k) TO '$DIR/parts/rank$k.parquet'" >/dev/null
    done
    "$HINDMOST" analyze "$DIR/whole.parquet" --json "$DIR/whole.json" >/dev/null
}

# The result in FILE is that of the whole, but for the name and [what was left out].
same() { diff <(jq 'del(.job.name, .job.dropped)' "$1") <(jq 'del(.job.name, .job.dropped)' "$DIR/whole.json"); }

@test "several files, a folder, a pattern: parts of one recording" {
    cd "$DIR"
    "$HINDMOST" analyze parts/rank3.parquet parts/rank0.parquet parts/rank1.parquet parts/rank2.parquet --json several.json >/dev/null
    same several.json
    "$HINDMOST" analyze parts --json folder.json >/dev/null
    same folder.json
    "$HINDMOST" analyze 'parts/rank*.parquet' --json pattern.json >/dev/null
    same pattern.json
    "$HINDMOST" whatif 'parts/rank?.parquet' --set all=ideal >ideal.txt
    [ "$(cat ideal.txt)" = "$("$HINDMOST" whatif whole.parquet --set all=ideal)" ]
}

@test "standard input and a pipe" {
    cd "$DIR"
    "$HINDMOST" analyze - --json stdin.json <whole.parquet >/dev/null
    same stdin.json
    "$HINDMOST" convert whole.parquet -o whole.csv
    gzip -c whole.csv | "$HINDMOST" analyze - --json gzip.json >/dev/null
    same gzip.json
    "$HINDMOST" analyze <(cat whole.csv) --json pipe.json >/dev/null
    same pipe.json
    must_fail "standard input: nothing comes in" analyze -
}

@test "parts in both formats, and in columns of different widths" {
    cd "$DIR"
    rm -rf mixed && mkdir mixed
    sql "COPY (SELECT * FROM 'whole.parquet' WHERE dp_rank < 2) TO 'mixed/a.csv'" \
        "COPY (SELECT * REPLACE (seq_id::BIGINT AS seq_id, stage::SMALLINT AS stage) FROM 'whole.parquet' WHERE dp_rank = 2) TO 'mixed/b.parquet'" >/dev/null
    cp parts/rank3.parquet mixed/c.parquet
    gzip mixed/a.csv
    "$HINDMOST" analyze mixed --json mixed.json >/dev/null
    same mixed.json
    "$HINDMOST" convert mixed -o copied.parquet
    "$HINDMOST" analyze copied.parquet --json copied.json >/dev/null
    same copied.json
}

@test "the content decides, not the name; a name with a pattern's signs is itself" {
    cd "$DIR"
    cp whole.parquet 'odd*name[1].dat'
    "$HINDMOST" analyze 'odd*name[1].dat' --json odd.json >/dev/null
    same odd.json
    "$HINDMOST" analyze 'odd*name[1].dat' --format parquet --json odd.json >/dev/null
    same odd.json
    must_fail "--format: json5" analyze whole.parquet --format json5
    must_fail "cannot be read" analyze whole.parquet --format csv
}

@test "in a folder, what is no recording is passed over and counted; hidden and unfinished files are not seen" {
    cd "$DIR"
    cp -r parts more
    echo "notes, about this run" >more/README.md
    echo "tp_size: 1" >more/meta.yaml
    : >more/empty.parquet
    echo nonsense >more/.hidden
    echo nonsense >more/rank9.parquet.tmp
    "$HINDMOST" analyze more --json more.json >/dev/null
    same more.json
    expect '[.job.dropped[] | select(.what == "files")] == [{"what": "files", "count": 3, "why": "of no known format, or empty: passed over"}]' more.json
    must_fail "README.md: is of no known format" analyze more/README.md more/rank0.parquet
    must_fail "nowhere*: no file is named so" analyze "$DIR/nowhere*"
    mkdir -p notes && cp more/README.md notes/
    must_fail "README.md: is of no known format" analyze notes
}
