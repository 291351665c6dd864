/* fix_split.c - give slower replicas fewer microbatches: minimise the largest m_i * t_i, with the sum of m_i kept. */
#include "fixes.h"

#include <math.h>

struct split {
    const struct hm_diagnoser *d;
    const uint32_t *count; /* [lane] microbatches */
};

/* The pace of a replica is that of its slowest stage: seconds a microbatch. */
static double pace(const struct hm_diagnoser *d, size_t lane) {
    const struct hm_profile *p = &d->p;
    double slowest = 0;
    for (size_t s = 0; s < p->stages; s++) {
        double sum = 0;
        for (uint32_t role = hm_role(p, s, 0, 0); role < hm_role(p, s + 1, 0, 0); role++)
            for (size_t mb = 0; mb < p->microbatches; mb++) {
                uint32_t slot = hm_slot_of(p, role, mb);
                for (size_t t = 0; slot != HM_NONE && t < p->steps; t++) sum += hm_recorded_s(p, lane, slot, t);
            }
        slowest = fmax(slowest, sum / (double)(p->microbatches * p->steps));
    }
    return slowest;
}

/* The replay's program keeps its ops, so fewer microbatches are shorter ones: computes scale by m_i / m. */
static void resplit(const void *context, size_t block, size_t lane, double *duration) {
    (void)block;
    const struct split *q = context;
    const struct hm_profile *p = &q->d->p;
    double factor = (double)q->count[lane] / (double)p->microbatches;
    for (uint32_t role = 0; role < p->roles; role++)
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, role, mb);
            for (size_t k = 0; slot != HM_NONE && k < HM_WIDTH; k++) duration[slot * HM_WIDTH + k] *= factor;
        }
}

/* One microbatch after the other to where it ends first: optimal for this objective. At least one each. */
static void share_out(const struct hm_profile *p, const double *t, uint32_t *count) {
    size_t left = p->lanes * (p->microbatches - 1);
    for (size_t l = 0; l < p->lanes; l++) count[l] = 1;
    /* All but a few go in proportion to speed at once. */
    double speed = 0;
    for (size_t l = 0; l < p->lanes; l++) speed += 1 / t[l];
    for (size_t l = 0; l < p->lanes; l++) {
        double fair = floor((double)(p->lanes * p->microbatches) / speed / t[l]) - 1;
        size_t more = fair > 1 ? (size_t)fair - 1 : 0;
        if (more > left) more = left;
        count[l] += (uint32_t)more;
        left -= more;
    }
    for (; left; left--) {
        size_t best = 0;
        for (size_t l = 1; l < p->lanes; l++)
            if ((count[l] + 1) * t[l] < (count[best] + 1) * t[best]) best = l;
        count[best]++;
    }
}

static const char *explain(struct hm_diagnoser *d, const uint32_t *count, double step_s) {
    enum { NAMED = 6 };
    const struct hm_profile *p = &d->p;
    struct hm_str s = {0};
    size_t changed = 0;
    hm_str_add(
        &s, "Split the global batch by the replicas' pace instead of evenly (%zu microbatches each):", p->microbatches);
    for (size_t l = 0; l < p->lanes; l++) {
        if (count[l] >= p->microbatches || changed++ >= NAMED) continue;
        hm_str_add(&s, "%s dp %u gets %u", changed > 1 ? "," : "", d->t->recording->lanes[l], count[l]);
    }
    if (changed > NAMED) hm_str_add(&s, ", and %zu more get fewer", changed - NAMED);
    hm_str_add(&s,
               "; the others share the rest. Wins back %.0f %% of the loss. Assumes that gradients are weighted by "
               "microbatches, that "
               "pace stays, and that filling and draining the pipeline shrink with the count.",
               hm_won_back(d, step_s));
    const char *how = hm_box_text(d->box, "%s", s.text ? s.text : "");
    d->box->failed |= s.failed;
    hm_str_free(&s);
    return how;
}

int hm_fix_split(struct hm_diagnoser *d) {
    const struct hm_profile *p = &d->p;
    if (!p->whole) return 0; /* nor have stages that were not recorded a pace */
    if (p->lanes < 2 || p->microbatches < 2 || !(d->found & (1u << HM_SLOW_WORKER | 1u << HM_REPLICA_IMBALANCE)))
        return 0;
    double *t = hm_alloc(p->lanes, sizeof *t);
    uint32_t *count = hm_alloc(p->lanes, sizeof *count);
    bool good = t && count, changed = false, sane = true;
    for (size_t l = 0; good && l < p->lanes; l++) sane &= (t[l] = pace(d, l)) > 0;
    if (good && sane) {
        share_out(p, t, count);
        for (size_t l = 0; l < p->lanes; l++) changed |= count[l] != p->microbatches;
    }
    if (changed) {
        struct split q = {d, count};
        double step_s = hm_scenario_mean_s(&d->s, resplit, NULL, &q);
        hm_offer(d, "resplit-microbatches", step_s, explain(d, count, step_s));
    }
    hm_free(t);
    hm_free(count);
    return good ? 0 : -1;
}
