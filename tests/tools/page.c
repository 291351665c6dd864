/* page.c - writes the report page of a trace with a made-up diagnosis that has every cause, every kind of evidence and every fix, and the
 * JSON it must agree with: page TRACE OUT.html OUT.json. The texts try to break out of the page. */
#include "base/base.h"
#include "hindmost/report.h"

#include <math.h>
#include <stdio.h>

enum { POINTS = 600 };

static const char *const causes[] = {"slow-worker", "stage-imbalance", "sequence-length",   "garbage-collection",
                                     "slow-link",   "data-loading",    "replica-imbalance", "unexplained"};
static const char *const fixes[] = {"replace-workers", "move-layers", "balance-sequences",
                                    "planned-gc",      "fix-link",    "resplit-microbatches"};
enum { CAUSES = sizeof causes / sizeof causes[0], FIXES = sizeof fixes / sizeof fixes[0] };

static double x[POINTS], y[POINTS], spike[POINTS];

static struct hm_diagnosis made_up(const struct hm_analysis *a) {
    static struct hm_worker workers[20];
    static const uint32_t stages[] = {0}, dp_ranks[] = {0};
    static int64_t steps[1];
    static const char *const types[] = {"forward-compute"};
    static struct hm_evidence evidence[] = {
        {.name = "correlation of forward and backward </script><b>",
         .value = 0.97,
         .unit = "",
         .x_label = "forward, s",
         .y_label = "backward, s",
         .n_points = POINTS,
         .x = x,
         .y = y},
        {.name = "longest forward",
         .value = 0.3,
         .unit = "s",
         .x_label = "step",
         .y_label = "time above the median, s",
         .n_points = POINTS,
         .x = x,
         .y = spike},
        {.name = "workers <!-- affected", .value = 3, .unit = "workers"},
    };
    static struct hm_cause cause[CAUSES];
    static struct hm_fix fix[FIXES];
    steps[0] = a->steps[0].step;
    for (size_t i = 0; i < POINTS; i++) {
        x[i] = 0.1 + 0.001 * (double)i;
        y[i] = 0.05 + 2 * x[i] + 0.02 * sin((double)i * 7);
        spike[i] = i % 97 == 5 ? 0.3 : 0.002;
    }
    for (size_t k = 0; k < CAUSES; k++)
        cause[k] = (struct hm_cause){.cause = causes[k],
                                     .confidence = 0.95 - 0.1 * (double)k,
                                     .recovers = 0.8 / (double)(k + 1),
                                     .n_evidence = 3,
                                     .evidence = evidence,
                                     .n_workers = 20,
                                     .workers = workers,
                                     .n_stages = 1,
                                     .stages = stages,
                                     .n_dp_ranks = 1,
                                     .dp_ranks = dp_ranks,
                                     .n_steps = 1,
                                     .steps = steps,
                                     .n_op_types = 1,
                                     .op_types = types};
    for (size_t k = 0; k < FIXES; k++)
        fix[k] = (struct hm_fix){fixes[k], a->replayed_s / (1.4 - 0.05 * (double)k), 1.4 - 0.05 * (double)k,
                                 "do \"this\" & that; assumes <nothing>"};
    return (struct hm_diagnosis){.n_causes = CAUSES,
                                 .n_fixes = FIXES,
                                 .causes = cause,
                                 .fixes = fix,
                                 .straggling = true,
                                 .summary = "Slow workers cost most; <i>replace them</i> & look at the sequences."};
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct hm_error err = {0};
    struct hm_analysis_options o = {.per_step = true};
    struct hm_trace *t = hm_trace_open(argv[1], NULL, &err);
    struct hm_analysis *a = t ? hm_analyze(t, &o, &err) : NULL;
    int status = 3;
    if (a) {
        struct hm_diagnosis d = made_up(a);
        struct hm_out *out = hm_out_open(argv[3], &err);
        if (out) hm_analysis_write_json(a, &d, out);
        if (out && hm_out_commit(out, &err) == 0 && hm_report_html(t, a, &d, argv[2], &err) == 0) status = 0;
    }
    if (status) (void)fprintf(stderr, "%s\n", err.message);
    hm_analysis_free(a);
    hm_trace_free(t);
    return status;
}
