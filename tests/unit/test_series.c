/* test_series.c - step times of logs: change-points against truth, logs in their dialects, ranks against closed forms. */
#include "base/base.h"
#include "hindmost/hindmost.h"
#include "hindmost/series.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define assert_near(a, b, most) assert_true(fabs((double)(a) - (double)(b)) <= (most))

static char path[64];
static FILE *file;

static void begin(void) {
    strcpy(path, "/tmp/hindmost-series-XXXXXX");
    file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
}

static struct hm_series *read_log(const char *pattern) {
    assert_int_equal(fclose(file), 0);
    const char *paths[] = {path};
    struct hm_series_options options = {.pattern = pattern};
    struct hm_error err = {0};
    struct hm_series *s = hm_series_read(paths, 1, &options, &err);
    unlink(path);
    if (!s) fail_msg("%s", err.message);
    return s;
}

static void iteration(int step, double ms) {
    fprintf(file,
            "7: [2026-08-22 10:00:00.123456] iteration %8d/     500 | consumed samples: %d | elapsed time per "
            "iteration (ms): %.1f | lm "
            "loss: 1.0E+01 |\n",
            step, 128 * step, ms);
}

/* ---- change-points ---- */

/* Steps of 1 s with a scatter of 1 %: an episode of 1.3 in 400 .. 439, a slow step of 3 in 700, warm-up of 4 steps. */
static void one_episode(void **state) {
    (void)state;
    enum { N = 1000 };
    double x[N];
    int64_t step[N];
    struct hm_rng rng;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        hm_rng_seed(&rng, seed);
        for (int i = 0; i < N; i++) {
            x[i] = (1 + 0.01 * hm_rng_normal(&rng)) * (i >= 400 && i < 440 ? 1.3 : 1) * (i < 4 ? 10 : 1) *
                   (i == 700 ? 3 : 1);
            step[i] = 2 * i;
        }
        struct hm_step_paces p;
        assert_int_equal(hm_step_paces_find(x, NULL, step, N, &p, NULL), 0);
        assert_near(p.usual_s, 1, 0.003);
        assert_int_equal(p.warm_up, 4);
        assert_near(p.warm_up_lost_s, 36, 1.5);
        assert_int_equal(p.n_episodes, 1);
        assert_in_range(p.episode[0].from_step, 796, 804);
        assert_in_range(p.episode[0].to_step, 874, 882);
        assert_near(p.episode[0].slowdown, 1.3, 0.02);
        assert_near(p.episode[0].lost_s, 12, 0.7);
        assert_false(p.episode[0].open);
        assert_int_equal(p.slow_steps, 1);
        assert_near(p.slow_steps_lost_s, 2, 0.1);
        hm_step_paces_free(&p);
    }
}

/* A level that changes for good, seen from its first five steps on; and nothing where there is nothing, whatever the scatter. */
static void onset_and_none(void **state) {
    (void)state;
    enum { N = 200 };
    double x[N];
    struct hm_rng rng;
    size_t false_alarms = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        hm_rng_seed(&rng, seed);
        double scatter = seed % 3 == 0 ? 0.2 : seed % 3 == 1 ? 0.05 : 0.005;
        for (int i = 0; i < N; i++)
            x[i] = 2 * exp(scatter * hm_rng_normal(&rng)) * (hm_rng_below(&rng, 40) == 0 ? 3 : 1);
        struct hm_step_paces p;
        assert_int_equal(hm_step_paces_find(x, NULL, NULL, N, &p, NULL), 0);
        false_alarms += p.n_episodes;
        hm_step_paces_free(&p);
        if (scatter > 0.1) continue;
        for (int i = 170; i < N; i++) x[i] *= 1.25;
        assert_int_equal(hm_step_paces_find(x, NULL, NULL, N, &p, NULL), 0);
        assert_true(p.n_episodes >= 1);
        struct hm_step_episode last = p.episode[p.n_episodes - 1];
        assert_true(last.open);
        assert_in_range(last.first, 167, 173);
        hm_step_paces_free(&p);
    }
    assert_int_equal(false_alarms, 0);
}

static void few_steps(void **state) {
    (void)state;
    const double x[] = {3.4, 3.4, 6.8, 3.4, 3.5};
    for (size_t n = 0; n <= 5; n++) {
        struct hm_step_paces p;
        assert_int_equal(hm_step_paces_find(x, NULL, NULL, n, &p, NULL), 0);
        assert_int_equal(p.n_episodes, 0);
        assert_int_equal(p.slow_steps, n >= 3 ? 1 : 0);
        hm_step_paces_free(&p);
    }
}

/* ---- logs ---- */

/* Prints of two ranks, a restart, an interval of 10. */
static void megatron_iterations(void **state) {
    (void)state;
    begin();
    fputs("  log_interval .................................... 10\n", file);
    for (int k = 1; k <= 20; k++)
        for (int copy = 0; copy < 2; copy++) iteration(10 * k, k == 1 ? 5000 : 800 + k);
    for (int k = 16; k <= 30; k++) iteration(10 * k, k == 16 ? 4000 : 900 + k);
    struct hm_series *s = read_log(NULL);
    assert_int_equal(s->n, 35);
    assert_int_equal(s->repeated, 20);
    assert_int_equal(s->attempts, 2);
    assert_int_equal(s->attempt[20], 2);
    assert_int_equal(s->step[34], 300);
    assert_near(s->seconds[1], 0.802, 1e-9);
    for (size_t i = 0; i < s->n; i++) assert_near(s->weight[i], 10, 0);
    assert_int_equal(s->n_ranks, 0);
    assert_true(isnan(s->slowdown));
    assert_non_null(strstr(s->cannot_tell[0], "who is slow"));
    hm_series_free(s);
}

enum { RANKS = 8, STEPS = 40 };

/* 8 ranks in 2 stages; forward + backward take 300 ms (stage 0) and 400 ms (stage 1); rank 2 takes `factor` times that. */
static void write_timers(double factor, int from, const char *prefix) {
    fprintf(file,
            "%s  pipeline_model_parallel_size .................... 2\n%s  world_size "
            "...................................... 8\n",
            prefix, prefix);
    for (int i = 1; i <= STEPS; i++) {
        fprintf(file, "%s", prefix);
        iteration(i, 900);
        fprintf(file, "%stimes across ranks (ms):\n", prefix);
        for (int t = 0; t < 2; t++) {
            fprintf(file, "%s  %s ................................:\n", prefix,
                    t ? "backward-compute" : "forward-compute");
            for (int r = 0; r < RANKS; r++)
                fprintf(file, "%s     rank %2d: %.2f\n", prefix, r,
                        (t ? 2 : 1) * (r < 4 ? 100 : 400 / 3.0) * (r == 2 && i >= from ? factor : 1));
        }
    }
}

static void slow_rank(void **state) {
    (void)state;
    begin();
    write_timers(1.5, 0, "[default7]:");
    struct hm_series *s = read_log(NULL);
    assert_int_equal(s->n_ranks, RANKS);
    assert_int_equal(s->rank[3].stage, 0);
    assert_int_equal(s->rank[4].stage, 1);
    /* ideal of stage 0: (3 x 300 + 450) / 4 = 337.5, of stage 1: 400; the step takes 450 */
    assert_near(s->slowdown, 450 / 400.0, 1e-4);
    assert_near(s->rank[2].slowdown, 450 / 400.0, 1e-4);
    assert_near(s->rank[0].slowdown, 1, 1e-4);
    assert_near(s->rank[2].pace, 1.5, 1e-4);
    for (int r = 0; r < RANKS; r++) assert_int_equal(s->rank[r].slow, r == 2);
    assert_string_equal(s->timers, "forward-compute + backward-compute");
    hm_series_free(s);
}

/* Slow from step 21 on only. */
static void slow_from_an_onset(void **state) {
    (void)state;
    begin();
    write_timers(1.5, 21, "");
    struct hm_series *s = read_log(NULL);
    for (int r = 0; r < RANKS; r++) assert_int_equal(s->rank[r].slow, r == 2);
    assert_in_range(s->rank[2].from_step, 19, 23);
    assert_int_equal(s->rank[2].to_step, STEPS);
    hm_series_free(s);
}

/* Times that include waiting are all equal: nobody can be told apart. */
static void waiting_inside(void **state) {
    (void)state;
    begin();
    for (int i = 1; i <= 20; i++)
        for (int r = 0; r < 4; r++) fprintf(file, "rank %d step %d took %.3f s\n", r, i, i > 10 ? 0.4 : 0.3);
    struct hm_series *s = read_log("rank {rank} step {step} took {seconds} s");
    assert_true(s->waiting_inside);
    assert_int_equal(s->n, 20);
    for (int r = 0; r < 4; r++) assert_false(s->rank[r].slow);
    assert_int_equal(s->paces.n_episodes, 1);
    assert_non_null(strstr(s->cannot_tell[0], "include waiting"));
    hm_series_free(s);
}

static void minima_and_reports(void **state) {
    (void)state;
    begin();
    for (int i = 1; i <= 12; i++) {
        iteration(i, i == 7 ? 1700 : 800);
        double f = i == 7 ? 2 : 1;
        fprintf(file, "(min, max) time across ranks (ms):\n    forward-backward ......: (%.2f, %.2f)\n", 690.0 * f,
                700.0 * f);
        fputs("[2026-08-22 10:00:01] | MnRtt/Rnk: 3453.08ms/8 | MxRtt/Rnk: 3468.20ms/0 | MnEtpt/Rnk: 250.00TF/5 | "
              "MxEtpt/Rnk: 300.00TF/8\n",
              file);
        fputs("^^^^ Bottom 3 Ranks with lowest  Etpt(TF): 250.00/5, 296.17/2, 297.00/1\n", file);
    }
    struct hm_series *s = read_log(NULL);
    assert_int_equal(s->n_spreads, 1);
    assert_near(s->spread[0].low_s, 0.69, 1e-9);
    assert_near(s->spread[0].high_s, 0.70, 1e-9);
    assert_int_equal(s->n_slow_steps, 1);
    assert_int_equal(s->slow_step[0].step, 7);
    assert_int_equal(s->slow_step[0].on_all_ranks, 1);
    assert_int_equal(s->reports, 12);
    assert_int_equal(s->n_reports, 3);
    assert_int_equal(s->report[0].rank, 5);
    assert_int_equal(s->report[0].lowest, 12);
    assert_near(s->report[0].ratio, 250 / 300.0, 1e-9);
    hm_series_free(s);
}

static void patterns(void **state) {
    (void)state;
    static const struct {
        const char *line, *pattern;
        double seconds;
    } cases[] = {{"INFO step 12/100 loss 2.1 (0.25 s/it)", "step {step}/.*\\({seconds} s/it\\)", 0.25},
                 {"step=12 time=250.0ms", "step={step} time={ms}ms", 0.25},
                 {"(a|b) 12 : 1e3us", "[(]a[|]b[)] {step} : {us}us", 1e-3},
                 {"it 12 took 2s", "(it|step) {step} (took|needed) {seconds}s", 2}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        begin();
        fprintf(file, "noise\n%s\n", cases[k].line);
        struct hm_series *s = read_log(cases[k].pattern);
        assert_int_equal(s->n, 1);
        assert_int_equal(s->step[0], 12);
        assert_near(s->seconds[0], cases[k].seconds, 1e-12);
        hm_series_free(s);
    }
    static const char *const bad[] = {"step {step}", "{seconds}", "{step} {seconds} (", "no place"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        begin();
        fclose(file);
        const char *paths[] = {path};
        struct hm_error err = {0};
        assert_null(hm_series_read(paths, 1, &(struct hm_series_options){.pattern = bad[k]}, &err));
        assert_int_equal(err.code, HM_ERR_ARGUMENT);
        unlink(path);
    }
}

/* The log from outside: iteration 136006 takes twice as long, on all ranks. */
static void from_outside(void **state) {
    (void)state;
    const char *log = HM_SHARED_DATA "/recordings/megatron-deepspeed-timers/iterations.log";
    if (access(log, R_OK) != 0) skip();
    assert_true(hm_series_detect(log));
    struct hm_series *s = hm_series_read(&log, 1, NULL, NULL);
    assert_non_null(s);
    assert_int_equal(s->n, 5);
    assert_int_equal(s->slow_step[0].step, 136006);
    assert_near(s->slow_step[0].slowdown, 2, 0.02);
    assert_int_equal(s->slow_step[0].on_all_ranks, 1);
    assert_int_equal(s->last_of_run, 136100);
    hm_series_free(s);
}

/* Each allocation fails once. */
static void no_memory(void **state) {
    (void)state;
    begin();
    write_timers(1.5, 0, "");
    fclose(file);
    const char *paths[] = {path};
    bool failed = true;
    for (long k = 1; failed; k++) {
        struct hm_error err = {0};
        hm_fault_after = k;
        struct hm_series *s = hm_series_read(paths, 1, NULL, &err);
        char *text = s ? hm_series_text(s) : NULL;
        hm_fault_after = 0;
        failed = !text;
        if (!s) assert_int_not_equal(err.code, HM_OK);
        hm_text_free(text);
        hm_series_free(s);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_episode),    cmocka_unit_test(onset_and_none),
        cmocka_unit_test(few_steps),      cmocka_unit_test(megatron_iterations),
        cmocka_unit_test(slow_rank),      cmocka_unit_test(slow_from_an_onset),
        cmocka_unit_test(waiting_inside), cmocka_unit_test(minima_and_reports),
        cmocka_unit_test(patterns),       cmocka_unit_test(from_outside),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
