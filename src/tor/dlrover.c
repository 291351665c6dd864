/* dlrover.c - the event logs of DLRover's trainers (dlrover/python/training_event): a line an event,
 *   [2025-04-21T23:31:09.074419] [pid] [id] [AtorchTrainerV2] [#step] [BEGIN] {"global_step": 177018, ...}
 * BEGIN and END of one thing have the same id. */
#include "timeline.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum span_kind kind;
} known[] = {{"#step", SPAN_STEP}, {"#save", SPAN_SAVE},      {"#save_ckpt", SPAN_SAVE},
             {"#load", SPAN_LOAD}, {"#load_ckpt", SPAN_LOAD}, {"#resume", SPAN_LOAD}};

/* Splits "[a] [b] ..." into the six fields; the rest (JSON, or "") stands in *rest. */
static bool split(const char *line, char field[6][64], const char **rest) {
    for (int k = 0; k < 6; k++) {
        line += strspn(line, " \t");
        size_t n = strcspn(line, "]");
        if (*line != '[' || !line[n] || n > sizeof field[0]) return false;
        memcpy(field[k], line + 1, n - 1);
        field[k][n - 1] = 0;
        line += n + 1;
    }
    *rest = line + strspn(line, " \t");
    return strcmp(field[5], "BEGIN") == 0 || strcmp(field[5], "END") == 0 || strcmp(field[5], "INSTANT") == 0;
}

static int64_t step_of(const char *json) {
    json_t *o = json_loads(json, 0, NULL);
    const json_t *step = json_object_get(o, "global_step");
    int64_t number = json_is_integer(step) ? json_integer_value(step) : -1;
    json_decref(o);
    return number;
}

static void begin(struct dlrover *d, const char *id, enum span_kind kind, double time) {
    size_t oldest = 0;
    for (size_t k = 1; k < sizeof d->open / sizeof d->open[0]; k++)
        if (!d->open[k].id[0] || (d->open[oldest].id[0] && d->open[k].from < d->open[oldest].from)) oldest = k;
    (void)snprintf(d->open[oldest].id, sizeof d->open[0].id, "%.*s", (int)sizeof d->open[0].id - 1, id);
    d->open[oldest].from = time;
    d->open[oldest].kind = kind;
}

static void end(struct timeline *t, struct dlrover *d, const char *id, enum span_kind kind, double time, int64_t step) {
    for (size_t k = 0; k < sizeof d->open / sizeof d->open[0]; k++) {
        if (strcmp(d->open[k].id, id) != 0 || d->open[k].kind != kind || !d->open[k].id[0]) continue;
        d->open[k].id[0] = 0;
        if (time >= d->open[k].from && (step >= 0 || kind == SPAN_LOAD))
            hm_timeline_span(t, kind, d->open[k].from, time, step);
        return;
    }
}

bool hm_dlrover_line(struct timeline *t, struct dlrover *d, struct log_clock *clock, const char *line, int *status,
                     struct hm_error *err) {
    char field[6][64];
    const char *rest;
    double time;
    struct hm_error absurd = {0};
    *status = 0;
    if (line[0] != '[' || !split(line, field, &rest)) return false;
    if (!hm_log_moment(t, clock, field[0], &time, &absurd)) {
        if (absurd.code != HM_OK) *status = hm_fail(err, absurd.code, "%s", absurd.message);
        t->bad_lines++;
        return true;
    }
    double last = clock->last;
    clock->last = fmax(last, time);
    if (d->pid[0] && strcmp(d->pid, field[1]) != 0 &&
        isfinite(last)) /* another process: the trainer was started again */
        hm_timeline_inferred_start(t, last, time);
    memcpy(d->pid, field[1], sizeof d->pid);
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        if (strcmp(field[4], known[k].name) != 0) continue;
        if (strcmp(field[5], "BEGIN") == 0) begin(d, field[2], known[k].kind, time);
        if (strcmp(field[5], "END") == 0) end(t, d, field[2], known[k].kind, time, step_of(rest));
    }
    return true;
}
