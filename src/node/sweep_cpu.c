/* sweep_cpu.c - sustained GEMM with a bit-exact repeat check, memory bandwidth, cache latency, core-to-core latency. */
#include "node/sweep.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { N = 768, ROW_ORDER = 101, NONE = 111 }; /* as CBLAS numbers them */
static const char gemm_name[] = "cpu-gemm/fp64_gflops";
/* A sample lasts three periods of a CPU quota (100 ms each): shorter ones would see full speed, then nothing. */
static const double BATCH_S = 0.3;

typedef void (*dgemm_fn)(int order, int transa, int transb, int m, int n, int k, double alpha, const double *a, int lda,
                         const double *b, int ldb, double beta, double *c, int ldc);

static struct hm_test *sample_gemm(struct hm_sweep *s, dgemm_fn dgemm, double *a, double begin, double seconds,
                                   double *mismatches) {
    double *b = a + N * N, *first = b + N * N, *c = first + N * N, once = hm_now_s();
    dgemm(ROW_ORDER, NONE, NONE, N, N, N, 1, a, N, b, N, 0, first, N); /* also warms up */
    once = hm_now_s() - once;
    if (!hm_sweep_fits(begin, seconds, once))
        return hm_sweep_leave_out(s, gemm_name, "GFLOP/s", 0.05, once, seconds - (hm_now_s() - begin));
    struct hm_test *t = hm_sweep_add(s, gemm_name, "GFLOP/s", 0.05, NULL);
    if (!t) return NULL;
    t->least = HM_REPEATS;
    double batch = fmin(BATCH_S, (seconds - (hm_now_s() - begin)) / (HM_REPEATS + 1));
    for (double sampling = hm_now_s(); hm_sweep_again(t, sampling, seconds - (sampling - begin), HM_REPEATS_MOST);) {
        double start = hm_now_s(), time = 0;
        int products = 0;
        for (; time < batch; products++) {
            dgemm(ROW_ORDER, NONE, NONE, N, N, N, 1, a, N, b, N, 0, c, N);
            *mismatches += memcmp((const char *)first, (const char *)c, N * N * sizeof *c) != 0;
            time = hm_now_s() - start;
        }
        if (hm_sweep_sample(t, products * 2.0 * N * N * N / time / 1e9) != 0) return NULL;
    }
    return t;
}

/* The same product over and over: its speed, and whether every repeat has the very same bits. A core that computes
 * wrongly now and then says nothing; only its results do (silent data corruption). */
int hm_sweep_gemm(struct hm_sweep *s, double seconds, struct hm_error *err) {
    static const char *const libraries[] = {"libopenblas.so.0", "libopenblas.so", "libblas.so.3"};
    double begin = hm_now_s(), mismatches = 0;
    void *library = NULL;
    for (size_t i = 0; !library && i < 3; i++) library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    dgemm_fn dgemm = library ? (dgemm_fn)dlsym(library, "cblas_dgemm") : NULL;
    if (!dgemm) {
        if (library) dlclose(library);
        return hm_sweep_add(s, gemm_name, "GFLOP/s", 0.05, "no OpenBLAS: install libopenblas0") ? 0
                                                                                                : hm_fail_memory(err);
    }
    void (*set_threads)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
    if (set_threads) set_threads(s->threads);
    double *a = hm_alloc_aligned(4 * N * N, sizeof *a);
    if (!a) return hm_fail_memory(err);
    struct hm_rng rng;
    hm_rng_seed(&rng, 1);
    for (size_t i = 0; i < 2 * N * N; i++) a[i] = hm_rng_uniform(&rng) - 0.5;
    struct hm_test *t = sample_gemm(s, dgemm, a, begin, seconds, &mismatches);
    bool measured = t && t->count > 0;
    if (measured) t = hm_sweep_add(s, "cpu-gemm/mismatch_count", "repeats", 0, NULL);
    if (measured && t) t->exact = true;
    int status = t && (!measured || hm_sweep_sample(t, mismatches) == 0) ? 0 : hm_fail_memory(err);
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
    static const char name[] = "mem-bw/host_copy_gbs";
    const size_t most = (size_t)256 << 20, least = (size_t)64 << 20, part = (size_t)16 << 20;
    double begin = hm_now_s();
    struct copy c = {hm_map(most, NULL), hm_map(most, NULL), 0, s->threads};
    int status = c.from && c.to ? 0 : hm_fail_memory(err);
    if (status == 0) {
        /* To fill memory for the first time costs more than to copy it: what is not filled after half of the time stays out (the least
         * that is worth measuring may take more). */
        for (; c.bytes < most && hm_sweep_fits(begin, seconds * (c.bytes < least ? 0.9 : 0.5), 0); c.bytes += part) {
            memset(c.from + c.bytes, 1, part);
            memset(c.to + c.bytes, 2, part);
        }
        bool fits = c.bytes >= least;
        double need = 2 * (hm_now_s() - begin) * (double)least / (double)(c.bytes + part);
        struct hm_test *t =
            fits ? hm_sweep_add(s, name, "GB/s", 0.1, NULL) : hm_sweep_leave_out(s, name, "GB/s", 0.1, need, seconds);
        if (!t) status = hm_fail_memory(err);
        if (t && fits && c.bytes < most) snprintf(t->shortened, sizeof t->shortened, "arrays of %zu MB", c.bytes >> 20);
        if (t) t->least = HM_REPEATS;
        double copying = hm_now_s();
        while (fits && status == 0 && hm_sweep_again(t, copying, seconds - (copying - begin), HM_REPEATS_MOST)) {
            double start = hm_now_s();
            hm_parallel((size_t)s->threads, s->threads, copy_part, &c);
            if (hm_sweep_sample(t, 2.0 * (double)c.bytes / (hm_now_s() - start) / 1e9) != 0)
                status = hm_fail_memory(err);
        }
    }
    if (c.from) hm_unmap(c.from, most);
    if (c.to) hm_unmap(c.to, most);
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

static void shuffle(size_t *line, size_t lines, size_t stride) {
    struct hm_rng rng;
    hm_rng_seed(&rng, 7);
    for (size_t i = 0; i < lines; i++) line[i * stride] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = hm_rng_below(&rng, i), x = line[i * stride];
        line[i * stride] = line[j * stride];
        line[j * stride] = x;
    }
}

int hm_sweep_cache(struct hm_sweep *s, double seconds, struct hm_error *err) {
    enum { HOPS = 250000 };
    static const struct {
        const char *name;
        size_t bytes;
        double precision;
    } levels[] = {{"cpu-cache/latency_16k_ns", 16 << 10, 0.1},
                  {"cpu-cache/latency_256k_ns", 256 << 10, 0.15},
                  {"cpu-cache/latency_4m_ns", 4 << 20, 0.25},
                  {"cpu-cache/latency_128m_ns", 128 << 20, 0.2}};
    const size_t stride = 64 / sizeof(size_t);
    double begin = hm_now_s(), a_line = 0; /* seconds a line took to shuffle */
    for (size_t k = 0; k < 4; k++) {
        size_t lines = levels[k].bytes / 64;
        double level = hm_now_s(), until = (seconds - (level - begin)) / (double)(4 - k);
        double need = a_line * 3 * (double)lines; /* larger than the caches: slower */
        if (!hm_sweep_fits(begin, seconds, need)) {
            if (!hm_sweep_leave_out(s, levels[k].name, "ns", levels[k].precision, need, until))
                return hm_fail_memory(err);
            continue;
        }
        size_t *line = hm_alloc_aligned(lines * stride, sizeof *line);
        struct hm_test *t = line ? hm_sweep_add(s, levels[k].name, "ns", levels[k].precision, NULL) : NULL;
        int status = t ? 0 : hm_fail_memory(err);
        if (t) {
            t->least = HM_REPEATS;
            shuffle(line, lines, stride);
            a_line = (hm_now_s() - level) / (double)lines;
            chase(line, stride, lines < HOPS ? lines : HOPS / 10);
            double chasing = hm_now_s();
            while (status == 0 && hm_sweep_again(t, chasing, until - (chasing - level), 200))
                if (hm_sweep_sample(t, chase(line, stride, HOPS)) != 0) status = hm_fail_memory(err);
        }
        hm_free(line);
        if (status != 0) return status;
    }
    return 0;
}

/* ---- core to core ---- */

struct ping {
    _Alignas(64) atomic_int turn; /* 0: the asker's, 1: the answerer's, 2: the end */
    int cpu;
};

static bool pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

/* Waits until it is not `turn` any more; returns what it is. */
static int wait_turn(struct ping *p, int turn) {
    int now;
    for (int spins = 0; (now = atomic_load_explicit(&p->turn, memory_order_acquire)) == turn; spins++)
        if (spins > 20000) sched_yield(); /* the partner may have lost its core */
    return now;
}

static void *answer(void *context) {
    struct ping *p = context;
    pin(p->cpu);
    while (wait_turn(p, 0) != 2) atomic_store_explicit(&p->turn, 0, memory_order_release);
    return NULL;
}

/* One way time of a cache line between two cores, ns: the best of batches of round trips, since a core that is taken away
 * only lengthens some. No batch is begun after `until`. NaN if no thread could be had. */
static double one_way(int a, int b, double until) {
    enum { BATCHES = 60, TRIPS = 100 };
    struct ping p = {.cpu = b};
    pthread_t other;
    if (!pin(a) || pthread_create(&other, NULL, answer, &p) != 0) return NAN;
    double best = INFINITY, start = hm_now_s();
    for (int k = 0; k < BATCHES && (k == 0 || start < until); k++) {
        int trips = 0;
        double now = start;
        /* the clock is looked at while a trip takes as long as a time slice: the other core is busy with others */
        for (; trips < TRIPS && (trips < 1 || now < until); trips++) {
            atomic_store_explicit(&p.turn, 1, memory_order_release);
            wait_turn(&p, 1);
            if (trips % 10 == 9) now = hm_now_s();
        }
        now = hm_now_s();
        best = fmin(best, (now - start) / trips / 2 * 1e9);
        start = now;
    }
    atomic_store_explicit(&p.turn, 2, memory_order_release);
    pthread_join(other, NULL);
    return best;
}

/* Up to 64 pairs of cores: their median, and worst over median (the asymmetry). */
int hm_sweep_cores(struct hm_sweep *s, double seconds, struct hm_error *err) {
    enum { PAIRS = 64 };
    const double pair_s = 0.01; /* less tells nothing where the other core is busy */
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
    if (seconds < pair_s)
        return hm_sweep_leave_out(s, "core-to-core/latency_ns", "ns", 0.3, pair_s, seconds) ? 0 : hm_fail_memory(err);
    for (int d = 1; d < cpus && pairs < PAIRS; d = d < 4 ? d + 1 : d * 2)
        for (int i = 0; i + d < cpus && pairs < PAIRS && (pairs == 0 || hm_now_s() - begin < seconds); i += d) {
            best[pairs] = one_way(cpu[i], cpu[i + d], begin + seconds);
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
