/* grid.c - recorded times into dense arrays in the order of the program, and transfer durations out of them. */
#include "replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const double clocks_apart_s =
    0.01; /* a transfer of -10 ms or less is a clock error (artefact, get_transfer_time) */

/* Where an op of (stage, type, seq) goes: table[first[stage][type] + seq]. */
struct slot_table {
    uint32_t *first; /* [stage * HM_OP_TYPES + type] */
    uint32_t *slot;
};

static int make_table(struct slot_table *t, const struct hm_model *m) {
    uint32_t *most = hm_alloc(m->stages * HM_OP_TYPES, sizeof *most); /* highest seq + 1 */
    t->first = hm_alloc(m->stages * HM_OP_TYPES + 1, sizeof *t->first);
    size_t total = 0;
    if (most && t->first) {
        for (size_t i = 0; i < m->n_slots; i++) {
            uint32_t *n = &most[m->slot[i].stage * HM_OP_TYPES + m->slot[i].type];
            if (m->slot[i].seq + 1 > *n) *n = m->slot[i].seq + 1;
        }
        for (size_t k = 0; k < m->stages * HM_OP_TYPES; k++) {
            t->first[k] = (uint32_t)total;
            total += most[k];
        }
        t->slot = hm_alloc(total, sizeof *t->slot);
        for (size_t i = 0; t->slot && i < m->n_slots; i++)
            t->slot[t->first[m->slot[i].stage * HM_OP_TYPES + m->slot[i].type] + m->slot[i].seq] = (uint32_t)i;
    }
    hm_free(most);
    return t->slot ? 0 : -1;
}

struct fill {
    struct hm_grid *g;
    const struct hm_recording *r;
    const struct hm_model *m;
    struct slot_table table;
    atomic_size_t zeroed;
};

static void place_rows(void *context, size_t index, int thread) {
    (void)thread;
    struct fill *f = context;
    const struct hm_recording *r = f->r;
    struct hm_grid *g = f->g;
    struct hm_piece piece = hm_rows_piece(&r->rows, index);
    for (size_t i = 0; i < piece.n; i++) {
        uint64_t key = piece.row[i].key;
        if (key == HM_KEY_DEAD) continue;
        uint32_t step = r->step_index[hm_key_step(key)], lane = r->lane_index[hm_key_dp(key)];
        if (step == UINT32_MAX || lane == UINT32_MAX) continue;
        uint32_t slot =
            f->table.slot[f->table.first[hm_key_stage(key) * HM_OP_TYPES + hm_key_type(key)] + hm_key_seq(key)];
        size_t at = (((size_t)step / HM_WIDTH * g->lanes + lane) * g->slots + slot) * HM_WIDTH + step % HM_WIDTH;
        g->start[at] = piece.row[i].start_s - r->step_start_s[step];
        g->duration[at] = piece.row[i].duration_s;
    }
}

/* The recorded step time: the grid starts at 0, so it is the latest end. */
static void measure_steps(struct hm_grid *g, size_t block) {
    double latest[HM_WIDTH] = {0};
    const double *start = hm_grid_lane(g, g->start, block, 0), *duration = hm_grid_lane(g, g->duration, block, 0);
    for (size_t i = 0; i < g->lanes * g->slots * HM_WIDTH; i++) {
        double end = start[i] + duration[i];
        if (end > latest[i % HM_WIDTH]) latest[i % HM_WIDTH] = end;
    }
    memcpy(g->actual_s + block * HM_WIDTH, latest, hm_grid_width(g, block) * sizeof *latest);
}

/* Subtracts the group's latest start from its members' ends in one lane. */
static size_t take_off_waiting(const struct hm_node *node, const double *start, double *duration,
                               const double *latest) {
    size_t zeroed = 0;
    for (size_t i = (size_t)node->first_slot * HM_WIDTH; i < (size_t)(node->first_slot + node->n_slots) * HM_WIDTH;
         i++) {
        double transfer = start[i] + duration[i] - latest[i % HM_WIDTH];
        zeroed += transfer <= -clocks_apart_s;
        duration[i] = transfer <= -clocks_apart_s ? 0 : transfer;
    }
    return zeroed;
}

static void latest_start(const struct hm_node *node, const double *start, double *latest) {
    for (size_t i = (size_t)node->first_slot * HM_WIDTH; i < (size_t)(node->first_slot + node->n_slots) * HM_WIDTH; i++)
        if (start[i] > latest[i % HM_WIDTH]) latest[i % HM_WIDTH] = start[i];
}

/* The recorded ends of the computes that a lonely transfer waits for stand for the launch of its other side. */
static void latest_compute(const struct hm_model *m, const struct hm_slot *slot, const double *start,
                           const double *duration, double *latest) {
    for (uint32_t d = slot->first_dep; d < slot->first_dep + slot->n_deps; d++) {
        if (!hm_is_compute((int)m->slot[m->dep[d]].type)) continue;
        size_t at = (size_t)m->dep[d] * HM_WIDTH;
        for (size_t k = 0; k < HM_WIDTH; k++)
            if (start[at + k] + duration[at + k] > latest[k]) latest[k] = start[at + k] + duration[at + k];
    }
}

static void transfers_of_block(void *context, size_t block, int thread) {
    (void)thread;
    struct fill *f = context;
    struct hm_grid *g = f->g;
    size_t zeroed = 0;
    measure_steps(g, block);
    for (size_t k = 0; k < f->m->n_nodes; k++) {
        const struct hm_node *node = &f->m->node[k];
        if (node->across < 0) continue;
        double latest[HM_WIDTH] = {0};
        for (size_t lane = 0; lane < g->lanes; lane++)
            latest_start(node, hm_grid_lane(g, g->start, block, lane), latest);
        for (size_t lane = 0; lane < g->lanes; lane++)
            zeroed += take_off_waiting(node, hm_grid_lane(g, g->start, block, lane),
                                       hm_grid_lane(g, g->duration, block, lane), latest);
    }
    for (size_t lane = 0; lane < g->lanes; lane++) {
        const double *start = hm_grid_lane(g, g->start, block, lane);
        double *duration = hm_grid_lane(g, g->duration, block, lane);
        for (size_t k = 0; k < f->m->n_nodes; k++) {
            const struct hm_node *node = &f->m->node[k];
            const struct hm_slot *slot = &f->m->slot[node->first_slot];
            if (node->across >= 0 || (node->n_slots < 2 && !slot->lonely)) continue;
            double latest[HM_WIDTH] = {0};
            if (slot->lonely) latest_compute(f->m, slot, start, duration, latest);
            latest_start(node, start, latest);
            zeroed += take_off_waiting(node, start, duration, latest);
        }
    }
    atomic_fetch_add(&f->zeroed, zeroed);
    hm_grid_release(g, block, 0, g->lanes);
}

void hm_grid_release(const struct hm_grid *g, size_t block, size_t lane, size_t lanes) {
    if (!g->spilled) return;
    size_t bytes = lanes * g->slots * HM_WIDTH * sizeof(double);
    hm_map_release(hm_grid_lane(g, g->duration, block, lane), bytes);
    if (g->start) hm_map_release(hm_grid_lane(g, g->start, block, lane), bytes);
}

/* Groups hold whole steps, in order: their blocks are touched one after the other. */
static int place_all(struct fill *f, struct hm_recording *r, int threads, struct hm_error *err) {
    for (size_t k = 0; k < r->n_groups; k++) {
        if (hm_recording_load(r, k, err) != 0) return -1;
        hm_parallel(hm_rows_pieces(&r->rows), threads, place_rows, f);
        for (size_t block = 0; f->g->spilled && block < f->g->blocks; block++)
            hm_grid_release(f->g, block, 0, f->g->lanes);
    }
    return 0;
}

int hm_grid_fill(struct hm_grid *g, struct hm_recording *r, const struct hm_model *m, int threads,
                 struct hm_error *err) {
    struct fill f = {.g = g, .r = r, .m = m};
    *g = (struct hm_grid){.steps = r->n_steps,
                          .blocks = (r->n_steps + HM_WIDTH - 1) / HM_WIDTH,
                          .lanes = r->n_lanes,
                          .slots = m->n_slots,
                          .spilled = r->spill};
    size_t cells, values;
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    if (hm_mul(g->blocks * HM_WIDTH, g->lanes, &cells) && hm_mul(cells, g->slots, &values) &&
        hm_mul(values, sizeof(double), &g->bytes)) {
        g->duration = hm_map(g->bytes, g->spilled ? folder : NULL);
        g->start = hm_map(g->bytes, g->spilled ? folder : NULL);
        g->actual_s = hm_alloc(g->steps, sizeof(double));
    }
    int status = -1;
    if (g->spilled && g->actual_s && (!g->duration || !g->start)) {
        hm_fail(err, HM_ERR_IO,
                "%s: a trace larger than memory needs %.1f GB of scratch space there; set TMPDIR to a folder with room",
                folder, 2e-9 * (double)g->bytes);
    } else if (!g->duration || !g->start || !g->actual_s || make_table(&f.table, m) != 0) {
        hm_fail_memory(err);
    } else if (place_all(&f, r, threads, err) == 0) {
        hm_parallel(g->blocks, threads, transfers_of_block, &f);
        g->negative_zeroed = f.zeroed;
        status = 0;
    }
    if (status != 0) hm_grid_free(g);
    hm_free(f.table.first);
    hm_free(f.table.slot);
    return status;
}

void hm_grid_free(struct hm_grid *g) {
    hm_unmap(g->duration, g->bytes);
    hm_unmap(g->start, g->bytes);
    hm_free(g->actual_s);
    *g = (struct hm_grid){0};
}
