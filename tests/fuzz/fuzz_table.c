/* fuzz_table.c - any bytes as an op table, Parquet, CSV or gzipped CSV: an analysis, or one line that says why not. DuckDB, which parses
 * the file formats, is not instrumented: what is watched here is everything behind it. */
#include "fuzz.h"
#include "hindmost/hindmost.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd;
    const char *path = fuzz_file(data, size, &fd);
    struct hm_error err = {0};
    struct hm_trace_options topt = {.threads = 1, .memory_bytes = (uint64_t)64 << 20};
    struct hm_analysis_options aopt = {.threads = 1, .per_step = true};
    struct hm_trace *t = hm_trace_open(path, &topt, &err);
    struct hm_analysis *a = t ? hm_analyze(t, &aopt, &err) : NULL;
    hm_trace_free(t);
    if (!a) {
        fuzz_check_error(&err);
    } else {
        struct hm_out *out = hm_out_open("/dev/null", &err);
        FUZZ_CHECK(out != NULL);
        hm_analysis_write_json(a, NULL, out);
        FUZZ_CHECK(hm_out_commit(out, &err) == 0);
        hm_text_free(hm_analysis_text(a, NULL, NULL));
    }
    hm_analysis_free(a);
    close(fd);
    return 0;
}
