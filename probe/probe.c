/* probe.c - records events into a ring: hindmost_probe.h's mechanism.
 *
 * A writer takes the next number by one atomic addition, marks that number's slot as being written (an odd state), fills it, and
 * publishes it (an even state). Nobody ever waits: if the slot is still being written by a thread that was asleep for a whole lap, or
 * already holds a later record, the newcomer gives up and is counted as lost. So a record is never torn, whatever is killed when.
 * Rejected: a lock (a rank would wait for a thread that was descheduled), and a sequence number alone (a sleeper that wakes a lap
 * later writes into its successor's record, and both look whole). */
#include "probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const int64_t pair_every_ns = 10000000000;

int64_t hm_probe_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* no system call on Linux: the vDSO answers */
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- recording ---- */

void hm_probe_record(struct hm_probe *p, const struct hm_probe_event *e) {
    if (!hm_probe_ready(p)) return;
    uint64_t n = __atomic_fetch_add(&p->header->claimed, 1, __ATOMIC_RELAXED);
    struct hm_ring_record *slot = &p->records[n & p->mask];
    uint64_t was = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);
    if (__builtin_expect((was & 1) || was > 2 * n, 0) ||
        !__atomic_compare_exchange_n(&slot->state, &was, 2 * n + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        __atomic_fetch_add(&p->header->lost, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE); /* odd before any of the content */
    const struct hm_ring_record r = {.begin_ns = e->begin_ns,
                                     .end_ns = e->end_ns,
                                     .launch_ns = e->launch_ns,
                                     .amount = e->amount,
                                     .step = e->step,
                                     .peer = e->peer,
                                     .seq = e->seq,
                                     .name = e->name,
                                     .group = e->group,
                                     .kind = e->kind,
                                     .flags = e->flags,
                                     .stream = e->stream,
                                     .microbatch = e->microbatch,
                                     .chunk = e->chunk};
    uint64_t word[HM_RING_RECORD / 8], *to = (uint64_t *)(void *)slot;
    memcpy(word, &r, sizeof word);
    for (size_t i = 1; i < HM_RING_RECORD / 8; i++) __atomic_store_n(&to[i], word[i], __ATOMIC_RELAXED);
    __atomic_store_n(&slot->state, 2 * n + 2, __ATOMIC_RELEASE);
}

struct hm_probe_event hm_probe_begin(const struct hm_probe *p, enum hm_probe_kind kind, uint16_t name) {
    struct hm_probe_event e = {.step = hm_probe_current_step(p),
                               .peer = -1,
                               .seq = UINT32_MAX,
                               .name = name,
                               .kind = (uint8_t)kind,
                               .microbatch = -1,
                               .chunk = -1};
    if (p) e.begin_ns = hm_probe_now();
    return e;
}

void hm_probe_end(struct hm_probe *p, struct hm_probe_event *e) {
    if (!p) return;
    e->end_ns = hm_probe_now();
    hm_probe_record(p, e);
}

/* ---- steps ---- */

/* One thread takes the pair: the one that moves the time of the next. */
static void take_pair(struct hm_probe *p, int64_t now) {
    int64_t due = atomic_load_explicit(&p->next_pair_ns, memory_order_relaxed);
    if (now < due || !atomic_compare_exchange_strong(&p->next_pair_ns, &due, now + pair_every_ns)) return;
    uint32_t n = __atomic_load_n(&p->header->pairs, __ATOMIC_RELAXED);
    p->header->pair[n % HM_RING_PAIRS] = hm_probe_clocks();
    __atomic_store_n(&p->header->pairs, n + 1, __ATOMIC_RELEASE);
}

void hm_probe_step(struct hm_probe *p, int32_t step) {
    if (!hm_probe_ready(p)) return;
    atomic_store_explicit(&p->step, step, memory_order_relaxed);
    struct hm_probe_event e = hm_probe_begin(p, HM_PROBE_MARKER, p->step_name);
    e.end_ns = e.begin_ns;
    hm_probe_record(p, &e);
    take_pair(p, e.begin_ns);
}

int32_t hm_probe_current_step(const struct hm_probe *p) {
    return p ? atomic_load_explicit(&p->step, memory_order_relaxed) : HM_PROBE_NO_STEP;
}

/* ---- opening, forking, closing ---- */

static void keep_text(char *to, size_t size, const char *from) {
    (void)snprintf(to, size, "%s", from ? from : "");
}

/* A job's name becomes that of a folder, a face's part of a file's name. */
static void make_file_name(char *text) {
    if (*text == '.' || !*text) *text = '_';
    for (char *c = text; *c; c++)
        if (*c == '/' || (unsigned char)*c < ' ' || *c == 127) *c = '_';
}

static void keep_options(struct hm_probe *p, const struct hm_probe_options *o) {
    p->options = *o;
    if (o->folder)
        keep_text(p->folder, sizeof p->folder, o->folder);
    else
        (void)snprintf(p->folder, sizeof p->folder, "/dev/shm/hindmost-%u", (unsigned)geteuid());
    keep_text(p->job, sizeof p->job - 1, o->job ? o->job : "job");
    keep_text(p->face, sizeof p->face - 1, o->face ? o->face : "c");
    keep_text(p->gpu, sizeof p->gpu, o->gpu);
    make_file_name(p->job);
    make_file_name(p->face);
    p->options.folder = p->folder;
    p->options.job = p->job;
    p->options.face = p->face;
    p->options.gpu = p->gpu;
}

static void *anonymous(size_t bytes) {
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

static void let_go(struct hm_probe *p) {
    if (p->header) munmap(p->header, hm_probe_bytes(p->header));
    if (p->state) munmap((void *)p->state, HM_RING_PAGE);
    munmap(p, sizeof *p);
}

struct hm_probe *hm_probe_open(const struct hm_probe_options *options, char *why, size_t size) {
    const char *off = getenv("HINDMOST_OFF");
    if (off && *off && strcmp(off, "0") != 0) {
        if (why && size) (void)snprintf(why, size, "recording is off (HINDMOST_OFF)");
        return NULL;
    }
    struct hm_probe *p = anonymous(sizeof *p);
    if (p) p->state = anonymous(HM_RING_PAGE);
    if (!p || !p->state) {
        if (why && size) (void)snprintf(why, size, "out of memory");
        if (p) let_go(p);
        return NULL;
    }
    keep_options(p, options);
    pthread_mutex_init(&p->naming, NULL);
    atomic_store(&p->step, HM_PROBE_NO_STEP);
    if (hm_probe_map(p, NULL, why, size) != 0) {
        p->header = NULL;
        let_go(p);
        return NULL;
    }
    bool cleared = madvise((void *)p->state, HM_RING_PAGE, MADV_WIPEONFORK) == 0;
    atomic_store(&p->next_pair_ns, hm_probe_now() + pair_every_ns);
    atomic_store(p->state, cleared ? HM_PROBE_READY : HM_PROBE_ASK_PID);
    p->step_name = hm_probe_name(p, "step");
    return p;
}

/* In the child of a fork: the mapping is the parent's and must not be written. The first event opens a ring like the parent's. */
bool hm_probe_reopen(struct hm_probe *p) {
    uint32_t state = atomic_load(p->state);
    if (state == HM_PROBE_DEAF) return false;
    if (state == HM_PROBE_ASK_PID && (uint32_t)getpid() == p->pid) return true;
    if (atomic_exchange(&p->opening, 1)) return false; /* another thread is at it, or failed */
    int saved = errno;
    struct hm_ring_header *parent = p->header;
    size_t bytes = hm_probe_bytes(parent);
    bool opened = hm_probe_map(p, parent, NULL, 0) == 0;
    pthread_mutex_init(&p->naming, NULL); /* a thread that the child does not have may have held it */
    if (opened) munmap(parent, bytes);
    bool cleared = madvise((void *)p->state, HM_RING_PAGE, MADV_WIPEONFORK) == 0;
    atomic_store(p->state, !opened ? HM_PROBE_DEAF : cleared ? HM_PROBE_READY : HM_PROBE_ASK_PID);
    atomic_store(&p->opening, opened ? 0 : 1);
    errno = saved;
    return opened;
}

void hm_probe_close(struct hm_probe *p) {
    if (!p) return;
    if (atomic_load(p->state) != HM_PROBE_FORKED && p->pid == (uint32_t)getpid())
        __atomic_fetch_or(&p->header->flags, HM_RING_CLOSED, __ATOMIC_RELEASE);
    pthread_mutex_destroy(&p->naming);
    let_go(p);
}

const char *hm_probe_path(const struct hm_probe *p) {
    return p ? p->path : NULL;
}

/* ---- the process's own ---- */

static struct hm_probe *of_process;

static void open_of_process(void) {
    struct hm_probe_options options = hm_probe_defaults();
    char why[512] = "";
    of_process = hm_probe_open(&options, why, sizeof why);
    if (!of_process && !getenv("HINDMOST_OFF")) fprintf(stderr, "hindmost-probe: not recording: %s\n", why);
}

struct hm_probe *hm_probe_process(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_of_process);
    return of_process;
}
