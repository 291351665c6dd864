# hang.bats - the hang subcommand: text, JSON contract, exit status, bad input.

load ../helper

setup() { T=$BATS_TEST_TMPDIR; }

@test "names the rank that did not come, as text and as JSON, whatever the encoding" {
    for protocol in 2 5 -1; do
        mkdir "$T/d$protocol"
        "$BUILD/tests/dump" "$T/d$protocol" "$protocol" 8 5
        "$HINDMOST" hang "$T/d$protocol" | grep -q "hung: rank 5 keeps the others waiting"
        "$HINDMOST" hang "$T/d$protocol"/* --json - >"$T/r.json"
        jq -e '.schema == "hindmost.hang/1" and .ranks == 8 and .missing_ranks == [] and .hung
               and [.suspects[].rank] == [5] and (.suspects[0].reasons | length) > 0 and .suspects[0].score == 1
               and .groups[0] == {"name": "0", "description": "default_pg", "ranks": [0,1,2,3,4,5,6,7], "op": "all_reduce", "seq": 2,
                                  "waiting": [0,1,2,3,4,6,7], "absent": [5]}' "$T/r.json"
    done
}

@test "--check is 2 if it hangs and 0 if not" {
    mkdir "$T/a" "$T/b"
    "$BUILD/tests/dump" "$T/a" 2 4 1
    "$BUILD/tests/dump" "$T/b" 2 4 -1
    run "$HINDMOST" hang "$T/a" --check
    [ "$status" = 2 ]
    run "$HINDMOST" hang "$T/b" --check
    [ "$status" = 0 ]
}

@test "compressed dumps, and a folder with other files in it" {
    mkdir "$T/d"
    "$BUILD/tests/dump" "$T/d" 2 4 1
    gzip "$T/d"/*
    echo "what happened" >"$T/d/README"
    "$HINDMOST" hang "$T/d" --json "$T/r.json" | grep -q "left out: .*README"
    jq -e '[.suspects[].rank] == [1] and (.notes | length) == 1' "$T/r.json"
}

@test "a rank without a dump is missing and suspect" {
    mkdir "$T/d"
    "$BUILD/tests/dump" "$T/d" 4 4 -1
    rm "$T/d/comm_lib_trace_rank_2"
    "$HINDMOST" hang "$T/d" --json - | jq -e '.missing_ranks == [2] and [.suspects[].rank] == [2]'
}

@test "what is no dump of plain data is refused in one line" {
    printf '\x80\x02cos\nsystem\n(S"touch %s"\ntR.' "$T/ran" >"$T/_dump_1"
    must_fail "opcode GLOBAL at byte 2" hang "$T/_dump_1"
    [ ! -e "$T/ran" ]
    printf '{"version": "3.1", "entries": []}' >"$T/_dump_2"
    must_fail "version 3.1" hang "$T/_dump_2"
    printf '{"a": 1}' >"$T/_dump_3"
    must_fail "no flight-recorder dump" hang "$T/_dump_3"
    printf '{"entries": []}' >"$T/dump"
    must_fail "which rank" hang "$T/dump"
    : >"$T/_dump_4"
    must_fail "is empty" hang "$T/_dump_4"
    mkdir "$T/empty"
    must_fail "no flight-recorder dump in it" hang "$T/empty"
    must_fail "hang needs" hang
    must_fail "No such file" hang "$T/nothing_1"
    "$BUILD/tests/dump" "$T" 2 1 -1
    head -c 300 "$T/comm_lib_trace_rank_0" >"$T/_dump_5"
    must_fail "ends early" hang "$T/_dump_5"
}

@test "the set from outside: ranks 12 and 14 had their GPU errors injected" {
    need_shared_data hang-dumps/gpu-error
    "$HINDMOST" hang "$SHARED_DATA/hang-dumps/gpu-error" --json - | jq -e '[.suspects[].rank] == [12, 14] and .ranks == 16 and .hung'
}
