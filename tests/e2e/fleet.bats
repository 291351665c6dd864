#!/usr/bin/env bats
# The fleet page in Debian's Chromium: what it shows equals the JSON.
load ../helper

setup() {
    [ -x /usr/bin/chromium ] || skip "chromium is not installed (scripts/setup --tests)"
    [ -d "$SOURCE/.deps/node_modules/playwright-core" ] || skip "playwright-core is not under .deps (scripts/setup)"
    cd "$BATS_TEST_TMPDIR" || return 1
}

@test "fleet page: 40 synthetic jobs and one unreadable result" {
    mkdir fleet
    "$BUILD/tests/fleet" fleet 40 3
    echo '{"name": "</script><script>alert(1)</script>"' >'fleet/<b>.json'
    "$HINDMOST" fleet fleet --html fleet.html --json fleet.json >/dev/null
    node "$SOURCE/tests/e2e/fleet.mjs" "$SOURCE" fleet.html fleet.json
}

@test "fleet page: 20,000 jobs stay below 3 MB" {
    mkdir fleet
    "$BUILD/tests/fleet" fleet 10 5
    "$HINDMOST" fleet fleet --parquet ten.parquet >/dev/null
    sql "COPY (SELECT j.* REPLACE (slowdown * (1 + 0.0001 * i) AS slowdown, 'a job with a long name, number ' || i AS name)
               FROM read_parquet('ten.parquet') j, range(2000) r(i)) TO 'many.parquet'"
    "$HINDMOST" fleet many.parquet --html fleet.html --json fleet.json >/dev/null
    node "$SOURCE/tests/e2e/fleet.mjs" "$SOURCE" fleet.html fleet.json
}
