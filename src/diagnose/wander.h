/* wander.h - how uncertain the mean of a series over n steps is, measured on the series themselves.
 *
 * Pace wanders: a machine that is slow in one step is often slow in the next, too, and then the error of a mean falls more slowly than
 * with the root of n. Whoever assumes the root accuses machines of their own weather. A curve is an array, of[n] for n = 1 .. steps. */
#ifndef HM_WANDER_H
#define HM_WANDER_H

#include <stdbool.h>
#include <stddef.h>

/* From differences over one to four steps, which a few changes of level hardly move. series: [n_series][steps]; floor: the error of one
 * step as the noise within steps makes it. few: fewer than three series, of which a change touches more. 0, or -1 without memory. */
int hm_wander_lags(const double *series, size_t n_series, size_t steps, double floor, bool few, double *of);

/* From means of adjacent blocks of 1, 2, 4 ... steps: for what is left when all that was found is taken off. `rest`: blocks longer than
 * one step too, also compared with their series' middle, which wander moves more. 0, or -1 without memory. */
int hm_wander_blocks(const double *series, size_t n_series, size_t steps, double floor, bool rest, double *of);

/* The largest e * e * n of a curve: the variance of one step that would explain its worst mean. */
double hm_wander_worst(const double *of, size_t steps);

#endif
