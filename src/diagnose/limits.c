/* limits.c - what a recording cannot show, and the steps in which a job warms up.
 *
 * The first steps of a recording may hold compilation, autotuning or cold caches: all workers are slower alike, or each by its own. That
 * is no straggler; those steps are left out of the search for slow places, and named. */
#include "diagnose.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double warm = 1.3; /* times the usual step ... */
static const double sigmas = 6; /* ... and so far from how steps differ anyway, by their sequence lengths for one */
enum { LOOKED_AT = 64, MOST_LIMITS = 20, MOST_MISSING = 8, FEW_STEPS = 4 };

/* The compute time of the median replica in a step. */
static double compute_s(const struct hm_profile *p, size_t t, double *value) {
    const size_t stride = p->lanes / LOOKED_AT + 1;
    size_t n = 0;
    for (size_t l = 0; l < p->lanes; l += stride) {
        double sum = 0;
        for (size_t k = 0; k < p->roles * p->microbatches; k++)
            if (p->slot[k] != HM_NONE) sum += hm_recorded_s(p, l, p->slot[k], t);
        value[n++] = sum;
    }
    return hm_median(value, n);
}

/* How many steps at the beginning are a warm-up: at most a quarter of the recording. */
static size_t count_warm_up(const struct hm_profile *p, const double *time, double *value) {
    size_t n = 0;
    memcpy(value, time, p->steps * sizeof *value);
    double usual = hm_median(value, p->steps),
           limit = fmax(warm * usual, usual + sigmas * 1.4826 * hm_mad(value, p->steps, usual));
    while (4 * (n + 1) <= p->steps && time[n] > limit) n++;
    return n;
}

int hm_find_warm_up(struct hm_diagnoser *d) {
    struct hm_profile *p = &d->p;
    double *time = hm_alloc(p->steps, sizeof *time), *value = hm_alloc(p->steps + p->lanes, sizeof *value);
    bool good = time && value;
    for (size_t t = 0; good && t < p->steps; t++) time[t] = compute_s(p, t, value);
    size_t n = good ? count_warm_up(p, time, value) : 0;
    for (size_t k = 0; n && k < p->rows * p->lanes; k++) { /* their levels are as in the other steps */
        double *level = p->level + k * p->steps;
        memcpy(value, level + n, (p->steps - n) * sizeof *value);
        double middle = hm_median(value, p->steps - n);
        for (size_t t = 0; t < n; t++) level[t] = middle;
    }
    d->n_warm_up = n;
    hm_free(time);
    hm_free(value);
    return good ? 0 : -1;
}

int hm_list_limits(struct hm_diagnoser *d) {
    const struct hm_profile *p = &d->p;
    struct hm_diagnosis *out = &d->box->d;
    const char **list = hm_box_alloc(d->box, MOST_LIMITS, sizeof *list);
    if (!list) return -1;
    size_t n = 0;
    if (p->lanes == 1)
        list[n++] = p->stages > 1 ? "one DP rank: a worker that is slow all the time and a heavy stage look the same"
                                  : "one worker: nobody to compare it with, only its own steps and op types";
    if (p->lanes == 2)
        list[n++] = "two DP ranks: which of two that differ is the usual one rests on the faster one being sound";
    if (p->steps < FEW_STEPS)
        list[n++] = hm_box_text(d->box, "%zu steps: whether a straggler stays, comes or goes", p->steps);
    if (p->microbatches == 1)
        list[n++] = "one microbatch a step: sequence lengths and a replica's own pace look the same within a step";
    if (p->microbatches && !p->whole)
        list[n++] = hm_box_text(d->box,
                                "%zu of %zu stages recorded: who is slow on the others, and what moving work to or "
                                "from them would change; waiting "
                                "for them is taken as it usually is",
                                p->recorded, p->t->job->model_stages);
    if (p->microbatches == 0) list[n++] = "no forward or backward computes: who is slow";
    if (d->t->recording->layout.tp > 1)
        list[n++] = "one row for each tensor-parallel group: which of its ranks is slow, and waiting among them, is "
                    "inside its times";
    n += hm_list_missing(d, list + n, MOST_MISSING);
    for (size_t t = 0; t < d->n_warm_up && n < MOST_LIMITS; t++)
        list[n++] =
            hm_box_text(d->box, "step %" PRId64 " is a warm-up: left out of the search for slow workers and replicas",
                        d->t->recording->steps[t]);
    out->cannot_tell = list;
    out->n_cannot_tell = n;
    return d->box->failed ? -1 : 0;
}
