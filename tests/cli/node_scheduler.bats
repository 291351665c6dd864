# node_scheduler.bats - never a busy node, never more than the cap, and our own trouble drains nobody. scontrol is a stand-in that says what a
# file says: what is tested is what is made of its answers (tests/e2e/slurm.bats has a real Slurm).

load ../helper
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export HINDMOST_LEDGER=$BATS_TEST_TMPDIR/nodes.db
    mkdir bin
    cat >bin/scontrol <<'S'
#!/bin/sh
# show node NAME: the line of the file "said", which "update" changes; show node: all of them
echo "$*" >>calls
for n; do :; done
case "$*" in
*update*) sed -i "s/State=IDLE /State=IDLE+DRAIN /; s/\$/ Reason=hindmost: x [root@2026-12-01T10:00:00]/" said ;;
*"show node") cat said others 2>/dev/null; : ;;
*) cat said ;;
esac
S
    chmod +x bin/scontrol
    export PATH=$PWD/bin:$PATH
    printf '#!/bin/sh\ntouch swept\necho %s\n' "'{\"schema\":\"hindmost.sweep/1\",\"verdict\":\"pass\",\"tests\":[]}'" >pass
    chmod +x pass
    for i in $(seq 20); do "$HINDMOST" node add "n$i"; done
}

state() { "$HINDMOST" node show "$1" --json - | jq -r '.nodes[0].state'; }
says() { [ "${5-}" ] || : >said; echo "NodeName=$2 CPUAlloc=${3:-0} CPUTot=192 State=$1 Partitions=gpu ${4:+Reason=$4 [root@2026-06-01T10:00:00]}" >>"${5:-said}"; }
lose() { echo "{\"node\":\"$1\",\"kind\":\"gpu-lost\",\"source\":\"t\"}" | "$HINDMOST" node mark --evidence - "${@:2}"; }
apply() { "$HINDMOST" node apply --do --scheduler slurm --sweep "$PWD/pass {node}" "$@"; }

@test "a node with work, on its way, or of which the answer is not understood stays where it is" {
    lose n1
    while IFS='|' read -r state cpus reason; do
        says "$state" n1 "$cpus" "$reason"
        apply >out 2>&1 || true
        [ "$(state n1)" = draining ] || { echo "$state: $(cat out)"; return 1; }
        [ ! -e swept ]
    done <<'L'
MIXED+DRAIN|96|Kill task failed
MIXED+DRAIN|96|hindmost: x
ALLOCATED+DRAIN|192|hindmost: x
IDLE+DRAIN|4|another
IDLE+COMPLETING+DRAIN|0|hindmost: x
COMPLETING|0|
IDLE+REBOOT_ISSUED|0|
IDLE+DRAIN+REBOOT_ISSUED|0|hindmost: x
IDLE+REBOOT_REQUESTED|0|
IDLE#+DRAIN|0|hindmost: x
POWERING_UP|0|
IDLE+DRAIN+NEWFANGLED|0|hindmost: x
|0|
L
    grep -c update calls | grep -qx 0
    says MIXED+DRAIN n1 96 'Kill task failed'
    apply | grep -q 'still has work'
    for answer in '' 'garbage' 'slurm_load_node error: Unable to contact slurm controller' 'NodeName=n2 CPUAlloc=0 State=IDLE+DRAIN Reason=hindmost: x' '{"a":1}'; do
        echo "$answer" >said
        "$HINDMOST" node apply --do --scheduler slurm 2>err >out && return 1
        grep -q 'not understood' err
        [ "$(state n1)" = draining ]
    done
}

@test "an idle node is drained, tested and let back; one that takes work again is not tested" {
    lose n1
    says IDLE n1
    apply >out
    [ "$(state n1)" = healthy ]
    [ -e swept ]
    rm swept
    lose n2
    "$HINDMOST" node mark n2 --state out --why x
    says ALLOCATED n2 192
    apply | grep -q 'is not tested: it takes work'
    [ "$(state n2)" = out ]
    [ ! -e swept ]
}

@test "a cap of 100 % is all, of 5 % one of twenty, of 200 % none at all" {
    for cap in '100%:20' '5%:1' '10 %:2' '3:3' '0.1:2' '0:0' '0%:0'; do
        echo "cap: ${cap%:*}" >p.yaml
        rm -f nodes.db*
        for i in $(seq 20); do "$HINDMOST" node add "n$i"; done
        for i in $(seq 20); do echo "{\"node\":\"n$i\",\"kind\":\"gpu-lost\",\"source\":\"t\"}"; done | "$HINDMOST" node mark -p p.yaml --evidence - >out
        [ "$("$HINDMOST" node list --json - | jq '[.nodes[] | select(.state == "draining")] | length')" = "${cap#*:}" ] || { echo "$cap"; return 1; }
    done
    for cap in '200%' '-1' 1.5 many '5%%' '101 %'; do
        echo "cap: $cap" >p.yaml
        must_fail cap node list -p p.yaml
    done
}

@test "a cap counts what others drained" {
    echo 'cap: 2' >p.yaml
    lose n1 -p p.yaml
    says IDLE n1
    { says IDLE+DRAIN n5 0 'another' /dev/stdout; says DOWN n6 0 'another' /dev/stdout; says IDLE n7 0 '' /dev/stdout; says DOWN x1 0 x /dev/stdout; } >others
    apply -p p.yaml | grep -q 'others keep 2 out already'
    [ "$(state n1)" = draining ]
    grep -c update calls | grep -qx 0
    sed -i /n6/d others # 1 of others and this one: 2
    apply -p p.yaml >out
    [ "$(state n1)" = healthy ]
}

@test "health and prolog: trouble with the ledger is said and drains nobody, unless --strict" {
    lose n1
    sick() { # sick LEDGER TEXT: exit 0 and TEXT on stderr; with --strict exit 2
        for action in health prolog; do
            "$HINDMOST" node $action n1 --ledger "$1" >out 2>err
            [ ! -s out ]
            grep -q "^hindmost: .*$2" err
            run "$HINDMOST" node $action n1 --ledger "$1" --strict
            [ "$status" = 2 ]
            [[ "$output" == *"Health check failed"* ]]
        done
    }
    sick "$PWD/absent.db" 'No such file'
    echo 'no ledger, but long enough to be read as one, and then some' >bad.db
    sick "$PWD/bad.db" 'not a database'
    : >empty.db
    sick "$PWD/empty.db" 'no such table'
    run -2 "$HINDMOST" node health n1
    run -0 "$HINDMOST" node health n2 # silent and well
    [ -z "$output" ]
    # locked by somebody who keeps it
    cp nodes.db locked.db
    python3 - locked.db <<'P' 3>&- &
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1]); c.execute("PRAGMA locking_mode=EXCLUSIVE"); c.execute("BEGIN EXCLUSIVE"); c.execute("UPDATE node SET why = why")
open("held", "w").close(); time.sleep(60)
P
    locker=$!
    for _ in $(seq 200); do [ -e held ] && break; sleep 0.05; done
    sick "$PWD/locked.db" 'locked'
    kill $locker
    echo 'cap: many' >p.yaml
    "$HINDMOST" node health n2 -p p.yaml 2>err
    grep -q cap err
    run -2 "$HINDMOST" node health n2 --gpus 8
    [[ "$output" == *"0 of 8 GPUs"* ]]
}

@test "a ledger on a read-only, full or forbidden folder is read, and nothing is written" {
    [ "$(id -u)" = 0 ] || skip "mounting needs root"
    lose n1
    mkdir m
    mount -t tmpfs -o size=2m none m || skip "cannot mount"
    cp nodes.db m/
    dd if=/dev/zero of=m/fill bs=1k 2>/dev/null || true
    run -2 "$HINDMOST" node health n1 --ledger m/nodes.db
    "$HINDMOST" node list --ledger m/nodes.db | grep -q 'n1 .*draining'
    rm m/fill
    mount -o remount,ro m
    run -2 "$HINDMOST" node health n1 --ledger m/nodes.db
    "$HINDMOST" node list --ledger m/nodes.db | grep -q 'n1 .*draining'
    "$HINDMOST" node export --ledger m/nodes.db | grep -q hindmost_node_state
    umount m
    d=$(mktemp -d /tmp/hm-ledger-XXXXXX) # another user may read it only
    chmod 755 "$d"
    cp nodes.db "$d/"
    chmod 644 "$d/nodes.db"
    before=$(ls -l "$d"; md5sum <"$d/nodes.db")
    other() { (cd / && setpriv --reuid=65534 --clear-groups "$HINDMOST" "$@"); }
    if other --version >/dev/null 2>&1; then
        other node list --ledger "$d/nodes.db" | grep -q 'n1 .*draining'
        chmod 600 "$d/nodes.db"
        other node health n1 --ledger "$d/nodes.db" --folder /tmp 2>err
        grep -q '^hindmost: ' err
        chmod 644 "$d/nodes.db"
    fi
    [ "$before" = "$(ls -l "$d"; md5sum <"$d/nodes.db")" ]
    rm -r "$d"
    must_fail 'node add' node list --ledger absent.db
    [ ! -e absent.db ]
}

@test "the case from outside: busy and drained by another" {
    need_shared_data outside-cases/node-tor
    lose n1
    PATH="$(cd "$SHARED_DATA/outside-cases/node-tor/bin" && pwd):$PATH" run "$HINDMOST" node apply --do --scheduler slurm --sweep "$PWD/pass {node}"
    [ "$status" = 0 ]
    [[ "$output" == *"still has work"* ]]
    [ "$(state n1)" = draining ]
    [ ! -e swept ]
}
