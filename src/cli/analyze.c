/* analyze.c - `hindmost analyze`: what-if analysis of one job. */
#include "analyze_arrivals.h"
#include "analyze_series.h"
#include "cli.h"
#include "hindmost/hindmost.h"
#include "hindmost/report.h"
#include "hindmost/series.h"
#include "hindmost/timeline.h"

#include <string.h>

struct request {
    const char *json, *html, *heatmap, *timeline, *ideal_timeline, *pattern, *arrivals;
    struct hm_trace_options open;
    struct hm_analysis_options analysis;
    bool per_step, check; /* per_step: in the JSON; the page always shows the steps */
};

static bool take_heatmap(void *request, const char *name) {
    ((struct request *)request)->heatmap = name;
    if (hm_ends_with(name, ".svg") || hm_ends_with(name, ".png")) return true;
    return complain_text("--heatmap %s: give a name that ends in .svg or .png", name), false;
}

static bool take_attribution(void *request, const char *mode) {
    bool paper = strcmp(mode, "paper") == 0;
    ((struct request *)request)->analysis.attribution = paper ? HM_ATTRIBUTION_PAPER : HM_ATTRIBUTION_EXACT;
    if (paper || strcmp(mode, "exact") == 0) return true;
    return complain_text("--attribution %s: give exact or paper", mode), false;
}

#define FIELD(name) offsetof(struct request, name)
static const struct option options[] = {
    OPTIONS_OF_TRACE(struct request, open),
    {"json", 0, "FILE", "the result as JSON; - is standard output, without the report", OPTION_OUTPUT, FIELD(json), 0,
     0, NULL},
    {"html", 0, "FILE", "one self-contained page: heatmaps, causes, fixes, the slowest step", OPTION_OUTPUT,
     FIELD(html), 0, 0, NULL},
    {"heatmap", 0, "FILE", "a picture of the workers' slowdowns, .svg or .png", OPTION_TAKE, 0, 0, 0, take_heatmap},
    {"timeline", 0, "FILE", "the recording as Chrome JSON for Perfetto (.json or .json.gz)", OPTION_OUTPUT,
     FIELD(timeline), 0, 0, NULL},
    {"ideal-timeline", 0, "FILE", "the same with every op ideal", OPTION_OUTPUT, FIELD(ideal_timeline), 0, 0, NULL},
    {"attribution", 0, "MODE", "exact (default), or paper: a worker is the smaller of its stage and DP rank",
     OPTION_TAKE, 0, 0, 0, take_attribution},
    {"per-step", 0, NULL, "attributions of every step in the JSON", OPTION_FLAG, FIELD(per_step), 0, 0, NULL},
    {"check", 0, NULL, "exit status 1 at a real slowdown >= 1.1, 2 at >= 1.2", OPTION_FLAG, FIELD(check), 0, 0, NULL},
    {"memory", 0, "SIZE", "stay below SIZE, such as 2G (default: half of the machine's memory)", OPTION_BYTES,
     FIELD(open.memory_bytes), 0, 0, NULL},
    {"pattern", 0, "REGEX", "lines of another log: 'step {step}.* {seconds} s'; also {ms}, {us}, {rank}", OPTION_TEXT,
     FIELD(pattern), 0, 0, NULL},
    {"arrivals", 0, "FILE.csv", "of profiler traces: a row a collective, who came last and how late", OPTION_TEXT,
     FIELD(arrivals), 0, 0, NULL},
    OPTION_THREADS(struct request, open.threads),
    {NULL, 0, NULL, NULL, OPTION_FLAG, 0, 0, 0, NULL}};

const struct usage analyze_usage = {
    "TRACE... [options]",
    "Rebuilds who waits for whom, replays the job without stragglers, and reports how much faster it would be and\n"
    "which op types, stages, DP ranks and single workers cost how much.\n",
    TRACE_ARGUMENT, options, NULL};

static int parse(struct request *q, int argc, char **argv, int *inputs) {
    int status = options_read(command_named("analyze"), q, argc, argv, inputs);
    if (status != EXIT_DONE) return status;
    if (*inputs < 1) return complain_text("analyze needs a trace; see 'hindmost help analyze'");
    q->analysis.threads = q->open.threads;
    q->analysis.per_step = q->per_step || q->html;
    return EXIT_DONE;
}

static int write_json(const struct hm_analysis *a, const struct hm_diagnosis *d, const char *path,
                      struct hm_error *err) {
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    hm_analysis_write_json(a, d, out);
    return hm_out_commit(out, err);
}

static int print_report(const struct hm_analysis *a, const struct hm_diagnosis *d) {
    struct hm_text_options look = {.color = use_color(stdout), .width = terminal_width()};
    char *text = hm_analysis_text(a, d, &look);
    if (!text) return complain_text("out of memory while writing the report");
    progress_clear();
    int status = print_text(text);
    hm_text_free(text);
    return status;
}

static bool is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

static int report(const struct request *q, const struct hm_trace *trace, const struct hm_analysis *a,
                  const struct hm_diagnosis *d) {
    struct hm_error err = {0};
    struct hm_analysis whole = *a; /* without the steps' attributions */
    whole.step_by_op_type = whole.step_by_stage = whole.step_by_dp_rank = whole.step_by_worker = NULL;
    if (q->json && write_json(q->per_step ? a : &whole, d, q->json, &err) != 0) return complain(&err);
    if (q->html && hm_report_html(trace, a, d, q->html, &err) != 0) return complain(&err);
    if (q->heatmap && hm_heatmap_write(a, q->heatmap, &err) != 0) return complain(&err);
    if (q->timeline && hm_timeline_write(trace, false, q->timeline, &err) != 0) return complain(&err);
    if (q->ideal_timeline && hm_timeline_write(trace, true, q->ideal_timeline, &err) != 0) return complain(&err);
    if (!is_stdout(q->json) && !is_stdout(q->html)) {
        int status = print_report(a, d);
        if (status != EXIT_DONE) return status;
    }
    if (!q->check) return EXIT_DONE;
    return a->slowdown_real >= 1.2 ? EXIT_CRITICAL : a->slowdown_real >= 1.1 ? EXIT_WARN : EXIT_DONE;
}

static bool is_log(const struct request *q, const char *path) {
    if (q->open.format) return strcmp(q->open.format, "megatron") == 0;
    return q->pattern || hm_series_detect(path);
}

static int analyze_log(const struct request *q, const char *const *paths, size_t n) {
    const char *other = q->html ? "--html" : q->timeline ? "--timeline" : q->ideal_timeline ? "--ideal-timeline" : NULL;
    return analyze_series(&(struct series_request){paths, n, q->pattern, q->json, q->heatmap, other, q->check});
}

int analyze_main(int argc, char **argv) {
    struct request q = {.open.progress = progress_bar, .analysis.progress = progress_bar};
    int inputs = 0, status = parse(&q, argc, argv, &inputs);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    const char *const *paths = (const char *const *)argv + 1;
    if (is_log(&q, paths[0])) return analyze_log(&q, paths, (size_t)inputs);
    struct hm_error err = {0};
    bool pictures = q.html || q.heatmap || q.timeline || q.ideal_timeline || q.check;
    if (analyze_arrivals(paths, (size_t)inputs, &q.open, pictures, q.json, q.arrivals, &status)) return status;
    if (q.arrivals) return complain_text("--arrivals: only profiler traces have arrivals; see 'hindmost help analyze'");
    struct hm_trace *trace = hm_trace_open_files(paths, (size_t)inputs, &q.open, &err);
    struct hm_analysis *a = trace ? hm_analyze(trace, &q.analysis, &err) : NULL;
    /* a diagnosis rests on the exact S of the workers */
    bool diagnose = q.analysis.attribution == HM_ATTRIBUTION_EXACT;
    struct hm_diagnosis *d = a && diagnose ? hm_diagnose(trace, a, q.analysis.threads, &err) : NULL;
    status = a && (d || !diagnose) ? report(&q, trace, a, d) : complain(&err);
    hm_diagnosis_free(d);
    hm_analysis_free(a);
    hm_trace_free(trace);
    return status;
}
