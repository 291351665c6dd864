# node_judge.bats - verdicts on test results: SuperBench's own files, and fleets made here.

load ../helper

setup() { cd "$BATS_TEST_TMPDIR" || return; }

@test "SuperBench's results: the nodes that it names, with its categories and reasons" {
    need_shared_data node-tests
    d=$SHARED_DATA/node-tests
    "$HINDMOST" node judge "$d/superbench-results.jsonl" --baseline "$d/superbench-baseline.json" \
        --rules "$d/superbench-rules.yaml" --json out.json
    expect '.schema == "hindmost.judge/1"' out.json
    expect '[.nodes[] | .verdict] == ["fail", "pass", "fail"]' out.json
    expect '.nodes[0].categories == ["KernelLaunch"]' out.json
    expect '.nodes[0].why == ["kernel-launch/event_overhead:0(B/L: 0.0060 VAL: 0.1000 VAR: 1577.85% Rule:lambda x:x>0.05)"]' out.json
    expect '.nodes[2].categories == ["FailedTest"]' out.json
    expect '.nodes[2].why | index("mem-bw/return_code(VAL: 1.0000 Rule:lambda x:x>0)") and index("mem-bw/H2D_Mem_BW:0_miss")' out.json
}

fleet() {
    for i in 1 2 3 4 5 6; do
        bw=$((100 + i % 3))
        [ "$i" = 4 ] && bw=90
        echo "{\"node\": \"n$i\", \"class\": \"a\", \"mem/bw\": $bw, \"mem/latency\": 0.5$i}"
    done
}

@test "without baseline and rules: 5 % worse than what the fleet teaches, per class; the same verdict twice" {
    fleet >r.jsonl
    for i in 1 2 3; do echo "{\"node\": \"m$i\", \"class\": \"b\", \"mem/bw\": 50, \"mem/latency\": 1}"; done >>r.jsonl
    "$HINDMOST" node judge r.jsonl --json a.json --learn learnt.json
    expect '[.nodes[] | select(.verdict != "pass") | .node] == ["n4"]' a.json
    expect '.a["mem/bw"] == 101 or (.a["mem/bw"] - 101 | fabs) < 0.5' learnt.json
    "$HINDMOST" node judge r.jsonl --json b.json
    cmp a.json b.json
    run "$HINDMOST" node judge --check r.jsonl
    [ "$status" = 2 ]
}

@test "a node alone has no fleet: unknown, not passed; with the learnt baseline it is judged" {
    fleet >r.jsonl
    "$HINDMOST" node judge r.jsonl --learn learnt.json
    echo '{"node": "x", "class": "a", "mem/bw": 80, "mem/latency": 0.5}' >one.jsonl
    "$HINDMOST" node judge one.jsonl --json a.json
    expect '.nodes[0].verdict == "unknown"' a.json
    "$HINDMOST" node judge one.jsonl --baseline learnt.json --json a.json
    expect '.nodes[0].verdict == "fail"' a.json
}

@test "multi_rules count the violations of stored rules" {
    fleet >r.jsonl
    cat >rules.yaml <<'Y'
superbench:
  rules:
    one: {function: variance, criteria: 'lambda x:x<-0.05', store: true, categories: A, metrics: ['mem/bw']}
    two: {function: value, criteria: 'lambda x:x>0.53', store: true, categories: B, metrics: ['mem/lat.*']}
    both: {function: multi_rules, criteria: 'lambda label:True if label["one"]+label["two"]>=2 else False', categories: Both}
Y
    "$HINDMOST" node judge r.jsonl --rules rules.yaml --json a.json
    expect '[.nodes[] | select(.verdict == "fail") | [.node, .categories[]]] == [["n4", "Both"]]' a.json
}

@test "bad input: one line" {
    echo '{"node": 3}' >bad.jsonl
    must_fail bad.jsonl node judge bad.jsonl
    echo '{"node": "a", ' >bad.jsonl
    must_fail bad.jsonl node judge bad.jsonl
    must_fail none.jsonl node judge none.jsonl
    fleet >r.jsonl
    echo 'superbench: {rules: {a: {function: value, criteria: "lambda x:import", metrics: [a]}}}' >rules.yaml
    must_fail rules.yaml node judge r.jsonl --rules rules.yaml
    echo '[1]' >base.json
    must_fail base.json node judge r.jsonl --baseline base.json
    must_fail action node clean
}

@test "a pattern whose repetitions would take all memory is refused" {
    cd "$BATS_TEST_TMPDIR"
    echo '{"node": "a", "x": 1}' >r.jsonl
    for pattern in "$(printf 'a%.0s' {1..3}; printf '+%.0s' {1..100})" '((((((((((a+)+)+)+)+)+)+)+)+)+)+' 'a{30000}' 'a{1,999}' '((a{9}){9}){9}'; do
        printf 'superbench:\n  rules:\n    r: {function: value, criteria: "lambda x: x > 0", categories: C, metrics: ["%s"]}\n' "$pattern" >p.yaml
        must_fail "repeats too much" node judge r.jsonl --rules p.yaml
    done
}
