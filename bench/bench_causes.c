/* bench_causes.c - how often the diagnosis is right: thousands of synthetic jobs with known causes, and healthy ones.
 *
 * usage: bench_causes [jobs [healthy [seed]]]   (default 2000 500 1)
 *
 * Each job has a random layout, schedule, noise (1-5 %) and one to three injected causes of strength 5-100 %. What an injection costs is
 * measured, not assumed: the recorded step time with it against that of the same job without it (an injection draws from random
 * numbers of its own, so all else is equal). The dominant cause is the one that costs most. Jobs whose dominant cause costs less than
 * 2 % of the step are counted apart: there is next to nothing to find. */
#include "base/base.h"
#include "hindmost/synth.h"
#include "whatif/whatif.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KINDS = 7, MOST = 3, REST = KINDS, HEALTHY, CLASSES };
static const char *const kind_name[CLASSES] = {"slow-worker",        "stage-imbalance", "sequence-length",
                                               "garbage-collection", "slow-link",       "data-loading",
                                               "replica-imbalance",  "unexplained",     "(none)"};

struct job {
    struct hm_synth_options o;
    char text[MOST][160];
    const char *inject[MOST];
    int kind[MOST];
    uint32_t stage[MOST], dp[MOST];
};

struct outcome {
    int truth, named; /* dominant cause; first named one, or HEALTHY */
    bool close;       /* the first named one costs at least 80 % of the dominant */
    bool listed;      /* the dominant one is named somewhere */
    double cost;      /* of the dominant, share of the step */
    int worker;       /* a slow worker that costs over 5 %: 1 named exactly first, 0 not, -1 there is none */
    char what[400];
};

static uint32_t pick(struct hm_rng *r, uint32_t low, uint32_t high) {
    return low + (uint32_t)hm_rng_below(r, high - low + 1);
}

/* Strengths from 5 % to 100 %, evenly in their logarithm. */
static double strength(struct hm_rng *r) {
    return 0.05 * pow(20, hm_rng_uniform(r));
}

static void inject(struct job *j, struct hm_rng *r, int k, int kind) {
    const struct hm_synth_options *o = &j->o;
    double x = strength(r), forward_ms = 1e3 * o->forward_s;
    uint32_t stage = pick(r, 0, o->pp - 1), dp = pick(r, 0, o->dp - 1);
    j->kind[k] = kind, j->stage[k] = stage, j->dp[k] = dp;
    switch (kind) {
    case 0:
        (void)snprintf(j->text[k], sizeof j->text[k], "slow-worker:stage=%u,dp=%u,factor=%.3f", stage, dp, 1 + x);
        break;
    case 1:
        if (hm_rng_below(r, 3))
            (void)snprintf(j->text[k], sizeof j->text[k], "last-stage:factor=%.3f", 1 + x);
        else
            (void)snprintf(j->text[k], sizeof j->text[k], "stage:stage=%u,factor=%.3f", stage, 1 + x);
        break;
    case 2:
        (void)snprintf(j->text[k], sizeof j->text[k], "sequences:tail=%.2f,quadratic=%.2f",
                       1.05 + 0.6 * hm_rng_uniform(r), fmin(0.9, 0.2 + x));
        break;
    case 3:
        (void)snprintf(j->text[k], sizeof j->text[k], "gc:every=%u,ms=%.1f", pick(r, o->steps / 3 + 1, o->steps),
                       forward_ms * (2 + 20 * x));
        break;
    case 4:
        (void)snprintf(j->text[k], sizeof j->text[k], "link:stage=%u,dp=%u,factor=%.1f", pick(r, 0, o->pp - 2), dp,
                       1 + (forward_ms / (1e3 * o->p2p_s)) * (0.5 + 3 * x));
        break;
    case 5:
        (void)snprintf(j->text[k], sizeof j->text[k], "data-loading:dp=%u,ms=%.1f,share=%.2f", dp,
                       x * forward_ms * (o->microbatches + o->pp), 0.3 + 0.6 * hm_rng_uniform(r));
        break;
    default:
        (void)snprintf(j->text[k], sizeof j->text[k], "replica:dp=%u,factor=%.3f", dp, 1 + x);
        break;
    }
}

static void make_job(struct job *j, uint64_t seed, bool healthy) {
    struct hm_rng r;
    hm_rng_seed(&r, seed);
    hm_synth_defaults(&j->o);
    struct hm_synth_options *o = &j->o;
    static const uint32_t dps[] = {2, 3, 4, 8, 16}, pps[] = {1, 2, 4, 8};
    o->dp = dps[hm_rng_below(&r, 5)];
    o->pp = pps[hm_rng_below(&r, 4)];
    o->vpp = o->pp > 1 && hm_rng_below(&r, 4) == 0 ? 2 : 1;
    o->microbatches = o->pp * pick(&r, 1, 4);
    if (o->microbatches < 4) o->microbatches = 4;
    o->steps = pick(&r, 8, 24);
    o->overlap_dp = hm_rng_below(&r, 2);
    o->forward_s = 0.02 + 0.1 * hm_rng_uniform(&r);
    o->backward_s = o->forward_s * (1.5 + hm_rng_uniform(&r));
    o->p2p_s = 0.001 + 0.002 * hm_rng_uniform(&r);
    o->noise = 0.01 + 0.04 * hm_rng_uniform(&r);
    o->seed = seed;
    o->threads = 1;
    int n = healthy ? 0 : (int)pick(&r, 1, MOST), k = 0;
    bool used[KINDS] = {false};
    while (k < n) {
        int kind = (int)hm_rng_below(&r, KINDS);
        bool pipeline = kind == 1 || kind == 4 || kind == 6; /* a replica without a pipeline is a worker */
        if (used[kind] || (pipeline && o->pp < 2) || (kind == 6 && o->dp < 3)) continue;
        used[kind] = true;
        inject(j, &r, k++, kind);
    }
    for (k = 0; k < n; k++) j->inject[k] = j->text[k];
    o->inject = j->inject;
    o->n_inject = (size_t)n;
}

static struct hm_trace *synthesise(const struct hm_synth_options *o, const char *path) {
    struct hm_error err = {0};
    struct hm_trace_options open = {.threads = 1};
    struct hm_trace *t = NULL;
    if (hm_synth(path, o, &err) == 0) t = hm_trace_open(path, &open, &err);
    if (!t) fprintf(stderr, "%s\n", err.message);
    return t;
}

/* The injection without its effect. It stays in its place, so that the others draw the same numbers. */
static void neutralise(const struct job *j, size_t k, char *text, size_t size) {
    static const char *const neutral[KINDS] = {"factor=1", "factor=1",    "quadratic=0", "ms=0.000001",
                                               "factor=1", "ms=0.000001", "factor=1"};
    static const char *const key[KINDS] = {"factor=", "factor=", "quadratic=", "ms=", "factor=", "ms=", "factor="};
    const char *at = strstr(j->inject[k], key[j->kind[k]]), *rest = strchr(at, ',');
    (void)snprintf(text, size, "%.*s%s%s", (int)(at - j->inject[k]), j->inject[k], neutral[j->kind[k]],
                   rest ? rest : "");
}

/* Mean recorded step time without injection k. */
static double time_without(const struct job *j, size_t k, const char *path) {
    struct hm_synth_options o = j->o;
    const char *inject[MOST];
    char text[160];
    neutralise(j, k, text, sizeof text);
    for (size_t i = 0; i < j->o.n_inject; i++) inject[i] = i == k ? text : j->inject[i];
    o.inject = inject;
    if (j->kind[k] == 1) { /* the fix of a heavy stage is an even split of the same work */
        double factor = strtod(strstr(j->inject[k], "factor=") + 7, NULL), even = 1 + (factor - 1) / o.pp;
        o.forward_s *= even;
        o.backward_s *= even;
    }
    struct hm_trace *t = synthesise(&o, path);
    double mean = t ? hm_mean(t->grid.actual_s, t->grid.steps) : NAN;
    hm_trace_free(t);
    return mean;
}

static int kind_of(const char *cause) {
    for (int k = 0; k < HEALTHY; k++)
        if (strcmp(cause, kind_name[k]) == 0) return k;
    return REST;
}

static void judge(const struct job *j, struct hm_trace *t, const char *path, struct outcome *out) {
    struct hm_error err = {0};
    struct hm_analysis_options ao = {.threads = 1};
    struct hm_analysis *a = hm_analyze(t, &ao, &err);
    struct hm_diagnosis *d = a ? hm_diagnose(t, a, 1, &err) : NULL;
    if (!d) {
        fprintf(stderr, "%s\n", err.message);
        hm_analysis_free(a);
        return;
    }
    double actual = a->actual_s, cost[MOST] = {0};
    size_t n = j->o.n_inject, dominant = 0;
    for (size_t k = 0; k < n; k++) {
        cost[k] = (actual - time_without(j, k, path)) / actual;
        if (cost[k] > cost[dominant]) dominant = k;
    }
    out->truth = n ? j->kind[dominant] : HEALTHY;
    out->cost = n ? cost[dominant] : 0;
    out->named = HEALTHY;
    for (size_t i = 0; i < d->n_causes; i++) {
        int kind = kind_of(d->causes[i].cause);
        if (kind != REST && out->named == HEALTHY) out->named = kind;
        out->listed |= kind == out->truth;
    }
    for (size_t k = 0; k < n; k++) {
        out->close |= j->kind[k] == out->named && cost[k] >= 0.8 * cost[dominant];
        if (j->kind[k] == 0 && cost[k] > 0.05) {
            out->worker = 0;
            for (size_t i = 0; i < d->n_causes; i++)
                if (strcmp(d->causes[i].cause, "slow-worker") == 0)
                    out->worker =
                        d->causes[i].workers[0].stage == j->stage[k] && d->causes[i].workers[0].dp_rank == j->dp[k];
        }
    }
    size_t used =
        (size_t)snprintf(out->what, sizeof out->what,
                         "seed %lu dp %u pp %u vpp %u mb %u steps %u noise %.3f S %.3f:", (unsigned long)j->o.seed,
                         j->o.dp, j->o.pp, j->o.vpp, j->o.microbatches, j->o.steps, j->o.noise, a->slowdown);
    for (size_t k = 0; k < n && used < sizeof out->what; k++)
        used += (size_t)snprintf(out->what + used, sizeof out->what - used, " %s [%.1f%%]", j->text[k], 100 * cost[k]);
    for (size_t i = 0; i < d->n_causes && used < sizeof out->what; i++)
        used += (size_t)snprintf(out->what + used, sizeof out->what - used, "%s %s %.2f", i ? "," : " ->",
                                 d->causes[i].cause, d->causes[i].recovers);
    hm_diagnosis_free(d);
    hm_analysis_free(a);
}

struct bench {
    size_t jobs;
    uint64_t seed;
    struct outcome *out;
    char folder[64];
};

static void run(void *context, size_t i, int thread) {
    struct bench *b = context;
    struct job j = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%d.parquet", b->folder, thread);
    b->out[i].worker = -1;
    b->out[i].truth = -1;
    make_job(&j, b->seed * 1000003 + i, i >= b->jobs);
    struct hm_trace *t = synthesise(&j.o, path);
    if (t) judge(&j, t, path, &b->out[i]);
    hm_trace_free(t);
}

static double percent(size_t part, size_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : NAN;
}

int main(int argc, char **argv) {
    struct bench b = {.jobs = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000,
                      .seed = argc > 3 ? strtoul(argv[3], NULL, 10) : 1};
    size_t healthy = argc > 2 ? strtoul(argv[2], NULL, 10) : 500, n = b.jobs + healthy;
    (void)snprintf(b.folder, sizeof b.folder, "/tmp/hindmost-causes-XXXXXX");
    if (!mkdtemp(b.folder) || !(b.out = calloc(n, sizeof *b.out))) return 3;
    hm_parallel(n, 0, run, &b);
    size_t matrix[CLASSES][CLASSES] = {{0}}, small = 0, first = 0, listed = 0, close = 0, clean = 0, workers = 0,
           exact = 0, counted = 0, failed = 0;
    for (size_t i = 0; i < n; i++) {
        const struct outcome *o = &b.out[i];
        if (o->truth < 0) {
            failed++;
            continue;
        }
        if (o->worker >= 0) workers++, exact += (size_t)o->worker;
        if (o->truth == HEALTHY) {
            clean += o->named == HEALTHY;
            matrix[HEALTHY][o->named]++;
            if (o->named != HEALTHY && getenv("SHOW")) printf("H %s\n", o->what);
            continue;
        }
        if (o->cost < 0.02) {
            small++;
            continue;
        }
        counted++;
        matrix[o->truth][o->named]++;
        first += o->named == o->truth;
        close += o->named == o->truth || o->close;
        listed += o->listed;
        if (getenv("SHOW") && o->named != o->truth && !o->close) printf("W %s\n", o->what);
        if (getenv("SHOW") && o->worker == 0) printf("X %s\n", o->what);
    }
    printf("rows: dominant injected cause; columns: cause named first\n%-20s", "");
    for (int c = 0; c < CLASSES; c++) printf(" %9.9s", kind_name[c]);
    for (int t = 0; t < CLASSES; t++) {
        if (t == REST) continue;
        printf("\n%-20s", kind_name[t]);
        for (int c = 0; c < CLASSES; c++) printf(" %9zu", matrix[t][c]);
    }
    printf("\n\n%zu jobs with causes, %zu of them cost under 2 %% of a step and are left out; %zu healthy ones; %zu "
           "failed\n",
           b.jobs, small, healthy, failed);
    printf("dominant cause named first:              %6.2f %% of %zu\n", percent(first, counted), counted);
    printf("  or one that costs at least 80 %% of it: %6.2f %%\n", percent(close, counted));
    printf("dominant cause named at all:             %6.2f %%\n", percent(listed, counted));
    printf("no cause named on healthy jobs:          %6.2f %% of %zu\n", percent(clean, healthy), healthy);
    printf("slow worker (cost > 5 %%) named exactly:  %6.2f %% of %zu\n", percent(exact, workers), workers);
    char command[100];
    (void)snprintf(command, sizeof command, "rm -rf %s", b.folder);
    return system(command) != 0 || failed;
}
