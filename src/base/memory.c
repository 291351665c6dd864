/* memory.c - allocation with overflow checks and fault injection. */
#include "base.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

_Atomic long hm_fault_after = 0;

bool hm_fault_hit(void) {
    if (atomic_load_explicit(&hm_fault_after, memory_order_relaxed) <= 0) return false;
    return atomic_fetch_sub(&hm_fault_after, 1) == 1;
}

void *hm_alloc(size_t count, size_t size) {
    if (hm_fault_hit()) return NULL;
    return calloc(count ? count : 1, size ? size : 1);
}

/* Dense times of a large job are hundreds of megabytes read in order: 2 MiB pages cut the TLB misses. */
#define HUGE_PAGE ((size_t)2 << 20)

void *hm_alloc_aligned(size_t count, size_t size) {
    size_t bytes;
    if (!hm_mul(count, size, &bytes) || bytes > SIZE_MAX / 2 || hm_fault_hit()) return NULL;
    size_t align = bytes >= 4 * HUGE_PAGE ? HUGE_PAGE : 64;
    bytes = (bytes + align - 1) / align * align;
    void *block = aligned_alloc(align, bytes ? bytes : align);
    if (!block) return NULL;
    if (align == HUGE_PAGE) (void)madvise(block, bytes, MADV_HUGEPAGE);
    memset(block, 0, bytes ? bytes : align);
    return block;
}

void *hm_realloc(void *old, size_t count, size_t size) {
    size_t bytes;
    if (!hm_mul(count, size, &bytes) || hm_fault_hit()) return NULL;
    return realloc(old, bytes ? bytes : 1);
}

void hm_free(void *block) {
    free(block);
}

char *hm_strdup(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = hm_alloc(n, 1);
    if (copy) memcpy(copy, text, n);
    return copy;
}

char *hm_sprintf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : hm_alloc((size_t)n + 1, 1);
    if (!text) return NULL;
    va_start(args, format);
    (void)vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

void *hm_grow(void *array, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity) return array;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *grown = hm_realloc(array, wanted, size);
    if (grown) *capacity = wanted;
    return grown;
}
