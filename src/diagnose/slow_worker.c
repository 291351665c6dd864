/* slow_worker.c - workers whose computes take longer than those of the same stage in the other replicas.
 *
 * Judged by their own compute time only: every worker of a synchronous job has the same step time (spec "online", the
 * one trap), and only against peers of the same role. Slow all the time, or in some steps. */
#include "diagnose.h"

#include <math.h>

static const double least = 0.03; /* slower than the peers; below, GPUs of one model differ anyway (public traces) */
static const double least_steps = 0.08; /* the same in single steps */
static const double sigmas = 5, one_stage_sigmas = 4,
                    step_sigmas = 6;         /* far from chance: 1e-6 for 10,000 workers, 1e-8 for their steps */
static const double median_to_mean = 1.2533; /* standard error of a median over that of a mean, normal */

struct judge {
    struct hm_diagnoser *d;
    double share[2],
        noise[2]; /* of the stage in hand: forward and backward, share of its compute time; noise of one op */
    double ops;   /* a step and direction */
    double work;  /* robust spread of the work that cannot be told from the worker: jobs of one stage */
    double peers; /* robust spread among the stage's workers */
    double *value;
    struct hm_slow_row *row;
    size_t n_rows;
};

struct hm_slow_row {
    size_t stage, lane, steps; /* steps: 0 if slow all the time */
    double excess, sigmas;
};

/* Relative excess of a worker's compute time. */
static double excess(const struct judge *j, double forward, double backward) {
    return j->share[0] * expm1(forward) + j->share[1] * expm1(backward);
}

static void set_stage(struct judge *j, size_t stage) {
    const struct hm_profile *p = &j->d->p;
    double time[2] = {0}, noise[2] = {0};
    for (size_t c = 0; c < p->chunks; c++)
        for (int b = 0; b < 2; b++) {
            uint32_t role = hm_role(p, stage, c, b);
            time[b] += exp(p->base[role]);
            noise[b] += p->noise[role] / (double)p->chunks;
        }
    for (int b = 0; b < 2; b++) j->share[b] = time[b] / (time[0] + time[1]), j->noise[b] = noise[b];
    j->ops = (double)(p->chunks * p->microbatches);
    for (size_t l = 0; l < p->lanes; l++)
        j->value[l] = excess(j, *hm_worker_usual(p, stage, 0, l), *hm_worker_usual(p, stage, 1, l));
    j->peers = p->lanes >= 4 ? 1.4826 * hm_mad(j->value, p->lanes, 0) : 0;
}

/* Standard error of a worker's excess over n steps. */
static double error_of(const struct judge *j, double n) {
    double f = j->share[0] * j->noise[0], b = j->share[1] * j->noise[1];
    /* The peers it is compared with are as uncertain as it is. */
    double others = j->d->p.lanes > 1 ? (double)j->d->p.lanes - 1 : 1;
    return median_to_mean * sqrt((f * f + b * b + j->work * j->work) * (1 + 1 / others) / (j->ops * n));
}

/* How the excess moves from step to step bounds its error, too. */
static double wander(const struct judge *j, size_t stage, size_t lane) {
    const struct hm_profile *p = &j->d->p;
    if (p->steps < 6) return 0;
    double usual = excess(j, *hm_worker_usual(p, stage, 0, lane), *hm_worker_usual(p, stage, 1, lane));
    for (size_t t = 0; t < p->steps; t++)
        j->value[t] = excess(j, hm_worker_steps(p, stage, 0, lane)[t], hm_worker_steps(p, stage, 1, lane)[t]);
    return median_to_mean * 1.4826 * hm_mad(j->value, p->steps, usual) / sqrt((double)p->steps);
}

static double *slow_steps(const struct hm_diagnoser *d, size_t stage, int backward, size_t lane) {
    return d->slow + ((stage * 2 + (size_t)backward) * d->p.lanes + lane) * d->p.steps;
}

/* Slow most of the time: every step by the usual factor, except those that clearly differ. */
static void mark_always(const struct judge *j, size_t stage, size_t lane) {
    const struct hm_profile *p = &j->d->p;
    for (int b = 0; b < 2; b++) {
        double usual = *hm_worker_usual(p, stage, b, lane), *to = slow_steps(j->d, stage, b, lane);
        double band = step_sigmas * error_of(j, 1) + 0.02;
        for (size_t t = 0; t < p->steps; t++) {
            double now = hm_worker_steps(p, stage, b, lane)[t];
            to[t] = fabs(now - usual) > band && p->microbatches * p->chunks > 2 ? now : usual;
        }
    }
}

/* Slow in some steps, in forwards and backwards both: a pause of one forward is something else. */
static size_t mark_steps(const struct judge *j, size_t stage, size_t lane) {
    const struct hm_profile *p = &j->d->p;
    const double error = hypot(error_of(j, 1), j->peers);
    size_t n = 0, enough = p->steps / 20 > 2 ? p->steps / 20 : 2;
    double *forward = slow_steps(j->d, stage, 0, lane), *backward = slow_steps(j->d, stage, 1, lane);
    for (size_t t = 0; t < p->steps; t++) {
        double f = hm_worker_steps(p, stage, 0, lane)[t], b = hm_worker_steps(p, stage, 1, lane)[t];
        bool slow =
            excess(j, f, b) > fmax(least_steps, step_sigmas * error) && f > 0.5 * least_steps && b > 0.5 * least_steps;
        forward[t] = slow ? f : 0;
        backward[t] = slow ? b : 0;
        n += slow;
    }
    if (n >= enough) return n;
    for (size_t t = 0; t < p->steps; t++) forward[t] = backward[t] = 0;
    return 0;
}

static int judge_workers(struct judge *j) {
    struct hm_diagnoser *d = j->d;
    const struct hm_profile *p = &d->p;
    size_t capacity = 0;
    for (size_t s = 0; s < p->stages; s++) {
        set_stage(j, s);
        for (size_t l = 0; l < p->lanes; l++) {
            double e = excess(j, *hm_worker_usual(p, s, 0, l), *hm_worker_usual(p, s, 1, l));
            double error = hypot(fmax(error_of(j, (double)p->steps), wander(j, s, l)), j->peers);
            struct hm_slow_row row = {s, l, 0, e, error > 0 ? e / error : INFINITY};
            if (e >= least && e >= (p->stages > 1 ? sigmas : one_stage_sigmas) * error && p->lanes > 1) {
                mark_always(j, s, l);
            } else {
                if (!(row.steps = mark_steps(j, s, l))) continue;
                double sum = 0;
                for (size_t t = 0; t < p->steps; t++)
                    sum += excess(j, hm_slowness(d, s, 0, l, t), hm_slowness(d, s, 1, l, t));
                row.excess = sum / (double)row.steps;
                row.sigmas = row.excess / hypot(error_of(j, 1), j->peers);
            }
            struct hm_slow_row *grown = hm_grow(j->row, j->n_rows, &capacity, sizeof *grown);
            if (!grown) return -1;
            j->row = grown;
            j->row[j->n_rows++] = row;
        }
    }
    return 0;
}

/* What the row costs its worker over all steps. */
static double weight(const struct judge *j, const struct hm_slow_row *r) {
    return r->excess * (r->steps ? (double)r->steps / (double)j->d->p.steps : 1);
}

static void describe(const struct judge *j, struct hm_finding *f) {
    enum { NAMED = 64, NOTED = 4 };
    const struct hm_diagnoser *d = j->d;
    const uint32_t *dp = d->t->recording->lanes;
    for (size_t i = 1; i < j->n_rows; i++) /* worst first */
        for (size_t k = i; k && weight(j, &j->row[k]) > weight(j, &j->row[k - 1]); k--) {
            struct hm_slow_row swap = j->row[k];
            j->row[k] = j->row[k - 1];
            j->row[k - 1] = swap;
        }
    hm_note(f, (double)j->n_rows, "", "slow workers, of %zu", d->p.stages * d->p.lanes);
    for (size_t i = 0; i < j->n_rows; i++) {
        const struct hm_slow_row *r = &j->row[i];
        if (i < NAMED) hm_at_worker(f, r->stage, r->lane);
        if (i >= NOTED) continue;
        if (r->steps)
            hm_note(f, 1 + r->excess, "ratio", "own compute time over that of its peers, stage %zu dp %u, in %zu steps",
                    r->stage, dp[r->lane], r->steps);
        else
            hm_note(f, 1 + r->excess, "ratio", "own compute time over that of its peers, stage %zu dp %u", r->stage,
                    dp[r->lane]);
        hm_note(f, fmin(r->sigmas, 1e6), "sigma", "distance from them, stage %zu dp %u", r->stage, dp[r->lane]);
    }
    bool only_steps = true;
    for (size_t i = 0; i < j->n_rows; i++) only_steps &= j->row[i].steps > 0;
    for (size_t t = 0; only_steps && t < d->p.steps; t++)
        for (size_t i = 0; i < j->n_rows; i++)
            if (hm_slowness(d, j->row[i].stage, 0, j->row[i].lane, t) > 0) hm_at_step(f, t);
    hm_at_op_type(f, HM_FORWARD_COMPUTE);
    hm_at_op_type(f, HM_BACKWARD_COMPUTE);
    f->strength = fmin(1, j->row[0].sigmas / (2 * sigmas));
}

int hm_find_slow_workers(struct hm_diagnoser *d, struct hm_finding *f) {
    const struct hm_profile *p = &d->p;
    struct judge j = {.d = d};
    if (p->microbatches == 0) return 0;
    size_t room = p->lanes > p->steps ? p->lanes : p->steps;
    d->slow = hm_alloc(p->stages * 2 * p->lanes * p->steps, sizeof(double));
    j.value = hm_alloc(room, sizeof(double));
    int status = d->slow && j.value ? 0 : -1;
    j.work =
        p->stages == 1 ? p->replica_error / median_to_mean * sqrt((double)(p->chunks * p->microbatches * p->steps)) : 0;
    if (status == 0) status = judge_workers(&j);
    if (status == 0 && j.n_rows) describe(&j, f);
    if (status == 0) status = j.n_rows > 0;
    hm_free(j.value);
    hm_free(j.row);
    return status;
}

void hm_idealise_workers(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    const struct hm_profile *p = &d->p;
    if (!d->slow) return;
    for (size_t s = 0; s < p->stages; s++)
        for (int b = 0; b < 2; b++) {
            double factor[HM_WIDTH];
            bool slow = false;
            for (size_t k = 0; k < HM_WIDTH; k++) {
                size_t t = block * HM_WIDTH + k;
                double by = t < p->steps ? hm_slowness(d, s, b, lane, t) : 0;
                slow |= by != 0;
                factor[k] = exp(-by);
            }
            for (size_t c = 0; slow && c < p->chunks; c++)
                for (size_t mb = 0; mb < p->microbatches; mb++) {
                    uint32_t slot = hm_slot_of(p, hm_role(p, s, c, b), mb);
                    for (size_t k = 0; slot != HM_NONE && k < HM_WIDTH; k++) duration[slot * HM_WIDTH + k] *= factor[k];
                }
        }
}
