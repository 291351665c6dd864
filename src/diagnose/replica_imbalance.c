/* replica_imbalance.c - a replica whose computes all take longer than the other replicas', on all stages and most of the
 * time: more data in its shard, or a slower kind of machine. In a job of one stage that is a slow worker. */
#include "diagnose.h"

#include <math.h>

static const double least = 0.03;
static const double sigmas = 5;

int hm_find_replica_imbalance(struct hm_diagnoser *d, struct hm_finding *f) {
    enum { NAMED = 64, NOTED = 4 };
    const struct hm_profile *p = &d->p;
    if (p->stages < 2 || p->lanes < 2 || p->microbatches == 0) return 0;
    const size_t per_lane = p->microbatches * p->steps;
    double *value = hm_alloc(per_lane > p->lanes ? per_lane : p->lanes, sizeof *value);
    double *spread = hm_alloc(p->lanes, sizeof *spread);
    int status = value && spread && (d->replica = hm_alloc(p->lanes, sizeof(double))) ? 0 : -1;
    if (status == 0) {
        for (size_t l = 0; l < p->lanes; l++) { /* how a replica's microbatches differ anyway */
            for (size_t k = 0; k < per_lane; k++) value[k] = hm_work(p, l, 0)[k];
            spread[l] = 1.4826 * hm_mad(value, per_lane, p->replica[l]);
        }
        for (size_t l = 0; l < p->lanes; l++) value[l] = p->replica[l];
        double peers = p->lanes >= 4 ? 1.4826 * hm_mad(value, p->lanes, 0) : 0;
        double most = 0, clear = 0;
        for (size_t l = 0; l < p->lanes; l++) {
            double n = (double)per_lane / (1 + 1 / (double)(p->lanes - 1)), /* the others are uncertain, too */
                error = hypot(1.2533 * spread[l] / sqrt(n), peers), above = expm1(p->replica[l]);
            if (above < least || above < sigmas * error) continue;
            d->replica[l] = p->replica[l];
            if (f->cause.n_dp_ranks < NAMED) hm_at_dp_rank(f, l);
            if (f->cause.n_dp_ranks <= NOTED)
                hm_note(f, 1 + above, "ratio", "compute time over the other replicas', dp %u",
                        d->t->recording->lanes[l]);
            most = fmax(most, above);
            clear = fmax(clear, error > 0 ? above / error : INFINITY);
            status = 1;
        }
        if (status == 1) {
            hm_note(f, fmin(clear, 1e6), "sigma", "distance from them, largest");
            hm_note(f, (double)p->stages, "", "stages that show it: all");
            hm_at_op_type(f, HM_FORWARD_COMPUTE);
            hm_at_op_type(f, HM_BACKWARD_COMPUTE);
            f->strength = fmin(1, clear / (2 * sigmas));
        }
    }
    hm_free(value);
    hm_free(spread);
    return status;
}

void hm_idealise_replicas(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    (void)block;
    const struct hm_profile *p = &d->p;
    if (!d->replica || d->replica[lane] == 0) return;
    double factor = exp(-d->replica[lane]);
    for (uint32_t role = 0; role < p->roles; role++)
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, role, mb);
            for (size_t k = 0; slot != HM_NONE && k < HM_WIDTH; k++) duration[slot * HM_WIDTH + k] *= factor;
        }
}
