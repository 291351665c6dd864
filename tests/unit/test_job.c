/* test_job.c - who waits for whom: closed forms computed by hand, and random jobs whose recorded times the model must give back. */
#include "jobs.h"
#include "whatif/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct hm_trace *open_job(const struct job *j, const struct job_table *table) {
    const char *path = job_path("model.csv");
    struct hm_error err = {0};
    job_write(j, path, table);
    const struct hm_trace_options one_thread = {.threads = 1};
    struct hm_trace *t = hm_trace_open(path, &one_thread, &err);
    if (!t) fail_msg("%s", err.message);
    return t;
}

/* A job with one duration for every op of a type, in every replica and step. */
static struct job *uniform_job(int pp, int dp, int vpp, int microbatches, int overlap,
                               const double seconds[JOB_TYPES]) {
    struct job_options o = {.pp = pp,
                            .dp = dp,
                            .vpp = vpp,
                            .microbatches = microbatches,
                            .steps = 2,
                            .overlap = overlap,
                            .no_delays = true};
    struct job *j = job_make(1, &o);
    for (int i = 0; i < j->steps * j->dp * j->n_ops; i++) j->duration[i] = seconds[j->op[i % j->n_ops].type];
    job_solve(j, 1, 0);
    return j;
}

static double replayed_step(const struct job *j) {
    struct hm_trace *t = open_job(j, NULL);
    struct hm_analysis *a = hm_analyze(t, NULL, NULL);
    assert_non_null(a);
    double step_s = a->replayed_s;
    assert_true(fabs(a->slowdown - 1) < 1e-12); /* nobody is slower than anybody */
    hm_analysis_free(a);
    hm_trace_free(t);
    return step_s;
}

/* 1F1B with equal stages and no transfer time: m microbatches and pp - 1 of them as bubble. */
static void one_forward_one_backward_takes_m_plus_p_minus_1_turns(void **state) {
    (void)state;
    const double f = 0.25, b = 0.5, optimizer = 0.125;
    const double seconds[JOB_TYPES] = {[JOB_FORWARD] = f, [JOB_BACKWARD] = b, [JOB_OPTIMIZER] = optimizer};
    for (int pp = 1; pp <= 4; pp++)
        for (int m = 1; m <= 7; m += 2) {
            struct job *j = uniform_job(pp, 2, 1, m, 0, seconds);
            assert_true(fabs(replayed_step(j) - ((m + pp - 1) * (f + b) + optimizer)) < 1e-9);
            job_free(j);
        }
}

/* Interleaving with v chunks a stage divides the bubble by v (Narayanan et al., SC 2021, section 2.2). */
static void interleaving_divides_the_bubble_by_the_chunks(void **state) {
    (void)state;
    const double f = 0.25, b = 0.5; /* of one chunk */
    const double seconds[JOB_TYPES] = {[JOB_FORWARD] = f, [JOB_BACKWARD] = b};
    for (int pp = 2; pp <= 4; pp++)
        for (int v = 2; v <= 3; v++)
            for (int m = pp; m <= 3 * pp; m += pp) {
                struct job *j = uniform_job(pp, 1, v, m, 0, seconds);
                assert_true(fabs(replayed_step(j) - (m * v + pp - 1) * (f + b)) < 1e-9);
                job_free(j);
            }
}

/* One microbatch through two stages: everything in a row, the optimizer after the slower path. */
static void one_microbatch_passes_through_everything_in_a_row(void **state) {
    (void)state;
    const double seconds[JOB_TYPES] = {[JOB_FORWARD] = 1,         [JOB_BACKWARD] = 2,
                                       [JOB_FORWARD_SEND] = 0.25, [JOB_FORWARD_RECV] = 0.25,
                                       [JOB_BACKWARD_SEND] = 0.5, [JOB_BACKWARD_RECV] = 0.5,
                                       [JOB_GATHER] = 4,          [JOB_SCATTER] = 8,
                                       [JOB_LAYERNORM] = 16,      [JOB_EMBEDDING] = 32,
                                       [JOB_SEPARATE] = 64,       [JOB_CLIP] = 128,
                                       [JOB_OPTIMIZER] = 256,     [JOB_GC] = 0};
    struct job *alone = uniform_job(2, 1, 1, 1, 0, seconds), *reduced = uniform_job(2, 2, 1, 1, 0, seconds),
               *overlapped = uniform_job(2, 2, 1, 1, 1, seconds);
    double path = 1 + 0.25 + 1 + 2 + 0.5 + 2; /* forward, send, forward, backward, send, backward */
    assert_true(fabs(replayed_step(alone) - (path + 16 + 32 + 128 + 256)) < 1e-9);
    assert_true(fabs(replayed_step(reduced) - (4 + path + 16 + 32 + 8 + 128 + 256)) < 1e-9);
    assert_true(fabs(replayed_step(overlapped) - (4 + path + 8 + 16 + 32 + 64 + 128 + 256)) < 1e-9);
    job_free(alone);
    job_free(reduced);
    job_free(overlapped);
}

/* Two replicas, one microbatch, forward 1 s and 3 s: the mean is 2 s, so T = 3, T_ideal = 2. */
static void a_slow_replica_of_two_is_worth_what_the_hand_says(void **state) {
    (void)state;
    const double seconds[JOB_TYPES] = {[JOB_FORWARD] = 1};
    struct job *j = uniform_job(1, 2, 1, 1, 0, seconds);
    for (int i = 0; i < j->steps * j->dp * j->n_ops; i++)
        if (j->op[i % j->n_ops].type == JOB_FORWARD && i / j->n_ops % j->dp == 1) j->duration[i] = 3;
    job_solve(j, 1, 0);
    struct hm_trace *t = open_job(j, NULL);
    struct hm_analysis *a = hm_analyze(t, NULL, NULL);
    assert_non_null(a);
    assert_true(fabs(a->replayed_s - 3) < 1e-9 && fabs(a->ideal_s - 2) < 1e-9 && fabs(a->slowdown - 1.5) < 1e-9 &&
                fabs(a->waste - 1.0 / 3) < 1e-9);
    assert_true(fabs(a->by_worker[0] - 1) < 1e-9 && fabs(a->by_worker[1] - 1.5) < 1e-9);
    assert_true(fabs(a->by_dp_rank[0] - 1) < 1e-9 && fabs(a->by_dp_rank[1] - 1.5) < 1e-9);
    assert_true(fabs(a->by_stage[0] - 1.5) < 1e-9);
    assert_true(fabs(a->worker_share.value - 1) < 1e-9 &&
                fabs(a->worker_share.add - 1) < 1e-9); /* ceil(3 %) of 2 workers: the slow one */
    assert_int_equal(a->n_share_workers, 1);
    assert_int_equal(a->share_workers[0].dp_rank, 1);
    assert_true(a->last_stage_share.value == 0 && a->last_stage_share.add == 0);
    hm_analysis_free(a);
    hm_trace_free(t);
    job_free(j);
}

/* The generator solves its own graph: without launch delays the replay must give its times back, op by op. */
static void random_jobs_replay_to_their_recorded_times(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct job_options o = {.overlap = -1, .no_delays = true, .no_dp_ops = seed % 5 == 0};
        struct job *j = job_make(seed, &o);
        struct job_table table = {.shuffle = seed};
        struct hm_trace *t = open_job(j, &table);
        const struct hm_grid *g = &t->grid;
        assert_int_equal(g->steps, j->steps);
        assert_int_equal(g->lanes, j->dp);
        assert_int_equal(g->slots, j->n_ops);
        double *duration = hm_alloc(g->lanes * g->slots, sizeof(double)),
               *start = hm_alloc(g->lanes * g->slots, sizeof(double)),
               *end = hm_alloc(g->lanes * g->slots, sizeof(double));
        for (size_t step = 0; step < g->steps; step++) {
            for (size_t lane = 0; lane < g->lanes; lane++)
                for (size_t s = 0; s < g->slots; s++)
                    duration[lane * g->slots + s] =
                        hm_grid_lane(g, g->duration, step / HM_WIDTH, lane)[s * HM_WIDTH + step % HM_WIDTH];
            hm_replay_plain(t->job, g->lanes, duration, start, end);
            for (size_t lane = 0; lane < g->lanes; lane++)
                for (size_t s = 0; s < g->slots; s++) {
                    const struct hm_slot *slot = &t->job->slot[s];
                    int i = 0;
                    while (j->op[i].stage != (int)slot->stage || j->op[i].type != (int)slot->cls ||
                           j->op[i].seq != (int)slot->seq)
                        i++;
                    double expected = j->start[(step * (size_t)j->dp + lane) * (size_t)j->n_ops + (size_t)i];
                    if (fabs(start[lane * g->slots + s] - expected) > 1e-9)
                        fail_msg("seed %lu: %s %u of stage %u starts at %g, not %g", (unsigned long)seed,
                                 hm_op_types[slot->cls].name, slot->seq, slot->stage, start[lane * g->slots + s],
                                 expected);
                }
        }
        hm_free(duration);
        hm_free(start);
        hm_free(end);
        hm_trace_free(t);
        job_free(j);
    }
}

/* The recorded order contradicts itself: stage 0 received the gradient before stage 1 had the activations. */
static void a_circle_is_named_op_by_op(void **state) {
    (void)state;
    const struct hm_ref_op ops[] = {
        /* stage 0 runs backward 0 before forward 0, stage 1 the other way round */
        {0, HM_FORWARD_COMPUTE, 0, 0, 0, 0, 2, 3}, {0, HM_BACKWARD_COMPUTE, 0, 0, 0, 0, 1, 2},
        {0, HM_FORWARD_SEND, 0, 0, 0, 0, 3, 4},    {0, HM_BACKWARD_RECV, 0, 0, 0, 0, 0, 1},
        {1, HM_FORWARD_COMPUTE, 0, 0, 0, 1, 4, 5}, {1, HM_BACKWARD_COMPUTE, 0, 0, 0, 1, 5, 6},
        {1, HM_FORWARD_RECV, 0, 0, 0, 1, 0, 4},    {1, HM_BACKWARD_SEND, 0, 0, 0, 1, 6, 7},
    };
    struct hm_error err = {0};
    struct hm_job *m = hm_job_pipeline(ops, sizeof ops / sizeof ops[0], 1, "job.parquet", &err);
    assert_null(m);
    assert_int_equal(err.code, HM_ERR_INPUT);
    assert_ptr_equal(strstr(err.message, "job.parquet: "), err.message);
    static const char *const links[] = {"forward-compute 0 of stage 0 waits for backward-compute 0 of stage 0",
                                        "backward-compute 0 of stage 0 waits for backward-recv 0 of stage 0",
                                        "backward-send 0 of stage 1 waits for backward-compute 0 of stage 1"};
    for (size_t k = 0; k < 3; k++)
        if (!strstr(err.message, links[k])) fail_msg("'%s' is not in: %s", links[k], err.message);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_forward_one_backward_takes_m_plus_p_minus_1_turns),
        cmocka_unit_test(interleaving_divides_the_bubble_by_the_chunks),
        cmocka_unit_test(one_microbatch_passes_through_everything_in_a_row),
        cmocka_unit_test(a_slow_replica_of_two_is_worth_what_the_hand_says),
        cmocka_unit_test(random_jobs_replay_to_their_recorded_times),
        cmocka_unit_test(a_circle_is_named_op_by_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
