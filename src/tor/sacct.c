/* sacct.c - Slurm's accounting: jobs of a chain, requeues and arrays, with when they waited and ran. It holds no steps. */
#include "timeline.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { C_JOB, C_RAW, C_STATE, C_SUBMIT, C_START, C_END, COLUMNS, MOST_FIELDS = 64 };
static const char *const names[COLUMNS] = {"JobID", "JobIDRaw", "State", "Submit", "Start", "End"};

static size_t split(char *line, char **field) {
    size_t n = 0;
    for (char *part; n < MOST_FIELDS && (part = strsep(&line, "|")) != NULL;) field[n++] = part;
    return n;
}

static bool name_columns(struct sacct *s, char *const *field, size_t n) {
    struct sacct found = *s;
    for (int c = 0; c < COLUMNS; c++) {
        found.column[c] = -1;
        for (size_t k = 0; k < n; k++)
            if (strcmp(field[k], names[c]) == 0) found.column[c] = (int)k;
    }
    found.known = found.column[C_START] >= 0 && found.column[C_END] >= 0 && found.column[C_STATE] >= 0;
    if (found.known) *s = found;
    return found.known;
}

/* A table with fixed columns: dashes below the names say how wide each is. */
static size_t cut(const struct sacct *s, char *line, char **field) {
    size_t length = strlen(line);
    for (size_t k = 0; k < s->columns; k++) {
        size_t from = s->from[k], until = s->until[k] < length ? s->until[k] : length;
        if (from >= length) from = until = length;
        while (until > from && line[until - 1] == ' ') until--;
        field[k] = line + from + strspn(line + from, " ");
        if (field[k] > line + until) field[k] = line + until;
        line[until] = 0;
    }
    return s->columns;
}

static bool fixed_header(struct sacct *s, const char *line) {
    char *field[MOST_FIELDS], above[sizeof s->above];
    size_t n = 0;
    if (strspn(line, "- ") != strlen(line) || !strstr(line, "---")) return false;
    for (const char *c = line; *(c += strspn(c, " ")) && n < MOST_FIELDS; n++) {
        s->from[n] = (size_t)(c - line);
        c += strspn(c, "-");
        s->until[n] = (size_t)(c - line);
    }
    s->columns = n;
    memcpy(above, s->above, sizeof above);
    n = cut(s, above, field);
    s->fixed = name_columns(s, field, n);
    return s->fixed;
}

bool hm_sacct_header(struct sacct *s, const char *line) {
    char *field[MOST_FIELDS], copy[sizeof s->above];
    if (fixed_header(s, line)) return true;
    (void)snprintf(s->above, sizeof s->above, "%s", line);
    if (!strchr(line, '|') || strlen(line) >= sizeof copy) return false;
    memcpy(copy, line, strlen(line) + 1);
    size_t n = split(copy, field);
    if (!name_columns(s, field, n)) return false;
    s->fixed = false;
    return true;
}

/* A job's end by its state: COMPLETED; what was bound to come (a time limit, a preemption); a failure. */
static enum moment_kind end_of(const char *state) {
    static const char *const stopped[] = {"TIMEOUT", "PREEMPTED", "DEADLINE"};
    if (strncmp(state, "COMPLETED", 9) == 0) return MOMENT_END;
    for (size_t k = 0; k < sizeof stopped / sizeof *stopped; k++)
        if (strncmp(state, stopped[k], strlen(stopped[k])) == 0) return MOMENT_STOP;
    return MOMENT_FAILURE;
}

int hm_sacct_row(struct timeline *t, struct sacct *s, struct log_clock *clock, char *line, struct hm_error *err) {
    char *field[MOST_FIELDS];
    struct hm_error absurd = {0};
    size_t n = s->fixed ? cut(s, line, field) : split(line, field);
    for (int c = 0; c < COLUMNS; c++)
        if (s->column[c] >= (int)n) {
            t->bad_lines++;
            return 0;
        }
    for (int c = C_JOB; c <= C_RAW; c++)
        if (s->column[c] >= 0 && strchr(field[s->column[c]], '.')) return 0; /* a step of a job */
    double start, end = NAN, submit;
    const char *text = field[s->column[C_START]], *state = field[s->column[C_STATE]];
    clock->last = -INFINITY; /* rows are not in the order of time; submission, start and end are */
    bool waited = s->column[C_SUBMIT] >= 0 && hm_log_moment(t, clock, field[s->column[C_SUBMIT]], &submit, &absurd);
    if (!hm_log_moment(t, clock, text, &start, &absurd)) {
        bool never = strcmp(text, "Unknown") == 0 || strcmp(text, "None") == 0 || !*text; /* it never ran */
        t->bad_lines += !never;
        return absurd.code == HM_OK ? 0 : hm_fail(err, absurd.code, "%s", absurd.message);
    }
    bool ended = hm_log_moment(t, clock, field[s->column[C_END]], &end, &absurd);
    if (absurd.code != HM_OK) return hm_fail(err, absurd.code, "%s", absurd.message);
    if (ended && end < start) {
        t->bad_lines++;
        return 0;
    }
    hm_timeline_moment(t, MOMENT_START, start);
    if (waited && submit < start) hm_timeline_span(t, SPAN_QUEUE, submit, start, -1);
    if (!ended) { /* still running */
        t->still_running = fmin(t->still_running, start);
        return 0;
    }
    hm_timeline_span(t, SPAN_RUNNING, start, end, -1);
    enum moment_kind kind = end_of(state);
    hm_timeline_moment(t, kind, end);
    if (kind == MOMENT_FAILURE) hm_timeline_moment(t, MOMENT_DETECTED, end);
    return 0;
}
