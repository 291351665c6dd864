/* job.h - the waist: who waits for whom, and what each op is, in the one form that every job goes through.
 *
 * A *lane* is one model replica: the ranks that one data-parallel index names. A *role* is one rank's place in its replica: in a pipeline
 * the stage; where all ranks run the same program there is one role and a lane is a rank. All lanes run the same program, so it is held
 * once. Its unit is the *slot*: one op of one role. A slot is of a *class* (a name with what a replay does about it), has a *stream*
 * (which orders it), and *peers*: the slots that do the same work and share an ideal duration.
 *
 * Slots that move data together form a *node*: a send and its receive, a collective of several roles. A node whose group spans lanes is
 * *across* a *partition* of the lanes: each block of lanes is a group of its own, which starts when its own last member has launched.
 * Everybody is a partition of one block.
 *
 * The program is cut into *rounds* at the across nodes: within a round a lane needs nothing from the others. An across node launched in
 * round r ends in round r + 1, when the latest launch is known. Slots are numbered in the order in which a replay uses their durations:
 * round by round, and within a round in topological order.
 *
 * Builders make jobs: pipeline.c from the op table of a pipeline's trainer, by the rules of the paper and its artefact. */
#ifndef HM_JOB_H
#define HM_JOB_H

#include "trace/trace.h"

/* What a replay does with an op. */
enum hm_kind { HM_COMPUTE, HM_COLLECTIVE, HM_SEND, HM_RECV, HM_PAUSE /* garbage collection */, HM_KINDS };

/* Whose work it is, where the name tells. */
enum hm_phase { HM_NO_PHASE, HM_FORWARD, HM_BACKWARD, HM_OPTIMIZE };

struct hm_class {
    const char *name; /* as in the trace */
    uint32_t family;  /* what attributions sum up under one name: hm_job.family */
    enum hm_kind kind;
    enum hm_phase phase;
    enum hm_group_scope scope; /* whose transfers start together */
    bool ideal_is_median;      /* of its transfers; else the mean ("Ideal durations" in the OSDI 2025 artefact) */
    bool ends_step;            /* replays measure a step to the latest of these */
};

/* How the groups of a communicator family cut the lanes. */
struct hm_partition {
    size_t blocks;
    uint32_t *block; /* [lane]; NULL: everybody */
};

struct hm_slot {
    uint32_t stage;      /* the role */
    uint32_t cls;        /* hm_job.cls */
    uint32_t seq;        /* number among the ops of its class and role in its step */
    int32_t mc, mb, gmc; /* model chunk in the stage, microbatch, chunk in the model; -1 where they do not apply */
    uint32_t stream, peers;
    uint32_t node;
    uint32_t first_dep, n_deps; /* what this op waits for: slots, in hm_job.dep */
    /* A transfer whose other side has no record: the computes it waits for tell when that side was ready. */
    bool lonely;
};

struct hm_node {
    uint32_t first_slot, n_slots;
    uint32_t round;     /* where it is launched; its ends are known in this round, or in the next one if across */
    int32_t across;     /* its number among the across nodes, or -1 */
    uint32_t partition; /* of an across node: hm_job.partition ... */
    uint32_t start;     /* ... its groups' starts are numbered from here, block by block: hm_start_of */
};

struct hm_job {
    size_t stages; /* roles */
    size_t n_slots, n_nodes, n_deps, n_across;
    size_t n_starts; /* groups that across nodes have: one a block of their partition */
    uint32_t rounds;
    struct hm_slot *slot;
    struct hm_node *node; /* in order of execution (launch order for across nodes) */
    uint32_t *dep;
    size_t n_classes, n_families, n_peers, n_partitions;
    const struct hm_class *cls;
    const uint32_t *class_of_peers; /* [n_peers] */
    const char *const *family;      /* names */
    struct hm_partition *partition; /* 0: everybody */
    size_t lanes;                   /* that the partitions cut; 0: any number, all partitions are everybody */
    bool own_classes;               /* cls, family and their names are the job's to free (hm_free) */
    /* A pipeline's: DP communication at all; gradients reduced while computing; op types that no rule connects, a bit each: their ops
     * are no slots. */
    size_t model_stages; /* may be more than stages: the model goes on behind the last one that was recorded */
    bool uses_dp, overlapped, trailing; /* trailing: all-gathers for the next step follow the optimizer */
    uint32_t unplaced;
};

/* Builds the job of a pipeline's op table from the ops of one replica in one step. dp_size: all data-parallel ranks including
 * sequence-parallel ones (dp * dsp). Fails with HM_ERR_INPUT, naming the ops one by one, if they wait for each other in a circle. `path` is
 * for messages. */
struct hm_job *hm_job_pipeline(const struct hm_ref_op *ops, size_t n, int64_t dp_size, const char *path,
                               struct hm_error *err);
void hm_job_free(struct hm_job *job);

/* The number of the group that an across node's members in this lane belong to, among n_starts. */
static inline size_t hm_start_of(const struct hm_job *m, const struct hm_node *node, size_t lane) {
    const uint32_t *block = m->partition[node->partition].block;
    return node->start + (block ? block[lane] : 0);
}
static inline const struct hm_class *hm_class_of(const struct hm_job *m, size_t slot) {
    return &m->cls[m->slot[slot].cls];
}
static inline bool hm_class_is(const struct hm_class *c, enum hm_kind kind, enum hm_phase phase) {
    return c->kind == kind && c->phase == phase;
}
/* A forward or backward of a microbatch. */
static inline bool hm_is_pass(const struct hm_class *c) {
    return c->kind == HM_COMPUTE && (c->phase == HM_FORWARD || c->phase == HM_BACKWARD);
}
static inline bool hm_is_point_to_point(const struct hm_class *c) {
    return c->kind == HM_SEND || c->kind == HM_RECV;
}
/* The class of that kind and phase, or -1. */
int hm_class_find(const struct hm_job *m, enum hm_kind kind, enum hm_phase phase);

/* "forward-recv 3 of stage 1" into text. */
const char *hm_slot_name(const struct hm_job *m, const struct hm_slot *slot, char *text, size_t size);

#endif
