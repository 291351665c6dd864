/* hindmost/tor.h - the Training Overhead Ratio: the time an ideal run would need over the time really taken.
 *
 * TOR = T_opt / T_obs (N. Lu et al., arXiv 2408.07482). It is planned by closed forms (hm_tor_plan), simulated (hm_tor_simulate), and measured
 * from what a run left behind (hm_tor_measure). Formulas are derived in docs/tor.md. All times are seconds. */
#ifndef HINDMOST_TOR_H
#define HINDMOST_TOR_H

#include "base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "30s", "5min", "12h", "1.5d", "2w", "250ms": seconds. A unit is required. HM_ERR_ARGUMENT names `what`. */
HM_API int hm_tor_parse_time(const char *text, const char *what, double *seconds, struct hm_error *err);
/* "6.5e-3/day", "1.2/h", "0.3/week": events a second. */
HM_API int hm_tor_parse_rate(const char *text, const char *what, double *per_second, struct hm_error *err);

/* ---- faults on record ---- */

/* A fault file: a JSON array of {node_id, event_time (days), event_type: fault_start | fault_end}. */
struct hm_faults {
    size_t nodes, faults;   /* distinct nodes named; faults that began */
    double span_s;          /* from time 0 to the last event */
    double rate_per_node_s; /* faults a node and second, over all `nodes` */
    size_t n_repairs;
    const double *repairs_s; /* durations of the faults that also ended, ascending */
    double median_repair_s, mean_repair_s;
    size_t n_gaps;
    const double *gaps_s; /* times between successive faults of the whole cluster */
};
/* nodes: the size of the cluster if it is known (a node without a fault is not in the file); 0: the nodes named. Free with hm_faults_free. */
HM_API struct hm_faults *hm_faults_read(const char *path, size_t nodes, struct hm_error *err);
HM_API void hm_faults_free(struct hm_faults *faults);

/* ---- a plan ---- */

enum hm_tor_distribution { HM_TOR_EXPONENTIAL, HM_TOR_WEIBULL, HM_TOR_EMPIRICAL };

/* A run to be planned. Zeroed fields mean: none of that. */
struct hm_tor_run {
    double nodes;
    double failure_rate;  /* fail-stop failures a node and second */
    double save_s;        /* a checkpoint: training stands still, unless async */
    double interval_s;    /* training time between checkpoints; 0: the best one */
    bool async_save;      /* the save runs beside training, and counts when it is done */
    double detect_s;      /* from a failure to its detection */
    double restart_s;     /* start-up and load */
    double repair_s;      /* mean time a failed node is away; exponential in closed forms */
    double spares;        /* nodes that stand by; only matters with repair_s > 0 */
    double slowdown;      /* S while running: stragglers; 0 or 1: none */
    double slow_rate;     /* fail-slow events a node and second */
    double slow_factor;   /* a step takes so many times as long meanwhile */
    double slow_detect_s; /* until it is found; then the job restarts from a fresh checkpoint */
    double work_s;        /* T_opt: what the run would take without any loss */
    /* simulation only */
    enum hm_tor_distribution distribution;
    double weibull_shape;           /* of the times between the job's failures */
    const struct hm_faults *faults; /* empirical: gaps (scaled to the job's rate) and repairs */
};

struct hm_tor_result {
    double tor, ettr, goodput;
    double t_opt_s, t_obs_s, t_obs_low_s, t_obs_high_s; /* expected, and a 90 % interval */
    double mttf_s;                                      /* of the job; infinity without failures */
    double interval_s, best_interval_s, young_s, daly_s;
    double wait_s;   /* expected wait for a node at a failure */
    double failures; /* expected number */
};

/* Closed forms. 0, or -1: HM_ERR_ARGUMENT for impossible values. */
HM_API int hm_tor_plan(const struct hm_tor_run *run, struct hm_tor_result *result, struct hm_error *err);

/* Parts of the time, in the order they are printed. They add up to t_obs_s. */
enum hm_tor_class {
    HM_TOR_PROGRESS,
    HM_TOR_SLOW_STEPS,
    HM_TOR_STRAGGLERS,
    HM_TOR_SAVING,
    HM_TOR_ROLLED_BACK,
    HM_TOR_DETECTION,
    HM_TOR_WAITING,
    HM_TOR_RESTART,
    HM_TOR_REPAIR,
    HM_TOR_IDLE,
    HM_TOR_UNKNOWN,
    HM_TOR_CLASSES
};
/* "healthy-progress", "slow-steps", ... Static storage. */
HM_API const char *hm_tor_class_name(enum hm_tor_class part);

struct hm_tor_simulation {
    struct hm_tor_result result;     /* means over the runs; interval: 5 % and 95 % quantiles */
    double ledger_s[HM_TOR_CLASSES]; /* means */
    double cycles;                   /* failures simulated */
    size_t runs;
};
/* Monte Carlo of the same model, `runs` times. The same seed gives the same numbers whatever the number of threads. */
HM_API int hm_tor_simulate(const struct hm_tor_run *run, size_t runs, uint64_t seed, int threads,
                           struct hm_tor_simulation *result, struct hm_error *err);

/* What one change to the plan would bring. */
struct hm_tor_lever {
    const char *lever; /* "half the failures" ...; static storage */
    double tor, t_obs_s;
};
enum { HM_TOR_LEVERS = 10 };
/* Levers that apply, best first; returns how many. */
HM_API size_t hm_tor_levers(const struct hm_tor_run *run, struct hm_tor_lever levers[HM_TOR_LEVERS]);

/* ---- a measurement ---- */

struct hm_tor_note {
    size_t count;
    const char *what; /* what was found in the logs and how it was taken */
};
struct hm_tor_point {
    double from_s, until_s, r; /* since the run's beginning; r: share of the ideal rate kept, 0 to 1 */
};
struct hm_tor_measurement {
    double tor, ettr, goodput;
    double t_opt_s, t_obs_s, mttf_s, best_interval_s;
    double ideal_step_s;
    size_t steps_run, steps_kept, attempts, failures, saves;
    double ledger_s[HM_TOR_CLASSES]; /* add up to t_obs_s */
    size_t n_series;
    const struct hm_tor_point *series;
    size_t n_notes;
    const struct hm_tor_note *notes;
};

struct hm_tor_measure_options {
    double slowdown;     /* S of the straggler analysis; 0 or 1: stragglers are not told from progress */
    double ideal_step_s; /* 0: from the steps themselves */
    /* Time zones for times that say none (they are UTC without): "Europe/Berlin" for all logs, "FILE=Europe/Berlin" for one. */
    size_t n_zones;
    const char *const *zones;
};

/* Reads an event log (JSON lines, docs/tor.md), a Megatron-LM log, or sacct --parsable2 output; several files are one run. NULL on failure. */
HM_API struct hm_tor_measurement *hm_tor_measure(const char *const *paths, size_t n,
                                                 const struct hm_tor_measure_options *options, struct hm_error *err);
HM_API void hm_tor_measurement_free(struct hm_tor_measurement *m);

/* S of a hindmost.analysis/1 file. */
HM_API int hm_tor_slowdown_of(const char *analysis_path, double *slowdown, struct hm_error *err);

/* JSON, schema hindmost.tor/1. */
struct hm_tor_curve {
    const char *parameter; /* NULL: no curve */
    size_t n;
    const double *value, *tor, *t_obs_s;
};
HM_API void hm_tor_plan_write_json(const struct hm_tor_run *run, const struct hm_tor_result *result,
                                   const struct hm_tor_simulation *simulation, const struct hm_tor_curve *curve,
                                   struct hm_out *out);
HM_API void hm_tor_measurement_write_json(const struct hm_tor_measurement *m, struct hm_out *out);

/* One self-contained page. plan: run and result, simulation or NULL; measurement: m. */
HM_API int hm_tor_plan_html(const struct hm_tor_run *run, const struct hm_tor_result *result, const char *path,
                            struct hm_error *err);
HM_API int hm_tor_measurement_html(const struct hm_tor_measurement *m, const char *path, struct hm_error *err);

#ifdef __cplusplus
}
#endif
#endif
