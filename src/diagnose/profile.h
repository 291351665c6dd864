/* profile.h - what the compute durations of a job consist of.
 *
 * Every forward or backward of a microbatch is taken as a product: what the role does (a chunk of a stage, forward or backward), how
 * slow the worker or its replica is in that step, how much there is to do in this microbatch (the same for all stages of a replica),
 * and noise. All are logarithms unless a name says otherwise.
 *
 * A row is a stage and a direction. What is left of a row's computes in one replica and one step, over its microbatches, is its level:
 * the statistic that all search for stragglers works on. It takes one pass over the durations. */
#ifndef HM_PROFILE_H
#define HM_PROFILE_H

#include "whatif/whatif.h"

#define HM_NONE UINT32_MAX

/* Ops of one type that a worker runs by itself besides forwards and backwards: the optimizer, for one. */
enum { HM_MASK_BITS = 32 };
struct hm_single {
    uint32_t type, stage, first_slot, n_slots; /* slots of p.single_slot */
};

struct hm_profile {
    const struct hm_trace *t;
    size_t stages, chunks, roles, microbatches, lanes, steps; /* roles: (stage, chunk, direction) */
    size_t rows;                                              /* 2 * stages: (stage, direction) */
    size_t recorded; /* stages with computes: part of a pipeline may be missing ... */
    bool whole;      /* ... or none of it */
    int threads;

    uint32_t *slot;       /* [role][microbatch] the op, HM_NONE if there is none */
    uint32_t *role;       /* [slot] the other way round; HM_NONE: no forward or backward */
    uint32_t *microbatch; /* [slot] 0 .. microbatches - 1 */
    uint32_t types;       /* classes that a mask of op types has a bit for */
    struct hm_single *single;
    size_t n_singles;
    uint32_t *single_slot;

    double *base;  /* [role] typical duration */
    double *level; /* [row][lane][step] what is left of role and work: the low median over microbatches */
    double *noise; /* [row] robust standard deviation of one op inside a step */
    double *floor; /* [row] standard error of a level as that noise alone makes it; 0: the row has no ops */
    double *work;  /* [lane][microbatch][step] how much there is to do */
};

/* role = (stage * chunks + chunk) * 2 + backward */
static inline uint32_t hm_role(const struct hm_profile *p, size_t stage, size_t chunk, int backward) {
    return (uint32_t)((stage * p->chunks + chunk) * 2 + (size_t)backward);
}
static inline size_t hm_role_stage(const struct hm_profile *p, uint32_t role) {
    return role / 2 / p->chunks;
}
static inline size_t hm_role_row(const struct hm_profile *p, uint32_t role) {
    return hm_role_stage(p, role) * 2 + role % 2;
}
static inline uint32_t hm_slot_of(const struct hm_profile *p, uint32_t role, size_t microbatch) {
    return p->slot[role * p->microbatches + microbatch];
}
static inline double *hm_level(const struct hm_profile *p, size_t row, size_t lane) {
    return p->level + (row * p->lanes + lane) * p->steps;
}
static inline double *hm_work(const struct hm_profile *p, size_t lane, size_t microbatch) {
    return p->work + (lane * p->microbatches + microbatch) * p->steps;
}
/* The recorded duration of a slot in a step; logarithms of next to nothing are cut at a nanosecond. */
static inline double hm_recorded_s(const struct hm_profile *p, size_t lane, size_t slot, size_t step) {
    const struct hm_grid *g = &p->t->grid;
    return hm_grid_lane(g, g->duration, step / HM_WIDTH, lane)[slot * HM_WIDTH + step % HM_WIDTH];
}

/* Measures roles, levels and noise. 0, or -1 without memory. A job without forward or backward computes has no roles. */
int hm_profile_fit(struct hm_profile *p, const struct hm_trace *t, int threads);
void hm_profile_free(struct hm_profile *p);

/* What a worker adds in a step: row, replica and step. */
struct hm_added {
    const double *usual; /* [row] */
    const double *x;     /* [row][lane][step]; NULL: nothing */
};
/* The work again, with that taken off: the low median over the computes of a microbatch. 0, or -1 without memory. */
int hm_profile_work(struct hm_profile *p, const struct hm_added *added);

/* ---- op types (roles.c): all that the diagnosis knows of them ---- */

/* Fills slot, role, microbatch and the singles. 0, or -1 without memory. */
int hm_profile_roles(struct hm_profile *p, const struct hm_job *m);

/* The k-th smallest with k = (n - 1) / 2: of two values the smaller one. Reorders x. NaN if n = 0. */
double hm_low_median(double *x, size_t n);
/* 1.4826 times the median of |x|: the standard deviation of normal x about 0. Overwrites x; 0 if n = 0. */
double hm_spread_about_0(double *x, size_t n);

#endif
