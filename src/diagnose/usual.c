/* usual.c - replicas against each other, by the work of their microbatches.
 *
 * A replica that is slow shifts all of its microbatches; sequence lengths have a long tail above and a sharp edge below, and differ from
 * step to step. So a replica's steps are cut into stretches of constant level, and a level is read at that quantile of the microbatches
 * at which it is known best. It must shift the middle of the distribution, too. */
#include "usual.h"
#include "wander.h"
#include "windows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double shifts_all = 0.6; /* of the level: so much of it the median must show */
static const double together = 0.02;  /* levels so near the usual are usual */
static const double quantiles[] = {0.1, 0.2, 0.3, 0.5};
enum { QUANTILES = sizeof quantiles / sizeof quantiles[0] };

/* Where the microbatches of a step lie: that location is followed over the steps which moves least from one to the next. */
enum location { MEAN, MEDIAN, TENTH, QUARTER, LOWER_HALF, LOCATIONS };

struct reading {
    double level, error;
};

struct piece { /* a segment of a replica */
    uint32_t first, end;
    struct reading at[QUANTILES];
};

struct room {
    double *value, *copy;
};

struct paces {
    const struct hm_profile *p;
    double *location[LOCATIONS]; /* [lane][step] */
    const double *followed;
    double *spread;  /* [lane] of the microbatches within a step */
    double *of;      /* errors of means of the location followed: from step to step, ... */
    double *of_rest; /* ... and also as what is left wanders */
    double *rest;    /* [lane][step] what is left of it */
    uint32_t *end;   /* [lane][step] of segments */
    size_t *n_pieces;
    struct piece *piece;                           /* [lane][step] */
    double *level, *error, *middle, *middle_error; /* [lane][step] */
    double *typical;                               /* [step] */
    double *usual[2], *usual_middle[2]; /* [step] at each time among replicas; one for all of the recording */
    struct room *room;                  /* [thread] */
    double *value;                      /* [lane * step] */
    double floor;                       /* error of the work of one microbatch, as the noise of its computes makes it */
    double peers;                       /* spread among the replicas' means */
    bool wanders;                       /* steps move more than the microbatches in them tell */
    bool failed;
};

static double floor_of(const struct paces *q, double ops) {
    const struct hm_profile *p = q->p;
    size_t n = 0;
    for (size_t r = 0; r < p->rows; r++)
        if (p->floor[r] > 0) q->value[n++] = p->noise[r];
    return n ? hm_median(q->value, n) / sqrt((double)n * (double)p->chunks * ops) : 0;
}

/* ---- locations ---- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void locate_lane(void *context, size_t lane, int thread) {
    const struct paces *q = context;
    const struct hm_profile *p = q->p;
    const size_t M = p->microbatches, T = p->steps;
    double *x = q->room[thread].value, *left = q->room[thread].copy;
    size_t n = 0;
    for (size_t t = 0; t < T; t++) {
        for (size_t m = 0; m < M; m++) x[m] = hm_work(p, lane, m)[t];
        qsort(x, M, sizeof *x, ascending);
        size_t at = lane * T + t, half = M / 2;
        q->location[MEAN][at] = hm_mean(x, M);
        q->location[MEDIAN][at] = 0.5 * (x[(M - 1) / 2] + x[M / 2]);
        q->location[TENTH][at] = x[(M + 9) / 10 - 1];
        q->location[QUARTER][at] = x[(M + 3) / 4 - 1];
        q->location[LOWER_HALF][at] = M >= 4 ? hm_mean(x, half) : x[0];
        for (size_t m = 0; m < M; m++) left[n++] = x[m] - q->location[MEDIAN][at];
    }
    q->spread[lane] = hm_spread_about_0(left, n);
}

/* The spread of a location from step to step. */
static double unrest(const struct paces *q, const double *series) {
    const struct hm_profile *p = q->p;
    size_t n = 0;
    for (size_t l = 0; l < p->lanes; l++)
        for (size_t t = 0; t + 1 < p->steps; t++)
            q->value[n++] = series[l * p->steps + t + 1] - series[l * p->steps + t];
    return n ? hm_spread_about_0(q->value, n) : 1;
}

/* Which location is followed, and how its means err. */
static int follow(struct paces *q) {
    const struct hm_profile *p = q->p;
    enum location best = MEAN;
    double least = unrest(q, q->location[MEAN]);
    for (int k = MEDIAN; k < LOCATIONS; k++) {
        double now = unrest(q, q->location[k]);
        if (now < 0.97 * least) least = now, best = (enum location)k;
    }
    q->followed = q->location[best];
    memcpy(q->value, q->spread, p->lanes * sizeof(double));
    double inner = hm_median(q->value, p->lanes) / sqrt((double)p->microbatches),
           floor = floor_of(q, (double)p->microbatches);
    if (best == MEAN) floor = fmax(floor, inner);
    if (best == MEDIAN) floor = fmax(floor, 1.2533 * inner);
    if (hm_wander_lags(q->followed, p->lanes, p->steps, floor, p->lanes < 3, q->of) != 0) return -1;
    for (size_t l = 0; l < p->lanes; l++) {
        size_t n = hm_segment(q->followed + l * p->steps, p->steps, q->of, q->end + l * p->steps);
        if (n == SIZE_MAX) return -1;
        q->n_pieces[l] = n;
        for (size_t k = 0, first = 0; k < n; first = q->end[l * p->steps + k++]) {
            size_t end = q->end[l * p->steps + k];
            const double *x = q->followed + l * p->steps;
            double mean = hm_mean(x + first, end - first);
            for (size_t t = first; t < end; t++) q->rest[l * p->steps + t] = x[t] - mean;
            q->piece[l * p->steps + k] = (struct piece){.first = (uint32_t)first, .end = (uint32_t)end};
        }
    }
    memcpy(q->value, q->rest, p->lanes * p->steps * sizeof(double));
    q->wanders = hm_spread_about_0(q->value, p->lanes * p->steps) > 2 * inner;
    if (hm_wander_blocks(q->rest, p->lanes, p->steps, floor, true, q->of_rest) != 0) return -1;
    for (size_t n = 1; n <= p->steps; n++) q->of_rest[n] = fmax(q->of_rest[n], q->of[n]);
    return 0;
}

/* ---- levels ---- */

/* A quantile of the work in a piece and its standard error, steps and runs of steps taken as clusters. */
static struct reading read_quantile(const struct hm_profile *p, size_t lane, const struct piece *at, double share,
                                    double floor, double *value) {
    static const double half = 0.08;
    const size_t M = p->microbatches, n = at->end - at->first;
    size_t N = 0;
    for (size_t m = 0; m < M; m++)
        for (size_t t = at->first; t < at->end; t++) value[N++] = hm_work(p, lane, m)[t];
    double from = fmax(0, share - half), to = fmin(1, share + half),
           slope = (hm_quantile(value, N, to) - hm_quantile(value, N, from)) / (to - from), /* 1 / density */
        level = hm_quantile(value, N, share), all = (double)N, v = all * share * (1 - share);
    for (size_t b = 1; b <= 4 && n / b >= 4; b *= 2) {
        double sum = 0;
        size_t blocks = n / b;
        for (size_t k = 0; k < blocks; k++) {
            double psi = 0;
            for (size_t t = at->first + k * b; t < at->first + (k + 1) * b; t++)
                for (size_t m = 0; m < M; m++) psi += (hm_work(p, lane, m)[t] > level) - (1 - share);
            sum += psi * psi;
        }
        v = fmax(v, sum * (double)n / (double)(blocks * b));
    }
    return (struct reading){level, fmax(slope * sqrt(v) / all, floor / sqrt(all))};
}

static void read_lane(void *context, size_t lane, int thread) {
    const struct paces *q = context;
    for (size_t k = 0; k < q->n_pieces[lane]; k++) {
        struct piece *at = &q->piece[lane * q->p->steps + k];
        for (int i = 0; i < QUANTILES; i++)
            at->at[i] = read_quantile(q->p, lane, at, quantiles[i], q->floor, q->room[thread].value);
    }
}

/* The quantile that is known best, over all pieces. */
static int best_quantile(const struct paces *q) {
    int best = 0;
    double least = INFINITY;
    for (int i = 0; i < QUANTILES; i++) {
        size_t n = 0;
        for (size_t l = 0; l < q->p->lanes; l++)
            for (size_t k = 0; k < q->n_pieces[l]; k++) q->value[n++] = q->piece[l * q->p->steps + k].at[i].error;
        double error = hm_median(q->value, n);
        if (error < least) least = error, best = i;
    }
    return best;
}

static void read_levels(struct paces *q) {
    const struct hm_profile *p = q->p;
    q->floor = floor_of(q, 1);
    hm_parallel(p->lanes, p->threads, read_lane, q);
    int best = best_quantile(q);
    for (size_t l = 0; l < p->lanes; l++)
        for (size_t k = 0; k < q->n_pieces[l]; k++) {
            const struct piece *at = &q->piece[l * p->steps + k];
            for (size_t i = l * p->steps + at->first; i < l * p->steps + at->end; i++) {
                q->level[i] = at->at[best].level, q->error[i] = at->at[best].error;
                q->middle[i] = at->at[QUANTILES - 1].level, q->middle_error[i] = at->at[QUANTILES - 1].error;
            }
        }
    for (size_t t = 0; t < p->steps; t++) {
        for (size_t l = 0; l < p->lanes; l++) q->value[l] = q->error[l * p->steps + t];
        q->typical[t] = hm_median(q->value, p->lanes);
    }
    for (size_t l = 0; l < p->lanes; l++) q->value[l] = hm_mean(q->level + l * p->steps, p->steps);
    q->peers = p->lanes >= 4 ? hm_spread(q->value, p->lanes) : 0;
}

/* ---- the usual ---- */

static double typical_error(const struct paces *q) {
    memcpy(q->value, q->typical, q->p->steps * sizeof(double));
    return hm_median(q->value, q->p->steps);
}

/* The middle of those whose level is the usual one; NaN where there is none: filled in from the other steps. */
static void usual_middle(const struct paces *q, int choice) {
    const struct hm_profile *p = q->p;
    const double *usual = q->usual[choice];
    double *to = q->usual_middle[choice];
    size_t known = 0;
    for (size_t t = 0; t < p->steps; t++) {
        double sum = 0, n = 0;
        for (size_t l = 0; l < p->lanes; l++) {
            size_t i = l * p->steps + t;
            if (fabs(q->level[i] - usual[t]) <= fmax(together, 3 * q->typical[t])) sum += q->middle[i], n++;
        }
        to[t] = n > 0 ? sum / n : NAN;
        if (n > 0) q->value[known++] = to[t];
    }
    if (known == p->steps) return;
    double fill;
    if (known) {
        fill = hm_median(q->value, known);
    } else {
        double error = typical_error(q);
        memcpy(q->value, q->middle, p->lanes * p->steps * sizeof(double));
        fill = hm_usual_level(q->value, p->lanes * p->steps, error);
    }
    for (size_t t = 0; t < p->steps; t++)
        if (isnan(to[t])) to[t] = fill;
}

static void find_usual(struct paces *q) {
    const struct hm_profile *p = q->p;
    for (size_t t = 0; t < p->steps; t++) {
        for (size_t l = 0; l < p->lanes; l++) q->value[l] = q->level[l * p->steps + t];
        q->usual[0][t] = hm_usual_level(q->value, p->lanes, q->typical[t]);
    }
    double error = typical_error(q);
    memcpy(q->value, q->level, p->lanes * p->steps * sizeof(double));
    double all = hm_usual_level(q->value, p->lanes * p->steps, error);
    for (size_t t = 0; t < p->steps; t++) q->usual[1][t] = all;
    usual_middle(q, 0);
    usual_middle(q, 1);
}

/* ---- stretches ---- */

/* Whether a part [first, end) of a piece is slow against the usual. */
static bool stands_out(const struct paces *q, size_t lane, const struct piece *at, size_t first, size_t end, int choice,
                       struct hm_stretch *s) {
    const struct hm_profile *p = q->p;
    size_t i = lane * p->steps + first, n = at->end - at->first;
    double size = q->level[i] - q->usual[choice][first], middle = q->middle[i] - q->usual_middle[choice][first],
           error = hypot(q->error[i], q->typical[first]);
    if (q->wanders) error = fmax(error, hypot(q->of_rest[n], q->of_rest[p->steps]));
    if (n < 2 && n < p->steps && size < hm_natural) return false;
    if (size < hm_least_level(n, p->steps) || size < hm_lane_sigmas * error) return false;
    if (size < hm_natural && size < hm_peers * q->peers) return false;
    for (size_t l = 0; l < p->lanes; l++) q->value[l] = q->middle_error[l * p->steps + first];
    if (middle + 3 * hypot(q->middle_error[i], hm_median(q->value, p->lanes)) < shifts_all * size) return false;
    *s = (struct hm_stretch){(uint32_t)lane, (uint32_t)first, (uint32_t)end, size, error};
    return true;
}

/* The stretches against one choice of the usual; how many. A piece is cut where the usual changes. */
static size_t list_stretches(const struct paces *q, int choice, struct hm_stretch *to) {
    const struct hm_profile *p = q->p;
    const double *usual = q->usual[choice];
    size_t n = 0;
    for (size_t l = 0; l < p->lanes; l++)
        for (size_t k = 0; k < q->n_pieces[l]; k++) {
            const struct piece *at = &q->piece[l * p->steps + k];
            for (size_t first = at->first, end; first < at->end; first = end) {
                end = first + 1;
                while (end < at->end && fabs(usual[end] - usual[end - 1]) <= 1e-12) end++;
                n += stands_out(q, l, at, first, end, choice, &to[n]);
            }
        }
    return n;
}

/* Whether at some time all replicas are in a stretch: then nobody is left to compare them with. */
static bool nobody_sound(const struct paces *q, const struct hm_stretch *s, size_t n) {
    for (size_t t = 0; t < q->p->steps; t++) q->value[t] = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t t = s[i].first; t < s[i].end; t++)
            if (++q->value[t] >= (double)q->p->lanes) return true;
    return false;
}

/* How many changes an explanation needs: beginnings and ends inside the recording, and changes of the usual. */
static size_t changes(const struct paces *q, int choice, const struct hm_stretch *s, size_t n) {
    size_t count = 0, joined = 0, T = q->p->steps;
    for (size_t i = 0; i < n; i++) {
        count += s[i].first > 0;
        count += s[i].end < T;
        joined += i && s[i - 1].lane == s[i].lane && s[i - 1].end == s[i].first;
    }
    for (size_t t = 1; t < T; t++) count += fabs(q->usual[choice][t] - q->usual[choice][t - 1]) > hm_least;
    return count - joined;
}

static int choose(struct paces *q, struct hm_paces *out) {
    const struct hm_profile *p = q->p;
    struct hm_stretch *list[2] = {hm_alloc(p->lanes * p->steps, sizeof **list),
                                  hm_alloc(p->lanes * p->steps, sizeof **list)};
    if (!list[0] || !list[1]) {
        hm_free(list[0]);
        hm_free(list[1]);
        return -1;
    }
    size_t n[2], cost[2];
    for (int k = 0; k < 2; k++) {
        n[k] = list_stretches(q, k, list[k]);
        cost[k] = changes(q, k, list[k], n[k]);
    }
    int best = cost[1] < cost[0] && !nobody_sound(q, list[1], n[1]);
    out->stretch = list[best];
    out->n = n[best];
    hm_free(list[1 - best]);
    return 0;
}

/* ---- all of it ---- */

static bool begin(struct paces *q) {
    const struct hm_profile *p = q->p;
    const size_t cells = p->lanes * p->steps, most = cells > p->rows ? cells : p->rows,
                 per_lane = p->microbatches * p->steps;
    for (int k = 0; k < LOCATIONS; k++) q->location[k] = hm_alloc(cells, sizeof(double));
    double **series[] = {&q->rest, &q->level, &q->error, &q->middle, &q->middle_error};
    double **times[] = {&q->typical, &q->usual[0], &q->usual[1], &q->usual_middle[0], &q->usual_middle[1]};
    bool good = true;
    for (size_t k = 0; k < 5; k++) {
        *series[k] = hm_alloc(cells, sizeof(double));
        *times[k] = hm_alloc(p->steps, sizeof(double));
        good &= q->location[k] && *series[k] && *times[k];
    }
    q->spread = hm_alloc(p->lanes, sizeof(double));
    q->of = hm_alloc(p->steps + 1, sizeof(double));
    q->of_rest = hm_alloc(p->steps + 1, sizeof(double));
    q->end = hm_alloc(cells, sizeof *q->end);
    q->n_pieces = hm_alloc(p->lanes, sizeof *q->n_pieces);
    q->piece = hm_alloc(cells, sizeof *q->piece);
    q->value = hm_alloc(most, sizeof(double));
    q->room = hm_alloc((size_t)p->threads, sizeof *q->room);
    good &= q->spread && q->of && q->of_rest && q->end && q->n_pieces && q->piece && q->value && q->room;
    for (int i = 0; good && i < p->threads; i++) {
        q->room[i].value = hm_alloc(per_lane, sizeof(double));
        q->room[i].copy = hm_alloc(per_lane, sizeof(double));
        good = q->room[i].value && q->room[i].copy;
    }
    return good;
}

static void end(struct paces *q) {
    for (int k = 0; k < LOCATIONS; k++)
        if (k != MEDIAN) hm_free(q->location[k]);
    double *arrays[] = {q->rest,     q->level,    q->error,           q->middle,          q->middle_error, q->typical,
                        q->usual[0], q->usual[1], q->usual_middle[0], q->usual_middle[1], q->spread,       q->of,
                        q->of_rest,  q->value};
    for (size_t k = 0; k < sizeof arrays / sizeof arrays[0]; k++) hm_free(arrays[k]);
    hm_free(q->end);
    hm_free(q->n_pieces);
    hm_free(q->piece);
    for (int i = 0; q->room && i < q->p->threads; i++) {
        hm_free(q->room[i].value);
        hm_free(q->room[i].copy);
    }
    hm_free(q->room);
}

int hm_paces_find(struct hm_paces *paces, const struct hm_profile *p) {
    struct paces q = {.p = p};
    *paces = (struct hm_paces){0};
    int status = begin(&q) ? 0 : -1;
    if (status == 0) {
        hm_parallel(p->lanes, p->threads, locate_lane, &q);
        status = follow(&q);
    }
    if (status == 0 && p->lanes > 1) {
        read_levels(&q);
        find_usual(&q);
        status = choose(&q, paces);
    }
    end(&q);
    paces->middle = q.location[MEDIAN];
    if (status != 0) hm_paces_free(paces);
    return status;
}

void hm_paces_free(struct hm_paces *paces) {
    hm_free(paces->stretch);
    hm_free(paces->middle);
    *paces = (struct hm_paces){0};
}
