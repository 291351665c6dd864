# node_apply.bats - the loop: evidence, drain, sweep, out or back. Kubernetes is a recorded kubectl here (no API server can
# run): what is tested is which calls are made, in which order, and what is made of its answers.

load ../helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export HINDMOST_LEDGER=$BATS_TEST_TMPDIR/nodes.db
    for n in a b c; do "$HINDMOST" node add $n; done
    for v in pass fail; do
        printf '#!/bin/sh\necho "$1 %s" >>%s/swept\n' $v "$PWD" >$v
        echo "echo '{\"schema\":\"hindmost.sweep/1\",\"node\":\"x\",\"verdict\":\"$v\",\"tests\":[{\"name\":\"cpu-gemm/fp64_gflops\",\"verdict\":\"$v\",\"why\":\"30% worse\"}]}'" >>$v
        chmod +x $v
    done
    echo '{"node":"a","source":"watch","kind":"alarm","tier":"replace"}' >alarm.json
}

state() { "$HINDMOST" node show "$1" --json - | jq -r '.nodes[0].state'; }
steps() { "$HINDMOST" node history "$1" --json - | jq -c '[.steps[] | .to]'; }

@test "alarm, drain, sweep passes: back, each step in the ledger; the dry run did nothing" {
    "$HINDMOST" node mark --evidence alarm.json
    "$HINDMOST" node apply --sweep "$PWD/pass {node}" >dry
    grep -q 'dry run: a: draining -> out' dry
    [ "$(state a)" = draining ]
    [ ! -e swept ]
    "$HINDMOST" node apply --do --sweep "$PWD/pass {node}"
    [ "$(cat swept)" = "a pass" ]
    [ "$(steps a)" = '["healthy","suspect","draining","out","testing","qualified","healthy"]' ]
}

@test "alarm, drain, sweep fails: out, and it stays out until a repair is recorded" {
    "$HINDMOST" node mark --evidence alarm.json
    "$HINDMOST" node apply --do --sweep "$PWD/fail {node}"
    [ "$(state a)" = out ]
    "$HINDMOST" node show a --json - | jq -e '.nodes[0].why | test("cpu-gemm/fp64_gflops 30% worse")'
    "$HINDMOST" node apply --do --sweep "$PWD/pass {node}" | grep -q "waits for a repair"
    [ "$(state a)" = out ]
    "$HINDMOST" node mark a --state testing --why "GPU 3 replaced"
    "$HINDMOST" node apply --do --sweep "$PWD/pass {node}"
    [ "$(state a)" = healthy ]
}

@test "a sweep that cannot run or gives no verdict qualifies nobody" {
    "$HINDMOST" node mark --evidence alarm.json
    "$HINDMOST" node apply --do --sweep "/nonexistent/sweep {node}"
    [ "$(state a)" = out ]
    "$HINDMOST" node mark a --state testing --why again
    "$HINDMOST" node apply --do --sweep "echo {}"
    [ "$(state a)" = out ]
    "$HINDMOST" node mark a --state testing --why again
    "$HINDMOST" node apply --do --sweep-timeout 1 --sweep "sleep 30"
    [ "$(state a)" = out ]
}

@test "killed while it sweeps: the ledger stays whole and the next call goes on" {
    printf '#!/bin/sh\nexec sleep 30\n' >slow
    chmod +x slow
    "$HINDMOST" node mark --evidence alarm.json
    "$HINDMOST" node apply --do --sweep "$PWD/slow {node}" >/dev/null 3>&- &
    pid=$!
    for _ in $(seq 100); do [ "$(state a)" = testing ] && break; sleep 0.05; done
    kill -9 $pid
    wait $pid || true
    [ "$(state a)" = testing ]
    "$HINDMOST" node apply --do --sweep "$PWD/pass {node}"
    [ "$(state a)" = healthy ]
}

@test "two at once: a node is swept by one of them only" {
    printf '#!/bin/sh\nsleep 3\nexec %s/pass "$1"\n' "$PWD" >slow
    chmod +x slow
    "$HINDMOST" node mark --evidence alarm.json
    "$HINDMOST" node apply --do --sweep "$PWD/slow {node}" >one 3>&- &
    for _ in $(seq 100); do [ "$(state a)" = testing ] && break; sleep 0.05; done
    "$HINDMOST" node apply --do --sweep "$PWD/slow {node}" >two
    grep -q "a: another apply works on it" two
    wait
    [ "$(cat swept)" = "a pass" ]
    [ "$(steps a)" = '["healthy","suspect","draining","out","testing","qualified","healthy"]' ]
}

@test "one node's trouble keeps no other from its own" {
    mkdir bin
    cat >bin/kubectl <<'K'
#!/bin/sh
case "$*" in
*" a"*) echo "node a not found" >&2; exit 1 ;;
*"get pods"* | *"get nodes"*) echo '{"items":[]}' ;;
*get*) echo '{"metadata":{"name":"b","annotations":{"hindmost/cordon-by":"hindmost"}},"spec":{"unschedulable":true}}' ;;
esac
K
    chmod +x bin/kubectl
    echo 'cap: 3' >three.yaml
    sed -i 's/"a"/"b"/' alarm.json
    "$HINDMOST" node mark --evidence alarm.json -p three.yaml
    "$HINDMOST" node mark a --state draining --why x -p three.yaml
    PATH=$PWD/bin:$PATH run "$HINDMOST" node apply --do --scheduler kubernetes -p three.yaml
    [ "$status" = 3 ]
    [ "$(state a)" = draining ]
    [ "$(state b)" = out ]
}

# A kubectl that keeps a node's state in files and records each call.
kubectl_stand_in() {
    mkdir -p bin
    cat >bin/kubectl <<'K'
#!/bin/sh
echo "$*" >>"$K8S/calls"
case "$1" in
get) case "$2" in pods) cat "$K8S/pods.json" ;; nodes) jq '{items: [.]}' "$K8S/node.json" ;; *) cat "$K8S/node.json" ;; esac ;;
annotate) case "$*" in *cordon-by-*) f='del(.metadata.annotations["hindmost/cordon-by"])' ;; *) f='.metadata.annotations["hindmost/cordon-by"]="hindmost"' ;; esac
    jq "$f" "$K8S/node.json" >"$K8S/new" && mv "$K8S/new" "$K8S/node.json" ;;
cordon) jq '.spec.unschedulable=true' "$K8S/node.json" >"$K8S/new" && mv "$K8S/new" "$K8S/node.json" ;;
replace) if [ -e "$K8S/conflict" ]; then rm "$K8S/conflict"; echo "Error from server (Conflict): the object has been modified" >&2; exit 1; fi
    cp "$6" "$K8S/put.$(ls "$K8S" | grep -c '^put')"; jq --slurpfile n "$6" '.status=$n[0].status' "$K8S/node.json" >"$K8S/new" && mv "$K8S/new" "$K8S/node.json" ;;
uncordon) jq 'del(.spec.unschedulable)' "$K8S/node.json" >"$K8S/new" && mv "$K8S/new" "$K8S/node.json" ;;
esac
K
    chmod +x bin/kubectl
    export PATH=$PWD/bin:$PATH K8S=$PWD
    echo '{"items":[{"metadata":{"name":"agent","namespace":"default","ownerReferences":[{"kind":"DaemonSet"}]},"status":{"phase":"Running"}}]}' >pods.json
    echo '{"metadata":{"name":"a","resourceVersion":"7","labels":{},"annotations":{}},"spec":{},"status":{"conditions":[{"type":"Ready","status":"True"}]}}' >node.json
}

@test "Kubernetes: owner first, then cordon, condition and the taint asked for; uncordoned after a pass" {
    kubectl_stand_in
    "$HINDMOST" node mark --evidence alarm.json
    "$HINDMOST" node apply --scheduler kubernetes
    grep -v '^get' calls | none # the dry run only looked
    rm calls
    "$HINDMOST" node apply --do --scheduler kubernetes --taint --sweep "$PWD/pass {node}"
    grep -v '^get' calls >changes
    sed 's/-f .*/.../' changes | diff - <(cat <<'X'
annotate node a --overwrite hindmost/cordon-by=hindmost hindmost/cordon-reason=alarm-replace
cordon a
replace --validate=false --raw /api/v1/nodes/a/status ...
taint node a --overwrite hindmost/unfit=true:NoSchedule
replace --validate=false --raw /api/v1/nodes/a/status ...
taint node a hindmost/unfit:NoSchedule-
uncordon a
annotate node a hindmost/cordon-by- hindmost/cordon-reason-
X
)
    expect '.metadata.resourceVersion == "7" and [.status.conditions[] | [.type, .status]] == [["Ready", "True"], ["HindmostNodeUnfit", "True"]]' put.0
    expect '[.status.conditions[] | [.type, .status]] == [["Ready", "True"], ["HindmostNodeUnfit", "False"]]' put.1
    [ "$(state a)" = healthy ]
}

@test "Kubernetes: a cordoned node whose pods still run is busy, and an answer that is no node or list changes nothing" {
    kubectl_stand_in
    "$HINDMOST" node mark --evidence alarm.json
    echo '{"items":[{"metadata":{"name":"train-0","namespace":"ml","ownerReferences":[{"kind":"Job"}]},"status":{"phase":"Running"}}]}' >pods.json
    "$HINDMOST" node apply --do --scheduler kubernetes --sweep "$PWD/pass {node}" | grep -q 'still has work (pod train-0)'
    [ "$(state a)" = draining ]
    for answer in '{}' '' nonsense; do
        echo "$answer" >pods.json
        "$HINDMOST" node apply --do --scheduler kubernetes 2>err >out || status=$?
        [ "$status" = 3 ]
        grep -q 'is no list' err
        [ "$(state a)" = draining ]
    done
    echo '{"items":[]}' >pods.json
    echo '{}' >node.json
    "$HINDMOST" node apply --do --scheduler kubernetes 2>err >out || status=$?
    grep -q 'not understood' err
    [ "$(state a)" = draining ]
    [ ! -e swept ]
}

@test "Kubernetes: the kubelet wrote in between: the status is read and written again" {
    kubectl_stand_in
    touch conflict
    "$HINDMOST" node mark --evidence alarm.json
    "$HINDMOST" node apply --do --scheduler kubernetes
    [ "$(grep -c '^replace' calls)" = 2 ]
    expect '.status.conditions[1].type == "HindmostNodeUnfit"' node.json
    [ -z "$(ls /tmp/hindmost-status-* 2>/dev/null)" ]
}

@test "Kubernetes: another's cordon and an opted-out node are left alone" {
    kubectl_stand_in
    echo '{"metadata":{"name":"a","labels":{},"annotations":{}},"spec":{"unschedulable":true}}' >node.json
    "$HINDMOST" node mark --evidence alarm.json
    "$HINDMOST" node apply --do --scheduler kubernetes --sweep "$PWD/pass {node}" | grep -q "kept out by another"
    [ "$(state a)" = qualified ]
    [ -z "$(grep -v '^get' calls)" ]
    echo '{"metadata":{"name":"a","labels":{"hindmost/exclude":"true"}},"spec":{}}' >node.json
    "$HINDMOST" node apply --do --scheduler kubernetes
    [ -z "$(grep -v '^get' calls)" ]
}

@test "health: silent when healthy, one line and exit 2 when not" {
    run "$HINDMOST" node health a
    [ "$status" = 0 ]
    [ -z "$output" ]
    "$HINDMOST" node mark --evidence alarm.json
    run "$HINDMOST" node prolog a
    [ "$status" = 2 ]
    [ "${#lines[@]}" = 1 ]
    [[ "$output" == "ERROR:  hindmost:  Health check failed:  "*draining* ]]
    run "$HINDMOST" node health b --folder /nowhere
    [ "$status" = 2 ]
    [[ "$output" == *"/nowhere cannot be written"* ]]
}
