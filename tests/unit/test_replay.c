/* test_replay.c - the compiled replay against the plain one, for every kernel this processor runs; and what any replay must obey. */
#include "jobs.h"
#include "replay/program.h"
#include "whatif/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = JOB_TRIALS(40) };

static struct hm_trace *random_trace(uint64_t seed) {
    struct job_options o = {.overlap = -1, .no_dp_ops = seed % 7 == 0};
    struct job *j = job_make(seed, &o);
    const char *path = job_path("replay.csv");
    job_write(j, path, NULL);
    job_free(j);
    struct hm_error err = {0};
    const struct hm_trace_options one_thread = {.threads = 1};
    struct hm_trace *t = hm_trace_open(path, &one_thread, &err);
    if (!t) fail_msg("%s", err.message);
    return t;
}

static size_t usable_kernels(const struct hm_kernels *list[3]) {
    size_t n = 0;
    list[n++] = &hm_kernels_base;
#ifdef HM_HAVE_X86_KERNELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) list[n++] = &hm_kernels_avx2;
    if (__builtin_cpu_supports("avx512f")) list[n++] = &hm_kernels_avx512;
#endif
    return n;
}

/* The ends of one block by the plain replay. */
static void plain_ends(const struct hm_trace *t, const struct hm_view *views, size_t lanes, struct hm_ends *ends) {
    size_t slots = t->job->n_slots;
    double *duration = hm_alloc(lanes * slots, sizeof(double)), *start = hm_alloc(lanes * slots, sizeof(double)),
           *end = hm_alloc(lanes * slots, sizeof(double));
    for (size_t k = 0; k < HM_WIDTH; k++) {
        for (size_t l = 0; l < lanes; l++)
            for (size_t s = 0; s < slots; s++)
                duration[l * slots + s] =
                    (!views[l].keep || views[l].keep[s] ? views[l].duration : views[l].fill)[s * HM_WIDTH + k];
        hm_replay_plain(t->job, lanes, duration, start, end);
        ends->optimizer[k] = ends->any[k] = -INFINITY;
        ends->first[k] = INFINITY;
        for (size_t i = 0; i < lanes * slots; i++) {
            ends->any[k] = fmax(ends->any[k], end[i]);
            ends->first[k] = fmin(ends->first[k], start[i]);
            if (t->job->slot[i % slots].cls == HM_OPTIMIZER) ends->optimizer[k] = fmax(ends->optimizer[k], end[i]);
        }
    }
    hm_free(duration);
    hm_free(start);
    hm_free(end);
}

/* Random keep masks; every third lane runs on its recorded durations alone, so pairs of lanes are of the same and of different kind. */
static struct hm_view *random_views(const struct hm_trace *t, struct hm_rng *rng, size_t block, uint8_t *masks) {
    size_t lanes = t->grid.lanes, slots = t->grid.slots;
    struct hm_view *views = hm_alloc(lanes + 1, sizeof *views);
    uint64_t kind = hm_rng_below(rng, 3);
    for (size_t l = 0; l < lanes; l++) {
        for (size_t s = 0; s < slots; s++) masks[l * slots + s] = (uint8_t)hm_rng_below(rng, 2);
        bool mixed = kind == 0 ? false : kind == 1 ? true : hm_rng_below(rng, 3) != 0;
        views[l] = (struct hm_view){hm_grid_lane(&t->grid, t->grid.duration, block, l), t->ideal_fill,
                                    mixed ? masks + l * slots : NULL};
    }
    return views;
}

/* Clocks apart: a quarter of the transfers take less than no time. */
static void make_some_transfers_negative(const struct hm_trace *t, struct hm_rng *rng) {
    const struct hm_job *m = t->job;
    for (size_t i = 0; i < t->grid.blocks * t->grid.lanes * t->grid.slots * HM_WIDTH; i++) {
        const struct hm_node *node = &m->node[m->slot[i / HM_WIDTH % m->n_slots].node];
        bool transfer = node->across >= 0 || node->n_slots > 1;
        if (transfer && hm_rng_below(rng, 4) == 0) t->grid.duration[i] = -0.01 * hm_rng_uniform(rng);
    }
}

static void all_kernels_equal_the_plain_replay(void **state) {
    (void)state;
    size_t early = 0;
    const struct hm_kernels *kernels[3];
    size_t n = usable_kernels(kernels);
    struct hm_rng rng;
    hm_rng_seed(&rng, 3);
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct hm_trace *t = random_trace(seed);
        size_t lanes = t->grid.lanes;
        uint8_t *masks = hm_alloc(lanes, t->grid.slots);
        if (seed % 2) make_some_transfers_negative(t, &rng);
        for (size_t block = 0; block < t->grid.blocks; block++) {
            struct hm_view *views = random_views(t, &rng, block, masks);
            struct hm_ends expected, got;
            plain_ends(t, views, lanes, &expected);
            for (size_t k = 0; k < n; k++)
                for (int any = 0; any < 2; any++) {
                    struct hm_scratch *s = hm_scratch_new(t->program, lanes);
                    hm_scratch_use(s, kernels[k]);
                    hm_replay(t->program, views, lanes, any, s, &got);
                    for (int i = 0; i < HM_WIDTH; i++) {
                        assert_true(got.optimizer[i] ==
                                    expected.optimizer[i]); /* the same additions: equal to the last bit */
                        if (any) assert_true(got.any[i] == expected.any[i] && got.first[i] == expected.first[i]);
                        early += any && got.first[i] < 0;
                    }
                    assert_true(hm_scratch_evaluated(s) == (double)(lanes * t->grid.slots * HM_WIDTH));
                    hm_scratch_free(s);
                }
            hm_free(views);
        }
        hm_free(masks);
        hm_trace_free(t);
    }
    assert_true(early > 0); /* some ops did start before 0 */
}

/* One lane of its own against many that are ideal. */
static void one_lane_against_the_rest_equals_all_lanes(void **state) {
    (void)state;
    const struct hm_kernels *kernels[3];
    size_t n = usable_kernels(kernels);
    struct hm_rng rng;
    hm_rng_seed(&rng, 4);
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct hm_trace *t = random_trace(seed);
        size_t slots = t->grid.slots, lanes = 3;
        uint8_t *mask = hm_alloc(slots, 1);
        for (size_t block = 0; block < t->grid.blocks; block++)
            for (size_t k = 0; k < n; k++) {
                struct hm_scratch *s = hm_scratch_new(t->program, lanes);
                hm_scratch_use(s, kernels[k]);
                struct hm_lane_run *rest = hm_lane_run_new(t->program, t->ideal_fill, s, NULL);
                assert_non_null(rest);
                for (size_t i = 0; i < slots; i++) mask[i] = (uint8_t)(hm_rng_below(&rng, 4) == 0);
                struct hm_view views[3] = {
                    {hm_grid_lane(&t->grid, t->grid.duration, block, hm_rng_below(&rng, t->grid.lanes)), t->ideal_fill,
                     seed % 2 ? mask : NULL},
                    {.duration = t->ideal_fill},
                    {.duration = t->ideal_fill}};
                struct hm_ends expected, got;
                plain_ends(t, views, lanes, &expected);
                hm_replay_against(t->program, views, rest, s, &got);
                for (int i = 0; i < HM_WIDTH; i++) assert_true(got.optimizer[i] == expected.optimizer[i]);
                hm_lane_run_free(rest);
                hm_scratch_free(s);
            }
        hm_free(mask);
        hm_trace_free(t);
    }
}

/* hm_begin shares what each lane does alone: every lane, and every pair of lanes, against the rest, then all of them. */
static void begun_lanes_finish_alone_and_together(void **state) {
    (void)state;
    const struct hm_kernels *kernels[3];
    size_t n = usable_kernels(kernels);
    struct hm_rng rng;
    hm_rng_seed(&rng, 6);
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct hm_trace *t = random_trace(seed);
        size_t lanes = t->grid.lanes;
        uint8_t *masks = hm_alloc(lanes, t->grid.slots);
        struct hm_view *views = random_views(t, &rng, 0, masks);
        struct hm_view *alone = hm_alloc(2, sizeof *alone);
        for (size_t k = 0; k < n; k++) {
            struct hm_scratch *s = hm_scratch_new(t->program, lanes);
            hm_scratch_use(s, kernels[k]);
            struct hm_lane_run *rest = hm_lane_run_new(t->program, t->ideal_fill, s, NULL);
            hm_begin(t->program, views, lanes, k % 2, s);
            struct hm_ends expected, got[2];
            for (size_t l = 0; l < lanes; l++) {
                bool two = l + 1 < lanes && (views[l].keep != NULL) == (views[l + 1].keep != NULL);
                hm_against(t->program, views, l, two, rest, s, got);
                for (size_t u = 0; u <= two; u++) {
                    alone[0] = views[l + u];
                    alone[1] = (struct hm_view){.duration = t->ideal_fill};
                    plain_ends(t, alone, 2, &expected);
                    for (int i = 0; i < HM_WIDTH; i++) assert_true(got[u].optimizer[i] == expected.optimizer[i]);
                }
            }
            plain_ends(t, views, lanes, &expected);
            hm_finish(t->program, views, lanes, s, got);
            for (int i = 0; i < HM_WIDTH; i++) {
                assert_true(got[0].optimizer[i] == expected.optimizer[i]);
                if (k % 2) assert_true(got[0].any[i] == expected.any[i] && got[0].first[i] == expected.first[i]);
            }
            hm_lane_run_free(rest);
            hm_scratch_free(s);
        }
        hm_free(alone);
        hm_free(views);
        hm_free(masks);
        hm_trace_free(t);
    }
}

static void all_ideal_replays_take_the_same_time_in_every_step(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct hm_trace *t = random_trace(seed);
        struct hm_scratch *s = hm_scratch_new(t->program, t->grid.lanes);
        struct hm_lane_run *run = hm_lane_run_new(t->program, t->ideal_fill, s, NULL);
        uint8_t *nothing = hm_alloc(t->grid.slots, 1);
        struct hm_view *views = hm_alloc(t->grid.lanes, sizeof *views);
        for (size_t block = 0; block < t->grid.blocks; block++) {
            for (size_t l = 0; l < t->grid.lanes; l++)
                views[l] = (struct hm_view){hm_grid_lane(&t->grid, t->grid.duration, block, l), t->ideal_fill, nothing};
            struct hm_ends ends;
            hm_replay(t->program, views, t->grid.lanes, true, s, &ends);
            for (int k = 0; k < HM_WIDTH; k++) {
                assert_true(ends.optimizer[k] == hm_lane_run_ends(run)->optimizer[0]);
                assert_true(ends.any[k] == hm_lane_run_ends(run)->any[0]);
            }
        }
        hm_free(views);
        hm_free(nothing);
        hm_lane_run_free(run);
        hm_scratch_free(s);
        hm_trace_free(t);
    }
}

static void replay_block(const struct hm_trace *t, double *durations, struct hm_scratch *s, struct hm_ends *ends) {
    struct hm_view *views = hm_alloc(t->grid.lanes, sizeof *views);
    for (size_t l = 0; l < t->grid.lanes; l++)
        views[l] = (struct hm_view){.duration = durations + l * t->grid.slots * HM_WIDTH};
    hm_replay(t->program, views, t->grid.lanes, true, s, ends);
    hm_free(views);
}

static void no_duration_made_longer_makes_any_step_shorter(void **state) {
    (void)state;
    struct hm_rng rng;
    hm_rng_seed(&rng, 5);
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct hm_trace *t = random_trace(seed);
        struct hm_scratch *s = hm_scratch_new(t->program, t->grid.lanes);
        double *durations = hm_grid_lane(&t->grid, t->grid.duration, 0, 0);
        struct hm_ends before, after;
        replay_block(t, durations, s, &before);
        for (int round = 0; round < 20; round++) {
            double longer = hm_rng_uniform(&rng);
            for (int k = 0; k <= round; k++)
                durations[hm_rng_below(&rng, t->grid.lanes * t->grid.slots * HM_WIDTH)] += longer;
            replay_block(t, durations, s, &after);
            for (int k = 0; k < HM_WIDTH; k++)
                assert_true(after.optimizer[k] >= before.optimizer[k] && after.any[k] >= before.any[k]);
            before = after;
        }
        hm_scratch_free(s);
        hm_trace_free(t);
    }
}

static void scaling_all_durations_scales_all_times(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct hm_trace *t = random_trace(seed);
        struct hm_scratch *s = hm_scratch_new(t->program, t->grid.lanes);
        double *durations = hm_grid_lane(&t->grid, t->grid.duration, 0, 0);
        struct hm_ends before, after;
        replay_block(t, durations, s, &before);
        for (size_t i = 0; i < t->grid.lanes * t->grid.slots * HM_WIDTH; i++)
            durations[i] *= 4; /* a power of two: exact */
        replay_block(t, durations, s, &after);
        for (int k = 0; k < HM_WIDTH; k++)
            assert_true(after.optimizer[k] == 4 * before.optimizer[k] && after.any[k] == 4 * before.any[k]);
        hm_scratch_free(s);
        hm_trace_free(t);
    }
}

/* start >= end of what an op waits for, a group's members end when its last one has started and they have moved their data. */
static void no_op_starts_before_what_it_waits_for_has_ended(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        struct hm_trace *t = random_trace(seed);
        const struct hm_job *m = t->job;
        size_t lanes = t->grid.lanes, slots = m->n_slots;
        double *duration = hm_alloc(lanes * slots, sizeof(double)), *start = hm_alloc(lanes * slots, sizeof(double)),
               *end = hm_alloc(lanes * slots, sizeof(double));
        for (size_t i = 0; i < lanes * slots; i++)
            duration[i] = hm_grid_lane(&t->grid, t->grid.duration, 0, i / slots)[i % slots * HM_WIDTH];
        hm_replay_plain(m, lanes, duration, start, end);
        for (size_t l = 0; l < lanes; l++)
            for (size_t s = 0; s < slots; s++) {
                double ready = 0, begin = 0;
                for (uint32_t d = 0; d < m->slot[s].n_deps; d++) {
                    double e = end[l * slots + m->dep[m->slot[s].first_dep + d]];
                    assert_true(start[l * slots + s] >= e);
                    ready = fmax(ready, e);
                }
                assert_true(start[l * slots + s] == ready); /* and not a moment later */
                const struct hm_node *node = &m->node[m->slot[s].node];
                for (size_t k = 0; k < lanes; k++)
                    for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++)
                        if (k == l || node->across >= 0) begin = fmax(begin, start[k * slots + i]);
                assert_true(end[l * slots + s] == begin + duration[l * slots + s]);
            }
        hm_free(duration);
        hm_free(start);
        hm_free(end);
        hm_trace_free(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kernels_equal_the_plain_replay),
        cmocka_unit_test(one_lane_against_the_rest_equals_all_lanes),
        cmocka_unit_test(begun_lanes_finish_alone_and_together),
        cmocka_unit_test(all_ideal_replays_take_the_same_time_in_every_step),
        cmocka_unit_test(no_duration_made_longer_makes_any_step_shorter),
        cmocka_unit_test(scaling_all_durations_scales_all_times),
        cmocka_unit_test(no_op_starts_before_what_it_waits_for_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
