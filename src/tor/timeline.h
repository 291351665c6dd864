/* timeline.h - what the log readers find: spans of known activity and moments, to be laid out by measure.c. */
#ifndef HM_TOR_TIMELINE_H
#define HM_TOR_TIMELINE_H

#include "tor.h"

/* In the order of their claim on time that several cover. */
enum span_kind { SPAN_SAVE, SPAN_STEP, SPAN_LOAD, SPAN_REPAIR, SPAN_DETECTION, SPAN_WAIT, SPAN_RUNNING, SPAN_KINDS };

struct span {
    double from, until; /* seconds of the epoch */
    enum span_kind kind;
    int64_t step;
    bool kept;
};

enum moment_kind { MOMENT_START, MOMENT_FAILURE, MOMENT_DETECTED, MOMENT_END };
struct moment {
    double time;
    enum moment_kind kind;
};

struct timeline {
    struct span *span;
    size_t n_spans, span_capacity;
    struct moment *moment;
    size_t n_moments, moment_capacity;
    bool failed;
    size_t out_of_order, bad_lines, first_bad_line;
    bool has_steps;
};

void hm_timeline_span(struct timeline *t, enum span_kind kind, double from, double until, int64_t step);
void hm_timeline_moment(struct timeline *t, enum moment_kind kind, double time);

/* Readers, told apart by hm_tor_read_log. Lines that cannot be read are counted, not fatal. */
int hm_tor_read_log(struct timeline *t, const char *path, struct hm_error *err);
void hm_tor_read_events_line(struct timeline *t, const char *line);

#endif
