/* fuzz_tor.c - any bytes as what a run left behind: a ledger that adds up to the time of the run, or one line that says why not. A byte
 * 1 splits the input into two logs of one run. */
#include "fuzz.h"
#include "hindmost/tor.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static void check(const struct hm_tor_measurement *m) {
    double sum = 0;
    for (int c = 0; c < HM_TOR_CLASSES; c++) {
        FUZZ_CHECK(isfinite(m->ledger_s[c]) && m->ledger_s[c] >= -1e-6 * (1 + m->t_obs_s));
        sum += m->ledger_s[c];
    }
    FUZZ_CHECK(isfinite(m->t_obs_s) && fabs(sum - m->t_obs_s) <= 1e-9 * (1 + m->t_obs_s));
    FUZZ_CHECK(isnan(m->tor) || (m->tor >= 0 && m->tor <= 1 + 1e-9));
    FUZZ_CHECK(m->steps_kept <= m->steps_run);
    for (size_t i = 0; i < m->n_series; i++) FUZZ_CHECK(m->series[i].until_s >= m->series[i].from_s);
    for (size_t i = 0; i < m->n_notes; i++) FUZZ_CHECK(m->notes[i].what && !strchr(m->notes[i].what, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *cut = size ? memchr(data, 1, size) : NULL;
    size_t first = cut ? (size_t)(cut - data) : size, n = cut ? 2 : 1;
    char name[2][64];
    int fd[2];
    for (size_t k = 0; k < n; k++) {
        const uint8_t *part = k ? cut + 1 : data;
        strcpy(name[k], fuzz_file(part, k ? size - first - 1 : first, &fd[k]));
    }
    const char *paths[] = {name[0], name[1]};
    struct hm_error err = {0};
    struct hm_tor_measurement *m = hm_tor_measure(paths, n, NULL, &err);
    if (m)
        check(m);
    else
        fuzz_check_error(&err);
    hm_tor_measurement_free(m);
    for (size_t k = 0; k < n; k++) close(fd[k]);
    return 0;
}
