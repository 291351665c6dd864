/* model.h - who waits for whom: the program that every replica runs in every step.
 *
 * Replicas run the same ops, so one program describes them all. Its unit is the slot: one op of one stage (a role in a
 * pipeline; a job without one has a single stage). Slots that move data together form a node: a send and its receive,
 * the embedding all-reduce of first and last stage. A node whose group spans all replicas (params-all-gather, the
 * gradient clip, ...) is `across`: it starts when the last replica has launched it.
 *
 * The program is cut into rounds at the across nodes: within a round a replica needs nothing from the others. An across
 * node launched in round r ends in round r + 1, when the latest launch is known. Slots are numbered in the order in
 * which a replay uses their durations: round by round, and within a round in topological order. */
#ifndef HM_MODEL_H
#define HM_MODEL_H

#include "trace/trace.h"

struct hm_slot {
    uint32_t stage, type, seq;
    int32_t mc, mb, gmc; /* model chunk in the stage, microbatch, chunk in the model; -1 where they do not apply */
    uint32_t node;
    uint32_t first_dep, n_deps; /* what this op waits for: slots, in hm_model.dep */
    bool
        lonely; /* a transfer whose other side has no record: the computes it waits for tell when that side was ready */
};

struct hm_node {
    uint32_t first_slot, n_slots;
    uint32_t round; /* where it is launched; its ends are known in this round, or in the next one if across */
    int32_t across; /* its number among the across nodes, or -1 */
};

struct hm_model {
    size_t stages, n_slots, n_nodes, n_deps, n_across;
    uint32_t rounds;
    struct hm_slot *slot;
    struct hm_node *node; /* in order of execution (launch order for across nodes) */
    uint32_t *dep;
    bool uses_dp, overlapped; /* DP communication at all; gradients reduced while computing */
};

/* Builds the program from the ops of one replica in one step. dp_size: all data-parallel ranks including
 * sequence-parallel ones (dp * dsp). Fails with HM_ERR_INPUT, naming the ops one by one, if they wait for each other in
 * a circle. `path` is for messages. */
struct hm_model *hm_model_build(const struct hm_ref_op *ops, size_t n, int64_t dp_size, const char *path,
                                struct hm_error *err);
void hm_model_free(struct hm_model *m);

/* "forward-recv 3 of stage 1" into text. */
const char *hm_slot_name(const struct hm_slot *slot, char *text, size_t size);

#endif
