/* synth.h - a job to be made: its ops in the order of the op table, and the stragglers injected into it. */
#ifndef HM_SYNTH_H
#define HM_SYNTH_H

#include "hindmost/synth.h"
#include "replay/replay.h"

struct hm_injection;

/* One op of every replica in every step. */
struct hm_synth_op {
    uint32_t stage, type, seq;
    int32_t mc, mb, gmc; /* as the table shows them: -1 where they do not apply */
    int32_t edge;        /* a transfer between stage `edge` and the one after it; -1: moves nothing, or no transfer */
    uint32_t slot;       /* in the model */
    uint32_t leader;     /* first op of its group: one transfer duration serves all members */
    bool across;         /* its group spans all replicas */
    double base_s;
};

struct hm_synth_job {
    struct hm_synth_options o;
    struct hm_synth_op *op; /* by (stage, type, seq) */
    size_t n_ops;
    uint32_t *first;      /* [stage * HM_OP_TYPES + type] first op of that type; the next entry is its end */
    int64_t *step_number; /* [steps] */
    struct hm_injection *injection;
    size_t n_injections;
    struct hm_job *job;
};

static inline uint32_t hm_synth_first(const struct hm_synth_job *job, uint32_t stage, int type) {
    return job->first[stage * HM_OP_TYPES + (uint32_t)type];
}
static inline uint32_t hm_synth_count(const struct hm_synth_job *job, uint32_t stage, int type) {
    return job->first[stage * HM_OP_TYPES + (uint32_t)type + 1] - hm_synth_first(job, stage, type);
}

/* A generator for one purpose (`tag`), step and replica: what one of them draws does not move the others, and threads
 * change nothing. */
void hm_synth_stream(struct hm_rng *rng, uint64_t seed, uint64_t tag, uint64_t step, uint64_t lane);
enum { HM_TAG_STEPS, HM_TAG_DURATIONS, HM_TAG_INJECTIONS }; /* injection i has the tag HM_TAG_INJECTIONS + i */
#define HM_NO_LANE UINT64_MAX                               /* what all replicas share */

/* Reads "KIND:key=value,..." of every option into job->injection; the layout and the step numbers must be known. */
int hm_injections_parse(struct hm_synth_job *job, struct hm_error *err);

/* Changes the durations value[op] of one replica in one step (index t); only leaders and ops without a group count.
 * delay_s[stage]: launch delay before the stage's first forward. lane HM_NO_LANE: the ops that all replicas share.
 * scratch: [microbatches]. */
void hm_injections_apply(const struct hm_synth_job *job, size_t t, uint64_t lane, double *value, double *delay_s,
                         double *scratch);

#endif
