/* usual.h - what is usual among replicas, and who is slower than that, from when to when.
 *
 * Half of the replicas, or all but one, may be slow; what most do is then no measure. Where the replicas lie together it is their median,
 * else their lowest group: nobody is faster than healthy. */
#ifndef HM_USUAL_H
#define HM_USUAL_H

#include "profile.h"

/* A replica that takes longer with all its microbatches, all stages and both directions, in steps [first, end). */
struct hm_stretch {
    uint32_t lane, first, end;
    double size, error; /* in the logarithm */
};

struct hm_paces {
    struct hm_stretch *stretch; /* by replica, then step */
    size_t n;
    double *middle; /* [lane][step] the median work of the microbatches */
};

/* Looks for stretches in p->work, from which the slow workers have been taken off. 0, or -1 without memory. */
int hm_paces_find(struct hm_paces *paces, const struct hm_profile *p);
void hm_paces_free(struct hm_paces *paces);

/* Cuts a series into intervals of constant level: the window that stands out most from the rest of its interval, again and again. of:
 * errors of means (wander.h). end[steps]: where each interval ends; how many there are, or SIZE_MAX without memory. */
size_t hm_segment(const double *x, size_t steps, const double *of, uint32_t *end);

/* The usual level among peers that are known to `error`. Reorders x. */
double hm_usual_level(double *x, size_t n, double error);
/* 1.4826 times the median distance from the median. Overwrites x. */
double hm_spread(double *x, size_t n);
/* How far the levels of machines of one kind may lie from each other before it is more than their natural spread. */
extern const double hm_peers;
extern const double hm_lane_sigmas;

#endif
