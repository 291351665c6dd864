/* sweep.h - what the tests of the sweep share. */
#ifndef HM_NODE_SWEEP_H
#define HM_NODE_SWEEP_H

#include "node/node.h"

/* One result. `precision`: the relative spread to expect between runs on a healthy node. */
struct hm_test {
    char name[64];
    const char *unit;
    double precision;
    bool exact; /* any value above 0 is a failure: mismatches */
    double *sample;
    size_t count, room;
    size_t least;       /* repeats that it should have; fewer: it was shortened */
    const char *absent; /* why there is no value */
    bool left_out;      /* there is no value because the budget was too short; `why` says so */
    char shortened[80]; /* how the budget cut it */
    double value, baseline, variance;
    enum hm_verdict verdict;
    char why[200];
};

struct hm_sweep {
    char node[128], class_name[64];
    struct hm_test *test;
    size_t count, room;
    const char *folder, *against;
    int threads;
    enum hm_verdict verdict;
};

/* A new test, whose samples follow; NULL without memory. Stays valid until the next one is added. */
struct hm_test *hm_sweep_add(struct hm_sweep *s, const char *name, const char *unit, double precision,
                             const char *absent);
int hm_sweep_sample(struct hm_test *t, double value);

/* How a group keeps its time. Before what has no parts, hm_sweep_fits: whether about `need` of `seconds` since `begin` is still
 * there; if not, leave the test out. Then sample while hm_sweep_again: until the next repeat would not fit (one is always made). */
enum { HM_REPEATS = 3, HM_REPEATS_MOST = 100000 };
bool hm_sweep_fits(double begin, double seconds, double need);
bool hm_sweep_again(const struct hm_test *t, double begin, double seconds, size_t most);
struct hm_test *hm_sweep_leave_out(struct hm_sweep *s, const char *name, const char *unit, double precision,
                                   double need, double have);

/* The groups of tests; each works for `seconds` or less. */
int hm_sweep_gemm(struct hm_sweep *s, double seconds, struct hm_error *err);
int hm_sweep_memory(struct hm_sweep *s, double seconds, struct hm_error *err);
int hm_sweep_cache(struct hm_sweep *s, double seconds, struct hm_error *err);
int hm_sweep_cores(struct hm_sweep *s, double seconds, struct hm_error *err);
int hm_sweep_disk(struct hm_sweep *s, double seconds, struct hm_error *err);
int hm_sweep_gpu(struct hm_sweep *s, double seconds, struct hm_error *err);

/* Clocks, temperature and throttling over the run, from sysfs. */
struct hm_sensors;
struct hm_sensors *hm_sensors_start(void);
/* Stops, adds what was seen as tests, frees. NULL is allowed. */
int hm_sensors_stop(struct hm_sensors *sensors, struct hm_sweep *s);

/* The same of the GPUs. NULL where there is no NVML; _look and _close allow it. _close adds what was seen to s,
 * unless that is NULL. */
struct hm_nvml;
struct hm_nvml *hm_nvml_open(void);
void hm_nvml_look(struct hm_nvml *nvml);
int hm_nvml_close(struct hm_nvml *nvml, struct hm_sweep *s);

#endif
