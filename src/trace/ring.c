/* ring.c - the reader of rings (docs/ring.md).
 *
 * A record is taken in three reads of its chunk: the states, the content, the states again. A state that says "whole" in the first and
 * is the same in the last had the content in between. Reading by pread, not through a mapping: a file that is cut meanwhile would
 * be a SIGBUS. Everything in the file is hostile until checked here. */
#include "hindmost/ring.h"

#include "ring_format.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1024, HEADER_MOST = 1 << 20, RECORD_MOST = 512 };

static const char *const kinds[] = {NULL,   "compute", "collective", "send", "recv",  "wait",
                                    "data", "io",      "gc",         "idle", "marker"};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct text {
    char *name, *members;
};

struct hm_ring {
    char *path;
    int fd;
    struct hm_ring_header header; /* as last read; sizes as at opening, checked */
    uint64_t next;                /* the record to give */
    struct hm_ring_counts counts;
    double patience_s, waiting_since; /* 0: not waiting */
    struct text *names;
    size_t name_count, name_capacity;
    uint32_t names_read;
    uint8_t *before, *content, *after;
    uint64_t chunk_at, chunk_end; /* numbers of the records in `content` */
};

/* ---- reading bytes ---- */

/* Reads all that is there; what lies behind the end of the file is zero. */
static int read_at(const struct hm_ring *r, void *to, size_t bytes, uint64_t at, struct hm_error *err) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(r->fd, (char *)to + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 || hm_fault_hit())
            return hm_fail(err, HM_ERR_IO, "%s: cannot read: %s", r->path, strerror(n < 0 ? errno : EIO));
        if (n == 0) break;
        done += (size_t)n;
    }
    memset((char *)to + done, 0, bytes - done);
    return 0;
}

/* ---- texts ---- */

/* Bytes of the UTF-8 character at c; 0: none that may be shown. Control characters are none (a name goes to terminals). */
static size_t character(const unsigned char *c) {
    static const struct {
        unsigned char mask, lead, least_second, bytes;
    } forms[] = {{0xe0, 0xc0, 0x80, 2}, {0xf0, 0xe0, 0x80, 3}, {0xf8, 0xf0, 0x80, 4}};
    if (*c < 0x80) return *c >= ' ' && *c != 127;
    for (size_t i = 0; i < 3; i++) {
        if ((*c & forms[i].mask) != forms[i].lead) continue;
        for (size_t k = 1; k < forms[i].bytes; k++)
            if ((c[k] & 0xc0) != 0x80) return 0;
        unsigned first = *c, second = c[1];
        bool overlong =
            (first == 0xc0 || first == 0xc1) || (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
        bool outside = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90) || first > 0xf4;
        bool control = first == 0xc2 && second < 0xa0;
        return overlong || outside || control ? 0 : forms[i].bytes;
    }
    return 0;
}

static void clean(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c;) {
        size_t n = character(c);
        if (n == 0) *c = '?';
        c += n ? n : 1;
    }
}

#define END_TEXT(field) ((field)[sizeof(field) - 1] = 0, clean(field))

static int add_name(struct hm_ring *r, const char *entry, const struct hm_ring_name *head, struct hm_error *err) {
    struct text *names = hm_grow(r->names, r->name_count, &r->name_capacity, sizeof *names);
    if (!names) return hm_fail_memory(err);
    r->names = names;
    size_t size = head->bytes - sizeof *head;
    char *name = hm_alloc(size + 2, 1); /* always two NULs at the end */
    if (!name) return hm_fail_memory(err);
    memcpy(name, entry + sizeof *head, size);
    char *members = name + strlen(name) + 1;
    clean(name);
    clean(members);
    names[r->name_count++] = (struct text){name, head->kind == HM_RING_GROUP && *members ? members : NULL};
    return 0;
}

/* Takes in the names that were added since the last look. */
static int read_names(struct hm_ring *r, uint32_t used, struct hm_error *err) {
    uint32_t room = r->header.header - HM_RING_NAMES_AT, begin = r->names_read;
    if (used > room) used = room;
    if (used <= begin) return 0;
    char *bytes = hm_alloc(used - begin, 1);
    if (!bytes) return hm_fail_memory(err);
    int status = read_at(r, bytes, used - begin, HM_RING_NAMES_AT + (uint64_t)begin, err);
    for (uint32_t at = 0; status == 0 && at + sizeof(struct hm_ring_name) <= used - begin;) {
        struct hm_ring_name head;
        memcpy(&head, bytes + at, sizeof head);
        if (head.bytes < sizeof head || head.bytes > used - begin - at || r->name_count >= UINT16_MAX)
            break; /* damaged: no more names */
        status = add_name(r, bytes + at, &head, err);
        at += head.bytes;
    }
    r->names_read = used;
    hm_free(bytes);
    return status;
}

static const struct text *text_of(struct hm_ring *r, uint16_t id) {
    static const struct text none = {NULL, NULL};
    return id && id <= r->name_count ? &r->names[id - 1] : &none;
}

/* ---- header ---- */

static int check_header(const struct hm_ring *r, const struct hm_ring_header *h, struct hm_error *err) {
    static const uint8_t unfinished[8] = {0};
    if (memcmp(h->magic, unfinished, sizeof unfinished) == 0)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: its header is not finished: the writer is just opening it, or died doing so", r->path);
    if (memcmp(h->magic, HM_RING_MAGIC, sizeof h->magic) != 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: is not a ring; name a .ring file that a probe wrote, or their folder",
                       r->path);
    if (h->version != HM_RING_VERSION)
        return hm_fail(err, HM_ERR_INPUT, "%s: ring version %u; this program reads version %d, take a newer one",
                       r->path, h->version, HM_RING_VERSION);
    bool sizes = h->header >= HM_RING_NAMES_AT && h->header <= HEADER_MOST && h->header % 8 == 0 &&
                 h->record >= HM_RING_RECORD && h->record <= RECORD_MOST && h->record % 8 == 0 && h->capacity >= 1 &&
                 h->capacity <= HM_RING_MOST && (h->capacity & (h->capacity - 1)) == 0;
    if (!sizes)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: header of %u, records of %u bytes, capacity %u: the header is damaged; leave this ring out",
                       r->path, h->header, h->record, h->capacity);
    return 0;
}

static int read_header(struct hm_ring *r, struct hm_error *err) {
    struct hm_ring_header h;
    if (read_at(r, &h, sizeof h, 0, err) != 0 || check_header(r, &h, err) != 0) return -1;
    if (r->header.capacity &&
        (h.capacity != r->header.capacity || h.header != r->header.header || h.record != r->header.record))
        return hm_fail(err, HM_ERR_INPUT, "%s: its sizes changed while it was read; somebody overwrote the ring",
                       r->path);
    END_TEXT(h.job);
    END_TEXT(h.host);
    END_TEXT(h.gpu);
    END_TEXT(h.face);
    r->header = h;
    return read_names(r, h.names, err);
}

struct hm_ring *hm_ring_open(const char *path, double patience_s, struct hm_error *err) {
    struct stat st;
    struct hm_ring *r = hm_alloc(1, sizeof *r);
    if (!r || !(r->path = hm_strdup(path))) {
        hm_free(r);
        hm_fail_memory(err);
        return NULL;
    }
    r->patience_s = patience_s;
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool failed = true;
    if (r->fd < 0 || fstat(r->fd, &st) != 0)
        hm_fail(err, HM_ERR_IO, "%s: %s; name a .ring file or a folder of them", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        hm_fail(err, HM_ERR_INPUT, "%s: is not a regular file; name a .ring file or a folder of them", path);
    else
        failed = read_header(r, err) != 0;
    if (!failed) {
        r->before = hm_alloc(CHUNK, r->header.record);
        r->content = hm_alloc(CHUNK, r->header.record);
        r->after = hm_alloc(CHUNK, r->header.record);
        failed = !r->before || !r->content || !r->after;
        if (failed) hm_fail_memory(err);
    }
    if (!failed) return r;
    hm_ring_close(r);
    return NULL;
}

void hm_ring_close(struct hm_ring *r) {
    if (!r) return;
    if (r->fd >= 0) close(r->fd);
    for (size_t i = 0; i < r->name_count; i++) hm_free(r->names[i].name);
    hm_free(r->names);
    hm_free(r->before);
    hm_free(r->content);
    hm_free(r->after);
    hm_free(r->path);
    hm_free(r);
}

/* ---- records ---- */

/* Reads the chunk that begins with record r->next: up to the end of the ring's lap, and no further than `claimed`. */
static int read_chunk(struct hm_ring *r, struct hm_error *err) {
    uint64_t slot = r->next & (r->header.capacity - 1), n = r->header.claimed - r->next;
    if (n > CHUNK) n = CHUNK;
    if (n > r->header.capacity - slot) n = r->header.capacity - slot;
    size_t bytes = (size_t)n * r->header.record;
    uint64_t at = r->header.header + slot * r->header.record;
    r->chunk_at = r->next;
    r->chunk_end = r->next; /* nothing, should a read fail */
    if (read_at(r, r->before, bytes, at, err) != 0 || read_at(r, r->content, bytes, at, err) != 0 ||
        read_at(r, r->after, bytes, at, err) != 0)
        return -1;
    r->chunk_end = r->next + n;
    return 0;
}

static uint64_t state_in(const uint8_t *chunk, const struct hm_ring *r) {
    uint64_t state;
    memcpy(&state, chunk + (r->next - r->chunk_at) * r->header.record, sizeof state);
    return state;
}

static bool sound(const struct hm_ring_record *c) {
    return c->kind >= 1 && c->kind < KINDS && c->begin_ns >= 0 && c->end_ns >= c->begin_ns && c->launch_ns >= 0 &&
           c->step >= -1 && c->peer >= -1 && c->microbatch >= -1 && c->chunk >= -1 && c->amount <= INT64_MAX;
}

/* A record of this chunk may use a name that was entered after the header was read. */
static int refresh_names(struct hm_ring *r, const struct hm_ring_record *c, struct hm_error *err) {
    uint32_t used;
    if (c->name <= r->name_count && c->group <= r->name_count) return 0;
    if (read_at(r, &used, sizeof used, offsetof(struct hm_ring_header, names), err) != 0) return -1;
    return read_names(r, used, err);
}

static void fill_event(struct hm_ring *r, const struct hm_ring_record *c, struct hm_ring_event *e) {
    const struct text *group = text_of(r, c->group);
    int64_t amount = c->amount ? (int64_t)c->amount : -1;
    *e = (struct hm_ring_event){.number = r->next,
                                .kind = kinds[c->kind],
                                .name = text_of(r, c->name)->name,
                                .group = group->name,
                                .members = group->members,
                                .begin_ns = c->begin_ns,
                                .end_ns = c->end_ns,
                                .launch_ns = c->launch_ns,
                                .bytes = c->flags & 1 ? -1 : amount,
                                .tokens = c->flags & 1 ? amount : -1,
                                .seq = c->seq == UINT32_MAX ? -1 : (int64_t)c->seq,
                                .step = c->step,
                                .peer = c->peer,
                                .stream = c->stream,
                                .microbatch = c->microbatch,
                                .chunk = c->chunk,
                                .async = c->flags & 2,
                                .enqueued = c->flags & 4,
                                .device = c->flags & 8,
                                .failed = c->flags & 16};
}

enum verdict { WHOLE, OVERWRITTEN, PENDING };

static enum verdict judge(const struct hm_ring *r) {
    uint64_t whole = 2 * r->next + 2, before = state_in(r->before, r), after = state_in(r->after, r);
    if (before == whole && after == whole) return WHOLE;
    return before > whole || after > whole ? OVERWRITTEN : PENDING;
}

/* Whether to go on past a record that is not there yet. */
static bool patience_ended(struct hm_ring *r) {
    if (r->patience_s <= 0) return true;
    double now = hm_now_s();
    if (r->waiting_since == 0) r->waiting_since = now;
    return now - r->waiting_since >= r->patience_s;
}

int hm_ring_next(struct hm_ring *r, struct hm_ring_event *event, struct hm_error *err) {
    for (bool fresh = false;;) {
        if (r->next >= r->chunk_end || r->waiting_since > 0) {
            if (fresh && r->next >= r->header.claimed) return 0;
            if (read_header(r, err) != 0) return -1;
            fresh = true;
            if (r->next >= r->header.claimed) return 0;
            if (r->header.claimed - r->next > r->header.capacity) {
                r->counts.dropped += r->header.claimed - r->header.capacity - r->next;
                r->next = r->header.claimed - r->header.capacity;
            }
            if (read_chunk(r, err) != 0) return -1;
        }
        enum verdict verdict = judge(r);
        if (verdict == PENDING && !patience_ended(r)) return 0;
        r->waiting_since = 0;
        if (verdict == WHOLE) {
            struct hm_ring_record c;
            memcpy(&c, r->content + (r->next - r->chunk_at) * r->header.record, sizeof c);
            bool good = sound(&c);
            if (good && refresh_names(r, &c, err) != 0) return -1;
            if (good) fill_event(r, &c, event);
            r->next++;
            if (good) r->counts.read++;
            if (good) return 1;
            r->counts.refused++;
            continue;
        }
        if (verdict == OVERWRITTEN)
            r->counts.dropped++;
        else
            r->counts.unfinished++;
        r->next++;
    }
}

/* ---- what is known of it ---- */

struct hm_ring_counts hm_ring_counts(const struct hm_ring *r) {
    return r->counts;
}

struct hm_ring_info hm_ring_info(const struct hm_ring *r) {
    const struct hm_ring_header *h = &r->header;
    struct hm_ring_pair latest = h->pairs ? h->pair[(h->pairs - 1) % HM_RING_PAIRS] : h->first;
    struct hm_ring_info info = {.path = r->path,
                                .job = h->job,
                                .host = h->host,
                                .gpu = h->gpu,
                                .face = h->face,
                                .rank = h->rank,
                                .world = h->world,
                                .local_rank = h->local_rank,
                                .dp = h->dp,
                                .pp = h->pp,
                                .tp = h->tp,
                                .cp = h->cp,
                                .ep = h->ep,
                                .pid = h->pid,
                                .parent = h->parent,
                                .pid_start = h->pid_start,
                                .capacity = h->capacity,
                                .closed = h->flags & HM_RING_CLOSED,
                                .forked = h->flags & HM_RING_FORKED,
                                .claimed = h->claimed,
                                .lost = h->lost,
                                .unnamed = h->unnamed,
                                .monotonic_ns = h->first.monotonic_ns,
                                .wall_ns = h->first.wall_ns,
                                .latest_monotonic_ns = latest.monotonic_ns,
                                .latest_wall_ns = latest.wall_ns};
    memcpy(info.boot_id, h->boot_id, sizeof info.boot_id);
    return info;
}

static bool read_text(const char *path, char *text, size_t size) {
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, size - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return n > 0;
}

static bool this_boot(const uint8_t id[16]) {
    char text[64], shown[40] = "";
    if (!read_text("/proc/sys/kernel/random/boot_id", text, sizeof text)) return false;
    for (int i = 0, at = 0; i < 16; i++)
        at += snprintf(shown + at, sizeof shown - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
    return strncmp(text, shown, 36) == 0;
}

bool hm_ring_alive(const struct hm_ring *r) {
    char path[64], text[1024];
    if (r->header.flags & HM_RING_CLOSED || !this_boot(r->header.boot_id)) return false;
    (void)snprintf(path, sizeof path, "/proc/%u/stat", r->header.pid);
    if (!read_text(path, text, sizeof text)) return false;
    const char *at = strrchr(text, ')');
    if (at && (at[2] == 'Z' || at[2] == 'X')) return false;
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at && (r->header.pid_start == 0 || strtoull(at + 1, NULL, 10) == r->header.pid_start);
}
