/* logs.c - the three kinds of logs: our event log (JSON lines), Megatron-LM's, Slurm's accounting. */
#include "base/megatron_log.h"
#include "timeline.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

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

void hm_timeline_moment(struct timeline *t, enum moment_kind kind, double time) {
    struct moment *grown = hm_grow(t->moment, t->n_moments, &t->moment_capacity, sizeof *grown);
    if (!grown) {
        t->failed = true;
        return;
    }
    t->moment = grown;
    t->moment[t->n_moments++] = (struct moment){time, kind};
}

/* Seconds of the epoch, or a date and time, which is UTC unless it says a zone. */
static bool parse_moment(const char *text, double *time) {
    struct hm_stamp s;
    char *end;
    *time = strtod(text, &end);
    if (end != text && *end == 0 && isfinite(*time) && *time >= 0) return true;
    size_t n = hm_stamp_read(text, &s);
    *time = s.time_s;
    return n > 0 && !text[n] && !s.zone[0] && (s.kind == HM_STAMP_ABSOLUTE || s.kind == HM_STAMP_CIVIL);
}

/* ---- event log ---- */

static bool number_of(const json_t *o, const char *key, double *value) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) return false;
    *value = json_number_value(v);
    return isfinite(*value);
}

static bool moment_of(const json_t *o, const char *key, double *time) {
    const json_t *v = json_object_get(o, key);
    if (json_is_string(v)) return parse_moment(json_string_value(v), time);
    return number_of(o, key, time) && *time >= 0;
}

/* One event; false if it cannot be read. */
static bool take_event(struct timeline *t, const json_t *o) {
    const char *event = json_string_value(json_object_get(o, "event"));
    double time, duration = 0, step = -1;
    if (!event || !moment_of(o, "time", &time)) return false;
    bool lasts = number_of(o, "duration_s", &duration) && duration >= 0;
    bool numbered = number_of(o, "step", &step) && step >= 0 && step < 9e15;
    static const struct {
        const char *event;
        enum span_kind kind;
    } spans[] = {
        {"step", SPAN_STEP}, {"save", SPAN_SAVE}, {"load", SPAN_LOAD}, {"wait", SPAN_WAIT}, {"repair", SPAN_REPAIR}};
    static const struct {
        const char *event;
        enum moment_kind kind;
    } moments[] = {
        {"start", MOMENT_START}, {"failure", MOMENT_FAILURE}, {"detected", MOMENT_DETECTED}, {"end", MOMENT_END}};
    for (size_t k = 0; k < sizeof spans / sizeof spans[0]; k++)
        if (strcmp(event, spans[k].event) == 0) {
            if (!lasts || (!numbered && (spans[k].kind == SPAN_STEP || spans[k].kind == SPAN_SAVE))) return false;
            hm_timeline_span(t, spans[k].kind, time - duration, time, (int64_t)step);
            return true;
        }
    for (size_t k = 0; k < sizeof moments / sizeof moments[0]; k++)
        if (strcmp(event, moments[k].event) == 0) {
            hm_timeline_moment(t, moments[k].kind, time);
            return true;
        }
    return false;
}

void hm_tor_read_events_line(struct timeline *t, const char *line) {
    json_t *o = json_loads(line, 0, NULL);
    if (!o || !json_is_object(o) || !take_event(t, o)) t->bad_lines++;
    json_decref(o);
}

/* ---- Megatron-LM ---- */

struct megatron {
    double last;             /* time of the last iteration line; < 0: none */
    int64_t iteration;       /* its number; -1: none in this attempt */
    double save_ms, load_ms; /* timers since; < 0: none */
    int64_t saved;           /* a save was begun since, at that iteration; -1: none */
    bool loaded;             /* a load was seen since: a new attempt */
};

/* An iteration line ends a step, and shows where what was seen since the last one lies. */
static void megatron_iteration(struct timeline *t, struct megatron *m, const struct hm_log_line *line) {
    int64_t n = line->iteration;
    double time = line->stamp.time_s, ms = 1e3 * line->elapsed_s;
    bool first = m->iteration < 0 || m->loaded || n <= m->iteration;
    int64_t count = first ? 1 : n - m->iteration;
    if (count > 100000) count = 1;
    double begin = time - 1e-3 * ms * (double)count;
    if (first && m->last >= 0)
        hm_timeline_moment(t, MOMENT_START,
                           m->load_ms >= 0 && begin - 1e-3 * m->load_ms > m->last ? begin - 1e-3 * m->load_ms : begin);
    if (m->load_ms >= 0) hm_timeline_span(t, SPAN_LOAD, begin - 1e-3 * m->load_ms, begin, -1);
    if (m->saved >= 0 && m->last >= 0) {
        double until = m->save_ms >= 0 ? m->last + 1e-3 * m->save_ms : first ? m->last : fmax(begin, m->last);
        hm_timeline_span(t, SPAN_SAVE, m->last, until, m->saved);
    }
    for (int64_t k = 0; k < count; k++)
        hm_timeline_span(t, SPAN_STEP, begin + 1e-3 * ms * (double)k, begin + 1e-3 * ms * (double)(k + 1),
                         n - count + 1 + k);
    *m = (struct megatron){time, n, -1, -1, -1, false};
}

static void megatron_line(struct timeline *t, struct megatron *m, char *text) {
    struct hm_log_line line;
    hm_log_read(text, &line);
    if (line.kind == HM_LOG_ITERATION && line.stamp.kind != HM_STAMP_NONE) {
        megatron_iteration(t, m, &line);
    } else if (line.kind == HM_LOG_SAVING) {
        m->saved = line.iteration;
    } else if (line.kind == HM_LOG_LOADING || line.kind == HM_LOG_LOADED) {
        m->loaded = true;
    } else if (line.kind == HM_LOG_TIMER && strcmp(line.name, "save-checkpoint") == 0) {
        m->save_ms = isnan(line.high) ? -1 : line.high;
    } else if (line.kind == HM_LOG_TIMER && strcmp(line.name, "load-checkpoint") == 0) {
        m->load_ms = isnan(line.high) ? -1 : line.high;
    }
}

static void megatron_end(struct timeline *t, const struct megatron *m) {
    if (m->saved >= 0 && m->last >= 0)
        hm_timeline_span(t, SPAN_SAVE, m->last, m->last + (m->save_ms >= 0 ? 1e-3 * m->save_ms : 0), m->saved);
}

/* ---- sacct --parsable2 ---- */

enum { C_JOB, C_STATE, C_SUBMIT, C_START, C_END, SACCT_COLUMNS, MOST_FIELDS = 64 };

struct sacct {
    int column[SACCT_COLUMNS]; /* -1: not there */
    double last_end;
};

static size_t split(char *line, char **field) {
    size_t n = 0;
    for (char *part; n < MOST_FIELDS && (part = strsep(&line, "|")) != NULL;) field[n++] = part;
    return n;
}

static bool sacct_header(struct sacct *s, char *line) {
    static const char *const names[SACCT_COLUMNS] = {"JobID", "State", "Submit", "Start", "End"};
    char *field[MOST_FIELDS];
    size_t n = split(line, field);
    for (int c = 0; c < SACCT_COLUMNS; c++) {
        s->column[c] = -1;
        for (size_t k = 0; k < n; k++)
            if (strcmp(field[k], names[c]) == 0) s->column[c] = (int)k;
    }
    return s->column[C_START] >= 0 && s->column[C_END] >= 0 && s->column[C_STATE] >= 0;
}

static void sacct_line(struct timeline *t, struct sacct *s, char *line) {
    char *field[MOST_FIELDS];
    size_t n = split(line, field);
    for (int c = 0; c < SACCT_COLUMNS; c++)
        if (s->column[c] >= (int)n) {
            t->bad_lines++;
            return;
        }
    if (s->column[C_JOB] >= 0 && strchr(field[s->column[C_JOB]], '.')) return; /* a step of a job */
    double start, end, submit;
    if (!parse_moment(field[s->column[C_START]], &start)) return; /* Unknown: it never ran */
    const char *state = field[s->column[C_STATE]];
    bool ended = parse_moment(field[s->column[C_END]], &end);
    hm_timeline_moment(t, MOMENT_START, start);
    if (s->column[C_SUBMIT] >= 0 && parse_moment(field[s->column[C_SUBMIT]], &submit) && submit < start)
        hm_timeline_span(t, SPAN_WAIT, submit, start, -1);
    if (!ended) return; /* still running */
    hm_timeline_span(t, SPAN_RUNNING, start, end, -1);
    bool good = strncmp(state, "COMPLETED", 9) == 0;
    hm_timeline_moment(t, good ? MOMENT_END : MOMENT_FAILURE, end);
    if (!good) hm_timeline_moment(t, MOMENT_DETECTED, end);
}

/* ---- which is it ---- */

int hm_tor_read_log(struct timeline *t, const char *path, struct hm_error *err) {
    FILE *file = fopen(path, "r");
    struct stat st;
    if (!file) return hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", path, strerror(errno));
    if (fstat(fileno(file), &st) == 0 && S_ISDIR(st.st_mode)) {
        fclose(file);
        return hm_fail(err, HM_ERR_IO, "%s: is a directory; give a log file", path);
    }
    enum { LONGEST = 1 << 16 }; /* longer lines are no log's, and are passed over */
    char *line = hm_alloc(LONGEST, 1);
    size_t lines = 0, before = t->n_spans + t->n_moments;
    struct megatron m = {-1, -1, -1, -1, -1, false};
    struct sacct s;
    enum { UNDECIDED, EVENTS, MEGATRON, SACCT } kind = UNDECIDED;
    bool whole = true; /* the last piece read ended its line */
    t->failed |= !line;
    while (line && fgets(line, LONGEST, file)) {
        size_t n = strlen(line);
        bool begins = whole;
        whole = n > 0 && line[n - 1] == '\n';
        if (!begins) continue;
        lines++;
        if (!whole && !feof(file)) {
            t->bad_lines++;
            continue;
        }
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
        if (n == 0) continue;
        if (kind == UNDECIDED) {
            char *copy = hm_strdup(line);
            if (!copy) {
                t->failed = true;
                break;
            }
            kind = line[0] == '{' ? EVENTS : strchr(line, '|') && sacct_header(&s, copy) ? SACCT : MEGATRON;
            hm_free(copy);
            if (kind == SACCT) continue;
        }
        if (kind == EVENTS)
            hm_tor_read_events_line(t, line);
        else if (kind == SACCT)
            sacct_line(t, &s, line);
        else
            megatron_line(t, &m, line);
    }
    int error = ferror(file);
    if (kind == MEGATRON) megatron_end(t, &m);
    hm_free(line);
    fclose(file);
    if (t->failed) return hm_fail_memory(err);
    if (error) return hm_fail(err, HM_ERR_IO, "%s: cannot be read", path);
    if (t->n_spans + t->n_moments == before)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: %zu lines, and none is an event, a Megatron-LM iteration with a time stamp, or a row of "
                       "sacct --parsable2; see 'hindmost help tor'",
                       path, lines);
    return 0;
}
