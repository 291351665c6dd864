/* garbage_collection.c - isolated long forwards on different workers in different steps, their backwards untouched. */
#include "diagnose.h"

#include <math.h>

enum { LEAST = 2, POINTS = 400 };
static const double most_share = 0.1; /* of all forwards: what happens more often is no isolated event */

bool hm_recognise_collections(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c) {
    size_t forwards = 0;
    for (size_t i = 0; i < e->slots; i++) forwards += e->t->model->slot[i].type == HM_FORWARD_COMPUTE;
    if (e->n_spikes < LEAST || (double)e->n_spikes > most_share * (double)(forwards * e->lanes * e->steps))
        return false;
    /* distinct workers and steps: spikes are sorted by step */
    bool *seen = hm_keep(f, e->stages * e->lanes, sizeof *seen);
    double *excess = hm_keep(f, e->n_spikes, sizeof *excess);
    if (!seen || !excess) return false;
    size_t workers = 0, steps = 0;
    for (size_t i = 0; i < e->n_spikes; i++) {
        const struct hm_spike *s = &e->spikes[i];
        workers += !seen[s->stage * e->lanes + s->lane];
        seen[s->stage * e->lanes + s->lane] = true;
        steps += i == 0 || s->step != e->spikes[i - 1].step;
        excess[i] = s->duration_s - s->expected_s;
    }
    if ((workers < 2 && e->stages * e->lanes > 1) || steps < 2) return false;
    c->confidence = fmin(0.95, 0.55 + 0.02 * (double)e->n_spikes + 0.02 * (double)workers);
    hm_evidence(f, c, (double)e->n_spikes, "forwards", "isolated long forwards whose backwards are as usual");
    hm_evidence(f, c, (double)workers, "workers", "on so many different workers");
    hm_evidence(f, c, hm_median(excess, e->n_spikes), "s", "longer than expected by (median)");
    struct hm_evidence *plot = hm_evidence(f, c, (double)steps, "steps", "long forwards over the steps");
    size_t n = e->n_spikes < POINTS ? e->n_spikes : POINTS;
    double *x = plot ? hm_keep(f, n, sizeof *x) : NULL, *y = plot ? hm_keep(f, n, sizeof *y) : NULL;
    if (x && y) {
        for (size_t i = 0; i < n; i++) {
            const struct hm_spike *s = &e->spikes[i * e->n_spikes / n];
            x[i] = (double)e->t->recording->steps[s->step], y[i] = s->duration_s;
        }
        plot->x_label = "step", plot->y_label = "forward, s";
        plot->n_points = n, plot->x = x, plot->y = y;
    }
    return true;
}
