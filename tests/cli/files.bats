# files.bats - outputs and inputs as somebody hostile, or merely unlucky, would have them.

load ../helper

setup_file() {
    export DIR="$BATS_FILE_TMPDIR"
    "$BUILD/tests/job" "$DIR/base.csv" pp=3 dp=2 mb=4 steps=3
    sql "COPY (SELECT * FROM '$DIR/base.csv') TO '$DIR/base.parquet'" >/dev/null
    "$HINDMOST" analyze "$DIR/base.parquet" --json "$DIR/base.json" >/dev/null
}

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

# What an analysis says, without the name of the job.
figures() { jq -S 'del(.job.name)' "$1"; }

nothing_left() { find . -name '*.tmp.*' | none; }

@test "a new file is made exclusively, follows no link and has a name that cannot be guessed" {
    command -v strace >/dev/null || skip "no strace"
    strace -f -e trace=open,openat,creat -o trace.txt "$HINDMOST" analyze "$DIR/base.csv" --json out.json >/dev/null 2>strace.err || skip "strace may not trace here"
    grep -E '\.hindmost\.tmp\.[0-9a-f]{16}' trace.txt >made
    grep -q O_EXCL made && grep -q O_NOFOLLOW made
    grep -v O_EXCL made | grep O_CREAT | none
}

@test "the mode of a replaced file stays, a new one has what umask leaves" {
    for out in out.json out.parquet; do
        echo old >$out
        chmod 640 $out
        (umask 077 && write_to $out)
        [ "$(stat -c %a $out)" = 640 ]
        [ "$(wc -c <$out)" -gt 100 ]
        rm $out
        (umask 027 && write_to $out)
        [ "$(stat -c %a $out)" = 640 ]
    done
    nothing_left
}

write_to() { # FILE: .json by analyze, a table by fleet, convert or synth
    case $1 in
    *.json) "$HINDMOST" analyze "$DIR/base.csv" --json "$1" >/dev/null ;;
    *) "$HINDMOST" fleet "$DIR/base.json" --parquet "$1" >/dev/null ;;
    esac
}

@test "what a link points to is replaced, the link stays; a dangling one is filled; a circle is refused" {
    mkdir deep
    echo old >deep/real.json
    ln -s deep/real.json link.json
    ln -s link.json second.json
    write_to second.json
    [ -L second.json ]
    [ -L link.json ]
    [ ! -L deep/real.json ]
    expect '.schema == "hindmost.analysis/1"' deep/real.json
    ln -s deep/new.parquet dangling.parquet
    write_to dangling.parquet
    [ -L dangling.parquet ]
    [ -s deep/new.parquet ]
    "$HINDMOST" convert "$DIR/base.csv" -o dangling.parquet
    "$HINDMOST" analyze deep/new.parquet --json same.json >/dev/null
    cmp <(figures "$DIR/base.json") <(figures same.json)
    ln -s b.json a.json
    ln -s a.json b.json
    must_fail a.json analyze "$DIR/base.csv" --json a.json
    nothing_left
}

@test "devices and FIFOs are written through, never replaced" {
    mkfifo pipe.json pipe.parquet
    cat pipe.json >got.json &
    "$HINDMOST" analyze "$DIR/base.csv" --json pipe.json >/dev/null
    wait
    cmp <(figures "$DIR/base.json") <(figures got.json)
    cat pipe.parquet >got.parquet &
    "$HINDMOST" convert "$DIR/base.csv" -o pipe.parquet
    wait
    "$HINDMOST" analyze got.parquet --json same.json >/dev/null
    cmp <(figures "$DIR/base.json") <(figures same.json)
    [ -p pipe.json ]
    [ -p pipe.parquet ]
    "$HINDMOST" analyze "$DIR/base.csv" --json /dev/null --html /dev/null >/dev/null
    "$HINDMOST" fleet "$DIR/base.json" --parquet /dev/null --html /dev/null >/dev/null
    "$HINDMOST" convert "$DIR/base.csv" -o /dev/null
    [ -c /dev/null ]
    "$HINDMOST" analyze "$DIR/base.csv" --json /dev/stdout >via.txt
    grep -q '"schema": "hindmost.analysis/1"' via.txt
    nothing_left
}

@test "a full device is one line and no file" {
    [ -c /dev/full ] || skip "no /dev/full"
    must_fail "/dev/full" analyze "$DIR/base.csv" --html /dev/full
    must_fail "/dev/full" fleet "$DIR/base.json" --parquet /dev/full
    for arguments in "analyze $DIR/base.csv" "analyze $DIR/base.csv --json -" "help" "help analyze" "--version" "fleet $DIR/base.json" "fleet $DIR/base.json --sql FROM\ jobs" "analyze --help"; do
        status=0
        eval "\"\$HINDMOST\" $arguments" >/dev/full 2>err || status=$?
        if [ $status = 3 ] && [ "$(wc -l <err)" = 1 ] && grep -q '^hindmost: standard output: cannot write: No space left' err; then :; else
            echo "$arguments: $status"
            cat err
            return 1
        fi
    done
}

@test "temporaries go when the disk limit, a closed pipe or a signal ends the work" {
    "$HINDMOST" synth -o big.parquet --dp 16 --pp 4 --steps 32
    status=0
    (ulimit -f 8; "$HINDMOST" convert big.parquet -o copy.csv 2>err) || status=$?
    [ $status = 3 ]
    [ "$(wc -l <err)" = 1 ]
    (ulimit -f 8; "$HINDMOST" analyze big.parquet --html page.html >/dev/null 2>err) || status=$?
    [ $status = 3 ]
    [ "$(wc -l <err)" = 1 ]
    grep -q 'File too large' err
    nothing_left
    for signal in TERM PIPE HUP INT; do
        mkfifo "wait.$signal"
        "$HINDMOST" analyze "$DIR/base.csv" --json out.json --html "wait.$signal" >/dev/null 2>&1 &
        "$HINDMOST" convert big.parquet -o copy.csv &
        local late=$!
        for _ in $(seq 200); do [ -n "$(find . -name '*.tmp.*')" ] && break; sleep 0.01; done
        kill -"$signal" "$late" 2>/dev/null || true
        wait "$late" || true
        timeout 20 cat "wait.$signal" >/dev/null
        wait
        nothing_left
    done
    [ "$( { "$HINDMOST" help synth; "$HINDMOST" analyze big.parquet; } 2>err | head -1 | wc -l)" = 1 ]
    [ ! -s err ]
}

@test "a name is only a name: ~, step=7, duration=5, globs, quotes, bytes that are no UTF-8" {
    local name
    for name in '~t.parquet' '~root.csv' 'a*b.parquet' 'a?[x].csv' "it's.parquet" 'a;b.csv' 's3:x.parquet' $'caf\xe9.parquet' $'line\nbreak.csv' '-t.parquet' '%s%n.parquet'; do
        "$HINDMOST" synth --dp 2 --pp 2 --steps 3 -o "./$name"
        [ -s "./$name" ] || {
            echo "not there: $name"
            return 1
        }
        "$HINDMOST" analyze "./$name" --json named.json >/dev/null
        expect '.job.dp == 2 and .job.pp == 2 and .job.steps == 3' named.json
        "$HINDMOST" convert "./$name" -o ./"copy-$name"
        "$HINDMOST" fleet named.json --parquet "./jobs-$name.parquet" >/dev/null
        [ "$("$HINDMOST" fleet "./jobs-$name.parquet" --sql 'SELECT count(*) AS n FROM jobs' | tail -1)" = 1 ]
    done
    local folder
    for folder in step=7 duration=5 dp_rank=0 stage=1 'x=*'; do
        mkdir "$folder"
        "$HINDMOST" convert "$DIR/base.csv" -o "$folder/t.parquet"
        "$HINDMOST" analyze "$folder/t.parquet" --json same.json >/dev/null
        cmp <(figures "$DIR/base.json") <(figures same.json)
    done
    mkdir slowdown=9
    "$HINDMOST" fleet "$DIR/base.json" --parquet slowdown=9/jobs.parquet >/dev/null
    [ "$("$HINDMOST" fleet slowdown=9/jobs.parquet --sql 'SELECT slowdown < 5 AS b FROM jobs' | tail -1)" = true ]
    nothing_left
}

@test "inputs through pipes are read; a FIFO that nobody writes is refused, and nothing hangs" {
    "$HINDMOST" analyze --json piped.json <(cat "$DIR/base.parquet") >/dev/null
    cmp <(figures "$DIR/base.json") <(figures piped.json)
    mkfifo silent.csv meta.yaml result.json
    for arguments in "analyze silent.csv" "analyze $DIR/base.csv -m meta.yaml" "convert silent.csv -o out.csv" "fleet result.json" "tor measure silent.csv"; do
        # shellcheck disable=SC2086
        timeout 30 "$HINDMOST" $arguments >out 2>err && return 1
        if [ $? -ne 124 ] && grep -q 'nobody writes' err; then :; else
            echo "$arguments:"
            cat err
            return 1
        fi
    done
    ("$HINDMOST" analyze silent.csv --json late.json >/dev/null) &
    sleep 0.3
    cat "$DIR/base.csv" >silent.csv
    wait
    cmp <(figures "$DIR/base.json") <(figures late.json)
}

@test "output folders are looked at before the work begins" {
    must_fail absent/out.json analyze no-such-trace.csv --json absent/out.json
    must_fail absent/out.html analyze no-such-trace.csv --html absent/out.html
    must_fail absent/t.parquet convert no-such-trace.csv -o absent/t.parquet
    must_fail absent/t.parquet synth -o absent/t.parquet
    must_fail absent/jobs.parquet fleet no-such.json --parquet absent/jobs.parquet
    mkdir folder
    must_fail folder analyze no-such-trace.csv --json folder
    must_fail folder/ analyze no-such-trace.csv --json folder/
}

@test "fleet: links in circles end, and no result counts twice" {
    mkdir -p results/inner
    cp "$DIR/base.json" results/one.json
    cp "$DIR/base.json" results/inner/two.json
    ln -s .. results/inner/up
    ln -s ../one.json results/inner/again.json
    ln results/one.json results/hard.json
    ln -s "$PWD/results" results/self
    [ "$("$HINDMOST" fleet results results/one.json results/ --sql 'SELECT count(*) AS n FROM jobs' | tail -1)" = 2 ]
    "$HINDMOST" fleet results --parquet all.parquet >/dev/null
    [ "$("$HINDMOST" fleet all.parquet results --sql 'SELECT count(*) AS n FROM jobs' | tail -1)" = 2 ]
    mkfifo results/pipe.json
    timeout 30 "$HINDMOST" fleet results >out
    grep -q 'pipe.json' out
}

@test "fleet --sql: reads the table jobs and nothing else" {
    echo a,forbidden >secret.csv
    local query n=0
    while read -r query; do
        must_fail --sql fleet "$DIR/base.json" --sql "$query"
        grep -q forbidden <<<"$output" && return 1
        n=$((n + 1))
    done <<'END'
SELECT * FROM 'secret.csv'
SELECT * FROM read_csv('secret.csv')
SELECT * FROM read_text('secret.csv')
SELECT * FROM glob('*')
COPY jobs TO 'stolen.csv'
ATTACH 'new.db'
INSTALL httpfs
LOAD httpfs
SELECT * FROM 'https://127.0.0.1/x.parquet'
SET threads = 1
RESET threads
PRAGMA database_list
SELECT current_setting('threads')
SELECT * FROM duckdb_settings()
SELECT * FROM information_schema.tables
WITH sqlite_master AS (SELECT 1) SELECT * FROM sqlite_master
SHOW TABLES
SELECT 1; SELECT 2
SELECT 1) ; DROP TABLE jobs; SELECT (1
DROP TABLE jobs
CREATE TABLE t AS SELECT 1
EXPORT DATABASE 'everything'
CALL pragma_version()
END
    [ $n = 23 ]
    [ -z "$(find . -name 'stolen*' -o -name '*.db' -o -name everything)" ]
    for query in 'SELECT count(*) FROM jobs' 'DESCRIBE jobs' 'WITH a AS (FROM jobs) SELECT max(slowdown) FROM a' 'FROM main.jobs' 'SELECT * FROM range(3)' 'SELECT name FROM jobs;'; do
        "$HINDMOST" fleet "$DIR/base.json" --sql "$query" >/dev/null
    done
}

@test "damaged input is noticed: gzip cut or changed, YAML as a bomb, JSON without end" {
    gzip -c "$DIR/base.csv" >whole.csv.gz
    "$HINDMOST" analyze whole.csv.gz --json same.json >/dev/null
    cmp <(figures "$DIR/base.json") <(figures same.json)
    local size
    size=$(stat -c %s whole.csv.gz)
    for cut in 1 4 8 9 $((size / 2)); do
        head -c $((size - cut)) whole.csv.gz >cut.csv.gz
        must_fail "cut short" analyze cut.csv.gz
        must_fail "cut short" convert cut.csv.gz -o out.csv
    done
    cat whole.csv.gz >changed.csv.gz
    printf '\x55' | dd of=changed.csv.gz bs=1 seek=$((size - 6)) conv=notrunc 2>/dev/null
    must_fail "damaged" analyze changed.csv.gz
    gzip -c "$DIR/base.json" | head -c 500 >cut.json.gz
    must_fail "cut short" fleet cut.json.gz
    head -c 100000 /dev/zero | tr '\0' '[' >bomb.yaml
    timeout 10 "$HINDMOST" analyze "$DIR/base.csv" -m bomb.yaml 2>err && return 1
    [ $? -ne 124 ]
    grep -q 'bomb.yaml: line 1' err
    head -c 600000 /dev/zero | tr '\0' '\n' | sed 's/^/- /' | head -c 900000 >long.yaml
    timeout 10 "$HINDMOST" analyze "$DIR/base.csv" -m long.yaml 2>err && return 1
    { echo '{"a": ['; head -c 400000000 /dev/zero | tr '\0' ' '; } >huge.json
    must_fail "larger than 256 MB" fleet huge.json
}
