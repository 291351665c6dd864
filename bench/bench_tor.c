/* bench_tor.c - failure cycles a second of the Monte Carlo simulation, one thread and two. */
#include "base/base.h"
#include "hindmost/tor.h"

#include <stdio.h>

int main(void) {
    struct hm_tor_run run = {.nodes = 2048,
                             .failure_rate = 6.5e-3 / 86400,
                             .work_s = 365 * 86400.0,
                             .save_s = 60,
                             .detect_s = 60,
                             .restart_s = 300,
                             .repair_s = 86400,
                             .spares = 16};
    for (int threads = 1; threads <= 2; threads++) {
        struct hm_tor_simulation s;
        struct hm_error err;
        double a = hm_now_s();
        if (hm_tor_simulate(&run, 2000, 1, threads, &s, &err) != 0) {
            fprintf(stderr, "%s\n", err.message);
            return 3;
        }
        double b = hm_now_s();
        printf("tor simulate, %d thread%s: %.2f M failure cycles/s a thread (must: >= 1)\n", threads,
               threads > 1 ? "s" : "", 1e-6 * s.cycles / (b - a) / threads);
    }
    return 0;
}
