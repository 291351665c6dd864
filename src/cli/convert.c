/* convert.c - `hindmost convert`: any readable input to the op table or to a timeline. */
#include "cli.h"
#include "hindmost/convert.h"
#include "hindmost/series.h"
#include "hindmost/timeline.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { O_OUTPUT = 1, O_META, O_STEPS, O_IDEAL, O_FLOAT32, O_THREADS, O_PATTERN };

static const struct option_spec specs[] = {{"output", 'o', true, O_OUTPUT},  {"meta", 'm', true, O_META},
                                           {"steps", 0, true, O_STEPS},      {"ideal", 0, false, O_IDEAL},
                                           {"float32", 0, false, O_FLOAT32}, {"threads", 'j', true, O_THREADS},
                                           {"pattern", 0, true, O_PATTERN},  {NULL, 0, false, 0}};

const char convert_help[] =
    "usage: hindmost convert INPUT... -o OUT [options]\n\n"
    "Copies traces to one op table (OUT ends in .parquet or .csv), all rows as they are, or draws a timeline that\n"
    "Perfetto (ui.perfetto.dev) opens (OUT ends in .json.gz or .json).\n"
    "Of a log that prints times of ranks it makes the least table: rank, step, seconds (.csv).\n\n"
    "  -o, --output OUT          the file to write\n"
    "      --float32             a table with times in single precision\n"
    "      --ideal               a timeline of the replay with ideal durations instead of the recording\n"
    "      --steps 12,20-23      a timeline of these steps only\n"
    "  -m, --meta FILE.yaml      layout of the job, for a timeline (default: inferred from the trace)\n"
    "      --pattern REGEX       the lines of a log, as for 'hindmost analyze'\n"
    "  -j, --threads N           threads (default: all cores)\n";

struct conversion {
    const char *output, *pattern;
    struct hm_trace_options open;
    bool ideal, float32;
};

static int draw(const char *input, const struct conversion *c, struct hm_error *err) {
    struct hm_trace *trace = hm_trace_open(input, &c->open, err);
    int status = trace ? hm_timeline_write(trace, c->ideal, c->output, err) : -1;
    hm_trace_free(trace);
    return status;
}

/* A timeline of several files: they become one table first, beside the output. */
static int join_and_draw(const char *const *inputs, size_t n, const struct conversion *c, struct hm_error *err) {
    size_t size = strlen(c->output) + 40;
    char *joined = malloc(size);
    if (!joined) return hm_fail(err, HM_ERR_MEMORY, "out of memory");
    snprintf(joined, size, "%s.tmp.%ld.parquet", c->output, (long)getpid());
    int status = hm_convert(inputs, n, joined, false, c->open.threads, err);
    if (status == 0) {
        status = draw(joined, c, err);
        unlink(joined);
    }
    free(joined);
    return status;
}

/* A log of step times: the least table of ranks and steps. */
static int convert_log(const char *const *inputs, size_t n, const struct conversion *c, struct hm_error *err) {
    if (!hm_ends_with(c->output, ".csv"))
        return hm_fail(err, HM_ERR_ARGUMENT, "%s: of a log only a table is made; give a name that ends in .csv",
                       c->output);
    struct hm_series_options options = {.pattern = c->pattern};
    struct hm_series *s = hm_series_read(inputs, n, &options, err);
    int status = s ? hm_series_write_table(s, c->output, err) : -1;
    hm_series_free(s);
    return status;
}

int convert_main(int argc, char **argv) {
    struct conversion c = {.open = {.progress = progress_bar}};
    struct options o;
    options_begin(&o, command_named("convert"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        long n;
        switch (id) {
        case OPTION_BAD:
            return EXIT_UNUSABLE;
        case OPTION_HELP:
            return EXIT_DONE;
        case O_OUTPUT:
            c.output = o.value;
            break;
        case O_META:
            c.open.metadata = o.value;
            break;
        case O_STEPS:
            c.open.steps = o.value;
            break;
        case O_IDEAL:
            c.ideal = true;
            break;
        case O_FLOAT32:
            c.float32 = true;
            break;
        case O_THREADS:
            if (!option_integer(&o, "--threads", 1, 256, &n)) return EXIT_UNUSABLE;
            c.open.threads = (int)n;
            break;
        case O_PATTERN:
            c.pattern = o.value;
            break;
        default:
            break;
        }
    }
    if (o.inputs < 1) return complain_text("convert needs at least one trace; see 'hindmost help convert'");
    if (!c.output) return complain_text("convert needs -o OUT, a name that ends in .parquet, .csv or .json.gz");
    bool table = hm_ends_with(c.output, ".parquet") || hm_ends_with(c.output, ".csv");
    if (!table && !hm_ends_with(c.output, ".json") && !hm_ends_with(c.output, ".json.gz"))
        return complain_text("%s: cannot tell the format; give a name that ends in .parquet, .csv or .json.gz",
                             c.output);
    if (table && (c.ideal || c.open.steps || c.open.metadata))
        return complain_text("--ideal, --steps and --meta are for timelines; a table is copied whole");
    if (!table && c.float32) return complain_text("--float32 is for tables");
    const char *const *inputs = (const char *const *)(argv + 1);
    struct hm_error err = {0};
    int status;
    if (c.pattern || hm_series_detect(inputs[0]))
        status = convert_log(inputs, (size_t)o.inputs, &c, &err);
    else if (table)
        status = hm_convert(inputs, (size_t)o.inputs, c.output, c.float32, c.open.threads, &err);
    else if (o.inputs == 1)
        status = draw(argv[1], &c, &err);
    else
        status = join_and_draw(inputs, (size_t)o.inputs, &c, &err);
    return status == 0 ? EXIT_DONE : complain(&err);
}
