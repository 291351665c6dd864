/* test_lost_time.c - what replays leave out and a step loses all the same: launches that come late. Jobs made to order, without noise, so
 * that every figure has a closed form. */
#include "hindmost/hindmost.h"
#include "hindmost/synth.h"
#include "whatif/whatif.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct looked_at {
    struct hm_trace *t;
    struct hm_analysis *a;
    struct hm_diagnosis *d;
};

static void look(struct looked_at *l, uint32_t dp, uint32_t pp, double noise, const char *inject) {
    struct hm_synth_options o;
    struct hm_error err = {0};
    hm_synth_defaults(&o);
    o.dp = dp, o.pp = pp, o.steps = 10, o.microbatches = 4, o.noise = noise, o.seed = 3;
    o.inject = &inject, o.n_inject = inject ? 1 : 0;
    l->t = hm_synth_trace(&o, &err);
    assert_non_null(l->t);
    l->a = hm_analyze(l->t, &(struct hm_analysis_options){.threads = 2}, &err);
    assert_non_null(l->a);
    l->d = hm_diagnose(l->t, l->a, 2, &err);
    assert_non_null(l->d);
}

static void look_away(struct looked_at *l) {
    hm_diagnosis_free(l->d);
    hm_analysis_free(l->a);
    hm_trace_free(l->t);
}

static void assert_close(double got, double wanted, double apart) {
    if (!(fabs(got - wanted) <= apart)) fail_msg("%.9g is not within %g of %.9g", got, apart, wanted);
}

/* One replica that waits for its batch holds up all: the wait is lost whole, and nothing else is. */
static void one_replica_waits(void **state) {
    (void)state;
    struct looked_at l;
    look(&l, 4, 1, 0, "data-loading:dp=2,ms=400,share=1");
    assert_close(l.a->lost.launch_waits_s, 0.4, 1e-9);
    assert_close(l.a->lost.stragglers_s, 0, 1e-9);
    assert_close(l.a->lost.left_out_waits_s, 0, 0);
    assert_close(l.a->slowdown, 1, 1e-9);
    assert_close(l.a->slowdown_real, (l.a->ideal_s + 0.4) / l.a->ideal_s, 1e-9);
    assert_close(l.a->actual_s, l.a->ideal_s + 0.4, 1e-9);
    for (size_t dp = 0; dp < 4; dp++) assert_close(l.a->late_s[dp], dp == 2 ? 0.4 : 0, 1e-9);
    assert_true(l.d->straggling);
    assert_string_equal(l.d->causes[0].cause, "data-loading");
    assert_close(l.d->causes[0].recovers, 1, 1e-9);
    assert_string_equal(l.d->fixes[0].fix, "load-data-earlier");
    assert_close(l.d->fixes[0].speedup, l.a->slowdown_real, 1e-9);
    look_away(&l);
}

/* Half of the replicas, and more than half of them, late in some steps. */
static void several_replicas_wait(void **state) {
    (void)state;
    static const char *const inject[] = {"data-loading:dp=1,ms=300,share=1", "data-loading:dp=2,ms=300,share=1",
                                         "data-loading:dp=3,ms=300,share=1", "data-loading:dp=4,ms=300,share=1"};
    struct hm_synth_options o;
    struct hm_error err = {0};
    hm_synth_defaults(&o);
    o.dp = 6, o.pp = 1, o.steps = 6, o.microbatches = 4, o.noise = 0, o.inject = inject, o.n_inject = 4;
    struct hm_trace *t = hm_synth_trace(&o, &err);
    assert_non_null(t);
    struct hm_analysis *a = hm_analyze(t, NULL, &err);
    assert_non_null(a);
    assert_close(a->lost.launch_waits_s, 0.3, 1e-9);
    hm_analysis_free(a);
    hm_trace_free(t);
}

/* In a pipeline the wait of one stage's first forward may be hidden in part; never more than the recorded step shows is counted. */
static void bounded_by_the_recording(void **state) {
    (void)state;
    static const char *const inject[] = {"data-loading:dp=1,ms=400,share=0.5", "data-loading:dp=0,ms=30,share=1",
                                         "slow-worker:stage=1,dp=0,factor=2"};
    for (size_t i = 0; i < sizeof inject / sizeof inject[0]; i++) {
        struct looked_at l;
        look(&l, 2, 3, 0.02, inject[i]);
        assert_true(l.a->lost.launch_waits_s >= 0);
        assert_true(l.a->lost.launch_waits_s <= l.a->actual_s - l.a->replayed_s + 1e-9);
        assert_close(l.a->slowdown_real,
                     l.a->slowdown + (l.a->lost.launch_waits_s + l.a->lost.left_out_waits_s) / l.a->ideal_s, 1e-12);
        look_away(&l);
    }
}

/* What all have alike is no straggling; a healthy job has no shares of nothing. */
static void nothing_lost(void **state) {
    (void)state;
    struct looked_at l;
    look(&l, 4, 2, 0, NULL);
    assert_close(l.a->lost.launch_waits_s, 0, 1e-12);
    assert_true(isnan(l.a->worker_share.value) && isnan(l.a->worker_share.add));
    assert_true(isnan(l.a->last_stage_share.value));
    assert_int_equal(l.d->n_causes, 0);
    char *text = hm_analysis_text(l.a, l.d, NULL);
    assert_non_null(text);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "explain"));
    hm_text_free(text);
    look_away(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_replica_waits), cmocka_unit_test(several_replicas_wait),
                                       cmocka_unit_test(bounded_by_the_recording), cmocka_unit_test(nothing_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
