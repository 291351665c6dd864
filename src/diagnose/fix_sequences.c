/* fix_sequences.c - redistribute the work of a step: whole microbatches over the replicas, or sequences over microbatches.
 *
 * OSDI 2025, section 5.3: sequences over the DP ranks by greedy multiway partition on their cost, then into balanced
 * microbatches; +23.9 % on a 32K-context job. A trace has no sequences, but it has what every microbatch cost, so whole
 * microbatches are dealt by that (longest first, to the replica with the least so far: LPT, at most 4/3 of the best).
 * Dealing single sequences reaches further: its price is that of a step whose microbatches all cost the step's mean. */
#include "fixes.h"

#include <math.h>
#include <stdlib.h>

struct item { /* a microbatch */
    double load;
    uint32_t lane, microbatch;
};

enum order { LARGE_FIRST, SMALL_FIRST, IN_TURN, ORDERS };
static const char *const order_name[ORDERS] = {"large ones first", "small ones first", "large and small in turn"};

struct deal {
    const struct hm_diagnoser *d;
    struct item *from; /* [step][lane][microbatch, largest first] who supplies a replica */
    enum order order;
};

static int larger_first(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->load != y->load) return x->load > y->load ? -1 : 1;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    return (x->microbatch > y->microbatch) - (x->microbatch < y->microbatch);
}

/* Replicas in a heap by their load so far; the full ones leave it. */
struct bin {
    double load;
    uint32_t lane, n;
};

static bool lighter(const struct bin *a, const struct bin *b) {
    return a->load != b->load ? a->load < b->load : a->lane < b->lane;
}

static void sink(struct bin *heap, size_t n, size_t i) {
    for (;;) {
        size_t least = i, left = 2 * i + 1;
        if (left < n && lighter(&heap[left], &heap[least])) least = left;
        if (left + 1 < n && lighter(&heap[left + 1], &heap[least])) least = left + 1;
        if (least == i) return;
        struct bin swap = heap[i];
        heap[i] = heap[least];
        heap[least] = swap;
        i = least;
    }
}

/* Deals the microbatches of one step; every replica gets as many as it had. */
static void deal_step(const struct deal *q, size_t t, struct item *item, struct bin *heap) {
    const struct hm_profile *p = &q->d->p;
    size_t n = 0, bins = p->lanes;
    for (uint32_t l = 0; l < p->lanes; l++) {
        heap[l] = (struct bin){0, l, 0};
        for (uint32_t mb = 0; mb < p->microbatches; mb++)
            item[n++] = (struct item){q->d->load[(l * p->microbatches + mb) * p->steps + t], l, mb};
    }
    qsort(item, n, sizeof *item, larger_first);
    for (size_t i = 0; i < n; i++) {
        struct bin *least = &heap[0];
        q->from[(t * p->lanes + least->lane) * p->microbatches + least->n++] = item[i];
        least->load += item[i].load;
        if (least->n == p->microbatches) heap[0] = heap[--bins];
        sink(heap, bins, 0);
    }
}

/* Which of a replica's microbatches, counted by size, runs in place mb. */
static size_t in_place(enum order order, size_t mb, size_t n) {
    if (order == LARGE_FIRST) return mb;
    if (order == SMALL_FIRST) return n - 1 - mb;
    return mb % 2 ? n - 1 - mb / 2 : mb / 2;
}

/* A microbatch keeps its durations, stage by stage; a slow worker stays where it is. */
static void redistribute(const void *context, size_t block, size_t lane, double *duration) {
    const struct deal *q = context;
    const struct hm_profile *p = &q->d->p;
    for (size_t k = 0; k < hm_grid_width(&q->d->t->grid, block); k++) {
        size_t t = block * HM_WIDTH + k;
        const struct item *own = q->from + (t * p->lanes + lane) * p->microbatches;
        for (uint32_t role = 0; role < p->roles; role++) {
            size_t s = hm_role_stage(p, role);
            size_t b = role % 2;
            for (size_t mb = 0; mb < p->microbatches; mb++) {
                const struct item *it = &own[in_place(q->order, mb, p->microbatches)];
                uint32_t slot = hm_slot_of(p, role, mb), source = hm_slot_of(p, role, it->microbatch);
                if (slot == HM_NONE || source == HM_NONE) continue;
                double change =
                    hm_all_slowness(q->d, 2 * s + b, lane, t) - hm_all_slowness(q->d, 2 * s + b, it->lane, t);
                duration[slot * HM_WIDTH + k] = hm_recorded_s(p, it->lane, source, t) * (change != 0 ? exp(change) : 1);
            }
        }
    }
}

static int offer_deal(struct hm_diagnoser *d) {
    const struct hm_profile *p = &d->p;
    size_t n = p->lanes * p->microbatches;
    struct deal q = {.d = d, .from = hm_alloc(n * p->steps, sizeof *q.from)};
    struct item *item = hm_alloc(n, sizeof *item);
    struct bin *heap = hm_alloc(p->lanes, sizeof *heap);
    bool good = q.from && item && heap;
    double best_s = INFINITY;
    enum order best = LARGE_FIRST;
    for (size_t t = 0; good && t < p->steps; t++) deal_step(&q, t, item, heap);
    for (int order = 0; good && order < ORDERS; order++) {
        q.order = (enum order)order;
        double step_s = hm_scenario_mean_s(&d->s, redistribute, NULL, &q);
        if (step_s < best_s) best_s = step_s, best = q.order;
    }
    if (good)
        hm_offer(
            d, "balance-sequences", best_s,
            hm_box_text(
                d->box,
                "Deal each step's microbatches to the replicas by their cost, the longest first to the replica with "
                "the "
                "least so far, and run %s: wins back %.0f %% of the loss. Assumes that costs are known before the step "
                "(from sequence lengths) and that a microbatch takes as long in its new replica.",
                order_name[best], hm_won_back(d, best_s)));
    hm_free(q.from);
    hm_free(item);
    hm_free(heap);
    return good ? 0 : -1;
}

struct repack {
    const struct hm_diagnoser *d;
    const double *mean; /* [step] load */
};

static void even_out(const void *context, size_t block, size_t lane, double *duration) {
    const struct repack *r = context;
    const struct hm_profile *p = &r->d->p;
    for (uint32_t role = 0; role < p->roles; role++)
        for (size_t k = 0; k < hm_grid_width(&r->d->t->grid, block); k++) {
            size_t t = block * HM_WIDTH + k;
            double by = hm_all_slowness(r->d, hm_role_row(p, role), lane, t),
                   slope = r->d->slope_s[role] * (by != 0 ? exp(by) : 1);
            for (size_t mb = 0; mb < p->microbatches; mb++) {
                uint32_t slot = hm_slot_of(p, role, mb);
                if (slot == HM_NONE) continue;
                double *now = &duration[slot * HM_WIDTH + k];
                *now = fmax(0, *now - slope * (r->d->load[(lane * p->microbatches + mb) * p->steps + t] - r->mean[t]));
            }
        }
}

static int offer_repack(struct hm_diagnoser *d) {
    const struct hm_profile *p = &d->p;
    double *mean = hm_alloc(p->steps, sizeof *mean);
    if (!mean) return -1;
    for (size_t k = 0; k < p->lanes * p->microbatches; k++)
        for (size_t t = 0; t < p->steps; t++)
            mean[t] += d->load[k * p->steps + t] / (double)(p->lanes * p->microbatches);
    struct repack r = {d, mean};
    double step_s = hm_scenario_mean_s(&d->s, even_out, NULL, &r);
    hm_offer(d, "balance-sequences", step_s,
             hm_box_text(d->box,
                         "Deal each step's single sequences to replicas and microbatches by cost (tokens + length "
                         "squared), so that all "
                         "microbatches of a step cost the same: wins back %.0f %% of the loss, an upper bound. Assumes "
                         "that no sequence "
                         "alone costs more than a mean microbatch; the trace does not show lengths.",
                         hm_won_back(d, step_s)));
    hm_free(mean);
    return 0;
}

/* Only where sequence lengths were recognised: else the differences are noise, which nobody knows before the step. */
int hm_fix_sequences(struct hm_diagnoser *d) {
    if (!(d->found & 1u << HM_SEQUENCE_LENGTH) || !d->slope_s) return 0;
    if (d->p.lanes * d->p.microbatches < 2) return 0;
    return offer_deal(d) != 0 || offer_repack(d) != 0 ? -1 : 0;
}
