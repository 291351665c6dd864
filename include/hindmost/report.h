/* hindmost/report.h - an analysis as a page and as a picture, and many analyses as a fleet. */
#ifndef HINDMOST_REPORT_H
#define HINDMOST_REPORT_H

#include "hindmost.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one job -------------------------------------------------------------------------------------------------------------------- */

/* Writes one self-contained HTML page (no network, below 3 MB): the verdict, heatmaps, step series, causes, fixes and a timeline of
 * the slowest step. `analysis` must be of this trace; with per_step the page also shows every step's heatmap. diagnosis may be NULL.
 * "-" is standard output. 0, or -1: HM_ERR_IO, HM_ERR_MEMORY. */
HM_API int hm_report_html(const struct hm_trace *trace, const struct hm_analysis *analysis,
                          const struct hm_diagnosis *diagnosis, const char *path, struct hm_error *err);

/* Draws the workers' slowdowns (x: DP rank, y: stage, colour: S from 1.0 to 1.5 as in the paper's monitor) into a file whose name ends
 * in .svg or .png. Wide jobs are folded into several bands. 0, or -1: HM_ERR_ARGUMENT for another ending, HM_ERR_IO, HM_ERR_MEMORY. */
HM_API int hm_heatmap_write(const struct hm_analysis *analysis, const char *path, struct hm_error *err);

/* ---- many jobs --------------------------------------------------------------------------------------------------------------------
 * A fleet is a table with one row a job, read from results of `hindmost analyze --json` (schema hindmost.analysis/1, also gzipped) and
 * from Parquet files that hm_fleet_write_parquet made. What it sums up follows section 4 of OSDI 2025. */

/* One job. Absent numbers are NaN (counts: 0), absent texts NULL. */
struct hm_fleet_job {
    const char *file, *name;
    int64_t dp, pp, tp, cp, vpp, world, workers, steps;
    double actual_s, replayed_s, ideal_s; /* mean step times */
    double discrepancy, slowdown, waste;
    double worker_share, last_stage_share; /* M_W, M_S */
    double step_p50, step_p90, step_p99;   /* quantiles over its steps of step slowdown / job slowdown */
    double
        gpu_hours; /* "gpu_hours" of the result if it has one, else world x mean recorded step time x steps: the sampled steps only */
    const char *cause; /* with the largest share among the named ones ("unexplained" is no name) */
    double cause_confidence, cause_recovers;
    const char *causes; /* all of them, comma-separated */
    const char *fix;    /* the best one */
    double fix_speedup;
};

/* A group of jobs: those of a size, or those with a cause. */
struct hm_fleet_job_group {
    const char *name;
    size_t jobs, straggling;
    double slowdown_mean, slowdown_p50, slowdown_p90, slowdown_max;
    double gpu_hours, wasted_gpu_hours;
};

enum { HM_FLEET_QUANTILES = 4, HM_FLEET_SIZES = 7, HM_FLEET_CAUSES = 9 };

struct hm_fleet_skipped {
    const char *file, *why;
};

struct hm_fleet {
    size_t n_jobs, n_skipped;
    const struct hm_fleet_job *jobs; /* those of Parquet files first, else in the order of the inputs */
    const struct hm_fleet_skipped *skipped;

    size_t straggling; /* jobs with S >= 1.1 */
    size_t distrusted; /* jobs with a discrepancy above 5 %, which the paper leaves out; here they count */
    double gpu_hours, wasted_gpu_hours;
    double quantiles[HM_FLEET_QUANTILES];    /* 0.5, 0.75, 0.9, 0.99 */
    double waste_by_job[HM_FLEET_QUANTILES]; /* over jobs: a worst tenth of them wastes at least [2] */
    double
        waste_by_gpu_hours[HM_FLEET_QUANTILES]; /* weighted: jobs that waste no more hold that share of the GPU-hours */
    double slowdown_by_job[HM_FLEET_QUANTILES];
    double step_p90; /* the median straggling job's p90 of step slowdown / job slowdown: near 1, slowness lasts */
    size_t worker_dominated;          /* straggling jobs with M_W > 0.5 */
    double worker_dominated_slowdown; /* their mean S */
    size_t last_stage_dominated;      /* straggling jobs with M_S >= 0.5 */
    double last_stage_dominated_slowdown;
    size_t severe;                                  /* jobs with S > 3 */
    int64_t severe_world;                           /* the smallest of them, in GPUs; 0 if none */
    struct hm_fleet_job_group size[HM_FLEET_SIZES]; /* by GPUs: below 128, 128 to 255, ... 4096 and more; all jobs */
    struct hm_fleet_job_group
        cause[HM_FLEET_CAUSES]; /* straggling jobs by cause, the last one those without a named cause */
    const size_t *by_slowdown;  /* [n_jobs] indices, worst first */
    const size_t *by_waste;     /* [n_jobs] indices by wasted GPU-hours, worst first */
};

/* Reads results: files (.json, .json.gz, .parquet) and folders, which are searched for .json and .json.gz at any depth. What cannot
 * be read is skipped and named; HM_ERR_INPUT only if no job is left. NULL on failure. Free with hm_fleet_free. */
HM_API struct hm_fleet *hm_fleet_read(const char *const *paths, size_t n, int threads, hm_progress_fn progress,
                                      void *context, struct hm_error *err);
HM_API void hm_fleet_free(struct hm_fleet *fleet);

/* The summary for people, at most `width` columns wide (0: 80). NULL without memory. Free with hm_text_free. */
HM_API char *hm_fleet_text(const struct hm_fleet *fleet, int width);
/* The summary as JSON, schema hindmost.fleet/1 (docs/page.md). Errors show in hm_out_commit. */
HM_API void hm_fleet_write_json(const struct hm_fleet *fleet, struct hm_out *out);
/* The summary as a self-contained page. 0 or -1. */
HM_API int hm_fleet_html(const struct hm_fleet *fleet, const char *path, struct hm_error *err);
/* The table of jobs as Parquet: the columns are the fields of struct hm_fleet_job. The file appears whole or not at all. 0 or -1. */
HM_API int hm_fleet_write_parquet(const struct hm_fleet *fleet, const char *path, struct hm_error *err);
/* Answers a DuckDB SQL query over the table `jobs`: rows as an aligned table, or as a JSON array of objects. 0, or -1: HM_ERR_ARGUMENT with
 * DuckDB's words for a query that fails. */
HM_API int hm_fleet_sql(const struct hm_fleet *fleet, const char *query, bool json, struct hm_out *out,
                        struct hm_error *err);

#ifdef __cplusplus
}
#endif
#endif
