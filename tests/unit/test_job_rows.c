/* test_job_rows.c - traces from rows in memory equal those of a file with the same rows; what is impossible is refused. */
#include "hindmost/job.h"
#include "jobs.h"
#include "whatif/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct hm_op_row row_of(const struct job *j, int t, int lane, int i) {
    const struct job_op *op = &j->op[i];
    size_t at = (size_t)((t * j->dp + lane) * j->n_ops + i);
    return (struct hm_op_row){j->step_number[t],
                              (uint32_t)lane,
                              (uint32_t)op->stage,
                              hm_op_types[op->type].name,
                              (uint32_t)op->seq,
                              op->mc,
                              op->mb,
                              op->gmc,
                              j->start[at],
                              j->recorded[at]};
}

static struct hm_trace *from_memory(const struct job *j, struct hm_error *err) {
    struct hm_job_rows *rows = hm_job_begin("a job", err);
    for (int t = j->steps; t-- > 0;) /* any order */
        for (int lane = 0; lane < j->dp; lane++)
            for (int i = 0; i < j->n_ops; i++) {
                struct hm_op_row row = row_of(j, t, lane, i);
                assert_int_equal(hm_job_add(rows, &row, 1, err), 0);
            }
    return hm_job_finish(rows, NULL, err);
}

static void rows_from_memory_equal_a_file(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hm_error err = {0};
        struct job *j = job_make(seed, NULL);
        const char *path = job_path("rows.csv");
        job_write(j, path, NULL);
        struct hm_trace *file = hm_trace_open(path, NULL, &err), *memory = from_memory(j, &err);
        if (!file || !memory) fail_msg("%s", err.message);
        struct hm_analysis *a = hm_analyze(file, NULL, &err), *b = hm_analyze(memory, NULL, &err);
        if (!a || !b) fail_msg("%s", err.message);
        assert_string_equal(b->name, "a job");
        assert_true(a->slowdown == b->slowdown && a->actual_s == b->actual_s && a->ideal_s == b->ideal_s);
        assert_true(a->ops == b->ops && a->dp == b->dp && a->pp == b->pp && a->vpp == b->vpp && b->n_dropped == 0);
        assert_memory_equal(a->by_worker, b->by_worker, a->dp * a->pp * sizeof(double));
        hm_analysis_free(a);
        hm_analysis_free(b);
        hm_trace_free(file);
        hm_trace_free(memory);
        job_free(j);
    }
}

static void rows_of_other_types_are_counted(void **state) {
    (void)state;
    struct hm_error err = {0};
    struct job *j = job_make(3, NULL);
    struct hm_job_rows *rows = hm_job_begin("a job", &err);
    struct hm_op_row other = {.op_type = "tea-break", .duration_s = 1};
    assert_int_equal(hm_job_add(rows, &other, 1, &err), 0);
    for (int t = 0; t < j->steps; t++)
        for (int lane = 0; lane < j->dp; lane++)
            for (int i = 0; i < j->n_ops; i++) {
                struct hm_op_row row = row_of(j, t, lane, i);
                assert_int_equal(hm_job_add(rows, &row, 1, &err), 0);
            }
    struct hm_trace *trace = hm_job_finish(rows, NULL, &err);
    if (!trace) fail_msg("%s", err.message);
    struct hm_analysis *a = hm_analyze(trace, NULL, &err);
    assert_int_equal(a->n_dropped, 1);
    assert_int_equal(a->dropped[0].count, 1);
    assert_non_null(strstr(a->dropped[0].why, "tea-break"));
    hm_analysis_free(a);
    hm_trace_free(trace);
    job_free(j);
}

static void impossible_rows_are_refused(void **state) {
    (void)state;
    const struct hm_op_row good = {.op_type = "optimizer", .chunk = -1, .microbatch = -1, .model_chunk = -1};
    struct hm_op_row bad[6];
    for (int k = 0; k < 6; k++) bad[k] = good;
    bad[0].step = -1, bad[1].dp_rank = 1u << 20, bad[2].stage = 1u << 20, bad[3].start_s = NAN, bad[4].duration_s = -1;
    bad[5].op_type = NULL;
    struct hm_error err = {0};
    struct hm_job_rows *rows = hm_job_begin("a job", &err);
    for (int k = 0; k < 6; k++) {
        assert_int_equal(hm_job_add(rows, &bad[k], 1, &err), -1);
        assert_int_equal(err.code, HM_ERR_INPUT);
    }
    assert_null(hm_job_finish(rows, NULL, &err)); /* nothing was added */
    assert_int_equal(err.code, HM_ERR_INPUT);
    hm_job_abort(hm_job_begin("given up", &err));
    hm_job_abort(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_from_memory_equal_a_file),
                                       cmocka_unit_test(rows_of_other_types_are_counted),
                                       cmocka_unit_test(impossible_rows_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
