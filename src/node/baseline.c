/* baseline.c - what is normal: baselines learnt from the fleet, and the one-sided comparison of distributions. */
#include "node/node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *hm_verdict_name(enum hm_verdict verdict) {
    static const char *const names[] = {"pass", "warn", "fail", "unknown"};
    return verdict <= HM_UNKNOWN ? names[verdict] : "unknown";
}

bool hm_lower_is_better(const char *metric) {
    static const char *const words[] = {"time", "latency", "_lat", "overhead", "cost",     "duration", "return_code",
                                        "_us",  "_ms",     "_ns",  "errors",   "mismatch", "throttle", "asymmetry"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(metric, words[i])) return true;
    return false;
}

double hm_learn_baseline(const double *values, size_t n, double tolerance, bool lower_is_better, size_t *kept) {
    if (kept) *kept = 0;
    double *x = hm_alloc(n + 1, sizeof *x);
    if (!x) return NAN;
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i])) x[left++] = values[i];
    double baseline = left ? hm_median(x, left) : NAN;
    for (bool dropped = left > 0; dropped;) {
        size_t k = 0;
        for (size_t i = 0; i < left; i++) {
            double worse = lower_is_better ? x[i] - baseline : baseline - x[i];
            if (worse <= tolerance * fabs(baseline)) x[k++] = x[i];
        }
        dropped = k < left;
        if (k == 0) break; /* cannot happen with the median or a mean; guards against rounding */
        left = k;
        double next = hm_mean(x, left);
        dropped = dropped || fabs(next - baseline) > 1e-12 * fabs(baseline);
        baseline = next;
    }
    if (kept) *kept = left;
    hm_free(x);
    return baseline;
}

struct tagged {
    double value;
    bool mine;
};

static int by_value(const void *a, const void *b) {
    double x = ((const struct tagged *)a)->value, y = ((const struct tagged *)b)->value;
    return (x > y) - (x < y);
}

double hm_one_sided(const double *a, size_t n, const double *b, size_t m, bool lower_is_better) {
    if (n < 4 || m < 4) return NAN;
    struct tagged *all = hm_alloc(n + m, sizeof *all);
    if (!all) return NAN;
    for (size_t i = 0; i < n; i++) all[i] = (struct tagged){a[i], true};
    for (size_t i = 0; i < m; i++) all[n + i] = (struct tagged){b[i], false};
    size_t total = n + m;
    qsort(all, total, sizeof *all, by_value);
    double rank_sum = 0, ties = 0;
    for (size_t i = 0; i < total;) {
        size_t j = i;
        while (j < total && all[j].value == all[i].value) j++;
        double t = (double)(j - i), rank = (double)(i + j + 1) / 2;
        ties += t * t * t - t;
        for (; i < j; i++) rank_sum += all[i].mine ? rank : 0;
    }
    hm_free(all);
    double dn = (double)n, dm = (double)m, dt = (double)total;
    double u = rank_sum - dn * (dn + 1) / 2; /* pairs in which a is the larger */
    double variance = dn * dm / 12 * (dt + 1 - ties / (dt * (dt - 1)));
    if (!(variance > 0)) return 1;
    double excess = lower_is_better ? u - dn * dm / 2 : dn * dm / 2 - u;
    return 0.5 * erfc((excess - 0.5) / sqrt(2 * variance));
}
