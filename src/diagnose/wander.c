/* wander.c - errors of means over steps. */
#include "wander.h"

#include "profile.h"

#include <math.h>

enum { ENOUGH = 1 << 17, LAGS = 4, MOST_BLOCKS = 32 };
static const double white = 0.15;  /* of the variance: less correlation from step to step is none */
static const double falls = -0.35; /* an error that falls at least as fast with n falls like noise */

/* Every so many of the series are looked at: so many values tell enough. */
static size_t stride_of(size_t n_series, size_t steps) {
    return n_series * steps / ENOUGH + 1;
}

int hm_wander_lags(const double *series, size_t n_series, size_t steps, double floor, bool few, double *of) {
    const size_t stride = stride_of(n_series, steps);
    size_t lags = steps / (few ? 6 : 4);
    lags = lags < 1 ? 1 : lags > LAGS ? LAGS : lags;
    double *value = hm_alloc((n_series / stride + 1) * steps, sizeof *value), v[LAGS + 1] = {0}, g[LAGS + 1] = {0};
    if (!value) return -1;
    for (size_t h = 1; h <= lags; h++) {
        size_t n = 0;
        for (size_t s = 0; s < n_series; s += stride)
            for (size_t t = 0; t + h < steps; t++) value[n++] = series[s * steps + t + h] - series[s * steps + t];
        double spread = hm_spread_about_0(value, n);
        v[h] = fmax(fmax(spread * spread, 2 * floor * floor), v[h - 1]);
    }
    hm_free(value);
    g[0] =
        v[lags] / 2; /* autocovariances: a difference over h steps has twice the variance less twice the covariance */
    for (size_t h = 1; h <= lags; h++) g[h] = g[0] - v[h] / 2;
    if (g[1] < white * g[0]) {
        g[0] = v[1] / 2;
        for (size_t h = 1; h <= lags; h++) g[h] = 0;
    }
    for (size_t n = 1; n <= steps; n++) {
        double sum = g[0] / (double)n;
        for (size_t h = 1; h <= lags && h < n; h++) sum += 2 / (double)n * (1 - (double)h / (double)n) * g[h];
        of[n] = sqrt(sum);
    }
    return 0;
}

/* Spread of the means of blocks of n steps. -1: too few to tell. */
static double spread_of_blocks(const double *series, size_t n_series, size_t steps, size_t stride, size_t n, bool rest,
                               double *value, double *mean) {
    const size_t blocks = steps / n;
    size_t apart = 0, about = 0;
    double *from_middle = value + (n_series / stride + 1) * blocks;
    for (size_t s = 0; s < n_series; s += stride) {
        const double *x = series + s * steps;
        for (size_t b = 0; b < blocks; b++) mean[b] = hm_mean(x + b * n, n);
        for (size_t b = 0; b + 1 < blocks; b++) value[apart++] = mean[b + 1] - mean[b];
        if (!rest || blocks < 4) continue;
        double *copy = mean + blocks;
        for (size_t t = 0; t < steps; t++) copy[t] = x[t];
        double middle = hm_median(copy, steps);
        for (size_t b = 0; b < blocks; b++) from_middle[about++] = mean[b] - middle;
    }
    if (apart < 12 && n > 1) return -1;
    double e = hm_spread_about_0(value, apart) * M_SQRT1_2;
    if (about) e = fmax(e, hm_spread_about_0(from_middle, about) * sqrt((double)blocks / (double)(blocks - 1)));
    return e;
}

int hm_wander_blocks(const double *series, size_t n_series, size_t steps, double floor, bool rest, double *of) {
    const size_t stride = stride_of(n_series, steps);
    double *value = hm_alloc(2 * (n_series / stride + 1) * steps, sizeof *value),
           *mean = hm_alloc(2 * steps, sizeof *mean), length[MOST_BLOCKS], e[MOST_BLOCKS];
    size_t n = 0;
    for (size_t block = 1; value && mean && n < MOST_BLOCKS && (block == 1 || (rest && block <= steps / 4));
         block *= 2) {
        double spread = spread_of_blocks(series, n_series, steps, stride, block, rest, value, mean);
        if (spread < 0) break;
        length[n] = (double)block;
        e[n] = fmax(spread, floor / sqrt((double)block));
        if (n) e[n] = fmax(e[n], e[n - 1] * sqrt(length[n - 1] / length[n]));
        n++;
    }
    bool good = value && mean;
    hm_free(value);
    hm_free(mean);
    if (!good || n == 0) return -1; /* the first length always has a spread */
    /* beyond the longest blocks: as it fell so far, at best like noise */
    double slope = n < 2 ? -0.5 : fmax(-0.5, fmin(0, log(e[n - 1] / e[0]) / log(length[n - 1])));
    if (slope < falls || isnan(slope)) slope = -0.5;
    for (size_t k = 1, at = 0; k <= steps; k++) {
        double x = (double)k;
        while (at + 1 < n && length[at + 1] <= x) at++;
        if (at + 1 < n) {
            double part = log(x / length[at]) / log(length[at + 1] / length[at]);
            of[k] = exp((1 - part) * log(fmax(e[at], 1e-12)) + part * log(fmax(e[at + 1], 1e-12)));
        } else {
            of[k] = e[n - 1] * pow(x / length[n - 1], slope);
        }
    }
    return 0;
}

double hm_wander_worst(const double *of, size_t steps) {
    double worst = 0;
    for (size_t n = 1; n <= steps; n++) worst = fmax(worst, of[n] * of[n] * (double)n);
    return worst;
}
