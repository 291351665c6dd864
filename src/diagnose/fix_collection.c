/* fix_collection.c - planned garbage collection: all workers collect together every N steps, and not in between.
 *
 * OSDI 2025, section 5.4: 12.6 % at 128 DP ranks with N = 500. */
#include "fixes.h"

#include <math.h>

int hm_fix_collection(struct hm_diagnoser *d) {
    const struct hm_profile *p = &d->p;
    if (!(d->found & 1u << HM_GARBAGE_COLLECTION)) return 0;
    double *pause = hm_alloc(d->n_pauses, sizeof *pause);
    if (!pause) return -1;
    for (size_t i = 0; i < d->n_pauses; i++) pause[i] = d->pause[i].excess_s;
    /* All wait for the slowest collector of a step; as often as a worker collects now. */
    double planned_s = hm_quantile(pause, d->n_pauses, 0.9);
    double every = fmax(1, floor((double)(p->stages * p->lanes * p->steps) / (double)d->n_pauses + 0.5));
    double without_s = hm_without_s(d, 1u << HM_GARBAGE_COLLECTION), step_s = without_s + planned_s / every;
    hm_offer(d, "planned-gc", step_s,
             hm_box_text(d->box,
                         "Turn automatic collection off and collect on all workers together every %.0f steps, as often "
                         "as each collects "
                         "now: wins back %.0f %% of the loss; every %.0f steps %.0f %%. Assumes one planned collection "
                         "of %.0f ms (the "
                         "90th percentile of the pauses) for all at once, and memory for the garbage in between.",
                         every, hm_won_back(d, step_s), 4 * every, hm_won_back(d, without_s + planned_s / (4 * every)),
                         1e3 * planned_s));
    hm_free(pause);
    return 0;
}

/* Slow links at the usual speed. */
int hm_fix_links(struct hm_diagnoser *d) {
    if (!(d->found & 1u << HM_SLOW_LINK)) return 0;
    double step_s = hm_without_s(d, 1u << HM_SLOW_LINK);
    hm_offer(d, "fix-link", step_s,
             hm_box_text(d->box,
                         "Repair or replace the slow links, or place the job around them: wins back %.0f %% of the "
                         "loss. Assumes that "
                         "their transfers then take as long as those of the other links usually do.",
                         hm_won_back(d, step_s)));
    return 0;
}
