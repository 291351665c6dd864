/* bench_stragglers.c - is the diagnosis right about stragglers as they come: late, moving, on half of the replicas, in one op type,
 * now and then, beside sequences, on machines that wander and differ?
 *
 * bench_stragglers [jobs [seed [job]]]. Every job is made from a kind of straggler and a kind of weather; each culprit is an injection
 * of its own, and what it costs is measured: the job is made again without any and with it alone. A culprit that costs 2 % of the step
 * must be named, with its place; one below 0.5 % need not be; and nobody else may. */
#include "whatif/scenario.h"
#include "whatif/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CULPRITS = 66, MOST_TEXT = 200 };
static const double must = 0.02; /* of T: a culprit that costs as much must be named */
/* Where each replica has a pace of its own, one within 8 % of its neighbours is like them. */
static const double must_of_paces = 0.09;

enum cause { WORKER, REPLICA, SEQUENCES, STAGE, GC, LINK, DATA, CAUSES };
static const char *const cause_names[CAUSES] = {"slow-worker",     "replica-imbalance",  "sequence-length",
                                                "stage-imbalance", "garbage-collection", "slow-link",
                                                "data-loading"};

struct culprit {
    enum cause cause;
    uint32_t stage, dp;
    char inject[MOST_TEXT];
    int64_t first, last; /* steps; last 0: all */
    const char *op;      /* the one op type that is slow; NULL: forward and backward */
    double cost;         /* of T, alone */
};

enum weather { CALM, WANDERING, TAILS, NATURAL, WEATHERS };
static const char *const weather_names[WEATHERS] = {"calm", "AR(1) wander", "heavy tails", "natural spread 1.5 %"};

struct job {
    struct hm_synth_options o;
    size_t kind;
    enum weather weather;
    char background[MOST_TEXT]; /* the weather; "": none */
    struct culprit culprit[MOST_CULPRITS];
    size_t n;
    bool failed, first, exact, innocent, steps_right, accused, counts;
    double slowdown;
    char said[400];
};

/* ---- drawing ---- */

static double between(struct hm_rng *rng, double low, double high) {
    return low + (high - low) * hm_rng_uniform(rng);
}

static uint32_t one_of(struct hm_rng *rng, const uint32_t *list, size_t n) {
    return list[hm_rng_below(rng, n)];
}

static void lay_out(struct hm_synth_options *o, struct hm_rng *rng) {
    static const uint32_t pps[] = {1, 1, 2, 2, 3, 4, 4, 8}, dps[] = {2, 2, 3, 4, 4, 6, 8, 8, 16, 32, 64},
                          many[] = {1, 1, 1, 2};
    hm_synth_defaults(o);
    o->pp = one_of(rng, pps, sizeof pps / sizeof *pps);
    do o->dp = one_of(rng, dps, sizeof dps / sizeof *dps);
    while (o->dp * o->pp > 128);
    o->vpp = o->pp > 1 ? one_of(rng, many, sizeof many / sizeof *many) : 1;
    o->microbatches = o->pp * (1 + (uint32_t)hm_rng_below(rng, o->pp >= 8 ? 2 : 4));
    if (o->microbatches < 4) o->microbatches = 4 + (uint32_t)hm_rng_below(rng, 8);
    if (o->vpp > 1) o->microbatches -= o->microbatches % o->pp;
    o->steps = 12 + (uint32_t)hm_rng_below(rng, o->dp * o->pp > 32 ? 13 : 37);
    o->overlap_dp = hm_rng_below(rng, 2);
    o->noise = between(rng, 0.005, 0.04);
    o->forward_s = between(rng, 0.02, 0.2);
    o->backward_s = o->forward_s * between(rng, 1.5, 2.5);
    o->p2p_s = o->forward_s * between(rng, 0.005, 0.04);
    o->dp_comm_s = o->forward_s * between(rng, 0.05, 0.5);
    o->threads = 1;
    o->seed = hm_rng_next(rng);
}

/* The number of the recorded step at a share of the recording (synth numbers them with gaps, 3 for 2 on the average). */
static int64_t step_at(const struct hm_synth_options *o, double share) {
    return 1 + (int64_t)(share * 1.5 * o->steps);
}

static double factor(struct hm_rng *rng) {
    return 1 + exp(between(rng, log(0.10), log(1.5)));
}

static struct culprit *add(struct job *j, enum cause cause, uint32_t stage, uint32_t dp) {
    struct culprit *c = &j->culprit[j->n++];
    *c = (struct culprit){.cause = cause == WORKER || j->o.pp > 1 ? cause : cause == REPLICA ? WORKER : cause};
    c->stage = stage, c->dp = dp;
    return c;
}

/* A slow worker or replica with more keys; `keys` begins with a comma or is empty. */
static void slow(struct job *j, enum cause cause, uint32_t stage, uint32_t dp, double by, int64_t first, int64_t last,
                 const char *keys) {
    struct culprit *c = add(j, cause, stage, dp);
    char steps[64] = "";
    c->first = first, c->last = last;
    if (last) (void)snprintf(steps, sizeof steps, ",steps=%lld-%lld", (long long)first, (long long)last);
    if (cause == REPLICA)
        (void)snprintf(c->inject, sizeof c->inject, "replica:dp=%u,factor=%.4f%s%s", dp, by, steps, keys);
    else
        (void)snprintf(c->inject, sizeof c->inject, "slow-worker:stage=%u,dp=%u,factor=%.4f%s%s", stage, dp, by, steps,
                       keys);
}

static uint32_t any_stage(const struct job *j, struct hm_rng *rng) {
    return (uint32_t)hm_rng_below(rng, j->o.pp);
}
static uint32_t any_dp(const struct job *j, struct hm_rng *rng) {
    return (uint32_t)hm_rng_below(rng, j->o.dp);
}
static enum cause worker_or_replica(struct hm_rng *rng) {
    return hm_rng_below(rng, 3) ? WORKER : REPLICA;
}

/* ---- kinds ---- */

static void healthy(struct job *j, struct hm_rng *rng) {
    (void)j, (void)rng;
}
static void steady(struct job *j, struct hm_rng *rng) {
    enum cause c = worker_or_replica(rng);
    slow(j, c, any_stage(j, rng), any_dp(j, rng), factor(rng), 0, 0, "");
}
static void late(struct job *j, struct hm_rng *rng) {
    enum cause c = worker_or_replica(rng);
    slow(j, c, any_stage(j, rng), any_dp(j, rng), factor(rng), step_at(&j->o, between(rng, 0.15, 0.8)), 1000000, "");
}
static void for_a_while(struct job *j, struct hm_rng *rng) {
    double from = between(rng, 0.1, 0.6);
    enum cause c = worker_or_replica(rng);
    slow(j, c, any_stage(j, rng), any_dp(j, rng), factor(rng), step_at(&j->o, from),
         step_at(&j->o, from + between(rng, 0.2, 0.35)), "");
}
static void moving(struct job *j, struct hm_rng *rng) { /* one culprit after another */
    uint32_t n = 2 + (uint32_t)hm_rng_below(rng, j->o.dp > 2 ? 2 : 1), dp = any_dp(j, rng);
    double by = 1.1 + factor(rng) / 3;
    for (uint32_t k = 0; k < n; k++)
        slow(j, WORKER, any_stage(j, rng), (dp + k) % j->o.dp, by, k ? step_at(&j->o, (double)k / n) + 1 : 1,
             k + 1 < n ? step_at(&j->o, (double)(k + 1) / n) : 1000000, "");
}
static void half(struct job *j, struct hm_rng *rng) { /* half or more of the replicas, all but one */
    uint32_t from = j->o.dp / 2, n = from + (uint32_t)hm_rng_below(rng, j->o.dp - from);
    if (n == 0) n = 1;
    double by = factor(rng);
    for (uint32_t dp = 0; dp < n; dp++) slow(j, REPLICA, 0, dp, by, 0, 0, "");
}
static void paces(struct job *j, struct hm_rng *rng) { /* each replica its own, one sound */
    double most = log(factor(rng));
    for (uint32_t dp = 1; dp < j->o.dp; dp++) slow(j, REPLICA, 0, dp, exp(most * between(rng, 0.2, 1)), 0, 0, "");
}
static void generations(struct job *j, struct hm_rng *rng) { /* two kinds of machines by node */
    double by = between(rng, 1.15, 1.8);
    bool odd = hm_rng_below(rng, 2);
    for (uint32_t dp = 0; dp < j->o.dp; dp++)
        if (odd ? dp % 2 : dp >= (j->o.dp + 1) / 2) slow(j, REPLICA, 0, dp, by, 0, 0, "");
}
static void forward_only(struct job *j, struct hm_rng *rng) {
    slow(j, WORKER, any_stage(j, rng), any_dp(j, rng), 1.05 + factor(rng) / 3, 0, 0, ",op=forward");
    j->culprit[j->n - 1].op = "forward-compute";
}
static void backward_only(struct job *j, struct hm_rng *rng) {
    slow(j, WORKER, any_stage(j, rng), any_dp(j, rng), factor(rng), 0, 0, ",op=backward");
    j->culprit[j->n - 1].op = "backward-compute";
}
static void optimizer_only(struct job *j, struct hm_rng *rng) {
    slow(j, WORKER, any_stage(j, rng), any_dp(j, rng), between(rng, 5, 40), 0, 0, ",op=optimizer");
    j->culprit[j->n - 1].op = "optimizer";
}
static void drift(struct job *j, struct hm_rng *rng) {
    enum cause c = worker_or_replica(rng);
    slow(j, c, any_stage(j, rng), any_dp(j, rng), 1.1 + factor(rng) / 2, 1, 1000000, ",from=1");
    j->culprit[j->n - 1].last = -1; /* when it begins to count is a matter of taste */
}
static void on_and_off(struct job *j, struct hm_rng *rng) {
    char keys[40];
    unsigned every = 6 + (unsigned)hm_rng_below(rng, 8);
    (void)snprintf(keys, sizeof keys, ",every=%u,for=%u", every, 2 + (unsigned)hm_rng_below(rng, every / 2));
    slow(j, WORKER, any_stage(j, rng), any_dp(j, rng), 1.1 + factor(rng) / 2, 0, 0, keys);
    j->culprit[j->n - 1].last = -1;
}
static void beside_sequences(struct job *j, struct hm_rng *rng) {
    struct culprit *c = add(j, SEQUENCES, 0, 0);
    c->cause = SEQUENCES;
    (void)snprintf(c->inject, sizeof c->inject, "sequences:max=32768,tail=%.2f,quadratic=%.3f", between(rng, 0.9, 1.5),
                   between(rng, 0.05, 0.4));
    enum cause who = worker_or_replica(rng);
    int64_t from = hm_rng_below(rng, 2) ? step_at(&j->o, 0.4) : 0;
    slow(j, who, any_stage(j, rng), any_dp(j, rng), 1.2 + factor(rng) / 2, from, from ? 1000000 : 0, "");
}
static void sequences_alone(struct job *j, struct hm_rng *rng) {
    struct culprit *c = add(j, SEQUENCES, 0, 0);
    (void)snprintf(c->inject, sizeof c->inject, "sequences:max=32768,tail=%.2f,quadratic=%.3f", between(rng, 0.9, 1.5),
                   between(rng, 0.05, 0.8));
}
static void heavy_stage(struct job *j, struct hm_rng *rng) {
    if (j->o.pp > 1) {
        struct culprit *c = add(j, STAGE, j->o.pp - 1, 0);
        (void)snprintf(c->inject, sizeof c->inject, "last-stage:factor=%.3f", factor(rng));
    }
    slow(j, WORKER, any_stage(j, rng), any_dp(j, rng), 1.2 + factor(rng) / 2, step_at(&j->o, between(rng, 0.1, 0.6)),
         1000000, "");
}

static const struct kind {
    const char *name;
    void (*draw)(struct job *j, struct hm_rng *rng);
} kinds[] = {{"healthy", healthy},
             {"all the time", steady},
             {"late", late},
             {"for a while", for_a_while},
             {"one after another", moving},
             {"half of the replicas and more", half},
             {"each replica its own pace", paces},
             {"two generations of GPUs", generations},
             {"forward only", forward_only},
             {"backward only", backward_only},
             {"optimizer only", optimizer_only},
             {"drift", drift},
             {"on and off", on_and_off},
             {"beside sequence lengths", beside_sequences},
             {"sequence lengths alone", sequences_alone},
             {"late, beside a heavy stage", heavy_stage}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void draw_job(struct job *j, uint64_t seed, uint64_t number) {
    struct hm_rng rng;
    hm_synth_stream(&rng, seed, 0x57a99, number, HM_NO_LANE);
    *j = (struct job){.kind = number % KINDS, .weather = (enum weather)(number / KINDS % (WEATHERS + 1) % WEATHERS)};
    lay_out(&j->o, &rng);
    if (j->weather == WANDERING)
        (void)snprintf(j->background, MOST_TEXT, "wander:spread=%.4f,memory=%.2f", between(&rng, 0.005, 0.02),
                       between(&rng, 0.5, 0.9));
    if (j->weather == TAILS)
        (void)snprintf(j->background, MOST_TEXT, "tails:spread=%.4f,tail=3", between(&rng, 0.005, 0.03));
    if (j->weather == NATURAL) (void)snprintf(j->background, MOST_TEXT, "machines:spread=0.015");
    kinds[j->kind].draw(j, &rng);
}

/* ---- truth ---- */

/* The job with the culprits whose bit is set in `with`; the others leave neutral injections, since random numbers go by place. */
static struct hm_trace *make(const struct job *j, size_t only, bool all, struct hm_error *err) {
    const char *inject[MOST_CULPRITS + 1];
    struct hm_synth_options o = j->o;
    const char *neutral = "slow-op:type=optimizer,factor=1";
    inject[0] = j->background[0] ? j->background : neutral;
    for (size_t i = 0; i < j->n; i++) inject[i + 1] = all || i == only ? j->culprit[i].inject : neutral;
    o.inject = inject, o.n_inject = j->n + 1;
    return hm_synth_trace(&o, err);
}

/* The mean step; for sequences at equal work, whose mean drawn is 1 only in the long run. */
static double step_of(const struct job *j, size_t only, struct hm_error *err) {
    struct hm_trace *t = make(j, only, false, err);
    struct hm_scenarios s;
    double mean = NAN;
    if (t && hm_scenarios_begin(&s, t, 1) == 0) {
        mean = hm_scenario_mean_s(&s, NULL, NULL, NULL);
        hm_scenarios_end(&s);
        if (only < j->n && j->culprit[only].cause == SEQUENCES)
            mean *=
                (j->o.forward_s + j->o.backward_s) / (t->ideal_s[HM_FORWARD_COMPUTE] + t->ideal_s[HM_BACKWARD_COMPUTE]);
    }
    hm_trace_free(t);
    return mean;
}

static int measure(struct job *j, struct hm_error *err) {
    double calm = step_of(j, SIZE_MAX, err);
    for (size_t i = 0; i < j->n; i++) {
        /* of many alike one tells */
        struct culprit *c = &j->culprit[i];
        bool same = i > 0 && j->n > 8 && c->cause == REPLICA && strncmp(kinds[j->kind].name, "each", 4) != 0;
        c->cost = same ? c[-1].cost : step_of(j, i, err) / calm - 1;
        if (isnan(c->cost)) return -1;
    }
    return isnan(calm) ? -1 : 0;
}

/* ---- judging ---- */

static bool at(const struct culprit *c, const struct hm_cause *named) {
    if (strcmp(cause_names[c->cause], named->cause) != 0) return false;
    if (c->cause == WORKER) {
        for (size_t i = 0; i < named->n_workers; i++)
            if (named->workers[i].stage == c->stage && named->workers[i].dp_rank == c->dp) return true;
        return false;
    }
    if (c->cause == REPLICA) {
        for (size_t i = 0; i < named->n_dp_ranks; i++)
            if (named->dp_ranks[i] == c->dp) return true;
        return false;
    }
    return true;
}

/* Everybody whom a cause names has been put in. */
static bool all_known(const struct job *j, const struct hm_cause *named) {
    size_t places = strcmp(named->cause, cause_names[WORKER]) == 0    ? named->n_workers
                    : strcmp(named->cause, cause_names[REPLICA]) == 0 ? named->n_dp_ranks
                                                                      : 1,
           known = 0;
    for (size_t i = 0; i < j->n; i++) {
        bool twice = false;
        for (size_t k = 0; k < i; k++)
            twice |= j->culprit[k].cause == j->culprit[i].cause && j->culprit[k].stage == j->culprit[i].stage &&
                     j->culprit[k].dp == j->culprit[i].dp;
        known += !twice && at(&j->culprit[i], named);
    }
    return known >= places;
}

/* Steps named and steps put in: at least 0.8 of all in common. */
static bool steps_fit(const struct job *j, const struct culprit *c, const struct hm_cause *named,
                      const struct hm_analysis *a) {
    size_t both = 0, either = 0;
    (void)j;
    for (size_t t = 0; t < a->n_steps; t++) {
        bool in = c->last == 0 || (a->steps[t].step >= c->first && a->steps[t].step <= c->last),
             said = named->n_steps == 0;
        for (size_t k = 0; k < named->n_steps; k++) said |= named->steps[k] == a->steps[t].step;
        both += in && said, either += in || said;
    }
    return either == 0 || (double)both >= 0.8 * (double)either;
}

static void judge(struct job *j, const struct hm_diagnosis *d, const struct hm_analysis *a) {
    double largest = 0;
    j->exact = j->steps_right = true;
    for (size_t i = 0; i < j->n; i++) {
        const struct culprit *c = &j->culprit[i];
        largest = fmax(largest, c->cost);
        if (c->cost < (kinds[j->kind].draw == paces ? must_of_paces : must)) continue;
        bool named = false, fits = c->last < 0, op = !c->op;
        for (size_t k = 0; k < d->n_causes; k++) {
            if (!at(c, &d->causes[k])) continue;
            named = true;
            fits |= steps_fit(j, c, &d->causes[k], a);
            op |= d->causes[k].n_op_types == 1 && c->op && strcmp(d->causes[k].op_types[0], c->op) == 0;
        }
        j->exact &= named && op;
        j->steps_right &= named && fits;
    }
    j->counts = largest >= must;
    size_t length = 0;
    for (size_t k = 0; k < d->n_causes; k++) {
        const struct hm_cause *c = &d->causes[k];
        if (length < sizeof j->said - 60) {
            length += (size_t)snprintf(j->said + length, sizeof j->said - length, " %s %.2f", c->cause, c->recovers);
            for (size_t i = 0; i < c->n_workers && i < 4 && length < sizeof j->said - 60; i++)
                length += (size_t)snprintf(j->said + length, sizeof j->said - length, " s%ud%u", c->workers[i].stage,
                                           c->workers[i].dp_rank);
            for (size_t i = 0; i < c->n_dp_ranks && i < 4 && length < sizeof j->said - 60; i++)
                length += (size_t)snprintf(j->said + length, sizeof j->said - length, " d%u", c->dp_ranks[i]);
        }
        if (strcmp(c->cause, "unexplained") == 0) continue;
        if (!j->accused) /* the first one */
            for (size_t i = 0; i < j->n; i++) j->first |= j->culprit[i].cost >= 0.5 * must && at(&j->culprit[i], c);
        j->accused = true;
        j->innocent |= !all_known(j, c);
    }
    j->exact &= !j->innocent;
}

static int run(struct job *j, bool show, struct hm_error *err) {
    if (measure(j, err) != 0) return -1;
    struct hm_trace *t = make(j, SIZE_MAX, true, err);
    const struct hm_analysis_options ao = {.threads = 1};
    struct hm_analysis *a = t ? hm_analyze(t, &ao, err) : NULL;
    struct hm_diagnosis *d = a ? hm_diagnose(t, a, 1, err) : NULL;
    if (d) {
        j->slowdown = a->slowdown;
        judge(j, d, a);
        struct hm_out *out = show ? hm_out_open("-", err) : NULL;
        if (out) {
            hm_analysis_write_json(a, d, out);
            (void)hm_out_commit(out, err);
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
    j->failed = run(j, false, &err) != 0;
    if (j->failed) (void)fprintf(stderr, "job %zu: %s\n", index, err.message);
}

/* ---- results ---- */

static void describe(const struct job *j, size_t number) {
    const struct hm_synth_options *o = &j->o;
    printf("  job %zu (%s, %s): dp %u pp %u vpp %u mb %u steps %u noise %.3f S %.3f; --seed %llu;", number,
           kinds[j->kind].name, weather_names[j->weather], o->dp, o->pp, o->vpp, o->microbatches, o->steps, o->noise,
           j->slowdown, (unsigned long long)o->seed);
    for (size_t i = 0; i < j->n && i < 6; i++) printf(" [%s: %.1f %%]", j->culprit[i].inject, 100 * j->culprit[i].cost);
    printf(" said:%s%s%s%s\n", j->said, j->exact ? "" : " NOT EXACT", j->innocent ? " INNOCENT" : "",
           j->steps_right ? "" : " STEPS");
}

static void line(const char *name, const struct job *jobs, size_t n, size_t kind, int weather, bool well) {
    size_t all = 0, first = 0, exact = 0, innocent = 0, steps = 0;
    for (size_t i = 0; i < n; i++) {
        const struct job *j = &jobs[i];
        if (j->failed || (kind != SIZE_MAX && j->kind != kind) || (weather >= 0 && (int)j->weather != weather))
            continue;
        if ((j->kind == 0) != well) continue;
        if (!well && !j->counts) continue;
        all++, first += j->first, exact += j->exact, innocent += j->innocent, steps += j->exact && j->steps_right;
    }
    double to = all ? 100.0 / (double)all : 0;
    if (well)
        printf("%-32s %6zu %37.2f\n", name, all, (double)innocent * to);
    else
        printf("%-32s %6zu %8.2f %8.2f %8.2f %10.2f\n", name, all, (double)first * to, (double)exact * to,
               (double)steps * to, (double)innocent * to);
}

static void print_results(const struct job *jobs, size_t n, bool list) {
    for (size_t i = 0; list && i < n; i++)
        if (jobs[i].counts ? !jobs[i].first || !jobs[i].exact || !jobs[i].steps_right : jobs[i].innocent)
            describe(&jobs[i], i);
    printf("%-32s %6s %8s %8s %8s %10s\n", "kind, % of its jobs", "jobs", "first", "exact", "+ steps", "innocent");
    for (size_t k = 1; k < KINDS; k++) line(kinds[k].name, jobs, n, k, -1, false);
    line("all of them", jobs, n, SIZE_MAX, -1, false);
    for (int w = 0; w < WEATHERS; w++) line(weather_names[w], jobs, n, SIZE_MAX, w, false);
    line("healthy", jobs, n, SIZE_MAX, -1, true);
    for (int w = 0; w < WEATHERS; w++) {
        char name[60];
        (void)snprintf(name, sizeof name, "healthy, %s", weather_names[w]);
        line(name, jobs, n, SIZE_MAX, w, true);
    }
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 800;
    struct bench b = {.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    if (argc > 3) {
        static struct job j;
        struct hm_error err = {0};
        draw_job(&j, b.seed, strtoull(argv[3], NULL, 10));
        if (run(&j, true, &err) != 0) {
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
    printf("%zu jobs, seed %llu; %.1f s\n\n", n, (unsigned long long)b.seed, hm_now_s() - begin);
    print_results(b.job, n, getenv("HINDMOST_BENCH_LIST") != NULL);
    hm_free(b.job);
    return 0;
}
