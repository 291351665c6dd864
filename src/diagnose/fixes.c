/* fixes.c - what could be done, each priced by a replay of the real durations with the fix applied. */
#include "findings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fixer {
    const struct hm_effects *e;
    const struct hm_analysis *a;
    struct hm_findings *f;
    double t, gap;
};

static int add(struct fixer *x, const char *name, double step_s, const char *how) {
    if (isnan(step_s)) return -1;
    return hm_add_fix(x->f, name, step_s, x->t / step_s, how);
}

static double share(const struct fixer *x, double step_s) {
    return 100 * (x->t - step_s) / x->gap;
}

/* ---- replace workers ---- */

struct ranked {
    double slowdown;
    size_t stage, lane;
};

static int worst_first(const void *a, const void *b) {
    double x = ((const struct ranked *)a)->slowdown, y = ((const struct ranked *)b)->slowdown;
    return (x < y) - (x > y);
}

struct replaced {
    const struct hm_effects *e;
    bool *who; /* [stage][lane] */
};

static void replace(void *context, size_t block, size_t lane, double *durations) {
    const struct replaced *r = context;
    const struct hm_effects *e = r->e;
    for (size_t s = 0; s < e->stages; s++) {
        if (!r->who[s * e->lanes + lane]) continue;
        for (size_t k = 0; k < hm_grid_width(&e->t->grid, block); k++) {
            double factor = hm_worker_factor(e, s, lane, block * HM_WIDTH + k);
            for (size_t i = 0; i < e->slots; i++)
                if (e->class_of[i] != UINT32_MAX && e->t->model->slot[i].stage == s)
                    durations[i * HM_WIDTH + k] /= factor;
        }
    }
}

/* The k workers that cost most, k = 1, 2, 4, ... until one more doubling brings next to nothing. */
static int replace_workers(struct fixer *x) {
    const struct hm_effects *e = x->e;
    const size_t n = e->stages * e->lanes;
    struct ranked *ranked = hm_alloc(n, sizeof *ranked);
    struct replaced r = {e, hm_alloc(n, sizeof(bool))};
    int status = ranked && r.who ? 0 : -1;
    for (size_t s = 0; status == 0 && s < e->stages; s++)
        for (size_t l = 0; l < e->lanes; l++) {
            double slowdown = x->a->by_worker[s * x->a->dp + e->t->recording->lanes[l]];
            ranked[s * e->lanes + l] =
                (struct ranked){e->slow_worker[s * e->lanes + l] ? slowdown + 1e3 : slowdown, s, l};
        }
    if (status == 0) qsort(ranked, n, sizeof *ranked, worst_first);
    double before = x->t;
    for (size_t k = 1, done = 0; status == 0 && k <= n && k <= 64; k *= 2) {
        for (; done < k; done++) r.who[ranked[done].stage * e->lanes + ranked[done].lane] = true;
        double step_s = hm_replay_edited(e, replace, &r);
        if (!(before - step_s > 0.005 * x->t)) break;
        const char *how =
            k == 1 ? hm_keep_text(x->f,
                                  "replace the worker at stage %zu of DP rank %u (1 of %zu): wins back %.0f %%; "
                                  "assumes its successor is like its peers",
                                  ranked[0].stage, e->t->recording->lanes[ranked[0].lane], n, share(x, step_s))
                   : hm_keep_text(x->f,
                                  "replace the %zu slowest workers of %zu: wins back %.0f %%; assumes their successors "
                                  "are like their peers",
                                  k, n, share(x, step_s));
        status = add(x, "replace-workers", step_s, how);
        before = step_s;
    }
    hm_free(ranked);
    hm_free(r.who);
    return status;
}

/* ---- move layers ---- */

static int move_layers(struct fixer *x) {
    const struct hm_effects *e = x->e;
    size_t heavy = 0;
    for (size_t s = 0; s < e->stages; s++)
        if (e->stage_work[s] > e->stage_work[heavy]) heavy = s;
    double step_s = hm_replay_without(e, HM_PART_STAGES);
    return add(x, "move-layers", step_s,
               hm_keep_text(x->f,
                            "move %.0f %% of stage %zu's work to the lighter stages: wins back %.0f %%; assumes that "
                            "layers can be cut that finely, so with L "
                            "layers a stage expect the nearest multiple of %.0f/L %%",
                            100 * (1 - e->stage_scale[heavy]), heavy, share(x, step_s), 100.0));
}

/* ---- balance sequences ---- */

/* For each step: which (lane, microbatch) works on which microbatch's data. Costs are forward + backward over all stages. */
struct balance {
    const struct hm_effects *e;
    size_t microbatches;
    uint32_t *slot_mb; /* [slot] index of its microbatch, UINT32_MAX: not compute */
    uint32_t *source;  /* [step][lane][mb] -> lane * microbatches + mb */
};

static void take_over(void *context, size_t block, size_t lane, double *durations) {
    const struct balance *b = context;
    const struct hm_grid *g = &b->e->t->grid;
    for (size_t i = 0; i < b->e->slots; i++) {
        if (b->slot_mb[i] == UINT32_MAX) continue;
        for (size_t k = 0; k < hm_grid_width(g, block); k++) {
            uint32_t from = b->source[((block * HM_WIDTH + k) * g->lanes + lane) * b->microbatches + b->slot_mb[i]];
            /* the same (stage, chunk, direction) of the other microbatch: slots of a class are in microbatch order */
            size_t offset = 0;
            for (size_t j = 0; j < b->e->slots; j++)
                if (b->e->class_of[j] == b->e->class_of[i] && b->slot_mb[j] == from % b->microbatches) {
                    offset = j;
                    break;
                }
            durations[i * HM_WIDTH + k] =
                hm_grid_lane(g, g->duration, block, from / b->microbatches)[offset * HM_WIDTH + k];
        }
    }
}

struct item {
    double cost;
    uint32_t id;
};

static int costliest_first(const void *a, const void *b) {
    double x = ((const struct item *)a)->cost, y = ((const struct item *)b)->cost;
    return (x < y) - (x > y);
}

/* Greedy multiway partition with equal counts: the costliest microbatch goes to the replica with least work that still has room. Then
 * each replica starts with its cheapest ones, so that the pipeline fills early. */
static void partition(const struct balance *b, size_t step, struct item *items, double *load, uint32_t *room) {
    const struct hm_effects *e = b->e;
    const struct hm_grid *g = &e->t->grid;
    const size_t m = b->microbatches, n = g->lanes * m, block = step / HM_WIDTH, k = step % HM_WIDTH;
    for (size_t i = 0; i < n; i++) items[i] = (struct item){0, (uint32_t)i};
    for (size_t lane = 0; lane < g->lanes; lane++) {
        const double *d = hm_grid_lane(g, g->duration, block, lane);
        for (size_t i = 0; i < e->slots; i++)
            if (b->slot_mb[i] != UINT32_MAX) items[lane * m + b->slot_mb[i]].cost += d[i * HM_WIDTH + k];
        load[lane] = 0;
        room[lane] = (uint32_t)m;
    }
    qsort(items, n, sizeof *items, costliest_first);
    for (size_t i = 0; i < n; i++) {
        size_t best = SIZE_MAX;
        for (size_t lane = 0; lane < g->lanes; lane++)
            if (room[lane] && (best == SIZE_MAX || load[lane] < load[best])) best = lane;
        load[best] += items[i].cost;
        room[best]--; /* costly ones take the last places */
        b->source[(step * g->lanes + best) * m + room[best]] = items[i].id;
    }
}

static int balance_sequences(struct fixer *x) {
    const struct hm_effects *e = x->e;
    const struct hm_grid *g = &e->t->grid;
    struct balance b = {.e = e};
    for (size_t i = 0; i < e->slots; i++)
        if (e->class_of[i] != UINT32_MAX && e->t->model->slot[i].mb >= 0 &&
            (size_t)e->t->model->slot[i].mb + 1 > b.microbatches)
            b.microbatches = (size_t)e->t->model->slot[i].mb + 1;
    if (b.microbatches == 0 || g->lanes * b.microbatches < 2) return 0;
    size_t n = g->lanes * b.microbatches;
    b.slot_mb = hm_alloc(e->slots, sizeof *b.slot_mb);
    b.source = hm_alloc(n * g->steps, sizeof *b.source);
    struct item *items = hm_alloc(n, sizeof *items);
    double *load = hm_alloc(g->lanes, sizeof *load);
    uint32_t *room = hm_alloc(g->lanes, sizeof *room);
    int status = b.slot_mb && b.source && items && load && room ? 0 : -1;
    if (status == 0) {
        for (size_t i = 0; i < e->slots; i++)
            b.slot_mb[i] = e->class_of[i] != UINT32_MAX && e->t->model->slot[i].mb >= 0
                               ? (uint32_t)e->t->model->slot[i].mb
                               : UINT32_MAX;
        for (size_t step = 0; step < g->steps; step++) partition(&b, step, items, load, room);
        double step_s = hm_replay_edited(e, take_over, &b);
        status =
            add(x, "balance-sequences", step_s,
                hm_keep_text(x->f,
                             "give every replica microbatches of the same total cost, cheap ones first: wins back %.0f "
                             "%%; assumes that cost is known "
                             "beforehand (about the sum of squared lengths) and any microbatch may run on any replica",
                             share(x, step_s)));
    }
    hm_free(b.slot_mb);
    hm_free(b.source);
    hm_free(items);
    hm_free(load);
    hm_free(room);
    return status;
}

/* ---- planned garbage collection ---- */

static int planned_gc(struct fixer *x) {
    const struct hm_effects *e = x->e;
    enum { EVERY = 500 }; /* steps; the paper's setting (OSDI 2025) */
    double excess = 0;
    for (size_t i = 0; i < e->n_spikes; i++) excess += e->spikes[i].duration_s - e->spikes[i].expected_s;
    excess /= (double)e->n_spikes;
    double step_s = hm_replay_without(e, HM_PART_SPIKES) + excess / EVERY;
    return add(x, "planned-gc", step_s,
               hm_keep_text(x->f,
                            "switch automatic collection off and let all workers collect together every %d steps: wins "
                            "back %.0f %%; assumes a planned collection "
                            "takes %.2f s, like those seen, and memory lasts that long",
                            EVERY, share(x, step_s), excess));
}

/* ---- links ---- */

static int fix_link(struct fixer *x) {
    double step_s = hm_replay_without(x->e, HM_PART_LINKS);
    return add(x, "fix-link", step_s,
               hm_keep_text(x->f,
                            "repair or route around the slow links: wins back %.0f %%; assumes their transfers become "
                            "as quick as the usual ones",
                            share(x, step_s)));
}

/* ---- micro-batch counts ---- */

struct resplit {
    const struct hm_effects *e;
    double *scale; /* [lane] */
};

static void scale_lane(void *context, size_t block, size_t lane, double *durations) {
    (void)block;
    const struct resplit *r = context;
    for (size_t i = 0; i < r->e->slots; i++)
        if (r->e->class_of[i] != UINT32_MAX)
            for (size_t k = 0; k < HM_WIDTH; k++) durations[i * HM_WIDTH + k] *= r->scale[lane];
}

/* Replicas of different speed get different counts: the largest m_i * t_i is lowered by moving one microbatch at a time from the replica
 * that ends last to the one that would end first with one more. */
static int resplit_microbatches(struct fixer *x) {
    const struct hm_effects *e = x->e;
    size_t m = 0;
    for (size_t i = 0; i < e->slots; i++) {
        const struct hm_slot *s = &e->t->model->slot[i];
        if (s->type == HM_FORWARD_COMPUTE && s->mb >= 0 && (size_t)s->mb + 1 > m) m = (size_t)s->mb + 1;
    }
    if (m < 2 || e->lanes < 2) return 0;
    struct resplit r = {e, hm_alloc(e->lanes, sizeof(double))};
    double *speed = hm_alloc(e->lanes, sizeof *speed);
    size_t *count = hm_alloc(e->lanes, sizeof *count), moved = 0;
    int status = r.scale && speed && count ? 0 : -1;
    for (size_t l = 0; status == 0 && l < e->lanes; l++) {
        speed[l] = e->replica[l]; /* a replica is as slow as its slowest worker */
        for (size_t s = 0; s < e->stages; s++)
            if (e->slow_worker[s * e->lanes + l]) speed[l] = fmax(speed[l], e->worker[s * e->lanes + l]);
        count[l] = m;
    }
    for (size_t round = 0; status == 0 && round < m * e->lanes; round++) {
        size_t last = 0, first = 0;
        for (size_t l = 0; l < e->lanes; l++) {
            if ((double)count[l] * speed[l] > (double)count[last] * speed[last]) last = l;
            if ((double)(count[l] + 1) * speed[l] < (double)(count[first] + 1) * speed[first]) first = l;
        }
        if (count[last] < 2 || !((double)(count[first] + 1) * speed[first] < (double)count[last] * speed[last] - 1e-9))
            break;
        count[last]--, count[first]++, moved++;
    }
    if (status == 0 && moved) {
        for (size_t l = 0; l < e->lanes; l++) r.scale[l] = (double)count[l] / (double)m;
        double step_s = hm_replay_edited(e, scale_lane, &r);
        status = add(x, "resplit-microbatches", step_s,
                     hm_keep_text(x->f,
                                  "move %zu of %zu microbatches from slow replicas to quick ones: wins back %.0f %%; "
                                  "assumes gradients are weighted by count, and "
                                  "prices a replica's step by its share of microbatches",
                                  moved, m * e->lanes, share(x, step_s)));
    }
    hm_free(r.scale);
    hm_free(speed);
    hm_free(count);
    return status;
}

int hm_price_fixes(const struct hm_effects *e, const struct hm_analysis *a, unsigned parts, struct hm_findings *f) {
    struct fixer x = {e, a, f, a->replayed_s, a->replayed_s - a->ideal_s};
    if (!(x.gap > 0)) return 0;
    int status = 0;
    if (status == 0 && parts & HM_PART_WORKERS) status = replace_workers(&x);
    if (status == 0 && parts & HM_PART_STAGES) status = move_layers(&x);
    if (status == 0 && parts & HM_PART_SEQUENCES) status = balance_sequences(&x);
    if (status == 0 && parts & HM_PART_SPIKES) status = planned_gc(&x);
    if (status == 0 && parts & HM_PART_LINKS) status = fix_link(&x);
    if (status == 0 && parts & (HM_PART_WORKERS | HM_PART_REPLICAS)) status = resplit_microbatches(&x);
    return status;
}

/* ---- slack ---- */

struct delay {
    const struct hm_effects *e;
    size_t edge; /* between this stage and the next */
    double delay_s;
};

/* Adds the delay to every transfer over the edge: both ends of a pair end later. */
static void delay_edge(void *context, size_t block, size_t lane, double *durations) {
    (void)lane;
    const struct delay *d = context;
    const struct hm_model *m = d->e->t->model;
    for (size_t i = 0; i < d->e->slots; i++) {
        const struct hm_slot *s = &m->slot[i];
        if (!hm_is_p2p((int)s->type) || m->node[s->node].n_slots < 2) continue;
        bool onward = s->type == HM_FORWARD_SEND || s->type == HM_BACKWARD_RECV;
        size_t edge = onward ? s->stage : s->stage == 0 ? d->e->stages - 1 : s->stage - 1;
        if (edge != d->edge) continue;
        for (size_t k = 0; k < hm_grid_width(&d->e->t->grid, block); k++) durations[i * HM_WIDTH + k] += d->delay_s;
    }
}

int hm_find_slack(const struct hm_effects *e, const struct hm_analysis *a, struct hm_findings *f) {
    enum { HALVINGS = 6 };
    static const double many_ops = 4e6; /* beyond, a hundred more replays would take longer than the analysis */
    if (e->stages < 2 || (double)a->ops > many_ops) return 0;
    double *slack = hm_keep(f, e->stages - 1, sizeof *slack);
    if (!slack) return -1;
    for (size_t edge = 0; edge + 1 < e->stages; edge++) {
        struct delay d = {e, edge, 0};
        double low = 0, high = 0.1 * a->replayed_s;
        for (int k = 0; k < HALVINGS; k++) { /* geometric: slack spans orders of magnitude */
            d.delay_s = low > 0 ? sqrt(low * high) : high / 32;
            double t = hm_replay_edited(e, delay_edge, &d);
            if (isnan(t)) return -1;
            if (t > 1.01 * a->replayed_s)
                high = d.delay_s;
            else
                low = d.delay_s;
        }
        slack[edge] = low > 0 ? sqrt(low * high) : high;
    }
    f->d.n_edges = e->stages - 1;
    f->d.edge_slack_s = slack;
    return 0;
}
