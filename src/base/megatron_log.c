/* megatron_log.c - reads one line of a Megatron-LM log (megatron/training/training.py, megatron/core/timers.py) wherever it stands in the text:
 * torchrun puts "[default7]:" before it, srun "7: ", mpirun "[1,7]<stdout>:", Kubernetes a time stamp, a terminal colours. */
#include "base/megatron_log.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t hm_log_plain(char *line) {
    char *to = line;
    for (const char *c = line; *c; c++) {
        if (*c == 27 && c[1] == '[') { /* CSI: parameters, then one letter */
            c += 2;
            while (*c && !(*c >= 64 && *c <= 126)) c++;
            if (!*c) break;
        } else if (*c == 27 && c[1] == ']') { /* OSC (links, titles): to BEL or ST */
            while (*c && *c != 7 && !(*c == 27 && c[1] == '\\')) c++;
            if (!*c) break;
            if (*c == 27) c++;
        } else if (*c == 27) {
            if (c[1]) c++;
        } else if (*c != '\r' && *c != 8) {
            *to++ = *c;
        }
    }
    *to = 0;
    return (size_t)(to - line);
}

/* Behind a key: blanks, dots, a unit in parentheses, then ":" or "="; NULL if that is not what stands there. */
static const char *const underscored[] = {"ms", "us", "s", NULL};
static const char *after_key(const char *at, char unit[16]) {
    if (unit) *unit = 0;
    for (const char *const *u = underscored; *u; u++) /* Megatron-DeepSpeed: "elapsed_time_per_iteration_ms=3415.3" */
        if (*at == '_' && strncmp(at + 1, *u, strlen(*u)) == 0 && at[1 + strlen(*u)] == '=') {
            if (unit) (void)snprintf(unit, 16, "%s", *u);
            return at + strlen(*u) + 2;
        }
    at += strspn(at, " \t.");
    if (*at == '(') {
        size_t n = strcspn(at, ")");
        if (!at[n]) return NULL;
        if (unit) (void)snprintf(unit, 16, "%.*s", (int)(n - 1 < 15 ? n - 1 : 15), at + 1);
        at += n + 1;
    } else if (strncmp(at, "in s:", 5) == 0) { /* NeMo: "train_step_timing in s: 0.8" */
        if (unit) (void)snprintf(unit, 16, "s");
        at += 4;
    }
    at += strspn(at, " \t.");
    return *at == ':' || *at == '=' ? at + 1 : NULL;
}

static bool number_at(const char *at, double *value) {
    char *end;
    double number = strtod(at, &end);
    if (end == at || !isfinite(number)) return false;
    *value = number;
    return true;
}

bool hm_log_field(const char *line, const char *key, double *value, char unit[16]) {
    for (const char *at = line; (at = strstr(at, key)) != NULL; at++) {
        const char *behind = after_key(at + strlen(key), unit);
        if (behind && number_at(behind, value)) return true;
    }
    return false;
}

/* The stamp nearest before `end`: the log's own stands there, a launcher's or container's further left. */
static void find_stamp(const char *line, const char *end, struct hm_stamp *stamp) {
    *stamp = (struct hm_stamp){0};
    for (const char *c = line; c < end; c++) {
        struct hm_stamp found;
        bool begins = c == line || !isalnum((unsigned char)c[-1]);
        if (!begins || !(isdigit((unsigned char)*c) || isupper((unsigned char)*c))) continue;
        size_t n = hm_stamp_read(c, &found);
        if (!n || c + n > end || found.kind == HM_STAMP_NO_YEAR) continue;
        if (found.kind == HM_STAMP_ABSOLUTE && strspn(c, "0123456789.") == n)
            continue; /* any ten digits may stand in a line */
        *stamp = found;
        c += n - 1;
    }
}

/* The rank or, of torchrun's "default", the local rank that a launcher put first. */
static int prefix_rank(const char *line) {
    static const struct {
        const char *before, *behind;
    } forms[] = {{"[default", "]:"}, {"[rank", "]"}, {"[1,", "]<"}, {"rank ", ":"}, {"rank", ":"}, {"", ": "}};
    line += strspn(line, " \t");
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        size_t n = strlen(forms[k].before);
        char *end;
        if (strncmp(line, forms[k].before, n) != 0 || !isdigit((unsigned char)line[n])) continue;
        long rank = strtol(line + n, &end, 10);
        if (rank <= INT32_MAX && strncmp(end, forms[k].behind, strlen(forms[k].behind)) == 0) return (int)rank;
    }
    return -1;
}

/* "iteration        5/     100 |", "iteration: 5/100", "iteration 4/99 |" */
static const char *iteration_at(const char *line, int64_t *n, int64_t *total) {
    for (const char *at = line; (at = strstr(at, "iteration")) != NULL; at++) {
        char *end;
        const char *c = at + 9;
        c += strspn(c, " \t");
        if (*c == ':' || *c == '=') c++;
        c += strspn(c, " \t");
        if (!isdigit((unsigned char)*c)) continue;
        *n = strtoll(c, &end, 10);
        c = end + strspn(end, " \t");
        if (*c != '/') continue;
        c++;
        c += strspn(c, " \t");
        if (!isdigit((unsigned char)*c)) continue;
        *total = strtoll(c, &end, 10);
        return at;
    }
    return NULL;
}

/* The unit of "(ms)", "(s)"; Megatron's has always been milliseconds. */
static double scale_of(const char *unit) {
    return strcmp(unit, "s") == 0 || strncmp(unit, "sec", 3) == 0 ? 1 : strcmp(unit, "us") == 0 ? 1e-6 : 1e-3;
}

static bool read_iteration(const char *line, struct hm_log_line *o) {
    static const char *const keys[] = {"elapsed time per iteration", "elapsed_time_per_iteration", "train_step_timing"};
    char unit[16];
    double elapsed;
    const char *at = iteration_at(line, &o->iteration, &o->total);
    if (!at) return false;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (hm_log_field(at, keys[k], &elapsed, unit) && elapsed >= 0) {
            o->kind = HM_LOG_ITERATION;
            o->elapsed_s = elapsed * scale_of(unit);
            find_stamp(line, at, &o->stamp);
            return true;
        }
    return false;
}

static const struct {
    const char *words;
    enum hm_log_kind kind;
} events[] = {
    {"saving checkpoint at iteration", HM_LOG_SAVING},
    {"successfully saved checkpoint from iteration", HM_LOG_SAVED},
    {"successfully saved checkpoint at iteration", HM_LOG_SAVED},
    {"successfully loaded checkpoint", HM_LOG_LOADED},
    {"loading checkpoint from", HM_LOG_LOADING},
    {"loading distributed checkpoint from", HM_LOG_LOADING},
    {"loading release checkpoint from", HM_LOG_LOADING},
};

static bool read_event(const char *line, struct hm_log_line *o) {
    for (size_t k = 0; k < sizeof events / sizeof *events; k++) {
        const char *at = strstr(line, events[k].words);
        if (!at) continue;
        o->kind = events[k].kind;
        const char *rest = at + strlen(events[k].words), *number = strstr(at, "iteration");
        if (number) rest = number + 9;
        rest += strspn(rest, " \t:=");
        o->iteration = number && isdigit((unsigned char)*rest) ? strtoll(rest, NULL, 10) : -1;
        if (o->kind <= HM_LOG_SAVED && o->iteration < 0) o->kind = HM_LOG_OTHER;
        find_stamp(line, at, &o->stamp);
        return o->kind != HM_LOG_OTHER;
    }
    return false;
}

/* "    forward-backward ......: (690.1, 700.2)": a word, dots, a colon. Of old releases' "time (ms) | save-checkpoint: 1.0 |" the two timers
 * that name a checkpoint. */
static bool read_timer(const char *line, struct hm_log_line *o) {
    const char *dots = strstr(line, " .."), *end, *name;
    static const char *const plain[] = {"save-checkpoint", "load-checkpoint"};
    if (dots) {
        const char *colon = dots + 1 + strspn(dots + 1, ".");
        if (*colon != ':' && *colon != '=') return false;
        for (name = dots; name > line && (isalnum((unsigned char)name[-1]) || strchr("-_/", name[-1]));) name--;
        end = colon + 1;
        if (name == dots || dots - name >= (long)sizeof o->name) return false;
        memcpy(o->name, name, (size_t)(dots - name));
        o->name[dots - name] = 0;
    } else {
        size_t k = 0;
        for (end = NULL; k < 2 && !end; k++) {
            name = strstr(line, plain[k]);
            end = name ? after_key(name + strlen(plain[k]), NULL) : NULL;
        }
        if (!end) return false;
        (void)snprintf(o->name, sizeof o->name, "%s", plain[k - 1]);
        if (strstr(line, "(s)")) o->scale_s = 1;
    }
    o->kind = HM_LOG_TIMER;
    o->low = o->high = NAN; /* of "all" ranks: the numbers follow, a line each */
    if (sscanf(end, " (%lf, %lf)", &o->low, &o->high) != 2 && number_at(end, &o->high)) o->low = o->high;
    if (!isfinite(o->high)) o->low = o->high = NAN;
    find_stamp(line, name, &o->stamp);
    return true;
}

void hm_log_read(char *line, struct hm_log_line *o) {
    *o = (struct hm_log_line){.iteration = -1, .rank = -1, .low = NAN, .high = NAN, .scale_s = NAN};
    hm_log_plain(line);
    o->rank = prefix_rank(line);
    if (read_iteration(line, o) || read_event(line, o)) return;
    const char *at = strstr(line, " across ranks (");
    char unit[16];
    if (at && after_key(at + strlen(" across ranks"), unit)) {
        o->kind = HM_LOG_TIMERS;
        o->scale_s = scale_of(unit);
        return;
    }
    if ((at = strstr(line, "log_interval ..")) != NULL) {
        at += 13 + strspn(at + 13, ".");
        o->iteration = strtoll(at, NULL, 10);
        if (o->iteration > 0) o->kind = HM_LOG_INTERVAL;
        return;
    }
    if (read_timer(line, o)) return;
    int n = 0;
    if ((at = strstr(line, "rank ")) != NULL && sscanf(at, "rank %d: %lf%n", &o->rank, &o->high, &n) == 2 && !at[n])
        o->kind = HM_LOG_TIMER_RANK;
}
