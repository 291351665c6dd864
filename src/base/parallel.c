/* parallel.c - a loop over threads. Pieces are handed out one by one, so uneven pieces balance themselves. */
#include "base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 256 };

struct loop {
    atomic_size_t next;
    size_t count;
    hm_loop_fn body;
    void *context;
};

struct runner {
    struct loop *loop;
    int thread;
    pthread_t id;
};

static void *run(void *argument) {
    struct runner *r = argument;
    size_t i;
    while ((i = atomic_fetch_add(&r->loop->next, 1)) < r->loop->count) r->loop->body(r->loop->context, i, r->thread);
    return NULL;
}

/* The cores this process may use (a Slurm cgroup or taskset gives fewer than the machine has). */
static int usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

int hm_thread_count(int threads, size_t count) {
    if (threads <= 0) threads = usable_cores();
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    if ((size_t)threads > count) threads = count ? (int)count : 1;
    return threads;
}

void hm_parallel(size_t count, int threads, hm_loop_fn body, void *context) {
    struct loop loop = {.count = count, .body = body, .context = context};
    struct runner runners[MAX_THREADS];
    int n = hm_thread_count(threads, count), started = 1;
    for (int t = 0; t < n; t++) runners[t] = (struct runner){.loop = &loop, .thread = t};
    while (started < n && pthread_create(&runners[started].id, NULL, run, &runners[started]) == 0) started++;
    run(&runners[0]); /* a thread that could not be started is no loss but of speed */
    for (int t = 1; t < started; t++) pthread_join(runners[t].id, NULL);
}

double hm_now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
