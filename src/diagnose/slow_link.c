/* slow_link.c - transfers that take longer than those of the same kind elsewhere, or at other times.
 *
 * What is judged is the transfer (own end - latest start in the group), never the waiting before it (spec "online", who
 * was late). Links inside a replica join two stages: the sends and receives between them, or the embedding all-reduce.
 * A worker whose links on both sides are slow is the likely end at fault (C4, arXiv 2406.04594: hot row, hot column, hot
 * cell). Groups over all replicas are judged as one: a collective is as slow as its slowest member. */
#include "diagnose.h"

#include <math.h>
#include <string.h>

static const double always = 1.5; /* times the usual, most of the time */
static const double at_times = 2; /* times the usual and `sigmas` away, now and then: a flapping link */
static const double sigmas = 6;
static const size_t least_transfers = 3;  /* slow ones; fewer tell nothing */
static const double least_excess = 0.002; /* of T, added up over a step: less cannot matter */

struct view {
    size_t n, slow;
    bool judged_slow;
    double level, excess_s; /* median over the usual; what is above the usual, a step */
};

struct links {
    struct hm_diagnoser *d;
    size_t edges;      /* stages + 1: edge e joins stage e and the next; the last one first and last stage */
    size_t types;      /* kinds of transfers that do the same work: job.n_peers */
    double *spread;    /* [type] robust standard deviation of its transfers */
    double *usual;     /* [type] */
    double **value;    /* [thread]: room for the transfers of a lane */
    double *link;      /* [2][edge][lane]: medians, spreads of the type in hand */
    uint32_t type;     /* in hand */
    uint32_t *edge;    /* [slot] HM_NONE: no link inside a replica */
    uint32_t *slot;    /* the slots of links and groups by edge (of groups: stage) and type ... */
    size_t *first;     /* ... [edge * types + type], and one behind the last */
    struct view *view; /* [edge][lane] */
    double worst;      /* times the usual, of what is named */
    double times;      /* slow transfers among those of the named links */
};

/* Which two stages a slot's node joins. */
uint32_t hm_edge_of(const struct hm_job *m, uint32_t i) {
    const struct hm_node *node = &m->node[m->slot[i].node];
    if (node->across >= 0 || node->n_slots < 2) return HM_NONE;
    if (hm_class_of(m, i)->kind == HM_COLLECTIVE) return (uint32_t)m->stages;
    for (uint32_t k = node->first_slot; k < node->first_slot + node->n_slots; k++)
        if (hm_class_is(hm_class_of(m, k), HM_SEND, HM_FORWARD) || hm_class_is(hm_class_of(m, k), HM_RECV, HM_BACKWARD))
            return m->slot[k].stage;
    return HM_NONE;
}

static bool is_group(const struct hm_job *m, uint32_t i) {
    return m->node[m->slot[i].node].across >= 0;
}

/* The shelf of a slot in `first`; SIZE_MAX if it is neither of a link nor of a group. */
static size_t shelf_of(const struct links *k, const struct hm_job *m, uint32_t i) {
    uint32_t edge = is_group(m, i) ? m->slot[i].stage : k->edge[i];
    return edge == HM_NONE ? SIZE_MAX : edge * k->types + m->slot[i].peers;
}

/* Counting sort; slots of a shelf stay in order. */
static void sort_slots(struct links *k, const struct hm_job *m) {
    size_t shelves = k->edges * k->types;
    for (uint32_t i = 0; i < m->n_slots; i++) {
        size_t shelf = shelf_of(k, m, i);
        if (shelf != SIZE_MAX) k->first[shelf]++;
    }
    for (size_t s = 1; s <= shelves; s++) k->first[s] += k->first[s - 1]; /* where each shelf ends */
    for (uint32_t i = (uint32_t)m->n_slots; i-- > 0;) {                   /* filled from behind: where it begins */
        size_t shelf = shelf_of(k, m, i);
        if (shelf != SIZE_MAX) k->slot[--k->first[shelf]] = i;
    }
}

/* Medians and spreads of the type in hand on each link of a replica, and of its part in the groups of its stages; NaN: none. */
static void transfers_of_lane(void *context, size_t lane, int thread) {
    struct links *k = context;
    const struct hm_profile *p = &k->d->p;
    double *value = k->value[thread];
    for (size_t e = 0; e < k->edges; e++) {
        size_t n = 0, shelf = e * k->types + k->type, at = e * p->lanes + lane;
        for (size_t i = k->first[shelf]; i < k->first[shelf + 1]; i++)
            for (size_t t = 0; t < p->steps; t++) value[n++] = hm_recorded_s(p, lane, k->slot[i], t);
        double middle = k->link[at] = n ? hm_median(value, n) : NAN;
        k->link[k->edges * p->lanes + at] = n ? 1.4826 * hm_mad(value, n, middle) : NAN;
    }
}

/* Moves the numbers to the front; how many. */
static size_t numbers_first(double *x, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i])) x[kept++] = x[i];
    return kept;
}

/* The usual transfer of a type is the low median over links of their medians: of two links the faster one. The ideal,
 * a median of all, would lie between. */
static void measure_usual(struct links *k) {
    const struct hm_profile *p = &k->d->p;
    for (uint32_t type = 0; type < k->types; type++) {
        if (p->t->job->cls[p->t->job->class_of_peers[type]].scope == HM_ALONE || isnan(p->t->ideal_s[type])) continue;
        k->type = type;
        hm_parallel(p->lanes, p->threads, transfers_of_lane, k);
        double *spread = k->link + k->edges * p->lanes;
        size_t n = numbers_first(k->link, k->edges * p->lanes);
        (void)numbers_first(spread, k->edges * p->lanes); /* as many */
        k->usual[type] = n ? hm_low_median(k->link, n) : p->t->ideal_s[type];
        k->spread[type] = n ? hm_low_median(spread, n) : 0;
    }
}

/* One transfer into a view; its value goes to value[v->n]. */
static void see(const struct links *k, struct view *v, double *value, uint32_t type, double x, double share) {
    double usual = k->usual[type];
    value[v->n++] = x / fmax(usual, 1e-9);
    v->slow += x > at_times * usual + sigmas * k->spread[type];
    if (x > usual) v->excess_s += share * (x - usual) / (double)k->d->p.steps;
}

static bool judge(const struct links *k, struct view *v, double *value) {
    v->level = v->n ? hm_median(value, v->n) : 1;
    bool slow = v->level >= always || v->slow >= least_transfers;
    return v->n && slow && v->excess_s >= least_excess * k->d->a->replayed_s;
}

/* Steps in which a slow transfer was seen, if the link is not slow all the time. */
static void mark_steps(const struct links *k, uint8_t *steps, size_t lane, const uint8_t *mine) {
    const struct hm_profile *p = &k->d->p;
    const struct hm_job *m = p->t->job;
    for (uint32_t i = 0; i < m->n_slots; i++)
        for (size_t t = 0; mine[i] && t < p->steps; t++) {
            uint32_t type = m->slot[i].peers;
            if (hm_recorded_s(p, lane, i, t) > at_times * k->usual[type] + sigmas * k->spread[type]) steps[t] = 1;
        }
}

struct tally {
    bool *slow;     /* [edge][lane] */
    uint8_t *steps; /* [step] with slow transfers */
    uint8_t *mine;  /* [slot] of the link in hand */
    bool always;    /* some link is slow all the time */
    size_t found;
};

static void take(struct links *k, struct tally *c, struct hm_finding *f, const struct view *v, size_t lane) {
    const struct hm_job *m = k->d->t->job;
    for (uint32_t i = 0; i < m->n_slots; i++)
        if (c->mine[i]) k->d->slow_link[lane * m->n_slots + i] = 1, hm_at_op_type(f, m->slot[i].cls);
    k->worst = fmax(k->worst, v->level);
    if (v->n) k->times = fmax(k->times, (double)v->slow / (double)v->n);
    c->always |= v->level >= always;
    mark_steps(k, c->steps, lane, c->mine);
}

/* All transfers on each link of a replica. */
static void view_lane(void *context, size_t lane, int thread) {
    struct links *k = context;
    const struct hm_profile *p = &k->d->p;
    const struct hm_job *m = p->t->job;
    for (size_t e = 0; e < k->edges; e++) {
        struct view *v = &k->view[e * p->lanes + lane];
        for (size_t i = k->first[e * k->types]; i < k->first[(e + 1) * k->types]; i++) {
            uint32_t slot = k->slot[i];
            if (is_group(m, slot)) continue;
            for (size_t t = 0; t < p->steps; t++)
                see(k, v, k->value[thread], m->slot[slot].peers, hm_recorded_s(p, lane, slot, t), 0.5);
        }
        v->judged_slow = judge(k, v, k->value[thread]);
    }
}

/* Links between the stages of one replica. */
static void judge_links(struct links *k, struct tally *c, struct hm_finding *f) {
    const struct hm_profile *p = &k->d->p;
    hm_parallel(p->lanes, p->threads, view_lane, k);
    for (uint32_t e = 0; e < k->edges; e++)
        for (size_t l = 0; l < p->lanes; l++) {
            const struct view *v = &k->view[e * p->lanes + l];
            if (!v->judged_slow) continue;
            for (uint32_t i = 0; i < p->t->job->n_slots; i++) c->mine[i] = k->edge[i] == e;
            c->slow[e * p->lanes + l] = true;
            c->found++;
            take(k, c, f, v, l);
        }
}

/* Groups over all replicas, the ops of one type on one stage together: the slowest member counts. */
static void judge_groups(struct links *k, struct tally *c, struct hm_finding *f) {
    const struct hm_profile *p = &k->d->p;
    const struct hm_job *m = p->t->job;
    for (size_t s = 0; s < p->stages; s++)
        for (uint32_t type = 0; type < k->types; type++) {
            struct view v = {0};
            for (uint32_t i = 0; i < m->n_slots; i++) {
                c->mine[i] = m->slot[i].peers == type && m->slot[i].stage == s && is_group(m, i);
                for (size_t t = 0; c->mine[i] && t < p->steps; t++) {
                    double x = 0;
                    for (size_t l = 0; l < p->lanes; l++) x = fmax(x, hm_recorded_s(p, l, i, t));
                    see(k, &v, k->value[0], type, x, 1);
                }
            }
            if (!judge(k, &v, k->value[0])) continue;
            c->found++;
            hm_at_stage(f, s);
            for (size_t l = 0; l < p->lanes; l++) take(k, c, f, &v, l);
        }
}

/* Ends of slow links: a worker with two of them stands for both; otherwise both ends are named. */
static void name_ends(const struct links *k, const struct tally *c, struct hm_finding *f) {
    enum { NAMED = 64 };
    const struct hm_profile *p = &k->d->p;
    size_t paths = 0, both_sides = 0;
    for (size_t l = 0; l < p->lanes; l++) {
        for (size_t e = 0; e < k->edges; e++) {
            if (!c->slow[e * p->lanes + l] || f->cause.n_workers + 2 > NAMED) continue;
            bool ends = e == p->stages; /* the embedding's */
            size_t first = ends ? 0 : e, second = ends ? p->stages - 1 : e + 1 < p->stages ? e + 1 : 0;
            bool again = e + 1 < p->stages && c->slow[(e + 1) * p->lanes + l];
            bool before = e > 0 && e < p->stages && c->slow[(e - 1) * p->lanes + l];
            if (again) {
                hm_at_worker(f, second, l), both_sides++;
            } else if (!before) {
                hm_at_worker(f, first, l), hm_at_worker(f, second, l), paths++;
            }
        }
    }
    if (paths) hm_note(f, (double)paths, "", "slow paths: only one link of their ends is slow");
    if (both_sides)
        hm_note(f, (double)both_sides, "", "workers whose links on both sides are slow: their own connection");
}

static int describe(struct links *k, const struct tally *c, struct hm_finding *f) {
    const struct hm_profile *p = &k->d->p;
    size_t steps = 0;
    for (size_t t = 0; t < p->steps; t++) steps += c->steps[t];
    hm_note(f, (double)c->found, "", "slow links or groups");
    hm_note(f, k->worst, "ratio", "median transfer over the usual, slowest of them");
    hm_note(f, k->times, "ratio", "share of transfers more than twice the usual, highest of them");
    for (uint32_t type = 0; type < k->types; type++) {
        const char *name = k->d->t->job->cls[k->d->t->job->class_of_peers[type]].name;
        for (size_t i = 0; i < f->cause.n_op_types; i++)
            if (strcmp(f->cause.op_types[i], name) == 0) hm_note(f, k->usual[type], "s", "usual transfer, %s", name);
    }
    name_ends(k, c, f);
    if (!c->always || steps <= p->steps / 2) {
        hm_note(f, (double)steps, "", "steps with slow transfers, of %zu", p->steps);
        for (size_t t = 0; t < p->steps; t++)
            if (c->steps[t]) hm_at_step(f, t);
    }
    f->strength = fmin(1, 0.5 + 0.25 * fmax(k->worst - 1, 4 * k->times));
    return 1;
}

int hm_find_slow_links(struct hm_diagnoser *d, struct hm_finding *f) {
    const struct hm_profile *p = &d->p;
    const struct hm_job *m = d->t->job;
    struct links k = {.d = d, .edges = p->stages + 1, .types = m->n_peers, .worst = 1};
    struct tally c = {.slow = hm_alloc(k.edges * p->lanes, sizeof(bool)), .steps = hm_alloc(p->steps, 1)};
    c.mine = hm_alloc(m->n_slots, 1);
    k.value = hm_alloc((size_t)p->threads, sizeof *k.value);
    bool good = k.value != NULL;
    for (int i = 0; good && i < p->threads; i++)
        good = (k.value[i] = hm_alloc(m->n_slots * p->steps, sizeof(double))) != NULL;
    k.slot = hm_alloc(m->n_slots, sizeof *k.slot);
    k.first = hm_alloc(k.edges * k.types + 1, sizeof *k.first);
    k.view = hm_alloc(k.edges * p->lanes, sizeof *k.view);
    k.link = hm_alloc(2 * k.edges * p->lanes, sizeof(double));
    k.edge = hm_alloc(m->n_slots, sizeof *k.edge);
    hm_free(d->slow_link); /* of an earlier look */
    hm_free(d->usual_transfer_s);
    d->slow_link = hm_alloc(p->lanes, m->n_slots);
    k.spread = hm_alloc(k.types, sizeof(double));
    d->usual_transfer_s = k.usual = hm_alloc(k.types, sizeof(double));
    good = good && k.spread && k.usual && c.slow && c.steps && c.mine && k.slot && k.first && k.view && k.link &&
           k.edge && d->slow_link;
    int status = good ? 0 : -1;
    if (status == 0) {
        for (uint32_t i = 0; i < m->n_slots; i++) k.edge[i] = hm_edge_of(m, i);
        sort_slots(&k, m);
        measure_usual(&k);
        judge_links(&k, &c, f);
        judge_groups(&k, &c, f);
        if (c.found) status = describe(&k, &c, f);
    }
    hm_free(c.slow);
    hm_free(c.steps);
    hm_free(c.mine);
    for (int i = 0; k.value && i < p->threads; i++) hm_free(k.value[i]);
    hm_free(k.value);
    hm_free(k.slot);
    hm_free(k.spread);
    hm_free(k.first);
    hm_free(k.view);
    hm_free(k.link);
    hm_free(k.edge);
    return status;
}

void hm_idealise_links(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    const struct hm_job *m = d->t->job;
    (void)block;
    if (!d->slow_link) return;
    for (uint32_t i = 0; i < m->n_slots; i++)
        for (size_t k = 0; d->slow_link[lane * m->n_slots + i] && k < HM_WIDTH; k++) {
            double *now = &duration[i * HM_WIDTH + k];
            *now = fmin(*now, d->usual_transfer_s[m->slot[i].peers]);
        }
}
