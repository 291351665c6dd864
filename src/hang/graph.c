/* graph.c - who keeps the others waiting.
 *
 * Each rank is held up by the earliest entry that it has in line and that is not done; what stands behind it waits in the same
 * queue. That entry's collective (or its peer, of a send or receive) says whom the rank waits for:
 *  - members that have not come: they are absent;
 *  - else members that have come but are themselves held up by something earlier;
 *  - nobody, if other members have finished this very collective: the rank's own device does not go on (a device that
 *    failed answers no more, so that all its entries stay "scheduled");
 *  - nobody, if it holds up every member: all came, and the transfer itself does not end.
 * "Waits for" is a graph of ranks and collectives. Who is waited for and waits for nobody (a strongly connected component
 * without an arrow out of it) is a suspect; its score is the share of the others that wait for it. Its victims, however far
 * behind they are, are no suspects.
 */
#include "graph.h"

enum standing { IS_PAST, IS_OPEN, IS_ABSENT, IS_MISSING };

/* ---- knots ---- */

/* A rank's own entry; of a coalesced call its first part. */
static const struct item *item_of(const struct scene *s, const struct knot *k, int rank) {
    size_t low = k->first, high = k->end;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->item[middle].part == 0 && s->item[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < k->end && s->item[low].rank == rank ? &s->item[low] : NULL;
}

static enum standing standing_of(const struct scene *s, const struct knot *k, int rank) {
    const struct item *first = &s->item[k->first];
    const struct item *own = item_of(s, k, rank);
    if (own) return own->open ? IS_OPEN : IS_PAST;
    const struct group *g = &s->group[first->group];
    int position = group_position(g, rank);
    const struct place *p = &s->place[s->first_place[first->group] + (size_t)position];
    if (p->seen) return first->seq <= p->enqueued ? IS_PAST : IS_ABSENT;
    return s->rank[rank].has_dump ? IS_ABSENT : IS_MISSING;
}

static int push_rank(int **list, size_t *n, int rank, size_t most, struct hm_error *err) {
    if (!*list) *list = hm_alloc(most, sizeof **list);
    if (!*list) return hm_fail_memory(err);
    (*list)[(*n)++] = rank;
    return 0;
}

static bool holds_up(const struct scene *s, const struct knot *k, int rank) {
    size_t first = s->rank[rank].first_open;
    return first != SIZE_MAX && first >= k->first && first < k->end;
}

static int look_at_members(struct graph *g, struct knot *k, struct hm_error *err) {
    const struct scene *s = g->s;
    const struct group *group = &s->group[s->item[k->first].group];
    size_t n_missing = 0;
    for (size_t m = 0; m < group->n_members; m++) {
        int rank = group->member[m], status = 0;
        switch (standing_of(s, k, rank)) {
        case IS_PAST:
            k->n_past++;
            break;
        case IS_ABSENT:
            status = push_rank(&k->absent, &k->n_absent, rank, group->n_members, err);
            break;
        case IS_MISSING:
            n_missing++;
            break;
        case IS_OPEN:
            k->n_open++;
            if (holds_up(s, k, rank))
                k->n_waiting++;
            else
                status = push_rank(&k->held, &k->n_held, rank, group->n_members, err);
        }
        if (status != 0) return -1;
    }
    if (k->n_absent > 0 || n_missing == 0) return 0;
    /* nobody that left a dump is absent: it is those that left none */
    k->missing = true;
    for (size_t m = 0; m < group->n_members; m++)
        if (standing_of(s, k, group->member[m]) == IS_MISSING &&
            push_rank(&k->absent, &k->n_absent, group->member[m], group->n_members, err) != 0)
            return -1;
    return 0;
}

static struct knot *new_knot(struct graph *g, size_t first, size_t end) {
    struct knot *grown = hm_grow(g->knot, g->n_knots, &g->capacity, sizeof *grown);
    if (!grown) return NULL;
    g->knot = grown;
    g->knot[g->n_knots] = (struct knot){.first = first, .end = end};
    return &g->knot[g->n_knots++];
}

static bool same_collective(const struct item *a, const struct item *b) {
    return a->group == b->group && a->p2p == b->p2p && a->seq == b->seq;
}

/* All came and it holds up all of them. Where devices report that they began it, those that did not are waited for. */
static int look_at_starts(struct graph *g, struct knot *k, struct hm_error *err) {
    const struct scene *s = g->s;
    size_t n_started = 0;
    for (size_t i = k->first; i < k->end; i++) n_started += s->item[i].entry->state == HM_FLIGHT_STARTED;
    if (n_started == 0 || n_started == k->end - k->first) return 0;
    for (size_t i = k->first; i < k->end; i++) {
        if (s->item[i].entry->state == HM_FLIGHT_STARTED) continue;
        g->alone[s->item[i].rank] = true;
        if (push_rank(&k->held, &k->n_held, s->item[i].rank, k->end - k->first, err) != 0) return -1;
    }
    return 0;
}

static int add_collective(struct graph *g, size_t first, size_t end, struct hm_error *err) {
    const struct scene *s = g->s;
    bool any_open = false;
    for (size_t i = first; i < end; i++) any_open |= s->item[i].open;
    if (!any_open) return 0;
    struct knot *k = new_knot(g, first, end);
    if (!k) return hm_fail_memory(err);
    if (look_at_members(g, k, err) != 0) return -1;
    for (size_t i = first; i < end; i++) {
        const struct item *item = &s->item[i];
        if (!item->open) continue;
        if (k->n_past > 0) g->past_open[item->rank]++;
        if (s->rank[item->rank].first_open != i) continue;
        g->blocked_by[item->rank] = (int)(g->n_knots - 1);
        g->alone[item->rank] = k->n_past > 0 && k->n_absent == 0;
    }
    bool all_held_up = k->n_absent == 0 && k->n_past == 0 && k->n_held == 0 && k->n_waiting == k->end - k->first;
    return all_held_up ? look_at_starts(g, k, err) : 0;
}

/* ---- sends and receives ---- */

/* The other side of a send or receive: a rank, NO_INDEX if the name does not say it. */
static int peer_of(const struct scene *s, const struct item *i) {
    const struct group *g = &s->group[i->group];
    int a = i->entry->from, b = i->entry->to;
    if (a < 0 || b < 0 || (size_t)a >= g->n_members || (size_t)b >= g->n_members) return NO_INDEX;
    if (g->member[a] == i->rank) return g->member[b];
    return g->member[b] == i->rank ? g->member[a] : NO_INDEX;
}

/* Whether the peer has the other end of this direction in line, and whether that holds it up. */
static enum standing peer_standing(const struct scene *s, const struct item *mine, int peer, bool *holds) {
    *holds = false;
    enum standing found = s->rank[peer].has_dump ? IS_ABSENT : IS_MISSING;
    size_t low = 0, high = s->n_items; /* the first send or receive of the group */
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct item *i = &s->item[middle];
        if (i->group < mine->group || (i->group == mine->group && !i->p2p))
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t k = low; k < s->n_items && s->item[k].group == mine->group; k++) {
        const struct item *i = &s->item[k];
        if (i->rank != peer || !i->open || i->entry->from != mine->entry->from || i->entry->to != mine->entry->to)
            continue;
        found = IS_OPEN;
        *holds |= s->rank[peer].first_open == k;
    }
    return found;
}

static int add_p2p(struct graph *g, size_t index, struct hm_error *err) {
    const struct scene *s = g->s;
    const struct item *i = &s->item[index];
    if (!i->open || s->rank[i->rank].first_open != index) return 0;
    struct knot *k = new_knot(g, index, index + 1);
    if (!k) return hm_fail_memory(err);
    g->blocked_by[i->rank] = (int)(g->n_knots - 1);
    k->n_waiting = k->n_open = 1;
    int peer = peer_of(s, i);
    if (peer == NO_INDEX) return 0;
    bool holds;
    enum standing standing = peer_standing(s, i, peer, &holds);
    k->missing = standing == IS_MISSING;
    if (standing != IS_OPEN) return push_rank(&k->absent, &k->n_absent, peer, 1, err);
    return holds ? 0 : push_rank(&k->held, &k->n_held, peer, 1, err);
}

int graph_build(struct graph *g, struct hm_error *err) {
    const struct scene *s = g->s;
    g->blocked_by = hm_alloc(s->n_ranks, sizeof *g->blocked_by);
    g->past_open = hm_alloc(s->n_ranks, sizeof *g->past_open);
    g->alone = hm_alloc(s->n_ranks, sizeof *g->alone);
    if (!g->blocked_by || !g->past_open || !g->alone) return hm_fail_memory(err);
    for (size_t r = 0; r < s->n_ranks; r++) g->blocked_by[r] = NO_INDEX;
    for (size_t i = 0, end; i < s->n_items; i = end) {
        end = i + 1;
        if (s->item[i].p2p) {
            if (add_p2p(g, i, err) != 0) return -1;
            continue;
        }
        while (end < s->n_items && same_collective(&s->item[i], &s->item[end])) end++;
        if (add_collective(g, i, end, err) != 0) return -1;
    }
    return 0;
}

void graph_free(struct graph *g) {
    for (size_t k = 0; k < g->n_knots; k++) {
        hm_free(g->knot[k].absent);
        hm_free(g->knot[k].held);
    }
    hm_free(g->knot);
    hm_free(g->blocked_by);
    hm_free(g->past_open);
    hm_free(g->alone);
}

/* ---- the graph: rank -> the knot that holds it up -> who is absent, else who is held ---- */

static size_t arrows_of(const struct graph *g, size_t rank, const int **to) {
    int b = g->blocked_by[rank];
    if (b == NO_INDEX || g->alone[rank]) return 0;
    const struct knot *k = &g->knot[b];
    *to = k->n_absent ? k->absent : k->held;
    return k->n_absent ? k->n_absent : k->n_held;
}

/* Tarjan's strongly connected components of the ranks, without recursion. */
struct components {
    int *number, *low, *of, *stack, *call;
    size_t *next;
    int n, counter;
};

static bool begin_components(struct components *c, size_t n) {
    c->number = hm_alloc(5 * n, sizeof *c->number);
    c->next = hm_alloc(n, sizeof *c->next);
    if (!c->number || !c->next) return false;
    c->low = c->number + n;
    c->of = c->low + n;
    c->stack = c->of + n;
    c->call = c->stack + n;
    for (size_t r = 0; r < n; r++) c->number[r] = c->of[r] = -1;
    return true;
}

static void end_components(struct components *c) {
    hm_free(c->number);
    hm_free(c->next);
}

static void visit(const struct graph *g, struct components *c, int root, size_t *n_stack) {
    size_t n_call = 0;
    c->call[n_call++] = root;
    while (n_call > 0) {
        int r = c->call[n_call - 1];
        const int *to = NULL;
        size_t n = arrows_of(g, (size_t)r, &to);
        if (c->number[r] < 0) {
            c->number[r] = c->low[r] = c->counter++;
            c->stack[(*n_stack)++] = r;
        }
        bool descended = false;
        while (c->next[r] < n && !descended) {
            int t = to[c->next[r]];
            if (c->number[t] < 0) {
                c->call[n_call++] = t;
                descended = true;
                continue;
            }
            if (c->of[t] < 0 && c->low[t] < c->low[r]) c->low[r] = c->low[t];
            c->next[r]++;
        }
        if (descended) continue;
        n_call--;
        if (c->low[r] != c->number[r]) continue;
        for (int popped = -1; popped != r;) {
            popped = c->stack[--*n_stack];
            c->of[popped] = c->n;
        }
        c->n++;
    }
}

/* ---- who waits for whom, in all ---- */

/* The arrows turned round: who points at rank r stands at from[first[r]] .. from[first[r + 1] - 1]. */
struct reversed {
    size_t *first;
    int *from;
};

static int reverse(const struct graph *g, struct reversed *v, struct hm_error *err) {
    size_t n = g->s->n_ranks, total = 0;
    const int *to = NULL;
    for (size_t r = 0; r < n; r++) total += arrows_of(g, r, &to);
    v->first = hm_alloc(n + 2, sizeof *v->first);
    v->from = hm_alloc(total, sizeof *v->from);
    if (!v->first || !v->from) return hm_fail_memory(err);
    for (size_t r = 0; r < n; r++)
        for (size_t k = 0, m = arrows_of(g, r, &to); k < m; k++) v->first[to[k] + 2]++;
    for (size_t r = 0; r < n; r++) v->first[r + 2] += v->first[r + 1];
    for (size_t r = 0; r < n; r++)
        for (size_t k = 0, m = arrows_of(g, r, &to); k < m; k++) v->from[v->first[to[k] + 1]++] = (int)r;
    return 0;
}

/* How many ranks reach `root`, itself not counted. */
static size_t count_victims(const struct reversed *v, int root, int *queue, int *seen) {
    size_t n = 0, head = 0;
    seen[root] = root + 1;
    for (queue[n++] = root; head < n; head++)
        for (size_t k = v->first[queue[head]]; k < v->first[queue[head] + 1]; k++)
            if (seen[v->from[k]] != root + 1) {
                seen[v->from[k]] = root + 1;
                queue[n++] = v->from[k];
            }
    return n - 1;
}

/* A component is a root if no arrow leaves it. */
static int weigh(const struct graph *g, struct roots *roots, const struct components *c, struct hm_error *err) {
    size_t n = g->s->n_ranks;
    struct reversed v = {0};
    bool *leaves = hm_alloc((size_t)c->n, sizeof *leaves);
    int *queue = hm_alloc(2 * n, sizeof *queue), *seen = queue ? queue + n : NULL;
    int status = leaves && queue ? reverse(g, &v, err) : hm_fail_memory(err);
    const int *to = NULL;
    for (size_t r = 0; status == 0 && r < n; r++) {
        roots->circle[r] = c->of[r];
        roots->circle_size[c->of[r]]++;
        for (size_t k = 0, m = arrows_of(g, r, &to); k < m; k++) leaves[c->of[r]] |= c->of[to[k]] != c->of[r];
    }
    for (size_t r = 0; status == 0 && r < n; r++)
        if (!leaves[c->of[r]]) roots->n_victims[r] = count_victims(&v, (int)r, queue, seen);
    hm_free(leaves);
    hm_free(queue);
    hm_free(v.first);
    hm_free(v.from);
    return status;
}

int graph_find_roots(const struct graph *g, struct roots *roots, struct hm_error *err) {
    size_t n = g->s->n_ranks, n_stack = 0;
    struct components c = {0};
    roots->n_victims = hm_alloc(n, sizeof *roots->n_victims);
    roots->circle = hm_alloc(n, sizeof *roots->circle);
    roots->circle_size = hm_alloc(n, sizeof *roots->circle_size);
    int status = -1;
    if (begin_components(&c, n) && roots->n_victims && roots->circle && roots->circle_size) {
        for (size_t r = 0; r < n; r++)
            if (c.number[r] < 0) visit(g, &c, (int)r, &n_stack);
        status = weigh(g, roots, &c, err);
    } else {
        (void)hm_fail_memory(err);
    }
    end_components(&c);
    return status;
}

void roots_free(struct roots *roots) {
    hm_free(roots->n_victims);
    hm_free(roots->circle);
    hm_free(roots->circle_size);
}
