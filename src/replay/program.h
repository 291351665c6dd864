/* program.h - a job compiled for the kernels: a small register machine, one code per round.
 *
 * A register holds the end of one op for eight steps. Registers are given out by liveness, so those of one lane stay in
 * the first-level cache however long the step is: only ops that somebody still waits for occupy one. Ops that later
 * rounds wait for are carried over: at a round's end they are copied out, at the next one's beginning they stand in
 * registers 0, 1, ... */
#ifndef HM_PROGRAM_H
#define HM_PROGRAM_H

#include "replay.h"

/* Instructions are words: the opcode, the registers waited for, then the registers set. Durations are taken in slot
 * order. */
enum hm_opcode {
    HM_OP_END,
    HM_OP_RUN1_0, /* one member waiting for 0, 1, ... registers */
    HM_OP_RUN1_1,
    HM_OP_RUN1_2,
    HM_OP_RUN1_3,
    HM_OP_RUN1_4,
    HM_OP_RUN2_2, /* a pair: the members' latest start is common */
    HM_OP_RUN2_3,
    HM_OP_RUN2_4,
    HM_OP_RUN2_5,
    HM_OP_RUN_N,    /* n registers waited for, m members: words n, m, registers ... */
    HM_OP_LAUNCH,   /* across number, n, registers: this lane's launch joins the group's latest */
    HM_OP_LAND,     /* across number, m, registers: the members end when the group has started and moved its data */
    HM_OP_STEP_END, /* a register: the end of an op that ends the step */
    HM_OP_EARLY,    /* n, registers: an op that waits for these may start before the step's first op without them */
    HM_OPCODES
};

struct hm_round {
    uint32_t *code;
    size_t words, capacity;
    uint32_t first_slot, n_slots;
    uint32_t n_in;  /* carried values, in registers 0 .. n_in-1 */
    uint32_t n_out; /* registers to copy out */
    uint32_t *out;
};

struct hm_program {
    size_t slots, across, rounds, registers, carried; /* the last two: the largest of any round */
    struct hm_ties ties;                              /* of the job's lanes */
    uint32_t *alone;                                  /* [across] 0, 1, ...: the starts of a lane by itself */
    size_t free_rounds; /* so many rounds at the beginning need nothing from other lanes: what lands in them starts with
                           the step */
    struct hm_round *round;
};

/* Kernels look so many slots ahead in `keep` to fetch durations in time. */
enum { HM_AHEAD = 48 };

/* What a kernel works on. A kernel runs one round of `U` lanes (1 or 2) at once. */
struct hm_kernel_job {
    const uint32_t *code;
    double *regs;              /* [register][U][8] */
    const double *duration[2]; /* per lane: at the round's first slot */
    const double *fill;        /* the lanes share fill and keep */
    const uint8_t *keep;       /* [slot of the round + HM_AHEAD] */
    const uint32_t *start[2];  /* per lane [across]: which group start is its own */
    double *launched[2];       /* per lane [group start][8]: latest launch so far; both may be the same array */
    const double *landed[2];   /* the same, as groups start */
    double *optimizer[2];      /* per lane [8] */
    double *any[2];            /* per lane [8] */
    double *first[2];          /* per lane [8]; with `any` */
};
typedef void (*hm_kernel)(const struct hm_kernel_job *job);

/* [two lanes][mixed: fill and keep are used][any is wanted] */
struct hm_kernels {
    const char *name;
    hm_kernel run[2][2][2];
};
const struct hm_kernels *hm_kernels_best(void); /* for this processor */
/* Runs with these kernels from now on, so that tests reach all that the processor has. */
void hm_scratch_use(struct hm_scratch *s, const struct hm_kernels *kernels);
extern const struct hm_kernels hm_kernels_base;
#ifdef HM_HAVE_X86_KERNELS
extern const struct hm_kernels hm_kernels_avx2, hm_kernels_avx512;
#endif

#endif
