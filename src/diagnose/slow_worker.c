/* slow_worker.c - workers whose computes, or one type of their ops, take longer than those of the same stage in the other replicas:
 * all the time or in some steps (places.c).
 *
 * Judged by their own compute time only: every worker of a synchronous job has the same step time (spec "online", the one trap), and
 * only against peers of the same role. */
#include "diagnose.h"

#include <math.h>

static const double sigmas = 6;        /* twice this far from chance is as clear as it gets */
static const double clear_margin = 50; /* of the explanation before the next best, in squared standard errors */
enum { NAMED = 64, NOTED = 4 };

/* How clear: far from chance, and no other explanation that fits nearly as well. */
static double strength_of(const struct hm_diagnoser *d, double most_sigmas, struct hm_finding *f) {
    double strength = fmin(1, most_sigmas / (2 * sigmas));
    if (d->e.margin >= clear_margin) return strength;
    hm_note(f, d->e.margin, "", "another explanation fits nearly as well: squared standard errors it leaves more");
    return strength * (0.5 + 0.5 * d->e.margin / clear_margin);
}

static bool is_slow(const struct hm_diagnoser *d, const struct hm_slow_place *a, size_t t) {
    const struct hm_profile *p = &d->p;
    const double *x = a->stage == HM_ALL_STAGES ? d->replica : d->worker;
    for (size_t r = 0; r < p->rows; r++)
        if ((a->stage == HM_ALL_STAGES || r / 2 == (size_t)a->stage) && x[(r * p->lanes + a->lane) * p->steps + t] > 0)
            return true;
    for (size_t k = 0; a->stage != HM_ALL_STAGES && k < p->n_singles; k++)
        if (p->single[k].stage == (uint32_t)a->stage && d->single[(k * p->lanes + a->lane) * p->steps + t] > 0)
            return true;
    return false;
}

/* Steps and op types of the places of a part. Nothing is said of steps if one of them is slow in all. */
static void when_and_what(const struct hm_diagnoser *d, bool replicas, uint32_t part, struct hm_finding *f) {
    bool always = false;
    uint32_t ops = 0;
    for (size_t i = 0; i < d->n_places; i++) {
        const struct hm_slow_place *a = &d->place[i];
        if ((a->stage == HM_ALL_STAGES) != replicas || a->part != part) continue;
        always |= a->n_steps == d->p.steps;
        ops |= a->ops;
    }
    for (size_t t = 0; !always && t < d->p.steps; t++)
        for (size_t i = 0; i < d->n_places; i++) {
            const struct hm_slow_place *a = &d->place[i];
            if ((a->stage == HM_ALL_STAGES) == replicas && a->part == part && is_slow(d, a, t)) hm_at_step(f, t);
        }
    for (uint32_t type = 0; type < d->p.types; type++)
        if (ops & 1u << type) hm_at_op_type(f, type);
}

void hm_describe_workers(const struct hm_diagnoser *d, uint32_t part, struct hm_finding *f) {
    const uint32_t *dp = d->t->recording->lanes;
    size_t n = 0;
    double clear = 0;
    for (size_t i = 0; i < d->n_places; i++) n += d->place[i].stage != HM_ALL_STAGES && d->place[i].part == part;
    hm_note(f, (double)n, "", "slow workers, of %zu", d->p.stages * d->p.lanes);
    for (size_t i = 0, k = 0; i < d->n_places; i++) {
        const struct hm_slow_place *a = &d->place[i];
        if (a->stage == HM_ALL_STAGES || a->part != part) continue;
        if (k < NAMED) hm_at_worker(f, (size_t)a->stage, a->lane);
        clear = fmax(clear, a->sigmas);
        if (k++ >= NOTED) continue;
        if (a->n_steps < d->p.steps)
            hm_note(f, 1 + a->excess, "ratio", "own time over that of its peers, stage %d dp %u, in %zu of %zu steps",
                    (int)a->stage, dp[a->lane], a->n_steps, d->p.steps);
        else
            hm_note(f, 1 + a->excess, "ratio", "own time over that of its peers, stage %d dp %u", (int)a->stage,
                    dp[a->lane]);
        hm_note(f, fmin(a->sigmas, 1e6), "sigma", "distance from them, stage %d dp %u", (int)a->stage, dp[a->lane]);
    }
    when_and_what(d, false, part, f);
    f->strength = strength_of(d, clear, f);
}

void hm_describe_replicas(const struct hm_diagnoser *d, uint32_t part, struct hm_finding *f) {
    double clear = 0;
    size_t k = 0;
    for (size_t i = 0; i < d->n_places; i++) {
        const struct hm_slow_place *a = &d->place[i];
        if (a->stage != HM_ALL_STAGES || a->part != part) continue;
        if (k < NAMED) hm_at_dp_rank(f, a->lane);
        clear = fmax(clear, a->sigmas);
        if (k++ >= NOTED) continue;
        if (a->n_steps < d->p.steps)
            hm_note(f, 1 + a->excess, "ratio", "compute time over the other replicas', dp %u, in %zu of %zu steps",
                    d->t->recording->lanes[a->lane], a->n_steps, d->p.steps);
        else
            hm_note(f, 1 + a->excess, "ratio", "compute time over the other replicas', dp %u",
                    d->t->recording->lanes[a->lane]);
    }
    hm_note(f, (double)k, "", "slow replicas, of %zu", d->p.lanes);
    hm_note(f, fmin(clear, 1e6), "sigma", "distance from the others, largest");
    when_and_what(d, true, part, f);
    f->strength = strength_of(d, clear, f);
}

static int any(const struct hm_diagnoser *d, bool replicas) {
    for (size_t i = 0; i < d->n_places; i++)
        if ((d->place[i].stage == HM_ALL_STAGES) == replicas) return 1;
    return 0;
}

int hm_find_slow_workers(struct hm_diagnoser *d, struct hm_finding *f) {
    (void)f;
    if (d->p.microbatches == 0) return 0;
    return hm_find_places(d) != 0 ? -1 : any(d, false);
}

int hm_find_replica_imbalance(struct hm_diagnoser *d, struct hm_finding *f) {
    (void)f;
    return any(d, true);
}

/* ---- without them ---- */

/* Divides the computes of a row in a block by what x adds. */
static void mend_row(const struct hm_diagnoser *d, size_t block, size_t row, size_t lane, const double *x,
                     double *duration) {
    const struct hm_profile *p = &d->p;
    const double *steps = x + (row * p->lanes + lane) * p->steps;
    double factor[HM_WIDTH];
    bool slow = false;
    for (size_t k = 0; k < HM_WIDTH; k++) {
        size_t t = block * HM_WIDTH + k;
        double by = t < p->steps ? steps[t] : 0;
        slow |= by != 0;
        factor[k] = by != 0 ? exp(-by) : 1;
    }
    for (size_t c = 0; slow && c < p->chunks; c++)
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, hm_role(p, row / 2, c, (int)(row % 2)), mb);
            for (size_t k = 0; slot != HM_NONE && k < HM_WIDTH; k++) duration[slot * HM_WIDTH + k] *= factor[k];
        }
}

void hm_mend_worker(const struct hm_diagnoser *d, size_t block, size_t stage, size_t lane, double *duration) {
    const struct hm_profile *p = &d->p;
    for (size_t b = 0; b < 2; b++) mend_row(d, block, 2 * stage + b, lane, d->worker, duration);
    for (size_t k = 0; k < p->n_singles; k++) {
        const struct hm_single *s = &p->single[k];
        const double *x = d->single + (k * p->lanes + lane) * p->steps;
        for (size_t i = 0; s->stage == stage && i < hm_grid_width(&p->t->grid, block); i++)
            for (uint32_t j = 0; x[block * HM_WIDTH + i] > 0 && j < s->n_slots; j++)
                duration[p->single_slot[s->first_slot + j] * HM_WIDTH + i] *= exp(-x[block * HM_WIDTH + i]);
    }
}

void hm_idealise_workers(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    for (size_t i = 0; i < d->n_places; i++)
        if (d->place[i].lane == lane && d->place[i].stage != HM_ALL_STAGES && !*hm_spared(d, d->place[i].stage, lane))
            hm_mend_worker(d, block, (size_t)d->place[i].stage, lane, duration);
}

void hm_idealise_replicas(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    if (*hm_spared(d, HM_ALL_STAGES, lane)) return;
    for (size_t row = 0; row < d->p.rows; row++) mend_row(d, block, row, lane, d->replica, duration);
}
