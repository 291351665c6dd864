# slurm.bats - a real Slurm of one node (munged, slurmctld, slurmd, all private to this test): the sweep as a job under srun,
# a drain with our own prefix, another's drain left alone, only ours resumed, the health check and the prolog.

load ../helper

missing() {
    [ "$(id -u)" = 0 ] || { echo "starting slurmd needs root"; return; }
    for p in munged slurmctld slurmd srun scontrol jq; do
        command -v $p >/dev/null || PATH=$PATH:/usr/sbin command -v $p >/dev/null || { echo "$p is not installed (slurm-wlm, munge, jq)"; return; }
    done
}

setup_file() {
    export PATH=$PATH:/usr/sbin
    export WHY_NOT
    WHY_NOT=$(missing)
    [ -z "$WHY_NOT" ] || return 0
    export D
    D=$(mktemp -d /tmp/hm-slurm-XXXXXX)
    chmod 755 "$D"
    mkdir -m 755 "$D/run"
    mkdir "$D/state" "$D/spool"
    dd if=/dev/urandom of="$D/munge.key" bs=1024 count=1 2>/dev/null
    chmod 400 "$D/munge.key"
    mkdir -m 700 "$D/mlog"
    munged --force --key-file="$D/munge.key" --socket="$D/run/munge.socket" --pid-file="$D/run/munged.pid" \
        --log-file="$D/mlog/munged.log" --seed-file="$D/mlog/seed" 3>&-
    NODE=$(hostname -s)
    export NODE SLURM_CONF=$D/slurm.conf HINDMOST_LEDGER=$D/nodes.db
    printf '#!/bin/sh\nHINDMOST_LEDGER=%s exec %s node health %s\n' "$D/nodes.db" "$HINDMOST" "$NODE" >"$D/health"
    printf '#!/bin/sh\n[ -e %s/prolog-on ] || exit 0\nHINDMOST_LEDGER=%s exec %s node prolog %s\n' "$D" "$D/nodes.db" "$HINDMOST" "$NODE" >"$D/prolog"
    # what slurmd runs: what the check said and its exit status stay to be looked at
    printf '#!/bin/sh\n%s >%s 2>&1\necho $? >>%s\n' "$D/health" "$D/health.said" "$D/health.codes" >"$D/checked"
    chmod +x "$D/health" "$D/prolog" "$D/checked"
    cat >"$SLURM_CONF" <<C
ClusterName=hm
SlurmctldHost=$NODE(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$D/run/munge.socket
CryptoType=crypto/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=0
SlurmctldPort=36817
SlurmdPort=36818
SlurmctldPidFile=$D/run/slurmctld.pid
SlurmdPidFile=$D/run/slurmd.pid
SlurmctldLogFile=$D/slurmctld.log
SlurmdLogFile=$D/slurmd.log
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool
SwitchType=switch/none
MpiDefault=none
Prolog=$D/prolog
HealthCheckProgram=$D/checked
HealthCheckInterval=2
HealthCheckNodeState=ANY
NodeName=$NODE NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=$NODE Default=YES MaxTime=10 State=UP
C
    sed -i '/^CryptoType/d' "$SLURM_CONF"
    slurmctld -c -D >"$D/ctld.out" 2>&1 3>&- &
    echo $! >"$D/ctld"
    slurmd -D >"$D/d.out" 2>&1 3>&- &
    echo $! >"$D/slurmd"
    for _ in $(seq 150); do
        scontrol -o show node "$NODE" 2>/dev/null | grep -q ' State=IDLE' && return 0
        sleep 0.2
    done
    tail -5 "$D"/*.out "$D"/*.log >&2
    stop
    return 1
}

stop() {
    for f in "$D/slurmd" "$D/ctld" "$D/run/munged.pid"; do [ -s "$f" ] && kill "$(cat "$f")"; done
    sleep 1
    rm -rf "$D"
}

teardown_file() { [ -n "$WHY_NOT" ] || stop; }

setup() {
    [ -z "$WHY_NOT" ] || skip "$WHY_NOT"
    cd "$BATS_TEST_TMPDIR" || return
    rm -f "$HINDMOST_LEDGER"* "$D/prolog-on"
    scontrol update NodeName="$NODE" State=RESUME 2>/dev/null || true
    "$HINDMOST" node add "$NODE"
    for v in pass fail; do
        printf '#!/bin/sh\necho "{\\"schema\\":\\"hindmost.sweep/1\\",\\"verdict\\":\\"%s\\",\\"tests\\":[]}"\n' $v >$v
        chmod +x $v
    done
}

slurm() { scontrol -o show node "$NODE" | grep -o ' State=[^ ]*'; }
reason() { scontrol -o show node "$NODE" | sed -n 's/.* Reason=\(.*\) \[.*/\1/p'; }
state() { "$HINDMOST" node show "$NODE" --json - | jq -r '.nodes[0].state'; }

@test "the sweep runs as a job; its bad verdict drains with our prefix; a pass resumes" {
    echo '{"mem-bw/host_copy_gbs": 1e6}' >b.json
    run srun -w "$NODE" "$HINDMOST" sweep --budget 10s --node "$NODE" -b "$PWD/b.json" --json "$PWD/s.json"
    [ "$status" = 2 ]
    expect '.verdict == "fail"' s.json
    "$HINDMOST" node mark --evidence s.json
    "$HINDMOST" node apply --scheduler slurm
    [ "$(slurm)" = " State=IDLE" ] # the dry run
    "$HINDMOST" node apply --do --scheduler slurm
    [[ "$(slurm)" == *DRAIN* ]]
    [[ "$(reason)" == "hindmost: sweep-fail"* ]]
    [ "$(state)" = out ]
    "$HINDMOST" node apply --do --scheduler slurm --sweep "$PWD/fail"
    [[ "$(slurm)" == *DRAIN* ]]
    "$HINDMOST" node mark "$NODE" --state testing --why "memory replaced"
    "$HINDMOST" node apply --do --scheduler slurm --sweep "$PWD/pass"
    for _ in $(seq 50); do [ "$(slurm)" = " State=IDLE" ] && break; sleep 0.1; done # the controller hears from slurmd again
    [ "$(slurm)" = " State=IDLE" ]
    [ "$(state)" = healthy ]
}

@test "another's drain: its reason stays, and we do not resume" {
    scontrol update NodeName="$NODE" State=DRAIN Reason="NHC: disk full"
    echo "{\"node\":\"$NODE\",\"source\":\"watch\",\"kind\":\"alarm\",\"tier\":\"replace\"}" | "$HINDMOST" node mark --evidence -
    "$HINDMOST" node apply --do --scheduler slurm --sweep "$PWD/pass"
    [ "$(reason)" = "NHC: disk full" ]
    [[ "$(slurm)" == *DRAIN* ]]
    [ "$(state)" = qualified ]
    scontrol update NodeName="$NODE" State=RESUME
    for _ in $(seq 100); do [ "$(slurm)" = " State=IDLE" ] && break; sleep 0.1; done # until slurmd is heard, it is not ready
    [ "$(slurm)" = " State=IDLE" ]
    "$HINDMOST" node apply --do --scheduler slurm
    [ "$(state)" = healthy ]
}

@test "a node with work drains, and is out only when the work is done" {
    srun -w "$NODE" sleep 4 3>&- &
    job=$!
    for _ in $(seq 50); do [[ "$(slurm)" == *ALLOC* ]] && break; sleep 0.1; done
    echo "{\"node\":\"$NODE\",\"source\":\"watch\",\"kind\":\"gpu-lost\"}" | "$HINDMOST" node mark --evidence -
    "$HINDMOST" node apply --do --scheduler slurm | grep -q "still has work"
    [ "$(state)" = draining ]
    wait $job
    for _ in $(seq 50); do [[ "$(slurm)" == *IDLE+DRAIN* ]] && break; sleep 0.1; done
    "$HINDMOST" node apply --do --scheduler slurm
    [ "$(state)" = out ]
}

# Waits until slurmd has run the check that often more, then tells the last status.
checked() {
    local before runs
    before=$(wc -l <"$D/health.codes" 2>/dev/null || echo 0)
    for _ in $(seq 150); do
        runs=$(wc -l <"$D/health.codes" 2>/dev/null || echo 0)
        [ "$runs" -ge $((before + $1)) ] && { tail -n 1 "$D/health.codes"; return; }
        sleep 0.1
    done
    echo "not run by slurmd"
}

@test "HealthCheckProgram: slurmd runs it; silent when healthy, one line when not" {
    [ "$(checked 2)" = 0 ]
    [ ! -s "$D/health.said" ]
    "$HINDMOST" node mark --evidence - <<<"{\"node\":\"$NODE\",\"source\":\"watch\",\"kind\":\"gpu-lost\"}"
    [ "$(checked 2)" = 2 ]
    [ "$(wc -l <"$D/health.said")" = 1 ]
    grep -q '^ERROR:  hindmost:  Health check failed:  the ledger says draining: gpu-lost' "$D/health.said"
    for _ in 1 2 3 4 5; do # quick: far below the interval, so that it costs a job nothing
        local start=$EPOCHREALTIME
        "$D/health" >/dev/null || true
        took="$took $(awk "BEGIN {print $EPOCHREALTIME - $start}")"
    done
    echo "seconds a check:$took"
}

@test "the prolog of a condemned node stops the job" {
    run "$D/health"
    [ "$status" = 0 ]
    [ -z "$output" ]
    for _ in $(seq 100); do [ "$(slurm)" = " State=IDLE" ] && break; sleep 0.1; done
    touch "$D/prolog-on"
    srun -w "$NODE" true
    "$HINDMOST" node mark --evidence - <<<"{\"node\":\"$NODE\",\"source\":\"watch\",\"kind\":\"gpu-lost\"}"
    run "$D/health"
    [ "$status" = 2 ]
    [ "${#lines[@]}" = 1 ]
    run timeout 20 srun -w "$NODE" --immediate=5 touch "$PWD/ran"
    [ "$status" != 0 ]
    [ ! -e ran ]
    for _ in $(seq 100); do [[ "$(slurm)" == *DRAIN* ]] && break; sleep 0.1; done
    [[ "$(slurm)" == *DRAIN* ]]
}
