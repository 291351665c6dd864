# fabric.bats - six hosts as network namespaces on a bridge, each on a link of 1 Gbit/s with an MPI rank. A limiter (tc tbf) on one
# host's link: that host is named, nobody else. HM_FABRIC_REPEATS (default 2; 6: each host once) says how often; every other time
# another process keeps a core busy.

load ../helper

missing() {
    [ "$(id -u)" = 0 ] || { echo "network namespaces need root"; return; }
    for p in ip tc mpirun unshare setsid jq; do command -v $p >/dev/null || { echo "$p is not installed"; return; }; done
    ip netns add "hm$$try" 2>/dev/null && ip -n "hm$$try" link show lo >/dev/null 2>&1 || echo "network namespaces cannot be made and entered here"
    ip netns del "hm$$try" 2>/dev/null || true
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
        link "$i" rate 1gbit burst 128kb latency 50ms
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

setup() {
    [ -x "$BUILD/hindmost-pairs" ] || skip "hindmost-pairs is not built (no MPI at build time)"
    cd "$BATS_TEST_TMPDIR" || return
}

# The hosts, or a skip that says why there are none.
six_hosts() {
    [ -z "$WHY_NOT" ] || skip "$WHY_NOT"
}

teardown() { idle; }

# link HOST LIMIT...: what the host may send.
link() {
    local host=$1
    shift
    ip netns exec "$P-$host" tc qdisc replace dev eth0 root tbf "$@"
}

# A process that keeps a core busy, and its end.
busy() {
    (exec 3>&-; while :; do :; done) &
    hog=$!
}
idle() {
    [ -z "$hog" ] || kill "$hog"
    hog=
}

# hindmost-pairs on all six hosts. A session of its own: Linux shares the cores by session, and a host whose rank ran in the session of
# this test would get less of them than the others.
pairs() {
    local net=10.211.77.0/24 status=0
    timeout 100 setsid -w ip netns exec "$P-1" unshare -u sh -c 'hostname h1; exec "$@"' - mpirun --allow-run-as-root --oversubscribe \
        --host 10.211.77.1,10.211.77.2,10.211.77.3,10.211.77.4,10.211.77.5,10.211.77.6 --map-by node \
        --mca plm_rsh_agent "$BATS_FILE_TMPDIR/agent" --mca plm_rsh_no_tree_spawn 1 --mca pml ob1 --mca btl tcp,self \
        --mca btl_tcp_if_include $net --mca oob_tcp_if_include $net --mca mpi_yield_when_idle 1 -n 6 \
        "$BUILD/hindmost-pairs" -s 1M -t 0.5 --latency-floor 1000 "$@" >p.json 2>err 3>&- || status=$?
    cat p.json
    return $status
}

# The hosts share few cores, so that the scheduler adds up to milliseconds to a trip: the floor of 1000 us. On real hosts it is 5.

@test "six equal hosts: nobody is accused, in pairs and in groups; unit, precision and repeats are stated" {
    six_hosts
    pairs -o r.jsonl
    expect '.hosts == 6 and .culprits == [] and .verdict == "pass" and .rounds == 2' p.json
    expect '[.nodes[].node] | sort == ["h1", "h2", "h3", "h4", "h5", "h6"]' p.json
    expect '.tests | length == 2 and all(.unit != null and .precision > 0 and .median > 0)' p.json
    expect '.links | length == 6 and all(.repeats >= 3 and .latency_us > 0 and .bandwidth_gbs > 0.1 and .bandwidth_gbs < 0.14)' p.json
    [ "$("$HINDMOST" node judge r.jsonl --json - 2>/dev/null | jq '.nodes | length')" = 6 ]
    pairs --groups 2
    expect '.culprits == [] and .verdict == "pass" and .rounds == 2 and (.groups | length == 6)' p.json
}

@test "one limited link: that host is named in at most 3 rounds, its partners are not" {
    six_hosts
    for k in $(seq "${HM_FABRIC_REPEATS:-2}"); do
        i=$((k % 6 + 1))
        [ $((k % 2)) = 0 ] || busy
        link $i rate 50mbit burst 64kb latency 50ms
        run pairs
        link $i rate 1gbit burst 128kb latency 50ms
        idle
        echo "$output"
        [ "$status" = 2 ]
        expect ".culprits == [\"h$i\"] and .verdict == \"fail\" and .rounds <= 3" p.json
    done
}

@test "one limited link: the intersection of slow groups finds the host in 3 rounds" {
    six_hosts
    for k in $(seq "${HM_FABRIC_REPEATS:-2}"); do
        i=$((k % 6 + 1))
        [ $((k % 2)) = 1 ] || busy
        link $i rate 50mbit burst 64kb latency 50ms
        run pairs --groups $((2 + k % 2))
        link $i rate 1gbit burst 128kb latency 50ms
        idle
        echo "$output"
        [ "$status" = 2 ]
        expect ".culprits == [\"h$i\"] and .mode == \"groups\" and .rounds == 3" p.json
    done
}

@test "a link that delays every packet: the host is named for its latency" {
    six_hosts
    link 4 rate 50mbit burst 128kb latency 1s mpu 60000
    run pairs -t 0.2
    link 4 rate 1gbit burst 128kb latency 50ms
    echo "$output"
    [ "$status" = 2 ]
    expect '.culprits == ["h4"] and (.nodes[] | select(.node == "h4") | .latency_us > 2000 and (.why | contains("latency")))' p.json
}

@test "bad requests: one line, exit 3; help and version" {
    for bad in "--groups 1" "--size 12" "--seconds x" "--factor 1" "--latency-floor x" "--nonsense" "file"; do
        read -ra words <<<"$bad"
        run mpirun --allow-run-as-root --oversubscribe -n 1 "$BUILD/hindmost-pairs" "${words[@]}" 3>&-
        [ "$status" = 3 ]
        [ "$(grep -c '^hindmost: hindmost-pairs: ' <<<"$output")" = 1 ]
        grep -qF -- "${bad% *}" <<<"$(grep '^hindmost: ' <<<"$output")"
    done
    run mpirun --allow-run-as-root --oversubscribe -n 2 "$BUILD/hindmost-pairs" 3>&-
    [ "$status" = 3 ]
    grep -q "one rank a host" <<<"$output"
    "$BUILD/hindmost-pairs" --help | grep -q "usage: .*hindmost-pairs"
    [ "$("$BUILD/hindmost-pairs" --version)" = "$("$HINDMOST" --version)" ]
}

@test "fewer hosts than two groups are refused" {
    six_hosts
    run pairs --groups 4
    [ "$status" = 3 ]
    grep -q "^hindmost: hindmost-pairs: --groups 4: 6 hosts are fewer than two groups" err
}
