/* test_fleet.c - many results in one summary: closed forms on hand-made jobs, what is skipped and why, Parquet and back, SQL, faults. */
#include "hindmost/report.h"
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
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/hm-fleet-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[100];
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static const char *in_folder(const char *name) {
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];
    (void)snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void write_file(const char *name, const char *format, ...) HM_PRINTF(2, 3);
static void write_file(const char *name, const char *format, ...) {
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    va_list args;
    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fclose(f);
}

/* A result with 1 hour of 1 GPU for each unit of `hours`. */
static void write_job(const char *name, int world, double slowdown, double hours, double worker_share,
                      double last_stage_share, const char *causes) {
    write_file(name,
               "{\"schema\": \"hindmost.analysis/1\", \"job\": {\"name\": \"%s\", \"dp\": %d, \"pp\": 1, \"tp\": 1, "
               "\"cp\": 1, \"vpp\": 1, \"world\": %d, \"workers\": %d, "
               "\"steps\": 2, \"ops\": 1, \"dropped\": []}, \"steps\": [{\"step\": 1, \"slowdown\": %g}, {\"step\": 2, "
               "\"slowdown\": %g}], "
               "\"mean_step_s\": {\"actual\": %.17g, \"replayed\": 2, \"ideal\": 1}, \"discrepancy\": 0.01, "
               "\"slowdown\": %.17g, \"waste\": 0.5, "
               "\"worker_share\": {\"value\": %g, \"add\": 0, \"workers\": []}, \"last_stage_share\": {\"value\": %g, "
               "\"add\": null}, \"causes\": [%s]}",
               name, world, world, world, 0.9 * slowdown, 1.1 * slowdown, hours * 1800 / world, slowdown, worker_share,
               last_stage_share, causes);
}

static struct hm_fleet *read_fleet(const char *path) {
    struct hm_error err = {0};
    const char *paths[] = {path};
    struct hm_fleet *f = hm_fleet_read(paths, 1, 2, NULL, NULL, &err);
    if (!f) fail_msg("%s", err.message);
    return f;
}

static void near(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * fmax(1, fabs(expected)))) fail_msg("%.17g, expected %.17g", got, expected);
}

/* Five jobs: S 1, 1.05, 1.25, 2, 4; GPU-hours 10, 30, 40, 15, 5. Wasted: 0, 30/21, 8, 7.5, 3.75. */
static void write_five(void) {
    mkdir(in_folder("five"), 0777);
    write_job("five/a.json", 64, 1, 10, 0.1, 0, "");
    write_job("five/b.json", 128, 1.05, 30, 0.9, 0.9,
              "{\"cause\": \"slow-link\", \"recovers\": 0.5, \"confidence\": 1, \"evidence\": [], \"where\": {}}");
    write_job("five/c.json", 256, 1.25, 40, 0.1, 0.5,
              "{\"cause\": \"unexplained\", \"recovers\": 0.9, \"confidence\": 1}, {\"cause\": \"stage-imbalance\", "
              "\"recovers\": 0.6, \"confidence\": 0.8}, "
              "{\"cause\": \"sequence-length\", \"recovers\": 0.3, \"confidence\": 0.7}");
    write_job("five/d.json", 511, 2, 15, 0.6, 0.1,
              "{\"cause\": \"slow-worker\", \"recovers\": 0.97, \"confidence\": 0.99}");
    write_job("five/e.json", 5000, 4, 5, 0.5, 0.2, "");
}

static void sums_are_those_by_hand(void **state) {
    (void)state;
    write_five();
    struct hm_fleet *f = read_fleet(in_folder("five"));
    const double wasted = 30 * (1 - 1 / 1.05) + 8 + 7.5 + 3.75;
    assert_int_equal(f->n_jobs, 5);
    assert_int_equal(f->straggling, 3);
    near(f->gpu_hours, 100);
    near(f->wasted_gpu_hours, wasted);
    /* type-7 quantiles of waste 0, 1/21, 0.2, 0.5, 0.75 */
    near(f->waste_by_job[0], 0.2);
    near(f->waste_by_job[1], 0.5);
    near(f->waste_by_job[2], 0.5 + 0.6 * 0.25);
    near(f->slowdown_by_job[3], 2 + 0.96 * 2);
    /* by GPU-hours: 40 of 100 waste up to 1/21, 80 up to 0.2, 95 up to 0.5 */
    near(f->waste_by_gpu_hours[0], 0.2);
    near(f->waste_by_gpu_hours[1], 0.2);
    near(f->waste_by_gpu_hours[2], 0.5);
    near(f->waste_by_gpu_hours[3], 0.75);
    assert_int_equal(f->worker_dominated, 1); /* of the straggling ones; 0.5 is not above half */
    near(f->worker_dominated_slowdown, 2);
    assert_int_equal(f->last_stage_dominated, 1); /* 0.5 is half or more */
    near(f->last_stage_dominated_slowdown, 1.25);
    assert_int_equal(f->severe, 1);
    assert_int_equal(f->severe_world, 5000);
    near(f->step_p90, 0.9 + 0.9 * 0.2);
    size_t jobs[HM_FLEET_SIZES] = {1, 1, 2, 0, 0, 0, 1};
    for (size_t k = 0; k < HM_FLEET_SIZES; k++) assert_int_equal(f->size[k].jobs, jobs[k]);
    near(f->size[2].slowdown_mean, 1.625);
    near(f->size[2].slowdown_max, 2);
    near(f->size[2].wasted_gpu_hours, 15.5);
    size_t causes[HM_FLEET_CAUSES] = {1, 1, 0, 0, 0, 0, 0, 0, 1}; /* the slow link's job does not straggle */
    for (size_t k = 0; k < HM_FLEET_CAUSES; k++) assert_int_equal(f->cause[k].jobs, causes[k]);
    assert_string_equal(f->jobs[2].cause, "stage-imbalance"); /* "unexplained" is no cause */
    assert_string_equal(f->jobs[2].causes, "unexplained,stage-imbalance,sequence-length");
    size_t slowest[] = {4, 3, 2, 1, 0}, dearest[] = {2, 3, 4, 1, 0};
    assert_memory_equal(f->by_slowdown, slowest, sizeof slowest);
    assert_memory_equal(f->by_waste, dearest, sizeof dearest);
    char *text = hm_fleet_text(f, 120);
    assert_non_null(
        strstr(text, "5 jobs, 100.0 GPU-hours: 60.0 % straggle (S >= 1.1), 20.7 % of the GPU-hours are wasted"));
    hm_text_free(text);
    hm_fleet_free(f);
}

static void parquet_gives_the_same_fleet_back(void **state) {
    (void)state;
    write_five();
    struct hm_fleet *f = read_fleet(in_folder("five"));
    const char *path = in_folder("it's [a] fleet*.parquet"); /* nothing in a name is special */
    struct hm_error err = {0};
    if (hm_fleet_write_parquet(f, path, &err) != 0) fail_msg("%s", err.message);
    struct hm_fleet *g = read_fleet(path);
    assert_int_equal(g->n_jobs, f->n_jobs);
    for (size_t i = 0; i < f->n_jobs; i++) {
        assert_string_equal(g->jobs[i].file, f->jobs[i].file);
        assert_true(g->jobs[i].slowdown == f->jobs[i].slowdown && g->jobs[i].gpu_hours == f->jobs[i].gpu_hours);
        assert_true(isnan(g->jobs[i].fix_speedup));
        assert_int_equal(g->jobs[i].world, f->jobs[i].world);
    }
    assert_memory_equal(g->waste_by_gpu_hours, f->waste_by_gpu_hours, sizeof f->waste_by_gpu_hours);
    hm_fleet_free(g);
    hm_fleet_free(f);
}

static void what_cannot_be_read_is_skipped_and_named(void **state) {
    (void)state;
    static const struct {
        const char *name, *content, *why;
    } bad[] = {
        {"mix/1.json", "", "empty"},
        {"mix/2.json", "{\"a\": ", "not JSON"},
        {"mix/3.json", "[1, 2]", "not a result"},
        {"mix/4.json", "{\"schema\": \"hindmost.whatif/1\"}", "hindmost.whatif/1"},
        {"mix/5.json", "{\"schema\": \"hindmost.analysis/1\", \"slowdown\": null}", "no slowdown"},
        {"mix/6.json", "{\"schema\": \"hindmost.analysis/1\", \"slowdown\": -1}", "no slowdown"},
        {"mix/7.json", "{\"schema\": \"hindmost.analysis/1\", \"slowdown\": 1e999}", "not JSON"},
        {"mix/8.json", "\x1f\x8b\x08garbage", "damaged gzip data"},
    };
    enum { BAD = sizeof bad / sizeof bad[0] };
    mkdir(in_folder("mix"), 0777);
    mkdir(in_folder("mix/deeper"), 0777);
    for (size_t i = 0; i < BAD; i++) write_file(bad[i].name, "%s", bad[i].content);
    write_file("mix/notes.txt", "not looked at");
    write_job("mix/deeper/good.json", 8, 1.5, 1, 0, 0, "");
    /* The least a result can have; numbers of the wrong kind are absent ones. */
    gzFile gz = gzopen(in_folder("mix/deeper/least.json.gz"), "wb");
    gzputs(gz, "{\"schema\": \"hindmost.analysis/1\", \"slowdown\": 2, \"job\": {\"world\": \"many\", \"name\": 5}, "
               "\"steps\": 7, \"causes\": {}, \"gpu_hours\": -4}");
    gzclose(gz);
    struct hm_fleet *f = read_fleet(in_folder("mix"));
    assert_int_equal(f->n_jobs, 2);
    assert_int_equal(f->n_skipped, BAD);
    for (size_t i = 0; i < BAD; i++) {
        assert_string_equal(f->skipped[i].file, in_folder(bad[i].name));
        if (!strstr(f->skipped[i].why, bad[i].why)) fail_msg("%s: %s", bad[i].name, f->skipped[i].why);
    }
    near(f->jobs[1].waste, 0.5);
    near(f->gpu_hours, 1);
    hm_fleet_free(f);
    struct hm_error err = {0};
    const char *paths[] = {in_folder("mix/2.json"), in_folder("nowhere.json"), in_folder("nowhere.parquet")};
    assert_null(hm_fleet_read(paths, 3, 1, NULL, NULL, &err));
    assert_int_equal(err.code, HM_ERR_INPUT);
    assert_non_null(strstr(err.message, "(3 skipped)"));
}

static char *answer(const struct hm_fleet *f, const char *query, bool json) {
    struct hm_error err = {0};
    struct hm_out *out = hm_out_open(in_folder("answer"), &err);
    if (hm_fleet_sql(f, query, json, out, &err) != 0) {
        hm_out_abort(out);
        assert_int_equal(err.code, HM_ERR_ARGUMENT);
        assert_null(strchr(err.message, '\n'));
        return NULL;
    }
    assert_int_equal(hm_out_commit(out, &err), 0);
    FILE *file = fopen(in_folder("answer"), "r");
    char *text = calloc(4096, 1);
    assert_true(fread(text, 1, 4095, file) > 0);
    fclose(file);
    return text;
}

static void sql_answers(void **state) {
    (void)state;
    write_five();
    struct hm_fleet *f = read_fleet(in_folder("five"));
    static const struct {
        const char *query;
        bool json;
        const char *expected; /* NULL: an error */
    } cases[] = {
        {"SELECT world, slowdown FROM jobs WHERE slowdown > 1.5 ORDER BY slowdown DESC;", false,
         "world  slowdown\n 5000       4.0\n  511       2.0\n"},
        {"SELECT count(*) AS n, max(cause) AS c, NULL AS x FROM jobs -- note", true,
         "[\n {\"n\": 5, \"c\": \"stage-imbalance\", \"x\": null}\n]\n"},
        {"WITH a AS (SELECT world w FROM jobs) SELECT sum(w)::DOUBLE AS s, [1, 2] AS l FROM a", true,
         "[\n {\"s\": 5959, \"l\": \"[1, 2]\"}\n]\n"},
        {"SELECT 1 AS a WHERE false", true, "[]\n"},
        {"SELECT nothing FROM jobs", true, NULL},
        {"", false, NULL},
        {"DROP TABLE jobs", false, NULL},
        {"SELECT 1) ; DROP TABLE jobs", false, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = answer(f, cases[i].query, cases[i].json);
        if (!cases[i].expected)
            assert_null(text);
        else
            assert_string_equal(text, cases[i].expected);
        free(text);
    }
    hm_fleet_free(f);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    write_five();
    write_file("five/z.json", "{");
    char path[128];
    (void)snprintf(path, sizeof path, "%s", in_folder("five"));
    const char *paths[] = {path};
    struct hm_fleet *f = NULL;
    long n = 1;
    for (; !f; n++) {
        struct hm_error err = {0};
        atomic_store(&hm_fault_after, n);
        f = hm_fleet_read(paths, 1, 1, NULL, NULL, &err);
        atomic_store(&hm_fault_after, 0);
        if (!f) assert_int_equal(err.code, HM_ERR_MEMORY);
    }
    assert_true(n > 25);
    for (int kind = 0; kind < 2; kind++) {
        (void)snprintf(path, sizeof path, "%s", in_folder(kind ? "fault.parquet" : "fault.html"));
        int status = -1;
        for (n = 1; status != 0; n += n < 30 ? 1 : 11) {
            atomic_store(&hm_fault_after, n);
            status = kind ? hm_fleet_write_parquet(f, path, NULL) : hm_fleet_html(f, path, NULL);
            atomic_store(&hm_fault_after, 0);
            assert_int_equal(access(path, F_OK), status);
        }
    }
    hm_fleet_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_by_hand),
        cmocka_unit_test(parquet_gives_the_same_fleet_back),
        cmocka_unit_test(what_cannot_be_read_is_skipped_and_named),
        cmocka_unit_test(sql_answers),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
