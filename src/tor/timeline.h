/* timeline.h - what the log readers find: spans of known activity and moments, to be laid out by measure.c. */
#ifndef HM_TOR_TIMELINE_H
#define HM_TOR_TIMELINE_H

#include "base/megatron_log.h"
#include "tor.h"

/* In the order of their claim on time that several cover. A queue's claim is the last: a job of a chain waits while its predecessor runs. */
enum span_kind {
    SPAN_SAVE,
    SPAN_STEP,
    SPAN_LOAD,
    SPAN_REPAIR,
    SPAN_DETECTION,
    SPAN_WAIT,
    SPAN_RUNNING,
    SPAN_QUEUE,
    SPAN_KINDS
};

struct span {
    double from, until; /* seconds of the epoch */
    enum span_kind kind;
    int64_t step;
    bool kept;
};

/* STOP: an attempt ended as it was bound to (a time limit, a preemption): no failure, yet only what was saved survives. */
enum moment_kind {
    MOMENT_FAILURE,
    MOMENT_DETECTED,
    MOMENT_STOP,
    MOMENT_END,
    MOMENT_START
}; /* their order at the same time */
struct moment {
    double time;
    enum moment_kind kind;
    bool inferred;  /* a START that only iterations tell of; one on record between `since` and `time` replaces it */
    double since;   /* of an inferred one: when the attempt before it was last seen */
    bool has_steps; /* of a START: steps end before the next one */
};

/* The clock of one file. */
struct log_clock {
    const struct hm_zone *zone; /* for times that say none; NULL: UTC */
    double last;                /* the latest time read; -INFINITY before */
};

struct megatron; /* what Megatron-LM's logs said, of all files: laid out once all are read */

struct timeline {
    struct span *span;
    size_t n_spans, span_capacity;
    struct moment *moment;
    size_t n_moments, moment_capacity;
    struct megatron *megatron;
    bool failed; /* out of memory */
    /* for the notes */
    size_t out_of_order, bad_lines, repeated, unknown_zones, clock_changes, unstamped;
    bool has_steps;
    double still_running; /* since when a job runs that has not ended; INFINITY: none */
};

void hm_timeline_span(struct timeline *t, enum span_kind kind, double from, double until, int64_t step);
/* `time` of a kind; for an inferred START, since when (else -INFINITY). */
void hm_timeline_moment(struct timeline *t, enum moment_kind kind, double time);
void hm_timeline_inferred_start(struct timeline *t, double since, double time);
/* Sorts all by time and drops what was read twice: a file given again, several ranks that print the same. */
void hm_timeline_settle(struct timeline *t);
void hm_timeline_free(struct timeline *t);

/* The absolute time of a stamp by a file's clock. When a time happens twice, the first that does not go back. */
bool hm_log_time(struct timeline *t, struct log_clock *clock, const struct hm_stamp *stamp, double *time);
/* A moment as text: seconds of the epoch or a date and time. False if it is none; a time beyond any calendar (milliseconds for seconds)
 * fills err, which ends the reading. */
bool hm_log_moment(struct timeline *t, struct log_clock *clock, const char *text, double *time, struct hm_error *err);
bool hm_log_sane(double time, struct hm_error *err);

/* ---- readers: one line each. Lines that cannot be read are counted, not fatal; absurd times are (-1). ---- */
int hm_tor_read_event(struct timeline *t, struct log_clock *clock, const char *line, struct hm_error *err);

struct sacct {
    int column[6]; /* -1: not there */
    bool known, fixed;
    size_t from[64], until[64]; /* of a table with fixed columns */
    size_t columns;
    char above[1024]; /* the line before: of a fixed table the header stands above the dashes */
};
/* Whether the line is a header of sacct's output: what follows are its rows. */
bool hm_sacct_header(struct sacct *s, const char *line);
int hm_sacct_row(struct timeline *t, struct sacct *s, struct log_clock *clock, char *line, struct hm_error *err);

/* What a trainer of DLRover has begun and not ended, of one file. */
struct dlrover {
    char pid[64];
    struct {
        char id[32]; /* "": free */
        double from;
        enum span_kind kind;
    } open[16];
};
/* Whether the line is one of DLRover's events; *status is -1 on an absurd time. */
bool hm_dlrover_line(struct timeline *t, struct dlrover *d, struct log_clock *clock, const char *line, int *status,
                     struct hm_error *err);

/* Begins a further file; reads a line of it; lays out all files. */
int hm_megatron_file(struct timeline *t);
void hm_megatron_line(struct timeline *t, struct log_clock *clock, char *line);
/* How many lines of this file said something. */
size_t hm_megatron_lines(const struct timeline *t);
int hm_megatron_lay_out(struct timeline *t, struct hm_error *err);
void hm_megatron_free(struct megatron *m);

/* A file of any kind. */
int hm_tor_read_log(struct timeline *t, const char *path, const struct hm_zone *zone, struct hm_error *err);

#endif
