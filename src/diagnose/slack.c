/* slack.c - how much later every transfer over a stage edge may come before a step takes 1 % longer. */
#include "fixes.h"

#include <math.h>

static const double growth = 0.01;  /* of T */
static const double many_ops = 4e6; /* beyond, so many replays would take longer than the analysis */
enum { MOST_EDGES = 32, PROBES = 5 };

struct late {
    const struct hm_diagnoser *d;
    uint32_t edge;
    double by_s;
};

/* Both directions, all replicas: the ends of a node's members move together. */
static void come_late(const void *context, size_t block, size_t lane, double *duration) {
    (void)block, (void)lane;
    const struct late *q = context;
    const struct hm_job *m = q->d->t->job;
    for (uint32_t i = 0; i < m->n_slots; i++) {
        if (hm_edge_of(m, i) != q->edge) continue;
        for (size_t k = 0; k < HM_WIDTH; k++) duration[i * HM_WIDTH + k] += q->by_s;
    }
}

static size_t transfers_over(const struct hm_job *m, uint32_t edge) {
    size_t n = 0;
    for (uint32_t i = 0; i < m->n_slots; i++) n += hm_edge_of(m, i) == edge;
    return n / 2;
}

/* The step time is convex in the delay (a maximum of sums), so the chord to a delay that is too long never passes the
 * answer, and the next one starts closer. */
static double slack_of(struct hm_diagnoser *d, uint32_t edge) {
    const double T = d->a->replayed_s, wanted = growth * T;
    double low = 0, low_grown = 0, high = wanted, high_grown = 0;
    for (int probe = 0; probe < 2 * PROBES; probe++) { /* a delay that is too long */
        struct late q = {d, edge, high};
        high_grown = hm_scenario_mean_s(&d->s, come_late, NULL, &q) - T;
        if (high_grown >= wanted) break;
        low = high, low_grown = high_grown;
        high *= 4;
    }
    if (high_grown < wanted) return NAN;
    for (int probe = 0; probe < PROBES; probe++) {
        struct late q = {d, edge, low + (high - low) * (wanted - low_grown) / (high_grown - low_grown)};
        double grown = hm_scenario_mean_s(&d->s, come_late, NULL, &q) - T;
        if (grown < wanted)
            low = q.by_s, low_grown = grown;
        else
            high = q.by_s, high_grown = grown;
        if (fabs(grown - wanted) < 0.02 * wanted) break;
    }
    return low + (high - low) * (wanted - low_grown) / (high_grown - low_grown);
}

int hm_measure_slack(struct hm_diagnoser *d) {
    const struct hm_job *m = d->t->job;
    struct hm_diagnosis *out = &d->box->d;
    if (m->stages < 2 || m->stages > MOST_EDGES || (double)d->a->ops > many_ops) return 0;
    double *slack = hm_box_alloc(d->box, m->stages - 1, sizeof *slack);
    if (!slack) return -1;
    for (uint32_t e = 0; e + 1 < m->stages; e++) slack[e] = transfers_over(m, e) ? slack_of(d, e) : NAN;
    out->edge_slack_s = slack;
    out->n_edges = m->stages - 1;
    return 0;
}
