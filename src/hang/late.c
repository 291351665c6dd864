/* late.c - what completed collectives tell: who usually comes late; and what members of one collective ask differently. */
#include "hang.h"

#include <stdio.h>
#include <string.h>

/* ---- late ranks ---- */

enum { FEWEST_TIMES = 3 };
static const double LEAST_LATE_S = 1e-3, LATER_THAN_OTHERS = 3;

struct lags {
    double *value; /* grouped by rank once filled */
    size_t *first; /* of each rank */
};

static bool one_collective(const struct item *a, const struct item *b) {
    return a->group == b->group && a->p2p == b->p2p && a->seq == b->seq && a->part == b->part;
}

/* Calls body for each collective that at least two ranks recorded and that nobody has in line any more. */
static void each_done(const struct scene *s, void (*body)(const struct scene *, struct lags *, size_t, size_t, int64_t),
                      struct lags *lags) {
    for (size_t i = 0, end; i < s->n_items; i = end) {
        bool open = false;
        int64_t earliest = INT64_MAX;
        for (end = i; end < s->n_items && one_collective(&s->item[i], &s->item[end]); end++) {
            int64_t created = s->item[end].entry->created_ns;
            open |= s->item[end].open || created < 0;
            if (created < earliest) earliest = created;
        }
        if (!open && end - i >= 2 && !s->item[i].p2p) body(s, lags, i, end, earliest);
    }
}

static void count(const struct scene *s, struct lags *lags, size_t first, size_t end, int64_t earliest) {
    (void)earliest;
    for (size_t i = first; i < end; i++) lags->first[s->item[i].rank + 2]++;
}

static void store(const struct scene *s, struct lags *lags, size_t first, size_t end, int64_t earliest) {
    for (size_t i = first; i < end; i++)
        lags->value[lags->first[s->item[i].rank + 1]++] = 1e-9 * (double)(s->item[i].entry->created_ns - earliest);
}

static int add_late(struct hm_hang *hang, size_t *capacity, int number, double late_s, struct hm_error *err) {
    struct hm_late_rank *grown = hm_grow(hang->late, hang->n_late, capacity, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    hang->late = grown;
    hang->late[hang->n_late++] = (struct hm_late_rank){number, late_s};
    return 0;
}

static int name_late(const struct scene *s, struct lags *lags, struct hm_hang *hang, double *late_s,
                     struct hm_error *err) {
    double *known = hm_alloc(s->n_ranks, sizeof *known);
    if (!known) return hm_fail_memory(err);
    size_t n_known = 0, capacity = 0;
    for (size_t r = 0; r < s->n_ranks; r++) {
        size_t n = lags->first[r + 1] - lags->first[r];
        late_s[r] = n >= FEWEST_TIMES ? hm_median(lags->value + lags->first[r], n) : 0;
        if (n >= FEWEST_TIMES) known[n_known++] = late_s[r];
    }
    double usual = n_known ? hm_median(known, n_known) : 0;
    int status = 0;
    for (size_t r = 0; status == 0 && r < s->n_ranks; r++) {
        if (late_s[r] < LEAST_LATE_S || late_s[r] < LATER_THAN_OTHERS * usual)
            late_s[r] = 0;
        else
            status = add_late(hang, &capacity, s->rank[r].number, late_s[r], err);
    }
    hm_free(known);
    return status;
}

int hang_find_late(const struct scene *s, struct hm_hang *hang, double *late_s, struct hm_error *err) {
    struct lags lags = {hm_alloc(s->n_items, sizeof(double)), hm_alloc(s->n_ranks + 2, sizeof(size_t))};
    int status = -1;
    if (lags.value && lags.first) {
        each_done(s, count, &lags);
        for (size_t r = 0; r < s->n_ranks; r++) lags.first[r + 2] += lags.first[r + 1];
        each_done(s, store, &lags);
        status = name_late(s, &lags, hang, late_s, err);
    } else {
        (void)hm_fail_memory(err);
    }
    hm_free(lags.value);
    hm_free(lags.first);
    return status;
}

/* ---- mismatches ---- */

static void add_value(struct hm_str *text, const struct hm_value *v) {
    if (!v) return;
    if (v->kind == HM_VALUE_TEXT) hm_str_add(text, "%s", v->text);
    if (v->kind == HM_VALUE_INTEGER) hm_str_add(text, "%lld", (long long)v->integer);
    if (v->kind != HM_VALUE_LIST) return;
    hm_str_add(text, "[");
    for (size_t i = 0; i < v->n && text->length < 200; i++) {
        if (i > 0) hm_str_add(text, ", ");
        const struct hm_value *inner = v->item[i];
        if (inner->kind != HM_VALUE_LIST) {
            add_value(text, inner);
            continue;
        }
        hm_str_add(text, "["); /* sizes are lists of lists, and no deeper */
        for (size_t k = 0; k < inner->n && text->length < 200; k++)
            if (inner->item[k]->kind == HM_VALUE_INTEGER)
                hm_str_add(text, k ? ", %lld" : "%lld", (long long)inner->item[k]->integer);
        hm_str_add(text, "]");
    }
    hm_str_add(text, "]");
}

enum aspect { ASK_OP, ASK_SIZE, ASK_TYPE, ASPECTS };
static const char *const aspect_names[ASPECTS] = {"op", "size", "type"};

/* All-to-all, gather and scatter may have another size on each rank, and lists of tensors too (all_gather, reduce_scatter of
 * uneven shards); of a broadcast only the input counts. Only _base and all_reduce demand the same of all. */
static bool sizes_must_agree(const char *op) {
    static const char *const strict[] = {"all_reduce",           "allreduce", "_all_gather_base", "_allgather_base",
                                         "_reduce_scatter_base", "broadcast", "reduce",           "all_reduce_barrier"};
    for (size_t i = 0; i < sizeof strict / sizeof strict[0]; i++)
        if (strcmp(op, strict[i]) == 0) return true;
    return false;
}

static char *ask_of(const struct hm_flight_entry *e, enum aspect aspect) {
    struct hm_str text = {0};
    if (aspect == ASK_OP) hm_str_add(&text, "%s", e->op);
    if (aspect == ASK_SIZE) add_value(&text, e->input_sizes);
    if (aspect == ASK_TYPE) add_value(&text, e->input_types);
    if (!text.text && !text.failed) hm_str_add(&text, "%s", "");
    if (text.failed) hm_str_free(&text);
    return text.text;
}

static int take_ask(struct hm_op_mismatch *m, char *value, int number, size_t most, struct hm_error *err) {
    size_t k = 0;
    while (k < m->n_asks && strcmp(m->ask[k].value, value) != 0) k++;
    if (k == m->n_asks) {
        struct hm_op_ask *grown = hm_realloc(m->ask, m->n_asks + 1, sizeof *grown);
        int *rank = grown ? hm_alloc(most, sizeof *rank) : NULL;
        if (grown) m->ask = grown;
        if (!rank) {
            hm_free(value);
            return hm_fail_memory(err);
        }
        m->ask[m->n_asks++] = (struct hm_op_ask){value, rank, 0};
    } else {
        hm_free(value);
    }
    m->ask[k].rank[m->ask[k].n_ranks++] = number;
    return 0;
}

static void free_asks(struct hm_op_mismatch *m) {
    for (size_t k = 0; k < m->n_asks; k++) {
        hm_free(m->ask[k].value);
        hm_free(m->ask[k].rank);
    }
    hm_free(m->ask);
    m->ask = NULL;
    m->n_asks = 0;
}

static void most_common_first(struct hm_op_mismatch *m) {
    for (size_t k = 1; k < m->n_asks; k++)
        for (size_t j = k; j > 0 && m->ask[j].n_ranks > m->ask[j - 1].n_ranks; j--) {
            struct hm_op_ask swap = m->ask[j];
            m->ask[j] = m->ask[j - 1];
            m->ask[j - 1] = swap;
        }
}

/* Compares one aspect of the items first .. end - 1; fills m if they differ. */
static int compare(const struct scene *s, size_t first, size_t end, enum aspect aspect, struct hm_op_mismatch *m,
                   struct hm_error *err) {
    const struct group *g = &s->group[s->item[first].group];
    *m = (struct hm_op_mismatch){g->name, g->description, s->item[first].seq, aspect_names[aspect], NULL, 0};
    for (size_t i = first; i < end; i++) {
        char *value = ask_of(s->item[i].entry, aspect);
        if (!value) return hm_fail_memory(err);
        if (!*value && aspect != ASK_OP) { /* not recorded: nothing to compare */
            hm_free(value);
            continue;
        }
        if (take_ask(m, value, s->rank[s->item[i].rank].number, end - first, err) != 0) return -1;
    }
    most_common_first(m);
    return 0;
}

static int compare_all(const struct scene *s, size_t first, size_t end, struct hm_hang *hang, size_t *capacity,
                       struct hm_error *err) {
    for (int aspect = 0; aspect < ASPECTS; aspect++) {
        if (aspect == ASK_SIZE && !sizes_must_agree(s->item[first].entry->op)) continue;
        struct hm_op_mismatch m;
        if (compare(s, first, end, (enum aspect)aspect, &m, err) != 0) {
            free_asks(&m);
            return -1;
        }
        if (m.n_asks < 2) {
            free_asks(&m);
            continue;
        }
        struct hm_op_mismatch *grown = hm_grow(hang->mismatch, hang->n_mismatches, capacity, sizeof *grown);
        if (!grown) {
            free_asks(&m);
            return hm_fail_memory(err);
        }
        hang->mismatch = grown;
        hang->mismatch[hang->n_mismatches++] = m;
        return 0; /* another op has other sizes and types: one finding is enough */
    }
    return 0;
}

/* Only collectives that nobody has finished: what went through was no mismatch that matters. The first of each group. */
int hang_find_mismatches(const struct scene *s, struct hm_hang *hang, struct hm_error *err) {
    size_t capacity = 0;
    int found_in = NO_INDEX;
    for (size_t i = 0, end; i < s->n_items; i = end) {
        bool done = false;
        for (end = i; end < s->n_items && one_collective(&s->item[i], &s->item[end]); end++) done |= !s->item[end].open;
        if (done || end - i < 2 || s->item[i].p2p || s->item[i].group == found_in) continue;
        size_t before = hang->n_mismatches;
        if (compare_all(s, i, end, hang, &capacity, err) != 0) return -1;
        if (hang->n_mismatches > before) found_in = s->item[i].group;
    }
    return 0;
}
