/* data_loading.c - a replica's first forward starts late although nothing recorded holds it up: it waited for data. */
#include "diagnose.h"

#include <math.h>

bool hm_recognise_loading(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c) {
    const double *actual = e->t->grid.actual_s;
    uint32_t *ranks = hm_keep(f, e->lanes, sizeof *ranks);
    double *x = hm_keep(f, e->steps, sizeof *x), *y = hm_keep(f, e->steps, sizeof *y);
    if (!ranks || !x || !y) return false;
    size_t late = 0, n = 0;
    double worst = 0;
    for (size_t i = 0; i < e->steps; i++) x[i] = (double)e->t->recording->steps[i];
    for (size_t l = 0; l < e->lanes; l++) {
        size_t mine = 0;
        for (size_t i = 0; i < e->steps; i++) {
            double delay = e->loading[l * e->steps + i];
            y[i] = fmax(y[i], delay);
            worst = fmax(worst, delay);
            mine += delay > 0.01 && delay > 0.02 * actual[i];
        }
        late += mine;
        if (mine) ranks[n++] = e->t->recording->lanes[l];
    }
    if (late == 0) return false;
    c->dp_ranks = ranks;
    c->n_dp_ranks = n;
    c->confidence = fmin(0.95, 0.6 + 0.03 * (double)late);
    hm_evidence(f, c, (double)late, "steps of replicas", "first forward late by more than 2 %% of the step");
    hm_evidence(f, c, worst, "s", "longest wait");
    hm_evidence(f, c, 0, "",
                "not part of S, which leaves launch delays out; shares are of T - T_ideal with these delays added");
    struct hm_evidence *plot = hm_evidence(f, c, worst, "s", "longest wait of a replica, step by step");
    if (plot) {
        plot->x_label = "step", plot->y_label = "launch delay, s";
        plot->n_points = e->steps, plot->x = x, plot->y = y;
    }
    return true;
}
