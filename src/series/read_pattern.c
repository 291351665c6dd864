/* read_pattern.c - any log that prints a step and its time, by a pattern that the user gives. */
#include "series.h"

#include <ctype.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum place { P_STEP, P_SECONDS, P_RANK, PLACES };
static const struct {
    const char *name;
    enum place place;
    const char *regex;
    double scale;
} places[] = {
    {"{step}", P_STEP, "([0-9]+)", 1},
    {"{seconds}", P_SECONDS, "([0-9]+[.]?[0-9]*([eE][-+]?[0-9]+)?)", 1},
    {"{ms}", P_SECONDS, "([0-9]+[.]?[0-9]*([eE][-+]?[0-9]+)?)", 1e-3},
    {"{us}", P_SECONDS, "([0-9]+[.]?[0-9]*([eE][-+]?[0-9]+)?)", 1e-6},
    {"{rank}", P_RANK, "([0-9]+)", 1},
};
enum { N_PLACES = sizeof places / sizeof places[0], MOST_GROUPS = 32, LOOK_BACK = 64 };

struct pattern {
    regex_t regex;
    size_t group[PLACES]; /* 0: not in the pattern */
    double scale;
};

static size_t count_groups(const char *text) {
    size_t n = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '\\' && c[1])
            c++;
        else if (*c == '(')
            n++;
    }
    return n;
}

/* Length of what belongs together: an escaped character, a bracket expression, else one character. */
static size_t piece(const char *c) {
    if (*c == '\\' && c[1]) return 2;
    if (*c != '[') return 1;
    size_t n = 1 + (c[1] == '^');
    if (c[n] == ']') n++; /* a bracket that comes first is meant itself */
    n += strcspn(c + n, "]");
    return c[n] ? n + 1 : n;
}

/* The pattern with its places as groups. */
static int translate(struct pattern *p, const char *text, struct hm_str *regex) {
    size_t groups = 0;
    for (const char *c = text; *c;) {
        size_t k = 0;
        while (k < N_PLACES && strncmp(c, places[k].name, strlen(places[k].name)) != 0) k++;
        if (k < N_PLACES && p->group[places[k].place] == 0) {
            p->group[places[k].place] = groups + 1;
            groups += count_groups(places[k].regex);
            if (places[k].place == P_SECONDS) p->scale = places[k].scale;
            hm_str_add(regex, "%s", places[k].regex);
            c += strlen(places[k].name);
            continue;
        }
        size_t n = piece(c);
        groups += n == 1 && *c == '(';
        hm_str_bytes(regex, c, n);
        c += n;
    }
    return groups < MOST_GROUPS ? 0 : -1;
}

static int compile(struct pattern *p, const char *text, struct hm_error *err) {
    struct hm_str regex = {0};
    int groups = translate(p, text, &regex);
    if (regex.failed) {
        hm_str_free(&regex);
        return hm_fail_memory(err);
    }
    if (groups != 0 || !p->group[P_STEP] || !p->group[P_SECONDS]) {
        hm_str_free(&regex);
        return hm_fail(
            err, HM_ERR_ARGUMENT,
            "--pattern '%s': needs {step} and one of {seconds}, {ms}, {us}, such as 'step {step}.* {seconds} s'", text);
    }
    char why[200];
    int code = regcomp(&p->regex, regex.text, REG_EXTENDED);
    if (code != 0) (void)regerror(code, &p->regex, why, sizeof why);
    hm_str_free(&regex);
    return code == 0 ? 0 : hm_fail(err, HM_ERR_ARGUMENT, "--pattern '%s': not a regular expression: %s", text, why);
}

/* Where a step stands already: ranks print the same step one after another and not always in order, or each in a file of its own.
 * s->n: nowhere. */
static size_t place_of(const struct hm_series *s, int64_t step) {
    if (s->attempts > 1) { /* after a restart the last ones */
        for (size_t k = s->n; k > 0 && k + LOOK_BACK > s->n; k--)
            if (s->step[k - 1] == step) return k - 1;
        return s->n;
    }
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->step[middle] < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n && s->step[low] == step ? low : s->n;
}

static int take_match(struct collected *c, const struct pattern *p, const char *line, const regmatch_t *match, int rank,
                      struct hm_error *err) {
    int64_t step = strtoll(line + match[p->group[P_STEP]].rm_so, NULL, 10);
    double seconds = p->scale * strtod(line + match[p->group[P_SECONDS]].rm_so, NULL);
    if (p->group[P_RANK]) rank = (int)strtol(line + match[p->group[P_RANK]].rm_so, NULL, 10);
    if (!(seconds > 0) || !isfinite(seconds) || step < 0) return 0;
    struct hm_series *s = c->s;
    if (rank < 0) return collect_step(c, step, seconds, err);
    size_t place = place_of(s, step);
    if (place == s->n && collect_step(c, step, seconds, err) != 0) return -1;
    if (seconds > s->seconds[place]) s->seconds[place] = seconds; /* a step takes as long as its slowest rank */
    return collect_rank(c, place, rank, collect_timer(c, "time printed"), seconds, err);
}

int read_pattern(struct collected *c, const char *path, int rank, const char *text, struct hm_error *err) {
    struct pattern p = {0};
    if (compile(&p, text, err) != 0) return -1;
    struct lines *l = lines_open(path, err);
    int status = l ? 0 : -1;
    regmatch_t match[MOST_GROUPS];
    for (char *line; status == 0 && (line = lines_next(l)) != NULL;)
        if (regexec(&p.regex, line, MOST_GROUPS, match, 0) == 0) status = take_match(c, &p, line, match, rank, err);
    if (l && lines_close(l, path, status == 0 ? err : NULL) != 0) status = -1;
    regfree(&p.regex);
    return status;
}
