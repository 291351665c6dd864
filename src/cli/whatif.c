/* whatif.c - `hindmost whatif`: one replay of your own. */
#include "cli.h"
#include "hindmost/hindmost.h"

#include <stdlib.h>
#include <string.h>

struct request {
    struct hm_trace_options open;
    struct texts changes;
    const char *json;
    bool from_ideal;
};

static bool take_from(void *request, const char *what) {
    bool ideal = ((struct request *)request)->from_ideal = strcmp(what, "ideal") == 0;
    if (ideal || strcmp(what, "original") == 0) return true;
    return complain_text("--from %s: give original or ideal", what), false;
}

#define FIELD(name) offsetof(struct request, name)
static const struct option options[] = {
    {"set", 's', "SELECTOR=VALUE",
     "repeatable, applied in order. SELECTOR: comma-separated type:NAME, stage:N, dp:A-B,\n"
     "step:A-B, mb:A-B, or all. NAME: an op type, or compute, p2p, dp, comm.\n"
     "VALUE: ideal, original, a factor (x0.5), or a time (0.15s, 20ms)",
     OPTION_TEXTS, FIELD(changes), 0, 0, NULL},
    {"from", 0, "WHAT", "original (default) or ideal durations to begin with", OPTION_TAKE, 0, 0, 0, take_from},
    OPTIONS_OF_TRACE(struct request, open),
    {"json", 0, "FILE", "the result as JSON; - is standard output", OPTION_OUTPUT, FIELD(json), 0, 0, NULL},
    OPTION_THREADS(struct request, open.threads),
    {NULL, 0, NULL, NULL, OPTION_FLAG, 0, 0, 0, NULL}};

const struct usage whatif_usage = {
    "TRACE... --set SELECTOR=VALUE [options]",
    "Replays the job with other durations; prints the mean step time before and after, and the ratio.\n",
    TRACE_ARGUMENT, options,
    "Communication values are transfer durations: from the latest start in the group to the end.\n"};

static int parse(struct request *q, int argc, char **argv, int *inputs) {
    int status = options_read(command_named("whatif"), q, argc, argv, inputs);
    if (status != EXIT_DONE) return status;
    if (*inputs < 1) return complain_text("whatif needs a trace; see 'hindmost help whatif'");
    if (q->changes.n == 0)
        return complain_text("whatif needs at least one --set SELECTOR=VALUE; see 'hindmost help whatif'");
    return EXIT_DONE;
}

static int write_json(const struct hm_whatif_result *r, const char *path, struct hm_error *err) {
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    hm_whatif_write_json(r, out);
    return hm_out_commit(out, err);
}

static int run(const struct request *q, const char *const *paths, size_t n) {
    struct hm_error err = {0};
    struct hm_whatif_result r = {0};
    struct hm_trace *trace = hm_trace_open_files(paths, n, &q->open, &err);
    int status = trace ? hm_whatif(trace, q->from_ideal, q->changes.text, q->changes.n, q->open.threads, &r, &err) : -1;
    if (status == 0 && q->json) status = write_json(&r, q->json, &err);
    if (status == 0 && !(q->json && strcmp(q->json, "-") == 0))
        printf("step time %.6g s -> %.6g s: %.4f times as fast\n", r.baseline_s, r.result_s, r.speedup);
    hm_trace_free(trace);
    return status == 0 ? EXIT_DONE : complain(&err);
}

int whatif_main(int argc, char **argv) {
    struct request q = {.open.progress = progress_bar, .changes.text = calloc((size_t)argc, sizeof(char *))};
    int inputs = 0;
    if (!q.changes.text) return complain_text("out of memory");
    int status = parse(&q, argc, argv, &inputs);
    if (status == EXIT_DONE) status = run(&q, (const char *const *)argv + 1, (size_t)inputs);
    free(q.changes.text);
    return status < 0 ? EXIT_DONE : status;
}
