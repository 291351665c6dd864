/* read.c - logs of one run, read and judged. */
#include "series.h"

#include "base/megatron_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int series_add_line(char ***lines, size_t *n, char *line, struct hm_error *err) {
    char **grown = line ? hm_realloc(*lines, *n + 1, sizeof *grown) : NULL;
    if (!grown) {
        hm_free(line);
        return hm_fail_memory(err);
    }
    *lines = grown;
    grown[(*n)++] = line;
    return 0;
}

static int cannot_tell(struct hm_series *s, const char *text, struct hm_error *err) {
    return series_add_line(&s->cannot_tell, &s->n_cannot_tell, hm_strdup(text), err);
}

/* ---- what stands behind a time ---- */

/* A line stands for the steps since the one before; the first of an attempt for the interval that is usual. */
static int set_weights(struct collected *c, struct hm_error *err) {
    struct hm_series *s = c->s;
    s->weight = hm_alloc(s->n, sizeof *s->weight);
    double *gap = hm_alloc(s->n, sizeof *gap);
    size_t n = 0;
    int status = s->weight && gap ? 0 : hm_fail_memory(err);
    for (size_t i = 1; status == 0 && i < s->n; i++)
        if (s->attempt[i] == s->attempt[i - 1]) gap[n++] = (double)(s->step[i] - s->step[i - 1]);
    if (status == 0) {
        double usual = c->interval > 0 ? (double)c->interval : n ? hm_median(gap, n) : 1;
        for (size_t i = 0; i < s->n; i++)
            s->weight[i] = i > 0 && s->attempt[i] == s->attempt[i - 1] ? (double)(s->step[i] - s->step[i - 1]) : usual;
    }
    hm_free(gap);
    return status;
}

static int by_number(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double sorted_median(double *x, size_t n) {
    qsort(x, n, sizeof *x, by_number);
    return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static int sum_spreads(struct collected *c, struct hm_error *err) {
    struct hm_series *s = c->s;
    double *low = hm_alloc(2 * c->n_spreads, sizeof *low), *high = low ? low + c->n_spreads : NULL;
    s->spread = hm_alloc((size_t)c->n_timers, sizeof *s->spread);
    int status = low && s->spread ? 0 : hm_fail_memory(err);
    for (int t = 0; status == 0 && t < c->n_timers; t++) {
        size_t n = 0;
        for (size_t i = 0; i < c->n_spreads; i++)
            if (c->spread[i].timer == t && c->spread[i].high > c->spread[i].low) {
                low[n] = c->spread[i].low;
                high[n++] = c->spread[i].high;
            }
        if (n == 0) continue;
        struct hm_series_spread *spread = &s->spread[s->n_spreads++];
        memcpy(spread->name, c->timer[t], sizeof spread->name);
        spread->low_s = sorted_median(low, n);
        spread->high_s = sorted_median(high, n);
        spread->n = n;
    }
    hm_free(low);
    return status;
}

static int by_lowest(const void *a, const void *b) {
    const struct hm_series_report *x = a, *y = b;
    if (x->lowest != y->lowest) return x->lowest > y->lowest ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_rank(const void *a, const void *b) {
    const struct report_rank *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static int sum_reports(struct collected *c, struct hm_error *err) {
    struct hm_series *s = c->s;
    s->report = hm_alloc(c->n_reports, sizeof *s->report);
    if (!s->report) return hm_fail_memory(err);
    if (c->n_reports > 0) qsort(c->report, c->n_reports, sizeof *c->report, by_rank);
    for (size_t i = 0, end; i < c->n_reports; i = end) {
        size_t lowest = 0;
        for (end = i; end < c->n_reports && c->report[end].rank == c->report[i].rank; end++)
            lowest += c->report[end].lowest;
        s->report[s->n_reports++] =
            (struct hm_series_report){c->report[i].rank, lowest, c->report[(i + end - 1) / 2].ratio};
    }
    if (s->n_reports) qsort(s->report, s->n_reports, sizeof *s->report, by_lowest);
    return 0;
}

/* ---- single slow steps ---- */

enum { MOST_SLOW = 100 };

static int by_loss(const void *a, const void *b) {
    const struct hm_series_slow_step *x = a, *y = b;
    if (x->lost_s != y->lost_s) return x->lost_s > y->lost_s ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static bool within_episode(const struct hm_series *s, size_t i) {
    for (size_t e = 0; e < s->paces.n_episodes; e++)
        if (i >= s->paces.episode[e].first && i <= s->paces.episode[e].last) return true;
    return false;
}

/* By the largest timer of the step that was printed as (min, max): whether its fastest rank was slow as well. */
static int slow_on_all_ranks(const struct collected *c, size_t place) {
    const struct spread_time *most = NULL;
    for (size_t i = 0; i < c->n_spreads; i++)
        if (c->spread[i].place == place && (!most || c->spread[i].high > most->high)) most = &c->spread[i];
    for (size_t k = 0; most && k < c->s->n_spreads; k++)
        if (strcmp(c->s->spread[k].name, c->timer[most->timer]) == 0)
            return most->low >= HM_SLOW_STEP * c->s->spread[k].low_s;
    return -1;
}

static int list_slow_steps(struct collected *c, struct hm_error *err) {
    struct hm_series *s = c->s;
    if (s->paces.slow_steps == 0) return 0;
    s->slow_step = hm_alloc(s->paces.slow_steps, sizeof *s->slow_step);
    if (!s->slow_step) return hm_fail_memory(err);
    for (size_t i = s->paces.warm_up; i < s->n && s->n_slow_steps < s->paces.slow_steps; i++) {
        double ratio = s->seconds[i] / s->paces.usual_s;
        if (ratio < HM_SLOW_STEP || within_episode(s, i)) continue;
        s->slow_step[s->n_slow_steps++] =
            (struct hm_series_slow_step){s->step[i], ratio, s->weight[i] * (s->seconds[i] - s->paces.usual_s), (int)i};
    }
    qsort(s->slow_step, s->n_slow_steps, sizeof *s->slow_step, by_loss);
    if (s->n_slow_steps > MOST_SLOW) s->n_slow_steps = MOST_SLOW;
    for (size_t k = 0; k < s->n_slow_steps; k++) /* on_all_ranks held the place */
        s->slow_step[k].on_all_ranks = slow_on_all_ranks(c, (size_t)s->slow_step[k].on_all_ranks);
    return 0;
}

/* ---- what cannot be told ---- */

static int say_limits(struct hm_series *s, struct hm_error *err) {
    static const char ranks[] =
        "who is slow: the log has one time a step for all ranks, and in a synchronous job they all have the "
        "same; --timing-log-level 2 --timing-log-option all prints each rank's";
    static const char one[] = "whether this rank is slower than others: only one rank's times are in the log";
    static const char waiting[] =
        "who is slow: the ranks' times are the same in each step, so they include waiting for each other";
    static const char why[] = "why a rank is slow, and what links and stages cost: the log has no single ops";
    const char *text = s->n_ranks == 0 ? ranks : s->n_ranks == 1 ? one : s->waiting_inside ? waiting : why;
    if (cannot_tell(s, text, err) != 0) return -1;
    if (s->n_ranks > 1 && s->rank[0].stage < 0 &&
        cannot_tell(s, "which ranks do the same work: pipeline_model_parallel_size is not in the log, all are compared",
                    err) != 0)
        return -1;
    if (s->n < 8 && cannot_tell(s, "episodes: fewer than 8 times", err) != 0) return -1;
    double most = 0;
    for (size_t i = 0; i < s->n; i++) most = fmax(most, s->weight[i]);
    return most <= 1 ? 0
                     : cannot_tell(s, "single slow steps between the lines: a line is the mean of several steps", err);
}

/* ---- files ---- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int read_files(struct collected *c, const char *const *paths, size_t n, const char *pattern,
                      struct hm_error *err) {
    for (size_t i = 0; i < n; i++) {
        int rank = n > 1 ? hm_rank_of_name(paths[i]) : -1;
        if ((pattern ? read_pattern(c, paths[i], rank, pattern, err) : read_megatron(c, paths[i], err)) != 0) return -1;
    }
    if (c->s->n > 0) return 0;
    if (pattern)
        return hm_fail(err, HM_ERR_INPUT, "%s: no line matches --pattern '%s'; try it with grep -E", paths[0], pattern);
    return hm_fail(
        err, HM_ERR_INPUT,
        "%s: no iteration of Megatron-LM or Megatron-DeepSpeed in it; for another log say how its lines look: "
        "--pattern 'step {step}.* {seconds} s'",
        paths[0]);
}

static int finish(struct collected *c, struct hm_error *err) {
    struct hm_series *s = c->s;
    if (set_weights(c, err) != 0) return -1;
    if (hm_step_paces_find(s->seconds, s->weight, s->step, s->n, &s->paces, err) != 0) return -1;
    if (judge_ranks(c, err) != 0 || sum_spreads(c, err) != 0 || sum_reports(c, err) != 0) return -1;
    if (list_slow_steps(c, err) != 0) return -1;
    return say_limits(s, err);
}

struct hm_series *hm_series_read(const char *const *paths, size_t n, const struct hm_series_options *options,
                                 struct hm_error *err) {
    struct hm_series *s = hm_alloc(1, sizeof *s);
    if (!s) {
        (void)hm_fail_memory(err);
        return NULL;
    }
    const char *pattern = options ? options->pattern : NULL;
    struct collected c = {.s = s};
    s->last_of_run = -1;
    s->paces = (struct hm_step_paces){.usual_s = NAN, .noise = NAN};
    s->format = pattern ? "pattern" : "megatron";
    s->name = hm_strdup(n ? base_name(paths[0]) : "");
    int status = s->name ? read_files(&c, paths, n, pattern, err) : hm_fail_memory(err);
    if (status == 0) status = finish(&c, err);
    hm_free(c.time);
    hm_free(c.spread);
    hm_free(c.report);
    if (status == 0) return s;
    hm_series_free(s);
    return NULL;
}

/* An iteration line within the first megabytes: a log begins with all its arguments, from every rank. */
bool hm_series_detect(const char *path) {
    size_t left = (size_t)8 << 20;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false; /* what is read here must be there once more */
    struct lines *l = lines_open(path, NULL);
    bool found = false;
    char *line;
    while (l && !found && left > 0 && (line = lines_next(l)) != NULL) {
        size_t n = strlen(line) + 1;
        left -= n < left ? n : left;
        if (!strstr(line, "iteration")) continue;
        struct hm_log_line read;
        hm_log_read(line, &read);
        found = read.kind == HM_LOG_ITERATION;
    }
    if (l) (void)lines_close(l, path, NULL);
    return found;
}

static void free_lines(char **lines, size_t n) {
    for (size_t i = 0; i < n; i++) hm_free(lines[i]);
    hm_free(lines);
}

void hm_series_free(struct hm_series *s) {
    if (!s) return;
    hm_step_paces_free(&s->paces);
    hm_free(s->name);
    hm_free(s->step);
    hm_free(s->seconds);
    hm_free(s->weight);
    hm_free(s->attempt);
    hm_free(s->rank);
    hm_free(s->own_s);
    hm_free(s->timers);
    hm_free(s->spread);
    hm_free(s->slow_step);
    hm_free(s->report);
    free_lines(s->cannot_tell, s->n_cannot_tell);
    free_lines(s->note, s->n_notes);
    hm_free(s);
}
