/* test_megatron_log.c - stamps, time zones and lines of training logs, as they are found in the field. */
#include "base/megatron_log.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void stamps_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum hm_stamp_kind kind;
        double time_s;
        size_t length; /* 0: all of it */
    } cases[] = {
        {"2026-12-01T10:00:00Z", HM_STAMP_ABSOLUTE, 1796119200, 0},
        {"2026-12-01 10:00:00.25 x", HM_STAMP_CIVIL, 1796119200.25, 22},
        {"2026-12-01T10:00:00,500000+00:00", HM_STAMP_ABSOLUTE, 1796119200.5, 0},
        {"2026-12-01T12:00:00+0200", HM_STAMP_ABSOLUTE, 1796119200, 0},
        {"2026-12-01T04:30:00-05:30", HM_STAMP_ABSOLUTE, 1796119200, 0},
        {"2026-12-01T12:00:00+02", HM_STAMP_ABSOLUTE, 1796119200, 0},
        {"2026-12-01 10:00:00 UTC", HM_STAMP_ABSOLUTE, 1796119200, 0},
        {"2026-12-01 10:00:00 INFO x", HM_STAMP_CIVIL, 1796119200, 19},
        {"[2026-12-01 10:00:00] x", HM_STAMP_CIVIL, 1796119200, 21},
        {"[Tue Dec  1 10:00:00 2026] x", HM_STAMP_CIVIL, 1796119200, 26},
        {"Tue 2026-12-01 10:00:00 UTC host", HM_STAMP_ABSOLUTE, 1796119200, 27},
        {"1796119200.500000 host", HM_STAMP_ABSOLUTE, 1796119200.5, 17},
        {"[12345.678901] x", HM_STAMP_UPTIME, 12345.678901, 14},
        {"[    5.000001 <    0.000012>] x", HM_STAMP_UPTIME, 5.000001, 29},
        {"Dec 31 23:59:00 host", HM_STAMP_NO_YEAR, 94694340, 15},
        {"Feb 29 00:00:00 host", HM_STAMP_NO_YEAR, 68169600, 15},
        {"2026-02-29T10:00:00Z", HM_STAMP_NONE, 0, 0},
        {"2026-13-01T10:00:00Z", HM_STAMP_NONE, 0, 0},
        {"58608-01-01T10:00:00Z", HM_STAMP_NONE, 0, 0},
        {"[2026-12-01]", HM_STAMP_NONE, 0, 0},
        {"[1,7]<stdout>", HM_STAMP_NONE, 0, 0},
        {"", HM_STAMP_NONE, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hm_stamp s;
        size_t n = hm_stamp_read(cases[i].text, &s);
        if (s.kind != cases[i].kind || fabs(s.time_s - cases[i].time_s) > 1e-6)
            fail_msg("%s: kind %d, %.6f", cases[i].text, (int)s.kind, s.time_s);
        if (s.kind) assert_int_equal(n, cases[i].length ? cases[i].length : strlen(cases[i].text));
    }
    struct hm_stamp s;
    hm_stamp_read("Tue 2026-12-01 10:00:00 CET host", &s);
    assert_int_equal(s.kind, HM_STAMP_CIVIL);
    assert_string_equal(s.zone, "CET");
}

static void years_are_found(void **state) {
    (void)state;
    struct hm_stamp s;
    hm_stamp_read("Dec 31 23:59:00", &s);
    assert_true(hm_stamp_with_year(&s, NULL, 1796256000 /* 3 Dec 2026 */) == 1767225540 /* 2025 */);
    assert_true(hm_stamp_with_year(&s, NULL, 1798758000 /* 31 Dec 2026, 23:00 */) == 1798761540 /* 2026 */);
    assert_true(hm_stamp_with_year(&s, NULL, 1798848000 /* 2 Jan 2027 */) == 1798761540);
    hm_stamp_read("Feb 29 00:00:00", &s);
    assert_true(hm_stamp_with_year(&s, NULL, 1796256000) == 1709164800 /* 2024 */);
}

static void zones_know_their_clock_changes(void **state) {
    (void)state;
    struct hm_zone *z;
    struct hm_error err = {0};
    double utc[2];
    if (hm_zone_open("Europe/Berlin", &z, &err) != 0) skip(); /* no zone files on this machine */
    assert_int_equal(hm_zone_utc(z, 1796119200, utc), 1);     /* winter */
    assert_true(utc[0] == 1796119200 - 3600);
    assert_int_equal(hm_zone_utc(z, 1782900000, utc), 1); /* 1 July */
    assert_true(utc[0] == 1782900000 - 7200);
    assert_int_equal(hm_zone_utc(z, 1792895400, utc), 2); /* 25 October 2026, 02:30: twice */
    assert_true(utc[0] == 1792888200 && utc[1] == 1792891800);
    assert_int_equal(hm_zone_utc(z, 1792904400, utc), 1); /* the same day, 05:00 */
    assert_true(utc[0] == 1792904400 - 3600);
    assert_int_equal(hm_zone_utc(z, 4117314600, utc), 1); /* 21 June 2100: by the file's rule */
    assert_true(utc[0] == 4117314600 - 7200);
    struct hm_stamp s;
    int n;
    hm_stamp_read("2026-07-01 10:00:00 CEST", &s);
    assert_true(hm_zone_stamp(z, &s, utc, &n) && utc[0] == 1782892800);
    hm_stamp_read("2026-07-01 10:00:00 PDT", &s);
    assert_false(hm_zone_stamp(z, &s, utc, &n));
    hm_zone_close(z);
    assert_int_equal(hm_zone_open("Europe/Nowhere", &z, &err), -1);
    assert_null(z);
    assert_int_equal(hm_zone_open("../../../etc/passwd", &z, &err), -1);
    assert_int_equal(hm_zone_open("", &z, &err), -1);
}

static void offsets_are_zones(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double offset_s;
    } cases[] = {{"UTC", 0}, {"+02:00", 7200}, {"-0330", -12600}, {"+05", 18000}};
    struct hm_zone *z;
    double utc[2];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(hm_zone_open(cases[i].name, &z, NULL), 0);
        assert_int_equal(hm_zone_utc(z, 1e9, utc), 1);
        assert_true(utc[0] == 1e9 - cases[i].offset_s);
        hm_zone_close(z);
    }
    setenv("TZ", "EST5EDT,M3.2.0,M11.1.0", 1);
    assert_int_equal(hm_zone_open(NULL, &z, NULL), 0);
    assert_int_equal(hm_zone_utc(z, 1782900000, utc), 1);
    assert_true(utc[0] == 1782900000 + 4 * 3600);
    hm_zone_close(z);
    unsetenv("TZ");
}

static void read_line(const char *text, struct hm_log_line *o) {
    char line[512];
    (void)strncpy(line, text, sizeof line - 1);
    line[sizeof line - 1] = 0;
    hm_log_read(line, o);
}

/* Whatever stands around it: iteration 5 of 100, 10 s, at 2026-03-02 10:00:10. */
static void iterations_are_found_in_any_dress(void **state) {
    (void)state;
    static const char *const lines[] = {
        " [2026-03-02 10:00:10] iteration        5/     100 | consumed samples:  16 | elapsed time per iteration (ms): "
        "10000.0 | lm loss: 1.0E+01 |",
        "[default7]: [2026-03-02 10:00:10.000000] iteration        5/     100 | elapsed time per iteration (ms): "
        "10000.0 |",
        "[2026-03-02 10:00:10] [default7]: iteration        5/     100 | elapsed time per iteration (ms): 10000.0 |",
        "7:  [2026-03-02 10:00:10] iteration        5/     100 | elapsed time per iteration (s): 10.00 |",
        "[1,7]<stdout>: [2026-03-02 10:00:10] iteration        5/     100 | elapsed time per iteration (ms)=10000.0 |",
        "2026-03-02T09:59:59.123456789Z [rank7]: [2026-03-02 10:00:10] iteration 5/ 100 | elapsed time per iteration "
        "(ms) : 10000.0",
        " \033[32m[2026-03-02 10:00:10]\033[0m \033[1miter\033[0mation        5/     100 | elapsed time per "
        "itera\033[Ktion (ms): \033[1m10000.0\033[0m |\r",
        "2026-03-02 10:00:10,000 INFO rank 7: iteration=5/100 | elapsed_time_per_iteration=10000.0",
        "2026-03-02 10:00:10 Training epoch 0, iteration 5/100 | lr: 1e-4 | train_step_timing in s: 10.0",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct hm_log_line o;
        read_line(lines[i], &o);
        if (o.kind != HM_LOG_ITERATION || o.iteration != 5 || o.total != 100 || fabs(o.elapsed_s - 10) > 1e-9 ||
            o.stamp.time_s != 1772445610)
            fail_msg("%s: kind %d, %ld, %g s, at %f", lines[i], (int)o.kind, (long)o.iteration, o.elapsed_s,
                     o.stamp.time_s);
    }
    struct hm_log_line o;
    read_line(lines[1], &o);
    assert_int_equal(o.rank, 7);
    read_line(lines[4], &o);
    assert_int_equal(o.rank, 7);
    read_line(" iteration        5/     100 | elapsed time per iteration (ms): 10000.0 |", &o);
    assert_int_equal(o.kind, HM_LOG_ITERATION);
    assert_int_equal(o.stamp.kind, HM_STAMP_NONE);
    read_line("[2026-03-02 10:00:10] iteration 5/100 | elapsed time per iteration (ms): nan |", &o);
    assert_int_equal(o.kind, HM_LOG_OTHER);
}

static void checkpoints_and_timers_are_found(void **state) {
    (void)state;
    struct hm_log_line o;
    read_line("[default0]:saving checkpoint at iteration       5 to /ckpt in torch_dist format", &o);
    assert_int_equal(o.kind, HM_LOG_SAVING);
    assert_int_equal(o.iteration, 5);
    read_line("  successfully saved checkpoint from iteration     500 to /ckpt", &o);
    assert_int_equal(o.kind, HM_LOG_SAVED);
    assert_int_equal(o.iteration, 500);
    read_line(" loading checkpoint from /ckpt at iteration 400", &o);
    assert_int_equal(o.kind, HM_LOG_LOADING);
    assert_int_equal(o.iteration, 400);
    read_line("2026-03-02 10:00:10 INFO successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration 400",
              &o);
    assert_int_equal(o.kind, HM_LOG_LOADED);
    assert_true(o.stamp.time_s == 1772445610);
    read_line("loading checkpoint from /ckpt", &o);
    assert_int_equal(o.iteration, -1);
    read_line("[default7]:    save-checkpoint ................................: (29000.00, 30000.00)", &o);
    assert_int_equal(o.kind, HM_LOG_TIMER);
    assert_string_equal(o.name, "save-checkpoint");
    assert_true(o.low == 29000 && o.high == 30000);
    read_line("    load-checkpoint ................: 8000.00", &o);
    assert_true(o.low == 8000 && o.high == 8000);
    read_line("time (ms) | save-checkpoint: 1234.50 |", &o);
    assert_int_equal(o.kind, HM_LOG_TIMER);
    assert_true(o.high == 1234.5);
    read_line("(min, max) time across ranks (s):", &o);
    assert_int_equal(o.kind, HM_LOG_TIMERS);
    assert_true(o.scale_s == 1);
    read_line("times across ranks (ms):", &o);
    assert_int_equal(o.kind, HM_LOG_TIMERS);
    read_line("    save-checkpoint ...:", &o);
    assert_int_equal(o.kind, HM_LOG_TIMER);
    assert_true(isnan(o.high));
    read_line("      rank  3: 412.34", &o);
    assert_int_equal(o.kind, HM_LOG_TIMER_RANK);
    assert_true(o.rank == 3 && o.high == 412.34);
    read_line("  log_interval ....................................... 100", &o);
    assert_int_equal(o.kind, HM_LOG_INTERVAL);
    assert_int_equal(o.iteration, 100);
    double value;
    char unit[16];
    assert_true(hm_log_field("a | throughput per GPU (TFLOP/s/GPU): 412.0 | lm loss=1.5E+01", "throughput per GPU",
                             &value, unit));
    assert_true(value == 412);
    assert_string_equal(unit, "TFLOP/s/GPU");
    assert_true(hm_log_field("| lm loss=1.5E+01", "lm loss", &value, NULL) && value == 15);
    assert_false(hm_log_field("| lm loss", "lm loss", &value, NULL));
}

/* Bytes of all kinds: never beyond the end (run under AddressSanitizer). */
static void any_bytes_are_survived(void **state) {
    (void)state;
    static const char pool[] =
        "[]0123456789-:/|.=() \033[mKT+ZUTCDecTue iteration elapsed time per iteration (ms): save-checkpoint ..rank ";
    unsigned long rng = 7;
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)round % 60;
        char *line = malloc(n + 1);
        for (size_t i = 0; i < n; i++) {
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            line[i] = pool[(rng >> 33) % (sizeof pool - 1)];
        }
        line[n] = 0;
        struct hm_log_line o;
        struct hm_stamp s;
        assert_true(hm_stamp_read(line, &s) <= n);
        hm_log_read(line, &o);
        free(line);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stamps_are_read),
        cmocka_unit_test(years_are_found),
        cmocka_unit_test(zones_know_their_clock_changes),
        cmocka_unit_test(offsets_are_zones),
        cmocka_unit_test(iterations_are_found_in_any_dress),
        cmocka_unit_test(checkpoints_and_timers_are_found),
        cmocka_unit_test(any_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
