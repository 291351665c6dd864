/* bench_scale.c - what a replay and a whole analysis cost, against the limits of this machine.
 *
 * usage: bench_scale replay            one replay of a 10,240-worker job in memory against memcpy of its durations; one and two threads
 *        bench_scale file TRACE [GB]   a trace file: DuckDB's scans, opening, analysis, JSON; op evaluations against one replay
 *
 * Ratios within one run are what counts: the machine is noisy, so each figure is the best of several. */
#include "base/base.h"
#include "model/schedule.h"
#include "whatif/whatif.h"

#include <duckdb.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "hindmost/synth.h"

static double best(double a, double b) {
    return a < b ? a : b;
}

static double peak_mb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* ---- one replay ---- */

struct job {
    struct hm_trace *t;
    double *duration, *copy;
    size_t lanes, blocks, size; /* size: doubles of one lane in one block */
    struct hm_scratch *scratch[2];
    struct hm_view *views[2];
    double sum[2];
};

static void replay_block(void *context, size_t block, int thread) {
    struct job *j = context;
    struct hm_ends ends;
    for (size_t l = 0; l < j->lanes; l++)
        j->views[thread][l] = (struct hm_view){.duration = j->duration + (block * j->lanes + l) * j->size};
    hm_replay(j->t->program, j->views[thread], j->lanes, false, j->scratch[thread], &ends);
    j->sum[thread] += ends.optimizer[0];
}

static int bench_replay(void) {
    enum { DP = 640, PP = 16, MICROBATCHES = 32, BLOCKS = 6, ROUNDS = 7 };
    char folder[] = "/tmp/hindmost-bench-XXXXXX", path[64];
    if (!mkdtemp(folder)) return 3;
    (void)snprintf(path, sizeof path, "%s/t.parquet", folder);
    struct hm_error err = {0};
    struct hm_synth_options o;
    hm_synth_defaults(&o);
    o.dp = 2, o.pp = PP, o.microbatches = MICROBATCHES, o.steps = 8, o.noise = 0.02;
    struct job j = {.lanes = DP, .blocks = BLOCKS};
    if (hm_synth(path, &o, &err) != 0 || !(j.t = hm_trace_open(path, NULL, &err))) {
        fprintf(stderr, "%s\n", err.message);
        return 3;
    }
    j.size = j.t->model->n_slots * HM_WIDTH;
    size_t n = j.lanes * j.blocks * j.size;
    j.duration = hm_map(n * sizeof(double), NULL);
    j.copy = hm_map(n * sizeof(double), NULL);
    for (int t = 0; t < 2; t++) {
        j.scratch[t] = hm_scratch_new(j.t->program, DP);
        j.views[t] = calloc(DP, sizeof **j.views);
    }
    if (!j.duration || !j.copy || !j.scratch[0] || !j.scratch[1] || !j.views[0] || !j.views[1]) return 3;
    for (size_t i = 0; i < n; i++)
        j.duration[i] = j.t->grid.duration[i % (2 * j.size)] * (1 + 1e-3 * (double)(i / j.size % 17));
    double copy = INFINITY, one = INFINITY, two = INFINITY;
    for (int r = 0; r < ROUNDS; r++) {
        double a = hm_now_s();
        memcpy(j.copy, j.duration, n * sizeof(double));
        double b = hm_now_s();
        hm_parallel(BLOCKS, 1, replay_block, &j);
        double c = hm_now_s();
        hm_parallel(BLOCKS, 2, replay_block, &j);
        double d = hm_now_s();
        copy = best(copy, b - a), one = best(one, c - b), two = best(two, d - c);
    }
    printf("one replay: %u workers, %.1f M ops, durations %.0f MB\n", DP * PP, 1e-6 * (double)n, 8e-6 * (double)n);
    printf("  memcpy of the durations     %8.4f s\n", copy);
    printf("  replay, one thread          %8.4f s   %.2f x memcpy (must: <= 1.5)   %.2f ns an op\n", one, one / copy,
           1e9 * one / (double)n);
    printf("  replay, two threads         %8.4f s   %.2f x faster (must: >= 1.7 for scenarios)\n", two, one / two);
    char command[100];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || isnan(j.sum[0] + j.sum[1]);
}

/* ---- a whole file ---- */

static double scan(const char *path, const char *columns) {
    duckdb_database db;
    duckdb_connection con;
    duckdb_config config;
    double time = INFINITY;
    duckdb_create_config(&config);
    duckdb_set_config(config, "threads", "2");
    if (duckdb_open_ext(NULL, &db, config, NULL) != DuckDBSuccess || duckdb_connect(db, &con) != DuckDBSuccess)
        return NAN;
    char *sql = hm_sprintf("SELECT %s FROM '%s'", columns, path);
    for (int r = 0; sql && r < 3; r++) {
        duckdb_result result;
        double a = hm_now_s();
        if (duckdb_query(con, sql, &result) != DuckDBSuccess) {
            fprintf(stderr, "%s\n", duckdb_result_error(&result));
            return NAN;
        }
        time = best(time, hm_now_s() - a);
        duckdb_destroy_result(&result);
    }
    hm_free(sql);
    duckdb_disconnect(&con);
    duckdb_close(&db);
    duckdb_destroy_config(&config);
    return time;
}

/* One replay of the opened trace with everything original, best of three. */
static double one_replay(struct hm_trace *t) {
    struct hm_whatif_result r;
    static const char *const change[] = {"all=original"};
    double time = INFINITY;
    for (int k = 0; k < 3; k++) {
        double a = hm_now_s();
        if (hm_whatif(t, false, change, 1, 0, &r, NULL) != 0) return NAN;
        time = best(time, (hm_now_s() - a) / 2); /* it replays twice: before and after */
    }
    return time;
}

static int bench_file(const char *path, const char *memory) {
    struct hm_error err = {0};
    struct hm_trace_options o = {.memory_bytes = memory ? (uint64_t)(strtod(memory, NULL) * 1e9) : 0};
    double start_mb = peak_mb(), a = hm_now_s();
    struct hm_trace *t = hm_trace_open(path, &o, &err);
    double b = hm_now_s();
    struct hm_analysis *an = t ? hm_analyze(t, NULL, &err) : NULL;
    double c = hm_now_s();
    struct hm_out *out = an ? hm_out_open("/dev/null", &err) : NULL;
    if (out) hm_analysis_write_json(an, NULL, out);
    if (!out || hm_out_commit(out, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 3;
    }
    double d = hm_now_s(), mb = peak_mb() - start_mb;
    double replay = memory ? NAN : one_replay(t), ops = (double)an->ops;
    printf("%s: %.2f M rows, %zu workers, %zu steps, S = %.4f\n", path, 1e-6 * ops, an->dp * an->pp, an->n_steps,
           an->slowdown);
    double narrow = scan(path, "count(*), sum(duration)");
    double whole = scan(path, "count(*), sum(dp_rank), sum(stage), sum(step), sum(start_ts), sum(duration), "
                              "sum(seq_id), max(optype), sum(rank), sum(mc), sum(mb_id), sum(gmc)");
    printf("  DuckDB count(*), sum(duration)    %8.3f s   %8.1f M rows/s\n", narrow, 1e-6 * ops / narrow);
    printf("  DuckDB, all columns               %8.3f s   %8.1f M rows/s\n", whole, 1e-6 * ops / whole);
    printf("  open: read, model, ideal times    %8.3f s   %8.1f M rows/s   %.2f x one column, %.2f x all columns\n",
           b - a, 1e-6 * ops / (b - a), (b - a) / narrow, (b - a) / whole);
    printf("  analyse: every attribution exact  %8.3f s   evaluated %.1f x the job's ops", c - b, an->evaluated / ops);
    if (!isnan(replay)) printf(", took %.1f x one replay (%.4f s)", (c - b) / replay, replay);
    printf("\n  Parquet to JSON                   %8.3f s   %8.1f M rows/s   %.2f x one column, %.2f x all columns\n",
           d - a, 1e-6 * ops / (d - a), (d - a) / narrow, (d - a) / whole);
    printf("  peak memory above start           %8.0f MB  %8.1f bytes a row\n", mb, mb * 1048576 / ops);
    hm_analysis_free(an);
    hm_trace_free(t);
    return 0;
}

int main(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "replay") == 0) return bench_replay();
    if (argc >= 3 && strcmp(argv[1], "file") == 0) return bench_file(argv[2], argc > 3 ? argv[3] : NULL);
    fprintf(stderr, "usage: bench_scale replay | bench_scale file TRACE [MEMORY_GB]\n");
    return 3;
}
