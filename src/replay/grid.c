/* grid.c - recorded times into dense arrays in the order of the program, and transfer durations out of them. */
#include "replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const double clocks_apart_s =
    0.01; /* a transfer of -10 ms or less is a clock error (artefact, get_transfer_time) */

/* The places of the ops: see struct hm_dense. */
static int make_table(struct hm_dense *d, const struct hm_job *m) {
    size_t rows = m->stages * HM_OP_TYPES, total = 0;
    uint32_t *most = hm_alloc(rows, sizeof *most); /* highest seq + 1 */
    uint32_t *first = hm_alloc(rows + 1, sizeof *first), *slot = NULL;
    d->first = first;
    if (most && first) {
        for (size_t i = 0; i < m->n_slots; i++) {
            uint32_t *n = &most[m->slot[i].stage * HM_OP_TYPES + m->slot[i].cls];
            if (m->slot[i].seq + 1 > *n) *n = m->slot[i].seq + 1;
        }
        for (size_t k = 0; k < rows; k++) {
            first[k] = (uint32_t)total;
            total += most[k];
        }
        first[rows] = (uint32_t)total;
        d->slot = slot = hm_alloc(total, sizeof *slot);
        if (slot) memset(slot, 0xff, total * sizeof *slot);
        for (size_t i = 0; slot && i < m->n_slots; i++)
            slot[first[m->slot[i].stage * HM_OP_TYPES + m->slot[i].cls] + m->slot[i].seq] = (uint32_t)i;
    }
    hm_free(most);
    return slot ? 0 : -1;
}

struct fill {
    struct hm_grid *g;
    const struct hm_recording *r;
    const struct hm_job *m;
    struct hm_dense dense;
    double **copy;            /* [thread][step in block][slot] */
    struct hm_groups *groups; /* [thread] */
    atomic_size_t zeroed;
    atomic_bool misordered;
};

void hm_grid_release(const struct hm_grid *g, size_t block, size_t lane, size_t lanes) {
    if (!g->spilled) return;
    size_t bytes = lanes * g->slots * HM_WIDTH * sizeof(double);
    hm_map_release(hm_grid_lane(g, g->duration, block, lane), bytes);
    if (g->start) hm_map_release(hm_grid_lane(g, g->start, block, lane), bytes);
}

static void place_rows(void *context, size_t index, int thread) {
    (void)thread;
    struct fill *f = context;
    const struct hm_recording *r = f->r;
    struct hm_piece piece = hm_rows_piece(&r->rows, index);
    for (size_t i = 0; i < piece.n; i++) {
        uint64_t key = piece.row[i].key;
        if (key == HM_KEY_DEAD) continue;
        uint32_t step = r->step_index[hm_key_step(key)], lane = r->lane_index[hm_key_dp(key)];
        if (step == UINT32_MAX || lane == UINT32_MAX) continue;
        uint32_t slot = hm_dense_slot(&f->dense, hm_key_stage(key), hm_key_type(key), hm_key_seq(key));
        if (slot == UINT32_MAX) continue; /* cannot happen: settled cells hold the reference's ops */
        size_t at = hm_dense_cell(&f->dense, step, lane) + slot;
        f->dense.start[at] = piece.row[i].start_s;
        f->dense.duration[at] = piece.row[i].duration_s;
    }
}

/* From [step in block][slot], as rows come, to [slot][step in block], as replays want it; one lane of one block. */
static void turn_around(double *lane, double *copy, size_t slots) {
    memcpy(copy, lane, slots * HM_WIDTH * sizeof *lane);
    for (size_t i = 0; i < slots; i++)
        for (size_t k = 0; k < HM_WIDTH; k++) lane[i * HM_WIDTH + k] = copy[k * slots + i];
}

/* Ops of a type of a worker are numbered by start; where a recording numbers them otherwise, its numbers are not to be trusted. */
static bool in_order(const struct fill *f, const double *start, size_t width) {
    const size_t rows = f->dense.stages * HM_OP_TYPES;
    for (size_t r = 0; r < rows; r++)
        for (uint32_t i = f->dense.first[r] + 1; i < f->dense.first[r + 1]; i++) {
            if (f->dense.slot[i] == UINT32_MAX || f->dense.slot[i - 1] == UINT32_MAX) continue;
            const double *x = start + (size_t)f->dense.slot[i - 1] * HM_WIDTH,
                         *y = start + (size_t)f->dense.slot[i] * HM_WIDTH;
            for (size_t k = 0; k < width; k++)
                if (y[k] < x[k]) return false;
        }
    return true;
}

static void turn_lane(void *context, size_t index, int thread) {
    struct fill *f = context;
    const struct hm_grid *g = f->g;
    size_t block = index / g->lanes, lane = index % g->lanes;
    turn_around(hm_grid_lane(g, g->start, block, lane), f->copy[thread], g->slots);
    if (!in_order(f, hm_grid_lane(g, g->start, block, lane), hm_grid_width(g, block)))
        atomic_store(&f->misordered, true);
    turn_around(hm_grid_lane(g, g->duration, block, lane), f->copy[thread], g->slots);
    hm_grid_release(g, block, lane, 1);
}

/* Starts count from the step's earliest start from here on. The recorded step time is the latest end then. */
static void measure_steps(struct hm_grid *g, size_t block, double earliest[HM_WIDTH]) {
    double latest[HM_WIDTH] = {0};
    double *start = hm_grid_lane(g, g->start, block, 0);
    const double *duration = hm_grid_lane(g, g->duration, block, 0);
    const size_t n = g->lanes * g->slots * HM_WIDTH;
    for (size_t k = 0; k < HM_WIDTH; k++) earliest[k] = INFINITY;
    for (size_t i = 0; i < n; i += HM_WIDTH)
        for (size_t k = 0; k < HM_WIDTH; k++) earliest[k] = start[i + k] < earliest[k] ? start[i + k] : earliest[k];
    for (size_t i = 0; i < n; i += HM_WIDTH)
        for (size_t k = 0; k < HM_WIDTH; k++) {
            start[i + k] -= earliest[k];
            double end = start[i + k] + duration[i + k];
            latest[k] = end > latest[k] ? end : latest[k];
        }
    memcpy(g->actual_s + block * HM_WIDTH, latest, hm_grid_width(g, block) * sizeof *latest);
}

/* What is left of a node's durations in one replica once the waiting is off: own end - the group's start. */
static size_t take_off_waiting(struct hm_grid *g, const struct hm_groups *groups, size_t lane, uint32_t node) {
    const struct hm_node *n = &groups->m->node[node];
    const double *start = hm_grid_lane(g, g->start, groups->block, lane);
    double *duration = hm_grid_lane(g, g->duration, groups->block, lane), begin[HM_WIDTH];
    size_t zeroed = 0;
    hm_group_start(groups, lane, node, begin);
    for (size_t i = (size_t)n->first_slot * HM_WIDTH; i < (size_t)(n->first_slot + n->n_slots) * HM_WIDTH; i++) {
        double transfer = start[i] + duration[i] - begin[i % HM_WIDTH];
        zeroed += transfer <= -clocks_apart_s;
        duration[i] = transfer <= -clocks_apart_s ? 0 : transfer;
    }
    return zeroed;
}

/* An op alone keeps its duration. */
static bool is_transfer(const struct hm_job *m, const struct hm_node *node) {
    return node->across >= 0 || node->n_slots > 1 || m->slot[node->first_slot].lonely;
}

static void transfers_of_block(void *context, size_t block, int thread) {
    struct fill *f = context;
    struct hm_grid *g = f->g;
    struct hm_groups *groups = &f->groups[thread];
    size_t zeroed = 0;
    double earliest[HM_WIDTH];
    measure_steps(g, block, earliest);
    if (g->outside) hm_outside_settle(g, f->m, block, earliest);
    hm_groups_gather_all(groups, block);
    for (size_t lane = 0; lane < g->lanes; lane++)
        for (uint32_t k = 0; k < f->m->n_nodes; k++)
            if (is_transfer(f->m, &f->m->node[k])) zeroed += take_off_waiting(g, groups, lane, k);
    atomic_fetch_add(&f->zeroed, zeroed);
    hm_grid_release(g, block, 0, g->lanes);
}

/* Groups hold whole steps, in order: their blocks are touched one after the other. */
static int place_all(struct fill *f, struct hm_recording *r, int threads, struct hm_error *err) {
    if (hm_outside_begin(f->g, r, f->m) != 0) return hm_fail_memory(err);
    for (size_t k = 0; k < r->n_groups; k++) {
        if (hm_recording_load(r, k, err) != 0) return -1;
        if (hm_outside_take(f->g, r, f->m, &f->dense) != 0) return hm_fail_memory(err);
        hm_parallel(hm_rows_pieces(&r->rows), threads, place_rows, f);
        for (size_t block = 0; f->g->spilled && block < f->g->blocks; block++)
            hm_grid_release(f->g, block, 0, f->g->lanes);
    }
    return 0;
}

static int make_arrays(struct hm_grid *g, const struct hm_recording *r, const struct hm_job *m, struct hm_error *err) {
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
    if (g->duration && g->start && g->actual_s) return 0;
    if (g->spilled && g->actual_s)
        return hm_fail(
            err, HM_ERR_IO,
            "%s: a trace larger than memory needs %.1f GB of scratch space there; set TMPDIR to a folder with room",
            folder, 2e-9 * (double)g->bytes);
    return hm_fail_memory(err);
}

/* Once all rows are in: the replays' order, step times, transfer durations. */
static int derive(struct fill *f, int threads, struct hm_error *err) {
    struct hm_grid *g = f->g;
    size_t lanes = g->blocks * g->lanes;
    int n = hm_thread_count(threads, lanes);
    f->copy = hm_alloc((size_t)n, sizeof *f->copy);
    f->groups = hm_alloc((size_t)n, sizeof *f->groups);
    bool good = f->copy && f->groups;
    for (int t = 0; good && t < n; t++)
        good = (f->copy[t] = hm_alloc_aligned(g->slots * HM_WIDTH, sizeof(double))) != NULL &&
               hm_groups_begin(&f->groups[t], g, f->m) == 0;
    if (good) {
        hm_parallel(lanes, n, turn_lane, f);
        hm_parallel(g->blocks, n, transfers_of_block, f);
        g->negative_zeroed = f->zeroed;
    }
    for (int t = 0; t < n; t++) {
        if (f->copy) hm_free(f->copy[t]);
        if (f->groups) hm_groups_end(&f->groups[t]);
    }
    hm_free(f->copy);
    hm_free(f->groups);
    return good ? 0 : hm_fail_memory(err);
}

int hm_grid_fill(struct hm_grid *g, struct hm_recording *r, const struct hm_job *m, int threads, struct hm_error *err) {
    struct fill f = {.g = g, .r = r, .m = m};
    int status = make_arrays(g, r, m, err);
    f.dense = (struct hm_dense){.stages = m->stages,
                                .slots = g->slots,
                                .lanes = g->lanes,
                                .steps = g->steps,
                                .start = g->start,
                                .duration = g->duration};
    if (status == 0 && make_table(&f.dense, m) != 0) status = hm_fail_memory(err);
    if (status == 0) status = r->settle ? place_all(&f, r, threads, err) : hm_recording_read_dense(r, &f.dense, err);
    if (status == 0) status = derive(&f, threads, err);
    if (status == 0 && f.misordered && !(r->settle && r->by_start)) {
        r->by_start = true;
        status = 1;
    }
    if (status != 0) hm_grid_free(g);
    hm_free((void *)f.dense.first);
    hm_free((void *)f.dense.slot);
    return status;
}

void hm_grid_free(struct hm_grid *g) {
    hm_unmap(g->duration, g->bytes);
    hm_unmap(g->start, g->bytes);
    hm_free(g->actual_s);
    hm_outside_free(g->outside);
    *g = (struct hm_grid){0};
}
