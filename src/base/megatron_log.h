/* megatron_log.h - what a line of Megatron-LM's training log says, and moments as logs write them. */
#ifndef HM_BASE_MEGATRON_LOG_H
#define HM_BASE_MEGATRON_LOG_H

#include "base.h"

enum hm_megatron_kind {
    HM_MEGATRON_OTHER,      /* nothing of interest */
    HM_MEGATRON_ITERATION,  /* "[TIME] iteration 5/ 100 | ... elapsed time per iteration (ms): 812.3 | ..." */
    HM_MEGATRON_SAVING,     /* "saving checkpoint at iteration 100" */
    HM_MEGATRON_LOADING,    /* a checkpoint is being loaded, or was */
    HM_MEGATRON_SAVE_TIMER, /* "save-checkpoint ....: (812.0, 815.5)" */
    HM_MEGATRON_LOAD_TIMER  /* "load-checkpoint ....: ..." */
};

struct hm_megatron_line {
    enum hm_megatron_kind kind;
    int64_t iteration; /* ITERATION, SAVING */
    int64_t total;     /* ITERATION: iterations planned */
    double time;       /* ITERATION: end of it, seconds of the epoch; NaN without a time stamp (some print none) */
    double elapsed_ms; /* ITERATION: of each since the last line; the timers: the slowest rank's; -1: unreadable */
};

/* Returns line->kind. The text needs no newline at its end. */
enum hm_megatron_kind hm_megatron_parse(const char *text, struct hm_megatron_line *line);
/* The slowest rank's time in ms of "NAME ....: (LEAST, MOST)" or "NAME ....: TIME"; -1 if the text has none. */
double hm_megatron_timer_ms(const char *text, const char *name);

/* "2026-08-22T10:00:00.5Z", "2026-08-22 10:00:00" (UTC, unless +HH:MM follows) or seconds of the epoch. */
bool hm_parse_moment(const char *text, double *time);

#endif
