/* sweep_machine.c - the disk (write and fsync), and the sensors that are watched over the run. */
#include "node/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes 64 MB in blocks of 1 MB, then fsync: what a checkpoint does. The file has no name: it is gone whatever happens. */
int hm_sweep_disk(struct hm_sweep *s, double seconds, struct hm_error *err) {
    enum { BLOCK = 1 << 20, BLOCKS = 64 };
    char path[512];
    snprintf(path, sizeof path, "%s/hindmost-sweep-XXXXXX", s->folder);
    int fd = mkstemp(path);
    if (fd < 0)
        return hm_fail(err, HM_ERR_IO, "%s: %s; give a folder that may be written (--folder)", s->folder,
                       strerror(errno));
    unlink(path);
    char *block = hm_alloc_aligned(BLOCK, 1);
    if (!block || !hm_sweep_add(s, "disk/write_fsync_mbs", "MB/s", 0.3, NULL) ||
        !hm_sweep_add(s, "disk/fsync_latency_ms", "ms", 3, NULL)) {
        hm_free(block);
        close(fd);
        return hm_fail_memory(err);
    }
    struct hm_test *write_test = &s->test[s->count - 2], *sync_test = &s->test[s->count - 1];
    struct hm_rng rng;
    hm_rng_seed(&rng, 3);
    for (size_t i = 0; i < BLOCK; i += 8) { /* nothing that a file system could compress away */
        uint64_t x = hm_rng_next(&rng);
        memcpy(block + i, &x, 8);
    }
    int status = 0;
    double begin = hm_now_s();
    for (int r = 0; status == 0 && r < 1000 && (r < 3 || hm_now_s() - begin < seconds); r++) {
        double start = hm_now_s();
        for (int i = 0; status == 0 && i < BLOCKS; i++)
            if (pwrite(fd, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
                status = hm_fail(err, HM_ERR_IO, "%s: %s; the disk test needs 64 MB", s->folder, strerror(errno));
        if (status == 0 && fsync(fd) != 0) status = hm_fail(err, HM_ERR_IO, "%s: %s", s->folder, strerror(errno));
        double now = hm_now_s();
        if (status == 0 && hm_sweep_sample(write_test, BLOCKS * 1.048576 / (now - start)) != 0)
            status = hm_fail_memory(err);
        start = hm_now_s(); /* one small write made durable */
        if (status == 0 && (pwrite(fd, block + r, 512, 0) != 512 || fsync(fd) != 0))
            status = hm_fail(err, HM_ERR_IO, "%s: %s", s->folder, strerror(errno));
        if (status == 0 && hm_sweep_sample(sync_test, (hm_now_s() - start) * 1e3) != 0) status = hm_fail_memory(err);
    }
    hm_free(block);
    close(fd);
    return status;
}

/* ---- sensors ---- */

struct hm_sensors {
    pthread_t thread;
    atomic_bool stop;
    glob_t clocks, temperatures, throttles;
    double clock_min, temperature_max, throttle_begin;
    bool clock, temperature, throttle;
};

/* Sum, least and largest of one-number files; false if none could be read. */
static bool read_files(const glob_t *files, double *sum, double *least, double *largest) {
    bool any = false;
    *sum = 0, *least = INFINITY, *largest = -INFINITY;
    for (size_t i = 0; i < files->gl_pathc; i++) {
        double v;
        FILE *f = fopen(files->gl_pathv[i], "r");
        if (!f) continue;
        if (fscanf(f, "%lf", &v) == 1) {
            any = true;
            *sum += v;
            *least = fmin(*least, v);
            *largest = fmax(*largest, v);
        }
        fclose(f);
    }
    return any;
}

static void look(struct hm_sensors *w) {
    double sum, least, largest;
    if (read_files(&w->clocks, &sum, &least, &largest)) {
        w->clock_min =
            w->clock ? fmin(w->clock_min, largest) : largest; /* busy cores count: the fastest of the moment */
        w->clock = true;
    }
    if (read_files(&w->temperatures, &sum, &least, &largest)) {
        w->temperature_max = w->temperature ? fmax(w->temperature_max, largest) : largest;
        w->temperature = true;
    }
}

static void *watch(void *context) {
    struct hm_sensors *w = context;
    while (!atomic_load(&w->stop)) {
        look(w);
        usleep(200000);
    }
    return NULL;
}

struct hm_sensors *hm_sensors_start(void) {
    struct hm_sensors *w = hm_alloc(1, sizeof *w);
    double least, largest;
    if (!w) return NULL;
    glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", 0, NULL, &w->clocks);
    glob("/sys/class/thermal/thermal_zone*/temp", 0, NULL, &w->temperatures);
    glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count", 0, NULL, &w->throttles);
    w->throttle = read_files(&w->throttles, &w->throttle_begin, &least, &largest);
    if (pthread_create(&w->thread, NULL, watch, w) == 0) return w;
    globfree(&w->clocks);
    globfree(&w->temperatures);
    globfree(&w->throttles);
    hm_free(w);
    return NULL;
}

int hm_sensors_stop(struct hm_sensors *w, struct hm_sweep *s) {
    double end, least, largest;
    if (!w) return 0;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    look(w);
    bool throttle = read_files(&w->throttles, &end, &least, &largest) && w->throttle;
    struct hm_test *t = hm_sweep_add(s, "sensors/clock_min_mhz", "MHz", 0.1, w->clock ? NULL : "no cpufreq in sysfs");
    int status = !t || (w->clock && hm_sweep_sample(t, w->clock_min / 1e3) != 0) ? -1 : 0;
    if (status == 0)
        t = hm_sweep_add(s, "sensors/temperature_max_c", "C", 0.3, w->temperature ? NULL : "no thermal zone in sysfs");
    if (status == 0 && (!t || (w->temperature && hm_sweep_sample(t, w->temperature_max / 1e3) != 0))) status = -1;
    if (status == 0)
        t = hm_sweep_add(s, "sensors/throttle_count", "events", 0, throttle ? NULL : "no throttle counter in sysfs");
    if (status == 0 && (!t || (throttle && hm_sweep_sample(t, end - w->throttle_begin) != 0))) status = -1;
    globfree(&w->clocks);
    globfree(&w->temperatures);
    globfree(&w->throttles);
    hm_free(w);
    return status;
}
