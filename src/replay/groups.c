/* groups.c - when the data of a group began to move, as recorded: when its last member had launched.
 *
 * The one place that knows. A transfer whose other side has no record (`lonely`) takes the ends of the computes that it waits for as the
 * other side's launch. */
#include "replay.h"

#include <math.h>

int hm_groups_begin(struct hm_groups *s, const struct hm_grid *g, const struct hm_job *m) {
    *s = (struct hm_groups){.g = g, .m = m};
    s->latest = hm_alloc(m->n_starts, sizeof *s->latest);
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
    for (size_t i = node->first_slot; i < (size_t)node->first_slot + node->n_slots; i++)
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

/* Replicas that were left out are members as well: what waits for them is no transfer. Of groups over some replicas it is not known which
 * one they would be in. */
static void start_outside(struct hm_groups *s, const struct hm_node *n) {
    const size_t groups = s->m->partition[n->partition].blocks;
    const double *outside = NULL;
    if (groups == 1 && s->g->outside) outside = s->g->outside->launch_s + hm_outside_at(s->g->outside, n, s->block);
    for (size_t b = 0; b < groups; b++)
        for (size_t k = 0; k < HM_WIDTH; k++) s->latest[n->start + b][k] = outside ? outside[k] : -INFINITY;
}

void hm_groups_gather(struct hm_groups *s, size_t block, uint32_t node) {
    const struct hm_node *n = &s->m->node[node];
    s->block = block;
    if (n->across < 0) return;
    start_outside(s, n);
    for (size_t lane = 0; lane < s->g->lanes; lane++)
        raise_to_launches(s, n, lane, s->latest[hm_start_of(s->m, n, lane)]);
}

void hm_groups_gather_all(struct hm_groups *s, size_t block) {
    s->block = block;
    for (size_t k = 0; k < s->m->n_nodes; k++)
        if (s->m->node[k].across >= 0) start_outside(s, &s->m->node[k]);
    for (size_t lane = 0; lane < s->g->lanes; lane++)
        for (size_t k = 0; k < s->m->n_nodes; k++)
            if (s->m->node[k].across >= 0)
                raise_to_launches(s, &s->m->node[k], lane, s->latest[hm_start_of(s->m, &s->m->node[k], lane)]);
}

void hm_group_start(const struct hm_groups *s, size_t lane, uint32_t node, double start[HM_WIDTH]) {
    const struct hm_node *n = &s->m->node[node];
    const struct hm_slot *first = &s->m->slot[n->first_slot];
    for (size_t k = 0; k < HM_WIDTH; k++)
        start[k] = n->across >= 0 ? s->latest[hm_start_of(s->m, n, lane)][k] : -INFINITY;
    if (n->across >= 0) return;
    raise_to_launches(s, n, lane, start);
    if (first->lonely) raise_to_other_side(s, first, lane, start);
}
