/* fixes.c - the table of fixes. */
#include "fixes.h"

#include <stdlib.h>

static const double least_speedup = 1.005;
enum { MOST_FIXES = 16 };

static int (*const rules[])(struct hm_diagnoser *d) = {hm_fix_workers,    hm_fix_layers,  hm_fix_sequences,
                                                       hm_fix_collection, hm_fix_links,   hm_fix_split,
                                                       hm_fix_late_data,  hm_fix_left_out};

void hm_offer(struct hm_diagnoser *d, const char *fix, double step_s, const char *how) {
    hm_offer_from(d, fix, d->a->replayed_s, step_s, how);
}

void hm_offer_from(struct hm_diagnoser *d, const char *fix, double from_s, double step_s, const char *how) {
    struct hm_diagnosis *out = &d->box->d;
    double speedup = from_s / step_s;
    if (!(speedup > least_speedup) || out->n_fixes == MOST_FIXES) return;
    ((struct hm_fix *)out->fixes)[out->n_fixes++] = (struct hm_fix){fix, step_s, speedup, how};
}

double hm_won_back(const struct hm_diagnoser *d, double step_s) {
    return 100 * (d->a->replayed_s - step_s) / d->lost_s;
}

static int fastest_first(const void *a, const void *b) {
    double x = ((const struct hm_fix *)a)->speedup, y = ((const struct hm_fix *)b)->speedup;
    return (x < y) - (x > y);
}

int hm_price_fixes(struct hm_diagnoser *d) {
    struct hm_diagnosis *out = &d->box->d;
    if (!(out->fixes = hm_box_alloc(d->box, MOST_FIXES, sizeof *out->fixes))) return -1;
    if (d->lost_s > 0 && d->p.microbatches)
        for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++)
            if (rules[k](d) != 0) return -1;
    qsort((void *)out->fixes, out->n_fixes, sizeof *out->fixes, fastest_first);
    return hm_measure_slack(d) != 0 || d->box->failed ? -1 : 0;
}
