/* places.c - slow workers and slow replicas, from the explanation of all levels.
 *
 * A stage that is slow in all replicas at a time is the stage; machines of one kind differ a little all the time; a single step is
 * chance. What is left are places: workers (stage, replica), replicas, and what of them is slow when. */
#include "diagnose.h"
#include "wander.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double sigmas = 6;       /* standard errors, for ops besides forward and backward */
static const double same_size = 0.25; /* of the size: effects on all replicas that are so alike are the stage's */
static const double same_steps = 0.5; /* of all steps of two places in common: one finding */
static const double unknown_spread =
    0.045; /* few replicas do not tell how machines differ: a level may be that, up to here */
static const double natural_part = 0.25; /* of the slow op type: the other one is as it is anyway */
enum { MOST_PARTS = 8 };

static size_t cells_of(const struct hm_profile *p) {
    return p->rows * p->lanes * p->steps;
}

/* ---- what is a stage's ---- */

/* The effect of another replica that says the same, or NULL. */
static const struct hm_effect *same_in(const struct hm_explanation *e, size_t lane, const struct hm_effect *as) {
    for (size_t i = 0; i < e->n_effects[lane]; i++) {
        const struct hm_effect *x = &e->effect[lane * e->most + i];
        double size = hm_effect_size(as);
        if (x->stage == as->stage && x->directions == as->directions && labs((long)x->first - (long)as->first) <= 1 &&
            labs((long)x->end - (long)as->end) <= 1 && fabs(hm_effect_size(x) - size) < same_size * size)
            return x;
    }
    return NULL;
}

/* What all replicas of a stage have at a time is taken off x. */
static void take_off_stages(const struct hm_diagnoser *d, double *x) {
    const struct hm_explanation *e = &d->e;
    const struct hm_profile *p = &d->p;
    for (size_t i = 0; p->lanes > 1 && i < e->n_effects[0]; i++) {
        const struct hm_effect *first = &e->effect[i];
        double least[2] = {first->size[0], first->size[1]};
        bool all = first->stage != HM_ALL_STAGES && hm_effect_size(first) > 0;
        for (size_t l = 1; all && l < p->lanes; l++) {
            const struct hm_effect *same = same_in(e, l, first);
            all = same != NULL;
            for (int b = 0; same && b < 2; b++) least[b] = fmin(least[b], same->size[b]);
        }
        for (size_t l = 0; all && l < p->lanes; l++) {
            const struct hm_effect *same = l ? same_in(e, l, first) : first;
            for (size_t b = 0; b < 2; b++) {
                double *to = x + ((2 * (size_t)first->stage + b) * p->lanes + l) * p->steps;
                for (size_t t = same->first; t < same->end; t++) to[t] -= least[b];
            }
        }
    }
    for (size_t k = 0; k < cells_of(p); k++)
        if (x[k] < 0.5 * hm_least) x[k] = 0;
}

/* ---- workers and replicas ---- */

/* The spread among peers of what stays with a worker, against the middle of its replica: one slow worker moves no other. */
static double natural_spread(const struct hm_diagnoser *d, double *value) {
    const struct hm_profile *p = &d->p;
    double *mean = value, *sorted = mean + p->rows, *all = sorted + p->rows;
    size_t n = 0;
    for (size_t l = 0; l < p->lanes; l++) {
        size_t rows = 0;
        for (size_t r = 0; r < p->rows; r++) {
            mean[r] = hm_mean(hm_level(p, r, l), p->steps) - d->e.usual[r];
            if (p->floor[r] > 0) sorted[rows++] = mean[r];
        }
        double common = rows ? hm_median(sorted, rows) : 0;
        for (size_t s = 0; s < p->stages; s++)
            all[n++] = p->stages > 1 ? 0.5 * (mean[2 * s] + mean[2 * s + 1]) - common : mean[1] - common;
    }
    return hm_spread(all, n);
}

/* Parts the effects into those of workers and those of one direction of a whole replica; adds the stretches of replicas. */
static int part(struct hm_diagnoser *d, double *value) {
    const struct hm_profile *p = &d->p;
    const struct hm_explanation *e = &d->e;
    const size_t T = p->steps, row_size = p->lanes * T;
    double *own = d->worker, *whole = d->replica, *x = hm_alloc(p->rows * T, sizeof *x);
    if (!x) return -1;
    memcpy(own, e->added, cells_of(p) * sizeof *own);
    take_off_stages(d, own);
    double limit = unknown_spread;
    if (p->lanes >= 4)
        limit =
            fmin(hm_natural, hm_peers * natural_spread(d, value) / (1 - 1 / (double)(p->stages > 2 ? p->stages : 2)));
    for (size_t l = 0; l < p->lanes; l++) {
        memset(x, 0, p->rows * T * sizeof *x);
        for (size_t i = 0; i < e->n_effects[l]; i++)
            if (e->effect[l * e->most + i].stage == HM_ALL_STAGES)
                hm_effects_add(&e->effect[l * e->most + i], 1, p->stages, T, x);
        for (size_t r = 0; r < p->rows; r++)
            for (size_t t = 0; t < T; t++) {
                size_t at = r * row_size + l * T + t;
                whole[at] = fmax(0, fmin(x[r * T + t], own[at]));
                own[at] -= whole[at];
            }
        for (size_t s = 0; s < p->stages; s++)
            for (size_t t = 0; t < T; t++) {
                double *f = &own[2 * s * row_size + l * T + t], *b = f + row_size;
                double *less = *f < *b ? f : b;
                if (fmax(*f, *b) < limit)
                    *f = *b = 0;
                else if (*less < limit && *less < natural_part * fmax(*f, *b))
                    *less = 0;
            }
    }
    for (size_t i = 0; i < e->paces.n; i++) {
        const struct hm_stretch *s = &e->paces.stretch[i];
        if (p->lanes < 4 && s->size < unknown_spread) continue;
        for (size_t r = 0; r < p->rows; r++)
            for (size_t t = s->first; t < s->end; t++) whole[r * row_size + s->lane * T + t] += s->size;
    }
    if (p->recorded == 1) /* a replica is a worker, as far as it was recorded */
        for (size_t r = 0; r < p->rows; r++)
            for (size_t k = r * row_size; k < (r + 1) * row_size; k++) {
                if (p->floor[r] > 0) own[k] += whole[k];
                whole[k] = 0;
            }
    hm_free(x);
    return 0;
}

/* Three steps on end are no chance; single ones must be several. */
static void drop_chance(const struct hm_profile *p, double *x) {
    double enough = fmin((double)p->steps, fmax(2, (double)p->steps / 20));
    for (size_t s = 0; s < p->stages; s++)
        for (size_t l = 0; l < p->lanes; l++) {
            double *f = x + (2 * s * p->lanes + l) * p->steps, *b = f + p->lanes * p->steps;
            size_t n = 0, run = 0, longest = 0;
            for (size_t t = 0; t < p->steps; t++) {
                bool on = f[t] > 0 || b[t] > 0;
                n += on;
                run = on ? run + 1 : 0;
                longest = run > longest ? run : longest;
            }
            if ((double)n >= enough || longest >= 3) continue;
            for (size_t t = 0; t < p->steps; t++) f[t] = b[t] = 0;
        }
}

/* ---- other ops of a worker ---- */

struct singles {
    struct hm_diagnoser *d;
    double *x;     /* [single][lane][step] logarithms */
    double *level; /* of their segments */
    double *length;
    double *of; /* errors of means, of the type in hand */
    uint32_t *end;
    double *value;
};

/* The logarithms of one kind of op; false if it takes no time. */
static bool take_singles(const struct singles *q, size_t k) {
    const struct hm_profile *p = &q->d->p;
    const struct hm_single *s = &p->single[k];
    double *x = q->x + k * p->lanes * p->steps;
    size_t n = p->lanes * p->steps;
    for (size_t l = 0; l < p->lanes; l++)
        for (size_t t = 0; t < p->steps; t++) {
            double sum = 0;
            for (uint32_t i = 0; i < s->n_slots; i++) sum += hm_recorded_s(p, l, p->single_slot[s->first_slot + i], t);
            x[l * p->steps + t] = log(fmax(sum, 1e-9));
        }
    memcpy(q->value, x, n * sizeof *x);
    double middle = hm_median(q->value, n);
    for (size_t i = 0; i < n; i++) x[i] -= middle;
    return middle > log(1e-6);
}

static int segment_singles(const struct singles *q, size_t k) {
    const struct hm_profile *p = &q->d->p;
    for (size_t l = 0; l < p->lanes; l++) {
        size_t at = (k * p->lanes + l) * p->steps, n = hm_segment(q->x + at, p->steps, q->of, q->end);
        if (n == SIZE_MAX) return -1;
        for (size_t i = 0, first = 0; i < n; first = q->end[i++]) {
            double mean = hm_mean(q->x + at + first, q->end[i] - first);
            for (size_t t = first; t < q->end[i]; t++)
                q->level[at + t] = mean, q->length[at + t] = (double)(q->end[i] - first);
        }
    }
    return 0;
}

static void judge_singles(const struct singles *q, size_t k, double peers) {
    const struct hm_profile *p = &q->d->p;
    const size_t from = k * p->lanes * p->steps;
    for (size_t t = 0; t < p->steps; t++) {
        for (size_t l = 0; l < p->lanes; l++) q->value[l] = q->level[from + l * p->steps + t];
        double usual = hm_usual_level(q->value, p->lanes, q->of[p->steps]);
        for (size_t l = 0; l < p->lanes; l++) {
            size_t at = from + l * p->steps + t, n = (size_t)q->length[at];
            double e = q->level[at] - usual, error = hypot(q->of[n], q->of[p->steps]);
            bool slow = e >= 2 * hm_least_level(n, p->steps) && e >= sigmas * error &&
                        (e >= 2 * hm_natural || e >= hm_peers * peers);
            q->d->single[at] = slow ? e : 0;
        }
    }
}

/* All stages' ops of one type. */
static int judge_type(const struct singles *q, uint32_t type) {
    const struct hm_profile *p = &q->d->p;
    const size_t size = p->lanes * p->steps;
    size_t first = p->n_singles, n = 0;
    int status = 0;
    for (size_t k = 0; k < p->n_singles; k++) {
        if (p->single[k].type != type) continue;
        if (!take_singles(q, k)) return 0;
        if (first == p->n_singles) first = k;
        n++;
    }
    if (!n) return 0;
    /* the series of a type lie apart, stage by stage: one after the other, the median of their curves' parts */
    for (size_t t = 0; t <= p->steps; t++) q->of[t] = 0;
    double *curve = hm_alloc(p->steps + 1, sizeof *curve), *mean = hm_alloc(n * p->lanes, sizeof *mean);
    status = curve && mean ? 0 : -1;
    size_t m = 0;
    for (size_t k = first; status == 0 && k < p->n_singles; k++) {
        if (p->single[k].type != type) continue;
        status = hm_wander_lags(q->x + k * size, p->lanes, p->steps, 1e-6, p->lanes < 3, curve);
        for (size_t t = 1; t <= p->steps; t++) q->of[t] += curve[t] / (double)n;
    }
    for (size_t k = first; status == 0 && k < p->n_singles; k++) {
        if (p->single[k].type != type) continue;
        status = segment_singles(q, k);
        for (size_t l = 0; l < p->lanes; l++) mean[m++] = hm_mean(q->level + k * size + l * p->steps, p->steps);
    }
    double peers = m >= 4 ? hm_spread(mean, m) : 0;
    for (size_t k = first; status == 0 && k < p->n_singles; k++)
        if (p->single[k].type == type) judge_singles(q, k, peers);
    hm_free(curve);
    hm_free(mean);
    return status;
}

static int find_singles(struct hm_diagnoser *d) {
    const struct hm_profile *p = &d->p;
    const size_t cells = p->n_singles * p->lanes * p->steps;
    struct singles q = {.d = d, .x = hm_alloc(cells, sizeof(double)), .level = hm_alloc(cells, sizeof(double))};
    q.length = hm_alloc(cells, sizeof(double));
    q.of = hm_alloc(p->steps + 1, sizeof(double));
    q.end = hm_alloc(p->steps, sizeof *q.end);
    q.value = hm_alloc(p->lanes * p->steps, sizeof(double));
    d->single = hm_alloc(cells, sizeof(double));
    int status = q.x && q.level && q.length && q.of && q.end && q.value && d->single ? 0 : -1;
    for (uint32_t type = 0; status == 0 && p->lanes > 1 && type < p->types; type++) status = judge_type(&q, type);
    hm_free(q.x);
    hm_free(q.level);
    hm_free(q.length);
    hm_free(q.of);
    hm_free(q.end);
    hm_free(q.value);
    return status;
}

/* ---- places ---- */

/* How long a row's computes of a step usually take. */
static double usual_time(const struct hm_diagnoser *d, size_t row) {
    const struct hm_profile *p = &d->p;
    double sum = 0;
    for (size_t c = 0; c < p->chunks; c++) {
        uint32_t role = hm_role(p, row / 2, c, (int)(row % 2));
        for (size_t mb = 0; mb < p->microbatches; mb++)
            if (hm_slot_of(p, role, mb) != HM_NONE) sum += exp(p->base[role] + d->e.usual[row]);
    }
    return sum;
}

static uint32_t mask_of(const struct hm_diagnoser *d, enum hm_phase phase) {
    int cls = hm_class_find(d->t->job, HM_COMPUTE, phase);
    return cls >= 0 && cls < HM_MASK_BITS ? 1u << cls : 0;
}

/* Which op types of a place are slow in a step, as bits; 0: it is not. */
static uint32_t slow_ops(const struct hm_diagnoser *d, int32_t stage, size_t lane, size_t t) {
    const struct hm_profile *p = &d->p;
    const double *x = stage == HM_ALL_STAGES ? d->replica : d->worker;
    uint32_t ops = 0;
    for (size_t r = 0; r < p->rows; r++)
        if ((stage == HM_ALL_STAGES || r / 2 == (size_t)stage) && x[(r * p->lanes + lane) * p->steps + t] > 0)
            ops |= mask_of(d, r % 2 ? HM_BACKWARD : HM_FORWARD);
    for (size_t k = 0; stage != HM_ALL_STAGES && k < p->n_singles; k++)
        if (p->single[k].stage == (uint32_t)stage && d->single[(k * p->lanes + lane) * p->steps + t] > 0)
            ops |= 1u << p->single[k].type;
    return ops;
}

/* Measures a place: in how many steps it is slow, in what, by how much. */
static struct hm_slow_place measure(const struct hm_diagnoser *d, int32_t stage, size_t lane, double peers) {
    const struct hm_profile *p = &d->p;
    struct hm_slow_place place = {.stage = stage, .lane = (uint32_t)lane};
    const double *x = stage == HM_ALL_STAGES ? d->replica : d->worker;
    double more = 0, all = 0, level = 0, weights = 0, singles = 0;
    for (size_t t = 0; t < p->steps; t++) {
        uint32_t ops = slow_ops(d, stage, lane, t);
        place.ops |= ops;
        place.n_steps += ops != 0;
    }
    for (size_t r = 0; r < p->rows; r++) {
        if ((stage != HM_ALL_STAGES && r / 2 != (size_t)stage) || !(p->floor[r] > 0)) continue;
        double time = usual_time(d, r), w = 1 / (p->floor[r] * p->floor[r]);
        const double *row = x + (r * p->lanes + lane) * p->steps;
        all += time * (double)place.n_steps;
        weights += w * (double)place.n_steps;
        for (size_t t = 0; t < p->steps; t++) more += time * expm1(row[t]), level += w * row[t];
    }
    for (size_t k = 0; stage != HM_ALL_STAGES && k < p->n_singles; k++)
        for (size_t t = 0; p->single[k].stage == (uint32_t)stage && t < p->steps; t++)
            singles = fmax(singles, d->single[(k * p->lanes + lane) * p->steps + t]);
    place.excess = all > 0 ? more / all : 0;
    if (more == 0) place.excess = expm1(singles);
    double error = weights > 0 ? hypot(1 / sqrt(weights), peers) : 0;
    place.sigmas = more > 0 && weights > 0 ? level / weights / error : 2 * sigmas;
    return place;
}

static double weight(const struct hm_slow_place *a) {
    return a->excess * (double)a->n_steps;
}

static int worst_first(const void *a, const void *b) {
    const struct hm_slow_place *x = a, *y = b;
    if ((x->stage == HM_ALL_STAGES) != (y->stage == HM_ALL_STAGES)) return x->stage == HM_ALL_STAGES ? 1 : -1;
    if (weight(x) != weight(y)) return weight(x) > weight(y) ? -1 : 1;
    return x->lane != y->lane ? (x->lane > y->lane) - (x->lane < y->lane)
                              : (x->stage > y->stage) - (x->stage < y->stage);
}

/* The share of the steps of two places that they have in common. */
static double alike(const struct hm_diagnoser *d, const struct hm_slow_place *a, const struct hm_slow_place *b) {
    size_t both = 0, either = 0;
    for (size_t t = 0; t < d->p.steps; t++) {
        bool x = slow_ops(d, a->stage, a->lane, t), y = slow_ops(d, b->stage, b->lane, t);
        both += x && y, either += x || y;
    }
    return either ? (double)both / (double)either : 1;
}

/* Places that are slow at the same time, in the same ops, share a finding; the first of a finding speaks for it. */
void hm_group_places(struct hm_diagnoser *d) {
    const struct hm_slow_place *first[MOST_PARTS];
    uint32_t parts = 0;
    for (size_t i = 0; i < d->n_places; i++) {
        struct hm_slow_place *a = &d->place[i];
        if (i && (a->stage == HM_ALL_STAGES) != (a[-1].stage == HM_ALL_STAGES)) parts = 0; /* replicas follow workers */
        uint32_t part = 0;
        while (part < parts &&
               !((a->ops == first[part]->ops || parts == MOST_PARTS) && alike(d, a, first[part]) >= same_steps))
            part++;
        if (part == parts && parts == MOST_PARTS) part = MOST_PARTS - 1;
        if (part == parts) first[parts++] = a;
        a->part = part;
    }
}

static int list_places(struct hm_diagnoser *d, double peers) {
    const struct hm_profile *p = &d->p;
    size_t capacity = 0;
    for (int32_t stage = HM_ALL_STAGES; stage < (int32_t)p->stages; stage++)
        for (size_t l = 0; l < p->lanes; l++) {
            struct hm_slow_place place = measure(d, stage, l, peers);
            if (!place.n_steps) continue;
            struct hm_slow_place *grown = hm_grow(d->place, d->n_places, &capacity, sizeof *grown);
            if (!grown) return -1;
            d->place = grown;
            d->place[d->n_places++] = place;
        }
    if (d->n_places) qsort(d->place, d->n_places, sizeof *d->place, worst_first);
    return 0;
}

void hm_drop_place(struct hm_diagnoser *d, size_t index) {
    const struct hm_profile *p = &d->p;
    struct hm_slow_place gone = d->place[index];
    double *x = gone.stage == HM_ALL_STAGES ? d->replica : d->worker;
    for (size_t r = 0; r < p->rows; r++)
        if (gone.stage == HM_ALL_STAGES || r / 2 == (size_t)gone.stage)
            memset(x + (r * p->lanes + gone.lane) * p->steps, 0, p->steps * sizeof *x);
    for (size_t k = 0; gone.stage != HM_ALL_STAGES && k < p->n_singles; k++)
        if (p->single[k].stage == (uint32_t)gone.stage)
            memset(d->single + (k * p->lanes + gone.lane) * p->steps, 0, p->steps * sizeof *x);
    memmove(d->place + index, d->place + index + 1, (d->n_places - index - 1) * sizeof *d->place);
    d->n_places--;
}

int hm_refit_work(struct hm_diagnoser *d) {
    struct hm_profile *p = &d->p;
    double *all = hm_alloc(cells_of(p), sizeof *all);
    for (size_t k = 0; all && k < cells_of(p); k++) all[k] = d->worker[k] + d->replica[k];
    int status = all ? hm_profile_work(p, &(struct hm_added){d->e.usual, all}) : -1;
    hm_free(all);
    return status;
}

int hm_find_places(struct hm_diagnoser *d) {
    struct hm_profile *p = &d->p;
    size_t room = 2 * p->rows + p->stages * p->lanes;
    double *value = hm_alloc(room, sizeof *value);
    d->worker = hm_alloc(cells_of(p), sizeof(double));
    d->replica = hm_alloc(cells_of(p), sizeof(double));
    d->spared = hm_alloc((p->stages + 1) * p->lanes, 1);
    int status = value && d->worker && d->replica && d->spared ? hm_find_warm_up(d) : -1;
    if (status == 0) status = hm_explain(&d->e, p);
    if (status == 0) status = part(d, value);
    if (status == 0) {
        drop_chance(p, d->worker);
        drop_chance(p, d->replica);
        status = find_singles(d);
    }
    if (status == 0) status = list_places(d, p->lanes >= 4 ? natural_spread(d, value) : 0);
    if (status == 0 && d->n_places) status = hm_refit_work(d);
    hm_free(value);
    return status;
}
