/* memory.c - allocation with overflow checks and fault injection. */
#include "base.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic long hm_fault_after = 0;

bool hm_fault_hit(void) {
    if (atomic_load_explicit(&hm_fault_after, memory_order_relaxed) <= 0) return false;
    return atomic_fetch_sub(&hm_fault_after, 1) == 1;
}

void *hm_alloc(size_t count, size_t size) {
    if (hm_fault_hit()) return NULL;
    return calloc(count ? count : 1, size ? size : 1);
}

void *hm_alloc_aligned(size_t count, size_t size) {
    size_t bytes;
    if (!hm_mul(count, size, &bytes) || bytes > SIZE_MAX / 2 || hm_fault_hit()) return NULL;
    bytes = bytes ? (bytes + 63) / 64 * 64 : 64;
    void *block = aligned_alloc(64, bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

/* Dense times of a large job are hundreds of megabytes read in order: 2 MiB pages cut the TLB misses. */
#define HUGE_PAGE ((size_t)2 << 20)

void *hm_map(size_t bytes, const char *spill) {
    if (hm_fault_hit()) return NULL;
    if (bytes == 0) bytes = 1;
    void *block;
    if (spill) {
        int fd = hm_unnamed_file(spill);
        if (fd < 0) return NULL;
        /* reserve the room now: a full disk is an error here, not a crash when a page is written */
        block = posix_fallocate(fd, 0, (off_t)bytes) == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                                          : MAP_FAILED;
        close(fd);
    } else {
        block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (block != MAP_FAILED && bytes >= HUGE_PAGE) (void)madvise(block, bytes, MADV_HUGEPAGE);
    }
    return block == MAP_FAILED ? NULL : block;
}

void *hm_map_sparse(size_t bytes) {
    if (hm_fault_hit()) return NULL;
    void *block =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) return NULL;
    (void)madvise(block, bytes, MADV_NOHUGEPAGE);
    return block;
}

void hm_map_release(void *part, size_t bytes) {
    /* whole pages only; the neighbours' share of the first and last page stays */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)part, skip = (page - begin % page) % page;
    if (bytes > skip && (bytes - skip) / page > 0)
        (void)madvise((char *)part + skip, (bytes - skip) / page * page, MADV_DONTNEED);
}

void hm_unmap(void *block, size_t bytes) {
    if (block) (void)munmap(block, bytes ? bytes : 1);
}

/* The number in a one-line file, or 0. */
static uint64_t number_in(const char *path) {
    unsigned long long n = 0;
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%llu", &n) != 1) n = 0;
    fclose(f);
    return n;
}

uint64_t hm_default_memory(void) {
    uint64_t limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    static const char *const cgroups[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t k = 0; k < 2; k++) {
        uint64_t n = number_in(cgroups[k]);
        if (n && n < limit) limit = n;
    }
    return limit / 2;
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
    return hm_grow_by(array, count, 1, capacity, size);
}

void *hm_grow_by(void *array, size_t count, size_t more, size_t *capacity, size_t size) {
    if (*capacity && more <= *capacity - count) return array;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    if (wanted - count < more && __builtin_add_overflow(count, more, &wanted)) return NULL;
    void *grown = hm_realloc(array, wanted, size);
    if (grown) *capacity = wanted;
    return grown;
}
