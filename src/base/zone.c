/* zone.c - time zones from the system's zone files (TZif, RFC 8536). The C library keeps one zone a process, and does not say when a time
 * happens twice; several logs with zones of their own need both. */
#include "base/stamp.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILE_LIMIT = 1 << 20, TYPES = 256 };
static const char *const FOLDER = "/usr/share/zoneinfo";

struct type {
    int offset_s;
    char name[8];
};

/* "M10.5.0/3": the last (5th) Sunday (0) of October at three. */
struct change {
    int month, week, day;
    double time_s;
};

struct hm_zone {
    size_t changes;
    double *at;           /* [changes] UTC */
    unsigned char *after; /* [changes] type from then on */
    struct type type[TYPES];
    size_t types;
    /* what holds after the last change (the file's footer): a standard offset and perhaps summer time */
    bool has_rule, has_summer;
    struct type standard, summer;
    struct change begin, end;
};

/* ---- offsets ---- */

static double change_of(const struct change *c, int year) {
    struct tm tm = {.tm_year = year - 1900, .tm_mon = c->month - 1, .tm_mday = 1};
    time_t first = timegm(&tm);
    gmtime_r(&first, &tm);
    int day = 1 + (c->day - tm.tm_wday + 7) % 7 + 7 * (c->week - 1);
    struct tm next = {.tm_year = year - 1900, .tm_mon = c->month, .tm_mday = 1};
    int length = (int)((timegm(&next) - first) / 86400);
    while (day > length) day -= 7;
    return (double)first + 86400.0 * (day - 1) + c->time_s;
}

static const struct type *by_rule(const struct hm_zone *z, double utc_s) {
    struct tm tm;
    time_t t = (time_t)utc_s + z->standard.offset_s;
    if (!z->has_summer) return &z->standard;
    gmtime_r(&t, &tm);
    double begin = change_of(&z->begin, tm.tm_year + 1900) - z->standard.offset_s;
    double end = change_of(&z->end, tm.tm_year + 1900) - z->summer.offset_s;
    bool summer = begin < end ? utc_s >= begin && utc_s < end : utc_s >= begin || utc_s < end;
    return summer ? &z->summer : &z->standard;
}

static const struct type *type_at(const struct hm_zone *z, double utc_s) {
    size_t low = 0, high = z->changes;
    while (low < high) { /* the first change after utc_s */
        size_t middle = low + (high - low) / 2;
        if (z->at[middle] <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == z->changes && z->has_rule) return by_rule(z, utc_s);
    return &z->type[low ? z->after[low - 1] : 0];
}

int hm_zone_utc(const struct hm_zone *z, double civil_s, double utc_s[2]) {
    utc_s[0] = utc_s[1] = civil_s;
    if (!z) return 1;
    int before = type_at(z, civil_s - 86400)->offset_s, after = type_at(z, civil_s + 86400)->offset_s;
    double a = civil_s - before, b = civil_s - after;
    bool good_a = type_at(z, a)->offset_s == before, good_b = type_at(z, b)->offset_s == after;
    utc_s[0] = utc_s[1] = good_a || !good_b ? a : b;
    if (before == after || !good_a || !good_b) return 1;
    utc_s[0] = fmin(a, b);
    utc_s[1] = fmax(a, b);
    return 2;
}

bool hm_zone_stamp(const struct hm_zone *z, const struct hm_stamp *s, double utc_s[2], int *answers) {
    *answers = 1;
    utc_s[0] = utc_s[1] = s->time_s;
    if (s->kind == HM_STAMP_ABSOLUTE) return true;
    if (!s->zone[0]) {
        *answers = hm_zone_utc(z, s->time_s, utc_s);
        return true;
    }
    if (!z) return false;
    const struct type *now = type_at(z, s->time_s);
    if (strcmp(now->name, s->zone) != 0) {
        now = NULL;
        for (size_t i = 0; i < z->types && !now; i++)
            if (strcmp(z->type[i].name, s->zone) == 0) now = &z->type[i];
    }
    if (!now) return false;
    utc_s[0] = utc_s[1] = s->time_s - now->offset_s;
    return true;
}

/* ---- the footer: "CET-1CEST,M3.5.0,M10.5.0/3" ---- */

static bool short_name(const char **at, char name[8]) {
    bool quoted = **at == '<';
    const char *begin = *at + quoted;
    size_t n = quoted ? strcspn(begin, ">") : 0;
    while (!quoted && isalpha((unsigned char)begin[n])) n++;
    if (n == 0 || (quoted && !begin[n])) return false;
    (void)snprintf(name, 8, "%.*s", (int)n, begin);
    *at = begin + n + quoted;
    return true;
}

/* "-1", "+02:30:00" */
static bool hours(const char **at, double *seconds) {
    char *end;
    bool minus = **at == '-';
    if (**at == '-' || **at == '+') ++*at;
    if (!isdigit((unsigned char)**at)) return false;
    double total = 0;
    for (double unit = 3600; unit >= 1; unit /= 60) {
        total += unit * (double)strtol(*at, &end, 10);
        *at = end;
        if (**at != ':') break;
        ++*at;
    }
    *seconds = minus ? -total : total;
    return total <= 168 * 3600;
}

static bool change_rule(const char **at, struct change *c) {
    int n = 0;
    *c = (struct change){.time_s = 7200};
    if (sscanf(*at, ",M%2d.%1d.%1d%n", &c->month, &c->week, &c->day, &n) != 3 || n == 0) return false;
    *at += n;
    if (**at == '/') {
        ++*at;
        if (!hours(at, &c->time_s)) return false;
    }
    return c->month >= 1 && c->month <= 12 && c->week >= 1 && c->week <= 5 && c->day >= 0 && c->day <= 6;
}

static bool read_rule(struct hm_zone *z, const char *text) {
    double west;
    if (!short_name(&text, z->standard.name) || !hours(&text, &west)) return false;
    z->standard.offset_s = (int)-west;
    z->has_rule = true;
    if (!*text || *text == '\n') return true;
    z->summer.offset_s = z->standard.offset_s + 3600;
    if (!short_name(&text, z->summer.name)) return false;
    if (*text && *text != ',') {
        if (!hours(&text, &west)) return false;
        z->summer.offset_s = (int)-west;
    }
    z->has_summer = change_rule(&text, &z->begin) && change_rule(&text, &z->end);
    return z->has_summer;
}

/* ---- the file ---- */

static uint64_t big_endian(const unsigned char *b, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v = v << 8 | b[i];
    return v;
}

struct counts {
    size_t isut, isstd, leap, time, type, chars;
};

static bool header(const unsigned char *b, size_t size, struct counts *c) {
    if (size < 44 || memcmp(b, "TZif", 4) != 0) return false;
    size_t *const fields[] = {&c->isut, &c->isstd, &c->leap, &c->time, &c->type, &c->chars};
    for (int i = 0; i < 6; i++) *fields[i] = (size_t)big_endian(b + 20 + 4L * i, 4);
    return c->time <= FILE_LIMIT && c->type >= 1 && c->type <= TYPES && c->chars <= 4096 && c->leap <= 4096 &&
           c->isut <= TYPES && c->isstd <= TYPES;
}

static size_t body(const struct counts *c, size_t width) {
    return c->time * width + c->time + c->type * 6 + c->chars + c->leap * (width + 4) + c->isstd + c->isut;
}

/* The second part of a file, which has 64-bit times. 0 good, 1 no zone file, -1 no memory. */
static int parse(struct hm_zone *z, const unsigned char *b, size_t size) {
    struct counts c;
    if (!header(b, size, &c) || b[4] < '2') return 1;
    size_t skip = 44 + body(&c, 4);
    if (skip > size || !header(b + skip, size - skip, &c)) return 1;
    b += skip + 44, size -= skip + 44;
    if (body(&c, 8) > size) return 1;
    z->at = hm_alloc(c.time + 1, sizeof *z->at);
    z->after = hm_alloc(c.time + 1, 1);
    if (!z->at || !z->after) return -1;
    const unsigned char *types = b + c.time * 9, *names = types + c.type * 6, *rest = b + body(&c, 8);
    for (size_t i = 0; i < c.time; i++) {
        z->at[i] = (double)(int64_t)big_endian(b + 8 * i, 8);
        z->after[i] = b[8 * c.time + i];
        if (z->after[i] >= c.type || (i && z->at[i] < z->at[i - 1])) return 1;
    }
    for (size_t i = 0; i < c.type; i++) {
        size_t name = types[6 * i + 5];
        z->type[i].offset_s = (int32_t)big_endian(types + 6 * i, 4);
        if (name >= c.chars || abs(z->type[i].offset_s) > 26 * 3600) return 1;
        (void)snprintf(z->type[i].name, sizeof z->type[i].name, "%.*s", (int)(c.chars - name), names + name);
    }
    z->changes = c.time;
    z->types = c.type;
    size -= body(&c, 8);
    char footer[128] = "";
    if (size > 2 && rest[0] == '\n' && size < sizeof footer) memcpy(footer, rest + 1, size - 1);
    return !*footer || *footer == '\n' || read_rule(z, footer) ? 0 : 1;
}

static int load(struct hm_zone *z, const char *path) {
    FILE *f = fopen(path, "rb");
    unsigned char *text = f ? hm_alloc(FILE_LIMIT, 1) : NULL;
    size_t n = text ? fread(text, 1, FILE_LIMIT, f) : 0;
    int status = !f ? 1 : !text ? -1 : n == FILE_LIMIT ? 1 : parse(z, text, n);
    hm_free(text);
    if (f) fclose(f);
    return status;
}

/* "UTC", "+02:00", "-0330": 0; anything else: 1. */
static int fixed(struct hm_zone *z, const char *name) {
    struct hm_stamp s;
    char text[64];
    z->types = 1;
    if (strcmp(name, "UTC") == 0 || strcmp(name, "GMT") == 0 || strcmp(name, "Z") == 0) return 0;
    if (*name != '+' && *name != '-') return 1;
    (void)snprintf(text, sizeof text, "2000-01-01T00:00:00%.20s", name);
    if (hm_stamp_read(text, &s) != strlen(text) || s.kind != HM_STAMP_ABSOLUTE) return 1;
    z->type[0].offset_s = (int)(946684800 - s.time_s);
    return 0;
}

/* This machine's: $TZ, or /etc/localtime; UTC if neither says anything. */
static int local(struct hm_zone *z) {
    const char *tz = getenv("TZ");
    char path[512];
    int status = 1;
    if (tz && *tz == ':') tz++;
    if (tz && *tz) {
        (void)snprintf(path, sizeof path, "%s%s%s", *tz == '/' ? "" : FOLDER, *tz == '/' ? "" : "/", tz);
        status = load(z, path);
        if (status == 1 && read_rule(z, tz)) return 0;
    } else if (!tz) {
        status = load(z, "/etc/localtime");
    }
    if (status <= 0) return status;
    hm_free(z->at);
    hm_free(z->after);
    *z = (struct hm_zone){.types = 1};
    return 0;
}

int hm_zone_open(const char *name, struct hm_zone **zone, struct hm_error *err) {
    char path[512];
    struct hm_zone *z = *zone = hm_alloc(1, sizeof *z);
    if (!z) return hm_fail_memory(err);
    int status = name ? fixed(z, name) : local(z);
    if (status > 0 && *name && *name != '/' && !strstr(name, "..") && strlen(name) < 256) {
        (void)snprintf(path, sizeof path, "%s/%s", FOLDER, name);
        status = load(z, path);
    }
    if (status == 0) return 0;
    hm_zone_close(z);
    *zone = NULL;
    if (status < 0) return hm_fail_memory(err);
    return hm_fail(err, HM_ERR_ARGUMENT,
                   "%.60s: no such time zone; give a name such as Europe/Berlin (from %s), UTC, or an offset such as "
                   "+02:00",
                   name, FOLDER);
}

void hm_zone_close(struct hm_zone *z) {
    if (!z) return;
    hm_free(z->at);
    hm_free(z->after);
    hm_free(z);
}
