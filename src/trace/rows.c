/* rows.c - the row store and the table of step numbers: what readers fill from several threads. */
#include "trace.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t grow_lock = PTHREAD_MUTEX_INITIALIZER;

enum { MAX_BLOCKS = 1 << 16 }; /* pointers are reserved once and never move, so readers need no lock: 6.9e10 rows */
static const size_t block_bytes = HM_BLOCK_ROWS * sizeof(struct hm_row);

static int add_blocks(struct hm_rows *rows, size_t wanted) {
    int status = 0;
    pthread_mutex_lock(&grow_lock);
    if (!rows->block) {
        rows->block = hm_alloc(MAX_BLOCKS, sizeof *rows->block); /* untouched pages cost nothing */
        rows->capacity = rows->block ? MAX_BLOCKS : 0;
    }
    if (!rows->block) status = -1;
    while (status == 0 && rows->blocks < wanted) {
        /* few recordings that need one block only fill it */
        struct hm_row *block = rows->blocks == rows->capacity ? NULL
                               : rows->blocks == 0            ? hm_map_sparse(block_bytes)
                                                              : hm_map(block_bytes, NULL);
        if (!block)
            status = -1;
        else
            rows->block[rows->blocks++] = block;
    }
    pthread_mutex_unlock(&grow_lock);
    return status;
}

int hm_rows_reserve(struct hm_rows *rows, size_t n, size_t *first) {
    *first = atomic_fetch_add(&rows->count, n);
    return add_blocks(rows, (*first + n + HM_BLOCK_ROWS - 1) / HM_BLOCK_ROWS);
}

void hm_rows_free(struct hm_rows *rows) {
    for (size_t b = 0; b < rows->blocks; b++) hm_unmap(rows->block[b], block_bytes);
    hm_free(rows->block);
    *rows = (struct hm_rows){0};
}

/* ---- step numbers ---- */

enum { TABLE = 1 << HM_STEP_BITS }; /* places: at most half of them are taken */
struct place {
    _Atomic uint64_t number; /* step number + 1; 0: free */
    _Atomic uint32_t index;  /* + 1; 0: being given out */
};
struct hm_step_table {
    struct place *place;
    int64_t *number; /* [index] */
    _Atomic uint32_t count;
};

static const size_t place_bytes = TABLE * sizeof(struct place), number_bytes = HM_MOST_STEPS * sizeof(int64_t);

struct hm_step_table *hm_step_table_new(void) {
    struct hm_step_table *t = hm_alloc(1, sizeof *t);
    if (!t) return NULL;
    t->place = hm_map_sparse(place_bytes);
    t->number = hm_map_sparse(number_bytes);
    if (t->place && t->number) return t;
    hm_step_table_free(t);
    return NULL;
}

void hm_step_table_free(struct hm_step_table *t) {
    if (!t) return;
    hm_unmap(t->place, place_bytes);
    hm_unmap(t->number, number_bytes);
    hm_free(t);
}

/* The place is this thread's: the next index goes to it. */
static uint32_t give_index(struct hm_step_table *t, struct place *place, int64_t step) {
    uint32_t index = atomic_load(&t->count);
    while (index < HM_MOST_STEPS && !atomic_compare_exchange_weak(&t->count, &index, index + 1)) continue;
    if (index < HM_MOST_STEPS)
        t->number[index] = step;
    else
        index = UINT32_MAX - 1;
    atomic_store_explicit(&place->index, index + 1, memory_order_release);
    return index < HM_MOST_STEPS ? index : UINT32_MAX;
}

uint32_t hm_step_intern(struct hm_step_table *t, int64_t step) {
    const uint64_t wanted = (uint64_t)step + 1;
    /* Steps follow each other, and then lie side by side; far ones are scattered. */
    uint32_t at = (uint32_t)((uint64_t)step + ((uint64_t)step >> HM_STEP_BITS) * 0x9e3779b97f4a7c15u) & (TABLE - 1);
    for (size_t tried = 0; tried < TABLE; tried++, at = (at + 1) & (TABLE - 1)) {
        struct place *place = &t->place[at];
        uint64_t seen = atomic_load_explicit(&place->number, memory_order_relaxed);
        if (seen == 0) {
            if (atomic_load(&t->count) == HM_MOST_STEPS) return UINT32_MAX;
            if (atomic_compare_exchange_strong(&place->number, &seen, wanted)) return give_index(t, place, step);
        }
        if (seen != wanted) continue;
        uint32_t index;
        while ((index = atomic_load_explicit(&place->index, memory_order_acquire)) == 0) continue;
        return index <= HM_MOST_STEPS ? index - 1 : UINT32_MAX;
    }
    return UINT32_MAX;
}

size_t hm_steps_interned(const struct hm_step_table *t) {
    return t->count;
}

int64_t hm_step_number(const struct hm_step_table *t, uint32_t index) {
    return t->number[index];
}
