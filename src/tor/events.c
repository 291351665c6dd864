/* events.c - our event log: a JSON object a line, each with "time" and "event" (docs/tor.md). */
#include "timeline.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static const double TEN_YEARS = 3.2e8;

static bool number_of(const json_t *o, const char *key, double *value) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) return false;
    *value = json_number_value(v);
    return isfinite(*value);
}

static bool moment_of(struct timeline *t, struct log_clock *clock, const json_t *o, double *time,
                      struct hm_error *err) {
    const json_t *v = json_object_get(o, "time");
    double last = clock->last;
    if (json_is_string(v)) {
        if (!hm_log_moment(t, clock, json_string_value(v), time, err)) return false;
    } else if (!number_of(o, "time", time) || *time < 0 || !hm_log_sane(*time, err)) {
        return false;
    }
    t->out_of_order += *time < last - 1e-6;
    clock->last = fmax(last, *time);
    return true;
}

/* One event; false if it cannot be read. */
static bool take(struct timeline *t, struct log_clock *clock, const json_t *o, struct hm_error *err) {
    static const struct {
        const char *event;
        enum span_kind kind;
    } spans[] = {
        {"step", SPAN_STEP}, {"save", SPAN_SAVE}, {"load", SPAN_LOAD}, {"wait", SPAN_WAIT}, {"repair", SPAN_REPAIR}};
    static const struct {
        const char *event;
        enum moment_kind kind;
    } moments[] = {
        {"start", MOMENT_START}, {"failure", MOMENT_FAILURE}, {"detected", MOMENT_DETECTED}, {"end", MOMENT_END}};
    const char *event = json_string_value(json_object_get(o, "event"));
    double time, duration = 0, step = -1;
    if (!event || !moment_of(t, clock, o, &time, err)) return false;
    bool lasts = number_of(o, "duration_s", &duration) && duration >= 0;
    bool numbered = number_of(o, "step", &step) && step >= 0 && step < 9e15;
    for (size_t k = 0; k < sizeof spans / sizeof spans[0]; k++)
        if (strcmp(event, spans[k].event) == 0) {
            if (!lasts || (!numbered && (spans[k].kind == SPAN_STEP || spans[k].kind == SPAN_SAVE))) return false;
            if (duration > TEN_YEARS) {
                hm_fail(err, HM_ERR_INPUT, "a %s of %g s is over ten years; give duration_s in seconds", event,
                        duration);
                return false;
            }
            hm_timeline_span(t, spans[k].kind, time - duration, time, (int64_t)step);
            return true;
        }
    for (size_t k = 0; k < sizeof moments / sizeof moments[0]; k++)
        if (strcmp(event, moments[k].event) == 0) {
            hm_timeline_moment(t, moments[k].kind, time);
            return true;
        }
    return false;
}

int hm_tor_read_event(struct timeline *t, struct log_clock *clock, const char *line, struct hm_error *err) {
    struct hm_error absurd = {0};
    json_t *o = json_loads(line, 0, NULL);
    if (!o || !json_is_object(o) || !take(t, clock, o, &absurd)) t->bad_lines++;
    json_decref(o);
    return absurd.code == HM_OK ? 0 : hm_fail(err, absurd.code, "%s", absurd.message);
}
