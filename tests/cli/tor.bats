#!/usr/bin/env bats
# The tor subcommand: text, JSON contract, floors, bad input.

load ../helper

setup() { T=$(mktemp -d); }
teardown() { rm -rf "$T"; }

@test "plan prints TOR, an interval and levers, best first" {
  run "$HINDMOST" tor plan --work 54d --nodes 2048 --failure-rate 6.5e-3/day --save 60s --detect 2min --restart 5min
  [ "$status" = 0 ]
  [[ "$output" == *"TOR 0.8"* && "$output" == *"What would help"* ]]
}

@test "JSON holds the contract's fields and its ledger adds up" {
  "$HINDMOST" tor plan --work 54d --nodes 2048 --failure-rate 6.5e-3/day --save 60s --slowdown 1.2 --restart 5min --repair 1d --spares 8 --json "$T/p.json" >/dev/null
  "$HINDMOST" tor simulate --work 54d --nodes 2048 --failure-rate 6.5e-3/day --save 60s --slowdown 1.2 --restart 5min --repair 1d --spares 8 --runs 200 --json "$T/s.json" >/dev/null
  for f in p s; do
    python3 - "$T/$f.json" <<'P'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["schema"] == "hindmost.tor/1"
for k in ("tor", "ettr", "goodput", "t_opt_s", "t_obs_s", "mttf_s", "best_interval_s"): assert d[k] > 0, k
assert d["interval90"][0] <= d["t_obs_s"] <= d["interval90"][1]
total = sum(p["seconds"] for p in d["ledger"])
assert abs(total / d["t_obs_s"] - 1) < 1e-9, (total, d["t_obs_s"])
assert abs(d["t_opt_s"] / d["t_obs_s"] - d["tor"]) < 1e-9
tors = [l["tor"] for l in d["levers"]]
assert tors == sorted(tors, reverse=True) and len(tors) >= 4
P
  done
}

@test "a range gives a curve" {
  "$HINDMOST" tor plan --work 54d --nodes 256..4096 --failure-rate 6.5e-3/day --save 60s --json "$T/p.json" >/dev/null
  python3 -c "
import json; c = json.load(open('$T/p.json'))['curve']
assert c['parameter'] == 'nodes' and c['value'][0] == 256 and abs(c['value'][-1] - 4096) < 1e-6
assert c['tor'] == sorted(c['tor'], reverse=True)"
}

@test "the same seed gives the same bytes" {
  for i in 1 2; do "$HINDMOST" tor simulate --work 30d --nodes 512 --failure-rate 2e-3/day --save 60s --runs 50 --seed 9 -j $i --json "$T/$i.json" >/dev/null; done
  cmp "$T/1.json" "$T/2.json"
}

@test "--check compares with a floor" {
  plan() { run "$HINDMOST" tor plan --work 54d --nodes 2048 --failure-rate 6.5e-3/day --save 60s --check "$1"; }
  plan 0.5; [ "$status" = 0 ]
  plan 0.9; [ "$status" = 1 ]
  plan 0.99; [ "$status" = 2 ]
}

@test "measure reads an event log and writes a page without addresses" {
  printf '%s\n' '{"time": "2026-08-22T10:00:00", "event": "start"}' '{"time": "2026-08-22T10:00:20", "event": "step", "step": 1, "duration_s": 10}' \
    '{"time": "2026-08-22T10:00:30", "event": "step", "step": 2, "duration_s": 10}' '{"time": "2026-08-22T10:00:30", "event": "end"}' >"$T/run.jsonl"
  run "$HINDMOST" tor measure "$T/run.jsonl" --html "$T/run.html" --json "$T/run.json"
  [ "$status" = 0 ]
  [[ "$output" == *"TOR 0.6667"* ]]
  grep -E "(src|href)=\"https?:" "$T/run.html" | none
  python3 -c "
import json; d = json.load(open('$T/run.json'))
assert abs(sum(p['seconds'] for p in d['ledger']) - 30) < 1e-9 and d['steps_kept'] == 2"
}

@test "impossible values and useless files get one clear line" {
  bad() {
    run --separate-stderr "$HINDMOST" tor "$@"
    [ "$status" = 3 ]
    [ "${#stderr_lines[@]}" = 1 ]
    [[ "$stderr" == hindmost:* ]]
  }
  bats_require_minimum_version 1.5.0
  bad plan --work 54
  bad plan --work 54d --failure-rate 3
  bad plan --work 54d --nodes -1
  bad plan --work 54d --slowdown 0.4
  bad plan --nodes 3
  bad plan --work 30d --nodes 1..2 --save 1s..2s
  bad plan --work 30d --faults /no/such/file
  bad measure
  bad measure /no/such/log
  bad measure "$T"
  : >"$T/empty"; bad measure "$T/empty"
  echo '[{"node_id": 3}]' >"$T/f.json"; bad plan --work 30d --faults "$T/f.json"
  bad wander
  bad simulate --work 30d --distribution weibull:0
}
