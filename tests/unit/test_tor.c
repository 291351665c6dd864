/* test_tor.c - the Training Overhead Ratio: closed forms against hand computation, the world's figures and Monte Carlo; ledgers of logs. */
#include "hindmost/tor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void near(double got, double expected, double relative) {
    if (!(fabs(got - expected) <= relative * fabs(expected))) {
        print_error("got %.10g, expected %.10g\n", got, expected);
        fail();
    }
}

static void units_are_explicit(void **state) {
    (void)state;
    double x;
    assert_int_equal(hm_tor_parse_time("1.5h", "t", &x, NULL), 0);
    near(x, 5400, 1e-12);
    assert_int_equal(hm_tor_parse_rate("6.5e-3/day", "r", &x, NULL), 0);
    near(x, 6.5e-3 / 86400, 1e-12);
    static const char *const bad[] = {"5", "5parsec", "-1s", "nans", "infh", "", "s"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++)
        assert_int_equal(hm_tor_parse_time(bad[k], "t", &x, NULL), -1);
    assert_int_equal(hm_tor_parse_rate("1", "r", &x, NULL), -1);
    assert_int_equal(hm_tor_parse_rate("1/parsec", "r", &x, NULL), -1);
}

static struct hm_tor_run meta(double nodes, double per_thousand_days) {
    return (struct hm_tor_run){.nodes = nodes,
                               .failure_rate = per_thousand_days / 1000 / 86400,
                               .work_s = 30 * 86400.0,
                               .save_s = 60,
                               .detect_s = 60,
                               .restart_s = 300};
}

static void failure_rates_give_metas_mttf(void **state) {
    (void)state;
    struct hm_tor_run run = meta(2048, 6.5);
    struct hm_tor_result r;
    assert_int_equal(hm_tor_plan(&run, &r, NULL), 0);
    near(r.mttf_s / 3600, 1.80, 0.003); /* Meta, "Revisiting Reliability" */
}

static void one_segment_is_as_computed_by_hand(void **state) {
    (void)state;
    /* work 1000 s in one piece, failures every 2000 s on average, 100 s down: (e^0.5 - 1)(2000 + 100) */
    struct hm_tor_run run = {
        .nodes = 1, .failure_rate = 1 / 2000.0, .work_s = 1000, .restart_s = 100, .interval_s = 1000};
    struct hm_tor_result r;
    assert_int_equal(hm_tor_plan(&run, &r, NULL), 0);
    near(r.t_obs_s, (exp(0.5) - 1) * 2100, 1e-12);
    near(r.tor, 1000 / ((exp(0.5) - 1) * 2100), 1e-12);
    /* no failures: work, and a save after each interval but the last */
    run = (struct hm_tor_run){.nodes = 4, .work_s = 1000, .interval_s = 100, .save_s = 10};
    assert_int_equal(hm_tor_plan(&run, &r, NULL), 0);
    near(r.t_obs_s, 1090, 1e-12);
    /* stragglers stretch the work */
    run.slowdown = 1.5;
    assert_int_equal(hm_tor_plan(&run, &r, NULL), 0);
    near(r.t_obs_s, 1500 + 14 * 10, 1e-12);
}

static void best_intervals_match_young_and_daly_and_beat_them(void **state) {
    (void)state;
    for (double save = 1; save < 40000; save *= 3) {
        struct hm_tor_run run = meta(1024, 6.5);
        run.save_s = save;
        struct hm_tor_result best, r;
        assert_int_equal(hm_tor_plan(&run, &best, NULL), 0);
        if (save < 0.001 * best.mttf_s) near(best.best_interval_s, best.young_s, 0.05);
        if (save < 0.01 * best.mttf_s) near(best.best_interval_s, best.daly_s, 0.02);
        run.work_s = 1e9; /* long enough for the last piece not to matter */
        assert_int_equal(hm_tor_plan(&run, &best, NULL), 0);
        for (int k = 0; k < 2; k++) {
            run.interval_s = k ? best.daly_s : best.young_s;
            if (run.interval_s > 0 && hm_tor_plan(&run, &r, NULL) == 0) assert_true(best.tor >= r.tor * (1 - 1e-6));
        }
    }
}

static void closed_forms_agree_with_simulation(void **state) {
    (void)state;
    struct hm_tor_run runs[] = {meta(2048, 6.5), meta(512, 2.34), meta(1024, 6.5), meta(1024, 6.5), meta(256, 20)};
    runs[2].async_save = true;
    runs[2].save_s = 300;
    runs[2].interval_s = 900;
    runs[3].slowdown = 1.3;
    runs[3].interval_s = 3600;
    runs[4].repair_s = 6 * 3600, runs[4].spares = 1; /* waits now and then */
    for (size_t k = 0; k < sizeof runs / sizeof runs[0]; k++) {
        struct hm_tor_result plan;
        struct hm_tor_simulation s;
        assert_int_equal(hm_tor_plan(&runs[k], &plan, NULL), 0);
        assert_int_equal(hm_tor_simulate(&runs[k], 4000, 7, 0, &s, NULL), 0);
        near(s.result.tor, plan.tor, 0.005);
        near(s.result.failures, plan.failures, 0.02);
        if (!runs[k].async_save) near(s.result.t_obs_low_s, plan.t_obs_low_s, 0.02);
        double sum = 0;
        for (int c = 0; c < HM_TOR_CLASSES; c++) sum += s.ledger_s[c];
        near(sum, s.result.t_obs_s, 1e-9);
    }
}

static void fail_slow_agrees_with_simulation(void **state) {
    (void)state;
    struct hm_tor_run run = meta(512, 2);
    run.slow_rate = 2e-3 / 86400, run.slow_factor = 1.5, run.slow_detect_s = 3600;
    struct hm_tor_result plan;
    struct hm_tor_simulation s;
    assert_int_equal(hm_tor_plan(&run, &plan, NULL), 0);
    assert_int_equal(hm_tor_simulate(&run, 600, 3, 0, &s, NULL), 0);
    near(s.result.tor, plan.tor, 0.01);
}

static void threads_do_not_change_the_result(void **state) {
    (void)state;
    struct hm_tor_run run = meta(2048, 6.5);
    struct hm_tor_simulation a, b;
    assert_int_equal(hm_tor_simulate(&run, 50, 5, 1, &a, NULL), 0);
    assert_int_equal(hm_tor_simulate(&run, 50, 5, 3, &b, NULL), 0);
    assert_true(a.result.t_obs_s == b.result.t_obs_s && a.cycles == b.cycles);
    assert_int_equal(hm_tor_simulate(&run, 50, 6, 3, &b, NULL), 0);
    assert_true(a.result.t_obs_s != b.result.t_obs_s);
}

/* 54 days, 16,384 GPUs (2,048 nodes), 419 unexpected interruptions, > 90 % effective time: plausible recoveries give that. */
static void llama3_had_over_90_percent(void **state) {
    (void)state;
    struct hm_tor_run run = {.nodes = 2048,
                             .failure_rate = 419 / (2048 * 54 * 86400.0),
                             .work_s = 50 * 86400.0,
                             .save_s = 10,
                             .detect_s = 60,
                             .restart_s = 300};
    struct hm_tor_result r;
    assert_int_equal(hm_tor_plan(&run, &r, NULL), 0);
    near(r.mttf_s / 3600, 3.09, 0.01);
    assert_true(r.tor > 0.90 && r.tor < 0.99);
    run.restart_s = 1800; /* half an hour to come back: no longer */
    assert_int_equal(hm_tor_plan(&run, &r, NULL), 0);
    assert_true(r.tor < 0.90);
}

static void the_fault_file_gives_its_published_rates(void **state) {
    (void)state;
    const char *path = HM_SHARED_DATA "/faults/infinitehbd-fault-trace.json";
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is absent\n", path);
        skip();
    }
    struct hm_faults *f = hm_faults_read(path, 400, NULL);
    assert_non_null(f);
    assert_int_equal(f->faults, 584);
    near(f->rate_per_node_s * 86400 * 1000, 4.18, 0.002);
    near(f->median_repair_s / 86400, 0.85, 0.005);
    struct hm_tor_run run = {.nodes = 400,
                             .failure_rate = f->rate_per_node_s,
                             .work_s = 100 * 86400.0,
                             .save_s = 60,
                             .restart_s = 300,
                             .detect_s = 60,
                             .repair_s = f->mean_repair_s,
                             .spares = 40,
                             .distribution = HM_TOR_EMPIRICAL,
                             .faults = f};
    struct hm_tor_result plan;
    struct hm_tor_simulation s;
    assert_int_equal(hm_tor_plan(&run, &plan, NULL), 0);
    assert_int_equal(hm_tor_simulate(&run, 200, 1, 0, &s, NULL), 0);
    near(s.result.tor, plan.tor, 0.03); /* its gaps and repairs are not exponential */
    hm_faults_free(f);
}

static void impossible_plans_are_refused(void **state) {
    (void)state;
    struct hm_tor_result r;
    struct hm_error err;
    struct hm_tor_run run = meta(2048, 6.5);
    run.slowdown = 0.5;
    assert_int_equal(hm_tor_plan(&run, &r, &err), -1);
    run = meta(2048, 6.5);
    run.work_s = 0;
    assert_int_equal(hm_tor_plan(&run, &r, &err), -1);
    run = meta(1e6, 1e4);
    run.save_s = 36000; /* never gets through a save */
    run.interval_s = 36000;
    assert_int_equal(hm_tor_plan(&run, &r, &err), -1);
    assert_non_null(strstr(err.message, "never ends"));
    run = meta(10, NAN);
    assert_int_equal(hm_tor_plan(&run, &r, &err), -1);
}

/* ---- logs ---- */

static struct hm_tor_measurement *measure_text(const char *text, const struct hm_tor_measure_options *o,
                                               struct hm_error *err) {
    char path[] = "/tmp/hm-tor-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    const char *paths[] = {path};
    struct hm_tor_measurement *m = hm_tor_measure(paths, 1, o, err);
    unlink(path);
    return m;
}

static double sum_of(const struct hm_tor_measurement *m) {
    double sum = 0;
    for (int c = 0; c < HM_TOR_CLASSES; c++) sum += m->ledger_s[c];
    return sum;
}

/* Ten steps of 10 s; a save after step 5 (5 s); a failure in step 9; detected after 20 s; 15 s wait; restart 30 s; steps 6-10 again; end. */
static void a_ledger_by_hand(void **state) {
    (void)state;
    char log[8000] = "{\"time\": 0, \"event\": \"start\"}\n";
    double t = 20; /* start-up */
    for (int i = 1; i <= 8; i++) {
        t += 10;
        (void)sprintf(log + strlen(log), "{\"time\": %g, \"event\": \"step\", \"step\": %d, \"duration_s\": 10}\n", t,
                      i);
        if (i == 5)
            (void)sprintf(log + strlen(log), "{\"time\": %g, \"event\": \"save\", \"step\": 5, \"duration_s\": 5}\n",
                          t += 5);
    }
    (void)sprintf(log + strlen(log), "{\"time\": %g, \"event\": \"failure\"}\n", t += 4);
    (void)sprintf(log + strlen(log), "{\"time\": %g, \"event\": \"detected\"}\n", t += 20);
    (void)sprintf(log + strlen(log), "{\"time\": %g, \"event\": \"wait\", \"duration_s\": 15}\n", t += 15);
    (void)sprintf(log + strlen(log), "{\"time\": %g, \"event\": \"start\"}\n", t);
    t += 30;
    for (int i = 6; i <= 10; i++) {
        t += i == 7 ? 25 : 10;
        (void)sprintf(log + strlen(log), "{\"time\": %g, \"event\": \"step\", \"step\": %d, \"duration_s\": %d}\n", t,
                      i, i == 7 ? 25 : 10);
    }
    (void)sprintf(log + strlen(log), "{\"time\": %g, \"event\": \"end\"}\n", t);
    struct hm_tor_measurement *m = measure_text(log, NULL, NULL);
    assert_non_null(m);
    near(m->t_obs_s, t, 1e-12);
    near(sum_of(m), m->t_obs_s, 1e-12);
    near(m->ideal_step_s, 10, 1e-12);
    near(m->ledger_s[HM_TOR_PROGRESS], 100, 1e-12);
    near(m->ledger_s[HM_TOR_SLOW_STEPS], 15, 1e-12);
    near(m->ledger_s[HM_TOR_SAVING], 5, 1e-12);
    near(m->ledger_s[HM_TOR_ROLLED_BACK], 34, 1e-12); /* steps 6, 7, 8 and 4 s of the ninth */
    near(m->ledger_s[HM_TOR_DETECTION], 20, 1e-12);
    near(m->ledger_s[HM_TOR_WAITING], 15, 1e-12);
    near(m->ledger_s[HM_TOR_RESTART], 50, 1e-12);
    near(m->tor, 100 / t, 1e-12);
    assert_int_equal(m->steps_run, 13);
    assert_int_equal(m->steps_kept, 10);
    double mean = 0;
    for (size_t i = 0; i < m->n_series; i++) mean += m->series[i].r * (m->series[i].until_s - m->series[i].from_s);
    near(mean / m->t_obs_s, m->tor, 0.02); /* TOR is the time average of r */
    hm_tor_measurement_free(m);

    /* S splits stragglers off */
    struct hm_tor_measure_options o = {.slowdown = 1.25};
    m = measure_text(log, &o, NULL);
    near(m->ledger_s[HM_TOR_PROGRESS], 80, 1e-12);
    near(m->ledger_s[HM_TOR_STRAGGLERS], 20, 1e-12);
    near(sum_of(m), t, 1e-12);
    hm_tor_measurement_free(m);

    /* cut after the failure: what no checkpoint holds is lost */
    char *cut = strstr(log, "\"detected\"");
    while (*cut != '\n') cut--;
    cut[1] = 0;
    m = measure_text(log, NULL, NULL);
    assert_int_equal(m->steps_kept, 5);
    near(m->ledger_s[HM_TOR_ROLLED_BACK], 34, 1e-12);
    near(sum_of(m), m->t_obs_s, 1e-12);
    hm_tor_measurement_free(m);
}

static void disorder_and_overlap_are_never_counted_twice(void **state) {
    (void)state;
    static const char log[] = "{\"time\": 30, \"event\": \"step\", \"step\": 3, \"duration_s\": 10}\n"
                              "{\"time\": 20, \"event\": \"step\", \"step\": 2, \"duration_s\": 15}\n"
                              "garbage\n"
                              "{\"time\": 10, \"event\": \"step\", \"step\": 1, \"duration_s\": 10}\n"
                              "{\"time\": 30, \"event\": \"step\", \"step\": 3, \"duration_s\": 10}\n"
                              "{\"time\": 35, \"event\": \"save\", \"step\": 3, \"duration_s\": 8}\n";
    struct hm_tor_measurement *m = measure_text(log, NULL, NULL);
    assert_non_null(m);
    near(m->t_obs_s, 35, 1e-12);
    near(sum_of(m), 35, 1e-12);
    near(m->ledger_s[HM_TOR_SAVING], 8, 1e-12);
    assert_true(m->n_notes >= 2);
    hm_tor_measurement_free(m);
}

static void megatron_logs_are_read(void **state) {
    (void)state;
    static const char log[] =
        " [2026-08-22 10:00:10.000000] iteration        1/     100 | consumed samples: 128 | elapsed time per "
        "iteration (ms): 10000.0 | lm loss: 1.0E+01 |\n"
        "[default7]: [2026-08-22 10:00:30.000000] iteration        3/     100 | consumed samples: 384 | elapsed time "
        "per iteration (ms): 10000.0 |\n"
        "saving checkpoint at iteration       3 to /ckpt in torch_dist format\n"
        "    save-checkpoint ................................: (4000.00, 5000.00)\n"
        " [2026-08-22 10:00:45.000000] iteration        4/     100 | elapsed time per iteration (ms): 10000.0 |\n"
        "loading checkpoint from /ckpt at iteration 3\n"
        "    load-checkpoint ................................: (7000.00, 8000.00)\n"
        " [2026-08-22 10:01:45.000000] iteration        4/     100 | elapsed time per iteration (ms): 10000.0 |\n";
    struct hm_tor_measurement *m = measure_text(log, NULL, NULL);
    assert_non_null(m);
    near(m->t_obs_s, 105, 1e-9);
    near(sum_of(m), 105, 1e-9);
    near(m->ledger_s[HM_TOR_PROGRESS], 40, 1e-9);
    near(m->ledger_s[HM_TOR_SAVING], 5, 1e-9);
    near(m->ledger_s[HM_TOR_ROLLED_BACK], 10, 1e-9);
    near(m->ledger_s[HM_TOR_RESTART], 8, 1e-9);
    near(m->ledger_s[HM_TOR_UNKNOWN], 42, 1e-9); /* between the crash and the load: nobody wrote it down */
    assert_int_equal(m->failures, 1);
    hm_tor_measurement_free(m);
}

static void slurm_accounting_is_read(void **state) {
    (void)state;
    static const char log[] =
        "JobID|JobName|State|Submit|Start|End|ExitCode\n"
        "7|train|NODE_FAIL|2026-08-22T09:00:00|2026-08-22T09:10:00|2026-08-22T11:10:00|1:0\n"
        "7.batch|batch|CANCELLED|2026-08-22T09:10:00|2026-08-22T09:10:00|2026-08-22T11:10:00|1:0\n"
        "7|train|COMPLETED|2026-08-22T11:10:00|2026-08-22T11:40:00|2026-08-22T12:40:00|0:0\n";
    struct hm_tor_measurement *m = measure_text(log, NULL, NULL);
    assert_non_null(m);
    near(m->t_obs_s, 13200, 1e-9);
    near(sum_of(m), 13200, 1e-9);
    near(m->ledger_s[HM_TOR_WAITING], 2400, 1e-9);
    assert_true(isnan(m->tor)); /* no steps: not told */
    assert_int_equal(m->failures, 1);
    hm_tor_measurement_free(m);
}

static void useless_logs_are_refused(void **state) {
    (void)state;
    struct hm_error err = {0};
    assert_null(measure_text("", NULL, &err));
    assert_null(measure_text("hello\nworld\n", NULL, &err));
    assert_null(measure_text("{\"time\": 1, \"event\": \"step\", \"step\": 1, \"duration_s\": -3}\n", NULL, &err));
    const char *none[] = {"/no/such/file"};
    assert_null(hm_tor_measure(none, 1, NULL, &err));
    assert_int_equal(err.code, HM_ERR_IO);
}

/* Mutated logs of all three kinds: refused, or measured with a ledger that adds up. */
static void mutated_logs_never_break_the_ledger(void **state) {
    (void)state;
    static const char *const seeds[] = {
        "{\"time\": 0, \"event\": \"start\"}\n{\"time\": 12.5, \"event\": \"step\", \"step\": 1, \"duration_s\": 10}\n"
        "{\"time\": 14, \"event\": \"save\", \"step\": 1, \"duration_s\": 1}\n{\"time\": 15, \"event\": \"failure\"}\n"
        "{\"time\": \"1970-01-01T00:00:20\", \"event\": \"wait\", \"duration_s\": 3}\n{\"time\": 30, \"event\": "
        "\"end\"}\n",
        " [2026-08-22 10:00:10.0] iteration        1/     100 | elapsed time per iteration (ms): 10000.0 |\n"
        "saving checkpoint at iteration       1 to /c\n    save-checkpoint ...: (4.00, 5.00)\nloading checkpoint from "
        "/c\n"
        " [2026-08-22 10:01:10.0] iteration        2/     100 | elapsed time per iteration (ms): 9000.0 |\n",
        ("JobID|State|Submit|Start|End\n7|NODE_FAIL|2026-08-22T09:00:00|2026-08-22T09:10:00|2026-08-22T11:10:00\n"
         "7|COMPLETED|2026-08-22T11:10:00|2026-08-22T11:40:00|2026-08-22T12:40:00\n"),
    };
    unsigned long rng = 12345;
    for (int round = 0; round < 6000; round++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "%s", seeds[round % 3]);
        size_t n = strlen(text), changes = 1 + (size_t)round % 7;
        for (size_t k = 0; k < changes; k++) {
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            size_t at = (rng >> 33) % n;
            static const char pool[] = "0123456789-+.eE:{}[]\",|/ \nNaifstp";
            switch ((rng >> 20) % 4) {
            case 0:
                text[at] = pool[(rng >> 40) % (sizeof pool - 1)];
                break;
            case 1:
                memmove(text + at, text + at + 1, n - at);
                n--;
                break;
            case 2:
                text[n = at + 1] = 0;
                break;
            default:
                text[at] = (char)(1 + (rng >> 45) % 255);
            }
            if (n < 2) break;
        }
        struct hm_error err = {0};
        struct hm_tor_measurement *m = measure_text(text, NULL, &err);
        if (!m) {
            assert_true(err.code != HM_OK && err.message[0] && !strchr(err.message, '\n'));
            continue;
        }
        near(sum_of(m), m->t_obs_s, 1e-9);
        for (int c = 0; c < HM_TOR_CLASSES; c++) assert_true(m->ledger_s[c] >= -1e-6);
        assert_true(isnan(m->tor) || (m->tor >= 0 && m->tor <= 1 + 1e-9));
        hm_tor_measurement_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_explicit),
        cmocka_unit_test(failure_rates_give_metas_mttf),
        cmocka_unit_test(one_segment_is_as_computed_by_hand),
        cmocka_unit_test(best_intervals_match_young_and_daly_and_beat_them),
        cmocka_unit_test(closed_forms_agree_with_simulation),
        cmocka_unit_test(fail_slow_agrees_with_simulation),
        cmocka_unit_test(threads_do_not_change_the_result),
        cmocka_unit_test(llama3_had_over_90_percent),
        cmocka_unit_test(the_fault_file_gives_its_published_rates),
        cmocka_unit_test(impossible_plans_are_refused),
        cmocka_unit_test(a_ledger_by_hand),
        cmocka_unit_test(disorder_and_overlap_are_never_counted_twice),
        cmocka_unit_test(megatron_logs_are_read),
        cmocka_unit_test(slurm_accounting_is_read),
        cmocka_unit_test(useless_logs_are_refused),
        cmocka_unit_test(mutated_logs_never_break_the_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
