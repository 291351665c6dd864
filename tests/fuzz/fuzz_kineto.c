/* fuzz_kineto.c - any bytes as a profiler trace, gzipped or not, or an archive of them: a report, or one line that says why not. */
#include "fuzz.h"
#include "hindmost/arrivals.h"
#include "hindmost/report.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd;
    const char *path = fuzz_file(data, size, &fd);
    struct hm_error err = {0};
    struct hm_arrivals *a = hm_arrivals_read(&path, 1, "kineto", 1, NULL, &err);
    if (!a) {
        fuzz_check_error(&err);
    } else {
        struct hm_out *out = hm_out_open("/dev/null", &err);
        FUZZ_CHECK(out != NULL);
        hm_arrivals_write_json(a, out);
        hm_arrivals_write_csv(a, out);
        FUZZ_CHECK(hm_out_commit(out, &err) == 0);
        hm_text_free(hm_arrivals_text(a));
    }
    hm_arrivals_free(a);
    close(fd);
    return 0;
}
