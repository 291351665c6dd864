/* tor.h - the room's own: what plan and simulation share. */
#ifndef HM_TOR_H
#define HM_TOR_H

#include "base/base.h"
#include "hindmost/tor.h"

/* Checks a run's values and fills in the best interval. */
int hm_tor_complete(const struct hm_tor_run *run, struct hm_tor_run *complete, struct hm_error *err);
/* Failures of the job a second of running time. */
static inline double hm_tor_job_rate(const struct hm_tor_run *run) {
    return run->nodes * run->failure_rate;
}
/* The interval that makes TOR largest, for the run's failure rate and save time; infinity without failures. */
double hm_tor_best_interval(const struct hm_tor_run *run);

#endif
