/* page_data.c - what the report page shows beyond the analysis. The page has to stay small enough to travel by mail however large the
 * job: slowdowns are rounded to thousandths, and steps or ops beyond a fixed number are thinned out, which the page says. */
#include "page_data.h"

#include <math.h>
#include <string.h>

enum {
    MAX_CELLS = 1000000, /* worker slowdowns of all steps: about 1.3 bytes each in the page */
    MAX_OPS = 40000      /* of one replica in the timeline: beyond, they are narrower than a pixel */
};

static void pack(struct hm_json *j, const char *key, const int32_t *values, size_t n, bool *failed) {
    char *text = hm_pack(values, n);
    hm_json_string(j, key, text);
    if (!text) *failed = true;
    hm_free(text);
}

static size_t worst_step(const struct hm_analysis *a) {
    size_t worst = 0;
    for (size_t i = 1; i < a->n_steps; i++)
        if (a->steps[i].slowdown > a->steps[worst].slowdown) worst = i;
    return worst;
}

/* ---- every step's workers ----------------------------------------------------------------------------------------------------- */

/* The step kept k-th of n: evenly spaced, but the worst one replaces its neighbour. */
static size_t kept_step(size_t k, size_t n, const struct hm_analysis *a, size_t worst) {
    size_t step = k * a->n_steps / n, next = (k + 1) * a->n_steps / n;
    return worst >= step && worst < next ? worst : step;
}

static void steps_of_workers(struct hm_json *j, const struct hm_trace *t, const struct hm_analysis *a, bool *failed) {
    const uint32_t *lanes = t->recording->lanes;
    size_t n_lanes = t->recording->n_lanes, workers = a->pp * n_lanes;
    size_t n = MAX_CELLS / workers ? MAX_CELLS / workers : 1, worst = worst_step(a);
    if (n > a->n_steps) n = a->n_steps;
    int32_t *values = hm_alloc(n * workers, sizeof *values);
    if (!values) {
        *failed = true;
        return;
    }
    hm_json_object(j, "workers_by_step");
    hm_json_array(j, "steps"); /* indices into the analysis' steps */
    for (size_t k = 0; k < n; k++) hm_json_integer(j, NULL, (int64_t)kept_step(k, n, a, worst));
    hm_json_end_array(j);
    hm_json_array(j, "dp_ranks");
    for (size_t l = 0; l < n_lanes; l++) hm_json_integer(j, NULL, lanes[l]);
    hm_json_end_array(j);
    for (size_t k = 0; k < n; k++)
        for (size_t w = 0; w < workers; w++) {
            size_t at = (w / n_lanes * a->dp + lanes[w % n_lanes]) * a->n_steps + kept_step(k, n, a, worst);
            values[k * workers + w] = (int32_t)lrint(fmin(a->step_by_worker[at], 1e6) * 1000);
        }
    pack(j, "slowdown_e3", values, n * workers, failed); /* [step][stage][lane], thousandths */
    hm_json_end_object(j);
    hm_free(values);
}

static void steps_of_op_types(struct hm_json *j, const struct hm_analysis *a) {
    hm_json_object(j, "op_types_by_step");
    for (size_t f = 0; f < a->n_families; f++) {
        hm_json_array(j, a->by_op_type[f].name);
        for (size_t i = 0; i < a->n_steps; i++)
            hm_json_number(j, NULL, round(a->step_by_op_type[f * a->n_steps + i] * 1e4) / 1e4);
        hm_json_end_array(j);
    }
    hm_json_end_object(j);
}

/* ---- the timeline of the slowest step ----------------------------------------------------------------------------------------------- */

/* Times of one replica in one step: launched, all of the group launched, ended. Seconds from the step's start. */
struct replica {
    const char *why;
    uint32_t dp_rank;
    double *start, *move, *end; /* [slot] */
};

enum { REPLICAS = 3 }; /* the worst, a typical one, the ideal one */

struct timeline {
    const struct hm_trace *t;
    size_t step, n; /* n: replicas in use */
    struct replica replica[REPLICAS];
    uint32_t *shown; /* slots to show */
    size_t n_shown;
};

static bool grouped(const struct hm_node *node) {
    return node->across >= 0 || node->n_slots > 1;
}

static double recorded(const struct timeline *tl, const double *grid, size_t lane, size_t slot) {
    const struct hm_grid *g = &tl->t->grid;
    return hm_grid_lane(g, (double *)grid, tl->step / HM_WIDTH, lane)[slot * HM_WIDTH + tl->step % HM_WIDTH];
}

static double latest_launch(const struct timeline *tl, const struct hm_node *node, size_t lane) {
    size_t first = node->across >= 0 ? 0 : lane, last = node->across >= 0 ? tl->t->grid.lanes : lane + 1;
    double latest = 0;
    for (size_t l = first; l < last; l++)
        for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++)
            latest = fmax(latest, recorded(tl, tl->t->grid.start, l, i));
    return latest;
}

static void take_recorded(const struct timeline *tl, struct replica *r, size_t lane) {
    const struct hm_job *m = tl->t->job;
    r->dp_rank = tl->t->recording->lanes[lane];
    for (size_t k = 0; k < m->n_nodes; k++) {
        const struct hm_node *node = &m->node[k];
        double latest = grouped(node) ? latest_launch(tl, node, lane) : 0;
        for (uint32_t i = node->first_slot; i < node->first_slot + node->n_slots; i++) {
            r->start[i] = recorded(tl, tl->t->grid.start, lane, i);
            r->move[i] = grouped(node) ? latest : r->start[i];
            r->end[i] = r->move[i] + fmax(0, recorded(tl, tl->t->grid.duration, lane, i));
        }
    }
}

static int take_ideal(const struct timeline *tl, struct replica *r) {
    const struct hm_job *m = tl->t->job;
    double *duration = hm_alloc(m->n_slots, sizeof *duration);
    if (!duration) return -1;
    for (size_t i = 0; i < m->n_slots; i++) duration[i] = tl->t->ideal_s[m->slot[i].peers];
    hm_replay_plain(m, 1, duration, r->start, r->end); /* without stragglers all replicas are alike */
    for (size_t i = 0; i < m->n_slots; i++)
        r->move[i] = grouped(&m->node[m->slot[i].node]) ? r->end[i] - fmax(0, duration[i]) : r->start[i];
    hm_free(duration);
    return 0;
}

/* The replica with the worker that costs most in this step, and the one in the middle of all. */
static void choose_lanes(const struct timeline *tl, const struct hm_analysis *a, size_t *worst, size_t *typical) {
    const uint32_t *lanes = tl->t->recording->lanes;
    size_t n = tl->t->recording->n_lanes;
    double most = -1, gap = INFINITY;
    *worst = 0;
    for (size_t s = 0; s < a->pp; s++)
        for (size_t l = 0; l < n; l++) {
            size_t at = s * a->dp + lanes[l];
            double v = a->step_by_worker ? a->step_by_worker[at * a->n_steps + tl->step] : a->by_worker[at];
            if (v > most) most = v, *worst = l;
        }
    *typical = *worst;
    double *sorted = hm_alloc(n, sizeof *sorted);
    if (!sorted) return;
    for (size_t l = 0; l < n; l++) sorted[l] = a->by_dp_rank[lanes[l]];
    double middle = hm_median(sorted, n);
    for (size_t l = 0; l < n; l++) {
        double away = fabs(a->by_dp_rank[lanes[l]] - middle);
        if (l != *worst && away < gap) gap = away, *typical = l;
    }
    hm_free(sorted);
}

/* Shows all ops, or the longest MAX_OPS. */
static int choose_ops(struct timeline *tl) {
    size_t slots = tl->t->job->n_slots;
    double *longest = hm_alloc(slots, sizeof *longest), *sorted = hm_alloc(slots, sizeof *sorted);
    tl->shown = hm_alloc(slots, sizeof *tl->shown);
    if (longest && sorted && tl->shown) {
        for (size_t i = 0; i < slots; i++) {
            for (size_t k = 0; k < tl->n; k++)
                longest[i] = fmax(longest[i], tl->replica[k].end[i] - tl->replica[k].start[i]);
            sorted[i] = longest[i];
        }
        double least = slots > MAX_OPS ? hm_select(sorted, slots, slots - MAX_OPS) : -1;
        for (size_t i = 0; i < slots && tl->n_shown < MAX_OPS; i++)
            if (longest[i] >= least) tl->shown[tl->n_shown++] = (uint32_t)i;
    }
    bool good = longest && sorted && tl->shown;
    hm_free(longest);
    hm_free(sorted);
    return good ? 0 : -1;
}

static double last_end(const struct timeline *tl) {
    double last = 0;
    for (size_t k = 0; k < tl->n; k++)
        for (size_t i = 0; i < tl->t->job->n_slots; i++) last = fmax(last, tl->replica[k].end[i]);
    return last;
}

enum field { F_STAGE, F_TYPE, F_SEQ, F_MICROBATCH, F_CHUNK, FIELDS };

static int32_t field_of(const struct hm_slot *s, enum field f) {
    switch (f) {
    case F_STAGE:
        return (int32_t)s->stage;
    case F_TYPE:
        return (int32_t)s->cls;
    case F_SEQ:
        return (int32_t)s->seq;
    case F_MICROBATCH:
        return s->mb;
    default:
        return s->mc;
    }
}

static void write_timeline(struct hm_json *j, const struct timeline *tl, bool *failed) {
    static const char *const names[FIELDS] = {"stage", "type", "seq", "microbatch", "chunk"};
    int32_t *values = hm_alloc(tl->n_shown, sizeof *values);
    if (!values) {
        *failed = true;
        return;
    }
    double tick = 1e-6;
    while (last_end(tl) / tick > 1e9) tick *= 10;
    hm_json_object(j, "timeline");
    hm_json_integer(j, "step", (int64_t)tl->step); /* index into the analysis' steps */
    hm_json_integer(j, "ops", (int64_t)tl->t->job->n_slots);
    hm_json_integer(j, "shown", (int64_t)tl->n_shown);
    hm_json_number(j, "tick_s", tick);
    hm_json_array(j, "op_types");
    for (size_t k = 0; k < tl->t->job->n_classes; k++) hm_json_string(j, NULL, tl->t->job->cls[k].name);
    hm_json_end_array(j);
    for (int f = 0; f < FIELDS; f++) {
        for (size_t i = 0; i < tl->n_shown; i++) values[i] = field_of(&tl->t->job->slot[tl->shown[i]], (enum field)f);
        pack(j, names[f], values, tl->n_shown, failed);
    }
    hm_json_array(j, "replicas");
    for (size_t k = 0; k < tl->n; k++) {
        const struct replica *r = &tl->replica[k];
        const double *times[] = {r->start, r->move, r->end};
        static const char *const keys[] = {"start", "move", "end"};
        hm_json_object(j, NULL);
        hm_json_string(j, "why", r->why);
        if (r->dp_rank == UINT32_MAX)
            hm_json_null(j, "dp_rank");
        else
            hm_json_integer(j, "dp_rank", r->dp_rank);
        for (size_t c = 0; c < 3; c++) {
            for (size_t i = 0; i < tl->n_shown; i++) values[i] = (int32_t)lrint(times[c][tl->shown[i]] / tick);
            pack(j, keys[c], values, tl->n_shown, failed);
        }
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
    hm_json_end_object(j);
    hm_free(values);
}

static void timeline(struct hm_json *j, const struct hm_trace *t, const struct hm_analysis *a, bool *failed) {
    struct timeline tl = {.t = t, .step = worst_step(a)};
    size_t slots = t->job->n_slots, worst, typical;
    double *times = hm_alloc((size_t)REPLICAS * 3, slots * sizeof *times);
    if (times && t->grid.start) {
        choose_lanes(&tl, a, &worst, &typical);
        for (size_t k = 0; k < REPLICAS; k++)
            tl.replica[k] = (struct replica){.start = times + k * 3 * slots,
                                             .move = times + (k * 3 + 1) * slots,
                                             .end = times + (k * 3 + 2) * slots};
        tl.replica[0].why = "recorded: the replica that costs most in this step";
        take_recorded(&tl, &tl.replica[tl.n++], worst);
        if (typical != worst) {
            tl.replica[tl.n].why = "recorded: a typical replica";
            take_recorded(&tl, &tl.replica[tl.n++], typical);
        }
        tl.replica[tl.n].why = "ideal: without stragglers";
        tl.replica[tl.n].dp_rank = UINT32_MAX;
        if (take_ideal(&tl, &tl.replica[tl.n++]) == 0 && choose_ops(&tl) == 0)
            write_timeline(j, &tl, failed);
        else
            *failed = true;
    } else if (!times) {
        *failed = true;
    }
    hm_free(times);
    hm_free(tl.shown);
}

int hm_page_data_write(const struct hm_trace *t, const struct hm_analysis *a, struct hm_out *out,
                       struct hm_error *err) {
    struct hm_json j;
    bool failed = false;
    hm_json_begin(&j, out, 0);
    hm_json_object(&j, NULL);
    hm_json_object(&j, "ideal_op_s");
    for (size_t f = 0; f < a->n_families; f++) hm_json_number(&j, a->by_op_type[f].name, a->by_op_type[f].ideal_s);
    hm_json_end_object(&j);
    if (a->step_by_worker) {
        steps_of_workers(&j, t, a, &failed);
        steps_of_op_types(&j, a);
    }
    timeline(&j, t, a, &failed);
    hm_json_end_object(&j);
    return failed ? hm_fail_memory(err) : 0;
}
