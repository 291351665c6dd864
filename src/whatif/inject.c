/* inject.c - stragglers for synthetic traces: one row a kind, one function a mechanism.
 *
 * The kinds are the causes of OSDI 2025: slow workers, a heavy stage, sequence lengths, Python garbage
 * collection; those of spec "online": slow links, data loading; and what real machines do without being at fault: their
 * pace wanders, no two are alike, single ops take long. Every injection draws from its own stream, so that a trace with
 * and one without it share all other durations. */
#include "synth.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct range {
    int64_t first, last;
};

enum key {
    K_STAGE,
    K_DP,
    K_STEPS,
    K_MB,
    RANGES,
    K_FACTOR = RANGES,
    K_FORWARD,
    K_BACKWARD,
    K_MAX,
    K_MIN,
    K_TAIL,
    K_QUADRATIC,
    K_EVERY,
    K_FOR,
    K_FROM,
    K_MS,
    K_SHARE,
    K_SPREAD,
    K_MEMORY,
    K_TYPE,
    K_OP,
    KEYS
};

static const struct {
    const char *name;
    double least, most;
} keys[KEYS] = {
    [K_STAGE] = {"stage", 0, 0},
    [K_DP] = {"dp", 0, 0},
    [K_STEPS] = {"steps", 0, 0},
    [K_MB] = {"mb", 0, 0},
    [K_FACTOR] = {"factor", 0.01, 1e6},
    [K_FORWARD] = {"forward", 0.01, 1e6},
    [K_BACKWARD] = {"backward", 0.01, 1e6},
    [K_MAX] = {"max", 2, 1e9},
    [K_MIN] = {"min", 1, 1e9},
    [K_TAIL] = {"tail", 0.05, 100},
    [K_QUADRATIC] = {"quadratic", 0, 1},
    [K_EVERY] = {"every", 1, 1e9},
    [K_FOR] = {"for", 1, 1e9},
    [K_FROM] = {"from", 0.01, 1e6},
    [K_MS] = {"ms", 0, 1e9},
    [K_SHARE] = {"share", 0, 1},
    [K_SPREAD] = {"spread", 0, 2},
    [K_MEMORY] = {"memory", 0, 0.99},
    [K_TYPE] = {"type", 0, 0},
    [K_OP] = {"op", 0, 0},
};

/* What op= may name: the ops that are a worker's own. */
static const struct {
    const char *name;
    int type;
} own_ops[] = {{"forward", HM_FORWARD_COMPUTE}, {"backward", HM_BACKWARD_COMPUTE}, {"optimizer", HM_OPTIMIZER}};
enum { OWN_OPS = sizeof own_ops / sizeof own_ops[0] };

struct hm_injection {
    const struct kind *kind;
    struct range range[RANGES];
    double number[KEYS]; /* NaN: not given and no default */
    int type;            /* of type= or op=; -1: not given */
    double mean_cost;    /* sequences: expected cost of a microbatch */
};

/* One replica in one step. */
struct cell {
    size_t t;           /* index of the step */
    uint64_t lane, tag; /* tag: of the injection's streams */
    double *value, *delay_s, *scratch;
};

typedef void (*apply_fn)(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c);

/* ---- mechanisms ---- */

static bool within(const struct range *r, int64_t value) {
    return value >= r->first && value <= r->last;
}

/* The factor of an op type in a step. With `from` it grows evenly from that in the first of its steps to its full size
 * in the last one. */
static double factor_in(const struct hm_synth_job *job, const struct hm_injection *in, int type, size_t t) {
    double own = NAN, from = in->number[K_FROM];
    if (type == HM_FORWARD_COMPUTE) own = in->number[K_FORWARD];
    if (type == HM_BACKWARD_COMPUTE) own = in->number[K_BACKWARD];
    double factor = isnan(own) ? in->number[K_FACTOR] : own;
    if (isnan(from)) return factor;
    int64_t first = in->range[K_STEPS].first, last = in->range[K_STEPS].last;
    if (first < job->step_number[0]) first = job->step_number[0];
    if (last > job->step_number[job->o.steps - 1]) last = job->step_number[job->o.steps - 1];
    return last > first ? from + (factor - from) * (double)(job->step_number[t] - first) / (double)(last - first)
                        : factor;
}

/* Compute ops of the chosen stages and microbatches take longer; or those of one op type alone. */
static void scale_compute(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    for (int k = 0; k < OWN_OPS; k++) {
        int type = own_ops[k].type;
        if (in->type >= 0 ? type != in->type : !hm_is_compute(type)) continue;
        double factor = factor_in(job, in, type, c->t);
        for (int64_t stage = in->range[K_STAGE].first; stage <= in->range[K_STAGE].last; stage++) {
            uint32_t first = hm_synth_first(job, (uint32_t)stage, type), n = hm_synth_count(job, (uint32_t)stage, type);
            for (uint32_t i = first; i < first + n; i++)
                if (!hm_is_compute(type) || within(&in->range[K_MB], job->op[i].mb)) c->value[i] *= factor;
        }
    }
}

/* All computes of a worker in a step, times a factor. */
static void scale_worker(const struct hm_synth_job *job, const struct cell *c, int64_t stage, double factor) {
    for (int type = HM_FORWARD_COMPUTE; type <= HM_BACKWARD_COMPUTE; type++) {
        uint32_t first = hm_synth_first(job, (uint32_t)stage, type), n = hm_synth_count(job, (uint32_t)stage, type);
        for (uint32_t i = first; i < first + n; i++) c->value[i] *= factor;
    }
}

/* The pace of each worker wanders from step to step: an AR(1) series of that spread, each step `memory` times the one
 * before and something new. Summed up from the past, so that any step can be made by itself. */
static void wander(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    double spread = in->number[K_SPREAD], memory = in->number[K_MEMORY];
    for (int64_t stage = in->range[K_STAGE].first; stage <= in->range[K_STAGE].last; stage++) {
        double x = 0, weight = sqrt(1 - memory * memory);
        for (uint64_t back = 0; weight > 1e-3; back++, weight *= memory) {
            struct hm_rng rng;
            hm_synth_stream(&rng, job->o.seed, c->tag, c->t - back, c->lane * HM_MAX_STAGES + (uint64_t)stage);
            x += weight * hm_rng_normal(&rng);
        }
        scale_worker(job, c, stage, exp(spread * x));
    }
}

/* No two machines are alike: each worker has a pace of its own, all the time. */
static void differ(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    for (int64_t stage = in->range[K_STAGE].first; stage <= in->range[K_STAGE].last; stage++) {
        struct hm_rng rng;
        hm_synth_stream(&rng, job->o.seed, c->tag, HM_NO_LANE, c->lane * HM_MAX_STAGES + (uint64_t)stage);
        scale_worker(job, c, stage, exp(in->number[K_SPREAD] * hm_rng_normal(&rng)));
    }
}

/* Noise with heavy tails on every compute: Student's t with `tail` degrees of freedom in the logarithm. */
static void add_tails(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    struct hm_rng rng;
    int freedom = (int)in->number[K_TAIL] > 1 ? (int)in->number[K_TAIL] : 1;
    hm_synth_stream(&rng, job->o.seed, c->tag, c->t, c->lane);
    for (uint32_t i = 0; i < job->n_ops; i++) {
        if (!hm_is_compute((int)job->op[i].type)) continue;
        double normal = hm_rng_normal(&rng), square = 0;
        for (int k = 0; k < freedom; k++) {
            double x = hm_rng_normal(&rng);
            square += x * x / freedom;
        }
        double t = normal / sqrt(square);
        if (within(&in->range[K_STAGE], job->op[i].stage))
            c->value[i] *= exp(in->number[K_SPREAD] * fmax(-5, fmin(t, 20)));
    }
}

/* The cost of a microbatch packed with sequences up to `max` tokens: the sum of squared lengths (attention), relative
 * to one sequence that fills it. Lengths are Pareto from `min`; the last one is cut to fit. (OSDI 2025:
 * long-tailed lengths, packing.) */
static double packed_cost(const struct hm_injection *in, struct hm_rng *rng) {
    double max = in->number[K_MAX], min = in->number[K_MIN], power = -1 / in->number[K_TAIL], room = max, sum = 0;
    while (room > 0) {
        double length = min * pow(1 - hm_rng_uniform(rng), power);
        if (length > room) length = room;
        sum += length * length;
        room -= length;
    }
    return sum / (max * max);
}

/* All stages of a replica work on the same microbatch: forward and backward, everywhere, by the same factor, whose mean
 * is 1. */
static void pack_sequences(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    struct hm_rng rng;
    double quadratic = in->number[K_QUADRATIC];
    hm_synth_stream(&rng, job->o.seed, c->tag, c->t, c->lane);
    for (uint32_t mb = 0; mb < job->o.microbatches; mb++)
        c->scratch[mb] = 1 - quadratic + quadratic * packed_cost(in, &rng) / in->mean_cost;
    for (uint32_t stage = 0; stage < job->o.pp; stage++)
        for (int type = HM_FORWARD_COMPUTE; type <= HM_BACKWARD_COMPUTE; type++) {
            uint32_t first = hm_synth_first(job, stage, type), n = hm_synth_count(job, stage, type);
            for (uint32_t i = first; i < first + n; i++) c->value[i] *= c->scratch[job->op[i].mb];
        }
}

/* Every worker collects once in `every` steps, each at a phase of its own, during some forward. */
static void collect_garbage(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    uint64_t every = (uint64_t)in->number[K_EVERY];
    for (int64_t stage = in->range[K_STAGE].first; stage <= in->range[K_STAGE].last; stage++) {
        struct hm_rng rng;
        hm_synth_stream(&rng, job->o.seed, c->tag, HM_NO_LANE, c->lane * HM_MAX_STAGES + (uint64_t)stage);
        if (((uint64_t)job->step_number[c->t] + hm_rng_below(&rng, every)) % every != 0) continue;
        hm_synth_stream(&rng, job->o.seed, c->tag, c->t, c->lane * HM_MAX_STAGES + (uint64_t)stage);
        uint32_t first = hm_synth_first(job, (uint32_t)stage, HM_FORWARD_COMPUTE),
                 n = hm_synth_count(job, (uint32_t)stage, HM_FORWARD_COMPUTE);
        c->value[first + hm_rng_below(&rng, n)] += 1e-3 * in->number[K_MS];
    }
}

/* Transfers between a stage and the next, both ways; with share < 1 the link flaps. */
static void slow_link(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    struct hm_rng rng;
    hm_synth_stream(&rng, job->o.seed, c->tag, c->t, c->lane);
    for (uint32_t i = 0; i < job->n_ops; i++)
        if (job->op[i].leader == i && job->op[i].edge >= 0 && within(&in->range[K_STAGE], job->op[i].edge) &&
            hm_rng_uniform(&rng) < in->number[K_SHARE])
            c->value[i] *= in->number[K_FACTOR];
}

static void wait_for_data(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    struct hm_rng rng;
    hm_synth_stream(&rng, job->o.seed, c->tag, c->t, c->lane);
    if (hm_rng_uniform(&rng) >= in->number[K_SHARE]) return;
    for (int64_t stage = in->range[K_STAGE].first; stage <= in->range[K_STAGE].last; stage++)
        c->delay_s[stage] += 1e-3 * in->number[K_MS];
}

static void scale_type(const struct hm_synth_job *job, const struct hm_injection *in, const struct cell *c) {
    const struct range *stages = &in->range[K_STAGE];
    for (int64_t stage = stages->first; stage <= stages->last; stage++) {
        uint32_t first = hm_synth_first(job, (uint32_t)stage, in->type),
                 n = hm_synth_count(job, (uint32_t)stage, in->type);
        for (uint32_t i = first; i < first + n; i++) {
            const struct hm_synth_op *op = &job->op[i], *leader = &job->op[op->leader];
            if (leader->across != (c->lane == HM_NO_LANE) ||
                (hm_is_compute(in->type) && !within(&in->range[K_MB], op->mb)))
                continue;
            /* A group with several chosen members is scaled once, at the first of them. */
            if (leader != op && leader->type == op->type &&
                (within(stages, leader->stage) || (op->across && stage > stages->first)))
                continue;
            c->value[op->leader] *= in->number[K_FACTOR];
        }
    }
}

/* ---- kinds ---- */

#define KEY(k) (1u << (k))
#define SCALING                                                                                                        \
    (KEY(K_DP) | KEY(K_FACTOR) | KEY(K_FORWARD) | KEY(K_BACKWARD) | KEY(K_STEPS) | KEY(K_MB) | KEY(K_EVERY) |          \
     KEY(K_FOR) | KEY(K_FROM) | KEY(K_OP))
static const struct kind {
    const char *name;
    apply_fn apply;
    unsigned takes; /* keys */
    struct {
        int key;
        double value;
    } defaults[6]; /* ranges: one value; -1: all; -2: the last stage */
} kinds[] = {
    {"slow-worker", scale_compute, SCALING | KEY(K_STAGE), {{K_STAGE, 0}, {K_DP, 0}, {K_FACTOR, 2}}},
    {"last-stage", scale_compute, SCALING, {{K_STAGE, -2}, {K_DP, -1}, {K_FACTOR, 2}}},
    {"stage", scale_compute, SCALING | KEY(K_STAGE), {{K_STAGE, 0}, {K_DP, -1}, {K_FACTOR, 2}}},
    {"replica", scale_compute, SCALING | KEY(K_STAGE), {{K_STAGE, -1}, {K_DP, 0}, {K_FACTOR, 2}}},
    {"sequences",
     pack_sequences,
     KEY(K_MAX) | KEY(K_MIN) | KEY(K_TAIL) | KEY(K_QUADRATIC) | KEY(K_DP) | KEY(K_STEPS),
     {{K_DP, -1}, {K_MAX, 32768}, {K_MIN, 0}, {K_TAIL, 1.2}, {K_QUADRATIC, 0.5}}},
    {"gc",
     collect_garbage,
     KEY(K_EVERY) | KEY(K_MS) | KEY(K_STAGE) | KEY(K_DP) | KEY(K_STEPS),
     {{K_STAGE, -1}, {K_DP, -1}, {K_EVERY, 40}, {K_MS, 300}}},
    {"link",
     slow_link,
     KEY(K_STAGE) | KEY(K_DP) | KEY(K_FACTOR) | KEY(K_STEPS) | KEY(K_SHARE),
     {{K_STAGE, 0}, {K_DP, 0}, {K_FACTOR, 10}, {K_SHARE, 1}}},
    {"data-loading",
     wait_for_data,
     KEY(K_STAGE) | KEY(K_DP) | KEY(K_MS) | KEY(K_SHARE) | KEY(K_STEPS),
     {{K_STAGE, 0}, {K_DP, 0}, {K_MS, 200}, {K_SHARE, 0.1}}},
    {"slow-op",
     scale_type,
     KEY(K_TYPE) | KEY(K_FACTOR) | KEY(K_STAGE) | KEY(K_DP) | KEY(K_STEPS) | KEY(K_MB),
     {{K_STAGE, -1}, {K_DP, -1}, {K_FACTOR, 2}}},
    {"wander",
     wander,
     KEY(K_STAGE) | KEY(K_DP) | KEY(K_STEPS) | KEY(K_SPREAD) | KEY(K_MEMORY),
     {{K_STAGE, -1}, {K_DP, -1}, {K_SPREAD, 0.02}, {K_MEMORY, 0.8}}},
    {"machines",
     differ,
     KEY(K_STAGE) | KEY(K_DP) | KEY(K_STEPS) | KEY(K_SPREAD),
     {{K_STAGE, -1}, {K_DP, -1}, {K_SPREAD, 0.015}}},
    {"tails",
     add_tails,
     KEY(K_STAGE) | KEY(K_DP) | KEY(K_STEPS) | KEY(K_SPREAD) | KEY(K_TAIL),
     {{K_STAGE, -1}, {K_DP, -1}, {K_SPREAD, 0.02}, {K_TAIL, 3}}},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static int64_t range_end(const struct hm_synth_job *job, int key) { /* the largest value there is */
    switch (key) {
    case K_STAGE:
        return job->o.pp - 1;
    case K_DP:
        return job->o.dp - 1;
    case K_STEPS:
        return job->step_number[job->o.steps - 1];
    default:
        return job->o.microbatches - 1;
    }
}

static void set_defaults(const struct hm_synth_job *job, struct hm_injection *in) {
    for (int k = 0; k < RANGES; k++) in->range[k] = (struct range){0, range_end(job, k)};
    for (int k = RANGES; k < KEYS; k++) in->number[k] = NAN;
    for (size_t k = 0; k < sizeof in->kind->defaults / sizeof in->kind->defaults[0]; k++) {
        int key = in->kind->defaults[k].key;
        double value = in->kind->defaults[k].value;
        if (k && key == K_STAGE) continue; /* unused entries read {K_STAGE, 0} */
        if (key >= RANGES)
            in->number[key] = value;
        else if (value == -2)
            in->range[key].first = in->range[key].last;
        else if (value >= 0)
            in->range[key] = (struct range){(int64_t)value, (int64_t)value};
    }
}

/* ---- reading ---- */

#define wrong(text, err, format, ...) hm_fail(err, HM_ERR_ARGUMENT, "--inject %.200s: " format, text, ##__VA_ARGS__)

static int read_range(const struct hm_synth_job *job, struct hm_injection *in, const char *text, int key,
                      const char *value, struct hm_error *err) {
    int64_t first, last;
    if (!hm_parse_range(value, NULL, &first, &last))
        return wrong(text, err, "%s=%s is not a number or a range such as 2 or 2-5", keys[key].name, value);
    in->range[key] = (struct range){first, last};
    if (key == K_STEPS) {
        size_t hit = 0;
        for (uint32_t t = 0; t < job->o.steps; t++) hit += within(&in->range[key], job->step_number[t]);
        if (!hit)
            return wrong(text, err,
                         "steps=%s holds none of the recorded steps; they are sampled from %" PRId64 " to %" PRId64,
                         value, job->step_number[0], job->step_number[job->o.steps - 1]);
    } else if (last > range_end(job, key)) {
        return wrong(text, err, "%s=%s is outside the layout; it has 0 to %" PRId64, keys[key].name, value,
                     range_end(job, key));
    }
    return 0;
}

static int read_pair(const struct hm_synth_job *job, struct hm_injection *in, const char *text, const char *name,
                     const char *value, struct hm_error *err) {
    int key = 0;
    while (key < KEYS && !(strcmp(keys[key].name, name) == 0 && in->kind->takes & KEY(key))) key++;
    if (key == KEYS) {
        struct hm_str known = {0};
        for (int k = 0; k < KEYS; k++)
            if (in->kind->takes & KEY(k)) hm_str_add(&known, "%s%s", known.length ? ", " : "", keys[k].name);
        int status = wrong(text, err, "%s has no key '%s'; it takes %s", in->kind->name, name,
                           known.text ? known.text : "others");
        hm_str_free(&known);
        return status;
    }
    if (key < RANGES) return read_range(job, in, text, key, value, err);
    if (key == K_TYPE) {
        in->type = hm_op_type_find(value, strlen(value));
        return in->type >= 0
                   ? 0
                   : wrong(text, err,
                           "type=%s is no op type; give a name such as forward-compute or grads-reduce-scatter", value);
    }
    if (key == K_OP) {
        for (int k = 0; k < OWN_OPS; k++)
            if (strcmp(own_ops[k].name, value) == 0) in->type = own_ops[k].type;
        return in->type >= 0
                   ? 0
                   : wrong(text, err, "op=%s is not one of a worker's own; give forward, backward or optimizer", value);
    }
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= keys[key].least && number <= keys[key].most))
        return wrong(text, err, "%s=%s must be a number from %g to %g", name, value, keys[key].least, keys[key].most);
    in->number[key] = number;
    return 0;
}

/* What only shows when all keys are read. */
static int finish(const struct hm_synth_job *job, size_t index, struct hm_injection *in, const char *text,
                  struct hm_error *err) {
    if (in->kind->apply == slow_link) {
        int64_t edges = job->o.pp < 2 ? 0 : job->o.vpp > 1 ? job->o.pp : job->o.pp - 1;
        if (edges == 0) return wrong(text, err, "there is no link between stages with one stage; use --pp 2 or more");
        if (in->range[K_STAGE].last >= edges)
            return wrong(text, err, "link %" PRId64 " would leave the last stage; there are 0 to %" PRId64,
                         in->range[K_STAGE].last, edges - 1);
    }
    if (in->kind->apply == scale_type) {
        if (in->type < 0) return wrong(text, err, "needs type=NAME, an op type such as grads-reduce-scatter");
        size_t found = 0;
        for (size_t i = 0; i < job->n_ops; i++)
            found += (int)job->op[i].type == in->type && within(&in->range[K_STAGE], job->op[i].stage);
        if (!found) return wrong(text, err, "this job has no %s there", hm_op_types[in->type].name);
        if (hm_op_types[in->type].scope == HM_DP_GROUP || hm_op_types[in->type].scope == HM_EVERYBODY)
            if (in->range[K_DP].first > 0 || in->range[K_DP].last < (int64_t)job->o.dp - 1)
                return wrong(text, err, "all DP ranks share one %s; leave dp out", hm_op_types[in->type].name);
    }
    if (in->kind->apply == scale_compute) {
        double every = in->number[K_EVERY], on = in->number[K_FOR];
        if (!isnan(on) && isnan(every)) return wrong(text, err, "for=%g needs every=N: so many steps of every N", on);
        if (on > every) return wrong(text, err, "for=%g is more than every=%g", on, every);
        if (in->type >= 0 && (!isnan(in->number[K_FORWARD]) || !isnan(in->number[K_BACKWARD])))
            return wrong(text, err, "op= and forward= or backward= exclude each other; use op= with factor=");
    }
    if (in->kind->apply == pack_sequences) {
        if (in->number[K_MIN] == 0) in->number[K_MIN] = fmax(1, in->number[K_MAX] / 256);
        if (in->number[K_MIN] > in->number[K_MAX]) return wrong(text, err, "min is larger than max");
        if (in->number[K_MAX] / in->number[K_MIN] > 65536)
            return wrong(text, err, "max is more than 65536 times min; raise min");
        enum { SAMPLES = 2000 };
        struct hm_rng rng;
        hm_synth_stream(&rng, job->o.seed, HM_TAG_INJECTIONS + index, HM_NO_LANE, HM_NO_LANE);
        for (int i = 0; i < SAMPLES; i++) in->mean_cost += packed_cost(in, &rng) / SAMPLES;
    }
    return 0;
}

static int parse(const struct hm_synth_job *job, size_t index, struct hm_injection *in, const char *text,
                 struct hm_error *err) {
    char copy[512];
    size_t length = strcspn(text, ":");
    in->kind = NULL;
    in->type = -1;
    for (int k = 0; k < KINDS; k++)
        if (strlen(kinds[k].name) == length && strncmp(kinds[k].name, text, length) == 0) in->kind = &kinds[k];
    if (!in->kind) {
        struct hm_str known = {0};
        for (int k = 0; k < KINDS; k++) hm_str_add(&known, "%s%s", k ? ", " : "", kinds[k].name);
        int status = wrong(text, err, "no such kind; there are %s", known.text ? known.text : "others");
        hm_str_free(&known);
        return status;
    }
    set_defaults(job, in);
    if (strlen(text) >= sizeof copy) return wrong(text, err, "is longer than %zu characters", sizeof copy - 1);
    (void)snprintf(copy, sizeof copy, "%s", text[length] ? text + length + 1 : "");
    char *rest = copy, *part;
    while ((part = strsep(&rest, ",")) != NULL) {
        if (!*part && part == copy && !rest) break; /* "gc" and "gc:" take all defaults */
        char *equals = strchr(part, '=');
        if (!equals) return wrong(text, err, "'%s' is not key=value", part);
        *equals = 0;
        if (read_pair(job, in, text, part, equals + 1, err) != 0) return -1;
    }
    return finish(job, index, in, text, err);
}

int hm_injections_parse(struct hm_synth_job *job, struct hm_error *err) {
    job->injection = hm_alloc(job->o.n_inject, sizeof *job->injection);
    if (!job->injection) return hm_fail_memory(err);
    for (size_t i = 0; i < job->o.n_inject; i++) {
        if (parse(job, i, &job->injection[i], job->o.inject[i], err) != 0) return -1;
        job->n_injections++;
    }
    return 0;
}

/* With `every`, the first `for` (1) of so many step numbers, counted from the first of its steps. */
static bool now_on(const struct hm_injection *in, int64_t number) {
    double every = in->number[K_EVERY], on = isnan(in->number[K_FOR]) ? 1 : in->number[K_FOR];
    if (!within(&in->range[K_STEPS], number)) return false;
    if (in->kind->apply != scale_compute || isnan(every)) return true;
    return (number - in->range[K_STEPS].first) % (int64_t)every < (int64_t)on;
}

void hm_injections_apply(const struct hm_synth_job *job, size_t t, uint64_t lane, double *value, double *delay_s,
                         double *scratch) {
    for (size_t i = 0; i < job->n_injections; i++) {
        const struct hm_injection *in = &job->injection[i];
        if (!now_on(in, job->step_number[t])) continue;
        if (lane == HM_NO_LANE ? in->kind->apply != scale_type : !within(&in->range[K_DP], (int64_t)lane)) continue;
        in->kind->apply(job, in, &(struct cell){t, lane, HM_TAG_INJECTIONS + i, value, delay_s, scratch});
    }
}
