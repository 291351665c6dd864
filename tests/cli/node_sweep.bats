# node_sweep.bats - the sweep of this machine: what it measures, states and refuses to state. No verdict depends on its speed.

load ../helper

setup() { cd "$BATS_TEST_TMPDIR" || return; }

@test "each test states value, unit, precision and repeats; nothing to judge by is unknown, what is not there absent" {
    run "$HINDMOST" sweep --budget 1s --json s.json --results r.jsonl --node n1 --class c
    [ "$status" = 1 ]
    expect '.schema == "hindmost.sweep/1" and .node == "n1" and .class == "c" and .verdict == "unknown"' s.json
    expect '[.tests[] | select(.value != null) | .unit != null and .repeats >= 1 and .precision != null] | all' s.json
    expect '.tests[] | select(.name == "mem-bw/host_copy_gbs") | .value > 0 and .repeats >= 3 and .verdict == "unknown"' s.json
    expect '.tests[] | select(.name == "cpu-cache/latency_128m_ns") | .value > 1' s.json
    expect '[.tests[] | select(.verdict == "absent") | .value == null and (.why | startswith("absent: "))] | all' s.json
    expect '.["mem-bw/host_copy_gbs"] | length >= 3' r.jsonl
    ls /tmp/hindmost-sweep-* 2>/dev/null && return 1
    "$HINDMOST" node judge r.jsonl --json - | jq -e '.nodes[0].verdict == "unknown"'
}

@test "a baseline far above fails the test and the node, one far below passes" {
    echo '{"mem-bw/host_copy_gbs": 1e6}' >b.json
    run "$HINDMOST" sweep --budget 1s --json s.json -b b.json
    [ "$status" = 2 ]
    expect '.verdict == "fail" and .against == "the baseline"' s.json
    expect '.tests[] | select(.name == "mem-bw/host_copy_gbs") | .verdict == "fail" and .variance < -0.9 and .baseline == 1e6' s.json
    echo '{"mem-bw/host_copy_gbs": 1e-6}' >b.json
    run "$HINDMOST" sweep --budget 1s --json s.json -b b.json
    [ "$status" = 0 ]
}

@test "alone it is judged against its own history, and says so" {
    for i in 1 2 3; do echo '{"node": "n1", "mem-bw/host_copy_gbs": 1e6}'; echo '{"node": "other", "mem-bw/host_copy_gbs": 1}'; done >h.jsonl
    run "$HINDMOST" sweep --budget 1s --json s.json --history h.jsonl --node n1
    [ "$status" = 2 ]
    expect '.against == "its own history"' s.json
    [ "$(wc -l <h.jsonl)" = 7 ]
}

@test "bad input: one line" {
    must_fail budget sweep --budget soon
    must_fail none.json sweep --budget 1s -b none.json
    must_fail nowhere sweep --budget 1s --folder /nowhere
}
