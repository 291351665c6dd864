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
        struct hm_row *block = rows->blocks < rows->capacity ? hm_map(block_bytes, NULL) : NULL;
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

uint32_t hm_step_intern(struct hm_step_table *t, int64_t step) {
    uint64_t wanted = (uint64_t)step + 1;
    uint32_t slot = (uint32_t)((uint64_t)step * 0x9e3779b97f4a7c15u >> (64 - HM_STEP_BITS));
    for (;; slot = (slot + 1) & (HM_STEP_TABLE - 1)) {
        uint64_t seen = atomic_load_explicit(&t->number[slot], memory_order_relaxed);
        if (seen == wanted) return slot;
        if (seen != 0) continue;
        if (atomic_load(&t->count) >= HM_STEP_TABLE / 2) return UINT32_MAX;
        if (atomic_compare_exchange_strong(&t->number[slot], &seen, wanted)) {
            atomic_fetch_add(&t->count, 1);
            return slot;
        }
        if (seen == wanted) return slot;
    }
}
