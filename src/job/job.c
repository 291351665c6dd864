/* job.c - from the edges to a program: groups become nodes, nodes get rounds and an order, slots their numbers. */
#include "edges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *hm_slot_name(const struct hm_job *m, const struct hm_slot *slot, char *text, size_t size) {
    (void)snprintf(text, size, "%s %u of stage %u", m->cls[slot->cls].name, slot->seq, slot->stage);
    return text;
}

int hm_class_find(const struct hm_job *m, enum hm_kind kind, enum hm_phase phase) {
    for (size_t k = 0; k < m->n_classes; k++)
        if (hm_class_is(&m->cls[k], kind, phase)) return (int)k;
    return -1;
}

void hm_job_free(struct hm_job *job) {
    if (!job) return;
    for (size_t k = 0; job->own_classes && k < job->n_classes; k++) hm_free((char *)job->cls[k].name);
    for (size_t k = 0; job->own_classes && k < job->n_families; k++) hm_free((char *)job->family[k]);
    for (size_t k = 0; k < job->n_partitions; k++) hm_free(job->partition[k].block);
    hm_free((void *)job->cls);
    hm_free((void *)job->class_of_peers);
    hm_free((void *)job->family);
    hm_free(job->partition);
    hm_free(job->slot);
    hm_free(job->node);
    hm_free(job->dep);
    hm_free(job);
}

/* ---- edges ---- */

int hm_edges_begin(struct hm_edges *e, const struct hm_ref_op *ops, size_t n) {
    *e = (struct hm_edges){.op = ops, .n = n};
    e->group = hm_alloc(n, sizeof *e->group);
    e->across = hm_alloc(n, sizeof *e->across);
    e->partition = hm_alloc(n, sizeof *e->partition);
    e->stream = hm_alloc(n, sizeof *e->stream);
    e->peers = hm_alloc(n, sizeof *e->peers);
    e->lonely = hm_alloc(n, sizeof *e->lonely);
    if (!e->group || !e->across || !e->partition || !e->stream || !e->peers || !e->lonely) return -1;
    for (uint32_t i = 0; i < n; i++) e->group[i] = i;
    return 0;
}

void hm_edges_wait(struct hm_edges *e, uint32_t after, uint32_t before) {
    struct hm_edge *grown = hm_grow(e->edge, e->n_edges, &e->capacity, sizeof *grown);
    if (!grown) {
        e->failed = true;
        return;
    }
    e->edge = grown;
    e->edge[e->n_edges++] = (struct hm_edge){after, before};
}

void hm_edges_join(struct hm_edges *e, uint32_t x, uint32_t y) {
    uint32_t gx = e->group[x], gy = e->group[y];
    e->group[x] = e->group[y] = gx < gy ? gx : gy;
}

void hm_edges_free(struct hm_edges *e) {
    hm_free(e->group);
    hm_free(e->across);
    hm_free(e->partition);
    hm_free(e->stream);
    hm_free(e->peers);
    hm_free(e->lonely);
    hm_free(e->edge);
    *e = (struct hm_edges){0};
}

/* A node while it is being ordered. Edges in both directions, in compressed rows. */
struct draft {
    const struct hm_edges *e;
    size_t n;                        /* nodes */
    uint32_t *node_of;               /* [op] */
    uint32_t *member_first, *member; /* [node] -> ops */
    uint32_t *next_first, *next;     /* [node] -> nodes that wait for it, once for each edge */
    uint32_t *waits;                 /* [node] edges not yet satisfied */
    uint32_t *round;                 /* [node] launch round */
    uint32_t *order;                 /* execution order */
    double *start; /* [node] when its last member was recorded to start: breaks ties like the recording did */
    bool *across;
};

static void draft_free(struct draft *d) {
    hm_free(d->node_of);
    hm_free(d->member_first);
    hm_free(d->member);
    hm_free(d->next_first);
    hm_free(d->next);
    hm_free(d->waits);
    hm_free(d->round);
    hm_free(d->order);
    hm_free(d->start);
    hm_free(d->across);
}

/* Groups are named by their lowest op in e->group; numbers them and lists their members. */
static int make_nodes(struct draft *d) {
    const struct hm_edges *e = d->e;
    d->node_of = hm_alloc(e->n, sizeof *d->node_of);
    d->member_first = hm_alloc(e->n + 2, sizeof *d->member_first);
    d->member = hm_alloc(e->n, sizeof *d->member);
    d->start = hm_alloc(e->n, sizeof *d->start);
    d->across = hm_alloc(e->n, sizeof *d->across);
    if (!d->node_of || !d->member_first || !d->member || !d->start || !d->across) return -1;
    for (uint32_t i = 0; i < e->n; i++) {
        if (e->group[i] == i) d->node_of[i] = (uint32_t)d->n++;
        uint32_t node = d->node_of[i] = d->node_of[e->group[i]];
        d->member_first[node + 1]++;
        if (e->op[i].start_s > d->start[node]) d->start[node] = e->op[i].start_s;
        d->across[node] |= e->across[i];
    }
    for (size_t k = 0; k < d->n; k++) d->member_first[k + 1] += d->member_first[k];
    uint32_t *fill = hm_alloc(d->n, sizeof *fill);
    if (!fill) return -1;
    for (uint32_t i = 0; i < e->n; i++) {
        uint32_t node = d->node_of[i];
        d->member[d->member_first[node] + fill[node]++] = i;
    }
    hm_free(fill);
    return 0;
}

static int make_forward_edges(struct draft *d) {
    const struct hm_edges *e = d->e;
    d->next_first = hm_alloc(d->n + 1, sizeof *d->next_first);
    d->next = hm_alloc(e->n_edges, sizeof *d->next);
    d->waits = hm_alloc(d->n, sizeof *d->waits);
    d->round = hm_alloc(d->n, sizeof *d->round);
    d->order = hm_alloc(d->n, sizeof *d->order);
    uint32_t *fill = hm_alloc(d->n, sizeof *fill);
    if (!d->next_first || !d->next || !d->waits || !d->round || !d->order || !fill) {
        hm_free(fill);
        return -1;
    }
    for (size_t k = 0; k < e->n_edges; k++) d->next_first[d->node_of[e->edge[k].before] + 1]++;
    for (size_t k = 0; k < d->n; k++) d->next_first[k + 1] += d->next_first[k];
    for (size_t k = 0; k < e->n_edges; k++) {
        uint32_t before = d->node_of[e->edge[k].before], after = d->node_of[e->edge[k].after];
        d->next[d->next_first[before] + fill[before]++] = after;
        d->waits[after]++;
    }
    hm_free(fill);
    return 0;
}

/* ---- order: Kahn's algorithm with a heap ---- */

struct heap {
    uint32_t *item;
    size_t n;
};

static bool earlier(const struct draft *d, uint32_t a, uint32_t b) {
    if (d->round[a] != d->round[b]) return d->round[a] < d->round[b];
    if (d->start[a] != d->start[b]) return d->start[a] < d->start[b];
    return a < b;
}

static void push(const struct draft *d, struct heap *h, uint32_t node) {
    size_t i = h->n++;
    for (; i > 0 && earlier(d, node, h->item[(i - 1) / 2]); i = (i - 1) / 2) h->item[i] = h->item[(i - 1) / 2];
    h->item[i] = node;
}

static uint32_t pop(const struct draft *d, struct heap *h) {
    uint32_t top = h->item[0], last = h->item[--h->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && earlier(d, h->item[child + 1], h->item[child])) child++;
        if (!earlier(d, h->item[child], last)) break;
        h->item[i] = h->item[child];
    }
    h->item[i] = last;
    return top;
}

/* Fills order and round; returns how many nodes could be ordered (fewer than n: a cycle). The heap pops by round first,
 * which is final when a node is pushed, so the order is round by round. */
static size_t sort_nodes(struct draft *d, struct heap *h) {
    size_t done = 0;
    for (uint32_t k = 0; k < d->n; k++)
        if (d->waits[k] == 0) push(d, h, k);
    while (h->n) {
        uint32_t node = pop(d, h);
        d->order[done++] = node;
        uint32_t round = d->round[node] + (d->across[node] ? 1 : 0);
        for (uint32_t k = d->next_first[node]; k < d->next_first[node + 1]; k++) {
            uint32_t next = d->next[k];
            if (d->round[next] < round) d->round[next] = round;
            if (--d->waits[next] == 0) push(d, h, next);
        }
    }
    return done;
}

/* Among the nodes that could not be ordered, walks from waiting op to awaited op until one comes again, and names the
 * circle. */
static int report_cycle(const struct hm_job *job, const struct draft *d, const char *path, struct hm_error *err) {
    const struct hm_edges *e = d->e;
    uint32_t *via = hm_alloc(d->n, sizeof *via); /* [node] edge to a node it waits for that is stuck as well */
    uint32_t *seen = hm_alloc(d->n, sizeof *seen);
    struct hm_str text = {0};
    if (!via || !seen) {
        hm_free(via);
        hm_free(seen);
        return hm_fail_memory(err);
    }
    for (size_t k = 0; k < e->n_edges; k++)
        if (d->waits[d->node_of[e->edge[k].before]]) via[d->node_of[e->edge[k].after]] = (uint32_t)k + 1;
    uint32_t node = 0, step = 1;
    while (!d->waits[node] || !via[node]) node++;
    while (!seen[node]) {
        seen[node] = step++;
        node = d->node_of[e->edge[via[node] - 1].before];
    }
    uint32_t first = node;
    do {
        const struct hm_ref_op *op = &e->op[e->edge[via[node] - 1].after], *on = &e->op[e->edge[via[node] - 1].before];
        hm_str_add(&text, "%s%s %u of stage %u waits for %s %u of stage %u", text.length ? "; " : "",
                   job->cls[op->type].name, op->seq, op->stage, job->cls[on->type].name, on->seq, on->stage);
        node = d->node_of[e->edge[via[node] - 1].before];
    } while (node != first);
    hm_fail(err, HM_ERR_INPUT,
            "%s: ops wait for each other in a circle (%s); the recorded times contradict the schedule: check the "
            "clocks of the stages",
            path, text.text ? text.text : "");
    hm_str_free(&text);
    hm_free(via);
    hm_free(seen);
    return -1;
}

/* ---- the program ---- */

/* Numbers the slots: an across node's slots stand at the beginning of the round after its launch, all others where they
 * run. */
static void number_slots(const struct draft *d, struct hm_job *m, uint32_t *slot_of) {
    uint32_t next = 0;
    size_t k = 0;
    for (uint32_t r = 0; r < m->rounds; r++) {
        for (size_t j = 0; j < m->n_nodes; j++) { /* lands */
            struct hm_node *node = &m->node[j];
            if (node->across < 0 || node->round + 1 != r) continue;
            node->first_slot = next;
            for (uint32_t i = d->member_first[d->order[j]]; i < d->member_first[d->order[j] + 1]; i++)
                slot_of[d->member[i]] = next++;
        }
        for (; k < m->n_nodes && m->node[k].round == r; k++) {
            struct hm_node *node = &m->node[k];
            if (node->across >= 0) continue;
            node->first_slot = next;
            for (uint32_t i = d->member_first[d->order[k]]; i < d->member_first[d->order[k] + 1]; i++)
                slot_of[d->member[i]] = next++;
        }
    }
}

static int by_after(const void *a, const void *b) {
    const struct hm_edge *x = a, *y = b;
    if (x->after != y->after) return x->after < y->after ? -1 : 1;
    return (x->before > y->before) - (x->before < y->before);
}

static int assemble(const struct draft *d, struct hm_job *m) {
    const struct hm_edges *e = d->e;
    m->n_slots = e->n;
    m->n_nodes = d->n;
    m->slot = hm_alloc(e->n, sizeof *m->slot);
    m->node = hm_alloc(d->n, sizeof *m->node);
    m->dep = hm_alloc(e->n_edges, sizeof *m->dep);
    uint32_t *slot_of = hm_alloc(e->n, sizeof *slot_of);
    struct hm_edge *sorted = hm_alloc(e->n_edges, sizeof *sorted);
    if (!m->slot || !m->node || !m->dep || !slot_of || !sorted) {
        hm_free(slot_of);
        hm_free(sorted);
        return -1;
    }
    m->rounds = 1;
    for (size_t k = 0; k < d->n; k++) {
        uint32_t node = d->order[k];
        m->node[k] = (struct hm_node){0,
                                      d->member_first[node + 1] - d->member_first[node],
                                      d->round[node],
                                      d->across[node] ? (int32_t)m->n_across++ : -1,
                                      e->partition[d->member[d->member_first[node]]],
                                      0};
        m->node[k].start = (uint32_t)m->n_starts;
        if (d->across[node]) m->n_starts += m->partition[m->node[k].partition].blocks;
        uint32_t last = d->round[node] + (d->across[node] ? 1 : 0);
        if (last + 1 > m->rounds) m->rounds = last + 1;
    }
    number_slots(d, m, slot_of);
    for (size_t k = 0; k < d->n; k++)
        for (uint32_t i = 0; i < m->node[k].n_slots; i++) m->slot[m->node[k].first_slot + i].node = (uint32_t)k;
    for (size_t i = 0; i < e->n; i++) {
        const struct hm_ref_op *op = &e->op[i];
        struct hm_slot *slot = &m->slot[slot_of[i]];
        slot->stage = op->stage, slot->cls = op->type, slot->seq = op->seq;
        slot->stream = e->stream[i], slot->peers = e->peers[i];
        slot->mc = op->mc, slot->mb = op->mb, slot->gmc = op->gmc;
        slot->lonely = e->lonely[i];
        if (op->stage + 1 > m->stages) m->stages = op->stage + 1;
    }
    m->model_stages = m->stages;
    for (size_t k = 0; k < e->n_edges; k++)
        sorted[k] = (struct hm_edge){slot_of[e->edge[k].after], slot_of[e->edge[k].before]};
    qsort(sorted, e->n_edges, sizeof *sorted, by_after);
    for (size_t k = 0; k < e->n_edges; k++) {
        if (k && sorted[k].after == sorted[k - 1].after && sorted[k].before == sorted[k - 1].before) continue;
        struct hm_slot *slot = &m->slot[sorted[k].after];
        if (slot->n_deps++ == 0) slot->first_dep = (uint32_t)m->n_deps;
        m->dep[m->n_deps++] = sorted[k].before;
    }
    hm_free(slot_of);
    hm_free(sorted);
    return 0;
}

int hm_job_assemble(struct hm_job *job, const struct hm_edges *e, const char *path, struct hm_error *err) {
    struct draft d = {.e = e};
    struct heap heap = {0};
    int status = -1;
    if (e->failed || make_nodes(&d) != 0 || make_forward_edges(&d) != 0 ||
        !(heap.item = hm_alloc(d.n, sizeof *heap.item)))
        hm_fail_memory(err);
    else if (sort_nodes(&d, &heap) < d.n)
        report_cycle(job, &d, path, err);
    else if (assemble(&d, job) != 0)
        hm_fail_memory(err);
    else
        status = 0;
    hm_free(heap.item);
    draft_free(&d);
    return status;
}
