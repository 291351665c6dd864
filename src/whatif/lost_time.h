/* lost_time.h - what a step loses that replays leave out: launches that come late, and waiting for replicas that were left out. */
#ifndef HM_LOST_TIME_H
#define HM_LOST_TIME_H

#include "whatif.h"

struct hm_lost_time {
    double
        launch_waits_s; /* mean of a step: launches later than is usual among the other replicas (data loading, CPU work) */
    double left_out_waits_s; /* mean of a step: all wait for a replica that could not be analysed */
    double *late_s;          /* [stage * lanes + lane] of a step, mean: what the worker's own launches are late by */
};

/* replayed_s: [step] step times of the replay of the recorded durations. 0, or -1 without memory. */
int hm_lost_time(const struct hm_trace *t, const double *replayed_s, int threads, struct hm_lost_time *lost);
void hm_lost_time_free(struct hm_lost_time *lost);

#endif
