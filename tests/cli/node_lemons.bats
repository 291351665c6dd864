# node_lemons.bats - lemons and spares, on a small case worked out by hand and on a real cluster's faults.

load ../helper

setup() { cd "$BATS_TEST_TMPDIR" || return; }

events() {
    jq -n '[["a",1,2],["a",3,4],["b",9,10],["a",12,15],["b",12,13]] | [.[] | . as [$n,$s,$e] |
        {node_id: $n, event_time: $s, event_type: "fault_start", fault_type: {Class: "GPU"}},
        {node_id: $n, event_time: $e, event_type: "fault_end", fault_type: {Class: "GPU"}}]'
}

@test "observed minus expected by exposure, and only the time after the decision is saved" {
    events >f.json
    "$HINDMOST" node lemons f.json --at 10 --window 10 --fleet 4 --worst 1 --json l.json
    # up: a 8, b 9, two others 10 each = 37 node-days, 3 faults
    expect '.nodes[0].node == "a" and .nodes[0].observed == 2 and .nodes[0].exposure_days == 8' l.json
    expect '(.nodes[0].score - (2 - 3 / 37 * 8)) | fabs < 1e-8' l.json
    expect '(.nodes[1].score - (1 - 3 / 37 * 9)) | fabs < 1e-8' l.json
    expect '.saved_share == 0.75' l.json # 3 of the 4 days after day 10
}

@test "with jobs: big jobs touch many nodes, a failed one gives each member its share" {
    events >f.json
    echo '[{"nodes":["a","b"],"start":0,"end":2,"failed":true},{"nodes":["b"],"start":3,"end":7,"failed":true},{"nodes":["a"],"start":3,"end":5,"failed":false}]' >j.json
    "$HINDMOST" node lemons f.json --jobs j.json --at 10 --window 10 --json l.json
    # 2 failures in 10 node-days; b worked 6 days: 1.5 - 1.2; a worked 4: 0.5 - 0.8
    expect '.nodes[0].node == "b" and ((.nodes[0].score - 0.3) | fabs < 1e-8) and ((.nodes[1].score + 0.3) | fabs < 1e-8)' l.json
}

@test "a real cluster: the heavy tail is found" {
    need_shared_data faults
    "$HINDMOST" node lemons "$SHARED_DATA/faults/infinitehbd-fault-trace.json" --fleet 400 --worst 20 --json l.json
    expect '.nodes_with_4_or_more == 54 and .nodes_with_faults == 231' l.json
    expect '.saved_share > 0 and .saved_share < 1 and (.nodes | sort_by(-.score) | map(.score)) == (.nodes | map(.score))' l.json
}

@test "spares: the 99th percentile of a binomial" {
    # n = 10, p = 0.1: P(X <= 3) = 0.98720, P(X <= 4) = 0.99837
    "$HINDMOST" node spares --nodes 10 --probability 0.1 --json - | jq -e '.spares == 4'
    "$HINDMOST" node spares --nodes 10 --probability 0.1 --quantile 0.98 --json - | jq -e '.spares == 3'
    "$HINDMOST" node spares --nodes 1024 --probability 0.001 --json - | jq -e '.spares == 4'
    "$HINDMOST" node spares --nodes 100 --failure-rate 0.5/day --repair 2d --json - | jq -e '.probability == 0.5'
}

@test "bad input: one line" {
    echo '[{"node_id": "a"}]' >f.json
    must_fail f.json node lemons f.json
    echo '{}' >f.json
    must_fail f.json node lemons f.json
    must_fail failure-rate node spares --nodes 3 --failure-rate often --repair 1d
    must_fail repair node spares --nodes 3 --failure-rate 0.5/day --repair 2
    must_fail failure-rate node spares --nodes 3 --failure-rate 0.5 --repair 2d
    must_fail window node spares --nodes 3 --probability 0.1 --window 3
}
