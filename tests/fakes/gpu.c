/* gpu.c - stands in for libcuda, libcublas and libnvidia-ml on machines without a GPU: two devices whose memory is the host's. It
 * checks the sequence of calls (copies of live memory, the current context) and nothing about speed. The product is a pattern.
 * FAKE_GPU_FLIP: device 1 gives one wrong bit in its third product. FAKE_GPU_HOT: device 0 reports that heat slows it down. */
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;
enum { DEVICES = 2, BLOCKS = 64, BAD = 1 };

static struct {
    char *at;
    size_t bytes;
    int device;
} block[BLOCKS];
static int current = -1, retained[DEVICES], products, ready, nvml_ready;

static int *context_of(int device) {
    static int contexts[DEVICES] = {0, 1};
    return &contexts[device];
}

/* Whether [a, a + n) is live memory of a device (-1: of any). */
static int live(address a, size_t n, int device) {
    for (int i = 0; i < BLOCKS; i++) {
        address begin = (address)(size_t)block[i].at;
        if (block[i].at && a >= begin && a + n <= begin + block[i].bytes && (device < 0 || block[i].device == device))
            return 1;
    }
    return 0;
}

static void copy(address to, address from, size_t n) {
    memcpy((void *)(size_t)to, (const void *)(size_t)from, n);
}

int cuInit(unsigned flags) {
    ready = 1;
    return flags != 0;
}
int cuDeviceGetCount(int *n) {
    *n = DEVICES;
    return !ready;
}
int cuDeviceGet(int *device, int i) {
    *device = i;
    return !ready || i >= DEVICES;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = context_of(device);
    retained[device]++;
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    return --retained[device] < 0;
}
int cuCtxSetCurrent(void *context) {
    current = *(int *)context;
    return retained[current] < 1;
}
int cuMemAlloc_v2(address *out, size_t bytes) {
    for (int i = 0; current >= 0 && i < BLOCKS; i++)
        if (!block[i].at) {
            block[i].at = malloc(bytes);
            block[i].bytes = bytes;
            block[i].device = current;
            *out = (address)(size_t)block[i].at;
            return block[i].at == NULL;
        }
    return BAD;
}
int cuMemFree_v2(address a) {
    for (int i = 0; i < BLOCKS; i++)
        if (block[i].at && (address)(size_t)block[i].at == a) {
            free(block[i].at);
            block[i].at = NULL;
            return 0;
        }
    return BAD;
}
int cuMemcpyHtoD_v2(address to, const void *from, size_t n) {
    if (!live(to, n, current)) return BAD;
    copy(to, (address)(size_t)from, n);
    return 0;
}
int cuMemcpyDtoH_v2(void *to, address from, size_t n) {
    if (!live(from, n, current)) return BAD;
    copy((address)(size_t)to, from, n);
    return 0;
}
int cuMemcpyDtoD_v2(address to, address from, size_t n) {
    if (!live(to, n, current) || !live(from, n, current)) return BAD;
    copy(to, from, n);
    return 0;
}
int cuMemcpyPeer(address to, void *to_context, address from, void *from_context, size_t n) {
    if (to_context == from_context || !live(to, n, *(int *)to_context) || !live(from, n, *(int *)from_context))
        return BAD;
    copy(to, from, n);
    return 0;
}
int cuDeviceCanAccessPeer(int *can, int a, int b) {
    *can = a != b;
    return 0;
}
int cuCtxEnablePeerAccess(void *context, unsigned flags) {
    return *(int *)context == current || flags != 0;
}
int cuMemAllocHost_v2(void **out, size_t n) {
    *out = malloc(n);
    return *out == NULL;
}
int cuMemFreeHost(void *p) {
    free(p);
    return 0;
}
int cuCtxSynchronize(void) {
    return current < 0;
}

int cublasCreate_v2(void **handle) {
    products = 0;
    *handle = context_of(current);
    return 0;
}
int cublasDestroy_v2(void *handle) {
    return handle != context_of(current);
}
int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha, address a, int lda, address b,
                   int ldb, const float *beta, address c, int ldc) {
    size_t bytes = (size_t)m * (size_t)n * sizeof(float);
    int device = *(int *)handle, ordinary = !ta && !tb && *alpha == 1 && *beta == 0 && lda == k && ldb == k && ldc == m;
    if (device != current || !ordinary || !live(a, bytes, device) || !live(b, bytes, device) || !live(c, bytes, device))
        return BAD;
    copy(c, a, bytes);
    if (++products == 12 && device == 1 && getenv("FAKE_GPU_FLIP")) *(char *)(size_t)(c + bytes / 2) ^= 1;
    return 0;
}

int nvmlInit_v2(void) {
    nvml_ready++;
    return 0;
}
int nvmlShutdown(void) {
    return --nvml_ready < 0;
}
int nvmlDeviceGetCount_v2(unsigned *n) {
    *n = DEVICES;
    return !nvml_ready;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    *device = context_of((int)i);
    return !nvml_ready;
}
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz) {
    *mhz = 1410 + (unsigned)*(int *)device;
    return clock != 1; /* NVML_CLOCK_SM */
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
    *degrees = 61 + (unsigned)*(int *)device;
    return sensor != 0; /* NVML_TEMPERATURE_GPU */
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    *reasons = *(int *)device == 0 && getenv("FAKE_GPU_HOT") ? 0x40 : 0x4; /* hardware thermal slowdown; power cap */
    return 0;
}
