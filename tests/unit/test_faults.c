/* test_faults.c - every allocation and every output call fails once: each failure ends in a clean error, with nothing left behind. Run
 * under AddressSanitizer (scripts/test does) it also shows that nothing leaks. */
#include "jobs.h"
#include "hindmost/hindmost.h"
#include "hindmost/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char out_folder[256];

static int files_in(const char *folder) {
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* What fails returns -1 with *err filled; everything else about it is the caller's to check. */
typedef int (*work_fn)(const char *trace, const char *out, struct hm_error *err);

static int write_json(const struct hm_analysis *a, const char *path, struct hm_error *err) {
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    hm_analysis_write_json(a, NULL, out);
    return hm_out_commit(out, err);
}

static const char *metadata_of(const char *trace) {
    static char meta[300];
    (void)snprintf(meta, sizeof meta, "%s.yaml", trace);
    return meta;
}

/* A choice of steps goes over the row store. */
static int read_work(const char *trace, const char *out, struct hm_error *err) {
    (void)out;
    struct hm_trace_options topt = {.metadata = metadata_of(trace), .steps = "0-1000", .threads = 1};
    struct hm_trace *t = hm_trace_open(trace, &topt, err);
    hm_trace_free(t);
    return t ? 0 : -1;
}

/* Without one, complete rows go straight into the arrays. */
static int straight_work(const char *trace, const char *out, struct hm_error *err) {
    (void)out;
    struct hm_trace_options topt = {.metadata = metadata_of(trace), .threads = 1};
    struct hm_trace *t = hm_trace_open(trace, &topt, err);
    hm_trace_free(t);
    return t ? 0 : -1;
}

static struct hm_analysis *ready; /* for the works that only write */

static int json_work(const char *trace, const char *out, struct hm_error *err) {
    (void)trace;
    return write_json(ready, out, err);
}

static int compressed_work(const char *trace, const char *out, struct hm_error *err) {
    (void)trace;
    char gz[310];
    (void)snprintf(gz, sizeof gz, "%s.gz", out);
    return write_json(ready, gz, err);
}

static int text_work(const char *trace, const char *out, struct hm_error *err) {
    (void)trace;
    (void)out;
    char *text = hm_analysis_text(ready, NULL, NULL);
    if (!text) return hm_fail(err, HM_ERR_MEMORY, "no memory for the text");
    assert_true(strlen(text) > 100);
    hm_text_free(text);
    return 0;
}

static struct hm_trace *opened;

static int analyze_work(const char *trace, const char *out, struct hm_error *err) {
    (void)trace;
    (void)out;
    struct hm_analysis_options o = {.per_step = true, .threads = 1};
    struct hm_analysis *a = hm_analyze(opened, &o, err);
    hm_analysis_free(a);
    return a ? 0 : -1;
}

static int whatif_work(const char *trace, const char *out, struct hm_error *err) {
    (void)trace;
    (void)out;
    static const char *const changes[] = {"type:p2p,stage:1=0s", "dp:0-1,step:0-1000,mb:0-2=x2", "all=ideal"};
    struct hm_whatif_result result;
    return hm_whatif(opened, false, changes, 3, 1, &result, err);
}

/* ---- nodes ---- */

static int lemons_work(const char *faults, const char *out, struct hm_error *err) {
    (void)out;
    struct hm_lemon_options o = {.faults = faults, .at_day = 3};
    struct hm_lemons *l = hm_lemons_read(&o, err);
    hm_lemons_free(l);
    return l ? 0 : -1;
}

static bool writes(work_fn work) {
    return work == json_work || work == compressed_work;
}

static void inject_everywhere(work_fn work, const char *trace, long at_least) {
    char out[300], gz[310];
    (void)snprintf(out, sizeof out, "%s/result.json", out_folder);
    (void)snprintf(gz, sizeof gz, "%s.gz", out);
    long n = 1;
    for (;; n++) {
        struct hm_error err = {0};
        hm_fault_after = n;
        int status = work(trace, out, &err);
        bool hit = hm_fault_after <= 0;
        hm_fault_after = 0;
        if (status == 0) { /* nothing was hit, or what failed costs only speed: the result must be whole */
            assert_int_equal(files_in(out_folder), writes(work));
        } else {
            if (!hit) fail_msg("without a fault: %s", err.message);
            if (err.code != HM_ERR_MEMORY && err.code != HM_ERR_IO)
                fail_msg("fault %ld: code %d, '%s'", n, (int)err.code, err.message);
            assert_true(strlen(err.message) > 10);
            if (files_in(out_folder) != 0) fail_msg("fault %ld left a file behind: %s", n, err.message);
        }
        unlink(out);
        unlink(gz);
        if (!hit) break; /* fewer than n questions were asked: everything was tried */
    }
    print_message("%ld faults\n", n - 1);
    assert_true(n > at_least);
}

static void prepare(struct job_options o, bool torn, char *path, size_t size) {
    (void)snprintf(path, size, "%s", job_path(torn ? "torn.csv" : "whole.csv"));
    struct job *j = job_make(11, &o);
    if (torn) j->op[j->n_ops - 1].seq = 7; /* odd numbering of one op: still the same in all cells */
    job_write(j, path, NULL);
    if (torn) { /* rows written twice, a cell with a hole, an unknown type: the repairs allocate, too */
        FILE *f = fopen(path, "a");
        assert_non_null(f);
        fprintf(f, "0,0,0,%d,forward-compute,9.5,0.25,3000,0,3000,0\n0,0,0,%d,mystery,0,0,0,0,0,0\n", j->step_number[1],
                j->step_number[0]);
        for (int k = 0; k < 2; k++) fprintf(f, "0,0,0,%d,forward-compute,9.5,0.25,3001,0,3001,0\n", j->step_number[1]);
        fclose(f);
    }
    char meta[300];
    (void)snprintf(meta, sizeof meta, "%s.yaml", path);
    FILE *f = fopen(meta, "w");
    assert_non_null(f);
    fprintf(f, "trial_name: x\ndp_size: %d\npp_size: %d\ntp_size: 1\ndsp_size: 1\nvpp_size: %d\nworld_size: %d\n",
            j->dp, j->pp, j->vpp, j->dp * j->pp);
    fclose(f);
    job_free(j);
}

/* Apart, for reading once more is what takes long. */
static void read_and_analyze(const char *path) {
    inject_everywhere(read_work, path, 50);
    struct hm_error err = {0};
    opened = hm_trace_open(path, NULL, &err);
    if (!opened) fail_msg("%s", err.message);
    inject_everywhere(analyze_work, path, 50);
    hm_trace_free(opened);
}

static void reading_and_analysing_a_whole_trace(void **state) {
    (void)state;
    char path[200];
    prepare((struct job_options){.pp = 2, .dp = 2, .vpp = 2, .microbatches = 2, .steps = 2, .overlap = 1}, false, path,
            sizeof path);
    read_and_analyze(path);
}

static void reading_and_analysing_a_trace_with_holes(void **state) {
    (void)state;
    char path[200];
    prepare((struct job_options){.pp = 2, .dp = 2, .vpp = 1, .microbatches = 2, .steps = 3}, true, path, sizeof path);
    read_and_analyze(path);
}

static void reading_a_complete_trace_straight_into_the_arrays(void **state) {
    (void)state;
    struct job_options o = {.pp = 2, .dp = 2, .vpp = 1, .microbatches = 2, .steps = 3};
    struct job *j = job_make(11, &o);
    char path[200], meta[300];
    (void)snprintf(path, sizeof path, "%s", job_path("straight.parquet"));
    (void)snprintf(meta, sizeof meta, "%s.yaml", path);
    job_write(j, path, NULL);
    job_free(j);
    FILE *f = fopen(meta, "w");
    assert_non_null(f);
    fprintf(f, "trial_name: x\ndp_size: 2\npp_size: 2\ntp_size: 1\ndsp_size: 1\nvpp_size: 1\nworld_size: 4\n");
    fclose(f);
    inject_everywhere(straight_work, path, 50);
}

/* A file with this text; its name lasts until the next call. */
static const char *text_file(const char *name, const char *text) {
    static char path[300];
    (void)snprintf(path, sizeof path, "%s", job_path(name));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
    return path;
}

static void finding_lemons(void **state) {
    (void)state;
    inject_everywhere(
        lemons_work,
        text_file("faults.json",
                  "[{\"node_id\": \"1\", \"event_time\": 0.5, \"event_type\": \"fault_start\", \"fault_type\": \"x\"},"
                  "{\"node_id\": \"1\", \"event_time\": 1.5, \"event_type\": \"fault_end\", \"fault_type\": \"x\"},"
                  "{\"node_id\": \"2\", \"event_time\": 4, \"event_type\": \"fault_start\", \"fault_type\": \"x\"}]"),
        3);
}

static void a_replay_of_your_own(void **state) {
    (void)state;
    char path[200];
    prepare((struct job_options){.pp = 2, .dp = 2, .vpp = 1, .microbatches = 2, .steps = 2}, false, path, sizeof path);
    struct hm_error err = {0};
    opened = hm_trace_open(path, NULL, &err);
    if (!opened) fail_msg("%s", err.message);
    inject_everywhere(whatif_work, path, 3);
    hm_trace_free(opened);
}

static void writing_the_result(void **state) {
    (void)state;
    char path[200];
    prepare((struct job_options){.pp = 2, .dp = 2, .vpp = 1, .microbatches = 2, .steps = 3}, true, path, sizeof path);
    struct hm_error err = {0};
    struct hm_trace *t = hm_trace_open(path, NULL, &err);
    struct hm_analysis_options o = {.per_step = true};
    ready = t ? hm_analyze(t, &o, &err) : NULL;
    if (!ready) fail_msg("%s", err.message);
    hm_trace_free(t);
    inject_everywhere(json_work, path, 100);
    inject_everywhere(compressed_work, path, 100);
    inject_everywhere(text_work, path, 1);
    hm_analysis_free(ready);
}

int main(void) {
    (void)snprintf(out_folder, sizeof out_folder, "%s", job_path("out"));
    if (mkdir(out_folder, 0777) != 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_and_analysing_a_whole_trace),
        cmocka_unit_test(reading_and_analysing_a_trace_with_holes),
        cmocka_unit_test(reading_a_complete_trace_straight_into_the_arrays),
        cmocka_unit_test(finding_lemons),
        cmocka_unit_test(a_replay_of_your_own),
        cmocka_unit_test(writing_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
