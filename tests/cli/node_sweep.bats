# node_sweep.bats - the sweep of this machine: what it measures, states and refuses to state. No verdict depends on its speed.

load ../helper

setup() { cd "$BATS_TEST_TMPDIR" || return; }

teardown() { [ -z "$group" ] || rmdir "$group"; }

# A control group (version 2 or 1) whose CPU can be limited: $group; or why not: $why.
quota_group() {
    local root
    for root in /sys/fs/cgroup /sys/fs/cgroup/cpu; do
        group=$root/hindmost-test-$$
        mkdir "$group" 2>/dev/null || continue
        if [ -e "$group/cpu.max" ]; then
            echo 10000 >"$group/cpu.weight"
            return 0
        elif [ -e "$group/cpu.cfs_quota_us" ]; then
            echo 262144 >"$group/cpu.shares"
            return 0
        fi
        rmdir "$group"
    done
    group='' why="no control group with a CPU quota can be made (/sys/fs/cgroup)"
    return 1
}
slow_group() {
    if [ -e "$group/cpu.max" ]; then
        echo "50000 100000" >"$group/cpu.max"
    else
        echo 100000 >"$group/cpu.cfs_period_us"
        echo 50000 >"$group/cpu.cfs_quota_us"
    fi
}
fast_group() { if [ -e "$group/cpu.max" ]; then echo "max 100000" >"$group/cpu.max"; else echo -1 >"$group/cpu.cfs_quota_us"; fi; }
in_group() { sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" "$@"; }

@test "each test states value, unit, precision and repeats; nothing to judge by is unknown, what is not there absent" {
    run "$HINDMOST" sweep --budget 5s --json s.json --results r.jsonl --node n1 --class c
    [ "$status" = 1 ]
    expect '.schema == "hindmost.sweep/1" and .node == "n1" and .class == "c" and .verdict == "unknown"' s.json
    expect '[.tests[] | select(.value != null) | .unit != null and .repeats >= 1 and .precision != null] | all' s.json
    expect '.tests[] | select(.name == "mem-bw/host_copy_gbs") | .value > 0 and .repeats >= 3 and .verdict == "unknown"' s.json
    expect '.tests[] | select(.name == "cpu-cache/latency_256k_ns") | .value > 1' s.json
    expect '.tests[] | select(.name == "disk/fsync_latency_ms") | .value > 0' s.json
    expect '[.tests[] | select(.verdict == "absent") | .value == null and (.why | startswith("absent: "))] | all' s.json
    expect '.["mem-bw/host_copy_gbs"] | length >= 3' r.jsonl
    ls /tmp/hindmost-sweep-* 2>/dev/null && return 1
    "$HINDMOST" node judge r.jsonl --json - | jq -e '.nodes[0].verdict == "unknown"'
}

@test "a baseline far above fails the test and the node, one far below passes" {
    echo '{"mem-bw/host_copy_gbs": 1e6}' >b.json
    run "$HINDMOST" sweep --budget 5s --json s.json -b b.json
    [ "$status" = 2 ]
    expect '.verdict == "fail" and .against == "the baseline"' s.json
    expect '.tests[] | select(.name == "mem-bw/host_copy_gbs") | .verdict == "fail" and .variance < -0.9 and .baseline == 1e6' s.json
    echo '{"mem-bw/host_copy_gbs": 1e-6}' >b.json
    run "$HINDMOST" sweep --budget 5s --json s.json -b b.json
    [ "$status" = 0 ]
}

@test "alone it is judged against its own history, and says so" {
    for i in 1 2 3; do echo '{"node": "n1", "mem-bw/host_copy_gbs": 1e6}'; echo '{"node": "other", "mem-bw/host_copy_gbs": 1}'; done >h.jsonl
    run "$HINDMOST" sweep --budget 5s --json s.json --history h.jsonl --node n1
    [ "$status" = 2 ]
    expect '.against == "its own history"' s.json
    [ "$(wc -l <h.jsonl)" = 7 ]
}

@test "the budget is kept: what does not fit is shortened or left out, and says so" {
    for budget in 1 3; do
        began=$(date +%s%N)
        "$HINDMOST" sweep --budget ${budget}s --json s$budget.json || [ $? = 1 ]
        took=$((($(date +%s%N) - began) / 1000000))
        echo "budget $budget s: $took ms"
        expect '[.tests[] | select(.verdict == "left-out") | .value == null and (.why | test("^left out: needs about .* s of the budget$"))] | all' s$budget.json
        expect '[.tests[] | select(.why | test("shortened")) | .value != null] | all' s$budget.json
    done
    expect '[.tests[] | select(.verdict == "left-out" or (.why | test("shortened")))] | length > 0' s1.json
    expect '[.tests[] | select(.name == "cpu-gemm/mismatch_count") | .verdict == "pass"] | all' s1.json # none if GEMM is left out
}

# In a control group of its own with nearly all of the machine's share, so that other tests on it hardly matter; then the same group
# with half of a core. A virtual machine's speed drifts by tens of per cent: unslowed runs are added until three agree within 5 %, and the
# quota takes far more than the drift. HM_SLOWED_REPEATS (default 1) says how often.
@test "a node slowed by a CPU quota is named against the baseline of its unslowed runs" {
    ldconfig -p | grep -q libopenblas || skip "no OpenBLAS"
    quota_group || skip "$why"
    gemm='.tests[] | select(.name == "cpu-gemm/fp64_gflops")'
    for _ in $(seq 15); do
        in_group "$HINDMOST" sweep --budget 3s --node n1 --class c -o fleet.jsonl --json fast.json >/dev/null || [ $? = 1 ]
        "$HINDMOST" node judge fleet.jsonl --learn baseline.json >/dev/null || [ $? -le 2 ]
        ! jq -e '.c["cpu-gemm/fp64_gflops"] > 0' baseline.json >/dev/null || break
    done
    expect '.c["cpu-gemm/fp64_gflops"] > 0' baseline.json
    for _ in $(seq "${HM_SLOWED_REPEATS:-1}"); do
        slow_group
        run in_group "$HINDMOST" sweep --budget 3s --node n1 --class c -b baseline.json --json slow.json
        echo "$output"
        [ "$status" = 2 ]
        expect ".verdict == \"fail\" and ($gemm | .verdict == \"fail\" and .variance < -0.5)" slow.json
        fast_group
        in_group "$HINDMOST" sweep --budget 3s --node n1 --class c -b baseline.json --json fast.json || [ $? -le 2 ]
        expect "$gemm | .variance > -0.5" fast.json
    done
}

# Whether the driver, cuBLAS and NVML are called as their interfaces say; the figures mean nothing (tests/fakes/gpu.c).
fake_gpus() {
    mkdir -p gpu
    for name in libcuda.so.1 libcublas.so.12 libnvidia-ml.so.1; do ln -sf "$BUILD/tests/libfake_gpu.so" gpu/$name; done
    "${@:2}" env LD_LIBRARY_PATH="$PWD/gpu" "$HINDMOST" sweep --budget 15s --json "$1"
}

@test "GPUs: products, copies, copies between them, clocks and heat, by stand-ins for the libraries" {
    [ ! -e /dev/nvidiactl ] || skip "this machine has a GPU"
    fake_gpus good.json || [ $? = 1 ]
    for name in gemm-flops/FP32 mem-bw/H2D_Mem_BW mem-bw/D2H_Mem_BW mem-bw/D2D_Mem_BW mem-bw/P2P_Mem_BW mem-bw/P2P_asymmetry; do
        expect "[.tests[] | select(.name == \"$name:0\" or .name == \"$name:1\") | .value > 0] == [true, true]" good.json
    done
    expect '[.tests[] | select(.name | test("gemm-flops/mismatch_count")) | .verdict] == ["pass", "pass"]' good.json
    expect '[.tests[] | select(.name | test("gpu_clock_min_mhz")) | .value] == [1410, 1411]' good.json
    expect '[.tests[] | select(.name | test("gpu_temperature_max_c")) | .value] == [61, 62]' good.json
    expect '[.tests[] | select(.name | test("gpu_throttle_count")) | .verdict] == ["pass", "pass"]' good.json
    run fake_gpus bad.json env FAKE_GPU_FLIP=1 FAKE_GPU_HOT=1
    [ "$status" = 2 ]
    expect '.tests[] | select(.name == "gemm-flops/mismatch_count:1") | .verdict == "fail" and .value >= 1' bad.json
    expect '.tests[] | select(.name == "gemm-flops/mismatch_count:0") | .verdict == "pass"' bad.json
    expect '.tests[] | select(.name == "sensors/gpu_throttle_count:0") | .verdict == "warn" and .value > 0' bad.json
    expect '.tests[] | select(.name == "sensors/gpu_throttle_count:1") | .verdict == "pass"' bad.json
}

@test "bad input: one line" {
    must_fail budget sweep --budget soon
    must_fail none.json sweep --budget 1s -b none.json
    must_fail nowhere sweep --budget 1s --folder /nowhere
}
