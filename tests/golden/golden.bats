# golden.bats - every public trace and differential case against the public artefact's own answers, and the exact attribution
# against one full replay a worker. The real files live beside the checkout; without them the tests are skipped.

load ../helper

# Files of one case: DIR/{trace,meta,result,ms,mw,exact-worker}-NAME.*
against_artefact() { # DIR NAME [-m META]
    local dir=$1 name=$2 expected=()
    shift 2
    "$HINDMOST" analyze --attribution paper --per-step "$@" --json "$BATS_TEST_TMPDIR/$name.json" "$dir/trace-$name.parquet"
    for kind in result ms mw; do
        [ -e "$dir/$kind-$name.json" ] && expected+=("$dir/$kind-$name.json")
    done
    # M_S of a job without a pipeline is 0 here, as in the paper; the artefact calls the whole job its last stage.
    [ "$name" = pp1 ] && expected=("$dir/result-$name.json" "$dir/mw-$name.json")
    "$SHARED_TOOLS/compare-artefact" "$BATS_TEST_TMPDIR/$name.json" "${expected[@]}" >"$BATS_TEST_TMPDIR/$name.txt" || {
        echo "$name $*:"
        grep FAIL "$BATS_TEST_TMPDIR/$name.txt"
        return 1
    }
}

every_case() { # DIR with|without
    local failed=0 seen=0 trace name
    for trace in "$1"/trace-*.parquet; do
        name=${trace##*/trace-}
        name=${name%.parquet}
        seen=$((seen + 1))
        if [ "$2" = with ]; then
            against_artefact "$1" "$name" -m "$1/meta-$name.yaml" || failed=1
        else
            against_artefact "$1" "$name" || failed=1
        fi
    done
    [ "$seen" -gt 0 ]
    return $failed
}

setup() {
    need_shared_data what-if what-if-cases
    [ -x "$SHARED_TOOLS/compare-artefact" ] || skip "no compare-artefact in $SHARED_TOOLS"
}

@test "published traces, with their metadata, equal the artefact within 2e-6 in every field of every step" {
    every_case "$SHARED_DATA/what-if" with
}

@test "published traces without metadata: the inferred layout gives the same answers" {
    every_case "$SHARED_DATA/what-if" without
}

@test "differential cases, with their metadata, equal the artefact within 2e-6" {
    every_case "$SHARED_DATA/what-if-cases" with
}

@test "differential cases without metadata" {
    every_case "$SHARED_DATA/what-if-cases" without
}

@test "S_w of every worker equals one full replay a worker (exact) and min(stage, DP rank) (paper) to 1e-6" {
    local failed=0 seen=0 file name dir
    for file in "$SHARED_DATA"/what-if/exact-worker-*.json "$SHARED_DATA"/what-if-cases/exact-worker-*.json; do
        dir=${file%/*}
        name=${file##*/exact-worker-}
        name=${name%.json}
        "$HINDMOST" analyze --json "$BATS_TEST_TMPDIR/exact.json" "$dir/trace-$name.parquet"
        "$HINDMOST" analyze --attribution paper --json "$BATS_TEST_TMPDIR/paper.json" "$dir/trace-$name.parquet"
        jq -ne --slurpfile exact "$BATS_TEST_TMPDIR/exact.json" --slurpfile paper "$BATS_TEST_TMPDIR/paper.json" --slurpfile ref "$file" '
            def apart(a; b): [a, b] | transpose | map(transpose[] | (.[0] - .[1]) | fabs) | max;
            ($exact[0].by_worker | flatten | length) == ($ref[0].exact | flatten | length) and
            apart($exact[0].by_worker; $ref[0].exact) < 1e-6 and apart($paper[0].by_worker; $ref[0].approx) < 1e-6' >/dev/null || {
            echo "in $name"
            failed=1
        }
        seen=$((seen + 1))
    done
    [ "$seen" -gt 2 ]
    return $failed
}

@test "M_S of a job without a pipeline is 0" {
    "$HINDMOST" analyze --json "$BATS_TEST_TMPDIR/pp1.json" "$SHARED_DATA/what-if-cases/trace-pp1.parquet"
    expect '.last_stage_share == {"value": 0, "add": 0}' "$BATS_TEST_TMPDIR/pp1.json"
}

@test "one thread and several give the same bytes" {
    for n in 1 2 3; do "$HINDMOST" analyze -j $n --per-step --json "$BATS_TEST_TMPDIR/$n.json" "$SHARED_DATA/what-if/trace-SE.parquet"; done
    cmp "$BATS_TEST_TMPDIR/1.json" "$BATS_TEST_TMPDIR/2.json"
    cmp "$BATS_TEST_TMPDIR/1.json" "$BATS_TEST_TMPDIR/3.json"
}
