/* jobs.h - random small jobs for tests: a schedule, its dependencies and its recorded times, made without the code under test.
 *
 * Every replica runs the same ops: 1F1B, or Megatron's interleaved schedule with several model chunks a stage, with point-to-point
 * transfers, parameter gathers, gradient reductions and the optimizer's tail. The helper solves its own dependency graph with random
 * durations to get the recorded starts, so a replay of a job without launch delays must give these starts back. */
#ifndef HM_TEST_JOBS_H
#define HM_TEST_JOBS_H

#include "base/base.h"

/* How many random jobs to try. A sanitizer makes each several times slower and looks for another kind of mistake, which shows in few. */
#ifdef __SANITIZE_ADDRESS__
#define JOB_TRIALS(n) ((n) / 4)
#else
#define JOB_TRIALS(n) (n)
#endif

enum job_type { /* in the order of names in jobs.c */
                JOB_FORWARD,
                JOB_BACKWARD,
                JOB_FORWARD_SEND,
                JOB_FORWARD_RECV,
                JOB_BACKWARD_SEND,
                JOB_BACKWARD_RECV,
                JOB_GATHER,
                JOB_SCATTER,
                JOB_LAYERNORM,
                JOB_EMBEDDING,
                JOB_SEPARATE,
                JOB_CLIP,
                JOB_OPTIMIZER,
                JOB_GC,
                JOB_TYPES
};

enum { JOB_MAX_DEPS = 8 };

struct job_op {
    int stage, type, seq, mc, mb, gmc;
    int group; /* lowest op of its group in the replica */
    bool across;
    int deps[JOB_MAX_DEPS], n_deps;
};

struct job_options {
    int pp, dp, vpp, microbatches, steps; /* 0: random, at most 4, 4, 3, a few, 10 */
    int overlap;                          /* -1 random, 0, 1 */
    bool no_delays;                       /* launch as soon as possible */
    bool no_dp_ops;                       /* no gathers, reductions, clip: replicas never meet */
};

struct job {
    int pp, dp, vpp, microbatches, steps;
    bool overlap;
    struct job_op *op;
    int n_ops;
    int *step_number; /* [steps], ascending */
    double *duration, *start,
        *recorded;  /* [step][dp][op]: own or transfer duration; recorded start; recorded duration */
    double *step_s; /* [step] to the last optimizer's end */
};

struct job *job_make(uint64_t seed, const struct job_options *options);
void job_free(struct job *job);

/* Solves starts and recorded durations again from job->duration (after a change) with launch delays of up to `delay_s`. */
void job_solve(struct job *job, uint64_t seed, double delay_s);

/* What to write differently from the straight table. All zero: the straight table. */
struct job_table {
    const int *dp_rank; /* [dp] number to write for a replica; NULL: its index */
    double clock_s;     /* added to all starts, and 100 s a step: an absolute clock; 0: step-relative */
    uint64_t shuffle;   /* seed: rows in random order; 0: in order */
};
/* Writes an op table, .csv or .parquet by the name; times with 17 digits. Aborts the test program on failure. */
void job_write(const struct job *job, const char *path, const struct job_table *table);

/* A fresh file name under a temporary folder that is removed at exit. Static storage, valid until the next call. */
const char *job_path(const char *name);

#endif
