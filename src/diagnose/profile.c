/* profile.c - forwards and backwards taken apart: role, worker, work in the microbatch, noise.
 *
 * (1) A role's base is the low median over replicas of their medians, a first guess. (2) The work in a microbatch shows
 * on all stages of its replica: the low median over stages of what stands above the base, so that a slow worker on one
 * stage does not move it. (3) With the ups and downs of the work taken out, each stage of each replica has a level, known
 * to the noise; the table of levels gives bases, replicas and workers (two_way.c). (4) Work, by plain medians with the
 * slow workers taken off, and what each worker adds in each step. "Low" medians, because of two the slow one would
 * otherwise make the other look fast. */
#include "profile.h"
#include "two_way.h"

#include <math.h>
#include <stdlib.h>

static const double mad_to_sigma = 1.4826; /* of a normal distribution */

double hm_low_median(double *x, size_t n) {
    return n ? hm_select(x, n, (n - 1) / 2) : NAN;
}

void hm_profile_free(struct hm_profile *p) {
    hm_free(p->slot);
    hm_free(p->role);
    hm_free(p->microbatch);
    hm_free(p->base);
    hm_free(p->worker);
    hm_free(p->usual);
    hm_free(p->work);
    hm_free(p->replica);
    hm_free(p->noise);
    *p = (struct hm_profile){0};
}

/* ---- roles ---- */

static int by_value(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Microbatch numbers made dense. A trace without them counts a role's ops. */
static int number_microbatches(struct hm_profile *p, const struct hm_model *m) {
    int32_t *seen = hm_alloc(m->n_slots, sizeof *seen);
    uint32_t *count = hm_alloc(p->roles, sizeof *count);
    size_t n = 0, distinct = 0;
    bool good = seen && count, known = true;
    for (size_t i = 0; i < m->n_slots && good; i++) {
        if (p->role[i] == HM_NONE) continue;
        known &= m->slot[i].mb >= 0;
        seen[n++] = m->slot[i].mb;
    }
    if (good) qsort(seen, n, sizeof *seen, by_value);
    for (size_t i = 0; i < n && good; i++)
        if (i == 0 || seen[i] != seen[distinct - 1]) seen[distinct++] = seen[i];
    for (size_t i = 0; i < m->n_slots && good; i++) {
        if (p->role[i] == HM_NONE) continue;
        const int32_t *at = known ? bsearch(&m->slot[i].mb, seen, distinct, sizeof *seen, by_value) : NULL;
        p->microbatch[i] = at ? (uint32_t)(at - seen) : count[p->role[i]]++;
        if (p->microbatch[i] + 1 > p->microbatches) p->microbatches = p->microbatch[i] + 1;
    }
    hm_free(seen);
    hm_free(count);
    return good ? 0 : -1;
}

static int find_roles(struct hm_profile *p, const struct hm_model *m) {
    p->role = hm_alloc(m->n_slots, sizeof *p->role);
    p->microbatch = hm_alloc(m->n_slots, sizeof *p->microbatch);
    if (!p->role || !p->microbatch) return -1;
    p->chunks = 1;
    for (size_t i = 0; i < m->n_slots; i++)
        if (hm_is_compute((int)m->slot[i].type) && m->slot[i].mc >= 0 && (size_t)m->slot[i].mc + 1 > p->chunks)
            p->chunks = (size_t)m->slot[i].mc + 1;
    p->roles = p->stages * p->chunks * 2;
    for (size_t i = 0; i < m->n_slots; i++) {
        const struct hm_slot *slot = &m->slot[i];
        size_t chunk = slot->mc > 0 ? (size_t)slot->mc : 0;
        p->role[i] = hm_is_compute((int)slot->type) ? hm_role(p, slot->stage, chunk, slot->type == HM_BACKWARD_COMPUTE)
                                                    : HM_NONE;
    }
    if (number_microbatches(p, m) != 0) return -1;
    p->slot = hm_alloc(p->roles * p->microbatches, sizeof *p->slot);
    if (!p->slot) return -1;
    for (size_t k = 0; k < p->roles * p->microbatches; k++) p->slot[k] = HM_NONE;
    for (uint32_t i = 0; i < m->n_slots; i++) {
        if (p->role[i] == HM_NONE) continue;
        uint32_t *at = &p->slot[p->role[i] * p->microbatches + p->microbatch[i]];
        if (*at == HM_NONE)
            *at = i;
        else
            p->role[i] = HM_NONE; /* a second pass over the same microbatch is not compared with anything */
    }
    return 0;
}

/* ---- estimates ---- */

struct fit {
    struct hm_profile *p;
    double *median;     /* [role][lane] */
    double **value;     /* [thread]: room for all values of a role in a replica, or of a step */
    double *quantile;   /* [lane][2][QUANTILES]: of work; their standard errors */
    bool workers_known; /* what the clearly slow workers add is taken off */
    bool low;           /* of the stages the low median counts: some worker may still be slow in some steps */
};

static double log_s(const struct hm_profile *p, size_t lane, size_t slot, size_t step) {
    return log(fmax(hm_recorded_s(p, lane, slot, step), 1e-9));
}

/* The median of each role in one replica. */
static void medians_of_lane(void *context, size_t lane, int thread) {
    const struct fit *f = context;
    const struct hm_profile *p = f->p;
    for (uint32_t role = 0; role < p->roles; role++) {
        size_t n = 0;
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, role, mb);
            for (size_t t = 0; slot != HM_NONE && t < p->steps; t++) f->value[thread][n++] = log_s(p, lane, slot, t);
        }
        f->median[role * p->lanes + lane] = hm_low_median(f->value[thread], n);
    }
}

/* What a worker adds in a step if it is clearly slow, else 0. */
static double clearly_slow(const struct hm_profile *p, size_t stage, int backward, size_t lane, size_t t) {
    static const double always = 0.04, in_a_step = 0.08;
    double usual = *hm_worker_usual(p, stage, backward, lane), now = hm_worker_steps(p, stage, backward, lane)[t];
    return now > in_a_step ? now : usual > always ? usual : 0;
}

/* How far the computes of a stage stand above their bases in one microbatch; appends them to value. */
static size_t levels(const struct fit *f, size_t lane, size_t stage, size_t mb, size_t t, double *value) {
    const struct hm_profile *p = f->p;
    size_t n = 0;
    for (uint32_t role = hm_role(p, stage, 0, 0); role < hm_role(p, stage + 1, 0, 0); role++) {
        uint32_t slot = hm_slot_of(p, role, mb);
        if (slot == HM_NONE) continue;
        value[n] = log_s(p, lane, slot, t) - p->base[role];
        if (f->workers_known) value[n] -= clearly_slow(p, stage, (int)(role % 2), lane, t);
        n++;
    }
    return n;
}

/* The work in each microbatch of one replica. */
static void work_of_lane(void *context, size_t lane, int thread) {
    const struct fit *f = context;
    const struct hm_profile *p = f->p;
    double *value = f->value[thread], *part = value + p->roles;
    for (size_t mb = 0; mb < p->microbatches; mb++)
        for (size_t t = 0; t < p->steps; t++) {
            size_t n = 0, parts = 0;
            for (size_t s = 0; s < p->stages; s++) {
                n = levels(f, lane, s, mb, t, f->low ? value : part + parts);
                if (!f->low)
                    parts += n;
                else if (n)
                    part[parts++] = hm_low_median(value, n);
            }
            /* Of two computes the smaller one, lest a pause be taken for work. */
            double x = !f->low && parts > 2 ? hm_median(part, parts) : hm_low_median(part, parts);
            hm_work(p, lane, mb)[t] = isnan(x) ? 0 : x;
        }
}

/* What each worker of a replica adds in each step: the median over its microbatches, forwards and backwards apart. */
static void workers_of_lane(void *context, size_t lane, int thread) {
    const struct fit *f = context;
    const struct hm_profile *p = f->p;
    double *value = f->value[thread];
    for (size_t s = 0; s < p->stages; s++)
        for (int backward = 0; backward < 2; backward++) {
            double *step = hm_worker_steps(p, s, backward, lane);
            for (size_t t = 0; t < p->steps; t++) {
                size_t n = 0;
                for (size_t c = 0; c < p->chunks; c++)
                    for (size_t mb = 0; mb < p->microbatches; mb++) {
                        uint32_t role = hm_role(p, s, c, backward), slot = hm_slot_of(p, role, mb);
                        if (slot != HM_NONE)
                            value[n++] = log_s(p, lane, slot, t) - p->base[role] - hm_work(p, lane, mb)[t];
                    }
                step[t] = n ? hm_low_median(value, n) : 0;
            }
        }
}

/* The level of each direction of a stage in one replica: what is above the base, with the ups and downs of the
 * microbatches taken out. */
static void levels_of_lane(void *context, size_t lane, int thread) {
    const struct fit *f = context;
    const struct hm_profile *p = f->p;
    double *value = f->value[thread];
    size_t n = 0;
    for (size_t k = 0; k < p->microbatches * p->steps; k++) value[n++] = hm_work(p, lane, 0)[k];
    double middle = hm_median(value, n);
    for (size_t s = 0; s < p->stages; s++)
        for (int backward = 0; backward < 2; backward++) {
            double sum = 0, roles = 0;
            for (size_t c = 0; c < p->chunks; c++) {
                uint32_t role = hm_role(p, s, c, backward);
                n = 0;
                for (size_t mb = 0; mb < p->microbatches; mb++) {
                    uint32_t slot = hm_slot_of(p, role, mb);
                    for (size_t t = 0; slot != HM_NONE && t < p->steps; t++)
                        value[n++] = log_s(p, lane, slot, t) - p->base[role] - (hm_work(p, lane, mb)[t] - middle);
                }
                if (n) sum += hm_median(value, n), roles++;
            }
            *hm_worker_usual(p, s, backward, lane) = roles > 0 ? sum / roles : NAN;
        }
}

/* Who is slow all the time: bases, replicas and workers from the table of levels. Without a second stage or replica
 * there is no table. */
static int tabulate(struct fit *f) {
    struct hm_profile *p = f->p;
    const size_t rows = 2 * p->stages;
    hm_parallel(p->lanes, p->threads, levels_of_lane, f);
    double *row = hm_alloc(rows, sizeof *row), *excess = hm_alloc(rows * p->lanes, sizeof *excess);
    int status = row && excess && hm_two_way(p->usual, p->stages, p->lanes, row, p->replica, excess) == 0 ? 0 : -1;
    if (status == 0) {
        for (uint32_t role = 0; role < p->roles; role++) p->base[role] += row[hm_role_stage(p, role) * 2 + role % 2];
        for (size_t k = 0; k < rows * p->lanes; k++) p->usual[k] = excess[k];
    }
    hm_free(row);
    hm_free(excess);
    return status;
}

/* A worker's steps lie about its usual excess. */
static void center_steps(struct fit *f) {
    struct hm_profile *p = f->p;
    for (size_t s = 0; s < p->stages; s++)
        for (int backward = 0; backward < 2; backward++)
            for (size_t l = 0; l < p->lanes; l++) {
                double *step = hm_worker_steps(p, s, backward, l);
                for (size_t t = 0; t < p->steps; t++) f->value[0][t] = step[t];
                double shift = *hm_worker_usual(p, s, backward, l) - hm_low_median(f->value[0], p->steps);
                for (size_t t = 0; t < p->steps; t++) step[t] += shift;
            }
}

/* In a job of one stage a replica is a worker; there is no second stage to tell them apart. The work in its microbatches
 * hides it, so two replicas are compared at that quantile of their work at which it scatters least: lengths have a long
 * tail above and a sharp edge below. */
static const double quantiles[] = {0.1, 0.2, 0.3, 0.5};
enum { QUANTILES = sizeof quantiles / sizeof quantiles[0] };

static void quantiles_of_lane(void *context, size_t lane, int thread) {
    static const double half = 0.08;
    const struct fit *f = context;
    const struct hm_profile *p = f->p;
    double *value = f->value[thread], *to = f->quantile + lane * 2 * QUANTILES;
    size_t n = p->microbatches * p->steps;
    for (size_t k = 0; k < n; k++) value[k] = hm_work(p, lane, 0)[k];
    for (int k = 0; k < QUANTILES; k++) {
        double low = hm_quantile(value, n, quantiles[k] - half), high = hm_quantile(value, n, quantiles[k] + half);
        to[k] = hm_quantile(value, n, quantiles[k]);
        to[QUANTILES + k] = sqrt(quantiles[k] * (1 - quantiles[k]) / (double)n) * (high - low) / (2 * half);
    }
}

static void compare_replicas(struct fit *f) {
    struct hm_profile *p = f->p;
    double *value = f->value[0];
    int best = 0;
    hm_parallel(p->lanes, p->threads, quantiles_of_lane, f);
    for (int k = 0; k < QUANTILES; k++) {
        for (size_t l = 0; l < p->lanes; l++) value[l] = f->quantile[l * 2 * QUANTILES + QUANTILES + (size_t)k];
        double error = hm_median(value, p->lanes);
        if (k && error >= p->replica_error) continue;
        p->replica_error = error;
        best = k;
    }
    for (size_t l = 0; l < p->lanes; l++) value[l] = f->quantile[l * 2 * QUANTILES + (size_t)best];
    double common = hm_low_median(value, p->lanes);
    for (size_t l = 0; l < p->lanes; l++) {
        double own = f->quantile[l * 2 * QUANTILES + (size_t)best] - common;
        for (int backward = 0; backward < 2; backward++) *hm_worker_usual(p, 0, backward, l) = own;
        for (size_t k = 0; k < p->microbatches * p->steps; k++) hm_work(p, l, 0)[k] -= own;
    }
}

/* The replicas' parts against the low median of them. */
static void center_replicas(struct fit *f) {
    struct hm_profile *p = f->p;
    for (size_t l = 0; l < p->lanes; l++) f->value[0][l] = p->replica[l];
    double common = hm_low_median(f->value[0], p->lanes);
    for (uint32_t role = 0; role < p->roles; role++) p->base[role] += common;
    for (size_t l = 0; l < p->lanes; l++) p->replica[l] -= common;
}

/* What is left of each role in one replica. With one forward and one backward a microbatch, the work is one of them;
 * then their difference tells the noise of both. */
static void noise_of_lane(void *context, size_t lane, int thread) {
    const struct fit *f = context;
    const struct hm_profile *p = f->p;
    const bool pairs = p->roles == 2;
    for (uint32_t role = 0; role < p->roles; role++) {
        size_t n = 0, s = hm_role_stage(p, role);
        const double usual = *hm_worker_usual(p, s, (int)(role % 2), lane),
                     other_usual = *hm_worker_usual(p, s, (int)(role % 2) ^ 1, lane);
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, role, mb), twin = hm_slot_of(p, role ^ 1, mb);
            if (slot == HM_NONE || (pairs && twin == HM_NONE)) continue;
            for (size_t t = 0; t < p->steps; t++) {
                double left = log_s(p, lane, slot, t) - p->base[role] - usual, known = hm_work(p, lane, mb)[t];
                if (pairs) known = log_s(p, lane, twin, t) - p->base[role ^ 1] - other_usual;
                f->value[thread][n++] = left - known;
            }
        }
        double sigma = n ? mad_to_sigma * hm_mad(f->value[thread], n, 0) : 0;
        f->median[role * p->lanes + lane] = pairs ? sigma * M_SQRT1_2 : sigma;
    }
}

/* Over replicas, the low median of median[role][lane] into to[role]. */
static void over_lanes(struct fit *f, double *to) {
    const struct hm_profile *p = f->p;
    for (uint32_t role = 0; role < p->roles; role++) {
        double x = hm_low_median(f->median + role * p->lanes, p->lanes);
        to[role] = isnan(x) ? 0 : x;
    }
}

static int estimate(struct fit *f) {
    struct hm_profile *p = f->p;
    hm_parallel(p->lanes, p->threads, medians_of_lane, f);
    over_lanes(f, p->base);
    f->low = true;
    hm_parallel(p->lanes, p->threads, work_of_lane, f);
    if (p->stages > 1) {
        if (tabulate(f) != 0) return -1;
        center_replicas(f);
        f->workers_known = true;
        hm_parallel(p->lanes, p->threads, work_of_lane, f);
    } else {
        compare_replicas(f);
    }
    hm_parallel(p->lanes, p->threads, workers_of_lane, f);
    center_steps(f);
    if (p->stages > 1) { /* once more, with those known that are slow in some steps */
        f->low = false;
        hm_parallel(p->lanes, p->threads, work_of_lane, f);
        hm_parallel(p->lanes, p->threads, workers_of_lane, f);
        center_steps(f);
    }
    hm_parallel(p->lanes, p->threads, noise_of_lane, f);
    over_lanes(f, p->noise);
    return 0;
}

int hm_profile_fit(struct hm_profile *p, const struct hm_trace *t, int threads) {
    *p = (struct hm_profile){.t = t, .stages = t->model->stages, .lanes = t->grid.lanes, .steps = t->grid.steps};
    p->threads = hm_thread_count(threads, p->lanes);
    struct fit f = {.p = p};
    bool good = find_roles(p, t->model) == 0;
    if (good) {
        size_t directions = p->stages * 2 * p->lanes,
               room =
                   p->microbatches * (p->steps > p->chunks ? p->steps : p->chunks) + 2 * p->roles + p->lanes + p->steps;
        p->base = hm_alloc(p->roles, sizeof(double));
        p->noise = hm_alloc(p->roles, sizeof(double));
        p->worker = hm_alloc(directions * p->steps, sizeof(double));
        p->usual = hm_alloc(directions, sizeof(double));
        p->work = hm_alloc(p->lanes * p->microbatches * p->steps, sizeof(double));
        p->replica = hm_alloc(p->lanes, sizeof(double));
        f.median = hm_alloc(p->roles * p->lanes, sizeof(double));
        f.value = hm_alloc((size_t)p->threads, sizeof *f.value);
        f.quantile = hm_alloc(p->lanes * 2 * QUANTILES, sizeof(double));
        good =
            p->base && p->noise && p->worker && p->usual && p->work && p->replica && f.median && f.value && f.quantile;
        for (int i = 0; i < p->threads && good; i++) good = (f.value[i] = hm_alloc(room, sizeof(double))) != NULL;
    }
    if (good && p->microbatches) good = estimate(&f) == 0;
    for (int i = 0; f.value && i < p->threads; i++) hm_free(f.value[i]);
    hm_free(f.value);
    hm_free(f.median);
    hm_free(f.quantile);
    if (good) return 0;
    hm_profile_free(p);
    return -1;
}
