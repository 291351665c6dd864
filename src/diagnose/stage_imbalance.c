/* stage_imbalance.c - stages that all replicas find heavier than the others; most often the last one, with the loss layer. */
#include "diagnose.h"

#include <math.h>

static const double heavy = 1.03; /* of the other stages' mean work a microbatch */

bool hm_recognise_stages(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c) {
    if (e->stages < 2) return false;
    size_t n = 0, heaviest = 0;
    uint32_t *stages = hm_keep(f, e->stages, sizeof *stages);
    if (!stages) return false;
    for (size_t s = 0; s < e->stages; s++)
        if (e->stage_work[s] > e->stage_work[heaviest]) heaviest = s;
    if (!(e->stage_work[heaviest] > heavy)) return false;
    stages[n++] = (uint32_t)heaviest;
    for (size_t s = 0; s < e->stages; s++)
        if (s != heaviest && e->stage_work[s] > heavy && e->stage_work[s] - 1 > 0.5 * (e->stage_work[heaviest] - 1))
            stages[n++] = (uint32_t)s;
    c->stages = stages;
    c->n_stages = n;
    c->confidence = fmin(0.97, 0.7 + 2 * (e->stage_work[heaviest] - heavy));
    for (size_t i = 0; i < n && i < 3; i++) {
        uint32_t s = stages[i];
        hm_evidence(f, c, 1 / e->stage_scale[s], "times", "forward time of stage %u over the average stage's", s);
        hm_evidence(f, c, 1 / e->stage_scale[e->stages + s], "times",
                    "backward time of stage %u over the average stage's", s);
    }
    if (e->lanes < 2) {
        c->confidence *= 0.6;
        hm_evidence(f, c, 1, "replica", "with one replica, a slow worker looks the same: less sure");
    }
    struct hm_evidence *plot =
        hm_evidence(f, c, e->stage_work[heaviest], "times", "work of each stage over the average");
    double *x = plot ? hm_keep(f, e->stages, sizeof *x) : NULL, *y = plot ? hm_keep(f, e->stages, sizeof *y) : NULL;
    if (x && y) {
        for (size_t s = 0; s < e->stages; s++) x[s] = (double)s, y[s] = e->stage_work[s];
        plot->x_label = "stage", plot->y_label = "forward + backward over the average";
        plot->n_points = e->stages, plot->x = x, plot->y = y;
    }
    return true;
}
