/* hindmost/hindmost.h - what-if analysis of stragglers in a synchronous training job.
 *
 * A trace records the operations (ops) of every worker in some steps. A worker is one pipeline stage of one
 * data-parallel replica: the pair (stage, dp rank). hindmost rebuilds from the trace who waits for whom, replays the
 * job with other durations than the recorded ones, and so answers what the job would cost without its stragglers, and
 * which part of the loss is whose.
 *
 *     struct hm_error err;
 *     struct hm_trace *trace = hm_trace_open("trace.parquet", NULL, &err);
 *     struct hm_analysis *a = trace ? hm_analyze(trace, NULL, &err) : NULL;
 *     if (a) printf("S = %.3f\n", a->slowdown); else fprintf(stderr, "%s\n", err.message);
 *     hm_analysis_free(a);
 *     hm_trace_free(trace);
 *
 * Terms, formulas and their sources are in docs/method.md; the method is that of J. Lin et al., "Understanding
 * Stragglers in Large Model Training Using What-if Analysis", OSDI 2025. Conventions (errors, ownership, units) are in
 * hindmost/base.h. */
#ifndef HINDMOST_HINDMOST_H
#define HINDMOST_HINDMOST_H

#include "base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- traces ----
 * A trace is a table with one row an op: dp_rank, stage, rank, step, optype, start_ts, duration (seconds), seq_id, mc,
 * mb_id, gmc; the format of the public StragglerAnalysis traces. Parquet, CSV and gzipped CSV are read. Rows may come
 * in any order; start_ts may count from the step's start or from anything else, as long as one step has one clock. */
struct hm_trace;

/* What to read. A zeroed struct, or NULL in its place, means the defaults. */
struct hm_trace_options {
    const char *metadata;    /* YAML file with dp_size, pp_size, tp_size, dsp_size, vpp_size, trial_name; NULL: inferred
                                from the trace */
    const char *steps;       /* "12,20-23": only these step numbers; NULL: all */
    uint64_t memory_bytes;   /* stay below this; 0: half of the machine's memory */
    int threads;             /* 0: all cores */
    hm_progress_fn progress; /* NULL: none */
    void *context;
    const char *format; /* its name as hm_format_name gives it; NULL: the content decides */
};

/* Opens, checks and lays out a trace. `path` may also name a folder, whose files are one job's recording, a pattern such as "run-*.csv"
 * if no file has that very name, or "-", standard input. Steps or replicas with missing, surplus or duplicate ops are left out and listed
 * in the analysis; HM_ERR_INPUT only if nothing is left, or if the file is not a trace, holds impossible values (NaN,
 * infinite, negative times; ranks outside the layout), contradicts its metadata, or has ops that wait for each other in
 * a circle. NULL on failure. */
HM_API struct hm_trace *hm_trace_open(const char *path, const struct hm_trace_options *options, struct hm_error *err);
/* The same of several files (or folders, or patterns) that together are one job's recording. */
HM_API struct hm_trace *hm_trace_open_files(const char *const *paths, size_t n, const struct hm_trace_options *options,
                                            struct hm_error *err);
HM_API void hm_trace_free(struct hm_trace *trace);

/* The formats that can be read: the name of the i-th, and in *what (may be NULL) what it is. NULL behind the last. Static storage. */
HM_API const char *hm_format_name(size_t i, const char **what);

/* ---- analysis ---- */

enum hm_attribution {
    HM_ATTRIBUTION_EXACT, /* S of a worker by a replay of its own */
    HM_ATTRIBUTION_PAPER  /* S of a worker = min(S of its stage, S of its DP rank), as the paper approximates it */
};

struct hm_analysis_options {
    enum hm_attribution attribution;
    bool per_step;           /* keep the attributions of every step */
    int threads;             /* 0: all cores */
    hm_progress_fn progress; /* NULL: none */
    void *context;
};

struct hm_step_result {
    int64_t step;      /* number in the trace */
    double actual_s;   /* recorded: latest end - earliest start of any op */
    double replayed_s; /* replay with the recorded durations and no launch delays */
    double ideal_s;    /* replay with ideal durations */
    double slowdown;   /* replayed_s / ideal step time */
};

struct hm_worker {
    uint32_t stage, dp_rank;
};

/* How much of T - T_ideal a set of workers explains. NaN if T is within 0.1 % of T_ideal. */
struct hm_share {
    double value; /* (T - T with the set made ideal) / (T - T_ideal); may leave [0, 1] */
    double add;   /* (T with only the set original - T_ideal) / (T - T_ideal) */
};

/* A family of op types, as attributions name them: forward-send and -recv count together as forward-pp-comm. */
struct hm_op_family {
    const char *name;
    double slowdown; /* S_t: replay with all ideal but this family, over the ideal */
    double ideal_s;  /* ideal duration of the family's first type: mean (compute) or median (communication) */
    size_t ops;      /* recorded ops a step and replica, all stages */
};

/* Seconds of a step lost, means. Replays leave the waits out; docs/method.md says how they are measured. */
struct hm_lost {
    double stragglers_s; /* T - T_ideal */
    double
        launch_waits_s; /* ops that started later than all they waited for, beyond what is usual among peers: data loading, CPU work */
    double left_out_waits_s; /* for replicas that could not be analysed */
};

struct hm_dropped_item {
    const char *what; /* "rows", "steps", "dp ranks", ... */
    size_t count;
    const char *why;
};

/* The result. Arrays by stage, DP rank and worker cover the whole layout; NaN stands for DP ranks that were left out. */
struct hm_analysis {
    const char *name; /* of the job */
    size_t dp, pp, tp, cp, vpp, world;
    size_t n_steps;
    size_t ops; /* rows analysed */
    size_t n_dropped;
    const struct hm_dropped_item *dropped;

    const struct hm_step_result *steps;   /* [n_steps] by step number */
    double actual_s, replayed_s, ideal_s; /* means over steps */
    double discrepancy; /* actual / replayed (to the last optimizer's end) - 1, of the means; the paper distrusts jobs
                           above 0.05 */
    double slowdown;    /* S = T / T_ideal */
    double waste;       /* 1 - 1/S */
    struct hm_lost lost;
    double
        slowdown_real; /* (T + launch waits + waits for what was left out) / T_ideal: what a verdict goes by. S where nothing waited */
    const double *
        late_s; /* [pp][dp] mean of a step: what a worker's own launches are late by, beyond what is usual among its peers */

    size_t n_families;
    const struct hm_op_family *by_op_type; /* [n_families] */
    const double *by_stage;                /* [pp] */
    const double *by_dp_rank;              /* [dp] */
    enum hm_attribution attribution;
    const double *by_worker;      /* [pp][dp] */
    struct hm_share worker_share; /* M_W: of the slowest 3 % of workers */
    size_t n_share_workers;
    const struct hm_worker *share_workers; /* those workers, slowest first */
    struct hm_share last_stage_share;      /* M_S; 0 without a pipeline */

    /* Only with per_step, else NULL: S of one step alone; the last index is the step's. */
    const double *step_by_op_type; /* [n_families][n_steps] */
    const double *step_by_stage;   /* [pp][n_steps] */
    const double *step_by_dp_rank; /* [dp][n_steps] */
    const double *step_by_worker;  /* [pp][dp][n_steps] */

    double evaluated; /* op instances that all replays together evaluated: the cost of the analysis */
};

/* Analyses a trace. The result does not refer to the trace. NULL on failure. Free with hm_analysis_free. */
HM_API struct hm_analysis *hm_analyze(struct hm_trace *trace, const struct hm_analysis_options *options,
                                      struct hm_error *err);
HM_API void hm_analysis_free(struct hm_analysis *analysis);

/* ---- diagnosis ----
 * Why
 * the job straggles, how sure that is, what would help. Names of causes and fixes are fixed (docs/json.md). */

/* One figure that speaks for a cause, or a small plot of them. */
struct hm_evidence {
    const char *name; /* "correlation of forward and backward, stage 1" */
    double value;
    const char *unit;              /* "s", "ratio", "" ... */
    const char *x_label, *y_label; /* a plot: points x[i], y[i]; n_points 0: just the value */
    size_t n_points;
    const double *x, *y;
};

/* Recorded steps that follow each other, by their numbers. */
struct hm_step_range {
    int64_t first, last;
};

struct hm_cause {
    const char *cause; /* slow-worker, stage-imbalance, sequence-length, garbage-collection, slow-link, data-loading,
                          replica-imbalance, unexplained */
    double confidence; /* 0 to 1 */
    double recovers; /* share of what is lost (T - T_ideal and the waits) won back when only this cause is idealised */
    size_t n_evidence;
    const struct hm_evidence *evidence;
    /* Where; what does not apply is empty. */
    size_t n_workers, n_stages, n_dp_ranks, n_steps, n_op_types;
    const struct hm_worker *workers;
    const uint32_t *stages, *dp_ranks;
    const int64_t *steps;
    const char *const *op_types;
    size_t n_step_ranges; /* the same as steps, for people */
    const struct hm_step_range *step_ranges;
};

struct hm_fix {
    const char *fix; /* replace-workers, move-layers, balance-sequences, planned-gc, fix-link, resplit-microbatches,
                        load-data-earlier */
    double step_s;   /* mean step time with the fix, by replay */
    double speedup;  /* T / step_s; of load-data-earlier (T and the waits for data) / step_s */
    const char *how; /* what to do, and what the price assumes */
};

struct hm_diagnosis {
    size_t n_causes, n_fixes;
    const struct hm_cause *causes; /* by recovers, largest first */
    const struct hm_fix *fixes;    /* by speedup, largest first */
    /* Slack of the edge between stage i and i + 1: the delay of each of its transfers that makes a step 1 % longer. Empty without a
     * pipeline, and for very large traces. */
    size_t n_edges;
    const double *edge_slack_s;
    /* What this recording cannot show, a sentence each, and steps that were left out of the search. */
    size_t n_cannot_tell;
    const char *const *cannot_tell;
    bool straggling;     /* slowdown_real >= 1.1 */
    const char *summary; /* the verdict in a sentence or two */
};

/* Looks for causes and prices fixes. `analysis` must be of this trace, with exact attribution. NULL on failure. Free
 * with hm_diagnosis_free. */
HM_API struct hm_diagnosis *hm_diagnose(struct hm_trace *trace, const struct hm_analysis *analysis, int threads,
                                        struct hm_error *err);
HM_API void hm_diagnosis_free(struct hm_diagnosis *diagnosis);

/* ---- reports ---- */

/* Writes the analysis as JSON, schema hindmost.analysis/1. diagnosis may be NULL. Errors show in hm_out_commit. */
HM_API void hm_analysis_write_json(const struct hm_analysis *analysis, const struct hm_diagnosis *diagnosis,
                                   struct hm_out *out);

/* How to print. */
struct hm_text_options {
    bool color; /* ANSI colours; otherwise shades in plain characters */
    int width;  /* columns; 0: 80 */
};

/* The report for people, as one NUL-terminated UTF-8 text. diagnosis may be NULL. NULL without memory. Free with
 * hm_text_free. */
HM_API char *hm_analysis_text(const struct hm_analysis *analysis, const struct hm_diagnosis *diagnosis,
                              const struct hm_text_options *options);
HM_API void hm_text_free(char *text);

/* ---- one replay of your own ---- */

/* One change: SELECTOR=VALUE. Selectors and values are those of `hindmost whatif` (docs/method.md): comma-separated
 * type:NAME, stage:N, dp:A-B, step:A-B, mb:A-B or all; ideal, original, xF or seconds such as 0.15s. */
struct hm_whatif_result {
    double baseline_s, result_s; /* mean step time before and after */
    double speedup;              /* baseline_s / result_s */
};

/* Applies n changes in order to the original durations (or the ideal ones, if from_ideal) and replays. Communication
 * values are transfer durations. 0, or -1: HM_ERR_ARGUMENT for a change that cannot be read or selects nothing. */
HM_API int hm_whatif(struct hm_trace *trace, bool from_ideal, const char *const *changes, size_t n, int threads,
                     struct hm_whatif_result *result, struct hm_error *err);

/* Writes the result as JSON, schema hindmost.whatif/1. */
HM_API void hm_whatif_write_json(const struct hm_whatif_result *result, struct hm_out *out);

#ifdef __cplusplus
}
#endif
#endif
