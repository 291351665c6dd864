/* op_types.h - the op types of microbatch-level traces: names, what a replay does with them, how their ideal is
 * estimated. */
#ifndef HM_OP_TYPES_H
#define HM_OP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hm_op_type {
    HM_FORWARD_COMPUTE,
    HM_BACKWARD_COMPUTE,
    HM_FORWARD_SEND,
    HM_FORWARD_RECV,
    HM_BACKWARD_SEND,
    HM_BACKWARD_RECV,
    HM_PARAMS_ALL_GATHER,
    HM_GRADS_REDUCE_SCATTER,
    HM_LAYERNORM_ALL_REDUCE,
    HM_EMBEDDING_ALL_REDUCE,
    HM_SEPARATE_ALL_REDUCE,
    HM_CLIP_MAIN_GRAD,
    HM_OPTIMIZER,
    HM_GC,
    HM_OP_TYPES
};

/* Whose transfers start together: nobody moves data before all members have launched (spec rule 7). */
enum hm_group_scope {
    HM_ALONE,     /* a compute op: no group */
    HM_PAIR,      /* a send and its receive, on neighbouring stages of one replica */
    HM_DP_GROUP,  /* all DP ranks of one stage */
    HM_EMBEDDING, /* first and last stage of one replica */
    HM_EVERYBODY  /* all stages of all DP ranks */
};

struct hm_op_type_info {
    const char *name;   /* as in the trace */
    const char *family; /* as in by_op_type: send and recv of a direction count together */
    enum hm_group_scope scope;
    bool ideal_is_median; /* else the mean; "Ideal durations" in the OSDI 2025 artefact */
};

extern const struct hm_op_type_info hm_op_types[HM_OP_TYPES];

/* The type of that name, or -1. */
int hm_op_type_find(const char *name, size_t length);

static inline bool hm_is_compute(int type) {
    return type == HM_FORWARD_COMPUTE || type == HM_BACKWARD_COMPUTE;
}
static inline bool hm_is_p2p(int type) {
    return type >= HM_FORWARD_SEND && type <= HM_BACKWARD_RECV;
}
static inline bool hm_is_send(int type) {
    return type == HM_FORWARD_SEND || type == HM_BACKWARD_SEND;
}

/* The families by_op_type reports, in the order of their first type; a type's index among them. */
enum { HM_FAMILIES = HM_OP_TYPES - 2 };
int hm_family_of(int type);
const char *hm_family_name(int family);

#endif
