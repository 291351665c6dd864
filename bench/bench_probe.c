/* bench_probe.c - what recording costs: the median of many interleaved batches, beside reading the clock. bench_probe [FOLDER] */
#include "hindmost_probe.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 2001, EACH = 500 };

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, size_t n) {
    qsort(x, n, sizeof *x, by_value);
    return x[n / 2];
}

static void clock_only(struct hm_probe *p) {
    (void)p;
    (void)hm_probe_now();
}

static void record_only(struct hm_probe *p) {
    const struct hm_probe_event e = {
        .begin_ns = 1, .end_ns = 2, .step = 3, .peer = -1, .kind = HM_PROBE_COMPUTE, .microbatch = -1, .chunk = -1};
    hm_probe_record(p, &e);
}

static void begin_end(struct hm_probe *p) {
    struct hm_probe_event e = hm_probe_begin(p, HM_PROBE_COMPUTE, 1);
    hm_probe_end(p, &e);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(struct hm_probe *);
    } what[] = {{"clock_gettime alone", clock_only},
                {"a record", record_only},
                {"begin and end, with their two clocks", begin_end}};
    enum { WHAT = sizeof what / sizeof *what };
    static double ns[WHAT][BATCHES];
    struct hm_probe_options o = hm_probe_defaults();
    char why[512];
    if (argc > 1) o.folder = argv[1];
    o.job = "bench";
    struct hm_probe *p = hm_probe_open(&o, why, sizeof why);
    if (!p) {
        fprintf(stderr, "%s\n", why);
        return 3;
    }
    for (int b = 0; b < BATCHES; b++)
        for (int w = 0; w < WHAT; w++) {
            int64_t begin = hm_probe_now();
            for (int i = 0; i < EACH; i++) what[w].run(p);
            ns[w][b] = (double)(hm_probe_now() - begin) / EACH;
        }
    for (int w = 0; w < WHAT; w++)
        printf("%-40s median %6.1f ns%s\n", what[w].name, median(ns[w], BATCHES), w == 1 ? " (must: <= 100)" : "");
    hm_probe_close(p);
    return 0;
}
