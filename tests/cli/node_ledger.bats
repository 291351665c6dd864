# node_ledger.bats - the ledger from the command line: evidence in, steps out, everything kept.

load ../helper

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    export HINDMOST_LEDGER=$BATS_TEST_TMPDIR/nodes.db
    for n in a b c d; do "$HINDMOST" node add $n --class h100; done
}

state() { "$HINDMOST" node show "$1" --json - | jq -r '.nodes[0].state'; }

alarm() { echo "{\"schema\":\"hindmost.evidence/1\",\"node\":\"$1\",\"source\":\"watch\",\"kind\":\"alarm\",\"tier\":\"$2\",\"detail\":{\"slowdown\":1.4}}"; }

@test "an alarm of tier replace: dry run shows the steps and does nothing; then the same steps are taken" {
    alarm a replace >e.json
    "$HINDMOST" node mark --evidence e.json --dry-run | sed 's/^dry run: //' >dry
    [ "$(state a)" = healthy ]
    "$HINDMOST" node history --json - | jq -e '.evidence == []'
    "$HINDMOST" node mark --evidence - <e.json >wet
    cmp dry wet
    [ "$(state a)" = draining ]
    "$HINDMOST" node history a --json h.json
    expect '[.steps[] | .to] == ["healthy", "suspect", "draining"]' h.json
    expect '.steps[2].who == "watch" and .steps[2].evidence == "evidence 1" and .steps[2].time > 1e9' h.json
}

@test "the cap holds the second back; an operator's word is kept with who and why" {
    alarm a replace | "$HINDMOST" node mark --evidence -
    alarm b replace | "$HINDMOST" node mark --evidence - | grep -q "cap on nodes out at once"
    [ "$(state b)" = suspect ]
    must_fail cap node mark b --state draining --why "I say so"
    "$HINDMOST" node clear b --why "cable reseated, tested by hand" --who ada
    "$HINDMOST" node history b --json - | jq -e '.steps[-1] | .who == "ada" and .to == "healthy"'
    must_fail "it cannot become" node mark c --state qualified --why x
}

@test "kernel log: Xid lines of one GPU and code within 5 s are one event" {
    cat >kern.log <<'L'
2026-05-01T10:00:00.000+00:00 c kernel: NVRM: Xid (PCI:0000:17:00): 63, pid=1, row remap
2026-05-01T10:00:04.000+00:00 c kernel: NVRM: Xid (PCI:0000:17:00): 63, pid=1, row remap
2026-05-01T10:00:08.500+00:00 c kernel: NVRM: Xid (PCI:0000:17:00): 63, pid=1, row remap
2026-05-01T10:00:08.600+00:00 c kernel: NVRM: Xid (PCI:0000:65:00): 63, pid=1, row remap
2026-05-01T10:00:20.000+00:00 c kernel: NVRM: Xid (PCI:0000:17:00): 63, pid=1, row remap
2026-05-01T10:00:21.000+00:00 c kernel: usb 1-1: new device
L
    "$HINDMOST" node mark c --evidence kern.log
    "$HINDMOST" node history c --json - | jq -e '[.evidence[] | .kind] == ["xid-63", "xid-63", "xid-63"]'
    [ "$(state c)" = suspect ]
}

@test "dcgmi diag: a severe failure drains, both root keys are read, a configuration error accuses nobody alone" {
    diag() { echo "{\"$1\": {\"test_categories\": [{\"category\": \"Hardware\", \"tests\": [{\"name\": \"Memory\", \"results\": [{\"entity_group\": \"GPU\", \"entity_id\": 3, \"status\": \"FAIL\", \"warnings\": [{\"warning\": \"row remap failed\", \"error_id\": 1, \"error_category\": 1, \"error_severity\": $2}]}]}]}]}}"; }
    diag "DCGM Diagnostic" 2 | "$HINDMOST" node mark a --evidence - | grep -q "Memory, GPU 3: row remap failed"
    [ "$(state a)" = draining ]
    diag "DCGM GPU Diagnostic" 5 | "$HINDMOST" node mark b --evidence -
    [ "$(state b)" = suspect ]
}

@test "holds and exceptions" {
    "$HINDMOST" node hold a --why "vendor is on it"
    alarm a replace | "$HINDMOST" node mark --evidence - | grep -q "on hold"
    [ "$(state a)" = healthy ]
    # a person still may
    "$HINDMOST" node mark a --state suspect --why "looks odd"
    "$HINDMOST" node clear a --why "it was nothing"
    "$HINDMOST" node hold a --off
    "$HINDMOST" node except a --kind alarm-replace --why "known bad sensor"
    alarm a replace | "$HINDMOST" node mark --evidence -
    [ "$(state a)" = healthy ]
    "$HINDMOST" node except a --kind alarm-replace --off
    alarm a replace | "$HINDMOST" node mark --evidence -
    [ "$(state a)" = draining ]
}

@test "export: Prometheus text, and a policy file that changes the rules" {
    printf 'cap: 2\nrules:\n  - {evidence: alarm-watch, action: drain, count: 2, within_s: 60}\n' >p.yaml
    alarm a watch | "$HINDMOST" node mark -p p.yaml --evidence -
    [ "$(state a)" = suspect ]
    alarm a watch | "$HINDMOST" node mark -p p.yaml --evidence -
    [ "$(state a)" = draining ]
    "$HINDMOST" node export --textfile out.prom
    grep -q 'hindmost_node_state{node="a",class="h100",state="draining"} 1' out.prom
    grep -q 'hindmost_nodes{state="healthy"} 3' out.prom
    if command -v promtool >/dev/null; then promtool check metrics <out.prom; fi
}

@test "several writers at once: nothing is lost" {
    for i in 1 2 3 4; do
        for k in 1 2 3 4 5 6 7 8; do echo '{"node":"d","kind":"xid-31","source":"kernel"}' | "$HINDMOST" node mark --evidence - >/dev/null; done &
    done
    wait
    "$HINDMOST" node history d --json - | jq -e '.evidence | length == 32'
}

@test "bad input: one line, nothing changed" {
    echo '{"node": "a"}' >e.json
    must_fail e.json node mark --evidence e.json
    echo 'not a ledger, but long enough to be read as one' >x.db
    must_fail x.db node list --ledger x.db
    echo 'cap: many' >p.yaml
    must_fail p.yaml node list -p p.yaml
    must_fail none node show none
}

@test "a rule with a pattern counts all evidence that fits it" {
    echo 'rules: [{evidence: "odd-*", count: 2, within_s: 60, action: drain}]' >p.yaml
    printf '{"node":"a","kind":"odd-%s","source":"t","time":%d}\n' one 1000 | "$HINDMOST" node mark -p p.yaml --evidence -
    [ "$(state a)" = suspect ]
    printf '{"node":"a","kind":"odd-%s","source":"t","time":%d}\n' two 1030 | "$HINDMOST" node mark -p p.yaml --evidence -
    [ "$(state a)" = draining ]
}

@test "hindmost-pairs' JSON is evidence against its culprits only" {
    cat >pairs.json <<'P'
{"schema": "hindmost.pairs/1", "verdict": "fail", "culprits": ["b"], "nodes": [{"node": "a", "bandwidth_gbs": 10}, {"node": "b", "bandwidth_gbs": 2, "why": "transfer time above 2 x the median"}]}
P
    "$HINDMOST" node mark --evidence pairs.json
    [ "$(state b)" = draining ]
    [ "$(state a)" = healthy ]
    "$HINDMOST" node history b --json - | jq -e '.evidence[0] | .kind == "sweep-fail" and .source == "pairs" and (.detail | fromjson | .bandwidth_gbs == 2)'
    echo '{"schema": "hindmost.pairs/1"}' >half.json
    must_fail "culprits" node mark --evidence half.json
}

@test "one bad line among many, or a broken array: refused with its line, nothing is kept" {
    { alarm a replace; echo garbage; alarm b replace; } >e.jsonl
    must_fail "line 2" node mark --evidence e.jsonl
    printf '[{"node":"a","kind":"gpu-lost"},\n {bad}]' >e.json
    must_fail "line 2" node mark --evidence e.json
    "$HINDMOST" node history --json - | jq -e '.evidence == []'
}

@test "a name that a scheduler would take for an option, a list or all nodes is refused, by hand and in evidence" {
    for n in -q ALL all 'n[1-9]' a,b 'a b' '../x' $'x\ny' ''; do
        must_fail name node add -- "$n"
        jq -cn --arg n "$n" '{node: $n, kind: "gpu-lost"}' >e.json
        must_fail n node mark --evidence e.json
    done
    "$HINDMOST" node list --json - | jq -e '.nodes | length == 4'
}

@test "a policy with a misspelt or doubled key, or evidence of no time, is refused" {
    printf 'rules:\n  - {evidence: x, action: drain, cuont: 3}\n' >p.yaml
    must_fail cuont node list -p p.yaml
    printf 'cap: 5\ncap: 6\n' >p.yaml
    must_fail twice node list -p p.yaml
    for t in 1e308 -5 '"now"'; do
        echo "{\"node\":\"a\",\"kind\":\"gpu-lost\",\"time\":$t}" >e.json
        must_fail time node mark --evidence e.json
    done
}

@test "kernel log out of order: a late line joins the event it is near to" {
    for s in 04 20 01 22; do echo "2026-05-01T10:00:${s}Z c kernel: NVRM: Xid (PCI:0000:17:00): 63, row remap"; done >k
    "$HINDMOST" node mark c --evidence k
    "$HINDMOST" node history c --json - | jq -e '.evidence | length == 2'
}
