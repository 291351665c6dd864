/* probe.h - what the parts of the ring's writer share: the handle, and how it opens. libc only. */
#ifndef HM_PROBE_INTERNAL_H
#define HM_PROBE_INTERNAL_H

#include "hindmost_probe.h"
#include "ring_format.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The word that says whose the mapping is. It stands in a page that the kernel clears in the child of any fork (MADV_WIPEONFORK,
 * Linux 4.14), so that looking at it costs one load and sees even a fork that libc does not know of. */
enum {
    HM_PROBE_FORKED = 0,
    HM_PROBE_READY = 1,
    HM_PROBE_ASK_PID = 2 /* the kernel cannot clear it */,
    HM_PROBE_DEAF = 3
};

struct hm_probe {
    _Atomic uint32_t *state;
    struct hm_ring_header *header; /* the mapping */
    struct hm_ring_record *records;
    uint64_t mask;
    uint32_t pid;
    _Atomic int32_t step;
    _Atomic int64_t next_pair_ns;
    _Atomic uint32_t opening; /* in a forked child: one thread opens, the others drop what they have meanwhile */
    uint16_t step_name;
    pthread_mutex_t naming;
    struct hm_probe_options options; /* its texts point to the fields below */
    char folder[PATH_MAX], job[64], face[16], gpu[64];
    char path[PATH_MAX];
};

/* open.c: makes the file and maps it; sets header, records, mask, pid and path. Names are copied from `parent` unless NULL. */
int hm_probe_map(struct hm_probe *probe, const struct hm_ring_header *parent, char *why, size_t size);
size_t hm_probe_bytes(const struct hm_ring_header *header); /* of the whole file */
struct hm_ring_pair hm_probe_clocks(void);

/* names.c */
uint16_t hm_probe_enter(struct hm_probe *probe, uint8_t kind, const char *text, size_t length);

/* The mapping may be used: true, but for a child of fork that could open none. */
bool hm_probe_reopen(struct hm_probe *probe);
static inline bool hm_probe_ready(struct hm_probe *probe) {
    if (!probe) return false;
    if (__builtin_expect(atomic_load_explicit(probe->state, memory_order_acquire) == HM_PROBE_READY, 1)) return true;
    return hm_probe_reopen(probe);
}

#endif
