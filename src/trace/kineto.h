/* kineto.h - what a PyTorch profiler trace of one rank shows of steps and collectives.
 *
 * Old and new dialects (Kineto's object with traceEvents, the bare list of torch before Kineto, capitalised categories), NCCL and RCCL
 * kernels, Gloo's CPU collectives. A file is read once from front to back in bounded memory; of its events only those that matter are
 * kept. Dialects: libkineto/src/output_json.cpp of pytorch/kineto, torch/csrc/autograd/profiler_legacy.cpp. */
#ifndef HM_TRACE_KINETO_H
#define HM_TRACE_KINETO_H

#include "inputs.h"
#include "kineto_phases.h"

/* A collective as one rank took part in it. Times in ns on that rank's clock. */
struct hm_kineto_collective {
    int64_t launch_ns; /* when the rank was there: its kernel's start; of Gloo the call */
    int64_t end_ns;
    int64_t seq;          /* number in its group; -1: not recorded */
    int64_t bytes;        /* elements times their size; -1: not recorded */
    uint32_t name, group; /* indices into names; group 0: not recorded */
};

struct hm_kineto_step {
    int64_t number, start_ns, end_ns;
};

struct hm_kineto_rank {
    char *path;    /* the file, and behind a colon the member of an archive */
    char *host;    /* NULL: not recorded */
    int64_t rank;  /* -1: neither recorded nor in the file's name */
    int64_t world; /* ranks of the job; 0: not recorded */
    int64_t base_ns;
    struct hm_kineto_step *step; /* by start */
    size_t n_steps, step_capacity;
    struct hm_kineto_collective *collective; /* by launch */
    size_t n_collectives, collective_capacity;
    char **name; /* [0] is "" */
    size_t n_names, name_capacity;
    struct hm_arrival_phase phase[HM_PHASES];
    uint64_t events, bytes; /* read */
    size_t point_to_point;  /* sends and receives: not among the collectives */
    bool cut;               /* the file ends early */
    bool steps_inferred;    /* from Optimizer.step: there is no ProfilerStep */
};

/* Reads the traces in a file: one, or an archive's (tar). Appends to *ranks. A gzipped file is read as it is decompressed. */
int hm_kineto_read(const struct hm_input *file, struct hm_kineto_rank **ranks, size_t *n, struct hm_error *err);
void hm_kineto_free(struct hm_kineto_rank *ranks, size_t n);

/* Whether a file begins like such a trace, or like an archive of them. */
bool hm_kineto_detect(const struct hm_head *head);

#endif
