/* sweep_gpu.c - each GPU through the CUDA driver and cuBLAS, both found at run time: sustained single-precision GEMM with
 * a bit-exact repeat check, and copies to, from, within and between the devices. A machine without them has the tests absent. */
#include "node/sweep.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The driver's and cuBLAS's types as their ABI fixes them. */
typedef unsigned long long device_pointer;
struct cuda {
    void *driver, *blas;
    int (*init)(unsigned);
    int (*count)(int *);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*release)(int);
    int (*current)(void *);
    int (*alloc)(device_pointer *, size_t);
    int (*free)(device_pointer);
    int (*to_device)(device_pointer, const void *, size_t);
    int (*to_host)(void *, device_pointer, size_t);
    int (*within)(device_pointer, device_pointer, size_t);
    int (*between)(device_pointer, void *, device_pointer, void *, size_t);
    int (*may_access)(int *, int, int);
    int (*access)(void *, unsigned);
    int (*alloc_host)(void **, size_t);
    int (*free_host)(void *);
    int (*wait)(void);
    int (*blas_create)(void **);
    int (*blas_destroy)(void *);
    int (*sgemm)(void *, int, int, int, int, int, const float *, device_pointer, int, device_pointer, int,
                 const float *, device_pointer, int); /* device addresses are as wide as pointers */
};

static const char *load(struct cuda *c) {
    static const char *const blas[] = {"libcublas.so.12", "libcublas.so.13", "libcublas.so.11", "libcublas.so"};
    c->driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!c->driver) return "no CUDA driver";
    const struct {
        const char *name;
        void *slot;
    } names[] = {{"cuInit", &c->init},
                 {"cuDeviceGetCount", &c->count},
                 {"cuDeviceGet", &c->device},
                 {"cuDevicePrimaryCtxRetain", &c->retain},
                 {"cuDevicePrimaryCtxRelease_v2", &c->release},
                 {"cuCtxSetCurrent", &c->current},
                 {"cuMemAlloc_v2", &c->alloc},
                 {"cuMemFree_v2", &c->free},
                 {"cuMemcpyHtoD_v2", &c->to_device},
                 {"cuMemcpyDtoH_v2", &c->to_host},
                 {"cuMemcpyDtoD_v2", &c->within},
                 {"cuMemcpyPeer", &c->between},
                 {"cuDeviceCanAccessPeer", &c->may_access},
                 {"cuCtxEnablePeerAccess", &c->access},
                 {"cuMemAllocHost_v2", &c->alloc_host},
                 {"cuMemFreeHost", &c->free_host},
                 {"cuCtxSynchronize", &c->wait}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = dlsym(c->driver, names[i].name);
        if (!f) return "the CUDA driver lacks a function";
        memcpy(names[i].slot, &f, sizeof f);
    }
    for (size_t i = 0; !c->blas && i < 4; i++) c->blas = dlopen(blas[i], RTLD_NOW | RTLD_LOCAL);
    if (!c->blas) return NULL; /* the copies can still be tested */
    void *create = dlsym(c->blas, "cublasCreate_v2"), *destroy = dlsym(c->blas, "cublasDestroy_v2"),
         *gemm = dlsym(c->blas, "cublasSgemm_v2");
    memcpy(&c->blas_create, &create, sizeof create);
    memcpy(&c->blas_destroy, &destroy, sizeof destroy);
    memcpy(&c->sgemm, &gemm, sizeof gemm);
    return NULL;
}

/* One more test of GPU number `gpu`: "name:gpu". */
static struct hm_test *add(struct hm_sweep *s, const char *name, int gpu, const char *unit, const char *absent) {
    char full[64];
    snprintf(full, sizeof full, "%s:%d", name, gpu);
    return hm_sweep_add(s, full, unit, 0.03, absent);
}

static int copies(struct hm_sweep *s, const struct cuda *c, int gpu, double seconds) {
    enum { BYTES = 256 << 20 };
    static const char *const names[] = {"mem-bw/H2D_Mem_BW", "mem-bw/D2H_Mem_BW", "mem-bw/D2D_Mem_BW"};
    device_pointer a = 0, b = 0;
    void *host = NULL;
    int status = 0;
    bool ready = c->alloc(&a, BYTES) == 0 && c->alloc(&b, BYTES) == 0 && c->alloc_host(&host, BYTES) == 0;
    if (ready) memset(host, 1, BYTES);
    for (int k = 0; status == 0 && k < 3; k++) {
        struct hm_test *t = add(s, names[k], gpu, "GB/s", ready ? NULL : "no room on the device");
        double begin = hm_now_s();
        if (!t) status = -1;
        for (int r = 0; t && ready && status == 0 && r < 1000 && (r < 4 || hm_now_s() - begin < seconds / 3); r++) {
            double start = hm_now_s();
            int rc = k == 0   ? c->to_device(a, host, BYTES)
                     : k == 1 ? c->to_host(host, a, BYTES)
                              : c->within(b, a, BYTES);
            if (rc == 0) rc = c->wait();
            double rate = (k == 2 ? 2.0 : 1.0) * BYTES / (hm_now_s() - start) / 1e9;
            if (rc != 0) {
                t->absent = "a copy failed: see the kernel log";
                break;
            }
            if (r > 0) status = hm_sweep_sample(t, rate); /* the first warms up */
        }
    }
    if (host) c->free_host(host);
    if (b) c->free(b);
    if (a) c->free(a);
    return status;
}

static int gemm(struct hm_sweep *s, const struct cuda *c, int gpu, double seconds) {
    enum { N = 4096, BATCH = 4 };
    const size_t bytes = (size_t)N * N * sizeof(float);
    device_pointer d[3] = {0};
    float *host = hm_alloc(3 * N, (size_t)N * sizeof *host), one = 1, zero = 0;
    void *handle = NULL;
    bool ready = host && c->blas_create && c->sgemm && c->blas_destroy && c->blas_create(&handle) == 0;
    for (int i = 0; ready && i < 3; i++) ready = c->alloc(&d[i], bytes) == 0;
    struct hm_test *t = add(s, "gemm-flops/FP32", gpu, "GFLOP/s", ready ? NULL : "no cuBLAS, or no room on the device");
    int status = t ? 0 : -1;
    double mismatches = 0, begin = 0;
    if (status == 0 && ready) {
        struct hm_rng rng;
        hm_rng_seed(&rng, 5);
        for (size_t i = 0; i < 2 * (size_t)N * N; i++) host[i] = (float)(hm_rng_uniform(&rng) - 0.5);
        ready = c->to_device(d[0], host, bytes) == 0 && c->to_device(d[1], host + (size_t)N * N, bytes) == 0;
        begin = hm_now_s();
    }
    float *first = host, *now = host ? host + (size_t)N * N : NULL; /* the inputs are on the device by now */
    for (int r = 0; ready && status == 0 && r < 100000 && (r < 4 || hm_now_s() - begin < seconds); r++) {
        double start = hm_now_s();
        int rc = 0;
        for (int k = 0; rc == 0 && k < BATCH; k++)
            rc = c->sgemm(handle, 0, 0, N, N, N, &one, d[0], N, d[1], N, &zero, d[2], N);
        if (rc == 0) rc = c->wait();
        double rate = BATCH * 2.0 * N * N * N / (hm_now_s() - start) / 1e9;
        if (rc == 0) rc = c->to_host(r == 0 ? first : now, d[2], bytes);
        if (rc != 0) {
            mismatches++; /* a GPU that cannot multiply any more is worse than one that multiplies wrongly */
            break;
        }
        if (r == 0) continue;
        mismatches += memcmp((const char *)first, (const char *)now, bytes) != 0;
        status = hm_sweep_sample(t, rate);
    }
    if (status == 0 && ready) {
        t = add(s, "gemm-flops/mismatch_count", gpu, "repeats", NULL);
        if (t) t->exact = true;
        status = t ? hm_sweep_sample(t, mismatches) : -1;
    }
    for (int i = 0; i < 3; i++)
        if (d[i]) c->free(d[i]);
    if (handle) c->blas_destroy(handle);
    hm_free(host);
    return status;
}

/* ---- between GPUs ---- */

enum { PEERS_MOST = 64 };
static const double least_s = 2; /* for a GPU: its context, matrices and four repeats of each test; an estimate */
static const size_t peer_bytes = (size_t)64 << 20;

/* GB/s from GPU a to GPU b, the best of 3 after one that warms up; 0 if a copy fails. */
static double peer_rate(const struct cuda *c, const device_pointer *memory, void *const *context, int a, int b) {
    double best = 0;
    c->current(context[a]);
    for (int r = 0; r < 4; r++) {
        double start = hm_now_s();
        if (c->between(memory[b], context[b], memory[a], context[a], peer_bytes) != 0 || c->wait() != 0) return 0;
        double rate = (double)peer_bytes / (hm_now_s() - start) / 1e9;
        if (r > 0 && rate > best) best = rate;
    }
    return best;
}

/* From each GPU to each other (directly where the driver allows it: NVLink or PCIe): for each GPU the median over its peers, and
 * how many times slower than that its worst peer is. One slow link shows in the second. */
static int peers(struct hm_sweep *s, const struct cuda *c, void *const *context, const int *device, int gpus,
                 double seconds) {
    device_pointer memory[PEERS_MOST] = {0};
    double rate[PEERS_MOST], begin = hm_now_s();
    int status = 0;
    bool ready = true;
    for (int g = 0; ready && g < gpus; g++)
        ready = c->current(context[g]) == 0 && c->alloc(&memory[g], peer_bytes) == 0;
    for (int a = 0; ready && a < gpus; a++)
        for (int b = 0, can; b < gpus; b++)
            if (a != b && c->current(context[a]) == 0 && c->may_access(&can, device[a], device[b]) == 0 && can)
                c->access(context[b], 0); /* already open is no error to us */
    for (int a = 0; status == 0 && a < gpus; a++) {
        size_t n = 0;
        double least = INFINITY;
        for (int b = 0; ready && b < gpus && (a + b == 0 || hm_sweep_fits(begin, seconds, 0)); b++)
            if (a != b) least = fmin(least, rate[n++] = peer_rate(c, memory, context, a, b));
        const char *absent = !ready ? "no room on the devices" : n == 0 ? "the budget is too short" : NULL;
        struct hm_test *t = add(s, "mem-bw/P2P_Mem_BW", a, "GB/s", absent);
        double middle = n ? hm_median(rate, n) : 0;
        if (!t || (n && hm_sweep_sample(t, middle) != 0)) status = -1;
        if (status == 0) t = add(s, "mem-bw/P2P_asymmetry", a, "ratio", absent);
        if (!t || (n && hm_sweep_sample(t, least > 0 ? middle / least : 1e9) != 0)) status = -1;
        if (t) t->precision = 0.1;
    }
    for (int g = 0; g < gpus; g++)
        if (memory[g] && c->current(context[g]) == 0) c->free(memory[g]);
    return status;
}

int hm_sweep_gpu(struct hm_sweep *s, double seconds, struct hm_error *err) {
    struct cuda c = {0};
    int gpus = 0, good = 0, status = 0, device[PEERS_MOST];
    void *context[PEERS_MOST];
    const char *absent = load(&c);
    if (!absent && (c.init(0) != 0 || c.count(&gpus) != 0 || gpus == 0)) absent = "no GPU";
    if (absent) return hm_sweep_add(s, "gemm-flops/FP32", "GFLOP/s", 0.03, absent) ? 0 : hm_fail_memory(err);
    double each = seconds / gpus * (gpus > 1 ? 0.8 : 1);
    if (each < least_s)
        return hm_sweep_leave_out(s, "gemm-flops/FP32", "GFLOP/s", 0.03, least_s * gpus, seconds) ? 0
                                                                                                  : hm_fail_memory(err);
    for (int g = 0; status == 0 && g < gpus && g < PEERS_MOST; g++) {
        if (c.device(&device[good], g) != 0 || c.retain(&context[good], device[good]) != 0 ||
            c.current(context[good]) != 0) {
            struct hm_test *t = add(s, "gemm-flops/mismatch_count", g, "repeats", NULL);
            if (t) t->exact = true; /* the GPU is there and does not answer */
            status = t ? hm_sweep_sample(t, 1) : -1;
            continue;
        }
        good++;
        status = gemm(s, &c, g, each * 0.7);
        if (status == 0) status = copies(s, &c, g, each * 0.3);
    }
    if (status == 0 && good > 1 && good == gpus) status = peers(s, &c, context, device, gpus, seconds * 0.2);
    for (int g = 0; g < good; g++) c.release(device[g]);
    return status == 0 ? 0 : hm_fail_memory(err);
}
