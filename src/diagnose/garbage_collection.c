/* garbage_collection.c - isolated long forwards, on different workers in different steps, backwards untouched.
 *
 * Python collects in the thread that launches forwards; backwards are launched from C++ (OSDI 2025, section 5.4, which
 * gives no detector). A pause is a forward that stands out of its role, its worker and its microbatch by more than
 * chance, while the backward of the same microbatch does not. */
#include "diagnose.h"

#include <math.h>

static const double least = 0.10; /* of the forward: less is not worth a plan */
static const double sigmas = 8;   /* of the role's noise: below 1e-14 for normal noise, 1e-9 for log-normal of 5 % */
static const size_t least_pauses = 2;       /* one tells nothing; two are named with little confidence */
static const double most_of_forwards = .25; /* else they are not isolated */
static const double most_backward = 0.2;    /* long backwards for each long forward */

/* What stands above role, worker and work, in the logarithm. */
static double left_over(const struct hm_diagnoser *d, size_t lane, uint32_t role, size_t mb, size_t t) {
    const struct hm_profile *p = &d->p;
    size_t row = hm_role_row(p, role);
    double x = log(fmax(hm_recorded_s(p, lane, hm_slot_of(p, role, mb), t), 1e-9));
    return x - p->base[role] - d->e.usual[row] - hm_all_slowness(d, row, lane, t) - hm_work(p, lane, mb)[t];
}

struct search {
    struct hm_diagnoser *d;
    size_t pairs, backward; /* forwards with a backward looked at; long backwards */
    size_t forward;         /* long forwards, isolated or not */
};

/* With one forward and one backward a microbatch, the work is the smaller of them, and its noise joins the other's. */
static double limit(const struct hm_profile *p, uint32_t role) {
    return fmax(log1p(least), sigmas * p->noise[hm_role_row(p, role)] * (p->roles == 2 ? M_SQRT2 : 1));
}

/* The pauses of one worker in one step; more than two, or half of its microbatches, are not isolated. */
static int search_step(struct search *q, size_t lane, size_t stage, size_t t) {
    struct hm_diagnoser *d = q->d;
    const struct hm_profile *p = &d->p;
    size_t before = d->n_pauses, forwards = p->chunks * p->microbatches, most = forwards >= 4 ? 2 : 1;
    for (size_t c = 0; c < p->chunks; c++)
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t role = hm_role(p, stage, c, 0), slot = hm_slot_of(p, role, mb), twin = hm_slot_of(p, role + 1, mb);
            if (slot == HM_NONE || twin == HM_NONE) continue;
            double forward = left_over(d, lane, role, mb, t), backward = left_over(d, lane, role + 1, mb, t);
            q->pairs++;
            q->backward += backward > limit(p, role + 1);
            if (forward <= limit(p, role) || backward > 0.5 * limit(p, role + 1)) continue;
            struct hm_pause *grown = hm_grow(d->pause, d->n_pauses, &d->pause_capacity, sizeof *grown);
            if (!grown) return -1;
            d->pause = grown;
            double now = hm_recorded_s(p, lane, slot, t);
            d->pause[d->n_pauses++] = (struct hm_pause){(uint32_t)lane, slot, (uint32_t)t, now - now * exp(-forward)};
        }
    q->forward += d->n_pauses - before;
    if (d->n_pauses - before > most) d->n_pauses = before;
    return 0;
}

/* How many of n marks are set. */
static size_t marked(const uint8_t *mark, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += mark[i];
    return count;
}

static int describe(struct search *q, struct hm_finding *f) {
    enum { NAMED = 64 };
    struct hm_diagnoser *d = q->d;
    const struct hm_profile *p = &d->p;
    size_t workers = p->stages * p->lanes, n = d->n_pauses;
    uint8_t *worker = hm_alloc(workers, 1), *step = hm_alloc(p->steps, 1);
    double *x = hm_alloc(n, sizeof *x), *y = hm_alloc(n, sizeof *y);
    bool good = worker && step && x && y, named = false;
    if (good) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            const struct hm_pause *a = &d->pause[i];
            worker[hm_role_stage(p, p->role[a->slot]) * p->lanes + a->lane] = 1;
            step[a->step] = 1;
            x[i] = (double)d->t->recording->steps[a->step];
            y[i] = 1e3 * a->excess_s;
            sum += a->excess_s;
        }
        size_t on_workers = marked(worker, workers), in_steps = marked(step, p->steps);
        named = n >= least_pauses && (on_workers > 1 || workers == 1) && (in_steps > 1 || p->steps < 4) &&
                (double)n <= most_of_forwards * (double)q->pairs && (double)q->backward <= most_backward * (double)n;
        hm_note_plot(f, "long forwards, each", (double)n, "", "step", "pause, ms", x, y, n);
        hm_note(f, sum / (double)n, "s", "mean pause");
        hm_note(f, hm_median(y, n) * 1e-3, "s", "median pause");
        hm_note(f, (double)on_workers, "", "workers they fell on, of %zu", workers);
        hm_note(f, (double)in_steps, "", "steps they fell in, of %zu", p->steps);
        hm_note(f, (double)n / (double)q->pairs, "ratio", "share of forwards that paused");
        hm_note(f, (double)q->backward, "", "backwards that stood out the same way, of %zu", q->pairs);
        for (size_t w = 0; w < workers; w++)
            if (worker[w] && f->cause.n_workers < NAMED) hm_at_worker(f, w / p->lanes, w % p->lanes);
        for (size_t t = 0; t < p->steps; t++)
            if (step[t]) hm_at_step(f, t);
        hm_at_pass(f, HM_FORWARD);
        f->strength = fmin(1, 0.2 + (double)n / 15);
    }
    hm_free(worker);
    hm_free(step);
    hm_free(x);
    hm_free(y);
    return good ? named : -1;
}

int hm_find_garbage_collection(struct hm_diagnoser *d, struct hm_finding *f) {
    const struct hm_profile *p = &d->p;
    struct search q = {.d = d};
    if (p->microbatches == 0) return 0;
    for (size_t l = 0; l < p->lanes; l++)
        for (size_t s = 0; s < p->stages; s++)
            for (size_t t = 0; t < p->steps; t++)
                if (search_step(&q, l, s, t) != 0) return -1;
    int status = d->n_pauses >= least_pauses ? describe(&q, f) : 0;
    if (status == 0 && d->n_pauses > 1) d->n_pauses = 0;
    if (status < 0 || d->n_pauses == 0) return status;
    /* A single pause is not named, but it is none of the other causes either. */
    d->paused = hm_alloc(p->lanes * (p->roles / 2) * p->microbatches, p->steps);
    if (!d->paused) return -1;
    for (size_t i = 0; i < d->n_pauses; i++) {
        const struct hm_pause *a = &d->pause[i];
        hm_paused(d, a->lane, p->role[a->slot], p->microbatch[a->slot])[a->step] = 1;
    }
    return status;
}

void hm_idealise_pauses(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    size_t low = 0, high = d->n_pauses; /* the lane's first */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (d->pause[mid].lane < lane)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low; i < d->n_pauses && d->pause[i].lane == lane; i++)
        if (d->pause[i].step / HM_WIDTH == block)
            duration[d->pause[i].slot * HM_WIDTH + d->pause[i].step % HM_WIDTH] -= d->pause[i].excess_s;
}
