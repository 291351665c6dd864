/* test_logs_lines.c - small texts that several rooms read: ranges and endings. */
#include "base/base.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges), cmocka_unit_test(endings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
