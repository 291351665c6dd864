/* groups.c - when the data of a group began to move, as recorded: when its last member had launched.
 *
 * The one place that knows. A transfer whose other side has no record (`lonely`) takes the ends of the computes that it waits for as the
 * other side's launch. */
#include "replay.h"

#include <math.h>

int hm_groups_begin(struct hm_groups *s, const struct hm_grid *g, const struct hm_job *m) {
    *s = (struct hm_groups){.g = g, .m = m};
    s->latest = hm_alloc(m->n_across, sizeof *s->latest);
    return s->latest ? 0 : -1;
}

void hm_groups_end(struct hm_groups *s) {
    hm_free(s->latest);
    *s = (struct hm_groups){0};
}

static void raise_to(double *latest, const double *x) {
    for (size_t k = 0; k < HM_WIDTH; k++)
        if (x[k] > latest[k]) latest[k] = x[k];
}

/* The latest launch of the members in one replica. */
static void raise_to_launches(const struct hm_groups *s, const struct hm_node *node, size_t lane, double *latest) {
    const double *start = hm_grid_lane(s->g, s->g->start, s->block, lane);
    for (size_t i = node->first_slot; i < (size_t)(node->first_slot + node->n_slots); i++)
        raise_to(latest, start + i * HM_WIDTH);
}

/* The recorded ends of the computes that a lonely transfer waits for stand for the launch of its other side. */
static void raise_to_other_side(const struct hm_groups *s, const struct hm_slot *slot, size_t lane, double *latest) {
    const struct hm_job *m = s->m;
    const double *start = hm_grid_lane(s->g, s->g->start, s->block, lane),
                 *duration = hm_grid_lane(s->g, s->g->duration, s->block, lane);
    for (uint32_t d = slot->first_dep; d < slot->first_dep + slot->n_deps; d++) {
        if (!hm_is_pass(hm_class_of(m, m->dep[d]))) continue;
        double end[HM_WIDTH];
        for (size_t k = 0, at = (size_t)m->dep[d] * HM_WIDTH; k < HM_WIDTH; k++)
            end[k] = start[at + k] + duration[at + k];
        raise_to(latest, end);
    }
}

/* Replicas that were left out are members as well: what waits for them is no transfer. */
static void start_outside(struct hm_groups *s, size_t across) {
    const double *outside = s->g->outside_s ? s->g->outside_s + (across * s->g->blocks + s->block) * HM_WIDTH : NULL;
    for (size_t k = 0; k < HM_WIDTH; k++) s->latest[across][k] = outside ? outside[k] : -INFINITY;
}

void hm_groups_gather(struct hm_groups *s, size_t block, uint32_t node) {
    const struct hm_node *n = &s->m->node[node];
    s->block = block;
    if (n->across < 0) return;
    double *latest = s->latest[n->across];
    start_outside(s, (size_t)n->across);
    for (size_t lane = 0; lane < s->g->lanes; lane++) raise_to_launches(s, n, lane, latest);
}

void hm_groups_gather_all(struct hm_groups *s, size_t block) {
    s->block = block;
    for (size_t i = 0; i < s->m->n_across; i++) start_outside(s, i);
    for (size_t lane = 0; lane < s->g->lanes; lane++)
        for (size_t k = 0; k < s->m->n_nodes; k++)
            if (s->m->node[k].across >= 0) raise_to_launches(s, &s->m->node[k], lane, s->latest[s->m->node[k].across]);
}

void hm_group_start(const struct hm_groups *s, size_t lane, uint32_t node, double start[HM_WIDTH]) {
    const struct hm_node *n = &s->m->node[node];
    const struct hm_slot *first = &s->m->slot[n->first_slot];
    for (size_t k = 0; k < HM_WIDTH; k++) start[k] = n->across >= 0 ? s->latest[n->across][k] : -INFINITY;
    if (n->across >= 0) return;
    raise_to_launches(s, n, lane, start);
    if (first->lonely) raise_to_other_side(s, first, lane, start);
}
