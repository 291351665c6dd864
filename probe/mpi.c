/* mpi.c - records the MPI calls of a program that knows nothing of it: LD_PRELOAD=libhindmost-mpi.so.
 *
 * The profiling interface of MPI: every MPI_X here calls PMPI_X. A communicator gets its group (name, members) when it is made, or at
 * its first use, from local calls only: nothing here communicates. Communicators are named by descent (world, world/1, world/1/2), which all
 * members agree upon, because making one is collective over its parent.
 *
 * A blocking call is an event on the main line. A nonblocking one is launched on a stream of its own; the wait for it is an event of the
 * main line that names it. Requests are found again in a table of fixed size; one that finds no room is not recorded, and counted. */
#include "hindmost_probe.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a communicator carries with it, as an MPI attribute. */
struct comm {
    uint16_t group, stream;
    int size;
    int *global; /* rank in MPI_COMM_WORLD of each member */
    _Atomic uint32_t collectives, children;
    _Atomic uint32_t *sends, *recvs; /* by peer */
    char name[128];
};

/* A request under way. key 0: free, 1: being filled in. */
struct pending {
    _Atomic uintptr_t key;
    struct hm_probe_event event;
    struct comm *comm;
};
enum { REQUESTS = 8192, TRIES = 64 };

static struct hm_probe *probe;
static int keyval = MPI_KEYVAL_INVALID;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct pending table[REQUESTS];
static _Atomic uint32_t streams = 1, threads, unseen;
static _Thread_local uint16_t thread_stream;
static _Thread_local bool thread_known;

/* ---- communicators ---- */

static int forget_comm(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm;
    (void)key;
    (void)extra;
    (void)value; /* requests may still point to it; it is small and there are few */
    return MPI_SUCCESS;
}

static int *global_ranks(MPI_Comm comm, int size) {
    MPI_Group mine, world;
    int *own = malloc(sizeof(int) * (size_t)size), *global = malloc(sizeof(int) * (size_t)size);
    if (own && global && PMPI_Comm_group(comm, &mine) == MPI_SUCCESS &&
        PMPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
        for (int i = 0; i < size; i++) own[i] = i;
        PMPI_Group_translate_ranks(mine, size, own, world, global);
        PMPI_Group_free(&mine);
        PMPI_Group_free(&world);
    } else {
        free(global);
        global = NULL;
    }
    free(own);
    return global;
}

static struct comm *make_comm(MPI_Comm comm, const char *name) {
    int size = 0, inter = 0;
    struct comm *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    PMPI_Comm_test_inter(comm, &inter);
    (void)(inter ? PMPI_Comm_remote_size(comm, &size) : PMPI_Comm_size(comm, &size));
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    c->size = size;
    c->global = inter ? NULL : global_ranks(comm, size);
    c->sends = calloc((size_t)size, sizeof *c->sends);
    c->recvs = calloc((size_t)size, sizeof *c->recvs);
    c->group = hm_probe_group(probe, c->name, c->global, c->global ? (size_t)size : 0);
    c->stream = (uint16_t)(2 * atomic_fetch_add(&streams, 1) - 1);
    if (c->sends && c->recvs && PMPI_Comm_set_attr(comm, keyval, c) == MPI_SUCCESS) return c;
    free(c->sends);
    free(c->recvs);
    free(c->global);
    free(c);
    return NULL;
}

static struct comm *known_comm(MPI_Comm comm) {
    void *value = NULL;
    int found = 0;
    if (!probe || comm == MPI_COMM_NULL || keyval == MPI_KEYVAL_INVALID) return NULL;
    return PMPI_Comm_get_attr(comm, keyval, &value, &found) == MPI_SUCCESS && found ? value : NULL;
}

static struct comm *comm_of(MPI_Comm comm) {
    struct comm *c = known_comm(comm);
    if (c || !probe || comm == MPI_COMM_NULL || keyval == MPI_KEYVAL_INVALID) return c;
    pthread_mutex_lock(&making);
    c = known_comm(comm);
    if (!c) c = make_comm(comm, comm == MPI_COMM_WORLD ? "world" : comm == MPI_COMM_SELF ? "self" : "comm");
    pthread_mutex_unlock(&making);
    return c;
}

static void name_child(MPI_Comm parent, const MPI_Comm *made, int status) {
    struct comm *p = comm_of(parent);
    char name[sizeof p->name + 12];
    if (!p) return;
    uint32_t number = atomic_fetch_add(&p->children, 1) + 1; /* counted by members that are not in it as well */
    if (status != MPI_SUCCESS || *made == MPI_COMM_NULL || known_comm(*made)) return;
    (void)snprintf(name, sizeof name, "%s/%u", p->name, number);
    pthread_mutex_lock(&making);
    (void)make_comm(*made, name);
    pthread_mutex_unlock(&making);
}

#define CHILD(NAME, PARAMETERS, ARGUMENTS)                                                                             \
    HM_PROBE_API int MPI_##NAME PARAMETERS {                                                                           \
        int status = PMPI_##NAME ARGUMENTS;                                                                            \
        name_child(comm, made, status);                                                                                \
        return status;                                                                                                 \
    }
CHILD(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made))
CHILD(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
CHILD(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made))
CHILD(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made))
CHILD(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))
CHILD(Cart_create, (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder, MPI_Comm *made),
      (comm, n, dims, periods, reorder, made))

/* ---- begin and end ---- */

static void begin_probe(void) {
    probe = hm_probe_process();
    if (probe && PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_comm, &keyval, NULL) != MPI_SUCCESS)
        probe = NULL;
    thread_known = true; /* this thread's calls are the main line */
    (void)comm_of(MPI_COMM_WORLD);
}

HM_PROBE_API int MPI_Init(int *argc, char ***argv) {
    int status = PMPI_Init(argc, argv);
    if (status == MPI_SUCCESS) begin_probe();
    return status;
}

HM_PROBE_API int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int status = PMPI_Init_thread(argc, argv, required, provided);
    if (status == MPI_SUCCESS) begin_probe();
    return status;
}

HM_PROBE_API int MPI_Finalize(void) {
    uint32_t missed = atomic_load(&unseen);
    if (missed)
        fprintf(stderr,
                "hindmost-probe: %u nonblocking calls found no room in the table of requests and were not recorded\n",
                missed);
    probe = NULL;
    return PMPI_Finalize();
}

/* ---- events ---- */

static uint16_t stream_here(void) {
    if (!thread_known) {
        thread_stream = (uint16_t)(1000 + atomic_fetch_add(&threads, 1) % 60000);
        thread_known = true;
    }
    return thread_stream;
}

static uint64_t bytes_of(int count, MPI_Datatype type) {
    int size = 0;
    if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS || size <= 0) return 0;
    return (uint64_t)count * (uint64_t)size;
}

/* Names stand still: looked up once each. */
static uint16_t name_of(const char *name, _Atomic uint16_t *kept) {
    uint16_t id = atomic_load_explicit(kept, memory_order_relaxed);
    if (!id && probe) atomic_store(kept, id = hm_probe_name(probe, name));
    return id;
}

static struct hm_probe_event begin_event(struct comm *c, enum hm_probe_kind kind, uint16_t name, uint64_t bytes) {
    struct hm_probe_event e = hm_probe_begin(c ? probe : NULL, kind, name);
    e.amount = bytes;
    e.stream = stream_here();
    if (c) e.group = c->group;
    return e;
}

static void end_event(struct comm *c, struct hm_probe_event *e, int status) {
    if (!c) return;
    if (status != MPI_SUCCESS) e->flags |= HM_PROBE_FAILED;
    hm_probe_end(probe, e);
}

/* ---- requests ---- */

static struct pending *slot_of(uintptr_t key, uintptr_t wanted) {
    size_t at = (key >> 4) * 0x9e3779b97f4a7c15u % REQUESTS;
    for (size_t i = 0; i < TRIES; i++) {
        struct pending *p = &table[(at + i) % REQUESTS];
        uintptr_t free_key = 0;
        if (wanted == 0 ? atomic_compare_exchange_strong(&p->key, &free_key, 1) : atomic_load(&p->key) == wanted)
            return p;
    }
    return NULL;
}

static uintptr_t key_of(MPI_Request request) {
    return request == MPI_REQUEST_NULL ? 0 : (uintptr_t)request;
}

/* The call launched a request: it runs on a stream of its communicator until somebody sees it complete. */
static void launched(struct comm *c, const struct hm_probe_event *e, const MPI_Request *request, int status) {
    uintptr_t key = status == MPI_SUCCESS ? key_of(*request) : 0;
    if (!c || !key) return;
    struct pending *p = slot_of(key, 0);
    if (!p) {
        atomic_fetch_add(&unseen, 1);
        return;
    }
    p->event = *e;
    p->event.stream = (uint16_t)(c->stream + (e->kind == HM_PROBE_COLLECTIVE ? 0 : 1));
    p->event.flags |= HM_PROBE_ASYNC;
    p->comm = c;
    atomic_store(&p->key, key);
}

static uint32_t next_recv(struct comm *c, int source, struct hm_probe_event *e) {
    if (source < 0 || source >= c->size) return UINT32_MAX;
    e->peer = c->global ? c->global[source] : -1;
    return atomic_fetch_add(&c->recvs[source], 1);
}

/* The request `key` is complete: its event ends now, and if the thread waited for it since `since`, that is an event, too. */
static void completed(uintptr_t key, const MPI_Status *status, int64_t since) {
    struct pending *p = key ? slot_of(key, key) : NULL;
    uintptr_t mine = key;
    if (!p || !atomic_compare_exchange_strong(&p->key, &mine, 1)) return;
    struct hm_probe_event e = p->event;
    struct comm *c = p->comm;
    atomic_store(&p->key, 0);
    if (e.kind == HM_PROBE_RECV && e.peer < 0 && status != MPI_STATUS_IGNORE)
        e.seq = next_recv(c, status->MPI_SOURCE, &e);
    e.end_ns = hm_probe_now();
    hm_probe_record(probe, &e);
    if (!since) return;
    static _Atomic uint16_t wait_name;
    struct hm_probe_event wait = begin_event(c, HM_PROBE_WAIT, name_of("wait", &wait_name), 0);
    wait.begin_ns = since;
    wait.end_ns = e.end_ns;
    wait.peer = e.peer;
    wait.seq = e.seq;
    hm_probe_record(probe, &wait);
}

HM_PROBE_API int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_Status own;
    uintptr_t key = probe ? key_of(*request) : 0;
    int64_t since = key ? hm_probe_now() : 0;
    MPI_Status *seen = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Wait(request, seen);
    if (key && rc == MPI_SUCCESS) completed(key, seen, since);
    return rc;
}

HM_PROBE_API int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_Status own;
    uintptr_t key = probe ? key_of(*request) : 0;
    MPI_Status *seen = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = PMPI_Test(request, flag, seen);
    if (key && rc == MPI_SUCCESS && *flag) completed(key, seen, 0);
    return rc;
}

/* Calls on many requests: their keys are kept on the stack, or beyond KEPT not recorded. */
enum { KEPT = 512 };
struct many {
    uintptr_t key[KEPT];
    MPI_Status own[KEPT], *seen;
    int64_t since;
    bool watched;
};

static void begin_many(struct many *m, int n, const MPI_Request *requests, MPI_Status *statuses) {
    m->watched = probe && n > 0 && n <= KEPT;
    m->seen = m->watched && statuses == MPI_STATUSES_IGNORE ? m->own : statuses;
    if (probe && n > KEPT) atomic_fetch_add(&unseen, (uint32_t)n);
    for (int i = 0; m->watched && i < n; i++) m->key[i] = key_of(requests[i]);
    m->since = m->watched ? hm_probe_now() : 0;
}

/* One wait for several: the first of them names the whole of it. */
static void end_many(struct many *m, int n, bool waited) {
    int64_t since = waited ? m->since : 0;
    for (int i = 0; m->watched && i < n; i++) {
        if (!m->key[i]) continue;
        completed(m->key[i], &m->seen[i], since);
        if (since) since = hm_probe_now();
    }
}

HM_PROBE_API int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[]) {
    struct many m;
    begin_many(&m, n, requests, statuses);
    int rc = PMPI_Waitall(n, requests, m.seen);
    if (rc == MPI_SUCCESS) end_many(&m, n, true);
    return rc;
}

HM_PROBE_API int MPI_Testall(int n, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    struct many m;
    begin_many(&m, n, requests, statuses);
    int rc = PMPI_Testall(n, requests, flag, m.seen);
    if (rc == MPI_SUCCESS && *flag) end_many(&m, n, false);
    return rc;
}

HM_PROBE_API int MPI_Waitany(int n, MPI_Request requests[], int *index, MPI_Status *status) {
    struct many m;
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    begin_many(&m, n, requests, MPI_STATUSES_IGNORE);
    int rc = PMPI_Waitany(n, requests, index, seen);
    if (rc == MPI_SUCCESS && m.watched && *index != MPI_UNDEFINED) completed(m.key[*index], seen, m.since);
    return rc;
}

HM_PROBE_API int MPI_Testany(int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    struct many m;
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    begin_many(&m, n, requests, MPI_STATUSES_IGNORE);
    int rc = PMPI_Testany(n, requests, index, flag, seen);
    if (rc == MPI_SUCCESS && m.watched && *flag && *index != MPI_UNDEFINED) completed(m.key[*index], seen, 0);
    return rc;
}

HM_PROBE_API int MPI_Waitsome(int n, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]) {
    struct many m;
    begin_many(&m, n, requests, statuses);
    int rc = PMPI_Waitsome(n, requests, done, indices, m.seen);
    for (int i = 0; rc == MPI_SUCCESS && m.watched && *done != MPI_UNDEFINED && i < *done; i++)
        completed(m.key[indices[i]], &m.seen[i], i == 0 ? m.since : 0);
    return rc;
}

HM_PROBE_API int MPI_Request_free(MPI_Request *request) {
    uintptr_t key = probe ? key_of(*request) : 0;
    struct pending *p = key ? slot_of(key, key) : NULL;
    if (p) (void)atomic_compare_exchange_strong(&p->key, &key, 0);
    return PMPI_Request_free(request);
}

/* ---- collectives: one line each ---- */

#define NAMED(label)                                                                                                   \
    static _Atomic uint16_t kept;                                                                                      \
    const uint16_t name = name_of(label, &kept)
#define COLLECTIVE(NAME, LABEL, BYTES, PARAMETERS, ARGUMENTS)                                                          \
    HM_PROBE_API int MPI_##NAME PARAMETERS {                                                                           \
        NAMED(LABEL);                                                                                                  \
        struct comm *c = comm_of(comm);                                                                                \
        struct hm_probe_event e = begin_event(c, HM_PROBE_COLLECTIVE, name, c ? (BYTES) : 0);                          \
        if (c) e.seq = atomic_fetch_add(&c->collectives, 1);                                                           \
        int status = PMPI_##NAME ARGUMENTS;                                                                            \
        end_event(c, &e, status);                                                                                      \
        return status;                                                                                                 \
    }
#define NONBLOCKING(NAME, LABEL, BYTES, PARAMETERS, ARGUMENTS)                                                         \
    HM_PROBE_API int MPI_##NAME PARAMETERS {                                                                           \
        NAMED(LABEL);                                                                                                  \
        struct comm *c = comm_of(comm);                                                                                \
        struct hm_probe_event e = begin_event(c, HM_PROBE_COLLECTIVE, name, c ? (BYTES) : 0);                          \
        if (c) e.seq = atomic_fetch_add(&c->collectives, 1);                                                           \
        int status = PMPI_##NAME ARGUMENTS;                                                                            \
        launched(c, &e, request, status);                                                                              \
        return status;                                                                                                 \
    }
/* PARENTHESISED lists of parameters, so that both forms share them. */
#define LIST(...) __VA_ARGS__
#define BOTH(NAME, INAME, LABEL, BYTES, PARAMETERS, ARGUMENTS)                                                         \
    COLLECTIVE(NAME, LABEL, BYTES, (LIST PARAMETERS), (LIST ARGUMENTS))                                                \
    NONBLOCKING(INAME, LABEL, BYTES, (LIST PARAMETERS, MPI_Request * request), (LIST ARGUMENTS, request))

BOTH(Barrier, Ibarrier, "barrier", 0, (MPI_Comm comm), (comm))
BOTH(Bcast, Ibcast, "broadcast", bytes_of(n, t), (void *b, int n, MPI_Datatype t, int root, MPI_Comm comm),
     (b, n, t, root, comm))
BOTH(Allreduce, Iallreduce, "all_reduce", bytes_of(n, t),
     (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm), (s, r, n, t, op, comm))
BOTH(Reduce, Ireduce, "reduce", bytes_of(n, t),
     (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm), (s, r, n, t, op, root, comm))
BOTH(Scan, Iscan, "scan", bytes_of(n, t), (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),
     (s, r, n, t, op, comm))
BOTH(Reduce_scatter_block, Ireduce_scatter_block, "reduce_scatter", bytes_of(n, t),
     (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm), (s, r, n, t, op, comm))
BOTH(Reduce_scatter, Ireduce_scatter, "reduce_scatter", 0,
     (const void *s, void *r, const int n[], MPI_Datatype t, MPI_Op op, MPI_Comm comm), (s, r, n, t, op, comm))
BOTH(Allgather, Iallgather, "all_gather", bytes_of(rn, rt),
     (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm comm),
     (s, sn, st, r, rn, rt, comm))
BOTH(Alltoall, Ialltoall, "all_to_all", bytes_of(rn, rt),
     (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm comm),
     (s, sn, st, r, rn, rt, comm))
BOTH(Gather, Igather, "gather", bytes_of(sn, st),
     (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, int root, MPI_Comm comm),
     (s, sn, st, r, rn, rt, root, comm))
BOTH(Scatter, Iscatter, "scatter", bytes_of(rn, rt),
     (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, int root, MPI_Comm comm),
     (s, sn, st, r, rn, rt, root, comm))
BOTH(Allgatherv, Iallgatherv, "all_gather", bytes_of(sn, st),
     (const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int at[], MPI_Datatype rt, MPI_Comm comm),
     (s, sn, st, r, rn, at, rt, comm))
BOTH(Alltoallv, Ialltoallv, "all_to_all", 0,
     (const void *s, const int sn[], const int sa[], MPI_Datatype st, void *r, const int rn[], const int ra[],
      MPI_Datatype rt, MPI_Comm comm),
     (s, sn, sa, st, r, rn, ra, rt, comm))

/* ---- from one to one ---- */

/* A rank's sends to a peer count in their order, and so do its receives from it; MPI_PROC_NULL is nobody and not recorded. */
static struct comm *begin_pair(MPI_Comm comm, int peer, enum hm_probe_kind kind, uint16_t name, uint64_t bytes,
                               struct hm_probe_event *e) {
    struct comm *c = peer == MPI_PROC_NULL ? NULL : comm_of(comm);
    *e = begin_event(c, kind, name, bytes);
    if (!c || peer < 0 || peer >= c->size) return c;
    e->peer = c->global ? c->global[peer] : -1;
    e->seq = atomic_fetch_add(kind == HM_PROBE_SEND ? &c->sends[peer] : &c->recvs[peer], 1);
    return c;
}

#define SEND(NAME)                                                                                                     \
    HM_PROBE_API int MPI_##NAME(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm) {                \
        NAMED("send");                                                                                                 \
        struct hm_probe_event e;                                                                                       \
        struct comm *c = begin_pair(comm, to, HM_PROBE_SEND, name, bytes_of(n, t), &e);                                \
        int status = PMPI_##NAME(b, n, t, to, tag, comm);                                                              \
        end_event(c, &e, status);                                                                                      \
        return status;                                                                                                 \
    }                                                                                                                  \
    HM_PROBE_API int MPI_I##NAME(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm,                 \
                                 MPI_Request *request)
#define ISEND(NAME)                                                                                                    \
    {                                                                                                                  \
        NAMED("send");                                                                                                 \
        struct hm_probe_event e;                                                                                       \
        struct comm *c = begin_pair(comm, to, HM_PROBE_SEND, name, bytes_of(n, t), &e);                                \
        int status = PMPI_##NAME(b, n, t, to, tag, comm, request);                                                     \
        launched(c, &e, request, status);                                                                              \
        return status;                                                                                                 \
    }
#define MPI_ISend MPI_Isend
#define MPI_ISsend MPI_Issend
#define MPI_IRsend MPI_Irsend
SEND(Send)
ISEND(Isend)
SEND(Ssend)
ISEND(Issend)
SEND(Rsend)
ISEND(Irsend)

HM_PROBE_API int MPI_Recv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Status *status) {
    NAMED("recv");
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    struct hm_probe_event e;
    struct comm *c = begin_pair(comm, from, HM_PROBE_RECV, name, bytes_of(n, t), &e);
    int rc = PMPI_Recv(b, n, t, from, tag, comm, seen);
    if (c && e.peer < 0 && rc == MPI_SUCCESS) e.seq = next_recv(c, seen->MPI_SOURCE, &e);
    end_event(c, &e, rc);
    return rc;
}

HM_PROBE_API int MPI_Irecv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    NAMED("recv");
    struct hm_probe_event e;
    struct comm *c = begin_pair(comm, from, HM_PROBE_RECV, name, bytes_of(n, t), &e);
    int status = PMPI_Irecv(b, n, t, from, tag, comm, request);
    launched(c, &e, request, status);
    return status;
}

/* Both at once: the receive is what the rank waits for on its main line; the send goes beside it. */
HM_PROBE_API int MPI_Sendrecv(const void *s, int sn, MPI_Datatype st, int to, int stag, void *r, int rn,
                              MPI_Datatype rt, int from, int rtag, MPI_Comm comm, MPI_Status *status) {
    static _Atomic uint16_t kept_send, kept_recv;
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    struct hm_probe_event out, in;
    struct comm *c_out = begin_pair(comm, to, HM_PROBE_SEND, name_of("send", &kept_send), bytes_of(sn, st), &out);
    struct comm *c_in = begin_pair(comm, from, HM_PROBE_RECV, name_of("recv", &kept_recv), bytes_of(rn, rt), &in);
    int rc = PMPI_Sendrecv(s, sn, st, to, stag, r, rn, rt, from, rtag, comm, seen);
    if (c_in && in.peer < 0 && rc == MPI_SUCCESS) in.seq = next_recv(c_in, seen->MPI_SOURCE, &in);
    if (c_out && c_in) out.stream = (uint16_t)(c_out->stream + 1);
    end_event(c_out, &out, rc);
    end_event(c_in, &in, rc);
    return rc;
}
