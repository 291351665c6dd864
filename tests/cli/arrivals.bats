# arrivals.bats - who came late, from profiler traces: made ones with a known answer, and real ones.

load ../helper

# trace RANK [OFFSET_US] [PPM]: 4 ranks, 60 steps of 100 ms, one all-reduce of 2 ms a step, 80 ms after its start; rank 2 comes 10 ms late.
trace() {
    awk -v rank="$1" -v offset="${2:-0}" -v ppm="${3:-0}" 'BEGIN {
        printf "{\"schemaVersion\": 1,\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": 4, \"pg_config\": [{\"pg_name\": \"0\", \"ranks\": [0, 1, 2, 3]}]},\n\"traceEvents\": [\n", rank
        for (s = 0; s < 60; s++) {
            begin = s * 100000
            launch = begin + 80000 + (rank == 2 ? 10000 : 100 * ((s * 7 + rank * 3) % 5))
            end = begin + 92000
            printf "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%d\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": 99000},\n", s, clock(begin)
            printf "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)\", \"pid\": 0, \"tid\": 7, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"stream\": 7, \"Collective name\": \"allreduce\", \"In msg nelems\": 100, \"dtype\": \"Float\", \"Process Group Name\": \"0\", \"Process Group Ranks\": \"[0, 1, 2, 3]\"}},\n", clock(launch), clock(end) - clock(launch)
        }
        printf "{\"ph\": \"i\", \"name\": \"Record Window End\", \"cat\": \"\", \"pid\": \"\", \"ts\": 1}\n], \"traceName\": \"x\"}\n"
    }
    function clock(t) { return 1712195495502094.5 + offset + t * (1 + ppm * 1e-6) }'
}

setup_file() {
    export DIR="$BATS_FILE_TMPDIR"
    mkdir "$DIR/even"
    for k in 0 1 2 3; do trace $k >"$DIR/even/worker$k.pt.trace.json"; done
}

setup() { cd "$BATS_TEST_TMPDIR" || return; }

late() { # FOLDER: writes a.json, a.csv
    "$HINDMOST" analyze "$@" --json a.json --arrivals a.csv >a.txt
    expect '.verdict.straggling and .verdict.ranks == [2] and .job.steps == 60 and .job.collectives == 60' a.json
    expect '[.by_rank[].last] == [0, 0, 60, 0] and (.by_rank[2].late_s > 0.0095 and .by_rank[2].late_s < 0.0101)' a.json
    expect '.slowdown == null and (.cannot_tell | length > 0)' a.json
    [ "$(head -1 a.csv)" = "step,group,name,seq,last_rank,spread_s,transfer_s" ]
    [ "$(awk -F, 'NR > 1 && $(NF - 2) == 2 && $NF > 0.0019 && $NF < 0.0021' a.csv | wc -l)" = 60 ]
}

@test "the late rank is named, from a folder, files, gzip and an archive" {
    late "$DIR/even"
    grep -q "Rank 2 is late: last in 60 of 60 collectives" a.txt
    mkdir zipped
    for k in 0 1 2 3; do gzip -c "$DIR/even/worker$k.pt.trace.json" >"zipped/rank-$k.json.gz"; done
    late zipped
    late zipped/rank-3.json.gz zipped/rank-1.json.gz zipped/rank-0.json.gz zipped/rank-2.json.gz
    tar -C "$DIR" -czf all.tar.gz even
    late all.tar.gz
}

@test "phases of the host: nested and apart, named by people or frameworks, cut at the step; late data is said to be why" {
    mkdir phases
    for k in 0 1 2 3; do # 4 ms of data loading in each step, of rank 2 14; in step 7 it overlaps itself, and goes on until 25 ms
        trace $k | awk -v rank=$k '
            function event(name, at, length_us) {
                printf "{\"ph\": \"X\", \"cat\": \"Operator\", \"name\": \"%s\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %d},\n", name, 1712195495502094.5 + s * 100000 + at, length_us
            }
            { print }
            /ProfilerStep#/ {
                s = n++
                event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, rank == 2 ? 14000 : 4000)
                if (s == 7) event("## Data Loading ##", 2000, 23000)
                event("DistributedDataParallel.forward", 30000, 20000)
                event("forward", 35000, 5000)
                event("autograd::engine::evaluate_function: MmBackward0", 50000, 10000)
                event("autograd::engine::evaluate_function: AddBackward0", 60050, 9950)
                event("Optimizer.step#SGD.step", 95000, 9000)
            }' >phases/rank$k.json
    done
    late phases
    grep -q "It loads data" a.txt
    expect '.causes[0] == {"cause": "data-loading", "where": {"ranks": [2]}} and .fixes[0].fix == "load-data-earlier"' a.json
    expect '.fixes[0].speedup * .fixes[0].step_s / .mean_step_s.actual - 1 | fabs < 1e-9' a.json
    # 10 ms later than a step's beginning and 80 ms, others by up to 0.4 ms
    expect '.mean_step_s.actual - .fixes[0].step_s | . > 0.0096 and . < 0.01' a.json
    local of='def of(p): .phases[] | select(.name == p); def is(x): . - x | fabs < 1e-5; '
    expect "$of"'.by_rank[0] | (of("data loading").mean_s | is((59 * 0.004 + 0.025) / 60)) and (of("data loading").most_s | is(0.025))' a.json
    expect "$of"'.by_rank[2] | of("data loading").mean_s | is((59 * 0.014 + 0.025) / 60)' a.json
    expect "$of"'[.by_rank[] | (of("forward").mean_s | is(0.02)) and (of("backward").mean_s | is(0.02))] | all' a.json
    expect "$of"'.by_rank[1] | of("optimizer").most_s | is(0.008)' a.json # 3 ms of the one before reach into a step, 1 ms lies between
    late "$DIR/even"
    [ "$(grep -c "It loads data" a.txt)" = 0 ]
    expect '.causes == [] and .fixes == []' a.json
    expect '[.by_rank[].phases | length] | add == 0' a.json
}

@test "a real trace of the old dialect: data loading is at most 4.3 ms of a step" {
    need_shared_data recordings/kineto-old-dialect
    "$HINDMOST" analyze "$SHARED_DATA/recordings/kineto-old-dialect" --json a.json >/dev/null
    expect '.job.steps == 6 and (.by_rank[0].phases[0] | .name == "data loading" and .most_s > 0.0043 and .most_s < 0.0044)' a.json
}

@test "clocks half a second apart, one of them 50 ppm fast: the same answer, and offsets and drift are found" {
    mkdir apart
    trace 0 -500000 0 >apart/rank0.json
    trace 1 500000 0 >apart/rank1.json
    trace 2 -250000 50 >apart/rank2.json
    trace 3 0 0 >apart/rank3.json
    late apart
    expect '.by_rank[1].clock_offset_s - .by_rank[0].clock_offset_s | . - 1 | fabs < 1e-5' a.json
    expect '.by_rank[2].clock_drift * 1e6 | . > 45 and . < 55' a.json
    expect '.clock_uncertainty_s < 1e-4' a.json
}

@test "a truncated file is used as far as it goes; .tmp is not seen" {
    cp -r "$DIR/even" cut
    head -c 20000 cut/worker1.pt.trace.json >cut/x && mv cut/x cut/worker1.pt.trace.json
    echo '{' >cut/worker9.json.tmp
    "$HINDMOST" analyze cut --json a.json >/dev/null
    expect '.verdict.ranks == [2] and .job.ranks == 4' a.json
    expect '[.job.dropped[] | select(.what == "ends of files")] | length == 1 and .[0].count == 1' a.json
    gzip -c "$DIR/even/worker3.pt.trace.json" >whole.gz
    head -c $(($(stat -c %s whole.gz) / 2)) whole.gz >cut/worker3.pt.trace.json
    "$HINDMOST" analyze cut --json a.json >/dev/null
    expect '[.job.dropped[] | select(.what == "ends of files")] | .[0].count == 2' a.json
}

@test "what cannot be used is refused in one line, and nothing is written" {
    cp -r "$DIR/even" twice
    cp twice/worker1.pt.trace.json twice/again.json
    must_fail "is of rank 1, and so is" analyze twice --json no.json
    cp -r "$DIR/even" broken
    sed -i '50s/"ts": /"ts": ]/' broken/worker0.pt.trace.json
    must_fail "worker0.pt.trace.json: byte" analyze broken --json no.json
    must_fail "only --json and --arrivals" analyze "$DIR/even" --html no.html
    must_fail "--arrivals: only profiler traces" analyze "$BUILD/../tests/fuzz/corpus/table/small.parquet" --arrivals no.csv
    must_fail "is a trace of the PyTorch profiler" convert "$DIR/even" -o no.parquet
    must_fail "cannot write" analyze "$DIR/even" --arrivals /dev/full
    [ -z "$(ls no.* 2>/dev/null)" ]
}

@test "eight real ranks of DLRM: who was last in each collective, and the waits" {
    need_shared_data recordings/kineto-dlrm-8-ranks
    "$HINDMOST" analyze "$SHARED_DATA/recordings/kineto-dlrm-8-ranks" --json a.json --arrivals a.csv >/dev/null
    [ "$(awk -F, 'NR > 1 {print $(NF - 2)}' a.csv | tr '\n' ' ')" = "7 7 7 7 7 5 5 4 " ]
    expect '[.by_rank[].wait_s] | (min * 1e4 | round) == 15 and (max * 1e3 * 10 | round) >= 111 and (max * 1e4 | round) <= 112' a.json
    expect '.verdict.straggling == false' a.json
}

@test "real DDP jobs on Gloo, each rank with a clock of its own: the slow rank is named, a healthy job accuses nobody" {
    need_shared_data recordings/ddp-gloo
    "$HINDMOST" analyze "$SHARED_DATA/recordings/ddp-gloo/compute-2-1.5" --json a.json >/dev/null
    expect '.verdict.ranks == [2] and .by_rank[2].last == 32 and .by_rank[2].late_s > 0.025 and .by_rank[2].late_s < 0.04' a.json
    # the ranks measured 109 ms a step themselves, and 78 ms in the healthy job: 1.40 times
    expect '.causes[0].cause == "slow-worker" and .causes[0].where.ranks == [2] and .fixes[0].fix == "replace-workers"' a.json
    expect '.fixes[0].speedup / 1.40 | . > 0.98 and . < 1.02' a.json
    for p in 1 2; do # forward and backward take 1.5 times as long: of the slept part; the rest is as fast
        expect "[.by_rank[].phases[$p - 1].mean_s] | .[2] / .[0] | . > 1.4 and . < 1.55" a.json
    done
    "$HINDMOST" analyze "$SHARED_DATA/recordings/ddp-gloo/healthy" --json a.json >/dev/null
    expect '.verdict.straggling == false and .causes == [] and .fixes == []' a.json
}

# shifted RECORDING FOLDER: real traces, their clocks up to half a second apart and up to 50 ppm fast or slow.
shifted() {
    local f k=0
    mkdir -p "$2"
    for f in "$1"/*.json*; do
        local name=${f##*/}
        case $f in *.gz) gzip -dc "$f" ;; *) cat "$f" ;; esac | jq -c --argjson k $k '
            def clock: 1 + (($k * 3 % 5) - 2) * 25e-6;
            def moved($first): map(if has("ts") and .ph == "X" then .ts = (.ts - $first) * clock + $first + (($k * 7 % 11) - 5) * 1e5 | .dur *= clock else . end);
            (if type == "array" then . else .traceEvents end | map(select(.ph == "X").ts) | min) as $first
            | if type == "array" then moved($first) else .traceEvents |= moved($first) end' >"$2/${name%.gz}"
        k=$((k + 1))
    done
}

@test "real traces whose clocks were moved: the same ranks are last" {
    need_shared_data recordings/kineto-dlrm-8-ranks recordings/ddp-gloo
    mkdir dlrm
    tar -xzf "$SHARED_DATA"/recordings/kineto-dlrm-8-ranks/*.tar.gz -C dlrm
    shifted "$(dirname "$(find dlrm -name '*.json*' | head -1)")" far
    "$HINDMOST" analyze far --json a.json --arrivals a.csv >/dev/null
    [ "$(awk -F, 'NR > 1 {print $(NF - 2)}' a.csv | tr '\n' ' ')" = "7 7 7 7 7 5 5 4 " ]
    expect '[.by_rank[].clock_offset_s] | max - min > 0.9' a.json
    expect '[.by_rank[].wait_s] | (min * 1e4 | round) == 15 and (max * 1e4 | round) == 112' a.json
    shifted "$SHARED_DATA/recordings/ddp-gloo/compute-2-1.5" gloo
    "$HINDMOST" analyze gloo --json a.json >/dev/null
    "$HINDMOST" analyze "$SHARED_DATA/recordings/ddp-gloo/compute-2-1.5" --json b.json >/dev/null
    expect '.verdict.ranks == [2] and .by_rank[2].last == 32' a.json
    jq -s -e '.[0].by_rank[2].late_s - .[1].by_rank[2].late_s | fabs < 0.0003' a.json b.json # 1 % of it
}
