/* hindmost/job.h - traces without a file: rows handed over from memory.
 *
 * What a reader of a new format, a simulator, or a program that watches its own training needs: begin, add rows in any order and as often
 * as you like, finish. The trace that comes out is what hm_trace_open makes of a file with the same rows: the same checks, the same
 * repairs, the same answers.
 *
 *     struct hm_error err;
 *     struct hm_job_rows *rows = hm_job_begin("my job", &err);
 *     const struct hm_op_row op = {.step = 7, .dp_rank = 0, .stage = 0, .op_type = "forward-compute", .seq = 0,
 *                                  .chunk = 0, .microbatch = 0, .model_chunk = 0, .start_s = 0.020, .duration_s = 0.100};
 *     if (rows && hm_job_add(rows, &op, 1, &err) == 0) ...
 *     struct hm_trace *trace = hm_job_finish(rows, NULL, &err);
 *
 * Since 0.1.0. Thread safety: one object is used by one thread at a time. */
#ifndef HINDMOST_JOB_H
#define HINDMOST_JOB_H

#include "hindmost.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One op of one worker in one step: a row of the op table. -1 in chunk, microbatch and model_chunk where they do not apply. */
struct hm_op_row {
    int64_t step;
    uint32_t dp_rank, stage;
    const char *
        op_type; /* "forward-compute", ...; docs/inputs.md names them all. Rows of others are left out, counted and named */
    uint32_t seq;  /* number among the ops of that type, worker and step, by start time */
    int32_t chunk; /* model chunk in the stage */
    int32_t microbatch;
    int32_t model_chunk;        /* chunk in the whole model */
    double start_s, duration_s; /* seconds; one clock a step */
};

struct hm_job_rows;

/* Begins a job. The name is for messages and the report; it is copied. NULL without memory. */
HM_API struct hm_job_rows *hm_job_begin(const char *name, struct hm_error *err);

/* Adds n rows; they are copied. 0, or -1: HM_ERR_INPUT if a row holds an impossible value (negative step, rank or chunk out of any
 * layout, times that are negative or no numbers), naming it; none of these n rows is added then. HM_ERR_MEMORY. */
HM_API int hm_job_add(struct hm_job_rows *rows, const struct hm_op_row *row, size_t n, struct hm_error *err);

/* The trace of all rows. Frees `rows` in any case. options as for hm_trace_open (NULL: defaults); memory_bytes and format do not apply.
 * Fails as hm_trace_open does. NULL on failure; free with hm_trace_free. rows may be NULL: then it fails without touching err. */
HM_API struct hm_trace *hm_job_finish(struct hm_job_rows *rows, const struct hm_trace_options *options,
                                      struct hm_error *err);

/* Gives a job up. NULL is allowed. */
HM_API void hm_job_abort(struct hm_job_rows *rows);

#ifdef __cplusplus
}
#endif
#endif
