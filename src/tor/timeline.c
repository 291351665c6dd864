/* timeline.c - spans and moments as they are read; times of many clocks; what was read twice. */
#include "timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double YEAR_2200 = 7258118400;
static const double SAME_S = 1;   /* no job restarts within it: lines of the same step that are nearer are one */
static const double RANKS_S = 10; /* ranks say within it that they start */

void hm_timeline_span(struct timeline *t, enum span_kind kind, double from, double until, int64_t step) {
    if (!(until >= from) || !isfinite(from) || !isfinite(until)) {
        t->bad_lines++;
        return;
    }
    struct span *grown = hm_grow(t->span, t->n_spans, &t->span_capacity, sizeof *grown);
    if (!grown) {
        t->failed = true;
        return;
    }
    t->span = grown;
    t->span[t->n_spans++] = (struct span){from, until, kind, step, false};
    if (kind == SPAN_STEP) t->has_steps = true;
}

static void add_moment(struct timeline *t, struct moment m) {
    struct moment *grown = hm_grow(t->moment, t->n_moments, &t->moment_capacity, sizeof *grown);
    if (!grown) {
        t->failed = true;
        return;
    }
    t->moment = grown;
    t->moment[t->n_moments++] = m;
}

void hm_timeline_moment(struct timeline *t, enum moment_kind kind, double time) {
    add_moment(t, (struct moment){.time = time, .kind = kind});
}

void hm_timeline_inferred_start(struct timeline *t, double since, double time) {
    add_moment(t, (struct moment){.time = time, .kind = MOMENT_START, .inferred = true, .since = since});
}

void hm_timeline_free(struct timeline *t) {
    hm_free(t->span);
    hm_free(t->moment);
    hm_megatron_free(t->megatron);
    *t = (struct timeline){0};
}

/* ---- times ---- */

bool hm_log_time(struct timeline *t, struct log_clock *clock, const struct hm_stamp *stamp, double *time) {
    double utc[2];
    int answers;
    if (stamp->kind != HM_STAMP_ABSOLUTE && stamp->kind != HM_STAMP_CIVIL) return false;
    if (!hm_zone_stamp(clock->zone, stamp, utc, &answers)) {
        t->unknown_zones++;
        return false;
    }
    *time = answers == 2 && utc[0] < clock->last - SAME_S ? utc[1] : utc[0];
    clock->last = fmax(clock->last, *time);
    return true;
}

bool hm_log_sane(double time, struct hm_error *err) {
    if (time <= YEAR_2200) return true;
    double year = 1970 + time / 31556952;
    hm_fail(err, HM_ERR_INPUT, "time %.0f is the year %.0f; give seconds of the epoch%s", time, year,
            time / 1e3 <= YEAR_2200   ? " (these look like milliseconds)"
            : time / 1e6 <= YEAR_2200 ? " (these look like microseconds)"
            : time / 1e9 <= YEAR_2200 ? " (these look like nanoseconds)"
                                      : "");
    return false;
}

bool hm_log_moment(struct timeline *t, struct log_clock *clock, const char *text, double *time, struct hm_error *err) {
    struct hm_stamp s;
    char *end;
    *time = strtod(text, &end);
    if (end != text && *end == 0 && isfinite(*time) && *time >= 0) {
        clock->last = fmax(clock->last, *time);
        return hm_log_sane(*time, err);
    }
    size_t n = hm_stamp_read(text, &s);
    if (n == 0 || text[n]) {
        /* a date and time behind which stands what is no zone: to take it as another's would be hours off */
        if (n > 0 && (s.kind == HM_STAMP_CIVIL || s.kind == HM_STAMP_ABSOLUTE)) t->unknown_zones++;
        return false;
    }
    return hm_log_time(t, clock, &s, time);
}

/* ---- what was read twice ---- */

static int by_end(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    if (x->until != y->until) return x->until < y->until ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static int by_time(const void *a, const void *b) {
    const struct moment *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->kind != y->kind) return (int)x->kind - (int)y->kind;
    return (int)x->inferred - (int)y->inferred;
}

/* A step that runs again takes its time again: ends that are nearer than that are of one. */
static bool same_span(const struct span *a, const struct span *b) {
    double shorter = fmin(a->until - a->from, b->until - b->from);
    return a->kind == b->kind && a->step == b->step && b->until - a->until < fmax(SAME_S, 0.9 * shorter);
}

static void drop_repeated_spans(struct timeline *t) {
    double longest = SAME_S;
    size_t n = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct span *s = &t->span[i];
        bool repeated = false;
        if (s->kind == SPAN_STEP || s->kind == SPAN_SAVE || s->kind == SPAN_LOAD || s->kind == SPAN_RUNNING) {
            longest = fmax(longest, s->until - s->from);
            for (size_t k = n; k-- > 0 && !repeated && t->span[k].until >= s->until - longest;)
                repeated = same_span(&t->span[k], s) && (s->kind != SPAN_RUNNING || t->span[k].from == s->from);
        }
        if (repeated)
            t->repeated++;
        else
            t->span[n++] = *s;
    }
    t->n_spans = n;
}

static bool step_between(const struct timeline *t, double from, double until) {
    size_t low = 0, high = t->n_spans;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->span[middle].until <= from)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < t->n_spans && t->span[low].until <= until; low++)
        if (t->span[low].kind == SPAN_STEP) return true;
    return false;
}

/* Of an inferred START: whether a record of one stands in its place. */
static bool on_record(const struct timeline *t, const struct moment *m) {
    for (size_t i = 0; i < t->n_moments; i++)
        if (t->moment[i].kind == MOMENT_START && !t->moment[i].inferred && t->moment[i].time > m->since &&
            t->moment[i].time <= m->time + SAME_S)
            return true;
    return false;
}

/* A failure, its detection and an end are said by many ranks; starts, by ranks within seconds. */
static void drop_repeated_moments(struct timeline *t) {
    size_t n = 0;
    for (size_t i = 0; i < t->n_moments; i++) {
        if (t->moment[i].inferred && on_record(t, &t->moment[i])) t->moment[i].since = NAN; /* marks it */
    }
    for (size_t i = 0; i < t->n_moments; i++) {
        struct moment m = t->moment[i];
        bool repeated = false;
        if (m.inferred && isnan(m.since)) continue;
        if (n && t->moment[n - 1].kind == m.kind && !step_between(t, t->moment[n - 1].time, m.time))
            repeated = m.kind != MOMENT_START || m.time - t->moment[n - 1].time < RANKS_S;
        for (size_t k = n; k-- > 0 && !repeated && t->moment[k].time == m.time;) repeated = t->moment[k].kind == m.kind;
        if (!repeated) t->moment[n++] = m;
    }
    t->n_moments = n;
}

void hm_timeline_settle(struct timeline *t) {
    if (t->n_spans) qsort(t->span, t->n_spans, sizeof *t->span, by_end);
    if (t->n_moments) qsort(t->moment, t->n_moments, sizeof *t->moment, by_time);
    drop_repeated_spans(t);
    drop_repeated_moments(t);
    for (size_t i = 0; i < t->n_moments; i++) {
        double next = INFINITY;
        for (size_t k = i + 1; k < t->n_moments && isinf(next); k++)
            if (t->moment[k].kind == MOMENT_START) next = t->moment[k].time;
        t->moment[i].has_steps = t->moment[i].kind == MOMENT_START && step_between(t, t->moment[i].time, next);
    }
}
