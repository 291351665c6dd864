/* test_timeline.c - timelines against the rows of the trace, and tables copied to tables. */
#include "hindmost/convert.h"
#include "hindmost/synth.h"
#include "hindmost/timeline.h"
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char folder[64];

static const char *in_folder(const char *name) {
    static char path[4][128];
    static int next;
    next = (next + 1) % 4;
    (void)snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/hm-timeline-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static json_t *load(const char *path) {
    gzFile f = gzopen(path, "rb"); /* reads plain files as well */
    assert_non_null(f);
    size_t n = 0, room = 1 << 20;
    char *text = malloc(room);
    for (int got; (got = gzread(f, text + n, (unsigned)(room - n))) > 0;)
        if ((n += (size_t)got) == room) text = realloc(text, room *= 2);
    gzclose(f);
    json_error_t why;
    json_t *root = json_loadb(text, n, 0, &why);
    if (!root) fail_msg("%s: line %d: %s", path, why.line, why.text);
    free(text);
    return root;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number %s", key);
    return json_number_value(value);
}

/* A row as CSV gives it. */
struct row {
    long dp, stage, step, seq, mc, mb;
    char type[40];
    double start, duration;
};

static size_t read_rows(const char *path, struct row **rows) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = 0, room = 1 << 16;
    *rows = malloc(room * sizeof **rows);
    char line[300];
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n");
    while (fgets(line, sizeof line, f)) {
        if (n == room) *rows = realloc(*rows, (room *= 2) * sizeof **rows);
        struct row *r = &(*rows)[n++];
        long rank, gmc;
        assert_int_equal(sscanf(line, "%ld,%ld,%ld,%ld,%39[^,],%lf,%lf,%ld,%ld,%ld,%ld", &r->dp, &r->stage, &rank,
                                &r->step, r->type, &r->start, &r->duration, &r->seq, &r->mc, &r->mb, &gmc),
                         11);
    }
    fclose(f);
    return n;
}

static int by_op(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->dp != y->dp) return x->dp < y->dp ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    int name = strcmp(x->type, y->type);
    return name ? name : (x->seq > y->seq) - (x->seq < y->seq);
}

/* Tracks by (pid, tid), small enough to search one after the other. */
struct track {
    double pid, tid, busy_until;
    const char *name;
};

static struct track *track_of(struct track *tracks, size_t n, double pid, double tid) {
    for (size_t k = 0; k < n; k++)
        if (tracks[k].pid == pid && tracks[k].tid == tid) return &tracks[k];
    fail_msg("an event on a track without a name");
    return NULL;
}

/* Checks the form of a timeline; events come back as rows whose times count from the timeline's start. */
static size_t check_timeline(const char *path, size_t expected, struct row *events) {
    json_t *root = load(path), *list = json_object_get(root, "traceEvents"), *e;
    struct track tracks[2000];
    size_t n_tracks = 0, n = 0, i;
    json_array_foreach(list, i, e) {
        const char *kind = json_string_value(json_object_get(e, "ph")),
                   *name = json_string_value(json_object_get(e, "name"));
        json_t *args = json_object_get(e, "args");
        if (strcmp(kind, "M") == 0) {
            if (strcmp(name, "thread_name") == 0) {
                assert_true(n_tracks < 2000);
                tracks[n_tracks++] = (struct track){number(e, "pid"), number(e, "tid"), 0,
                                                    json_string_value(json_object_get(args, "name"))};
            }
            continue;
        }
        assert_string_equal(kind, "X");
        assert_true(n < expected);
        struct track *t = track_of(tracks, n_tracks, number(e, "pid"), number(e, "tid"));
        double ts = number(e, "ts"), end = ts + number(e, "dur");
        assert_true(number(e, "dur") >= 0);
        assert_true(ts >= t->busy_until - 1e-6); /* microseconds; doubles hold thousandths of them */
        t->busy_until = end;
        struct row *r = &events[n++];
        *r = (struct row){.dp = (long)t->pid - 1,
                          .step = (long)number(args, "step"),
                          .seq = (long)number(args, "seq"),
                          .start = ts * 1e-6,
                          .duration = (end - ts) * 1e-6,
                          .mb = -1,
                          .mc = -1};
        assert_int_equal(sscanf(t->name, "stage %ld ", &r->stage), 1);
        if (!json_is_null(json_object_get(args, "microbatch"))) r->mb = (long)number(args, "microbatch");
        if (!json_is_null(json_object_get(args, "chunk"))) r->mc = (long)number(args, "chunk");
        strcpy(r->type, name);
    }
    json_decref(root);
    assert_int_equal(n, expected);
    qsort(events, n, sizeof *events, by_op);
    /* steps one after the other */
    double last_end = 0;
    for (size_t k = 0; k < n;) {
        double first = INFINITY, end = 0;
        long step = events[k].step;
        for (; k < n && events[k].step == step; k++) {
            first = fmin(first, events[k].start);
            end = fmax(end, events[k].start + events[k].duration);
        }
        assert_true(first > last_end || last_end == 0);
        last_end = end;
    }
    return n;
}

/* Events against rows: the same ops, at the same distance from their step's start. */
static void compare(const char *trace, double tolerance) {
    struct hm_error err = {0};
    struct hm_trace *t = hm_trace_open(trace, NULL, &err);
    if (!t) fail_msg("%s", err.message);
    const char *csv = in_folder("rows.csv"), *json = in_folder("recorded.json.gz");
    assert_int_equal(hm_convert(&trace, 1, csv, false, 1, &err), 0);
    assert_int_equal(hm_timeline_write(t, false, json, &err), 0);
    struct row *rows, *events;
    size_t n = read_rows(csv, &rows);
    qsort(rows, n, sizeof *rows, by_op);
    events = calloc(n, sizeof *events);
    check_timeline(json, n, events);
    for (size_t i = 0, j; i < n; i = j) {
        double row_start = INFINITY, event_start = INFINITY;
        for (j = i; j < n && rows[j].step == rows[i].step; j++) {
            row_start = fmin(row_start, rows[j].start);
            event_start = fmin(event_start, events[j].start);
        }
        for (size_t k = i; k < j; k++) {
            assert_int_equal(by_op(&rows[k], &events[k]), 0);
            double shift = fabs(events[k].start - event_start - (rows[k].start - row_start));
            double end_shift = fabs(events[k].start + events[k].duration - event_start -
                                    (rows[k].start + rows[k].duration - row_start));
            if (shift > tolerance || end_shift > tolerance)
                fail_msg("%s %ld of stage %ld, step %ld: off by %g and %g s", rows[k].type, rows[k].seq, rows[k].stage,
                         rows[k].step, shift, end_shift);
            if (strstr(rows[k].type, "-compute")) {
                assert_int_equal(events[k].mb, rows[k].mb);
                assert_int_equal(events[k].mc, rows[k].mc);
            } else if (strstr(rows[k].type, "-send") || strstr(rows[k].type, "-recv")) {
                assert_true(events[k].mb >= 0 && events[k].mc >= 0); /* what it carries */
            }
        }
    }
    hm_trace_free(t);
    free(rows), free(events);
}

static void recorded_timeline_shows_the_rows(void **state) {
    (void)state;
    struct hm_rng rng;
    hm_rng_seed(&rng, 3);
    for (int round = 0; round < 12; round++) {
        struct hm_synth_options o;
        hm_synth_defaults(&o);
        o.dp = 1 + (uint32_t)hm_rng_below(&rng, 3), o.pp = 1 + (uint32_t)hm_rng_below(&rng, 4);
        o.vpp = o.pp > 1 ? 1 + (uint32_t)hm_rng_below(&rng, 2) : 1, o.microbatches = 2 * o.pp;
        o.steps = 1 + (uint32_t)hm_rng_below(&rng, 11), o.seed = hm_rng_next(&rng), o.noise = 0.1;
        o.overlap_dp = hm_rng_below(&rng, 2);
        if (round % 2) o.p2p_s = 0; /* many ops of no duration, at the same time */
        if (round % 3 == 0) o.dp_comm_s = 0;
        assert_int_equal(hm_synth(in_folder("trace.parquet"), &o, NULL), 0);
        compare(in_folder("trace.parquet"), 3e-9);
    }
}

static void recorded_timeline_shows_real_rows(void **state) {
    (void)state;
    /* float32 times make neighbours overlap; AR by up to 137 microseconds */
    static const char *const traces[] = {"what-if/trace-AR.parquet", "what-if/trace-SE.parquet",
                                         "what-if-cases/trace-vpp2ov.parquet"};
    for (size_t k = 0; k < 3; k++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", HM_SHARED_DATA, traces[k]);
        if (access(path, R_OK) != 0)
            print_message("skipped: %s is absent\n", path);
        else
            compare(path, 2e-4);
    }
}

static void ideal_timeline_is_the_ideal_replay(void **state) {
    (void)state;
    struct hm_synth_options o;
    hm_synth_defaults(&o);
    const char *inject = "slow-worker:factor=1.5", *trace = in_folder("ideal.parquet"), *json = in_folder("ideal.json");
    o.inject = &inject, o.n_inject = 1, o.steps = 3, o.noise = 0.05, o.vpp = 2;
    struct hm_error err = {0};
    assert_int_equal(hm_synth(trace, &o, &err), 0);
    struct hm_trace *t = hm_trace_open(trace, NULL, &err);
    assert_non_null(t);
    struct hm_analysis *a = hm_analyze(t, NULL, &err);
    assert_non_null(a);
    assert_int_equal(hm_timeline_write(t, true, json, &err), 0);
    struct row *events = calloc(a->ops, sizeof *events);
    check_timeline(json, a->ops, events);
    double first = INFINITY, last = 0;
    for (size_t i = 0; i < a->ops && events[i].step == events[0].step; i++) {
        first = fmin(first, events[i].start);
        if (strcmp(events[i].type, "optimizer") == 0) last = fmax(last, events[i].start + events[i].duration);
    }
    assert_true(fabs(last - first - a->replayed_s / a->slowdown) < 1e-8);
    free(events);
    hm_analysis_free(a);
    hm_trace_free(t);
}

/* ---- tables ---- */

static size_t contents(const char *path, char **bytes) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    *bytes = calloc((size_t)n + 1, 1);
    assert_int_equal(fread(*bytes, 1, (size_t)n, f), n);
    fclose(f);
    return (size_t)n;
}

static void tables_come_back_from_the_other_format(void **state) {
    (void)state;
    struct hm_synth_options o;
    hm_synth_defaults(&o);
    o.noise = 0.1, o.vpp = 2, o.dp = 40, o.steps = 12; /* several row groups */
    const char *csv = in_folder("one.csv"), *parquet = in_folder("two.parquet"), *again = in_folder("three.csv");
    struct hm_error err = {0};
    assert_int_equal(hm_synth(csv, &o, &err), 0);
    assert_int_equal(hm_convert(&csv, 1, parquet, false, 2, &err), 0);
    assert_int_equal(hm_convert(&parquet, 1, again, false, 2, &err), 0);
    char *a, *b;
    size_t n = contents(csv, &a);
    assert_int_equal(contents(again, &b), n);
    assert_memory_equal(a, b, n); /* every digit, in the same order */
    free(a), free(b);
    const char *twice[] = {csv, parquet}, *joined = in_folder("joined.csv");
    struct row *rows, *both;
    assert_int_equal(hm_convert(twice, 2, joined, false, 2, &err), 0);
    size_t one = read_rows(csv, &rows), two = read_rows(joined, &both);
    assert_int_equal(two, 2 * one);
    for (size_t i = 0; i < two; i++) assert_int_equal(by_op(&rows[i % one], &both[i]), 0);
    free(rows), free(both);
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define HEADER "step,dp_rank,stage,optype,seq_id,start_ts,duration,rank,mc,mb_id,gmc\n"

static void holes_and_unknown_types_are_copied(void **state) {
    (void)state;
    const char *in = in_folder("holes.csv"), *out = in_folder("copied.csv");
    write_text(in, HEADER
               "3,0,0,forward-compute,0,0.5,1,0,0,0,0\n3,0,0,first-op,0,0,0.25,0,,,\n9,7,1,gc,4,2,0,0,-1,0,-1\n");
    assert_int_equal(hm_convert(&in, 1, out, false, 1, NULL), 0);
    char *text;
    contents(out, &text);
    assert_string_equal(text, "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n"
                              "0,0,0,3,forward-compute,0.5,1.0,0,0,0,0\n0,0,0,3,first-op,0.0,0.25,0,-1,-1,-1\n"
                              "7,1,0,9,gc,2.0,0.0,4,-1,0,-1\n");
    free(text);
}

static void impossible_rows_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {{HEADER "3,0,0,gc,0,nan,1,0,0,0,0\n", "start_ts is not a number"},
                 {HEADER "3,0,0,gc,0,0,-1,0,0,0,0\n", "duration is negative"},
                 {HEADER "3,99999,0,gc,0,0,1,0,0,0,0\n", "dp_rank is outside"},
                 {"step,dp_rank\n1,2\n", "has no column"},
                 {"", "is empty"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *in = in_folder("bad.csv"), *out = in_folder("never.parquet");
        struct hm_error err = {0};
        write_text(in, cases[k].text);
        assert_int_equal(hm_convert(&in, 1, out, false, 1, &err), -1);
        assert_int_equal(err.code, HM_ERR_INPUT);
        if (!strstr(err.message, cases[k].says) || !strstr(err.message, "bad.csv")) fail_msg("%s", err.message);
        assert_int_equal(access(out, F_OK), -1);
    }
    const char *in = in_folder("absent.csv");
    struct hm_error err = {0};
    assert_int_equal(hm_convert(&in, 1, in_folder("never.parquet"), false, 1, &err), -1);
    assert_int_equal(err.code, HM_ERR_IO);
    assert_int_equal(hm_convert(&in, 0, in_folder("never.parquet"), false, 1, &err), -1);
    assert_int_equal(err.code, HM_ERR_ARGUMENT);
}

static void every_failure_leaves_nothing(void **state) {
    (void)state;
    struct hm_synth_options o;
    hm_synth_defaults(&o);
    o.dp = 2, o.pp = 2, o.steps = 2, o.microbatches = 2;
    const char *trace = in_folder("small.parquet");
    char path[128], made[160], empty[160];
    (void)snprintf(made, sizeof made, "mkdir -p '%s/faults'", folder);
    (void)snprintf(empty, sizeof empty, "test -z \"$(ls -A '%s/faults')\"", folder);
    assert_int_equal(system(made), 0);
    assert_int_equal(hm_synth(trace, &o, NULL), 0);
    struct hm_trace *t = hm_trace_open(trace, NULL, NULL);
    assert_non_null(t);
    for (int what = 0; what < 3; what++) {
        int failures = 0;
        (void)snprintf(path, sizeof path, "%s/faults/%s", folder, what == 2 ? "t.parquet" : "t.json.gz");
        for (long k = 1;; k++) {
            struct hm_error err = {0};
            hm_fault_after = k;
            int status =
                what == 2 ? hm_convert(&trace, 1, path, false, 1, &err) : hm_timeline_write(t, what == 1, path, &err);
            bool used = hm_fault_after <= 0;
            hm_fault_after = 0;
            if (!used) {
                assert_int_equal(status, 0);
                break;
            }
            assert_int_equal(status, -1);
            assert_true(err.code == HM_ERR_MEMORY || err.code == HM_ERR_IO);
            assert_int_equal(system(empty), 0);
            failures++;
        }
        assert_true(failures > 10);
        unlink(path);
    }
    hm_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_timeline_shows_the_rows),   cmocka_unit_test(recorded_timeline_shows_real_rows),
        cmocka_unit_test(ideal_timeline_is_the_ideal_replay), cmocka_unit_test(tables_come_back_from_the_other_format),
        cmocka_unit_test(holes_and_unknown_types_are_copied), cmocka_unit_test(impossible_rows_are_refused),
        cmocka_unit_test(every_failure_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
