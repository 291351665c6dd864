/* megatron_log.h - one line of a training job's log: Megatron-LM's iterations, checkpoints and timers, whatever a launcher, a container runtime
 * or a terminal put before and between its words. */
#ifndef HM_BASE_MEGATRON_LOG_H
#define HM_BASE_MEGATRON_LOG_H

#include "base/stamp.h"

enum hm_log_kind {
    HM_LOG_OTHER,
    HM_LOG_ITERATION, /* "iteration  5/ 100 | ... elapsed time per iteration (ms): 812.3": iteration, total, elapsed_s */
    HM_LOG_SAVING,    /* a checkpoint of `iteration` begins to be saved */
    HM_LOG_SAVED,     /* it has been saved */
    HM_LOG_LOADING,   /* a checkpoint is about to be loaded; iteration -1 where the line does not say which */
    HM_LOG_LOADED,    /* it has been loaded */
    HM_LOG_TIMERS,    /* "max time across ranks (ms):" heads a block of timers: scale_s is their unit */
    HM_LOG_TIMER,     /* "save-checkpoint ....: (1.0, 2.0)": name, low, high, in the unit of the block */
    HM_LOG_TIMER_RANK, /* "rank  3: 412.34" below a timer that named no number: rank, high */
    HM_LOG_INTERVAL    /* "log_interval ...... 100" of Megatron's arguments: iteration is the interval */
};
struct hm_log_line {
    enum hm_log_kind kind;
    struct hm_stamp stamp; /* kind NONE: the line has no time */
    int64_t iteration, total;
    double elapsed_s, low, high, scale_s; /* seconds an iteration; a timer's least and most; 1e-3 for (ms), 1 for (s) */
    char name[64];                        /* of a timer */
    int rank; /* as the launcher's prefix has it ("[default7]:", "7: ", "[rank7]:"); -1: none */
};

/* Takes terminal colours and other escape sequences out of a line, and carriage returns; returns its new length. */
size_t hm_log_plain(char *line);
/* Reads a line; its escape sequences are taken out in place. */
void hm_log_read(char *line, struct hm_log_line *out);
/* The number behind `key` in the line ("throughput per GPU (TFLOP/s/GPU): 412.0", "lm loss=1.07E+01"): blanks, dots and a unit in
 * parentheses may stand between, then ":" or "=". *unit (may be NULL) gets the text in the parentheses, cut to 15 characters. */
bool hm_log_field(const char *line, const char *key, double *value, char unit[16]);

#endif
