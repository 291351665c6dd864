/* convert.c - `hindmost convert`: any readable input to the op table or to a timeline. */
#include "cli.h"
#include "hindmost/convert.h"
#include "hindmost/series.h"
#include "hindmost/timeline.h"

#include <string.h>

struct conversion {
    const char *output, *pattern, *as; /* as: NULL, ops or timeline */
    struct hm_trace_options open;
    bool ideal, float32;
};

#define FIELD(name) offsetof(struct conversion, name)
static const struct option options[] = {
    {"output", 'o', "OUT", "the file to write; - is standard output (a table: CSV)", OPTION_OUTPUT, FIELD(output), 0, 0,
     NULL},
    {"as", 0, "KIND", "ops (a table) or timeline, where OUT does not say it", OPTION_TEXT, FIELD(as), 0, 0, NULL},
    {"float32", 0, NULL, "a table with times in single precision", OPTION_FLAG, FIELD(float32), 0, 0, NULL},
    {"ideal", 0, NULL, "a timeline of the replay with ideal durations instead of the recording", OPTION_FLAG,
     FIELD(ideal), 0, 0, NULL},
    {"steps", 0, "12,20-23", "a timeline of these steps only", OPTION_TEXT, FIELD(open.steps), 0, 0, NULL},
    {"meta", 'm', "FILE.yaml", "layout of the job, for a timeline (default: inferred from the trace)", OPTION_TEXT,
     FIELD(open.metadata), 0, 0, NULL},
    {"pattern", 0, "REGEX", "the lines of a log, as for 'hindmost analyze'", OPTION_TEXT, FIELD(pattern), 0, 0, NULL},
    OPTION_THREADS(struct conversion, open.threads),
    {NULL, 0, NULL, NULL, OPTION_FLAG, 0, 0, 0, NULL}};

const struct usage convert_usage = {
    "TRACE... -o OUT [options]",
    "Copies traces to one op table (OUT ends in .parquet or .csv), all rows as they are, or draws a timeline that\n"
    "Perfetto (ui.perfetto.dev) opens (OUT ends in .json.gz or .json).\n"
    "Of a log that prints times of ranks it makes the least table: rank, step, seconds (.csv).\n",
    TRACE_ARGUMENT, options, NULL};

/* A timeline; several files are parts of one recording. */
static int draw(const char *const *inputs, size_t n, const struct conversion *c, struct hm_error *err) {
    struct hm_trace *trace = hm_trace_open_files(inputs, n, &c->open, err);
    int status = trace ? hm_timeline_write(trace, c->ideal, c->output, err) : -1;
    hm_trace_free(trace);
    return status;
}

/* A table unless the name or --as says otherwise; devices and standard output have no telling name. */
static bool is_table(const struct conversion *c) {
    if (c->as) return strcmp(c->as, "ops") == 0;
    return strcmp(c->output, "-") == 0 || strncmp(c->output, "/dev/", 5) == 0 || hm_ends_with(c->output, ".parquet") ||
           hm_ends_with(c->output, ".csv");
}

/* What the options ask for; false after printing why it cannot be. */
static bool makes_sense(const struct conversion *c, int inputs, bool *table) {
    if (inputs < 1) return complain_text("convert needs at least one trace; see 'hindmost help convert'"), false;
    if (!c->output) return complain_text("convert needs -o OUT, a name that ends in .parquet, .csv or .json.gz"), false;
    if (c->as && strcmp(c->as, "ops") != 0 && strcmp(c->as, "timeline") != 0)
        return complain_text("--as %s: give ops or timeline", c->as), false;
    *table = is_table(c);
    if (!*table && !c->as && !hm_ends_with(c->output, ".json") && !hm_ends_with(c->output, ".json.gz"))
        return complain_text("%s: cannot tell the format; give a name that ends in .parquet, .csv or .json.gz",
                             c->output),
               false;
    if (*table && (c->ideal || c->open.steps || c->open.metadata))
        return complain_text("--ideal, --steps and --meta are for timelines; a table is copied whole"), false;
    if (!*table && c->float32) return complain_text("--float32 is for tables"), false;
    return true;
}

/* A log of step times: the least table of ranks and steps. */
static int convert_log(const char *const *inputs, size_t n, const struct conversion *c, struct hm_error *err) {
    if (!hm_ends_with(c->output, ".csv"))
        return hm_fail(err, HM_ERR_ARGUMENT, "%s: of a log only a table is made; give a name that ends in .csv",
                       c->output);
    struct hm_series_options as = {.pattern = c->pattern};
    struct hm_series *s = hm_series_read(inputs, n, &as, err);
    int status = s ? hm_series_write_table(s, c->output, err) : -1;
    hm_series_free(s);
    return status;
}

int convert_main(int argc, char **argv) {
    struct conversion c = {.open = {.progress = progress_bar}};
    struct hm_error err = {0};
    bool table;
    int n = 0, status = options_read(command_named("convert"), &c, argc, argv, &n);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    if (!makes_sense(&c, n, &table)) return EXIT_UNUSABLE;
    const char *const *inputs = (const char *const *)argv + 1;
    bool log = c.pattern || hm_series_detect(inputs[0]);
    status = log     ? convert_log(inputs, (size_t)n, &c, &err)
             : table ? hm_convert(inputs, (size_t)n, c.output, c.float32, c.open.threads, &err)
                     : draw(inputs, (size_t)n, &c, &err);
    return status == 0 ? EXIT_DONE : complain(&err);
}
