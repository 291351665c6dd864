/* scenario.h - the whole job replayed with durations of your own: what causes and fixes are priced with. */
#ifndef HM_SCENARIO_H
#define HM_SCENARIO_H

#include "whatif.h"

/* Changes the durations of one replica in one block of eight steps, duration[slot][8], a copy of the recorded ones. Called from
 * several threads. */
typedef void (*hm_change_fn)(const void *context, size_t block, size_t lane, double *duration);
/* Whether a replica is changed at all; the others are not copied. NULL in its place: all are. */
typedef bool (*hm_touches_fn)(const void *context, size_t lane);

/* Working memory for any number of scenarios, one after the other. */
struct hm_scenarios {
    const struct hm_trace *t;
    int threads;
    struct hm_scratch **scratch; /* [thread] */
    double **duration;           /* [thread][lane][slot][8] */
    struct hm_view **views;      /* [thread][lane] */
    double *any;                 /* [step] step times of the last scenario: latest end of any op - earliest start */
};

/* 0, or -1 without memory. */
int hm_scenarios_begin(struct hm_scenarios *s, const struct hm_trace *t, int threads);
void hm_scenarios_end(struct hm_scenarios *s);

/* The mean step time with the changed durations, from the earliest start to the latest end of any op, as analysis->replayed_s. change NULL: the recorded ones. */
double hm_scenario_mean_s(struct hm_scenarios *s, hm_change_fn change, hm_touches_fn touches, const void *context);

#endif
