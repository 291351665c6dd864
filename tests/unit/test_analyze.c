/* test_analyze.c - the exact attribution against brute force (one plain replay of the whole job a scenario), and its symmetries. */
#include "jobs.h"
#include "whatif/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = JOB_TRIALS(60) };

/* Complete recordings in Parquet are read straight into the dense arrays, others by way of the row store: both, in turn. */
static struct hm_trace *open_table(const struct job *j, const struct job_table *table, const char *steps) {
    static int turn;
    const char *path = job_path(turn++ % 2 ? "analyze.parquet" : "analyze.csv");
    job_write(j, path, table);
    struct hm_error err = {0};
    struct hm_trace_options o = {.steps = steps, .threads = 1};
    struct hm_trace *t = hm_trace_open(path, &o, &err);
    if (!t) fail_msg("%s", err.message);
    return t;
}

static struct hm_analysis *analyze(struct hm_trace *t, enum hm_attribution attribution) {
    struct hm_error err = {0};
    struct hm_analysis_options o = {.attribution = attribution, .per_step = true, .threads = 2};
    struct hm_analysis *a = hm_analyze(t, &o, &err);
    if (!a) fail_msg("%s", err.message);
    return a;
}

static struct hm_analysis *analyze_job(const struct job *j, const struct job_table *table,
                                       enum hm_attribution attribution) {
    struct hm_trace *t = open_table(j, table, NULL);
    struct hm_analysis *a = analyze(t, attribution);
    hm_trace_free(t);
    return a;
}

static void assert_near(double got, double expected, double tolerance, const char *what, uint64_t seed) {
    if (isnan(got) && isnan(expected)) return;
    if (!(fabs(got - expected) <= tolerance * fmax(1, fabs(expected))))
        fail_msg("job %lu, %s: %.17g, expected %.17g", (unsigned long)seed, what, got, expected);
}

/* ---- brute force -------------------------------------------------------------------------------------------------------------- */

enum scenario {
    ORIGINAL,
    IDEAL,
    ONLY_STAGE,
    ONLY_LANE,
    ONLY_WORKER,
    ONLY_FAMILY,
    WITHOUT_STAGE,
    WITHOUT_WORKERS,
    ONLY_WORKERS
};

struct brute {
    const struct hm_trace *t;
    enum scenario scenario;
    size_t stage, lane;
    int family;
    const bool *chosen;      /* [stage * lanes + lane] */
    double *optimizer, *any; /* [step], of the last run; any: to the latest end of any op, from the earliest start */
    double *duration, *start, *end;
};

static bool keeps_original(const struct brute *b, size_t lane, size_t slot) {
    size_t stage = b->t->job->slot[slot].stage;
    bool chosen = b->chosen && b->chosen[stage * b->t->grid.lanes + lane];
    switch (b->scenario) {
    case ORIGINAL:
        return true;
    case IDEAL:
        return false;
    case ONLY_STAGE:
        return stage == b->stage;
    case ONLY_LANE:
        return lane == b->lane;
    case ONLY_WORKER:
        return stage == b->stage && lane == b->lane;
    case ONLY_FAMILY:
        return hm_family_of((int)b->t->job->slot[slot].cls) == b->family;
    case WITHOUT_STAGE:
        return stage != b->stage;
    case WITHOUT_WORKERS:
        return !chosen;
    case ONLY_WORKERS:
        return chosen;
    }
    return false;
}

/* Replays every step of the whole job from the definition; the means over steps go to *optimizer and *any. */
static void replay(struct brute *b, double *optimizer, double *any) {
    const struct hm_grid *g = &b->t->grid;
    const struct hm_job *m = b->t->job;
    for (size_t step = 0; step < g->steps; step++) {
        for (size_t l = 0; l < g->lanes; l++)
            for (size_t s = 0; s < g->slots; s++)
                b->duration[l * g->slots + s] =
                    keeps_original(b, l, s)
                        ? hm_grid_lane(g, g->duration, step / HM_WIDTH, l)[s * HM_WIDTH + step % HM_WIDTH]
                        : b->t->ideal_s[m->slot[s].cls];
        hm_replay_plain(m, g->lanes, b->duration, b->start, b->end);
        double first = 0;
        b->optimizer[step] = b->any[step] = 0;
        for (size_t i = 0; i < g->lanes * g->slots; i++) {
            b->any[step] = fmax(b->any[step], b->end[i]);
            first = fmin(first, b->start[i]);
            if (m->slot[i % g->slots].cls == HM_OPTIMIZER) b->optimizer[step] = fmax(b->optimizer[step], b->end[i]);
        }
        b->any[step] -= first;
    }
    *optimizer = hm_mean(b->optimizer, g->steps);
    *any = hm_mean(b->any, g->steps);
}

static void check_per_step(const struct brute *b, const double *got, double unit, const char *what, uint64_t seed) {
    for (size_t i = 0; i < b->t->grid.steps; i++) assert_near(got[i], b->optimizer[i] / unit, 1e-12, what, seed);
}

/* The ideal durations from their definition: the mean of compute, the median of communication. */
static void check_ideal_durations(const struct hm_trace *t, uint64_t seed) {
    const struct hm_grid *g = &t->grid;
    double *x = hm_alloc(g->steps * g->lanes * g->slots, sizeof *x);
    for (int type = 0; type < HM_OP_TYPES; type++) {
        size_t n = 0;
        for (size_t step = 0; step < g->steps; step++)
            for (size_t l = 0; l < g->lanes; l++)
                for (size_t s = 0; s < g->slots; s++)
                    if ((int)t->job->slot[s].cls == type)
                        x[n++] = hm_grid_lane(g, g->duration, step / HM_WIDTH, l)[s * HM_WIDTH + step % HM_WIDTH];
        if (n == 0)
            assert_true(isnan(t->ideal_s[type]));
        else
            assert_near(t->ideal_s[type], hm_op_types[type].ideal_is_median ? hm_median(x, n) : hm_mean(x, n), 1e-12,
                        "ideal duration", seed);
    }
    hm_free(x);
}

/* A share of a loss that is about zero is no number. */
static void assert_share(double got, double lost, double won, double t_ideal, const char *what, uint64_t seed) {
    if (fabs(lost) < 1e-3 * t_ideal)
        assert_true(isnan(got));
    else /* quotients of differences: compared as times, where nothing cancels */
        assert_near(got * lost, won, 1e-12, what, seed);
}

static void check_shares(struct brute *b, const struct hm_analysis *a, double t, double t_ideal, uint64_t seed) {
    const size_t lanes = b->t->grid.lanes, workers = a->pp * lanes;
    double optimizer, without, only;
    /* the slowest 3 % by exact S_w, ties to the lower rank */
    bool *chosen = hm_alloc(workers, sizeof *chosen);
    size_t n = (3 * workers + 99) / 100;
    assert_int_equal(a->n_share_workers, n);
    for (size_t k = 0; k < n; k++) {
        size_t best = SIZE_MAX;
        for (size_t w = 0; w < workers; w++)
            if (!chosen[w] && (best == SIZE_MAX || a->by_worker[w / lanes * a->dp + w % lanes] >
                                                       a->by_worker[best / lanes * a->dp + best % lanes]))
                best = w;
        chosen[best] = true;
        assert_int_equal(a->share_workers[k].stage, best / lanes);
        assert_int_equal(a->share_workers[k].dp_rank, best % lanes);
    }
    b->chosen = chosen;
    b->scenario = WITHOUT_WORKERS;
    replay(b, &optimizer, &without);
    b->scenario = ONLY_WORKERS;
    replay(b, &optimizer, &only);
    assert_share(a->worker_share.value, t - t_ideal, t - without, t_ideal, "M_W", seed);
    assert_share(a->worker_share.add, t - t_ideal, only - t_ideal, t_ideal, "M_W, add", seed);
    b->chosen = NULL;
    hm_free(chosen);
    if (a->pp == 1) {
        assert_true(a->last_stage_share.value == 0 && a->last_stage_share.add == 0);
        return;
    }
    b->stage = a->pp - 1;
    b->scenario = WITHOUT_STAGE;
    replay(b, &optimizer, &without);
    b->scenario = ONLY_STAGE;
    replay(b, &optimizer, &only);
    assert_share(a->last_stage_share.value, t - t_ideal, t - without, t_ideal, "M_S", seed);
    assert_share(a->last_stage_share.add, t - t_ideal, only - t_ideal, t_ideal, "M_S, add", seed);
}

static void check_against_brute_force(const struct hm_trace *t, const struct hm_analysis *a, uint64_t seed) {
    const struct hm_grid *g = &t->grid;
    size_t n = g->steps;
    struct brute b = {.t = t};
    b.optimizer = hm_alloc(n, sizeof(double));
    b.any = hm_alloc(n, sizeof(double));
    b.duration = hm_alloc(g->lanes * g->slots, sizeof(double));
    b.start = hm_alloc(g->lanes * g->slots, sizeof(double));
    b.end = hm_alloc(g->lanes * g->slots, sizeof(double));
    double ideal, ideal_any, optimizer, any;
    check_ideal_durations(t, seed);
    b.scenario = IDEAL;
    replay(&b, &ideal, &ideal_any);
    b.scenario = ORIGINAL;
    replay(&b, &optimizer, &any);
    assert_near(a->replayed_s, any, 1e-12, "T", seed);
    assert_near(a->ideal_s, ideal, 1e-12, "T_ideal", seed);
    assert_near(a->slowdown, any / ideal, 1e-12, "S", seed);
    assert_near(a->waste, 1 - ideal / any, 1e-12, "waste", seed);
    assert_near(a->discrepancy, a->actual_s / optimizer - 1, 1e-12, "discrepancy", seed);
    for (size_t i = 0; i < n; i++) {
        assert_near(a->steps[i].replayed_s, b.any[i], 1e-12, "replayed step", seed);
        assert_near(a->steps[i].ideal_s, ideal_any, 1e-12, "ideal step", seed);
        assert_near(a->steps[i].slowdown, b.any[i] / ideal, 1e-12, "slowdown of a step", seed);
    }
    double t_original = any;
    size_t families = 0;
    for (b.family = 0, b.scenario = ONLY_FAMILY; b.family < HM_FAMILIES; b.family++) {
        size_t ops = 0;
        for (size_t s = 0; s < g->slots; s++) ops += hm_family_of((int)t->job->slot[s].cls) == b.family;
        if (!ops) continue;
        replay(&b, &optimizer, &any);
        assert_string_equal(a->by_op_type[families].name, hm_family_name(b.family));
        assert_int_equal(a->by_op_type[families].ops, ops);
        assert_near(a->by_op_type[families].slowdown, optimizer / ideal, 1e-12, "S of an op type", seed);
        check_per_step(&b, a->step_by_op_type + families++ * n, ideal, "S of an op type in a step", seed);
    }
    assert_int_equal(a->n_families, families);
    for (b.stage = 0, b.scenario = ONLY_STAGE; b.stage < a->pp; b.stage++) {
        replay(&b, &optimizer, &any);
        assert_near(a->by_stage[b.stage], optimizer / ideal, 1e-12, "S of a stage", seed);
        check_per_step(&b, a->step_by_stage + b.stage * n, ideal, "S of a stage in a step", seed);
    }
    for (b.lane = 0; b.lane < a->dp; b.lane++) {
        b.scenario = ONLY_LANE;
        replay(&b, &optimizer, &any);
        assert_near(a->by_dp_rank[b.lane], optimizer / ideal, 1e-12, "S of a DP rank", seed);
        check_per_step(&b, a->step_by_dp_rank + b.lane * n, ideal, "S of a DP rank in a step", seed);
        b.scenario = ONLY_WORKER;
        for (b.stage = 0; b.stage < a->pp; b.stage++) {
            replay(&b, &optimizer, &any);
            assert_near(a->by_worker[b.stage * a->dp + b.lane], optimizer / ideal, 1e-12, "S_w", seed);
            check_per_step(&b, a->step_by_worker + (b.stage * a->dp + b.lane) * n, ideal, "S_w in a step", seed);
        }
    }
    check_shares(&b, a, t_original, ideal_any, seed);
    hm_free(b.optimizer);
    hm_free(b.any);
    hm_free(b.duration);
    hm_free(b.start);
    hm_free(b.end);
}

static void exact_attribution_equals_brute_force(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct job_options o = {.overlap = -1, .no_dp_ops = seed % 9 == 0};
        struct job *j = job_make(seed, &o);
        struct hm_trace *t = open_table(j, NULL, NULL);
        struct hm_analysis *a = analyze(t, HM_ATTRIBUTION_EXACT);
        assert_int_equal(a->pp, j->pp);
        assert_int_equal(a->dp, j->dp);
        assert_int_equal(a->vpp, j->vpp);
        assert_int_equal(a->n_steps, j->steps);
        assert_int_equal(a->ops, j->steps * j->dp * j->n_ops);
        assert_int_equal(a->n_dropped, 0);
        check_against_brute_force(t, a, seed);
        hm_analysis_free(a);
        hm_trace_free(t);
        job_free(j);
    }
}

static void papers_attribution_is_the_smaller_of_stage_and_rank(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= JOB_TRIALS(20); seed++) {
        struct job *j = job_make(seed, NULL);
        struct hm_analysis *a = analyze_job(j, NULL, HM_ATTRIBUTION_PAPER);
        for (size_t s = 0; s < a->pp; s++)
            for (size_t d = 0; d < a->dp; d++) {
                assert_true(a->by_worker[s * a->dp + d] == fmin(a->by_stage[s], a->by_dp_rank[d]));
                for (size_t i = 0; i < a->n_steps; i++)
                    assert_true(a->step_by_worker[(s * a->dp + d) * a->n_steps + i] ==
                                fmin(a->step_by_stage[s * a->n_steps + i], a->step_by_dp_rank[d * a->n_steps + i]));
            }
        hm_analysis_free(a);
        job_free(j);
    }
}

/* ---- symmetries --------------------------------------------------------------------------------------------------------------- */

/* `dp_of` maps b's DP ranks to a's (NULL: the same); times of b are `scale` times those of a. */
static void assert_same(const struct hm_analysis *a, const struct hm_analysis *b, const int *dp_of, double scale,
                        double tolerance, uint64_t seed) {
    assert_int_equal(a->dp, b->dp);
    assert_int_equal(a->pp, b->pp);
    assert_int_equal(a->n_steps, b->n_steps);
    assert_near(b->replayed_s, scale * a->replayed_s, tolerance, "T", seed);
    assert_near(b->ideal_s, scale * a->ideal_s, tolerance, "T_ideal", seed);
    assert_near(b->slowdown, a->slowdown, tolerance, "S", seed);
    assert_near(b->discrepancy, a->discrepancy, tolerance, "discrepancy", seed);
    for (size_t i = 0; i < a->n_steps; i++) {
        assert_int_equal(a->steps[i].step, b->steps[i].step);
        assert_near(b->steps[i].actual_s, scale * a->steps[i].actual_s, tolerance, "recorded step", seed);
        assert_near(b->steps[i].replayed_s, scale * a->steps[i].replayed_s, tolerance, "replayed step", seed);
    }
    for (size_t f = 0; f < a->n_families; f++)
        assert_near(b->by_op_type[f].slowdown, a->by_op_type[f].slowdown, tolerance, "S of an op type", seed);
    for (size_t s = 0; s < a->pp; s++) assert_near(b->by_stage[s], a->by_stage[s], tolerance, "S of a stage", seed);
    for (size_t d = 0; d < a->dp; d++) {
        size_t from = dp_of ? (size_t)dp_of[d] : d;
        assert_near(b->by_dp_rank[from], a->by_dp_rank[d], tolerance, "S of a DP rank", seed);
        for (size_t s = 0; s < a->pp; s++)
            assert_near(b->by_worker[s * a->dp + from], a->by_worker[s * a->dp + d], tolerance, "S_w", seed);
    }
    assert_near(b->last_stage_share.value * (a->slowdown - 1), a->last_stage_share.value * (a->slowdown - 1), tolerance,
                "M_S", seed);
}

static void renumbering_dp_ranks_renumbers_the_answer(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct job *j = job_make(seed, NULL);
        struct hm_rng rng;
        hm_rng_seed(&rng, seed);
        int to[4] = {0, 1, 2, 3};
        for (int k = j->dp - 1; k > 0; k--) {
            int other = (int)hm_rng_below(&rng, (uint64_t)k + 1), swap = to[k];
            to[k] = to[other];
            to[other] = swap;
        }
        struct hm_analysis *a = analyze_job(j, NULL, HM_ATTRIBUTION_EXACT),
                           *b = analyze_job(j, &(struct job_table){.dp_rank = to}, HM_ATTRIBUTION_EXACT);
        assert_same(a, b, to, 1, 1e-12, seed);
        hm_analysis_free(a);
        hm_analysis_free(b);
        job_free(j);
    }
}

static void scaling_the_recording_scales_the_answer(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= JOB_TRIALS(30); seed++) {
        struct job *j = job_make(seed, NULL);
        struct hm_analysis *a = analyze_job(j, NULL, HM_ATTRIBUTION_EXACT);
        for (int i = 0; i < j->steps * j->dp * j->n_ops; i++) j->start[i] *= 8, j->recorded[i] *= 8;
        struct hm_analysis *b = analyze_job(j, NULL, HM_ATTRIBUTION_EXACT);
        assert_same(a, b, NULL, 8, 1e-12, seed);
        hm_analysis_free(a);
        hm_analysis_free(b);
        job_free(j);
    }
}

static void neither_row_order_nor_the_clock_matters(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= JOB_TRIALS(30); seed++) {
        struct job *j = job_make(seed, NULL);
        struct hm_analysis *a = analyze_job(j, NULL, HM_ATTRIBUTION_EXACT),
                           *b = analyze_job(j, &(struct job_table){.shuffle = seed}, HM_ATTRIBUTION_EXACT),
                           *c = analyze_job(j, &(struct job_table){.clock_s = 5000, .shuffle = seed},
                                            HM_ATTRIBUTION_EXACT);
        assert_same(a, b, NULL, 1, 0, seed);
        assert_same(a, c, NULL, 1, 1e-9, seed); /* 5,000 s leave 1e-12 s of a double */
        hm_analysis_free(a);
        hm_analysis_free(b);
        hm_analysis_free(c);
        job_free(j);
    }
}

/* Read in groups of steps, with the dense arrays in a file. */
static void less_memory_changes_no_digit(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct job_options layout = {.steps = 10, .overlap = -1};
        struct job *j = job_make(seed, &layout);
        const char *path = job_path(seed % 2 ? "memory.parquet" : "memory.csv");
        job_write(j, path, NULL);
        struct hm_error err = {0};
        struct hm_trace_options whole = {.threads = 1},
                                parts = {.threads = 1,
                                         .memory_bytes = (uint64_t)(j->steps * j->dp * j->n_ops) * 8 * (1 + seed % 4)};
        struct hm_trace *t = hm_trace_open(path, &whole, &err), *u = hm_trace_open(path, &parts, &err);
        if (!t || !u) fail_msg("%s", err.message);
        if (seed % 2) assert_true(u->grid.spilled && !t->grid.spilled); /* a CSV of one piece is read whole */
        struct hm_analysis *a = analyze(t, HM_ATTRIBUTION_EXACT), *b = analyze(u, HM_ATTRIBUTION_EXACT);
        assert_same(a, b, NULL, 1, 0, seed);
        hm_analysis_free(a);
        hm_analysis_free(b);
        hm_trace_free(t);
        hm_trace_free(u);
        job_free(j);
    }
}

static void chosen_steps_are_the_only_ones(void **state) {
    (void)state;
    struct job_options o = {.steps = 9, .overlap = -1};
    struct job *j = job_make(7, &o);
    char steps[64];
    (void)snprintf(steps, sizeof steps, "%d,%d-%d", j->step_number[0], j->step_number[3], j->step_number[5]);
    struct hm_trace *t = open_table(j, NULL, steps);
    struct hm_analysis *a = analyze(t, HM_ATTRIBUTION_EXACT);
    assert_int_equal(a->n_steps, 4);
    static const int kept[] = {0, 3, 4, 5};
    for (int k = 0; k < 4; k++) assert_int_equal(a->steps[k].step, j->step_number[kept[k]]);
    check_against_brute_force(t, a, 7);
    hm_analysis_free(a);
    hm_trace_free(t);
    static const char *const wrong[] = {"", "x", "1-", "3-2", "1,,2", "-4", "99999", "1;2", "99999999999999999999"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        struct hm_error err = {0};
        struct hm_trace_options bad = {.steps = wrong[k]};
        assert_null(hm_trace_open(job_path("analyze.csv"), &bad, &err));
        assert_int_equal(err.code, HM_ERR_ARGUMENT);
    }
    job_free(j);
}

struct stopper {
    int calls, stop_at;
};

static int stop_at(void *context, const char *what, double done, double total) {
    struct stopper *s = context;
    assert_non_null(what);
    assert_true(done >= 0 && total >= 0);
    return s->calls++ == s->stop_at;
}

static void a_progress_callback_stops_the_work(void **state) {
    (void)state;
    struct job_options o = {.steps = 10, .dp = 4, .pp = 4, .overlap = -1};
    struct job *j = job_make(3, &o);
    struct hm_trace *t = open_table(j, NULL, NULL);
    for (int at = 0; at < 12; at++) {
        struct hm_error err = {0};
        struct stopper s = {.stop_at = at};
        struct hm_analysis_options stoppable = {.threads = 1, .progress = stop_at, .context = &s};
        assert_null(hm_analyze(t, &stoppable, &err));
        assert_int_equal(err.code, HM_ERR_CANCELLED);
    }
    hm_trace_free(t);
    job_free(j);
}

/* ---- ideal durations --------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A grid of one compute and one transfer op a lane, filled by value(lane in all blocks, step in block); checked against sorting. */
static void check_ideal(size_t lanes, size_t steps, double (*value)(size_t lane, size_t step)) {
    enum { COMPUTE, SEND, ABSENT, CLASSES };
    struct hm_slot slot[2] = {{.cls = COMPUTE, .peers = COMPUTE}, {.cls = SEND, .peers = SEND}};
    const struct hm_class cls[CLASSES] = {[SEND] = {.ideal_is_median = true}, [ABSENT] = {.ideal_is_median = true}};
    const uint32_t class_of_peers[CLASSES] = {COMPUTE, SEND, ABSENT};
    struct hm_job m = {.slot = slot,
                       .n_slots = 2,
                       .cls = cls,
                       .n_classes = CLASSES,
                       .class_of_peers = class_of_peers,
                       .n_peers = CLASSES};
    struct hm_grid g = {.steps = steps, .blocks = (steps + HM_WIDTH - 1) / HM_WIDTH, .lanes = lanes, .slots = 2};
    g.duration = calloc(g.blocks * lanes * 2 * HM_WIDTH, sizeof *g.duration);
    double *all = calloc(lanes * steps, sizeof *all), ideal[CLASSES], sum = 0;
    assert_non_null(g.duration);
    assert_non_null(all);
    for (size_t step = 0, n = 0; step < steps; step++)
        for (size_t lane = 0; lane < lanes; lane++) {
            size_t row = step / HM_WIDTH * lanes + lane;
            double *d = g.duration + row * 2 * HM_WIDTH + step % HM_WIDTH;
            sum += d[0] = 1 + 1e-3 * (double)lane;
            all[n++] = d[HM_WIDTH] = value(row, step % HM_WIDTH);
        }
    qsort(all, lanes * steps, sizeof *all, by_value);
    double middle = 0.5 * (all[lanes * steps / 2] + all[(lanes * steps - 1) / 2]);
    for (int threads = 1; threads <= 3; threads++) {
        struct hm_error err = {0};
        assert_int_equal(hm_ideal_durations(&g, &m, threads, ideal, &err), 0);
        assert_true(ideal[SEND] == middle);
        assert_near(ideal[COMPUTE], sum / (double)(lanes * steps), 1e-12, "mean", lanes);
        assert_true(isnan(ideal[ABSENT]));
    }
    free(g.duration);
    free(all);
}

static double spread_out(size_t lane, size_t step) {
    return (double)((lane * 8 + step) * 2654435761u % 1000003);
}

static double three_values(size_t lane, size_t step) {
    return (double)((lane * 8 + step) * 2654435761u % 3);
}

static double all_alike(size_t lane, size_t step) {
    (void)lane, (void)step;
    return 0.25;
}

static double two_halves(size_t lane, size_t step) {
    return (double)(step % 2) * 3 + 1e-9 * (double)(lane % 7);
}

/* The values that a sample of every stride-th place sees lie far from the middle of all. */
static bool *misleading;
static double away_from_sample(size_t lane, size_t step) {
    return misleading[2 * lane + 1] ? 0 : 2 + 1e-6 * (double)(lane * 8 + step);
}

static void medians_are_exact(void **state) {
    (void)state;
    double (*const values[])(size_t, size_t) = {spread_out, three_values, all_alike, two_halves};
    static const size_t lanes[] = {1, 2, 7, 500, 5000}, steps[] = {1, 8, 13, 40};
    for (size_t v = 0; v < 4; v++)
        for (size_t l = 0; l < 5; l++)
            for (size_t s = 0; s < 4; s++) check_ideal(lanes[l], steps[s], values[v]);
    size_t places = (size_t)20000 * 5 * 2, stride = (size_t)(0.6180339887498949 * (double)places) | 1;
    misleading = calloc(places, sizeof *misleading);
    assert_non_null(misleading);
    for (size_t i = 0, at = 0; i < 1 << 14; i++, at = (at + stride) % places) misleading[at] = true;
    check_ideal(20000, 40, away_from_sample);
    free(misleading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_attribution_equals_brute_force),
        cmocka_unit_test(papers_attribution_is_the_smaller_of_stage_and_rank),
        cmocka_unit_test(renumbering_dp_ranks_renumbers_the_answer),
        cmocka_unit_test(scaling_the_recording_scales_the_answer),
        cmocka_unit_test(neither_row_order_nor_the_clock_matters),
        cmocka_unit_test(less_memory_changes_no_digit),
        cmocka_unit_test(chosen_steps_are_the_only_ones),
        cmocka_unit_test(medians_are_exact),
        cmocka_unit_test(a_progress_callback_stops_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
