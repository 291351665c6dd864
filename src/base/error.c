/* error.c - errors are values. */
#include "base.h"

#include <stdio.h>

int(hm_fail)(struct hm_error *err, enum hm_error_code code, const char *format, ...) {
    if (!err) return -1;
    err->code = code;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    /* One line, whatever a file name or a library's text brought along. */
    for (char *c = err->message; *c; c++)
        if ((unsigned char)*c < 0x20) *c = ' ';
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
