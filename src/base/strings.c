/* strings.c - a growing string, and small questions about texts. */
#include "base.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct hm_str *s, size_t extra) {
    if (s->failed) return false;
    if (s->length + extra + 1 <= s->capacity) return true;
    size_t wanted = (s->length + extra + 1) * 2;
    char *grown = hm_realloc(s->text, wanted, 1);
    if (!grown) {
        s->failed = true;
        return false;
    }
    s->text = grown;
    s->capacity = wanted;
    return true;
}

void hm_str_bytes(struct hm_str *s, const char *bytes, size_t n) {
    if (s->people) {
        hm_str_clean(s, bytes, n);
        return;
    }
    if (!reserve(s, n)) return;
    memcpy(s->text + s->length, bytes, n);
    s->length += n;
    s->text[s->length] = 0;
}

void hm_str_add(struct hm_str *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (s->people) {
        hm_str_format(s, format, args);
        va_end(args);
        return;
    }
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !reserve(s, (size_t)n)) return;
    va_start(args, format);
    (void)vsnprintf(s->text + s->length, (size_t)n + 1, format, args);
    va_end(args);
    s->length += (size_t)n;
}

void hm_str_free(struct hm_str *s) {
    hm_free(s->text);
    *s = (struct hm_str){0};
}

bool hm_ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Digits only: strtoll alone would take blanks and signs. */
static bool parse_number(const char *text, char **end, int64_t *number) {
    errno = 0;
    *number = strtoll(text, end, 10);
    return isdigit((unsigned char)*text) && errno == 0;
}

bool hm_parse_range(const char *text, const char **end, int64_t *first, int64_t *last) {
    char *rest;
    if (!parse_number(text, &rest, first)) return false;
    *last = *first;
    if (*rest == '-' && !parse_number(rest + 1, &rest, last)) return false;
    if (end)
        *end = rest;
    else if (*rest)
        return false;
    return *last >= *first;
}
