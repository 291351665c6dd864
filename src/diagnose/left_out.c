/* left_out.c - a replica that was left out of the analysis, and that the others wait for.
 *
 * It cannot be replayed, so no cause explains its ops; but its launches of the groups are known (replay/outside.c), and with them what
 * waiting for it costs: lost.left_out_waits. Its computes tell why: longer than those of the same stage in the other replicas on one stage, it is
 * a slow worker; on all stages, a slow replica. Else nobody knows, and the replica is named. */
#include "fixes.h"

#include <math.h>
#include <string.h>

static const double least = 0.01;         /* of T */
static const double least_unknown = 0.02; /* of T, without a reason for it */
static const double slow = 1.05; /* times its peers; slower for a while or in some ops counts as the mean of all */
static const double alike = 0.5; /* of the worst stage's excess: then it is the replica */
static const double least_wait = 1e-4; /* of a step: an earlier one that others came later than is no wait */

struct suspect {
    const struct hm_outside *o;
    size_t who;           /* among those left out */
    double *ratio, worst; /* [stage] own computes over the peers' */
    size_t worst_stage;
    bool whole;
};

/* Mean seconds of a forward or backward on a stage in the replicas that were kept. */
static double peers_s(const struct hm_diagnoser *d, size_t stage, int direction) {
    const struct hm_job *m = d->t->job;
    const struct hm_grid *g = &d->t->grid;
    double sum = 0, n = 0;
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slot[i].stage != stage || hm_direction(m, m->slot[i].cls) != direction) continue;
        for (size_t l = 0; l < g->lanes; l++)
            for (size_t t = 0; t < g->steps; t++) {
                double s = hm_recorded_s(&d->p, l, i, t);
                sum += s, n += s > 0;
            }
    }
    return n > 0 ? sum / n : NAN;
}

/* By how much each replica that was left out came later than all that were kept, when it was the last: seconds in all. */
static int waits(const struct hm_diagnoser *d, double *late_s) {
    const struct hm_job *m = d->t->job;
    const struct hm_grid *g = &d->t->grid;
    struct hm_groups groups = {0};
    if (hm_groups_begin(&groups, g, m) != 0) return -1;
    const struct hm_outside *o = g->outside;
    for (size_t b = 0; b < g->blocks; b++)
        for (uint32_t n = 0; n < m->n_nodes; n++) {
            const struct hm_node *node = &m->node[n];
            if (node->across < 0) continue;
            double kept[HM_WIDTH];
            for (size_t k = 0; k < HM_WIDTH; k++) kept[k] = -INFINITY;
            for (size_t l = 0; l < g->lanes; l++) {
                const double *start = hm_grid_lane(g, g->start, b, l);
                for (size_t i = (size_t)node->first_slot * HM_WIDTH;
                     i < (size_t)(node->first_slot + node->n_slots) * HM_WIDTH; i++)
                    kept[i % HM_WIDTH] = fmax(kept[i % HM_WIDTH], start[i]);
            }
            for (size_t k = 0; k < hm_grid_width(g, b); k++) {
                size_t at = hm_outside_at(o, node, b) + k;
                double late = o->launch_s[at] - kept[k];
                if (late > least_wait * d->a->replayed_s) late_s[o->whose[at]] += late;
            }
        }
    hm_groups_end(&groups);
    return 0;
}

static void compare(const struct hm_diagnoser *d, struct suspect *s) {
    const struct hm_outside *o = s->o;
    size_t slow_stages = 0, seen = 0;
    for (size_t stage = 0; stage < o->stages; stage++) {
        double own = 0, peers = 0;
        for (int b = 0; b < 2; b++) {
            size_t at = (s->who * o->stages + stage) * 2 + (size_t)b;
            double usual = peers_s(d, stage, b);
            if (o->passes[at] == 0 || isnan(usual)) continue;
            own += 1e-9 * (double)o->pass_ns[at] / (double)o->passes[at];
            peers += usual;
        }
        s->ratio[stage] = peers > 0 ? own / peers : NAN;
        if (peers > 0) seen++;
        if (s->ratio[stage] > s->worst) s->worst = s->ratio[stage], s->worst_stage = stage;
    }
    for (size_t stage = 0; stage < o->stages; stage++) slow_stages += s->ratio[stage] - 1 > alike * (s->worst - 1);
    s->whole = seen > 1 && slow_stages == seen;
}

/* 1: named; 0: not worth it; -1: no memory. */
static int describe(struct hm_diagnoser *d, struct suspect *s, double cost_s, struct hm_cause *to) {
    const uint32_t dp = s->o->dp_rank[s->who];
    struct hm_finding f = {.d = d, .cause.cause = "unexplained"};
    compare(d, s);
    if (cost_s < (s->worst >= slow ? least : least_unknown) * d->a->replayed_s) return 0;
    if (s->worst >= slow && s->whole) {
        f.cause.cause = "replica-imbalance";
        hm_note(&f, s->worst, "ratio", "compute time over the other replicas', dp %u, on its slowest stage", dp);
    } else if (s->worst >= slow) {
        struct hm_worker *worker = hm_box_alloc(d->box, 1, sizeof *worker);
        if (!worker) return -1;
        *worker = (struct hm_worker){(uint32_t)s->worst_stage, dp};
        f.cause.cause = "slow-worker";
        f.cause.workers = worker, f.cause.n_workers = 1;
        hm_note(&f, s->worst, "ratio", "own time over that of its peers, stage %zu dp %u", s->worst_stage, dp);
    }
    if (!f.cause.n_workers) {
        uint32_t *rank = hm_box_alloc(d->box, 1, sizeof *rank);
        if (!rank) return -1;
        *rank = dp;
        f.cause.dp_ranks = rank, f.cause.n_dp_ranks = 1;
    }
    hm_note(&f, cost_s, "s", "of each step all wait for dp %u, which was left out of the analysis (see there)", dp);
    f.cause.recovers = cost_s / d->lost_s;
    f.cause.confidence = s->worst >= slow ? fmin(0.85, 0.5 + (s->worst - slow)) : 0.5;
    *to = f.cause;
    return 1;
}

int hm_name_left_out(struct hm_diagnoser *d, struct hm_cause *list, size_t *n, size_t most) {
    const struct hm_outside *o = d->t->grid.outside;
    const double lost_s = d->a->lost.left_out_waits_s;
    if (!o || !(lost_s >= least * d->a->replayed_s)) return 0;
    double *late_s = hm_alloc(o->n, sizeof *late_s), all = 0;
    struct suspect s = {.o = o, .ratio = hm_alloc(o->stages, sizeof(double))};
    int status = late_s && s.ratio ? waits(d, late_s) : -1;
    for (size_t i = 0; status == 0 && i < o->n; i++) all += late_s[i];
    for (size_t i = 0; status == 0 && i < o->n && *n < most; i++) {
        double cost_s = all > 0 ? lost_s * late_s[i] / all : 0;
        s.who = i, s.worst = 0, s.worst_stage = 0;
        int named = describe(d, &s, cost_s, &list[*n]);
        *n += named > 0;
        status = named < 0 ? -1 : 0;
    }
    hm_free(late_s);
    hm_free(s.ratio);
    return status;
}

/* Of those that compute slower than their peers. */
int hm_fix_left_out(struct hm_diagnoser *d) {
    const struct hm_diagnosis *out = &d->box->d;
    const struct hm_outside *o = d->t->grid.outside;
    double gain_s = 0;
    size_t workers = 0;
    for (size_t i = 0; o && i < out->n_causes; i++) {
        const struct hm_cause *c = &out->causes[i];
        for (size_t k = 0; strcmp(c->cause, "slow-worker") == 0 && c->n_workers == 1 && k < o->n; k++)
            if (c->workers[0].dp_rank == o->dp_rank[k]) gain_s += c->recovers * d->lost_s, workers++;
    }
    if (!workers) return 0;
    const double T = d->a->replayed_s;
    hm_offer_from(
        d, "replace-workers", T + gain_s, T,
        hm_box_text(
            d->box,
            "Replace %zu %s of a replica that was left out of the analysis: wins back %.0f %% of the loss. Assumes "
            "that it then comes to the groups as early as its peers do.",
            workers, workers > 1 ? "workers" : "worker", 100 * gain_s / d->lost_s));
    return 0;
}
