/* fleet_sum.c - many jobs in a few figures, those of section 4 of OSDI 2025: how many straggle, what it costs, by size and by cause. */
#include "fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double straggles = 1.1, trusted = 0.05, severe = 3; /* S, discrepancy and S in the paper */

static double wasted(const struct hm_fleet_job *job) {
    return job->waste > 0 ? job->gpu_hours * job->waste : 0;
}

/* ---- order ---------------------------------------------------------------------------------------------------------------------- */

struct ranked {
    double score;
    size_t index;
};

static int worst_first(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* `scratch` holds two doubles a job. */
static void rank(const struct hm_fleet *f, size_t *order, double (*score)(const struct hm_fleet_job *), void *scratch) {
    struct ranked *r = scratch;
    for (size_t i = 0; i < f->n_jobs; i++) r[i] = (struct ranked){score(&f->jobs[i]), i};
    qsort(r, f->n_jobs, sizeof *r, worst_first);
    for (size_t i = 0; i < f->n_jobs; i++) order[i] = r[i].index;
}

static double slowdown_of(const struct hm_fleet_job *job) {
    return job->slowdown;
}

/* ---- quantiles --------------------------------------------------------------------------------------------------------------------- */

/* The least waste such that jobs that waste no more hold at least q of the GPU-hours. order: by slowdown, worst first. */
static double waste_quantile(const struct hm_fleet *f, const size_t *order, double q) {
    double held = 0;
    for (size_t i = f->n_jobs; i-- > 0;) {
        held += f->jobs[order[i]].gpu_hours;
        if (held >= q * f->gpu_hours) return f->jobs[order[i]].waste;
    }
    return f->n_jobs ? f->jobs[order[0]].waste : NAN;
}

static void quantiles(struct hm_fleet *f, const size_t *by_slowdown, double *scratch) {
    static const double q[HM_FLEET_QUANTILES] = {0.5, 0.75, 0.9, 0.99};
    for (size_t k = 0; k < HM_FLEET_QUANTILES; k++) {
        f->quantiles[k] = q[k];
        for (size_t i = 0; i < f->n_jobs; i++) scratch[i] = f->jobs[i].waste;
        f->waste_by_job[k] = hm_quantile(scratch, f->n_jobs, q[k]);
        for (size_t i = 0; i < f->n_jobs; i++) scratch[i] = f->jobs[i].slowdown;
        f->slowdown_by_job[k] = hm_quantile(scratch, f->n_jobs, q[k]);
        f->waste_by_gpu_hours[k] = waste_quantile(f, by_slowdown, q[k]);
    }
}

/* ---- groups ------------------------------------------------------------------------------------------------------------------------- */

static size_t size_class(const struct hm_fleet_job *job) {
    size_t k = 0;
    for (int64_t limit = 128; k + 1 < HM_FLEET_SIZES && job->world >= limit; limit *= 2) k++;
    return k;
}

static const char *const cause_names[HM_FLEET_CAUSES] = {"slow-worker",        "stage-imbalance", "sequence-length",
                                                         "garbage-collection", "slow-link",       "data-loading",
                                                         "replica-imbalance",  "other",           "none named"};

static size_t cause_class(const struct hm_fleet_job *job) {
    if (job->slowdown < straggles) return HM_FLEET_CAUSES; /* in no group */
    if (!job->cause) return HM_FLEET_CAUSES - 1;
    size_t k = 0;
    while (k < HM_FLEET_CAUSES - 2 && strcmp(job->cause, cause_names[k]) != 0) k++;
    return k;
}

static struct hm_fleet_job_group group(const struct hm_fleet *f, const char *name,
                                       size_t (*class_of)(const struct hm_fleet_job *), size_t class, double *scratch) {
    struct hm_fleet_job_group g = {.name = name};
    for (size_t i = 0; i < f->n_jobs; i++) {
        const struct hm_fleet_job *job = &f->jobs[i];
        if (class_of(job) != class) continue;
        scratch[g.jobs++] = job->slowdown;
        g.straggling += job->slowdown >= straggles;
        g.gpu_hours += job->gpu_hours;
        g.wasted_gpu_hours += wasted(job);
        g.slowdown_max = fmax(g.slowdown_max, job->slowdown);
    }
    if (g.jobs == 0) g.slowdown_max = NAN;
    g.slowdown_mean = hm_mean(scratch, g.jobs);
    g.slowdown_p50 = hm_quantile(scratch, g.jobs, 0.5);
    g.slowdown_p90 = hm_quantile(scratch, g.jobs, 0.9);
    return g;
}

static void groups(struct hm_fleet *f, double *scratch) {
    static const char *const sizes[HM_FLEET_SIZES] = {"below 128",    "128 to 255",   "256 to 511",   "512 to 1023",
                                                      "1024 to 2047", "2048 to 4095", "4096 and more"};
    for (size_t k = 0; k < HM_FLEET_SIZES; k++) f->size[k] = group(f, sizes[k], size_class, k, scratch);
    for (size_t k = 0; k < HM_FLEET_CAUSES; k++) f->cause[k] = group(f, cause_names[k], cause_class, k, scratch);
}

/* ---- single figures ------------------------------------------------------------------------------------------------------------------- */

static void count_jobs(struct hm_fleet *f) {
    for (size_t i = 0; i < f->n_jobs; i++) {
        const struct hm_fleet_job *job = &f->jobs[i];
        f->gpu_hours += job->gpu_hours;
        f->wasted_gpu_hours += wasted(job);
        f->distrusted += fabs(job->discrepancy) > trusted;
        if (job->slowdown > severe) {
            f->severe++;
            if (f->severe_world == 0 || job->world < f->severe_world) f->severe_world = job->world;
        }
        if (job->slowdown < straggles) continue;
        f->straggling++;
        if (job->worker_share > 0.5) {
            f->worker_dominated++;
            f->worker_dominated_slowdown += job->slowdown;
        }
        if (job->last_stage_share >= 0.5) {
            f->last_stage_dominated++;
            f->last_stage_dominated_slowdown += job->slowdown;
        }
    }
    f->worker_dominated_slowdown /= (double)f->worker_dominated; /* NaN: nobody */
    f->last_stage_dominated_slowdown /= (double)f->last_stage_dominated;
}

static double lasting(const struct hm_fleet *f, double *scratch) {
    size_t n = 0;
    for (size_t i = 0; i < f->n_jobs; i++)
        if (f->jobs[i].slowdown >= straggles && isfinite(f->jobs[i].step_p90)) scratch[n++] = f->jobs[i].step_p90;
    return hm_median(scratch, n);
}

void hm_fleet_sum(struct hm_fleet *f, size_t *by_slowdown, size_t *by_waste, double *scratch) {
    rank(f, by_slowdown, slowdown_of, scratch);
    rank(f, by_waste, wasted, scratch);
    f->by_slowdown = by_slowdown;
    f->by_waste = by_waste;
    count_jobs(f);
    quantiles(f, by_slowdown, scratch);
    groups(f, scratch);
    f->step_p90 = lasting(f, scratch);
}
