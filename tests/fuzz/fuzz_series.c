/* fuzz_series.c - any bytes as the log of a run: paces that add up, or one line that says why not. A first byte of 'P' reads by a pattern. */
#include "fuzz.h"
#include "hindmost/hindmost.h"
#include "hindmost/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(const struct hm_series *s) {
    for (size_t i = 0; i < s->n; i++) FUZZ_CHECK(s->seconds[i] > 0 && s->weight[i] >= 0);
    for (size_t e = 0; e < s->paces.n_episodes; e++) {
        const struct hm_step_episode *p = &s->paces.episode[e];
        FUZZ_CHECK(p->first <= p->last && p->last < s->n && p->slowdown >= 1);
        FUZZ_CHECK(e == 0 || p->first > s->paces.episode[e - 1].last);
    }
    FUZZ_CHECK(s->paces.warm_up <= s->n && s->n_slow_steps <= s->paces.slow_steps);
    for (size_t r = 0; r < s->n_ranks; r++) FUZZ_CHECK(isnan(s->rank[r].slowdown) || s->rank[r].slowdown >= 1 - 1e-9);
    char *json;
    size_t size;
    struct hm_out *out = hm_out_memory(&json, &size, NULL);
    FUZZ_CHECK(out);
    hm_series_write_json(s, out);
    FUZZ_CHECK(hm_out_commit(out, NULL) == 0);
    free(json);
    hm_text_free(hm_series_text(s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int fd;
    const char *path = fuzz_file(data, size, &fd);
    struct hm_series_options options = {.pattern = size && data[0] == 'P' ? "r{rank} s{step} {ms}" : NULL};
    struct hm_error err = {0};
    (void)hm_series_detect(path);
    struct hm_series *s = hm_series_read(&path, 1, &options, &err);
    if (s)
        check(s);
    else
        fuzz_check_error(&err);
    hm_series_free(s);
    close(fd);
    return 0;
}
