/* profile.c - forwards and backwards taken apart: role, work in the microbatch, level of a worker in a step, noise.
 *
 * (1) A role's base: the median of its durations, a sample of them. It only centres: what is usual is found later. (2) The work in a
 * microbatch shows on all stages and in both directions of its replica: the median of what stands above the bases. (3) What is left, by
 * row and step, over the microbatches: the low median, since what stands out is slow, never fast. One replica's eight steps at a time:
 * they are one vector, and medians are taken by sorting networks on vectors. */
#include "profile.h"

#include <math.h>
#include <string.h>

static const double mad_to_sigma = 1.4826;   /* of a normal distribution */
static const double median_to_mean = 1.2533; /* standard error of a median over that of a mean, normal */
enum { SAMPLE = 4096 };                      /* durations of a role that tell its base, residuals that tell the noise */

typedef double eight[HM_WIDTH]; /* one value for each step of a block */

double hm_low_median(double *x, size_t n) {
    return n ? hm_select(x, n, (n - 1) / 2) : NAN;
}

double hm_spread_about_0(double *x, size_t n) {
    return n ? mad_to_sigma * hm_mad(x, n, 0) : 0;
}

void hm_profile_free(struct hm_profile *p) {
    hm_free(p->slot);
    hm_free(p->role);
    hm_free(p->microbatch);
    hm_free(p->single);
    hm_free(p->single_slot);
    hm_free(p->base);
    hm_free(p->level);
    hm_free(p->noise);
    hm_free(p->floor);
    hm_free(p->work);
    *p = (struct hm_profile){0};
}

/* ---- eight columns at a time ---- */

/* Sorts each of the eight columns of n rows: Batcher's merge exchange (Knuth, TAOCP 3, 5.2.2, algorithm M), which compares the same
 * places whatever the values. */
static void sort_columns(eight *x, size_t n) {
    if (n < 2) return;
    size_t top = 1;
    while (2 * top < n) top *= 2;
    for (size_t p = top; p > 0; p /= 2)
        for (size_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (size_t i = 0; i + d < n; i++) {
                if ((i & p) != r) continue;
                double *a = x[i], *b = x[i + d];
                for (size_t k = 0; k < HM_WIDTH; k++) {
                    double low = a[k] < b[k] ? a[k] : b[k], high = a[k] < b[k] ? b[k] : a[k];
                    a[k] = low;
                    b[k] = high;
                }
            }
            if (q == p) break;
        }
}

struct scratch {
    eight *log;  /* [role][microbatch] above the base */
    eight *list; /* values whose median is sought */
    eight *work; /* [microbatch] */
    double *left;
};

struct fit {
    struct hm_profile *p;
    struct scratch *scratch; /* [thread] */
    const struct hm_added *added;
    size_t sampled; /* lanes whose residuals tell the noise */
    double *left;   /* [row][lane sampled][..] see noise_of_row */
    double *spread; /* [row][lane] */
};

/* Logarithms of one replica's computes in a block, above their bases. */
static void take_logs(const struct hm_profile *p, size_t block, size_t lane, eight *to) {
    const double *from = hm_grid_lane(&p->t->grid, p->t->grid.duration, block, lane);
    for (uint32_t role = 0; role < p->roles; role++)
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, role, mb);
            if (slot == HM_NONE) continue;
            double *x = to[role * p->microbatches + mb];
            for (size_t k = 0; k < HM_WIDTH; k++) x[k] = log(fmax(from[slot * HM_WIDTH + k], 1e-9)) - p->base[role];
        }
}

/* The median of sorted columns; `low`: of an even number the smaller one in the middle. */
static void middle_of(eight *x, size_t n, bool low, double *to) {
    sort_columns(x, n);
    for (size_t k = 0; k < HM_WIDTH; k++)
        to[k] = low || n % 2 ? x[(n - 1) / 2][k] : 0.5 * (x[n / 2 - 1][k] + x[n / 2][k]);
}

/* The work of a microbatch. */
static void work_of(const struct hm_profile *p, const struct scratch *s, size_t mb, bool low, double *to) {
    size_t n = 0;
    for (uint32_t role = 0; role < p->roles; role++)
        if (hm_slot_of(p, role, mb) != HM_NONE)
            memcpy(s->list[n++], s->log[role * p->microbatches + mb], sizeof(eight));
    if (n)
        middle_of(s->list, n, low, to);
    else
        memset(to, 0, sizeof(eight));
}

static void levels_of_lane(void *context, size_t lane, int thread) {
    const struct fit *f = context;
    const struct hm_profile *p = f->p;
    const struct scratch *s = &f->scratch[thread];
    for (size_t block = 0; block < p->t->grid.blocks; block++) {
        const size_t width = hm_grid_width(&p->t->grid, block);
        take_logs(p, block, lane, s->log);
        for (size_t mb = 0; mb < p->microbatches; mb++) work_of(p, s, mb, false, s->work[mb]);
        for (size_t row = 0; row < p->rows; row++) {
            size_t n = 0;
            for (size_t c = 0; c < p->chunks; c++)
                for (size_t mb = 0; mb < p->microbatches; mb++) {
                    uint32_t role = hm_role(p, row / 2, c, (int)(row % 2));
                    if (hm_slot_of(p, role, mb) == HM_NONE) continue;
                    const double *x = s->log[role * p->microbatches + mb];
                    for (size_t k = 0; k < HM_WIDTH; k++) s->list[n][k] = x[k] - s->work[mb][k];
                    n++;
                }
            if (!n) continue;
            eight level;
            middle_of(s->list, n, true, level);
            memcpy(hm_level(p, row, lane) + block * HM_WIDTH, level, width * sizeof(double));
            if (block == lane % p->t->grid.blocks && lane < f->sampled) { /* what is left inside a step */
                size_t m = 0;
                for (size_t i = 0; i < n; i++)
                    for (size_t k = 0; k < width; k++) s->left[m++] = s->list[i][k] - level[k];
                f->spread[row * f->sampled + lane] = hm_spread_about_0(s->left, m);
            }
        }
        hm_grid_release(&p->t->grid, block, lane, 1);
    }
}

static void work_of_lane(void *context, size_t lane, int thread) {
    const struct fit *f = context;
    const struct hm_profile *p = f->p;
    const struct scratch *s = &f->scratch[thread];
    for (size_t block = 0; block < p->t->grid.blocks; block++) {
        const size_t width = hm_grid_width(&p->t->grid, block);
        take_logs(p, block, lane, s->log);
        for (uint32_t role = 0; role < p->roles; role++) {
            size_t row = hm_role_row(p, role);
            eight off = {0};
            for (size_t k = 0; k < width; k++)
                off[k] = f->added->usual[row] +
                         (f->added->x ? f->added->x[(row * p->lanes + lane) * p->steps + block * HM_WIDTH + k] : 0);
            for (size_t mb = 0; mb < p->microbatches; mb++)
                for (size_t k = 0; k < HM_WIDTH; k++) s->log[role * p->microbatches + mb][k] -= off[k];
        }
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            eight work;
            work_of(p, s, mb, true, work);
            memcpy(hm_work(p, lane, mb) + block * HM_WIDTH, work, width * sizeof(double));
        }
        hm_grid_release(&p->t->grid, block, lane, 1);
    }
}

/* ---- fitting ---- */

/* The median of up to SAMPLE durations of each role, evenly spread over replicas, microbatches and steps. */
static void guess_bases(struct hm_profile *p, double *value) {
    const size_t per_lane = p->microbatches * p->steps, all = per_lane * p->lanes, every = all / SAMPLE + 1;
    for (uint32_t role = 0; role < p->roles; role++) {
        size_t n = 0;
        for (size_t i = 0; i < all; i += every) {
            uint32_t slot = hm_slot_of(p, role, i % p->microbatches);
            if (slot != HM_NONE)
                value[n++] = log(fmax(hm_recorded_s(p, i / per_lane, slot, i % per_lane / p->microbatches), 1e-9));
        }
        p->base[role] = n ? hm_median(value, n) : 0;
    }
}

static size_t ops_of(const struct hm_profile *p, size_t row) {
    size_t n = 0;
    for (size_t c = 0; c < p->chunks; c++)
        for (size_t mb = 0; mb < p->microbatches; mb++)
            n += hm_slot_of(p, hm_role(p, row / 2, c, (int)(row % 2)), mb) != HM_NONE;
    return n;
}

static void measure_noise(const struct fit *f) {
    const struct hm_profile *p = f->p;
    for (size_t row = 0; row < p->rows; row++) {
        double n = (double)ops_of(p, row);
        if (n == 0) continue;
        /* the level is one of the values it is measured against */
        p->noise[row] = fmax(hm_median(f->spread + row * f->sampled, f->sampled), 1e-6) * sqrt(n / fmax(1, n - 1));
        p->floor[row] = median_to_mean * p->noise[row] / sqrt(n);
    }
}

static bool scratch_begin(struct fit *f) {
    const struct hm_profile *p = f->p;
    size_t roles = p->roles * p->microbatches, most = p->chunks * p->microbatches;
    if (p->roles > most) most = p->roles;
    f->scratch = hm_alloc((size_t)p->threads, sizeof *f->scratch);
    bool good = f->scratch != NULL;
    for (int i = 0; i < p->threads && good; i++) {
        struct scratch *s = &f->scratch[i];
        s->log = hm_alloc_aligned(roles, sizeof(eight));
        s->list = hm_alloc_aligned(most, sizeof(eight));
        s->work = hm_alloc_aligned(p->microbatches, sizeof(eight));
        s->left = hm_alloc(most * HM_WIDTH, sizeof(double));
        good = s->log && s->list && s->work && s->left;
    }
    return good;
}

static void scratch_end(struct fit *f) {
    for (int i = 0; f->scratch && i < f->p->threads; i++) {
        hm_free(f->scratch[i].log);
        hm_free(f->scratch[i].list);
        hm_free(f->scratch[i].work);
        hm_free(f->scratch[i].left);
    }
    hm_free(f->scratch);
}

static int estimate(struct hm_profile *p) {
    struct fit f = {.p = p, .sampled = p->lanes < SAMPLE ? p->lanes : SAMPLE};
    double *value = hm_alloc(SAMPLE + 1, sizeof *value);
    f.spread = hm_alloc(p->rows * f.sampled, sizeof *f.spread);
    bool good = scratch_begin(&f) && value && f.spread;
    if (good) {
        guess_bases(p, value);
        hm_parallel(p->lanes, p->threads, levels_of_lane, &f);
        measure_noise(&f);
    }
    scratch_end(&f);
    hm_free(value);
    hm_free(f.spread);
    return good ? 0 : -1;
}

int hm_profile_work(struct hm_profile *p, const struct hm_added *added) {
    struct fit f = {.p = p, .added = added};
    bool good = scratch_begin(&f);
    if (good) hm_parallel(p->lanes, p->threads, work_of_lane, &f);
    scratch_end(&f);
    return good ? 0 : -1;
}

int hm_profile_fit(struct hm_profile *p, const struct hm_trace *t, int threads) {
    *p = (struct hm_profile){.t = t, .stages = t->job->stages, .lanes = t->grid.lanes, .steps = t->grid.steps};
    p->threads = hm_thread_count(threads, p->lanes);
    bool good = hm_profile_roles(p, t->job) == 0;
    if (good) {
        p->base = hm_alloc(p->roles, sizeof(double));
        p->noise = hm_alloc(p->rows, sizeof(double));
        p->floor = hm_alloc(p->rows, sizeof(double));
        p->level = hm_alloc(p->rows * p->lanes * p->steps, sizeof(double));
        p->work = hm_alloc(p->lanes * p->microbatches * p->steps, sizeof(double));
        good = p->base && p->noise && p->floor && p->level && p->work;
    }
    if (good && p->microbatches) good = estimate(p) == 0;
    if (good) return 0;
    hm_profile_free(p);
    return -1;
}
