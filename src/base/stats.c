/* stats.c - order statistics and moments. */
#include "base.h"

#include <math.h>

double hm_mean(const double *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    return n ? sum / (double)n : NAN;
}

/* Hoare's quickselect with median-of-three: puts the k-th smallest at x[k], smaller ones before it, larger ones after
 * it. */
double hm_select(double *x, size_t n, size_t k) {
    size_t lo = 0, hi = n - 1;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        double a = x[lo], b = x[mid], c = x[hi];
        double pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
        size_t i = lo, j = hi;
        for (;;) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i >= j) break;
            double t = x[i];
            x[i++] = x[j];
            x[j--] = t;
        }
        /* x[lo..j] <= pivot <= x[j+1..hi]; j == i can only be the pivot itself */
        if (k <= j)
            hi = j;
        else
            lo = j + 1;
    }
    return x[k];
}

double hm_quantile(double *x, size_t n, double q) {
    if (n == 0) return NAN;
    double at = q * (double)(n - 1);
    size_t k = (size_t)at;
    double low = hm_select(x, n, k);
    double part = at - (double)k;
    if (part <= 0 || k + 1 >= n) return low;
    double high = x[k + 1];
    for (size_t i = k + 2; i < n; i++)
        if (x[i] < high) high = x[i];
    return low + part * (high - low);
}

double hm_median(double *x, size_t n) {
    if (n == 0) return NAN;
    double high = hm_select(x, n, n / 2);
    if (n % 2) return high;
    double low = x[0];
    for (size_t i = 1; i < n / 2; i++)
        if (x[i] > low) low = x[i];
    return 0.5 * (low + high);
}

double hm_mad(double *x, size_t n, double center) {
    for (size_t i = 0; i < n; i++) x[i] = fabs(x[i] - center);
    return hm_median(x, n);
}

double hm_stddev(const double *x, size_t n) {
    double mean = hm_mean(x, n), sum = 0;
    for (size_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return n ? sqrt(sum / (double)n) : NAN;
}

double hm_pearson(const double *x, const double *y, size_t n) {
    double mx = hm_mean(x, n), my = hm_mean(y, n), xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}
