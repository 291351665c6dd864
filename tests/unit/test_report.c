/* test_report.c - what goes into the page and the heatmap pictures: packed numbers, the timeline against the replay, PNG and SVG read back,
 * every allocation and write failing in turn. */
#include "hindmost/report.h"
#include "jobs.h"
#include "report/draw.h"
#include "report/page_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* ---- helpers ---------------------------------------------------------------------------------------------------------------- */

static char *read_all(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is not there", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *bytes = calloc(*size + 1, 1);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

/* The inverse of hm_pack, from its description. */
static int32_t *unpack(const char *text, size_t *n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = strlen(text), bytes = 0;
    unsigned char *packed = malloc(length + 3), *planes = malloc(1 << 24);
    for (size_t i = 0; i + 4 <= length; i += 4) {
        uint32_t word = 0;
        for (size_t k = 0; k < 4; k++)
            word = word << 6 | (text[i + k] == '=' ? 0 : (uint32_t)(strchr(digits, text[i + k]) - digits));
        for (size_t k = 0; k < 3; k++) packed[bytes++] = (unsigned char)(word >> (16 - 8 * k));
    }
    uLongf size = 1 << 24;
    assert_int_equal(uncompress(planes, &size, packed, bytes), Z_OK);
    *n = size / 4;
    int32_t *values = malloc(size + 4);
    for (size_t i = 0; i < *n; i++)
        values[i] = (int32_t)((uint32_t)planes[i] | (uint32_t)planes[*n + i] << 8 | (uint32_t)planes[2 * *n + i] << 16 |
                              (uint32_t)planes[3 * *n + i] << 24);
    free(packed);
    free(planes);
    return values;
}

struct opened {
    struct job *job;
    struct hm_trace *trace;
    struct hm_analysis *analysis;
};

static struct opened open_job(uint64_t seed, const struct job_options *o) {
    struct opened x = {.job = job_make(seed, o)};
    struct hm_error err = {0};
    const char *path = job_path("report.csv");
    job_write(x.job, path, &(struct job_table){0});
    x.trace = hm_trace_open(path, NULL, &err);
    if (!x.trace) fail_msg("%s", err.message);
    x.analysis = hm_analyze(x.trace, &(struct hm_analysis_options){.per_step = true, .threads = 1}, &err);
    if (!x.analysis) fail_msg("%s", err.message);
    return x;
}

static void close_job(struct opened *x) {
    hm_analysis_free(x->analysis);
    hm_trace_free(x->trace);
    job_free(x->job);
}

static json_t *json_in_page(const char *page, const char *id) {
    char mark[64];
    (void)snprintf(mark, sizeof mark, "<script id=\"%s\" type=\"application/json\">", id);
    const char *at = strstr(page, mark);
    assert_non_null(at);
    at += strlen(mark);
    json_error_t why;
    json_t *json = json_loadb(at, (size_t)(strstr(at, "</script>") - at), 0, &why);
    if (!json) fail_msg("%s: %s", id, why.text);
    return json;
}

/* ---- packing ------------------------------------------------------------------------------------------------------------------ */

static void packed_integers_come_back(void **state) {
    (void)state;
    struct hm_rng rng;
    hm_rng_seed(&rng, 5);
    for (size_t n = 0; n < 300; n++) {
        int32_t values[300];
        for (size_t i = 0; i < n; i++) values[i] = (int32_t)(hm_rng_next(&rng) >> (32 + n % 31));
        if (n > 2) values[0] = INT32_MIN, values[1] = INT32_MAX, values[2] = -1;
        char *text = hm_pack(values, n);
        assert_non_null(text);
        size_t got;
        int32_t *back = unpack(text, &got);
        assert_int_equal(got, n);
        assert_memory_equal(back, values, n * sizeof *values);
        free(back);
        hm_free(text);
    }
}

/* ---- the page ----------------------------------------------------------------------------------------------------------------- */

/* The timeline's recorded times are the job's own, its ideal ends with the ideal step. */
static void timeline_shows_what_was_recorded(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct opened x = open_job(seed, &(struct job_options){.overlap = -1});
        const struct hm_analysis *a = x.analysis;
        const char *path = job_path("report.html");
        struct hm_error err = {0};
        if (hm_report_html(x.trace, a, NULL, path, &err) != 0) fail_msg("%s", err.message);
        size_t size;
        char *page = read_all(path, &size);
        json_t *extra = json_in_page(page, "extra"), *timeline = json_object_get(extra, "timeline"), *replica;
        size_t step = (size_t)json_integer_value(json_object_get(timeline, "step")), k;
        double tick = json_number_value(json_object_get(timeline, "tick_s"));
        for (size_t i = 0; i < a->n_steps; i++) assert_true(a->steps[i].slowdown <= a->steps[step].slowdown);
        json_array_foreach(json_object_get(timeline, "replicas"), k, replica) {
            size_t n;
            int32_t *start = unpack(json_string_value(json_object_get(replica, "start")), &n),
                    *end = unpack(json_string_value(json_object_get(replica, "end")), &n),
                    *move = unpack(json_string_value(json_object_get(replica, "move")), &n);
            assert_int_equal(n, x.trace->job->n_slots);
            const json_t *dp = json_object_get(replica, "dp_rank");
            double last = 0;
            for (size_t i = 0; i < n; i++) {
                assert_true(start[i] <= move[i] && move[i] <= end[i]);
                last = fmax(last, end[i] * tick);
                if (json_is_null(dp)) continue;
                const struct hm_slot *slot = &x.trace->job->slot[i];
                const struct job *j = x.job;
                int op = 0;
                while (j->op[op].stage != (int)slot->stage || j->op[op].type != (int)slot->cls ||
                       j->op[op].seq != (int)slot->seq)
                    op++;
                double first = INFINITY; /* pages count from the first launch */
                for (int d = 0; d < j->dp; d++)
                    for (int o = 0; o < j->n_ops; o++)
                        first = fmin(first, j->start[((int)step * j->dp + d) * j->n_ops + o]);
                size_t at = (size_t)(((int)step * j->dp + (int)json_integer_value(dp)) * j->n_ops + op);
                assert_true(fabs(start[i] * tick - (j->start[at] - first)) < 2 * tick);
                /* the recording's end, but for the microseconds by which members of a group end apart */
                assert_true(fabs(end[i] * tick - (j->start[at] + j->recorded[at] - first)) < 2 * tick);
            }
            if (json_is_null(dp)) assert_true(fabs(last - a->steps[step].ideal_s) < 2 * tick);
            free(start);
            free(move);
            free(end);
        }
        json_decref(extra);
        free(page);
        close_job(&x);
    }
}

static void every_steps_workers_are_in_the_page(void **state) {
    (void)state;
    struct opened x = open_job(7, &(struct job_options){.pp = 3, .dp = 4, .steps = 9});
    const struct hm_analysis *a = x.analysis;
    const char *path = job_path("steps.html");
    assert_int_equal(hm_report_html(x.trace, a, NULL, path, NULL), 0);
    size_t size, n;
    char *page = read_all(path, &size);
    json_t *extra = json_in_page(page, "extra"), *steps = json_object_get(extra, "workers_by_step"),
           *analysis = json_in_page(page, "analysis");
    int32_t *values = unpack(json_string_value(json_object_get(steps, "slowdown_e3")), &n);
    assert_int_equal(n, a->n_steps * a->pp * a->dp);
    for (size_t i = 0; i < a->n_steps; i++)
        for (size_t w = 0; w < a->pp * a->dp; w++)
            assert_true(fabs(values[i * a->pp * a->dp + w] / 1000.0 - a->step_by_worker[w * a->n_steps + i]) < 0.00051);
    assert_null(json_object_get(analysis, "per_step")); /* that would be too large for big jobs */
    assert_true(json_number_value(json_object_get(analysis, "slowdown")) == a->slowdown);
    free(values);
    free(page);
    json_decref(extra);
    json_decref(analysis);
    close_job(&x);
}

/* ---- colours and pictures ----------------------------------------------------------------------------------------------------- */

static double luminance(hm_rgb c) {
    double sum = 0;
    static const double weight[] = {0.2126, 0.7152, 0.0722};
    for (int k = 0; k < 3; k++) {
        double v = (c >> (16 - 8 * k) & 255) / 255.0;
        sum += weight[k] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static void hotter_is_always_darker_and_labels_stay_readable(void **state) {
    (void)state;
    double before = 2;
    for (double s = 0.9; s < 1.7; s += 0.01) {
        double l = luminance(hm_heat_color(s)), ink = luminance(hm_heat_ink(s));
        assert_true(s <= 1.0 || s > 1.51 || l < before);
        double contrast = (fmax(l, ink) + 0.05) / (fmin(l, ink) + 0.05);
        if (contrast < 3.9) fail_msg("contrast %.2f at %.2f", contrast, s);
        before = l;
    }
    assert_int_equal(hm_heat_color(1), 0xf3f5ee);
    assert_int_equal(hm_heat_color(1.5), 0x4f0f45);
    assert_int_equal(hm_heat_color(9), hm_heat_color(1.5));
    assert_int_equal(hm_heat_color(0.5), hm_heat_color(1));
    assert_int_not_equal(hm_heat_color(NAN), hm_heat_color(1));
}

struct picture {
    size_t w, h;
    unsigned char *rgb; /* rows with a leading filter byte */
};

static size_t big_endian(const char *bytes) {
    const unsigned char *b = (const unsigned char *)bytes;
    return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
}

/* Reads a PNG as the standard says, checking every chunk's CRC. */
static struct picture read_png(const char *path) {
    size_t size;
    char *bytes = read_all(path, &size);
    assert_memory_equal(bytes, "\x89PNG\r\n\x1a\n", 8);
    struct picture p = {0};
    for (size_t at = 8; at < size;) {
        size_t n = big_endian(bytes + at);
        const char *type = bytes + at + 4, *body = type + 4;
        assert_int_equal(crc32(0, (const unsigned char *)type, (uInt)n + 4), big_endian(body + n));
        if (memcmp(type, "IHDR", 4) == 0) {
            p.w = big_endian(body), p.h = big_endian(body + 4);
            assert_memory_equal(body + 8, "\x08\x02\x00\x00\x00", 5);
        } else if (memcmp(type, "IDAT", 4) == 0) {
            uLongf room = (uLongf)((p.w * 3 + 1) * p.h);
            p.rgb = malloc(room);
            assert_int_equal(uncompress(p.rgb, &room, (const unsigned char *)body, n), Z_OK);
            assert_int_equal(room, (p.w * 3 + 1) * p.h);
        }
        at += n + 12;
        if (memcmp(type, "IEND", 4) == 0) assert_int_equal(at, size);
    }
    free(bytes);
    return p;
}

static size_t pixels_of(const struct picture *p, hm_rgb color) {
    size_t n = 0;
    for (size_t y = 0; y < p->h; y++)
        for (size_t x = 0; x < p->w; x++) {
            const unsigned char *c = p->rgb + y * (p->w * 3 + 1) + 1 + x * 3;
            n += ((hm_rgb)c[0] << 16 | (hm_rgb)c[1] << 8 | c[2]) == color;
        }
    return n;
}

/* One hot worker among healthy ones: a cell of 56 x 30 less its line, at two pixels each way, less the ink of its label. */
static void png_shows_the_hot_worker(void **state) {
    (void)state;
    double by_worker[6] = {1, 1, 1, 1, 1.3, 1}, by_stage[2] = {1, 1}, by_dp[3] = {1, 1, NAN};
    struct hm_analysis a = {.name = "a <b> & \"c\"",
                            .dp = 3,
                            .pp = 2,
                            .by_worker = by_worker,
                            .by_stage = by_stage,
                            .by_dp_rank = by_dp,
                            .slowdown = 1.25};
    char path[128];
    (void)snprintf(path, sizeof path, "%s", job_path("map.png"));
    assert_int_equal(hm_heatmap_write(&a, path, NULL), 0);
    struct picture p = read_png(path);
    size_t hot = pixels_of(&p, hm_heat_color(1.3)), whole = 55 * 2 * 29 * 2;
    assert_true(hot > whole * 8 / 10 && hot <= whole + 200);
    assert_true(pixels_of(&p, hm_heat_color(1)) > 5 * whole * 8 / 10);
    assert_int_equal(pixels_of(&p, hm_heat_color(NAN)), 55 * 2 * 13 * 2);
    free(p.rgb);
    (void)snprintf(path, sizeof path, "%s", job_path("map.svg"));
    assert_int_equal(hm_heatmap_write(&a, path, NULL), 0);
    size_t size;
    char *svg = read_all(path, &size), fill[32];
    (void)snprintf(fill, sizeof fill, "height=\"29\" fill=\"#%06x\"", hm_heat_color(1.3));
    const char *first = strstr(svg, fill);
    assert_non_null(first);
    assert_null(strstr(first + 1, fill));
    assert_non_null(strstr(svg, "<title>a &lt;b> &amp; \"c\": slowdown 1.250</title>"));
    free(svg);
    struct hm_error err;
    assert_int_equal(hm_heatmap_write(&a, "map.jpg", &err), -1);
    assert_int_equal(err.code, HM_ERR_ARGUMENT);
}

static void wide_jobs_are_folded_not_cut(void **state) {
    (void)state;
    enum { DP = 3000, PP = 4 };
    double *by_worker = calloc((size_t)DP * PP, sizeof *by_worker), *by_dp = calloc(DP, sizeof *by_dp),
           by_stage[PP] = {1, 1, 1, 1};
    for (size_t i = 0; i < (size_t)DP * PP; i++) by_worker[i] = 1;
    for (size_t d = 0; d < DP; d++) by_dp[d] = 1;
    by_worker[3 * DP + 2999] = 1.35; /* the very last worker */
    struct hm_analysis a = {.name = "wide",
                            .dp = DP,
                            .pp = PP,
                            .by_worker = by_worker,
                            .by_stage = by_stage,
                            .by_dp_rank = by_dp,
                            .slowdown = 1.1};
    const char *path = job_path("wide.png");
    assert_int_equal(hm_heatmap_write(&a, path, NULL), 0);
    struct picture p = read_png(path);
    assert_true(p.w < 2300);
    assert_true(pixels_of(&p, hm_heat_color(1.35)) >= 4 * 2 * 4 * 2);
    free(p.rgb);
    free(by_worker);
    free(by_dp);
}

/* ---- faults ------------------------------------------------------------------------------------------------------------------- */

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static void nothing_is_left_when_something_fails(void **state) {
    (void)state;
    struct opened x = open_job(3, &(struct job_options){.pp = 2, .dp = 2, .steps = 3});
    static const char *const names[] = {"fault.html", "fault.png", "fault.svg"};
    for (int kind = 0; kind < 3; kind++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s", job_path(names[kind]));
        long n = 1;
        int status = -1;
        for (; status != 0; n += n < 40 ? 1 : 7) {
            struct hm_error err = {0};
            atomic_store(&hm_fault_after, n);
            status = kind == 0 ? hm_report_html(x.trace, x.analysis, NULL, path, &err)
                               : hm_heatmap_write(x.analysis, path, &err);
            atomic_store(&hm_fault_after, 0);
            if (status == 0) continue;
            assert_true(err.code == HM_ERR_MEMORY || err.code == HM_ERR_IO);
            assert_false(exists(path));
        }
        assert_true(n > 8 && exists(path));
    }
    close_job(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_integers_come_back),
        cmocka_unit_test(timeline_shows_what_was_recorded),
        cmocka_unit_test(every_steps_workers_are_in_the_page),
        cmocka_unit_test(hotter_is_always_darker_and_labels_stay_readable),
        cmocka_unit_test(png_shows_the_hot_worker),
        cmocka_unit_test(wide_jobs_are_folded_not_cut),
        cmocka_unit_test(nothing_is_left_when_something_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
