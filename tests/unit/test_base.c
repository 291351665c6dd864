/* test_base.c - the ground floor: statistics against hand-computed values, JSON text, output files, parallel loops. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void statistics_match_hand_computed_values(void **state) {
    (void)state;
    double a[] = {3, 1, 2}, b[] = {4, 1, 3, 2}, c[] = {1, 1, 2, 2, 4, 6, 9};
    assert_true(hm_median(a, 3) == 2);
    assert_true(hm_median(b, 4) == 2.5);
    assert_true(hm_mean(b, 4) == 2.5);
    assert_true(hm_mad(c, 7, 2) == 1);
    double q[] = {10, 40, 20, 30};
    assert_true(fabs(hm_quantile(q, 4, 0.25) - 17.5) < 1e-12);
    assert_true(hm_quantile(q, 4, 1) == 40 && hm_quantile(q, 4, 0) == 10);
    double x[] = {1, 2, 3}, y[] = {2, 4, 6.5};
    assert_true(fabs(hm_pearson(x, y, 3) - 0.9979487157886733) < 1e-12);
    assert_true(isnan(hm_median(a, 0)) && isnan(hm_mean(a, 0)));
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void selection_equals_sorting_on_random_sets(void **state) {
    (void)state;
    struct hm_rng rng;
    hm_rng_seed(&rng, 1);
    for (int round = 0; round < 500; round++) {
        double x[200], y[200];
        size_t n = 1 + hm_rng_below(&rng, 200);
        for (size_t i = 0; i < n; i++) x[i] = y[i] = (double)hm_rng_below(&rng, 1 + hm_rng_below(&rng, 300));
        qsort(y, n, sizeof *y, compare);
        double median = n % 2 ? y[n / 2] : 0.5 * (y[n / 2 - 1] + y[n / 2]);
        assert_true(hm_median(x, n) == median);
        double q = hm_rng_uniform(&rng), at = q * (double)(n - 1);
        size_t k = (size_t)at;
        double expected = y[k] + (k + 1 < n ? (at - (double)k) * (y[k + 1] - y[k]) : 0);
        assert_true(fabs(hm_quantile(x, n, q) - expected) < 1e-9);
    }
}

static void json_is_what_it_should_be(void **state) {
    (void)state;
    char path[] = "/tmp/hm-json-XXXXXX";
    close(mkstemp(path));
    struct hm_out *out = hm_out_open(path, NULL);
    assert_non_null(out);
    struct hm_json j;
    hm_json_begin(&j, out, 1);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "a", "q\"\\\n\x01");
    hm_json_array(&j, "b");
    hm_json_number(&j, NULL, 0.1);
    hm_json_number(&j, NULL, NAN);
    hm_json_integer(&j, NULL, -3);
    hm_json_end_array(&j);
    hm_json_object(&j, "c");
    hm_json_end_object(&j);
    hm_json_bool(&j, "d", true);
    hm_json_end_object(&j);
    hm_json_finish(&j);
    assert_int_equal(hm_out_commit(out, NULL), 0);
    char text[256] = {0};
    FILE *f = fopen(path, "r");
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    unlink(path);
    assert_string_equal(
        text, "{\n \"a\": \"q\\\"\\\\\\n\\u0001\",\n \"b\": [0.1, null, -3],\n \"c\": {},\n \"d\": true\n}\n");
}

static void an_output_that_fails_leaves_nothing(void **state) {
    (void)state;
    char dir[] = "/tmp/hm-out-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/result", dir);
    for (long n = 1; n < 8; n++) {
        struct hm_error err = {0};
        hm_fault_after = n;
        struct hm_out *out = hm_out_open(path, &err);
        int result = -1;
        if (out) {
            hm_out_write(out, "x", 1);
            result = hm_out_commit(out, &err);
        }
        hm_fault_after = 0;
        if (result == 0) {
            unlink(path);
        } else {
            assert_true(err.code == HM_ERR_MEMORY || err.code == HM_ERR_IO);
        }
        assert_int_equal(rmdir(dir), 0); /* empty */
        assert_non_null(mkdtemp(strcpy(dir, "/tmp/hm-out-XXXXXX")));
        (void)snprintf(path, sizeof path, "%s/result", dir);
    }
    rmdir(dir);
}

static void count(void *context, size_t i, int thread) {
    (void)thread;
    atomic_fetch_add((atomic_size_t *)context, i + 1);
}

static void a_parallel_loop_runs_every_index_once(void **state) {
    (void)state;
    atomic_size_t sum = 0;
    hm_parallel(1000, 4, count, &sum);
    assert_int_equal(sum, 500500);
    hm_parallel(0, 0, count, &sum);
    assert_int_equal(sum, 500500);
}

static void the_same_seed_gives_the_same_numbers(void **state) {
    (void)state;
    struct hm_rng a, b;
    hm_rng_seed(&a, 42);
    hm_rng_seed(&b, 42);
    double sum = 0, squares = 0;
    for (int i = 0; i < 100000; i++) {
        double x = hm_rng_normal(&a);
        assert_true(x == hm_rng_normal(&b));
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / 1e5) < 0.02 && fabs(squares / 1e5 - 1) < 0.02);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_match_hand_computed_values),
        cmocka_unit_test(selection_equals_sorting_on_random_sets),
        cmocka_unit_test(json_is_what_it_should_be),
        cmocka_unit_test(an_output_that_fails_leaves_nothing),
        cmocka_unit_test(a_parallel_loop_runs_every_index_once),
        cmocka_unit_test(the_same_seed_gives_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
