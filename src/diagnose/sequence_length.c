/* sequence_length.c - microbatches of different cost: forward and backward of one microbatch are long together.
 *
 * Within one stage only, after workers and stages are accounted for: pooled stages correlate by their different means, and one slow
 * worker correlates with itself (measured on the public traces). Healthy stages correlate as well, at 2-3 % variation; so the part
 * of the variation that both directions share must be sizeable. */
#include "diagnose.h"

#include <math.h>

static const double least_correlation =
    0.6; /* the paper takes 0.9 of all variation; noise on top lowers it, so the shared part counts */
static const double least_common = 0.04; /* relative; healthy stages show up to 0.025 */

enum { POINTS = 600 };

/* Forward against backward of the microbatches of one stage, thinned out. */
static void plot_pairs(const struct hm_effects *e, size_t stage, struct hm_findings *f, struct hm_cause *c) {
    const struct hm_grid *g = &e->t->grid;
    size_t pairs = 0, n = 0, k = 0;
    for (size_t i = 0; i < e->slots; i++)
        pairs += e->t->model->slot[i].stage == stage && e->t->model->slot[i].type == HM_FORWARD_COMPUTE &&
                 e->partner[i] != UINT32_MAX;
    size_t all = pairs * g->lanes * g->steps, stride = all / POINTS + 1;
    struct hm_evidence *plot = hm_evidence(f, c, e->correlation[stage], "correlation",
                                           "forward and backward time of each microbatch, stage %zu", stage);
    double *x = plot ? hm_keep(f, POINTS, sizeof *x) : NULL, *y = plot ? hm_keep(f, POINTS, sizeof *y) : NULL;
    if (!x || !y) return;
    for (size_t block = 0; block < g->blocks; block++)
        for (size_t lane = 0; lane < g->lanes; lane++) {
            const double *d = hm_grid_lane(g, g->duration, block, lane);
            for (size_t i = 0; i < e->slots; i++) {
                if (e->t->model->slot[i].stage != stage || e->t->model->slot[i].type != HM_FORWARD_COMPUTE ||
                    e->partner[i] == UINT32_MAX)
                    continue;
                for (size_t w = 0; w < hm_grid_width(g, block); w++)
                    if (k++ % stride == 0 && n < POINTS) {
                        x[n] = d[i * HM_WIDTH + w];
                        y[n++] = d[(size_t)e->partner[i] * HM_WIDTH + w];
                    }
            }
        }
    plot->x_label = "forward, s", plot->y_label = "backward, s";
    plot->n_points = n, plot->x = x, plot->y = y;
}

bool hm_recognise_sequences(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c) {
    double correlation[HM_MAX_STAGES], common[HM_MAX_STAGES];
    size_t widest = 0;
    for (size_t s = 0; s < e->stages; s++) {
        correlation[s] = e->correlation[s];
        common[s] = e->common[s];
        if (e->common[s] > e->common[widest]) widest = s;
    }
    double r = hm_median(correlation, e->stages), shared = hm_median(common, e->stages);
    if (!(r >= least_correlation) || !(shared >= least_common)) return false;
    c->confidence = fmin(0.98, 0.5 + 0.3 * r + fmin(shared, 0.2));
    hm_evidence(f, c, r, "correlation", "forward and backward of one microbatch, within a stage (median over stages)");
    hm_evidence(f, c, shared, "ratio", "variation that forward and backward share");
    plot_pairs(e, widest, f, c);
    return true;
}
