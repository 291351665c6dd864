/* measure.c - round trips and all-reduces. Waiting ranks sleep: where cores are few (tests, oversubscribed hosts) a rank that
 * polls takes the core from those that are measured, and an innocent host looks slow. */
#include "pairs/measure.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPEATS = 4, LATENCIES = 2000, START_BYTES = 64 << 10, NAP_US = 20, IDLE_NAP_US = 1000 };
static const double SPIN_S = 200e-6;  /* longer than a small message takes, shorter than a time slice */
static const double TRIP_S = 50e-3;   /* a message that takes so long is large enough */
static const double LATENCY_PART = 4; /* a quarter of the time goes to latency */

/* Until a request is done. A rank that has nothing to do for long naps `nap_us` at a time, so that it leaves the core to whoever
 * is being measured. */
static void doze(MPI_Request request, int nap_us) {
    double begin = MPI_Wtime();
    int done = 0;
    while (MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        if (MPI_Wtime() - begin < SPIN_S)
            sched_yield();
        else
            usleep((useconds_t)nap_us);
}

/* The largest of each of `n` <= 2 values in all ranks of comm; all have arrived by then. */
static void largest(double *values, int n, MPI_Comm comm, int nap_us) {
    MPI_Request request;
    double mine[2];
    memcpy(mine, values, (size_t)n * sizeof *mine);
    MPI_Iallreduce(mine, values, n, MPI_DOUBLE, MPI_MAX, comm, &request);
    doze(request, nap_us);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void hm_meet(MPI_Comm comm) {
    largest((double[]){0}, 1, comm, IDLE_NAP_US);
}

static void send(const struct hm_work *w, int bytes, int partner) {
    MPI_Request request;
    MPI_Isend(w->buffer, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &request);
    doze(request, NAP_US);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive(const struct hm_work *w, int partner) {
    MPI_Request request;
    MPI_Irecv(w->buffer, w->bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &request);
    doze(request, NAP_US);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* What the leader sends first in each message: its size, and whether it is the last. */
struct head {
    int bytes, last;
};

static double trip(const struct hm_work *w, int bytes, int partner, int last) {
    struct head head = {bytes, last};
    memcpy(w->buffer, &head, sizeof head);
    double start = MPI_Wtime();
    send(w, bytes, partner);
    receive(w, partner);
    return MPI_Wtime() - start;
}

static void follow(const struct hm_work *w, int leader) {
    for (struct head head = {0}; !head.last;) {
        receive(w, leader);
        memcpy(&head, w->buffer, sizeof head);
        send(w, head.bytes, leader);
    }
}

static int up(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int larger(int bytes, int limit) {
    return bytes < limit / 4 ? bytes * 4 : limit;
}

/* Measures latency, then bandwidth. For latency the lower quartile of many short trips counts: a limiter lets the first through
 * (its bucket is full), so the best would say nothing, and busy cores lengthen many. For bandwidth the best counts: messages are far larger than a bucket, and a
 * busy core only lengthens trips. Messages grow until one takes long enough, so that a very slow link does not take minutes. */
static struct hm_timing lead(const struct hm_work *w, int partner) {
    static double small[LATENCIES];
    int n = 0, bytes = w->bytes < START_BYTES ? w->bytes : START_BYTES, repeats = 0;
    double begin = MPI_Wtime(), best = INFINITY;
    trip(w, sizeof(struct head), partner, 0); /* opens the connection */
    while (n < LATENCIES && (n < REPEATS || MPI_Wtime() - begin < w->seconds / LATENCY_PART))
        small[n++] = trip(w, sizeof(struct head), partner, 0);
    qsort(small, (size_t)n, sizeof *small, up);
    begin = MPI_Wtime();
    for (int last = 0; !last;) {
        last = repeats >= REPEATS && MPI_Wtime() - begin > w->seconds;
        double time = trip(w, bytes, partner, last);
        if (repeats++ > 0) best = fmin(best, time); /* the first of its size warms up */
        if (!last && repeats > 1 && best < TRIP_S && bytes < w->bytes) {
            bytes = larger(bytes, w->bytes);
            best = INFINITY;
            repeats = 0;
        }
    }
    return (struct hm_timing){bytes / (best / 2) / 1e9, small[n / 4] / 2 * 1e6, repeats - 1};
}

struct hm_timing hm_time_link(const struct hm_work *w, int partner) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank < partner) return lead(w, partner);
    follow(w, partner);
    return (struct hm_timing){0};
}

static double reduce(const struct hm_work *w, int bytes, MPI_Comm comm) {
    MPI_Request request;
    double start = MPI_Wtime();
    MPI_Iallreduce(w->buffer, w->other, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, comm, &request);
    doze(request, NAP_US);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return MPI_Wtime() - start;
}

/* An all-reduce lasts until the last rank has its sum: one with a slow way out is done long before those that wait for it. All
 * ranks know the same two times, so that they decide alike. */
struct hm_timing hm_time_group(const struct hm_work *w, MPI_Comm comm) {
    int size, repeats = 0, bytes = w->bytes < START_BYTES ? w->bytes : START_BYTES;
    double begin = MPI_Wtime(), best = INFINITY;
    MPI_Comm_size(comm, &size);
    memset(w->buffer, 0, (size_t)w->bytes); /* zeros: sums that neither overflow nor underflow */
    for (;;) {
        largest((double[]){0}, 1, comm, NAP_US);                        /* together */
        double times[] = {reduce(w, bytes, comm), MPI_Wtime() - begin}; /* of this one, and of all */
        largest(times, 2, comm, NAP_US);
        if (repeats++ > 0) best = fmin(best, times[0]); /* the first of its size warms up */
        if (repeats > 1 && best < TRIP_S && bytes < w->bytes) {
            bytes = larger(bytes, w->bytes);
            best = INFINITY;
            repeats = 0;
        } else if (repeats > REPEATS && times[1] > w->seconds) {
            break;
        }
    }
    return (struct hm_timing){.gbs = bytes * 2.0 * (size - 1) / size / best / 1e9, .repeats = repeats - 1};
}
