/* megatron_log.c - reads lines of Megatron-LM's training log: iterations, checkpoints, timers. */
#include "megatron_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool hm_parse_moment(const char *text, double *time) {
    struct tm tm = {0};
    double seconds = 0;
    int n = 0;
    char *end;
    double plain = strtod(text, &end);
    if (end != text && *end == 0 && isfinite(plain) && plain >= 0) {
        *time = plain;
        return true;
    }
    if (sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d:%lf%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
               &seconds, &n) != 6)
        return false;
    if (tm.tm_year < 1970 || tm.tm_year > 2200 || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 ||
        tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 24 || tm.tm_min < 0 || tm.tm_min > 59 ||
        !(seconds >= 0 && seconds < 61))
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    double zone = 0;
    int hours, minutes;
    const char *rest = text + n;
    if ((*rest == '+' || *rest == '-') && sscanf(rest + 1, "%2d:%2d", &hours, &minutes) == 2)
        zone = (*rest == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    *time = (double)timegm(&tm) + seconds - zone;
    return true;
}

double hm_megatron_timer_ms(const char *text, const char *name) {
    const char *at = strstr(text, name), *colon = at ? strchr(at, ':') : NULL;
    double low, high;
    if (!colon) return -1;
    if (sscanf(colon + 1, " (%lf, %lf)", &low, &high) == 2) return high;
    return sscanf(colon + 1, " %lf", &low) == 1 ? low : -1;
}

/* The time in brackets before `at`: where launchers prefix each line, other brackets may stand before it. */
static double stamp_before(const char *text, const char *at) {
    const char *bracket = at;
    char stamp[40] = "";
    double time;
    while (bracket > text && *bracket != '[') bracket--;
    if (*bracket == '[') (void)sscanf(bracket, "[%39[^]]]", stamp);
    return hm_parse_moment(stamp, &time) ? time : NAN;
}

static bool parse_iteration(const char *text, struct hm_megatron_line *line) {
    const char *at = strstr(text, "iteration "), *bar = at ? strchr(at, '|') : NULL,
               *elapsed = strstr(text, "elapsed time per iteration (ms):");
    long long n, total;
    double ms;
    if (!at || !bar || !elapsed || sscanf(at, "iteration %lld/ %lld", &n, &total) != 2 ||
        sscanf(elapsed + strlen("elapsed time per iteration (ms):"), "%lf", &ms) != 1 || !(ms >= 0) || n < 0)
        return false;
    *line = (struct hm_megatron_line){HM_MEGATRON_ITERATION, n, total, stamp_before(text, at), ms};
    return true;
}

enum hm_megatron_kind hm_megatron_parse(const char *text, struct hm_megatron_line *line) {
    static const char saving[] = "saving checkpoint at iteration";
    const char *at;
    long long n;
    if (parse_iteration(text, line)) return line->kind;
    *line = (struct hm_megatron_line){HM_MEGATRON_OTHER, -1, -1, NAN, -1};
    if ((at = strstr(text, saving)) != NULL) {
        if (sscanf(at + strlen(saving), "%lld", &n) != 1) return HM_MEGATRON_OTHER;
        line->kind = HM_MEGATRON_SAVING;
        line->iteration = n;
    } else if (strstr(text, "loading checkpoint from") || strstr(text, "successfully loaded checkpoint")) {
        line->kind = HM_MEGATRON_LOADING;
    } else if (strstr(text, "save-checkpoint ")) {
        line->kind = HM_MEGATRON_SAVE_TIMER;
        line->elapsed_ms = hm_megatron_timer_ms(text, "save-checkpoint ");
    } else if (strstr(text, "load-checkpoint ")) {
        line->kind = HM_MEGATRON_LOAD_TIMER;
        line->elapsed_ms = hm_megatron_timer_ms(text, "load-checkpoint ");
    }
    return line->kind;
}
