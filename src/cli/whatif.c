/* whatif.c - `hindmost whatif`: one replay of your own. */
#include "cli.h"
#include "hindmost/hindmost.h"

#include <stdlib.h>
#include <string.h>

enum { O_META = 1, O_STEPS, O_SET, O_FROM, O_JSON, O_THREADS };

static const struct option_spec specs[] = {{"meta", 'm', true, O_META}, {"steps", 0, true, O_STEPS},
                                           {"set", 's', true, O_SET},   {"from", 0, true, O_FROM},
                                           {"json", 0, true, O_JSON},   {"threads", 'j', true, O_THREADS},
                                           {NULL, 0, false, 0}};

const char whatif_help[] =
    "usage: hindmost whatif TRACE --set SELECTOR=VALUE [options]\n\n"
    "Replays the job with other durations; prints the mean step time before and after, and the ratio.\n\n"
    "  -s, --set SELECTOR=VALUE  repeatable, applied in order. SELECTOR: comma-separated type:NAME, stage:N, dp:A-B,\n"
    "                            step:A-B, mb:A-B, or all. NAME: an op type, or compute, p2p, dp, comm.\n"
    "                            VALUE: ideal, original, a factor (x0.5), or a time (0.15s, 20ms)\n"
    "      --from WHAT           original (default) or ideal durations to begin with\n"
    "  -m, --meta FILE.yaml      layout of the job (default: inferred from the trace)\n"
    "      --steps 12,20-23      only these steps\n"
    "      --json FILE           the result as JSON; - is standard output\n"
    "  -j, --threads N           threads (default: all cores)\n\n"
    "Communication values are transfer durations: from the latest start in the group to the end.\n";

int whatif_main(int argc, char **argv) {
    struct hm_trace_options open = {.progress = progress_bar};
    const char *json = NULL, **changes = calloc((size_t)argc, sizeof *changes);
    size_t n = 0;
    bool from_ideal = false;
    struct options o;
    if (!changes) return complain_text("out of memory");
    int status = EXIT_DONE;
    options_begin(&o, command_named("whatif"), specs, argc, argv);
    for (int id; status == EXIT_DONE && (id = options_next(&o)) != OPTION_END;) {
        long threads;
        switch (id) {
        case OPTION_BAD:
            status = EXIT_UNUSABLE;
            break;
        case OPTION_HELP:
            free(changes);
            return EXIT_DONE;
        case O_META:
            open.metadata = o.value;
            break;
        case O_STEPS:
            open.steps = o.value;
            break;
        case O_JSON:
            json = o.value;
            break;
        case O_SET:
            changes[n++] = o.value;
            break;
        case O_FROM:
            from_ideal = strcmp(o.value, "ideal") == 0;
            if (!from_ideal && strcmp(o.value, "original") != 0)
                status = complain_text("--from %s: give original or ideal", o.value);
            break;
        case O_THREADS:
            if (option_integer(&o, "--threads", 1, 256, &threads))
                open.threads = (int)threads;
            else
                status = EXIT_UNUSABLE;
            break;
        default:
            break;
        }
    }
    if (status == EXIT_DONE && o.inputs != 1)
        status = complain_text("whatif takes one trace, not %d; see 'hindmost help whatif'", o.inputs);
    if (status == EXIT_DONE && n == 0)
        status = complain_text("whatif needs at least one --set SELECTOR=VALUE; see 'hindmost help whatif'");
    if (status == EXIT_DONE) {
        struct hm_error err = {0};
        struct hm_whatif_result r = {0};
        struct hm_trace *trace = hm_trace_open(argv[1], &open, &err);
        if (!trace || hm_whatif(trace, from_ideal, changes, n, open.threads, &r, &err) != 0) {
            status = complain(&err);
        } else if (json) {
            struct hm_out *out = hm_out_open(json, &err);
            if (out) hm_whatif_write_json(&r, out);
            if (!out || hm_out_commit(out, &err) != 0) status = complain(&err);
        }
        if (status == EXIT_DONE && !(json && strcmp(json, "-") == 0))
            printf("step time %.6g s -> %.6g s: %.4f times as fast\n", r.baseline_s, r.result_s, r.speedup);
        hm_trace_free(trace);
    }
    free(changes);
    return status;
}
