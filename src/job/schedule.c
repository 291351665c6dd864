/* schedule.c - 1F1B (Narayanan et al., SC 2021, section 2.2) as Megatron-LM runs it. */
#include "schedule.h"

bool hm_pipeline_valid(const struct hm_pipeline *p) {
    if (p->stages < 1 || p->chunks < 1 || p->microbatches < 1) return false;
    return p->chunks == 1 || (p->stages > 1 && p->microbatches % p->stages == 0);
}

uint32_t hm_schedule_warmup(const struct hm_pipeline *p, uint32_t stage) {
    uint32_t after = p->stages - stage - 1, all = p->chunks * p->microbatches;
    uint32_t warmup = p->chunks == 1 ? after : 2 * after + (p->chunks - 1) * p->stages;
    return warmup < all ? warmup : all;
}

/* The k-th forward or backward of a stage: microbatches in groups of `stages`; a group goes through all chunks,
 * backwards from the last chunk to the first, before the next group comes. */
static struct hm_pass kth(const struct hm_pipeline *p, bool backward, uint32_t k) {
    if (p->chunks == 1) return (struct hm_pass){backward, 0, k};
    uint32_t group = k / (p->stages * p->chunks), within = k % (p->stages * p->chunks), chunk = within / p->stages;
    return (struct hm_pass){backward, backward ? p->chunks - 1 - chunk : chunk, group * p->stages + within % p->stages};
}

void hm_schedule(const struct hm_pipeline *p, uint32_t stage, struct hm_pass *order) {
    uint32_t all = p->chunks * p->microbatches, forward = 0, backward = 0;
    for (uint32_t warmup = hm_schedule_warmup(p, stage); forward < warmup; forward++) *order++ = kth(p, false, forward);
    while (backward < all) {
        if (forward < all) *order++ = kth(p, false, forward++);
        *order++ = kth(p, true, backward++);
    }
}
