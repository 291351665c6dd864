/* measure.c - from spans to a ledger whose parts add up to the wall time exactly.
 *
 * The time line is cut at every span's ends; each piece goes to the covering span with the best claim, so nothing is counted twice. Pieces
 * that nothing covers lie between attempts, and are told apart by the moments around them. A step counts as kept only if no later
 * attempt runs it again and no failure at the end takes it away. */
#include "base/json_file.h"
#include "timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NOTES = 16 };
static const double TEN_YEARS = 3.2e8;

struct whole {
    struct hm_tor_measurement m; /* first: freed as a whole */
    struct hm_tor_point *series;
    struct hm_tor_note notes[MOST_NOTES];
    char text[MOST_NOTES][300];
};

void hm_tor_measurement_free(struct hm_tor_measurement *m) {
    if (!m) return;
    struct whole *w = (struct whole *)m;
    hm_free(w->series);
    hm_free(w);
}

static void note(struct whole *w, size_t count, const char *format, ...) HM_PRINTF(3, 4);
static void note(struct whole *w, size_t count, const char *format, ...) {
    if (count == 0 || w->m.n_notes == MOST_NOTES) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(w->text[w->m.n_notes], sizeof w->text[0], format, args);
    va_end(args);
    w->notes[w->m.n_notes] = (struct hm_tor_note){count, w->text[w->m.n_notes]};
    w->m.n_notes++;
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
        bool cut = t->moment[i].kind == MOMENT_FAILURE || t->moment[i].kind == MOMENT_STOP;
        if (cut && t->moment[i].time >= last_step - 1e-6) failed_last = true;
        if (t->moment[i].kind == MOMENT_END && t->moment[i].time >= last_step - 1e-6)
            failed_last = false, started_since = true;
    }
    if (failed_last && !started_since) {
        int64_t saved = -1;
        for (size_t i = 0; i < t->n_spans; i++)
            if (t->span[i].kind == SPAN_SAVE && t->span[i].step > saved) saved = t->span[i].step;
        size_t before = n;
        while (n && t->span[stack[n - 1]].step > saved) t->span[stack[--n]].kept = false;
        note(w, before - n, "steps after the last checkpoint are lost: the log ends without having saved them");
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

/* Of a piece that nothing covers: what the moments around it say, and when the last step or save before it ended. `running`: the
 * accounting says that a job ran, and perhaps nothing else knows of it. */
static enum hm_tor_class class_of_gap(const struct timeline *t, double from, double until, double last_activity,
                                      bool running) {
    const double same = 1e-9;
    const struct moment *before = NULL, *after = NULL, *start = NULL;
    for (size_t i = 0; i < t->n_moments; i++) {
        const struct moment *m = &t->moment[i];
        if (m->time <= from + same) before = m;
        if (m->time <= from + same && m->kind == MOMENT_START) start = m;
        if (m->time >= until - same && !after) after = m;
    }
    if (running && !(start && start->has_steps)) return HM_TOR_UNKNOWN;
    bool fails = after && after->kind == MOMENT_FAILURE && after->time <= until + same;
    if (before && before->kind == MOMENT_FAILURE)
        return after && after->kind == MOMENT_DETECTED ? HM_TOR_DETECTION : HM_TOR_UNKNOWN;
    if (before && (before->kind == MOMENT_END || before->kind == MOMENT_STOP)) return HM_TOR_IDLE;
    if (fails) return HM_TOR_ROLLED_BACK; /* the beginning of a step that never ended */
    return before && before->kind == MOMENT_START && last_activity <= before->time + same ? HM_TOR_RESTART
                                                                                          : HM_TOR_UNKNOWN;
}

static const enum hm_tor_class class_of_kind[SPAN_KINDS] = {
    [SPAN_SAVE] = HM_TOR_SAVING,     [SPAN_STEP] = HM_TOR_PROGRESS,       [SPAN_LOAD] = HM_TOR_RESTART,
    [SPAN_REPAIR] = HM_TOR_REPAIR,   [SPAN_DETECTION] = HM_TOR_DETECTION, [SPAN_WAIT] = HM_TOR_WAITING,
    [SPAN_RUNNING] = HM_TOR_UNKNOWN, [SPAN_QUEUE] = HM_TOR_WAITING};

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
    bool running = best && best->kind == SPAN_RUNNING;
    if (!best || running) class = class_of_gap(t, from, until, last_activity, running);
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

/* ---- whether the sources agree ---- */

enum { SAMPLES = 1000, QUARTERS = 56, QUARTER_S = 900 }; /* zones lie up to 14 hours apart, in steps of a quarter */

static int by_begin(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* The share of step time that lies outside of jobs[n], sorted and disjoint, with the steps moved by shift_s. */
static double share_outside(const struct timeline *t, const struct span *jobs, size_t n, double shift_s) {
    double total = 0, inside = 0;
    size_t every = t->n_spans / SAMPLES + 1, k = 0;
    for (size_t i = 0; i < t->n_spans; i += every) {
        const struct span *s = &t->span[i];
        if (s->kind != SPAN_STEP) continue;
        double from = s->from + shift_s, until = s->until + shift_s;
        while (k < n && jobs[k].until < from) k++;
        for (size_t j = k; j < n && jobs[j].from < until; j++)
            inside += fmin(until, jobs[j].until) - fmax(from, jobs[j].from);
        total += until - from;
    }
    return total > 0 ? 1 - inside / total : 0;
}

/* Steps belong into the time in which the accounting has the job running. Where another time zone would put them there, it is said. */
static int check_clocks(const struct timeline *t, struct whole *w) {
    struct span *jobs = hm_alloc(t->n_spans + 1, sizeof *jobs);
    size_t n = 0, merged = 0;
    int best = 0;
    if (!jobs) return -1;
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->span[i].kind == SPAN_RUNNING) jobs[n++] = t->span[i];
    if (n && isfinite(t->still_running)) jobs[n++] = (struct span){.from = t->still_running, .until = INFINITY};
    if (n) qsort(jobs, n, sizeof *jobs, by_begin);
    for (size_t i = 0; i < n; i++)
        if (merged && jobs[i].from <= jobs[merged - 1].until)
            jobs[merged - 1].until = fmax(jobs[merged - 1].until, jobs[i].until);
        else
            jobs[merged++] = jobs[i];
    double now = n ? share_outside(t, jobs, merged, 0) : 0;
    for (int k = 1; now > 0.01 && !best && k <= QUARTERS; k++)
        for (int side = -1; side <= 1 && !best; side += 2)
            if (share_outside(t, jobs, merged, side * k * (double)QUARTER_S) < 0.001) best = side * k;
    hm_free(jobs);
    if (best)
        note(w, 1,
             "source disagrees on the time: steps lie outside of their jobs (%.0f %%), and would fit if their clock "
             "were "
             "%+g h: other time zones? Give --zone FILE=NAME",
             100 * now, best * QUARTER_S / 3600.0);
    else if (now > 0.01)
        note(w, 1, "source disagrees on the time: %.0f %% of the steps lie outside of the jobs that the accounting has",
             100 * now);
    return 0;
}

/* ---- putting it together ---- */

static void say_how(struct whole *w, const struct timeline *t) {
    note(w, t->bad_lines, "lines could not be read and were passed over");
    note(w, t->unknown_zones,
         "times name a zone that is not known here, or end in something else, and were passed over; give --zone");
    note(w, t->unstamped, "iterations bear no time stamp and were passed over");
    note(w, t->out_of_order, "entries out of order: sorted by time");
    note(w, t->repeated, "entries stand more than once (several ranks, or a file given again): taken once");
    note(w, t->clock_changes,
         "times a clock was set while iterations went on: later times are moved; give --zone where it is summer time");
}

static void count_attempts(const struct timeline *t, size_t rollbacks, struct hm_tor_measurement *m) {
    size_t stops = 0;
    double first_start = INFINITY, first_step = INFINITY;
    for (size_t i = 0; i < t->n_spans; i++) {
        m->saves += t->span[i].kind == SPAN_SAVE;
        if (t->span[i].kind == SPAN_STEP) first_step = fmin(first_step, t->span[i].from);
    }
    for (size_t i = 0; i < t->n_moments; i++) {
        const struct moment *a = &t->moment[i];
        m->failures += a->kind == MOMENT_FAILURE;
        m->attempts += a->kind == MOMENT_START;
        stops += a->kind == MOMENT_STOP;
        if (a->kind == MOMENT_START) first_start = fmin(first_start, a->time);
    }
    if (first_step < first_start - 1e-6) m->attempts++; /* the first has no START on record */
    if (m->failures + stops < rollbacks) m->failures = rollbacks - stops;
    if (m->attempts < rollbacks + 1) m->attempts = rollbacks + 1;
}

static int measure(struct timeline *t, const struct hm_tor_measure_options *o, struct whole *w, struct hm_error *err) {
    struct hm_tor_measurement *m = &w->m;
    hm_timeline_settle(t);
    say_how(w, t);
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
        count_attempts(t, rollbacks, m);
        if (status == 0 && check_clocks(t, w) != 0) status = hm_fail_memory(err);
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
    if (total > TEN_YEARS)
        return hm_fail(err, HM_ERR_INPUT,
                       "the logs span %.0f years, which no run does: a clock was wrong; correct its times",
                       total / 31556952);
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

/* The zone of one log: "FILE=NAME" goes before "NAME". NULL: none given. */
static const char *zone_of(const struct hm_tor_measure_options *o, const char *path) {
    const char *general = NULL, *slash = strrchr(path, '/');
    for (size_t i = 0; i < o->n_zones; i++) {
        const char *equals = strrchr(o->zones[i], '=');
        if (!equals) {
            general = o->zones[i];
            continue;
        }
        size_t n = (size_t)(equals - o->zones[i]);
        const char *name = slash ? slash + 1 : path;
        if ((strlen(path) == n && strncmp(path, o->zones[i], n) == 0) ||
            (strlen(name) == n && strncmp(name, o->zones[i], n) == 0))
            return equals + 1;
    }
    return general;
}

/* That every "FILE=NAME" is of a file given. */
static int check_zones(const struct hm_tor_measure_options *o, const char *const *paths, size_t n,
                       struct hm_error *err) {
    for (size_t i = 0; i < o->n_zones; i++) {
        bool used = !strchr(o->zones[i], '=');
        for (size_t k = 0; k < n && !used; k++) {
            const char *zone = zone_of(o, paths[k]);
            used = zone && zone > o->zones[i] && zone <= o->zones[i] + strlen(o->zones[i]);
        }
        if (!used)
            return hm_fail(err, HM_ERR_ARGUMENT, "--zone %s: no such log is given; name one of them", o->zones[i]);
    }
    return 0;
}

static int read_logs(struct timeline *t, const char *const *paths, size_t n, const struct hm_tor_measure_options *o,
                     struct hm_error *err) {
    int status = check_zones(o, paths, n, err);
    for (size_t i = 0; i < n && status == 0; i++) {
        struct hm_zone *zone = NULL;
        const char *name = zone_of(o, paths[i]);
        if (name) status = hm_zone_open(name, &zone, err);
        if (status == 0) status = hm_tor_read_log(t, paths[i], zone, err);
        hm_zone_close(zone);
    }
    return status == 0 ? hm_megatron_lay_out(t, err) : -1;
}

struct hm_tor_measurement *hm_tor_measure(const char *const *paths, size_t n,
                                          const struct hm_tor_measure_options *options, struct hm_error *err) {
    const struct hm_tor_measure_options none = {0};
    struct timeline t = {.still_running = INFINITY};
    struct whole *w = hm_alloc(1, sizeof *w);
    int status = w ? read_logs(&t, paths, n, options ? options : &none, err) : hm_fail_memory(err);
    if (status == 0 && t.n_spans + t.n_moments < 2)
        status =
            hm_fail(err, HM_ERR_INPUT, "%s: only one event; a run has a beginning and an end", n ? paths[0] : "no log");
    if (status == 0) status = measure(&t, options ? options : &none, w, err);
    hm_timeline_free(&t);
    if (status == 0) return &w->m;
    hm_tor_measurement_free(w ? &w->m : NULL);
    return NULL;
}

int hm_tor_slowdown_of(const char *path, double *slowdown, struct hm_error *err) {
    json_t *root = hm_json_load(path, "give the JSON of 'hindmost analyze --json'", err);
    if (!root) return -1;
    const json_t *s = json_object_get(root, "slowdown");
    int status = 0;
    if (!json_is_number(s) || !(json_number_value(s) > 0))
        status = hm_fail(err, HM_ERR_INPUT, "%s: has no slowdown; give the JSON of 'hindmost analyze --json'", path);
    else
        *slowdown = fmax(1, json_number_value(s));
    json_decref(root);
    return status;
}
