/* fuzz.c - a file in memory, and checks. */
#include "fuzz.h"
#include "hindmost/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *fuzz_file(const uint8_t *data, size_t size, int *fd) {
    static char path[64];
    *fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (*fd < 0 || write(*fd, data, size) != (ssize_t)size) abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", *fd);
    return path;
}

void fuzz_fail(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
    abort();
}

void fuzz_check_error(const struct hm_error *err) {
    if (getenv("FUZZ_VERBOSE")) fprintf(stderr, "%s\n", err->message);
    FUZZ_CHECK(err->code != HM_OK);
    FUZZ_CHECK(strlen(err->message) > 0);
    FUZZ_CHECK(strchr(err->message, '\n') == NULL);
}
