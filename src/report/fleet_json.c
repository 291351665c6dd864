/* fleet_json.c - one result of `hindmost analyze --json` (also gzipped) as a job of the fleet. */
#include "base/json_file.h"
#include "fleet.h"

#include <math.h>
#include <string.h>

static double number(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int64_t count(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return json_is_integer(v) && json_integer_value(v) > 0 ? json_integer_value(v) : 0;
}

/* A copy of a text. False without memory; *copy stays NULL if there is no such text. */
static bool text(const json_t *object, const char *key, const char **copy) {
    const json_t *v = json_object_get(object, key);
    return !json_is_string(v) || (*copy = hm_strdup(json_string_value(v))) != NULL;
}

/* Quantiles of step slowdown / job slowdown: how steady the slowness is (OSDI 2025, section 4.2). */
static bool step_quantiles(const json_t *result, struct hm_fleet_job *job) {
    const json_t *steps = json_object_get(result, "steps");
    size_t n = 0;
    const double replayed = number(result, "slowdown"); /* the steps' are without waits too */
    double *ratio = hm_alloc(json_array_size(steps) + 1, sizeof *ratio);
    if (!ratio) return false;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        double s = number(json_array_get(steps, i), "slowdown");
        if (isfinite(s)) ratio[n++] = s / replayed;
    }
    if (job->steps == 0) job->steps = (int64_t)json_array_size(steps);
    job->step_p50 = hm_quantile(ratio, n, 0.5);
    job->step_p90 = hm_quantile(ratio, n, 0.9);
    job->step_p99 = hm_quantile(ratio, n, 0.99);
    hm_free(ratio);
    return true;
}

/* The cause that a repair would win most from, and the names of all. */
static bool causes(const json_t *result, struct hm_fleet_job *job) {
    const json_t *list = json_object_get(result, "causes"), *most = NULL;
    struct hm_str names = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(c, "cause"));
        if (!name) continue;
        hm_str_add(&names, "%s%s", names.length ? "," : "", name);
        if (strcmp(name, "unexplained") == 0) continue;
        if (!most || number(c, "recovers") > number(most, "recovers")) most = c;
    }
    job->causes = names.text;
    if (most) {
        job->cause_recovers = number(most, "recovers");
        job->cause_confidence = number(most, "confidence");
    }
    return !names.failed && (!most || text(most, "cause", &job->cause));
}

static bool best_fix(const json_t *result, struct hm_fleet_job *job) {
    const json_t *list = json_object_get(result, "fixes"), *best = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *f = json_array_get(list, i);
        if (!best || number(f, "speedup") > number(best, "speedup")) best = f;
    }
    if (best) job->fix_speedup = number(best, "speedup");
    return !best || text(best, "fix", &job->fix);
}

static bool fill(const json_t *result, struct hm_fleet_job *job) {
    const json_t *layout = json_object_get(result, "job"), *mean = json_object_get(result, "mean_step_s");
    job->dp = count(layout, "dp"), job->pp = count(layout, "pp"), job->tp = count(layout, "tp"),
    job->cp = count(layout, "cp");
    job->vpp = count(layout, "vpp"), job->world = count(layout, "world"), job->workers = count(layout, "workers");
    job->steps = count(layout, "steps");
    if (job->world == 0) job->world = job->workers;
    job->actual_s = number(mean, "actual"), job->replayed_s = number(mean, "replayed"),
    job->ideal_s = number(mean, "ideal");
    job->discrepancy = number(result, "discrepancy");
    job->waste = 1 - 1 / job->slowdown;
    job->worker_share = number(json_object_get(result, "worker_share"), "value");
    job->last_stage_share = number(json_object_get(result, "last_stage_share"), "value");
    bool good =
        text(layout, "name", &job->name) && step_quantiles(result, job) && causes(result, job) && best_fix(result, job);
    job->gpu_hours = number(result, "gpu_hours");
    if (isnan(job->gpu_hours)) job->gpu_hours = number(layout, "gpu_hours");
    if (isnan(job->gpu_hours)) job->gpu_hours = (double)job->world * job->actual_s * (double)job->steps / 3600;
    if (!(job->gpu_hours >= 0)) job->gpu_hours = 0;
    return good;
}

int hm_fleet_job_read_json(const char *path, struct hm_fleet_job *job, struct hm_error *err) {
    json_t *result = hm_json_load(path, "write it again with hindmost analyze --json", err);
    if (!result) return -1;
    const char *schema = json_string_value(json_object_get(result, "schema"));
    int status = 0;
    job->slowdown = number(result, "slowdown_real"); /* with the waits that replays leave out */
    if (!isfinite(job->slowdown)) job->slowdown = number(result, "slowdown"); /* an older result */
    if (!schema || strcmp(schema, "hindmost.analysis/1") != 0)
        status = hm_fail(err, HM_ERR_INPUT,
                         "%s: not a result of hindmost analyze: its schema is %s, not hindmost.analysis/1", path,
                         schema ? schema : "missing");
    else if (!isfinite(job->slowdown) || job->slowdown <= 0)
        status = hm_fail(err, HM_ERR_INPUT, "%s: the result has no slowdown; analyse that job again", path);
    else if (!fill(result, job))
        status = hm_fail_memory(err);
    json_decref(result);
    return status;
}
