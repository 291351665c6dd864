/* kineto_phases.h - how long the host of a rank was in a phase of its steps, by the names that frameworks give. */
#ifndef HM_TRACE_KINETO_PHASES_H
#define HM_TRACE_KINETO_PHASES_H

#include "hindmost/arrivals.h"

#include <stddef.h>
#include <stdint.h>

struct hm_kineto_step;

struct hm_phase_spans {
    struct hm_phase_span {
        int64_t start_ns, end_ns;
    } * span;
    size_t n, capacity;
};

/* The phase that an event of the host is of; -1: none. */
int hm_phase_of(const char *event);
/* 0, or -1 without memory. */
int hm_phase_add(struct hm_phase_spans *spans, int64_t start_ns, int64_t end_ns);
/* Seconds a step in the union of the spans; reorders them. Without spans or steps a phase is not recorded: NaN. */
struct hm_arrival_phase hm_phase_measure(struct hm_phase_spans *spans, const struct hm_kineto_step *step,
                                         size_t n_steps);

#endif
