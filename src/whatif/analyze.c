/* analyze.c - S and its attributions, exactly, in a few dozen replays.
 *
 * Ideal durations are the same in every replica and step, so a replica with nothing original in it is the *ideal lane*,
 * run once (hm_lane_run). Keeping one replica's or one worker's originals therefore takes a replay of that replica
 * against the ideal lane; and up to the first group over all replicas it runs as it does when every replica keeps the
 * same, so that part is shared: all DP ranks together cost little more than the original job's replay, all workers
 * little more than the stages'. (docs/method.md) */
#include "lost_time.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The result with what it owns. */
struct box {
    struct hm_analysis a;
    void *owned[24];
    size_t n_owned;
};

struct run {
    struct hm_trace *t;
    const struct hm_analysis_options *o;
    struct box *box;
    size_t steps, lanes, stages, slots;
    size_t *ops;     /* [stage] slots; 0: nothing of that stage was recorded */
    size_t recorded; /* stages with slots */
    int threads;
    struct hm_scratch **scratch; /* [thread] */
    struct hm_view **views;      /* [thread][lane] */
    struct hm_lane_run *ideal;
    struct hm_ties *around; /* [lane] the classes of lanes around it, where groups span some lanes only; else NULL */
    struct hm_error *err;

    /* Scenarios over all lanes: which slots keep their originals. */
    size_t n_scenarios, first_family, first_stage;
    uint8_t **keep;    /* [scenario][slot]; NULL: everything original */
    double *optimizer; /* [scenario][step] */
    double *span;      /* [scenario][step] latest end of any op - earliest start */

    double *by_lane;   /* [lane][step] */
    double *by_worker; /* [stage][lane][step] */

    atomic_uint *open; /* [block] scenarios still to run there */

    const uint8_t *const *lane_keep; /* share of workers: [lane] masks, or NULL for all original */
    double *share_span;              /* [step] */

    /* Progress and cancellation */
    size_t done, total;
    pthread_mutex_t lock;
    atomic_bool stop;
};

enum { ORIGINAL, WITHOUT_LAST_STAGE, FIXED_SCENARIOS };

static void *own(struct box *box, size_t count, size_t size) {
    void *block = hm_alloc(count, size);
    if (block) box->owned[box->n_owned++] = block;
    return block;
}

void hm_analysis_free(struct hm_analysis *analysis) {
    if (!analysis) return;
    struct box *box = (struct box *)analysis;
    for (size_t f = 0; f < analysis->n_families; f++) hm_free((char *)analysis->by_op_type[f].name);
    for (size_t i = 0; i < box->n_owned; i++) hm_free(box->owned[i]);
    for (size_t i = 0; analysis->dropped && i < analysis->n_dropped; i++) {
        hm_free((char *)analysis->dropped[i].what);
        hm_free((char *)analysis->dropped[i].why);
    }
    hm_free((void *)analysis->dropped);
    hm_free((char *)analysis->name);
    hm_free(box);
}

static void step_done(struct run *r) {
    pthread_mutex_lock(&r->lock);
    r->done++;
    int stop = r->o->progress ? r->o->progress(r->o->context, "replaying", (double)r->done, (double)r->total) : 0;
    pthread_mutex_unlock(&r->lock);
    if (stop) atomic_store(&r->stop, true);
}

/* ---- scenarios over all lanes ---- */

static void set_views(const struct run *r, size_t block, const uint8_t *keep, struct hm_view *views) {
    const struct hm_grid *g = &r->t->grid;
    for (size_t lane = 0; lane < r->lanes; lane++)
        views[lane] = (struct hm_view){hm_grid_lane(g, g->duration, block, lane), r->t->ideal_fill, keep};
}

/* Each lane's ends when it runs as begun and all others are ideal, into by[lane][step]. */
static void single_lanes(const struct run *r, size_t block, const struct hm_view *views, struct hm_scratch *s,
                         double *by) {
    const size_t width = hm_grid_width(&r->t->grid, block);
    for (size_t lane = 0; lane < r->lanes; lane += 2) {
        bool two = lane + 1 < r->lanes;
        struct hm_ends ends[2];
        hm_against(r->t->program, views, lane, two, r->ideal, s, ends);
        memcpy(by + lane * r->steps + block * HM_WIDTH, ends[0].optimizer, width * sizeof(double));
        if (two) memcpy(by + (lane + 1) * r->steps + block * HM_WIDTH, ends[1].optimizer, width * sizeof(double));
    }
}

/* The same where groups span some lanes only: one lane a class of lanes that are alike around this one (ties.c). */
static void single_tied_lanes(const struct run *r, size_t block, const uint8_t *keep, struct hm_view *views,
                              struct hm_scratch *s, double *by) {
    const struct hm_grid *g = &r->t->grid;
    for (size_t lane = 0; lane < r->lanes; lane++) {
        const struct hm_ties *ties = &r->around[lane];
        struct hm_ends ends;
        views[0] = (struct hm_view){hm_grid_lane(g, g->duration, block, lane), r->t->ideal_fill, keep};
        for (size_t k = 1; k < ties->lanes; k++) views[k] = (struct hm_view){.duration = r->t->ideal_fill};
        hm_scratch_tie(s, ties);
        hm_replay(r->t->program, views, ties->lanes, false, s, &ends);
        memcpy(by + lane * r->steps + block * HM_WIDTH, ends.optimizer, hm_grid_width(g, block) * sizeof(double));
    }
    hm_scratch_tie(s, NULL);
}

static int tie_lanes(struct run *r) {
    if (!r->t->job->lanes) return 0;
    uint32_t *member = hm_alloc(r->lanes, sizeof *member);
    r->around = hm_alloc(r->lanes, sizeof *r->around);
    int status = member && r->around ? 0 : -1;
    for (size_t lane = 0, n; lane < r->lanes && status == 0; lane++)
        status = hm_ties_around(&r->around[lane], r->t->job, lane, member, &n);
    hm_free(member);
    return status;
}

/* One scenario in one block. What a lane does before it needs the others is shared: by the original job and the DP
 * ranks alone, and by a stage and its workers alone. */
static void replay_scenario(void *context, size_t index, int thread) {
    struct run *r = context;
    if (atomic_load(&r->stop)) return;
    size_t scenario = index % r->n_scenarios, block = index / r->n_scenarios, width = hm_grid_width(&r->t->grid, block);
    struct hm_view *views = r->views[thread];
    struct hm_scratch *s = r->scratch[thread];
    set_views(r, block, r->keep[scenario], views);
    /* The span is wanted where the artefact takes the latest end of any op - the earliest start: the original and what the shares are
     * made of. */
    bool want_any = scenario < FIXED_SCENARIOS || scenario == r->n_scenarios - 1;
    hm_begin(r->t->program, views, r->lanes, want_any, s);
    double *alone = NULL;
    if (scenario == ORIGINAL)
        alone = r->by_lane;
    else if (scenario >= r->first_stage && r->by_worker)
        alone = r->by_worker + (scenario - r->first_stage) * r->lanes * r->steps;
    if (alone && r->lanes > 1 && !r->around) single_lanes(r, block, views, s, alone);
    struct hm_ends ends;
    hm_finish(r->t->program, views, r->lanes, s, &ends);
    if (alone && r->lanes > 1 && r->around) single_tied_lanes(r, block, r->keep[scenario], views, s, alone);
    memcpy(r->optimizer + scenario * r->steps + block * HM_WIDTH, ends.optimizer, width * sizeof(double));
    if (alone && r->lanes == 1) memcpy(alone + block * HM_WIDTH, ends.optimizer, width * sizeof(double));
    if (want_any) hm_ends_span(&ends, width, r->span + scenario * r->steps + block * HM_WIDTH);
    if (atomic_fetch_sub(&r->open[block], 1) == 1) hm_grid_release(&r->t->grid, block, 0, r->lanes);
    step_done(r);
}

/* The scenarios: everything original; all but the last stage original; each op family; each stage (the last one last). */
static int make_scenarios(struct run *r) {
    r->first_family = FIXED_SCENARIOS;
    r->first_stage = FIXED_SCENARIOS + r->t->job->n_families;
    r->n_scenarios = r->first_stage + r->stages;
    if (!(r->ops = hm_alloc(r->stages, sizeof *r->ops))) return -1;
    for (size_t i = 0; i < r->slots; i++) r->recorded += r->ops[r->t->job->slot[i].stage]++ == 0;
    r->keep = hm_alloc(r->n_scenarios, sizeof *r->keep);
    r->optimizer = hm_alloc(r->n_scenarios * r->steps, sizeof(double));
    r->span = hm_alloc(r->n_scenarios * r->steps, sizeof(double));
    if (!r->keep || !r->optimizer || !r->span) return -1;
    for (size_t k = 1; k < r->n_scenarios; k++)
        if (!(r->keep[k] = hm_alloc(r->slots, 1))) return -1;
    for (size_t i = 0; i < r->slots; i++) {
        const struct hm_slot *slot = &r->t->job->slot[i];
        r->keep[WITHOUT_LAST_STAGE][i] = slot->stage + 1 < r->stages;
        r->keep[r->first_family + hm_class_of(r->t->job, i)->family][i] = 1;
        r->keep[r->first_stage + slot->stage][i] = 1;
    }
    return 0;
}

/* ---- a set of workers ---- */

static void replay_share(void *context, size_t block, int thread) {
    struct run *r = context;
    if (atomic_load(&r->stop)) return;
    const struct hm_grid *g = &r->t->grid;
    struct hm_view *views = r->views[thread];
    set_views(r, block, NULL, views);
    for (size_t lane = 0; lane < r->lanes; lane++) views[lane].keep = r->lane_keep[lane];
    struct hm_ends ends;
    hm_replay(r->t->program, views, r->lanes, true, r->scratch[thread], &ends);
    hm_ends_span(&ends, hm_grid_width(g, block), r->share_span + block * HM_WIDTH);
    hm_grid_release(g, block, 0, r->lanes);
    step_done(r);
}

struct scored {
    double score;
    uint32_t stage, lane, dp;
};

/* Slowest first; ties to the lower rank, which counts stage by stage. */
static int slowest_first(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    return (x->dp > y->dp) - (x->dp < y->dp);
}

/* T with the chosen workers ideal and the others original, or the other way round. */
static double mean_with_workers(struct run *r, const struct scored *workers, size_t n, bool chosen_ideal) {
    const size_t size = r->slots;
    uint8_t *masks = hm_alloc(r->lanes, size);
    const uint8_t **lane_keep = hm_alloc(r->lanes, sizeof *lane_keep);
    double mean = NAN;
    if (masks && lane_keep) {
        memset(masks, chosen_ideal ? 1 : 0, r->lanes * size);
        for (size_t lane = 0; lane < r->lanes; lane++) lane_keep[lane] = chosen_ideal ? NULL : masks + lane * size;
        for (size_t k = 0; k < n; k++) {
            uint8_t *mask = masks + workers[k].lane * size;
            lane_keep[workers[k].lane] = mask;
            for (size_t i = 0; i < r->slots; i++)
                if (r->t->job->slot[i].stage == workers[k].stage) mask[i] = !chosen_ideal;
        }
        r->lane_keep = lane_keep;
        hm_parallel(r->t->grid.blocks, r->threads, replay_share, r);
        mean = hm_mean(r->share_span, r->steps);
    } else {
        hm_fail_memory(r->err);
        atomic_store(&r->stop, true);
    }
    hm_free(masks);
    hm_free((void *)lane_keep);
    return mean;
}

static const double about_zero = 1e-3; /* of T_ideal: shares of so small a loss are shares of rounding and noise */

static struct hm_share share(double original, double ideal, double without, double only) {
    if (fabs(original - ideal) < about_zero * ideal) return (struct hm_share){NAN, NAN};
    return (struct hm_share){(original - without) / (original - ideal), (only - ideal) / (original - ideal)};
}

static int share_of_slowest(struct run *r, double original, double ideal) {
    struct hm_analysis *a = &r->box->a;
    size_t n = r->recorded * r->lanes, chosen = (3 * n + 99) / 100, k = 0; /* 3 %, rounded up */
    struct scored *workers = hm_alloc(n, sizeof *workers);
    struct hm_worker *named = own(r->box, chosen, sizeof *named);
    if (!workers || !named) {
        hm_free(workers);
        return hm_fail_memory(r->err);
    }
    for (size_t s = 0; s < r->stages; s++)
        for (size_t l = 0; r->ops[s] && l < r->lanes; l++) {
            uint32_t dp = r->t->recording->lanes[l];
            workers[k++] = (struct scored){a->by_worker[s * a->dp + dp], (uint32_t)s, (uint32_t)l, dp};
        }
    qsort(workers, n, sizeof *workers, slowest_first);
    for (k = 0; k < chosen; k++) named[k] = (struct hm_worker){workers[k].stage, workers[k].dp};
    double without = mean_with_workers(r, workers, chosen, true), only = mean_with_workers(r, workers, chosen, false);
    a->worker_share = share(original, ideal, without, only);
    a->share_workers = named;
    a->n_share_workers = chosen;
    hm_free(workers);
    return 0;
}

/* ---- from replays to the result ---- */

static double mean_of(const double *values, size_t n, double unit) {
    return hm_mean(values, n) / unit;
}

/* step[i] = values[i] / unit, if the steps are wanted. */
static void per_step(const struct run *r, double *step, const double *values, double unit) {
    for (size_t i = 0; step && i < r->steps; i++) step[i] = values[i] / unit;
}

/* T_ideal is to the latest optimizer's end, in what is printed as in S, so that S follows from the times printed. Of a single step the
 * artefact prints the ideal to the latest end of any op; the two differ only if a transfer that nobody waits for outlasts the optimizer. */
static int fill_steps(struct run *r, double ideal, double ideal_span) {
    struct hm_analysis *a = &r->box->a;
    struct hm_step_result *steps = own(r->box, r->steps, sizeof *steps);
    if (!steps) return -1;
    for (size_t i = 0; i < r->steps; i++)
        steps[i] =
            (struct hm_step_result){r->t->recording->steps[i], r->t->grid.actual_s[i], r->span[ORIGINAL * r->steps + i],
                                    ideal_span, r->span[ORIGINAL * r->steps + i] / ideal};
    a->steps = steps;
    a->n_steps = r->steps;
    a->actual_s = hm_mean(r->t->grid.actual_s, r->steps);
    a->replayed_s = hm_mean(r->span + ORIGINAL * r->steps, r->steps);
    a->ideal_s = ideal;
    a->discrepancy = a->actual_s / hm_mean(r->optimizer + ORIGINAL * r->steps, r->steps) - 1;
    a->slowdown = a->replayed_s / ideal;
    a->waste = 1 - 1 / a->slowdown;
    return 0;
}

static int fill_lost_time(struct run *r) {
    struct hm_analysis *a = &r->box->a;
    struct hm_lost_time lost;
    double *late_s = own(r->box, a->pp * a->dp, sizeof *late_s);
    int status = late_s ? hm_lost_time(r->t, r->span + ORIGINAL * r->steps, r->threads, &lost) : -1;
    if (status == 0) {
        for (size_t k = 0; k < a->pp * a->dp; k++) late_s[k] = NAN;
        for (size_t s = 0; s < r->stages; s++)
            for (size_t l = 0; l < r->lanes; l++)
                late_s[s * a->dp + r->t->recording->lanes[l]] = lost.late_s[s * r->lanes + l];
        a->late_s = late_s;
        a->lost = (struct hm_lost){a->replayed_s - a->ideal_s, lost.launch_waits_s, lost.left_out_waits_s};
        a->slowdown_real = a->slowdown + (lost.launch_waits_s + lost.left_out_waits_s) / a->ideal_s;
    }
    if (late_s) hm_lost_time_free(&lost);
    return status;
}

static int fill_op_types(struct run *r, double unit) {
    struct hm_analysis *a = &r->box->a;
    const struct hm_job *m = r->t->job;
    struct hm_op_family *families = own(r->box, m->n_families, sizeof *families);
    double *steps = r->o->per_step ? own(r->box, m->n_families * r->steps, sizeof *steps) : NULL;
    a->by_op_type = families;
    a->step_by_op_type = steps;
    if (!families || (r->o->per_step && !steps)) return -1;
    for (size_t f = 0; f < m->n_families; f++) {
        size_t ops = 0, first = SIZE_MAX; /* a slot of the family's first class */
        for (size_t i = 0; i < r->slots; i++) {
            if (hm_class_of(m, i)->family != f) continue;
            if (ops++ == 0 || m->slot[i].cls < m->slot[first].cls) first = i;
        }
        if (ops == 0) continue;
        const double *values = r->optimizer + (r->first_family + f) * r->steps;
        char *name = hm_strdup(m->family[f]);
        if (!name) return -1;
        if (steps) per_step(r, steps + a->n_families * r->steps, values, unit);
        families[a->n_families++] =
            (struct hm_op_family){name, mean_of(values, r->steps, unit), r->t->ideal_s[m->slot[first].peers], ops};
    }
    return 0;
}

static int fill_places(struct run *r, double unit) {
    struct hm_analysis *a = &r->box->a;
    const uint32_t *dp_of = r->t->recording->lanes;
    bool want = r->o->per_step, paper = r->o->attribution == HM_ATTRIBUTION_PAPER;
    double *by_stage = own(r->box, a->pp, sizeof(double)), *by_dp = own(r->box, a->dp, sizeof(double)),
           *by_worker = own(r->box, a->pp * a->dp, sizeof(double));
    double *step_stage = want ? own(r->box, a->pp * r->steps, sizeof(double)) : NULL,
           *step_dp = want ? own(r->box, a->dp * r->steps, sizeof(double)) : NULL,
           *step_worker = want ? own(r->box, a->pp * a->dp * r->steps, sizeof(double)) : NULL;
    if (!by_stage || !by_dp || !by_worker || (want && (!step_stage || !step_dp || !step_worker))) return -1;
    for (size_t s = 0; s < a->pp; s++) by_stage[s] = NAN;
    for (size_t d = 0; d < a->dp; d++) by_dp[d] = NAN;
    for (size_t k = 0; k < a->pp * a->dp; k++) by_worker[k] = NAN;
    for (size_t k = 0; want && k < a->pp * r->steps; k++) step_stage[k] = NAN;
    for (size_t k = 0; want && k < a->dp * r->steps; k++) step_dp[k] = NAN;
    for (size_t k = 0; want && k < a->pp * a->dp * r->steps; k++) step_worker[k] = NAN;
    for (size_t s = 0; s < r->stages; s++) {
        if (!r->ops[s]) continue;
        const double *values = r->optimizer + (r->first_stage + s) * r->steps;
        by_stage[s] = mean_of(values, r->steps, unit);
        if (want) per_step(r, step_stage + s * r->steps, values, unit);
    }
    for (size_t l = 0; l < r->lanes; l++) {
        by_dp[dp_of[l]] = mean_of(r->by_lane + l * r->steps, r->steps, unit);
        if (want) per_step(r, step_dp + dp_of[l] * r->steps, r->by_lane + l * r->steps, unit);
    }
    for (size_t s = 0; s < r->stages; s++)
        for (size_t l = 0; r->ops[s] && l < r->lanes; l++) {
            size_t at = s * a->dp + dp_of[l];
            const double *values = paper ? NULL : r->by_worker + (s * r->lanes + l) * r->steps;
            by_worker[at] = paper ? fmin(by_stage[s], by_dp[dp_of[l]]) : mean_of(values, r->steps, unit);
            for (size_t i = 0; want && i < r->steps; i++)
                step_worker[at * r->steps + i] =
                    paper ? fmin(step_stage[s * r->steps + i], step_dp[dp_of[l] * r->steps + i]) : values[i] / unit;
        }
    a->by_stage = by_stage;
    a->by_dp_rank = by_dp;
    a->by_worker = by_worker;
    a->step_by_stage = step_stage;
    a->step_by_dp_rank = step_dp;
    a->step_by_worker = step_worker;
    return 0;
}

static int fill_job(struct run *r) {
    struct hm_analysis *a = &r->box->a;
    const struct hm_recording *rec = r->t->recording;
    const struct hm_layout *l = &rec->layout;
    a->name = hm_strdup(l->name);
    a->dp = (size_t)l->dp, a->pp = (size_t)l->pp, a->tp = (size_t)l->tp, a->cp = (size_t)l->dsp,
    a->vpp = (size_t)l->vpp;
    a->world = (size_t)l->world;
    a->ops = r->t->ops;
    a->attribution = r->o->attribution;
    struct hm_dropped_item *dropped = hm_alloc(rec->n_dropped, sizeof *dropped);
    if (!a->name || !dropped) {
        hm_free(dropped);
        return -1;
    }
    a->dropped = dropped;
    for (size_t i = 0; i < rec->n_dropped; i++) {
        dropped[i] = (struct hm_dropped_item){hm_strdup(rec->dropped[i].what), rec->dropped[i].count,
                                              hm_strdup(rec->dropped[i].why)};
        a->n_dropped = i + 1;
        if (!dropped[i].what || !dropped[i].why) return -1;
    }
    return 0;
}

static int analyze(struct run *r) {
    const struct hm_grid *g = &r->t->grid;
    if (fill_job(r) != 0 || make_scenarios(r) != 0 || tie_lanes(r) != 0) return hm_fail_memory(r->err);
    r->by_lane = hm_alloc(r->lanes * r->steps, sizeof(double));
    r->share_span = hm_alloc(r->steps, sizeof(double));
    bool exact = r->o->attribution == HM_ATTRIBUTION_EXACT;
    if (exact) r->by_worker = hm_alloc(r->stages * r->lanes * r->steps, sizeof(double));
    r->scratch = hm_alloc((size_t)r->threads, sizeof *r->scratch);
    r->views = hm_alloc((size_t)r->threads, sizeof *r->views);
    if (!r->by_lane || !r->share_span || (exact && !r->by_worker) || !r->scratch || !r->views)
        return hm_fail_memory(r->err);
    for (int t = 0; t < r->threads; t++)
        if (!(r->scratch[t] = hm_scratch_new(r->t->program, r->lanes)) ||
            !(r->views[t] = hm_alloc(r->lanes + 1, sizeof **r->views)))
            return hm_fail_memory(r->err);
    if (!(r->ideal = hm_lane_run_new(r->t->program, r->t->ideal_fill, r->scratch[0], r->err))) return -1;

    if (!(r->open = hm_alloc(g->blocks, sizeof *r->open))) return hm_fail_memory(r->err);
    for (size_t b = 0; b < g->blocks; b++) atomic_init(&r->open[b], (unsigned)r->n_scenarios);
    r->total = g->blocks * (r->n_scenarios + 2);
    hm_parallel(g->blocks * r->n_scenarios, r->threads, replay_scenario, r);
    if (atomic_load(&r->stop)) return hm_fail(r->err, HM_ERR_CANCELLED, "stopped");

    const struct hm_ends *ideal_ends = hm_lane_run_ends(r->ideal);
    const double ideal = ideal_ends->optimizer[0], ideal_span = ideal_ends->any[0] - ideal_ends->first[0];
    struct hm_analysis *a = &r->box->a;
    const double original = hm_mean(r->span + ORIGINAL * r->steps, r->steps);
    if (!(ideal > 0) || !isfinite(ideal) || !isfinite(original))
        return hm_fail(
            r->err, HM_ERR_INPUT,
            "%s: the ideal step takes %g s and the replayed one %g s; the durations are no seconds of a training step",
            r->t->recording->path, ideal, original);
    if (fill_steps(r, r->t->job->trailing ? ideal_span : ideal, ideal_span) != 0 || fill_lost_time(r) != 0 ||
        fill_op_types(r, ideal) != 0 || fill_places(r, ideal) != 0)
        return hm_fail_memory(r->err);
    if (share_of_slowest(r, a->replayed_s, ideal_span) != 0) return -1;
    if (r->stages < r->t->job->model_stages || r->recorded < r->stages) /* the last stage among which? */
        a->last_stage_share = (struct hm_share){NAN, NAN};
    else if (r->stages > 1)
        a->last_stage_share =
            share(a->replayed_s, ideal_span, hm_mean(r->span + WITHOUT_LAST_STAGE * r->steps, r->steps),
                  hm_mean(r->span + (r->n_scenarios - 1) * r->steps, r->steps));
    if (atomic_load(&r->stop)) return r->err && r->err->code ? -1 : hm_fail(r->err, HM_ERR_CANCELLED, "stopped");
    for (int t = 0; t < r->threads; t++) a->evaluated += hm_scratch_evaluated(r->scratch[t]);
    return 0;
}

struct hm_analysis *hm_analyze(struct hm_trace *trace, const struct hm_analysis_options *options,
                               struct hm_error *err) {
    const struct hm_analysis_options defaults = {0};
    struct hm_error local = {0};
    struct run r = {.t = trace, .o = options ? options : &defaults, .err = err ? err : &local};
    r.err->code = HM_OK;
    r.steps = trace->grid.steps, r.lanes = trace->grid.lanes, r.slots = trace->grid.slots,
    r.stages = trace->job->stages;
    r.threads = hm_thread_count(r.o->threads, SIZE_MAX);
    pthread_mutex_init(&r.lock, NULL);
    r.box = hm_alloc(1, sizeof *r.box);
    int status = r.box ? analyze(&r) : hm_fail_memory(r.err);
    hm_lane_run_free(r.ideal);
    for (size_t lane = 0; r.around && lane < r.lanes; lane++) hm_ties_free(&r.around[lane]);
    hm_free(r.around);
    for (int t = 0; t < r.threads; t++) {
        if (r.scratch) hm_scratch_free(r.scratch[t]);
        if (r.views) hm_free(r.views[t]);
    }
    for (size_t k = 0; r.keep && k < r.n_scenarios; k++) hm_free(r.keep[k]);
    hm_free(r.scratch);
    hm_free(r.views);
    hm_free(r.keep);
    hm_free(r.optimizer);
    hm_free(r.span);
    hm_free(r.by_lane);
    hm_free(r.by_worker);
    hm_free(r.share_span);
    hm_free(r.ops);
    hm_free(r.open);
    pthread_mutex_destroy(&r.lock);
    if (status == 0) return &r.box->a;
    if (r.box) hm_analysis_free(&r.box->a);
    return NULL;
}
