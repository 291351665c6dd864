/* segment.c - a series of steps cut into intervals of constant level, and the usual level among peers. */
#include "usual.h"
#include "windows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double hm_lane_sigmas = 5.5;        /* standard errors that a replica must stand out by */
const double hm_peers = 5;                /* times the spread among peers, for levels that may be natural */
static const double together = 0.02;      /* levels so near the lowest belong to its group */
static const double lie_together = 0.045; /* machines that differ by 1.5 % lie so near each other */

double hm_spread(double *x, size_t n) {
    return n ? 1.4826 * hm_mad(x, n, hm_median(x, n)) : 0;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double hm_usual_level(double *x, size_t n, double error) {
    if (n == 1) return x[0];
    qsort(x, n, sizeof *x, ascending);
    size_t rank =
        n <= 10 ? 0 : (n + 9) / 10 - 1; /* of many the lowest tenth is left to chance, unless it is far from it */
    if (x[rank] - x[0] > fmax(hm_natural, 10 * error)) rank = 0;
    double low = x[rank], middle = x[(n - 1) / 2];
    if (n >= 4 && middle - low <= fmin(hm_natural, fmax(lie_together, 4 * error))) { /* as far as the lower half goes */
        size_t from = 0, to = n;
        while (middle - x[from] > hm_natural) from++;
        while (x[to - 1] - middle > hm_natural) to--;
        return 0.5 * (x[from + (to - from - 1) / 2] + x[from + (to - from) / 2]);
    }
    double sum = 0, reach = fmax(together, 3 * error);
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs(x[i] - low) <= reach) sum += x[i], k++;
    return sum / (double)k;
}

/* ---- segments ---- */

struct cut {
    const double *prefix, *of;
    size_t begin, n, steps;
};

static double mean_of(const struct cut *c, size_t first, size_t end) {
    return (c->prefix[c->begin + end] - c->prefix[c->begin + first]) / (double)(end - first);
}

/* How many standard errors a window differs from the rest of the interval by. */
static double distance(const void *context, struct hm_window w) {
    const struct cut *c = context;
    size_t k = w.end - w.first, rest = c->n - k;
    if (k >= c->n) return 0;
    double inside = mean_of(c, w.first, w.end),
           outside = (mean_of(c, 0, c->n) * (double)c->n - inside * (double)k) / (double)rest;
    return fabs(inside - outside) / hypot(c->of[k], c->of[rest]);
}

/* The window that stands out most; false: none does. */
static bool cut_out(const struct cut *c, const struct hm_windows *windows, struct hm_window *best) {
    double most = hm_lane_sigmas;
    bool found = false;
    for (size_t i = 0; i < windows->n; i++) {
        struct hm_window w = windows->at[i];
        double z = distance(c, w);
        if (z <= most) continue;
        size_t k = w.end - w.first, shorter = k < c->n - k ? k : c->n - k;
        if (z * hypot(c->of[k], c->of[c->n - k]) <= 0.5 * hm_least_level(shorter, c->steps)) continue;
        most = z, *best = w, found = true;
    }
    if (found && windows->grid > 1) *best = hm_window_refine(*best, c->n, windows->grid, distance, c);
    return found;
}

/* Neighbours that do not differ are one. end[n] ascending. */
static size_t merge(const struct cut *all, uint32_t *end, size_t n) {
    for (size_t k = 0; k + 1 < n;) {
        size_t from = k ? end[k - 1] : 0, mid = end[k], to = end[k + 1];
        double apart = fabs(mean_of(all, from, mid) - mean_of(all, mid, to));
        if (apart >= hm_lane_sigmas * hypot(all->of[mid - from], all->of[to - mid]) && apart >= 0.5 * hm_least) {
            k++;
            continue;
        }
        memmove(end + k, end + k + 1, (n - k - 1) * sizeof *end);
        n--;
        if (k) k--;
    }
    return n;
}

static int by_end(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

size_t hm_segment(const double *x, size_t steps, const double *of, uint32_t *end) {
    double *prefix = hm_alloc(steps + 1, sizeof *prefix);
    struct hm_window *todo = hm_alloc(steps + 2, sizeof *todo); /* disjoint, so never more than steps */
    size_t n = 0, left = 1;
    bool good = prefix && todo;
    if (good) {
        for (size_t t = 0; t < steps; t++) prefix[t + 1] = prefix[t] + x[t];
        todo[0] = (struct hm_window){0, (uint32_t)steps};
    }
    while (good && left) {
        struct hm_window at = todo[--left], best;
        struct cut c = {prefix, of, at.first, at.end - at.first, steps};
        struct hm_windows windows = {0};
        if (c.n < 2) {
            end[n++] = at.end;
            continue;
        }
        good = hm_windows_list(&windows, c.n) == 0;
        if (good && cut_out(&c, &windows, &best)) {
            uint32_t edge[4] = {at.first, at.first + best.first, at.first + best.end, at.end};
            for (int k = 0; k < 3; k++)
                if (edge[k + 1] > edge[k]) todo[left++] = (struct hm_window){edge[k], edge[k + 1]};
        } else {
            end[n++] = at.end;
        }
        hm_windows_free(&windows);
    }
    if (good) {
        qsort(end, n, sizeof *end, by_end);
        n = merge(&(struct cut){prefix, of, 0, steps, steps}, end, n);
    }
    hm_free(prefix);
    hm_free(todo);
    return good ? n : SIZE_MAX;
}
