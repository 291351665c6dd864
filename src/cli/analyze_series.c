/* analyze_series.c - `hindmost analyze` of a log: step times, and ranks where the log has them. */
#include "analyze_series.h"
#include "hindmost/hindmost.h"
#include "hindmost/series.h"

#include <string.h>

static int write_json(const struct hm_series *s, const char *path, struct hm_error *err) {
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    hm_series_write_json(s, out);
    return hm_out_commit(out, err);
}

static int report(const struct series_request *q, const struct hm_series *s) {
    struct hm_error err = {0};
    if (q->json && write_json(s, q->json, &err) != 0) return complain(&err);
    if (q->heatmap && hm_series_heatmap(s, q->heatmap, &err) != 0) return complain(&err);
    if (!q->json || strcmp(q->json, "-") != 0) {
        char *text = hm_series_text(s);
        int status = text ? print_text(text) : complain_text("out of memory while writing the report");
        hm_text_free(text);
        if (status != EXIT_DONE) return status;
    }
    double slowdown = q->check ? hm_series_slowdown(s) : 1;
    return slowdown >= 1.2 ? EXIT_CRITICAL : slowdown >= 1.1 ? EXIT_WARN : EXIT_DONE;
}

int analyze_series(const struct series_request *q) {
    if (q->other)
        return complain_text("%s: a log has step times only; %s needs single ops, which a profile or an op table has",
                             q->paths[0], q->other);
    struct hm_error err = {0};
    struct hm_series_options options = {.pattern = q->pattern};
    struct hm_series *s = hm_series_read(q->paths, q->n, &options, &err);
    int status = s ? report(q, s) : complain(&err);
    hm_series_free(s);
    return status;
}
