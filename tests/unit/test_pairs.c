/* test_pairs.c - who is measured with whom and who is named, on simulated fabrics whose bad hosts are known. */
#include "base/base.h"
#include "pairs/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 64 };
static const struct hm_limits limits = {2, 5};

/* A fabric: a link is as slow as its slower end; figures scatter by 30 % (healthy ones less than 2 x). */
struct fabric {
    int n;
    double slower[MOST], later[MOST]; /* times */
    bool in_groups_only[MOST];        /* slow among three or more only */
    struct hm_rng rng;
};

static void measure(struct fabric *f, struct hm_link *l) {
    double slower = fmax(f->slower[l->a], f->slower[l->b]), later = fmax(f->later[l->a], f->later[l->b]);
    l->gbs = 10 / slower * (0.85 + 0.3 * hm_rng_uniform(&f->rng));
    l->latency_us = 20 * later * (0.85 + 0.3 * hm_rng_uniform(&f->rng));
}

/* The rounds as hindmost-pairs runs them; marks who is named. Returns the rounds. */
static int find(struct fabric *f, bool *named) {
    struct hm_host host[MOST] = {0};
    struct hm_link link[MOST];
    int rounds = 0;
    for (int round = 0; round < HM_ROUNDS; round++) {
        int links = hm_plan_links(host, f->n, round, limits, link);
        bool taken[MOST] = {0};
        rounds += links > 0;
        for (int i = 0; i < links; i++) {
            assert_true(link[i].a >= 0 && link[i].a < link[i].b && link[i].b < f->n);
            if (round < 2) assert_false(taken[link[i].a] || taken[link[i].b]); /* disjoint */
            taken[link[i].a] = taken[link[i].b] = true;
            measure(f, &link[i]);
            hm_count_link(host, &link[i]);
        }
    }
    struct hm_normal normal = hm_normal_of(host, f->n, limits);
    for (int i = 0; i < f->n; i++) named[i] = hm_times_normal(&host[i], normal) > limits.factor;
    return rounds;
}

static void healthy(struct fabric *f, int n, uint64_t seed) {
    *f = (struct fabric){.n = n};
    hm_rng_seed(&f->rng, seed);
    for (int i = 0; i < n; i++) f->slower[i] = f->later[i] = 1;
}

/* Up to a third of 3 to 64 hosts slow or late, at least 4 times: exactly these are named, in at most three rounds. */
static void names_the_bad(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct fabric f;
        bool named[MOST] = {0};
        healthy(&f, 3 + (int)(seed % 62), seed);
        int bad = (int)hm_rng_below(&f.rng, (uint64_t)f.n / 3 + 1);
        for (int k = 0; k < bad; k++) {
            double *what = hm_rng_below(&f.rng, 2) ? f.slower : f.later;
            what[hm_rng_below(&f.rng, (uint64_t)f.n)] = 4 + 100 * hm_rng_uniform(&f.rng);
        }
        assert_in_range(find(&f, named), 2, HM_ROUNDS);
        for (int i = 0; i < f.n; i++) assert_int_equal(named[i], f.slower[i] > 1 || f.later[i] > 1);
    }
}

/* Latencies of 20 and 44 us differ by more than twice, but by less than a floor of 30. */
static void small_differences_in_latency(void **state) {
    (void)state;
    struct hm_host host = {.links = 1, .gbs = 1, .latency_us = 44};
    struct hm_normal normal = {1, 20, {2, 30}};
    assert_true(hm_times_normal(&host, normal) == 1);
    normal.limits.floor_us = 5;
    assert_true(fabs(hm_times_normal(&host, normal) - 2.2) < 1e-12);
    host.links = 0;
    assert_true(isinf(hm_times_normal(&host, normal)));
}

/* A group is as slow as its slowest member. */
static double group_speed(struct fabric *f, const int *member, int size) {
    double slower = 1;
    for (int k = 0; k < size; k++)
        if (!f->in_groups_only[member[k]] || size > 2) slower = fmax(slower, f->slower[member[k]]);
    return 10 / slower * (0.85 + 0.3 * hm_rng_uniform(&f->rng));
}

static int find_by_groups(struct fabric *f, int m, bool *named) {
    int n = f->n, groups = n / m, member[MOST] = {0}, slow;
    double gbs[2 * MOST], normal;
    bool suspect[MOST];
    for (int p = 0; p < 2; p++) {
        int all = 0;
        for (int g = 0; g < groups; g++) {
            int size = 0;
            for (int i = 0; i < n; i++)
                if (hm_group_of(i, n, m, p) == g) member[size++] = i;
            assert_true(size >= m || p == 1);
            assert_true(size >= 2);
            all += size;
            gbs[p * groups + g] = group_speed(f, member, size);
        }
        assert_int_equal(all, n);
    }
    int suspects = hm_find_suspects(gbs, n, m, 2, suspect, &slow, &normal);
    for (int i = 0; i < n; i++) {
        named[i] = false;
        if (!suspect[i]) continue;
        int size = hm_trial_group(gbs, suspect, i, n, m, member);
        assert_int_equal(member[0], i);
        for (int k = 1; k < size; k++) assert_false(suspect[member[k]]);
        named[i] = size > 1 && group_speed(f, member, size) * 2 < normal;
    }
    return suspects;
}

/* One bad host among 4 to 64, at times one that pairs do not show: groups of 2 to 8 name it and nobody else, and suspect no more
 * than a group's worth. */
static void groups_find_the_culprit(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct fabric f;
        bool named[MOST] = {0};
        healthy(&f, 4 + (int)(seed % 61), seed);
        int m = 2 + (int)hm_rng_below(&f.rng, 7), bad = (int)hm_rng_below(&f.rng, (uint64_t)f.n);
        if (f.n / m < 2) continue;
        f.slower[bad] = 4 + 100 * hm_rng_uniform(&f.rng);
        f.in_groups_only[bad] = m > 2 && f.n >= m * m && seed % 2;
        assert_in_range(find_by_groups(&f, m, named), 1, m);
        for (int i = 0; i < f.n; i++) assert_int_equal(named[i], i == bad);
        if (f.in_groups_only[bad]) continue;
        f.slower[bad] = 1;
        assert_int_equal(find_by_groups(&f, m, named), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_the_bad), cmocka_unit_test(small_differences_in_latency),
                                       cmocka_unit_test(groups_find_the_culprit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
