# bad_input.bats - unusable input ends with exit 3, one line that names the file and the remedy, nothing written, in bounded memory.

load ../helper

setup_file() {
    export DIR="$BATS_FILE_TMPDIR"
    "$BUILD/tests/job" "$DIR/base.csv" pp=3 dp=2 mb=4 steps=3
    sql "COPY (SELECT * FROM '$DIR/base.csv') TO '$DIR/base.parquet'" >/dev/null
    printf 'dp_size: 2\npp_size: 3\ntp_size: 1\ndsp_size: 1\nvpp_size: 1\nworld_size: 6\ntrial_name: base\n' >"$DIR/meta.yaml"
    # A sanitizer reserves terabytes of address space; only an ordinary build can be held to a limit.
    export LIMITED=1
    if nm "$HINDMOST" "$BUILD"/libhindmost.so 2>/dev/null | grep -q __asan_init; then LIMITED=0; fi
}

# refused FILE TEXT [OPTIONS...]: the analysis of FILE fails, the line names FILE and holds TEXT, and no output appears.
refused() {
    local file=$1 text=$2
    shift 2
    must_fail "$file" analyze "$@" --json "$DIR/out.json" "$file"
    grep -qE -- "$text" <<<"$output" || {
        echo "no '$text' in: $output"
        return 1
    }
    [ ! -e "$DIR/out.json" ]
    [ -z "$(find "$DIR" -name '*.tmp.*')" ]
}

variant() { # NAME SQL...
    local name=$1
    shift
    sql "CREATE TABLE t AS SELECT * FROM '$DIR/base.csv'" "$@" "COPY t TO '$DIR/$name'" >/dev/null
}

@test "a file that is not there, a directory, an empty file, a pipe" {
    refused "$DIR/absent.parquet" "No such file"
    mkdir "$DIR/none"
    refused "$DIR/none" "is a folder without a recording"
    : >"$DIR/empty.parquet"
    refused "$DIR/empty.parquet" "is empty"
    : >"$DIR/empty.csv"
    refused "$DIR/empty.csv" "is empty"
    refused /dev/null "not a regular file"
}

@test "no permission" {
    [ "$(id -u)" = 0 ] || skip "needs root to become another user"
    cp "$DIR/base.csv" "$DIR/secret.csv"
    chmod 600 "$DIR/secret.csv"
    local open=$DIR
    while [ "$open" != / ]; do
        chmod a+x "$open"
        open=${open%/*}
        open=${open:-/}
        [ -k "$open" ] && break
    done
    command -v setpriv >/dev/null || skip "no setpriv"
    # the program itself may lie where nobody can reach it, and so may an instrumented one's counts
    mkdir -m 777 "$DIR/gcov"
    cp "$HINDMOST" "$BUILD"/libhindmost.so* "$DIR/"
    cp "$(ldd "$HINDMOST" | awk '/libduckdb/ {print $3}')" "$DIR/"
    HINDMOST=$DIR/as-nobody
    cat >"$HINDMOST" <<END
#!/bin/sh
GCOV_PREFIX=$DIR/gcov LD_LIBRARY_PATH=$DIR exec setpriv --reuid=65534 --regid=65534 --clear-groups $DIR/hindmost "\$@"
END
    chmod 755 "$HINDMOST" "$DIR"/hindmost "$DIR"/lib*
    mkdir -m 777 "$DIR/open"
    must_fail "$DIR/secret.csv" analyze --json "$DIR/open/out.json" "$DIR/secret.csv"
    grep -q "Permission denied" <<<"$output"
    [ -z "$(ls -A "$DIR/open")" ]
    # where results cannot go is said before any work
    must_fail "$DIR/out.json" analyze --json "$DIR/out.json" "$DIR/base.csv"
    grep -q "Permission denied" <<<"$output"
}

@test "text, noise and other formats instead of a trace" {
    echo "hello" >"$DIR/hello.txt"
    refused "$DIR/hello.txt" "is of no known format; give one of: parquet \\(.*, csv \\("
    echo "hello, all" >"$DIR/hello.csv"
    refused "$DIR/hello.csv" "no column"
    head -c 5000 /dev/urandom >"$DIR/noise.bin"
    refused "$DIR/noise.bin" "of no known format"
    head -c 5000 /dev/urandom >"$DIR/noise.parquet"
    refused "$DIR/noise.parquet" "not a Parquet file"
    { printf PAR1; head -c 5000 /dev/urandom; printf PAR1; } >"$DIR/framed.parquet"
    refused "$DIR/framed.parquet" "cannot be read|damaged|far more"
    printf '\037\213' >"$DIR/stub.csv.gz"
    head -c 3000 /dev/urandom >>"$DIR/stub.csv.gz"
    refused "$DIR/stub.csv.gz" "."
    gzip -c "$DIR/base.csv" | head -c 3000 >"$DIR/cut.csv.gz"
    refused "$DIR/cut.csv.gz" "."
    echo '{"a": 1}' >"$DIR/some.json"
    refused "$DIR/some.json" "of no known format"
    "$HINDMOST" analyze "$DIR/base.csv" --json "$DIR/result.json" >/dev/null
    refused "$DIR/result.json" "is a result of hindmost, not a recording; compare results with 'hindmost fleet'"
}

@test "Parquet cut off at many places" {
    local size at n=0
    size=$(stat -c %s "$DIR/base.parquet")
    for at in 1 3 4 5 8 12 100 $(seq 500 $((size / 40)) $((size - 1))) $((size - 1)) $((size - 4)) $((size - 8)) $((size - 9)); do
        head -c "$at" "$DIR/base.parquet" >"$DIR/cut.parquet"
        refused "$DIR/cut.parquet" "cut.parquet: "
        n=$((n + 1))
    done
    [ $n -gt 30 ]
}

@test "Parquet with flipped bits: refused in one line or analysed, never a crash, never gigabytes" {
    local size at status n=0 refused=0
    size=$(stat -c %s "$DIR/base.parquet")
    for at in $(seq 4 $((size / 60)) $((size - 1))) $(seq $((size - 1500)) $((LIMITED ? 17 : 51)) $((size - 1))); do
        cp "$DIR/base.parquet" "$DIR/flipped.parquet"
        printf "$(printf '\\%03o' $(($(od -An -tu1 -j "$at" -N1 "$DIR/base.parquet") ^ (1 << at % 8))))" |
            dd of="$DIR/flipped.parquet" bs=1 seek="$at" conv=notrunc status=none
        status=0
        (
            [ $LIMITED = 0 ] || ulimit -v 4000000
            exec "$HINDMOST" analyze -j 1 --json "$DIR/flipped.json" "$DIR/flipped.parquet"
        ) >/dev/null 2>"$DIR/stderr" || status=$?
        n=$((n + 1))
        if [ $status = 0 ]; then
            jq -e '.schema == "hindmost.analysis/1"' "$DIR/flipped.json" >/dev/null
            rm "$DIR/flipped.json"
        else
            refused=$((refused + 1))
            if [ $status != 3 ] || [ "$(wc -l <"$DIR/stderr")" != 1 ] || ! grep -q "^hindmost: .*flipped.parquet: " "$DIR/stderr" || [ -e "$DIR/flipped.json" ]; then
                echo "byte $at: exit $status"
                cat "$DIR/stderr"
                return 1
            fi
        fi
    done
    [ $n -gt $((LIMITED ? 100 : 60)) ]
    [ $refused -gt 10 ]
}

@test "every column missing that a trace cannot do without" {
    for column in dp_rank stage step optype start_ts duration; do
        variant column.parquet "ALTER TABLE t DROP COLUMN $column"
        refused "$DIR/column.parquet" "has no column $column"
    done
}

@test "every column of a wrong type" {
    for column in dp_rank stage rank step start_ts duration seq_id mc mb_id gmc optype; do
        variant type.parquet "CREATE TABLE u AS SELECT * REPLACE ([1, 2] AS $column) FROM t" "DROP TABLE t" "ALTER TABLE u RENAME TO t"
        refused "$DIR/type.parquet" "column $column has type"
    done
    for column in dp_rank stage step seq_id start_ts duration; do
        variant text.csv "CREATE TABLE u AS SELECT * REPLACE ('x' AS $column) FROM t" "DROP TABLE t" "ALTER TABLE u RENAME TO t"
        refused "$DIR/text.csv" "$column"
    done
    variant half.csv "CREATE TABLE u AS SELECT * REPLACE (stage + 0.5 AS stage) FROM t" "DROP TABLE t" "ALTER TABLE u RENAME TO t"
    refused "$DIR/half.csv" "no usable stage"
}

# The replica that they are in is left out, and the first place named.
passed_over() { # FILE REASON
    "$HINDMOST" analyze --json "$DIR/passed.json" "$1" >/dev/null
    expect '.job.dropped | any(.what == "dp ranks")' "$DIR/passed.json"
    jq -e --arg why "$2" '.job.dropped[0] | .what == "rows" and (.why | test($why))' "$DIR/passed.json" >/dev/null
}

@test "NaN, infinite, negative and absent times, with the place" {
    local where="WHERE dp_rank = 1 AND stage = 2 AND optype = 'backward-compute' AND seq_id = 3"
    for column in start_ts duration; do
        for format in csv parquet; do
            variant "bad.$format" "UPDATE t SET $column = 'nan'::DOUBLE $where"
            passed_over "$DIR/bad.$format" "backward-compute at step [0-9]+, stage 2, dp_rank 1, seq_id 3: $column is not a number"
            variant "bad.$format" "UPDATE t SET $column = 'inf'::DOUBLE $where"
            passed_over "$DIR/bad.$format" "seq_id 3: $column is infinite"
            variant "bad.$format" "UPDATE t SET $column = NULL $where"
            passed_over "$DIR/bad.$format" "seq_id 3: $column is not a number"
        done
    done
    variant bad.csv "UPDATE t SET duration = -0.5 $where"
    passed_over "$DIR/bad.csv" "seq_id 3: duration is negative"
    variant zero.csv "UPDATE t SET duration = 0, start_ts = 0"
    refused "$DIR/zero.csv" "takes 0 s"
    variant huge.csv "UPDATE t SET duration = 1.7e308, start_ts = 1.7e308"
    refused "$DIR/huge.csv" "no time in seconds"
}

@test "numbers outside any layout" {
    variant out.parquet "UPDATE t SET dp_rank = -1 WHERE dp_rank = 1"
    refused "$DIR/out.parquet" "dp_rank (-1|is|[0-9]+).*outside the layout"
    variant out.parquet "UPDATE t SET dp_rank = 20000 WHERE dp_rank = 1"
    refused "$DIR/out.parquet" "dp_rank 20000.*outside the layout"
    variant out.parquet "UPDATE t SET stage = 4000 WHERE stage = 1"
    refused "$DIR/out.parquet" "stage 4000.*outside the layout"
    variant out.parquet "UPDATE t SET stage = -1 WHERE stage = 1"
    refused "$DIR/out.parquet" "stage.* outside the layout"
    variant out.parquet "UPDATE t SET step = -step - 1"
    refused "$DIR/out.parquet" "step.* outside the layout"
    variant out.parquet "UPDATE t SET seq_id = 2000000000 WHERE seq_id = 3"
    refused "$DIR/out.parquet" "seq_id.* outside the layout"
    variant out.parquet "UPDATE t SET stage = NULL WHERE stage = 1"
    refused "$DIR/out.parquet" "no usable stage"
}

@test "metadata that contradicts the trace, field by field, names both files" {
    local field
    for field in dp_size pp_size tp_size dsp_size vpp_size world_size; do
        sed "s/^$field: .*/$field: 7/" "$DIR/meta.yaml" >"$DIR/wrong.yaml"
        must_fail "$DIR/wrong.yaml" analyze -m "$DIR/wrong.yaml" --json "$DIR/out.json" "$DIR/base.csv"
        echo "$field: 7" >"$DIR/wrong.yaml"
        refused "$DIR/base.csv" "wrong.yaml says $field.* 7, but the trace shows" -m "$DIR/wrong.yaml"
    done
    variant rank.csv "UPDATE t SET rank = 41 WHERE rank = 3"
    refused "$DIR/rank.csv" "rank 41 is outside the layout of .*meta.yaml" -m "$DIR/meta.yaml"
    "$HINDMOST" analyze -m "$DIR/meta.yaml" --json "$DIR/good.json" "$DIR/base.csv"
    expect '.job.name == "base" and .job.world == 6' "$DIR/good.json"
}

@test "metadata that is none" {
    local text n=0
    for text in 'dp_size: 0' 'dp_size: -2' 'dp_size: two' 'dp_size: 2.5' 'dp_size: 99999999999999999999' 'dp_size: [2]' 'pp_size: {a: 1}' '{' 'a: b: c' 'just text' '' '"' $'\tx: 1' '--- - -'; do
        printf '%s' "$text" >"$DIR/bad.yaml"
        must_fail "$DIR/bad.yaml" analyze -m "$DIR/bad.yaml" --json "$DIR/out.json" "$DIR/base.csv"
        n=$((n + 1))
    done
    must_fail "$DIR/absent.yaml" analyze -m "$DIR/absent.yaml" "$DIR/base.csv"
    must_fail "$DIR" analyze -m "$DIR" "$DIR/base.csv"
    head -c 3000 /dev/urandom >"$DIR/noise.yaml"
    must_fail "$DIR/noise.yaml" analyze -m "$DIR/noise.yaml" "$DIR/base.csv"
    printf '[%.0s' $(seq 20000) >"$DIR/deep.yaml"
    must_fail "$DIR/deep.yaml" analyze -m "$DIR/deep.yaml" "$DIR/base.csv"
    [ $n -gt 10 ]
}

@test "a circle of dependencies is named op by op" {
    # stage 0 runs its backwards before its forwards, in all replicas and steps
    variant circle.csv "UPDATE t SET start_ts = start_ts + 1000 WHERE optype LIKE '%' AND NOT (stage = 0 AND optype LIKE 'backward%')" \
        "UPDATE t SET start_ts = 0 WHERE stage = 0 AND optype LIKE 'backward%'"
    refused "$DIR/circle.csv" "wait for each other in a circle .*forward-compute [0-9]+ of stage 0 waits for .*backward-compute [0-9]+ of stage 0.*; check|circle .*backward-recv"
    grep -qE 'of stage [0-9]+ waits for ' <<<"$output"
}

@test "no step with an end, no step that is whole, no known op" {
    variant none.csv "DELETE FROM t WHERE optype = 'optimizer'"
    refused "$DIR/none.csv" "no step has an end: there is no optimizer"
    variant none.csv "UPDATE t SET optype = 'something'"
    refused "$DIR/none.csv" "no row of a known op type"
    variant none.csv "DELETE FROM t"
    refused "$DIR/none.csv" "no row"
    variant none.parquet "DELETE FROM t"
    refused "$DIR/none.parquet" "no rows"
    variant none.csv "UPDATE t SET optype = 'forward-compute'"
    refused "$DIR/none.csv" "no step is complete.*record whole steps|no optimizer"
    must_fail "steps" analyze --steps 99999 "$DIR/base.csv"
}

@test "a full disk leaves nothing" {
    must_fail "/dev/full" analyze --json /dev/full "$DIR/base.csv"
    must_fail "cannot write" analyze --json "$DIR/no/such/folder/out.json" "$DIR/base.csv"
    must_fail "is a directory" analyze --json "$DIR" "$DIR/base.csv"
    [ "$(id -u)" = 0 ] || skip "needs root to mount a small file system"
    mkdir "$DIR/small"
    "$BUILD/tests/job" "$DIR/longer.csv" pp=4 dp=3 steps=9
    unshare --mount true 2>/dev/null || skip "no mount namespaces here"
    unshare --mount --propagation private bash -c '
        mount -t tmpfs -o size=4k tmpfs "$0/small" || exit 77
        "$1" analyze --per-step --json "$0/small/out.json" "$0/longer.csv" 2>"$0/stderr"
        echo $? >"$0/status"
        ls -A "$0/small" >"$0/left"' "$DIR" "$HINDMOST" || skip "cannot mount a tmpfs"
    [ "$(cat "$DIR/status")" = 3 ]
    grep -q "^hindmost: .*out.json: cannot write: No space left" "$DIR/stderr"
    [ ! -s "$DIR/left" ]
}

@test "a full disk behind standard output" {
    status=0
    "$HINDMOST" analyze --json - "$DIR/base.csv" >/dev/full 2>"$DIR/stderr" || status=$?
    [ $status = 3 ]
    [ "$(wc -l <"$DIR/stderr")" = 1 ]
    grep -q "^hindmost: standard output" "$DIR/stderr"
    status=0
    "$HINDMOST" help >/dev/full 2>"$DIR/stderr" || status=$?
    [ $status = 3 ]
}

@test "an existing result survives a failed run" {
    echo precious >"$DIR/kept.json"
    must_fail "$DIR/hello.csv" analyze --json "$DIR/kept.json" "$DIR/hello.csv"
    [ "$(cat "$DIR/kept.json")" = precious ]
}

# peak FILE: exit status in $status, peak memory of the run in $peak (MB).
peak() {
    status=0
    /usr/bin/env time -f '%M' -o "$DIR/peak" "$HINDMOST" analyze --json "$DIR/out.json" "$1" 2>"$DIR/stderr" || status=$?
    peak=$(($(tail -1 "$DIR/peak") / 1024))
    echo "exit $status, $peak MB: $(cat "$DIR/stderr")"
}

@test "a small file that claims a thousand million rows takes little memory" {
    command -v time >/dev/null || skip "no time(1)"
    [ $LIMITED = 1 ] || skip "a sanitizer's memory is not the program's"
    sql "SET memory_limit = '1GB'" "COPY (SELECT 0 AS dp_rank, 0 AS stage, 0 AS rank, 1 AS step, 'optimizer' AS optype, 0.0 AS start_ts, 1.0 AS duration, 0 AS seq_id, 0 AS mc, 0 AS mb_id, 0 AS gmc
        FROM range(100000000)) TO '$DIR/many.parquet' (COMPRESSION zstd, ROW_GROUP_SIZE 10000000)" >/dev/null
    [ "$(stat -c %s "$DIR/many.parquet")" -lt 1000000 ]
    peak "$DIR/many.parquet"
    [ $status = 3 ]
    grep -q "^hindmost: .*many.parquet: claims 100000000 rows" "$DIR/stderr"
    [ $peak -lt 400 ]
}

@test "a small file with more ops in a step than any step has is refused, in little memory" {
    command -v time >/dev/null || skip "no time(1)"
    sql "COPY (SELECT 0 AS dp_rank, (i % 64)::UTINYINT AS stage, 0 AS rank, 1 AS step, 'forward-compute' AS optype, 0.0 AS start_ts, 1.0 AS duration, (i // 64)::INTEGER AS seq_id,
        0 AS mc, 0 AS mb_id, 0 AS gmc FROM range(4000000) t(i)) TO '$DIR/wide.parquet' (COMPRESSION zstd, PARQUET_VERSION v2)" >/dev/null
    peak "$DIR/wide.parquet"
    [ $status = 3 ]
    grep -q "^hindmost: .*wide.parquet: one replica has 4000000 ops in one step" "$DIR/stderr"
    [ $LIMITED = 0 ] || [ $peak -lt 700 ]
}

@test "huge step, rank and sequence numbers take little memory" {
    command -v time >/dev/null || skip "no time(1)"
    local change
    for change in "step = step + 9000000000000000000" "dp_rank = 16383 WHERE dp_rank = 1" "seq_id = 131071 WHERE seq_id = 3" "stage = 255 WHERE stage = 2" \
        "rank = 9000000000000000000" "mc = 2000000000" "gmc = 2000000000" "mb_id = 2000000000" "step = seq_id * 1000003 + stage" "dp_rank = 5000 + stage * 11 + seq_id"; do
        variant far.parquet "UPDATE t SET $change"
        rm -f "$DIR/out.json"
        peak "$DIR/far.parquet"
        [ $status = 0 ] || [ $status = 3 ]
        [ $status = 0 ] || [ ! -e "$DIR/out.json" ]
        [ $LIMITED = 0 ] || [ $peak -lt 600 ]
        [ "$change" != "mc = 2000000000" ] || grep -q "mc 2000000000 is outside any layout" "$DIR/stderr"
    done
}
