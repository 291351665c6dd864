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

static void share(struct hm_json *j, const char *key, const struct hm_share *s, const struct hm_worker *workers,
                  size_t n) {
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
                for (size_t f = 0; f < a->n_families; f++)
                    hm_json_number(j, a->by_op_type[f].name, a->step_by_op_type[f * n + i]);
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

static void where(struct hm_json *j, const struct hm_cause *c) {
    hm_json_object(j, "where");
    if (c->n_workers) {
        hm_json_array(j, "workers");
        for (size_t i = 0; i < c->n_workers; i++) {
            hm_json_object(j, NULL);
            hm_json_integer(j, "stage", c->workers[i].stage);
            hm_json_integer(j, "dp_rank", c->workers[i].dp_rank);
            hm_json_end_object(j);
        }
        hm_json_end_array(j);
    }
    if (c->n_stages) {
        hm_json_array(j, "stages");
        for (size_t i = 0; i < c->n_stages; i++) hm_json_integer(j, NULL, c->stages[i]);
        hm_json_end_array(j);
    }
    if (c->n_dp_ranks) {
        hm_json_array(j, "dp_ranks");
        for (size_t i = 0; i < c->n_dp_ranks; i++) hm_json_integer(j, NULL, c->dp_ranks[i]);
        hm_json_end_array(j);
    }
    if (c->n_steps) {
        hm_json_array(j, "steps");
        for (size_t i = 0; i < c->n_steps; i++) hm_json_integer(j, NULL, c->steps[i]);
        hm_json_end_array(j);
    }
    if (c->n_step_ranges) {
        hm_json_array(j, "step_ranges");
        for (size_t i = 0; i < c->n_step_ranges; i++) {
            hm_json_array(j, NULL);
            hm_json_integer(j, NULL, c->step_ranges[i].first);
            hm_json_integer(j, NULL, c->step_ranges[i].last);
            hm_json_end_array(j);
        }
        hm_json_end_array(j);
    }
    if (c->n_op_types) {
        hm_json_array(j, "op_types");
        for (size_t i = 0; i < c->n_op_types; i++) hm_json_string(j, NULL, c->op_types[i]);
        hm_json_end_array(j);
    }
    hm_json_end_object(j);
}

static void causes(struct hm_json *j, const struct hm_diagnosis *d) {
    hm_json_array(j, "causes");
    for (size_t i = 0; i < d->n_causes; i++) {
        const struct hm_cause *c = &d->causes[i];
        hm_json_object(j, NULL);
        hm_json_string(j, "cause", c->cause);
        hm_json_number(j, "confidence", c->confidence);
        hm_json_number(j, "recovers", c->recovers);
        hm_json_array(j, "evidence");
        for (size_t k = 0; k < c->n_evidence; k++) {
            const struct hm_evidence *e = &c->evidence[k];
            hm_json_object(j, NULL);
            hm_json_string(j, "name", e->name);
            hm_json_number(j, "value", e->value);
            hm_json_string(j, "unit", e->unit);
            if (e->n_points) {
                hm_json_string(j, "x_label", e->x_label);
                hm_json_string(j, "y_label", e->y_label);
                array(j, "x", e->x, e->n_points, 1);
                array(j, "y", e->y, e->n_points, 1);
            }
            hm_json_end_object(j);
        }
        hm_json_end_array(j);
        where(j, c);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

static void fixes(struct hm_json *j, const struct hm_diagnosis *d) {
    hm_json_array(j, "fixes");
    for (size_t i = 0; i < d->n_fixes; i++) {
        hm_json_object(j, NULL);
        hm_json_string(j, "fix", d->fixes[i].fix);
        hm_json_number(j, "step_s", d->fixes[i].step_s);
        hm_json_number(j, "speedup", d->fixes[i].speedup);
        hm_json_string(j, "how", d->fixes[i].how);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

void hm_analysis_write_json(const struct hm_analysis *a, const struct hm_diagnosis *d, struct hm_out *out) {
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
    hm_json_number(&j, "slowdown_real", a->slowdown_real);
    hm_json_object(&j, "lost_s");
    hm_json_number(&j, "stragglers", a->lost.stragglers_s);
    hm_json_number(&j, "launch_waits", a->lost.launch_waits_s);
    hm_json_number(&j, "left_out_waits", a->lost.left_out_waits_s);
    hm_json_end_object(&j);
    rows(&j, "late_s", a->late_s, a, 1);
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
    if (d) {
        causes(&j, d);
        fixes(&j, d);
        if (d->n_edges) array(&j, "edge_slack_s", d->edge_slack_s, d->n_edges, 1);
        hm_json_array(&j, "cannot_tell");
        for (size_t i = 0; i < d->n_cannot_tell; i++) hm_json_string(&j, NULL, d->cannot_tell[i]);
        hm_json_end_array(&j);
        hm_json_object(&j, "verdict");
        hm_json_bool(&j, "straggling", d->straggling);
        hm_json_string(&j, "summary", d->summary);
        hm_json_end_object(&j);
    }
    hm_json_number(&j, "evaluated_ops", a->evaluated);
    hm_json_end_object(&j);
    hm_json_finish(&j);
}
