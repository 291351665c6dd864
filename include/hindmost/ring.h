/* hindmost/ring.h - read rings: what a probe recorded inside a training job, while it runs or after it died. */
#ifndef HINDMOST_RING_H
#define HINDMOST_RING_H

#include "hindmost/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A ring being read. It is only read, never locked or mapped: its writer notices nothing, and a file that shrinks meanwhile does
 * no harm. */
struct hm_ring;

/* What its header says. Texts live as long as the ring. */
struct hm_ring_info {
    const char *path, *job, *host, *gpu, *face;
    int rank, world, local_rank; /* -1: not known, here and below */
    int dp, pp, tp, cp, ep;
    uint32_t pid, parent;
    uint64_t pid_start;
    uint8_t boot_id[16];
    uint32_t capacity;
    bool closed, forked;
    uint64_t claimed, lost, unnamed;             /* records begun; given up by their writer; names without room */
    int64_t monotonic_ns, wall_ns;               /* both clocks when the ring was opened */
    int64_t latest_monotonic_ns, latest_wall_ns; /* and in the latest pair */
};

/* One record. Texts live as long as the ring; NULL: not given. */
struct hm_ring_event {
    uint64_t number;  /* of the record in its ring, from 0 */
    const char *kind; /* compute, collective, send, recv, wait, data, io, gc, idle, marker */
    const char *name, *group, *members;
    int64_t begin_ns, end_ns, launch_ns;       /* monotonic; launch 0: the same as begin */
    int64_t bytes, tokens;                     /* -1: not given */
    int64_t seq;                               /* -1: not given */
    int step, peer, stream, microbatch, chunk; /* -1: none */
    bool async, enqueued, device, failed;
};

/* What became of the records that were begun. read + dropped + unfinished + refused = those passed so far. */
struct hm_ring_counts {
    uint64_t read;
    uint64_t dropped;    /* overwritten before they were read */
    uint64_t unfinished; /* never published: given up, or their writer died writing them */
    uint64_t refused;    /* published, but no kind, an end before its beginning, or no such step */
};

/* Opens one ring. A record that is being written holds back the later ones, but for `patience_s` seconds at most (0: it is passed
 * over at once, which suits a single look). NULL on failure; close with hm_ring_close. */
HM_API struct hm_ring *hm_ring_open(const char *path, double patience_s, struct hm_error *err);
HM_API void hm_ring_close(struct hm_ring *ring);

/* Header and counts as of the last hm_ring_next. */
HM_API struct hm_ring_info hm_ring_info(const struct hm_ring *ring);
HM_API struct hm_ring_counts hm_ring_counts(const struct hm_ring *ring);

/* The next record: 1, or 0 if there is none for now, or -1 with an error. */
HM_API int hm_ring_next(struct hm_ring *ring, struct hm_ring_event *event, struct hm_error *err);

/* Whether the process that wrote it can still write, as far as this machine can tell: not closed, same boot, same process. */
HM_API bool hm_ring_alive(const struct hm_ring *ring);

/* The rings a path stands for: itself, or all *.ring files in a folder and in the folders in it, sorted. At least one, or an
 * error. Free each and the array with free(). */
HM_API int hm_ring_find(const char *path, char ***paths, size_t *count, struct hm_error *err);

/* What a conversion did, for a message. */
struct hm_ring_summary {
    size_t rings, ranks;
    uint64_t events;
    struct hm_ring_counts counts;
    size_t superseded; /* rings of an earlier attempt of the same rank, left out */
    uint64_t absorbed; /* events inside a communication of the same rank and stream, which belong to it */
    uint64_t clipped;  /* events cut short because the next of the same stream began before they ended */
};

/* Writes the event table of all these rings (paths as hm_ring_find takes them) to a .csv, .csv.gz or .parquet file, rows by rank
 * and start, times on the wall clock of each host; and beside it, where members are known, NAME.groups.csv (group, members).
 * Records without a step get that of the rank's other rings at their beginning; what a region encloses on the main line is taken
 * out of it. */
HM_API int hm_rings_convert(const char *const *inputs, size_t n, const char *output, struct hm_ring_summary *summary,
                            struct hm_error *err);

#ifdef __cplusplus
}
#endif
#endif
