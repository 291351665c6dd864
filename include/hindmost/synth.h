/* hindmost/synth.h - traces made to order: a layout, a schedule, and stragglers put where you say.
 *
 * The op durations are drawn, then the job is replayed by the same rules by which an analysis rebuilds it
 * (docs/method.md), so a trace is consistent: analysing it gives its recorded step times back. Compute ops start when
 * what they wait for has ended; a communication op starts at its launch and ends when the last member of its group has
 * launched and the data have moved. */
#ifndef HINDMOST_SYNTH_H
#define HINDMOST_SYNTH_H

#include "base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_synth_options {
    /* Layout: data-parallel replicas, pipeline stages, model chunks a stage (1: plain 1F1B; more: Megatron-LM's
     * interleaved 1F1B, which needs pp > 1 and microbatches a multiple of pp), ranks in a tensor-parallel group (they
     * only space out the rank numbers). */
    uint32_t dp, pp, vpp, tp, microbatches;
    uint32_t steps;  /* recorded; their numbers are sampled: 1 or 2, then each 1 or 2 further */
    uint64_t seed;   /* the same options give the same bytes */
    bool overlap_dp; /* gradients are reduced while later backwards run (needs dp > 1; else it changes nothing) */
    /* Mean durations: the forward and backward of one microbatch in one chunk, one transfer between stages, one
     * params-all-gather or grads-reduce-scatter of one chunk. The smaller ops of the step's tail are fractions of these
     * (docs/synth.md). */
    double forward_s, backward_s, p2p_s, dp_comm_s;
    double noise; /* coefficient of variation of every duration (log-normal); 0: none */
    /* Stragglers: "KIND:key=value,..." as `hindmost synth --inject` takes them (docs/synth.md). */
    const char *const *inject;
    size_t n_inject;
    bool float32;            /* times in float32, as the public traces have them; else in double */
    int threads;             /* 0: all cores */
    hm_progress_fn progress; /* NULL: none */
    void *context;
};

/* dp 4, pp 4, vpp 1, tp 1, 8 microbatches, 16 steps, seed 1; forward 50 ms, backward 100 ms, transfer 1 ms, collective
 * 10 ms; no noise. */
HM_API void hm_synth_defaults(struct hm_synth_options *options);

/* Writes a trace to `path`, a name that ends in .parquet or .csv, and its metadata to the same name with .yaml. Needs
 * the memory of two steps (48 bytes an op). 0, or -1: HM_ERR_ARGUMENT for an impossible layout or injection, HM_ERR_IO
 * if a file cannot be written; then no new file is left. */
HM_API int hm_synth(const char *path, const struct hm_synth_options *options, struct hm_error *err);

#ifdef __cplusplus
}
#endif
#endif
