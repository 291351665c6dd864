# killed.bats - the program killed at any moment: what it was to write is not there, or whole. Part of `scripts/test long`.

load ../helper

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# killed_after SECONDS COMMAND...: SIGKILL, unless it has ended before.
killed_after() { timeout -s KILL "$@" >/dev/null 2>&1 || [ $? = 137 ]; }

@test "synth, convert, analyze killed 200 times each: every file that is there is whole" {
    local k
    "$HINDMOST" synth -o whole.parquet --dp 8 --pp 4 --microbatches 16 --steps 60
    "$HINDMOST" analyze whole.parquet --json whole.json >/dev/null
    for k in $(seq 200); do
        rm -f t.parquet c.csv a.json a.html
        killed_after "0.$(printf '%03d' $((k * 2)))" "$HINDMOST" synth -o t.parquet --dp 8 --pp 4 --microbatches 16 --steps 60
        killed_after "0.$(printf '%03d' $((k * 2)))" "$HINDMOST" convert whole.parquet -o c.csv
        killed_after "0.$(printf '%03d' $((k * 2)))" "$HINDMOST" analyze whole.parquet --json a.json --html a.html
        [ ! -e t.parquet ] || [ "$(sql "SELECT count(*) FROM 't.parquet'")" = "$(sql "SELECT count(*) FROM 'whole.parquet'")" ]
        [ ! -e c.csv ] || [ "$(sql "SELECT count(*) FROM 'c.csv'")" = "$(sql "SELECT count(*) FROM 'whole.parquet'")" ]
        [ ! -e a.json ] || jq -e '.schema == "hindmost.analysis/1"' a.json >/dev/null
        [ ! -e a.html ] || tail -c 20 a.html | grep -q '</html>'
    done
}
