# dlrover.bats - tor measure of DLRover's event logs.

load ../helper

setup() { T=$BATS_TEST_TMPDIR; }

# event TIME PID ID NAME PHASE STEP
event() { echo "[2026-08-22T10:$1.000000] [$2] [$3] [AtorchTrainerV2] [$4] [$5] {\"global_step\": $6, \"epoch\": 0}"; }

@test "steps, a save and a restart" {
    {
        for i in $(seq 0 9); do
            event "$(printf '%02d:00' "$i")" 7 "a$i" '#step' BEGIN "$i"
            event "$(printf '%02d:50' "$i")" 7 "a$i" '#step' END "$((i + 1))"
        done
        event 09:50 7 s '#save' BEGIN 10
        event 10:20 7 s '#save' END 10
        event 10:20 7 l '#log' INSTANT 10
        event 20:00 9 b '#step' BEGIN 10
        event 20:50 9 b '#step' END 11
    } >"$T/events_0.log"
    "$HINDMOST" tor measure "$T/events_0.log" --json "$T/r.json" >/dev/null
    jq -e '.steps_run == 11 and .steps_kept == 11 and .saves == 1 and .attempts == 2
           and ([.ledger[] | select(.class == "checkpoint-saving") | .seconds] == [30])
           and (([.ledger[].seconds] | add) - .t_obs_s | fabs) < 1e-6' "$T/r.json"
}

@test "the log from outside: a first step of 22 minutes, saves of 91 seconds" {
    need_shared_data recordings/dlrover-events
    "$HINDMOST" tor measure "$SHARED_DATA/recordings/dlrover-events/events_0.log" --json "$T/r.json" >/dev/null
    jq -e '.steps_run == 3 and .saves == 2 and ([.ledger[] | select(.class == "checkpoint-saving") | .seconds][0] - 182.6 | fabs) < 0.1' "$T/r.json"
}
