/* units.c - times and rates with explicit units. */
#include "tor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    double seconds;
};

static const struct unit units[] = {{"ms", 1e-3},    {"s", 1},       {"sec", 1},       {"min", 60},      {"m", 60},
                                    {"h", 3600},     {"hour", 3600}, {"hours", 3600},  {"d", 86400},     {"day", 86400},
                                    {"days", 86400}, {"w", 604800},  {"week", 604800}, {"weeks", 604800}};

static const struct unit *find_unit(const char *name) {
    for (size_t k = 0; k < sizeof units / sizeof units[0]; k++)
        if (strcmp(units[k].name, name) == 0) return &units[k];
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
