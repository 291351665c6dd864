/* hindmost/node.h - is a node fit to train? Judging test results against the fleet, the ledger of nodes, the sweep. */
#ifndef HINDMOST_NODE_H
#define HINDMOST_NODE_H

#include "hindmost/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- judging ---- */

enum hm_verdict { HM_PASS, HM_WARN, HM_FAIL, HM_UNKNOWN };
/* "pass", "warn", "fail", "unknown". Static storage. */
HM_API const char *hm_verdict_name(enum hm_verdict verdict);

/* Which files to judge by. Every path may be NULL but `results`. */
struct hm_judge_options {
    const char *results;  /* JSON lines, one object a node: "node" and metric names in SuperBench's naming; a value is a
                             number or an array of repeats (then its median counts, and its distribution too) */
    const char *baseline; /* JSON object metric -> value; NULL: learnt from the nodes of `results` */
    const char *rules;    /* SuperBench's rule YAML; NULL: 5 % worse in the direction that the metric's name tells */
};

/* One judged node. All strings belong to the judgement. */
struct hm_judged_node {
    const char *node;
    enum hm_verdict verdict;
    size_t category_count, reason_count;
    const char *const *categories; /* of the broken rules, each once, in the order found */
    const char *const *reasons;    /* "metric(B/L: 0.0060 VAL: 0.1000 VAR: 1577.85% Rule:lambda x:x>0.05)" */
};
struct hm_judgement;

/* Judges all nodes of a file. The same input gives the same verdicts. Rules are those of SuperBench's data diagnosis
 * (ATC 2024, section 3.3): a rule is broken when a metric of it is missing or fails its criterion; variance = (value -
 * baseline) / baseline. Learnt baselines drop violators and re-average until none is left. NULL on failure. */
HM_API struct hm_judgement *hm_judge(const struct hm_judge_options *options, struct hm_error *err);
HM_API void hm_judgement_free(struct hm_judgement *judgement);
HM_API size_t hm_judgement_count(const struct hm_judgement *judgement);
/* The i-th node in the file's order, i < count. */
HM_API const struct hm_judged_node *hm_judgement_node(const struct hm_judgement *judgement, size_t i);
/* Schema hindmost.judge/1. */
HM_API void hm_judgement_write_json(const struct hm_judgement *judgement, struct hm_out *out);
/* The baselines judged by, as a JSON object metric -> value: fit for `baseline` of a later call. */
HM_API void hm_judgement_write_baseline(const struct hm_judgement *judgement, struct hm_out *out);

/* The mean of those values[0..n) that are not more than `tolerance` worse than it: violators are dropped and the rest
 * averaged again until none is left (SuperBench). NaN values are ignored. *kept (may be NULL) counts what is left. NaN
 * if there is no value. The start is the median, so that one wild value cannot drag the first mean. */
HM_API double hm_learn_baseline(const double *values, size_t n, double tolerance, bool lower_is_better, size_t *kept);

/* One-sided Mann-Whitney test: the probability of samples this bad if a[0..n) came from the distribution of b[0..m);
 * bad = larger if lower_is_better, else smaller. Normal approximation with tie and continuity correction; NaN below 4
 * values on a side. */
HM_API double hm_one_sided(const double *a, size_t n, const double *b, size_t m, bool lower_is_better);

/* Whether smaller values of a metric of this name are better: its name speaks of time, latency, overhead, cost. */
HM_API bool hm_lower_is_better(const char *metric);

#ifdef __cplusplus
}
#endif
#endif
