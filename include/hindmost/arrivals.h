/* hindmost/arrivals.h - who came late: the collectives of a job, from a PyTorch profiler trace of each rank.
 *
 * A collective moves no data before its last member has come. Whose clock says what is settled first: all members leave a collective
 * together, so its ends align the clocks. Then each collective has a last rank, and the others a time that they waited for it. */
#ifndef HINDMOST_ARRIVALS_H
#define HINDMOST_ARRIVALS_H

#include "base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A collective that at least two recorded ranks took part in. */
struct hm_arrival {
    int64_t step, seq; /* seq: number in its group as recorded, else counted within the step */
    const char *group, *name;
    size_t ranks; /* recorded ones that took part */
    int64_t last_rank;
    double spread_s;   /* from the first arrival to the last */
    double transfer_s; /* from the last arrival to the end */
    bool clear;        /* the last came later than the second last by more than the clocks' uncertainty */
};

/* What the host of a rank does in a step, as far as the trace names it: iterators of data loaders, the forward of DDP and FSDP, autograd
 * functions, optimizers, and annotations of such names. Waiting inside is included. */
enum { HM_PHASE_DATA, HM_PHASE_FORWARD, HM_PHASE_BACKWARD, HM_PHASE_OPTIMIZER, HM_PHASES };
struct hm_arrival_phase {
    double mean_s, most_s; /* a step: on average, in the worst; NaN: not recorded */
};
HM_API const char *hm_arrival_phase_name(int phase);

struct hm_arrival_rank {
    int64_t rank;
    const char *file, *host; /* host NULL: not recorded */
    double
        late_s; /* seconds a step that it came later than half of its peers, being the last, and had not already before */
    double gain_s;     /* seconds a step that would be won if it had come as early as the latest of its peers */
    double wait_s;     /* seconds a step between its arrivals and the last ones */
    size_t last;       /* collectives in which it came last */
    size_t late_steps; /* steps of whose lateness it has the largest part */
    double
        clock_offset_s; /* its clock ahead of the common one, at the middle of the recording; NaN: shares no collective */
    double clock_drift; /* seconds a second; 0 unless the recording is long enough to tell */
    struct hm_arrival_phase phase[HM_PHASES];
};

struct hm_arrivals {
    const char *name;
    int64_t world; /* ranks of the job; 0: not recorded */
    size_t n_ranks;
    const struct hm_arrival_rank *rank; /* by number */
    size_t n_collectives;
    const struct hm_arrival *collective; /* by step, group, order */
    size_t n_steps;
    double step_s;              /* mean length of a step; NaN: no steps are recorded */
    double clock_uncertainty_s; /* of an arrival against another */
    int64_t late_rank;   /* late in so many steps that chance does not explain it; -1: none, or it cannot be told */
    const char *summary; /* one sentence, and what a cure would bring */
    const char
        *cause; /* of late_rank, as phases show it: slow-worker, data-loading; NULL: not shown, or nobody is late */
    double
        speedup; /* of a step, if late_rank came as early as the latest of its peers; NaN: nobody is late, or no steps */
    size_t n_dropped;
    const struct hm_arrival_dropped {
        const char *what, *why;
        size_t count;
    } * dropped;
    size_t n_cannot_tell;
    const char *const *cannot_tell;
};

/* Reads a job's recording: folders, files, archives or patterns, one trace a rank. *other (may be NULL) becomes true, without an error
 * and with a NULL result, if the names are no profiler traces: hm_trace_open_files is for them then. format NULL: the content decides.
 * NULL on failure. Free with hm_arrivals_free. */
HM_API struct hm_arrivals *hm_arrivals_read(const char *const *paths, size_t n, const char *format, int threads,
                                            bool *other, struct hm_error *err);
HM_API void hm_arrivals_free(struct hm_arrivals *arrivals);

/* A report for people (free with hm_text_free; NULL without memory), the contract's JSON, and a CSV with one row a collective. */
HM_API char *hm_arrivals_text(const struct hm_arrivals *arrivals);
HM_API void hm_arrivals_write_json(const struct hm_arrivals *arrivals, struct hm_out *out);
HM_API void hm_arrivals_write_csv(const struct hm_arrivals *arrivals, struct hm_out *out);

#ifdef __cplusplus
}
#endif
#endif
