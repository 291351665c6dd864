/* units.c - times and rates with explicit units. */
#include "tor.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct unit {
    const char *names; /* each between blanks */
    double seconds;
} units[] = {{" us usec microsecond microseconds ", 1e-6},
             {" ms msec msecs millisecond milliseconds ", 1e-3},
             {" s sec secs second seconds ", 1},
             {" m min mins minute minutes ", 60},
             {" h hr hrs hour hours ", 3600},
             {" d day days ", 86400},
             {" w wk week weeks ", 604800}};

/* "5min", "5 minutes", "5 Hours"; a single capital letter is no unit: M may be a month. */
static const struct unit *find_unit(const char *name) {
    char word[20];
    name += strspn(name, " ");
    size_t n = strlen(name);
    if (n == 0 || n + 3 > sizeof word || strchr(name, ' ')) return NULL;
    (void)snprintf(word, sizeof word, " %s ", name);
    for (size_t i = 1; n > 1 && i <= n; i++) word[i] = (char)tolower((unsigned char)word[i]);
    for (size_t k = 0; k < sizeof units / sizeof units[0]; k++)
        if (strstr(units[k].names, word)) return &units[k];
    return NULL;
}

int hm_tor_parse_time(const char *text, const char *what, double *seconds, struct hm_error *err) {
    char *end;
    double value = strtod(text, &end);
    const struct unit *unit = end == text ? NULL : find_unit(end);
    if (!unit && !(end != text && value == 0 && *end == 0)) /* plain 0 needs no unit */
        return hm_fail(err, HM_ERR_ARGUMENT, "%s %s: give a time with its unit, such as 30s, 5min, 12h or 2d", what,
                       text);
    if (!isfinite(value) || value < 0)
        return hm_fail(err, HM_ERR_ARGUMENT, "%s %s: a time is finite and not negative", what, text);
    *seconds = value * (unit ? unit->seconds : 1);
    return 0;
}

int hm_tor_parse_rate(const char *text, const char *what, double *per_second, struct hm_error *err) {
    char *end;
    double value = strtod(text, &end);
    const struct unit *unit = end != text && *end == '/' ? find_unit(end + 1) : NULL;
    if (!unit && !(end != text && value == 0 && *end == 0))
        return hm_fail(err, HM_ERR_ARGUMENT, "%s %s: give a rate with its unit, such as 6.5e-3/day or 1/week", what,
                       text);
    if (!isfinite(value) || value < 0)
        return hm_fail(err, HM_ERR_ARGUMENT, "%s %s: a rate is finite and not negative", what, text);
    *per_second = unit ? value / unit->seconds : 0;
    return 0;
}
