/* fuzz_whatif.c - any text as a change for `whatif --set` and as a list of steps: a result, or one line that says why not. */
#include "fuzz.h"
#include "../unit/jobs.h"
#include "hindmost/hindmost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct hm_trace *trace;
    struct hm_error err = {0};
    if (!trace) {
        struct job_options o = {.pp = 2, .dp = 2, .vpp = 1, .microbatches = 3, .steps = 3, .overlap = 0};
        struct job *j = job_make(1, &o);
        job_write(j, job_path("fuzz.csv"), NULL);
        job_free(j);
        struct hm_trace_options one_thread = {.threads = 1};
        trace = hm_trace_open(job_path("fuzz.csv"), &one_thread, &err);
        FUZZ_CHECK(trace != NULL);
    }
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = 0;
    const char *changes[8];
    size_t n = 0; /* one change a line */
    for (char *line = text, *next; line && n < 8; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        changes[n++] = line;
    }
    struct hm_whatif_result result;
    if (hm_whatif(trace, size % 2, changes, n, 1, &result, &err) != 0)
        fuzz_check_error(&err);
    else
        FUZZ_CHECK(result.baseline_s > 0 && !isnan(result.result_s));
    free(text);
    return 0;
}
