/* arrivals_match.c - which collectives of the ranks are one.
 *
 * Within a group all ranks run the same collectives in the same order. Where the recording numbers them, the numbers decide. Else, if the
 * ranks' sequences of names are the same, the n-th of each are one. Else (a recording that began or ended at different moments) the same
 * is tried step by step, and ranks that ran something else in a step than most are left out there. */
#include "arrivals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A collective of a rank, ready to be compared. */
struct item {
    uint32_t group, name, rank;
    int64_t step, seq;
    int64_t launch_ns, end_ns;
    bool flying;
};

struct items {
    struct item *item;
    size_t n;
};

enum { OUTSIDE = -1 };

static int intern(struct hm_meeting *m, const char *name, uint32_t *index) {
    for (size_t i = 0; i < m->n_names; i++)
        if (strcmp(m->name[i], name) == 0) return *index = (uint32_t)i, 0;
    char **grown = hm_grow(m->name, m->n_names, &m->name_capacity, sizeof *grown);
    if (grown) m->name = grown;
    if (!grown || !(m->name[m->n_names] = hm_strdup(name))) return -1;
    *index = (uint32_t)m->n_names++;
    return 0;
}

/* The step that had begun last at that time. */
static int64_t step_at(const struct hm_kineto_rank *k, int64_t at) {
    size_t low = 0, high = k->n_steps;
    if (k->n_steps == 0) return 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (k->step[middle].start_ns <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? OUTSIDE : k->step[low - 1].number;
}

static int by_group_rank_time(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->group != y->group) return (x->group > y->group) - (x->group < y->group);
    if (x->rank != y->rank) return (x->rank > y->rank) - (x->rank < y->rank);
    if (x->launch_ns != y->launch_ns) return (x->launch_ns > y->launch_ns) - (x->launch_ns < y->launch_ns);
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* All collectives of all ranks, by group, rank and time. */
static int list_items(struct hm_meeting *m, struct items *all, struct hm_error *err) {
    size_t n = 0;
    for (size_t r = 0; r < m->n_ranks; r++) n += m->rank[r].n_collectives;
    if (!(all->item = hm_alloc(n + 1, sizeof *all->item))) return hm_fail_memory(err);
    for (size_t r = 0; r < m->n_ranks; r++) {
        const struct hm_kineto_rank *k = &m->rank[r];
        uint32_t *common = hm_alloc(k->n_names, sizeof *common);
        bool good = common != NULL;
        for (size_t i = 0; good && i < k->n_names; i++) good = intern(m, k->name[i], &common[i]) == 0;
        int64_t latest_end = INT64_MIN;
        for (size_t i = 0; good && i < k->n_collectives; i++) {
            const struct hm_kineto_collective *c = &k->collective[i];
            all->item[all->n++] = (struct item){.group = common[c->group],
                                                .name = common[c->name],
                                                .rank = (uint32_t)r,
                                                .step = step_at(k, c->launch_ns),
                                                .seq = c->seq,
                                                .launch_ns = c->launch_ns,
                                                .end_ns = c->end_ns,
                                                .flying = latest_end > c->launch_ns};
            if (c->end_ns > latest_end) latest_end = c->end_ns;
        }
        hm_free(common);
        if (!good) return hm_fail_memory(err);
    }
    if (all->n) qsort(all->item, all->n, sizeof *all->item, by_group_rank_time);
    return 0;
}

/* ---- matching ---- */

static double seconds(const struct hm_meeting *m, const struct item *i, int64_t at_ns) {
    return 1e-9 * (double)(at_ns + m->rank[i->rank].base_ns - m->origin_ns);
}

static int add_member(struct hm_meeting *m, const struct item *i) {
    struct hm_member *grown = hm_grow(m->member, m->n_members, &m->member_capacity, sizeof *grown);
    if (!grown) return -1;
    m->member = grown;
    m->member[m->n_members++] =
        (struct hm_member){i->rank, seconds(m, i, i->launch_ns), seconds(m, i, i->end_ns), i->flying};
    return 0;
}

static int begin_matched(struct hm_meeting *m, const struct item *i, int64_t seq) {
    struct hm_matched *grown = hm_grow(m->matched, m->n_matched, &m->matched_capacity, sizeof *grown);
    if (!grown) return -1;
    m->matched = grown;
    m->matched[m->n_matched++] = (struct hm_matched){m->n_members, 0, i->group, i->name, i->step, seq};
    return 0;
}

/* The items of one rank: a run within the list. */
struct run {
    const struct item *item;
    size_t n;
};

static bool same_names(const struct run *a, const struct run *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->item[i].name != b->item[i].name) return false;
    return true;
}

/* The runs that are alike become collectives, the k-th items of all one each. Steps are those of the first rank. */
static int match_alike(struct hm_meeting *m, const struct run *run, const bool *take, size_t runs) {
    size_t first = 0;
    while (first < runs && !take[first]) first++;
    int64_t step = INT64_MIN, seq = 0;
    for (size_t k = 0; first < runs && k < run[first].n; k++) {
        const struct item *lead = &run[first].item[k];
        if (lead->step != step) seq = 0;
        step = lead->step;
        if (lead->step == OUTSIDE) {
            m->outside++;
            continue;
        }
        if (begin_matched(m, lead, lead->seq >= 0 ? lead->seq : seq++) != 0) return -1;
        struct hm_matched *c = &m->matched[m->n_matched - 1];
        for (size_t r = first; r < runs; r++)
            if (take[r] && (c->n++, add_member(m, &run[r].item[k]) != 0)) return -1;
    }
    return 0;
}

/* Chooses the runs that are like the most; the others are left out. */
static int match_majority(struct hm_meeting *m, const struct run *run, size_t runs, bool *take) {
    size_t best = 0, most = 0, taken = 0;
    for (size_t a = 0; a < runs; a++) {
        size_t like = 0;
        for (size_t b = 0; b < runs; b++) like += same_names(&run[a], &run[b]);
        if (like > most) most = like, best = a;
        if (like * 2 > runs) break;
    }
    for (size_t r = 0; r < runs; r++) {
        take[r] = same_names(&run[best], &run[r]);
        taken += take[r];
        if (!take[r]) m->unmatched += run[r].n;
    }
    if (taken >= 2) return match_alike(m, run, take, runs);
    m->unmatched += run[best].n;
    return 0;
}

static int by_step(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->step != y->step) return (x->step > y->step) - (x->step < y->step);
    return by_group_rank_time(a, b);
}

static int by_seq(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->seq != y->seq) return (x->seq > y->seq) - (x->seq < y->seq);
    return by_group_rank_time(a, b);
}

/* Cuts items into runs of one rank each. */
static size_t cut(const struct item *item, size_t n, struct run *run) {
    size_t runs = 0;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && item[j].rank == item[i].rank;) j++;
        run[runs++] = (struct run){item + i, j - i};
    }
    return runs;
}

/* Items with the same number are one, if their names agree and each rank is there once. */
static int match_numbers(struct hm_meeting *m, struct item *item, size_t n) {
    qsort(item, n, sizeof *item, by_seq);
    for (size_t i = 0, j; i < n; i = j) {
        bool alike = true;
        for (j = i + 1; j < n && item[j].seq == item[i].seq; j++)
            alike &= item[j].name == item[i].name && item[j].rank != item[j - 1].rank;
        if (item[i].step == OUTSIDE) {
            m->outside++;
        } else if (!alike || j - i < 2) {
            m->unmatched += j - i;
        } else {
            if (begin_matched(m, &item[i], item[i].seq) != 0) return -1;
            m->matched[m->n_matched - 1].n = j - i;
            for (size_t k = i; k < j; k++)
                if (add_member(m, &item[k]) != 0) return -1;
        }
    }
    return 0;
}

static int match_group(struct hm_meeting *m, struct item *item, size_t n, struct run *run, bool *take) {
    bool numbered = true, alike = true;
    for (size_t i = 0; i < n; i++) numbered &= item[i].seq >= 0;
    if (numbered) return match_numbers(m, item, n);
    size_t runs = cut(item, n, run);
    for (size_t r = 1; r < runs; r++) alike &= same_names(&run[0], &run[r]);
    if (alike && runs >= 2) return match_majority(m, run, runs, take);
    qsort(item, n, sizeof *item, by_step);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && item[j].step == item[i].step;) j++;
        if (item[i].step == OUTSIDE)
            m->outside += j - i;
        else if (match_majority(m, run, cut(item + i, j - i, run), take) != 0)
            return -1;
    }
    return 0;
}

static void find_origin(struct hm_meeting *m) {
    m->origin_ns = INT64_MAX;
    for (size_t r = 0; r < m->n_ranks; r++)
        if (m->rank[r].n_collectives && m->rank[r].collective[0].launch_ns + m->rank[r].base_ns < m->origin_ns)
            m->origin_ns = m->rank[r].collective[0].launch_ns + m->rank[r].base_ns;
}

int hm_meeting_match(struct hm_meeting *m, struct hm_error *err) {
    struct items all = {0};
    struct run *run = hm_alloc(m->n_ranks, sizeof *run);
    bool *take = hm_alloc(m->n_ranks, sizeof *take);
    find_origin(m);
    int status = run && take ? list_items(m, &all, err) : hm_fail_memory(err);
    for (size_t i = 0, j; status == 0 && i < all.n; i = j) {
        for (j = i + 1; j < all.n && all.item[j].group == all.item[i].group;) j++;
        if (match_group(m, all.item + i, j - i, run, take) != 0) status = hm_fail_memory(err);
    }
    hm_free(all.item);
    hm_free(run);
    hm_free(take);
    return status;
}
