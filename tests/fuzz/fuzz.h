/* fuzz.h - what the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput: linked with libFuzzer (scripts/fuzz), or with
 * replay.c, which runs it on the files of its corpus (ctest). */
#ifndef HM_FUZZ_H
#define HM_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes as a file that lives in memory; *fd must be closed. The name's storage is static. Aborts if there is no memory. */
const char *fuzz_file(const uint8_t *data, size_t size, int *fd);

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) fuzz_fail(#condition, __FILE__, __LINE__);                                                   \
    } while (0)
_Noreturn void fuzz_fail(const char *condition, const char *file, int line);

/* A failed call must say what is wrong in one line (shown if FUZZ_VERBOSE is set). */
struct hm_error;
void fuzz_check_error(const struct hm_error *err);

#endif
