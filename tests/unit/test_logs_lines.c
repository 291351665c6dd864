/* test_logs_lines.c - small texts that several rooms read: ranges, endings, moments, lines of Megatron-LM's log. */
#include "base/base.h"
#include "base/megatron_log.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void ranges(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t first, last;
    } cases[] = {{"7", true, 7, 7},
                 {"2-5", true, 2, 5},
                 {"0-0", true, 0, 0},
                 {"9223372036854775807", true, INT64_MAX, INT64_MAX},
                 {"9223372036854775808", false, 0, 0},
                 {"5-2", false, 0, 0},
                 {"-2", false, 0, 0},
                 {" 2", false, 0, 0},
                 {"+2", false, 0, 0},
                 {"2-", false, 0, 0},
                 {"2- 5", false, 0, 0},
                 {"2-5x", false, 0, 0},
                 {"", false, 0, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        int64_t first = -1, last = -1;
        bool good = hm_parse_range(cases[k].text, NULL, &first, &last);
        if (good != cases[k].good) fail_msg("\"%s\" is %s", cases[k].text, good ? "taken" : "refused");
        if (!good) continue;
        assert_int_equal(first, cases[k].first);
        assert_int_equal(last, cases[k].last);
    }
    int64_t first, last;
    const char *end;
    assert_true(hm_parse_range("12,20-23", &end, &first, &last));
    assert_string_equal(end, ",20-23");
}

static void endings(void **state) {
    (void)state;
    assert_true(hm_ends_with("a.json.gz", ".gz"));
    assert_true(hm_ends_with(".gz", ".gz"));
    assert_false(hm_ends_with("gz", ".gz"));
    assert_false(hm_ends_with("a.gz.tmp", ".gz"));
}

static void moments(void **state) {
    (void)state;
    double time;
    assert_true(hm_parse_moment("2026-08-22T10:00:00.5Z", &time));
    assert_true(time == 1787392800.5);
    assert_true(hm_parse_moment("2026-08-22T12:00:00+02:00", &time));
    assert_true(time == 1787392800);
    assert_true(hm_parse_moment("1787392800.25", &time));
    assert_true(time == 1787392800.25);
    assert_false(hm_parse_moment("2026-13-22 10:00:00", &time));
    assert_false(hm_parse_moment("yesterday", &time));
    assert_false(hm_parse_moment("", &time));
}

static void megatron(void **state) {
    (void)state;
    struct hm_megatron_line line;
    assert_int_equal(
        hm_megatron_parse(" [2026-08-22 10:00:00.250000] iteration        5/     100 | consumed samples: 80 | "
                          "elapsed time per iteration (ms): 812.3 | learning rate: 1.0E-04 |",
                          &line),
        HM_MEGATRON_ITERATION);
    assert_int_equal(line.iteration, 5);
    assert_int_equal(line.total, 100);
    assert_true(line.time == 1787392800.25);
    assert_true(line.elapsed_ms == 812.3);
    assert_int_equal(hm_megatron_parse(" iteration 6/ 100 | elapsed time per iteration (ms): 1.5 |", &line),
                     HM_MEGATRON_ITERATION);
    assert_true(isnan(line.time));
    assert_int_equal(hm_megatron_parse("saving checkpoint at iteration     100 to /ckpt", &line), HM_MEGATRON_SAVING);
    assert_int_equal(line.iteration, 100);
    assert_int_equal(hm_megatron_parse("    save-checkpoint ................................: (812.02, 815.51)", &line),
                     HM_MEGATRON_SAVE_TIMER);
    assert_true(line.elapsed_ms == 815.51);
    assert_int_equal(hm_megatron_parse("    load-checkpoint ....: 7.25", &line), HM_MEGATRON_LOAD_TIMER);
    assert_true(line.elapsed_ms == 7.25);
    assert_int_equal(hm_megatron_parse("  successfully loaded checkpoint from x at iteration 100", &line),
                     HM_MEGATRON_LOADING);
    assert_int_equal(hm_megatron_parse(" iteration 6/ 100 | elapsed time per iteration (ms): nan |", &line),
                     HM_MEGATRON_OTHER);
    assert_int_equal(hm_megatron_parse("", &line), HM_MEGATRON_OTHER);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges), cmocka_unit_test(endings), cmocka_unit_test(moments),
                                       cmocka_unit_test(megatron)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
