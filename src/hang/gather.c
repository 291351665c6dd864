/* gather.c - dumps of many ranks put together: which groups there are, who is in them, and how far each member came. */
#include "hang.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ranks ---- */

static int by_number(const void *a, const void *b) {
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

int scene_rank(const struct scene *s, int number) {
    size_t low = 0, high = s->n_ranks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->rank[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n_ranks && s->rank[low].number == number ? (int)low : NO_INDEX;
}

/* All ranks that have a dump, or that a group names. */
static int gather_ranks(struct scene *s, struct hm_error *err) {
    size_t total = s->n_dumps, n = 0, kept = 0;
    for (size_t d = 0; d < s->n_dumps; d++)
        for (size_t g = 0; g < s->dump[d]->n_groups; g++) total += s->dump[d]->group[g].n_ranks;
    int *number = hm_alloc(total, sizeof *number);
    if (!number) return hm_fail_memory(err);
    for (size_t d = 0; d < s->n_dumps; d++) {
        number[n++] = s->dump[d]->rank;
        for (size_t g = 0; g < s->dump[d]->n_groups; g++)
            for (size_t k = 0; k < s->dump[d]->group[g].n_ranks; k++) number[n++] = s->dump[d]->group[g].rank[k];
    }
    qsort(number, n, sizeof *number, by_number);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || number[kept - 1] != number[i]) number[kept++] = number[i];
    s->rank = hm_alloc(kept, sizeof *s->rank);
    for (size_t i = 0; s->rank && i < kept; i++)
        s->rank[i] = (struct rank_state){.number = number[i], .first_open = SIZE_MAX};
    s->n_ranks = kept;
    hm_free(number);
    if (!s->rank) return hm_fail_memory(err);
    for (size_t d = 0; d < s->n_dumps; d++) {
        struct rank_state *r = &s->rank[scene_rank(s, s->dump[d]->rank)];
        r->has_dump = true;
        r->n_entries += s->dump[d]->n_entries;
    }
    return 0;
}

/* ---- groups ---- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ b[i]) * 0x100000001b3ULL; /* FNV-1a */
    return hash;
}

static const struct hm_flight_group *described(const struct hm_flight_dump *dump, const char *name) {
    for (size_t g = 0; g < dump->n_groups; g++)
        if (strcmp(dump->group[g].name, name) == 0) return &dump->group[g];
    return NULL;
}

static bool has_member(const struct hm_flight_group *g, int number) {
    for (size_t k = 0; k < g->n_ranks; k++)
        if (g->rank[k] == number) return true;
    return false;
}

/* The description of a group by the rank's own dump, else by another that has this rank in it. */
static const struct hm_flight_group *describe(const struct scene *s, const struct hm_flight_dump *dump,
                                              const char *name) {
    const struct hm_flight_group *own = described(dump, name);
    if (own && own->n_ranks > 0) return own;
    for (size_t d = 0; d < s->n_dumps; d++) {
        const struct hm_flight_group *other = described(s->dump[d], name);
        if (other && has_member(other, dump->rank)) return other;
    }
    return NULL;
}

struct group_table {
    size_t *slot, n_slots; /* index of the group + 1 */
    size_t capacity;
};

static int set_members(const struct scene *s, struct group *g, const struct hm_flight_group *described_as,
                       struct hm_error *err) {
    size_t n = described_as ? described_as->n_ranks : 0;
    g->member = hm_alloc(n, sizeof *g->member);
    if (!g->member) return hm_fail_memory(err);
    g->ascending = true;
    for (size_t k = 0; k < n; k++) {
        g->member[k] = scene_rank(s, described_as->rank[k]);
        g->ascending &= k == 0 || g->member[k] > g->member[k - 1];
    }
    g->n_members = n;
    return 0;
}

static int widen(struct scene *s, struct group_table *t, struct hm_error *err) {
    size_t wanted = t->n_slots ? 2 * t->n_slots : 256;
    size_t *slot = hm_alloc(wanted, sizeof *slot);
    if (!slot) return hm_fail_memory(err);
    for (size_t g = 0; g < s->n_groups; g++) {
        size_t at = s->group[g].hash & (wanted - 1);
        while (slot[at]) at = (at + 1) & (wanted - 1);
        slot[at] = g + 1;
    }
    hm_free(t->slot);
    t->slot = slot;
    t->n_slots = wanted;
    return 0;
}

/* Finds or makes the group of an entry. */
static int group_of(struct scene *s, struct group_table *t, const struct hm_flight_entry *e,
                    const struct hm_flight_group *as, int *index, struct hm_error *err) {
    uint64_t hash = mix(0xcbf29ce484222325ULL, e->library, strlen(e->library) + 1);
    hash = mix(hash, e->group, strlen(e->group) + 1);
    if (as) hash = mix(hash, as->rank, as->n_ranks * sizeof *as->rank);
    if (2 * (s->n_groups + 1) > t->n_slots && widen(s, t, err) != 0) return -1;
    if (!t->slot) return hm_fail_memory(err); /* never: it was widened */
    size_t at = hash & (t->n_slots - 1);
    for (; t->slot[at]; at = (at + 1) & (t->n_slots - 1)) {
        struct group *g = &s->group[t->slot[at] - 1];
        if (g->hash == hash && strcmp(g->name, e->group) == 0 && strcmp(g->library, e->library) == 0) {
            *index = (int)t->slot[at] - 1;
            return 0;
        }
    }
    struct group *grown = hm_grow(s->group, s->n_groups, &t->capacity, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    s->group = grown;
    struct group *g = &s->group[s->n_groups];
    *g = (struct group){.library = e->library, .name = e->group, .description = e->description, .hash = hash};
    if (as && !*g->description) g->description = as->description;
    t->slot[at] = ++s->n_groups;
    *index = (int)s->n_groups - 1;
    return set_members(s, g, as, err);
}

/* ---- items ---- */

static int gather_items(struct scene *s, struct group_table *t, struct hm_error *err) {
    size_t total = 0;
    for (size_t d = 0; d < s->n_dumps; d++) total += s->dump[d]->n_entries;
    s->item = hm_alloc(total, sizeof *s->item);
    if (!s->item) return hm_fail_memory(err);
    for (size_t d = 0; d < s->n_dumps; d++) {
        const struct hm_flight_dump *dump = s->dump[d];
        const struct hm_flight_group *as = NULL;
        const char *as_name = NULL;
        for (size_t i = 0; i < dump->n_entries; i++) {
            const struct hm_flight_entry *e = &dump->entry[i];
            if (!as_name || strcmp(as_name, e->group) != 0) {
                as = describe(s, dump, e->group);
                as_name = e->group;
            }
            struct item *item = &s->item[s->n_items++];
            *item = (struct item){.entry = e, .rank = scene_rank(s, dump->rank), .p2p = e->is_p2p};
            item->seq = item->p2p ? e->p2p : e->collective;
            item->open = e->state != HM_FLIGHT_COMPLETED && !e->retired;
            if (group_of(s, t, e, as, &item->group, err) != 0) return -1;
            if (item->p2p) s->group[item->group].has_p2p = true;
            int64_t stamps[] = {e->created_ns, e->started_ns, e->completed_ns};
            for (size_t k = 0; k < 3; k++)
                if (stamps[k] > s->last_ns) s->last_ns = stamps[k];
        }
    }
    return 0;
}

static int by_place(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->p2p != y->p2p) return x->p2p ? 1 : -1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->entry->record > y->entry->record) - (x->entry->record < y->entry->record);
}

static bool same_cell(const struct item *a, const struct item *b) {
    return a->group == b->group && a->p2p == b->p2p && a->seq == b->seq && a->rank == b->rank;
}

/* The same entry twice: a dump given twice, or a later one of the same recorder. The one that came further stays. */
static void drop_copies(struct scene *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->n_items; i++) {
        struct item *last = kept ? &s->item[kept - 1] : NULL;
        if (last && same_cell(last, &s->item[i]) && last->entry->record == s->item[i].entry->record &&
            last->entry->created_ns == s->item[i].entry->created_ns) {
            if (last->open && !s->item[i].open) *last = s->item[i];
            continue;
        }
        s->item[kept++] = s->item[i];
    }
    s->n_items = kept;
}

static bool is_coalesced(const struct item *i) {
    return strcmp(i->entry->op, "coalesced") == 0;
}

/* The parts of a coalesced call have no events of their own: they stay "scheduled" for ever, and are done when the entry
 * that closes the call is. That entry itself says nothing about peers. */
static void settle_coalesced(struct scene *s) {
    for (size_t i = 0, end; i < s->n_items; i = end) {
        bool closed = false, closing = false;
        for (end = i; end < s->n_items && same_cell(&s->item[i], &s->item[end]); end++) {
            s->item[end].part = (int)(end - i);
            closing |= is_coalesced(&s->item[end]);
            closed |= is_coalesced(&s->item[end]) && !s->item[end].open;
        }
        for (size_t k = i; closing && k < end; k++)
            if (closed || (is_coalesced(&s->item[k]) && end - i > 1)) s->item[k].open = false;
    }
}

/* Collectives of one communicator run in order, so one that stays "scheduled" before one that completed is done too. Gloo
 * runs a group on several threads: there the rule does not hold. */
static int settle_by_order(struct scene *s, struct hm_error *err) {
    int64_t *done = hm_alloc(s->n_ranks, sizeof *done);
    if (!done) return hm_fail_memory(err);
    for (size_t i = 0, end; i < s->n_items; i = end) {
        const struct item *first = &s->item[i];
        for (end = i; end < s->n_items && s->item[end].group == first->group && s->item[end].p2p == first->p2p;) end++;
        if (first->p2p || strcmp(s->group[first->group].library, "gloo") == 0) continue;
        for (size_t k = i; k < end; k++) done[s->item[k].rank] = -1;
        for (size_t k = i; k < end; k++)
            if (s->item[k].entry->state == HM_FLIGHT_COMPLETED && s->item[k].seq > done[s->item[k].rank])
                done[s->item[k].rank] = s->item[k].seq;
        for (size_t k = i; k < end; k++)
            if (s->item[k].seq < done[s->item[k].rank]) s->item[k].open = false;
    }
    hm_free(done);
    return 0;
}

static bool earlier(const struct item *a, const struct item *b) {
    if (a->entry->created_ns != b->entry->created_ns) return a->entry->created_ns < b->entry->created_ns;
    return a->entry->record < b->entry->record;
}

static void find_first_open(struct scene *s) {
    for (size_t i = 0; i < s->n_items; i++) {
        struct rank_state *r = &s->rank[s->item[i].rank];
        if (!s->item[i].open) continue;
        r->n_open++;
        if (r->first_open == SIZE_MAX || earlier(&s->item[i], &s->item[r->first_open])) r->first_open = i;
    }
}

/* ---- places ---- */

int group_position(const struct group *g, int rank) {
    if (g->ascending) {
        size_t low = 0, high = g->n_members;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (g->member[middle] < rank)
                low = middle + 1;
            else
                high = middle;
        }
        return low < g->n_members && g->member[low] == rank ? (int)low : NO_INDEX;
    }
    for (size_t k = 0; k < g->n_members; k++)
        if (g->member[k] == rank) return (int)k;
    return NO_INDEX;
}

/* Groups that no dump describes: their members are those that have an entry of it. */
static int infer_members(struct scene *s, struct hm_error *err) {
    for (size_t g = 0, i = 0; g < s->n_groups; g++) {
        bool unknown = s->group[g].n_members == 0;
        size_t capacity = 0;
        for (; i < s->n_items && s->item[i].group == (int)g; i++) {
            struct group *group = &s->group[g];
            if (!unknown || group_position(group, s->item[i].rank) != NO_INDEX) continue;
            if (capacity == 0) { /* hm_grow owns its array from the start */
                hm_free(group->member);
                group->member = NULL;
            }
            int *grown = hm_grow(group->member, group->n_members, &capacity, sizeof *grown);
            if (!grown) return hm_fail_memory(err);
            group->member = grown;
            group->ascending = false;
            group->member[group->n_members++] = s->item[i].rank;
        }
    }
    return 0;
}

static struct place *place_of(const struct scene *s, size_t group, int rank) {
    int position = group_position(&s->group[group], rank);
    return position == NO_INDEX ? NULL : &s->place[s->first_place[group] + (size_t)position];
}

static int by_id(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Which group a status belongs to: its number is this process's own. An entry tells (it has both); else, groups are numbered
 * in the order of their making, which is the order of their names where names are numbers. Fills name[i] for status i;
 * NULL: not known. */
static int name_statuses(const struct hm_flight_dump *d, const char **name, struct hm_error *err) {
    size_t n = d->n_statuses;
    int64_t *id = hm_alloc(2 * n + 1, sizeof *id), *number = id ? id + n : NULL;
    if (!id) return hm_fail_memory(err);
    bool in_order = n == d->n_groups;
    for (size_t i = 0; i < n; i++) {
        id[i] = d->status[i].group_id;
        char *end;
        if (in_order) number[i] = strtoll(d->group[i].name, &end, 10);
        if (in_order && (end == d->group[i].name || *end)) in_order = false;
    }
    qsort(id, n, sizeof *id, by_id);
    if (in_order) qsort(number, n, sizeof *number, by_id);
    for (size_t i = 0; i < n; i++) {
        name[i] = NULL;
        for (size_t e = 0; e < d->n_entries && !name[i]; e++)
            if (d->entry[e].group_id == d->status[i].group_id) name[i] = d->entry[e].group;
        size_t at = 0;
        while (at < n && id[at] != d->status[i].group_id) at++;
        if (name[i] && in_order && strtoll(name[i], NULL, 10) != number[at]) in_order = false;
    }
    for (size_t i = 0; in_order && i < n; i++) {
        size_t at = 0;
        while (at < n && id[at] != d->status[i].group_id) at++;
        for (size_t g = 0; g < n && !name[i]; g++)
            if (strtoll(d->group[g].name, NULL, 10) == number[at]) name[i] = d->group[g].name;
    }
    hm_free(id);
    return 0;
}

/* A status counts sends and receives with collectives, so it says nothing in a group that has them. */
static int take_statuses(struct scene *s, struct hm_error *err) {
    for (size_t d = 0; d < s->n_dumps; d++) {
        const struct hm_flight_dump *dump = s->dump[d];
        const char **name = hm_alloc(dump->n_statuses, sizeof *name);
        if (!name || name_statuses(dump, name, err) != 0) {
            hm_free(name);
            return hm_fail_memory(err);
        }
        int rank = scene_rank(s, dump->rank);
        for (size_t i = 0; i < dump->n_statuses; i++) {
            for (size_t g = 0; name[i] && g < s->n_groups; g++) {
                if (s->group[g].has_p2p || strcmp(s->group[g].name, name[i]) != 0) continue;
                struct place *p = place_of(s, g, rank);
                if (!p || dump->status[i].enqueued < 0) continue;
                p->seen = true;
                if (dump->status[i].enqueued > p->enqueued) p->enqueued = dump->status[i].enqueued;
                if (dump->status[i].completed > p->completed) p->completed = dump->status[i].completed;
            }
        }
        hm_free(name);
    }
    return 0;
}

static int gather_places(struct scene *s, struct hm_error *err) {
    s->first_place = hm_alloc(s->n_groups + 1, sizeof *s->first_place);
    if (!s->first_place) return hm_fail_memory(err);
    size_t total = 0;
    for (size_t g = 0; g < s->n_groups; g++) {
        s->first_place[g] = total;
        total += s->group[g].n_members;
    }
    s->place = hm_alloc(total, sizeof *s->place);
    if (!s->place) return hm_fail_memory(err);
    for (size_t i = 0; i < total; i++) s->place[i] = (struct place){-1, -1, false};
    for (size_t i = 0; i < s->n_items; i++) {
        const struct item *item = &s->item[i];
        struct place *p = item->p2p ? NULL : place_of(s, (size_t)item->group, item->rank);
        if (!p) continue;
        p->seen = true;
        if (item->seq > p->enqueued) p->enqueued = item->seq;
        if (!item->open && item->seq > p->completed) p->completed = item->seq;
    }
    return take_statuses(s, err);
}

int scene_gather(struct scene *s, struct hm_error *err) {
    if (gather_ranks(s, err) != 0) return -1;
    struct group_table table = {0};
    int status = gather_items(s, &table, err);
    hm_free(table.slot);
    if (status != 0) return -1;
    qsort(s->item, s->n_items, sizeof *s->item, by_place);
    drop_copies(s);
    settle_coalesced(s);
    if (settle_by_order(s, err) != 0) return -1;
    qsort(s->item, s->n_items, sizeof *s->item, by_place); /* the parts are numbered now */
    find_first_open(s);
    if (infer_members(s, err) != 0) return -1;
    return gather_places(s, err);
}

void scene_free(struct scene *s) {
    for (size_t d = 0; d < s->n_dumps; d++) hm_flight_free(s->dump[d]);
    for (size_t g = 0; g < s->n_groups; g++) hm_free(s->group[g].member);
    hm_free(s->dump);
    hm_free(s->rank);
    hm_free(s->group);
    hm_free(s->item);
    hm_free(s->place);
    hm_free(s->first_place);
    *s = (struct scene){0};
}
