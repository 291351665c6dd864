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

/* ---- the ledger ----
 * One SQLite file (WAL): which nodes there are, the state of each, and every step with who, why, evidence and time.
 * Several processes may use it at once; a step is one transaction: it is there whole or not at all, whatever is killed.
 * Times are seconds since 1970, UTC. */

enum hm_node_state {
    HM_NODE_HEALTHY,
    HM_NODE_SUSPECT,   /* evidence against it, still in the pool */
    HM_NODE_DRAINING,  /* to leave the pool when its work ends */
    HM_NODE_OUT,       /* out of the pool */
    HM_NODE_TESTING,   /* a sweep runs */
    HM_NODE_QUALIFIED, /* proved itself; not yet back */
    HM_NODE_RETIRED    /* three times out in a week: a person must replace it */
};
/* "healthy" ... "retired"; static. And back: -1 if there is no such state. */
HM_API const char *hm_node_state_name(enum hm_node_state state);
HM_API int hm_node_state_named(const char *name);

struct hm_ledger;
/* Opens or makes a ledger. `policy`: a YAML file (docs/node-policy.md), NULL: the defaults. NULL on failure. */
HM_API struct hm_ledger *hm_ledger_open(const char *path, const char *policy, struct hm_error *err);
/* Opens a ledger that is there to be read only: nothing is written, also where nothing could be. wait_s: how long to wait for a lock. */
HM_API struct hm_ledger *hm_ledger_open_to_read(const char *path, const char *policy, double wait_s,
                                                struct hm_error *err);
HM_API void hm_ledger_close(struct hm_ledger *ledger);

/* Called for each step that was (or, in a dry run, would be) taken: one line, without newline. */
typedef void (*hm_step_fn)(void *context, const char *node, const char *step);
/* Where steps are told. With dry_run everything is computed as usual and then rolled back. */
struct hm_ledger_run {
    bool dry_run;
    hm_step_fn step; /* may be NULL */
    void *context;
};

/* One step of one node. Which steps exist: healthy -> suspect, draining; suspect -> healthy, draining; draining -> out;
 * out -> testing; testing -> out, qualified; qualified -> healthy, suspect, draining; draining, out, testing -> retired;
 * retired -> out with `replaced`. Anything else fails, as does a step without who and why. */
struct hm_node_change {
    const char *node, *who, *why, *evidence; /* evidence may be NULL, except from suspect to healthy */
    enum hm_node_state to;
    double time_s;
    bool replaced; /* the hardware is new: a retired node returns to out, and old entries count no more */
    bool person;   /* a person decides: the only one who moves a node on hold */
};
/* Fails (HM_ERR_ARGUMENT) where the step does not exist, the node is on hold, or the cap on nodes out at once is reached. Entering out for
 * the third time in a week becomes retired (Guard). Returns the state reached, or -1. */
HM_API int hm_ledger_change(struct hm_ledger *ledger, const struct hm_node_change *change,
                            const struct hm_ledger_run *run, struct hm_error *err);
/* Adds a node as healthy, or as out where it has yet to prove itself. A known node only gets the class. */
HM_API int hm_ledger_add(struct hm_ledger *ledger, const char *node, const char *class_name, bool untested,
                         const char *who, double time_s, struct hm_error *err);
/* A hold: nothing but a person moves the node while it stands. NULL takes it away. */
HM_API int hm_ledger_hold(struct hm_ledger *ledger, const char *node, const char *who, const char *why, double time_s,
                          struct hm_error *err);
/* An exception: evidence of this kind is recorded for this node but moves nothing. `why` NULL takes it away. */
HM_API int hm_ledger_except(struct hm_ledger *ledger, const char *node, const char *kind, const char *who,
                            const char *why, double time_s, struct hm_error *err);

/* Evidence about a node. An unknown node is added as healthy, then judged. */
struct hm_node_evidence {
    const char *node, *class_name; /* class may be NULL */
    const char *source;            /* who says so: "watch", "sweep", "kernel", "dcgm", a person */
    const char *kind;              /* what the policy goes by: "gpu-lost", "xid-79", "alarm-replace", "sweep-fail" */
    const char *detail;            /* text or JSON; may be NULL */
    const char *subject;           /* which part of it: a GPU's bus address, "GPU 3"; may be NULL */
    double time_s;
    bool dated; /* time_s is the event's own, not that of reading: node, kind, subject and time are its identity */
};
/* Records n pieces of evidence in one transaction and lets the policy move the nodes. What the cap or a hold keeps from
 * leaving becomes suspect, and the step says why. A dated event that is recorded already (the kernel's within 5 s) is not recorded again. */
HM_API int hm_ledger_evidence(struct hm_ledger *ledger, const struct hm_node_evidence *evidence, size_t n,
                              const struct hm_ledger_run *run, struct hm_error *err);

struct hm_node_row {
    const char *node, *class_name, *why, *hold; /* hold: NULL if none */
    enum hm_node_state state;
    double since_s;
};
/* Calls row for each node by name (or only for `node`); the strings live during the call. */
HM_API int hm_ledger_list(struct hm_ledger *ledger, const char *node,
                          void (*row)(void *context, const struct hm_node_row *row), void *context,
                          struct hm_error *err);
/* "hindmost.nodes/1"; "hindmost.history/1" of one node (NULL: all), oldest first; Prometheus text. */
HM_API int hm_ledger_write_list(struct hm_ledger *ledger, const char *node, struct hm_out *out, struct hm_error *err);
HM_API int hm_ledger_write_history(struct hm_ledger *ledger, const char *node, struct hm_out *out,
                                   struct hm_error *err);
HM_API int hm_ledger_write_metrics(struct hm_ledger *ledger, struct hm_out *out, struct hm_error *err);

/* ---- the ledger over HTTP ---- */
#define HM_SERVE_AT "127.0.0.1:9633"
struct hm_serve_options {
    const char *ledger; /* read anew for each request; need not be there yet */
    const char
        *listen; /* "ADDRESS:PORT", "[IPv6]:PORT", ":PORT" (all addresses); port 0: any free one; NULL: HM_SERVE_AT */
    const char *certificate, *key; /* PEM files for HTTPS; NULL: HTTP */
};
struct hm_server;
/* Answers GET /metrics with what hm_ledger_write_metrics writes, in a thread of its own; 500 and the reason if the ledger cannot be
 * read. NULL on failure. */
HM_API struct hm_server *hm_serve(const struct hm_serve_options *options, struct hm_error *err);
HM_API int hm_serve_port(const struct hm_server *server);
/* Ends requests under way and frees. NULL is allowed. */
HM_API void hm_serve_stop(struct hm_server *server);

/* ---- evidence as it comes ---- */
/* A list of evidence that owns its text. */
struct hm_evidence_list;
struct hm_evidence_options {
    const char *node; /* where the file does not say; a file that says another is refused. NULL: it must say */
    double now_s;     /* dates what bears no date */
    const char *
        boot; /* when the machine started, for kernel logs in seconds since: a date and time, or seconds since 1970; NULL: not known */
    const char *zone; /* of times that say none; NULL: this machine's */
    long gpus;        /* how many GPUs the node must have, for a list of them; 0: not known */
};
/* Reads a file ("-": standard input) of documented evidence JSON (one object, an array, or JSON lines; docs/node.md), a sweep's or
 * hindmost-pairs' result, `dcgmi diag` (JSON; its table can only warn), kernel logs (dmesg, syslog, journalctl) with NVIDIA's Xid or GPUs
 * that are lost, conditions of Kubernetes nodes, NVSentinel's health events, gpud's states. Xid lines of one GPU and code within 5 s are one
 * event (Delta, SC 2025). A file of which nothing was understood, or of which only a part was and that holds no evidence, is refused. */
HM_API struct hm_evidence_list *hm_evidence_read_as(const char *path, const struct hm_evidence_options *options,
                                                    struct hm_error *err);
/* The same with node and now_s alone. */
HM_API struct hm_evidence_list *hm_evidence_read(const char *path, const char *node, double now_s,
                                                 struct hm_error *err);
/* The slow workers of a hindmost.analysis/1, each as "slow-worker" of its host. hosts: a table of rank,host[,gpu] or stage,dp_rank,host[,gpu];
 * a slow rank that it lacks fails. */
HM_API struct hm_evidence_list *hm_evidence_of_analysis(const char *result, const char *hosts, double now_s,
                                                        struct hm_error *err);
/* What was passed over though evidence was found; NULL: nothing. */
HM_API const char *hm_evidence_note(const struct hm_evidence_list *list);
HM_API size_t hm_evidence_count(const struct hm_evidence_list *list);
HM_API const struct hm_node_evidence *hm_evidence_items(const struct hm_evidence_list *list);
HM_API void hm_evidence_free(struct hm_evidence_list *list);

/* ---- the sweep: tests of one node ---- */

struct hm_sweep_options {
    const char *node, *class_name; /* NULL: the host's name; "" */
    double budget_s;               /* wall time for all tests together; what does not fit is shortened or left out */
    const char *baseline;          /* JSON metric -> value (by class or flat), NULL: none */
    const char *history; /* JSON lines of earlier sweeps; this node's own are judged against without baseline */
    const char *folder;  /* where the disk test writes 64 MB and removes it; NULL: /tmp */
    int threads;         /* 0: all cores this process may use */
    hm_progress_fn progress;
    void *context;
};
struct hm_sweep;
/* Runs all tests. A part that is not there (no GPU, no sensor) is reported as absent, not as passed. NULL on failure. */
HM_API struct hm_sweep *hm_sweep_run(const struct hm_sweep_options *options, struct hm_error *err);
HM_API void hm_sweep_free(struct hm_sweep *sweep);
/* Fail if a test fails, else warn if one warns, else unknown if nothing could be judged, else pass. */
HM_API enum hm_verdict hm_sweep_verdict(const struct hm_sweep *sweep);
/* Schema hindmost.sweep/1. */
HM_API void hm_sweep_write_json(const struct hm_sweep *sweep, struct hm_out *out);
/* People's text, one line a test. */
HM_API void hm_sweep_write_text(const struct hm_sweep *sweep, struct hm_out *out);
/* Appends one line in SuperBench's naming (repeats as arrays) to a file that node judge and later sweeps read. */
HM_API int hm_sweep_append(const struct hm_sweep *sweep, const char *path, struct hm_error *err);

/* ---- carrying out what the ledger decided ---- */
struct hm_apply_options {
    const char *scheduler; /* "slurm" (scontrol), "kubernetes" (kubectl), "none" or NULL */
    const char *sweep;     /* command that prints hindmost.sweep/1, words by blanks, {node} replaced; NULL: no sweeps */
    double sweep_timeout_s; /* it is stopped then */
    bool taint;             /* Kubernetes: set a taint too */
    const char *who;
    double time_s; /* 0: now */
    struct hm_ledger_run run;
};
/* Makes all steps that are possible now: draining nodes are drained in the scheduler with our own reason prefix and are
 * out when empty; out nodes are swept, and are qualified and healthy if the sweep passes, out if not. What another drained
 * or cordoned is left alone. Nodes on hold are skipped, and so are nodes that another call works on: each is claimed first, by
 * host and process and for no longer than the sweep may take. A dry run tells the steps and does nothing.
 * What goes wrong with one node is told as its step and keeps no other from its own; the first such error is returned. */
HM_API int hm_apply(struct hm_ledger *ledger, const struct hm_apply_options *options, struct hm_error *err);

struct hm_health_options {
    const char *ledger; /* NULL: it is not asked */
    const char *policy; /* NULL: the defaults */
    const char *node;   /* NULL: this host */
    const char *folder; /* that must be writable; NULL: /tmp */
    long gpus;          /* how many the driver must have; 0: not asked */
};
/* The quick look of a health check: the ledger's word on the node, whether a folder can be written, how many GPUs there are, fatal Xid codes
 * and lost GPUs in the kernel's log where it may be read. Calls no scheduler and writes no ledger. 0 healthy, 1 not, with the reason in why;
 * -1 if it could not look. Our own trouble (a ledger that is missing, locked or unreadable, a bad policy) is no fault of the node: it is put
 * into `trouble`, else empty. */
HM_API int hm_node_health(const struct hm_health_options *options, char why[400], char trouble[400],
                          struct hm_error *err);

/* ---- lemons and spares ---- */
struct hm_lemon_options {
    const char *faults; /* JSON array of {node_id, event_time (days), event_type: fault_start|fault_end, fault_type} */
    const char *jobs; /* JSON array of {nodes, start, end (days), failed}; NULL: every node is taken to work when up */
    double at_day;    /* the decision: only what was before it is judged by; negative: half of the recording */
    double window_days; /* 0: 28 (Meta) */
    size_t fleet;       /* nodes in all, with those that never failed; 0: those in the file */
};
struct hm_lemon {
    const char *node;
    size_t faults;                                   /* in the whole recording */
    double observed, expected, score, exposure_days; /* in the window: failures, the share expected, the difference */
    double downtime_after_days;                      /* after the decision */
};
struct hm_lemons;
/* Nodes by exposure-corrected score, worst first (Meta, HPCA 2025): failures observed minus the fleet's rate times the
 * node's exposure; with jobs a failed job of n nodes gives each 1/n observed. NULL on failure. */
HM_API struct hm_lemons *hm_lemons_read(const struct hm_lemon_options *options, struct hm_error *err);
HM_API void hm_lemons_free(struct hm_lemons *lemons);
HM_API size_t hm_lemons_count(const struct hm_lemons *lemons);
HM_API const struct hm_lemon *hm_lemons_node(const struct hm_lemons *lemons, size_t i);
/* The share of all downtime after the decision that fell on the k worst nodes: what removing them then would have saved. */
HM_API double hm_lemons_saved(const struct hm_lemons *lemons, size_t k);
/* The smallest k with P(X <= k) >= quantile for X binomial(nodes, p): spares that suffice (ByteRobust takes 0.99). -1 for
 * impossible arguments. */
HM_API long hm_spares(long nodes, double p, double quantile);

#ifdef __cplusplus
}
#endif
#endif
