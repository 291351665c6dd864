/* explain.c - several starts, each followed to its end; the explanation that leaves least and names fewest places is taken.
 *
 * What is usual between the stages of a pipeline is not known beforehand: with few replicas sound in all their stages, the median of
 * the replicas is no guide. So several guesses are made: the medians; the levels of long undisturbed stretches of single replicas; the
 * lower rows of replicas laid on each other. From each the search for windows and the usual are fitted in turn until nothing moves. */
#include "explain.h"
#include "wander.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STARTS = 9, ROUNDS = 6 };
static const double price_of_place = 25, price_of_effect = 10; /* against squared standard errors left over ... */
static const double price_of_slowness = 20; /* a factor e on one place all the time: between equals the smaller one */
static const double most_left = 25;         /* ... of which one value counts at most so many */
static const double natural_spread = 0.02;  /* of levels that stay: no evidence */
static const double another_start = 0.02;   /* usual contrasts nearer than this are the same guess */

/* One start followed to its end. */
struct trail {
    double *usual; /* [row] */
    struct hm_effect *effect;
    size_t *n_effects;
    double *common; /* [lane][step] the median work less the stretches found */
    double worst, worst_common;
    double price, score;
    uint64_t places; /* who is slow, whenever it is */
};

struct inquiry {
    struct hm_profile *p;
    struct hm_search s;
    struct hm_windows windows;
    struct hm_search_room *room; /* [thread] */
    double *weight;              /* [row] */
    double *value;               /* [thread][row][step] */
    double *left;                /* [lane * rows + row][step] contrasts left over, in standard errors */
    double *both;                /* [lane * stages + stage][step] of forward and backward together */
    double *added;               /* [row][lane][step] */
    double unit;                 /* of a standardised contrast, noise alone */
    double *lags, *lags_both;    /* errors from step to step */
    double *of, *of_both;        /* the ones in use */
    double *inflate1, *inflate2;
    double *guess[MOST_STARTS]; /* [row] */
    size_t n_guesses;
    struct trail trail[MOST_STARTS];
    struct trail *now;
};

/* ---- contrasts ---- */

static double total_weight(const struct inquiry *q) {
    double sum = 0;
    for (size_t r = 0; r < q->p->rows; r++) sum += q->weight[r];
    return sum;
}

/* Takes the weighted mean off the rows. */
static void contrast(const struct inquiry *q, double *x) {
    double mean = 0;
    for (size_t r = 0; r < q->p->rows; r++) mean += q->weight[r] * x[r];
    mean /= total_weight(q);
    for (size_t r = 0; r < q->p->rows; r++) x[r] -= mean;
}

/* What the effects of a replica leave of its levels: [row][step]. */
static void levels_less(const struct inquiry *q, size_t lane, const double *usual, const struct hm_effect *effect,
                        size_t n, double *to) {
    const struct hm_profile *p = q->p;
    const size_t T = p->steps;
    memset(to, 0, p->rows * T * sizeof *to);
    if (n) hm_effects_add(effect, n, p->stages, T, to);
    for (size_t r = 0; r < p->rows; r++)
        for (size_t t = 0; t < T; t++) to[r * T + t] = hm_level(p, r, lane)[t] - usual[r] - to[r * T + t];
}

/* ... as contrasts in standard errors, into q->left. */
static void leave_lane(void *context, size_t lane, int thread) {
    const struct inquiry *q = context;
    const struct hm_profile *p = q->p;
    const size_t T = p->steps;
    const double total = total_weight(q);
    double *x = q->value + (size_t)thread * p->rows * T;
    const struct trail *w = q->now;
    levels_less(q, lane, w->usual, w->effect ? w->effect + lane * q->s.most : NULL, w->n_effects[lane], x);
    for (size_t t = 0; t < T; t++) {
        double mean = 0;
        for (size_t r = 0; r < p->rows; r++) mean += q->weight[r] * x[r * T + t];
        mean /= total;
        for (size_t r = 0; r < p->rows; r++)
            q->left[(lane * p->rows + r) * T + t] =
                p->floor[r] > 0 ? (x[r * T + t] - mean) / fmax(p->floor[r], 1e-6) : 0;
    }
    for (size_t s = 0; s < p->stages; s++)
        for (size_t t = 0; t < T; t++)
            q->both[(lane * p->stages + s) * T + t] =
                (q->left[(lane * p->rows + 2 * s) * T + t] + q->left[(lane * p->rows + 2 * s + 1) * T + t]) * M_SQRT1_2;
}

/* With one stage the two directions of a contrast are each other's negatives: nothing is left of both together. */
static const double *series_of_both(const struct inquiry *q, size_t *n) {
    *n = q->p->lanes * (q->p->stages > 1 ? q->p->stages : q->p->rows);
    return q->p->stages > 1 ? q->both : q->left;
}

static void scale_both(const struct inquiry *q) {
    if (q->p->stages < 2) return;
    double unit = sqrt(1 - 1 / (double)q->p->stages);
    for (size_t i = 0; i < q->p->lanes * q->p->stages * q->p->steps; i++) q->both[i] *= q->unit / unit;
}

static void leave(struct inquiry *q, struct trail *w) {
    q->now = w;
    hm_parallel(q->p->lanes, q->p->threads, leave_lane, q);
    scale_both(q);
}

/* ---- following one start ---- */

static void search_lane(void *context, size_t lane, int thread) {
    const struct inquiry *q = context;
    const struct hm_profile *p = q->p;
    double *x = q->value + (size_t)thread * p->rows * p->steps;
    struct trail *w = q->now;
    levels_less(q, lane, w->usual, NULL, 0, x);
    w->n_effects[lane] = hm_search_lane(&q->s, x, (uint32_t)lane, &q->room[thread], w->effect + lane * q->s.most);
}

/* By how much more than white noise means vary. A worker that wanders does so in forwards and backwards alike. */
static void inflate(struct inquiry *q) {
    for (size_t n = 1; n <= q->p->steps; n++) {
        double one = q->of[n] / q->unit, two = q->of_both[n] / q->unit;
        q->inflate1[n] = fmax(1, one * one * (double)n);
        q->inflate2[n] = fmax(q->inflate1[n], two * two * (double)n);
    }
}

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* What and when, not how much. */
static uint64_t key_of(const struct inquiry *q, const struct trail *w) {
    uint64_t key = 1;
    for (size_t l = 0; l < q->p->lanes; l++)
        for (size_t i = 0; i < w->n_effects[l]; i++) {
            const struct hm_effect *e = &w->effect[l * q->s.most + i];
            key = mix(mix(key, (uint64_t)l << 32 | e->first),
                      (uint64_t)e->end << 32 | (uint64_t)(e->stage + 1) << 2 | e->directions);
        }
    return key;
}

/* The mean of what is left of each row joins the usual; how far it moved. */
static double shift_usual(const struct inquiry *q, struct trail *w, double *shift) {
    const struct hm_profile *p = q->p;
    double most = 0;
    for (size_t r = 0; r < p->rows; r++) {
        double sum = 0;
        for (size_t l = 0; l < p->lanes; l++)
            for (size_t t = 0; t < p->steps; t++) sum += q->left[(l * p->rows + r) * p->steps + t];
        shift[r] = sum / (double)(p->lanes * p->steps) * fmax(p->floor[r], 1e-6);
        most = fmax(most, fabs(shift[r]));
    }
    contrast(q, shift);
    for (size_t r = 0; r < p->rows; r++) w->usual[r] += shift[r];
    return most;
}

/* Errors as what is left wanders, at least as from step to step. */
static int measure_errors(struct inquiry *q) {
    const struct hm_profile *p = q->p;
    size_t n;
    const double *both = series_of_both(q, &n);
    if (hm_wander_blocks(q->left, p->lanes * p->rows, p->steps, q->unit, true, q->of) != 0 ||
        hm_wander_blocks(both, n, p->steps, q->unit, true, q->of_both) != 0)
        return -1;
    for (size_t k = 1; k <= p->steps; k++) {
        q->of[k] = fmax(q->of[k], q->lags[k]);
        q->of_both[k] = fmax(q->of_both[k], q->lags_both[k]);
    }
    return 0;
}

static void add_lane(void *context, size_t lane, int thread) {
    const struct inquiry *q = context;
    const struct hm_profile *p = q->p;
    double *x = q->value + (size_t)thread * p->rows * p->steps;
    memset(x, 0, p->rows * p->steps * sizeof *x);
    hm_effects_add(q->now->effect + lane * q->s.most, q->now->n_effects[lane], p->stages, p->steps, x);
    for (size_t r = 0; r < p->rows; r++)
        memcpy(q->added + (r * p->lanes + lane) * p->steps, x + r * p->steps, p->steps * sizeof *x);
}

/* The replicas, with this trail's workers taken off. */
static int find_paces(struct inquiry *q, struct trail *w, struct hm_paces *paces) {
    q->now = w;
    hm_parallel(q->p->lanes, q->p->threads, add_lane, q);
    if (hm_profile_work(q->p, &(struct hm_added){w->usual, q->added}) != 0) return -1;
    return hm_paces_find(paces, q->p);
}

/* How many places of a replica are slow; they join w->places. */
static size_t places_of(const struct inquiry *q, struct trail *w, size_t lane) {
    const struct hm_effect *e = w->effect + lane * q->s.most;
    size_t places = 0;
    for (size_t i = 0; i < w->n_effects[lane]; i++) {
        size_t k = 0;
        while (e[k].stage != e[i].stage) k++;
        if (k != i) continue;
        places++;
        w->places += mix(lane, (uint64_t)e[i].stage + 1);
    }
    return places;
}

/* The level of a row in a window, its replica's pace included, above the usual. */
static double level_in(const struct inquiry *q, const struct hm_paces *paces, size_t row, size_t lane,
                       const struct hm_effect *e) {
    const size_t T = q->p->steps;
    double sum = 0;
    for (size_t t = e->first; t < e->end; t++)
        sum += q->added[(row * q->p->lanes + lane) * T + t] + paces->middle[lane * T + t];
    return sum / (double)(e->end - e->first);
}

/* A worker that no other of its stage is faster than: what is slow must be some other one. */
static bool is_fastest(const struct inquiry *q, const struct hm_paces *paces, const struct hm_effect *e) {
    if (e->stage == HM_ALL_STAGES || q->p->lanes < 2 || hm_effect_size(e) <= 0) return false;
    size_t row = 2 * (size_t)e->stage + (e->directions != HM_FORWARDS);
    double own = level_in(q, paces, row, e->lane, e);
    for (size_t l = 0; l < q->p->lanes; l++)
        if (l != e->lane && level_in(q, paces, row, l, e) < own - hm_least) return false;
    return true;
}

/* What the trail costs before what it leaves over, and what is left of the replicas' common pace. */
static int sum_up(struct inquiry *q, struct trail *w, const struct hm_paces *paces) {
    const struct hm_profile *p = q->p;
    const size_t cells = p->lanes * p->steps;
    double *copy = hm_alloc(cells, sizeof *copy), *of = hm_alloc(p->steps + 1, sizeof *of);
    w->common = hm_alloc(cells, sizeof *w->common);
    int status = copy && of && w->common ? 0 : -1;
    if (status == 0) {
        memcpy(w->common, paces->middle, cells * sizeof *copy);
        for (size_t i = 0; i < paces->n; i++)
            for (size_t t = paces->stretch[i].first; t < paces->stretch[i].end; t++)
                w->common[paces->stretch[i].lane * p->steps + t] -= paces->stretch[i].size;
        memcpy(copy, w->common, cells * sizeof *copy);
        double middle = hm_median(copy, cells);
        for (size_t l = 0; l < p->lanes; l++) {
            double *x = w->common + l * p->steps;
            for (size_t t = 0; t < p->steps; t++) x[t] -= middle;
            double mean = hm_mean(x, p->steps);
            for (size_t t = 0; t < p->steps; t++) copy[l * p->steps + t] = x[t] - mean;
        }
        status = hm_wander_blocks(copy, p->lanes, p->steps, 1e-6, true, of);
    }
    if (status == 0) {
        w->worst = hm_wander_worst(q->of_both, p->steps);
        w->worst_common = hm_wander_worst(of, p->steps);
        double effects = (double)paces->n, places = 0, slowness = 0;
        for (size_t l = 0; l < p->lanes; l++) {
            effects += (double)w->n_effects[l], places += (double)places_of(q, w, l);
            for (size_t i = 0; i < w->n_effects[l]; i++) places += is_fastest(q, paces, &w->effect[l * q->s.most + i]);
        }
        for (size_t i = 0; i < paces->n; i++) places += !i || paces->stretch[i].lane != paces->stretch[i - 1].lane;
        w->price = price_of_place * places + price_of_effect * effects + price_of_slowness * slowness;
    }
    hm_free(copy);
    hm_free(of);
    return status;
}

static int follow(struct inquiry *q, struct trail *w, const double *guess) {
    const struct hm_profile *p = q->p;
    double *shift = hm_alloc(p->rows, sizeof *shift);
    w->usual = hm_alloc(p->rows, sizeof *w->usual);
    w->effect = hm_alloc(p->lanes * q->s.most, sizeof *w->effect);
    w->n_effects = hm_alloc(p->lanes, sizeof *w->n_effects);
    int status = shift && w->usual && w->effect && w->n_effects ? 0 : -1;
    uint64_t seen[ROUNDS];
    if (status == 0) {
        memcpy(w->usual, guess, p->rows * sizeof *guess);
        contrast(q, w->usual);
        memcpy(q->of, q->lags, (p->steps + 1) * sizeof *q->of);
        memcpy(q->of_both, q->lags_both, (p->steps + 1) * sizeof *q->of);
    }
    for (int round = 0; status == 0 && round < ROUNDS; round++) {
        inflate(q);
        q->now = w;
        hm_parallel(p->lanes, p->threads, search_lane, q);
        leave(q, w);
        double moved = shift_usual(q, w, shift);
        status = measure_errors(q);
        uint64_t key = seen[round] = key_of(q, w);
        bool again = false;
        for (int k = 0; k < round; k++) again |= seen[k] == key;
        if (again && moved < 0.002) break;
    }
    hm_free(shift);
    return status;
}

/* ---- guesses ---- */

static int guess(struct inquiry *q, const double *usual) {
    if (!(q->guess[q->n_guesses] = hm_alloc(q->p->rows, sizeof(double)))) return -1;
    memcpy(q->guess[q->n_guesses++], usual, q->p->rows * sizeof(double));
    return 0;
}

/* The median of each row over replicas and steps. */
static int guess_medians(struct inquiry *q, double *value, double *usual) {
    const struct hm_profile *p = q->p;
    for (size_t r = 0; r < p->rows; r++) {
        memcpy(value, hm_level(p, r, 0), p->lanes * p->steps * sizeof *value);
        usual[r] = hm_median(value, p->lanes * p->steps);
    }
    return guess(q, usual);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* No replica need be sound in all its stages: replicas laid on each other by the middle of their rows, and of each row one of the
 * lower ones. */
static int guess_lower_rows(struct inquiry *q, double *value, double *usual) {
    const struct hm_profile *p = q->p;
    double *laid = hm_alloc(p->rows * p->lanes, sizeof *laid), *x = hm_alloc(p->rows * p->steps, sizeof *x);
    int status = laid && x ? 0 : -1;
    for (size_t l = 0; status == 0 && l < p->lanes; l++) {
        for (size_t t = 0; t < p->steps; t++) {
            for (size_t r = 0; r < p->rows; r++) value[r] = hm_level(p, r, l)[t] - q->guess[0][r];
            double middle = hm_median(value, p->rows);
            for (size_t r = 0; r < p->rows; r++) x[r * p->steps + t] = hm_level(p, r, l)[t] - q->guess[0][r] - middle;
        }
        for (size_t r = 0; r < p->rows; r++) laid[r * p->lanes + l] = hm_median(x + r * p->steps, p->steps);
    }
    for (size_t r = 0; status == 0 && r < p->rows; r++) {
        qsort(laid + r * p->lanes, p->lanes, sizeof *laid, ascending);
        usual[r] = q->guess[0][r] + laid[r * p->lanes + (p->lanes <= 3 ? 0 : p->lanes / 4)];
    }
    hm_free(laid);
    hm_free(x);
    return status == 0 ? guess(q, usual) : -1;
}

struct region {
    uint32_t lane, first, end;
};

static int longest_first(const void *a, const void *b) {
    const struct region *x = a, *y = b;
    uint32_t n = x->end - x->first, m = y->end - y->first;
    if (n != m) return n > m ? -1 : 1;
    return x->lane != y->lane ? (x->lane > y->lane) - (x->lane < y->lane)
                              : (x->first > y->first) - (x->first < y->first);
}

/* Stretches of replicas between the edges of what the first trail found. */
static size_t undisturbed(const struct inquiry *q, struct region *to) {
    const struct hm_profile *p = q->p;
    const struct trail *w = &q->trail[0];
    size_t n = 0;
    for (size_t l = 0; l < p->lanes; l++)
        for (uint32_t first = 0, end; first < p->steps; first = end) {
            end = (uint32_t)p->steps;
            for (size_t i = 0; i < w->n_effects[l]; i++) {
                const struct hm_effect *e = &w->effect[l * q->s.most + i];
                if (e->first > first && e->first < end) end = e->first;
                if (e->end > first && e->end < end) end = e->end;
            }
            size_t length = end - first;
            if (length == p->steps || (length >= 3 && 8 * length >= p->steps))
                to[n++] = (struct region){(uint32_t)l, first, end};
        }
    qsort(to, n, sizeof *to, longest_first);
    return n;
}

static bool is_new(const struct inquiry *q, const double *usual, double *a, double *b) {
    const size_t rows = q->p->rows;
    memcpy(a, usual, rows * sizeof *a);
    contrast(q, a);
    for (size_t k = 1; k < q->n_guesses; k++) {
        double apart = 0;
        memcpy(b, q->guess[k], rows * sizeof *b);
        contrast(q, b);
        for (size_t r = 0; r < rows; r++) apart = fmax(apart, fabs(a[r] - b[r]));
        if (apart <= another_start) return false;
    }
    return true;
}

static int guess_more(struct inquiry *q, double *value, double *usual) {
    const struct hm_profile *p = q->p;
    struct region *region = hm_alloc(p->lanes * (2 * q->s.most + 1), sizeof *region);
    double *ab = hm_alloc(2 * p->rows, sizeof *ab);
    int status = region && ab ? 0 : -1;
    if (status == 0 && p->stages > 2) status = guess_lower_rows(q, value, usual);
    size_t n = status == 0 ? undisturbed(q, region) : 0;
    for (size_t i = 0; i < n && status == 0 && q->n_guesses < MOST_STARTS; i++) {
        for (size_t r = 0; r < p->rows; r++) {
            size_t length = region[i].end - region[i].first;
            memcpy(value, hm_level(p, r, region[i].lane) + region[i].first, length * sizeof *value);
            usual[r] = hm_median(value, length);
        }
        if (is_new(q, usual, ab, ab + p->rows)) status = guess(q, usual);
    }
    hm_free(region);
    hm_free(ab);
    return status;
}

/* ---- the best of them ---- */

/* The squared standard errors that a trail leaves over: what moves from step to step, and levels that stay, which may be natural. */
static double left_over(struct inquiry *q, struct trail *w, double worst, double worst_common) {
    const struct hm_profile *p = q->p;
    const double T = (double)p->steps;
    double sum = 0;
    leave(q, w);
    for (size_t k = 0; k < p->lanes * p->rows; k++) {
        size_t row = k % p->rows;
        if (!(p->floor[row] > 0)) continue;
        const double *x = q->left + k * p->steps, natural = natural_spread / p->floor[row];
        double mean = hm_mean(x, p->steps);
        for (size_t t = 0; t < p->steps; t++) sum += fmin((x[t] - mean) * (x[t] - mean) / worst, most_left);
        sum += mean * mean / (worst / T + natural * natural);
    }
    for (size_t l = 0; l < p->lanes; l++) {
        const double *x = w->common + l * p->steps;
        double mean = hm_mean(x, p->steps);
        for (size_t t = 0; t < p->steps; t++) sum += fmin((x[t] - mean) * (x[t] - mean) / worst_common, most_left);
        sum += mean * mean / (worst_common / T + natural_spread * natural_spread);
    }
    return sum;
}

/* One yardstick for all: the noise that the quietest trail leaves. */
static size_t best_trail(struct inquiry *q, size_t n, double *margin) {
    double worst = INFINITY, common = INFINITY;
    size_t best = 0;
    *margin = INFINITY;
    if (n == 1) return 0;
    for (size_t k = 0; k < n; k++)
        worst = fmin(worst, q->trail[k].worst), common = fmin(common, q->trail[k].worst_common);
    for (size_t k = 0; k < n; k++) {
        q->trail[k].score = q->trail[k].price + left_over(q, &q->trail[k], worst, common);
        if (q->trail[k].score < q->trail[best].score) best = k;
    }
    for (size_t k = 0; k < n; k++)
        if (q->trail[k].places != q->trail[best].places)
            *margin = fmin(*margin, q->trail[k].score - q->trail[best].score);
    return best;
}

static int follow_all(struct inquiry *q, struct hm_explanation *e, double *value, double *usual) {
    const struct hm_profile *p = q->p;
    size_t n = 0;
    int status = guess_medians(q, value, usual);
    for (; status == 0 && n < q->n_guesses; n++) {
        struct trail *w = &q->trail[n];
        status = follow(q, w, q->guess[n]);
        hm_paces_free(&e->paces);
        if (status == 0) status = find_paces(q, w, &e->paces);
        if (status == 0) status = sum_up(q, w, &e->paces);
        if (n > 0 || status != 0) continue;
        size_t touched = 0;
        for (size_t l = 0; l < p->lanes; l++) touched += w->n_effects[l] > 0;
        if (3 * touched >= p->lanes) status = guess_more(q, value, usual); /* else most replicas say what is usual */
    }
    if (status != 0) return -1;
    size_t best = best_trail(q, n, &e->margin);
    struct trail *w = &q->trail[best];
    if (best + 1 != n) { /* the last one's work and stretches are there already */
        hm_paces_free(&e->paces);
        status = find_paces(q, w, &e->paces);
    }
    e->usual = w->usual, e->effect = w->effect, e->n_effects = w->n_effects;
    w->usual = NULL, w->effect = NULL, w->n_effects = NULL;
    return status;
}

/* ---- all of it ---- */

static bool begin(struct inquiry *q) {
    struct hm_profile *p = q->p;
    const size_t T = p->steps, cells = p->rows * p->lanes * T;
    q->room = hm_alloc((size_t)p->threads, sizeof *q->room);
    q->weight = hm_alloc(p->rows, sizeof(double));
    q->value = hm_alloc((size_t)p->threads * p->rows * T, sizeof(double));
    q->left = hm_alloc(cells, sizeof(double));
    q->both = hm_alloc(p->lanes * p->stages * T, sizeof(double));
    q->added = hm_alloc(cells, sizeof(double));
    double **curves[] = {&q->lags, &q->lags_both, &q->of, &q->of_both, &q->inflate1, &q->inflate2};
    bool good =
        q->room && q->weight && q->value && q->left && q->both && q->added && hm_windows_list(&q->windows, T) == 0;
    for (size_t k = 0; k < sizeof curves / sizeof curves[0]; k++)
        good &= (*curves[k] = hm_alloc(T + 1, sizeof(double))) != NULL;
    if (!good) return false;
    size_t rows = 0;
    for (size_t r = 0; r < p->rows; r++)
        if (p->floor[r] > 0) q->weight[r] = 1 / (p->floor[r] * p->floor[r]), rows++;
    q->unit = sqrt(fmax(1e-9, 1 - 1 / (double)rows));
    q->s = (struct hm_search){p->stages,   p->lanes,    T,           q->weight,
                              q->inflate1, q->inflate2, &q->windows, 3 * p->stages + 8 < 64 ? 3 * p->stages + 8 : 64};
    for (int i = 0; i < p->threads && good; i++) good = hm_search_room(&q->room[i], &q->s) == 0;
    return good;
}

/* Errors as they are from step to step, before anything has been found. */
static int first_errors(struct inquiry *q, const double *usual) {
    const struct hm_profile *p = q->p;
    struct trail none = {.usual = (double *)usual, .effect = NULL, .n_effects = hm_alloc(p->lanes, sizeof(size_t))};
    if (!none.n_effects) return -1;
    leave(q, &none);
    hm_free(none.n_effects);
    size_t n;
    const double *both = series_of_both(q, &n);
    return hm_wander_lags(q->left, p->lanes * p->rows, p->steps, q->unit, p->lanes < 3, q->lags) != 0 ||
                   hm_wander_lags(both, n, p->steps, q->unit, p->lanes < 3, q->lags_both) != 0
               ? -1
               : 0;
}

static void end(struct inquiry *q) {
    double *arrays[] = {q->weight,    q->value, q->left,    q->both,     q->lags,
                        q->lags_both, q->of,    q->of_both, q->inflate1, q->inflate2};
    for (size_t k = 0; k < sizeof arrays / sizeof arrays[0]; k++) hm_free(arrays[k]);
    for (int i = 0; q->room && i < q->p->threads; i++) hm_search_room_free(&q->room[i]);
    hm_free(q->room);
    hm_windows_free(&q->windows);
    for (size_t k = 0; k < MOST_STARTS; k++) {
        hm_free(q->guess[k]);
        hm_free(q->trail[k].usual);
        hm_free(q->trail[k].effect);
        hm_free(q->trail[k].n_effects);
        hm_free(q->trail[k].common);
    }
}

int hm_explain(struct hm_explanation *e, struct hm_profile *p) {
    struct inquiry q = {.p = p};
    const size_t room = p->lanes * p->steps > p->rows ? p->lanes * p->steps : p->rows;
    *e = (struct hm_explanation){.margin = INFINITY};
    double *value = hm_alloc(room, sizeof *value), *usual = hm_alloc(p->rows, sizeof *usual);
    int status = begin(&q) && value && usual ? 0 : -1;
    if (status == 0) {
        for (size_t r = 0; r < p->rows; r++) {
            memcpy(value, hm_level(p, r, 0), p->lanes * p->steps * sizeof *value);
            usual[r] = hm_median(value, p->lanes * p->steps);
        }
        status = first_errors(&q, usual);
    }
    if (status == 0) status = follow_all(&q, e, value, usual);
    e->most = q.s.most;
    e->added = q.added;
    end(&q);
    hm_free(value);
    hm_free(usual);
    if (status != 0) hm_explanation_free(e);
    return status;
}

void hm_explanation_free(struct hm_explanation *e) {
    hm_free(e->usual);
    hm_free(e->effect);
    hm_free(e->n_effects);
    hm_free(e->added);
    hm_paces_free(&e->paces);
    *e = (struct hm_explanation){0};
}
