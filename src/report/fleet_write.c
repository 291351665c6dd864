/* fleet_write.c - a fleet as text, JSON and page. */
#include "fleet.h"
#include "page.h"
#include "page_fleet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORST = 10, MAX_PAGE_JOBS = 12000 /* about 100 bytes each in the page */ };

static double part(double some, double all) {
    return all > 0 ? some / all : NAN;
}

static const char *name_of(const struct hm_fleet_job *job) {
    return job->name && *job->name ? job->name : job->file ? job->file : "";
}

/* ---- text --------------------------------------------------------------------------------------------------------------------- */

/* "12.3" or "-" where there is none. */
static const char *figure(char text[32], int digits, double value) {
    if (isfinite(value))
        (void)snprintf(text, 32, "%.*f", digits, value);
    else
        (void)snprintf(text, 32, "-");
    return text;
}

static void text_quantiles(struct hm_str *s, const char *what, const double *values, double unit, int digits) {
    char text[32];
    hm_str_add(s, "  %-22s", what);
    for (size_t k = 0; k < HM_FLEET_QUANTILES; k++) hm_str_add(s, "%9s", figure(text, digits, values[k] * unit));
    hm_str_add(s, "\n");
}

static void text_groups(struct hm_str *s, const struct hm_fleet_job_group *g, size_t n, double all, const char *share) {
    char mean[32], p90[32], most[32], of[32], waste[32];
    for (size_t k = 0; k < n; k++) {
        if (g[k].jobs == 0) continue;
        double some = strcmp(share, "straggle") == 0 ? part((double)g[k].straggling, (double)g[k].jobs)
                                                     : part((double)g[k].jobs, all);
        hm_str_add(s, "  %-17s%6zu%10s%8s%8s%8s%13.1f%8s\n", g[k].name, g[k].jobs, figure(of, 1, 100 * some),
                   figure(mean, 3, g[k].slowdown_mean), figure(p90, 3, g[k].slowdown_p90),
                   figure(most, 3, g[k].slowdown_max), g[k].wasted_gpu_hours,
                   figure(waste, 1, 100 * part(g[k].wasted_gpu_hours, g[k].gpu_hours)));
    }
}

/* The end of a name that is too long for its column: names of a fleet mostly begin alike. */
static const char *end_of(const char *name, size_t width, char text[64]) {
    size_t size = strlen(name), from = size > width ? size - (width - 3) : 0;
    while (from > 0 && ((unsigned char)name[from] & 0xc0) == 0x80) from++;
    (void)snprintf(text, 64, "%s%.60s", from ? "..." : "", name + from);
    return text;
}

static void text_worst(struct hm_str *s, const struct hm_fleet *f, const size_t *order, const char *title,
                       size_t width) {
    enum { FIXED = 2 + 8 + 8 + 14 + 2 + 17, FIX = 22, LONGEST = 40 };
    bool fixes = width >= FIXED + FIX + 20;
    size_t longest = width > FIXED + 12 ? width - FIXED - (fixes ? FIX : 0) : 12;
    if (longest > LONGEST) longest = LONGEST;
    hm_str_add(s, "\n  %-*s%8s%8s%14s  %-17s%s\n", (int)longest, title, "S", "GPUs", "wasted GPU-h", "first cause",
               fixes ? "  best fix" : "");
    for (size_t k = 0; k < f->n_jobs && k < WORST; k++) {
        const struct hm_fleet_job *job = &f->jobs[order[k]];
        char name[64];
        hm_str_add(s, "  %-*s%8.3f%8lld%14.1f  %-17s%s%s\n", (int)longest, end_of(name_of(job), longest, name),
                   job->slowdown, (long long)job->world, job->waste > 0 ? job->gpu_hours * job->waste : 0,
                   job->cause ? job->cause : "-", fixes ? "  " : "", fixes && job->fix ? job->fix : "");
    }
}

char *hm_fleet_text(const struct hm_fleet *f, int columns) {
    struct hm_str s = {.people = true};
    size_t width = columns > 0 ? (size_t)columns : 80;
    char a[32], b[32];
    hm_str_add(&s, "%zu jobs, %.1f GPU-hours: %.1f %% straggle (S >= 1.1), %s %% of the GPU-hours are wasted\n",
               f->n_jobs, f->gpu_hours, 100 * part((double)f->straggling, (double)f->n_jobs),
               figure(a, 1, 100 * part(f->wasted_gpu_hours, f->gpu_hours)));
    if (f->distrusted)
        hm_str_add(&s, "%zu of them have a discrepancy above 5 %%: their replay misses the recording\n", f->distrusted);
    hm_str_add(&s, "\n  %-22s%9s%9s%9s%9s\n", "quantiles", "p50", "p75", "p90", "p99");
    text_quantiles(&s, "slowdown S", f->slowdown_by_job, 1, 3);
    text_quantiles(&s, "waste %, by job", f->waste_by_job, 100, 1);
    text_quantiles(&s, "waste %, by GPU-hours", f->waste_by_gpu_hours, 100, 1);
    hm_str_add(&s, "\n  %-17s%6s%10s%8s%8s%8s%13s%8s\n", "GPUs", "jobs", "straggle%", "mean S", "p90 S", "max S",
               "wasted GPU-h", "waste%");
    text_groups(&s, f->size, HM_FLEET_SIZES, 0, "straggle");
    if (f->severe)
        hm_str_add(&s, "  S > 3: %zu jobs, the smallest of %lld GPUs\n", f->severe, (long long)f->severe_world);
    hm_str_add(&s, "\n  %-17s%6s%10s%8s%8s%8s%13s%8s\n", "first cause", "jobs", "share%", "mean S", "p90 S", "max S",
               "wasted GPU-h", "waste%");
    text_groups(&s, f->cause, HM_FLEET_CAUSES, (double)f->straggling, "share");
    hm_str_add(&s, "\n  of the %zu straggling jobs\n", f->straggling);
    hm_str_add(&s, "  slowest 3 %% of workers explain more than half:  %s %% (mean S %s)\n",
               figure(a, 1, 100 * part((double)f->worker_dominated, (double)f->straggling)),
               figure(b, 3, f->worker_dominated_slowdown));
    hm_str_add(&s, "  the last stage explains half or more:           %s %% (mean S %s)\n",
               figure(a, 1, 100 * part((double)f->last_stage_dominated, (double)f->straggling)),
               figure(b, 3, f->last_stage_dominated_slowdown));
    hm_str_add(&s, "  p90 of step slowdown / job slowdown:            %s (near 1: slowness lasts)\n",
               figure(a, 3, f->step_p90));
    text_worst(&s, f, f->by_slowdown, "slowest jobs", width);
    text_worst(&s, f, f->by_waste, "dearest jobs", width);
    if (f->n_skipped) hm_str_add(&s, "\n%zu skipped:\n", f->n_skipped);
    for (size_t i = 0; i < f->n_skipped; i++) hm_str_add(&s, "  %s: %s\n", f->skipped[i].file, f->skipped[i].why);
    hm_str_fold(&s, width, 0);
    if (!s.failed) return s.text;
    hm_str_free(&s);
    return NULL;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------------------- */

static void json_quantiles(struct hm_json *j, const char *key, const struct hm_fleet *f, const double *values) {
    static const char *const names[HM_FLEET_QUANTILES] = {"p50", "p75", "p90", "p99"};
    hm_json_object(j, key);
    for (size_t k = 0; k < HM_FLEET_QUANTILES; k++) hm_json_number(j, names[k], f->n_jobs ? values[k] : NAN);
    hm_json_end_object(j);
}

static void json_groups(struct hm_json *j, const char *key, const char *name, const struct hm_fleet_job_group *g,
                        size_t n, double all) {
    hm_json_array(j, key);
    for (size_t k = 0; k < n; k++) {
        hm_json_object(j, NULL);
        hm_json_string(j, name, g[k].name);
        hm_json_integer(j, "jobs", (int64_t)g[k].jobs);
        hm_json_integer(j, "straggling", (int64_t)g[k].straggling);
        hm_json_number(j, "share", part((double)g[k].jobs, all));
        hm_json_number(j, "slowdown_mean", g[k].slowdown_mean);
        hm_json_number(j, "slowdown_p50", g[k].slowdown_p50);
        hm_json_number(j, "slowdown_p90", g[k].slowdown_p90);
        hm_json_number(j, "slowdown_max", g[k].slowdown_max);
        hm_json_number(j, "gpu_hours", g[k].gpu_hours);
        hm_json_number(j, "wasted_gpu_hours", g[k].wasted_gpu_hours);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

static void json_share(struct hm_json *j, const char *key, size_t n, size_t all, double slowdown) {
    hm_json_object(j, key);
    hm_json_integer(j, "jobs", (int64_t)n);
    hm_json_number(j, "share", part((double)n, (double)all));
    hm_json_number(j, "slowdown_mean", slowdown);
    hm_json_end_object(j);
}

static void json_job(struct hm_json *j, const struct hm_fleet_job *job) {
    hm_json_object(j, NULL);
    for (size_t k = 0; k < HM_JOB_FIELDS; k++) {
        const struct hm_fleet_job_field *f = &hm_fleet_job_fields[k];
        if (f->kind == HM_FIELD_TEXT)
            hm_json_string(j, f->name, *hm_fleet_job_text((struct hm_fleet_job *)job, f));
        else if (f->kind == HM_FIELD_COUNT)
            hm_json_integer(j, f->name, *hm_fleet_job_count((struct hm_fleet_job *)job, f));
        else
            hm_json_number(j, f->name, *hm_fleet_job_number((struct hm_fleet_job *)job, f));
    }
    hm_json_end_object(j);
}

static void json_worst(struct hm_json *j, const char *key, const struct hm_fleet *f, const size_t *order) {
    hm_json_array(j, key);
    for (size_t k = 0; k < f->n_jobs && k < WORST; k++) json_job(j, &f->jobs[order[k]]);
    hm_json_end_array(j);
}

void hm_fleet_write_json(const struct hm_fleet *f, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 2);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "schema", "hindmost.fleet/1");
    hm_json_integer(&j, "jobs", (int64_t)f->n_jobs);
    hm_json_object(&j, "straggling");
    hm_json_integer(&j, "jobs", (int64_t)f->straggling);
    hm_json_number(&j, "share", part((double)f->straggling, (double)f->n_jobs));
    hm_json_end_object(&j);
    hm_json_integer(&j, "distrusted", (int64_t)f->distrusted);
    hm_json_number(&j, "gpu_hours", f->gpu_hours);
    hm_json_number(&j, "wasted_gpu_hours", f->wasted_gpu_hours);
    hm_json_number(&j, "waste", part(f->wasted_gpu_hours, f->gpu_hours));
    json_quantiles(&j, "waste_by_gpu_hours", f, f->waste_by_gpu_hours);
    json_quantiles(&j, "waste_by_job", f, f->waste_by_job);
    json_quantiles(&j, "slowdown", f, f->slowdown_by_job);
    json_groups(&j, "by_size", "gpus", f->size, HM_FLEET_SIZES, (double)f->n_jobs);
    hm_json_object(&j, "severe");
    hm_json_integer(&j, "jobs", (int64_t)f->severe);
    if (f->severe)
        hm_json_integer(&j, "smallest_world", f->severe_world);
    else
        hm_json_null(&j, "smallest_world");
    hm_json_end_object(&j);
    json_groups(&j, "causes", "cause", f->cause, HM_FLEET_CAUSES, (double)f->straggling);
    json_share(&j, "worker_share_above_half", f->worker_dominated, f->straggling, f->worker_dominated_slowdown);
    json_share(&j, "last_stage_share_from_half", f->last_stage_dominated, f->straggling,
               f->last_stage_dominated_slowdown);
    hm_json_number(&j, "step_p90", f->step_p90);
    json_worst(&j, "slowest_jobs", f, f->by_slowdown);
    json_worst(&j, "dearest_jobs", f, f->by_waste);
    hm_json_array(&j, "skipped");
    for (size_t i = 0; i < f->n_skipped; i++) {
        hm_json_object(&j, NULL);
        hm_json_string(&j, "file", f->skipped[i].file);
        hm_json_string(&j, "why", f->skipped[i].why);
        hm_json_end_object(&j);
    }
    hm_json_end_array(&j);
    hm_json_end_object(&j);
    hm_json_finish(&j);
}

/* ---- page ------------------------------------------------------------------------------------------------------------------------- */

/* The jobs as columns, worst first; beyond MAX_PAGE_JOBS every n-th of the rest, so that distributions keep their shape. */
static void json_jobs(struct hm_json *j, const struct hm_fleet *f) {
    static const char *const wanted[] = {
        "name", "world", "slowdown", "waste", "gpu_hours", "worker_share", "last_stage_share", "cause", "fix"};
    size_t stride = (f->n_jobs + MAX_PAGE_JOBS - 1) / MAX_PAGE_JOBS;
    hm_json_object(j, NULL);
    hm_json_integer(j, "stride", (int64_t)stride);
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        const struct hm_fleet_job_field *field = hm_fleet_job_fields;
        while (strcmp(field->name, wanted[w]) != 0) field++;
        hm_json_array(j, wanted[w]);
        for (size_t i = 0; i < f->n_jobs; i += stride) {
            struct hm_fleet_job *job = (struct hm_fleet_job *)&f->jobs[f->by_slowdown[i]];
            if (strcmp(wanted[w], "name") == 0)
                hm_json_string(j, NULL, name_of(job));
            else if (field->kind == HM_FIELD_TEXT)
                hm_json_string(j, NULL, *hm_fleet_job_text(job, field));
            else if (field->kind == HM_FIELD_COUNT)
                hm_json_integer(j, NULL, *hm_fleet_job_count(job, field));
            else
                hm_json_number(j, NULL, *hm_fleet_job_number(job, field));
        }
        hm_json_end_array(j);
    }
    hm_json_end_object(j);
}

static int fill(void *context, const char *name, struct hm_out *out, struct hm_error *err) {
    (void)err;
    struct hm_json j;
    if (strcmp(name, "version") == 0) {
        hm_out_printf(out, "%s", hm_version());
    } else if (strcmp(name, "jobs") == 0) {
        hm_json_begin(&j, out, 0);
        json_jobs(&j, context);
    } else {
        hm_fleet_write_json(context, out);
    }
    return 0;
}

int hm_fleet_html(const struct hm_fleet *fleet, const char *path, struct hm_error *err) {
    return hm_page_write(hm_page_fleet, sizeof hm_page_fleet, fill, (void *)fleet, path, err);
}
