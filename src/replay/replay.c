/* replay.c - drives the kernels: lanes through rounds, launches and landings between them. */
#include "program.h"

#include <math.h>
#include <string.h>

struct hm_scratch {
    const struct hm_kernels *kernels;
    double *regs;     /* [register][2][8] */
    double *carry;    /* [lane][carried][8] */
    double *launched; /* [across][8] */
    double *rest_carry; /* [carried][8]: of the remembered lane when it has to run again */
    size_t lanes, carried;
    double evaluated;
};

struct hm_lane_run {
    double *launched; /* [across][8] latest launch of this lane: also where its group starts when all lanes run like it */
    double *carry;    /* [round][carried][8] as copied out at the round's end */
    struct hm_ends ends;
    const double *fill;
};

struct hm_scratch *hm_scratch_new(const struct hm_program *p, size_t lanes) {
    struct hm_scratch *s = hm_alloc(1, sizeof *s);
    if (!s) return NULL;
    s->kernels = hm_kernels_best();
    s->lanes = lanes;
    s->carried = p->carried ? p->carried : 1;
    size_t carry;
    s->regs = hm_alloc_aligned((p->registers + 1) * 2 * HM_WIDTH, sizeof(double));
    s->carry = hm_mul(lanes, s->carried * HM_WIDTH, &carry) ? hm_alloc_aligned(carry, sizeof(double)) : NULL;
    s->launched = hm_alloc_aligned((p->across + 1) * HM_WIDTH, sizeof(double));
    s->rest_carry = hm_alloc_aligned(s->carried * HM_WIDTH, sizeof(double));
    if (s->regs && s->carry && s->launched && s->rest_carry) return s;
    hm_scratch_free(s);
    return NULL;
}

void hm_scratch_use(struct hm_scratch *s, const struct hm_kernels *kernels) {
    s->kernels = kernels;
}

void hm_scratch_free(struct hm_scratch *s) {
    if (!s) return;
    hm_free(s->regs);
    hm_free(s->carry);
    hm_free(s->launched);
    hm_free(s->rest_carry);
    hm_free(s);
}

double hm_scratch_evaluated(const struct hm_scratch *s) {
    return s->evaluated;
}

static void copy_in(double *regs, int unroll, int u, const double *carry, size_t n) {
    for (size_t i = 0; i < n; i++) memcpy(regs + (i * (size_t)unroll + (size_t)u) * HM_WIDTH, carry + i * HM_WIDTH, HM_WIDTH * sizeof(double));
}

static void copy_out(const double *regs, int unroll, int u, double *carry, const struct hm_round *r) {
    for (size_t i = 0; i < r->n_out; i++)
        memcpy(carry + i * HM_WIDTH, regs + ((size_t)r->out[i] * (size_t)unroll + (size_t)u) * HM_WIDTH, HM_WIDTH * sizeof(double));
}

/* One round of `unroll` lanes (1 or 2), from and to their carries. */
static void run_round(const struct hm_program *p, size_t round, const struct hm_view *views, int unroll, double *const *carry, bool want_any,
                      struct hm_scratch *s, double *launched, const double *landed, struct hm_ends *ends) {
    const struct hm_round *r = &p->round[round];
    struct hm_kernel_job job = {.code = r->code, .regs = s->regs, .launched = launched, .landed = landed, .optimizer = ends->optimizer, .any = ends->any};
    bool mixed = false;
    for (int u = 0; u < unroll; u++) mixed |= views[u].keep != NULL;
    for (int u = 0; u < unroll; u++) {
        size_t offset = (size_t)r->first_slot * HM_WIDTH;
        job.duration[u] = views[u].duration ? views[u].duration + offset : views[u].fill + offset;
        job.fill[u] = views[u].fill ? views[u].fill + offset : NULL;
        job.keep[u] = views[u].keep ? views[u].keep + r->first_slot : NULL;
        copy_in(s->regs, unroll, u, carry[u], r->n_in);
    }
    s->kernels->run[unroll - 1][mixed][want_any](&job);
    for (int u = 0; u < unroll; u++) copy_out(s->regs, unroll, u, carry[u], r);
    s->evaluated += (double)r->n_slots * unroll * HM_WIDTH;
}

static void clear_ends(struct hm_ends *ends) {
    for (int k = 0; k < HM_WIDTH; k++) ends->optimizer[k] = ends->any[k] = -INFINITY;
}

static void clear_launches(double *launched, size_t across) {
    for (size_t i = 0; i < across * HM_WIDTH; i++) launched[i] = -INFINITY;
}

void hm_replay(const struct hm_program *p, const struct hm_view *lanes, size_t n, bool want_any, struct hm_scratch *s, struct hm_ends *ends) {
    clear_ends(ends);
    clear_launches(s->launched, p->across);
    for (size_t round = 0; round < p->rounds; round++)
        for (size_t lane = 0; lane < n;) {
            /* two lanes share one decoding if both run with the same kind of durations */
            int unroll = lane + 1 < n && (lanes[lane].keep != NULL) == (lanes[lane + 1].keep != NULL) ? 2 : 1;
            double *carry[2] = {s->carry + lane * s->carried * HM_WIDTH, s->carry + (lane + 1) * s->carried * HM_WIDTH};
            run_round(p, round, lanes + lane, unroll, carry, want_any, s, s->launched, s->launched, ends);
            lane += (size_t)unroll;
        }
}

/* ---- one lane against the rest ---------------------------------------------------------------------------------------------- */

void hm_lane_run_free(struct hm_lane_run *run) {
    if (!run) return;
    hm_free(run->launched);
    hm_free(run->carry);
    hm_free(run);
}

const struct hm_ends *hm_lane_run_ends(const struct hm_lane_run *run) {
    return &run->ends;
}

struct hm_lane_run *hm_lane_run_new(const struct hm_program *p, const double *fill, struct hm_scratch *s, struct hm_error *err) {
    struct hm_lane_run *run = hm_alloc(1, sizeof *run);
    if (run) {
        run->fill = fill;
        run->launched = hm_alloc_aligned((p->across + 1) * HM_WIDTH, sizeof(double));
        run->carry = hm_alloc_aligned(p->rounds * s->carried * HM_WIDTH, sizeof(double));
    }
    if (!run || !run->launched || !run->carry) {
        hm_lane_run_free(run);
        hm_fail_memory(err);
        return NULL;
    }
    struct hm_view view = {.duration = fill};
    clear_ends(&run->ends);
    clear_launches(run->launched, p->across);
    for (size_t round = 0; round < p->rounds; round++) {
        double *carry = run->carry + round * s->carried * HM_WIDTH;
        if (round) memcpy(carry, carry - s->carried * HM_WIDTH, s->carried * HM_WIDTH * sizeof(double));
        run_round(p, round, &view, 1, &carry, true, s, run->launched, run->launched, &run->ends);
    }
    return run;
}

void hm_replay_against(const struct hm_program *p, const struct hm_view *lane, const struct hm_lane_run *rest, struct hm_scratch *s,
                       struct hm_ends *ends) {
    clear_ends(ends);
    /* The rest's launches are known until a group starts later than it did for the rest alone: from then on the rest runs again. */
    const size_t bytes = p->across * HM_WIDTH * sizeof(double);
    memcpy(s->launched, rest->launched, bytes);
    struct hm_view rest_view = {.duration = rest->fill};
    double *carry = s->carry, *rest_carry = s->rest_carry;
    bool same = true;
    for (size_t round = 0; round < p->rounds; round++) {
        if (same && memcmp(s->launched, rest->launched, bytes) != 0) {
            same = false;
            if (round) memcpy(rest_carry, rest->carry + (round - 1) * s->carried * HM_WIDTH, s->carried * HM_WIDTH * sizeof(double));
        }
        run_round(p, round, lane, 1, &carry, false, s, s->launched, s->launched, ends);
        if (!same) run_round(p, round, &rest_view, 1, &rest_carry, false, s, s->launched, s->launched, ends);
    }
    /* What the rest did not run again ended as it did alone; what it did run again ended no earlier. */
    for (int k = 0; k < HM_WIDTH; k++) ends->optimizer[k] = fmax(ends->optimizer[k], rest->ends.optimizer[k]);
}
