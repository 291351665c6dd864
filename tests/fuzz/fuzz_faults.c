/* fuzz_faults.c - any bytes as a fault file, and as an analysis of which only S is wanted. */
#include "fuzz.h"
#include "hindmost/tor.h"

#include <math.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd;
    const char *path = fuzz_file(data, size, &fd);
    struct hm_error err = {0};
    struct hm_faults *f = hm_faults_read(path, 0, &err);
    if (!f) {
        fuzz_check_error(&err);
    } else {
        FUZZ_CHECK(f->nodes > 0 && f->faults > 0 && f->n_repairs <= f->faults);
        FUZZ_CHECK(isfinite(f->span_s) && f->span_s >= 0);
        for (size_t i = 0; i < f->n_repairs; i++)
            FUZZ_CHECK(f->repairs_s[i] >= 0 && (i == 0 || f->repairs_s[i] >= f->repairs_s[i - 1]));
        for (size_t i = 0; i < f->n_gaps; i++) FUZZ_CHECK(f->gaps_s[i] >= 0);
    }
    hm_faults_free(f);
    double slowdown;
    struct hm_error again = {0};
    if (hm_tor_slowdown_of(path, &slowdown, &again) != 0)
        fuzz_check_error(&again);
    else
        FUZZ_CHECK(isfinite(slowdown) && slowdown > 0);
    close(fd);
    return 0;
}
