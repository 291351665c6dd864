/* measure.c - from spans to a ledger whose parts add up to the wall time exactly.
 *
 * The time line is cut at every span's ends; each piece goes to the covering span with the best claim, so nothing is counted twice. Pieces
 * that nothing covers lie between attempts, and are told apart by the moments around them. A step counts as kept only if no later
 * attempt runs it again and no failure at the end takes it away. */
#include "timeline.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct whole {
    struct hm_tor_measurement m; /* first: freed as a whole */
    struct hm_tor_point *series;
    struct hm_tor_note notes[8];
    char text[8][200];
};

void hm_tor_measurement_free(struct hm_tor_measurement *m) {
    if (!m) return;
    struct whole *w = (struct whole *)m;
    hm_free(w->series);
    hm_free(w);
}

static void note(struct whole *w, size_t count, const char *format, ...) HM_PRINTF(3, 4);
static void note(struct whole *w, size_t count, const char *format, ...) {
    if (count == 0 || w->m.n_notes == 8) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(w->text[w->m.n_notes], sizeof w->text[0], format, args);
    va_end(args);
    w->notes[w->m.n_notes] = (struct hm_tor_note){count, w->text[w->m.n_notes]};
    w->m.n_notes++;
}

static int by_end(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    if (x->until != y->until) return x->until < y->until ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static int by_time(const void *a, const void *b) {
    const struct moment *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

/* ---- which steps survive ---- */

/* Steps in time order; a step takes away all earlier ones with its number or a higher one. Then the end: a failure with nothing after it
 * takes away what no checkpoint holds. Returns how many times steps were taken away: rollbacks. */
static size_t mark_kept(struct timeline *t, size_t *stack, struct whole *w) {
    size_t n = 0, rollbacks = 0;
    double last_step = -INFINITY;
    for (size_t i = 0; i < t->n_spans; i++) {
        struct span *s = &t->span[i];
        if (s->kind != SPAN_STEP) continue;
        size_t had = n;
        while (n && t->span[stack[n - 1]].step >= s->step) t->span[stack[--n]].kept = false;
        rollbacks += n < had;
        s->kept = true;
        stack[n++] = i;
        last_step = s->until;
        w->m.steps_run++;
    }
    bool failed_last = false, started_since = false;
    for (size_t i = 0; i < t->n_moments; i++) {
        if (t->moment[i].kind == MOMENT_FAILURE && t->moment[i].time >= last_step - 1e-6) failed_last = true;
        if (t->moment[i].kind == MOMENT_END && t->moment[i].time >= last_step - 1e-6)
            failed_last = false, started_since = true;
    }
    if (failed_last && !started_since) {
        int64_t saved = -1;
        for (size_t i = 0; i < t->n_spans; i++)
            if (t->span[i].kind == SPAN_SAVE && t->span[i].step > saved) saved = t->span[i].step;
        size_t before = n;
        while (n && t->span[stack[n - 1]].step > saved) t->span[stack[--n]].kept = false;
        note(w, before - n, "steps after the last checkpoint are lost: the log ends with a failure");
    }
    w->m.steps_kept = n;
    return rollbacks;
}

/* Mean of the kept steps up to median + 3 MAD (Google's goodput library). */
static double ideal_step(const struct timeline *t, double *values) {
    size_t n = 0, m = 0;
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->span[i].kind == SPAN_STEP && t->span[i].kept) values[n++] = t->span[i].until - t->span[i].from;
    if (n == 0) return NAN;
    double *copy = values + n, sum = 0;
    memcpy(copy, values, n * sizeof *values);
    double median = hm_median(copy, n), limit = median + 3 * hm_mad(copy, n, median);
    for (size_t i = 0; i < n; i++)
        if (values[i] <= limit + 1e-12) sum += values[i], m++;
    return sum / (double)m;
}

/* ---- pieces ---- */

struct cut {
    double time;
    size_t span;
    bool opens;
};

static int by_cut(const void *a, const void *b) {
    const struct cut *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (int)x->opens - (int)y->opens;
}

/* Of a piece that nothing covers: what the moments around it say, and when the last step or save before it ended. */
static enum hm_tor_class class_of_gap(const struct timeline *t, double from, double until, double last_activity) {
    const double same = 1e-9;
    const struct moment *before = NULL, *after = NULL;
    for (size_t i = 0; i < t->n_moments; i++) {
        if (t->moment[i].time <= from + same) before = &t->moment[i];
        if (t->moment[i].time >= until - same && !after) after = &t->moment[i];
    }
    bool fails = after && after->kind == MOMENT_FAILURE && after->time <= until + same;
    if (before && before->kind == MOMENT_FAILURE)
        return after && after->kind == MOMENT_DETECTED ? HM_TOR_DETECTION : HM_TOR_UNKNOWN;
    if (before && before->kind == MOMENT_END) return HM_TOR_IDLE;
    if (fails) return HM_TOR_ROLLED_BACK; /* the beginning of a step that never ended */
    return before && before->kind == MOMENT_START && last_activity <= before->time + same ? HM_TOR_RESTART
                                                                                          : HM_TOR_UNKNOWN;
}

static const enum hm_tor_class class_of_kind[SPAN_KINDS] = {
    [SPAN_SAVE] = HM_TOR_SAVING,    [SPAN_STEP] = HM_TOR_PROGRESS,       [SPAN_LOAD] = HM_TOR_RESTART,
    [SPAN_REPAIR] = HM_TOR_REPAIR,  [SPAN_DETECTION] = HM_TOR_DETECTION, [SPAN_WAIT] = HM_TOR_WAITING,
    [SPAN_RUNNING] = HM_TOR_UNKNOWN};

enum { BUCKETS = 200 };

struct ledger {
    double *seconds;      /* [class] */
    double begin, length; /* of the run */
    double *kept;         /* [bucket] kept step time */
};

static void add_piece(const struct timeline *t, struct ledger *l, double from, double until, const size_t *active,
                      size_t n, double last_activity) {
    const struct span *best = NULL;
    for (size_t k = 0; k < n; k++) {
        const struct span *s = &t->span[active[k]];
        if (!best || s->kind < best->kind || (s->kind == best->kind && s->kept && !best->kept)) best = s;
    }
    enum hm_tor_class class = best ? class_of_kind[best->kind] : HM_TOR_UNKNOWN;
    if (!best || best->kind == SPAN_RUNNING) class = class_of_gap(t, from, until, last_activity);
    if (best && best->kind == SPAN_STEP && !best->kept) class = HM_TOR_ROLLED_BACK;
    l->seconds[class] += until - from;
    if (class != HM_TOR_PROGRESS || !(l->length > 0)) return;
    double width = l->length / BUCKETS; /* spread over the series' buckets */
    for (size_t bucket = (size_t)fmin((from - l->begin) / width, BUCKETS - 1); bucket < BUCKETS; bucket++) {
        double begin = fmax(from, l->begin + width * (double)bucket);
        double end = bucket + 1 == BUCKETS ? until : fmin(until, l->begin + width * (double)(bucket + 1));
        if (end > begin) l->kept[bucket] += end - begin;
        if (end >= until) break;
    }
}

/* Sweeps over all cuts, moments included; the pieces tile the run from its first to its last moment. */
static int sweep(const struct timeline *t, struct ledger *l, struct whole *w) {
    size_t n = 2 * t->n_spans + t->n_moments, active_n = 0, k = 0, overlaps = 0;
    struct cut *cut = hm_alloc(n, sizeof *cut);
    size_t *active = hm_alloc(t->n_spans, sizeof *active);
    if (!cut || !active) {
        hm_free(cut);
        hm_free(active);
        return -1;
    }
    for (size_t i = 0; i < t->n_spans; i++) {
        cut[k++] = (struct cut){t->span[i].from, i, true};
        cut[k++] = (struct cut){t->span[i].until, i, false};
    }
    for (size_t i = 0; i < t->n_moments; i++) cut[k++] = (struct cut){t->moment[i].time, SIZE_MAX, false};
    qsort(cut, n, sizeof *cut, by_cut);
    double last_activity = -INFINITY;
    l->begin = cut[0].time;
    l->length = cut[n - 1].time - cut[0].time;
    for (size_t i = 0; i < n; i++) {
        if (cut[i].span != SIZE_MAX && cut[i].opens && t->span[cut[i].span].until > t->span[cut[i].span].from) {
            active[active_n++] = cut[i].span;
        } else if (cut[i].span != SIZE_MAX && !cut[i].opens) {
            enum span_kind kind = t->span[cut[i].span].kind;
            if (kind == SPAN_STEP || kind == SPAN_SAVE) last_activity = cut[i].time;
            for (size_t j = 0; j < active_n; j++)
                if (active[j] == cut[i].span) active[j] = active[--active_n];
        }
        if (i + 1 < n && cut[i + 1].time > cut[i].time) {
            size_t steps = 0;
            for (size_t j = 0; j < active_n; j++) steps += t->span[active[j]].kind == SPAN_STEP;
            overlaps += steps > 1 && cut[i + 1].time - cut[i].time > 1e-3;
            add_piece(t, l, cut[i].time, cut[i + 1].time, active, active_n, last_activity);
        }
    }
    note(w, overlaps, "stretches covered by several steps at once: counted once");
    hm_free(cut);
    hm_free(active);
    return 0;
}

/* ---- putting it together ---- */

static int measure(struct timeline *t, const struct hm_tor_measure_options *o, struct whole *w, struct hm_error *err) {
    struct hm_tor_measurement *m = &w->m;
    for (size_t i = 1; i < t->n_spans; i++) t->out_of_order += t->span[i].until < t->span[i - 1].until - 1e-6;
    note(w, t->bad_lines, "lines could not be read and were passed over");
    note(w, t->out_of_order, "entries out of order: sorted by time");
    if (t->n_spans) qsort(t->span, t->n_spans, sizeof *t->span, by_end);
    if (t->n_moments) qsort(t->moment, t->n_moments, sizeof *t->moment, by_time);
    size_t *stack = hm_alloc(t->n_spans, sizeof *stack);
    double *values = hm_alloc(2 * t->n_spans, sizeof *values), kept[BUCKETS] = {0};
    struct ledger l = {.seconds = m->ledger_s, .kept = kept};
    int status = -1;
    if (!stack || !values || !(w->series = hm_alloc(BUCKETS, sizeof *w->series)))
        hm_fail_memory(err);
    else {
        size_t rollbacks = mark_kept(t, stack, w);
        status = sweep(t, &l, w) == 0 ? 0 : hm_fail_memory(err);
        m->ideal_step_s = o->ideal_step_s > 0 ? o->ideal_step_s : ideal_step(t, values);
        for (size_t i = 0; i < t->n_spans; i++) m->saves += t->span[i].kind == SPAN_SAVE;
        for (size_t i = 0; i < t->n_moments; i++) {
            m->failures += t->moment[i].kind == MOMENT_FAILURE;
            m->attempts += t->moment[i].kind == MOMENT_START;
        }
        if (m->failures < rollbacks) m->failures = rollbacks;
        if (m->attempts < rollbacks + 1) m->attempts = rollbacks + 1;
    }
    hm_free(stack);
    hm_free(values);
    if (status != 0) return -1;
    /* Kept step time splits into ideal steps, the stragglers in them, and what was slower than ideal. */
    double productive = m->ledger_s[HM_TOR_PROGRESS],
           usual = t->has_steps ? fmin(productive, (double)m->steps_kept * m->ideal_step_s) : 0;
    double s = o->slowdown > 1 ? o->slowdown : 1;
    m->ledger_s[HM_TOR_PROGRESS] = usual / s;
    m->ledger_s[HM_TOR_STRAGGLERS] = usual - usual / s;
    m->ledger_s[HM_TOR_SLOW_STEPS] = productive - usual;
    double total = 0;
    for (int c = 0; c < HM_TOR_CLASSES; c++) total += m->ledger_s[c];
    m->t_obs_s = total;
    m->t_opt_s = t->has_steps ? usual / s : NAN;
    if (!(total > 0)) return hm_fail(err, HM_ERR_INPUT, "the logs cover no time at all; give logs of a whole run");
    m->tor = m->t_opt_s / total;
    m->ettr = t->has_steps ? productive / total : NAN;
    m->goodput = t->has_steps ? usual / total : NAN;
    note(w, !t->has_steps, "no training steps in the logs: TOR needs them, the ledger does not");
    double up = productive + m->ledger_s[HM_TOR_SAVING] + m->ledger_s[HM_TOR_ROLLED_BACK];
    m->mttf_s = m->failures ? up / (double)m->failures : INFINITY;
    m->best_interval_s =
        m->failures && m->saves ? sqrt(2 * m->ledger_s[HM_TOR_SAVING] / (double)m->saves * m->mttf_s) : NAN;
    for (size_t b = 0; b < BUCKETS; b++) {
        double width = l.length / BUCKETS,
               r = width > 0 && productive > 0 ? kept[b] / width * (usual / s) / productive : 0;
        w->series[b] = (struct hm_tor_point){width * (double)b, width * (double)(b + 1), fmin(r, 1)};
    }
    m->series = w->series;
    m->n_series = BUCKETS;
    m->notes = w->notes;
    return 0;
}

struct hm_tor_measurement *hm_tor_measure(const char *const *paths, size_t n,
                                          const struct hm_tor_measure_options *options, struct hm_error *err) {
    const struct hm_tor_measure_options none = {0};
    struct timeline t = {0};
    struct whole *w = hm_alloc(1, sizeof *w);
    int status = w ? 0 : hm_fail_memory(err);
    for (size_t i = 0; i < n && status == 0; i++) status = hm_tor_read_log(&t, paths[i], err);
    if (status == 0 && t.n_spans + t.n_moments < 2)
        status =
            hm_fail(err, HM_ERR_INPUT, "%s: only one event; a run has a beginning and an end", n ? paths[0] : "no log");
    if (status == 0) status = measure(&t, options ? options : &none, w, err);
    hm_free(t.span);
    hm_free(t.moment);
    if (status == 0) return &w->m;
    hm_tor_measurement_free(w ? &w->m : NULL);
    return NULL;
}

int hm_tor_slowdown_of(const char *path, double *slowdown, struct hm_error *err) {
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why);
    if (!root)
        return hm_fail(err, why.line > 0 ? HM_ERR_INPUT : HM_ERR_IO,
                       "%s: line %d: %s; give the JSON of 'hindmost analyze --json'", path, why.line, why.text);
    const json_t *s = json_object_get(root, "slowdown");
    int status = 0;
    if (!json_is_number(s) || !(json_number_value(s) > 0))
        status = hm_fail(err, HM_ERR_INPUT, "%s: has no slowdown; give the JSON of 'hindmost analyze --json'", path);
    else
        *slowdown = fmax(1, json_number_value(s));
    json_decref(root);
    return status;
}
