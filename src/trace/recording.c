/* recording.c - reads a trace file whole: rows, layout, settled grid. */
#include "trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void hm_recording_free(struct hm_recording *r) {
    if (!r) return;
    hm_rows_free(&r->rows);
    for (size_t i = 0; i < r->n_dropped; i++) {
        hm_free(r->dropped[i].what);
        hm_free(r->dropped[i].why);
    }
    hm_free(r->dropped);
    hm_free(r->side);
    hm_free(r->steps);
    hm_free(r->lanes);
    hm_free(r->step_index);
    hm_free(r->lane_index);
    hm_free(r->step_start_s);
    hm_free(r->ref);
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

/* What the trace itself tells of the layout. Rank numbers count (stage * dp + dp_rank) * dsp * tp. */
static struct hm_layout layout_seen(const struct hm_recording *r, int64_t ranks, int64_t chunks) {
    struct hm_layout seen = {.dp = r->layout.dp, .vpp = chunks > 0 ? chunks : 1, .world = ranks};
    for (size_t i = 0; i < r->n_ref; i++)
        if (r->ref[i].stage + 1 > seen.pp) seen.pp = r->ref[i].stage + 1;
    int64_t workers = seen.dp * seen.pp;
    if (workers > 1 && ranks > 1 && (ranks - 1) % (workers - 1) == 0) seen.tp = (ranks - 1) / (workers - 1);
    return seen;
}

/* A stage without any row cannot be replayed: its neighbours run without it, and the report says so. */
static int name_empty_stages(struct hm_recording *r, int64_t stages) {
    for (int64_t s = 0, next; s < stages; s = next + 1) {
        next = stages;
        for (size_t i = 0; i < r->n_ref; i++)
            if (r->ref[i].stage >= s && r->ref[i].stage < next) next = r->ref[i].stage;
        if (next == s + 1 && hm_drop(r, "stages", 1, "stage %" PRId64 " has no rows; the others are replayed without it", s) != 0) return -1;
        if (next > s + 1 && hm_drop(r, "stages", (size_t)(next - s), "stages %" PRId64 " to %" PRId64 " have no rows; the others are replayed without them", s, next - 1) != 0)
            return -1;
    }
    return 0;
}

static int read_all(struct hm_recording *r, const char *meta_path, struct hm_step_table *steps, int threads, hm_progress_fn progress,
                    void *context, struct hm_error *err) {
    struct hm_layout meta = {0};
    if (meta_path && hm_metadata_read(meta_path, &meta, err) != 0) return -1;
    struct hm_table *t = hm_table_open(r->path, threads, err);
    if (!t) return -1;
    int status = hm_table_read(t, r, steps, progress, context, err);
    int64_t ranks = r->layout.world, chunks = r->layout.vpp;
    if (status == 0) status = hm_recording_settle(r, steps, t, threads, err);
    hm_table_close(t);
    if (status != 0) return -1;
    struct hm_layout seen = layout_seen(r, ranks, chunks);
    if (hm_layout_settle(&meta, &seen, r->path, meta_path ? meta_path : "metadata", err) != 0) return -1;
    if (name_empty_stages(r, meta.pp) != 0) return hm_fail_memory(err);
    if (!meta.name[0]) {
        const char *slash = strrchr(r->path, '/'), *base = slash ? slash + 1 : r->path;
        (void)snprintf(meta.name, sizeof meta.name, "%.*s", (int)strcspn(base, "."), base);
    }
    r->layout = meta;
    return 0;
}

struct hm_recording *hm_recording_read(const char *path, const char *meta_path, int threads, hm_progress_fn progress, void *context,
                                       struct hm_error *err) {
    struct hm_recording *r = hm_alloc(1, sizeof *r);
    struct hm_step_table steps = {.number = hm_alloc(HM_STEP_TABLE, sizeof *steps.number)};
    int status = -1;
    if (r && steps.number && (r->path = hm_strdup(path)))
        status = read_all(r, meta_path, &steps, threads, progress, context, err);
    else
        hm_fail_memory(err);
    hm_free((void *)steps.number);
    if (status == 0) return r;
    hm_recording_free(r);
    return NULL;
}
