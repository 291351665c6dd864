/* ideal.c - ideal durations: the mean of compute, the median of communication, over all replicas and steps.
 *
 * Medians are exact and take one pass: a sample of each kind (a set of peers) tells an interval in which its middle lies; the pass counts the
 * values below and at the interval's ends and keeps those within, from which the middle is selected. If the middle lies elsewhere
 * after all, which the counts show, the pass is repeated with a wider interval. No value is sorted or moved. */
#include "whatif.h"

#include <math.h>
#include <string.h>

/* Samples are taken in places (a slot of a lane in a block: up to 8 values, of consecutive steps and so not independent). */
enum { SAMPLE_PLACES = 1 << 14 };

/* The interval of a type, open, and what was found of it by one thread. */
struct interval {
    double low, high;
};
struct tally {
    size_t below, at_low, at_high; /* values below low, equal to low, equal to high */
    double *within;
    size_t n, capacity;
};

struct work {
    const struct hm_grid *g;
    const struct hm_job *m;
    size_t n;                  /* kinds: sets of peers */
    bool *wanted;              /* [kind] whose median is still to be found */
    bool first;                /* the first pass also adds up the means */
    struct interval *interval; /* [kind] */
    struct tally *tally;       /* [thread][kind] */
    double
        *sum; /* [block * lanes + lane][kind]: added up in this order, so that threads do not change the last digit */
    bool failed; /* out of memory */
};

/* ---- the sample ---- */

struct sample {
    double *value;
    size_t n, capacity;
};

/* Takes values of the places 0, q, 2q, ... (modulo their number; q golden, so that they spread evenly over all). */
static int take_sample(const struct work *w, struct sample *sample) {
    const struct hm_grid *g = w->g;
    size_t places = g->blocks * g->lanes * g->slots, taken = places < SAMPLE_PLACES ? places : SAMPLE_PLACES,
           stride = (size_t)(0.6180339887498949 * (double)places) | 1, at = 0;
    for (size_t i = 0; i < taken; i++, at = (at + stride) % places) {
        uint32_t kind = w->m->slot[at % g->slots].peers;
        struct sample *of = &sample[kind];
        if (!w->wanted[kind]) continue;
        size_t block = at / g->slots / g->lanes, lane = at / g->slots % g->lanes, width = hm_grid_width(g, block);
        const double *d = hm_grid_lane(g, g->duration, block, lane) + at % g->slots * HM_WIDTH;
        for (size_t k = 0; k < width; k++) {
            double *grown = hm_grow(of->value, of->n, &of->capacity, sizeof *grown);
            if (!grown) return -1;
            of->value = grown;
            of->value[of->n++] = d[k];
        }
    }
    for (size_t block = 0; block < g->blocks; block++) hm_grid_release(g, block, 0, g->lanes);
    return 0;
}

/* Ranks around the middle of a sample of n values, wide enough for four standard errors if the values of a place were all alike. */
static struct interval around_middle(double *sample, size_t n) {
    double margin = 2 * sqrt((double)n * HM_WIDTH) + 1, middle = 0.5 * (double)n;
    if (margin >= middle) return (struct interval){-INFINITY, INFINITY};
    double low = hm_select(sample, n, (size_t)(middle - margin));
    return (struct interval){low, hm_select(sample, n, (size_t)(middle + margin))};
}

static int choose_intervals(struct work *w) {
    struct sample *sample = hm_alloc(w->n, sizeof *sample);
    int status = sample ? take_sample(w, sample) : -1;
    for (size_t k = 0; sample && k < w->n; k++) {
        w->interval[k] =
            status == 0 ? around_middle(sample[k].value, sample[k].n) : (struct interval){-INFINITY, INFINITY};
        hm_free(sample[k].value);
    }
    hm_free(sample);
    return status;
}

/* ---- the pass ---- */

static void keep_within(struct work *w, struct tally *t, struct interval v, const double *d, size_t width) {
    for (size_t k = 0; k < width; k++) {
        if (!(d[k] > v.low && d[k] < v.high)) continue;
        double *grown = hm_grow(t->within, t->n, &t->capacity, sizeof *grown);
        if (!grown) {
            __atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
            return;
        }
        t->within = grown;
        t->within[t->n++] = d[k];
    }
}

static void pass_lane(void *context, size_t index, int thread) {
    struct work *w = context;
    const struct hm_grid *g = w->g;
    size_t block = index / g->lanes, lane = index % g->lanes, width = hm_grid_width(g, block);
    const double *d = hm_grid_lane(g, g->duration, block, lane);
    for (size_t s = 0; s < g->slots; s++, d += HM_WIDTH) {
        uint32_t kind = w->m->slot[s].peers;
        if (w->wanted[kind]) {
            struct tally *t = &w->tally[(size_t)thread * w->n + kind];
            const struct interval v = w->interval[kind];
            size_t below = 0, to_low = 0, below_high = 0, to_high = 0;
            for (size_t k = 0; k < width; k++) {
                below += d[k] < v.low;
                to_low += d[k] <= v.low;
                below_high += d[k] < v.high;
                to_high += d[k] <= v.high;
            }
            t->below += below;
            t->at_low += to_low - below;
            t->at_high += to_high - below_high;
            if (below_high > to_low) keep_within(w, t, v, d, width);
        } else if (w->first && !hm_class_of(w->m, s)->ideal_is_median) {
            for (size_t k = 0; k < width; k++) w->sum[index * w->n + kind] += d[k];
        }
    }
    hm_grid_release(g, block, lane, 1);
}

/* ---- the middle ---- */

/* The value of a rank in what was counted; false if it lies outside of the interval. */
static bool value_of_rank(struct tally *t, struct interval v, size_t rank, double *value) {
    if (rank < t->below) return false;
    rank -= t->below;
    bool at_low = rank < t->at_low;
    if (at_low) *value = v.low;
    if (at_low) return true;
    rank -= t->at_low;
    if (rank < t->n) {
        *value = hm_select(t->within, t->n, rank);
        return true;
    }
    *value = v.high;
    return rank - t->n < (v.high > v.low ? t->at_high : 0);
}

/* Joins what the threads found of a kind. */
static int join(const struct work *w, int threads, size_t kind) {
    struct tally *all = &w->tally[kind];
    size_t n = 0;
    for (int i = 0; i < threads; i++) n += w->tally[(size_t)i * w->n + kind].n;
    double *grown = hm_alloc(n, sizeof *grown);
    if (!grown) return -1;
    size_t at = 0;
    for (int i = 0; i < threads; i++) {
        struct tally *t = &w->tally[(size_t)i * w->n + kind];
        if (t->n) memcpy(grown + at, t->within, t->n * sizeof *grown);
        at += t->n;
        hm_free(t->within);
        t->within = NULL;
        if (i == 0) continue;
        all->below += t->below;
        all->at_low += t->at_low;
        all->at_high += t->at_high;
    }
    all->within = grown;
    all->n = n;
    return 0;
}

/* Medians of the types that are still wanted; those whose interval missed get one that misses nothing, and stay wanted. */
static int find_medians(struct work *w, int threads, const size_t *count, double *ideal_s) {
    memset(w->tally, 0, (size_t)threads * w->n * sizeof *w->tally);
    hm_parallel(w->g->blocks * w->g->lanes, threads, pass_lane, w);
    int status = w->failed ? -1 : 0;
    for (size_t k = 0; k < w->n; k++) {
        if (w->wanted[k] && status == 0 && (status = join(w, threads, k)) == 0) {
            double low, high;
            struct tally *all = &w->tally[k];
            if (value_of_rank(all, w->interval[k], count[k] / 2, &high) &&
                value_of_rank(all, w->interval[k], (count[k] - 1) / 2, &low)) {
                ideal_s[k] = 0.5 * (low + high);
                w->wanted[k] = false;
            }
            w->interval[k] = (struct interval){-INFINITY, INFINITY};
        }
        for (int i = 0; i < threads; i++) hm_free(w->tally[(size_t)i * w->n + k].within);
    }
    w->first = false;
    return status;
}

int hm_ideal_durations(const struct hm_grid *g, const struct hm_job *m, int threads, double *ideal_s,
                       struct hm_error *err) {
    struct work w = {.g = g, .m = m, .n = m->n_peers, .first = true};
    size_t lanes = g->blocks * g->lanes;
    int n_threads = hm_thread_count(threads, lanes);
    size_t *count = hm_alloc(w.n, sizeof *count);
    w.wanted = hm_alloc(w.n, sizeof *w.wanted);
    w.interval = hm_alloc(w.n, sizeof *w.interval);
    w.tally = hm_alloc((size_t)n_threads * w.n, sizeof *w.tally);
    w.sum = hm_alloc(lanes * w.n, sizeof *w.sum);
    int status = count && w.wanted && w.interval && w.tally && w.sum ? 0 : -1;
    for (size_t s = 0; s < g->slots && status == 0; s++) count[m->slot[s].peers] += g->lanes * g->steps;
    for (size_t k = 0; k < w.n && status == 0; k++)
        w.wanted[k] = m->cls[m->class_of_peers[k]].ideal_is_median && count[k];
    if (status == 0) status = choose_intervals(&w);
    for (bool again = true; again && status == 0;) {
        status = find_medians(&w, n_threads, count, ideal_s);
        again = false;
        for (size_t k = 0; k < w.n; k++) again |= w.wanted[k];
    }
    for (size_t k = 0; k < w.n && status == 0; k++) {
        if (m->cls[m->class_of_peers[k]].ideal_is_median && count[k]) continue;
        double sum = 0;
        for (size_t i = 0; i < lanes; i++) sum += w.sum[i * w.n + k];
        ideal_s[k] = count[k] ? sum / (double)count[k] : NAN;
    }
    hm_free(count);
    hm_free(w.wanted);
    hm_free(w.interval);
    hm_free(w.tally);
    hm_free(w.sum);
    return status == 0 ? 0 : hm_fail_memory(err);
}
