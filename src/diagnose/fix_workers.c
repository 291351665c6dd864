/* fix_workers.c - replace the k slowest workers: k = 1, 2, 4, ... until more of them bring little. */
#include "fixes.h"

#include <math.h>
#include <stdlib.h>

static const double flat = 0.05;  /* of the gain so far: a doubling that brings less is the curve's end */
static const double enough = 0.9; /* of the most: the fewest workers that reach it are advised */
enum { MOST = 64, TRIES = 7 };

struct candidate {
    uint32_t stage, lane;
    double excess;
};

struct replacement {
    const struct hm_diagnoser *d;
    const struct candidate *worst;
    size_t k;
};

static bool touched(const void *context, size_t lane) {
    const struct replacement *r = context;
    for (size_t i = 0; i < r->k; i++)
        if (r->worst[i].lane == lane) return true;
    return false;
}

/* The new worker is like its peers; what the old one did with long sequences or as a heavy stage, the new one does, too. */
static void replace(const void *context, size_t block, size_t lane, double *duration) {
    const struct replacement *r = context;
    for (size_t i = 0; i < r->k; i++)
        if (r->worst[i].lane == lane) hm_mend_worker(r->d, block, r->worst[i].stage, lane, duration);
}

static int worst_first(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->excess != y->excess) return x->excess > y->excess ? -1 : 1;
    return x->stage != y->stage ? (x->stage > y->stage) - (x->stage < y->stage)
                                : (x->lane > y->lane) - (x->lane < y->lane);
}

static const char *explain(struct hm_diagnoser *d, const struct candidate *worst, size_t k, const size_t *ks,
                           const double *step_s, size_t tries, double best) {
    enum { NAMED = 4 };
    struct hm_str s = {0};
    hm_str_add(&s, "Replace %s%zu of %zu workers (", k == 1 ? "this " : "these ", k, d->p.stages * d->p.lanes);
    for (size_t i = 0; i < k && i < NAMED; i++)
        hm_str_add(&s, "%sstage %u dp %u", i ? ", " : "", worst[i].stage, d->t->recording->lanes[worst[i].lane]);
    hm_str_add(&s, "%s): wins back %.0f %% of the loss.", k > NAMED ? ", ..." : "", hm_won_back(d, best));
    for (size_t i = 0; i < tries; i++)
        if (ks[i] != k) hm_str_add(&s, " %zu: %.0f %%.", ks[i], hm_won_back(d, step_s[i]));
    hm_str_add(&s, " Assumes that a new worker computes as fast as its peers do.");
    const char *how = hm_box_text(d->box, "%s", s.text ? s.text : "");
    d->box->failed |= s.failed;
    hm_str_free(&s);
    return how;
}

int hm_fix_workers(struct hm_diagnoser *d) {
    const struct hm_profile *p = &d->p;
    struct candidate *worst = hm_alloc(p->stages * p->lanes, sizeof *worst);
    if (!worst) return -1;
    size_t n = 0, tries = 0, ks[TRIES];
    double step_s[TRIES], most = 0;
    for (size_t i = 0; i < d->n_places;
         i++) { /* how much longer over the whole recording; the others differ by chance */
        const struct hm_slow_place *a = &d->place[i];
        if (a->stage != HM_ALL_STAGES)
            worst[n++] = (struct candidate){(uint32_t)a->stage, a->lane, a->excess * (double)a->n_steps};
    }
    qsort(worst, n, sizeof *worst, worst_first);
    for (size_t k = 1; n && tries < TRIES && k <= MOST; k *= 2) {
        struct replacement r = {d, worst, k < n ? k : n};
        ks[tries] = r.k;
        step_s[tries] = hm_scenario_mean_s(&d->s, replace, touched, &r);
        double gain = d->a->replayed_s - step_s[tries++];
        if (most > 0 && gain - most < flat * most && tries > 1) break;
        if (gain > most) most = gain;
        if (r.k == n) break;
    }
    for (size_t i = 0; i < tries; i++)
        if (d->a->replayed_s - step_s[i] >= enough * most) {
            hm_offer(d, "replace-workers", step_s[i], explain(d, worst, ks[i], ks, step_s, tries, step_s[i]));
            break;
        }
    hm_free(worst);
    return 0;
}
