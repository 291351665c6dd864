/* test_groups.c - groups of any shape: random jobs whose collectives span some lanes only, against a simulator that shares no code with
 * the replay, and every attribution against one full simulation each. */
#include "jobs.h"
#include "job/edges.h"
#include "whatif/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 40, MOST_LANES = 12, MOST_PARTITIONS = 4, STEPS = 3, JOBS = JOB_TRIALS(1000) };

/* One op of every lane. Those of a group (equal `group`) stand next to each other and wait only for what stands before them. */
struct op {
    uint32_t role, group, partition, n_deps, deps[4];
    bool across, ends;
};
struct random_job {
    size_t lanes, roles, ops, partitions;
    struct op op[MOST_OPS];
    uint32_t block[MOST_PARTITIONS][MOST_LANES];
    double duration[STEPS][MOST_LANES][MOST_OPS];
};

static void *must(void *p) {
    if (!p) abort();
    return p;
}

static void draw_job(struct random_job *j, uint64_t seed) {
    struct hm_rng rng;
    hm_rng_seed(&rng, seed);
    *j = (struct random_job){.lanes = 1 + hm_rng_below(&rng, MOST_LANES), .roles = 1 + hm_rng_below(&rng, 3)};
    j->partitions = 1 + hm_rng_below(&rng, MOST_PARTITIONS);
    for (size_t p = 1; p < j->partitions; p++) { /* 0 is everybody */
        uint64_t blocks = 1 + hm_rng_below(&rng, j->lanes);
        for (size_t l = 0; l < j->lanes; l++) j->block[p][l] = (uint32_t)hm_rng_below(&rng, blocks);
    }
    const size_t wanted = 4 + hm_rng_below(&rng, MOST_OPS - 8);
    while (j->ops < wanted) {
        const uint32_t first = (uint32_t)j->ops;
        const size_t members = 1 + hm_rng_below(&rng, j->roles);
        const bool across = hm_rng_below(&rng, 3) == 0;
        const uint32_t partition = (uint32_t)hm_rng_below(&rng, j->partitions);
        for (uint32_t r = 0; r < members; r++) {
            struct op *op = &j->op[j->ops++];
            *op = (struct op){.role = r, .group = first, .partition = partition, .across = across};
            op->n_deps = first ? (uint32_t)hm_rng_below(&rng, first < 4 ? first + 1 : 5) : 0;
            for (uint32_t d = 0; d < op->n_deps; d++) op->deps[d] = (uint32_t)hm_rng_below(&rng, first);
        }
    }
    for (uint32_t r = 0; r < j->roles; r++) { /* the last op of each role, after all its others */
        j->op[j->ops] = (struct op){.role = r, .group = (uint32_t)j->ops, .n_deps = 1, .ends = true};
        j->op[j->ops].deps[0] = (uint32_t)(wanted - 1);
        j->ops++;
    }
    for (size_t t = 0; t < STEPS; t++)
        for (size_t l = 0; l < j->lanes; l++)
            for (size_t i = 0; i < j->ops; i++) j->duration[t][l][i] = 0.01 * exp(0.8 * hm_rng_normal(&rng));
}

/* ---- the simulator: relaxes all times until nothing moves ---- */

static bool together(const struct random_job *j, size_t i, size_t l, size_t k, size_t m) {
    if (j->op[i].group != j->op[k].group) return false;
    if (l == m) return true;
    const struct op *op = &j->op[i];
    return op->across && (op->partition == 0 || j->block[op->partition][l] == j->block[op->partition][m]);
}

static double simulate(const struct random_job *j, double duration[MOST_LANES][MOST_OPS], double *last) {
    static double start[MOST_LANES][MOST_OPS], end[MOST_LANES][MOST_OPS];
    memset(start, 0, sizeof start);
    memset(end, 0, sizeof end);
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t l = 0; l < j->lanes; l++)
            for (size_t i = 0; i < j->ops; i++) {
                for (uint32_t d = 0; d < j->op[i].n_deps; d++)
                    start[l][i] = fmax(start[l][i], end[l][j->op[i].deps[d]]);
                double begin = 0;
                for (size_t m = 0; m < j->lanes; m++)
                    for (size_t k = 0; k < j->ops; k++)
                        if (together(j, i, l, k, m)) begin = fmax(begin, start[m][k]);
                moved |= begin + duration[l][i] > end[l][i];
                end[l][i] = fmax(end[l][i], begin + duration[l][i]);
            }
    }
    double step_s = *last = 0;
    for (size_t l = 0; l < j->lanes; l++)
        for (size_t i = 0; i < j->ops; i++) {
            *last = fmax(*last, end[l][i]);
            if (j->op[i].ends) step_s = fmax(step_s, end[l][i]);
        }
    return step_s;
}

/* ---- the same job for the library ---- */

static struct hm_job *make_job(const struct random_job *j) {
    static const char *const family[] = {"work", "collective"};
    struct hm_job *job = must(hm_alloc(1, sizeof *job));
    struct hm_class *cls = must(hm_alloc(3, sizeof *cls));
    const char **families = must(hm_alloc(2, sizeof *families));
    uint32_t *class_of_peers = must(hm_alloc(3, sizeof *class_of_peers));
    struct hm_ref_op *ref = must(hm_alloc(j->ops, sizeof *ref));
    cls[0] = (struct hm_class){.name = "work"};
    cls[1] = (struct hm_class){.name = "collective", .family = 1, .kind = HM_COLLECTIVE, .ideal_is_median = true};
    cls[2] = (struct hm_class){.name = "end", .ends_step = true};
    for (uint32_t k = 0; k < 3; k++) class_of_peers[k] = k;
    memcpy(families, family, sizeof family);
    job->cls = cls, job->family = families, job->class_of_peers = class_of_peers;
    job->n_classes = job->n_peers = 3, job->n_families = 2;
    job->partition = must(hm_alloc(j->partitions, sizeof *job->partition));
    job->n_partitions = j->partitions;
    job->lanes = j->partitions > 1 ? j->lanes : 0;
    for (size_t p = 0; p < j->partitions; p++) {
        job->partition[p].blocks = 1;
        if (p == 0) continue;
        job->partition[p].block = must(hm_alloc(j->lanes, sizeof(uint32_t)));
        for (size_t l = 0; l < j->lanes; l++) {
            job->partition[p].block[l] = j->block[p][l];
            if (j->block[p][l] + 1 > job->partition[p].blocks) job->partition[p].blocks = j->block[p][l] + 1;
        }
    }
    struct hm_edges e;
    for (uint32_t i = 0; i < j->ops; i++)
        ref[i] = (struct hm_ref_op){j->op[i].role, j->op[i].ends ? 2 : j->op[i].across ? 1 : 0, i, -1, -1, -1, 0, 0};
    assert_int_equal(hm_edges_begin(&e, ref, j->ops), 0);
    for (uint32_t i = 0; i < j->ops; i++) {
        hm_edges_join(&e, i, j->op[i].group);
        e.across[i] = j->op[i].across;
        e.partition[i] = j->op[i].partition;
        e.peers[i] = ref[i].type;
        for (uint32_t d = 0; d < j->op[i].n_deps; d++) hm_edges_wait(&e, i, j->op[i].deps[d]);
    }
    struct hm_error err = {0};
    if (hm_job_assemble(job, &e, "random job", &err) != 0) fail_msg("%s", err.message);
    hm_edges_free(&e);
    hm_free(ref);
    return job;
}

static struct hm_trace *make_trace(const struct random_job *j) {
    struct hm_trace *t = must(hm_alloc(1, sizeof *t));
    struct hm_recording *r = t->recording = must(hm_alloc(1, sizeof *r));
    struct hm_grid *g = &t->grid;
    t->job = make_job(j);
    t->program = must(hm_program_compile(t->job, NULL));
    *g = (struct hm_grid){.steps = STEPS, .blocks = 1, .lanes = j->lanes, .slots = j->ops};
    g->bytes = HM_WIDTH * j->lanes * j->ops * sizeof(double);
    g->duration = must(hm_map(g->bytes, NULL));
    g->start = must(hm_map(g->bytes, NULL));
    g->actual_s = must(hm_alloc(STEPS, sizeof(double)));
    r->path = must(hm_strdup("random job"));
    r->layout =
        (struct hm_layout){"random job", (int64_t)j->lanes, (int64_t)j->roles, 1, 1, 1, (int64_t)(j->lanes * j->roles)};
    r->lanes = must(hm_alloc(j->lanes, sizeof *r->lanes));
    r->steps = must(hm_alloc(STEPS, sizeof *r->steps));
    r->n_lanes = j->lanes, r->n_steps = STEPS;
    for (uint32_t l = 0; l < j->lanes; l++) r->lanes[l] = l;
    for (size_t k = 0; k < STEPS; k++) r->steps[k] = (int64_t)k, g->actual_s[k] = 1;
    for (size_t l = 0; l < j->lanes; l++)
        for (size_t i = 0; i < j->ops; i++)
            for (size_t k = 0; k < STEPS; k++)
                hm_grid_lane(g, g->duration, 0, l)[i * HM_WIDTH + k] = j->duration[k][l][t->job->slot[i].seq];
    assert_int_equal(hm_trace_idealise(t, 1, NULL), 0);
    return t;
}

/* ---- the comparisons ---- */

struct choice { /* whose originals are kept; SIZE_MAX: all */
    size_t lane, role, family;
};

static double brute_mean(const struct random_job *j, const struct hm_trace *t, struct choice c, bool ideal,
                         double *mean_last) {
    static double duration[MOST_LANES][MOST_OPS];
    double sum = 0, sum_last = 0, last;
    for (size_t k = 0; k < STEPS; k++) {
        for (size_t l = 0; l < j->lanes; l++)
            for (size_t i = 0; i < j->ops; i++) {
                const struct op *op = &j->op[i];
                bool kept = !ideal && (c.lane == SIZE_MAX || c.lane == l) &&
                            (c.role == SIZE_MAX || c.role == op->role) &&
                            (c.family == SIZE_MAX || c.family == op->across);
                duration[l][i] = kept ? j->duration[k][l][i] : t->ideal_s[op->ends ? 2 : op->across ? 1 : 0];
            }
        sum += simulate(j, duration, &last);
        sum_last += last;
    }
    if (mean_last) *mean_last = sum_last / STEPS;
    return sum / STEPS;
}

static void near(double got, double expected, const char *what, uint64_t seed) {
    if (!(fabs(got - expected) <= 1e-12 * fmax(1, fabs(expected))))
        fail_msg("job %llu: %s is %.17g, not %.17g", (unsigned long long)seed, what, got, expected);
}

static void every_attribution_equals_a_simulation_of_its_own(void **state) {
    (void)state;
    static struct random_job j;
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        draw_job(&j, seed);
        struct hm_trace *t = make_trace(&j);
        const struct hm_analysis_options one_thread = {.threads = 1};
        struct hm_error err = {0};
        struct hm_analysis *a = hm_analyze(t, &one_thread, &err);
        if (!a) fail_msg("%s", err.message);
        const size_t all = SIZE_MAX;
        double last, ideal = brute_mean(&j, t, (struct choice){all, all, all}, true, NULL);
        (void)brute_mean(&j, t, (struct choice){all, all, all}, false, &last);
        near(a->replayed_s, last, "T", seed);
        near(a->ideal_s, ideal, "T_ideal", seed);
        near(a->slowdown, last / ideal, "S", seed);
        for (size_t f = 0; f < a->n_families; f++) {
            size_t family = strcmp(a->by_op_type[f].name, "collective") == 0;
            near(a->by_op_type[f].slowdown, brute_mean(&j, t, (struct choice){all, all, family}, false, NULL) / ideal,
                 "S of a family", seed);
        }
        for (size_t r = 0; r < j.roles; r++) {
            near(a->by_stage[r], brute_mean(&j, t, (struct choice){all, r, all}, false, NULL) / ideal, "S of a role",
                 seed);
            for (size_t l = 0; l < j.lanes; l++)
                near(a->by_worker[r * j.lanes + l], brute_mean(&j, t, (struct choice){l, r, all}, false, NULL) / ideal,
                     "S of a rank", seed);
        }
        for (size_t l = 0; l < j.lanes; l++)
            near(a->by_dp_rank[l], brute_mean(&j, t, (struct choice){l, all, all}, false, NULL) / ideal, "S of a lane",
                 seed);
        hm_analysis_free(a);
        hm_trace_free(t);
    }
}

/* How many lanes a scenario takes with these partitions of 16 lanes; block(p, lane). */
static size_t classes(size_t partitions, uint32_t (*block)(size_t p, uint32_t lane)) {
    enum { LANES = 16 };
    static uint32_t blocks[MOST_PARTITIONS][LANES];
    struct hm_partition partition[MOST_PARTITIONS];
    uint32_t member[LANES];
    size_t most = 0;
    for (size_t p = 0; p < partitions; p++) {
        partition[p] = (struct hm_partition){LANES, blocks[p]};
        for (uint32_t l = 0; l < LANES; l++) blocks[p][l] = block(p, l);
    }
    const struct hm_job job = {.partition = partition, .n_partitions = partitions, .lanes = LANES};
    for (size_t lane = 0; lane < LANES; lane++) {
        struct hm_ties ties;
        size_t n;
        assert_int_equal(hm_ties_around(&ties, &job, lane, member, &n), 0);
        assert_int_equal(member[lane], 0); /* itself first, and alone */
        for (size_t l = 0; l < LANES; l++) assert_true(l == lane || member[l] > 0);
        hm_ties_free(&ties);
        most = n > most ? n : most;
    }
    return most;
}

static uint32_t plain(size_t p, uint32_t lane) {
    (void)p, (void)lane;
    return 0;
}
static uint32_t islands(size_t p, uint32_t lane) {
    return p ? lane / 4 : 0;
}
static uint32_t crossing(size_t p, uint32_t lane) {
    return p ? lane / 4 : lane % 4;
}

static void few_lanes_stand_for_all(void **state) {
    (void)state;
    assert_int_equal(classes(1, plain), 2);
    assert_int_equal(classes(2, islands), 3);
    assert_int_equal(classes(2, crossing), 4); /* itself, its row, its column, the rest */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_attribution_equals_a_simulation_of_its_own),
                                       cmocka_unit_test(few_lanes_stand_for_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
