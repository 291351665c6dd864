/* analyze.c - `hindmost analyze`: what-if analysis of one job. */
#include "cli.h"
#include "hindmost/hindmost.h"

#include <string.h>

enum { O_META = 1, O_STEPS, O_JSON, O_ATTRIBUTION, O_PER_STEP, O_CHECK, O_THREADS };

static const struct option_spec specs[] = {
    {"meta", 'm', true, O_META},           {"steps", 0, true, O_STEPS}, {"json", 0, true, O_JSON}, {"attribution", 0, true, O_ATTRIBUTION},
    {"per-step", 0, false, O_PER_STEP},    {"check", 0, false, O_CHECK}, {"threads", 'j', true, O_THREADS}, {NULL, 0, false, 0}};

int analyze_main(int argc, char **argv);

int analyze_main(int argc, char **argv) {
    struct hm_trace_options topt = {.progress = progress_bar};
    struct hm_analysis_options aopt = {.progress = progress_bar};
    const char *json = NULL;
    struct options o;
    const struct command *self = commands;
    while (strcmp(self->name, "analyze") != 0) self++;
    options_begin(&o, self, specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        if (id == OPTION_BAD) return EXIT_UNUSABLE;
        if (id == OPTION_HELP) return EXIT_DONE;
        long n;
        switch (id) {
        case O_META: topt.metadata = o.value; break;
        case O_STEPS: topt.steps = o.value; break;
        case O_JSON: json = o.value; break;
        case O_ATTRIBUTION: aopt.attribution = strcmp(o.value, "paper") == 0 ? HM_ATTRIBUTION_PAPER : HM_ATTRIBUTION_EXACT; break;
        case O_PER_STEP: aopt.per_step = true; break;
        case O_THREADS:
            if (!option_integer(&o, "-j", 1, 256, &n)) return EXIT_UNUSABLE;
            topt.threads = aopt.threads = (int)n;
            break;
        default: break;
        }
    }
    struct hm_error err = {0};
    struct hm_trace *t = hm_trace_open(argv[1], &topt, &err);
    if (!t) return complain(&err);
    struct hm_analysis *a = hm_analyze(t, &aopt, &err);
    hm_trace_free(t);
    if (!a) return complain(&err);
    int status = 0;
    struct hm_out *out = hm_out_open(json ? json : "-", &err);
    if (!out) return complain(&err);
    hm_analysis_write_json(a, NULL, out);
    if (hm_out_commit(out, &err) != 0) status = complain(&err);
    hm_analysis_free(a);
    return status;
}
