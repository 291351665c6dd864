/* series.h - step times from logs: what the reader collects before it is laid out. */
#ifndef HM_SERIES_H
#define HM_SERIES_H

#include "base/base.h"
#include "hindmost/series.h"

/* A single step is slow from here on: peers warn at 1.2 (Guard, Relax). */
#define HM_SLOW_STEP 1.2

/* One number of one rank in one step. */
struct rank_time {
    size_t place; /* in the series */
    int rank, timer;
    double seconds;
};

enum { MOST_TIMERS = 64 };

struct collected {
    struct hm_series *s;
    size_t capacity; /* of the series' arrays */
    struct rank_time *time;
    size_t n_times, time_capacity;
    char timer[MOST_TIMERS][64];
    int n_timers;
    struct spread_time { /* "(min, max)" of a timer in a step */
        size_t place;
        int timer;
        double low, high;
    } * spread;
    size_t n_spreads, spread_capacity;
    struct report_rank {
        int rank;
        bool lowest;
        double ratio;
    } * report;
    size_t n_reports, report_capacity;
    int64_t interval, world, pipeline; /* of Megatron's arguments; 0: not seen */
};

/* Adds a step's time; `interval` steps stand for one line (0: what the numbers say). 0, or -1 without memory. */
int collect_step(struct collected *c, int64_t step, double seconds, struct hm_error *err);
int collect_rank(struct collected *c, size_t place, int rank, int timer, double seconds, struct hm_error *err);
/* The number of a timer's name; -1: there are too many. */
int collect_timer(struct collected *c, const char *name);

int read_megatron(struct collected *c, const char *path, struct hm_error *err);
int read_pattern(struct collected *c, const char *path, int rank, const char *pattern, struct hm_error *err);

/* What the ranks' times say. */
int judge_ranks(struct collected *c, struct hm_error *err);

int series_add_line(char ***lines, size_t *n, char *line, struct hm_error *err);

/* Lines of a file, plain or gzip; longer ones than LONGEST_LINE are passed over. */
enum { LONGEST_LINE = 1 << 16 };
struct lines;
struct lines *lines_open(const char *path, struct hm_error *err);
/* The next line without its end, NULL at the end of the file (or on a damaged one: see lines_close). */
char *lines_next(struct lines *l);
int lines_close(struct lines *l, const char *path, struct hm_error *err);

#endif
