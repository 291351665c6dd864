/* test_stragglers.c - stragglers as they come: late, moving, on half of the replicas, in one op type; and the parts the search for them
 * is made of. */
#include "diagnose/explain.h"
#include "diagnose/wander.h"
#include "hindmost/synth.h"
#include "whatif/whatif.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_near(double x, double y, double apart) {
    if (!(fabs(x - y) <= apart)) fail_msg("%.9g is not within %g of %.9g", x, apart, y);
}

/* What a diagnosis says, in a line: "slow-worker s0d1 s0d2 @12-23 (backward-compute); ...". */
static void say(struct hm_trace *t, char *text, size_t size) {
    struct hm_error err = {0};
    const struct hm_analysis_options options = {.threads = 2};
    assert_non_null(t);
    struct hm_analysis *a = hm_analyze(t, &options, &err);
    assert_non_null(a);
    struct hm_diagnosis *d = hm_diagnose(t, a, 2, &err);
    assert_non_null(d);
    size_t n = 0;
    text[0] = 0;
#define SAY(...) n += (size_t)snprintf(text + n, n < size ? size - n : 0, __VA_ARGS__)
    for (size_t i = 0; i < d->n_causes; i++) {
        const struct hm_cause *c = &d->causes[i];
        assert_true(c->recovers >= 0);
        SAY("%s%s", i ? "; " : "", c->cause);
        if (strcmp(c->cause, "unexplained") == 0) continue;
        for (size_t k = 0; k < c->n_workers; k++) SAY(" s%ud%u", c->workers[k].stage, c->workers[k].dp_rank);
        for (size_t k = 0; k < c->n_dp_ranks; k++) SAY(" d%u", c->dp_ranks[k]);
        for (size_t k = 0; k < c->n_step_ranges; k++)
            SAY(" @%d-%d", (int)c->step_ranges[k].first, (int)c->step_ranges[k].last);
        if (c->n_op_types == 1) SAY(" (%s)", c->op_types[0]);
    }
#undef SAY
    assert_true(n < size);
    hm_diagnosis_free(d);
    hm_analysis_free(a);
    hm_trace_free(t);
}

/* dp 4 x pp 4, 8 microbatches, 16 steps with the numbers 2 3 4 6 7 9 10 11 12 14 15 17 18 20 22 23, 2 % noise. */
static void made(const char *const *inject, size_t n, uint32_t pp, char *text, size_t size) {
    struct hm_synth_options o;
    struct hm_error err = {0};
    hm_synth_defaults(&o);
    o.pp = pp, o.noise = 0.02, o.seed = 1, o.inject = inject, o.n_inject = n;
    struct hm_trace *t = hm_synth_trace(&o, &err);
    if (!t) fail_msg("%s", err.message);
    say(t, text, size);
}

static void by_kind(void **state) {
    (void)state;
    static const struct {
        uint32_t pp;
        const char *inject[4], *said;
    } cases[] = {
        {4, {"slow-worker:stage=2,dp=1,factor=1.4,steps=11-40"}, "slow-worker s2d1 @11-23"},
        {2, {"slow-worker:stage=0,dp=1,factor=1.4,steps=11-40"}, "slow-worker s0d1 @11-23"},
        {1, {"slow-worker:dp=3,factor=1.5,steps=6-12"}, "slow-worker s0d3 @6-12"},
        {4, {"replica:dp=2,factor=1.3,steps=11-40"}, "replica-imbalance d2 @11-23"},
        {4, {"replica:dp=0-1,factor=1.4"}, "replica-imbalance d0 d1"},
        {4,
         {"replica:dp=0,factor=1.6", "replica:dp=1,factor=1.5", "replica:dp=2,factor=1.4"},
         "replica-imbalance d0 d1 d2"},
        {1,
         {"replica:dp=1,factor=1.2", "replica:dp=2,factor=1.4", "replica:dp=3,factor=1.6"},
         "slow-worker s0d3 s0d2 s0d1"},
        {4, {"slow-worker:stage=1,dp=2,factor=1.5,op=forward"}, "slow-worker s1d2 (forward-compute)"},
        {4, {"slow-worker:stage=1,dp=2,factor=1.5,op=backward"}, "slow-worker s1d2 (backward-compute)"},
        {4, {"slow-worker:stage=1,dp=2,factor=30,op=optimizer"}, "slow-worker s1d2 (optimizer)"},
        {4, {"slow-worker:stage=1,dp=2,factor=1.6,steps=2-23,every=12,for=3"}, "slow-worker s1d2 @2-4 @14-15"},
        {4,
         {"slow-worker:stage=0,dp=1,factor=1.5,steps=1-11", "slow-worker:stage=3,dp=2,factor=1.3,steps=12-40"},
         "slow-worker s0d1 @2-11; slow-worker s3d2 @12-23"},
        {4, {"wander:spread=0.02"}, ""},
        {4, {"machines:spread=0.01"}, ""},
        {4, {"tails:spread=0.02"}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1000];
        size_t n = 0;
        while (n < 4 && cases[i].inject[n]) n++;
        made(cases[i].inject, n, cases[i].pp, text, sizeof text);
        if (strcmp(text, cases[i].said) != 0)
            fail_msg("pp %u %s: '%s' for '%s'", cases[i].pp, cases[i].inject[0], text, cases[i].said);
    }
}

/* What grows is named, and the beginning, where it is next to nothing, is not. */
static void drift(void **state) {
    (void)state;
    const char *inject = "slow-worker:stage=1,dp=2,factor=1.6,from=1";
    char text[1000];
    made(&inject, 1, 4, text, sizeof text);
    if (strncmp(text, "slow-worker s1d2", 16) != 0) fail_msg("'%s'", text);
    assert_null(strstr(text, ";"));
}

/* Lengths that differ beside a late straggler: both, and nobody else. */
static void beside_sequences(void **state) {
    (void)state;
    const char *inject[] = {"sequences:quadratic=0.3", "slow-worker:stage=2,dp=1,factor=2,steps=11-40"};
    char text[1000];
    made(inject, 2, 4, text, sizeof text);
    assert_non_null(strstr(text, "slow-worker s2d1 @11-23"));
    assert_non_null(strstr(text, "sequence-length"));
}

/* The first steps take four times as long, on each worker another time: they are named, and nobody is blamed for them. */
static void warm_up(void **state) {
    (void)state;
    const char *inject[] = {"stage:stage=0-3,factor=4,steps=1-3", "machines:spread=0.3,steps=1-3",
                            "slow-worker:stage=1,dp=2,factor=1.4,steps=9-40"};
    struct hm_synth_options o;
    struct hm_error err = {0};
    const struct hm_analysis_options options = {.threads = 1};
    hm_synth_defaults(&o);
    o.noise = 0.02, o.seed = 1, o.inject = inject, o.n_inject = 3;
    struct hm_trace *t = hm_synth_trace(&o, &err);
    assert_non_null(t);
    struct hm_analysis *a = hm_analyze(t, &options, &err);
    assert_non_null(a);
    struct hm_diagnosis *d = hm_diagnose(t, a, 1, &err);
    assert_non_null(d);
    assert_int_equal(d->n_cannot_tell, 2);
    assert_non_null(strstr(d->cannot_tell[0], "step 2 is a warm-up"));
    assert_non_null(strstr(d->cannot_tell[1], "step 3 is a warm-up"));
    size_t workers = 0;
    for (size_t i = 0; i < d->n_causes; i++) workers += d->causes[i].n_workers;
    assert_int_equal(workers, 1);
    hm_diagnosis_free(d);
    hm_analysis_free(a);
    hm_trace_free(t);
}

/* Cases from outside, with their truth. */
static void cases_from_outside(void **state) {
    (void)state;
    static const struct {
        const char *file, *said;
    } cases[] = {{"a1-half-of-replicas", "slow-worker s0d0 s0d1"},
                 {"a2-slow-at-the-end", "slow-worker s0d1 @26-28"},
                 {"a3-onset-pp2", "slow-worker s0d1 @9-23"},
                 {"a4-backward-only", "slow-worker s0d1 (backward-compute)"},
                 {"a4-forward-only", "slow-worker s0d1 (forward-compute)"},
                 {"a5-culprit-changes", "slow-worker s0d1 @2-11; slow-worker s0d2 @12-23"},
                 {"base", "slow-worker s1d1"},
                 {"healthy", ""},
                 {"h1", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[512], text[1000];
        struct hm_error err = {0};
        (void)snprintf(path, sizeof path, "%s/outside-cases/analyze/%s.parquet", HM_SHARED_DATA, cases[i].file);
        if (access(path, R_OK) != 0) {
            print_message("%s is not here: skipped\n", path);
            skip();
        }
        struct hm_trace *t = hm_trace_open(path, NULL, &err);
        if (!t) fail_msg("%s", err.message);
        say(t, text, sizeof text);
        if (strcmp(text, cases[i].said) != 0) fail_msg("%s: '%s' for '%s'", cases[i].file, text, cases[i].said);
    }
}

/* ---- the parts ---- */

static void usual_levels(void **state) {
    (void)state;
    double near[] = {0.01, -0.01, 0.0, 0.02, 0.5}, half[] = {0.3, 0.0, 0.01, 0.31}, most[] = {0.3, 0.0, 0.32, 0.31},
           pair[] = {0.4, 0.1}, one[] = {7};
    assert_near(hm_usual_level(near, 5, 0.001), 0.005, 1e-12); /* the median of those that lie together */
    assert_near(hm_usual_level(half, 4, 0.001), 0.005, 1e-12); /* lower half */
    assert_near(hm_usual_level(most, 4, 0.001), 0.0, 1e-12);   /* the only sound one */
    assert_near(hm_usual_level(pair, 2, 0.001), 0.1, 1e-12);
    assert_near(hm_usual_level(one, 1, 0.001), 7, 0);
}

static void segments(void **state) {
    (void)state;
    enum { STEPS = 200 };
    double x[STEPS], of[STEPS + 1];
    uint32_t end[STEPS];
    struct hm_rng rng;
    hm_rng_seed(&rng, 3);
    for (size_t n = 1; n <= STEPS; n++) of[n] = 0.01 / sqrt((double)n);
    for (size_t t = 0; t < STEPS; t++)
        x[t] = 0.01 * hm_rng_normal(&rng) + (t >= 37 && t < 90 ? 0.2 : 0) + (t >= 151 ? 0.1 : 0);
    assert_int_equal(hm_segment(x, STEPS, of, end), 4);
    assert_int_equal(end[0], 37);
    assert_int_equal(end[1], 90);
    assert_int_equal(end[2], 151);
    assert_int_equal(end[3], STEPS);
    for (size_t t = 0; t < STEPS; t++) x[t] = 0.01 * hm_rng_normal(&rng);
    assert_int_equal(hm_segment(x, STEPS, of, end), 1);
}

/* White noise: the error of a mean falls with the root of n. AR(1) with 0.8: it is up to three times that. */
static void errors_of_means(void **state) {
    (void)state;
    enum { SERIES = 200, STEPS = 64 };
    double *x = hm_alloc(SERIES * STEPS, sizeof *x), lags[STEPS + 1], blocks[STEPS + 1];
    struct hm_rng rng;
    hm_rng_seed(&rng, 5);
    assert_non_null(x);
    for (size_t i = 0; i < SERIES * STEPS; i++) x[i] = hm_rng_normal(&rng);
    assert_int_equal(hm_wander_lags(x, SERIES, STEPS, 0, false, lags), 0);
    assert_int_equal(hm_wander_blocks(x, SERIES, STEPS, 0, true, blocks), 0);
    for (size_t n = 1; n <= STEPS; n *= 4) {
        assert_near(lags[n] * sqrt((double)n), 1, 0.1);
        assert_near(blocks[n] * sqrt((double)n), 1, 0.15);
    }
    for (size_t s = 0; s < SERIES; s++) {
        double now = hm_rng_normal(&rng);
        for (size_t t = 0; t < STEPS; t++) now = 0.8 * now + 0.6 * hm_rng_normal(&rng), x[s * STEPS + t] = now;
    }
    assert_int_equal(hm_wander_blocks(x, SERIES, STEPS, 0, true, blocks), 0);
    assert_near(blocks[1], 1, 0.15);
    assert_near(blocks[16] * 4, 2.5, 0.5); /* sqrt(16 var(mean)) of this series is 2.6 */
    hm_free(x);
}

/* Two effects in one replica's contrasts, one known by its steps only, are found with their sizes. */
static void windows_in_a_replica(void **state) {
    (void)state;
    enum { STAGES = 3, ROWS = 6, STEPS = 40 };
    double value[ROWS * STEPS], weight[ROWS], inflate[STEPS + 1];
    struct hm_windows windows;
    struct hm_search_room room;
    struct hm_effect e[16];
    struct hm_rng rng;
    hm_rng_seed(&rng, 11);
    for (size_t r = 0; r < ROWS; r++) weight[r] = 1e4; /* noise of 0.01 */
    for (size_t n = 0; n <= STEPS; n++) inflate[n] = 1;
    for (size_t t = 0; t < STEPS; t++) {
        double shared = hm_rng_normal(&rng); /* the replica's own pace */
        for (size_t r = 0; r < ROWS; r++) value[r * STEPS + t] = shared + 0.01 * hm_rng_normal(&rng);
        if (t >= 25) value[2 * STEPS + t] += 0.3, value[3 * STEPS + t] += 0.2; /* stage 1 */
        if (t >= 5 && t < 15) value[5 * STEPS + t] += 0.25;                    /* backwards of stage 2 */
    }
    assert_int_equal(hm_windows_list(&windows, STEPS), 0);
    assert_int_equal(windows.n, STEPS * (STEPS + 1) / 2);
    const struct hm_search s = {STAGES, 1, STEPS, weight, inflate, inflate, &windows, 16};
    assert_int_equal(hm_search_room(&room, &s), 0);
    assert_int_equal(hm_search_lane(&s, value, 0, &room, e), 2);
    const struct hm_effect *worker = &e[e[0].stage == 1 ? 0 : 1], *backward = &e[e[0].stage == 1 ? 1 : 0];
    assert_int_equal(worker->stage, 1);
    assert_int_equal(worker->first, 25);
    assert_int_equal(worker->end, STEPS);
    assert_int_equal(worker->directions, HM_BOTH);
    assert_near(worker->size[0], 0.3, 0.02);
    assert_near(worker->size[1], 0.2, 0.02);
    assert_int_equal(backward->stage, 2);
    assert_int_equal(backward->directions, HM_BACKWARDS);
    assert_int_equal(backward->first, 5);
    assert_int_equal(backward->end, 15);
    assert_near(backward->size[1], 0.25, 0.02);
    hm_search_room_free(&room);
    hm_windows_free(&windows);
}

/* ---- injections that make them ---- */

static void keys_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *inject, *says;
    } cases[] = {{"slow-worker:for=2", "needs every=N"},
                 {"slow-worker:every=2,for=3", "more than every=2"},
                 {"slow-worker:op=sideways", "forward, backward or optimizer"},
                 {"slow-worker:op=forward,backward=2", "exclude each other"},
                 {"wander:memory=1", "from 0 to 0.99"},
                 {"machines:tail=3", "no key 'tail'"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hm_synth_options o;
        struct hm_error err = {0};
        hm_synth_defaults(&o);
        o.inject = &cases[i].inject, o.n_inject = 1;
        assert_null(hm_synth_trace(&o, &err));
        assert_int_equal(err.code, HM_ERR_ARGUMENT);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s: %s", cases[i].inject, err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_kind),
                                       cmocka_unit_test(drift),
                                       cmocka_unit_test(beside_sequences),
                                       cmocka_unit_test(warm_up),
                                       cmocka_unit_test(cases_from_outside),
                                       cmocka_unit_test(usual_levels),
                                       cmocka_unit_test(segments),
                                       cmocka_unit_test(errors_of_means),
                                       cmocka_unit_test(windows_in_a_replica),
                                       cmocka_unit_test(keys_that_cannot_be_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
