/* analyze_arrivals.c - `hindmost analyze` of profiler traces: who came late. */
#include "analyze_arrivals.h"
#include "hindmost/arrivals.h"
#include "hindmost/report.h"

#include <string.h>

typedef void (*write_fn)(const struct hm_arrivals *a, struct hm_out *out);

static int write_to(const struct hm_arrivals *a, write_fn write, const char *path, struct hm_error *err) {
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    write(a, out);
    return hm_out_commit(out, err);
}

static int report(const struct hm_arrivals *a, const char *json, const char *csv) {
    struct hm_error err = {0};
    if (json && write_to(a, hm_arrivals_write_json, json, &err) != 0) return complain(&err);
    if (csv && write_to(a, hm_arrivals_write_csv, csv, &err) != 0) return complain(&err);
    if ((json && strcmp(json, "-") == 0) || (csv && strcmp(csv, "-") == 0)) return EXIT_DONE;
    char *text = hm_arrivals_text(a);
    if (!text) return complain_text("out of memory while writing the report");
    int status = print_text(text);
    hm_text_free(text);
    return status;
}

bool analyze_arrivals(const char *const *paths, size_t n, const struct hm_trace_options *open, bool pictures,
                      const char *json, const char *csv, int *status) {
    struct hm_error err = {0};
    bool other;
    struct hm_arrivals *a = hm_arrivals_read(paths, n, open->format, open->threads, &other, &err);
    if (other) return false;
    if (!a)
        *status = complain(&err);
    else if (pictures || open->steps || open->metadata)
        *status =
            complain_text("%s: is of the PyTorch profiler; only --json and --arrivals are for its traces", paths[0]);
    else
        *status = report(a, json, csv);
    hm_arrivals_free(a);
    return true;
}
