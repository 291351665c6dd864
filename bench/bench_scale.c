/* bench_scale.c - what a replay and a whole analysis cost, against the limits of this machine.
 *
 * usage: bench_scale replay            one replay of a 10,240-worker job in memory against memcpy of its durations; one and two threads
 *        bench_scale rows              a small job from rows in memory to all attributions
 *        bench_scale file TRACE [GB]   a trace file: DuckDB's scans, opening, analysis, JSON; op evaluations against one replay
 *        bench_scale growth TRACE...   time an op over traces of several sizes
 *
 * Ratios within one run are what counts: the machine is noisy, so each figure is the best of several. */
#include "base/base.h"
#include "job/schedule.h"
#include "whatif/whatif.h"

#include <duckdb.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "hindmost/job.h"
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
    j.size = j.t->job->n_slots * HM_WIDTH;
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

/* ---- rows in memory ---- */

/* A job of 64 workers, 8 steps, about 40 ops each, from rows in memory to S and every attribution. */
static int bench_rows(void) {
    enum { ROUNDS = 100 };
    struct hm_error err = {0};
    struct hm_synth_options o;
    hm_synth_defaults(&o);
    o.dp = 16, o.pp = 4, o.microbatches = 6, o.steps = 8, o.noise = 0.02;
    struct hm_trace *made = hm_synth_trace(&o, &err);
    size_t n = made ? made->ops : 0, k = 0;
    struct hm_op_row *row = calloc(n, sizeof *row);
    if (!made || !row) return 3;
    for (size_t step = 0; step < made->grid.steps; step++)
        for (size_t lane = 0; lane < made->grid.lanes; lane++)
            for (size_t i = 0; i < made->grid.slots; i++) {
                const struct hm_slot *s = &made->job->slot[i];
                const double *start = hm_grid_lane(&made->grid, made->grid.start, 0, lane),
                             *duration = hm_grid_lane(&made->grid, made->grid.duration, 0, lane);
                row[k++] = (struct hm_op_row){made->recording->steps[step],
                                              (uint32_t)lane,
                                              s->stage,
                                              hm_class_of(made->job, i)->name,
                                              s->seq,
                                              s->mc,
                                              s->mb,
                                              s->gmc,
                                              start[i * HM_WIDTH + step],
                                              fmax(0, duration[i * HM_WIDTH + step])};
            }
    double whole = INFINITY, slowdown = 0;
    for (int r = 0; r < ROUNDS; r++) {
        double a = hm_now_s();
        struct hm_job_rows *rows = hm_job_begin("rows", &err);
        if (!rows || hm_job_add(rows, row, n, &err) != 0) return 3;
        struct hm_trace *t = hm_job_finish(rows, NULL, &err);
        struct hm_analysis *an = t ? hm_analyze(t, NULL, &err) : NULL;
        if (!an) return 3;
        slowdown = an->slowdown;
        hm_analysis_free(an);
        hm_trace_free(t);
        whole = best(whole, hm_now_s() - a);
    }
    printf(
        "rows in memory to S and every attribution: 64 workers, 8 steps, %zu rows, S = %.4f\n  %.2f ms (goal: <= 2)\n",
        n, slowdown, 1e3 * whole);
    free(row);
    hm_trace_free(made);
    return 0;
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

/* From a file to JSON once. */
struct took {
    double open_s, analyse_s, json_s;
};

static double in_all(const struct took *t) {
    return t->open_s + t->analyse_s + t->json_s;
}

/* The trace and its analysis are kept if wanted. */
static int take_time(const char *path, const struct hm_trace_options *o, struct took *took, struct hm_trace **trace,
                     struct hm_analysis **analysis) {
    struct hm_error err = {0};
    double a = hm_now_s();
    struct hm_trace *t = hm_trace_open(path, o, &err);
    double b = hm_now_s();
    struct hm_analysis *an = t ? hm_analyze(t, NULL, &err) : NULL;
    double c = hm_now_s();
    struct hm_out *out = an ? hm_out_open("/dev/null", &err) : NULL;
    if (out) hm_analysis_write_json(an, NULL, out);
    if (!out || hm_out_commit(out, &err) != 0) {
        fprintf(stderr, "%s\n", err.message);
        return 3;
    }
    *took = (struct took){b - a, c - b, hm_now_s() - c};
    if (trace)
        *trace = t;
    else
        hm_trace_free(t);
    if (analysis)
        *analysis = an;
    else
        hm_analysis_free(an);
    return 0;
}

static int best_time(const char *path, const struct hm_trace_options *o, int rounds, struct took *best_of,
                     struct hm_trace **trace, struct hm_analysis **analysis) {
    for (int k = 0; k < rounds; k++) {
        struct took now;
        bool last = k == rounds - 1;
        if (take_time(path, o, &now, last ? trace : NULL, last ? analysis : NULL) != 0) return 3;
        if (k == 0 || in_all(&now) < in_all(best_of)) *best_of = now;
    }
    return 0;
}

static void print_times(const char *what, double s, double ops, double one, double needed, double all) {
    printf("  %-36s %8.3f s   %8.1f M rows/s", what, s, 1e-6 * ops / s);
    if (one > 0) printf("   %.1f x one column, %.1f x those needed, %.1f x all", s / one, s / needed, s / all);
    printf("\n");
}

static int bench_file(const char *path, const char *memory) {
    struct hm_trace_options o = {.memory_bytes = memory ? (uint64_t)(strtod(memory, NULL) * 1e9) : 0};
    struct hm_trace *t = NULL;
    struct hm_analysis *an = NULL;
    struct took took;
    double start_mb = peak_mb();
    if (best_time(path, &o, 3, &took, &t, &an) != 0) return 3;
    double mb = peak_mb() - start_mb, replay = memory ? NAN : one_replay(t), ops = (double)an->ops;
    printf("%s: %.2f M rows, %zu workers, %zu steps, S = %.4f\n", path, 1e-6 * ops, an->dp * an->pp, an->n_steps,
           an->slowdown);
    double one = scan(path, "count(*), sum(duration)");
    double needed =
        scan(path, "count(*), sum(dp_rank), sum(stage), sum(step), sum(start_ts), sum(duration), sum(seq_id), "
                   "max(optype)");
    double all = scan(path, "count(*), sum(dp_rank), sum(stage), sum(step), sum(start_ts), sum(duration), "
                            "sum(seq_id), max(optype), sum(rank), sum(mc), sum(mb_id), sum(gmc)");
    print_times("DuckDB count(*), sum(duration)", one, ops, 0, 0, 0);
    print_times("DuckDB, the seven columns needed", needed, ops, 0, 0, 0);
    print_times("DuckDB, all columns", all, ops, 0, 0, 0);
    print_times("open: read, model, ideal times", took.open_s, ops, one, needed, all);
    printf("  %-36s %8.3f s   evaluated %.1f x the job's ops", "analyse: every attribution exact", took.analyse_s,
           an->evaluated / ops);
    if (!isnan(replay)) printf(", took %.1f x one replay (%.4f s)", took.analyse_s / replay, replay);
    printf("\n");
    print_times("file to JSON", in_all(&took), ops, one, needed, all);
    printf("  %-36s %8.0f MB  %8.1f bytes a row\n", "peak memory above start", mb, mb * 1048576 / ops);
    hm_analysis_free(an);
    hm_trace_free(t);
    return 0;
}

/* ---- growth: the same job in several sizes ---- */

/* The first trace is a tiny one: what it takes is the fixed cost (a reader is started, a program compiled), taken off the others'. */
static int bench_growth(char **paths, int n) {
    double fixed = 0, first = 0;
    for (int i = 0; i < n; i++) {
        struct hm_trace_options o = {0};
        struct hm_analysis *an = NULL;
        struct took took;
        if (best_time(paths[i], &o, 5, &took, NULL, &an) != 0) return 3;
        double ops = (double)an->ops, s = in_all(&took), ns = 1e9 * (s - fixed) / ops;
        if (i == 0) printf("  fixed cost: %.3f s (%.0f ops)\n", fixed = s, ops);
        if (i == 1) first = ns;
        if (i > 0)
            printf("  %8.2f M ops: %4zu DP ranks, %3zu steps  %7.3f s, less the fixed cost %5.1f ns an op   %.2f x the "
                   "first\n",
                   1e-6 * ops, an->dp, an->n_steps, s, ns, ns / first);
        fflush(stdout);
        hm_analysis_free(an);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "replay") == 0) return bench_replay();
    if (argc >= 2 && strcmp(argv[1], "rows") == 0) return bench_rows();
    if (argc >= 3 && strcmp(argv[1], "file") == 0) return bench_file(argv[2], argc > 3 ? argv[3] : NULL);
    if (argc >= 3 && strcmp(argv[1], "growth") == 0) return bench_growth(argv + 2, argc - 2);
    fprintf(stderr, "usage: bench_scale replay | rows | file TRACE [MEMORY_GB] | growth TRACE...\n");
    return 3;
}
