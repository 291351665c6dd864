/* complete_grid.c - from rows to a complete grid.
 *
 * A replay needs every op of every kept replica in every kept step. The grid's cells (replica, step) are summed up in
 * one pass: each row adds a hash of its (stage, type, seq) to its cell, so two cells with the same sum hold the same op
 * set, whatever the row order. The sum that most cells share is the reference. Cells that differ are looked at row by
 * row: exact duplicates go, numbering with gaps is closed; what is still different makes its cell unusable. Then
 * replicas or steps are given up, those with most unusable cells first, until every remaining cell is usable. Most
 * traces are complete and cost the first pass only. */
#include "trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum cell_state { USABLE, UNUSABLE, MENDED }; /* mended: usable once its rows are repaired, after every loading */

struct cell {
    uint64_t sum;   /* of the hashes of its ops */
    uint32_t count; /* rows */
    uint32_t state;
};

struct hm_settle {
    struct hm_recording *r;
    const struct hm_step_table *table;
    int64_t *number;     /* [s] step number, ascending: all steps seen */
    uint32_t *step_of;   /* [interned] -> s */
    size_t steps, lanes; /* lanes: highest DP rank + 1 */
    struct cell *cells;  /* [s * lanes + dp] */
    uint64_t reference_sum;
    struct hm_row *sorted; /* rows of cells under repair, sorted by key */
    size_t n_sorted;
    uint32_t *expected; /* op of each reference row, ascending (hm_key_op) */
    size_t n_expected;
    bool shared; /* different rows of the reference share a number */
};

static struct cell *cell_of(const struct hm_settle *s, uint64_t key) {
    return &s->cells[(size_t)s->step_of[hm_key_step(key)] * s->lanes + hm_key_dp(key)];
}

/* ---- steps and lanes seen ---- */

struct numbered {
    int64_t number;
    uint32_t interned;
};

static int by_number(const void *a, const void *b) {
    int64_t x = ((const struct numbered *)a)->number, y = ((const struct numbered *)b)->number;
    return (x > y) - (x < y);
}

static int list_steps(struct hm_settle *s, struct hm_error *err) {
    const size_t n = hm_steps_interned(s->table);
    struct numbered *list = hm_alloc(n, sizeof *list);
    s->number = hm_alloc(n, sizeof *s->number);
    s->step_of = hm_alloc(n, sizeof *s->step_of);
    if (!list || !s->number || !s->step_of) {
        hm_free(list);
        return hm_fail_memory(err);
    }
    for (uint32_t i = 0; i < n; i++) list[i] = (struct numbered){hm_step_number(s->table, i), i};
    qsort(list, n, sizeof *list, by_number);
    for (size_t i = 0; i < n; i++) {
        s->number[i] = list[i].number;
        s->step_of[list[i].interned] = (uint32_t)i;
    }
    s->steps = n;
    hm_free(list);
    return 0;
}

/* ---- the census ---- */

struct census {
    struct hm_settle *s;
    size_t first, cells;      /* the loaded group's cells */
    struct cell **per_thread; /* [thread]: cells of its own, added up at the end */
};

static void count_piece(void *context, size_t index, int thread) {
    struct census *c = context;
    const struct hm_settle *s = c->s;
    struct hm_piece piece = hm_rows_piece(&s->r->rows, index);
    struct cell *cells = c->per_thread[thread];
    for (size_t i = 0; i < piece.n; i++) {
        uint64_t key = piece.row[i].key;
        if (key == HM_KEY_DEAD) continue;
        struct cell *cell = &cells[(size_t)s->step_of[hm_key_step(key)] * s->lanes + hm_key_dp(key) - c->first];
        cell->sum += hm_op_hash(hm_key_op(key));
        cell->count++;
    }
}

/* Steps first..last-1 are those of the group. */
static void group_steps(const struct hm_settle *s, size_t group, size_t *first, size_t *last) {
    *first = 0;
    while (*first < s->steps && s->number[*first] < s->r->groups[group].first_step) ++*first;
    *last = *first;
    while (*last < s->steps && s->number[*last] <= s->r->groups[group].last_step) ++*last;
}

static int census_of_group(struct hm_settle *s, size_t group, struct hm_error *err) {
    size_t first, last, pieces = hm_rows_pieces(&s->r->rows);
    group_steps(s, group, &first, &last);
    int threads = hm_thread_count(s->r->threads, pieces);
    struct cell *per_thread[256] = {0};
    struct census c = {.s = s, .per_thread = per_thread, .first = first * s->lanes, .cells = (last - first) * s->lanes};
    if (c.cells * sizeof(struct cell) > ((size_t)64 << 20)) threads = 1;
    bool good = true;
    per_thread[0] = s->cells + c.first;
    for (int t = 1; t < threads && good; t++) {
        good = (per_thread[t] = hm_alloc(c.cells, sizeof(struct cell))) != NULL;
    }
    if (good) {
        hm_parallel(pieces, threads, count_piece, &c);
        for (int t = 1; t < threads; t++)
            for (size_t i = 0; i < c.cells; i++) {
                struct cell *sum = &per_thread[0][i], *one = &per_thread[t][i];
                sum->sum += one->sum;
                sum->count += one->count;
            }
    }
    for (int t = 1; t < threads; t++) hm_free(per_thread[t]);
    return good ? 0 : hm_fail_memory(err);
}

static int take_census(struct hm_settle *s, struct hm_error *err) {
    struct hm_recording *r = s->r;
    size_t cells, rows = r->rows.count;
    s->lanes = (size_t)r->layout.dp;
    if (r->n_groups == 1 && (!hm_mul(s->steps, s->lanes, &cells) || cells > 4 * rows + ((size_t)1 << 22)))
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: %zu rows are too few for %zu DP ranks and %zu steps; check dp_rank and step", r->path, rows,
                       s->lanes, s->steps);
    if (!(s->cells = hm_alloc(s->steps * s->lanes, sizeof *s->cells))) return hm_fail_memory(err);
    for (size_t g = 0; g < r->n_groups; g++)
        if (hm_recording_load(r, g, err) != 0 || census_of_group(s, g, err) != 0) return -1;
    return 0;
}

/* ---- the reference op set ---- */

static int by_sum(const void *a, const void *b) {
    const struct cell *x = a, *y = b;
    return x->sum != y->sum ? (x->sum > y->sum) - (x->sum < y->sum) : (x->count > y->count) - (x->count < y->count);
}

/* The sum most cells share; among equals the one with more rows: records get lost more often than invented. */
static int choose_reference(struct hm_settle *s, struct hm_error *err) {
    size_t n = s->steps * s->lanes, best = 0, best_rows = 0;
    struct cell *copy = hm_alloc(n, sizeof *copy);
    if (!copy) return hm_fail_memory(err);
    memcpy(copy, s->cells, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, by_sum);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && copy[j].sum == copy[i].sum && copy[j].count == copy[i].count;) j++;
        if (copy[i].count > 0 && (j - i > best || (j - i == best && copy[i].count > best_rows))) {
            best = j - i;
            best_rows = copy[i].count;
            s->reference_sum = copy[i].sum;
        }
    }
    hm_free(copy);
    if (best == 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: holds no row of a known op type; is it a training trace?", s->r->path);
    return 0;
}

/* The ops of a type of a worker in a step, in the order in which they started. */
static int by_start(const void *a, const void *b) {
    const struct hm_row *x = a, *y = b;
    uint64_t of_x = x->key >> HM_SEQ_BITS, of_y = y->key >> HM_SEQ_BITS;
    if (of_x != of_y) return (of_x > of_y) - (of_x < of_y);
    if (x->start_s != y->start_s) return (x->start_s > y->start_s) - (x->start_s < y->start_s);
    if (x->key != y->key) return (x->key > y->key) - (x->key < y->key);
    return (x->duration_s > y->duration_s) - (x->duration_s < y->duration_s);
}

/* Copies rows of the loaded group into s->sorted: of one cell, or of all cells in that state (only == NULL). */
static int gather(struct hm_settle *s, const struct cell *only, enum cell_state state, struct hm_error *err) {
    size_t n = 0, k = 0, first, last;
    group_steps(s, s->r->loaded, &first, &last);
    if (only) {
        n = only->count;
    } else {
        for (size_t i = first * s->lanes; i < last * s->lanes; i++)
            if (s->cells[i].state == state) n += s->cells[i].count;
    }
    hm_free(s->sorted);
    s->sorted = hm_alloc(n, sizeof *s->sorted);
    s->n_sorted = 0;
    if (!s->sorted) return hm_fail_memory(err);
    for (size_t i = 0; i < s->r->rows.count && k < n; i++) {
        const struct hm_row *row = hm_rows_at(&s->r->rows, i);
        if (row->key == HM_KEY_DEAD) continue;
        const struct cell *cell = cell_of(s, row->key);
        if (only ? cell == only : cell->state == state) s->sorted[k++] = *row;
    }
    s->n_sorted = k; /* fewer if a cell's repair has already left rows out */
    qsort(s->sorted, k, sizeof *s->sorted, by_start);
    return 0;
}

/* Loads the group that holds a cell. */
static int load_cell(struct hm_settle *s, const struct cell *cell, struct hm_error *err) {
    int64_t number = s->number[(size_t)(cell - s->cells) / s->lanes];
    size_t g = 0;
    while (number > s->r->groups[g].last_step) g++;
    return hm_recording_load(s->r, g, err);
}

static bool same_row(const struct hm_row *a, const struct hm_row *b) {
    return a->key == b->key && a->start_s == b->start_s && a->duration_s == b->duration_s;
}

static uint32_t stage_and_type(uint64_t key) {
    return hm_key_op(key) >> HM_SEQ_BITS;
}

/* Drops exact duplicates among the sorted rows. */
static size_t drop_duplicates(struct hm_settle *s) {
    size_t kept = 0, dropped = 0;
    for (size_t i = 0; i < s->n_sorted; i++) {
        if (kept && same_row(&s->sorted[kept - 1], &s->sorted[i]))
            dropped++;
        else
            s->sorted[kept++] = s->sorted[i];
    }
    s->n_sorted = kept;
    return dropped;
}

static int by_number_of_op(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The ops of the sorted rows, ascending. Where rows share a number, or where numbers do not count, they are numbered by start. */
static void number_expected(struct hm_settle *s) {
    s->n_expected = s->n_sorted;
    for (size_t i = 0; i < s->n_sorted; i++) s->expected[i] = hm_key_op(s->sorted[i].key);
    qsort(s->expected, s->n_expected, sizeof *s->expected, by_number_of_op);
    s->shared = false;
    for (size_t i = 1; i < s->n_expected; i++) s->shared |= s->expected[i] == s->expected[i - 1];
    uint32_t seq = 0;
    for (size_t i = 0; (s->shared || s->r->by_start) && i < s->n_expected; i++) {
        uint32_t of = stage_and_type(s->sorted[i].key);
        seq = i && of == stage_and_type(s->sorted[i - 1].key) ? seq + 1 : 0;
        s->expected[i] = of << HM_SEQ_BITS | seq;
    }
}

/* Lists the ops of the first cell with the reference sum. If even that one repeats rows (a file written twice) or numbers, every cell is put
 * under repair. 1: several ranks of one worker were recorded; now that this is known, read again. */
static int list_expected(struct hm_settle *s, struct hm_error *err) {
    struct cell *found = NULL;
    for (size_t i = 0; i < s->steps * s->lanes && !found; i++)
        if (s->cells[i].count && s->cells[i].sum == s->reference_sum) found = &s->cells[i];
    uint32_t ops = found ? found->count : 0;
    if (ops == 0 || ops > HM_MAX_CELL_OPS)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: one replica has %" PRIu32 " ops in one step, which no training step has; check step and "
                       "dp_rank",
                       s->r->path, ops);
    if (load_cell(s, found, err) != 0 || gather(s, found, USABLE, err) != 0) return -1;
    s->expected = hm_alloc(s->n_sorted, sizeof *s->expected);
    if (!s->expected) return hm_fail_memory(err);
    bool all = drop_duplicates(s) > 0 || s->r->by_start;
    number_expected(s);
    if (s->shared && s->r->table) {
        size_t at = (size_t)(found - s->cells);
        int status = hm_table_merge_ranks(s->r->table, s->r, s->number[at / s->lanes], (uint32_t)(at % s->lanes), err);
        if (status != 0) return status;
    }
    s->reference_sum = 0;
    for (size_t i = 0; i < s->n_expected; i++) s->reference_sum += hm_op_hash(s->expected[i]);
    for (size_t i = 0; i < s->steps * s->lanes; i++)
        s->cells[i].state =
            all || s->shared || s->cells[i].sum != s->reference_sum || s->cells[i].count != s->n_expected ? UNUSABLE
                                                                                                          : USABLE;
    return 0;
}

/* ---- repair ---- */

/* Whether rows[0..n-1] of one cell are the expected ops up to numbering; if so, numbers them as expected. */
static bool fits(const struct hm_settle *s, struct hm_row *rows, size_t n, bool *renumbered) {
    if (n != s->n_expected) return false;
    for (size_t i = 0; i < n; i++)
        if (stage_and_type(rows[i].key) != s->expected[i] >> HM_SEQ_BITS) return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t key =
            (rows[i].key & ~(((uint64_t)1 << (HM_STAGE_BITS + HM_TYPE_BITS + HM_SEQ_BITS)) - 1)) | s->expected[i];
        if (key != rows[i].key) *renumbered = true;
        rows[i].key = key;
    }
    return true;
}

/* Says in which op a cell first differs from the expected set. */
static void describe_difference(const struct hm_settle *s, const struct hm_row *rows, size_t n, char *text,
                                size_t size) {
    size_t i = 0, j = 0;
    while (i < n && j < s->n_expected && stage_and_type(rows[i].key) == s->expected[j] >> HM_SEQ_BITS) i++, j++;
    uint32_t got = i < n ? stage_and_type(rows[i].key) : UINT32_MAX,
             want = j < s->n_expected ? s->expected[j] >> HM_SEQ_BITS : UINT32_MAX;
    uint32_t which = got < want ? got : want; /* both lists ascend: the smaller one is missing on the other side */
    size_t have = 0, need = 0;
    for (i = 0; i < n; i++) have += stage_and_type(rows[i].key) == which;
    for (j = 0; j < s->n_expected; j++) need += s->expected[j] >> HM_SEQ_BITS == which;
    uint32_t type = which & ((1 << HM_TYPE_BITS) - 1);
    (void)snprintf(text, size, "stage %u has %zu of %zu %s", which >> HM_TYPE_BITS, have, need,
                   type < HM_OP_TYPES ? hm_op_types[type].name : "ops");
}

/* Puts repaired cells back: the rows of cells in that state die, the repaired ones take their places. */
static void put_back(struct hm_settle *s, enum cell_state state) {
    size_t next = 0;
    for (size_t i = 0; i < s->r->rows.count; i++) {
        struct hm_row *row = hm_rows_at(&s->r->rows, i);
        if (row->key == HM_KEY_DEAD || cell_of(s, row->key)->state != state) continue;
        if (next < s->n_sorted)
            *row = s->sorted[next++];
        else
            row->key = HM_KEY_DEAD;
    }
}

enum { WHY = 96 };

struct repairs {
    size_t duplicates, renumbered;
    char *why; /* [cell][WHY] */
    bool *mended;
};

/* Repairs the loaded group's cells in that state. */
static int repair_loaded(struct hm_settle *s, enum cell_state state, struct repairs *repairs, struct hm_error *err) {
    if (gather(s, NULL, state, err) != 0) return -1;
    size_t duplicates = drop_duplicates(s);
    /* Sorted by interned step, DP rank, stage, ...: one cell's rows stand together. */
    for (size_t i = 0, j; i < s->n_sorted; i = j) {
        struct cell *cell = cell_of(s, s->sorted[i].key);
        for (j = i + 1; j < s->n_sorted && cell_of(s, s->sorted[j].key) == cell;) j++;
        bool numbered = false, good = fits(s, s->sorted + i, j - i, &numbered);
        if (!repairs) continue;
        size_t index = (size_t)(cell - s->cells);
        repairs->mended[index] = good;
        repairs->renumbered += numbered;
        if (!good) describe_difference(s, s->sorted + i, j - i, repairs->why + index * WHY, WHY);
    }
    put_back(s, state);
    if (repairs) repairs->duplicates += duplicates;
    return 0;
}

int hm_settle_mend(struct hm_recording *r, struct hm_error *err) {
    struct hm_settle *s = r->settle;
    if (s && s->number && hm_steps_interned(s->table) != s->steps)
        return hm_fail(err, HM_ERR_INPUT, "%s: changed while it was read; analyse a finished file", r->path);
    bool any = false;
    for (size_t i = 0; s && s->cells && s->expected && i < s->steps * s->lanes && !any; i++)
        any = s->cells[i].state == MENDED;
    return any ? repair_loaded(s, MENDED, NULL, err) : 0;
}

static bool group_has(const struct hm_settle *s, size_t group, enum cell_state state) {
    size_t first, last;
    group_steps(s, group, &first, &last);
    for (size_t i = first * s->lanes; i < last * s->lanes; i++)
        if (s->cells[i].state == state) return true;
    return false;
}

static int repair_cells(struct hm_settle *s, char **why, struct hm_error *err) {
    size_t cells = s->steps * s->lanes;
    struct repairs repairs = {.why = *why = hm_alloc(cells, WHY), .mended = hm_alloc(cells, sizeof(bool))};
    int status = repairs.why && repairs.mended ? 0 : hm_fail_memory(err);
    for (size_t g = 0; g < s->r->n_groups && status == 0; g++) {
        if (!group_has(s, g, UNUSABLE)) continue;
        status = hm_recording_load(s->r, g, err);
        if (status == 0) status = repair_loaded(s, UNUSABLE, &repairs, err);
    }
    for (size_t i = 0; i < cells && status == 0; i++)
        if (repairs.mended[i]) s->cells[i].state = MENDED;
    hm_free(repairs.mended);
    if (status == 0 && repairs.duplicates &&
        hm_drop(s->r, "rows", repairs.duplicates, "written twice: same op, same times") != 0)
        status = hm_fail_memory(err);
    if (status == 0 && repairs.renumbered &&
        hm_drop(s->r, "numberings", repairs.renumbered, "%s",
                s->shared        ? "different ops share a seq_id; they were numbered in their order"
                : s->r->by_start ? "seq_id does not follow the order of the starts; ops were numbered in that order"
                                 : "seq_id of a replica's step had gaps; its ops were numbered in their order") != 0)
        status = hm_fail_memory(err);
    return status;
}

/* ---- the choice ---- */

struct grid {
    bool *step_out, *lane_out;
    size_t *step_bad, *lane_bad; /* bad cells among what is still in */
    size_t steps_in, lanes_in;
};

static void take_out(const struct hm_settle *s, struct grid *g, bool step, size_t which) {
    if (step) {
        g->step_out[which] = true;
        g->steps_in--;
        for (size_t l = 0; l < s->lanes; l++) g->lane_bad[l] -= s->cells[which * s->lanes + l].state == UNUSABLE;
    } else {
        g->lane_out[which] = true;
        g->lanes_in--;
        for (size_t t = 0; t < s->steps; t++) g->step_bad[t] -= s->cells[t * s->lanes + which].state == UNUSABLE;
    }
}

/* Greedy: the row or column of the grid with the largest share of bad cells goes first. Ties give up a step: steps are
 * many. */
static void choose(const struct hm_settle *s, struct grid *g) {
    g->steps_in = s->steps;
    g->lanes_in = s->lanes;
    for (size_t t = 0; t < s->steps; t++)
        for (size_t l = 0; l < s->lanes; l++)
            if (s->cells[t * s->lanes + l].state == UNUSABLE) g->step_bad[t]++, g->lane_bad[l]++;
    for (;;) {
        size_t step = SIZE_MAX, lane = SIZE_MAX;
        for (size_t t = 0; t < s->steps; t++)
            if (!g->step_out[t] && g->step_bad[t] && (step == SIZE_MAX || g->step_bad[t] > g->step_bad[step])) step = t;
        for (size_t l = 0; l < s->lanes; l++)
            if (!g->lane_out[l] && g->lane_bad[l] && (lane == SIZE_MAX || g->lane_bad[l] > g->lane_bad[lane])) lane = l;
        if (step == SIZE_MAX || lane == SIZE_MAX) return;
        bool give_step = g->step_bad[step] * g->steps_in >= g->lane_bad[lane] * g->lanes_in;
        take_out(s, g, give_step, give_step ? step : lane);
    }
}

enum { NAMED = 12 }; /* so many left-out steps or ranks are named one by one, the rest is counted */

static int report_choice(const struct hm_settle *s, const struct grid *g, const char *why, struct hm_error *err) {
    size_t named = 0, rest = 0;
    for (size_t l = 0; l < s->lanes; l++) {
        if (!g->lane_out[l]) continue;
        size_t t = 0;
        while (t + 1 < s->steps && s->cells[t * s->lanes + l].state != UNUSABLE) t++;
        const struct cell *cell = &s->cells[t * s->lanes + l];
        const char *reason = cell->count && why ? why + (size_t)(cell - s->cells) * WHY : "";
        if (named++ >= NAMED)
            rest++;
        else if (hm_drop(s->r, "dp ranks", 1,
                         cell->count ? "dp rank %zu: in step %" PRId64 " %s"
                                     : "dp rank %zu has no rows (first in step %" PRId64 ")%s",
                         l, s->number[t], cell->count ? reason : "") != 0)
            return hm_fail_memory(err);
    }
    if (rest && hm_drop(s->r, "dp ranks", rest, "further DP ranks that are incomplete") != 0)
        return hm_fail_memory(err);
    named = rest = 0;
    for (size_t t = 0; t < s->steps; t++) {
        if (!g->step_out[t]) continue;
        size_t l = 0;
        while (l + 1 < s->lanes && (g->lane_out[l] || s->cells[t * s->lanes + l].state != UNUSABLE)) l++;
        const struct cell *cell = &s->cells[t * s->lanes + l];
        const char *reason = cell->count && why ? why + (size_t)(cell - s->cells) * WHY : "has no rows";
        if (named++ >= NAMED)
            rest++;
        else if (hm_drop(s->r, "steps", 1, "step %" PRId64 ": dp rank %zu, %s", s->number[t], l, reason) != 0)
            return hm_fail_memory(err);
    }
    if (rest && hm_drop(s->r, "steps", rest, "further steps that are incomplete") != 0) return hm_fail_memory(err);
    return 0;
}

static int keep(struct hm_settle *s, const struct grid *g, struct hm_error *err) {
    struct hm_recording *r = s->r;
    if (g->steps_in == 0 || g->lanes_in == 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: no step is complete on any set of replicas: %s; record whole steps",
                       r->path, r->n_dropped ? r->dropped[r->n_dropped - 1].why : "ops are missing everywhere");
    r->steps = hm_alloc(g->steps_in, sizeof *r->steps);
    r->lanes = hm_alloc(g->lanes_in, sizeof *r->lanes);
    r->step_index = hm_alloc(s->steps, sizeof *r->step_index);
    r->lane_index = hm_alloc(s->lanes, sizeof *r->lane_index);
    if (!r->steps || !r->lanes || !r->step_index || !r->lane_index) return hm_fail_memory(err);
    r->n_ranked = s->lanes;
    for (size_t l = 0; l < s->lanes; l++) {
        r->lane_index[l] = g->lane_out[l] ? UINT32_MAX : (uint32_t)r->n_lanes;
        if (!g->lane_out[l]) r->lanes[r->n_lanes++] = (uint32_t)l;
    }
    for (size_t t = 0; t < s->steps; t++)
        if (!g->step_out[t]) r->steps[r->n_steps++] = s->number[t];
    size_t kept = 0;
    uint32_t *new_index = hm_alloc(s->steps, sizeof *new_index);
    if (!new_index) return hm_fail_memory(err);
    for (size_t t = 0; t < s->steps; t++) new_index[t] = g->step_out[t] ? UINT32_MAX : (uint32_t)kept++;
    for (size_t i = 0; i < s->steps; i++) r->step_index[i] = new_index[s->step_of[i]];
    hm_free(new_index);
    return 0;
}

static int leave_out_impossible(struct hm_settle *s, struct grid *g, struct hm_error *err) {
    for (size_t t = 0; t < s->steps; t++)
        for (size_t k = 0; k < s->r->n_impossible; k++) {
            if (s->number[t] != s->r->impossible[k] || g->step_out[t]) continue;
            g->step_out[t] = true;
            g->steps_in--;
            if (hm_drop(s->r, "steps", 1, "step %" PRId64 ": an op has an impossible time, days away from the others",
                        s->number[t]) != 0)
                return hm_fail_memory(err);
        }
    return 0;
}

static int choose_and_report(struct hm_settle *s, const char *why, struct hm_error *err) {
    struct grid g = {0};
    g.step_out = hm_alloc(s->steps, sizeof(bool));
    g.lane_out = hm_alloc(s->lanes, sizeof(bool));
    g.step_bad = hm_alloc(s->steps, sizeof(size_t));
    g.lane_bad = hm_alloc(s->lanes, sizeof(size_t));
    int status = -1;
    if (!g.step_out || !g.lane_out || !g.step_bad || !g.lane_bad) {
        hm_fail_memory(err);
    } else {
        choose(s, &g);
        status = report_choice(s, &g, why, err);
        if (status == 0) status = leave_out_impossible(s, &g, err);
        if (status == 0) status = keep(s, &g, err);
    }
    hm_free(g.step_out);
    hm_free(g.lane_out);
    hm_free(g.step_bad);
    hm_free(g.lane_bad);
    return status;
}

/* ---- the reference cell ---- */

static int by_side_start(const void *a, const void *b) {
    const struct hm_side_row *x = a, *y = b;
    uint64_t of_x = x->key >> HM_SEQ_BITS, of_y = y->key >> HM_SEQ_BITS;
    if (of_x != of_y) return (of_x > of_y) - (of_x < of_y);
    if (x->start_s != y->start_s) return (x->start_s > y->start_s) - (x->start_s < y->start_s);
    if (x->key != y->key) return (x->key > y->key) - (x->key < y->key);
    return (x->end_s > y->end_s) - (x->end_s < y->end_s);
}

/* Moves the side rows of one cell to the front, sorted like its rows; how many. */
static size_t side_of_cell(struct hm_recording *r, uint32_t step, uint32_t dp) {
    size_t n = 0;
    for (size_t i = 0; i < r->sides; i++) {
        const struct hm_side_row row = r->side[i];
        if (hm_key_step(row.key) != step || hm_key_dp(row.key) != dp) continue;
        r->side[i] = r->side[n];
        r->side[n++] = row;
    }
    if (n) qsort(r->side, n, sizeof *r->side, by_side_start);
    return n;
}

static bool same_side_row(const struct hm_side_row *a, const struct hm_side_row *b) {
    return a->key == b->key && a->start_s == b->start_s && a->end_s == b->end_s;
}

/* r->ref from the sorted rows of a cell and its `sides` first side rows. 1 if a row has no side row. */
static int pair_sides(struct hm_settle *s, size_t sides, struct hm_error *err) {
    struct hm_recording *r = s->r;
    const struct hm_side_row *side = r->side, *end = side + sides;
    hm_free(r->ref);
    r->n_ref = 0;
    if (!(r->ref = hm_alloc(s->n_sorted, sizeof *r->ref))) return hm_fail_memory(err);
    for (size_t i = 0; i < s->n_sorted; i++) {
        const struct hm_row *row = &s->sorted[i];
        if (row->key == HM_KEY_DEAD) continue;
        /* A renumbered cell's side rows carry the old numbers: match them by order within (stage, type). */
        while (side < end && side->key != row->key && stage_and_type(side->key) < stage_and_type(row->key)) side++;
        if (side == end || stage_and_type(side->key) != stage_and_type(row->key)) return 1;
        if (hm_recording_check_side(r, side, err) != 0) return -1;
        r->ref[r->n_ref++] = (struct hm_ref_op){.stage = hm_key_stage(row->key),
                                                .type = hm_key_type(row->key),
                                                .seq = hm_key_seq(row->key),
                                                .mc = side->mc,
                                                .mb = side->mb,
                                                .gmc = side->gmc,
                                                .start_s = row->start_s,
                                                .end_s = row->start_s + row->duration_s};
        const struct hm_side_row *used = side;
        while (side < end && same_side_row(side, used)) side++; /* duplicates */
    }
    return 0;
}

/* The model is built from the first kept replica in the first kept step, as the artefact does (DP rank 0, first step). */
static int read_reference(struct hm_settle *s, struct hm_error *err) {
    struct hm_recording *r = s->r;
    uint32_t step = 0, dp = r->lanes[0];
    while (r->step_index[step] != 0) step++;
    struct cell *cell = cell_of(s, hm_key(step, dp, 0, 0, 0));
    if (load_cell(s, cell, err) != 0 || gather(s, cell, USABLE, err) != 0) return -1;
    int status = pair_sides(s, side_of_cell(r, step, dp), err);
    if (status == 1 && r->table) {
        if (hm_table_read_cell(r->table, r, r->steps[0], dp, err) != 0) return -1;
        status = pair_sides(s, side_of_cell(r, step, dp), err);
    }
    return status != 1 ? status
                       : hm_fail(err, HM_ERR_INPUT, "%s: changed while it was read; analyse a finished file", r->path);
}

void hm_settle_free(struct hm_settle *s) {
    if (!s) return;
    hm_free(s->number);
    hm_free(s->step_of);
    hm_free(s->cells);
    hm_free(s->sorted);
    hm_free(s->expected);
    hm_free(s);
}

int hm_settle(struct hm_recording *r, struct hm_error *err) {
    if (hm_steps_interned(r->step_table) == 0 && r->n_dropped)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: holds no row of a known op type with usable times: %zu %s: %s; is it a training trace?",
                       r->path, r->dropped[0].count, r->dropped[0].what, r->dropped[0].why);
    if (hm_steps_interned(r->step_table) == 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: holds no row of a known op type; is it a training trace?", r->path);
    struct hm_settle *s = r->settle = hm_alloc(1, sizeof *s);
    if (!s) return hm_fail_memory(err);
    s->r = r;
    s->table = r->step_table;
    char *why = NULL;
    int status = list_steps(s, err);
    if (status == 0) status = take_census(s, err);
    if (status == 0) status = choose_reference(s, err);
    if (status == 0) status = list_expected(s, err);
    bool repairs = false;
    for (size_t i = 0; status == 0 && i < s->steps * s->lanes && !repairs; i++) repairs = s->cells[i].state == UNUSABLE;
    if (repairs) status = repair_cells(s, &why, err);
    if (status == 0) status = choose_and_report(s, why, err);
    if (status == 0) status = read_reference(s, err);
    hm_free(why);
    return status;
}
