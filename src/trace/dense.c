/* dense.c - batches of rows of a complete recording, straight into the dense arrays.
 *
 * Nothing is judged here: a row that is not exactly what the layout expects makes the recording a stray one, and the way over the row
 * store has the last word on it. So the loop over rows is short. */
#include "trace.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { BATCH = 2048 }; /* rows converted at once: they stay in cache */

/* Values as int32, -1 for those that do not fit; converted into `room` unless they are int32 already. */
static const int32_t *integers(struct hm_column c, size_t first, size_t n, int32_t *room) {
    switch (c.width) {
    case 1:
        for (size_t i = 0; i < n; i++) room[i] = (int32_t)((const int8_t *)c.data)[first + i];
        return room;
    case 2:
        for (size_t i = 0; i < n; i++) room[i] = ((const int16_t *)c.data)[first + i];
        return room;
    case 4:
        return (const int32_t *)c.data + first;
    default:
        for (size_t i = 0; i < n; i++) {
            int64_t v = ((const int64_t *)c.data)[first + i];
            room[i] = v < 0 || v > INT32_MAX ? -1 : (int32_t)v;
        }
        return room;
    }
}

static const double *numbers(struct hm_column c, size_t first, size_t n, double *room) {
    if (c.width == 8) return (const double *)c.data + first;
    for (size_t i = 0; i < n; i++) room[i] = (double)((const float *)c.data)[first + i];
    return room;
}

static int64_t step_number(struct hm_column c, size_t i) {
    switch (c.width) {
    case 1:
        return (int64_t)((const int8_t *)c.data)[i];
    case 2:
        return ((const int16_t *)c.data)[i];
    case 4:
        return ((const int32_t *)c.data)[i];
    default:
        return ((const int64_t *)c.data)[i];
    }
}

/* The index of a step, SIZE_MAX if it is not among them. */
static size_t find_step(const struct hm_dense *d, int64_t number) {
    size_t low = 0, high = d->steps;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->step[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->steps && d->step[low] == number ? low : SIZE_MAX;
}

/* Negative if any value is. */
static int32_t any_negative(const int32_t *x, size_t n) {
    int32_t any = 0;
    for (size_t i = 0; i < n; i++) any |= x[i];
    return any;
}

static bool all_times(const double *x, size_t n, double least) {
    int bad = 0;
    for (size_t i = 0; i < n; i++) bad |= !(x[i] >= least) | !hm_is_time(x[i]);
    return !bad;
}

/* What arrived in one cell, to be added to it when the next cell begins: rows of a cell mostly stand together. */
struct arrival {
    size_t cell;
    uint64_t sum;
    uint32_t count;
};

static void add_to_cell(struct hm_dense *d, struct arrival *a) {
    if (a->count == 0) return;
    atomic_fetch_add_explicit(&d->sum[a->cell], a->sum, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->count[a->cell], a->count, memory_order_relaxed);
    *a = (struct arrival){0};
}

/* Places n <= BATCH rows; false at the first that has no place. */
static bool place(struct hm_dense *d, const struct hm_column *column, size_t first, size_t n) {
    int32_t room[4][BATCH];
    double times[2][BATCH];
    const int32_t *dp = integers(column[HM_DENSE_DP], first, n, room[0]),
                  *stage = integers(column[HM_DENSE_STAGE], first, n, room[1]),
                  *type = integers(column[HM_DENSE_TYPE], first, n, room[2]),
                  *seq = integers(column[HM_DENSE_SEQ], first, n, room[3]);
    const double *start = numbers(column[HM_DENSE_START], first, n, times[0]),
                 *duration = numbers(column[HM_DENSE_DURATION], first, n, times[1]);
    if ((any_negative(dp, n) | any_negative(stage, n) | any_negative(type, n) | any_negative(seq, n)) < 0 ||
        !all_times(start, n, -INFINITY) || !all_times(duration, n, 0))
        return false;
    struct arrival arrival = {0};
    int64_t last_step = -1;
    int32_t last_dp = -1;
    size_t step = 0, base = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t number = step_number(column[HM_DENSE_STEP], first + i);
        if (number != last_step || dp[i] != last_dp) {
            if (number != last_step) step = find_step(d, number);
            if (step == SIZE_MAX || (size_t)dp[i] >= d->lanes) return false;
            last_step = number;
            last_dp = dp[i];
            add_to_cell(d, &arrival);
            arrival.cell = step * d->lanes + (size_t)dp[i];
            base = hm_dense_cell(d, step, (size_t)dp[i]);
        }
        uint32_t slot = hm_dense_slot(d, (uint32_t)stage[i], (uint32_t)type[i], (uint32_t)seq[i]);
        if (slot == UINT32_MAX) return false;
        d->start[base + slot] = start[i];
        d->duration[base + slot] = duration[i];
        arrival.sum += d->hash[slot];
        arrival.count++;
    }
    add_to_cell(d, &arrival);
    return true;
}

void hm_dense_take(struct hm_dense *d, const struct hm_column column[HM_DENSE_COLUMNS], size_t n) {
    for (size_t first = 0; first < n; first += BATCH)
        if (!place(d, column, first, n - first < BATCH ? n - first : BATCH)) {
            atomic_store(&d->stray, true);
            return;
        }
}
