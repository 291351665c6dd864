/* replay.c - drives the kernels: lanes through rounds, launches and landings between them. */
#include "program.h"

#include <math.h>
#include <string.h>

struct hm_scratch {
    const struct hm_kernels *kernels;
    double *regs;                       /* [register][2][8] */
    double *carry;                      /* [lane][carried][8] */
    double *own;                        /* [lane][across][8]: the lane's launches in the free rounds */
    struct hm_ends *ends;               /* [lane]: of the free rounds */
    double *launched[2];                /* [across][8]: of the replay under way; two of them, for hm_against */
    uint8_t *keep;                      /* [slot + HM_AHEAD]: a copy with room to look ahead in */
    double *spare[4];                   /* [carried][8]: two lanes and twice the rest, for hm_against */
    const struct hm_ties *ties, *whole; /* in force; the job's own */
    size_t lanes, carried, across;
    bool want_any;
    double evaluated;
};

struct hm_lane_run {
    double
        *launched; /* [across][8] latest launch of this lane: also where its group starts when all lanes run like it */
    double *carry; /* [round][carried][8] as copied out at the round's end */
    struct hm_ends ends;
    const double *fill;
};

static double *vectors(size_t count, size_t each) {
    size_t n;
    return hm_mul(count, each ? each * HM_WIDTH : HM_WIDTH, &n) ? hm_alloc_aligned(n, sizeof(double)) : NULL;
}

struct hm_scratch *hm_scratch_new(const struct hm_program *p, size_t lanes) {
    struct hm_scratch *s = hm_alloc(1, sizeof *s);
    if (!s) return NULL;
    s->kernels = hm_kernels_best();
    s->lanes = lanes;
    s->carried = p->carried;
    s->across = p->across;
    s->regs = vectors(2, p->registers);
    s->carry = vectors(lanes, s->carried);
    s->ties = s->whole = &p->ties;
    s->own = vectors(lanes, s->across);
    s->ends = hm_alloc_aligned(lanes, sizeof *s->ends);
    s->keep = hm_alloc(p->slots + HM_AHEAD, 1);
    bool good = s->keep && s->regs && s->carry && s->own && s->ends;
    for (int k = 0; k < 2; k++) good = (s->launched[k] = vectors(1, p->ties.starts)) != NULL && good;
    for (int k = 0; k < 4; k++) good = (s->spare[k] = vectors(1, s->carried)) != NULL && good;
    if (good) return s;
    hm_scratch_free(s);
    return NULL;
}

void hm_scratch_tie(struct hm_scratch *s, const struct hm_ties *ties) {
    s->ties = ties ? ties : s->whole;
}

void hm_scratch_use(struct hm_scratch *s, const struct hm_kernels *kernels) {
    s->kernels = kernels;
}

void hm_scratch_free(struct hm_scratch *s) {
    if (!s) return;
    hm_free(s->regs);
    hm_free(s->carry);
    hm_free(s->own);
    hm_free(s->ends);
    hm_free(s->keep);
    for (int k = 0; k < 2; k++) hm_free(s->launched[k]);
    for (int k = 0; k < 4; k++) hm_free(s->spare[k]);
    hm_free(s);
}

double hm_scratch_evaluated(const struct hm_scratch *s) {
    return s->evaluated;
}

/* What a lane runs from and to. */
struct state {
    double *carry, *launched;
    const double *landed;
    struct hm_ends *ends;
    const uint32_t *start; /* [across] */
};

/* One round of `unroll` lanes (1 or 2) that share fill and keep. */
static void run_round(const struct hm_program *p, size_t round, const struct hm_view *views, const struct state *state,
                      int unroll, bool want_any, struct hm_scratch *s) {
    const struct hm_round *r = &p->round[round];
    const size_t offset = (size_t)r->first_slot * HM_WIDTH, vector = HM_WIDTH * sizeof(double),
                 stride = (size_t)unroll * HM_WIDTH;
    const bool mixed = views[0].keep != NULL;
    struct hm_kernel_job job = {.code = r->code, .regs = s->regs};
    job.fill = mixed ? views[0].fill + offset : NULL;
    job.keep = s->keep;
    if (mixed) memcpy(s->keep, views[0].keep + r->first_slot, r->n_slots);
    for (int u = 0; u < unroll; u++) {
        job.duration[u] = views[u].duration ? views[u].duration + offset : views[u].fill + offset;
        job.start[u] = state[u].start;
        job.launched[u] = state[u].launched;
        job.landed[u] = state[u].landed;
        job.optimizer[u] = state[u].ends->optimizer;
        job.any[u] = state[u].ends->any;
        job.first[u] = state[u].ends->first;
        for (size_t i = 0; i < r->n_in; i++)
            memcpy(s->regs + i * stride + (size_t)u * HM_WIDTH, state[u].carry + i * HM_WIDTH, vector);
    }
    s->kernels->run[unroll - 1][mixed][want_any](&job);
    for (int u = 0; u < unroll; u++)
        for (size_t i = 0; i < r->n_out; i++)
            memcpy(state[u].carry + i * HM_WIDTH, s->regs + r->out[i] * stride + (size_t)u * HM_WIDTH, vector);
    s->evaluated += (double)r->n_slots * unroll * HM_WIDTH;
}

static void clear_ends(struct hm_ends *ends) {
    for (int k = 0; k < HM_WIDTH; k++) ends->optimizer[k] = ends->any[k] = -INFINITY, ends->first[k] = 0;
}

static void raise_all(double *latest, const double *x, size_t n) {
    for (size_t i = 0; i < n; i++) latest[i] = latest[i] > x[i] ? latest[i] : x[i];
}

/* Two lanes can share one decoding if they keep the same slots. */
static int pair(const struct hm_view *lanes, size_t k, size_t n) {
    return k + 1 < n && lanes[k].keep == lanes[k + 1].keep && (!lanes[k].keep || lanes[k].fill == lanes[k + 1].fill)
               ? 2
               : 1;
}

void hm_begin(const struct hm_program *p, const struct hm_view *lanes, size_t n, bool want_any, struct hm_scratch *s) {
    const size_t launches = s->across * HM_WIDTH;
    s->want_any = want_any;
    for (size_t i = 0; i < n * launches; i++) s->own[i] = -INFINITY;
    for (size_t k = 0; k < n;) {
        int unroll = pair(lanes, k, n);
        struct state state[2];
        for (size_t u = 0; u < (size_t)unroll; u++) {
            double *own = s->own + (k + u) * launches;
            state[u] = (struct state){s->carry + (k + u) * s->carried * HM_WIDTH, own, own, &s->ends[k + u], p->alone};
            clear_ends(state[u].ends);
        }
        for (size_t round = 0; round < p->free_rounds; round++)
            run_round(p, round, lanes + k, state, unroll, want_any, s);
        k += (size_t)unroll;
    }
}

void hm_finish(const struct hm_program *p, const struct hm_view *lanes, size_t n, struct hm_scratch *s,
               struct hm_ends *ends) {
    const size_t launches = s->across * HM_WIDTH;
    const struct hm_ties *ties = s->ties;
    double *launched = s->launched[0];
    clear_ends(ends);
    for (size_t i = 0; i < ties->starts * HM_WIDTH; i++) launched[i] = -INFINITY;
    for (size_t k = 0; k < n; k++) {
        for (size_t a = 0; a < s->across; a++)
            raise_all(launched + (ties->of ? ties->of[k][a] : a) * HM_WIDTH, s->own + k * launches + a * HM_WIDTH,
                      HM_WIDTH);
        raise_all(ends->optimizer, s->ends[k].optimizer, HM_WIDTH);
        raise_all(ends->any, s->ends[k].any, HM_WIDTH);
        for (int i = 0; i < HM_WIDTH; i++) ends->first[i] = fmin(ends->first[i], s->ends[k].first[i]);
    }
    for (size_t round = p->free_rounds; round < p->rounds; round++)
        for (size_t k = 0; k < n;) {
            int unroll = pair(lanes, k, n);
            struct state state[2];
            for (size_t u = 0; u < (size_t)unroll; u++)
                state[u] = (struct state){s->carry + (k + u) * s->carried * HM_WIDTH, launched, launched, ends,
                                          ties->of ? ties->of[k + u] : p->alone};
            run_round(p, round, lanes + k, state, unroll, s->want_any, s);
            k += (size_t)unroll;
        }
}

void hm_replay(const struct hm_program *p, const struct hm_view *lanes, size_t n, bool want_any, struct hm_scratch *s,
               struct hm_ends *ends) {
    hm_begin(p, lanes, n, want_any, s);
    hm_finish(p, lanes, n, s, ends);
}

/* ---- one lane against the rest ---- */

void hm_lane_run_free(struct hm_lane_run *run) {
    if (!run) return;
    hm_free(run->launched);
    hm_free(run->carry);
    hm_free(run);
}

const struct hm_ends *hm_lane_run_ends(const struct hm_lane_run *run) {
    return &run->ends;
}

struct hm_lane_run *hm_lane_run_new(const struct hm_program *p, const double *fill, struct hm_scratch *s,
                                    struct hm_error *err) {
    struct hm_lane_run *run = hm_alloc(1, sizeof *run);
    if (run) {
        run->fill = fill;
        run->launched = vectors(1, p->across);
        run->carry = vectors(p->rounds, s->carried);
    }
    if (!run || !run->launched || !run->carry) {
        hm_lane_run_free(run);
        hm_fail_memory(err);
        return NULL;
    }
    const struct hm_view view = {.duration = fill};
    clear_ends(&run->ends);
    for (size_t i = 0; i < p->across * HM_WIDTH; i++) run->launched[i] = -INFINITY;
    for (size_t round = 0; round < p->rounds; round++) {
        double *carry = run->carry + round * s->carried * HM_WIDTH;
        if (round) memcpy(carry, carry - s->carried * HM_WIDTH, s->carried * HM_WIDTH * sizeof(double));
        const struct state state = {carry, run->launched, run->launched, &run->ends, p->alone};
        run_round(p, round, &view, &state, 1, true, s);
    }
    return run;
}

void hm_against(const struct hm_program *p, const struct hm_view *lanes, size_t k, bool two,
                const struct hm_lane_run *rest, struct hm_scratch *s, struct hm_ends *ends) {
    const size_t launches = s->across * HM_WIDTH, bytes = launches * sizeof(double),
                 carry_bytes = s->carried * HM_WIDTH * sizeof(double);
    const int unroll = two && pair(lanes, k, k + 2) == 2 ? 2 : 1;
    const struct hm_view rest_views[2] = {{.duration = rest->fill}, {.duration = rest->fill}};
    struct state lane[2], others[2];
    for (size_t u = 0; u < (size_t)unroll; u++) {
        /* The rest's launches are known until a group starts later than it did for the rest alone: from then on the
         * rest runs again. */
        memcpy(s->launched[u], rest->launched, bytes);
        raise_all(s->launched[u], s->own + (k + u) * launches, launches);
        memcpy(s->spare[u], s->carry + (k + u) * s->carried * HM_WIDTH, carry_bytes);
        ends[u] = s->ends[k + u];
        lane[u] = (struct state){s->spare[u], s->launched[u], s->launched[u], &ends[u], p->alone};
        others[u] = (struct state){s->spare[2 + u], s->launched[u], s->launched[u], &ends[u], p->alone};
    }
    bool same = true;
    for (size_t round = p->free_rounds; round < p->rounds; round++) {
        if (same && (memcmp(s->launched[0], rest->launched, bytes) != 0 ||
                     (unroll == 2 && memcmp(s->launched[1], rest->launched, bytes) != 0))) {
            same = false;
            for (size_t u = 0; u < (size_t)unroll && round; u++)
                memcpy(s->spare[2 + u], rest->carry + (round - 1) * s->carried * HM_WIDTH, carry_bytes);
        }
        run_round(p, round, lanes + k, lane, unroll, false, s);
        if (!same) run_round(p, round, rest_views, others, unroll, false, s);
    }
    /* What the rest did not run again ended as it did alone; what it did run again ended no earlier. */
    for (int u = 0; u < unroll; u++) raise_all(ends[u].optimizer, rest->ends.optimizer, HM_WIDTH);
    if (two && unroll == 1) hm_against(p, lanes, k + 1, false, rest, s, ends + 1);
}

void hm_replay_against(const struct hm_program *p, const struct hm_view *lane, const struct hm_lane_run *rest,
                       struct hm_scratch *s, struct hm_ends *ends) {
    hm_begin(p, lane, 1, false, s);
    hm_against(p, lane, 0, false, rest, s, ends);
}
