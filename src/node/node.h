/* node.h - what the files of this room share: test results as a matrix, rules, small helpers. */
#ifndef HM_NODE_H
#define HM_NODE_H

#include "base/base.h"
#include "base/yaml_file.h"
#include "hindmost/node.h"

#include <jansson.h>

/* Whether jansson gave up for want of memory: it then has nothing to say about the text. */
static inline bool hm_json_no_memory(const json_error_t *why) {
    return !*why->text || json_error_code(why) == json_error_out_of_memory;
}

/* ---- results.c: test results, nodes by metrics ---- */
struct hm_results {
    json_t *lines; /* array of objects, owner of all text */
    size_t nodes, metrics;
    const char **node;   /* [nodes] */
    const char **metric; /* [metrics], sorted */
    double *value;       /* [nodes * metrics]; NaN where a node lacks the metric */
    bool *seen;          /* [nodes * metrics] the node's line has the key */
};
int hm_results_read(struct hm_results *r, const char *path, struct hm_error *err);
void hm_results_free(struct hm_results *r);
/* Index of a metric, or -1. */
long hm_results_metric(const struct hm_results *r, const char *name);
/* The repeats of a value that was given as an array; fresh memory. NULL if it was a number (*n is 0), or
 * if there is no memory (*n is not 0). */
double *hm_results_samples(const struct hm_results *r, size_t node, size_t metric, size_t *n);

/* ---- expression.c: the lambdas of SuperBench's rules ---- */
/* What `label["name"]` means: a number (*n is 0), or the *n values that a rule has stored (label["name"].values()). Unknown names: return false. */
typedef bool (*hm_label_fn)(void *context, const char *name, double *value, const double **values, size_t *n);
/* Evaluates "lambda NAME: EXPRESSION" with NAME = x. Numbers, arithmetic, comparisons, and/or/not, a if c else b, abs, bool,
 * True, False, label["rule"], and min, max, sum, len of label["rule"].values(). Nothing is executed but this. The result is NaN where a rule
 * has stored no value. */
int hm_expression(const char *text, double x, hm_label_fn label, void *context, double *result, struct hm_error *err);

/* ---- rules.c ---- */
/* STORE: keeps its metrics' values for multi_rules. SUMMARY: of SuperBench's result summary; judges nothing. */
enum hm_rule_kind { HM_RULE_VALUE, HM_RULE_VARIANCE, HM_RULE_MULTI, HM_RULE_FAILURE, HM_RULE_STORE, HM_RULE_SUMMARY };
struct hm_rule {
    char *name, *criteria, *category;
    enum hm_rule_kind kind;
    bool store; /* counts its violations for multi_rules, decides nothing itself */
    char **patterns;
    size_t pattern_count;
};
struct hm_rules {
    struct hm_rule *rule;
    size_t count;
};
int hm_rules_read(struct hm_rules *rules, const char *path, struct hm_error *err);
void hm_rules_free(struct hm_rules *rules);

/* ---- policy.c ---- */
enum hm_action { HM_ACT_RECORD, HM_ACT_SUSPECT, HM_ACT_DRAIN };
struct hm_policy_rule {
    char *kind; /* a shell pattern: "xid-*" */
    enum hm_action action;
    long count;      /* so many pieces of evidence ... */
    double within_s; /* ... within this time; 0: ever */
};
struct hm_policy {
    struct hm_policy_rule *rule; /* the first that fits decides */
    size_t count;
    double cap; /* a number of nodes, or with cap_is_share a share (0 to 1) of those that are not retired */
    bool cap_is_share;
    long strikes;
    double strike_window_s;
};
/* NULL path: the defaults. */
int hm_policy_read(struct hm_policy *policy, const char *path, struct hm_error *err);
void hm_policy_free(struct hm_policy *policy);
/* The rule for evidence of a kind; NULL: none, it is recorded only. */
const struct hm_policy_rule *hm_policy_rule(const struct hm_policy *policy, const char *kind);
/* How many of `nodes` may be away at once. */
long hm_policy_cap(const struct hm_policy *policy, long nodes);

/* ---- ledger.c ---- */
/* Claims a node for this process for so many seconds, so that no two work on it at once: 1, or 0 if another has it. A claim ends with
 * its time, and with its process where that can be seen (same host). -1 on failure. */
int hm_ledger_claim(struct hm_ledger *ledger, const char *node, double seconds, struct hm_error *err);
void hm_ledger_release(struct hm_ledger *ledger, const char *node);
/* How many nodes may be away at once, and how many are. */
int hm_ledger_cap(struct hm_ledger *ledger, long *cap, long *away, struct hm_error *err);
/* The rows of a query (?1 = node) as an array of objects; column names are keys. */
int hm_ledger_query_json(struct hm_ledger *ledger, const char *name, const char *sql, const char *node,
                         struct hm_json *writer, struct hm_error *err);

#endif
