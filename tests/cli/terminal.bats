# terminal.bats - what reaches a terminal: nothing that acts, nothing wider than it, nothing it cannot show.

load ../helper

setup_file() {
    export DIR="$BATS_FILE_TMPDIR"
    "$BUILD/tests/job" "$DIR/base.csv" pp=3 dp=2 mb=4 steps=3
    "$HINDMOST" analyze "$DIR/base.csv" --json "$DIR/base.json" >/dev/null
}

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

# Bytes that may act: C0 but for line ends, DEL, C1 (in UTF-8), and bytes that are no UTF-8.
acting() { LC_ALL=C grep -nP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]' "$@"; }

evil=$'\e]0;owned\a\e[31mred\rover\x7f\xc2\x9bx\xe2\x80\xaetxt\xff\nforged: row'

@test "control characters of a file's name, of metadata and of results never get through" {
    cp "$DIR/base.csv" "$evil.csv"
    printf 'trial_name: "\\e[31mred\\nforged: row\\x9b"\n' >meta.yaml
    jq --arg name "$evil" '.job.name = $name' "$DIR/base.json" >evil.json
    for arguments in "analyze \"\$evil.csv\"" "analyze $DIR/base.csv -m meta.yaml" "fleet evil.json" "fleet evil.json --sql FROM\ jobs" \
        "fleet \"\$evil.json\"" "analyze \"no-\$evil\"" "analyze --\"\$evil\"" "\"\$evil\"" "help \"\$evil\"" "whatif $DIR/base.csv --set \"\$evil\"" "node \"\$evil\"" "tor \"\$evil\"" \
        "analyze \"\$evil.csv\" --json -" "fleet evil.json --json -" "node list --ledger \"\$evil\"" "hang \"\$evil\""; do
        LC_ALL=C.UTF-8 eval "\"\$HINDMOST\" $arguments" >out 2>&1 || true
        if acting out; then
            echo "$arguments"
            return 1
        fi
        if grep -a '^forged' out; then return 1; fi
    done
}

@test "JSON with hostile names is valid JSON with the same name" {
    cp "$DIR/base.csv" $'a\e[31m\nb.csv'
    "$HINDMOST" analyze $'a\e[31m\nb.csv' --json out.json >/dev/null
    [ "$(jq -r '.job.name' out.json)" = $'a\e[31m\nb' ]
    cp "$DIR/base.csv" $'caf\xe9.csv'
    "$HINDMOST" analyze $'caf\xe9.csv' --json out.json >/dev/null
    [ "$(jq -r '.job.name' out.json)" = $'caf\xef\xbf\xbd' ]
    iconv -f UTF-8 -t UTF-8 out.json >/dev/null
}

# wider N FILE: lines of more than N characters.
wider() { LC_ALL=C.UTF-8 awk -v n="$1" 'length($0) > n {print FILENAME ": " length($0) ": " $0}' "$2"; }

@test "reports fit COLUMNS, and 80 columns where nothing is known" {
    "$HINDMOST" synth -o job.parquet --dp 8 --pp 4 --tp 8 --microbatches 8 --steps 12 --noise 0.02 --inject slow-worker:stage=1,dp=5,factor=1.6
    "$HINDMOST" synth -o seq.parquet --dp 8 --pp 4 --steps 20 --inject sequences:max=32768,tail=1.2 --inject last-stage:factor=1.4 --inject gc:every=10,ms=300
    "$HINDMOST" synth -o wide.parquet --dp 200 --pp 20 --microbatches 4 --steps 2 --noise 0.02 --inject link:stage=0,dp=3,factor=10
    mv job.parquet a-name-that-is-really-much-too-long-for-any-line-of-a-terminal-of-eighty-columns-is-it-not.parquet
    for trace in *.parquet; do
        env -u COLUMNS "$HINDMOST" analyze "$trace" --json "${trace%.parquet}.json" >out
        wider 80 out | none
        for columns in 60 80 100 132; do
            COLUMNS=$columns "$HINDMOST" analyze "$trace" >out
            wider $columns out | none
        done
    done
    env -u COLUMNS "$HINDMOST" fleet *.json >out
    wider 80 out | none
    COLUMNS=60 "$HINDMOST" fleet *.json >out
    wider 60 out | none
    for s in '' $("$HINDMOST" help | sed -n 's/^  \([a-z]\{1,\}\)  .*/\1/p'); do
        # shellcheck disable=SC2086
        "$HINDMOST" help $s >out
        wider 80 out | none
    done
}

@test "under a C locale only ASCII reaches the terminal, with colours or without" {
    cp "$DIR/base.csv" 'größe-名.csv'
    for arguments in "analyze größe-名.csv" "analyze größe-名.csv --color=always" "analyze no-größe" "fleet $DIR/base.json"; do
        # shellcheck disable=SC2086
        LC_ALL=C "$HINDMOST" $arguments >out 2>&1 || true
        if LC_ALL=C grep -nP '[\x80-\xff]' out; then return 1; fi
    done
    LC_ALL=C.UTF-8 "$HINDMOST" analyze größe-名.csv >out
    grep -q 'größe-名' out
}

@test "a reader that goes early hears nothing on standard error" {
    "$HINDMOST" synth -o job.csv --dp 4 --pp 2 --steps 20
    for arguments in "analyze job.csv --per-step --json -" "convert job.csv -o -" "analyze job.csv --html -" "help"; do
        # shellcheck disable=SC2086
        "$HINDMOST" $arguments 2>err | head -c 10 >/dev/null
        [ ! -s err ]
    done
}
