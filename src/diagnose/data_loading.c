/* data_loading.c - replicas whose first forward starts late although all it waits for has ended: the batch was not there.
 *
 * Data loading is not traced; it shows as launch delay (OSDI 2025, section 7), which replays leave out. So its price is
 * the other way round: what a replay becomes longer by when the waits are put in, over the same T - T_ideal as every
 * cause; it may exceed 1. A start that is late by d is, to everybody who waits for that forward, longer by d. */
#include "diagnose.h"

#include <math.h>

static const double least = 0.01;     /* of T: a shorter wait is no event */
static const size_t least_events = 2; /* fewer tell nothing */

/* The stage's n-th forward in launch order. */
static uint32_t nth_forward(const struct hm_profile *p, size_t stage, size_t n) {
    const struct hm_job *m = p->t->job;
    for (uint32_t i = 0; i < m->n_slots; i++)
        if (m->slot[i].stage == stage && hm_class_is(hm_class_of(m, i), HM_COMPUTE, HM_FORWARD) && n-- == 0) return i;
    return HM_NONE;
}

static double start_of(const struct hm_trace *t, size_t lane, size_t slot, size_t step) {
    return hm_grid_lane(&t->grid, t->grid.start, step / HM_WIDTH, lane)[slot * HM_WIDTH + step % HM_WIDTH];
}

/* delay[lane][step] between the latest end of what a slot waits for and its recorded start. */
static void launch_delays(const struct hm_profile *p, struct hm_groups *groups, uint32_t slot, double *delay) {
    const struct hm_job *m = p->t->job;
    const struct hm_slot *op = &m->slot[slot];
    for (size_t i = 0; i < p->lanes * p->steps; i++) delay[i] = op->n_deps ? -INFINITY : 0;
    for (uint32_t k = 0; k < op->n_deps; k++) {
        uint32_t dep = m->dep[op->first_dep + k];
        for (size_t block = 0; block < p->t->grid.blocks; block++) {
            hm_groups_gather(groups, block, m->slot[dep].node);
            for (size_t l = 0; l < p->lanes; l++) {
                double begin[HM_WIDTH];
                hm_group_start(groups, l, m->slot[dep].node, begin);
                for (size_t i = 0; i < hm_grid_width(&p->t->grid, block); i++) {
                    size_t t = block * HM_WIDTH + i;
                    double *ready = &delay[l * p->steps + t];
                    *ready = fmax(*ready, begin[i] + hm_recorded_s(p, l, dep, t));
                }
            }
        }
    }
    for (size_t l = 0; l < p->lanes; l++)
        for (size_t t = 0; t < p->steps; t++) {
            double *ready = &delay[l * p->steps + t];
            *ready = start_of(p->t, l, slot, t) - *ready;
        }
}

/* Waits of one stage: what its first forward is late by beyond its second one's usual delay. Returns how many count. */
static size_t stage_waits(struct hm_diagnoser *d, struct hm_groups *groups, size_t stage, double *delay) {
    const struct hm_profile *p = &d->p;
    size_t n = 0, all = p->lanes * p->steps;
    double usual = 0;
    uint32_t first = d->first_forward[stage] = nth_forward(p, stage, 0), second = nth_forward(p, stage, 1);
    if (first == HM_NONE) return 0;
    if (second != HM_NONE) {
        launch_delays(p, groups, second, delay);
        usual = fmax(0, hm_low_median(delay, all));
    }
    launch_delays(p, groups, first, delay);
    for (size_t l = 0; l < p->lanes; l++)
        for (size_t t = 0; t < p->steps; t++) {
            double wait = delay[l * p->steps + t] - usual;
            bool counts = wait >= least * d->a->replayed_s;
            d->wait_s[(l * p->stages + stage) * p->steps + t] = counts ? wait : 0;
            n += counts;
        }
    return n;
}

static double wait_of(const struct hm_diagnoser *d, size_t lane, size_t stage, size_t step) {
    return d->wait_s[(lane * d->p.stages + stage) * d->p.steps + step];
}

static int describe(struct hm_diagnoser *d, struct hm_finding *f, size_t events) {
    enum { NAMED = 64 };
    const struct hm_profile *p = &d->p;
    double *x = hm_alloc(events, sizeof *x), *y = hm_alloc(events, sizeof *y), sum = 0, most = 0;
    size_t n = 0, steps = 0, ranks = 0;
    if (x && y) {
        for (size_t t = 0; t < p->steps; t++) {
            bool hit = false;
            for (size_t l = 0; l < p->lanes; l++)
                for (size_t s = 0; s < p->stages; s++) {
                    double wait = wait_of(d, l, s, t);
                    if (wait <= 0) continue;
                    x[n] = (double)d->t->recording->steps[t], y[n++] = 1e3 * wait;
                    sum += wait, most = fmax(most, wait), hit = true;
                }
            if (hit) hm_at_step(f, t), steps++;
        }
        for (size_t l = 0; l < p->lanes; l++) {
            bool hit = false;
            for (size_t s = 0; s < p->stages; s++)
                for (size_t t = 0; t < p->steps; t++)
                    if (wait_of(d, l, s, t) > 0) hit = true, hm_at_stage(f, s);
            ranks += hit;
            if (hit && f->cause.n_dp_ranks < NAMED) hm_at_dp_rank(f, l);
        }
        hm_note_plot(f, "late first forwards", (double)n, "", "step", "wait, ms", x, y, n);
        hm_note(f, sum / (double)n, "s", "mean wait before the first forward");
        hm_note(f, most, "s", "longest wait");
        hm_note(f, (double)steps, "", "steps with waits, of %zu", p->steps);
        hm_note(f, (double)ranks, "", "replicas that waited, of %zu", p->lanes);
        hm_at_pass(f, HM_FORWARD);
        f->strength = fmin(1, 0.5 + (double)n / 20);
    }
    bool good = x && y;
    hm_free(x);
    hm_free(y);
    return good ? 1 : -1;
}

int hm_find_data_loading(struct hm_diagnoser *d, struct hm_finding *f) {
    const struct hm_profile *p = &d->p;
    if (!d->t->grid.start || p->microbatches == 0) return 0;
    struct hm_groups groups = {0};
    double *delay = hm_alloc(p->lanes * p->steps, sizeof *delay);
    d->wait_s = hm_alloc(p->lanes * p->stages * p->steps, sizeof(double));
    d->first_forward = hm_alloc(p->stages, sizeof *d->first_forward);
    int status = delay && d->wait_s && d->first_forward ? hm_groups_begin(&groups, &d->t->grid, d->t->job) : -1;
    size_t events = 0;
    for (size_t s = 0; status == 0 && s < p->stages; s++) events += stage_waits(d, &groups, s, delay);
    hm_free(delay);
    hm_groups_end(&groups);
    if (status == 0 && events >= least_events) status = describe(d, f, events);
    return status;
}

void hm_add_waits(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    const struct hm_profile *p = &d->p;
    for (size_t s = 0; s < p->stages; s++)
        for (size_t k = 0; d->first_forward[s] != HM_NONE && k < hm_grid_width(&d->t->grid, block); k++)
            duration[d->first_forward[s] * HM_WIDTH + k] += wait_of(d, lane, s, block * HM_WIDTH + k);
}
