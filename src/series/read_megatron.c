/* read_megatron.c - logs of Megatron-LM and Megatron-DeepSpeed: iterations, timers of ranks, straggler reports. Lines are read by
 * base/megatron_log.c, which knows launchers and spellings; here they are brought to their step. */
#include "series.h"

#include "base/megatron_log.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_BACK = 16 };

int collect_timer(struct collected *c, const char *name) {
    for (int k = 0; k < c->n_timers; k++)
        if (strcmp(c->timer[k], name) == 0) return k;
    if (c->n_timers == MOST_TIMERS) return -1;
    (void)snprintf(c->timer[c->n_timers], sizeof c->timer[0], "%s", name);
    return c->n_timers++;
}

static bool grow_series(struct hm_series *s, size_t *capacity) {
    if (s->n < *capacity) return true;
    size_t wanted = *capacity ? 2 * *capacity : 256;
    int64_t *step = hm_realloc(s->step, wanted, sizeof *step);
    if (step) s->step = step;
    double *seconds = step ? hm_realloc(s->seconds, wanted, sizeof *seconds) : NULL;
    if (seconds) s->seconds = seconds;
    int *attempt = seconds ? hm_realloc(s->attempt, wanted, sizeof *attempt) : NULL;
    if (attempt) s->attempt = attempt;
    if (!attempt) return false;
    *capacity = wanted;
    return true;
}

/* The same step again with the same time is another rank's print of it; an earlier step with another time is a restart. */
int collect_step(struct collected *c, int64_t step, double seconds, struct hm_error *err) {
    struct hm_series *s = c->s;
    for (size_t k = 0; k < LOOK_BACK && k < s->n; k++)
        if (s->step[s->n - 1 - k] == step && fabs(s->seconds[s->n - 1 - k] - seconds) <= 1e-3 * seconds) {
            s->repeated++;
            return 0;
        }
    if (s->n > 0 && step <= s->step[s->n - 1]) s->attempts++;
    if (s->n == 0) s->attempts = 1;
    if (!grow_series(s, &c->capacity)) return hm_fail_memory(err);
    s->step[s->n] = step;
    s->seconds[s->n] = seconds;
    s->attempt[s->n++] = (int)s->attempts;
    return 0;
}

int collect_rank(struct collected *c, size_t place, int rank, int timer, double seconds, struct hm_error *err) {
    struct rank_time *grown = hm_grow(c->time, c->n_times, &c->time_capacity, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    c->time = grown;
    c->time[c->n_times++] = (struct rank_time){place, rank, timer, seconds};
    return 0;
}

static int collect_spread(struct collected *c, int timer, double low, double high, struct hm_error *err) {
    struct spread_time *grown = hm_grow(c->spread, c->n_spreads, &c->spread_capacity, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    c->spread = grown;
    c->spread[c->n_spreads++] = (struct spread_time){c->s->n - 1, timer, low, high};
    return 0;
}

/* ---- straggler reports ---- */

static int collect_report(struct collected *c, int rank, bool lowest, double ratio, struct hm_error *err) {
    struct report_rank *grown = hm_grow(c->report, c->n_reports, &c->report_capacity, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    c->report = grown;
    c->report[c->n_reports++] = (struct report_rank){rank, lowest, ratio};
    return 0;
}

/* "MnEtpt/Rnk: 296.02TF/0 | MxEtpt/Rnk: 297.32TF/8" ends a report of megatron/core/utils.py's StragglerDetector; the lists of the
 * bottom ranks follow it. The highest is kept to compare them with. */
static bool read_summary(const char *line, double *highest, struct collected *c, int *status, struct hm_error *err) {
    const char *low = strstr(line, "MnEtpt/Rnk:"), *high = strstr(line, "MxEtpt/Rnk:");
    double lowest;
    int rank;
    if (!low || !high || sscanf(low + 11, " %lfTF/%d", &lowest, &rank) != 2 ||
        sscanf(high + 11, " %lfTF", highest) != 1)
        return false;
    if (!(lowest >= 0 && *highest > 0) || rank < 0) return true;
    c->s->reports++;
    *status = collect_report(c, rank, true, lowest / *highest, err);
    return true;
}

/* "^^^^ Bottom 4 Ranks with lowest  Etpt(TF): 296.02/0, 296.17/2": the first is the summary's. */
static bool read_bottom(const char *line, double highest, struct collected *c, int *status, struct hm_error *err) {
    const char *at = strstr(line, "Ranks with lowest");
    at = at && strstr(line, "Bottom") ? strchr(at, ':') : NULL;
    if (!at) return false;
    for (size_t k = 0; *status == 0 && at; k++) {
        double value;
        int rank;
        if (sscanf(at + 1, " %lf/%d", &value, &rank) != 2) break;
        if (k > 0 && highest > 0 && value >= 0 && rank >= 0)
            *status = collect_report(c, rank, false, value / highest, err);
        at = strchr(at + 1, ',');
    }
    return true;
}

/* ---- DeepSpeed ---- */

/* "[Rank 3] time (ms) | fwd: 715.40 | bwd: 2402.86 | bwd_inner: 1223.70 | ...": forward and backward without the all-reduce. The lines
 * come before the step's own. */
struct deepspeed {
    int64_t step; /* of the last "[Rank 0] step=5," */
};

static bool read_deepspeed(const char *line, struct deepspeed *d, struct collected *c, int *status,
                           struct hm_error *err) {
    const char *at = strstr(line, "[Rank ");
    if (!at || !isdigit((unsigned char)at[6])) return false;
    int rank = atoi(at + 6);
    const char *step = strstr(at, "] step="), *timers = strstr(at, "] time (ms) |");
    if (step) {
        d->step = strtoll(step + 7, NULL, 10);
        return true;
    }
    if (!timers) return false;
    static const char *const names[] = {"| fwd", "| bwd_inner"};
    for (int k = 0; *status == 0 && k < 2; k++) {
        double ms;
        int timer = collect_timer(c, names[k] + 2);
        if (hm_log_field(timers, names[k], &ms, NULL) && ms >= 0 &&
            timer >= 0) /* the step's own line is still to come */
            *status = collect_rank(c, c->s->n, rank, timer, 1e-3 * ms, err);
    }
    return true;
}

/* ---- lines ---- */

static void read_argument(const char *line, const char *name, int64_t *value) {
    const char *at = strstr(line, name);
    if (!at) return;
    at += strlen(name);
    size_t dots = strspn(at, " .");
    if (dots > 2 && isdigit((unsigned char)at[dots])) *value = strtoll(at + dots, NULL, 10);
}

struct block {
    double scale_s; /* of the timers that follow */
    int timer;      /* whose ranks follow */
    double highest; /* of the last straggler report */
    struct deepspeed deepspeed;
};

static int take_line(struct collected *c, struct block *b, char *line, struct hm_error *err) {
    struct hm_log_line l;
    int status = 0;
    hm_log_read(line, &l);
    switch (l.kind) {
    case HM_LOG_ITERATION:
        if (!(l.elapsed_s > 0) || !isfinite(l.elapsed_s) || l.iteration < 0) return 0;
        if (l.total > 0) c->s->last_of_run = l.total;
        b->timer = -1;
        return collect_step(c, l.iteration, l.elapsed_s, err);
    case HM_LOG_INTERVAL:
        c->interval = l.iteration;
        return 0;
    case HM_LOG_TIMERS:
        b->scale_s = l.scale_s;
        b->timer = -1;
        return 0;
    case HM_LOG_TIMER:
        b->timer = collect_timer(c, l.name);
        if (b->timer < 0 || c->s->n == 0 || !isfinite(l.high) || !(l.low >= 0 && l.high >= l.low)) return 0;
        return collect_spread(c, b->timer, b->scale_s * l.low, b->scale_s * l.high, err);
    case HM_LOG_TIMER_RANK:
        if (b->timer < 0 || c->s->n == 0 || l.rank < 0 || !(l.high >= 0) || !isfinite(l.high)) return 0;
        return collect_rank(c, c->s->n - 1, l.rank, b->timer, b->scale_s * l.high, err);
    default:
        break;
    }
    if (read_deepspeed(line, &b->deepspeed, c, &status, err) || read_summary(line, &b->highest, c, &status, err) ||
        read_bottom(line, b->highest, c, &status, err))
        return status;
    read_argument(line, "pipeline_model_parallel_size", &c->pipeline);
    read_argument(line, "world_size", &c->world);
    return 0;
}

int read_megatron(struct collected *c, const char *path, struct hm_error *err) {
    struct lines *l = lines_open(path, err);
    if (!l) return -1;
    struct block b = {.scale_s = 1e-3, .timer = -1};
    int status = 0;
    for (char *line; status == 0 && (line = lines_next(l)) != NULL;) status = take_line(c, &b, line, err);
    int closed = lines_close(l, path, status == 0 ? err : NULL);
    return status == 0 ? closed : status;
}
