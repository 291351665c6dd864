/* hindmost/series.h - step times: what the log of a run shows without a profile. How long each step took, when the run was slow and
 * what that cost, and, where times are printed for each rank, who is slow. */
#ifndef HINDMOST_SERIES_H
#define HINDMOST_SERIES_H

#include "hindmost/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A run of steps that took longer than usual, found by change-point. */
struct hm_step_episode {
    size_t first, last; /* places in the series */
    int64_t from_step, to_step;
    double slowdown; /* median of its steps over the usual */
    double lost_s;
    bool open; /* reaches the end of the series */
};

/* Cuts n step times (seconds, in order; `weight` says how many steps each stands for, NULL: one) into warm-up, usual pace, episodes and
 * single slow steps. Method: docs/series.md. An episode is at least 5 times long and 10 % over the usual. */
struct hm_step_paces {
    double usual_s; /* median of the usual steps; NaN: too few */
    size_t warm_up; /* the first so many are warm-up */
    double warm_up_lost_s;
    struct hm_step_episode *episode; /* in order */
    size_t n_episodes;
    size_t slow_steps; /* single ones outside of episodes, 1.2 times the usual or more */
    double slow_steps_lost_s;
    double noise; /* scatter of usual steps: 1.4826 MAD / median */
};
HM_API int hm_step_paces_find(const double *seconds, const double *weight, const int64_t *step, size_t n,
                              struct hm_step_paces *paces, struct hm_error *err);
HM_API void hm_step_paces_free(struct hm_step_paces *paces);

struct hm_series_rank {
    int rank;
    int stage;       /* -1: not known */
    double own_s;    /* mean of a step */
    double data_s;   /* of it, waiting for data; NaN: not known */
    double slowdown; /* S of this rank alone */
    double pace;     /* median of own time over the median of its peers in the step */
    double slowest;  /* share of the steps in which it was the slowest of its peers */
    bool slow;
    int64_t from_step, to_step; /* of a slow one: since when, until when */
};

struct hm_series {
    char *name;
    const char *format; /* "megatron", "pattern", "table" */
    size_t n;           /* times, in the order of the log */
    int64_t *step;
    double *seconds, *weight;  /* of one step; how many steps each stands for */
    int *attempt;              /* counts restarts */
    size_t attempts, repeated; /* lines that said again what was known */
    int64_t last_of_run;       /* the step at which the run will end; -1: not known */
    struct hm_step_paces paces;
    /* Own times of ranks, where the log has them: own_s[rank * n + i], NaN where not printed. */
    struct hm_series_rank *rank;
    size_t n_ranks;
    double *own_s;
    double slowdown;     /* S; NaN: ranks are not known */
    bool waiting_inside; /* the ranks' times are equal in all steps, so nobody can be told apart */
    char *timers;        /* what own_s is made of: "forward-compute + backward-compute" */
    /* "(min, max) time across ranks": how far apart the ranks were, without their names. */
    struct hm_series_spread {
        char name[64];
        double low_s, high_s; /* medians */
        size_t n;
    } * spread;
    size_t n_spreads;
    /* Single slow steps, those that lost most first. */
    struct hm_series_slow_step {
        int64_t step;
        double slowdown, lost_s;
        int on_all_ranks; /* 1: the fastest rank was slow too; 0: it was not; -1: not known */
    } * slow_step;
    size_t n_slow_steps;
    /* Megatron's straggler reports: how often a rank was among those with the lowest throughput. */
    struct hm_series_report {
        int rank;
        size_t lowest; /* reports in which it was the lowest */
        double ratio;  /* median of its throughput over the highest rank's */
    } * report;
    size_t n_reports, reports; /* ranks named; reports in the log */
    char **cannot_tell, **note;
    size_t n_cannot_tell, n_notes;
};

struct hm_series_options {
    /* For other logs: an extended regular expression with {step} and {seconds} or {ms}, and {rank} where a line says it:
     * "step {step}.* {seconds} s". NULL: Megatron-LM's and Megatron-DeepSpeed's lines. */
    const char *pattern;
};

/* Whether the beginning of a file looks like a log that can be read without a pattern. */
HM_API bool hm_series_detect(const char *path);
/* Reads logs (.gz too) of one run. NULL on failure. Free with hm_series_free. */
HM_API struct hm_series *hm_series_read(const char *const *paths, size_t n, const struct hm_series_options *options,
                                        struct hm_error *err);
HM_API void hm_series_free(struct hm_series *series);

/* What a verdict goes by: S where ranks are told apart, else the mean step over the usual one after the warm-up; NaN: not known. */
HM_API double hm_series_slowdown(const struct hm_series *series);
/* The report for people (free with hm_text_free), and JSON, schema hindmost.analysis/1. */
HM_API char *hm_series_text(const struct hm_series *series);
HM_API void hm_series_write_json(const struct hm_series *series, struct hm_out *out);
/* rank,step,seconds as CSV: the least table that is a recording. Fails if the log names no ranks. */
HM_API int hm_series_write_table(const struct hm_series *series, const char *path, struct hm_error *err);
/* Ranks by steps as a picture, .svg or .png: colour is own time over the median of the step's peers. Without ranks one row, over the usual. */
HM_API int hm_series_heatmap(const struct hm_series *series, const char *path, struct hm_error *err);

#ifdef __cplusplus
}
#endif
#endif
