/* fleet.c - a synthetic fleet: fleet FOLDER JOBS [SEED] makes jobs of many sizes and straggler mixes, traces them (synth.h), analyses each trace and
 * writes FOLDER/NNNN.json. Only what is injected is drawn here, after the shares in section 4 of OSDI 2025; the slowdowns are measured. */
#include "base/base.h"
#include "hindmost/hindmost.h"
#include "hindmost/synth.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct fleet {
    const char *folder;
    uint64_t seed;
    atomic_int failed;
};

struct layout {
    double share;
    uint32_t dp, pp, tp; /* dp x pp workers are traced; tp ranks each */
};
/* Half of the jobs have 256 GPUs or more, a tenth 1,024 or more, as among the paper's jobs of 128 and more. */
static const struct layout layouts[] = {{0.20, 16, 1, 8}, {0.25, 4, 4, 8},  {0.15, 8, 4, 8},  {0.15, 16, 2, 8},
                                        {0.12, 16, 4, 8}, {0.07, 16, 8, 8}, {0.05, 32, 8, 8}, {0.01, 64, 8, 8}};

static double exponential(struct hm_rng *rng, double mean) {
    return -mean * log(1 - hm_rng_uniform(rng));
}

static const char *inject(char text[96], const char *format, ...) HM_PRINTF(2, 3);
static const char *inject(char text[96], const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, 96, format, args);
    va_end(args);
    return text;
}

/* What is wrong with a job: often a last stage that is too heavy, sequence lengths in a fifth, pauses for garbage collection, an uneven replica,
 * now and then a slow worker, and that in large jobs, as larger jobs hold more machines. */
static size_t injections(struct hm_rng *rng, const struct layout *l, char text[3][96], const char *list[3]) {
    size_t n = 0;
    unsigned stage = (unsigned)hm_rng_below(rng, l->pp), dp = (unsigned)hm_rng_below(rng, l->dp);
    double u = hm_rng_uniform(rng),
           extra = hm_rng_uniform(rng) < 0.3 ? 0.12 + exponential(rng, 0.2) : exponential(rng, 0.02);
    if (l->pp > 1) list[n] = inject(text[n], "last-stage:factor=%.3f", 1 + fmin(extra, 1.2)), n++;
    if (u < 0.20)
        list[n] = inject(text[n], "sequences:max=%d,tail=%.2f,quadratic=%.2f", 8192 << hm_rng_below(rng, 3),
                         1.2 + hm_rng_uniform(rng), 0.01 + 0.25 * pow(hm_rng_uniform(rng), 2)),
        n++;
    else if (u < 0.38)
        list[n] =
            inject(text[n], "gc:every=%d,ms=%d", 2 + (int)hm_rng_below(rng, 6), 100 + (int)hm_rng_below(rng, 150)),
        n++;
    else if (u < 0.46 && l->pp > 1)
        list[n] = inject(text[n], "replica:dp=%u,factor=%.2f", dp, 1.05 + exponential(rng, 0.1)), n++;
    else if (u < 0.49 && l->pp > 1)
        list[n] = inject(text[n], "link:stage=0,dp=%u,factor=%d", dp, 10 + (int)hm_rng_below(rng, 30)), n++;
    else if (u >= 0.49 && u < 0.51 && l->dp * l->pp >= 64)
        list[n] = inject(text[n], "slow-worker:stage=%u,dp=%u,factor=%.2f", stage, dp, 1.6 + exponential(rng, 1.5)),
        n++;
    return n;
}

static int write_result(struct hm_trace *t, const struct hm_analysis *a, const char *path, struct hm_error *err) {
    (void)t;
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    hm_analysis_write_json(a, NULL, out);
    return hm_out_commit(out, err);
}

static void make_job(void *context, size_t index, int thread) {
    (void)thread;
    struct fleet *f = context;
    struct hm_rng rng;
    struct hm_synth_options o;
    struct hm_error err = {0};
    char text[3][96], trace[512], yaml[512], result[512];
    const char *list[3];
    hm_rng_seed(&rng, f->seed * 1000003 + index);
    double u = hm_rng_uniform(&rng);
    size_t k = 0;
    while (k + 1 < sizeof layouts / sizeof layouts[0] && u >= layouts[k].share) u -= layouts[k++].share;
    hm_synth_defaults(&o);
    o.dp = layouts[k].dp, o.pp = layouts[k].pp, o.tp = layouts[k].tp;
    o.microbatches = 8, o.steps = 6, o.seed = index + 1, o.noise = 0.01 + 0.01 * hm_rng_uniform(&rng), o.threads = 1;
    o.inject = list;
    o.n_inject = injections(&rng, &layouts[k], text, list);
    (void)snprintf(trace, sizeof trace, "%s/%04zu.parquet", f->folder, index);
    (void)snprintf(yaml, sizeof yaml, "%s/%04zu.yaml", f->folder, index);
    (void)snprintf(result, sizeof result, "%s/%04zu.json", f->folder, index);
    struct hm_trace_options topt = {.metadata = yaml, .threads = 1};
    struct hm_analysis_options aopt = {.threads = 1};
    struct hm_trace *t = hm_synth(trace, &o, &err) == 0 ? hm_trace_open(trace, &topt, &err) : NULL;
    struct hm_analysis *a = t ? hm_analyze(t, &aopt, &err) : NULL;
    if (!a || write_result(t, a, result, &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.message);
        atomic_store(&f->failed, 1);
    }
    hm_analysis_free(a);
    hm_trace_free(t);
    (void)unlink(trace);
    (void)unlink(yaml);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    struct fleet f = {.folder = argv[1], .seed = argc > 3 ? (uint64_t)strtoull(argv[3], NULL, 10) : 1};
    hm_parallel((size_t)strtoul(argv[2], NULL, 10), 0, make_job, &f);
    return atomic_load(&f.failed);
}
