/* schedule.h - in which order a pipeline stage works on its microbatches: 1F1B and Megatron-LM's interleaved 1F1B. */
#ifndef HM_SCHEDULE_H
#define HM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* One compute op of a stage. */
struct hm_pass {
    bool backward;
    uint32_t chunk, microbatch; /* model chunk in the stage, microbatch */
};

struct hm_pipeline {
    uint32_t stages, chunks, microbatches; /* chunks: model chunks a stage (VPP) */
};

/* Whether such a schedule exists: all sizes at least 1; with chunks > 1 at least 2 stages, and microbatches a multiple
 * of the stages (Megatron-LM hands out microbatches in groups of `stages`). */
bool hm_pipeline_valid(const struct hm_pipeline *p);

/* Forwards of `stage` before its first backward. Megatron-LM, core/pipeline_parallel/schedules.py: stages - stage - 1,
 * and interleaved (stages - stage - 1) * 2 + (chunks - 1) * stages; at most all of them. */
uint32_t hm_schedule_warmup(const struct hm_pipeline *p, uint32_t stage);

/* Fills order[2 * chunks * microbatches] with the passes of a stage in launch order: warm-up forwards, then forward and
 * backward in turn, then the backwards that are left. */
void hm_schedule(const struct hm_pipeline *p, uint32_t stage, struct hm_pass *order);

#endif
