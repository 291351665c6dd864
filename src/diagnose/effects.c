/* effects.c - takes compute times apart: class means, replica and worker effects, what forward and backward share, spikes, links,
 * launch delays. Medians first, so that no effect hides another; means afterwards, from what is left. */
#include "diagnose.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const double spike_ratio = 1.5; /* a spike is a forward at least that much longer than expected ... */
static const double spike_floor_s =
    0.02; /* ... by at least so much: a collection takes hundreds of ms (OSDI 2025) ... */
static const double backward_follows = 0.4; /* ... whose backward shows less than this part of the excess */

static const double slow_ratio = 1.03; /* a worker 3 % over its peers (the artefact explains nothing below 1.03) ... */
static const double slow_score = 6;    /* ... and by so many robust deviations of them */

enum { SAMPLES = 1 << 15 }; /* values a class's median is taken from */

void hm_effects_free(struct hm_effects *e) {
    void *owned[] = {e->partner,     e->class_of,   e->typical,     e->mean,         e->low,         e->ratio,
                     e->replica,     e->worker,     e->center,      e->floor,        e->floor_noise, e->worker_noise,
                     e->stage_scale, e->stage_work, e->slow_worker, e->slow_replica, e->common,      e->correlation,
                     e->variation,   e->spikes,     e->links,       e->loading};
    for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++) hm_free(owned[k]);
}

static int make_room(struct hm_effects *e) {
    const size_t workers = e->stages * e->lanes;
    e->partner = hm_alloc(e->slots, sizeof *e->partner);
    e->class_of = hm_alloc(e->slots, sizeof *e->class_of);
    e->typical = hm_alloc(e->classes, sizeof(double));
    e->mean = hm_alloc(e->classes, sizeof(double));
    e->ratio = hm_alloc(workers * e->steps, sizeof(float));
    e->low = hm_alloc(workers * e->steps, sizeof(float));
    e->replica = hm_alloc(e->lanes, sizeof(double));
    e->worker = hm_alloc(workers, sizeof(double));
    e->floor = hm_alloc(workers, sizeof(double));
    e->floor_noise = hm_alloc(e->stages, sizeof(double));
    e->center = hm_alloc(e->stages, sizeof(double));
    e->worker_noise = hm_alloc(e->stages, sizeof(double));
    e->stage_scale = hm_alloc(2 * e->stages, sizeof(double));
    e->stage_work = hm_alloc(e->stages, sizeof(double));
    e->slow_worker = hm_alloc(workers, sizeof(bool));
    e->slow_replica = hm_alloc(e->lanes, sizeof(bool));
    e->common = hm_alloc(e->stages, sizeof(double));
    e->correlation = hm_alloc(e->stages, sizeof(double));
    e->variation = hm_alloc(e->stages, sizeof(double));
    e->loading = hm_alloc(e->lanes * e->steps, sizeof(double));
    return e->partner && e->class_of && e->typical && e->mean && e->ratio && e->low && e->replica && e->worker &&
                   e->center && e->floor && e->floor_noise && e->worker_noise && e->stage_scale && e->stage_work &&
                   e->slow_worker && e->slow_replica && e->common && e->correlation && e->variation && e->loading
               ? 0
               : -1;
}

/* ---- slots: classes and partners ---- */

static void classify(struct hm_effects *e) {
    const struct hm_model *m = e->t->model;
    for (uint32_t i = 0; i < e->slots; i++) {
        const struct hm_slot *s = &m->slot[i];
        e->partner[i] = UINT32_MAX;
        e->class_of[i] = UINT32_MAX;
        if (!hm_is_compute((int)s->type)) continue;
        size_t chunk = s->mc > 0 ? (size_t)s->mc : 0;
        e->class_of[i] = (uint32_t)((s->type * e->stages + s->stage) * e->chunks + chunk);
    }
    /* Slots of one microbatch: by (stage, chunk, microbatch), found through a table over the microbatches of each. */
    int32_t most = -1;
    for (size_t i = 0; i < e->slots; i++)
        if (e->class_of[i] != UINT32_MAX && m->slot[i].mb > most) most = m->slot[i].mb;
    size_t rows = e->stages * e->chunks;
    uint32_t *forward = most < 0 ? NULL : hm_alloc(rows * ((size_t)most + 1), sizeof *forward);
    for (uint32_t pass = 0; forward && pass < 2; pass++)
        for (uint32_t i = 0; i < e->slots; i++) {
            const struct hm_slot *s = &m->slot[i];
            if (e->class_of[i] == UINT32_MAX || s->mb < 0) continue;
            uint32_t *at =
                &forward[(s->stage * e->chunks + (s->mc > 0 ? (size_t)s->mc : 0)) * ((size_t)most + 1) + (size_t)s->mb];
            if (pass == 0 && s->type == HM_FORWARD_COMPUTE) *at = i + 1;
            if (pass == 1 && s->type == HM_BACKWARD_COMPUTE && *at) {
                e->partner[i] = *at - 1;
                e->partner[*at - 1] = i;
            }
        }
    hm_free(forward);
}

/* ---- typical durations ---- */

static const double *at(const struct hm_effects *e, size_t block, size_t lane, size_t slot) {
    return hm_grid_lane(&e->t->grid, e->t->grid.duration, block, lane) + slot * HM_WIDTH;
}

static void find_typical(void *context, size_t class, int thread) {
    (void)thread;
    struct hm_effects *e = context;
    const struct hm_grid *g = &e->t->grid;
    size_t slots = 0, n = 0;
    for (size_t i = 0; i < e->slots; i++) slots += e->class_of[i] == class;
    size_t all = slots * g->blocks * g->lanes, stride = all * HM_WIDTH / SAMPLES + 1;
    double *values = slots ? hm_alloc((all / stride + 1) * HM_WIDTH, sizeof *values) : NULL;
    size_t k = 0;
    for (size_t i = 0; values && i < e->slots; i++) {
        if (e->class_of[i] != class) continue;
        for (size_t block = 0; block < g->blocks; block++)
            for (size_t lane = 0; lane < g->lanes; lane++) {
                if (k++ % stride) continue;
                size_t width = hm_grid_width(g, block);
                memcpy(values + n, at(e, block, lane, i), width * sizeof *values);
                n += width;
            }
    }
    e->typical[class] = n ? hm_median(values, n) : NAN;
    hm_free(values);
}

/* ---- ratios of workers in steps ---- */

static void find_ratios(void *context, size_t index, int thread) {
    (void)thread;
    struct hm_effects *e = context;
    const struct hm_grid *g = &e->t->grid;
    size_t block = index / g->lanes, lane = index % g->lanes, width = hm_grid_width(g, block);
    double *values = hm_alloc(e->slots, sizeof *values);
    for (size_t stage = 0; values && stage < e->stages; stage++)
        for (size_t k = 0; k < width; k++) {
            size_t n = 0;
            for (size_t i = 0; i < e->slots; i++) {
                uint32_t class = e->class_of[i];
                if (class == UINT32_MAX || e->t->model->slot[i].stage != stage || !(e->typical[class] > 0)) continue;
                values[n++] = at(e, block, lane, i)[k] / e->typical[class];
            }
            size_t where = (stage * e->lanes + lane) * e->steps + block * HM_WIDTH + k;
            e->ratio[where] = n ? (float)hm_median(values, n) : 1;
            e->low[where] = n ? (float)hm_select(values, n, n / 8) : 1;
        }
    hm_free(values);
    hm_grid_release(g, block, lane, 1);
}

static float ratio(const struct hm_effects *e, size_t stage, size_t lane, size_t step) {
    return e->ratio[(stage * e->lanes + lane) * e->steps + step];
}

/* What the other stages of the replica show in that step: their median (the smaller middle one, so that of two stages the
 * quicker counts). Without a pipeline there is nobody to compare with: 1. */
static double others(const struct hm_effects *e, const float *of, size_t stage, size_t lane, size_t step) {
    double values[HM_MAX_STAGES];
    size_t n = 0;
    for (size_t s = 0; s < e->stages; s++)
        if (s != stage) values[n++] = of[(s * e->lanes + lane) * e->steps + step];
    return n ? hm_select(values, n, (n - 1) / 2) : 1;
}

static double others_ratio(const struct hm_effects *e, size_t stage, size_t lane, size_t step) {
    return others(e, e->ratio, stage, lane, step);
}

double hm_worker_factor(const struct hm_effects *e, size_t stage, size_t lane, size_t step) {
    /* Without other stages to compare with, one step's median may be its sequences': the lower quartiles' effect is the worker's own. */
    if (e->stages == 1 && e->floor[lane] > slow_ratio) return e->floor[lane];
    double x = ratio(e, stage, lane, step) / others_ratio(e, stage, lane, step) / e->center[stage];
    return x > 1 ? x : 1;
}

/* ---- replica and worker effects ---- */

/* Mean over steps, without the tenth at each end if there are enough. */
static double trimmed_mean(double *values, size_t n) {
    size_t cut = n >= 10 ? n / 10 : 0;
    if (cut) {
        hm_select(values, n, cut);
        hm_select(values + cut, n - cut, n - 2 * cut);
    }
    return hm_mean(values + cut, n - 2 * cut);
}

/* Worker effects of a stage relative to its peers: what all workers of a stage show is the stage's. Of few workers the slower half may be
 * the culprit, so the center is the lower middle one. The deviation of a usual worker is that among the peers; of fewer than four it is
 * that of a worker's mean over its steps. */
static double find_center(const struct hm_effects *e, size_t s, double *worker, const float *of, double *values,
                          double *deviation) {
    memcpy(values, worker, e->lanes * sizeof *values);
    double center = hm_select(values, e->lanes, (e->lanes - 1) / 2);
    if (!(center > 0)) center = 1;
    for (size_t l = 0; l < e->lanes; l++) worker[l] /= center;
    memcpy(values, worker, e->lanes * sizeof *values);
    *deviation = 1.4826 * hm_mad(values, e->lanes, 1);
    if (e->lanes >= 4) return center;
    *deviation = INFINITY;
    for (size_t l = 0; l < e->lanes; l++) {
        for (size_t i = 0; i < e->steps; i++)
            values[i] = of[(s * e->lanes + l) * e->steps + i] / others(e, of, s, l, i);
        /* a robust deviation: sequence lengths have a long tail */
        double low = hm_quantile(values, e->steps, 0.25), high = hm_quantile(values, e->steps, 0.5);
        *deviation = fmin(*deviation, 1.4826 * (high - low) / sqrt((double)e->steps));
    }
    *deviation = fmax(1.5 * *deviation, 0.004);
    return center;
}

static int split_workers(struct hm_effects *e) {
    double *values = hm_alloc(e->steps > e->lanes ? e->steps : e->lanes, sizeof *values);
    if (!values) return -1;
    for (size_t lane = 0; lane < e->lanes; lane++) {
        /* all stages of a slow replica are slow: its effect is that of its quicker half of stages */
        double by_stage[HM_MAX_STAGES];
        for (size_t s = 0; s < e->stages; s++) {
            for (size_t i = 0; i < e->steps; i++) values[i] = ratio(e, s, lane, i);
            by_stage[s] = trimmed_mean(values, e->steps);
        }
        e->replica[lane] = e->stages > 1 ? hm_select(by_stage, e->stages, (e->stages - 1) / 2) : 1;
        for (size_t s = 0; s < e->stages; s++) {
            for (size_t i = 0; i < e->steps; i++) values[i] = ratio(e, s, lane, i) / others_ratio(e, s, lane, i);
            e->worker[s * e->lanes + lane] = hm_mean(values, e->steps);
            for (size_t i = 0; i < e->steps; i++)
                values[i] = e->low[(s * e->lanes + lane) * e->steps + i] / others(e, e->low, s, lane, i);
            e->floor[s * e->lanes + lane] = hm_select(values, e->steps, e->steps / 4);
        }
    }
    for (size_t s = 0; s < e->stages; s++) {
        e->center[s] = find_center(e, s, e->worker + s * e->lanes, e->ratio, values, &e->worker_noise[s]);
        find_center(e, s, e->floor + s * e->lanes, e->low, values, &e->floor_noise[s]);
    }
    memcpy(values, e->replica, e->lanes * sizeof *values);
    double center = hm_select(values, e->lanes, (e->lanes - 1) / 2);
    for (size_t l = 0; l < e->lanes; l++) e->replica[l] /= center > 0 ? center : 1;
    hm_free(values);
    return 0;
}

/* ---- one pass over all computes: means, what forward and backward share, spikes ---- */

struct sums {
    double *mean_sum, *mean_count; /* [class] */
    double (*pair)[6];             /* [stage]: n, f, b, ff, bb, fb of relative deviations */
};

struct pass {
    struct hm_effects *e;
    struct sums *sums; /* [block] */
    bool second;       /* the first pass finds spikes and means; the second, with means known, what is shared */
    pthread_mutex_t lock;
    atomic_bool failed;
};

static double effect(const struct hm_effects *e, size_t stage, size_t lane, size_t step) {
    double x = e->slow_replica[lane] ? e->replica[lane] : 1;
    return e->slow_worker[stage * e->lanes + lane] ? x * hm_worker_factor(e, stage, lane, step) : x;
}

static bool is_spike(const struct hm_effects *e, size_t slot, double duration, double expected, const double *partner,
                     double partner_typical) {
    (void)slot;
    if (duration < spike_ratio * expected || duration - expected < spike_floor_s) return false;
    if (!partner || !(partner_typical > 0)) return true;
    (void)e;
    return *partner / partner_typical - 1 < backward_follows * (duration / expected - 1);
}

static void note_spike(struct pass *p, struct hm_spike spike) {
    struct hm_effects *e = p->e;
    pthread_mutex_lock(&p->lock);
    struct hm_spike *grown = hm_grow(e->spikes, e->n_spikes, &e->spike_capacity, sizeof *grown);
    if (grown) {
        e->spikes = grown;
        e->spikes[e->n_spikes++] = spike;
    } else {
        atomic_store(&p->failed, true);
    }
    pthread_mutex_unlock(&p->lock);
}

static void pass_lane(struct pass *p, size_t block, size_t lane) {
    struct hm_effects *e = p->e;
    const struct hm_grid *g = &e->t->grid;
    struct sums *sums = &p->sums[block];
    size_t width = hm_grid_width(g, block);
    for (uint32_t i = 0; i < e->slots; i++) {
        uint32_t class = e->class_of[i];
        if (class == UINT32_MAX) continue;
        const struct hm_slot *s = &e->t->model->slot[i];
        const bool forward = s->type == HM_FORWARD_COMPUTE;
        const uint32_t other = e->partner[i];
        const double *d = at(e, block, lane, i), *partner = other == UINT32_MAX ? NULL : at(e, block, lane, other);
        for (size_t k = 0; k < width; k++) {
            size_t step = block * HM_WIDTH + k;
            double own = effect(e, s->stage, lane, step), expected = e->typical[class] * own;
            bool spike = forward && is_spike(e, i, d[k], expected, partner ? &partner[k] : NULL,
                                             partner ? e->typical[e->class_of[other]] * own : 0);
            if (!p->second) {
                if (spike) {
                    note_spike(p, (struct hm_spike){s->stage, (uint32_t)lane, (uint32_t)step, i, d[k], expected});
                } else {
                    sums->mean_sum[class] += d[k] / own;
                    sums->mean_count[class]++;
                }
            } else if (forward && partner && !spike) {
                double f = d[k] / (e->mean[class] * own) - 1, b = partner[k] / (e->mean[e->class_of[other]] * own) - 1,
                       *x = sums->pair[s->stage];
                x[0]++, x[1] += f, x[2] += b, x[3] += f * f, x[4] += b * b, x[5] += f * b;
            }
        }
    }
    hm_grid_release(g, block, lane, 1);
}

static void pass_block(void *context, size_t block, int thread) {
    (void)thread;
    struct pass *p = context;
    for (size_t lane = 0; lane < p->e->lanes; lane++) pass_lane(p, block, lane);
}

static int by_place(const void *a, const void *b) {
    const struct hm_spike *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

static void finish_means(struct hm_effects *e, const struct sums *all) {
    double work[2][HM_MAX_STAGES] = {{0}}, mean[2] = {0, 0};
    for (size_t c = 0; c < e->classes; c++) {
        e->mean[c] = all->mean_count[c] > 0 ? all->mean_sum[c] / all->mean_count[c] : NAN;
        if (isnan(e->mean[c])) continue;
        size_t type = c / (e->stages * e->chunks), stage = c / e->chunks % e->stages;
        work[type][stage] += e->mean[c] / (double)e->chunks;
    }
    for (int type = 0; type < 2; type++) mean[type] = hm_mean(work[type], e->stages);
    for (size_t s = 0; s < e->stages; s++) {
        for (size_t type = 0; type < 2; type++)
            e->stage_scale[type * e->stages + s] = work[type][s] > 0 ? mean[type] / work[type][s] : 1;
        double total = (mean[0] + mean[1]) * (double)e->stages, own = work[0][s] + work[1][s];
        e->stage_work[s] = e->stages > 1 ? own / ((total - own) / (double)(e->stages - 1)) : 1;
    }
}

static void finish_pairs(struct hm_effects *e, double (*pair)[6]) {
    for (size_t s = 0; s < e->stages; s++) {
        double n = pair[s][0], f = pair[s][1] / n, b = pair[s][2] / n;
        double ff = pair[s][3] / n - f * f, bb = pair[s][4] / n - b * b, fb = pair[s][5] / n - f * b;
        e->correlation[s] = n > 2 && ff > 0 && bb > 0 ? fb / sqrt(ff * bb) : 0;
        e->common[s] = n > 2 && fb > 0 ? sqrt(fb) : 0;
        e->variation[s] = n > 2 && ff > 0 ? sqrt(ff) : 0;
    }
}

/* Sums are kept for each piece of work and added up in order, so that threads and memory limits do not change the last digit. */
static void add_sums(struct hm_effects *e, struct sums *to, const struct sums *from) {
    for (size_t c = 0; c < e->classes; c++) {
        to->mean_sum[c] += from->mean_sum[c];
        to->mean_count[c] += from->mean_count[c];
    }
    for (size_t s = 0; s < e->stages; s++)
        for (int k = 0; k < 6; k++) to->pair[s][k] += from->pair[s][k];
}

static int run_pass(struct hm_effects *e, bool second) {
    const struct hm_grid *g = &e->t->grid;
    struct pass p = {.e = e, .second = second, .sums = hm_alloc(g->blocks, sizeof *p.sums)};
    pthread_mutex_init(&p.lock, NULL);
    bool good = p.sums != NULL;
    for (size_t b = 0; good && b < g->blocks; b++) {
        p.sums[b] = (struct sums){hm_alloc(e->classes, sizeof(double)), hm_alloc(e->classes, sizeof(double)),
                                  hm_alloc(e->stages, sizeof *p.sums->pair)};
        good = p.sums[b].mean_sum && p.sums[b].mean_count && p.sums[b].pair;
    }
    if (good) {
        hm_parallel(g->blocks, e->threads, pass_block, &p);
        for (size_t b = 1; b < g->blocks; b++) add_sums(e, &p.sums[0], &p.sums[b]);
        if (second)
            finish_pairs(e, p.sums[0].pair);
        else
            finish_means(e, &p.sums[0]);
        if (e->n_spikes) qsort(e->spikes, e->n_spikes, sizeof *e->spikes, by_place);
    }
    for (size_t b = 0; p.sums && b < g->blocks; b++) {
        hm_free(p.sums[b].mean_sum);
        hm_free(p.sums[b].mean_count);
        hm_free(p.sums[b].pair);
    }
    hm_free(p.sums);
    pthread_mutex_destroy(&p.lock);
    return good && !atomic_load(&p.failed) ? 0 : -1;
}

/* ---- flags ---- */

/* Workers whose effect stands out among all: a stage with a culprit has a wide deviation itself, so the usual stage's counts as well. */
static void flag_by(struct hm_effects *e, const double *worker, const double *stage_noise) {
    double noise[HM_MAX_STAGES];
    for (size_t s = 0; s < e->stages; s++) noise[s] = stage_noise[s];
    double usual = hm_median(noise, e->stages);
    for (size_t s = 0; s < e->stages; s++) {
        double deviation = fmax(fmax(stage_noise[s], usual), 0.002);
        for (size_t l = 0; l < e->lanes; l++) {
            double x = worker[s * e->lanes + l];
            e->slow_worker[s * e->lanes + l] |= x > slow_ratio && x - 1 > slow_score * deviation;
        }
    }
}

static void flag(struct hm_effects *e) {
    flag_by(e, e->worker, e->worker_noise);
    /* The lower quartile hardly moves with sequence lengths, whose cost has a long tail upwards: it shows a slow worker among them. */
    flag_by(e, e->floor, e->floor_noise);
    /* a single replica, no peers: compare the stages of its workers over the steps is the stage rule's business */
    if (e->lanes < 2) memset(e->slow_worker, 0, e->stages * e->lanes * sizeof(bool));
    double *values = hm_alloc(e->lanes, sizeof *values);
    if (!values || e->stages < 2 || e->lanes < 3) {
        hm_free(values);
        return;
    }
    memcpy(values, e->replica, e->lanes * sizeof *values);
    double deviation = fmax(1.4826 * hm_mad(values, e->lanes, 1), 0.002);
    for (size_t l = 0; l < e->lanes; l++)
        e->slow_replica[l] = e->replica[l] > slow_ratio && e->replica[l] - 1 > slow_score * deviation;
    hm_free(values);
}

/* ---- links ---- */

static int note_link(struct hm_effects *e, struct hm_link link) {
    struct hm_link *grown = hm_grow(e->links, e->n_links, &e->link_capacity, sizeof *grown);
    if (!grown) return -1;
    e->links = grown;
    e->links[e->n_links++] = link;
    return 0;
}

/* Mean transfer of each (type, stage, lane), against the type's ideal, step by step: a link that flaps is slow in a few steps only. */
static int find_links(struct hm_effects *e) {
    const struct hm_grid *g = &e->t->grid;
    const struct hm_model *m = e->t->model;
    size_t rows = HM_OP_TYPES * e->stages;
    double *sum = hm_alloc(rows * g->lanes * HM_WIDTH, sizeof *sum);
    uint32_t *count = hm_alloc(rows, sizeof *count), *slow = hm_alloc(rows * g->lanes, sizeof *slow);
    double *total = hm_alloc(rows * g->lanes, sizeof *total);
    int status = sum && count && slow && total ? 0 : -1;
    for (size_t i = 0; status == 0 && i < e->slots; i++)
        if (hm_op_types[m->slot[i].type].scope != HM_ALONE) count[m->slot[i].type * e->stages + m->slot[i].stage]++;
    for (size_t block = 0; status == 0 && block < g->blocks; block++) {
        memset(sum, 0, rows * g->lanes * HM_WIDTH * sizeof *sum);
        size_t width = hm_grid_width(g, block);
        for (size_t lane = 0; lane < g->lanes; lane++)
            for (size_t i = 0; i < e->slots; i++) {
                const struct hm_slot *s = &m->slot[i];
                if (hm_op_types[s->type].scope == HM_ALONE ||
                    m->node[s->node].n_slots + (size_t)(m->node[s->node].across >= 0) < 2)
                    continue;
                double *to = sum + ((s->type * e->stages + s->stage) * g->lanes + lane) * HM_WIDTH;
                const double *d = at(e, block, lane, i);
                for (size_t k = 0; k < width; k++) to[k] += d[k];
            }
        for (size_t r = 0; r < rows; r++) {
            if (!count[r]) continue;
            double ideal = e->t->ideal_s[r / e->stages];
            for (size_t lane = 0; lane < g->lanes; lane++)
                for (size_t k = 0; k < width; k++) {
                    double mean = sum[(r * g->lanes + lane) * HM_WIDTH + k] / count[r];
                    total[r * g->lanes + lane] += mean;
                    slow[r * g->lanes + lane] +=
                        mean > 2 * ideal && mean - ideal > 1e-3; /* twice the median: DLRover's limit in pairs */
                }
        }
        hm_grid_release(g, block, 0, g->lanes);
    }
    for (size_t r = 0; status == 0 && r < rows; r++)
        for (size_t lane = 0; status == 0 && lane < g->lanes; lane++)
            if (slow[r * g->lanes + lane])
                status = note_link(e, (struct hm_link){(uint32_t)(r / e->stages), (uint32_t)(r % e->stages),
                                                       (uint32_t)lane, total[r * g->lanes + lane] / (double)e->steps,
                                                       e->t->ideal_s[r / e->stages], slow[r * g->lanes + lane]});
    hm_free(sum);
    hm_free(count);
    hm_free(slow);
    hm_free(total);
    return status;
}

/* ---- launch delays ---- */

/* The first forward of stage 0 should start when the step starts, or when what it waits for has ended; what it starts later, the replica
 * waited for data. Recorded ends: compute start + duration; transfers group start + transfer. */
static void find_loading(struct hm_effects *e) {
    const struct hm_grid *g = &e->t->grid;
    const struct hm_model *m = e->t->model;
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < e->slots; i++)
        if (m->slot[i].stage == 0 && m->slot[i].type == HM_FORWARD_COMPUTE && m->slot[i].seq == 0) first = i;
    if (first == UINT32_MAX || !g->start) return;
    for (size_t block = 0; block < g->blocks; block++)
        for (size_t lane = 0; lane < g->lanes; lane++)
            for (size_t k = 0; k < hm_grid_width(g, block); k++) {
                const double *start = hm_grid_lane(g, g->start, block, lane);
                double ready = 0;
                for (uint32_t d = 0; d < m->slot[first].n_deps; d++) {
                    uint32_t dep = m->dep[m->slot[first].first_dep + d];
                    const struct hm_node *node = &m->node[m->slot[dep].node];
                    double begin = start[(size_t)dep * HM_WIDTH + k];
                    for (size_t l = node->across >= 0 ? 0 : lane; l < (node->across >= 0 ? g->lanes : lane + 1); l++)
                        for (uint32_t j = node->first_slot; j < node->first_slot + node->n_slots; j++)
                            begin = fmax(begin, hm_grid_lane(g, g->start, block, l)[(size_t)j * HM_WIDTH + k]);
                    ready = fmax(ready, begin + at(e, block, lane, dep)[k]);
                }
                double delay = start[(size_t)first * HM_WIDTH + k] - ready;
                e->loading[lane * e->steps + block * HM_WIDTH + k] = delay > 0 ? delay : 0;
            }
}

int hm_effects_estimate(struct hm_effects *e, struct hm_trace *t, int threads, struct hm_error *err) {
    *e = (struct hm_effects){.t = t,
                             .threads = threads,
                             .stages = t->model->stages,
                             .lanes = t->grid.lanes,
                             .steps = t->grid.steps,
                             .slots = t->model->n_slots};
    for (size_t i = 0; i < e->slots; i++) {
        const struct hm_slot *s = &t->model->slot[i];
        if (hm_is_compute((int)s->type) && s->mc >= 0 && (size_t)s->mc + 1 > e->chunks) e->chunks = (size_t)s->mc + 1;
    }
    if (e->chunks == 0) e->chunks = 1;
    e->classes = 2 * e->stages * e->chunks;
    if (make_room(e) != 0) return hm_fail_memory(err);
    classify(e);
    hm_parallel(e->classes, threads, find_typical, e);
    hm_parallel(t->grid.blocks * e->lanes, threads, find_ratios, e);
    if (split_workers(e) != 0) return hm_fail_memory(err);
    flag(e);
    if (run_pass(e, false) != 0 || run_pass(e, true) != 0 || find_links(e) != 0) return hm_fail_memory(err);
    find_loading(e);
    return 0;
}
