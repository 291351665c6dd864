/* whatif.h - what the job would take if: ideal durations, scenarios, S and its attributions. */
#ifndef HM_WHATIF_H
#define HM_WHATIF_H

#include "hindmost/hindmost.h"
#include "replay/replay.h"

/* A trace ready for replays: what hm_trace_open makes. */
struct hm_trace {
    struct hm_recording *recording; /* rows are released; layout, steps, lanes and the list of what was dropped stay */
    struct hm_job *job;
    struct hm_program *program;
    struct hm_grid grid;
    double *ideal_s;    /* [peers] ideal duration; NaN if it does not occur */
    double *ideal_fill; /* [slot][8] */
    size_t ops;         /* rows in the grid */
};

/* Mean or median of every set of peers over all replicas and steps in the grid (spec "Ideal durations"). ideal_s: [m->n_peers]. */
int hm_ideal_durations(const struct hm_grid *g, const struct hm_job *m, int threads, double *ideal_s,
                       struct hm_error *err);

/* Fills ideal_s and ideal_fill from the grid. */
int hm_trace_idealise(struct hm_trace *t, int threads, struct hm_error *err);

/* From a recording whose rows are in memory to a trace: settles it, lays it out, builds the job and the grid. 0 or -1. */
int hm_trace_settle(struct hm_trace *t, const struct hm_trace_options *o, struct hm_error *err);

/* The trace that hm_synth would write, without the file. Free with hm_trace_free. NULL on failure. */
struct hm_synth_options;
struct hm_trace *hm_synth_trace(const struct hm_synth_options *options, struct hm_error *err);

#endif
