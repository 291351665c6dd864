/* sweep_cpu.c - sustained GEMM with a bit-exact repeat check, memory bandwidth, cache latency, core-to-core latency. */
#include "node/sweep.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { REPEATS_MIN = 3, REPEATS_MAX = 10000 };

typedef void (*dgemm_fn)(int order, int transa, int transb, int m, int n, int k, double alpha, const double *a, int lda,
                         const double *b, int ldb, double beta, double *c, int ldc);

/* The same product over and over: its speed, and whether every repeat has the very same bits. A core that computes
 * wrongly now and then says nothing; only its results do (silent data corruption). */
int hm_sweep_gemm(struct hm_sweep *s, double seconds, struct hm_error *err) {
    enum { N = 768, ROW_ORDER = 101, NONE = 111 }; /* as CBLAS numbers them */
    static const char *const libraries[] = {"libopenblas.so.0", "libopenblas.so", "libblas.so.3"};
    void *library = NULL;
    for (size_t i = 0; !library && i < 3; i++) library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    dgemm_fn dgemm = library ? (dgemm_fn)dlsym(library, "cblas_dgemm") : NULL;
    if (!dgemm) {
        if (library) dlclose(library);
        return hm_sweep_add(s, "cpu-gemm/fp64_gflops", "GFLOP/s", 0.05, "no OpenBLAS: install libopenblas0")
                   ? 0
                   : hm_fail_memory(err);
    }
    void (*set_threads)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
    if (set_threads) set_threads(s->threads);
    double *a = hm_alloc_aligned(4 * N * N, sizeof *a);
    struct hm_test *t = a ? hm_sweep_add(s, "cpu-gemm/fp64_gflops", "GFLOP/s", 0.05, NULL) : NULL;
    int status = t ? 0 : hm_fail_memory(err);
    double mismatches = 0, begin = hm_now_s();
    if (status == 0) {
        double *b = a + N * N, *first = b + N * N, *c = first + N * N;
        struct hm_rng rng;
        hm_rng_seed(&rng, 1);
        for (size_t i = 0; i < 2 * N * N; i++) a[i] = hm_rng_uniform(&rng) - 0.5;
        dgemm(ROW_ORDER, NONE, NONE, N, N, N, 1, a, N, b, N, 0, first, N); /* also warms up */
        for (int r = 0; r < REPEATS_MAX && (r < REPEATS_MIN || hm_now_s() - begin < seconds) && status == 0; r++) {
            double start = hm_now_s();
            dgemm(ROW_ORDER, NONE, NONE, N, N, N, 1, a, N, b, N, 0, c, N);
            status = hm_sweep_sample(t, 2.0 * N * N * N / (hm_now_s() - start) / 1e9);
            mismatches += memcmp((const char *)first, (const char *)c, N * N * sizeof *c) != 0;
        }
        t = status == 0 ? hm_sweep_add(s, "cpu-gemm/mismatch_count", "repeats", 0, NULL) : NULL;
        if (t) t->exact = true;
        if (!t || hm_sweep_sample(t, mismatches) != 0) status = hm_fail_memory(err);
    }
    hm_free(a);
    return status; /* the library stays loaded: its threads live on */
}

/* ---- memory ---- */

struct copy {
    char *from, *to;
    size_t bytes;
    int threads;
};

static void copy_part(void *context, size_t i, int thread) {
    (void)thread;
    const struct copy *c = context;
    size_t part = c->bytes / (size_t)c->threads;
    memcpy(c->to + i * part, c->from + i * part, part);
}

/* Copies far larger than any cache by all threads; bytes read plus written, as STREAM counts. */
int hm_sweep_memory(struct hm_sweep *s, double seconds, struct hm_error *err) {
    const size_t bytes = (size_t)256 << 20;
    struct copy c = {hm_map(bytes, NULL), hm_map(bytes, NULL), bytes, s->threads};
    struct hm_test *t = c.from && c.to ? hm_sweep_add(s, "mem-bw/host_copy_gbs", "GB/s", 0.1, NULL) : NULL;
    int status = t ? 0 : hm_fail_memory(err);
    if (status == 0) {
        memset(c.from, 1, bytes);
        memset(c.to, 2, bytes);
    }
    double begin = hm_now_s();
    for (int r = 0; status == 0 && r < REPEATS_MAX && (r < REPEATS_MIN || hm_now_s() - begin < seconds); r++) {
        double start = hm_now_s();
        hm_parallel((size_t)s->threads, s->threads, copy_part, &c);
        if (hm_sweep_sample(t, 2.0 * (double)bytes / (hm_now_s() - start) / 1e9) != 0) status = hm_fail_memory(err);
    }
    if (c.from) hm_unmap(c.from, bytes);
    if (c.to) hm_unmap(c.to, bytes);
    return status;
}

/* A chain through all cache lines in random order (one cycle, Sattolo): each load waits for the one before. */
static double chase(const size_t *line, size_t stride, size_t hops) {
    size_t at = 0;
    double start = hm_now_s();
    for (size_t i = 0; i < hops; i++) {
        at = line[at * stride];
        __asm__ volatile("" : "+r"(at)); /* or the loop, whose result nobody reads, is optimised away */
    }
    return (hm_now_s() - start) / (double)hops * 1e9;
}

int hm_sweep_cache(struct hm_sweep *s, double seconds, struct hm_error *err) {
    static const struct {
        const char *name;
        size_t bytes;
        double precision;
    } levels[] = {{"cpu-cache/latency_16k_ns", 16 << 10, 0.1},
                  {"cpu-cache/latency_256k_ns", 256 << 10, 0.15},
                  {"cpu-cache/latency_4m_ns", 4 << 20, 0.25},
                  {"cpu-cache/latency_128m_ns", 128 << 20, 0.2}};
    const size_t stride = 64 / sizeof(size_t);
    for (size_t k = 0; k < 4; k++) {
        size_t lines = levels[k].bytes / 64;
        size_t *line = hm_alloc_aligned(lines * stride, sizeof *line);
        struct hm_test *t = line ? hm_sweep_add(s, levels[k].name, "ns", levels[k].precision, NULL) : NULL;
        if (!t) {
            hm_free(line);
            return hm_fail_memory(err);
        }
        struct hm_rng rng;
        hm_rng_seed(&rng, 7);
        for (size_t i = 0; i < lines; i++) line[i * stride] = i;
        for (size_t i = lines - 1; i > 0; i--) {
            size_t j = hm_rng_below(&rng, i), x = line[i * stride];
            line[i * stride] = line[j * stride];
            line[j * stride] = x;
        }
        double begin = hm_now_s();
        int status = 0;
        chase(line, stride, lines < 200000 ? lines : 200000);
        for (int r = 0; status == 0 && r < 200 && (r < REPEATS_MIN || hm_now_s() - begin < seconds / 4); r++)
            status = hm_sweep_sample(t, chase(line, stride, 250000));
        hm_free(line);
        if (status != 0) return hm_fail_memory(err);
    }
    return 0;
}

/* ---- core to core ---- */

struct ping {
    _Alignas(64) atomic_int turn;
    int cpu, rounds;
};

static bool pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

static void wait_turn(struct ping *p, int turn) {
    for (int spins = 0; atomic_load_explicit(&p->turn, memory_order_acquire) != turn; spins++)
        if (spins > 20000) sched_yield(); /* the partner may have lost its core */
}

static void *answer(void *context) {
    struct ping *p = context;
    pin(p->cpu);
    for (int i = 0; i < p->rounds; i++) {
        wait_turn(p, 1);
        atomic_store_explicit(&p->turn, 0, memory_order_release);
    }
    return NULL;
}

/* One way time of a cache line between two cores, ns; NaN if no thread could be had. */
static double one_way(int a, int b, int rounds) {
    struct ping p = {.cpu = b, .rounds = rounds};
    pthread_t other;
    if (!pin(a) || pthread_create(&other, NULL, answer, &p) != 0) return NAN;
    double start = hm_now_s();
    for (int i = 0; i < rounds; i++) {
        atomic_store_explicit(&p.turn, 1, memory_order_release);
        wait_turn(&p, 0);
    }
    double time = hm_now_s() - start;
    pthread_join(other, NULL);
    return time / rounds / 2 * 1e9;
}

/* The best of some rounds for each of up to 64 pairs: their median, and worst over median (the asymmetry). */
int hm_sweep_cores(struct hm_sweep *s, double seconds, struct hm_error *err) {
    enum { PAIRS = 64 };
    cpu_set_t mine;
    int cpu[CPU_SETSIZE], cpus = 0;
    double best[PAIRS];
    size_t pairs = 0;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0)
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET((size_t)i, &mine)) cpu[cpus++] = i;
    if (cpus < 2)
        return hm_sweep_add(s, "core-to-core/latency_ns", "ns", 0.3, "one core only") ? 0 : hm_fail_memory(err);
    double begin = hm_now_s();
    for (int d = 1; d < cpus && pairs < PAIRS; d = d < 4 ? d + 1 : d * 2)
        for (int i = 0; i + d < cpus && pairs < PAIRS && (pairs == 0 || hm_now_s() - begin < seconds); i += d) {
            best[pairs] = INFINITY;
            for (int r = 0; r < REPEATS_MIN; r++) best[pairs] = fmin(best[pairs], one_way(cpu[i], cpu[i + d], 2000));
            pairs += isfinite(best[pairs]) ? 1 : 0;
        }
    sched_setaffinity(0, sizeof mine, &mine);
    double worst = 0;
    for (size_t i = 0; i < pairs; i++) worst = fmax(worst, best[i]);
    double middle = hm_median(best, pairs);
    struct hm_test *t = hm_sweep_add(s, "core-to-core/latency_ns", "ns", 0.3, pairs ? NULL : "no pair could be pinned");
    if (!t || (pairs && hm_sweep_sample(t, middle) != 0)) return hm_fail_memory(err);
    t = hm_sweep_add(s, "core-to-core/asymmetry", "ratio", 0.5, pairs > 1 ? NULL : "fewer than two pairs of cores");
    if (!t || (pairs > 1 && hm_sweep_sample(t, worst / middle) != 0)) return hm_fail_memory(err);
    return 0;
}
