/* synth.c - traces made to order: program, drawn durations, replay, rows.
 *
 * The program is built by hm_job_pipeline from the op list with nominal times that only say in which order each stream
 * launches. A step's durations are drawn, one for each group of ops that move data together; the replay gives starts
 * and ends; the rows stream out replica by replica while the next step is made. */
#include "synth.h"

#include "job/schedule.h"
#include "whatif.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_STEP_OPS = 1 << 28 }; /* ops of all replicas in one step: 6 GiB a step in memory */

void hm_synth_defaults(struct hm_synth_options *o) {
    *o = (struct hm_synth_options){.dp = 4,
                                   .pp = 4,
                                   .vpp = 1,
                                   .tp = 1,
                                   .microbatches = 8,
                                   .steps = 16,
                                   .seed = 1,
                                   .forward_s = 0.05,
                                   .backward_s = 0.1,
                                   .p2p_s = 0.001,
                                   .dp_comm_s = 0.01};
}

void hm_synth_stream(struct hm_rng *rng, uint64_t seed, uint64_t tag, uint64_t step, uint64_t lane) {
    hm_rng_seed(rng, hm_mix64(hm_mix64(hm_mix64(hm_mix64(seed + 0x9e3779b97f4a7c15u) + tag) + step) + lane));
}

/* ---- options ---- */

static int check_options(const struct hm_synth_options *o, struct hm_error *err) {
    const struct hm_pipeline p = {o->pp, o->vpp, o->microbatches};
    struct {
        const char *name;
        uint64_t value, most;
    } sizes[] = {{"--dp", o->dp, HM_MAX_DP},
                 {"--pp", o->pp, HM_MAX_STAGES},
                 {"--vpp", o->vpp, HM_MAX_SEQ},
                 {"--tp", o->tp, 1 << 16},
                 {"--microbatches", o->microbatches, HM_MAX_SEQ},
                 {"--steps", o->steps, HM_MOST_STEPS}};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        if (sizes[k].value < 1 || sizes[k].value > sizes[k].most)
            return hm_fail(err, HM_ERR_ARGUMENT, "%s %" PRIu64 ": must be from 1 to %" PRIu64, sizes[k].name,
                           sizes[k].value, sizes[k].most);
    if (o->vpp > 1 && o->pp < 2)
        return hm_fail(err, HM_ERR_ARGUMENT, "--vpp %u: the interleaved schedule needs a pipeline; use --pp 2 or more",
                       o->vpp);
    if (!hm_pipeline_valid(&p))
        return hm_fail(err, HM_ERR_ARGUMENT,
                       "--microbatches %u: Megatron's interleaved schedule needs a multiple of --pp %u; use %u",
                       o->microbatches, o->pp, (o->microbatches / o->pp + 1) * o->pp);
    if ((uint64_t)o->vpp * o->microbatches > HM_MAX_SEQ)
        return hm_fail(err, HM_ERR_ARGUMENT, "--microbatches %u: more than %d computes a stage; use fewer",
                       o->microbatches, HM_MAX_SEQ);
    if ((double)o->dp * o->pp * o->vpp * o->microbatches * 6 > MAX_STEP_OPS)
        return hm_fail(err, HM_ERR_ARGUMENT, "--dp %u: a step would have more than %d ops; make the job smaller", o->dp,
                       MAX_STEP_OPS);
    if (!(o->forward_s >= 1e-6 && o->forward_s <= 1e5) || !(o->backward_s >= 1e-6 && o->backward_s <= 1e5))
        return hm_fail(err, HM_ERR_ARGUMENT, "--forward-ms and --backward-ms must be from 0.001 to 1e8");
    if (!(o->p2p_s >= 0 && o->p2p_s <= 1e5) || !(o->dp_comm_s >= 0 && o->dp_comm_s <= 1e5))
        return hm_fail(err, HM_ERR_ARGUMENT, "--p2p-ms and --dp-comm-ms must be from 0 to 1e8");
    if (!(o->noise >= 0 && o->noise <= 2))
        return hm_fail(err, HM_ERR_ARGUMENT, "--noise %g: a coefficient of variation is from 0 to 2", o->noise);
    return 0;
}

/* ---- the ops of a step ---- */

struct listing {
    struct hm_synth_job *job;
    struct hm_ref_op *ref; /* the same ops with nominal times, for the model */
    uint32_t n;
};

static void add(struct listing *l, uint32_t stage, int type, uint32_t seq, double start, double end, double base_s,
                int32_t mc) {
    l->job->op[l->n] = (struct hm_synth_op){.stage = stage,
                                            .type = (uint32_t)type,
                                            .seq = seq,
                                            .mc = mc,
                                            .mb = -1,
                                            .gmc = -1,
                                            .edge = -1,
                                            .base_s = base_s};
    l->ref[l->n++] = (struct hm_ref_op){stage, (uint32_t)type, seq, mc, -1, -1, start, end};
}

/* Where a stage's k-th forward and k-th backward stand among its computes, and what they are. */
struct place {
    uint32_t position;
    struct hm_pass pass;
};

/* The compute at position j runs from j + 1 to j + 1.5; receives are posted before it, sends follow it. */
static double begins(const struct place *p) {
    return p->position + 1.0;
}

static void list_computes(struct listing *l, uint32_t stage, int type, const struct place *place, uint32_t n) {
    const struct hm_synth_options *o = &l->job->o;
    for (uint32_t k = 0; k < n; k++) {
        add(l, stage, type, k, begins(&place[k]), begins(&place[k]) + 0.5,
            type == HM_FORWARD_COMPUTE ? o->forward_s : o->backward_s, (int32_t)place[k].pass.chunk);
        struct hm_synth_op *op = &l->job->op[l->n - 1];
        struct hm_ref_op *ref = &l->ref[l->n - 1];
        op->mb = ref->mb = (int32_t)place[k].pass.microbatch;
        op->gmc = ref->gmc = (int32_t)(place[k].pass.chunk * o->pp + stage);
    }
}

/* Without interleaving only transfers are recorded; with it Megatron's one call a compute, also where nothing moves:
 * before the model's first chunk and after its last. */
static void list_transfers(struct listing *l, uint32_t stage, int type, const struct place *place, uint32_t n) {
    const struct hm_synth_options *o = &l->job->o;
    if (o->pp < 2) return;
    bool towards_end = type == HM_FORWARD_SEND || type == HM_BACKWARD_RECV;
    for (uint32_t k = 0, seq = 0; k < n; k++) {
        uint32_t chunk = place[k].pass.chunk;
        bool moves = towards_end ? stage + 1 < o->pp || chunk + 1 < o->vpp : stage > 0 || chunk > 0;
        if (!moves && o->vpp == 1) continue;
        double at = hm_is_send(type) ? begins(&place[k]) + 0.6 : begins(&place[k]) - 0.2;
        add(l, stage, type, seq++, at, at + 0.1, o->p2p_s, -1);
        if (moves) l->job->op[l->n - 1].edge = (int32_t)(towards_end ? stage : (stage + o->pp - 1) % o->pp);
    }
}

/* What a step does besides: parameters gathered first, gradients and optimizer last. Only params-all-gather and
 * grads-reduce-scatter have a duration of their own among the options; the others are fractions, of the order seen in
 * public traces. The optimizer outlasts a transfer, so that the last send of a step, which nobody waits for when it
 * moves nothing, ends before the step does. */
static void list_frame(struct listing *l, uint32_t stage, int type, const struct place *backward, uint32_t n) {
    const struct hm_synth_options *o = &l->job->o;
    const double tail = 2.0 * n + 2;
    bool dp = o->dp > 1, ends = stage == 0 || stage == o->pp - 1;
    switch (type) {
    case HM_PARAMS_ALL_GATHER:
        for (uint32_t c = 0; dp && c < o->vpp; c++) add(l, stage, type, c, 0, 0.1, o->dp_comm_s, (int32_t)c);
        break;
    case HM_GRADS_REDUCE_SCATTER: /* the last chunk's gradients are complete first */
        for (uint32_t k = 0; dp && k < o->vpp; k++) {
            uint32_t chunk = o->vpp - 1 - k, last = n;
            while (backward[last - 1].pass.chunk != chunk) last--;
            double at = o->overlap_dp ? begins(&backward[last - 1]) + 0.6 : tail + 3 + k / (double)o->vpp;
            add(l, stage, type, k, at, at + 0.1, o->dp_comm_s, (int32_t)chunk);
        }
        break;
    case HM_LAYERNORM_ALL_REDUCE:
        add(l, stage, type, 0, tail + 1, tail + 1.5, 0.1 * o->dp_comm_s, -1);
        break;
    case HM_EMBEDDING_ALL_REDUCE:
        if (ends) add(l, stage, type, 0, tail + 2, tail + 2.5, 0.5 * o->dp_comm_s, -1);
        break;
    case HM_SEPARATE_ALL_REDUCE:
        if (dp && o->overlap_dp) add(l, stage, type, 0, tail + 3, tail + 3.5, 0.5 * o->dp_comm_s, -1);
        break;
    case HM_CLIP_MAIN_GRAD:
        add(l, stage, type, 0, tail + 5, tail + 5.5, 0.1 * o->dp_comm_s, -1);
        break;
    case HM_OPTIMIZER:
        add(l, stage, type, 0, tail + 6, tail + 6.5, 0.1 * o->forward_s + 2 * o->p2p_s, -1);
        break;
    case HM_GC:
        add(l, stage, type, 0, tail, tail, 0, -1);
        l->job->op[l->n - 1].mb = l->ref[l->n - 1].mb = 0; /* as the public traces have it */
        break;
    default:
        break;
    }
}

static void list_stage(struct listing *l, uint32_t stage, const struct hm_pass *order, struct place *forward,
                       struct place *backward) {
    const uint32_t n = l->job->o.vpp * l->job->o.microbatches;
    for (uint32_t j = 0, f = 0, b = 0; j < 2 * n; j++) {
        struct place p = {j, order[j]};
        if (order[j].backward)
            backward[b++] = p;
        else
            forward[f++] = p;
    }
    for (int type = 0; type < HM_OP_TYPES; type++) {
        l->job->first[stage * HM_OP_TYPES + (uint32_t)type] = l->n;
        const struct place *place =
            type == HM_FORWARD_COMPUTE || type == HM_FORWARD_SEND || type == HM_FORWARD_RECV ? forward : backward;
        if (hm_is_compute(type))
            list_computes(l, stage, type, place, n);
        else if (hm_is_p2p(type))
            list_transfers(l, stage, type, place, n);
        else
            list_frame(l, stage, type, backward, n);
    }
}

/* Ties each op to its slot and to the first op of its node. */
static void tie_to_model(struct hm_synth_job *job) {
    const struct hm_job *m = job->job;
    for (uint32_t i = 0; i < m->n_slots; i++) {
        const struct hm_slot *slot = &m->slot[i];
        job->op[hm_synth_first(job, slot->stage, (int)slot->cls) + slot->seq].slot = i;
    }
    for (uint32_t i = 0; i < job->n_ops; i++) {
        struct hm_synth_op *op = &job->op[i];
        const struct hm_node *node = &m->node[m->slot[op->slot].node];
        op->across = node->across >= 0;
        op->leader = i;
        for (uint32_t s = node->first_slot; s < node->first_slot + node->n_slots; s++) {
            const struct hm_slot *slot = &m->slot[s];
            uint32_t other = hm_synth_first(job, slot->stage, (int)slot->cls) + slot->seq;
            if (other < op->leader) op->leader = other;
        }
    }
}

static int build_job(struct hm_synth_job *job, const char *path, struct hm_error *err) {
    const struct hm_synth_options *o = &job->o;
    const struct hm_pipeline p = {o->pp, o->vpp, o->microbatches};
    const size_t n = (size_t)o->vpp * o->microbatches, most = o->pp * (6 * n + 2 * (size_t)o->vpp + 6);
    struct listing l = {.job = job, .ref = hm_alloc(most, sizeof *l.ref)};
    struct hm_pass *order = hm_alloc(2 * n, sizeof *order);
    struct place *place = hm_alloc(2 * n, sizeof *place);
    job->op = hm_alloc(most, sizeof *job->op);
    job->first = hm_alloc((size_t)o->pp * HM_OP_TYPES + 1, sizeof *job->first);
    int status = 0;
    if (!l.ref || !order || !place || !job->op || !job->first) {
        status = hm_fail_memory(err);
    } else {
        for (uint32_t stage = 0; stage < o->pp; stage++) {
            hm_schedule(&p, stage, order);
            list_stage(&l, stage, order, place, place + n);
        }
        job->n_ops = job->first[o->pp * HM_OP_TYPES] = l.n;
        job->job = hm_job_pipeline(l.ref, l.n, o->dp, path, err);
        if (job->job)
            tie_to_model(job);
        else
            status = -1;
    }
    hm_free(l.ref);
    hm_free(order);
    hm_free(place);
    return status;
}

/* Step numbers as a profiler that samples leaves them: ascending, with gaps. */
static int number_steps(struct hm_synth_job *job, struct hm_error *err) {
    struct hm_rng rng;
    job->step_number = hm_alloc(job->o.steps, sizeof *job->step_number);
    if (!job->step_number) return hm_fail_memory(err);
    hm_synth_stream(&rng, job->o.seed, HM_TAG_STEPS, 0, HM_NO_LANE);
    int64_t number = 0;
    for (uint32_t t = 0; t < job->o.steps; t++) job->step_number[t] = number += 1 + (int64_t)hm_rng_below(&rng, 2);
    return 0;
}

static void free_job(struct hm_synth_job *job) {
    hm_job_free(job->job);
    hm_free(job->op);
    hm_free(job->first);
    hm_free(job->step_number);
    hm_free(job->injection);
}

/* ---- one step ---- */

struct step {
    double *duration, *start, *end; /* [lane][slot] */
    double *delay_s;                /* [lane][stage] before the first forward */
};

struct maker {
    const struct hm_synth_job *job;
    struct step *step;
    size_t t;
    double *shared;   /* [op]: what all replicas share */
    double **value;   /* [thread][op] */
    double **scratch; /* [thread][microbatch] */
    double sigma;     /* of the logarithm of the noise */
    int threads;
};

/* exp(N(-s^2/2, s)) has mean 1 and the coefficient of variation sqrt(exp(s^2) - 1). */
static double noise(const struct maker *k, struct hm_rng *rng) {
    return exp(k->sigma * hm_rng_normal(rng) - 0.5 * k->sigma * k->sigma);
}

static void draw(const struct maker *k, uint64_t lane, double *value) {
    const struct hm_synth_job *job = k->job;
    struct hm_rng rng;
    hm_synth_stream(&rng, job->o.seed, HM_TAG_DURATIONS, k->t, lane);
    for (uint32_t i = 0; i < job->n_ops; i++) {
        const struct hm_synth_op *op = &job->op[i];
        if (op->leader != i || op->across != (lane == HM_NO_LANE)) continue;
        bool still = hm_is_p2p((int)op->type) && op->edge < 0; /* moves nothing */
        value[i] = k->sigma > 0 && op->base_s > 0 && !still ? op->base_s * noise(k, &rng) : op->base_s;
    }
}

static void draw_lane(void *context, size_t lane, int thread) {
    const struct maker *k = context;
    const struct hm_synth_job *job = k->job;
    double *value = k->value[thread], *duration = k->step->duration + lane * job->n_ops,
           *delay_s = k->step->delay_s + lane * job->o.pp;
    memset(delay_s, 0, job->o.pp * sizeof *delay_s);
    draw(k, lane, value);
    hm_injections_apply(job, k->t, lane, value, delay_s, k->scratch[thread]);
    for (uint32_t i = 0; i < job->n_ops; i++) {
        const struct hm_synth_op *op = &job->op[i];
        duration[op->slot] = op->across ? k->shared[op->leader] : value[op->leader];
    }
    /* Nobody waits for the start of a compute: late by d is, to the others, longer by d. */
    for (uint32_t stage = 0; stage < job->o.pp; stage++)
        if (delay_s[stage] > 0)
            duration[job->op[hm_synth_first(job, stage, HM_FORWARD_COMPUTE)].slot] += delay_s[stage];
}

static void undelay_lane(void *context, size_t lane, int thread) {
    (void)thread;
    const struct maker *k = context;
    const struct hm_synth_job *job = k->job;
    for (uint32_t stage = 0; stage < job->o.pp; stage++) {
        double delay = k->step->delay_s[lane * job->o.pp + stage];
        size_t i = lane * job->n_ops + job->op[hm_synth_first(job, stage, HM_FORWARD_COMPUTE)].slot;
        if (delay <= 0) continue;
        k->step->start[i] += delay;
        k->step->duration[i] = k->step->end[i] - k->step->start[i];
    }
}

static void make_step(struct maker *k) {
    const struct hm_synth_job *job = k->job;
    draw(k, HM_NO_LANE, k->shared);
    hm_injections_apply(job, k->t, HM_NO_LANE, k->shared, NULL, NULL);
    hm_parallel(job->o.dp, k->threads, draw_lane, k);
    hm_replay_plain(job->job, job->o.dp, k->step->duration, k->step->start, k->step->end);
    hm_parallel(job->o.dp, k->threads, undelay_lane, k);
}

/* ---- rows ---- */

/* While one step's rows go out, a thread makes the next one. */
struct rows {
    struct maker maker;
    struct step step[2]; /* step t lies in step[t % 2] */
    size_t out;          /* steps gone out, with the one in work; the maker is one ahead */
    uint32_t lane, op;   /* next row */
    bool pipelined, making;
    pthread_t thread;
};

static bool step_alloc(struct step *s, const struct hm_synth_job *job) {
    size_t cells;
    if (!hm_mul(job->n_ops, job->o.dp, &cells)) return false;
    s->duration = hm_alloc(cells, sizeof(double));
    s->start = hm_alloc(cells, sizeof(double));
    s->end = hm_alloc(cells, sizeof(double));
    s->delay_s = hm_alloc((size_t)job->o.dp * job->o.pp, sizeof(double));
    return s->duration && s->start && s->end && s->delay_s;
}

static void step_free(struct step *s) {
    hm_free(s->duration);
    hm_free(s->start);
    hm_free(s->end);
    hm_free(s->delay_s);
}

static int rows_begin(struct rows *r, const struct hm_synth_job *job, struct hm_error *err) {
    struct maker *k = &r->maker;
    enum { WORTH_A_THREAD = 1 << 16 };     /* ops */
    *r = (struct rows){.lane = job->o.dp}; /* nothing made yet */
    k->job = job;
    k->sigma = sqrt(log1p(job->o.noise * job->o.noise));
    k->threads = hm_thread_count(job->o.threads, job->o.dp);
    r->pipelined = k->threads > 1 && job->o.steps > 1 && job->n_ops * job->o.dp >= WORTH_A_THREAD;
    k->shared = hm_alloc(job->n_ops, sizeof(double));
    k->value = hm_alloc((size_t)k->threads, sizeof *k->value);
    k->scratch = hm_alloc((size_t)k->threads, sizeof *k->scratch);
    bool good = step_alloc(&r->step[0], job) && (!r->pipelined || step_alloc(&r->step[1], job)) && k->shared &&
                k->value && k->scratch;
    for (int i = 0; i < k->threads && good; i++) {
        k->value[i] = hm_alloc(job->n_ops, sizeof(double));
        k->scratch[i] = hm_alloc(job->o.microbatches, sizeof(double));
        good = k->value[i] && k->scratch[i];
    }
    return good ? 0 : hm_fail_memory(err);
}

static void rows_end(struct rows *r) {
    struct maker *k = &r->maker;
    if (r->making) pthread_join(r->thread, NULL);
    for (int i = 0; i < k->threads; i++) {
        if (k->value) hm_free(k->value[i]);
        if (k->scratch) hm_free(k->scratch[i]);
    }
    hm_free(k->value);
    hm_free(k->scratch);
    hm_free(k->shared);
    step_free(&r->step[0]);
    step_free(&r->step[1]);
}

static void *make_in_thread(void *maker) {
    make_step(maker);
    return NULL;
}

/* Waits for step r->out, or makes it; then has the one after it made. */
static void next_step(struct rows *r) {
    struct maker *k = &r->maker;
    if (r->making) {
        pthread_join(r->thread, NULL);
    } else {
        k->t = r->out;
        k->step = &r->step[r->pipelined ? r->out % 2 : 0];
        make_step(k);
    }
    r->making = false;
    r->out++;
    if (!r->pipelined || r->out == k->job->o.steps) return;
    k->t = r->out;
    k->step = &r->step[r->out % 2];
    r->making = pthread_create(&r->thread, NULL, make_in_thread, k) == 0; /* if not, it is made when it is needed */
}

static size_t next_rows(void *context, struct hm_table_row *rows, size_t max, struct hm_error *err) {
    (void)err;
    struct rows *r = context;
    const struct hm_synth_job *job = r->maker.job;
    size_t n = 0;
    while (n < max) {
        if (r->lane == job->o.dp) {
            if (r->out == job->o.steps) break;
            next_step(r);
            r->lane = r->op = 0;
        }
        const struct step *step = &r->step[r->pipelined ? (r->out - 1) % 2 : 0];
        const double *start = step->start + (size_t)r->lane * job->n_ops,
                     *end = step->end + (size_t)r->lane * job->n_ops,
                     *duration = step->duration + (size_t)r->lane * job->n_ops;
        for (; r->op < job->n_ops && n < max; r->op++) {
            const struct hm_synth_op *op = &job->op[r->op];
            double took =
                hm_op_types[op->type].scope == HM_ALONE ? duration[op->slot] : end[op->slot] - start[op->slot];
            rows[n++] = (struct hm_table_row){job->step_number[r->out - 1],
                                              r->lane,
                                              op->stage,
                                              (op->stage * job->o.dp + r->lane) * job->o.tp,
                                              op->type,
                                              op->seq,
                                              op->mc,
                                              op->mb,
                                              op->gmc,
                                              start[op->slot],
                                              took};
        }
        if (r->op == job->n_ops) {
            r->op = 0;
            r->lane++;
        }
    }
    return n;
}

/* ---- files ---- */

static char *metadata_path(const char *path) {
    return hm_sprintf("%.*s.yaml", (int)(strrchr(path, '.') - path), path);
}

static void write_metadata(const struct hm_synth_options *o, const char *path, struct hm_out *out) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    hm_out_printf(out, "trial_name: '");
    for (const char *c = base; c < base + (strrchr(base, '.') - base); c++)
        hm_out_printf(out, *c == '\'' ? "''" : "%c", *c);
    hm_out_printf(out,
                  "'\nrun_id: 0\ndp_size: %u\npp_size: %u\ntp_size: %u\ndsp_size: 1\nvpp_size: %u\nworld_size: %" PRIu64
                  "\n",
                  o->dp, o->pp, o->tp, o->vpp, (uint64_t)o->dp * o->pp * o->tp);
}

static int write_files(const struct hm_synth_job *job, struct rows *rows, const char *path, struct hm_error *err) {
    const struct hm_synth_options *o = &job->o;
    struct hm_table_source source = {.next = next_rows,
                                     .context = rows,
                                     .float32 = o->float32,
                                     .max_dp = o->dp - 1,
                                     .max_stage = o->pp - 1,
                                     .max_rank = (int64_t)o->dp * o->pp * o->tp - 1,
                                     .max_mc = o->vpp - 1,
                                     .max_mb = o->microbatches - 1,
                                     .max_gmc = (int64_t)o->vpp * o->pp - 1,
                                     .total_rows = (double)job->n_ops * o->dp * o->steps,
                                     .progress = o->progress,
                                     .progress_context = o->context};
    char *meta = metadata_path(path);
    struct hm_out *out = meta ? hm_out_open(meta, err) : NULL;
    int status = out ? 0 : meta ? -1 : hm_fail_memory(err);
    if (status == 0) {
        write_metadata(o, path, out);
        status = hm_table_write(path, &source, err);
        if (status != 0) {
            hm_out_abort(out);
        } else if (hm_out_commit(out, err) != 0) {
            unlink(path); /* a trace without its metadata would be half of what was asked for */
            status = -1;
        }
    }
    hm_free(meta);
    return status;
}

int hm_synth(const char *path, const struct hm_synth_options *options, struct hm_error *err) {
    struct hm_synth_job job = {.o = *options};
    struct rows rows = {0};
    int status = check_options(options, err);
    if (status == 0) status = hm_table_check_name(path, err);
    if (status == 0) status = number_steps(&job, err);
    if (status == 0) status = build_job(&job, path, err);
    if (status == 0) status = hm_injections_parse(&job, err);
    if (status == 0) {
        status = rows_begin(&rows, &job, err);
        if (status == 0) status = write_files(&job, &rows, path, err);
        rows_end(&rows);
    }
    free_job(&job);
    return status;
}

/* ---- without files ---- */

/* One made step into the grid. */
static void place_step(struct hm_grid *g, const struct hm_synth_job *job, const struct step *step, size_t t) {
    double latest = 0;
    for (size_t lane = 0; lane < g->lanes; lane++) {
        double *start = hm_grid_lane(g, g->start, t / HM_WIDTH, lane) + t % HM_WIDTH,
               *duration = hm_grid_lane(g, g->duration, t / HM_WIDTH, lane) + t % HM_WIDTH;
        for (size_t i = 0; i < g->slots; i++) {
            start[i * HM_WIDTH] = step->start[lane * job->n_ops + i];
            duration[i * HM_WIDTH] = step->duration[lane * job->n_ops + i];
            latest = fmax(latest, step->end[lane * job->n_ops + i]);
        }
    }
    g->actual_s[t] = latest;
}

static int lay_out_grid(struct hm_trace *trace, const struct hm_synth_job *job, struct hm_error *err) {
    const struct hm_synth_options *o = &job->o;
    struct hm_grid *g = &trace->grid;
    struct hm_recording *r = trace->recording = hm_alloc(1, sizeof *r);
    if (!r) return hm_fail_memory(err);
    *g = (struct hm_grid){
        .steps = o->steps, .blocks = (o->steps + HM_WIDTH - 1) / HM_WIDTH, .lanes = o->dp, .slots = job->n_ops};
    g->bytes = g->blocks * HM_WIDTH * g->lanes * g->slots * sizeof(double);
    g->duration = hm_map(g->bytes, NULL);
    g->start = hm_map(g->bytes, NULL);
    g->actual_s = hm_alloc(g->steps, sizeof(double));
    r->path = hm_strdup("synthetic job");
    r->layout = (struct hm_layout){"synthetic job", o->dp, o->pp, o->tp, 1, o->vpp, (int64_t)o->dp * o->pp * o->tp};
    r->n_steps = o->steps, r->n_lanes = o->dp;
    r->lanes = hm_alloc(o->dp, sizeof *r->lanes);
    if (!g->duration || !g->start || !g->actual_s || !r->path || !r->lanes) return hm_fail_memory(err);
    for (uint32_t lane = 0; lane < o->dp; lane++) r->lanes[lane] = lane;
    trace->ops = g->steps * g->lanes * g->slots;
    return 0;
}

/* The trace takes the model and the step numbers over. */
static int finish_trace(struct hm_trace *trace, struct hm_synth_job *job, struct hm_error *err) {
    trace->recording->steps = job->step_number;
    trace->job = job->job;
    job->step_number = NULL;
    job->job = NULL;
    trace->program = hm_program_compile(trace->job, err);
    return trace->program ? hm_trace_idealise(trace, job->o.threads, err) : -1;
}

struct hm_trace *hm_synth_trace(const struct hm_synth_options *options, struct hm_error *err) {
    struct hm_synth_job job = {.o = *options};
    struct rows rows = {0};
    struct hm_trace *trace = hm_alloc(1, sizeof *trace);
    int status = trace ? check_options(options, err) : hm_fail_memory(err);
    if (status == 0) status = number_steps(&job, err);
    if (status == 0) status = build_job(&job, "synthetic job", err);
    if (status == 0) status = hm_injections_parse(&job, err);
    if (status == 0) {
        status = rows_begin(&rows, &job, err);
        if (status == 0) status = lay_out_grid(trace, &job, err);
        for (size_t t = 0; status == 0 && t < options->steps; t++) {
            next_step(&rows);
            place_step(&trace->grid, &job, &rows.step[rows.pipelined ? t % 2 : 0], t);
        }
        rows_end(&rows);
    }
    if (status == 0) status = finish_trace(trace, &job, err);
    free_job(&job);
    if (status == 0) return trace;
    hm_trace_free(trace);
    return NULL;
}
