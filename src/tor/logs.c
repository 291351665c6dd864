/* logs.c - which kind of log a file is, line by line: our event log, DLRover's, Megatron-LM's, Slurm's accounting. */
#include "timeline.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LONGEST = 1 << 16 }; /* longer lines are no log's, and are passed over */

struct reading {
    struct timeline *t;
    struct log_clock clock;
    struct sacct sacct;
    struct dlrover dlrover;
    bool events; /* an event was read: a line that is none is a bad one */
    size_t lines;
};

static int take_line(struct reading *r, char *line, struct hm_error *err) {
    struct timeline *t = r->t;
    const char *first = line + strspn(line, " \t");
    if (!*first || *first == '#') return 0;
    if (*first == '{') { /* other programs print JSON into a training log, too */
        size_t bad = t->bad_lines, found = t->n_spans + t->n_moments;
        int read = hm_tor_read_event(t, &r->clock, first, err);
        r->events = r->events || t->n_spans + t->n_moments > found;
        if (!r->events && hm_megatron_lines(t)) t->bad_lines = bad;
        return read;
    }
    int status = 0;
    if (hm_dlrover_line(t, &r->dlrover, &r->clock, first, &status, err)) return status;
    if (hm_sacct_header(&r->sacct, line)) return 0;
    if (r->sacct.known && (r->sacct.fixed || strchr(line, '|')))
        return hm_sacct_row(t, &r->sacct, &r->clock, line, err);
    if (r->events) {
        t->bad_lines++;
        return 0;
    }
    hm_megatron_line(t, &r->clock, line);
    return t->failed ? hm_fail_memory(err) : 0;
}

static int read_lines(struct reading *r, FILE *file, char *line, struct hm_error *err) {
    bool whole = true; /* the last piece read ended its line */
    while (fgets(line, LONGEST, file)) {
        size_t n = strlen(line);
        bool begins = whole;
        char *text = line;
        whole = n > 0 && line[n - 1] == '\n';
        if (!begins) continue;
        r->lines++;
        if (r->lines == 1 && (memcmp(line, "\xff\xfe", 2) == 0 || memcmp(line, "\xfe\xff", 2) == 0))
            return hm_fail(err, HM_ERR_INPUT, "is UTF-16; convert it to UTF-8");
        if (r->lines == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0) text += 3, n -= 3; /* a byte order mark */
        if (!whole && !feof(file)) {
            r->t->bad_lines++;
            continue;
        }
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) text[--n] = 0;
        if (take_line(r, text, err) != 0) return -1;
    }
    return ferror(file) ? hm_fail(err, HM_ERR_IO, "cannot be read") : 0;
}

int hm_tor_read_log(struct timeline *t, const char *path, const struct hm_zone *zone, struct hm_error *err) {
    FILE *file = hm_in_file(path, err);
    if (!file) return -1;
    struct reading r = {.t = t, .clock = {zone, -INFINITY}};
    struct hm_error why = {0};
    char *line = hm_alloc(LONGEST, 1);
    size_t before = t->n_spans + t->n_moments, unstamped = t->unstamped;
    int status = line && hm_megatron_file(t) == 0 ? read_lines(&r, file, line, &why) : hm_fail_memory(&why);
    hm_free(line);
    fclose(file);
    if (t->failed) return hm_fail_memory(err);
    if (status != 0 && why.code == HM_ERR_INPUT)
        return hm_fail(err, why.code, "%s: line %zu: %s", path, r.lines, why.message);
    if (status != 0) return hm_fail(err, why.code, "%s: %s", path, why.message);
    if (t->n_spans + t->n_moments + hm_megatron_lines(t) > before) return 0;
    if (t->unstamped > unstamped)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: its iterations bear no time stamp, so that time between them cannot be told; log with a "
                       "newer Megatron-LM, or with a launcher that stamps lines",
                       path);
    return hm_fail(err, HM_ERR_INPUT,
                   "%s: %zu lines, and none is an event, a Megatron-LM iteration with a time stamp, or a row of "
                   "sacct --parsable2; see 'hindmost help tor'",
                   path, r.lines);
}
