/* replica_imbalance.c - a replica all of whose stages are slower than other replicas': its share of the work, or its location. */
#include "diagnose.h"

#include <math.h>

bool hm_recognise_replicas(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c) {
    uint32_t *ranks = hm_keep(f, e->lanes, sizeof *ranks);
    if (!ranks) return false;
    size_t n = 0, worst = 0;
    for (size_t l = 0; l < e->lanes; l++)
        if (e->slow_replica[l]) {
            if (n == 0 || e->replica[l] > e->replica[worst]) worst = l;
            ranks[n++] = e->t->recording->lanes[l];
        }
    if (n == 0) return false;
    uint32_t first = e->t->recording->lanes[worst];
    for (size_t k = 0; k < n; k++) /* the worst one first */
        if (ranks[k] == first) ranks[k] = ranks[0], ranks[0] = first, k = n - 1;
    c->dp_ranks = ranks;
    c->n_dp_ranks = n;
    c->confidence = fmin(0.95, 0.6 + (e->replica[worst] - 1));
    hm_evidence(f, c, e->replica[worst], "times",
                "compute time of DP rank %u over the other replicas', on all its stages", ranks[0]);
    return true;
}
