/* stamp.c - the ways in which logs write the time, read without the C library's locale or process-wide zone. */
#include "base/stamp.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { FIRST_YEAR = 1970, LAST_YEAR = 2200, LEAP_YEAR = 1972 };

struct civil {
    int year, month, day, hour, minute;
    double second;
};

static int days_in(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool civil_seconds(const struct civil *c, double *seconds) {
    if (c->year < FIRST_YEAR || c->year > LAST_YEAR || c->month < 1 || c->month > 12 || c->day < 1 ||
        c->day > days_in(c->year, c->month) || c->hour < 0 || c->hour > 23 || c->minute < 0 || c->minute > 59 ||
        !(c->second >= 0 && c->second < 61))
        return false;
    struct tm tm = {
        .tm_year = c->year - 1900, .tm_mon = c->month - 1, .tm_mday = c->day, .tm_hour = c->hour, .tm_min = c->minute};
    *seconds = (double)timegm(&tm) + c->second;
    return true;
}

/* Exactly `width` digits; moves on. -1 if they are not there. */
static int digits(const char **at, int width) {
    int value = 0;
    for (int i = 0; i < width; i++) {
        if (!isdigit((unsigned char)(*at)[i])) return -1;
        value = 10 * value + ((*at)[i] - '0');
    }
    *at += width;
    return value;
}

static bool sign(const char **at, char c) {
    if (**at != c) return false;
    ++*at;
    return true;
}

/* ".5", ",123456" */
static double fraction(const char **at) {
    double value = 0, place = 0.1;
    if ((**at != '.' && **at != ',') || !isdigit((unsigned char)(*at)[1])) return 0;
    for (++*at; isdigit((unsigned char)**at); ++*at, place /= 10) value += place * (**at - '0');
    return value;
}

/* "10:00:00.5" */
static bool clock_time(const char **at, struct civil *c) {
    const char *t = *at;
    if ((c->hour = digits(&t, 2)) < 0 || !sign(&t, ':') || (c->minute = digits(&t, 2)) < 0 || !sign(&t, ':'))
        return false;
    int second = digits(&t, 2);
    if (second < 0) return false;
    c->second = second + fraction(&t);
    *at = t;
    return true;
}

/* What may follow a date and time: nothing, Z, +02, +02:00, +0200, UTC, or a short name that only its zone knows. */
static void zone_suffix(const char **at, struct hm_stamp *s) {
    const char *t = *at;
    bool blank = *t == ' ';
    if (blank) t++;
    size_t letters = 0;
    while (isupper((unsigned char)t[letters])) letters++;
    bool ends = !isalnum((unsigned char)t[letters]) && t[letters] != '_' && t[letters] != ':' && t[letters] != '/';
    if (*t == '+' || (*t == '-' && !blank)) {
        bool west = *t++ == '-';
        int hours = digits(&t, 2), minutes = 0;
        const char *rest = t;
        if (hours < 0 || hours > 14) return;
        if (sign(&rest, ':') || isdigit((unsigned char)*rest)) minutes = digits(&rest, 2);
        if (minutes < 0 || minutes > 59) return;
        if (rest > t) t = rest;
        s->kind = HM_STAMP_ABSOLUTE;
        s->time_s -= (west ? -1 : 1) * (hours * 3600 + minutes * 60);
        *at = t;
    } else if ((letters == 1 && *t == 'Z' && !blank && ends) ||
               (letters == 3 && ends && (strncmp(t, "UTC", 3) == 0 || strncmp(t, "GMT", 3) == 0))) {
        s->kind = HM_STAMP_ABSOLUTE;
        *at = t + letters;
    } else if (letters >= 3 && letters <= 5 && ends && (!blank || strchr(" ]\"", t[letters]) || !t[letters])) {
        static const char *const levels[] = {"INFO", "WARN", "ERROR", "DEBUG", "FATAL", "TRACE", "NVRM"};
        for (size_t k = 0; k < sizeof levels / sizeof *levels; k++)
            if (strlen(levels[k]) == letters && strncmp(levels[k], t, letters) == 0) return; /* a log's level */
        snprintf(s->zone, sizeof s->zone, "%.*s", (int)letters, t);
        *at = t + letters;
    }
}

static bool iso(const char **at, struct hm_stamp *s) {
    struct civil c;
    const char *t = *at;
    if ((c.year = digits(&t, 4)) < 0 || !sign(&t, '-') || (c.month = digits(&t, 2)) < 0 || !sign(&t, '-') ||
        (c.day = digits(&t, 2)) < 0 || (*t != 'T' && *t != 't' && *t != ' '))
        return false;
    t++;
    if (!clock_time(&t, &c) || !civil_seconds(&c, &s->time_s)) return false;
    s->kind = HM_STAMP_CIVIL;
    zone_suffix(&t, s);
    *at = t;
    return true;
}

static int month_named(const char *text) {
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int m = 0; m < 12; m++)
        if (strncmp(text, names + 3L * m, 3) == 0) return m + 1;
    return 0;
}

static bool day_named(const char *text) {
    static const char names[] = "SunMonTueWedThuFriSat";
    for (int d = 0; d < 7; d++)
        if (strncmp(text, names + 3L * d, 3) == 0 && text[3] == ' ') return true;
    return false;
}

/* "Dec  1 10:00:00", with the year behind it as in ctime. */
static bool month_first(const char **at, struct hm_stamp *s) {
    const char *t = *at;
    struct civil c = {.year = LEAP_YEAR, .month = month_named(t)};
    if (!c.month || t[3] != ' ') return false;
    t += 3 + strspn(t + 3, " ");
    char *end;
    c.day = (int)strtol(t, &end, 10);
    if (end == t || end > t + 2 || *end != ' ') return false;
    t = end + 1;
    if (!clock_time(&t, &c)) return false;
    s->kind = HM_STAMP_NO_YEAR;
    const char *year = t;
    if (sign(&year, ' ')) {
        const char *begin = year;
        int value = digits(&year, 4);
        if (value >= FIRST_YEAR && value <= LAST_YEAR && !isalnum((unsigned char)*year) && year > begin) {
            s->kind = HM_STAMP_CIVIL;
            c.year = value;
            t = year;
        }
    }
    if (!civil_seconds(&c, &s->time_s)) return false;
    if (s->kind == HM_STAMP_CIVIL) zone_suffix(&t, s);
    *at = t;
    return true;
}

/* Seconds since 1970: ten digits, as they have been since 2001. */
static bool epoch(const char **at, struct hm_stamp *s) {
    const char *t = *at;
    if (strspn(t, "0123456789") != 10 || *t == '0') return false;
    char *end;
    s->time_s = strtod(t, &end);
    if (isalpha((unsigned char)*end)) return false;
    s->kind = HM_STAMP_ABSOLUTE;
    *at = end;
    return true;
}

size_t hm_stamp_read(const char *text, struct hm_stamp *s) {
    const char *t = text;
    *s = (struct hm_stamp){0};
    bool bracket = sign(&t, '[');
    if (bracket) t += strspn(t, " ");
    const char *inner = t;
    if (day_named(t)) t += 4;
    if (iso(&t, s) || month_first(&t, s) || epoch(&t, s)) {
        if (bracket && *t != ']') *s = (struct hm_stamp){0};
    } else if (bracket && isdigit((unsigned char)*inner)) { /* dmesg; with -d "<  0.1>" follows the time */
        char *end;
        s->time_s = strtod(inner, &end);
        t = end + strspn(end, " ");
        if (*t == '<') t += strcspn(t, ">\n"), t += *t == '>';
        if (*t == ']' && strspn(inner, "0123456789.") == (size_t)(end - inner) &&
            memchr(inner, '.', (size_t)(end - inner)))
            s->kind = HM_STAMP_UPTIME;
    }
    if (s->kind == HM_STAMP_NONE) {
        s->time_s = 0;
        return 0;
    }
    return (size_t)(t - text) + bracket;
}

double hm_stamp_with_year(const struct hm_stamp *stamp, const struct hm_zone *zone, double now_s) {
    struct tm day, now;
    time_t seconds = (time_t)stamp->time_s, today = (time_t)now_s;
    double utc[2] = {0, 0};
    gmtime_r(&seconds, &day);
    gmtime_r(&today, &now);
    for (int year = now.tm_year + 1901; year > now.tm_year + 1890; year--) { /* 29 February may take eight years */
        struct civil c = {year,        day.tm_mon + 1, day.tm_mday,
                          day.tm_hour, day.tm_min,     day.tm_sec + stamp->time_s - (double)seconds};
        double civil_s;
        if (!civil_seconds(&c, &civil_s)) continue;
        (void)hm_zone_utc(zone, civil_s, utc);
        if (utc[0] <= now_s + 86400) return utc[0];
    }
    return utc[0];
}
