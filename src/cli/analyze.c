/* analyze.c - `hindmost analyze`: what-if analysis of one job. */
#include "analyze_series.h"
#include "cli.h"
#include "hindmost/hindmost.h"
#include "hindmost/report.h"
#include "hindmost/series.h"
#include "hindmost/timeline.h"

#include <string.h>

enum {
    O_META = 1,
    O_STEPS,
    O_JSON,
    O_ATTRIBUTION,
    O_PER_STEP,
    O_CHECK,
    O_MEMORY,
    O_THREADS,
    O_HTML,
    O_HEATMAP,
    O_TIMELINE,
    O_IDEAL_TIMELINE,
    O_PATTERN
};

static const struct option_spec specs[] = {{"meta", 'm', true, O_META},
                                           {"steps", 0, true, O_STEPS},
                                           {"json", 0, true, O_JSON},
                                           {"html", 0, true, O_HTML},
                                           {"heatmap", 0, true, O_HEATMAP},
                                           {"timeline", 0, true, O_TIMELINE},
                                           {"ideal-timeline", 0, true, O_IDEAL_TIMELINE},
                                           {"attribution", 0, true, O_ATTRIBUTION},
                                           {"per-step", 0, false, O_PER_STEP},
                                           {"check", 0, false, O_CHECK},
                                           {"memory", 0, true, O_MEMORY},
                                           {"threads", 'j', true, O_THREADS},
                                           {"pattern", 0, true, O_PATTERN},
                                           {NULL, 0, false, 0}};

const char analyze_help[] =
    "usage: hindmost analyze TRACE [options]\n\n"
    "Rebuilds who waits for whom, replays the job without stragglers, and reports how much faster it would be and\n"
    "which op types, stages, DP ranks and single workers cost how much.\n\n"
    "  TRACE                     op table: Parquet, CSV or gzipped CSV; or logs of Megatron-LM or Megatron-DeepSpeed\n"
    "  -m, --meta FILE.yaml      layout of the job (default: inferred from the trace)\n"
    "      --steps 12,20-23      only these steps\n"
    "      --json FILE           the result as JSON; - is standard output, without the report\n"
    "      --html FILE           one self-contained page: heatmaps, causes, fixes, the slowest step\n"
    "      --heatmap FILE        a picture of the workers' slowdowns, .svg or .png\n"
    "      --timeline FILE       the recording as Chrome JSON for Perfetto (.json or .json.gz)\n"
    "      --ideal-timeline FILE the same with every op ideal\n"
    "      --attribution MODE    exact (default), or paper: a worker is the smaller of its stage and DP rank\n"
    "      --per-step            attributions of every step in the JSON\n"
    "      --check               exit status 1 at S >= 1.1, 2 at S >= 1.2\n"
    "      --memory SIZE         stay below SIZE, such as 2G (default: half of the machine's memory)\n"
    "      --pattern REGEX           the lines of another log: 'step {step}.* {seconds} s'; also {ms}, {us}, {rank}\n"
    "  -j, --threads N           threads (default: all cores)\n"
    "      --color WHEN          always, never or auto\n";

struct request {
    const char *trace, *json, *html, *heatmap, *timeline, *ideal_timeline;
    struct hm_trace_options open;
    struct hm_analysis_options analysis;
    const char *const *inputs, *pattern;
    size_t n_inputs;
    bool per_step, check; /* per_step: in the JSON; the page always shows the steps */
};

static bool is_log(const struct request *q) {
    return q->pattern || hm_series_detect(q->inputs[0]);
}

static int analyze_log(const struct request *q) {
    const char *other = q->html ? "--html" : q->timeline ? "--timeline" : q->ideal_timeline ? "--ideal-timeline" : NULL;
    return analyze_series(
        &(struct series_request){q->inputs, q->n_inputs, q->pattern, q->json, q->heatmap, other, q->check});
}

static int parse(struct request *q, int argc, char **argv) {
    struct options o;
    options_begin(&o, command_named("analyze"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        long n;
        switch (id) {
        case OPTION_BAD:
            return EXIT_UNUSABLE;
        case OPTION_HELP:
            return -1;
        case O_META:
            q->open.metadata = o.value;
            break;
        case O_STEPS:
            q->open.steps = o.value;
            break;
        case O_JSON:
            q->json = o.value;
            break;
        case O_HTML:
            q->html = o.value;
            break;
        case O_HEATMAP:
            if (!hm_ends_with(o.value, ".svg") && !hm_ends_with(o.value, ".png"))
                return complain_text("--heatmap %s: give a name that ends in .svg or .png", o.value);
            q->heatmap = o.value;
            break;
        case O_TIMELINE:
            q->timeline = o.value;
            break;
        case O_IDEAL_TIMELINE:
            q->ideal_timeline = o.value;
            break;
        case O_PER_STEP:
            q->per_step = true;
            break;
        case O_CHECK:
            q->check = true;
            break;
        case O_ATTRIBUTION:
            if (strcmp(o.value, "exact") != 0 && strcmp(o.value, "paper") != 0)
                return complain_text("--attribution %s: give exact or paper", o.value);
            q->analysis.attribution = strcmp(o.value, "paper") == 0 ? HM_ATTRIBUTION_PAPER : HM_ATTRIBUTION_EXACT;
            break;
        case O_MEMORY:
            if (!option_bytes(&o, "--memory", &q->open.memory_bytes)) return EXIT_UNUSABLE;
            break;
        case O_THREADS:
            if (!option_integer(&o, "--threads", 1, 256, &n)) return EXIT_UNUSABLE;
            q->open.threads = q->analysis.threads = (int)n;
            break;
        case O_PATTERN:
            q->pattern = o.value;
            break;
        default:
            break;
        }
    }
    q->inputs = (const char *const *)argv + 1;
    q->n_inputs = (size_t)o.inputs;
    if (o.inputs > 0 && is_log(q)) return EXIT_DONE;
    if (o.inputs != 1) return complain_text("analyze takes one trace, not %d; see 'hindmost help analyze'", o.inputs);
    q->trace = argv[1];
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
    return a->slowdown >= 1.2 ? EXIT_CRITICAL : a->slowdown >= 1.1 ? EXIT_WARN : EXIT_DONE;
}

int analyze_main(int argc, char **argv) {
    struct request q = {.open.progress = progress_bar, .analysis.progress = progress_bar};
    int status = parse(&q, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    if (is_log(&q)) return analyze_log(&q);
    struct hm_error err = {0};
    struct hm_trace *trace = hm_trace_open(q.trace, &q.open, &err);
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
