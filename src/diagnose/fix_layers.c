/* fix_layers.c - move layers from heavy stages to light ones.
 *
 * How many layers a stage has is not in a trace, so work moves in units of a share of the mean stage: an eighth (about a
 * layer in the paper's 9-layer stages) or, where that is too coarse, a sixteenth or a thirty-second. */
#include "fixes.h"

#include <math.h>
#include <string.h>

static const double close_enough = 0.7; /* of what perfectly even stages would gain */

struct layers {
    const struct hm_diagnoser *d;
    double *factor; /* [stage] of its computes */
};

static void scale(const void *context, size_t block, size_t lane, double *duration) {
    (void)block, (void)lane;
    const struct layers *m = context;
    const struct hm_profile *p = &m->d->p;
    for (uint32_t role = 0; role < p->roles; role++)
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, role, mb);
            for (size_t k = 0; slot != HM_NONE && k < HM_WIDTH; k++)
                duration[slot * HM_WIDTH + k] *= m->factor[hm_role_stage(p, role)];
        }
}

/* Moves units from the heaviest stage to the lightest while that lowers the heaviest. moved[stage]: units gained. */
static int move(const double *load, size_t stages, double unit, double *now, int *moved) {
    int moves = 0;
    for (size_t s = 0; s < stages; s++) now[s] = load[s], moved[s] = 0;
    for (; moves < 1000; moves++) {
        size_t top = 0, bottom = 0;
        for (size_t s = 1; s < stages; s++) {
            if (now[s] > now[top]) top = s;
            if (now[s] < now[bottom]) bottom = s;
        }
        if (now[bottom] + unit >= now[top] - 1e-12) break;
        now[top] -= unit, now[bottom] += unit;
        moved[top]--, moved[bottom]++;
    }
    return moves;
}

static const char *explain(struct hm_diagnoser *d, const int *moved, int parts, double step_s, double even_s) {
    enum { NAMED = 8 };
    struct hm_str s = {0};
    int named = 0;
    hm_str_add(&s, "Move work between stages in units of 1/%d of a mean stage:", parts);
    for (size_t k = 0; k < d->p.stages && named < NAMED; k++)
        if (moved[k]) hm_str_add(&s, "%s stage %zu %+d", named++ ? "," : "", k, moved[k]);
    hm_str_add(&s, "; wins back %.0f %% of the loss, perfectly even stages %.0f %%.", hm_won_back(d, step_s),
               hm_won_back(d, even_s));
    hm_str_add(&s, " Assumes that a unit takes the same time on every stage, forward and backward in the stage's "
                   "proportion, and that "
                   "memory allows it.");
    const char *how = hm_box_text(d->box, "%s", s.text ? s.text : "");
    d->box->failed |= s.failed;
    hm_str_free(&s);
    return how;
}

int hm_fix_layers(struct hm_diagnoser *d) {
    const struct hm_profile *p = &d->p;
    if (p->stages < 2 || !d->load_s || !p->whole) return 0; /* what was not recorded has no price */
    struct layers m = {d, hm_alloc(p->stages, sizeof(double))};
    double *now = hm_alloc(p->stages, sizeof *now), total = 0;
    int *moved = hm_alloc(p->stages, sizeof *moved);
    bool good = m.factor && now && moved;
    for (size_t s = 0; good && s < p->stages; s++) total += d->load_s[s];
    if (good && total > 0) {
        const double mean = total / (double)p->stages;
        for (size_t s = 0; s < p->stages; s++) m.factor[s] = mean / d->load_s[s];
        double even_s = hm_scenario_mean_s(&d->s, scale, NULL, &m);
        double most = d->a->replayed_s - even_s;
        for (int parts = 8; most > 0.004 * d->a->replayed_s && parts <= 32; parts *= 2) {
            if (move(d->load_s, p->stages, mean / parts, now, moved) == 0) continue;
            for (size_t s = 0; s < p->stages; s++) m.factor[s] = now[s] / d->load_s[s];
            double step_s = hm_scenario_mean_s(&d->s, scale, NULL, &m);
            if (d->a->replayed_s - step_s < close_enough * most && parts < 32) continue;
            hm_offer(d, "move-layers", step_s, explain(d, moved, parts, step_s, even_s));
            break;
        }
    }
    hm_free(m.factor);
    hm_free(now);
    hm_free(moved);
    return good ? 0 : -1;
}
