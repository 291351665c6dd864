/* slow_worker.c - single workers slower than their peers on the same stage, in both directions, whatever they work on: hardware. */
#include "diagnose.h"

#include <math.h>
#include <stdlib.h>

struct slow {
    double factor;
    struct hm_worker worker;
    size_t lane;
};

static int slowest_first(const void *a, const void *b) {
    double x = ((const struct slow *)a)->factor, y = ((const struct slow *)b)->factor;
    return (x < y) - (x > y);
}

bool hm_recognise_workers(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c) {
    size_t n = 0;
    for (size_t k = 0; k < e->stages * e->lanes; k++) n += e->slow_worker[k];
    struct slow *slow = n ? hm_keep(f, n, sizeof *slow) : NULL;
    struct hm_worker *workers = n ? hm_keep(f, n, sizeof *workers) : NULL;
    if (!slow || !workers) return false;
    size_t k = 0;
    double noise = 0;
    for (size_t s = 0; s < e->stages; s++) {
        noise = fmax(noise, e->worker_noise[s]);
        for (size_t l = 0; l < e->lanes; l++)
            if (e->slow_worker[s * e->lanes + l])
                slow[k++] = (struct slow){e->worker[s * e->lanes + l], {(uint32_t)s, e->t->recording->lanes[l]}, l};
    }
    qsort(slow, n, sizeof *slow, slowest_first);
    for (size_t i = 0; i < n; i++) workers[i] = slow[i].worker;
    c->workers = workers;
    c->n_workers = n;
    double score = (slow[0].factor - 1) / fmax(noise, 1e-3);
    c->confidence = fmin(0.99, 0.6 + 0.02 * score);
    if (e->lanes < 3) c->confidence = fmin(c->confidence, 0.8); /* one peer only */
    for (size_t i = 0; i < n && i < 4; i++)
        hm_evidence(f, c, slow[i].factor, "times", "compute time of stage %u dp %u over its peers'",
                    slow[i].worker.stage, slow[i].worker.dp_rank);
    hm_evidence(f, c, score, "deviations", "how far the slowest stands out among its peers");
    size_t worst = slow[0].worker.stage * e->lanes + slow[0].lane;
    struct hm_evidence *plot = hm_evidence(f, c, slow[0].factor, "times", "the slowest worker, step by step");
    double *x = plot ? hm_keep(f, e->steps, sizeof *x) : NULL, *y = plot ? hm_keep(f, e->steps, sizeof *y) : NULL;
    if (x && y) {
        for (size_t i = 0; i < e->steps; i++) {
            x[i] = (double)e->t->recording->steps[i];
            y[i] = e->ratio[worst * e->steps + i] / e->center[slow[0].worker.stage];
        }
        plot->x_label = "step", plot->y_label = "compute time over peers'";
        plot->n_points = e->steps, plot->x = x, plot->y = y;
    }
    return true;
}
