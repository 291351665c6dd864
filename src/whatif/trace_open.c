/* trace_open.c - from a file to a trace ready for replays. */
#include "whatif.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void hm_trace_free(struct hm_trace *trace) {
    if (!trace) return;
    hm_program_free(trace->program);
    hm_job_free(trace->job);
    hm_grid_free(&trace->grid);
    hm_recording_free(trace->recording);
    hm_free(trace->ideal_fill);
    hm_free(trace->ideal_s);
    hm_free(trace);
}

/* ---- "12,20-23" ---- */

struct range {
    int64_t first, last;
};

static int parse_ranges(const char *text, struct range **ranges, size_t *n, struct hm_error *err) {
    size_t capacity = 0;
    const char *c = text;
    for (;;) {
        const char *end;
        int64_t first, last;
        if (!hm_parse_range(c, &end, &first, &last) || (*end && *end != ','))
            return hm_fail(err, HM_ERR_ARGUMENT, "--steps %s: give step numbers and ranges such as 12,20-23", text);
        struct range *grown = hm_grow(*ranges, *n, &capacity, sizeof *grown);
        if (!grown) return hm_fail_memory(err);
        *ranges = grown;
        (*ranges)[(*n)++] = (struct range){first, last};
        if (!*end) return 0;
        c = end + 1;
    }
}

/* Leaves only the wanted steps among the kept ones. The model stays that of the first step recorded, as in the
 * artefact. */
static int select_steps(struct hm_recording *r, const char *text, struct hm_error *err) {
    struct range *ranges = NULL;
    size_t n = 0, kept = 0;
    uint32_t *new_index = NULL;
    int status = parse_ranges(text, &ranges, &n, err);
    if (status == 0 && !(new_index = hm_alloc(r->n_steps, sizeof *new_index))) status = hm_fail_memory(err);
    for (size_t t = 0; status == 0 && t < r->n_steps; t++) {
        bool wanted = false;
        for (size_t k = 0; k < n; k++) wanted |= r->steps[t] >= ranges[k].first && r->steps[t] <= ranges[k].last;
        new_index[t] = wanted ? (uint32_t)kept : UINT32_MAX;
        if (!wanted) continue;
        r->steps[kept] = r->steps[t];
        kept++;
    }
    if (status == 0 && kept == 0)
        status =
            hm_fail(err, HM_ERR_ARGUMENT, "%s: no usable step among --steps %s; it has steps %" PRId64 " to %" PRId64,
                    r->path, text, r->steps[0], r->steps[r->n_steps - 1]);
    if (status == 0) {
        for (size_t s = 0; s < hm_steps_interned(r->step_table); s++)
            if (r->step_index[s] != UINT32_MAX) r->step_index[s] = new_index[r->step_index[s]];
        r->n_steps = kept;
    }
    hm_free(ranges);
    hm_free(new_index);
    return status;
}

/* ---- opening ---- */

int hm_trace_idealise(struct hm_trace *t, int threads, struct hm_error *err) {
    if (!(t->ideal_s = hm_alloc(t->job->n_peers, sizeof *t->ideal_s))) return hm_fail_memory(err);
    if (hm_ideal_durations(&t->grid, t->job, threads, t->ideal_s, err) != 0) return -1;
    t->ideal_fill = hm_alloc_aligned(t->job->n_slots * HM_WIDTH, sizeof(double));
    if (!t->ideal_fill) return hm_fail_memory(err);
    for (size_t i = 0; i < t->job->n_slots; i++)
        for (size_t k = 0; k < HM_WIDTH; k++) t->ideal_fill[i * HM_WIDTH + k] = t->ideal_s[t->job->slot[i].peers];
    return 0;
}

/* From a laid-out recording to a filled grid. 1: not complete, settle first. */
static int build(struct hm_trace *t, const char *path, const struct hm_trace_options *o, struct hm_error *err) {
    struct hm_recording *r = t->recording;
    int64_t dp = r->layout.dp * (r->layout.dsp ? r->layout.dsp : 1);
    t->job = hm_job_pipeline(r->ref, r->n_ref, dp, path, err);
    if (!t->job) return -1;
    bool ends = false;
    for (size_t i = 0; i < t->job->n_slots; i++) ends |= hm_class_of(t->job, i)->ends_step;
    if (!ends)
        return hm_fail(err, HM_ERR_INPUT, "%s: no step has an end: there is no optimizer op; record whole steps", path);
    bool computes = false;
    for (size_t i = 0; i < t->job->n_slots; i++) computes |= hm_is_pass(hm_class_of(t->job, i));
    if (!computes)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: no forward or backward compute was recorded, so nothing says what a step consists of; "
                       "record computes too",
                       path);
    if (o->steps && select_steps(r, o->steps, err) != 0) return -1;
    if (!(t->program = hm_program_compile(t->job, err))) return -1;
    return hm_grid_fill(&t->grid, r, t->job, o->threads, err);
}

static void tear_down(struct hm_trace *t) {
    hm_grid_free(&t->grid);
    hm_program_free(t->program);
    hm_job_free(t->job);
    t->grid = (struct hm_grid){0};
    t->program = NULL;
    t->job = NULL;
}

/* ---- steps that cannot be ---- */

/* No step takes a day and a thousand times what the others take: an op in it has the time of another clock. */
static const double longest_s = 86400, longest = 1000;
enum { AGAIN = 3 }; /* a recording is settled anew so often */

/* Refuses such steps among those of the grid. How many, or -1. */
static int refuse_long_steps(struct hm_trace *t) {
    const struct hm_grid *g = &t->grid;
    double *sorted = hm_alloc(g->steps, sizeof *sorted);
    if (!sorted) return -1;
    memcpy(sorted, g->actual_s, g->steps * sizeof *sorted);
    double usual = hm_select(sorted, g->steps, (g->steps - 1) / 2);
    hm_free(sorted);
    int refused = 0;
    for (size_t k = 0; k < g->steps; k++) {
        if (!(g->actual_s[k] > longest_s && g->actual_s[k] > longest * usual)) continue;
        if (hm_recording_refuse_step(t->recording, t->recording->steps[k]) != 0) return -1;
        refused++;
    }
    return refused;
}

/* The job is built from one step: if that one cannot be, it may have no order. Likewise. */
static int refuse_reference(struct hm_recording *r) {
    double first = INFINITY, last = -INFINITY;
    for (size_t i = 0; i < r->n_ref; i++) {
        first = fmin(first, r->ref[i].start_s);
        last = fmax(last, r->ref[i].end_s);
    }
    if (!(last - first > longest_s) || r->n_steps < 2) return 0;
    return hm_recording_refuse_step(r, r->steps[0]) == 0 ? 1 : -1;
}

/* Complete recordings are read straight into the grid; whatever speaks against that leads to the settling way, which has the last word. */
static int read_and_build(struct hm_trace *t, const char *path, const struct hm_trace_options *o,
                          struct hm_error *err) {
    struct hm_recording *r = t->recording;
    struct hm_layout meta = {0};
    if (o->metadata && hm_metadata_read(o->metadata, &meta, err) != 0) return -1;
    for (bool again = !o->steps, guess = true; again; guess = false) {
        int status = hm_recording_survey(r, guess, err);
        if (status < 0) return -1;
        if (status > 0) break;
        struct hm_error first = {0};
        r->layout.dsp = meta.dsp;
        status = build(t, path, o, &first);
        if (status < 0 && first.code != HM_ERR_INPUT) {
            if (err) *err = first;
            return -1;
        }
        int refused = status == 0 ? refuse_long_steps(t) : 0;
        if (refused < 0) return hm_fail_memory(err);
        if (status == 0 && !refused) return hm_recording_layout(r, o->metadata, err);
        again = status > 0 && r->guessed;
        tear_down(t);
        hm_recording_forget(r);
    }
    if (hm_recording_settle(r, err) != 0 || hm_recording_layout(r, o->metadata, err) != 0) return -1;
    for (int again = 0;; again++) {
        struct hm_error why = {0};
        int status = build(t, path, o, &why); /* 1: numbers do not follow the starts */
        int refused = status == 0                              ? refuse_long_steps(t)
                      : status < 0 && why.code == HM_ERR_INPUT ? refuse_reference(r)
                                                               : 0;
        if (refused < 0) return hm_fail_memory(err);
        if ((status <= 0 && !refused) || again == AGAIN) {
            if (status < 0 && err) *err = why;
            return status;
        }
        tear_down(t);
        if (hm_recording_settle_again(r, err) != 0 || hm_recording_layout(r, o->metadata, err) != 0) return -1;
    }
}

/* Ops of types that no rule connects are left out, and said to be. */
static int name_unplaced(struct hm_recording *r, const struct hm_job *job) {
    for (uint32_t type = 0; type < HM_OP_TYPES; type++) {
        size_t ops = 0;
        if (!(job->unplaced >> type & 1)) continue;
        for (size_t i = 0; i < r->n_ref; i++) ops += r->ref[i].type == type;
        if (hm_drop(r, "ops", ops * r->n_lanes * r->n_steps,
                    "no rule places %s: nothing that was recorded waits for it, and it waits for nothing",
                    hm_op_types[type].name) != 0)
            return -1;
    }
    return 0;
}

/* That the model goes on behind the last stage shows once the job is built. */
static int name_last_stages(struct hm_recording *r, const struct hm_job *job) {
    const size_t missing = job->model_stages - job->stages;
    if (job->model_stages <= job->stages || r->layout.pp >= (int64_t)job->model_stages) return 0;
    return hm_drop(r, "stages", missing,
                   "stage %zu sends on: the stages behind it have no rows; the others are replayed without them",
                   job->stages - 1);
}

/* Once the grid is full. */
static int complete(struct hm_trace *t, const struct hm_trace_options *o, struct hm_error *err) {
    struct hm_recording *r = t->recording;
    hm_recording_release_rows(r);
    t->ops = t->grid.steps * t->grid.lanes * t->grid.slots;
    if (name_unplaced(r, t->job) != 0 || name_last_stages(r, t->job) != 0) return hm_fail_memory(err);
    if (t->grid.negative_zeroed &&
        hm_drop(r, "transfer durations", t->grid.negative_zeroed,
                "negative by 10 ms or more, taken as 0: the clocks of the ranks disagree") != 0)
        return hm_fail_memory(err);
    return hm_trace_idealise(t, o->threads, err);
}

int hm_trace_settle(struct hm_trace *t, const struct hm_trace_options *o, struct hm_error *err) {
    struct hm_recording *r = t->recording;
    if (hm_settle(r, err) != 0 || hm_recording_layout(r, o->metadata, err) != 0 || build(t, r->path, o, err) != 0)
        return -1;
    return complete(t, o, err);
}

static int prepare(struct hm_trace *t, const char *const *paths, size_t n, const struct hm_trace_options *o,
                   struct hm_error *err) {
    t->recording = hm_recording_open(paths, n, o->format, o->memory_bytes, o->threads, o->progress, o->context, err);
    if (!t->recording || read_and_build(t, t->recording->path, o, err) != 0) return -1;
    return complete(t, o, err);
}

struct hm_trace *hm_trace_open_files(const char *const *paths, size_t n, const struct hm_trace_options *options,
                                     struct hm_error *err) {
    const struct hm_trace_options defaults = {0};
    struct hm_trace *t = hm_alloc(1, sizeof *t);
    if (!t) {
        hm_fail_memory(err);
        return NULL;
    }
    if (prepare(t, paths, n, options ? options : &defaults, err) == 0) return t;
    hm_trace_free(t);
    return NULL;
}

struct hm_trace *hm_trace_open(const char *path, const struct hm_trace_options *options, struct hm_error *err) {
    return hm_trace_open_files(&path, 1, options, err);
}
