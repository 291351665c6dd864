/* job_rows.c - traces from rows in memory: packed and interned as a reader would, then settled like any other recording. */
#include "hindmost/job.h"

#include "whatif.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct hm_job_rows {
    struct hm_recording *r;
    size_t unknown; /* rows of op types that are not known; the first one's name */
    char unknown_name[64];
};

void hm_job_abort(struct hm_job_rows *rows) {
    if (!rows) return;
    hm_recording_free(rows->r);
    hm_free(rows);
}

struct hm_job_rows *hm_job_begin(const char *name, struct hm_error *err) {
    struct hm_job_rows *rows = hm_alloc(1, sizeof *rows);
    struct hm_recording *r = rows ? rows->r = hm_alloc(1, sizeof *r) : NULL;
    if (r) {
        r->path = hm_strdup(name);
        r->groups = hm_alloc(1, sizeof *r->groups);
        r->step_table = hm_step_table_new();
        r->memory_bytes = hm_default_memory();
        r->n_groups = 1;
    }
    if (r && r->path && r->groups && r->step_table) {
        r->groups[0] = (struct hm_group){0, INT64_MAX};
        return rows;
    }
    hm_job_abort(rows);
    hm_fail_memory(err);
    return NULL;
}

/* Rows of one op type mostly come with one string. Between two calls a caller may write another name to the same place. */
enum { REMEMBERED = 64 };
struct names {
    const char *name[REMEMBERED];
    int type[REMEMBERED];
};

static int type_of(struct names *names, const char *name) {
    const size_t at = ((uintptr_t)name * 0x9e3779b97f4a7c15u) >> (64 - 6);
    if (names->name[at] != name) {
        names->name[at] = name;
        names->type[at] = hm_op_type_find(name, strlen(name));
    }
    return names->type[at];
}

static bool is_time(double s) {
    return s >= 0 && s < INFINITY;
}

static int check(const struct hm_job_rows *rows, const struct hm_op_row *row, struct hm_error *err) {
    const char *what = !row->op_type                 ? "op_type is missing"
                       : row->step < 0               ? "step is negative"
                       : row->dp_rank >= HM_MAX_DP   ? "dp_rank is outside any layout"
                       : row->stage >= HM_MAX_STAGES ? "stage is outside any layout"
                       : row->seq >= HM_MAX_SEQ      ? "seq is outside any layout"
                       : row->chunk >= HM_MAX_CHUNKS ? "chunk is outside any layout"
                       : !is_time(row->start_s)      ? "start_s is no time: negative or no number"
                       : !is_time(row->duration_s)   ? "duration_s is no time: negative or no number"
                                                     : NULL;
    if (!what) return 0;
    return hm_fail(err, HM_ERR_INPUT,
                   "%s: %s of step %" PRId64 ", dp_rank %" PRIu32 ", stage %" PRIu32 ", seq %" PRIu32
                   ": %s; leave that row out or mend it",
                   rows->r->path, row->op_type ? row->op_type : "a row", row->step, row->dp_rank, row->stage, row->seq,
                   what);
}

/* There is room for its side row. */
static int take(struct hm_recording *r, const struct hm_op_row *row, uint32_t type, struct hm_row *to,
                struct hm_error *err) {
    uint32_t step = hm_step_intern(r->step_table, row->step);
    if (step == UINT32_MAX)
        return hm_fail(err, HM_ERR_INPUT, "%s: more than %d steps; hand them over in parts", r->path, HM_MOST_STEPS);
    *to = (struct hm_row){hm_key(step, row->dp_rank, row->stage, type, row->seq), row->start_s, row->duration_s};
    r->side[r->sides++] = (struct hm_side_row){to->key,          row->chunk,   row->microbatch,
                                               row->model_chunk, row->start_s, row->start_s + row->duration_s};
    if ((int64_t)row->dp_rank + 1 > r->layout.dp) r->layout.dp = (int64_t)row->dp_rank + 1;
    if (row->chunk + 1 > r->layout.vpp) r->layout.vpp = row->chunk + 1;
    return 0;
}

int hm_job_add(struct hm_job_rows *rows, const struct hm_op_row *row, size_t n, struct hm_error *err) {
    struct hm_recording *r = rows->r;
    struct names names = {0};
    size_t known = 0, first;
    for (size_t i = 0; i < n; i++) {
        if (check(rows, &row[i], err) != 0) return -1;
        known += type_of(&names, row[i].op_type) >= 0;
    }
    struct hm_side_row *grown = hm_grow_by(r->side, r->sides, known, &r->side_capacity, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    r->side = grown;
    if (hm_rows_reserve(&r->rows, known, &first) != 0) return hm_fail_memory(err);
    const size_t sides = r->sides;
    int status = 0;
    for (size_t i = 0; i < known; i++) hm_rows_at(&r->rows, first + i)->key = HM_KEY_DEAD;
    for (size_t i = 0, at = first; i < n && status == 0; i++) {
        int type = type_of(&names, row[i].op_type);
        if (type >= 0)
            status = take(r, &row[i], (uint32_t)type, hm_rows_at(&r->rows, at++), err);
        else if (rows->unknown++ == 0)
            (void)snprintf(rows->unknown_name, sizeof rows->unknown_name, "%s", row[i].op_type);
    }
    if (status == 0) return 0;
    for (size_t i = 0; i < known; i++) hm_rows_at(&r->rows, first + i)->key = HM_KEY_DEAD;
    r->sides = sides;
    return -1;
}

struct hm_trace *hm_job_finish(struct hm_job_rows *rows, const struct hm_trace_options *options, struct hm_error *err) {
    const struct hm_trace_options defaults = {0}, *o = options ? options : &defaults;
    if (!rows) return NULL;
    struct hm_trace *t = hm_alloc(1, sizeof *t);
    int status = t ? 0 : hm_fail_memory(err);
    if (status == 0) {
        struct hm_recording *r = t->recording = rows->r;
        rows->r = NULL;
        r->threads = o->threads, r->progress = o->progress, r->context = o->context;
        if (rows->unknown && hm_drop(r, "rows", rows->unknown, "op type %s%s not known", rows->unknown_name,
                                     rows->unknown > 1 ? " and others are" : " is") != 0)
            status = hm_fail_memory(err);
        if (status == 0) status = hm_trace_settle(t, o, err);
    }
    hm_job_abort(rows);
    if (status == 0) return t;
    hm_trace_free(t);
    return NULL;
}
