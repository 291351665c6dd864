/* sweep.c - `hindmost sweep`: tests this node. */
#include "cli.h"
#include "hindmost/node.h"

#include <stdlib.h>
#include <string.h>

enum { O_JSON = 1, O_RESULTS, O_BASELINE, O_HISTORY, O_BUDGET, O_NODE, O_CLASS, O_FOLDER, O_THREADS };

static const struct option_spec specs[] = {{"json", 0, WRITES, O_JSON},         {"results", 'o', true, O_RESULTS},
                                           {"baseline", 'b', true, O_BASELINE}, {"history", 0, true, O_HISTORY},
                                           {"budget", 't', true, O_BUDGET},     {"node", 0, true, O_NODE},
                                           {"class", 0, true, O_CLASS},         {"folder", 0, true, O_FOLDER},
                                           {"threads", 'j', true, O_THREADS},   {NULL, 0, false, 0}};

const char sweep_help[] =
    "usage: hindmost sweep [options]\n\n"
    "Tests this node: sustained GEMM with a bit-exact repeat check (CPU, and each GPU), memory and device bandwidth, "
    "cache and\n"
    "core-to-core latency, disk; with clocks, temperature and throttling watched. Parts that are not there are "
    "absent.\n\n"
    "  -t, --budget TIME       wall time: 2min (default), 20min, 2h, or any from 1s; what does not fit is\n"
    "                          shortened or left out, and says so\n"
    "  -b, --baseline FILE     judge by these (JSON metric -> value; node judge --learn makes them from a fleet)\n"
    "      --history FILE      without a baseline: judge by this node's own earlier sweeps here, then append this one\n"
    "  -o, --results FILE      append the results as a JSON line in SuperBench's naming, for node judge\n"
    "      --json FILE         the verdict as JSON; - is standard output\n"
    "      --node NAME --class CLASS   default: the host's name; no class\n"
    "      --folder DIR        where the disk test writes 64 MB (default /tmp)\n"
    "  -j, --threads N         threads (default: all cores)\n\n"
    "Exit status: 0 pass; 1 warning, or nothing to judge by yet; 2 fail; 3 the sweep could not run.\n";

/* "90", "90s", "2min", "2m", "2h" in seconds; 0 if it is none. */
static double duration(const char *text) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
    char *end;
    double v = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0) return v * units[i].seconds;
    return 0;
}

static int write_file(const struct hm_sweep *s, const char *path,
                      void (*write)(const struct hm_sweep *, struct hm_out *)) {
    struct hm_error err = {0};
    struct hm_out *out = hm_out_open(path, &err);
    if (out) write(s, out);
    return out && hm_out_commit(out, &err) == 0 ? EXIT_DONE : complain(&err);
}

int sweep_main(int argc, char **argv) {
    struct hm_sweep_options sweep = {.budget_s = 120, .progress = progress_bar};
    const char *json = NULL, *results = NULL;
    struct options o;
    long threads;
    options_begin(&o, command_named("sweep"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        switch (id) {
        case OPTION_BAD:
            return EXIT_UNUSABLE;
        case OPTION_HELP:
            return EXIT_DONE;
        case O_JSON:
            json = o.value;
            break;
        case O_RESULTS:
            results = o.value;
            break;
        case O_BASELINE:
            sweep.baseline = o.value;
            break;
        case O_HISTORY:
            sweep.history = o.value;
            break;
        case O_BUDGET:
            sweep.budget_s = duration(o.value);
            if (!(sweep.budget_s >= 1 && sweep.budget_s <= 86400))
                return complain_text("--budget %s: give a time from 1s to 24h, such as 2min", o.value);
            break;
        case O_NODE:
            sweep.node = o.value;
            break;
        case O_CLASS:
            sweep.class_name = o.value;
            break;
        case O_FOLDER:
            sweep.folder = o.value;
            break;
        default:
            if (!option_integer(&o, "--threads", 1, 1024, &threads)) return EXIT_UNUSABLE;
            sweep.threads = (int)threads;
        }
    }
    if (o.inputs != 0) return complain_text("sweep takes no file, not %d; see 'hindmost help sweep'", o.inputs);
    struct hm_error err = {0};
    struct hm_sweep *s = hm_sweep_run(&sweep, &err);
    progress_clear();
    if (!s) return complain(&err);
    int status = EXIT_DONE;
    if (sweep.history && hm_sweep_append(s, sweep.history, &err) != 0) status = complain(&err);
    if (status == EXIT_DONE && results && hm_sweep_append(s, results, &err) != 0) status = complain(&err);
    if (status == EXIT_DONE && json) status = write_file(s, json, hm_sweep_write_json);
    if (status == EXIT_DONE && !(json && strcmp(json, "-") == 0)) status = write_file(s, "-", hm_sweep_write_text);
    static const int by_verdict[] = {
        [HM_PASS] = EXIT_DONE, [HM_WARN] = EXIT_WARN, [HM_FAIL] = EXIT_CRITICAL, [HM_UNKNOWN] = EXIT_WARN};
    if (status == EXIT_DONE) status = by_verdict[hm_sweep_verdict(s)];
    hm_sweep_free(s);
    return status;
}
