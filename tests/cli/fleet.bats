#!/usr/bin/env bats
# hindmost fleet: many results at once. Figures are checked against SQL over the same table; the shape of the synthetic fleet against
# section 4 of OSDI 2025.
load ../helper

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    mkdir fleet
    "$BUILD/tests/fleet" fleet 160 7
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return 1
}

@test "fleet: the summary says what the table says" {
    "$HINDMOST" fleet fleet --json sum.json --parquet jobs.parquet >text.txt
    grep -q '^160 jobs' text.txt
    "$HINDMOST" fleet jobs.parquet --json - --sql "
        SELECT count(*) AS jobs, count(*) FILTER (slowdown >= 1.1) AS straggling, sum(gpu_hours) AS hours,
               sum(gpu_hours * greatest(waste, 0)) AS wasted, quantile_cont(waste, 0.9) AS p90, quantile_cont(slowdown, 0.5) AS median,
               count(*) FILTER (slowdown >= 1.1 AND last_stage_share >= 0.5) AS last_stage,
               count(*) FILTER (world BETWEEN 256 AND 511) AS middle, max(slowdown) AS worst
        FROM jobs" >sql.json
    jq -e -n --slurpfile s sum.json --slurpfile q sql.json '
        def near(a; b): (a - b | fabs) <= 1e-9 * ([(a | fabs), 1] | max);
        $s[0] as $s | $q[0][0] as $q |
        $s.jobs == $q.jobs and $s.straggling.jobs == $q.straggling and near($s.gpu_hours; $q.hours) and near($s.wasted_gpu_hours; $q.wasted)
        and near($s.waste_by_job.p90; $q.p90) and near($s.slowdown.p50; $q.median) and $s.last_stage_share_from_half.jobs == $q.last_stage
        and $s.by_size[2].jobs == $q.middle and near($s.slowest_jobs[0].slowdown; $q.worst) and $s.schema == "hindmost.fleet/1"'
}

@test "fleet: a job is what its result says" {
    jq -r '.slowdown' fleet/0003.json >expected
    "$HINDMOST" fleet fleet --json - --sql "SELECT slowdown FROM jobs WHERE file LIKE '%/0003.json'" | jq '.[0].slowdown' >got
    cmp expected got
}

@test "fleet: files, folders and Parquet mix" {
    "$HINDMOST" fleet fleet --parquet all.parquet >/dev/null
    "$HINDMOST" fleet fleet/0001.json all.parquet fleet --sql "SELECT count(*) AS n, count(DISTINCT file) AS files FROM jobs" >got
    grep -q '^160 *160$' got # each result once, whatever leads to it
}

@test "fleet: real results" {
    need_shared_data what-if
    mkdir -p real
    for t in AR SE; do
        "$HINDMOST" analyze "$SHARED_DATA/what-if/trace-$t.parquet" -m "$SHARED_DATA/what-if/meta-$t.yaml" --json real/$t.json >/dev/null
    done
    "$HINDMOST" fleet real --json - >real.json
    expect '.straggling.share == 1 and .worker_share_above_half.jobs == 1 and .last_stage_share_from_half.jobs == 1' real.json
    expect '.slowest_jobs | map(.name) == ["AR", "SE"]' real.json
}

@test "fleet: unreadable results are skipped, counted and named" {
    mkdir -p bad
    cp fleet/0001.json bad/good.json
    head -c 300 fleet/0002.json >bad/cut.json
    echo '{"schema": "hindmost.tor/1"}' >bad/other.json
    "$HINDMOST" fleet bad >out
    grep -q '^1 jobs' out
    grep -q '^2 skipped:' out
    grep -q 'bad/cut.json: line .*not JSON' out
    grep -q 'bad/other.json: not a result of hindmost analyze' out
    "$HINDMOST" fleet bad --json - >out.json 2>err
    grep -q '^hindmost: 2 of the results were skipped' err
    expect '.skipped | length == 2' out.json
}

@test "fleet: nothing left is an error" {
    mkdir -p none
    must_fail "no result found" fleet none
    must_fail "cut.json" fleet bad/cut.json
    must_fail "absent.json" fleet absent.json
    must_fail "all.parquet.x" fleet all.parquet.x
    must_fail "fleet needs results" fleet
    "$BUILD/tests/job" trace.csv
    sql "COPY (FROM read_csv('trace.csv')) TO 'trace.parquet'"
    must_fail "trace.parquet: not a table of jobs" fleet trace.parquet
    must_fail "--sql" fleet fleet --sql "SELECT nothing FROM jobs"
    must_fail "nowhere/x.html" fleet fleet --html nowhere/x.html
    must_fail "nowhere/x.parquet" fleet fleet --parquet nowhere/x.parquet
}

# Loose: 160 jobs of a seed. bench/fleet makes 1,000 and prints its figures beside the paper's.
@test "fleet: the synthetic fleet has the shape of the paper's" {
    "$HINDMOST" fleet fleet --json shape.json >/dev/null
    expect '.straggling.share > 0.3 and .straggling.share < 0.55' shape.json
    expect '.waste > 0.05 and .waste < 0.2' shape.json
    expect '.waste_by_job.p90 > 0.14 and .waste_by_job.p90 < 0.3 and .waste_by_job.p50 < 0.11' shape.json
    expect '.last_stage_share_from_half.share > 0.25 and .last_stage_share_from_half.share < 0.55' shape.json
    expect '.step_p90 > 1 and .step_p90 < 1.1' shape.json
    expect '[.by_size[] | select(.jobs > 0 and (.gpus == "below 128" or .gpus == "128 to 255")) | .slowdown_max] | max < 3' shape.json
}
