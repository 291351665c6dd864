# helper.bash - what the command-line tests share. ctest sets HINDMOST (the program), BUILD, SOURCE, SHARED_DATA and SHARED_TOOLS.

# Skips, saying so, unless these folders of real files are there.
need_shared_data() {
    local dir
    for dir in "$@"; do
        [ -d "$SHARED_DATA/$dir" ] || skip "no real files: $SHARED_DATA/$dir is absent"
    done
}

# SQL against DuckDB: makes variants of traces. sql [-v] STATEMENT...
sql() {
    "$BUILD/tests/sql" "$@"
}

# expect JQ-EXPRESSION FILE: the expression must be true.
expect() {
    jq -e "$1" "$2" >/dev/null || {
        echo "not true: $1"
        jq -c '{job, slowdown}' "$2"
        return 1
    }
}

# must_fail NAME ARGUMENTS...: the program ends with exit 3 and one line that starts with "hindmost: " and has NAME in it. The line is
# left in $output. Memory is bounded by 4 GB of address space (DuckDB reserves some) where no sanitizer needs more.
must_fail() {
    local name=$1 status=0
    shift
    "$HINDMOST" "$@" >"$BATS_TEST_TMPDIR/stdout" 2>"$BATS_TEST_TMPDIR/stderr" </dev/null || status=$?
    output=$(cat "$BATS_TEST_TMPDIR/stderr")
    if [ "$status" != 3 ] || [ "$(wc -l <"$BATS_TEST_TMPDIR/stderr")" != 1 ] || [ -s "$BATS_TEST_TMPDIR/stdout" ] ||
        [ "${output#hindmost: }" = "$output" ] || ! grep -qF -- "$name" <<<"$output"; then
        echo "hindmost $*: exit $status, stderr:"
        cat "$BATS_TEST_TMPDIR/stderr"
        return 1
    fi
}

# Fails, showing them, if lines come in. (A plain `! command` in the middle of a test never fails it.)
none() {
    if grep .; then return 1; fi
}
