# logs.bats - analyze and convert of logs: step times, episodes, ranks.

load ../helper

setup() { T=$BATS_TEST_TMPDIR; }

# megatron SLOW_FROM SLOW_TO: 100 iterations of 800 ms, 1200 ms in that range
megatron() {
    local i
    for i in $(seq 100); do
        printf '[default7]: [2026-08-22 10:00:00] iteration %8d/ 100 | consumed samples: 1 | elapsed time per iteration (ms): %s | lm loss: 1.0 |\n' \
            "$i" "$((i == 1 ? 9000 : i >= $1 && i <= $2 ? 1200 : 800 + i % 3))"
    done
}

@test "an episode, the warm-up, and that nobody can be named" {
    megatron 41 60 >"$T/run.log"
    "$HINDMOST" analyze "$T/run.log" --json - >"$T/r.json"
    jq -e '.schema == "hindmost.analysis/1" and (.steps | length) == 100 and .slowdown == null and .by_rank == []
           and (.episodes | length) == 1 and .episodes[0].from_step == 41 and .episodes[0].to_step == 60
           and (.episodes[0].slowdown - 1.5 | fabs) < 0.01 and (.episodes[0].lost_s - 8 | fabs) < 0.1
           and .paces.warm_up.steps == 1 and (.cannot_tell[0] | contains("who is slow"))' "$T/r.json"
    "$HINDMOST" analyze "$T/run.log" | grep -q "steps        41 to        60"
    gzip -c "$T/run.log" >"$T/run.log.gz"
    "$HINDMOST" analyze "$T/run.log.gz" --json - | jq -e '.episodes | length == 1'
}

@test "--check goes by the mean over the usual pace" {
    megatron 0 0 >"$T/run.log"
    "$HINDMOST" analyze "$T/run.log" --check
    megatron 41 80 >"$T/run.log"
    run "$HINDMOST" analyze "$T/run.log" --check
    [ "$status" = 2 ]
}

@test "a log by pattern with ranks: the slow one, heatmap, table" {
    for step in $(seq 30); do
        for rank in 0 1 2 3; do echo "rank=$rank step=$step time=$((rank == 2 ? 150 + step % 2 : 100 + step % 3))ms"; done
    done >"$T/plain.log"
    pattern='rank={rank} step={step} time={ms}ms'
    "$HINDMOST" analyze "$T/plain.log" --pattern "$pattern" --json - --heatmap "$T/h.svg" >"$T/r.json"
    jq -e '[.by_rank[] | select(.slow) | .rank] == [2] and .causes[0].cause == "slow-worker" and .causes[0].where.ranks == [2]
           and .slowdown > 1.3 and .verdict.straggling' "$T/r.json"
    grep -q "rows: ranks" "$T/h.svg"
    "$HINDMOST" analyze "$T/plain.log" --pattern "$pattern" --heatmap "$T/h.png" >/dev/null
    [ "$(head -c 4 "$T/h.png" | tail -c 3)" = PNG ]
    "$HINDMOST" convert "$T/plain.log" --pattern "$pattern" -o "$T/t.csv"
    [ "$(head -1 "$T/t.csv")" = rank,step,seconds ]
    [ "$(wc -l <"$T/t.csv")" = 121 ]
}

@test "ranks in files of their own" {
    for rank in 0 1 2; do
        for step in $(seq 20); do echo "step $step: $((rank == 1 ? 300 : 200 + step % 2))ms"; done >"$T/worker_$rank.log"
    done
    "$HINDMOST" analyze "$T"/worker_*.log --pattern 'step {step}: {ms}ms' --json - | jq -e '[.by_rank[] | select(.slow) | .rank] == [1] and (.steps | length) == 20'
}

@test "what cannot be done is said in one line" {
    megatron 0 0 >"$T/run.log"
    must_fail "--html needs single ops" analyze "$T/run.log" --html "$T/p.html"
    must_fail "names no ranks" convert "$T/run.log" -o "$T/t.csv"
    must_fail "ends in .csv" convert "$T/run.log" -o "$T/t.json"
    must_fail "no line matches" analyze "$T/run.log" --pattern 'epoch {step} {seconds}'
    must_fail "needs {step}" analyze "$T/run.log" --pattern 'epoch'
    head -c 100 <(gzip -c "$T/run.log") >"$T/cut.log.gz"
    must_fail "cut" analyze "$T/cut.log.gz" --pattern 'iteration +{step}/.*\(ms\): {ms}'
}

@test "the log from outside" {
    need_shared_data recordings/megatron-deepspeed-timers
    "$HINDMOST" analyze "$SHARED_DATA/recordings/megatron-deepspeed-timers/iterations.log" --json - |
        jq -e '.paces.slow_steps.worst[0].step == 136006 and .paces.slow_steps.worst[0].on_all_ranks'
}
