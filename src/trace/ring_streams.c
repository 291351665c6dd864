/* ring_streams.c - events of one stream must not overlap, yet regions nest and transfers are in flight together.
 *
 * On the main line (stream 0) a region is what is left of it between the events it encloses, so that every moment belongs to the
 * innermost. A communication keeps what it encloses: its parts are its own. Where two events overlap without nesting, the later start wins.
 * On other streams, events that overlap are put on streams of their own, as many as were in flight at once. */
#include "trace/ring_rows.h"

#include <string.h>

struct open {
    struct hm_ring_row row;
    int64_t from; /* what stands before was emitted, or is an inner event's */
    bool cut;
};

struct line {
    struct hm_ring_rows *out;
    struct open *open;
    size_t depth, capacity;
    struct hm_ring_summary *summary;
};

static int emit(struct line *l, const struct open *o, int64_t end, struct hm_error *err) {
    struct hm_ring_row row = o->row;
    if (end < o->from || (end == o->from && o->cut)) return 0;
    row.start_ns = o->from;
    row.end_ns = end;
    if (row.launch_ns > row.start_ns) row.launch_ns = 0;
    return hm_ring_row_add(l->out, &row, err);
}

/* Ends what ends before `now`, innermost first. */
static int close_until(struct line *l, int64_t now, struct hm_error *err) {
    while (l->depth && l->open[l->depth - 1].row.end_ns <= now) {
        const struct open *o = &l->open[--l->depth];
        if (emit(l, o, o->row.end_ns, err) != 0) return -1;
    }
    return 0;
}

static bool is_marker(const struct hm_ring_row *row) {
    return strcmp(row->kind, "marker") == 0;
}

static int begin(struct line *l, const struct hm_ring_row *row, struct hm_error *err) {
    if (close_until(l, row->start_ns, err) != 0) return -1;
    while (l->depth && l->open[l->depth - 1].row.end_ns < row->end_ns) { /* they overlap: the outer ends here */
        const struct open *o = &l->open[--l->depth];
        l->summary->clipped++;
        if (emit(l, o, row->start_ns, err) != 0) return -1;
    }
    if (l->depth) {
        struct open *outer = &l->open[l->depth - 1];
        if (outer->row.communication) {
            l->summary->absorbed++;
            return 0;
        }
        outer->cut = outer->cut || row->start_ns > outer->from;
        if (row->start_ns > outer->from && emit(l, outer, row->start_ns, err) != 0) return -1;
        outer->from = row->end_ns;
        outer->cut = true;
    }
    struct open *grown = hm_grow(l->open, l->depth, &l->capacity, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    l->open = grown;
    l->open[l->depth++] = (struct open){.row = *row, .from = row->start_ns};
    return 0;
}

static int main_line(struct hm_ring_rows *out, const struct hm_ring_row *rows, size_t n,
                     struct hm_ring_summary *summary, struct hm_error *err) {
    struct line l = {.out = out, .summary = summary};
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        if (rows[i].stream != 0) continue;
        status = is_marker(&rows[i]) ? hm_ring_row_add(out, &rows[i], err) : begin(&l, &rows[i], err);
    }
    if (status == 0) status = close_until(&l, INT64_MAX, err);
    hm_free(l.open);
    return status;
}

/* ---- the other streams ---- */

struct lane {
    int stream, shown; /* as recorded, as written */
    int64_t end_ns;
};

struct lanes {
    struct lane *lane;
    size_t count, capacity;
};

static struct lane *free_lane(struct lanes *l, const struct hm_ring_row *row) {
    for (size_t i = 0; i < l->count; i++)
        if (l->lane[i].stream == row->stream && l->lane[i].end_ns <= row->start_ns) return &l->lane[i];
    struct lane *grown = hm_grow(l->lane, l->count, &l->capacity, sizeof *grown);
    if (!grown) return NULL;
    l->lane = grown;
    l->lane[l->count] = (struct lane){.stream = row->stream, .shown = (int)l->count + 1};
    return &l->lane[l->count++];
}

static int other_streams(struct hm_ring_rows *out, const struct hm_ring_row *rows, size_t n, struct hm_error *err) {
    struct lanes lanes = {0};
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        if (rows[i].stream == 0) continue;
        struct lane *lane = free_lane(&lanes, &rows[i]);
        struct hm_ring_row row = rows[i];
        if (!lane) {
            status = hm_fail_memory(err);
            break;
        }
        lane->end_ns = row.end_ns;
        row.stream = lane->shown;
        status = hm_ring_row_add(out, &row, err);
    }
    hm_free(lanes.lane);
    return status;
}

int hm_ring_flatten(struct hm_ring_rows *out, const struct hm_ring_row *rows, size_t n, struct hm_ring_summary *summary,
                    struct hm_error *err) {
    return main_line(out, rows, n, summary, err) != 0 ? -1 : other_streams(out, rows, n, err);
}
