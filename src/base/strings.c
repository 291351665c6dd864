/* strings.c - a growing string. */
#include "base.h"

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
    if (!reserve(s, n)) return;
    memcpy(s->text + s->length, bytes, n);
    s->length += n;
    s->text[s->length] = 0;
}

void hm_str_add(struct hm_str *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
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
