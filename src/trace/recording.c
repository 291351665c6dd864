/* recording.c - reads a trace file whole: rows, layout, settled grid. */
#include "readers.h"
#include "trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hm_recording_release_rows(struct hm_recording *r) {
    hm_rows_free(&r->rows);
    hm_table_close(r->table);
    r->table = NULL;
    hm_settle_free(r->settle);
    r->settle = NULL;
    hm_step_table_free(r->step_table);
    r->step_table = NULL;
    hm_free(r->side);
    r->side = NULL;
}

void hm_recording_free(struct hm_recording *r) {
    if (!r) return;
    hm_recording_release_rows(r);
    hm_free(r->groups);
    for (size_t i = 0; i < r->n_dropped; i++) {
        hm_free(r->dropped[i].what);
        hm_free(r->dropped[i].why);
    }
    hm_free(r->dropped);
    hm_free(r->impossible);
    hm_free(r->steps);
    hm_free(r->lanes);
    hm_free(r->step_index);
    hm_free(r->lane_index);
    hm_free(r->ref);
    if (r->inputs) hm_inputs_free(r->inputs);
    hm_free(r->inputs);
    hm_free(r->path);
    hm_free(r);
}

int hm_drop(struct hm_recording *r, const char *what, size_t count, const char *why, ...) {
    char text[300];
    va_list args;
    va_start(args, why);
    (void)vsnprintf(text, sizeof text, why, args);
    va_end(args);
    struct hm_dropped *grown = hm_grow(r->dropped, r->n_dropped, &r->dropped_capacity, sizeof *grown);
    if (!grown) return -1;
    r->dropped = grown;
    struct hm_dropped d = {hm_strdup(what), count, hm_strdup(text)};
    r->dropped[r->n_dropped++] = d; /* freed with the recording even if a copy failed */
    return d.what && d.why ? 0 : -1;
}

int hm_recording_check_side(const struct hm_recording *r, const struct hm_side_row *s, struct hm_error *err) {
    if (s->mc < HM_MAX_CHUNKS) return 0;
    return hm_fail(err, HM_ERR_INPUT,
                   "%s: %s at stage %" PRIu32 ", seq_id %" PRIu32 ": mc %" PRId32
                   " is outside any layout (0 to %d); repair the file",
                   r->path, hm_op_types[hm_key_type(s->key)].name, hm_key_stage(s->key), hm_key_seq(s->key), s->mc,
                   HM_MAX_CHUNKS - 1);
}

/* What the trace itself tells of the layout. Rank numbers count (stage * dp + dp_rank) * dsp * tp. */
static struct hm_layout layout_seen(const struct hm_recording *r, int64_t ranks, int64_t chunks) {
    struct hm_layout seen = {.dp = r->layout.dp, .vpp = chunks > 0 ? chunks : 1, .world = ranks};
    for (size_t i = 0; i < r->n_ref; i++)
        if (r->ref[i].stage + 1 > seen.pp) seen.pp = r->ref[i].stage + 1;
    int64_t workers = seen.dp * seen.pp;
    if (workers > 1 && ranks > 1 && (ranks - 1) % (workers - 1) == 0) seen.tp = (ranks - 1) / (workers - 1);
    return seen;
}

/* ---- groups of steps ---- */

/* A row costs its record and two doubles in the dense arrays, with some room for padding to whole blocks of steps. */
enum { BYTES_A_ROW = sizeof(struct hm_row) + 3 * sizeof(double) };

static int one_group(struct hm_recording *r, struct hm_error *err) {
    r->groups = hm_alloc(1, sizeof *r->groups);
    if (!r->groups) return hm_fail_memory(err);
    r->groups[0] = (struct hm_group){0, INT64_MAX};
    r->n_groups = 1;
    r->loaded = 0;
    return 0;
}

/* Cuts the steps into groups whose rows take about a quarter of the memory. */
static int cut_groups(struct hm_recording *r, struct hm_error *err) {
    struct hm_step_rows *steps = NULL;
    size_t n = 0, limit = (size_t)(r->memory_bytes / 4 / sizeof(struct hm_row)), rows = 0;
    struct hm_table_span span;
    if (hm_table_measure(r->table, &span, err) != 0) return -1;
    r->layout.dp = span.max_dp + 1;
    if (r->layout.dp > HM_MAX_DP)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: dp_rank %" PRId64 ": dp_rank is outside the layout (0 to %d); repair the file", r->path,
                       span.max_dp, HM_MAX_DP - 1);
    if (hm_table_list_steps(r->table, &steps, &n, err) != 0) return -1;
    r->groups = hm_alloc(n, sizeof *r->groups);
    for (size_t i = 0; r->groups && i < n; i++) {
        if (r->n_groups == 0 || rows + steps[i].rows > limit) {
            r->groups[r->n_groups++] = (struct hm_group){steps[i].step, steps[i].step};
            rows = 0;
        }
        r->groups[r->n_groups - 1].last_step = steps[i].step;
        rows += steps[i].rows;
        hm_step_intern(r->step_table, steps[i].step);
    }
    hm_free(steps);
    return r->groups ? 0 : hm_fail_memory(err);
}

int hm_recording_load(struct hm_recording *r, size_t group, struct hm_error *err) {
    if (r->loaded == group) return 0;
    hm_rows_free(&r->rows);
    r->loaded = SIZE_MAX;
    if (hm_table_read(r->table, r, r->groups[group].first_step, r->groups[group].last_step, 0, group >= r->seen, err) !=
        0)
        return -1;
    r->loaded = group;
    if (group >= r->seen) r->seen = group + 1; /* settling loads them in order: each is counted once */
    return hm_settle_mend(r, err);
}

/* Reads everything if it fits in memory; otherwise finds out what there is, to be read in groups. */
static int read_rows(struct hm_recording *r, struct hm_error *err) {
    size_t limit = (size_t)(r->memory_bytes / BYTES_A_ROW), known = hm_table_rows(r->table);
    if (known <= limit) {
        if (one_group(r, err) != 0) return -1;
        int status = hm_table_read(r->table, r, 0, INT64_MAX, limit, true, err);
        if (status <= 0) return status;
        hm_free(r->groups);
        r->groups = NULL;
        r->n_groups = 0;
        hm_rows_free(&r->rows);
        r->sides = 0;
    }
    r->spill = true;
    r->loaded = SIZE_MAX;
    return cut_groups(r, err);
}

/* A stage without any row cannot be replayed: its neighbours run without it, and the report says so. */
static int name_empty_stages(struct hm_recording *r, int64_t stages) {
    for (int64_t s = 0, next; s < stages; s = next + 1) {
        next = stages;
        for (size_t i = 0; i < r->n_ref; i++)
            if (r->ref[i].stage >= s && r->ref[i].stage < next) next = r->ref[i].stage;
        if (next == s + 1 &&
            hm_drop(r, "stages", 1, "stage %" PRId64 " has no rows; the others are replayed without it", s) != 0)
            return -1;
        if (next > s + 1 &&
            hm_drop(r, "stages", (size_t)(next - s),
                    "stages %" PRId64 " to %" PRId64 " have no rows; the others are replayed without them", s,
                    next - 1) != 0)
            return -1;
    }
    return 0;
}

/* Back to the freshly opened file. */
static int start_over(struct hm_recording *r, struct hm_error *err) {
    hm_recording_forget(r);
    hm_rows_free(&r->rows);
    hm_settle_free(r->settle);
    r->settle = NULL;
    hm_free(r->groups);
    r->groups = NULL;
    r->n_groups = r->seen = 0;
    r->spill = false;
    hm_step_table_free(r->step_table);
    r->step_table = hm_step_table_new();
    for (size_t i = r->n_kept_drops; i < r->n_dropped; i++) {
        hm_free(r->dropped[i].what);
        hm_free(r->dropped[i].why);
    }
    r->n_dropped = r->n_kept_drops;
    return r->step_table ? 0 : hm_fail_memory(err);
}

/* seq_id is the number of an op among those of its type by start: where it is not, times have the last word. */
static bool is_misordered(const struct hm_recording *r) {
    for (size_t i = 1; i < r->n_ref; i++)
        if (r->ref[i].stage == r->ref[i - 1].stage && r->ref[i].type == r->ref[i - 1].type &&
            r->ref[i].start_s < r->ref[i - 1].start_s)
            return true;
    return false;
}

int hm_recording_settle(struct hm_recording *r, struct hm_error *err) {
    for (int tries = 0;; tries++) {
        int status = read_rows(r, err);
        if (status == 0) status = hm_settle(r, err);
        if (status == 0 && !r->by_start && is_misordered(r)) {
            r->by_start = true;
            status = 1;
        }
        if (status <= 0 || tries == 3) return status;
        if (start_over(r, err) != 0) return -1;
    }
}

int hm_recording_refuse_step(struct hm_recording *r, int64_t step) {
    int64_t *grown = hm_grow(r->impossible, r->n_impossible, &r->impossible_capacity, sizeof *grown);
    if (!grown) return -1;
    r->impossible = grown;
    r->impossible[r->n_impossible++] = step;
    return 0;
}

int hm_recording_settle_again(struct hm_recording *r, struct hm_error *err) {
    return start_over(r, err) == 0 ? hm_recording_settle(r, err) : -1;
}

/* ---- complete recordings ---- */

static int by_op(const void *a, const void *b) {
    uint32_t x = hm_key_op(((const struct hm_side_row *)a)->key), y = hm_key_op(((const struct hm_side_row *)b)->key);
    return (x > y) - (x < y);
}

/* DP rank 0 in the first step stands for all cells. 1 if it cannot. */
static int take_reference(struct hm_recording *r, struct hm_error *err) {
    if (r->sides == 0) return 1;
    qsort(r->side, r->sides, sizeof *r->side, by_op);
    if (!(r->ref = hm_alloc(r->sides, sizeof *r->ref))) return hm_fail_memory(err);
    for (size_t i = 0; i < r->sides; i++) {
        const struct hm_side_row *s = &r->side[i];
        if (i && hm_key_op(s->key) == hm_key_op(r->side[i - 1].key)) return 1;
        if (hm_recording_check_side(r, s, err) != 0) return -1;
        r->ref[r->n_ref++] = (struct hm_ref_op){
            hm_key_stage(s->key), hm_key_type(s->key), hm_key_seq(s->key), s->mc, s->mb, s->gmc, s->start_s, s->end_s};
        if (s->mc + 1 > r->layout.vpp) r->layout.vpp = s->mc + 1;
    }
    return 0;
}

void hm_recording_forget(struct hm_recording *r) {
    hm_free(r->steps);
    hm_free(r->lanes);
    hm_free(r->step_index);
    hm_free(r->lane_index);
    hm_free(r->ref);
    r->steps = NULL;
    r->lanes = r->step_index = r->lane_index = NULL;
    r->ref = NULL;
    r->n_steps = r->n_lanes = r->n_ref = r->sides = 0;
    r->layout = (struct hm_layout){0};
}

/* The cell that stands for all, and room for the layout. 1: this is no complete recording. */
static int look_at_first_cell(struct hm_recording *r, struct hm_error *err) {
    struct hm_table_span span;
    size_t rows = hm_table_rows(r->table);
    if (hm_table_measure(r->table, &span, err) != 0) return -1;
    if (span.first_step < 0 || span.last_step < span.first_step || span.max_dp < 0 || span.max_dp >= HM_MAX_DP)
        return 1;
    r->layout = (struct hm_layout){.dp = span.max_dp + 1, .world = span.max_rank + 1};
    r->n_lanes = (size_t)r->layout.dp;
    int status = hm_table_read_cell(r->table, r, span.first_step, 0, err);
    if (status == 0) status = take_reference(r, err);
    if (status != 0) return status;
    size_t row_of_cells = r->n_ref * r->n_lanes; /* rows of one step */
    if (rows % row_of_cells != 0 || rows / row_of_cells > HM_MOST_STEPS) return 1;
    r->n_steps = rows / row_of_cells;
    r->steps = hm_alloc(r->n_steps, sizeof *r->steps);
    r->lanes = hm_alloc(r->n_lanes, sizeof *r->lanes);
    if (!r->steps || !r->lanes) return hm_fail_memory(err);
    for (uint32_t k = 0; k < r->n_lanes; k++) r->lanes[k] = k;
    r->steps[0] = span.first_step;
    r->steps[r->n_steps - 1] = span.last_step;
    return 0;
}

/* From the first and the last. 1: no such steps. */
static int space_evenly(struct hm_recording *r) {
    int64_t first = r->steps[0], span = r->steps[r->n_steps - 1] - first, gaps = (int64_t)r->n_steps - 1;
    if (gaps == 0) return span != 0;
    if (span % gaps != 0 || span == 0) return 1;
    for (int64_t k = 0; k <= gaps; k++) r->steps[k] = first + k * (span / gaps);
    return 0;
}

static int list_steps(struct hm_recording *r, struct hm_error *err) {
    struct hm_step_rows *steps = NULL;
    size_t n = 0;
    int status = hm_table_list_steps(r->table, &steps, &n, err);
    if (status == 0 && n != r->n_steps) status = 1;
    for (size_t k = 0; k < n && status == 0; k++) r->steps[k] = steps[k].step;
    hm_free(steps);
    return status;
}

int hm_recording_survey(struct hm_recording *r, bool guess, struct hm_error *err) {
    size_t rows = hm_table_rows(r->table);
    if (rows == 0 || rows > r->memory_bytes / BYTES_A_ROW) return 1;
    int status = look_at_first_cell(r, err);
    r->guessed = status == 0 && guess && space_evenly(r) == 0;
    if (status == 0 && !r->guessed) status = list_steps(r, err);
    if (status == 1) hm_recording_forget(r);
    return status;
}

int hm_recording_read_dense(struct hm_recording *r, struct hm_dense *d, struct hm_error *err) {
    size_t cells = r->n_steps * r->n_lanes;
    uint64_t expected = 0;
    d->step = r->steps;
    d->hash = hm_alloc(d->slots, sizeof *d->hash);
    d->sum = hm_alloc(cells, sizeof *d->sum);
    d->count = hm_alloc(cells, sizeof *d->count);
    for (size_t i = 0; d->hash && i < r->n_ref; i++) {
        const struct hm_ref_op *op = &r->ref[i];
        uint64_t hash = hm_op_hash(hm_key_op(hm_key(0, 0, op->stage, op->type, op->seq)));
        uint32_t slot = hm_dense_slot(d, op->stage, op->type, op->seq);
        if (slot != UINT32_MAX) d->hash[slot] = hash;
        expected += hash;
    }
    int status = !d->hash || !d->sum || !d->count ? hm_fail_memory(err) : hm_table_read_dense(r->table, r, d, err);
    bool complete = status == 0 && !d->stray;
    for (size_t i = 0; complete && i < cells; i++) complete = d->sum[i] == expected && d->count[i] == r->n_ref;
    hm_free(d->hash);
    hm_free((void *)d->sum);
    hm_free((void *)d->count);
    if (status == 0 && !complete) {
        hm_recording_forget(r);
        status = 1;
    }
    return status;
}

/* ---- opening ---- */

int hm_recording_layout(struct hm_recording *r, const char *meta_path, struct hm_error *err) {
    struct hm_layout meta = {0};
    if (meta_path && hm_metadata_read(meta_path, &meta, err) != 0) return -1;
    struct hm_layout seen = layout_seen(r, r->layout.world, r->layout.vpp);
    if (hm_layout_settle(&meta, &seen, r->path, meta_path ? meta_path : "metadata", err) != 0) return -1;
    if (name_empty_stages(r, meta.pp) != 0) return hm_fail_memory(err);
    if (!meta.name[0]) {
        const char *slash = strrchr(r->path, '/'), *base = slash ? slash + 1 : r->path;
        (void)snprintf(meta.name, sizeof meta.name, "%.*s", (int)strcspn(base, "."), base);
    }
    r->layout = meta;
    return 0;
}

/* A row of a real trace takes some bytes even when compressed well. A small file of very many rows is read as if there
 * were little memory, so that it cannot take gigabytes. */
static uint64_t modest(uint64_t memory_bytes, uint64_t file_bytes) {
    uint64_t enough = ((uint64_t)1 << 29) + 256 * file_bytes;
    return memory_bytes < enough ? memory_bytes : enough;
}

static int open_inputs(struct hm_recording *r, const char *const *paths, size_t n, const char *format,
                       struct hm_error *err) {
    if (hm_inputs_find(r->inputs, paths, n, err) != 0) return -1;
    const struct hm_reader *reader = hm_reader_choose(r->inputs, format, err);
    if (!reader || hm_reader_is_table(reader, r->inputs, err) != 0) return -1;
    if (!(r->path = hm_strdup(r->inputs->name))) return hm_fail_memory(err);
    if (r->inputs->passed && hm_drop(r, "files", r->inputs->passed, "of no known format, or empty: passed over") != 0)
        return hm_fail_memory(err);
    return reader->open(r, r->inputs, err);
}

struct hm_recording *hm_recording_open(const char *const *paths, size_t n, const char *format, uint64_t memory_bytes,
                                       int threads, hm_progress_fn progress, void *context, struct hm_error *err) {
    struct hm_recording *r = hm_alloc(1, sizeof *r);
    if (r) {
        r->memory_bytes = memory_bytes ? memory_bytes : hm_default_memory();
        r->threads = threads;
        r->progress = progress;
        r->context = context;
        r->inputs = hm_alloc(1, sizeof *r->inputs);
        r->step_table = hm_step_table_new();
    }
    if (!r || !r->inputs || !r->step_table)
        hm_fail_memory(err);
    else if (open_inputs(r, paths, n, format, err) == 0) {
        if (!memory_bytes) r->memory_bytes = modest(r->memory_bytes, hm_table_bytes(r->table));
        return r;
    }
    hm_recording_free(r);
    return NULL;
}

struct hm_recording *hm_recording_read(const char *path, const char *meta_path, uint64_t memory_bytes, int threads,
                                       hm_progress_fn progress, void *context, struct hm_error *err) {
    struct hm_recording *r = hm_recording_open(&path, 1, NULL, memory_bytes, threads, progress, context, err);
    if (r && hm_recording_settle(r, err) == 0 && hm_recording_layout(r, meta_path, err) == 0) return r;
    hm_recording_free(r);
    return NULL;
}
