/* test_synth.c - synthetic traces: Megatron's schedule, consistency with the replay, injections where they were put. */
#include "hindmost/hindmost.h"
#include "hindmost/synth.h"
#include "model/schedule.h"
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
    char *meta = strdup(path);
    strcpy(strrchr(meta, '.'), ".yaml");
    open.metadata = meta;
    struct hm_trace *t = hm_trace_open(path, &open, &err);
    if (!t) fail_msg("%s", err.message);
    free(meta);
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
        hm_replay_plain(t->model, g->lanes, duration, start, end);
        for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs(start[i] - recorded[i]));
    }
    free(duration), free(recorded), free(start), free(end);
    return worst;
}

static void replaying_gives_recorded_times_back_on_random_jobs(void **state) {
    (void)state;
    struct hm_rng rng;
    hm_rng_seed(&rng, 7);
    for (int round = 0; round < 120; round++) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_is_the_one_drawn_by_hand),
        cmocka_unit_test(plain_schedule_alternates_after_warmup),
        cmocka_unit_test(impossible_pipelines_are_refused),
        cmocka_unit_test(schedule_is_that_of_recorded_traces),
        cmocka_unit_test(replaying_gives_recorded_times_back_on_random_jobs),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
