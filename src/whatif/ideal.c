/* ideal.c - ideal durations: the mean of compute, the median of communication, over all replicas and steps.
 *
 * Medians are exact: the values of a type are counted by the upper bits of their order-preserving integer image, the
 * bucket that holds the middle is found, and only its values are collected and selected from. Two passes over the
 * durations, no sorting. */
#include "whatif.h"

#include <math.h>
#include <string.h>

/* More buckets for more values: a bucket of 20 bits is 0.4 % wide, so that few of a hundred million values share the
 * middle one. */
enum { FEW_BITS = 14, MANY_BITS = 20, MANY_VALUES = 1 << 22 };

/* Doubles in their order as integers: flip all bits of negatives, the sign bit of the others. */
static uint64_t ordered(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

struct tally {
    uint32_t *bucket[HM_OP_TYPES]; /* [buckets] for types that take the median */
};

struct wanted { /* the buckets in which a type's two middle values lie */
    uint32_t low, high;
    size_t before; /* values below the low bucket */
};

struct work {
    const struct hm_grid *g;
    const struct hm_model *m;
    int bits;                   /* buckets = 1 << bits */
    struct tally *tally;        /* [thread] */
    double (*sum)[HM_OP_TYPES]; /* [block * lanes + lane]: added up in this order, so that threads do not change the
                                   last digit */
    struct wanted wanted[HM_OP_TYPES];
    double *values[HM_OP_TYPES]; /* what lies in the wanted buckets */
    size_t n_values[HM_OP_TYPES];
};

static void count_lane(void *context, size_t index, int thread) {
    struct work *w = context;
    const struct hm_grid *g = w->g;
    struct tally *t = &w->tally[thread];
    size_t block = index / g->lanes, lane = index % g->lanes, width = hm_grid_width(g, block);
    const double *duration = hm_grid_lane(g, g->duration, block, lane);
    for (size_t s = 0; s < g->slots; s++) {
        const double *d = duration + s * HM_WIDTH;
        uint32_t type = w->m->slot[s].type;
        if (hm_op_types[type].ideal_is_median)
            for (size_t k = 0; k < width; k++) t->bucket[type][ordered(d[k]) >> (64 - w->bits)]++;
        else
            for (size_t k = 0; k < width; k++) w->sum[index][type] += d[k];
    }
    hm_grid_release(g, block, lane, 1);
}

static void collect_lane(void *context, size_t index, int thread) {
    (void)thread;
    struct work *w = context;
    const struct hm_grid *g = w->g;
    size_t block = index / g->lanes, lane = index % g->lanes, width = hm_grid_width(g, block);
    const double *duration = hm_grid_lane(g, g->duration, block, lane);
    for (size_t s = 0; s < g->slots; s++) {
        uint32_t type = w->m->slot[s].type;
        if (!w->values[type]) continue;
        double found[HM_WIDTH];
        size_t n = 0;
        for (size_t k = 0; k < width; k++) {
            uint32_t bucket = (uint32_t)(ordered(duration[s * HM_WIDTH + k]) >> (64 - w->bits));
            if (bucket == w->wanted[type].low || bucket == w->wanted[type].high)
                found[n++] = duration[s * HM_WIDTH + k];
        }
        if (n == 0) continue;
        size_t at = __atomic_fetch_add(&w->n_values[type], n, __ATOMIC_RELAXED);
        memcpy(w->values[type] + at, found, n * sizeof *found);
    }
    hm_grid_release(g, block, lane, 1);
}

/* The buckets with the values of rank (n-1)/2 and n/2, and how many values they hold together. */
static size_t find_middle(const uint32_t *bucket, size_t buckets, size_t n, struct wanted *wanted) {
    size_t below = 0, low_rank = (n - 1) / 2, high_rank = n / 2, held = 0;
    bool found = false;
    for (uint32_t b = 0; b < buckets; b++) {
        if (!found && below + bucket[b] > low_rank) {
            wanted->low = b;
            wanted->before = below;
            held = bucket[b];
            found = true;
        }
        if (below + bucket[b] > high_rank) {
            wanted->high = b;
            if (b != wanted->low) held += bucket[b];
            break;
        }
        below += bucket[b];
    }
    return held;
}

/* The two middle values are at ranks (n-1)/2 - before and n/2 - before among the collected ones. */
static double middle(double *values, size_t held, size_t n, size_t before) {
    double high = hm_select(values, held, n / 2 - before), low = high;
    if (n % 2 == 0) low = hm_select(values, held, (n - 1) / 2 - before);
    return 0.5 * (low + high);
}

int hm_ideal_durations(const struct hm_grid *g, const struct hm_model *m, int threads, double ideal_s[HM_OP_TYPES],
                       struct hm_error *err) {
    struct work w = {.g = g, .m = m};
    size_t lanes = g->blocks * g->lanes, count[HM_OP_TYPES] = {0};
    for (size_t s = 0; s < g->slots; s++) count[m->slot[s].type] += g->lanes * g->steps;
    w.bits = g->slots * g->lanes * g->steps > MANY_VALUES ? MANY_BITS : FEW_BITS;
    const size_t buckets = (size_t)1 << w.bits;
    int n_threads = hm_thread_count(threads, lanes);
    w.tally = hm_alloc((size_t)n_threads, sizeof *w.tally);
    w.sum = hm_alloc(lanes, sizeof *w.sum);
    bool good = w.tally && w.sum;
    for (int t = 0; t < n_threads && good; t++)
        for (int k = 0; k < HM_OP_TYPES && good; k++)
            if (hm_op_types[k].ideal_is_median && count[k])
                good = (w.tally[t].bucket[k] = hm_alloc(buckets, sizeof(uint32_t))) != NULL;
    if (good) hm_parallel(lanes, n_threads, count_lane, &w);
    for (int k = 0; k < HM_OP_TYPES && good; k++) {
        double sum = 0;
        for (size_t i = 0; i < lanes; i++) sum += w.sum[i][k];
        ideal_s[k] = count[k] ? sum / (double)count[k] : NAN;
        uint32_t *all = w.tally[0].bucket[k];
        if (!all) continue;
        for (int t = 1; t < n_threads; t++)
            for (size_t b = 0; b < buckets; b++) all[b] += w.tally[t].bucket[k][b];
        good = (w.values[k] = hm_alloc(find_middle(all, buckets, count[k], &w.wanted[k]), sizeof(double))) != NULL;
    }
    if (good) {
        hm_parallel(lanes, n_threads, collect_lane, &w);
        for (int k = 0; k < HM_OP_TYPES; k++)
            if (w.values[k]) ideal_s[k] = middle(w.values[k], w.n_values[k], count[k], w.wanted[k].before);
    } else {
        hm_fail_memory(err);
    }
    for (int k = 0; k < HM_OP_TYPES; k++) hm_free(w.values[k]);
    for (int t = 0; w.tally && t < n_threads; t++)
        for (int k = 0; k < HM_OP_TYPES; k++) hm_free(w.tally[t].bucket[k]);
    hm_free(w.tally);
    hm_free(w.sum);
    return good ? 0 : -1;
}
