# node_evidence.bats - evidence as operators paste it: never a false all-clear, never another's node, an event once.

load ../helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export HINDMOST_LEDGER=$BATS_TEST_TMPDIR/nodes.db TZ=UTC
    echo 'cap: 100' >p.yaml
    unset CDPATH
    for n in n1 n2 gpu-7 gpu-8; do "$HINDMOST" node add $n; done
}

state() { "$HINDMOST" node show "$1" --json - | jq -r '.nodes[0].state'; }
mark() { "$HINDMOST" node mark -p p.yaml "$@"; }
# events NODE: how many pieces are recorded, and of which kinds.
events() { "$HINDMOST" node history "$1" --json - | jq -r '[.evidence[].kind] | "\(length) \(unique | join(","))"'; }
# stands NODE STATE [EVENTS]: that is where it stands.
stands() {
    local now="$(state "$1") $(events "$1")"
    case "$now" in "$2 ${3-}"*) ;; *) echo "$1: $now"; return 1 ;; esac
}
forget() { rm -f nodes.db*; for n in n1 n2 gpu-7 gpu-8; do "$HINDMOST" node add $n; done; }
xid() { echo "NVRM: Xid (PCI:0000:9b:00): $1, pid='<unknown>', name=<unknown>, details"; }

diag() { # diag RESULTS [SUMMARY]: one test
    echo "{\"DCGM Diagnostic\":{\"test_categories\":[{\"category\":\"Hardware\",\"tests\":[{\"name\":\"memory\",\"results\":[$1]${2:+,\"test_summary\":$2}}]}]}}"
}

@test "dcgm: what no GPU alone failed, what broke off, what was skipped, what is not known is never passed over" {
    pass='{"entity_group":"GPU","entity_id":0,"status":"Pass"}'
    fail='{"entity_group":"GPU","entity_id":3,"status":"Fail","warnings":[{"warning":"w","error_severity":2}]}'
    bad='"warnings":[{"warning":"global","error_severity":2}]'
    diag "$pass" "{\"status\":\"Fail\",$bad}" >summary
    diag "$fail" '{"status":"Fail"}' >both
    diag '{"gpu_ids":3,"status":"FAIL","warnings":[{"warning":"w","error_severity":2}]}' >integer
    diag '{"entity_group":"NvSwitch","entity_id":1,"status":"Fail","warnings":[{"warning":"w","error_severity":2}]}' >switch
    { echo "WARNING: a banner"; echo "and more of it"; diag "$fail"; } >banner
    echo "{\"Overall Result\":\"Fail\",\"iterations\":[$(diag "$pass"),$(diag "$fail")]}" >iterations
    printf '\xef\xbb\xbf%s' "$(diag "$fail")" >bom
    for f in summary both integer switch banner iterations bom; do
        forget
        mark n1 --evidence $f >out 2>err
        stands n1 draining '1 dcgm-fail' || {
            echo "$f: $(events n1)"
            return 1
        }
    done
    grep -q 'GPU 3' <(forget; mark n1 --evidence integer)
    grep -q 'NvSwitch 1' <(forget; mark n1 --evidence switch)
    echo '{"DCGM Diagnostic":{"runtime_error":"nvvs crashed","test_categories":[]}}' >runtime
    echo '{"runtime_error":"nvvs crashed"}' >runtime2
    echo '{"Overall Result":"Fail","iterations":[]}' >overall
    diag "${pass/Pass/Exploded}" >status
    diag "${pass/Pass/Skip}" >skipped
    diag "" >nothing
    echo '{"DCGM GPU Diagnostic":{"version":"3.1.0"}}' >empty
    for f in runtime runtime2 overall status skipped nothing empty; do
        forget
        mark n1 --evidence $f >out
        stands n1 suspect '1 dcgm-warn' || {
            echo "$f: $(events n1)"
            return 1
        }
    done
    forget
    diag "$pass" '{"status":"Pass"}' | mark n1 --evidence - | grep -q 'no evidence against any node'
    echo '{"DCGM Diagnostic": {"test_categories": [' >cut
    must_fail "line" node mark n1 --evidence cut
    must_fail "--node" node mark --evidence summary
}

table() { # table RESULT...: dcgmi's table with these rows
    echo 'Successfully ran diagnostic for group.'
    echo '+---------------------------+------------------------------------------------+'
    echo '| Diagnostic                | Result                                         |'
    echo '+===========================+================================================+'
    echo '|-----  Metadata  ----------+------------------------------------------------|'
    echo '| DCGM Version              | 3.3.7                                          |'
    echo '+-----  Hardware  ----------+------------------------------------------------+'
    for row in "$@"; do echo "| GPU Memory                | $row |"; done
}
border='+---------------------------+------------------------------------------------+'

@test "dcgm's table for people: a failure or a cut table warns, a whole one that passes is read" {
    { table Pass; echo "$border"; } | mark n1 --evidence - 2>err | grep -q 'no evidence'
    { table 'Pass - GPU: 1' 'Fail - GPU: 0'; echo "$border"; } | mark n1 --evidence - 2>err | grep -q 'dcgm-warn: GPU Memory, GPU 0'
    table Pass | mark n2 --evidence - 2>err | grep -q 'dcgm-warn: the table: it is cut'
    { table Bogus; echo "$border"; } | mark n2 --evidence - 2>err | grep -q 'is not understood'
}

@test "a file of which nothing is understood is refused, and one of which a part is not is no all-clear" {
    echo 'Error: unable to establish a connection to the specified host: localhost' >dcgmi
    echo '<html><body>502 Bad Gateway</body></html>' >html
    printf ' [2026-03-02 10:00:01] iteration 1/ 10 | elapsed time per iteration (ms): 1.0 |\n' >training
    echo '2026-03-02 10:00:01 INFO started' >program
    echo '{"foo": 1}' >foo
    echo '[]' >list
    for f in dcgmi html training program foo list; do must_fail $f node mark n1 --evidence $f; done
    { echo '[Tue Dec  1 10:00:00 2026] usb 1-1: new device'; echo 'XID 79 FELL OFF'; } >part
    must_fail "not understood" node mark n1 --evidence part
    { cat part; echo "[Tue Dec  1 10:00:01 2026] $(xid 79)"; } | mark n1 --evidence - 2>err
    [ "$(state n1)" = draining ]
    grep -q 'line 2' err
    printf '[Tue Dec  1 10:00:00 2026] usb 1-1: new device\n  with a second line\n-- Boot 7 --\n' | mark n2 --evidence - | grep -q 'no evidence'
    for line in "[Tue Dec  1 10:00:00 2026] NVRM: Xid (PCI:0000:9b:00" 'NVRM: Xid (PCI:0000:9b:00): 79, no time' 'no time: GPU has fallen off the bus'; do
        echo "$line" >e
        must_fail 'line 1' node mark n2 --evidence e
    done
}

@test "kernel logs in every dress: one event of GPU 0000:9b:00 on 1 December 2026 at ten" {
    m=$(xid 79)
    printf '\e[32m[Tue Dec  1 10:00:00 2026] \e[0m\e[33mNVRM: \e[0mXid (PCI:0000:9b:00): 79, x\n' >colour
    echo "[Tue Dec  1 10:00:00 2026] $m" >ctime
    echo "kern  :err   : [Tue Dec  1 10:00:00 2026] $m" >decode
    echo "2026-12-01T10:00:00,123456+00:00 $m" >iso
    echo "2026-12-01T10:00:00.123456+00:00 n1 kernel: $m" >journal_iso
    echo "Dec 01 10:00:00 n1 kernel: $m" >journal
    echo "Dec  1 10:00:00 n1.cluster.example kernel: [12345.678901] $m" >syslog
    echo "Tue 2026-12-01 10:00:00 UTC n1 kernel: $m" >full
    echo "1796119200.123456 n1 kernel: $m" >unix
    echo "<3>1 2026-12-01T10:00:00Z n1 kernel - - - $m" >rfc5424
    echo "<3>Dec  1 10:00:00 n1 kernel: $m" >rfc3164
    jq -cn --arg m "$m" '{__REALTIME_TIMESTAMP: "1796119200123456", _HOSTNAME: "n1", MESSAGE: $m}' >json
    jq -cn --arg m "$m" '{__REALTIME_TIMESTAMP: "1796119200123456", _HOSTNAME: "n1", MESSAGE: ($m | explode)}' >bytes
    printf '__CURSOR=s=1\n__REALTIME_TIMESTAMP=1796119200123456\nMESSAGE=%s\n_HOSTNAME=n1\n\n' "$m" >export
    printf 'Tue 2026-12-01 10:00:00.123456 UTC [s=1;i=2]\n    _HOSTNAME=n1\n    MESSAGE=%s\n' "$m" >verbose
    { echo '[    1.500000] rtc_cmos 00:01: setting system clock to 2026-12-01T09:00:01 UTC (1796115601)'; echo "[ 3600.500000] $m"; } >rtc
    echo "[ 3600.500000 <    0.000001>] $m" >uptime
    echo "<3>[ 3600.500000] $m" >raw
    for f in colour ctime decode iso journal_iso journal syslog full unix rfc5424 rfc3164 json bytes export verbose rtc; do
        forget
        mark n1 --time 1796256000 --evidence $f >out || { echo "$f"; return 1; }
        "$HINDMOST" node history n1 --json - | jq -e '.evidence | length == 1 and .[0].kind == "xid-79" and (.[0].time - 1796119200 | fabs) < 1' >/dev/null || {
            echo "$f: $("$HINDMOST" node history n1 | jq -c .evidence)"
            return 1
        }
    done
    for f in uptime raw; do # seconds since boot alone say nothing
        must_fail "--boot" node mark n1 --evidence $f
        forget
        mark n1 --evidence $f --boot '2026-12-01T09:00:00Z'
        "$HINDMOST" node history n1 --json - | jq -e '.evidence[0].time - 1796119200 | fabs < 1' >/dev/null
    done
    must_fail "--boot" node mark n1 --evidence raw --boot yesterday
    if [ -e /usr/share/zoneinfo/Europe/Berlin ]; then # local times are of a zone
        forget
        mark n1 --evidence ctime --zone Europe/Berlin
        "$HINDMOST" node history n1 --json - | jq -e '.evidence[0].time == 1796115600' >/dev/null
    fi
    must_fail Mars node mark n1 --evidence ctime --zone Mars
}

@test "the year of 31 December read in January, and in December, is not the future's" {
    echo "Dec 31 23:59:00 n1 kernel: $(xid 74)" >e
    mark --time 1798848000 --evidence e # 2 January 2027
    "$HINDMOST" node history n1 --json - | jq -e '.evidence[0].time | todate == "2026-12-31T23:59:00Z"' >/dev/null
    forget
    mark --time 1796256000 --evidence e # 3 December 2026
    "$HINDMOST" node history n1 --json - | jq -e '.evidence[0].time | todate == "2025-12-31T23:59:00Z"' >/dev/null
}

@test "a GPU that is lost without an Xid" {
    for m in 'NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.' 'NVRM: The NVIDIA GPU 0000:9b:00.0 has fallen off the bus and is not responding' \
        'NVRM: The NVIDIA probe routine failed for 1 device(s).'; do
        forget
        echo "[Tue Dec  1 10:00:00 2026] $m" | mark n1 --evidence -
        stands n1 draining '1 gpu-lost'
    done
    forget # the line that follows Xid 79 is the same event
    printf '[Tue Dec  1 10:00:00 2026] %s\n[Tue Dec  1 10:00:01 2026] NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.\n' "$(xid 79)" | mark n1 --evidence -
    [ "$(events n1)" = "1 xid-79" ]
    forget
    for i in 0 1 2; do echo "GPU $i: NVIDIA H100 80GB HBM3 (UUID: GPU-$i)"; done >list
    must_fail "--gpus" node mark n1 --evidence list
    mark n1 --evidence list --gpus 3 | grep -q 'no evidence'
    mark n1 --evidence list --gpus 4 | grep -q '3 of 4 GPUs are listed'
    [ "$(state n1)" = draining ]
    echo 'Unable to determine the device handle for GPU0000:9B:00.0: GPU is lost.  Reboot the system to recover this GPU' | mark n2 --evidence -
    [ "$(state n2)" = draining ]
}

@test "an event has an identity: the same line given again, or in another log, is one" {
    echo "2026-11-29T16:24:18+00:00 n1 kernel: $(xid 74)" >a
    mark --evidence a
    mark --evidence a | grep -q 'recorded already'
    echo "[Sun Nov 29 16:24:19 2026] $(xid 74)" | mark n1 --evidence - | grep -q 'recorded already'
    stands n1 suspect '1 xid-74'
    cat a a >twice
    mark --evidence twice
    stands n1 suspect '1 xid-74'
    sed 's/9b:00/9c:00/' a | mark --evidence - # another GPU: another event
    [ "$(events n1)" = "2 xid-74" ]
    forget
    mark --evidence a
    sed 's/16:24:18/16:36:18/' a | mark --evidence - # another time
    stands n1 draining '2 xid-74'
    # our own evidence with a time; without one each is new
    echo '{"node":"n2","kind":"nic-down","time":1796119200,"detail":"eth0"}' >own
    for i in 1 2 3; do mark --evidence own; done
    stands n2 suspect '1 nic-down'
}

@test "a host in the line decides whose event it is, or contradicts --node" {
    for h in gpu-7 gpu-8; do echo "2026-12-01T10:00:00+00:00 $h kernel: $(xid 79)"; done >two
    must_fail gpu-7 node mark n1 --evidence two
    [ "$(events n1)" = "0 " ]
    mark --evidence two
    stands gpu-7 draining
    stands gpu-8 draining
    stands n1 healthy
    forget
    sed 's/gpu-[78]/gpu-7.cluster.example/' two | mark --evidence - # the ledger says gpu-7
    [ "$(state gpu-7)" = draining ]
    "$HINDMOST" node list --json - | jq -e '.nodes | length == 4' >/dev/null
    sed 's/gpu-[78]/localhost/' two >nobody # names nobody
    mark n2 --evidence nobody
    [ "$(state n2)" = draining ]
    jq -cn --arg m "$(xid 79)" '{__REALTIME_TIMESTAMP: "1796119200123456", _HOSTNAME: "gpu-8", MESSAGE: $m}' >json
    must_fail gpu-8 node mark n1 --evidence json
    echo '2026-12-01T10:00:00+00:00 gpu-8 kernel: usb 1-1: new device' >well # nor is another's log an all-clear
    must_fail gpu-8 node mark n1 --evidence well
    echo '{"node":"gpu-8","kind":"gpu-lost"}' >own
    must_fail gpu-8 node mark n1 --evidence own
}

condition() { echo "{\"type\":\"$1\",\"status\":\"$2\",\"reason\":\"R\",\"message\":\"$3\",\"lastTransitionTime\":\"2026-12-01T10:00:00Z\"}"; }
knode() { echo "{\"kind\":\"Node\",\"metadata\":{\"name\":\"$1\"},\"status\":{\"conditions\":[$2]}}"; }

@test "conditions of Kubernetes nodes: node-problem-detector's and NVSentinel's" {
    well="$(condition Ready True ok),$(condition MemoryPressure False ok),$(condition KernelDeadlock False ok),$(condition GpuNvlinkWatch False 'No Health Failures')"
    knode n1 "$well" | mark --evidence - | grep -q 'no evidence'
    knode n1 "$well,$(condition GpuNvlinkWatch True '[74] link 4 down - RecommendedAction: RESTART_VM')" >bad
    mark --evidence bad
    mark --evidence bad | grep -q 'recorded already' # the same transition, read again
    stands n1 draining '1 condition-fail-GpuNvlinkWatch'
    knode n2 "$well,$(condition GpuMemWatch True 'x - RecommendedAction: NONE')" | mark --evidence -
    stands n2 healthy '1 condition-note-GpuMemWatch'
    echo "{\"kind\":\"List\",\"items\":[$(knode gpu-7 "$(condition ReadonlyFilesystem True x)"),$(knode gpu-8 "$(condition FrequentKubeletRestart True x),$(condition DiskPressure True x)")]}" | mark --evidence -
    stands gpu-7 draining
    stands gpu-8 suspect
    forget
    echo "[$well,$(condition Ready Unknown x)]" | mark n1 --evidence - # a list alone
    [ "$(events n1)" = "1 condition-warn-Ready" ]
    echo "{\"source\":\"kernel-monitor\",\"events\":[],\"conditions\":[{\"type\":\"KernelDeadlock\",\"status\":\"True\",\"transition\":\"2026-12-01T10:00:00Z\",\"reason\":\"AUFSUmountHung\",\"message\":\"hung\"}]}" | mark n2 --evidence -
    [ "$(state n2)" = draining ]
    must_fail gpu-7 node mark n1 --evidence <(knode gpu-7 "$well")
    knode n1 "$(condition HindmostNodeUnfit True ours)" | mark --evidence - | grep -q 'no evidence'
}

@test "NVSentinel's health events and gpud's states" {
    event() { echo "{\"nodeName\":\"$1\",\"checkName\":\"$2\",\"isHealthy\":$3,\"isFatal\":$4,\"message\":\"m\",\"recommendedAction\":\"$5\",\"errorCode\":[\"79\"],\"entitiesImpacted\":[{\"entityType\":\"GPU\",\"entityValue\":\"3\"}],\"generatedTimestamp\":\"2026-12-01T10:00:00Z\"}"; }
    event n1 GpuXidError true false NONE | mark --evidence - | grep -q 'no evidence'
    event n1 GpuXidError false true RESTART_VM | mark --evidence -
    stands n1 draining '1 condition-fail-GpuXidError'
    event n2 GpuPcieWatch false false NONE | mark --evidence -
    [ "$(events n2)" = "1 condition-note-GpuPcieWatch" ]
    state_of() { echo "{\"component\":\"$1\",\"states\":[{\"name\":\"s\",\"health\":\"$2\",\"reason\":\"r\",\"suggested_actions\":{\"repair_actions\":[\"$3\"]}}]}"; }
    echo "[$(state_of cpu Healthy ''),$(state_of accelerator-nvidia-ecc Healthy '')]" | mark gpu-7 --evidence - | grep -q 'no evidence'
    echo "[$(state_of cpu Healthy ''),$(state_of accelerator-nvidia-error-xid Unhealthy REBOOT_SYSTEM)]" | mark gpu-7 --evidence -
    stands gpu-7 draining '1 condition-fail-accelerator-nvidia-error-xid'
    echo "[$(state_of docker Unhealthy ''),$(state_of disk Degraded ''),$(state_of accelerator-nvidia-nvlink Initializing ''),$(state_of cpu Odd '')]" | mark gpu-8 --evidence -
    [ "$(state gpu-8)" = suspect ]
    [ "$(events gpu-8)" = "4 condition-note-accelerator-nvidia-nvlink,condition-warn-cpu,condition-warn-disk,condition-warn-docker" ]
    forget
    echo "[$(state_of accelerator-nvidia-error-xid Unhealthy CHECK_USER_APP_AND_GPU)]" | mark n1 --evidence -
    [ "$(state n1)" = suspect ]
    echo "[$(state_of accelerator-nvidia-error-xid Unhealthy IGNORE_NO_ACTION_REQUIRED)]" | mark n2 --evidence -
    [ "$(state n2)" = healthy ]
    echo "[$(state_of cpu Healthy '')]" >well
    must_fail "--node" node mark --evidence well
}

@test "an analysis and a table of hosts are evidence of a slow worker" {
    cat >r.json <<'J'
{"schema": "hindmost.analysis/1", "job": {"name": "llm", "dp": 4, "pp": 2, "tp": 2, "cp": 1}, "slowdown": 1.31,
 "causes": [{"cause": "slow-worker", "confidence": 1, "recovers": 0.98, "evidence": "1.5 x its peers", "where": {"workers": [{"stage": 1, "dp_rank": 2}]}},
            {"cause": "stage-imbalance", "recovers": 0.02, "where": {"stages": [0]}}]}
J
    { echo rank,host,gpu; for r in $(seq 0 15); do echo "$r,n$((r / 8 + 1)),$((r % 8))"; done; } >hosts.csv
    mark --analysis r.json --hosts hosts.csv # ranks 12 and 13, on n2
    stands n2 suspect '2 slow-worker'
    stands n1 healthy
    "$HINDMOST" node history n2 --json - | jq -e '.evidence[0].detail | contains("S 1.310") and contains("1.5 x its peers")' >/dev/null
    forget
    printf 'stage dp_rank host\n1 2 gpu-7\n' >by_worker
    mark --analysis r.json --hosts by_worker
    [ "$(state gpu-7)" = suspect ]
    forget
    jq '.by_rank = [{"rank": 5, "stage": 1, "dp_rank": 2}]' r.json >ranked.json # the result itself says the rank
    mark --analysis ranked.json --hosts hosts.csv
    [ "$(events n1)" = "1 slow-worker" ]
    forget
    jq '.causes[0].where = {"ranks": [3]}' r.json >ranks.json
    mark --analysis ranks.json --hosts hosts.csv
    [ "$(events n1)" = "1 slow-worker" ]
    jq '.causes = []' r.json >well.json
    mark --analysis well.json --hosts hosts.csv | grep -q 'no evidence'
    head -5 hosts.csv >short.csv
    must_fail "stage 1, DP rank 2" node mark --analysis r.json --hosts short.csv
    must_fail "together" node mark --analysis r.json
    must_fail "hindmost analyze --json" node mark --analysis hosts.csv --hosts hosts.csv
    echo nonsense >bad.csv
    must_fail "line 1" node mark --analysis r.json --hosts bad.csv
}

@test "an analysis of this program's own joins with its hosts" {
    "$HINDMOST" synth -o t.parquet --dp 4 --pp 2 --steps 6 --microbatches 8 --inject slow-worker:stage=1,dp=2,factor=2 >/dev/null
    "$HINDMOST" analyze t.parquet --json r.json >/dev/null
    { echo stage,dp_rank,host; for s in 0 1; do for d in 0 1 2 3; do echo "$s,$d,w$s$d"; done; done; } >hosts.csv
    mark --analysis r.json --hosts hosts.csv
    [ "$(state w12)" = suspect ]
    "$HINDMOST" node list --json - | jq -e '[.nodes[] | select(.state != "healthy") | .node] == ["w12"]' >/dev/null
}

@test "options that an action would pass over are refused" {
    must_fail --why node list --why x
    must_fail --kind node mark n1 --kind x
    must_fail --evidence node clear n1 --evidence x --why y
    echo '{"node":"n1","kind":"gpu-lost"}' >e
    must_fail --state node mark --evidence e --state out
    must_fail --zone node mark n1 --state suspect --why x --zone UTC
}

@test "the cases from outside have their right answers" {
    need_shared_data outside-cases/node-tor
    dir=$(cd "$SHARED_DATA/outside-cases/node-tor" && pwd)
    for f in dcgm-test-summary dcgm-iterations dcgm-banner dcgm-integer-gpu; do
        forget
        mark n1 --evidence "$dir/$f.json" 2>err
        stands n1 draining '1 dcgm-fail'
    done
    forget
    mark n1 --evidence "$dir/dcgm-table.txt" 2>err
    [ "$(state n1)" = suspect ]
    mark n2 --evidence "$dir/xid74-dmesg-T.log"
    stands n2 draining '2 xid-74'
    for i in 1 2; do mark gpu-7 --evidence "$dir/xid74-once.log"; done
    stands gpu-7 suspect '1 xid-74'
    mark gpu-8 --time 1796256000 --evidence "$dir/xid74-syslog-31-december.log"
    "$HINDMOST" node history gpu-8 --json - | jq -e '.evidence[0].time | todate | startswith("2025")' >/dev/null
    forget
    must_fail gpu-7 node mark n1 --evidence "$dir/xid79-two-hosts.log"
    mark --evidence "$dir/xid79-two-hosts.log"
    stands gpu-7 draining
    stands gpu-8 draining
    stands n1 healthy
}
