/* megatron.c - lays out what Megatron-LM's logs say. Iterations and timers are printed by the last rank, "saving checkpoint" by the first, and
 * launchers keep a file a node or one for all: so lines are gathered from all files first, what several ranks print is taken once, and only
 * then do steps, saves and loads get their places on the time line.
 *
 * A line tells the mean time of the iterations since the line before. In the first line of an attempt these are as many as the logs'
 * interval, or as lie behind the checkpoint that was loaded. Saves are not in that time (the interval timer is stopped meanwhile). */
#include "timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 100000, LOOK_BACK = 4096 };
static const size_t NONE = SIZE_MAX;
static const double TEN_YEARS = 3.2e8, HOUR = 3600;
static const double SAME_S = 1;   /* as in timeline.c */
static const double RANKS_S = 60; /* clocks of two hosts that both print the iteration */

struct record {
    double time, elapsed_s, load_s; /* load_s: NaN without a timer */
    int64_t n, loaded;              /* the checkpoint that was loaded before it; -1: none, or not said which */
    bool begins;                    /* an attempt: something was loaded */
    int rank;
    size_t file, order, kept; /* kept: its place among those that are not repetitions */
};
/* A checkpoint's save. From the first rank: its number. From the last: how long it took. */
struct save {
    size_t order, file, after; /* after: the record before it in the file, or NONE */
    bool reloaded;             /* a load stands between */
    int64_t n;                 /* -1: a timer only */
    double seconds, begin, end;
    size_t place; /* the interval that ends with kept record `place`; NONE: nowhere */
    bool tail;    /* where that record begins an attempt: it belongs to the attempt before */
};
struct load {
    size_t file;
    int64_t n;
};

struct megatron {
    struct record *record;
    size_t records, record_room;
    struct save *save;
    size_t saves, save_room;
    struct load *load; /* of files without iterations */
    size_t loads, load_room;
    int64_t interval; /* log_interval among the arguments; 0: not said */
    /* the file being read */
    size_t file, last, lines;
    bool loading;
    int64_t loaded;
    double load_s, scale_s, shift_s;
    char timer[64]; /* whose numbers follow a line a rank */
    /* laying out */
    struct record **kept;
    size_t n_kept;
    int64_t usual; /* iterations between two lines */
};

void hm_megatron_free(struct megatron *m) {
    if (!m) return;
    hm_free(m->record);
    hm_free(m->save);
    hm_free(m->load);
    hm_free(m->kept);
    hm_free(m);
}

/* ---- reading ---- */

/* A load that no iteration followed in its file: of the first rank, which prints none. */
static int end_file(struct megatron *m) {
    if (m->loading && m->last == NONE && m->loaded >= 0) {
        struct load *grown = hm_grow(m->load, m->loads, &m->load_room, sizeof *grown);
        if (!grown) return -1;
        m->load = grown;
        grown[m->loads++] = (struct load){m->file, m->loaded};
    }
    m->loading = false;
    return 0;
}

int hm_megatron_file(struct timeline *t) {
    struct megatron *m = t->megatron;
    if (!m) m = t->megatron = hm_alloc(1, sizeof *m);
    if (!m || end_file(m) != 0) {
        t->failed = true;
        return -1;
    }
    m->file++;
    m->last = NONE;
    m->lines = 0;
    m->loaded = -1;
    m->load_s = NAN;
    m->scale_s = 1e-3;
    m->shift_s = 0;
    *m->timer = 0;
    return 0;
}

size_t hm_megatron_lines(const struct timeline *t) {
    return t->megatron ? t->megatron->lines : 0;
}

/* In spring local clocks skip an hour, at one or two in the morning of a Sunday. */
static bool skips_an_hour(double time) {
    long day = (long)(time / 86400), second = (long)time % 86400;
    return (day + 4) % 7 == 0 && second >= 2 * 3600 && second < 4 * 3600;
}

/* A clock that was set: iterations go on, yet the time goes back, or leaves out an hour that nothing else explains. */
static double set_right(struct timeline *t, struct megatron *m, const struct log_clock *clock,
                        const struct hm_log_line *line, double time) {
    const struct record *last = m->last == NONE ? NULL : &m->record[m->last];
    time += m->shift_s;
    if (!last || m->loading || line->iteration <= last->n || line->rank != last->rank) return time;
    double steps_s = line->elapsed_s * (double)(line->iteration - last->n), change = 0;
    double behind = last->time + steps_s - time;
    bool saved = m->saves && m->save[m->saves - 1].file == m->file && m->save[m->saves - 1].after == m->last;
    if (time < last->time - SAME_S)
        change = fabs(behind - HOUR) <= fmax(60, steps_s) ? HOUR : behind;
    else if (!clock->zone && line->stamp.kind == HM_STAMP_CIVIL && !saved &&
             fabs(behind + HOUR) <= fmax(5, fmin(line->elapsed_s, 60)) && skips_an_hour(line->stamp.time_s))
        change = -HOUR;
    if (change != 0) t->clock_changes++;
    m->shift_s += change;
    return time + change;
}

static void take_iteration(struct timeline *t, struct log_clock *clock, const struct hm_log_line *line) {
    struct megatron *m = t->megatron;
    double time;
    m->lines++;
    if (line->stamp.kind == HM_STAMP_NONE) {
        t->unstamped++;
        m->lines--;
        return;
    }
    if (!hm_log_time(t, clock, &line->stamp, &time) || line->elapsed_s > TEN_YEARS) {
        t->bad_lines++;
        return;
    }
    time = set_right(t, m, clock, line, time);
    struct record *grown = hm_grow(m->record, m->records, &m->record_room, sizeof *grown);
    if (!grown) {
        t->failed = true;
        return;
    }
    m->record = grown;
    grown[m->records] = (struct record){.time = time,
                                        .elapsed_s = line->elapsed_s,
                                        .load_s = m->loading ? m->load_s : NAN,
                                        .n = line->iteration,
                                        .loaded = m->loading ? m->loaded : -1,
                                        .begins = m->loading,
                                        .rank = line->rank,
                                        .file = m->file,
                                        .order = m->records};
    m->last = m->records++;
    m->loading = false;
    m->loaded = -1;
    m->load_s = NAN;
}

static struct save *add_save(struct timeline *t, int64_t n) {
    struct megatron *m = t->megatron;
    struct save *grown = hm_grow(m->save, m->saves, &m->save_room, sizeof *grown);
    if (!grown) {
        t->failed = true;
        return NULL;
    }
    m->save = grown;
    grown[m->saves] = (struct save){.order = m->saves,
                                    .file = m->file,
                                    .after = m->last,
                                    .reloaded = m->loading,
                                    .n = n,
                                    .seconds = NAN,
                                    .begin = NAN,
                                    .end = NAN,
                                    .place = NONE};
    return &grown[m->saves++];
}

/* The save that a timer or "successfully saved" speaks of: the last one of this file since its last iteration, if it lacks its time. */
static struct save *open_save(struct timeline *t, int64_t n) {
    struct megatron *m = t->megatron;
    for (size_t i = m->saves; i-- > 0 && m->save[i].file == m->file && m->save[i].after == m->last;)
        if (isnan(m->save[i].seconds) && (n < 0 || m->save[i].n == n)) return &m->save[i];
    return n < 0 ? add_save(t, -1) : NULL;
}

static void take_timer(struct timeline *t, const char *name, double high, bool more) {
    struct megatron *m = t->megatron;
    if (!(high >= 0) || high > TEN_YEARS) return;
    if (strcmp(name, "load-checkpoint") == 0) {
        m->load_s = more && m->load_s > high ? m->load_s : high;
        m->loading = true;
        m->lines++;
    } else if (strcmp(name, "save-checkpoint") == 0) {
        struct save *s = more && m->saves ? &m->save[m->saves - 1] : open_save(t, -1);
        if (s) s->seconds = more ? fmax(s->seconds, high) : high;
        m->lines++;
    }
}

void hm_megatron_line(struct timeline *t, struct log_clock *clock, char *text) {
    struct megatron *m = t->megatron;
    struct hm_log_line line;
    struct save *s = NULL;
    double time = NAN, scale;
    hm_log_read(text, &line);
    if (line.kind == HM_LOG_ITERATION) {
        take_iteration(t, clock, &line);
        return;
    }
    if (line.stamp.kind != HM_STAMP_NONE && !hm_log_time(t, clock, &line.stamp, &time)) time = NAN;
    scale = isnan(line.scale_s) ? m->scale_s : line.scale_s;
    switch (line.kind) {
    case HM_LOG_SAVING:
        m->lines++;
        s = add_save(t, line.iteration);
        if (s) s->begin = time + m->shift_s;
        break;
    case HM_LOG_SAVED:
        s = open_save(t, line.iteration);
        if (s) s->end = time + m->shift_s;
        break;
    case HM_LOG_LOADING:
    case HM_LOG_LOADED:
        m->lines++;
        m->loading = true;
        if (line.iteration >= 0) m->loaded = line.iteration;
        break;
    case HM_LOG_TIMERS:
        m->scale_s = line.scale_s;
        *m->timer = 0;
        break;
    case HM_LOG_TIMER:
        memcpy(m->timer, line.name, sizeof m->timer);
        if (isnan(line.high)) break; /* the ranks' numbers follow */
        take_timer(t, m->timer, line.high * scale, false);
        *m->timer = 0;
        break;
    case HM_LOG_TIMER_RANK:
        take_timer(t, m->timer, line.high * m->scale_s, line.rank > 0);
        break;
    case HM_LOG_INTERVAL:
        m->interval = line.iteration;
        break;
    default:
        break;
    }
}

/* ---- all files together ---- */

static int by_time(const void *a, const void *b) {
    const struct record *x = *(struct record *const *)a, *y = *(struct record *const *)b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static bool same_iteration(const struct record *a, const struct record *b) {
    bool ranks = a->rank >= 0 && b->rank >= 0 && a->rank != b->rank;
    return a->n == b->n && b->time - a->time < fmax(ranks ? RANKS_S : SAME_S, 0.9 * fmin(a->elapsed_s, b->elapsed_s));
}

/* Sorts the records by time and leaves out what another rank, or the same file given again, has said. */
static void keep_first(struct timeline *t, struct megatron *m) {
    double window = RANKS_S;
    for (size_t i = 0; i < m->records; i++) {
        m->kept[i] = &m->record[i];
        window = fmax(window, m->record[i].elapsed_s);
    }
    if (m->records) qsort(m->kept, m->records, sizeof *m->kept, by_time);
    for (size_t i = 0; i < m->records; i++) {
        struct record *r = m->kept[i];
        size_t k = m->n_kept, least = k > LOOK_BACK ? k - LOOK_BACK : 0;
        while (k > least && m->kept[k - 1]->time >= r->time - window && !same_iteration(m->kept[k - 1], r)) k--;
        if (k > least && same_iteration(m->kept[k - 1], r)) {
            struct record *first = m->kept[k - 1];
            r->kept = k - 1;
            first->begins |= r->begins;
            if (first->loaded < 0) first->loaded = r->loaded;
            first->load_s = fmax(first->load_s, r->load_s); /* fmax passes over NaN */
            t->repeated++;
        } else {
            r->kept = m->n_kept;
            m->kept[m->n_kept++] = r;
        }
    }
}

static bool begins(const struct megatron *m, size_t i) {
    return i == 0 || m->kept[i]->begins || m->kept[i]->n <= m->kept[i - 1]->n;
}

/* Loads of files without iterations: the attempt that goes on behind that checkpoint; the second load of the same one, its second. */
static void place_loads(struct megatron *m) {
    for (size_t k = 0; k < m->loads; k++) {
        const struct load *l = &m->load[k];
        size_t before = 0, seen = 0;
        for (size_t b = 0; b < k; b++) before += m->load[b].file == l->file && m->load[b].n == l->n;
        for (size_t i = 0; i < m->n_kept; i++) {
            struct record *r = m->kept[i];
            bool fits = r->n > l->n && (i == 0 || r->n <= m->kept[i - 1]->n || m->kept[i - 1]->n == l->n);
            if (!fits || seen++ != before) continue;
            r->begins = true;
            if (r->loaded < 0) r->loaded = l->n;
            break;
        }
    }
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The most frequent distance of two lines in an attempt. */
static int find_interval(struct megatron *m) {
    size_t n = 0, most = 0;
    m->usual = m->interval > 0 ? m->interval : 1;
    if (m->interval > 0 || m->n_kept < 2) return 0;
    int64_t *distance = hm_alloc(m->n_kept, sizeof *distance);
    if (!distance) return -1;
    for (size_t i = 1; i < m->n_kept; i++)
        if (!begins(m, i)) distance[n++] = m->kept[i]->n - m->kept[i - 1]->n;
    if (n) qsort(distance, n, sizeof *distance, by_number);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && distance[k] == distance[i];) k++;
        if (k - i > most) most = k - i, m->usual = distance[i];
    }
    hm_free(distance);
    return 0;
}

/* ---- where saves belong ---- */

/* By its number alone: the k-th attempt that passes it, k saves of that number having stood before in its file. */
static void place_by_number(struct megatron *m, struct save *s) {
    size_t before = 0, seen = 0;
    for (const struct save *b = m->save; b < s; b++) before += b->file == s->file && b->n == s->n;
    for (size_t i = 0; i < m->n_kept; i++) {
        const struct record *r = m->kept[i];
        bool last = i + 1 == m->n_kept || begins(m, i + 1);
        bool head = begins(m, i) && s->n < r->n && s->n >= r->n - m->usual && s->n > r->loaded;
        bool behind = s->n >= r->n && (last ? s->n - r->n <= m->usual : s->n < m->kept[i + 1]->n);
        if ((!head && !behind) || seen++ != before) continue;
        s->place = head ? i : i + 1;
        s->tail = behind;
        return;
    }
}

static void place_saves(struct megatron *m) {
    for (struct save *s = m->save; s < m->save + m->saves; s++) {
        if (s->after != NONE) {
            s->place = m->record[s->after].kept + 1;
            s->tail = !s->reloaded;
        } else if (s->n >= 0 && !isnan(s->begin)) {
            for (s->place = 0; s->place < m->n_kept && m->kept[s->place]->time <= s->begin;) s->place++;
            s->tail = s->place > 0 && s->n >= m->kept[s->place - 1]->n;
        } else if (s->n >= 0) {
            place_by_number(m, s);
        }
    }
}

enum { MOST_SAVES = 256 };
struct saves {
    struct save of[MOST_SAVES]; /* by number */
    size_t n;
};

static int by_save(const void *a, const void *b) {
    return by_number(&((const struct save *)a)->n, &((const struct save *)b)->n);
}

/* The saves of one place, each once: numbers from all files; times from the file that has most of them, in their order. */
static void saves_at(const struct megatron *m, const size_t *first, size_t place, bool tail, int64_t unnamed,
                     struct saves *out) {
    double seconds[MOST_SAVES], mine[MOST_SAVES];
    size_t timed = 0;
    out->n = 0;
    for (size_t i = first[place]; i < first[place + 1]; i++) {
        const struct save *s = &m->save[i];
        if (s->tail != tail || s->n < 0) continue;
        struct save *known = NULL;
        for (size_t k = 0; k < out->n; k++)
            if (out->of[k].n == s->n) known = &out->of[k];
        if (!known && out->n < MOST_SAVES) *(known = &out->of[out->n++]) = *s;
        if (!known) continue;
        if (isnan(known->seconds)) known->seconds = s->seconds;
        if (isnan(known->begin)) known->begin = s->begin;
        if (isnan(known->end)) known->end = s->end;
    }
    if (out->n) qsort(out->of, out->n, sizeof *out->of, by_save);
    for (size_t i = first[place], until; i < first[place + 1]; i = until) { /* a file after another */
        size_t n = 0;
        for (until = i; until < first[place + 1] && m->save[until].file == m->save[i].file; until++)
            if (m->save[until].tail == tail && !isnan(m->save[until].seconds) && n < MOST_SAVES)
                mine[n++] = m->save[until].seconds;
        if (n <= timed) continue;
        timed = n;
        memcpy(seconds, mine, n * sizeof *mine);
    }
    for (size_t k = 0; k < timed; k++) {
        if (k == out->n && out->n < MOST_SAVES) /* nobody said its number: it followed the last iteration seen */
            out->of[out->n++] = (struct save){.n = unnamed, .seconds = NAN, .begin = NAN, .end = NAN};
        if (k < out->n && isnan(out->of[k].seconds)) out->of[k].seconds = seconds[k];
    }
    for (size_t k = 0; k < out->n; k++)
        if (isnan(out->of[k].seconds) && out->of[k].end >= out->of[k].begin)
            out->of[k].seconds = out->of[k].end - out->of[k].begin;
}

/* ---- laying out ---- */

/* Steps first..last, each `elapsed` long, the last of which ends at `until`. Returns when the first begins. */
static double lay_steps(struct timeline *t, int64_t first, int64_t last, double elapsed, double until) {
    double begin = until - elapsed * (double)(last - first + 1);
    for (int64_t k = first; k <= last; k++)
        hm_timeline_span(t, SPAN_STEP, begin + elapsed * (double)(k - first), begin + elapsed * (double)(k - first + 1),
                         k);
    return begin;
}

/* What an attempt's last line does not show: saves behind it, and the steps that they prove. */
static void lay_tail(struct timeline *t, const struct record *p, const struct saves *saves) {
    double at = p->time;
    int64_t n = p->n;
    for (size_t k = 0; k < saves->n; k++) {
        const struct save *s = &saves->of[k];
        if (s->n > n && s->n - n <= MOST_STEPS) {
            at += p->elapsed_s * (double)(s->n - n);
            lay_steps(t, n + 1, s->n, p->elapsed_s, at);
            n = s->n;
        }
        if (s->begin > at) at = s->begin;
        double until = isnan(s->seconds) ? at : at + s->seconds;
        hm_timeline_span(t, SPAN_SAVE, at, until, s->n);
        at = until;
    }
}

/* The steps from..n of a line and the saves among them, from its end back to the line before (p, if it is of the same attempt). Returns when
 * the first begins. */
static double lay_interval(struct timeline *t, const struct record *p, const struct record *r, int64_t from,
                           const struct saves *saves) {
    double at = r->time, known = 0;
    int64_t n = r->n;
    size_t unknown = 0;
    for (size_t k = 0; k < saves->n; k++) {
        unknown += isnan(saves->of[k].seconds) ? 1 : 0;
        known += isnan(saves->of[k].seconds) ? 0 : saves->of[k].seconds;
    }
    double slack = p ? fmax(0, r->time - p->time - r->elapsed_s * (double)(r->n - from + 1) - known) : 0;
    for (size_t k = saves->n; k-- > 0;) {
        const struct save *s = &saves->of[k];
        double seconds = isnan(s->seconds) ? slack / (double)unknown : s->seconds;
        if (s->n >= from && s->n < n) { /* between steps of this line */
            at = lay_steps(t, s->n + 1, n, r->elapsed_s, at);
            hm_timeline_span(t, SPAN_SAVE, at - seconds, at, s->n);
            at -= seconds;
            n = s->n;
        } else if (p) { /* right behind the line before */
            hm_timeline_span(t, SPAN_SAVE, p->time, p->time + seconds, s->n);
        }
    }
    return lay_steps(t, from, n, r->elapsed_s, at);
}

/* How many steps an attempt's first line speaks of. */
static int64_t first_count(const struct megatron *m, const struct record *p, const struct record *r, int64_t saved) {
    int64_t count = r->n < m->usual ? r->n : m->usual;
    if (r->loaded >= 0 && r->loaded < r->n && (r->n - r->loaded <= m->usual || m->usual == 1))
        count = r->n - r->loaded <= MOST_STEPS ? r->n - r->loaded : 1;
    else if (saved >= 0 && saved < r->n && r->n - saved < count)
        count = r->n - saved;
    if (p && r->elapsed_s > 0 &&
        (double)count * r->elapsed_s > r->time - p->time) /* not before the attempt before ended */
        count = (int64_t)((r->time - p->time) / r->elapsed_s);
    return count < 1 ? 1 : count;
}

static void lay_record(struct timeline *t, struct megatron *m, const size_t *first, size_t i, int64_t *saved,
                       struct saves *saves) {
    const struct record *p = i ? m->kept[i - 1] : NULL, *r = m->kept[i];
    if (begins(m, i)) {
        if (p) {
            saves_at(m, first, i, true, p->n, saves);
            for (size_t k = 0; k < saves->n; k++) *saved = saves->of[k].n > *saved ? saves->of[k].n : *saved;
            lay_tail(t, p, saves);
        }
        saves_at(m, first, i, false, r->n, saves);
        int64_t count = first_count(m, p, r, *saved);
        double begin = lay_interval(t, NULL, r, r->n - count + 1, saves), start = begin;
        if (!isnan(r->load_s)) {
            hm_timeline_span(t, SPAN_LOAD, begin - r->load_s, begin, -1);
            if (!p || begin - r->load_s > p->time) start = begin - r->load_s;
        }
        if (p) hm_timeline_inferred_start(t, p->time, start);
    } else {
        saves_at(m, first, i, true, p->n, saves);
        int64_t count = r->n - p->n <= MOST_STEPS ? r->n - p->n : 1;
        lay_interval(t, p, r, r->n - count + 1, saves);
    }
    for (size_t k = 0; k < saves->n; k++) *saved = saves->of[k].n > *saved ? saves->of[k].n : *saved;
}

static int by_place(const void *a, const void *b) {
    const struct save *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

int hm_megatron_lay_out(struct timeline *t, struct hm_error *err) {
    struct megatron *m = t->megatron;
    if (!m) return 0;
    struct saves *saves = hm_alloc(1, sizeof *saves);
    size_t *first = NULL;
    int64_t saved = -1;
    m->kept = hm_alloc(m->records + 1, sizeof *m->kept);
    if (!saves || !m->kept || end_file(m) != 0) goto no_memory;
    keep_first(t, m);
    place_loads(m);
    if (find_interval(m) != 0) goto no_memory;
    place_saves(m);
    first = hm_alloc(m->n_kept + 3, sizeof *first);
    if (!first) goto no_memory;
    if (m->saves) qsort(m->save, m->saves, sizeof *m->save, by_place);
    for (size_t place = 0, i = 0; place <= m->n_kept + 1; place++) {
        while (i < m->saves && m->save[i].place < place) i++;
        first[place] = i;
    }
    for (size_t i = 0; i < m->n_kept; i++) lay_record(t, m, first, i, &saved, saves);
    if (m->n_kept) {
        saves_at(m, first, m->n_kept, true, m->kept[m->n_kept - 1]->n, saves);
        lay_tail(t, m->kept[m->n_kept - 1], saves);
    }
    hm_free(first);
    hm_free(saves);
    return t->failed ? hm_fail_memory(err) : 0;
no_memory:
    hm_free(first);
    hm_free(saves);
    return hm_fail_memory(err);
}
