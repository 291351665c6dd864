/* stamp.h - times as logs write them, and time zones. */
#ifndef HM_STAMP_H
#define HM_STAMP_H

#include "base/base.h"

/* ---- stamps ---- */
enum hm_stamp_kind {
    HM_STAMP_NONE,
    HM_STAMP_ABSOLUTE, /* seconds since 1970: the text said the zone, or was such a number */
    HM_STAMP_CIVIL,    /* a day and a time of day; seconds counted as if it were UTC */
    HM_STAMP_NO_YEAR,  /* "Dec 31 23:59:00": as CIVIL, in the year 1972 (which has a 29 February) */
    HM_STAMP_UPTIME    /* "[12345.678901]": seconds since the machine started */
};
struct hm_stamp {
    enum hm_stamp_kind kind;
    double time_s;
    char zone[8]; /* CIVIL with a zone's short name that is not UTC's ("CET"): only a zone knows its offset; else "" */
};
/* Reads the stamp at the very beginning of the text; returns its length, 0 if there is none. Known are 2026-12-01T10:00:00.5+02:00 (blank
 * for T, comma for the point, zone as Z, UTC, GMT, +02, +0200, or absent), Tue Dec  1 10:00:00 2026, Tue 2026-12-01 10:00:00 UTC, Dec  1
 * 10:00:00, 1796119200.5 (ten digits), and all of them, or seconds since boot, in brackets. Days that no calendar has are none. */
size_t hm_stamp_read(const char *text, struct hm_stamp *stamp);

/* ---- time zones ---- */
struct hm_zone;
/* "Europe/Berlin" (from the system's zone files), "UTC", "+02:00"; NULL: this machine's zone. Unknown names fail. */
int hm_zone_open(const char *name, struct hm_zone **zone, struct hm_error *err);
void hm_zone_close(struct hm_zone *zone); /* NULL is allowed */
/* UTC of a civil time (seconds as if it were UTC). When clocks are set back an hour happens twice: both answers, the earlier first,
 * and 2 is returned. Else 1; a time that is left out in spring is taken as if the clock had not been set yet. NULL zone: UTC. */
int hm_zone_utc(const struct hm_zone *zone, double civil_s, double utc_s[2]);
/* The absolute time of a stamp of kind ABSOLUTE or CIVIL; false if its short zone name is not one of the zone's. utc_s as above; the number
 * of answers in *answers. */
bool hm_zone_stamp(const struct hm_zone *zone, const struct hm_stamp *stamp, double utc_s[2], int *answers);
/* The latest time not after now_s + 1 day that a stamp without a year can mean. */
double hm_stamp_with_year(const struct hm_stamp *stamp, const struct hm_zone *zone, double now_s);

#endif
