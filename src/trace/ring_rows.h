/* ring_rows.h - rings on their way to an event table: one row an event, of all rings together. */
#ifndef HM_RING_ROWS_H
#define HM_RING_ROWS_H

#include "hindmost/ring.h"
#include "trace/trace.h"

/* Times are on the wall clock of the rank's host, ns. Texts belong to the rings. */
struct hm_ring_row {
    const struct hm_ring_info *ring;
    const char *kind, *name, *group, *members;
    int64_t start_ns, end_ns, launch_ns; /* launch 0: none of its own */
    int64_t bytes, tokens, seq;          /* -1: not given */
    int rank, step, peer, stream, microbatch, chunk;
    bool communication;
};

struct hm_ring_rows {
    struct hm_ring_row *row;
    size_t count, capacity;
    struct hm_ring **rings;
    struct hm_ring_info *infos;
    size_t ring_count;
    char **made; /* names of groups that were told apart */
    size_t made_count, made_capacity;
};

/* ring_rows.c: reads the rings and puts the rows in order: steps filled in, streams without overlap, numbers within the step. */
int hm_ring_rows_read(struct hm_ring_rows *rows, const char *const *inputs, size_t n, struct hm_ring_summary *summary,
                      struct hm_error *err);
void hm_ring_rows_free(struct hm_ring_rows *rows);

/* ring_streams.c: `rows` of one rank, sorted by start; what overlaps on one stream is taken apart. New rows may be appended. */
int hm_ring_flatten(struct hm_ring_rows *out, const struct hm_ring_row *rows, size_t n, struct hm_ring_summary *summary,
                    struct hm_error *err);

static inline int hm_ring_row_add(struct hm_ring_rows *rows, const struct hm_ring_row *row, struct hm_error *err) {
    struct hm_ring_row *grown = hm_grow(rows->row, rows->count, &rows->capacity, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    rows->row = grown;
    rows->row[rows->count++] = *row;
    return 0;
}

#endif
