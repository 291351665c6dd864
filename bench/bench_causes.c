/* bench_causes.c - is the diagnosis right? Synthetic jobs with known causes, diagnosed; what was named against what was
 * put in.
 *
 * bench/causes [jobs [seed [job]]]: a fifth of the jobs has no cause, the others one to three. Which of several is the
 * dominant one is measured, not assumed: every job is made once more without each of its causes (a heavy stage is spread
 * over all stages instead, so that the work stays), and the one whose absence wins back most is dominant. With a third
 * argument one job is shown. */
#include "whatif/scenario.h"
#include "whatif/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { WORKER, STAGE, SEQUENCES, GC, LINK, DATA, REPLICA, KINDS, NONE = KINDS, OTHER, COLUMNS };
static const char *const names[COLUMNS] = {"slow-worker", "stage-imbalance", "sequence-length",   "garbage-collection",
                                           "slow-link",   "data-loading",    "replica-imbalance", "none",
                                           "unexplained"};
static const char *const heads[COLUMNS] = {"worker", "stage",   "sequence", "gc",     "link",
                                           "data",   "replica", "none",     "unexpl."};

static const double counts = 0.01; /* of T: a cause that costs less is not asked for */

struct cause {
    enum kind kind;
    char with[200], without[200]; /* injections */
    uint32_t stage, dp;
    double strength, cost; /* cost: share of T */
};

struct job {
    struct hm_synth_options o;
    struct cause cause[3];
    size_t n, dominant; /* dominant == n: none costs anything */
    double slowdown;
    /* What the diagnosis said */
    bool named[KINDS], failed;
    int first; /* column */
    double recovers[KINDS];
    size_t workers;
    struct hm_worker worker;
};

static double between(struct hm_rng *rng, double low, double high) {
    return low + (high - low) * hm_rng_uniform(rng);
}

static uint32_t one_of(struct hm_rng *rng, const uint32_t *list, size_t n) {
    return list[hm_rng_below(rng, n)];
}

static void lay_out(struct job *j, struct hm_rng *rng) {
    static const uint32_t pps[] = {1, 2, 2, 4, 4, 4, 8}, dps[] = {1, 2, 2, 3, 4, 4, 6, 8, 8, 16}, many[] = {1, 1, 1, 2};
    struct hm_synth_options *o = &j->o;
    hm_synth_defaults(o);
    o->pp = one_of(rng, pps, sizeof pps / sizeof *pps);
    o->dp = one_of(rng, dps, sizeof dps / sizeof *dps);
    o->vpp = o->pp > 1 ? one_of(rng, many, sizeof many / sizeof *many) : 1;
    o->microbatches = o->pp * (1 + (uint32_t)hm_rng_below(rng, o->pp >= 8 ? 2 : 4));
    if (o->microbatches < 4) o->microbatches = 4 + (uint32_t)hm_rng_below(rng, 8);
    if (o->vpp > 1) o->microbatches -= o->microbatches % o->pp;
    o->steps = 10 + (uint32_t)hm_rng_below(rng, 23);
    o->overlap_dp = hm_rng_below(rng, 2);
    o->noise = between(rng, 0.01, 0.05);
    o->forward_s = between(rng, 0.02, 0.2);
    o->backward_s = o->forward_s * between(rng, 1.5, 2.5);
    o->p2p_s = o->forward_s * between(rng, 0.005, 0.04);
    o->dp_comm_s = o->forward_s * between(rng, 0.05, 0.5);
    o->threads = 1;
}

/* A cause of that kind in this layout; false if the layout cannot have it. Strength: how much longer the computes of a
 * worker, stage or replica take; the weight of the quadratic term of sequences; pauses and waits over a worker's compute
 * time in a step; transfers over a forward. */
static bool draw_cause(struct cause *c, enum kind kind, const struct hm_synth_options *o, struct hm_rng *rng) {
    double x = c->strength = exp(between(rng, log(0.05), log(1.0))),
           busy_ms = 1e3 * o->vpp * o->microbatches * (o->forward_s + o->backward_s);
    c->kind = kind;
    c->stage = (uint32_t)hm_rng_below(rng, o->pp), c->dp = (uint32_t)hm_rng_below(rng, o->dp);
    c->without[0] = 0;
    char *to = c->with;
    const size_t size = sizeof c->with;
    switch (kind) {
    case WORKER:
        (void)snprintf(to, size, "slow-worker:stage=%u,dp=%u,factor=%.4f", c->stage, c->dp, 1 + x);
        return o->dp > 1; /* one replica: no peers */
    case STAGE:
        if (hm_rng_below(rng, 2)) c->stage = o->pp - 1;
        (void)snprintf(to, size, "stage:stage=%u,factor=%.4f", c->stage, 1 + x);
        (void)snprintf(c->without, size, "stage:stage=0-%u,factor=%.6f", o->pp - 1, 1 + x / o->pp);
        return o->pp > 1;
    case SEQUENCES:
        (void)snprintf(to, size, "sequences:max=32768,tail=%.2f,quadratic=%.4f", between(rng, 0.8, 1.6), x);
        return true;
    case GC:
        (void)snprintf(to, size, "gc:every=%u,ms=%.3f", (unsigned)(4 + hm_rng_below(rng, 16)), x * busy_ms);
        return o->pp * o->dp > 1;
    case LINK:
        c->stage = (uint32_t)hm_rng_below(rng, o->pp > 1 ? o->pp - 1 : 1);
        (void)snprintf(to, size, "link:stage=%u,dp=%u,factor=%.3f,share=%.2f", c->stage, c->dp,
                       1 + x * o->forward_s / o->p2p_s, hm_rng_below(rng, 2) ? 1 : between(rng, 0.2, 0.8));
        return (o->pp - 1) * o->dp > 1; /* a single link: nothing to compare it with */
    case DATA:
        (void)snprintf(to, size, "data-loading:dp=%u,ms=%.3f,share=%.2f", c->dp, x * busy_ms, between(rng, 0.2, 1));
        return true;
    case REPLICA:
        (void)snprintf(to, size, "replica:dp=%u,factor=%.4f", c->dp, 1 + x);
        return o->pp > 1 && o->dp > 1;
    default:
        return false;
    }
}

static void draw_job(struct job *j, uint64_t seed, uint64_t number) {
    struct hm_rng rng;
    hm_synth_stream(&rng, seed, 0xbe7c4, number, HM_NO_LANE);
    *j = (struct job){0};
    lay_out(j, &rng);
    j->o.seed = hm_rng_next(&rng);
    size_t n = number % 5 == 0 ? 0 : 1 + hm_rng_below(&rng, 3);
    bool used[KINDS] = {0};
    for (int tries = 0; j->n < n && tries < 50; tries++) {
        enum kind kind = (enum kind)hm_rng_below(&rng, KINDS);
        if (used[kind] || !draw_cause(&j->cause[j->n], kind, &j->o, &rng)) continue;
        used[kind] = true;
        j->n++;
    }
}

/* The job's trace; cause `without` is left out or evened out (SIZE_MAX: none). */
static struct hm_trace *make(const struct job *j, size_t without, struct hm_error *err) {
    struct hm_synth_options o = j->o;
    const char *inject[3];
    o.n_inject = 0;
    for (size_t i = 0; i < j->n; i++) {
        const char *text = i == without ? j->cause[i].without : j->cause[i].with;
        /* an injection's random numbers come from its place in the list: what is left out leaves a neutral one */
        inject[o.n_inject++] = *text ? text : "slow-op:type=optimizer,factor=1";
    }
    o.inject = inject;
    return hm_synth_trace(&o, err);
}

/* Mean step time, with data loading (as recorded) or without (as replayed); mean forward + backward. */
static int time_of(const struct job *j, size_t without, double *recorded, double *replayed, double *compute,
                   struct hm_error *err) {
    struct hm_trace *t = make(j, without, err);
    struct hm_scenarios s;
    if (!t) return -1;
    int status = hm_scenarios_begin(&s, t, 1);
    if (status == 0) {
        *recorded = hm_mean(t->grid.actual_s, t->grid.steps);
        *replayed = hm_scenario_mean_s(&s, NULL, NULL, NULL);
        hm_scenarios_end(&s);
        *compute = t->ideal_s[HM_FORWARD_COMPUTE] + t->ideal_s[HM_BACKWARD_COMPUTE];
    }
    hm_trace_free(t);
    return status;
}

static int measure(struct job *j, struct hm_error *err) {
    double recorded, replayed, compute, r, p, c_without;
    if (time_of(j, SIZE_MAX, &recorded, &replayed, &compute, err) != 0) return -1;
    j->dominant = j->n;
    for (size_t i = 0; i < j->n; i++) {
        if (time_of(j, i, &r, &p, &c_without, err) != 0) return -1;
        /* Sequences drawn add or remove work by chance: compare at equal work. */
        if (j->cause[i].kind == SEQUENCES) p *= compute / c_without;
        struct cause *c = &j->cause[i];
        c->cost = (c->kind == DATA ? recorded - r : replayed - p) / replayed;
        if (c->cost >= counts && (j->dominant == j->n || c->cost > j->cause[j->dominant].cost)) j->dominant = i;
    }
    return 0;
}

static void read_diagnosis(struct job *j, const struct hm_diagnosis *d) {
    j->first = NONE;
    for (size_t i = d->n_causes; i-- > 0;) {
        const struct hm_cause *c = &d->causes[i];
        int k = 0;
        while (k < COLUMNS && strcmp(names[k], c->cause) != 0) k++;
        if (k == OTHER && j->first == NONE) j->first = OTHER;
        if (k >= KINDS) continue;
        j->first = k;
        j->named[k] = true;
        j->recovers[k] = c->recovers;
        if (k != WORKER || !c->n_workers) continue;
        j->workers = c->n_workers;
        j->worker = c->workers[0];
    }
}

static int diagnose(struct job *j, bool show, struct hm_error *err) {
    struct hm_trace *t = make(j, SIZE_MAX, err);
    const struct hm_analysis_options ao = {.threads = 1};
    struct hm_analysis *a = t ? hm_analyze(t, &ao, err) : NULL;
    struct hm_diagnosis *d = a ? hm_diagnose(t, a, 1, err) : NULL;
    if (d) {
        j->slowdown = a->slowdown;
        read_diagnosis(j, d);
        if (show) {
            struct hm_out *out = hm_out_open("-", err);
            if (out) {
                hm_analysis_write_json(a, d, out);
                (void)hm_out_commit(out, err);
            }
        }
    }
    int status = d ? 0 : -1;
    hm_diagnosis_free(d);
    hm_analysis_free(a);
    hm_trace_free(t);
    return status;
}

struct bench {
    struct job *job;
    uint64_t seed;
};

static void run_job(void *context, size_t index, int thread) {
    (void)thread;
    struct bench *b = context;
    struct job *j = &b->job[index];
    struct hm_error err = {0};
    draw_job(j, b->seed, index);
    j->failed = measure(j, &err) != 0 || diagnose(j, false, &err) != 0;
    if (j->failed) (void)fprintf(stderr, "job %zu: %s\n", index, err.message);
}

/* ---- results ---- */

static void describe(const struct job *j, size_t number) {
    const struct hm_synth_options *o = &j->o;
    printf("  job %zu: dp %u pp %u vpp %u mb %u steps %u noise %.3f S %.3f;", number, o->dp, o->pp, o->vpp,
           o->microbatches, o->steps, o->noise, j->slowdown);
    for (size_t i = 0; i < j->n; i++) printf(" [%s: %.1f %%]", j->cause[i].with, 100 * j->cause[i].cost);
    printf(" named:");
    for (int k = 0; k < KINDS; k++)
        if (j->named[k]) printf(" %s %.2f", names[k], j->recovers[k]);
    if (j->named[WORKER]) printf(" (%zu workers, stage %u dp %u)", j->workers, j->worker.stage, j->worker.dp_rank);
    printf("\n");
}

static void part(const char *what, size_t good, size_t all) {
    printf("%-66s %5zu of %5zu  %6.2f %%\n", what, good, all, all ? 100.0 * (double)good / (double)all : 0.0);
}

static bool is_injected(const struct job *j, int kind) {
    for (size_t i = 0; i < j->n; i++)
        if ((int)j->cause[i].kind == kind) return true;
    return false;
}

static const struct cause *slow_worker(const struct job *j) {
    for (size_t i = 0; i < j->n; i++)
        if (j->cause[i].kind == WORKER) return &j->cause[i];
    return NULL;
}

static bool exact(const struct job *j) {
    const struct cause *c = slow_worker(j);
    return j->named[WORKER] && j->workers == 1 && j->worker.stage == c->stage && j->worker.dp_rank == c->dp;
}

static void print_matrix(const struct job *jobs, size_t n) {
    size_t matrix[COLUMNS][COLUMNS] = {{0}}, extra[KINDS] = {0};
    for (size_t i = 0; i < n; i++) {
        const struct job *j = &jobs[i];
        if (j->failed) continue;
        if (j->n && j->dominant == j->n) continue;
        matrix[j->n ? (int)j->cause[j->dominant].kind : NONE][j->first]++;
        for (int k = 0; k < KINDS; k++) extra[k] += j->named[k] && !is_injected(j, k);
    }
    printf("\nConfusion: rows the dominant cause, columns the cause named first\n%-20s", "");
    for (int k = 0; k < COLUMNS; k++) printf("%9s", heads[k]);
    printf("\n");
    for (int r = 0; r <= NONE; r++) {
        printf("%-20s", names[r]);
        for (int k = 0; k < COLUMNS; k++) printf("%9zu", matrix[r][k]);
        printf("\n");
    }
    printf("%-20s", "named, not injected");
    for (int k = 0; k < KINDS; k++) printf("%9zu", extra[k]);
    printf("\n");
}

static void print_results(const struct job *jobs, size_t n, bool list) {
    size_t healthy = 0, quiet = 0, asked = 0, named = 0, first = 0, near = 0, all = 0, all_named = 0, workers = 0,
           right = 0, small = 0, small_quiet = 0, extra = 0, sick = 0;
    for (size_t i = 0; i < n; i++) {
        const struct job *j = &jobs[i];
        if (j->failed) continue;
        bool bad = false;
        if (j->n == 0) {
            healthy++;
            quiet += j->first >= NONE;
            bad = j->first < NONE;
        } else if (j->dominant == j->n) {
            small++;
            small_quiet += j->first >= NONE;
        } else {
            const struct cause *top = &j->cause[j->dominant];
            double cost = 0;
            asked++;
            named += j->named[top->kind];
            first += j->first == (int)top->kind;
            for (size_t c = 0; c < j->n; c++)
                if ((int)j->cause[c].kind == j->first) cost = j->cause[c].cost;
            near += cost >= 0.9 * top->cost;
            bad = cost < 0.9 * top->cost;
        }
        for (size_t c = 0; c < j->n; c++)
            if (j->cause[c].cost >= 0.02) all++, all_named += j->named[j->cause[c].kind];
        bool false_one = false;
        for (int k = 0; k < KINDS; k++) false_one |= j->named[k] && !is_injected(j, k);
        sick += j->n > 0, extra += j->n > 0 && false_one;
        const struct cause *w = slow_worker(j);
        if (w && w->cost > 0.05) {
            workers++;
            right += exact(j);
            bad |= !exact(j);
        }
        if (bad && list) describe(j, i);
    }
    part("healthy jobs on which no cause is named", quiet, healthy);
    part("dominant cause (costing 1 % of T or more) named", named, asked);
    part("  ... and named first", first, asked);
    part("  ... or one that costs at least 90 % of it named first", near, asked);
    part("every injected cause that costs 2 % of T or more named", all_named, all);
    part("slow worker (costing more than 5 % of T) named exactly", right, workers);
    part("jobs with causes on which a cause is named that was not injected", extra, sick);
    part("jobs whose causes cost less than 1 % each: no cause named", small_quiet, small);
    print_matrix(jobs, n);
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 3000;
    struct bench b = {.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    if (argc > 3) {
        struct job j;
        struct hm_error err = {0};
        draw_job(&j, b.seed, strtoull(argv[3], NULL, 10));
        if (measure(&j, &err) != 0 || diagnose(&j, true, &err) != 0) {
            (void)fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        describe(&j, strtoull(argv[3], NULL, 10));
        return 0;
    }
    b.job = hm_alloc(n, sizeof *b.job);
    if (!b.job) return 1;
    double begin = hm_now_s();
    hm_parallel(n, 0, run_job, &b);
    size_t without = 0;
    for (size_t i = 0; i < n; i++) without += b.job[i].n == 0;
    printf("%zu jobs, seed %llu, %zu without a cause; %.1f s\n\n", n, (unsigned long long)b.seed, without,
           hm_now_s() - begin);
    print_results(b.job, n, getenv("HINDMOST_BENCH_LIST") != NULL);
    hm_free(b.job);
    return 0;
}
