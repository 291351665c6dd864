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

struct disk {
    int fd;
    char *block;
    const char *folder;
};
enum { BLOCK = 1 << 20, BLOCKS = 64, BLOCKS_LEAST = 4, SYNCS_LEAST = 20, SYNCS_MOST = 1000, WRITES_MOST = 200 };

/* Seconds to write and sync so many bytes, in blocks; NaN after telling what failed. */
static double write_out(const struct disk *d, size_t bytes, struct hm_error *err) {
    double start = hm_now_s();
    for (size_t at = 0; at < bytes; at += BLOCK) {
        size_t now = bytes - at < BLOCK ? bytes - at : BLOCK;
        if (pwrite(d->fd, d->block, now, (off_t)at) != (ssize_t)now) {
            hm_fail(err, HM_ERR_IO, "%s: %s; the disk test needs 64 MB", d->folder, strerror(errno));
            return NAN;
        }
    }
    if (fsync(d->fd) == 0) return hm_now_s() - start;
    hm_fail(err, HM_ERR_IO, "%s: %s", d->folder, strerror(errno));
    return NAN;
}

/* 64 MB written in blocks of 1 MB, then fsync: what a checkpoint does; then one sector made durable, over and over. */
static int time_disk(struct hm_sweep *s, const struct disk *d, double seconds, struct hm_error *err) {
    static const char *const names[] = {"disk/write_fsync_mbs", "disk/fsync_latency_ms"};
    double begin = hm_now_s(), probe = write_out(d, (size_t)BLOCKS_LEAST * BLOCK, err) / BLOCKS_LEAST;
    if (isnan(probe)) return -1;
    size_t blocks = BLOCKS;
    while (blocks > BLOCKS_LEAST && !hm_sweep_fits(begin, seconds, HM_REPEATS * probe * (double)blocks)) blocks /= 4;
    double need = probe * (double)blocks, have = seconds - (hm_now_s() - begin);
    struct hm_test *t = need <= have ? hm_sweep_add(s, names[0], "MB/s", 0.3, NULL)
                                     : hm_sweep_leave_out(s, names[0], "MB/s", 0.3, need, have);
    if (!t) return hm_fail_memory(err);
    t->least = HM_REPEATS;
    if (blocks < BLOCKS) snprintf(t->shortened, sizeof t->shortened, "%zu MB a write", blocks);
    for (double start = hm_now_s(); !t->absent && hm_sweep_again(t, start, 0.7 * have, WRITES_MOST);) {
        double time = write_out(d, blocks * BLOCK, err);
        if (isnan(time)) return -1;
        if (hm_sweep_sample(t, (double)blocks * BLOCK / 1e6 / time) != 0) return hm_fail_memory(err);
    }
    have = seconds - (hm_now_s() - begin);
    t = have > 0 ? hm_sweep_add(s, names[1], "ms", 0.5, NULL)
                 : hm_sweep_leave_out(s, names[1], "ms", 0.5, SYNCS_LEAST * probe, have);
    if (!t) return hm_fail_memory(err);
    t->least = SYNCS_LEAST;
    for (double start = hm_now_s(); !t->absent && hm_sweep_again(t, start, have, SYNCS_MOST);) {
        double time = write_out(d, 512, err);
        if (isnan(time)) return -1;
        if (hm_sweep_sample(t, time * 1e3) != 0) return hm_fail_memory(err);
    }
    return 0;
}

/* The file has no name: it is gone whatever happens. */
int hm_sweep_disk(struct hm_sweep *s, double seconds, struct hm_error *err) {
    char path[512];
    snprintf(path, sizeof path, "%s/hindmost-sweep-XXXXXX", s->folder);
    struct disk d = {mkstemp(path), hm_alloc_aligned(BLOCK, 1), s->folder};
    int status = d.fd < 0  ? hm_fail(err, HM_ERR_IO, "%s: %s; give a folder that may be written (--folder)", s->folder,
                                     strerror(errno))
                 : d.block ? 0
                           : hm_fail_memory(err);
    if (d.fd >= 0) unlink(path);
    struct hm_rng rng;
    hm_rng_seed(&rng, 3);
    for (size_t i = 0; status == 0 && i < BLOCK; i += 8) { /* nothing that a file system could compress away */
        uint64_t x = hm_rng_next(&rng);
        memcpy(d.block + i, &x, 8);
    }
    if (status == 0) status = time_disk(s, &d, seconds, err);
    hm_free(d.block);
    if (d.fd >= 0) close(d.fd);
    return status;
}

/* ---- sensors ---- */

struct hm_sensors {
    pthread_t thread;
    atomic_bool stop;
    struct hm_nvml *nvml;
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
    hm_nvml_look(w->nvml);
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
    w->nvml = hm_nvml_open();
    if (pthread_create(&w->thread, NULL, watch, w) == 0) return w;
    hm_nvml_close(w->nvml, NULL);
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
    if (hm_nvml_close(w->nvml, s) != 0) status = -1;
    globfree(&w->clocks);
    globfree(&w->temperatures);
    globfree(&w->throttles);
    hm_free(w);
    return status;
}
