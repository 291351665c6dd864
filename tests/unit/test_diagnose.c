/* test_diagnose.c - causes and fixes: the published traces, and synthetic jobs whose cause is known. */
#include "hindmost/hindmost.h"
#include "hindmost/synth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct diagnosed {
    struct hm_trace *t;
    struct hm_analysis *a;
    struct hm_diagnosis *d;
};

static struct diagnosed diagnose(const char *path) {
    struct diagnosed x = {0};
    struct hm_error err = {0};
    x.t = hm_trace_open(path, NULL, &err);
    x.a = x.t ? hm_analyze(x.t, NULL, &err) : NULL;
    x.d = x.a ? hm_diagnose(x.t, x.a, 0, &err) : NULL;
    if (!x.d) print_error("%s\n", err.message);
    assert_non_null(x.d);
    return x;
}

static void done(struct diagnosed *x) {
    hm_diagnosis_free(x->d);
    hm_analysis_free(x->a);
    hm_trace_free(x->t);
}

static struct diagnosed diagnose_job(uint32_t dp, uint32_t pp, uint32_t vpp, const char *const *inject, size_t n) {
    char path[] = "/tmp/hm-diagnose-XXXXXX.parquet", yaml[64];
    close(mkstemps(path, 8));
    struct hm_synth_options o;
    hm_synth_defaults(&o);
    o.dp = dp, o.pp = pp, o.vpp = vpp, o.microbatches = 16, o.steps = 16, o.noise = 0.02, o.inject = inject,
    o.n_inject = n;
    struct hm_error err = {0};
    if (hm_synth(path, &o, &err) != 0) print_error("%s\n", err.message);
    struct diagnosed x = diagnose(path);
    (void)snprintf(yaml, sizeof yaml, "%.*s.yaml", (int)strlen(path) - 8, path);
    unlink(path);
    unlink(yaml);
    return x;
}

static const struct hm_cause *find(const struct hm_diagnosis *d, const char *name) {
    for (size_t i = 0; i < d->n_causes; i++)
        if (strcmp(d->causes[i].cause, name) == 0) return &d->causes[i];
    return NULL;
}

static const struct hm_fix *find_fix(const struct hm_diagnosis *d, const char *name) {
    for (size_t i = 0; i < d->n_fixes; i++)
        if (strcmp(d->fixes[i].fix, name) == 0) return &d->fixes[i];
    return NULL;
}

static void is_in_order(const struct hm_diagnosis *d) {
    for (size_t i = 1; i < d->n_causes; i++) assert_true(d->causes[i].recovers <= d->causes[i - 1].recovers);
    for (size_t i = 1; i < d->n_fixes; i++) assert_true(d->fixes[i].speedup <= d->fixes[i - 1].speedup);
    for (size_t i = 0; i < d->n_causes; i++) {
        assert_true(d->causes[i].confidence > 0 && d->causes[i].confidence <= 1);
        assert_true(d->causes[i].n_evidence > 0);
    }
    assert_true(d->summary && d->summary[0]);
}

static void the_published_traces(void **state) {
    (void)state;
    if (access(HM_SHARED_DATA "/what-if/trace-AR.parquet", R_OK) != 0) {
        print_message("skipped: the published traces are absent\n");
        skip();
    }
    struct diagnosed x = diagnose(HM_SHARED_DATA "/what-if/trace-AR.parquet");
    is_in_order(x.d);
    assert_string_equal(x.d->causes[0].cause, "slow-worker");
    assert_int_equal(x.d->causes[0].n_workers, 1);
    assert_true(x.d->causes[0].workers[0].stage == 0 && x.d->causes[0].workers[0].dp_rank == 0);
    assert_true(fabs(x.d->causes[0].recovers - 1.0) < 0.05); /* by replay: all of it */
    assert_true(find_fix(x.d, "replace-workers")->speedup > 1.9);
    done(&x);
    x = diagnose(HM_SHARED_DATA "/what-if/trace-SE.parquet");
    is_in_order(x.d);
    assert_string_equal(x.d->causes[0].cause, "sequence-length");
    assert_true(fabs(x.d->causes[0].recovers - 0.73) < 0.01); /* compute durations replaced by their stage's mean */
    assert_string_equal(x.d->causes[1].cause, "stage-imbalance");
    assert_true(x.d->causes[1].stages[0] == 1 && fabs(x.d->causes[1].recovers - 0.06) < 0.01);
    assert_true(fabs(find_fix(x.d, "balance-sequences")->speedup - 1.239) < 0.02); /* the paper's gain on such a job */
    done(&x);
}

static void each_cause_where_it_was_put(void **state) {
    (void)state;
    static const struct {
        const char *inject, *cause, *fix;
    } cases[] = {
        {"slow-worker:stage=2,dp=5,factor=1.4", "slow-worker", "replace-workers"},
        {"last-stage:factor=1.4", "stage-imbalance", "move-layers"},
        {"sequences:tail=1.3", "sequence-length", "balance-sequences"},
        {"gc:every=10,ms=300", "garbage-collection", "planned-gc"},
        {"link:stage=1,dp=3,factor=80", "slow-link", "fix-link"},
        {"data-loading:dp=2,ms=400,share=0.6", "data-loading", NULL},
        {"replica:dp=6,factor=1.3", "replica-imbalance", "resplit-microbatches"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct diagnosed x = diagnose_job(8, 4, 1, &cases[k].inject, 1);
        is_in_order(x.d);
        size_t first = strcmp(x.d->causes[0].cause, "unexplained") == 0;
        if (x.d->n_causes <= first || strcmp(x.d->causes[first].cause, cases[k].cause) != 0)
            fail_msg("%s: named %s first", cases[k].inject,
                     x.d->n_causes > first ? x.d->causes[first].cause : "nothing");
        if (cases[k].fix && !find_fix(x.d, cases[k].fix)) fail_msg("%s: no fix %s", cases[k].inject, cases[k].fix);
        done(&x);
    }
    struct diagnosed x = diagnose_job(8, 4, 1, &cases[0].inject, 1);
    assert_true(x.d->causes[0].n_workers == 1 && x.d->causes[0].workers[0].stage == 2 &&
                x.d->causes[0].workers[0].dp_rank == 5);
    assert_true(x.d->straggling);
    assert_int_equal(x.d->n_edges, 3);
    for (size_t i = 0; i < 3; i++) assert_true(x.d->edge_slack_s[i] > 0);
    done(&x);
    x = diagnose_job(8, 4, 1, &cases[6].inject, 1);
    assert_true(find(x.d, "replica-imbalance")->n_dp_ranks == 1 && find(x.d, "replica-imbalance")->dp_ranks[0] == 6);
    done(&x);
}

static void several_causes_are_told_apart(void **state) {
    (void)state;
    const char *inject[] = {"slow-worker:stage=1,dp=3,factor=1.3", "last-stage:factor=1.4",
                            "sequences:tail=1.5,quadratic=0.3"};
    struct diagnosed x = diagnose_job(8, 4, 1, inject, 3);
    assert_non_null(find(x.d, "slow-worker"));
    assert_non_null(find(x.d, "stage-imbalance"));
    assert_non_null(find(x.d, "sequence-length"));
    done(&x);
    /* a slow worker on a light stage behind a heavy one: neither wins much alone */
    const char *hidden[] = {"slow-worker:stage=2,dp=5,factor=1.6", "last-stage:factor=1.6"};
    x = diagnose_job(8, 4, 1, hidden, 2);
    assert_non_null(find(x.d, "slow-worker"));
    assert_non_null(find(x.d, "stage-imbalance"));
    const struct hm_cause *rest = find(x.d, "unexplained");
    assert_true(!rest || rest->recovers < 0.2);
    done(&x);
}

static void healthy_jobs_have_no_cause(void **state) {
    (void)state;
    static const uint32_t layouts[][3] = {{8, 4, 1}, {4, 1, 1}, {2, 8, 1}, {4, 4, 2}, {16, 2, 1}};
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        struct diagnosed x = diagnose_job(layouts[k][0], layouts[k][1], layouts[k][2], NULL, 0);
        for (size_t i = 0; i < x.d->n_causes; i++) assert_string_equal(x.d->causes[i].cause, "unexplained");
        assert_false(x.d->straggling);
        assert_int_equal(x.d->n_fixes, 0);
        done(&x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_traces),
        cmocka_unit_test(each_cause_where_it_was_put),
        cmocka_unit_test(several_causes_are_told_apart),
        cmocka_unit_test(healthy_jobs_have_no_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
