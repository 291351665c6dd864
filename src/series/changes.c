/* changes.c - when a run was slow: change-points of its step times.
 *
 * Step times are a level with noise, single slow steps (a checkpoint, an evaluation, garbage) and, now and then, another level. The
 * places where the level changes are found by seeded binary segmentation (S. Kovacs et al., Biometrika 2023): the CUSUM statistic in a
 * fixed set of intervals of all lengths, and the narrowest intervals above the threshold decide, so that a short episode within a
 * long run is found as well as one change for good. It is run on logarithms of medians of a few steps each, cut off at some
 * standard deviations, so that single slow steps do not count. n log n operations.
 *
 * A change is believed if the levels differ by 10 % (GREYHOUND's limit; without such a check its false alarms were 18 to 34 %) and three
 * quarters of the steps on each side lie on their side of the middle: in a noisy run the levels must be further apart. */
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST = 8, FEWEST_FOR_SLOW = 3, SHORTEST = 5, MOST_WARM_UP = 20 };
static const double LEAST_CHANGE = 0.10, LEAST_APART = 0.75, CUT_AT = 3, TINY_NOISE = 1e-3, LEAST_SHARE = 0.1;

/* ---- scratch ---- */

struct run {
    const double *x; /* step times after the warm-up */
    size_t n, block; /* a block is so many steps */
    double *scratch; /* n */
    double *y;       /* log of block medians, cut off */
    double *sum;     /* of y before block i */
    size_t n_blocks;
    double noise;   /* of y */
    size_t *change; /* places of changes, in steps, ascending; 0 and n at the ends */
    size_t n_changes;
};

static double median_of(struct run *r, size_t from, size_t until) {
    memcpy(r->scratch, r->x + from, (until - from) * sizeof *r->scratch);
    return hm_median(r->scratch, until - from);
}

/* ---- blocks ---- */

static void fill_blocks(struct run *r) {
    for (size_t b = 0; b < r->n_blocks; b++) {
        size_t until = b + 1 == r->n_blocks ? r->n : (b + 1) * r->block;
        r->y[b] = log(median_of(r, b * r->block, until));
    }
    /* noise from what changes between neighbours, which a change of level hardly touches */
    size_t m = r->n_blocks - 1;
    for (size_t b = 0; b < m; b++) r->scratch[b] = r->y[b + 1] - r->y[b];
    r->noise = fmax(1.4826 * hm_mad(r->scratch, m, 0) / sqrt(2), TINY_NOISE);
}

/* Cuts off what differs from its two neighbours on both sides by more than CUT_AT standard deviations: a single slow block. */
static void cut_off(struct run *r) {
    double before = r->y[0];
    for (size_t b = 1; b + 1 < r->n_blocks; b++) {
        double own = r->y[b], behind = r->y[b + 1], limit = CUT_AT * r->noise;
        double high = fmax(before, behind) + limit, low = fmin(before, behind) - limit;
        before = own;
        r->y[b] = fmin(fmax(own, low), high);
    }
    double *y = r->y;
    size_t n = r->n_blocks;
    if (n > 2 && y[0] > y[1] + CUT_AT * r->noise) y[0] = y[1];
    if (n > 2 && y[n - 1] > y[n - 2] + CUT_AT * r->noise) y[n - 1] = y[n - 2];
    for (size_t b = 0; b < n; b++) r->sum[b + 1] = r->sum[b] + y[b];
}

/* ---- seeded binary segmentation ---- */

struct candidate {
    size_t from, until, split; /* blocks */
};

/* The largest CUSUM of the blocks from .. until - 1, in standard deviations, and where. */
static double cusum(const struct run *r, size_t from, size_t until, size_t *split) {
    double best = 0, all = r->sum[until] - r->sum[from], n = (double)(until - from);
    for (size_t s = from + 1; s < until; s++) {
        double left = (double)(s - from), right = n - left, sum = r->sum[s] - r->sum[from];
        double t = fabs(sum / left - (all - sum) / right) * sqrt(left * right / n);
        if (t > best) {
            best = t;
            *split = s;
        }
    }
    return best / r->noise;
}

/* Narrowest intervals come first, because shorter lengths are tried first; one that holds a split already found says nothing new. */
static int find_changes(struct run *r, bool *is_split, struct hm_error *err) {
    double threshold = 1.3 * sqrt(2 * log((double)r->n_blocks + 1)) + 1;
    size_t *taken = hm_alloc(r->n_blocks + 1, sizeof *taken); /* splits found, before block i */
    if (!taken) return hm_fail_memory(err);
    for (double length = 2; length < 1.5 * (double)r->n_blocks; length *= M_SQRT2) {
        size_t wide = (size_t)fmin(ceil(length), (double)r->n_blocks), shift = wide / 2;
        taken[0] = 0;
        for (size_t b = 0; b < r->n_blocks; b++) taken[b + 1] = taken[b] + is_split[b];
        for (size_t from = 0; from + 1 < r->n_blocks; from += shift) {
            size_t until = from + wide < r->n_blocks ? from + wide : r->n_blocks, split = 0;
            if (until - from >= 2 && taken[until] == taken[from + 1] && cusum(r, from, until, &split) > threshold)
                is_split[split] = true;
            if (until == r->n_blocks) break;
        }
    }
    hm_free(taken);
    return 0;
}

/* The step within a block or so of the split at which the sides are best told apart: most steps on their side of the middle. */
static size_t refine(struct run *r, size_t at, size_t from, size_t until) {
    size_t reach = 2 * r->block, low = at > from + reach ? at - reach : from + 1,
           high = at + reach < until ? at + reach : until - 1;
    if (low >= high) return at;
    double left = median_of(r, from, at), right = median_of(r, at, until), middle = sqrt(left * right);
    size_t best = at;
    long score = 0, most = -1;
    for (size_t i = low; i <= high; i++) { /* score: right steps right of i count when i moves over them */
        bool on_left = (r->x[i - 1] < middle) == (left < right);
        score += on_left ? 1 : -1;
        if (score > most) {
            most = score;
            best = i;
        }
    }
    return best;
}

static void list_changes(struct run *r, const bool *is_split) {
    r->n_changes = 0;
    r->change[r->n_changes++] = 0;
    for (size_t b = 1; b < r->n_blocks; b++)
        if (is_split[b]) r->change[r->n_changes++] = b * r->block;
    r->change[r->n_changes++] = r->n;
    for (size_t k = 1; k + 1 < r->n_changes; k++)
        r->change[k] = refine(r, r->change[k], r->change[k - 1], r->change[k + 1]);
}

/* ---- which changes are believed ---- */

static double share_below(const struct run *r, size_t from, size_t until, double middle) {
    size_t below = 0;
    for (size_t i = from; i < until; i++) below += r->x[i] < middle;
    return (double)below / (double)(until - from);
}

static bool believed(struct run *r, size_t from, size_t at, size_t until) {
    if (at - from < SHORTEST || until - at < SHORTEST) return false;
    double left = median_of(r, from, at), right = median_of(r, at, until);
    if (fmax(left, right) < (1 + 0.5 * LEAST_CHANGE) * fmin(left, right)) return false;
    double middle = sqrt(left * right), l = share_below(r, from, at, middle), h = share_below(r, at, until, middle);
    return left < right ? l >= LEAST_APART && 1 - h >= LEAST_APART : 1 - l >= LEAST_APART && h >= LEAST_APART;
}

/* Takes out, one at a time, the change that tells least apart, until all that are left are believed. */
static void keep_believed(struct run *r) {
    while (r->n_changes > 2) {
        size_t worst = 0;
        double least = INFINITY;
        for (size_t k = 1; k + 1 < r->n_changes; k++) {
            size_t from = r->change[k - 1], at = r->change[k], until = r->change[k + 1];
            if (at > from && until > at && believed(r, from, at, until)) continue;
            double ratio = at > from && until > at ? fabs(log(median_of(r, from, at) / median_of(r, at, until))) : 0;
            size_t shorter = at - from < until - at ? at - from : until - at;
            ratio *= sqrt((double)shorter);
            if (ratio < least) {
                least = ratio;
                worst = k;
            }
        }
        if (worst == 0) break;
        memmove(r->change + worst, r->change + worst + 1, (r->n_changes - worst - 1) * sizeof *r->change);
        r->n_changes--;
    }
}

/* ---- paces ---- */

/* The usual pace is the fastest level that holds for a tenth of the run. */
static double usual_pace(struct run *r) {
    double usual = INFINITY;
    for (int strict = 1; strict >= 0 && !isfinite(usual); strict--)
        for (size_t k = 0; k + 1 < r->n_changes; k++) {
            size_t from = r->change[k], until = r->change[k + 1];
            if (until > from && (!strict || (double)(until - from) >= LEAST_SHARE * (double)r->n))
                usual = fmin(usual, median_of(r, from, until));
        }
    return usual;
}

struct input {
    const double *seconds, *weight;
    const int64_t *step;
    size_t n;
};

static double weight_of(const struct input *in, size_t i) {
    return in->weight ? in->weight[i] : 1;
}

static void count_slow(struct hm_step_paces *p, const struct input *in, size_t i) {
    if (in->seconds[i] < HM_SLOW_STEP * p->usual_s) return;
    p->slow_steps++;
    p->slow_steps_lost_s += weight_of(in, i) * (in->seconds[i] - p->usual_s);
}

static int add_episode(struct hm_step_paces *p, const struct input *in, struct hm_step_episode e,
                       struct hm_error *err) {
    struct hm_step_episode *last = p->n_episodes ? &p->episode[p->n_episodes - 1] : NULL;
    for (size_t i = e.first; i <= e.last; i++) e.lost_s += weight_of(in, i) * (in->seconds[i] - p->usual_s);
    e.from_step = in->step ? in->step[e.first] : (int64_t)e.first;
    e.to_step = in->step ? in->step[e.last] : (int64_t)e.last;
    e.open = e.last + 1 == in->n;
    if (last && last->last + 1 == e.first && fabs(last->slowdown - e.slowdown) < LEAST_CHANGE) { /* one episode */
        double a = (double)(last->last - last->first + 1), b = (double)(e.last - e.first + 1);
        last->slowdown = (a * last->slowdown + b * e.slowdown) / (a + b);
        last->last = e.last;
        last->to_step = e.to_step;
        last->lost_s += e.lost_s;
        last->open = e.open;
        return 0;
    }
    struct hm_step_episode *grown = hm_realloc(p->episode, p->n_episodes + 1, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    p->episode = grown;
    p->episode[p->n_episodes++] = e;
    return 0;
}

static int name_episodes(struct run *r, struct hm_step_paces *p, const struct input *in, struct hm_error *err) {
    size_t n_usual = 0;
    double *usual = hm_alloc(r->n, sizeof *usual);
    if (!usual) return hm_fail_memory(err);
    int status = 0;
    for (size_t k = 0; status == 0 && k + 1 < r->n_changes; k++) {
        size_t from = r->change[k], until = r->change[k + 1];
        double level = median_of(r, from, until);
        if (level >= (1 + LEAST_CHANGE) * p->usual_s && until - from >= SHORTEST) {
            status = add_episode(p, in,
                                 (struct hm_step_episode){.first = p->warm_up + from,
                                                          .last = p->warm_up + until - 1,
                                                          .slowdown = level / p->usual_s},
                                 err);
            continue;
        }
        for (size_t i = from; i < until; i++) {
            usual[n_usual++] = r->x[i];
            count_slow(p, in, p->warm_up + i);
        }
    }
    p->noise = n_usual ? 1.4826 * hm_mad(usual, n_usual, p->usual_s) / p->usual_s : NAN;
    hm_free(usual);
    return status;
}

/* The first steps compile, tune and fill caches: those before the first that is usual, and as far as the last of the first ten that
 * takes more than twice the usual. */
static size_t warm_up_of(const double *x, size_t n, double usual) {
    size_t most = n / 4 < MOST_WARM_UP ? n / 4 : MOST_WARM_UP, k = 0;
    while (k < most && x[k] > HM_SLOW_STEP * usual) k++;
    for (size_t i = k; k > 0 && i < most && i < MOST_WARM_UP / 2; i++)
        if (x[i] > 2 * usual) k = i + 1;
    return k;
}

static int segment(struct run *r, struct hm_error *err) {
    r->block = r->n / 40 < 1 ? 1 : r->n / 40 > 5 ? 5 : r->n / 40;
    r->n_blocks = r->n / r->block;
    r->y = hm_alloc(r->n_blocks, sizeof *r->y);
    r->sum = hm_alloc(r->n_blocks + 1, sizeof *r->sum);
    r->change = hm_alloc(r->n_blocks + 2, sizeof *r->change);
    bool *is_split = hm_alloc(r->n_blocks + 1, sizeof *is_split);
    int status = -1;
    if (r->y && r->sum && r->change && is_split) {
        fill_blocks(r);
        cut_off(r);
        status = find_changes(r, is_split, err);
        list_changes(r, is_split);
        keep_believed(r);
    } else {
        (void)hm_fail_memory(err);
    }
    hm_free(is_split);
    return status;
}

int hm_step_paces_find(const double *seconds, const double *weight, const int64_t *step, size_t n,
                       struct hm_step_paces *p, struct hm_error *err) {
    *p = (struct hm_step_paces){.usual_s = NAN, .noise = NAN};
    const struct input in = {seconds, weight, step, n};
    struct run r = {.scratch = hm_alloc(n, sizeof(double))};
    if (!r.scratch) return hm_fail_memory(err);
    int status = 0;
    memcpy(r.scratch, seconds, n * sizeof *seconds);
    if (n > 0) p->usual_s = hm_median(r.scratch, n);
    if (n >= FEWEST_FOR_SLOW && n < FEWEST)
        for (size_t i = 0; i < n; i++) count_slow(p, &in, i);
    if (n >= FEWEST) {
        p->warm_up = warm_up_of(seconds, n, p->usual_s);
        r.x = seconds + p->warm_up;
        r.n = n - p->warm_up;
        status = segment(&r, err);
        if (status == 0) p->usual_s = usual_pace(&r);
        if (status == 0) status = name_episodes(&r, p, &in, err);
        for (size_t i = 0; i < p->warm_up; i++)
            p->warm_up_lost_s += fmax(0, weight_of(&in, i) * (seconds[i] - p->usual_s));
    }
    hm_free(r.scratch);
    hm_free(r.y);
    hm_free(r.sum);
    hm_free(r.change);
    if (status != 0) hm_step_paces_free(p);
    return status;
}

void hm_step_paces_free(struct hm_step_paces *p) {
    hm_free(p->episode);
    *p = (struct hm_step_paces){.usual_s = NAN, .noise = NAN};
}
