/* measure.h - times links and groups over MPI. */
#ifndef HM_PAIRS_MEASURE_H
#define HM_PAIRS_MEASURE_H

#include <mpi.h>

struct hm_work {
    char *buffer, *other; /* [bytes] each */
    int bytes;
    double seconds; /* for one measurement */
};

/* Waits, mostly asleep, until all ranks are here. */
void hm_meet(MPI_Comm comm);

struct hm_timing {
    double gbs, latency_us, repeats;
};
/* Bandwidth and latency one way between this rank and `partner`; the lower rank's result counts. */
struct hm_timing hm_time_link(const struct hm_work *work, int partner);
/* All-reduce of floats in `comm`: bus bandwidth (bytes x 2 (n - 1) / n / time, as nccl-tests count). */
struct hm_timing hm_time_group(const struct hm_work *work, MPI_Comm comm);

#endif
