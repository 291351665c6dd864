/* outside.c - what was recorded of the replicas that were left out.
 *
 * A replica with holes cannot be replayed, yet the others meet it in every group over all replicas. Waiting for it is neither transfer nor
 * their own time, and it may be the straggler that the analysis is for. So its launches of those groups are kept, and how long it computes.
 *
 * Which of its launches is which: if it has as many ops of a type as the others, by their order; otherwise by their numbers, unless the
 * recording's numbers are not to be trusted. A wrong guess that would be later than possible shows: nobody leaves a group before
 * all have come. */
#include "replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double clocks_apart_s = 0.01; /* as for transfers (grid.c) */
static const double longest_s = 1e6;       /* of a compute, so that sums fit */

int hm_direction(const struct hm_job *m, uint32_t type) {
    return !hm_is_pass(&m->cls[type]) ? -1 : m->cls[type].phase == HM_BACKWARD;
}

void hm_outside_free(struct hm_outside *o) {
    if (!o) return;
    hm_free(o->dp_rank);
    hm_free(o->launch_s);
    hm_free(o->whose);
    hm_free(o->pass_ns);
    hm_free(o->passes);
    hm_free(o);
}

int hm_outside_begin(struct hm_grid *g, const struct hm_recording *r, const struct hm_job *m) {
    size_t n = 0, places = m->n_across * g->blocks * HM_WIDTH;
    for (size_t l = 0; l < r->n_ranked; l++) n += r->lane_index[l] == UINT32_MAX;
    if (n == 0 || m->n_across == 0) return 0;
    struct hm_outside *o = g->outside = hm_alloc(1, sizeof *o);
    if (!o) return -1;
    o->stages = m->stages, o->blocks = g->blocks;
    o->dp_rank = hm_alloc(n, sizeof *o->dp_rank);
    o->launch_s = hm_alloc(places, sizeof *o->launch_s);
    o->whose = hm_alloc(places, sizeof *o->whose);
    o->pass_ns = hm_alloc(n * m->stages * 2, sizeof *o->pass_ns);
    o->passes = hm_alloc(n * m->stages * 2, sizeof *o->passes);
    if (!o->dp_rank || !o->launch_s || !o->whose || !o->pass_ns || !o->passes) return -1;
    for (uint32_t l = 0; l < r->n_ranked; l++)
        if (r->lane_index[l] == UINT32_MAX) o->dp_rank[o->n++] = l;
    for (size_t i = 0; i < places; i++) o->launch_s[i] = -INFINITY;
    return 0;
}

static size_t index_of(const struct hm_outside *o, uint32_t dp) {
    size_t low = 0, high = o->n;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        *(o->dp_rank[middle] <= dp ? &low : &high) = middle;
    }
    return low;
}

/* Of a worker and type of op, in the order in which they were launched. */
static int by_start(const void *a, const void *b) {
    const struct hm_row *x = a, *y = b;
    uint64_t of_x = x->key >> HM_SEQ_BITS, of_y = y->key >> HM_SEQ_BITS;
    if (of_x != of_y) return (of_x > of_y) - (of_x < of_y);
    if (x->start_s != y->start_s) return (x->start_s > y->start_s) - (x->start_s < y->start_s);
    return (x->key > y->key) - (x->key < y->key);
}

/* One cell: a replica that was left out, in one step. */
struct cell {
    struct hm_grid *g;
    const struct hm_recording *r;
    const struct hm_job *m;
    const struct hm_dense *d;
    double *start, *ready; /* [slot] recorded start, NaN if it has no record; its end, or that of what it waits for */
};

/* Rows of one worker and type, in the order of their starts, to the slots they are of. */
static void place_rows(struct cell *c, const struct hm_row *row, size_t n) {
    const uint32_t stage = hm_key_stage(row->key), type = hm_key_type(row->key);
    if (stage >= c->d->stages) return;
    const uint32_t *first = c->d->first + (size_t)stage * HM_OP_TYPES + type;
    size_t expected = 0, k = 0;
    for (uint32_t i = first[0]; i < first[1]; i++) expected += c->d->slot[i] != UINT32_MAX;
    if (n != expected && c->r->by_start) return;
    for (uint32_t i = first[0]; n == expected && i < first[1]; i++) {
        if (c->d->slot[i] == UINT32_MAX) continue;
        c->start[c->d->slot[i]] = row[k].start_s;
        c->ready[c->d->slot[i]] = row[k].start_s + row[k].duration_s;
        k++;
    }
    for (k = 0; n != expected && k < n; k++) {
        uint32_t slot = hm_dense_slot(c->d, stage, type, hm_key_seq(row[k].key));
        if (slot == UINT32_MAX) continue;
        c->start[slot] = row[k].start_s;
        c->ready[slot] = row[k].start_s + row[k].duration_s;
    }
}

/* An op without a record was launched when what it waits for had ended. */
static double launch_of(const struct cell *c, uint32_t i) {
    const struct hm_slot *slot = &c->m->slot[i];
    if (!isnan(c->start[i])) return c->start[i];
    double latest = -INFINITY;
    for (uint32_t d = slot->first_dep; d < slot->first_dep + slot->n_deps; d++)
        latest = fmax(latest, c->ready[c->m->dep[d]]);
    return latest;
}

static void take_cell(struct cell *c, const struct hm_row *row, size_t n) {
    const uint32_t step = c->r->step_index[hm_key_step(row->key)];
    struct hm_outside *o = c->g->outside;
    const size_t who = index_of(o, hm_key_dp(row->key));
    for (size_t i = 0; i < c->m->n_slots; i++) c->start[i] = c->ready[i] = NAN;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && row[j].key >> HM_SEQ_BITS == row[i].key >> HM_SEQ_BITS;) j++;
        place_rows(c, row + i, j - i);
    }
    for (uint32_t i = 0; i < c->m->n_slots; i++) { /* in topological order */
        const struct hm_node *node = &c->m->node[c->m->slot[i].node];
        double launch = launch_of(c, i);
        if (isnan(c->ready[i])) c->ready[i] = launch;
        if (node->across < 0) continue;
        size_t at = hm_outside_at(o, node, step / HM_WIDTH) + step % HM_WIDTH;
        if (launch > o->launch_s[at]) o->launch_s[at] = launch, o->whose[at] = (uint32_t)who;
    }
}

/* Whether a row is of a replica that was left out, in a step that was kept; which one. */
static bool is_outside(const struct hm_grid *g, const struct hm_recording *r, uint64_t key, size_t *who) {
    if (key == HM_KEY_DEAD || r->lane_index[hm_key_dp(key)] != UINT32_MAX ||
        r->step_index[hm_key_step(key)] == UINT32_MAX)
        return false;
    *who = index_of(g->outside, hm_key_dp(key));
    return true;
}

/* Adds up the computes of all, and how many rows each has. */
static void count_rows(struct hm_outside *o, const struct hm_grid *g, const struct hm_recording *r,
                       const struct hm_job *m, size_t *rows) {
    for (size_t i = 0, who; i < r->rows.count; i++) {
        const struct hm_row *x = hm_rows_at(&r->rows, i);
        if (!is_outside(g, r, x->key, &who)) continue;
        const uint32_t stage = hm_key_stage(x->key);
        const int direction = hm_direction(m, hm_key_type(x->key));
        rows[who]++;
        if (direction < 0 || stage >= o->stages) continue;
        size_t at = (who * o->stages + stage) * 2 + (size_t)direction;
        o->pass_ns[at] += (uint64_t)(fmin(x->duration_s, longest_s) * 1e9);
        o->passes[at]++;
    }
}

/* The replicas first to last - 1. */
static int take_replicas(struct cell *c, size_t first, size_t last, size_t rows) {
    struct hm_row *row = hm_alloc(rows, sizeof *row);
    size_t n = 0;
    if (!row) return -1;
    for (size_t i = 0, who; i < c->r->rows.count; i++) {
        const struct hm_row *x = hm_rows_at(&c->r->rows, i);
        if (is_outside(c->g, c->r, x->key, &who) && who >= first && who < last) row[n++] = *x;
    }
    qsort(row, n, sizeof *row, by_start);
    const int cell_bits = HM_SEQ_BITS + HM_TYPE_BITS + HM_STAGE_BITS;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && row[j].key >> cell_bits == row[i].key >> cell_bits;) j++;
        take_cell(c, row + i, j - i);
    }
    hm_free(row);
    return 0;
}

int hm_outside_take(struct hm_grid *g, const struct hm_recording *r, const struct hm_job *m, const struct hm_dense *d) {
    enum { AT_ONCE = 1 << 20 }; /* rows that are copied and sorted; more only of a single replica */
    struct hm_outside *o = g->outside;
    if (!o) return 0;
    struct cell c = {g, r, m, d, hm_alloc(m->n_slots, sizeof(double)), hm_alloc(m->n_slots, sizeof(double))};
    size_t *rows = hm_alloc(o->n, sizeof *rows);
    int status = c.start && c.ready && rows ? 0 : -1;
    if (status == 0) count_rows(o, g, r, m, rows);
    for (size_t first = 0, last; status == 0 && first < o->n; first = last) {
        size_t sum = rows[first];
        for (last = first + 1; last < o->n && sum + rows[last] <= AT_ONCE; last++) sum += rows[last];
        if (sum) status = take_replicas(&c, first, last, sum);
    }
    hm_free(c.start);
    hm_free(c.ready);
    hm_free(rows);
    return status;
}

void hm_outside_settle(const struct hm_grid *g, const struct hm_job *m, size_t block, const double earliest[HM_WIDTH]) {
    for (size_t n = 0; n < m->n_nodes; n++) {
        const struct hm_node *node = &m->node[n];
        if (node->across < 0) continue;
        double *launch = g->outside->launch_s + hm_outside_at(g->outside, node, block), done[HM_WIDTH];
        for (size_t k = 0; k < HM_WIDTH; k++) done[k] = INFINITY;
        for (size_t l = 0; l < g->lanes; l++) {
            const double *start = hm_grid_lane(g, g->start, block, l),
                         *duration = hm_grid_lane(g, g->duration, block, l);
            for (size_t i = (size_t)node->first_slot * HM_WIDTH;
                 i < (size_t)(node->first_slot + node->n_slots) * HM_WIDTH; i++)
                done[i % HM_WIDTH] = fmin(done[i % HM_WIDTH], start[i] + duration[i]);
        }
        for (size_t k = 0; k < HM_WIDTH; k++) {
            launch[k] -= earliest[k];
            if (launch[k] > done[k] + clocks_apart_s)
                launch[k] = -INFINITY;
            else
                launch[k] = fmin(launch[k], done[k]);
        }
    }
}
