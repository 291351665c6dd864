/* error.c - errors are values. */
#include "base.h"

#include <stdio.h>
#include <string.h>

int(hm_fail)(struct hm_error *err, enum hm_error_code code, const char *format, ...) {
    if (!err) return -1;
    err->code = code;
    char text[sizeof err->message];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* One line that is fit for a terminal, whatever a file name or a library's text brought along. */
    size_t size = strlen(text), n = 0;
    for (size_t i = 0; i < size;) {
        char one[HM_CLEANED];
        i += hm_clean(text + i, size - i, one);
        size_t length = strlen(one);
        if (n + length >= sizeof err->message) break;
        memcpy(err->message + n, one, length);
        n += length;
    }
    err->message[n] = 0;
    return -1;
}

int(hm_fail_memory)(struct hm_error *err) {
    return hm_fail(err, HM_ERR_MEMORY, "out of memory; use a machine with more, or analyse fewer steps");
}

const char *hm_version(void) {
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
    return TEXT(HM_VERSION_MAJOR) "." TEXT(HM_VERSION_MINOR) "." TEXT(HM_VERSION_PATCH);
}
