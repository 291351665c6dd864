# node_rules.bats - SuperBench's diagnosis rules (superbench/analyzer): bool, stored values, scalar metrics, where patterns match.

load ../helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    cat >r.jsonl <<'R'
{"node":"sb-04","kernel-launch/wall_overhead":0.005,"mem-bw/D2H_Mem_BW":25,"mem-bw-2/D2H_Mem_BW":1,"model-benchmarks:stress-run/pytorch-gpt2-large/fp32_train_throughput":3}
{"node":"sb-05","kernel-launch/wall_overhead":0.005,"mem-bw/D2H_Mem_BW":10,"mem-bw-2/D2H_Mem_BW":1,"model-benchmarks:stress-run/pytorch-gpt2-large/fp32_train_throughput":0.5}
R
    echo '{"kernel-launch/wall_overhead": 0.01026, "mem-bw/D2H_Mem_BW": 24.3}' >b.json
}

rules() { { printf 'superbench:\n  rules:\n'; sed 's/^/    /'; } >rules.yaml; }
# verdicts: of sb-04 and sb-05
verdicts() { "$HINDMOST" node judge r.jsonl --rules rules.yaml --baseline b.json --json out.json >text; jq -r '[.nodes[].verdict] | join(" ")' out.json; }

@test "bool() of how many metrics two rules found; metrics as one text" {
    rules <<'Y'
rule1: {categories: CNN, criteria: 'lambda x:x<-0.5', store: true, function: variance, metrics: mem-bw/D2H_Mem_BW}
rule2: {categories: CNN, criteria: 'lambda x:x<-0.5', store: true, function: variance, metrics: ['kernel-launch/wall_overhead']}
rule3: {categories: CNN, function: multi_rules, criteria: 'lambda label:bool(label["rule1"]+label["rule2"]>=2)'}
Y
    [ "$(verdicts)" = "pass fail" ]
    expect '.nodes[1].categories == ["CNN"]' out.json
}

@test "a rule that stores values, and min, max, sum and len of them" {
    for criteria in 'bool(min(label["rule1"].values())<20)' 'min(label["rule1"].values()) < 20' 'bool(max(label["rule1"].values())<20)' \
        'True if sum(label["rule1"].values())<20 else False' 'len(label["rule1"].values())==1 and min(label["rule1"].values())<20' \
        'bool(min(label["rule1"].values()))<20)'; do # the last as SuperBench's documentation prints it, with a bracket too many
        rules <<Y
rule1: {categories: Mem, store: True, metrics: ['mem-bw/D2H_Mem_BW']}
rule2: {categories: Mem, function: multi_rules, criteria: 'lambda label: $criteria'}
Y
        [ "$(verdicts)" = "pass fail" ] || { echo "$criteria"; return 1; }
    done
    rules <<'Y'
rule1: {categories: Mem, store: True, metrics: ['mem-bw/D2H_Mem_BW']}
rule2: {categories: Mem, function: multi_rules, criteria: 'lambda label: bool(min(label["rule9"].values())<20)'}
Y
    must_fail rule9 node judge r.jsonl --rules rules.yaml --baseline b.json
    sed -i 's/"mem-bw\/D2H_Mem_BW":10/"mem-bw\/D2H_Mem_BW":null/' r.jsonl # nothing to judge is neither pass nor fail
    sed -i s/rule9/rule1/ rules.yaml
    [ "$(verdicts)" = "pass unknown" ]
}

@test "a pattern matches within the benchmark that it names" {
    rules <<'Y'
rule1: {categories: Mem, function: value, criteria: 'lambda x:x<5', metrics: ['mem-bw/D2H.*']}
Y
    [ "$(verdicts)" = "pass pass" ] # mem-bw-2 is another
    rules <<'Y'
rule1: {categories: Mem, function: value, criteria: 'lambda x:x<5', metrics: ['mem-bw-2:*.*/.*BW']}
Y
    [ "$(verdicts)" = "fail fail" ]
}

@test "a missing metric is FailedTest, no violation, and nothing else is" {
    sed -i '2s/"mem-bw\/D2H_Mem_BW":10,//' r.jsonl
    rules <<'Y'
rule1: {categories: Mem, function: value, criteria: 'lambda x:x<5', metrics: ['mem-bw/D2H.*']}
rule2: {categories: CNN, function: multi_rules, criteria: 'lambda label:bool(label["rule1"]>0)'}
Y
    [ "$(verdicts)" = "pass fail" ]
    expect '.nodes[1].categories == ["FailedTest"] and (.nodes[1].why | index("mem-bw/D2H_Mem_BW_miss"))' out.json
}

@test "the rule file of SuperBench's documentation loads, misspellings and all" {
    rules <<'Y'
failure-rule: {function: failure_check, criteria: 'lambda x:x>0', categories: Failed, metrics: [kernel-launch/return_code]}
rule0: {function: variance, criteria: 'lambda x:x>0.05', categories: KernelLaunch, metrics: ['kernel-launch/event_overhead:\d+', 'kernel-launch/wall_overhead:\d+']}
rule2: {function: variance, criteria: 'lambda x:x<-0.05', categories: NCCL, metircs: ['nccl-bw/allreduce_8589934592_busbw:0']}
rule3: {function: variance, criteria: 'lambda x:x<-0.05', categories: Model, metrics: ['bert_models/pytorch-bert-base/throughput_train_float(32|16)', 'a/(?:b|c)']}
rule4: {function: variance, criteria: 'lambda x:x<-0.05', store: True, categories: CNN, metrics: ['resnet_models/pytorch-resnet.*/throughput_train_.*']}
rule5: {function: variance, criteria: 'lambda x:x<-0.05', store: True, categories: CNN, metrics: ['vgg_models/pytorch-vgg.*/throughput_train_.*\']}
rule6: {function: multi_rules, criteria: 'lambda label: bool(label["rule4"]+label["rule5"]>=2)', categories: CNN}
rule7: {categories: MODEL_DIST, store: True, metrics: ['model-benchmarks:stress-run.*/pytorch-gpt2-large/fp32_train_throughput']}
rule8: {function: multi_rules, criteria: 'lambda label: bool(min(label["rule7"].values()))<1)', categories: MODEL_DIST}
Y
    verdicts
    expect '.nodes[0].categories == ["Failed"] and (.nodes[1].categories | sort) == ["Failed", "MODEL_DIST"]' out.json
    rules <<'Y'
launch: {statistics: [mean, p90], categories: KernelLaunch, metrics: ['kernel-launch/.*'], aggregate: True}
Y
    verdicts # a rule of the result summary loads, and judges nothing
}

@test "the cases from outside have their right answers" {
    need_shared_data outside-cases/node-tor
    dir=$(cd "$SHARED_DATA/outside-cases/node-tor" && pwd)
    for rules in superbench-bool superbench-store; do
        "$HINDMOST" node judge "$dir/superbench.jsonl" --rules "$dir/$rules.yaml" --baseline "$dir/superbench-baseline.json" --json out.json >text
        expect '[.nodes[] | [.node, .verdict]] == [["sb-04", "pass"], ["sb-05", "fail"]]' out.json
    done
}
