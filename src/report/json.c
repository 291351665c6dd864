/* json.c - an analysis as JSON, schema hindmost.analysis/1 (docs/json.md). */
#include "base/base.h"
#include "hindmost/hindmost.h"

#include <inttypes.h>
#include <stdio.h>

static void number_or_zero_size(struct hm_json *j, const char *key, size_t n) {
    if (n)
        hm_json_integer(j, key, (int64_t)n);
    else
        hm_json_null(j, key);
}

static void job(struct hm_json *j, const struct hm_analysis *a) {
    hm_json_object(j, "job");
    hm_json_string(j, "name", a->name);
    number_or_zero_size(j, "dp", a->dp);
    number_or_zero_size(j, "pp", a->pp);
    number_or_zero_size(j, "tp", a->tp);
    number_or_zero_size(j, "cp", a->cp);
    number_or_zero_size(j, "vpp", a->vpp);
    number_or_zero_size(j, "world", a->world);
    hm_json_integer(j, "workers", (int64_t)(a->dp * a->pp));
    hm_json_integer(j, "steps", (int64_t)a->n_steps);
    hm_json_integer(j, "ops", (int64_t)a->ops);
    hm_json_array(j, "dropped");
    for (size_t i = 0; i < a->n_dropped; i++) {
        hm_json_object(j, NULL);
        hm_json_string(j, "what", a->dropped[i].what);
        hm_json_integer(j, "count", (int64_t)a->dropped[i].count);
        hm_json_string(j, "why", a->dropped[i].why);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
    hm_json_end_object(j);
}

static void steps(struct hm_json *j, const struct hm_analysis *a) {
    hm_json_array(j, "steps");
    for (size_t i = 0; i < a->n_steps; i++) {
        hm_json_object(j, NULL);
        hm_json_integer(j, "step", a->steps[i].step);
        hm_json_number(j, "actual_s", a->steps[i].actual_s);
        hm_json_number(j, "replayed_s", a->steps[i].replayed_s);
        hm_json_number(j, "ideal_s", a->steps[i].ideal_s);
        hm_json_number(j, "slowdown", a->steps[i].slowdown);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

static void array(struct hm_json *j, const char *key, const double *x, size_t n, size_t stride) {
    hm_json_array(j, key);
    for (size_t i = 0; i < n; i++) hm_json_number(j, NULL, x[i * stride]);
    hm_json_end_array(j);
}

/* [pp] rows of [dp] values, `stride` apart. */
static void rows(struct hm_json *j, const char *key, const double *x, const struct hm_analysis *a, size_t stride) {
    hm_json_array(j, key);
    for (size_t s = 0; s < a->pp; s++) array(j, NULL, x + s * a->dp * stride, a->dp, stride);
    hm_json_end_array(j);
}

static void share(struct hm_json *j, const char *key, const struct hm_share *s, const struct hm_worker *workers, size_t n) {
    hm_json_object(j, key);
    hm_json_number(j, "value", s->value);
    hm_json_number(j, "add", s->add);
    if (workers) {
        hm_json_array(j, "workers");
        for (size_t i = 0; i < n; i++) {
            hm_json_object(j, NULL);
            hm_json_integer(j, "stage", workers[i].stage);
            hm_json_integer(j, "dp_rank", workers[i].dp_rank);
            hm_json_end_object(j);
        }
        hm_json_end_array(j);
    }
    hm_json_end_object(j);
}

static void each_step(struct hm_json *j, const struct hm_analysis *a) {
    size_t n = a->n_steps;
    hm_json_object(j, "per_step");
    static const char *const keys[] = {"by_op_type", "by_stage", "by_dp_rank", "by_worker"};
    for (size_t k = 0; k < 4; k++) {
        hm_json_object(j, keys[k]);
        for (size_t i = 0; i < n; i++) {
            char step[24];
            (void)snprintf(step, sizeof step, "%" PRId64, a->steps[i].step);
            if (k == 0) {
                hm_json_object(j, step);
                for (size_t f = 0; f < a->n_families; f++) hm_json_number(j, a->by_op_type[f].name, a->step_by_op_type[f * n + i]);
                hm_json_end_object(j);
            } else if (k == 1) {
                array(j, step, a->step_by_stage + i, a->pp, n);
            } else if (k == 2) {
                array(j, step, a->step_by_dp_rank + i, a->dp, n);
            } else {
                rows(j, step, a->step_by_worker + i, a, n);
            }
        }
        hm_json_end_object(j);
    }
    hm_json_end_object(j);
}

void hm_analysis_write_json(const struct hm_analysis *a, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 2);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "schema", "hindmost.analysis/1");
    job(&j, a);
    steps(&j, a);
    hm_json_object(&j, "mean_step_s");
    hm_json_number(&j, "actual", a->actual_s);
    hm_json_number(&j, "replayed", a->replayed_s);
    hm_json_number(&j, "ideal", a->ideal_s);
    hm_json_end_object(&j);
    hm_json_number(&j, "discrepancy", a->discrepancy);
    hm_json_number(&j, "slowdown", a->slowdown);
    hm_json_number(&j, "waste", a->waste);
    hm_json_object(&j, "by_op_type");
    for (size_t f = 0; f < a->n_families; f++) hm_json_number(&j, a->by_op_type[f].name, a->by_op_type[f].slowdown);
    hm_json_end_object(&j);
    array(&j, "by_stage", a->by_stage, a->pp, 1);
    array(&j, "by_dp_rank", a->by_dp_rank, a->dp, 1);
    hm_json_string(&j, "attribution", a->attribution == HM_ATTRIBUTION_PAPER ? "paper" : "exact");
    rows(&j, "by_worker", a->by_worker, a, 1);
    share(&j, "worker_share", &a->worker_share, a->share_workers, a->n_share_workers);
    share(&j, "last_stage_share", &a->last_stage_share, NULL, 0);
    if (a->step_by_stage) each_step(&j, a);
    hm_json_number(&j, "evaluated_ops", a->evaluated);
    hm_json_end_object(&j);
    hm_json_finish(&j);
}
