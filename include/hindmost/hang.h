/* hindmost/hang.h - who did not come: the flight-recorder dumps of a job that stands still, judged together. */
#ifndef HINDMOST_HANG_H
#define HINDMOST_HANG_H

#include "hindmost/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A rank that others wait for and that itself waits for nobody. */
struct hm_suspect {
    int rank;
    double score; /* 0 to 1: mostly the share of the other ranks that wait for it, directly or through others */
    char **reason;
    size_t n_reasons;
};

/* A collective, or a send with its receive, that does not go on. */
struct hm_stuck_op {
    const char *group, *description, *op;
    int64_t seq; /* number of the collective in its group; of a send or receive, the first waiting rank's own count */
    int *rank;   /* members of the group */
    size_t n_ranks;
    int *waiting; /* those that have come */
    size_t n_waiting;
    int *absent; /* those that have not */
    size_t n_absent;
};

/* Members of one collective that do not ask for the same. */
struct hm_op_mismatch {
    const char *group, *description;
    int64_t seq;
    const char *what; /* "op", "size", "type" */
    struct hm_op_ask {
        char *value;
        int *rank;
        size_t n_ranks;
    } * ask; /* the most common first */
    size_t n_asks;
};

struct hm_hang {
    bool hung;
    char *summary;       /* one sentence */
    const char *version; /* of the first dump */
    size_t n_ranks, n_dumps;
    int *missing; /* ranks that groups name and that no dump is of */
    size_t n_missing;
    struct hm_suspect *suspect; /* worst first; none if nothing hangs */
    size_t n_suspects;
    struct hm_stuck_op *stuck; /* the first of each group that does not go on */
    size_t n_stuck;
    struct hm_op_mismatch *mismatch;
    size_t n_mismatches;
    struct hm_late_rank { /* usually later than its peers, as far as the dumps go back */
        int rank;
        double late_s; /* median */
    } * late;
    size_t n_late;
    char **cannot_tell, **note;
    size_t n_cannot_tell, n_notes;
};

/* Reads dumps (files; of a folder all its files that are dumps) and judges them. NULL on failure.
 * Method: docs/hang.md. Free with hm_hang_free. */
HM_API struct hm_hang *hm_hang_read(const char *const *paths, size_t n, struct hm_error *err);
HM_API void hm_hang_free(struct hm_hang *hang);

/* The report for people (free with hm_text_free of hindmost/report.h), and JSON, schema hindmost.hang/1. NULL: no memory. */
HM_API char *hm_hang_text(const struct hm_hang *hang);
HM_API void hm_hang_write_json(const struct hm_hang *hang, struct hm_out *out);

#ifdef __cplusplus
}
#endif
#endif
