/* whatif.c - one replay with changed durations: selectors, values, and the replay itself. */
#include "whatif.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum value_kind { IDEAL, ORIGINAL, FACTOR, SECONDS };

struct span {
    int64_t first, last;
};

enum axis { STAGE, DP, STEP, MICROBATCH, AXES };
static const char *const axis_name[AXES] = {"stage", "dp", "step", "mb"};

/* One change. An axis that is not named selects everything on it; one named several times selects the union. */
struct change {
    bool *types, any_type; /* [class] */
    struct span *span[AXES];
    size_t spans[AXES];
    enum value_kind kind;
    double value;
};

struct whatif {
    struct hm_trace *t;
    struct change *change;
    size_t changes;
    bool from_ideal;
    struct hm_scratch **scratch; /* [thread] */
    double **durations;          /* [thread][lane][slot][8] */
    struct hm_view **views;      /* [thread][lane] */
    double *before, *after;      /* [step] */
    _Atomic size_t *selected;    /* [change] ops it touched */
};

/* ---- reading a change ---- */

static int bad(struct hm_error *err, const char *text, const char *why) {
    return hm_fail(err, HM_ERR_ARGUMENT, "--set %s: %s; see 'hindmost help whatif'", text, why);
}

/* An op type, or a family of them. */
static bool select_type(struct change *c, const struct hm_job *m, const char *name) {
    bool found = false;
    for (size_t t = 0; t < m->n_classes; t++) {
        const struct hm_class *k = &m->cls[t];
        bool in = strcmp(name, k->name) == 0 || (strcmp(name, "compute") == 0 && hm_is_pass(k)) ||
                  (strcmp(name, "p2p") == 0 && hm_is_point_to_point(k)) ||
                  (strcmp(name, "dp") == 0 && k->scope == HM_DP_GROUP) ||
                  (strcmp(name, "comm") == 0 && k->scope != HM_ALONE) || strcmp(name, m->family[k->family]) == 0;
        c->types[t] |= in;
        found |= in;
    }
    return found;
}

static int parse_span(const char *text, const char *whole, struct span *span, struct hm_error *err) {
    if (!hm_parse_range(text, NULL, &span->first, &span->last))
        return bad(err, whole, "a range is a number or A-B, such as dp:0-3");
    return 0;
}

static int parse_selector(struct change *c, const struct hm_job *m, char *selector, const char *whole,
                          struct hm_error *err) {
    char *rest = selector, *term;
    c->any_type = true;
    if (!(c->types = hm_alloc(m->n_classes, sizeof *c->types))) return hm_fail_memory(err);
    while ((term = strsep(&rest, ",")) != NULL) {
        if (strcmp(term, "all") == 0) continue;
        char *colon = strchr(term, ':');
        if (!colon) return bad(err, whole, "a selector is type:NAME, stage:N, dp:A-B, step:A-B, mb:A-B or all");
        *colon = 0;
        const char *argument = colon + 1;
        if (strcmp(term, "type") == 0) {
            c->any_type = false;
            if (!select_type(c, m, argument))
                return bad(err, whole, "no such op type; families are compute, p2p, dp and comm");
            continue;
        }
        int axis = 0;
        while (axis < AXES && strcmp(term, axis_name[axis]) != 0) axis++;
        if (axis == AXES) return bad(err, whole, "a selector is type:NAME, stage:N, dp:A-B, step:A-B, mb:A-B or all");
        struct span *grown = hm_realloc(c->span[axis], c->spans[axis] + 1, sizeof *grown);
        if (!grown) return hm_fail_memory(err);
        c->span[axis] = grown;
        if (parse_span(argument, whole, &grown[c->spans[axis]++], err) != 0) return -1;
    }
    return 0;
}

static int parse_value(struct change *c, const char *value, const char *whole, struct hm_error *err) {
    if (strcmp(value, "ideal") == 0 || strcmp(value, "original") == 0) {
        c->kind = value[0] == 'i' ? IDEAL : ORIGINAL;
        return 0;
    }
    char *end;
    bool factor = value[0] == 'x';
    c->kind = factor ? FACTOR : SECONDS;
    c->value = strtod(value + factor, &end);
    static const struct {
        const char *name;
        double unit;
    } units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}};
    bool good = end != value + factor && isfinite(c->value) && c->value >= 0 && c->value < 1e9;
    if (good && factor) good = *end == 0;
    if (good && !factor) {
        size_t k = 0;
        while (k < 3 && strcmp(end, units[k].name) != 0) k++;
        good = k < 3;
        if (good) c->value *= units[k].unit;
    }
    return good ? 0 : bad(err, whole, "a value is ideal, original, a factor such as x1.5, or seconds such as 0.15s");
}

static int parse_change(struct change *c, const struct hm_job *m, const char *text, struct hm_error *err) {
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text) return bad(err, text, "a change is SELECTOR=VALUE");
    char *selector = hm_strdup(text);
    if (!selector) return hm_fail_memory(err);
    selector[equals - text] = 0;
    int status = parse_selector(c, m, selector, text, err);
    hm_free(selector);
    return status == 0 ? parse_value(c, equals + 1, text, err) : -1;
}

/* ---- applying it ---- */

static bool on_axis(const struct change *c, enum axis axis, int64_t at) {
    if (c->spans[axis] == 0) return true;
    for (size_t k = 0; k < c->spans[axis]; k++)
        if (at >= c->span[axis][k].first && at <= c->span[axis][k].last) return true;
    return false;
}

static bool on_slot(const struct change *c, const struct hm_slot *slot) {
    return (c->any_type || c->types[slot->cls]) && on_axis(c, STAGE, slot->stage) && on_axis(c, MICROBATCH, slot->mb);
}

static void apply(struct whatif *w, size_t index, size_t block, double *durations) {
    const struct hm_trace *t = w->t;
    const struct change *c = &w->change[index];
    size_t width = hm_grid_width(&t->grid, block), touched = 0;
    bool steps[HM_WIDTH] = {0};
    for (size_t k = 0; k < width; k++) steps[k] = on_axis(c, STEP, t->recording->steps[block * HM_WIDTH + k]);
    for (size_t lane = 0; lane < t->grid.lanes; lane++) {
        if (!on_axis(c, DP, t->recording->lanes[lane])) continue;
        const double *original = hm_grid_lane(&t->grid, t->grid.duration, block, lane);
        double *now = durations + lane * t->grid.slots * HM_WIDTH;
        for (size_t i = 0; i < t->grid.slots; i++) {
            if (!on_slot(c, &t->job->slot[i])) continue;
            for (size_t k = 0; k < width; k++) {
                if (!steps[k]) continue;
                double *d = &now[i * HM_WIDTH + k];
                touched++;
                *d = c->kind == IDEAL      ? t->ideal_fill[i * HM_WIDTH + k]
                     : c->kind == ORIGINAL ? original[i * HM_WIDTH + k]
                     : c->kind == FACTOR   ? *d * c->value
                                           : c->value;
            }
        }
    }
    atomic_fetch_add_explicit(&w->selected[index], touched, memory_order_relaxed);
}

static void replay_block(void *context, size_t block, int thread) {
    struct whatif *w = context;
    const struct hm_trace *t = w->t;
    const struct hm_grid *g = &t->grid;
    double *durations = w->durations[thread];
    size_t lane_size = g->slots * HM_WIDTH, width = hm_grid_width(g, block);
    for (size_t lane = 0; lane < g->lanes; lane++) {
        const double *from = w->from_ideal ? t->ideal_fill : hm_grid_lane(g, g->duration, block, lane);
        memcpy(durations + lane * lane_size, from, lane_size * sizeof(double));
        w->views[thread][lane] = (struct hm_view){.duration = durations + lane * lane_size};
    }
    struct hm_ends ends;
    hm_replay(t->program, w->views[thread], g->lanes, true, w->scratch[thread], &ends);
    hm_ends_span(&ends, width, w->before + block * HM_WIDTH);
    for (size_t k = 0; k < w->changes; k++) apply(w, k, block, durations);
    hm_replay(t->program, w->views[thread], g->lanes, true, w->scratch[thread], &ends);
    hm_ends_span(&ends, width, w->after + block * HM_WIDTH);
    hm_grid_release(g, block, 0, g->lanes);
}

static int make_room(struct whatif *w, int threads) {
    const struct hm_grid *g = &w->t->grid;
    w->scratch = hm_alloc((size_t)threads, sizeof *w->scratch);
    w->durations = hm_alloc((size_t)threads, sizeof *w->durations);
    w->views = hm_alloc((size_t)threads, sizeof *w->views);
    w->before = hm_alloc(g->steps, sizeof(double));
    w->after = hm_alloc(g->steps, sizeof(double));
    w->selected = hm_alloc(w->changes, sizeof *w->selected);
    if (!w->scratch || !w->durations || !w->views || !w->before || !w->after || !w->selected) return -1;
    for (int t = 0; t < threads; t++) {
        w->scratch[t] = hm_scratch_new(w->t->program, g->lanes);
        w->durations[t] = hm_alloc_aligned(g->lanes * g->slots * HM_WIDTH, sizeof(double));
        w->views[t] = hm_alloc(g->lanes, sizeof **w->views);
        if (!w->scratch[t] || !w->durations[t] || !w->views[t]) return -1;
    }
    return 0;
}

static void free_room(struct whatif *w, int threads) {
    for (int t = 0; t < threads; t++) {
        if (w->scratch) hm_scratch_free(w->scratch[t]);
        if (w->durations) hm_free(w->durations[t]);
        if (w->views) hm_free(w->views[t]);
    }
    hm_free(w->scratch);
    hm_free(w->durations);
    hm_free(w->views);
    hm_free(w->before);
    hm_free(w->after);
    hm_free((void *)w->selected);
    for (size_t k = 0; w->change && k < w->changes; k++) hm_free(w->change[k].types);
    for (size_t k = 0; w->change && k < w->changes; k++)
        for (int axis = 0; axis < AXES; axis++) hm_free(w->change[k].span[axis]);
    hm_free(w->change);
}

int hm_whatif(struct hm_trace *trace, bool from_ideal, const char *const *changes, size_t n, int threads,
              struct hm_whatif_result *result, struct hm_error *err) {
    struct whatif w = {.t = trace, .from_ideal = from_ideal, .changes = n};
    threads = hm_thread_count(threads, trace->grid.blocks);
    int status = (w.change = hm_alloc(n, sizeof *w.change)) ? 0 : hm_fail_memory(err);
    for (size_t k = 0; k < n && status == 0; k++) status = parse_change(&w.change[k], trace->job, changes[k], err);
    if (status == 0 && make_room(&w, threads) != 0) status = hm_fail_memory(err);
    if (status == 0) {
        hm_parallel(trace->grid.blocks, threads, replay_block, &w);
        for (size_t k = 0; k < n && status == 0; k++)
            if (w.selected[k] == 0) status = bad(err, changes[k], "selects no op of this trace");
    }
    if (status == 0) {
        result->baseline_s = hm_mean(w.before, trace->grid.steps);
        result->result_s = hm_mean(w.after, trace->grid.steps);
        result->speedup = result->baseline_s / result->result_s;
    }
    free_room(&w, threads);
    return status;
}

void hm_whatif_write_json(const struct hm_whatif_result *r, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 1);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "schema", "hindmost.whatif/1");
    hm_json_number(&j, "baseline_s", r->baseline_s);
    hm_json_number(&j, "result_s", r->result_s);
    hm_json_number(&j, "speedup", r->speedup);
    hm_json_end_object(&j);
    hm_json_finish(&j);
}
