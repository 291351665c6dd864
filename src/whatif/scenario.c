/* scenario.c - replays of the whole job with changed durations, blocks of steps in parallel. */
#include "scenario.h"

#include <string.h>

struct run {
    struct hm_scenarios *s;
    hm_change_fn change;
    hm_touches_fn touches;
    const void *context;
};

int hm_scenarios_begin(struct hm_scenarios *s, const struct hm_trace *t, int threads) {
    const struct hm_grid *g = &t->grid;
    *s = (struct hm_scenarios){.t = t, .threads = hm_thread_count(threads, g->blocks)};
    s->scratch = hm_alloc((size_t)s->threads, sizeof *s->scratch);
    s->duration = hm_alloc((size_t)s->threads, sizeof *s->duration);
    s->views = hm_alloc((size_t)s->threads, sizeof *s->views);
    s->any = hm_alloc(g->steps, sizeof(double));
    bool good = s->scratch && s->duration && s->views && s->any;
    for (int i = 0; i < s->threads && good; i++) {
        s->scratch[i] = hm_scratch_new(t->program, g->lanes);
        s->duration[i] = hm_alloc_aligned(g->lanes * g->slots * HM_WIDTH, sizeof(double));
        s->views[i] = hm_alloc(g->lanes, sizeof **s->views);
        good = s->scratch[i] && s->duration[i] && s->views[i];
    }
    if (good) return 0;
    hm_scenarios_end(s);
    return -1;
}

void hm_scenarios_end(struct hm_scenarios *s) {
    for (int i = 0; i < s->threads; i++) {
        if (s->scratch) hm_scratch_free(s->scratch[i]);
        if (s->duration) hm_free(s->duration[i]);
        if (s->views) hm_free(s->views[i]);
    }
    hm_free(s->scratch);
    hm_free(s->duration);
    hm_free(s->views);
    hm_free(s->any);
    *s = (struct hm_scenarios){0};
}

static void replay_block(void *context, size_t block, int thread) {
    const struct run *r = context;
    const struct hm_trace *t = r->s->t;
    const struct hm_grid *g = &t->grid;
    struct hm_view *views = r->s->views[thread];
    const size_t lane_size = g->slots * HM_WIDTH;
    for (size_t lane = 0; lane < g->lanes; lane++) {
        const double *recorded = hm_grid_lane(g, g->duration, block, lane);
        views[lane] = (struct hm_view){.duration = recorded};
        if (!r->change || (r->touches && !r->touches(r->context, lane))) continue;
        double *own = r->s->duration[thread] + lane * lane_size;
        memcpy(own, recorded, lane_size * sizeof(double));
        r->change(r->context, block, lane, own);
        views[lane].duration = own;
    }
    struct hm_ends ends;
    hm_replay(t->program, views, g->lanes, true, r->s->scratch[thread], &ends);
    hm_ends_span(&ends, hm_grid_width(g, block), r->s->any + block * HM_WIDTH);
    hm_grid_release(g, block, 0, g->lanes);
}

double hm_scenario_mean_s(struct hm_scenarios *s, hm_change_fn change, hm_touches_fn touches, const void *context) {
    struct run r = {s, change, touches, context};
    hm_parallel(s->t->grid.blocks, s->threads, replay_block, &r);
    return hm_mean(s->any, s->t->grid.steps);
}
