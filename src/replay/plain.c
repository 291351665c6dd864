/* plain.c - the replay straight from its definition, one op at a time; gives every start and end. */
#include "replay.h"

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
        for (size_t lane = 0; lane < lanes; lane++)
            for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++)
                end[lane * m->n_slots + i] = latest_of_all + duration[lane * m->n_slots + i];
    }
}
