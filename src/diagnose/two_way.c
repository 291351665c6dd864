/* two_way.c - least squares for stages and replicas, with cells that stand out taken away one by one.
 *
 * Medians of rows and columns alone do not do: among two or three replicas the median of a stage with a slow worker is
 * another order statistic than that of a stage without one, and where microbatches differ, replicas do, so that a slow
 * worker would make its neighbours look slow, too. */
#include "two_way.h"

#include "profile.h"

#include <math.h>

static const double stands_out = 0.02; /* in the logarithm: less is not worth a cell of its own */
static const double as_clear = 0.8;    /* of the clearest cell: then what it is above its peers decides */
enum { SWEEPS = 12 };

struct table {
    const double *level;
    size_t stages, lanes, rows;
    double *row, *lane;
    double *left;   /* [lanes] low-median scratch */
    uint8_t *apart; /* [stage][lane] */
    size_t *free_in_lane, *free_in_stage;
};

static double level(const struct table *t, size_t row, size_t lane) {
    return t->level[row * t->lanes + lane];
}

/* Alternating means converge to least squares. */
static void sweep(struct table *t) {
    for (int k = 0; k < SWEEPS; k++) {
        for (size_t r = 0; r < t->rows; r++) {
            double sum = 0, n = 0;
            for (size_t l = 0; l < t->lanes; l++)
                if (!t->apart[r / 2 * t->lanes + l] && !isnan(level(t, r, l))) sum += level(t, r, l) - t->lane[l], n++;
            if (n > 0) t->row[r] = sum / n;
        }
        double common = 0;
        for (size_t l = 0; l < t->lanes; l++) {
            double sum = 0, n = 0;
            for (size_t r = 0; r < t->rows; r++)
                if (!t->apart[r / 2 * t->lanes + l] && !isnan(level(t, r, l))) sum += level(t, r, l) - t->row[r], n++;
            if (n > 0) t->lane[l] = sum / n;
            common += t->lane[l] / (double)t->lanes;
        }
        for (size_t l = 0; l < t->lanes; l++) t->lane[l] -= common;
        for (size_t r = 0; r < t->rows; r++) t->row[r] += common;
    }
}

/* A cell's mean over its two directions of what is above the fit. */
static double left_in_cell(const struct table *t, size_t s, size_t l) {
    double sum = 0, n = 0;
    for (size_t r = 2 * s; r < 2 * s + 2; r++)
        if (!isnan(level(t, r, l))) sum += level(t, r, l) - t->row[r] - t->lane[l], n++;
    return n > 0 ? sum / n : 0;
}

/* The last cell of a stage or replica has nothing to be compared with. */
static bool may_part(const struct table *t, size_t s, size_t l) {
    return !t->apart[s * t->lanes + l] && t->free_in_stage[s] > 1 && t->free_in_lane[l] > 1;
}

/* A cell against the low median of its stage. */
static double above_peers(const struct table *t, size_t s, size_t l) {
    double sum = 0, directions = 0;
    for (size_t r = 2 * s; r < 2 * s + 2; r++) {
        if (isnan(level(t, r, l))) continue;
        size_t n = 0;
        for (size_t k = 0; k < t->lanes; k++)
            if (!isnan(level(t, r, k))) t->left[n++] = level(t, r, k);
        sum += level(t, r, l) - hm_low_median(t->left, n), directions++;
    }
    return directions > 0 ? sum / directions : 0;
}

/* The clearest cell that may still be set apart; 0 if none is above the fit. */
static double clearest(const struct table *t) {
    double most = 0;
    for (size_t s = 0; s < t->stages; s++)
        for (size_t l = 0; l < t->lanes; l++)
            if (may_part(t, s, l)) most = fmax(most, left_in_cell(t, s, l));
    return most;
}

/* Sets the clearest cell apart. Of several that are about as clear, the one furthest above its peers: in a table of two
 * by two, least squares alone cannot tell the corners apart. */
static bool set_one_apart(struct table *t) {
    double enough = fmax(as_clear * clearest(t), 0.25 * stands_out), most = stands_out;
    size_t stage = 0, lane = 0;
    bool found = false;
    for (size_t s = 0; s < t->stages; s++)
        for (size_t l = 0; l < t->lanes; l++) {
            if (!may_part(t, s, l) || left_in_cell(t, s, l) < enough) continue;
            double above = above_peers(t, s, l);
            if (above <= most) continue;
            most = above, stage = s, lane = l, found = true;
        }
    if (!found) return false;
    t->apart[stage * t->lanes + lane] = 1;
    t->free_in_stage[stage]--;
    t->free_in_lane[lane]--;
    return true;
}

int hm_two_way(const double *levels, size_t stages, size_t lanes, double *row, double *lane_part, double *excess) {
    struct table t = {.level = levels, .stages = stages, .lanes = lanes, .rows = 2 * stages};
    t.row = row;
    t.lane = lane_part;
    t.left = hm_alloc(lanes, sizeof *t.left);
    t.apart = hm_alloc(stages * lanes, 1);
    t.free_in_lane = hm_alloc(lanes, sizeof *t.free_in_lane);
    t.free_in_stage = hm_alloc(stages, sizeof *t.free_in_stage);
    bool good = t.left && t.apart && t.free_in_lane && t.free_in_stage;
    if (good) {
        size_t most = stages * lanes / 4 < 256 ? stages * lanes / 4 : 256;
        for (size_t l = 0; l < lanes; l++) lane_part[l] = 0, t.free_in_lane[l] = stages;
        for (size_t s = 0; s < stages; s++) t.free_in_stage[s] = lanes;
        sweep(&t);
        for (size_t k = 0; k < most && set_one_apart(&t); k++) sweep(&t);
        for (size_t r = 0; r < t.rows; r++)
            for (size_t l = 0; l < lanes; l++) {
                double x = level(&t, r, l) - row[r] - lane_part[l];
                excess[r * lanes + l] = isnan(x) ? 0 : x;
            }
    }
    hm_free(t.left);
    hm_free(t.apart);
    hm_free(t.free_in_lane);
    hm_free(t.free_in_stage);
    return good ? 0 : -1;
}
