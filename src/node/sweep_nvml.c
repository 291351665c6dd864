/* sweep_nvml.c - clocks, temperature and throttling of NVIDIA's GPUs over the run, through libnvidia-ml found at run time. */
#include "node/sweep.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GPUS_MOST = 64 };
/* As nvml.h numbers them. Idle: the clock says nothing. Software power capping (4) is how a healthy GPU keeps its limit. */
enum { CLOCK_SM = 1, TEMPERATURE_GPU = 0, REASON_IDLE = 0x1, REASONS_BAD = 0x8 | 0x20 | 0x40 | 0x80 };

struct hm_nvml {
    void *library, *device[GPUS_MOST];
    unsigned count;
    int (*init)(void), (*shutdown)(void), (*devices)(unsigned *), (*by_index)(unsigned, void **);
    int (*clock)(void *, int, unsigned *), (*temperature)(void *, int, unsigned *);
    int (*reasons)(void *, unsigned long long *);
    struct seen {
        double clock_min, temperature_max, throttled; /* samples in which the hardware or heat slowed it down */
        bool clock, temperature, reasons;
    } seen[GPUS_MOST];
};

struct hm_nvml *hm_nvml_open(void) {
    struct hm_nvml *v = hm_alloc(1, sizeof *v);
    if (!v) return NULL;
    const struct {
        const char *name;
        void *slot;
    } names[] = {{"nvmlInit_v2", &v->init},
                 {"nvmlShutdown", &v->shutdown},
                 {"nvmlDeviceGetCount_v2", &v->devices},
                 {"nvmlDeviceGetHandleByIndex_v2", &v->by_index},
                 {"nvmlDeviceGetClockInfo", &v->clock},
                 {"nvmlDeviceGetTemperature", &v->temperature},
                 {"nvmlDeviceGetCurrentClocksThrottleReasons", &v->reasons}};
    bool whole = (v->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) != NULL;
    for (size_t i = 0; whole && i < sizeof names / sizeof *names; i++) {
        void *f = dlsym(v->library, names[i].name);
        memcpy(names[i].slot, &f, sizeof f);
        whole = f != NULL;
    }
    if (whole && v->init() == 0) {
        if (v->devices(&v->count) != 0) v->count = 0;
        if (v->count > GPUS_MOST) v->count = GPUS_MOST;
        for (unsigned i = 0; i < v->count; i++)
            if (v->by_index(i, &v->device[i]) != 0) v->device[i] = NULL;
        return v;
    }
    if (v->library) dlclose(v->library);
    hm_free(v);
    return NULL;
}

void hm_nvml_look(struct hm_nvml *v) {
    for (unsigned i = 0; v && i < v->count; i++) {
        struct seen *g = &v->seen[i];
        unsigned mhz, degrees;
        unsigned long long reasons = 0;
        if (!v->device[i]) continue;
        if (v->reasons(v->device[i], &reasons) == 0) {
            g->throttled += (reasons & REASONS_BAD) != 0;
            g->reasons = true;
        }
        if (!(reasons & REASON_IDLE) && v->clock(v->device[i], CLOCK_SM, &mhz) == 0) {
            g->clock_min = g->clock ? fmin(g->clock_min, mhz) : mhz;
            g->clock = true;
        }
        if (v->temperature(v->device[i], TEMPERATURE_GPU, &degrees) == 0) {
            g->temperature_max = fmax(g->temperature_max, degrees);
            g->temperature = true;
        }
    }
}

static int add(struct hm_sweep *s, const char *name, unsigned gpu, const char *unit, double precision, bool seen,
               double value, const char *absent) {
    char full[64];
    snprintf(full, sizeof full, "%s:%u", name, gpu);
    struct hm_test *t = hm_sweep_add(s, full, unit, precision, seen ? NULL : absent);
    return !t || (seen && hm_sweep_sample(t, value) != 0) ? -1 : 0;
}

int hm_nvml_close(struct hm_nvml *v, struct hm_sweep *s) {
    static const char refused[] = "NVML does not tell";
    int status = 0;
    if (!v) return !s || hm_sweep_add(s, "sensors/gpu_clock_min_mhz", "MHz", 0.1, "no NVML") ? 0 : -1;
    for (unsigned i = 0; s && status == 0 && i < v->count; i++) {
        const struct seen *g = &v->seen[i];
        status = add(s, "sensors/gpu_clock_min_mhz", i, "MHz", 0.1, g->clock, g->clock_min, "it was never busy");
        if (status == 0)
            status = add(s, "sensors/gpu_temperature_max_c", i, "C", 0.3, g->temperature, g->temperature_max, refused);
        if (status == 0)
            status = add(s, "sensors/gpu_throttle_count", i, "samples", 0, g->reasons, g->throttled, refused);
    }
    v->shutdown();
    dlclose(v->library);
    hm_free(v);
    return status;
}
