/* test_synth.c - synthetic traces: Megatron's schedule, consistency with the replay, injections where they were put. */
#include "jobs.h"
#include "hindmost/hindmost.h"
#include "hindmost/synth.h"
#include "job/schedule.h"
#include "whatif/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/hm-synth-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

/* ---- schedules ---- */

static void schedule_is_the_one_drawn_by_hand(void **state) {
    (void)state;
    /* Narayanan et al. 2021, figure 4: 4 stages, 8 microbatches, 2 chunks; here stage 2 (devices count from 1 there):
     * letters are forwards, digits the microbatch, ' marks chunk 1, lower case backwards. */
    const struct hm_pipeline p = {4, 2, 8};
    struct hm_pass order[32];
    const char *expected = "F0 F1 F2 F3 F0' F1' F2' b0' F3' b1' F4 b2' F5 b3' F6 b0 F7 b1 F4' b2 F5' b3 F6' b4' F7' "
                           "b5' b6' b7' b4 b5 b6 b7 ";
    char text[256] = "";
    assert_int_equal(hm_schedule_warmup(&p, 2), 6);
    assert_int_equal(hm_schedule_warmup(&p, 0), 10);
    assert_int_equal(hm_schedule_warmup(&p, 3), 4);
    hm_schedule(&p, 2, order);
    for (int i = 0; i < 32; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%c%u%s ", order[i].backward ? 'b' : 'F',
                       order[i].microbatch, order[i].chunk ? "'" : "");
    assert_string_equal(text, expected);
}

static void plain_schedule_alternates_after_warmup(void **state) {
    (void)state;
    const struct hm_pipeline p = {3, 1, 4}, few = {4, 1, 2};
    struct hm_pass order[8];
    const bool first[] = {0, 0, 0, 1, 0, 1, 1, 1}, last[] = {0, 1, 0, 1, 0, 1, 0, 1}, short_first[] = {0, 0, 1, 1};
    hm_schedule(&p, 0, order);
    for (int i = 0; i < 8; i++) assert_int_equal(order[i].backward, first[i]);
    hm_schedule(&p, 2, order);
    for (int i = 0; i < 8; i++) assert_int_equal(order[i].backward, last[i]);
    hm_schedule(&few, 0, order); /* fewer microbatches than warm-up places */
    for (int i = 0; i < 4; i++) assert_int_equal(order[i].backward, short_first[i]);
}

static void impossible_pipelines_are_refused(void **state) {
    (void)state;
    assert_true(hm_pipeline_valid(&(struct hm_pipeline){4, 2, 8}));
    assert_false(hm_pipeline_valid(&(struct hm_pipeline){4, 2, 6}));
    assert_false(hm_pipeline_valid(&(struct hm_pipeline){1, 2, 6}));
    assert_false(hm_pipeline_valid(&(struct hm_pipeline){1, 1, 0}));
    assert_true(hm_pipeline_valid(&(struct hm_pipeline){4, 1, 3}));
}

/* The order of computes in recorded traces of jobs that used these schedules. */
static void schedule_is_that_of_recorded_traces(void **state) {
    (void)state;
    static const struct {
        const char *path;
        struct hm_pipeline p;
    } traces[] = {{"what-if/trace-AR.parquet", {4, 1, 32}},
                  {"what-if/trace-SE.parquet", {2, 1, 8}},
                  {"what-if-cases/trace-vpp2.parquet", {4, 2, 8}},
                  {"what-if-cases/trace-pp8.parquet", {8, 1, 24}}};
    for (size_t k = 0; k < sizeof traces / sizeof traces[0]; k++) {
        char path[512];
        struct hm_error err;
        (void)snprintf(path, sizeof path, "%s/%s", HM_SHARED_DATA, traces[k].path);
        if (access(path, R_OK) != 0) {
            print_message("skipped: %s is absent\n", path);
            continue;
        }
        struct hm_recording *r = hm_recording_read(path, NULL, 0, 1, NULL, NULL, &err);
        assert_non_null(r);
        const struct hm_pipeline *p = &traces[k].p;
        size_t n = 2 * p->chunks * p->microbatches;
        struct hm_pass *order = malloc(n * sizeof *order);
        for (uint32_t stage = 0; stage < p->stages; stage++) {
            const struct hm_ref_op *last = NULL;
            hm_schedule(p, stage, order);
            for (size_t j = 0; j < n; j++) {
                const struct hm_ref_op *found = NULL;
                for (size_t i = 0; i < r->n_ref; i++)
                    if (r->ref[i].stage == stage && (r->ref[i].type == HM_BACKWARD_COMPUTE) == order[j].backward &&
                        hm_is_compute((int)r->ref[i].type) && r->ref[i].mc == (int32_t)order[j].chunk &&
                        r->ref[i].mb == (int32_t)order[j].microbatch)
                        found = &r->ref[i];
                assert_non_null(found);
                if (last) assert_true(found->start_s >= last->start_s);
                last = found;
            }
        }
        free(order);
        hm_recording_free(r);
    }
}

/* ---- consistency ---- */

static struct hm_trace *synth_and_open(const struct hm_synth_options *o, const char *name) {
    struct hm_error err = {0};
    char path[128];
    strcpy(path, in_folder(name));
    if (hm_synth(path, o, &err) != 0) fail_msg("%s", err.message);
    struct hm_trace_options open = {.threads = 1};
    char meta[160];
    (void)snprintf(meta, sizeof meta, "%.*s.yaml", (int)(strrchr(path, '.') - path), path);
    open.metadata = meta;
    struct hm_trace *t = hm_trace_open(path, &open, &err);
    if (!t) fail_msg("%s", err.message);
    return t;
}

/* One step of the grid as [lane][slot]. */
static void take_step(const struct hm_trace *t, const double *base, size_t step, double *out) {
    const struct hm_grid *g = &t->grid;
    for (size_t lane = 0; lane < g->lanes; lane++)
        for (size_t s = 0; s < g->slots; s++)
            out[lane * g->slots + s] =
                base[(((step / HM_WIDTH) * g->lanes + lane) * g->slots + s) * HM_WIDTH + step % HM_WIDTH];
}

/* The largest |replayed start - recorded start| of any op. */
static double largest_shift(const struct hm_trace *t) {
    const struct hm_grid *g = &t->grid;
    size_t n = g->lanes * g->slots;
    double *duration = malloc(n * sizeof(double)), *recorded = malloc(n * sizeof(double)),
           *start = malloc(n * sizeof(double)), *end = malloc(n * sizeof(double));
    double worst = 0;
    for (size_t step = 0; step < g->steps; step++) {
        take_step(t, g->duration, step, duration);
        take_step(t, g->start, step, recorded);
        hm_replay_plain(t->job, g->lanes, duration, start, end);
        for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs(start[i] - recorded[i]));
    }
    free(duration), free(recorded), free(start), free(end);
    return worst;
}

static void replaying_gives_recorded_times_back_on_random_jobs(void **state) {
    (void)state;
    struct hm_rng rng;
    hm_rng_seed(&rng, 7);
    for (int round = 0; round < JOB_TRIALS(120); round++) {
        struct hm_synth_options o;
        hm_synth_defaults(&o);
        o.dp = 1 + (uint32_t)hm_rng_below(&rng, 4);
        o.pp = 1 + (uint32_t)hm_rng_below(&rng, 5);
        o.vpp = o.pp > 1 ? 1 + (uint32_t)hm_rng_below(&rng, 3) : 1;
        o.microbatches =
            o.vpp > 1 ? o.pp * (1 + (uint32_t)hm_rng_below(&rng, 3)) : 1 + (uint32_t)hm_rng_below(&rng, 10);
        o.tp = 1 + (uint32_t)hm_rng_below(&rng, 3);
        o.steps = 1 + (uint32_t)hm_rng_below(&rng, 10);
        o.seed = hm_rng_next(&rng);
        o.overlap_dp = hm_rng_below(&rng, 2);
        o.noise = hm_rng_below(&rng, 2) ? 0.05 : 0;
        if (hm_rng_below(&rng, 3) == 0) o.p2p_s = 0; /* transfers without duration tie with their neighbours */
        if (hm_rng_below(&rng, 3) == 0) o.dp_comm_s = 0;
        if (hm_rng_below(&rng, 4) == 0) o.p2p_s = 0.2;
        if (hm_rng_below(&rng, 4) == 0) o.backward_s = o.forward_s;
        const char *inject[] = {"slow-worker:factor=1.5", "sequences", "gc:every=3,ms=80"};
        o.inject = inject;
        o.n_inject = hm_rng_below(&rng, 4);
        struct hm_trace *t = synth_and_open(&o, hm_rng_below(&rng, 4) ? "random.parquet" : "random.csv");
        struct hm_analysis *a = hm_analyze(t, &(struct hm_analysis_options){.threads = 1}, NULL);
        assert_non_null(a);
        assert_int_equal(a->n_dropped, 0);
        assert_int_equal(a->dp, o.dp);
        assert_int_equal(a->pp, o.pp);
        assert_int_equal(a->vpp, o.vpp);
        assert_int_equal(a->tp, o.tp);
        assert_int_equal(a->n_steps, o.steps);
        if (fabs(a->discrepancy) > 1e-9) fail_msg("round %d: discrepancy %g", round, a->discrepancy);
        for (size_t k = 0; k < a->n_steps; k++)
            assert_true(fabs(a->steps[k].actual_s - a->steps[k].replayed_s) <= 1e-9);
        if (largest_shift(t) > 1e-9) fail_msg("round %d: an op starts %g s off", round, largest_shift(t));
        if (o.noise == 0 && o.n_inject == 0) assert_true(fabs(a->slowdown - 1) < 1e-9);
        hm_analysis_free(a);
        hm_trace_free(t);
    }
}

/* ---- injections ---- */

static struct hm_synth_options usual(void) {
    struct hm_synth_options o;
    hm_synth_defaults(&o);
    o.noise = 0.03;
    o.steps = 10;
    return o;
}

static struct hm_trace *injected(struct hm_synth_options o, const char *inject, const char *name) {
    o.inject = &inject;
    o.n_inject = 1;
    return synth_and_open(&o, name);
}

/* Sum of the durations of one type; with stage and lane >= 0 only those of that worker. */
static double total(const struct hm_trace *t, int type, int64_t stage, int64_t lane, size_t *n) {
    const struct hm_grid *g = &t->grid;
    double sum = 0;
    *n = 0;
    for (size_t step = 0; step < g->steps; step++)
        for (size_t l = 0; l < g->lanes; l++)
            for (size_t s = 0; s < g->slots; s++) {
                if ((int)t->job->slot[s].cls != type || (stage >= 0 && t->job->slot[s].stage != (size_t)stage) ||
                    (lane >= 0 && l != (size_t)lane))
                    continue;
                sum += g->duration[(((step / HM_WIDTH) * g->lanes + l) * g->slots + s) * HM_WIDTH + step % HM_WIDTH];
                (*n)++;
            }
    return sum;
}

/* S of the trace with a slow worker is what replays of the healthy trace say: that worker's times scaled, over the ideal
 * of the scaled times. */
static void slow_worker_costs_what_a_replay_with_scaled_times_says(void **state) {
    (void)state;
    static const struct {
        uint32_t pp, vpp;
        bool overlap;
        int stage, dp;
        double factor;
    } cases[] = {{4, 1, false, 1, 2, 2}, {4, 2, true, 3, 0, 1.3}, {1, 1, false, 0, 3, 1.5}, {3, 1, true, 2, 1, 1.1}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct hm_synth_options o = usual();
        char text[200], scale[100], forward[100], backward[100];
        o.pp = cases[k].pp, o.vpp = cases[k].vpp, o.overlap_dp = cases[k].overlap;
        if (o.vpp > 1) o.microbatches = 2 * o.pp;
        struct hm_trace *healthy = synth_and_open(&o, "healthy.parquet");
        (void)snprintf(text, sizeof text, "slow-worker:stage=%d,dp=%d,factor=%g", cases[k].stage, cases[k].dp,
                       cases[k].factor);
        struct hm_trace *slow = injected(o, text, "slow.parquet");
        struct hm_analysis *a = hm_analyze(slow, NULL, NULL);
        assert_non_null(a);

        (void)snprintf(scale, sizeof scale, "type:compute,stage:%d,dp:%d=x%.17g", cases[k].stage, cases[k].dp,
                       cases[k].factor);
        size_t n, own_n;
        double f = total(healthy, HM_FORWARD_COMPUTE, -1, -1, &n) +
                   (cases[k].factor - 1) * total(healthy, HM_FORWARD_COMPUTE, cases[k].stage, cases[k].dp, &own_n);
        (void)snprintf(forward, sizeof forward, "type:forward-compute=%.17gs", f / (double)n);
        double b = total(healthy, HM_BACKWARD_COMPUTE, -1, -1, &n) +
                   (cases[k].factor - 1) * total(healthy, HM_BACKWARD_COMPUTE, cases[k].stage, cases[k].dp, &own_n);
        (void)snprintf(backward, sizeof backward, "type:backward-compute=%.17gs", b / (double)n);
        const char *scaled[] = {scale}, *ideal[] = {forward, backward};
        struct hm_whatif_result with, without;
        assert_int_equal(hm_whatif(healthy, false, scaled, 1, 1, &with, NULL), 0);
        assert_int_equal(hm_whatif(healthy, true, ideal, 2, 1, &without, NULL), 0);
        double expected = with.result_s / without.result_s;
        if (fabs(a->slowdown - expected) > 1e-9)
            fail_msg("case %zu: S %.12f, replay says %.12f", k, a->slowdown, expected);

        double worst = 0;
        size_t where = 0;
        for (size_t w = 0; w < a->pp * a->dp; w++)
            if (a->by_worker[w] > worst) worst = a->by_worker[w], where = w;
        assert_int_equal(where, (size_t)cases[k].stage * a->dp + (size_t)cases[k].dp);
        hm_analysis_free(a);
        hm_trace_free(healthy);
        hm_trace_free(slow);
    }
}

/* What differs between a trace with and one without an injection, which share all draws: calls `check` for each op. */
static void compare(const char *inject, struct hm_synth_options o,
                    void (*check)(const struct hm_slot *slot, size_t lane, int64_t step, double ratio, double more)) {
    struct hm_trace *without = synth_and_open(&o, "without.parquet"), *with = injected(o, inject, "with.parquet");
    const struct hm_grid *g = &without->grid;
    assert_int_equal(g->slots, with->grid.slots);
    for (size_t s = 0; s < g->slots; s++) {
        const struct hm_slot *slot = &without->job->slot[s];
        size_t other = 0;
        while (with->job->slot[other].stage != slot->stage || with->job->slot[other].cls != slot->cls ||
               with->job->slot[other].seq != slot->seq)
            other++;
        for (size_t step = 0; step < g->steps; step++)
            for (size_t lane = 0; lane < g->lanes; lane++) {
                size_t row = (step / HM_WIDTH) * g->lanes + lane;
                double a = g->duration[(row * g->slots + s) * HM_WIDTH + step % HM_WIDTH],
                       b = with->grid.duration[(row * g->slots + other) * HM_WIDTH + step % HM_WIDTH];
                check(slot, lane, without->recording->steps[step], a > 0 ? b / a : 1, b - a);
            }
    }
    hm_trace_free(without);
    hm_trace_free(with);
}

static size_t changed;

static void only_the_link_of_replica_3(const struct hm_slot *slot, size_t lane, int64_t step, double ratio,
                                       double more) {
    (void)more;
    bool forward =
             (slot->cls == HM_FORWARD_SEND && slot->stage == 0) || (slot->cls == HM_FORWARD_RECV && slot->stage == 1),
         backward =
             (slot->cls == HM_BACKWARD_SEND && slot->stage == 1) || (slot->cls == HM_BACKWARD_RECV && slot->stage == 0);
    bool chosen = lane == 3 && step >= 5 && step <= 9 && (forward || backward);
    changed += chosen;
    assert_true(fabs(ratio - (chosen ? 10 : 1)) < 1e-6);
}

static void link_is_slow_where_and_when_it_was_put(void **state) {
    (void)state;
    changed = 0;
    compare("link:stage=0,dp=3,factor=10,steps=5-9", usual(), only_the_link_of_replica_3);
    assert_true(changed >= 2 * 4 * 8 && changed <= 5 * 4 * 8);
}

static size_t pauses[4][40]; /* [lane * stages + stage][step] */

static void only_single_forwards(const struct hm_slot *slot, size_t lane, int64_t step, double ratio, double more) {
    (void)ratio;
    if (fabs(more) < 1e-9) return;
    assert_int_equal(slot->cls, HM_FORWARD_COMPUTE);
    assert_true(fabs(more - 0.3) < 1e-9);
    pauses[lane * 2 + slot->stage][step]++;
}

static void garbage_is_collected_by_each_worker_in_its_own_steps(void **state) {
    (void)state;
    struct hm_synth_options o = usual();
    o.dp = o.pp = 2;
    memset(pauses, 0, sizeof pauses);
    compare("gc:every=4,ms=300", o, only_single_forwards);
    size_t all = 0, phases[4] = {0};
    for (size_t w = 0; w < 4; w++)
        for (size_t step = 0; step < 40; step++) {
            if (!pauses[w][step]) continue;
            assert_int_equal(pauses[w][step], 1);
            all++;
            if (phases[w]) assert_int_equal(step % 4 + 1, phases[w]); /* each worker in its own phase */
            phases[w] = step % 4 + 1;
        }
    assert_true(all >= 4);
    assert_false(phases[0] == phases[1] && phases[1] == phases[2] && phases[2] == phases[3]);
}

static double factor_of[4][40][8]; /* [lane][step][microbatch] */

static void same_factor_on_all_stages(const struct hm_slot *slot, size_t lane, int64_t step, double ratio,
                                      double more) {
    (void)more;
    if (!hm_is_compute((int)slot->cls)) {
        assert_true(fabs(ratio - 1) < 1e-6);
        return;
    }
    double *seen = &factor_of[lane][step][slot->mb];
    if (*seen == 0) *seen = ratio;
    assert_true(fabs(ratio - *seen) < 1e-9);
}

static void sequences_scale_a_microbatch_on_all_stages_alike(void **state) {
    (void)state;
    struct hm_synth_options o = usual();
    o.steps = 20;
    memset(factor_of, 0, sizeof factor_of);
    compare("sequences:max=32768,tail=1.2", o, same_factor_on_all_stages);
    double sum = 0, squares = 0;
    size_t n = 0;
    for (size_t i = 0; i < 4 * 40 * 8; i++) {
        double f = (&factor_of[0][0][0])[i];
        if (f == 0) continue;
        sum += f, squares += f * f, n++;
    }
    assert_int_equal(n, 4 * 20 * 8);
    double mean = sum / (double)n, cv = sqrt(squares / (double)n - mean * mean) / mean;
    assert_true(fabs(mean - 1) < 0.1); /* about 5 standard errors */
    assert_true(cv > 0.2);
}

static void data_loading_is_a_gap_that_the_replay_does_not_explain(void **state) {
    (void)state;
    struct hm_synth_options o = usual();
    o.noise = 0;
    struct hm_trace *t = injected(o, "data-loading:dp=2,ms=200,share=0.5", "late.parquet");
    struct hm_analysis *a = hm_analyze(t, NULL, NULL);
    assert_non_null(a);
    size_t late = 0;
    for (size_t k = 0; k < a->n_steps; k++) {
        double gap = a->steps[k].actual_s - a->steps[k].replayed_s;
        if (gap > 1e-9) late++;
        assert_true(gap < 1e-9 || fabs(gap - 0.2) < 1e-9);
    }
    assert_true(late > 0 && late < a->n_steps);
    assert_true(fabs(a->slowdown - 1) < 1e-9); /* no op took longer */
    size_t first = 0;
    const struct hm_grid *g = &t->grid;
    while (t->job->slot[first].stage != 0 || t->job->slot[first].cls != HM_FORWARD_COMPUTE ||
           t->job->slot[first].seq != 0)
        first++;
    for (size_t step = 0; step < g->steps; step++)
        for (size_t lane = 0; lane < g->lanes; lane++) {
            double at = g->start[((step / HM_WIDTH * g->lanes + lane) * g->slots + first) * HM_WIDTH + step % HM_WIDTH];
            bool waits = lane == 2 && a->steps[step].actual_s - a->steps[step].replayed_s > 1e-9;
            assert_true(fabs(at - (waits ? 0.21 : 0.01)) < 1e-9); /* the all-gather takes 10 ms */
        }
    hm_analysis_free(a);
    hm_trace_free(t);
}

static void only_gradients_in_the_last_stage(const struct hm_slot *slot, size_t lane, int64_t step, double ratio,
                                             double more) {
    (void)lane, (void)step, (void)more;
    bool chosen = slot->cls == HM_GRADS_REDUCE_SCATTER && slot->stage == 3;
    changed += chosen;
    assert_true(fabs(ratio - (chosen ? 3 : 1)) < 1e-6);
}

static void only_the_clip_once(const struct hm_slot *slot, size_t lane, int64_t step, double ratio, double more) {
    (void)lane, (void)step, (void)more;
    changed += slot->cls == HM_CLIP_MAIN_GRAD;
    assert_true(fabs(ratio - (slot->cls == HM_CLIP_MAIN_GRAD ? 3 : 1)) < 1e-6);
}

static void only_the_last_stage(const struct hm_slot *slot, size_t lane, int64_t step, double ratio, double more) {
    (void)lane, (void)step, (void)more;
    double expected = slot->stage != 3                   ? 1
                      : slot->cls == HM_FORWARD_COMPUTE  ? 2.07
                      : slot->cls == HM_BACKWARD_COMPUTE ? 1.41
                                                         : 1;
    assert_true(fabs(ratio - expected) < 1e-6);
}

static void stages_and_op_types_can_be_slow(void **state) {
    (void)state;
    changed = 0;
    compare("slow-op:type=grads-reduce-scatter,stage=3,factor=3", usual(), only_gradients_in_the_last_stage);
    assert_int_equal(changed, 40);
    changed = 0;
    compare("slow-op:type=optimizer-clip-main-grad,stage=1-3,factor=3", usual(), only_the_clip_once);
    assert_int_equal(changed, 160);
    compare("last-stage:forward=2.07,backward=1.41", usual(), only_the_last_stage);
}

static void injections_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *inject, *says;
    } cases[] = {{"slow:stage=1", "no such kind"},
                 {"slow-worker:stage=4", "outside the layout; it has 0 to 3"},
                 {"slow-worker:dp=4", "outside the layout"},
                 {"slow-worker:stage=x", "not a number or a range"},
                 {"slow-worker:stage=2-1", "not a number or a range"},
                 {"slow-worker:factor=0", "must be a number from"},
                 {"slow-worker:factor=nan", "must be a number from"},
                 {"slow-worker:factor", "not key=value"},
                 {"slow-worker:", NULL},
                 {"slow-worker", NULL},
                 {"gc:factor=2", "gc has no key 'factor'; it takes stage, dp, steps, every, ms"},
                 {"gc:steps=1000-2000", "none of the recorded steps"},
                 {"link:stage=3", "would leave the last stage"},
                 {"slow-op:factor=2", "needs type=NAME"},
                 {"slow-op:type=gcc", "is no op type"},
                 {"slow-op:type=separate-grads-all-reduce", "has no separate-grads-all-reduce"},
                 {"slow-op:type=params-all-gather,dp=1", "all DP ranks share"},
                 {"sequences:max=10,min=20", "min is larger"},
                 {"sequences:max=1000000,min=1", "raise min"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct hm_synth_options o = usual();
        struct hm_error err = {0};
        o.inject = &cases[k].inject;
        o.n_inject = 1;
        char path[128];
        strcpy(path, in_folder("refused.parquet"));
        unlink(path);
        int status = hm_synth(path, &o, &err);
        if (!cases[k].says) {
            assert_int_equal(status, 0);
            continue;
        }
        assert_int_equal(status, -1);
        assert_int_equal(err.code, HM_ERR_ARGUMENT);
        if (!strstr(err.message, cases[k].says)) fail_msg("%s: %s", cases[k].inject, err.message);
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* ---- files ---- */

static size_t contents(const char *path, char **bytes) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    *bytes = malloc((size_t)n + 1);
    assert_int_equal(fread(*bytes, 1, (size_t)n, f), n);
    (*bytes)[n] = 0;
    fclose(f);
    return (size_t)n;
}

static void same_options_give_same_bytes_whatever_the_threads(void **state) {
    (void)state;
    static const char *const names[] = {"bytes.parquet", "bytes.csv"};
    for (size_t k = 0; k < 2; k++) {
        struct hm_synth_options o = usual();
        const char *inject[] = {"sequences", "gc:every=5", "data-loading:share=0.5"};
        char *one, *two, *other, path[128];
        o.dp = 48, o.inject = inject, o.n_inject = 3;
        if (k == 0) o.pp = 8, o.microbatches = 32; /* large enough to be made in a thread of its own */
        strcpy(path, in_folder(names[k]));
        o.threads = 1;
        assert_int_equal(hm_synth(path, &o, NULL), 0);
        size_t n = contents(path, &one);
        o.threads = 4;
        assert_int_equal(hm_synth(path, &o, NULL), 0);
        assert_int_equal(contents(path, &two), n);
        assert_memory_equal(one, two, n);
        o.seed++;
        assert_int_equal(hm_synth(path, &o, NULL), 0);
        size_t m = contents(path, &other);
        assert_true(m != n || memcmp(one, other, n) != 0);
        free(one), free(two), free(other);
    }
}

static void every_failure_leaves_nothing(void **state) {
    (void)state;
    struct hm_synth_options o = usual();
    const char *inject = "gc";
    char path[128], command[160];
    o.dp = 2, o.pp = 2, o.steps = 2, o.microbatches = 2, o.threads = 1, o.inject = &inject, o.n_inject = 1;
    (void)snprintf(path, sizeof path, "%s/faults/t.parquet", folder);
    (void)snprintf(command, sizeof command, "mkdir -p '%s/faults'", folder);
    assert_int_equal(system(command), 0);
    (void)snprintf(command, sizeof command, "test -z \"$(ls -A '%s/faults')\"", folder);
    int failures = 0;
    for (long k = 1;; k++) {
        struct hm_error err = {0};
        hm_fault_after = k;
        int status = hm_synth(path, &o, &err);
        bool used = hm_fault_after <= 0;
        hm_fault_after = 0;
        if (!used) {
            assert_int_equal(status, 0);
            break;
        }
        assert_int_equal(status, -1);
        assert_true(err.code == HM_ERR_MEMORY || err.code == HM_ERR_IO);
        assert_true(err.message[0]);
        assert_int_equal(system(command), 0);
        failures++;
    }
    assert_true(failures > 30);
}

static void impossible_layouts_are_refused(void **state) {
    (void)state;
    for (int k = 0; k < 12; k++) {
        struct hm_synth_options o = usual();
        struct hm_error err = {0};
        switch (k) {
        case 0:
            o.dp = 0;
            break;
        case 1:
            o.pp = 257;
            break;
        case 2:
            o.vpp = 2, o.pp = 1;
            break;
        case 3:
            o.vpp = 2, o.microbatches = 6;
            break;
        case 4:
            o.microbatches = 0;
            break;
        case 5:
            o.steps = 0;
            break;
        case 6:
            o.forward_s = 0;
            break;
        case 7:
            o.p2p_s = -1;
            break;
        case 8:
            o.noise = NAN;
            break;
        case 9:
            o.dp = 16384, o.pp = 256, o.microbatches = 1000;
            break;
        case 10:
            o.backward_s = INFINITY;
            break;
        default:
            o.vpp = 4, o.microbatches = 65536;
            break;
        }
        assert_int_equal(hm_synth(in_folder("no.parquet"), &o, &err), -1);
        assert_int_equal(err.code, HM_ERR_ARGUMENT);
        assert_string_not_equal(err.message, "");
    }
    struct hm_synth_options o = usual();
    struct hm_error err = {0};
    assert_int_equal(hm_synth(in_folder("no.txt"), &o, &err), -1);
    assert_non_null(strstr(err.message, ".parquet or .csv"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_is_the_one_drawn_by_hand),
        cmocka_unit_test(plain_schedule_alternates_after_warmup),
        cmocka_unit_test(impossible_pipelines_are_refused),
        cmocka_unit_test(schedule_is_that_of_recorded_traces),
        cmocka_unit_test(replaying_gives_recorded_times_back_on_random_jobs),
        cmocka_unit_test(slow_worker_costs_what_a_replay_with_scaled_times_says),
        cmocka_unit_test(link_is_slow_where_and_when_it_was_put),
        cmocka_unit_test(garbage_is_collected_by_each_worker_in_its_own_steps),
        cmocka_unit_test(sequences_scale_a_microbatch_on_all_stages_alike),
        cmocka_unit_test(data_loading_is_a_gap_that_the_replay_does_not_explain),
        cmocka_unit_test(stages_and_op_types_can_be_slow),
        cmocka_unit_test(injections_that_cannot_be_are_refused),
        cmocka_unit_test(same_options_give_same_bytes_whatever_the_threads),
        cmocka_unit_test(every_failure_leaves_nothing),
        cmocka_unit_test(impossible_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
