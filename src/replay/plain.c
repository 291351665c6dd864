/* plain.c - the replay straight from its definition, one op at a time; gives every start and end. */
#include "replay.h"

#include <math.h>

static double latest_in_block(const struct hm_job *m, const struct hm_node *node, size_t lanes, const uint32_t *block,
                              uint32_t wanted, const double *start) {
    double latest = -INFINITY;
    for (size_t lane = 0; lane < lanes; lane++)
        for (uint32_t i = node->first_slot; block[lane] == wanted && i < node->first_slot + node->n_slots; i++)
            if (start[lane * m->n_slots + i] > latest) latest = start[lane * m->n_slots + i];
    return latest;
}

void hm_replay_plain(const struct hm_job *m, size_t lanes, const double *duration, double *start, double *end) {
    for (size_t k = 0; k < m->n_nodes; k++) {
        const struct hm_node *node = &m->node[k];
        double latest_of_all = 0;
        for (size_t lane = 0; lane < lanes; lane++) {
            const size_t base = lane * m->n_slots;
            double latest = 0;
            for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++) {
                const struct hm_slot *slot = &m->slot[i];
                double ready = slot->n_deps ? end[base + m->dep[slot->first_dep]] : 0;
                for (uint32_t d = 1; d < slot->n_deps; d++) {
                    double e = end[base + m->dep[slot->first_dep + d]];
                    if (e > ready) ready = e;
                }
                start[base + i] = ready;
                if (i == node->first_slot || ready > latest) latest = ready;
            }
            if (lane == 0 || latest > latest_of_all) latest_of_all = latest;
            for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++)
                end[base + i] = latest + duration[base + i];
        }
        if (node->across < 0) continue;
        const uint32_t *block = m->partition[node->partition].block;
        for (size_t lane = 0; lane < lanes; lane++) {
            double latest = block ? latest_in_block(m, node, lanes, block, block[lane], start) : latest_of_all;
            for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++)
                end[lane * m->n_slots + i] = latest + duration[lane * m->n_slots + i];
        }
    }
}
