/* nccl.c - NCCL's profiler plugin: libnccl-profiler-hindmost.so, loaded by NCCL_PROFILER_PLUGIN=hindmost (or its path).
 *
 * Exports versions 4 to 7 of the interface, which NCCL 2.27.3 and later look for. It asks for collectives and for sends and receives alone:
 * these are two calls for an operation, on the thread that launches it. Their stop means "enqueued", so the records say so. Kernel and proxy
 * events are never asked for: they cost up to 13 % of small all-reduces on NCCL 2.31.2 (NCCL issue 2355); should somebody else switch them on
 * (one mask serves the whole process), they are passed over.
 *
 * NCCL's adapters hand over descriptors with uninitialised fields (2.28 and later, for plugins of version 4 and 5): no field is trusted
 * that the version does not define, and no handle points to memory that could be gone: a handle is a number in a table. */
#include "hindmost_probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NCCL_SUCCESS = 0, EVENT_COLL = 1 << 1, EVENT_P2P = 1 << 2, OPEN = 4096, CONTEXTS = 1024, PEERS = 64 };

/* ---- the interface, as far as it is used ---- */

struct coll {
    uint64_t seq_number;
    const char *func;
    const void *send, *recv;
    size_t count;
    int root;
    const char *datatype;
};
struct p2p {
    const char *func;
    void *buffer;
    const char *datatype;
    size_t count;
    int peer;
};
struct descriptor_v4 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct coll coll;
        struct p2p p2p;
        uint8_t size[80];
    } u;
};
struct descriptor_v5 { /* and v6 and v7, which add fields behind these */
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct coll coll;
        struct p2p p2p;
    } u;
};
#define AT(type, field, at) _Static_assert(__builtin_offsetof(struct type, field) == (at), #type "." #field)
AT(descriptor_v4, parent, 8);
AT(descriptor_v4, rank, 16);
AT(descriptor_v4, u.coll.seq_number, 24);
AT(descriptor_v4, u.coll.func, 32);
AT(descriptor_v4, u.coll.count, 56);
AT(descriptor_v4, u.coll.root, 64);
AT(descriptor_v4, u.coll.datatype, 72);
AT(descriptor_v4, u.p2p.func, 24);
AT(descriptor_v4, u.p2p.datatype, 40);
AT(descriptor_v4, u.p2p.count, 48);
AT(descriptor_v4, u.p2p.peer, 56);
_Static_assert(sizeof(struct descriptor_v4) == 104, "descriptor v4");
AT(descriptor_v5, parent, 8);
AT(descriptor_v5, rank, 16);
AT(descriptor_v5, u.coll.func, 32);
AT(descriptor_v5, u.coll.count, 56);
AT(descriptor_v5, u.coll.datatype, 72);
AT(descriptor_v5, u.p2p.func, 24);
AT(descriptor_v5, u.p2p.datatype, 40);
AT(descriptor_v5, u.p2p.count, 48);
AT(descriptor_v5, u.p2p.peer, 56);

typedef void (*logger_fn)(int level, unsigned long flags, const char *file, int line, const char *format, ...);
struct profiler_v4 {
    const char *name;
    int (*init)(void **, int *, const char *, uint64_t, int, int, int, logger_fn);
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
};
struct profiler_v5 {
    const char *name;
    int (*init)(void **, uint64_t, int *, const char *, int, int, int, logger_fn);
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
};
_Static_assert(sizeof(struct profiler_v4) == 48 && sizeof(struct profiler_v5) == 48, "the table of functions");

/* ---- communicators: never freed, because late calls may name them ---- */

struct context {
    _Atomic bool used;
    uint16_t group, stream;
    int ranks;
    _Atomic uint32_t collectives, sends[PEERS], recvs[PEERS];
};
static struct context contexts[CONTEXTS];
static _Atomic uint32_t context_count;
static struct hm_probe *probe;
static int world;

static void open_probe(int comm_rank, int comm_size) {
    struct hm_probe_options o = hm_probe_defaults();
    o.face = "nccl";
    if (o.rank < 0) o.rank = comm_rank; /* the first communicator is that of all ranks */
    if (o.world < 0) o.world = comm_size;
    char why[512] = "";
    probe = hm_probe_open(&o, why, sizeof why);
    world = o.world;
    if (!probe) fprintf(stderr, "hindmost-probe: NCCL is not recorded: %s\n", why);
}

static int init(void **context, int *mask, const char *name, uint64_t id, int ranks, int rank) {
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    static bool tried;
    char group[256];
    *context = NULL;
    pthread_mutex_lock(&opening);
    if (!tried) open_probe(rank, ranks);
    tried = true;
    pthread_mutex_unlock(&opening);
    uint32_t number = probe ? atomic_fetch_add(&context_count, 1) : CONTEXTS;
    if (number >= CONTEXTS)
        return NCCL_SUCCESS; /* nothing is asked for, and every call with no context is passed over */
    struct context *c = &contexts[number];
    if (name && *name)
        (void)snprintf(group, sizeof group, "%.200s", name);
    else
        (void)snprintf(group, sizeof group, "nccl-%llx", (unsigned long long)id);
    c->group = hm_probe_group(probe, group, NULL, 0);
    c->stream = (uint16_t)(2 * number + 1);
    c->ranks = ranks;
    atomic_store(&c->used, true);
    *context = c;
    *mask = EVENT_COLL | EVENT_P2P;
    return NCCL_SUCCESS;
}

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank,
                   logger_fn log) {
    (void)nodes;
    (void)log;
    return init(context, mask, name, hash, ranks, rank);
}

static int init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                   logger_fn log) {
    (void)nodes;
    (void)log;
    return init(context, mask, name, id, ranks, rank);
}

/* ---- events under way ---- */

struct under_way {
    _Atomic uint32_t used;
    struct hm_probe_event event;
};
static struct under_way table[OPEN];
static _Atomic uint32_t next_slot;

/* A slot of the table; its address is the handle. Full: the event is not recorded. */
static struct under_way *take_slot(void) {
    for (int i = 0; i < 64; i++) {
        struct under_way *u = &table[atomic_fetch_add(&next_slot, 1) % OPEN];
        uint32_t free_slot = 0;
        if (atomic_compare_exchange_strong(&u->used, &free_slot, 1)) return u;
    }
    return NULL;
}

/* "ncclFloat32" and so on. NCCL says "Unknown" of 8-bit unsigned numbers (its list lacks them). */
static uint64_t size_of(const char *type) {
    static const struct {
        const char *name;
        unsigned bytes;
    } types[] = {{"ncclInt32", 4},   {"ncclUint32", 4},  {"ncclInt64", 8},   {"ncclUint64", 8},
                 {"ncclFloat16", 2}, {"ncclFloat32", 4}, {"ncclFloat64", 8}, {"ncclBfloat16", 2},
                 {"ncclHalf", 2},    {"ncclFloat", 4},   {"ncclDouble", 8}};
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].name) == 0) return types[i].bytes;
    return 1;
}

/* NCCL's names as the event table has them. */
static const char *name_of(const char *func) {
    static const char *const names[][2] = {{"AllReduce", "all_reduce"},
                                           {"AllGather", "all_gather"},
                                           {"ReduceScatter", "reduce_scatter"},
                                           {"Broadcast", "broadcast"},
                                           {"Reduce", "reduce"},
                                           {"AlltoAll", "all_to_all"},
                                           {"Send", "send"},
                                           {"Recv", "recv"},
                                           {"Scatter", "scatter"},
                                           {"Gather", "gather"},
                                           {"AllGatherV", "all_gather"}};
    for (size_t i = 0; func && i < sizeof names / sizeof *names; i++)
        if (strcmp(func, names[i][0]) == 0) return names[i][1];
    return func && *func ? func : "collective";
}

static void begin_coll(struct context *c, struct hm_probe_event *e, const struct coll *coll) {
    *e = hm_probe_begin(probe, HM_PROBE_COLLECTIVE, hm_probe_name(probe, name_of(coll->func)));
    e->amount = coll->count * size_of(coll->datatype);
    e->seq = atomic_fetch_add(&c->collectives, 1);
}

static void begin_p2p(struct context *c, struct hm_probe_event *e, const struct p2p *p2p) {
    bool send = p2p->func && strcmp(p2p->func, "Send") == 0;
    *e = hm_probe_begin(probe, send ? HM_PROBE_SEND : HM_PROBE_RECV, hm_probe_name(probe, name_of(p2p->func)));
    e->amount = p2p->count * size_of(p2p->datatype);
    /* the peer's rank is the communicator's: the job's only if all ranks are in it */
    if (p2p->peer >= 0 && p2p->peer < c->ranks && c->ranks == world) e->peer = p2p->peer;
    if (p2p->peer >= 0 && p2p->peer < PEERS)
        e->seq = atomic_fetch_add(send ? &c->sends[p2p->peer] : &c->recvs[p2p->peer], 1);
}

static int start(void *context, void **handle, uint64_t type, const struct coll *coll, const struct p2p *p2p) {
    struct context *c = context;
    *handle = NULL;
    if (!c || !probe || (type != EVENT_COLL && type != EVENT_P2P)) return NCCL_SUCCESS;
    struct under_way *u = take_slot();
    if (!u) return NCCL_SUCCESS;
    if (type == EVENT_COLL)
        begin_coll(c, &u->event, coll);
    else
        begin_p2p(c, &u->event, p2p);
    u->event.group = c->group;
    u->event.stream = (uint16_t)(c->stream + (type == EVENT_P2P));
    u->event.flags = HM_PROBE_ASYNC | HM_PROBE_ENQUEUED;
    *handle = u;
    return NCCL_SUCCESS;
}

static int start_v4(void *context, void **handle, void *descriptor) {
    const struct descriptor_v4 *d = descriptor;
    return start(context, handle, d->type, &d->u.coll, &d->u.p2p);
}

static int start_v5(void *context, void **handle, void *descriptor) {
    const struct descriptor_v5 *d = descriptor;
    return start(context, handle, d->type, &d->u.coll, &d->u.p2p);
}

static int stop(void *handle) {
    struct under_way *u = handle;
    if (!u || !atomic_load(&u->used)) return NCCL_SUCCESS;
    struct hm_probe_event e = u->event;
    atomic_store(&u->used, 0);
    hm_probe_end(probe, &e);
    return NCCL_SUCCESS;
}

static int record(void *handle, int state, void *arguments) {
    (void)handle;
    (void)state;
    (void)arguments;
    return NCCL_SUCCESS;
}

static int finalize(void *context) {
    struct context *c = context;
    if (c) atomic_store(&c->used, false);
    return NCCL_SUCCESS; /* the ring stays: other communicators use it, and it is valid as it is */
}

extern const struct profiler_v4 ncclProfiler_v4;
extern const struct profiler_v5 ncclProfiler_v5, ncclProfiler_v6, ncclProfiler_v7;
HM_PROBE_API const struct profiler_v4 ncclProfiler_v4 = {"hindmost", init_v4, start_v4, stop, record, finalize};
HM_PROBE_API const struct profiler_v5 ncclProfiler_v5 = {"hindmost", init_v5, start_v5, stop, record, finalize};
HM_PROBE_API const struct profiler_v5 ncclProfiler_v6 = {"hindmost", init_v5, start_v5, stop, record, finalize};
HM_PROBE_API const struct profiler_v5 ncclProfiler_v7 = {"hindmost", init_v5, start_v5, stop, record, finalize};
