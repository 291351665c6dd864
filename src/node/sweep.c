/* sweep.c - runs the tests of one node within a time budget and judges what they say. */
#include "base/json_file.h"
#include "node/sweep.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double TOLERANCE = 0.05; /* SuperBench's 5 % */
enum { HISTORY_MIN = 3 };

struct hm_test *hm_sweep_add(struct hm_sweep *s, const char *name, const char *unit, double precision,
                             const char *absent) {
    struct hm_test *grown = hm_grow(s->test, s->count, &s->room, sizeof *grown);
    if (!grown) return NULL;
    s->test = grown;
    struct hm_test *t = &grown[s->count++];
    *t = (struct hm_test){.unit = unit,
                          .precision = precision,
                          .absent = absent,
                          .value = NAN,
                          .baseline = NAN,
                          .variance = NAN,
                          .verdict = HM_UNKNOWN};
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

int hm_sweep_sample(struct hm_test *t, double value) {
    double *grown = hm_grow(t->sample, t->count, &t->room, sizeof *grown);
    if (!grown) return -1;
    t->sample = grown;
    grown[t->count++] = value;
    return 0;
}

bool hm_sweep_fits(double begin, double seconds, double need) {
    return hm_now_s() - begin + need <= seconds;
}

bool hm_sweep_again(const struct hm_test *t, double begin, double seconds, size_t most) {
    if (t->count == 0) return true;
    return t->count < most && hm_sweep_fits(begin, seconds, (hm_now_s() - begin) / (double)t->count);
}

struct hm_test *hm_sweep_leave_out(struct hm_sweep *s, const char *name, const char *unit, double precision,
                                   double need, double have) {
    struct hm_test *t = hm_sweep_add(s, name, unit, precision, "the budget is too short");
    if (!t) return NULL;
    t->left_out = true;
    snprintf(t->why, sizeof t->why, "left out: needs about %.2g s and had %.2g s of the budget", need, fmax(0, have));
    return t;
}

/* ---- judging ---- */

/* The baseline of a test from this node's own earlier sweeps; NaN if they are fewer than three. */
static double own_history(const struct hm_sweep *s, const struct hm_results *r, const struct hm_test *t) {
    long m = hm_results_metric(r, t->name);
    double *x = m >= 0 ? hm_alloc(r->nodes, sizeof *x) : NULL;
    size_t n = 0, kept = 0;
    for (size_t i = 0; x && i < r->nodes; i++)
        if (strcmp(r->node[i], s->node) == 0) x[n++] = r->value[i * r->metrics + (size_t)m];
    double b = x ? hm_learn_baseline(x, n, fmax(TOLERANCE, t->precision), hm_lower_is_better(t->name), &kept) : NAN;
    hm_free(x);
    return kept >= HISTORY_MIN ? b : NAN;
}

static double given(const struct hm_sweep *s, const json_t *file, const char *name) {
    const json_t *b = json_object_get(file, s->class_name);
    const json_t *v = json_object_get(json_is_object(b) ? b : file, name);
    char stem[64];
    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, ":"), name);
    if (!v) v = json_object_get(json_is_object(b) ? b : file, stem);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Within what the test itself scatters nothing can be said: it fails beyond 5 % and its precision, and warns beyond half
 * of that. What the budget cut short scatters more: three times that is allowed. */
static void judge(struct hm_test *t, const char *against) {
    if (!t->absent && !*t->shortened && t->count < t->least)
        snprintf(t->shortened, sizeof t->shortened, "%zu of %zu repeats", t->count, t->least);
    double fail = fmax(TOLERANCE, t->precision) * (*t->shortened ? 3 : 1);
    if (t->left_out) {
        return; /* why stands there */
    } else if (t->absent) {
        snprintf(t->why, sizeof t->why, "absent: %s", t->absent);
    } else if (t->exact) {
        t->verdict = t->value > 0 ? HM_FAIL : HM_PASS;
        snprintf(t->why, sizeof t->why,
                 t->value > 0 ? "the same product gave other bits: silent data corruption"
                              : "all repeats have the same bits");
    } else if (strncmp(t->name, "sensors/", 8) == 0 && strstr(t->name, "throttle_count")) {
        t->verdict = t->value > 0 ? HM_WARN : HM_PASS;
        snprintf(t->why, sizeof t->why, t->value > 0 ? "it throttled during the run" : "no throttling");
    } else if (isnan(t->baseline) || t->baseline == 0) {
        snprintf(t->why, sizeof t->why, "no baseline, and fewer than %d earlier sweeps of this node that agree",
                 HISTORY_MIN);
    } else {
        t->variance = (t->value - t->baseline) / t->baseline;
        bool lower = hm_lower_is_better(t->name) || strstr(t->name, "temperature_max_c");
        double worse = lower ? t->variance : -t->variance;
        t->verdict = worse > fail ? HM_FAIL : worse > fmax(TOLERANCE, fail / 2) ? HM_WARN : HM_PASS;
        if (strncmp(t->name, "sensors/", 8) == 0 && t->verdict == HM_FAIL) t->verdict = HM_WARN;
        snprintf(t->why, sizeof t->why, "%.1f%% %s than %s; fails beyond %.0f%%", fabs(worse) * 100,
                 worse > 0 ? "worse" : "better", against, fail * 100);
    }
    size_t used = strlen(t->why);
    if (*t->shortened)
        snprintf(t->why + used, sizeof t->why - used, "; shortened to keep the budget: %s", t->shortened);
}

static int judge_all(struct hm_sweep *s, const struct hm_sweep_options *o, struct hm_error *err) {
    json_t *file = NULL;
    struct hm_results history = {0};
    if (o->baseline && !(file = hm_json_load(o->baseline, "make one with node judge --learn", err))) return -1;
    if (file && !json_is_object(file)) {
        json_decref(file);
        return hm_fail(err, HM_ERR_INPUT, "%s: no JSON object metric -> value; make one with node judge --learn",
                       o->baseline);
    }
    if (!file && o->history && access(o->history, F_OK) == 0 && hm_results_read(&history, o->history, err) != 0)
        return -1;
    s->against = file ? "the baseline" : "its own history";
    bool any = false;
    enum hm_verdict worst = HM_PASS;
    for (size_t i = 0; i < s->count; i++) {
        struct hm_test *t = &s->test[i];
        if (t->count) t->value = hm_median(t->sample, t->count);
        if (t->count && !t->exact) t->baseline = file ? given(s, file, t->name) : own_history(s, &history, t);
        judge(t, s->against);
        any = any || !isnan(t->variance);
        if (t->verdict == HM_FAIL || (t->verdict == HM_WARN && worst == HM_PASS)) worst = t->verdict;
    }
    s->verdict = worst == HM_PASS && !any ? HM_UNKNOWN : worst;
    json_decref(file);
    hm_results_free(&history);
    return 0;
}

/* ---- running ---- */

static int usable_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int run_tests(struct hm_sweep *s, const struct hm_sweep_options *o, struct hm_error *err) {
    static const struct {
        const char *name;
        int (*run)(struct hm_sweep *, double, struct hm_error *);
        double share; /* of the budget */
    } groups[] = {
        {"GPU", hm_sweep_gpu, 0.4},      {"GEMM", hm_sweep_gemm, 0.2},           {"memory", hm_sweep_memory, 0.12},
        {"cache", hm_sweep_cache, 0.13}, {"core to core", hm_sweep_cores, 0.05}, {"disk", hm_sweep_disk, 0.1}};
    double begin = hm_now_s(), left = 1;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        double elapsed = hm_now_s() - begin; /* what a group does not need (no GPU) goes to those that follow */
        if (o->progress && o->progress(o->context, groups[i].name, elapsed, o->budget_s) != 0)
            return hm_fail(err, HM_ERR_CANCELLED, "sweep: stopped");
        if (groups[i].run(s, fmax(0, o->budget_s - elapsed) * groups[i].share / left, err) != 0) return -1;
        left -= groups[i].share;
    }
    return 0;
}

struct hm_sweep *hm_sweep_run(const struct hm_sweep_options *o, struct hm_error *err) {
    struct hm_sweep *s = hm_alloc(1, sizeof *s);
    if (!s) {
        hm_fail_memory(err);
        return NULL;
    }
    if (o->node)
        snprintf(s->node, sizeof s->node, "%s", o->node);
    else if (gethostname(s->node, sizeof s->node - 1) != 0)
        snprintf(s->node, sizeof s->node, "localhost");
    snprintf(s->class_name, sizeof s->class_name, "%s", o->class_name ? o->class_name : "");
    s->folder = o->folder ? o->folder : "/tmp";
    s->threads = o->threads > 0 ? o->threads : usable_cores();
    struct hm_sensors *sensors = hm_sensors_start();
    int status = run_tests(s, o, err);
    if (hm_sensors_stop(sensors, s) != 0 && status == 0) status = hm_fail_memory(err);
    if (status == 0) status = judge_all(s, o, err);
    if (status == 0) return s;
    hm_sweep_free(s);
    return NULL;
}

void hm_sweep_free(struct hm_sweep *s) {
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) hm_free(s->test[i].sample);
    hm_free(s->test);
    hm_free(s);
}

enum hm_verdict hm_sweep_verdict(const struct hm_sweep *s) {
    return s->verdict;
}

void hm_sweep_write_json(const struct hm_sweep *s, struct hm_out *out) {
    struct hm_json w;
    hm_json_begin(&w, out, 2);
    hm_json_object(&w, NULL);
    hm_json_string(&w, "schema", "hindmost.sweep/1");
    hm_json_string(&w, "node", s->node);
    hm_json_string(&w, "class", s->class_name);
    hm_json_string(&w, "verdict", hm_verdict_name(s->verdict));
    hm_json_string(&w, "against", s->against);
    hm_json_array(&w, "tests");
    for (size_t i = 0; i < s->count; i++) {
        const struct hm_test *t = &s->test[i];
        hm_json_object(&w, NULL);
        hm_json_string(&w, "name", t->name);
        hm_json_number(&w, "value", t->value);
        hm_json_string(&w, "unit", t->unit);
        hm_json_number(&w, "baseline", t->baseline);
        hm_json_number(&w, "variance", t->variance);
        hm_json_string(&w, "verdict", t->left_out ? "left-out" : t->absent ? "absent" : hm_verdict_name(t->verdict));
        hm_json_string(&w, "why", t->why);
        hm_json_number(&w, "precision", t->precision);
        hm_json_integer(&w, "repeats", (int64_t)t->count);
        hm_json_end_object(&w);
    }
    hm_json_end_array(&w);
    hm_json_end_object(&w);
    hm_json_finish(&w);
}

void hm_sweep_write_text(const struct hm_sweep *s, struct hm_out *out) {
    hm_out_printf(out, "%s: %s (judged against %s)\n", s->node, hm_verdict_name(s->verdict), s->against);
    for (size_t i = 0; i < s->count; i++) {
        const struct hm_test *t = &s->test[i];
        if (t->absent)
            hm_out_printf(out, "  %-28s %-10s %s\n", t->name, t->left_out ? "left out" : "absent", t->absent);
        else
            hm_out_printf(out, "  %-28s %-8s %12.6g %-8s %s\n", t->name, hm_verdict_name(t->verdict), t->value, t->unit,
                          t->why);
    }
}

int hm_sweep_append(const struct hm_sweep *s, const char *path, struct hm_error *err) {
    json_t *row = json_pack("{s:s, s:s}", "node", s->node, "class", s->class_name);
    for (size_t i = 0; row && i < s->count; i++) {
        const struct hm_test *t = &s->test[i];
        json_t *values = t->absent ? NULL : json_array();
        for (size_t k = 0; values && k < t->count && k < 1000; k++)
            json_array_append_new(values, json_real(t->sample[k]));
        if (values) json_object_set_new(row, t->name, values);
    }
    char *text = row ? json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(row);
    char *line = text ? hm_sprintf("%s\n", text) : NULL;
    free(text);
    if (!line) return hm_fail_memory(err);
    /* One write to an appending file: lines of several nodes on a shared disk do not mix, and none is half there. */
    FILE *f = fopen(path, "a");
    int status = 0;
    if (!f || setvbuf(f, NULL, _IOFBF, strlen(line) + 1) != 0 || fputs(line, f) < 0)
        status = hm_fail(err, HM_ERR_IO, "%s: %s; name a file that may be written", path, strerror(errno));
    if (f && fclose(f) != 0 && status == 0) status = hm_fail(err, HM_ERR_IO, "%s: %s", path, strerror(errno));
    hm_free(line);
    return status;
}
