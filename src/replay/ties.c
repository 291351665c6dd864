/* ties.c - which lanes meet in which groups, and which lanes are alike when only one of them is special.
 *
 * Keep one lane's durations and make all others ideal. By symmetry the others differ only in how they are tied to that lane, so lanes are
 * coloured until nothing splits any more (1-dimensional Weisfeiler-Leman, for groups): the special lane has a colour of its own; then two
 * lanes of one colour part if, in some family of groups, their groups hold different sets of colours. Sets, not numbers of members: a
 * group starts with its latest member, however many come at that time. By induction over the rounds, lanes of one final colour launch
 * everything at the same time, so one stands for all: two colours in plain data parallelism, three with islands, four in HSDP. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

void hm_ties_free(struct hm_ties *t) {
    for (size_t k = 0; t->of && k < t->lanes; k++) hm_free(t->of[k]);
    hm_free(t->of);
    *t = (struct hm_ties){0};
}

static int make_rows(struct hm_ties *t, const struct hm_job *m, size_t lanes) {
    t->of = hm_alloc(lanes, sizeof *t->of);
    t->lanes = t->of ? lanes : 0;
    for (size_t k = 0; k < t->lanes; k++)
        if (!(t->of[k] = hm_alloc(m->n_across, sizeof **t->of))) return -1;
    return t->of ? 0 : -1;
}

int hm_ties_whole(struct hm_ties *t, const struct hm_job *m) {
    *t = (struct hm_ties){.starts = m->n_starts};
    if (!m->lanes) return 0;
    if (make_rows(t, m, m->lanes) != 0) return -1;
    for (size_t k = 0; k < m->n_nodes; k++)
        for (size_t lane = 0; m->node[k].across >= 0 && lane < m->lanes; lane++)
            t->of[lane][m->node[k].across] = (uint32_t)hm_start_of(m, &m->node[k], lane);
    return 0;
}

/* ---- colours ---- */

struct cell { /* a lane while its partition is looked at */
    uint64_t key;
    uint32_t block, color, lane;
};

static int by_block_and_color(const void *a, const void *b) {
    const struct cell *x = a, *y = b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return (x->color > y->color) - (x->color < y->color);
}

static int by_key(const void *a, const void *b) {
    const struct cell *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->lane > y->lane) - (x->lane < y->lane);
}

/* set[lane]: a number for the set of colours in the lane's block. cell: [lane] room. */
static void sets_of_colors(const struct hm_partition *p, size_t lanes, const uint32_t *color, struct cell *cell,
                           uint64_t *set) {
    for (size_t l = 0; l < lanes; l++) cell[l] = (struct cell){0, p->block ? p->block[l] : 0, color[l], (uint32_t)l};
    qsort(cell, lanes, sizeof *cell, by_block_and_color);
    for (size_t first = 0, end; first < lanes; first = end) {
        uint64_t sum = 0;
        for (end = first; end < lanes && cell[end].block == cell[first].block; end++)
            if (end == first || cell[end].color != cell[end - 1].color) sum += hm_mix64(cell[end].color + 1);
        for (size_t k = first; k < end; k++) set[cell[k].lane] = sum;
    }
}

/* Numbers equal keys alike, from 0 on; how many there are. */
static size_t number_keys(struct cell *cell, size_t lanes, const uint64_t *key, uint32_t *number) {
    size_t n = 0;
    for (size_t l = 0; l < lanes; l++) cell[l] = (struct cell){key[l], 0, 0, (uint32_t)l};
    qsort(cell, lanes, sizeof *cell, by_key);
    for (size_t k = 0; k < lanes; k++) {
        n += k == 0 || cell[k].key != cell[k - 1].key;
        number[cell[k].lane] = (uint32_t)(n - 1);
    }
    return n;
}

struct coloring {
    struct cell *cell;   /* [lane] */
    uint64_t *key, *set; /* [lane] */
    uint32_t *first;     /* [class] its first lane */
    uint32_t *of_set;    /* [lane] number of its set */
};

static size_t refine(const struct hm_job *m, size_t special, const struct coloring *c, uint32_t *color) {
    size_t n = m->lanes > 1 ? 2 : 1, before;
    for (size_t l = 0; l < m->lanes; l++) color[l] = l == special;
    do {
        before = n;
        for (size_t l = 0; l < m->lanes; l++) c->key[l] = hm_mix64(color[l]);
        for (size_t p = 0; p < m->n_partitions; p++) {
            sets_of_colors(&m->partition[p], m->lanes, color, c->cell, c->set);
            for (size_t l = 0; l < m->lanes; l++) c->key[l] = hm_mix64(c->key[l] + c->set[l]);
        }
        n = number_keys(c->cell, m->lanes, c->key, color);
    } while (n > before);
    return n;
}

/* The special lane's class becomes class 0. */
static void put_first(uint32_t *color, size_t lanes, size_t special) {
    uint32_t was = color[special];
    for (size_t l = 0; l < lanes; l++) color[l] = color[l] == was ? 0 : color[l] == 0 ? was : color[l];
}

static int tie_classes(struct hm_ties *t, const struct hm_job *m, const struct coloring *c, const uint32_t *color,
                       size_t n) {
    if (make_rows(t, m, n) != 0) return -1;
    for (size_t l = m->lanes; l-- > 0;) c->first[color[l]] = (uint32_t)l;
    for (size_t p = 0; p < m->n_partitions; p++) {
        sets_of_colors(&m->partition[p], m->lanes, color, c->cell, c->set);
        size_t groups = number_keys(c->cell, m->lanes, c->set, c->of_set);
        for (size_t k = 0; k < m->n_nodes; k++) {
            if (m->node[k].across < 0 || m->node[k].partition != p) continue;
            for (size_t i = 0; i < n; i++) t->of[i][m->node[k].across] = (uint32_t)t->starts + c->of_set[c->first[i]];
            t->starts += groups;
        }
    }
    return 0;
}

int hm_ties_around(struct hm_ties *t, const struct hm_job *m, size_t lane, uint32_t *member, size_t *n) {
    *t = (struct hm_ties){0};
    struct coloring c = {.cell = hm_alloc(m->lanes, sizeof *c.cell), .key = hm_alloc(m->lanes, sizeof *c.key)};
    c.set = hm_alloc(m->lanes, sizeof *c.set);
    c.first = hm_alloc(m->lanes, sizeof *c.first);
    c.of_set = hm_alloc(m->lanes, sizeof *c.of_set);
    int status = c.cell && c.key && c.set && c.first && c.of_set ? 0 : -1;
    if (status == 0) {
        *n = refine(m, lane, &c, member);
        put_first(member, m->lanes, lane);
        status = tie_classes(t, m, &c, member, *n);
    }
    if (status != 0) hm_ties_free(t);
    hm_free(c.cell);
    hm_free(c.key);
    hm_free(c.set);
    hm_free(c.first);
    hm_free(c.of_set);
    return status;
}
