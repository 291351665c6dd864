/* scheduler.h - what Slurm and Kubernetes have in common for a node: take it out, ask, let it back. */
#ifndef HM_NODE_SCHEDULER_H
#define HM_NODE_SCHEDULER_H

#include "node/node.h"

/* Our mark on a drain. A drain that does not begin with it is another's, and is never touched. */
#define HM_REASON_PREFIX "hindmost: "

/* IN: takes work. BUSY: kept out by whomever, still with work. EMPTY: kept out by us. FOREIGN: kept out by another, without work. DOWN: takes
 * none, and nobody said why. MOVING: on its way (reboot, power, clean-up of a job): nothing is done to it now. */
enum hm_pool { HM_POOL_IN, HM_POOL_BUSY, HM_POOL_EMPTY, HM_POOL_FOREIGN, HM_POOL_DOWN, HM_POOL_MOVING };

struct hm_scheduler {
    const char *name;
    /* Where a node stands, and the reason or state that says so. An answer that is not understood fails: the node is left where it is. */
    int (*ask)(const char *node, enum hm_pool *pool, char *reason, size_t size, struct hm_error *err);
    int (*drain)(const char *node, const char *why, bool taint, struct hm_error *err);
    int (*resume)(const char *node, bool taint, struct hm_error *err);
    /* Tells all nodes that take no work, in one question. */
    int (*list_out)(void (*node)(void *context, const char *name), void *context, struct hm_error *err);
};
extern const struct hm_scheduler hm_slurm, hm_kubernetes;

/* Runs a program found by PATH, without a shell; its standard output into *output (cut at 16 MB). Fails if it cannot be
 * run or is not done in timeout_s; else 0 with its exit status in *status (NULL: any but 0 fails, with its words). */
int hm_command(const char *const argv[], double timeout_s, struct hm_str *output, int *status, struct hm_error *err);

#endif
