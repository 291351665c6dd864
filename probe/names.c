/* names.c - the table of names in the ring's header. Entries are only appended, and published by the count of bytes in use, so
 * that a reader, or a writer killed in between, never sees half of one. Naming takes a lock; recording does not. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MOST = 255, GROUP_MOST = 64 * 1024 };

static char *table_of(struct hm_ring_header *h) {
    return (char *)h + HM_RING_NAMES_AT;
}

/* The number of an entry with this text; 0: none. *count: entries there are. */
static uint16_t find(struct hm_ring_header *h, uint8_t kind, const char *text, size_t length, uint16_t *count) {
    *count = 0;
    for (uint32_t at = 0; at < h->names;) {
        struct hm_ring_name entry;
        memcpy(&entry, table_of(h) + at, sizeof entry);
        if (entry.bytes < sizeof entry) break; /* somebody else wrote here; go no further */
        (*count)++;
        if (entry.kind == kind && entry.bytes >= sizeof entry + length + 1 && entry.bytes < sizeof entry + length + 9 &&
            memcmp(table_of(h) + at + sizeof entry, text, length) == 0 && table_of(h)[at + sizeof entry + length] == 0)
            return *count;
        at += entry.bytes;
    }
    return 0;
}

static uint16_t append(struct hm_ring_header *h, uint8_t kind, const char *text, size_t length, uint16_t count) {
    size_t bytes = (sizeof(struct hm_ring_name) + length + 1 + 7) / 8 * 8;
    if (bytes > HM_RING_HEADER - HM_RING_NAMES_AT - h->names || count == UINT16_MAX) {
        __atomic_fetch_add(&h->unnamed, 1, __ATOMIC_RELAXED);
        return 0;
    }
    struct hm_ring_name entry = {.bytes = (uint16_t)bytes, .kind = kind};
    char *to = table_of(h) + h->names;
    memcpy(to, &entry, sizeof entry);
    memcpy(to + sizeof entry, text, length); /* what follows is zero since the file was made */
    __atomic_store_n(&h->names, h->names + (uint32_t)bytes, __ATOMIC_RELEASE);
    return (uint16_t)(count + 1);
}

uint16_t hm_probe_enter(struct hm_probe *p, uint8_t kind, const char *text, size_t length) {
    uint16_t count;
    if (!hm_probe_ready(p)) return 0;
    pthread_mutex_lock(&p->naming);
    uint16_t id = find(p->header, kind, text, length, &count);
    if (!id) id = append(p->header, kind, text, length, count);
    pthread_mutex_unlock(&p->naming);
    return id;
}

uint16_t hm_probe_name(struct hm_probe *p, const char *name) {
    return name ? hm_probe_enter(p, HM_RING_NAME, name, strnlen(name, TEXT_MOST)) : 0;
}

/* ---- groups ---- */

struct text {
    char *at, *end;
    bool full;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(t->at, (size_t)(t->end - t->at), format, arguments);
    va_end(arguments);
    if (n < 0 || n >= t->end - t->at)
        t->full = true;
    else
        t->at += n;
}

/* The longest run of equal steps from member i: "3", "0-7", "0-56:8". Two members with a gap are two runs, which reads better. */
static size_t run_length(const int *m, size_t n) {
    size_t k = 1;
    if (n < 2 || m[1] <= m[0]) return 1;
    while (k < n && m[k] > m[k - 1] && (int64_t)m[k] - m[k - 1] == (int64_t)m[1] - m[0]) k++;
    return k == 2 && m[1] - m[0] != 1 ? 1 : k;
}

static void add_members(struct text *t, const int *m, size_t n) {
    for (size_t i = 0, k; i < n && !t->full; i += k) {
        k = run_length(m + i, n - i);
        const char *comma = i ? "," : "";
        if (k == 1)
            add(t, "%s%d", comma, m[i]);
        else if (m[i + 1] - m[i] == 1)
            add(t, "%s%d-%d", comma, m[i], m[i + k - 1]);
        else
            add(t, "%s%d-%d:%d", comma, m[i], m[i + k - 1], m[i + 1] - m[i]);
    }
}

uint16_t hm_probe_group(struct hm_probe *p, const char *name, const int *members, size_t count) {
    if (!name || !hm_probe_ready(p)) return 0;
    static _Thread_local char buffer[GROUP_MOST]; /* no allocation, and too much for some stacks */
    struct text t = {buffer, buffer + sizeof buffer, false};
    add(&t, "%.*s", TEXT_MOST, name);
    char *after_name = t.at++;
    if (members) add_members(&t, members, count);
    if (!t.full && t.at > after_name + 1) {
        uint16_t id = hm_probe_enter(p, HM_RING_GROUP, buffer, (size_t)(t.at - buffer));
        if (id) return id;
    }
    *after_name = 0;
    return hm_probe_enter(p, HM_RING_GROUP, buffer, (size_t)(after_name - buffer));
}
