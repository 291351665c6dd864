/* profile.h - what the compute durations of a job consist of.
 *
 * Every forward or backward of a microbatch is taken as a product: what the role does (a chunk of a stage, forward or backward), how
 * slow the worker is, how much there is to do in this microbatch (the same for all stages of a replica), and noise. The parts are
 * estimated by medians, in an order in which none of them can pass for another (docs/diagnosis.md). All are logarithms unless a name
 * says otherwise. */
#ifndef HM_PROFILE_H
#define HM_PROFILE_H

#include "whatif/whatif.h"

#define HM_NONE UINT32_MAX

struct hm_profile {
    const struct hm_trace *t;
    size_t stages, chunks, roles, microbatches, lanes, steps; /* roles: (stage, chunk, direction) */
    int threads;

    uint32_t *slot;       /* [role][microbatch] the op, HM_NONE if there is none */
    uint32_t *role;       /* [slot] the other way round; HM_NONE: no forward or backward */
    uint32_t *microbatch; /* [slot] 0 .. microbatches - 1 */

    double *base;    /* [role] typical duration of a healthy worker */
    double *worker;  /* [stage][direction][lane][step] against the same stage of the other replicas */
    double *usual;   /* [stage][direction][lane] the same over all steps */
    double *work;    /* [lane][microbatch][step] how much there is to do */
    double *replica; /* [lane] how much of its work is the replica's own, against the others; 0 in jobs of one stage */
    double replica_error; /* jobs of one stage: standard error of a worker's `usual`, for the work hides it */
    double *noise;        /* [role] robust standard deviation of what is left */
};

/* role = (stage * chunks + chunk) * 2 + backward */
static inline uint32_t hm_role(const struct hm_profile *p, size_t stage, size_t chunk, int backward) {
    return (uint32_t)((stage * p->chunks + chunk) * 2 + (size_t)backward);
}
static inline size_t hm_role_stage(const struct hm_profile *p, uint32_t role) {
    return role / 2 / p->chunks;
}
static inline uint32_t hm_slot_of(const struct hm_profile *p, uint32_t role, size_t microbatch) {
    return p->slot[role * p->microbatches + microbatch];
}
static inline double *hm_worker_steps(const struct hm_profile *p, size_t stage, int backward, size_t lane) {
    return p->worker + ((stage * 2 + (size_t)backward) * p->lanes + lane) * p->steps;
}
static inline double *hm_worker_usual(const struct hm_profile *p, size_t stage, int backward, size_t lane) {
    return p->usual + (stage * 2 + (size_t)backward) * p->lanes + lane;
}
static inline double *hm_work(const struct hm_profile *p, size_t lane, size_t microbatch) {
    return p->work + (lane * p->microbatches + microbatch) * p->steps;
}
/* The recorded duration of a slot in a step; logarithms of next to nothing are cut at a nanosecond. */
static inline double hm_recorded_s(const struct hm_profile *p, size_t lane, size_t slot, size_t step) {
    const struct hm_grid *g = &p->t->grid;
    return hm_grid_lane(g, g->duration, step / HM_WIDTH, lane)[slot * HM_WIDTH + step % HM_WIDTH];
}

/* Fits the profile. 0, or -1 without memory. A job without forward or backward computes has no roles. */
int hm_profile_fit(struct hm_profile *p, const struct hm_trace *t, int threads);
void hm_profile_free(struct hm_profile *p);

/* The k-th smallest with k = (n - 1) / 2: of two values the smaller one. Reorders x. NaN if n = 0. */
double hm_low_median(double *x, size_t n);

#endif
