/* test_node_judge.c - baselines, the one-sided test and the rules' expressions against values worked out by hand. */
#include "node/node.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* 100 100 101 99 and two violators, at 80 and 94 (over 5 % below the median, 99.5); what is left has mean 100. */
static void drops_violators(void **state) {
    (void)state;
    const double x[] = {100, 80, 100, 94, 101, 99};
    size_t kept;
    assert_true(fabs(hm_learn_baseline(x, 6, 0.05, false, &kept) - 100) < 1e-12);
    assert_int_equal(kept, 4);
    /* lower is better: the small ones stay, and nothing is more than 5 % above their mean */
    const double t[] = {1, 1, 1, 2, 1.04};
    assert_true(fabs(hm_learn_baseline(t, 5, 0.05, true, &kept) - 1.01) < 1e-12);
    assert_int_equal(kept, 4);
    assert_true(isnan(hm_learn_baseline(x, 0, 0.05, false, &kept)));
}

/* U = 0 of 5 x 5: z = (12.5 - 0.5) / sqrt(25 * 11 / 12) = 2.5067, one-sided p = 0.00609. */
static void one_sided(void **state) {
    (void)state;
    const double low[] = {1, 2, 3, 4, 5}, high[] = {6, 7, 8, 9, 10};
    assert_true(fabs(hm_one_sided(low, 5, high, 5, false) - 0.00609) < 1e-5);
    assert_true(hm_one_sided(low, 5, high, 5, true) > 0.99);
    assert_true(fabs(hm_one_sided(high, 5, low, 5, true) - 0.00609) < 1e-5);
    assert_true(isnan(hm_one_sided(low, 3, high, 5, true)));
}

static bool label(void *context, const char *name, double *value, const double **values, size_t *n) {
    *values = NULL, *n = 0;
    (void)context;
    *value = strcmp(name, "rule4") == 0 ? 1 : 2;
    return strncmp(name, "rule", 4) == 0;
}

static void expressions(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double x, result;
    } cases[] = {{"lambda x:x>0.05", 0.06, 1},
                 {"lambda x:x>0.05", 0.05, 0},
                 {"lambda x: x < -0.05 or x>1", -0.06, 1},
                 {"lambda value: 0 < value < 3 and not value == 2", 2, 0},
                 {"lambda x: abs(x - 1) * 2 + 1", -1, 5},
                 {"lambda x: True if (x >= 3) else False", 3, 1},
                 {"lambda label:True if label[\"rule4\"]+label['rule5']>=3 else False", 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double result;
        assert_int_equal(hm_expression(cases[i].text, cases[i].x, label, NULL, &result, NULL), 0);
        assert_true(result == cases[i].result);
    }
    static const char *const bad[] = {"x>1",
                                      "lambda x:",
                                      "lambda x:y",
                                      "lambda x:x>1;",
                                      "lambda x:__import__('os')",
                                      "lambda x:label['other']",
                                      "lambda x:(x",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double result;
        struct hm_error err = {0};
        assert_int_equal(hm_expression(bad[i], 0, label, NULL, &result, &err), -1);
        assert_int_equal(err.code, HM_ERR_INPUT);
    }
    char deep[4096] = "lambda x:";
    memset(deep + 9, '(', sizeof deep - 10);
    double result;
    assert_int_equal(hm_expression(deep, 0, NULL, NULL, &result, NULL), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drops_violators), cmocka_unit_test(one_sided),
                                       cmocka_unit_test(expressions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
