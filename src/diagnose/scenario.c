/* scenario.c - replays of the whole job with edited durations. */
#include "diagnose.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const struct hm_effects *e;
    hm_edit_fn edit;
    void *context;
    struct hm_scratch **scratch; /* [thread] */
    double **durations;          /* [thread][lane][slot][8] */
    struct hm_view **views;      /* [thread][lane] */
    double *ends;                /* [step] */
};

static void replay_block(void *context, size_t block, int thread) {
    struct run *r = context;
    const struct hm_grid *g = &r->e->t->grid;
    const size_t size = g->slots * HM_WIDTH;
    for (size_t lane = 0; lane < g->lanes; lane++) {
        double *d = r->durations[thread] + lane * size;
        memcpy(d, hm_grid_lane(g, g->duration, block, lane), size * sizeof *d);
        r->edit(r->context, block, lane, d);
        r->views[thread][lane] = (struct hm_view){.duration = d};
    }
    struct hm_ends ends;
    hm_replay(r->e->t->program, r->views[thread], g->lanes, true, r->scratch[thread], &ends);
    memcpy(r->ends + block * HM_WIDTH, ends.any, hm_grid_width(g, block) * sizeof(double));
    hm_grid_release(g, block, 0, g->lanes);
}

double hm_replay_edited(const struct hm_effects *e, hm_edit_fn edit, void *context) {
    const struct hm_grid *g = &e->t->grid;
    int threads = hm_thread_count(e->threads, g->blocks);
    struct run r = {.e = e, .edit = edit, .context = context};
    r.scratch = hm_alloc((size_t)threads, sizeof *r.scratch);
    r.durations = hm_alloc((size_t)threads, sizeof *r.durations);
    r.views = hm_alloc((size_t)threads, sizeof *r.views);
    r.ends = hm_alloc(g->steps, sizeof *r.ends);
    bool good = r.scratch && r.durations && r.views && r.ends;
    for (int t = 0; good && t < threads; t++) {
        r.scratch[t] = hm_scratch_new(e->t->program, g->lanes);
        r.durations[t] = hm_alloc_aligned(g->lanes * g->slots * HM_WIDTH, sizeof(double));
        r.views[t] = hm_alloc(g->lanes, sizeof **r.views);
        good = r.scratch[t] && r.durations[t] && r.views[t];
    }
    double mean = NAN;
    if (good) {
        hm_parallel(g->blocks, threads, replay_block, &r);
        mean = hm_mean(r.ends, g->steps);
    }
    for (int t = 0; t < threads; t++) {
        if (r.scratch) hm_scratch_free(r.scratch[t]);
        if (r.durations) hm_free(r.durations[t]);
        if (r.views) hm_free(r.views[t]);
    }
    hm_free(r.scratch);
    hm_free(r.durations);
    hm_free(r.views);
    hm_free(r.ends);
    return mean;
}

/* ---- parts made neutral ---- */

struct without {
    const struct hm_effects *e;
    unsigned parts;
    uint8_t *slow_link; /* [type][stage][lane] */
};

static const struct hm_spike *first_spike_in(const struct hm_effects *e, size_t step) {
    size_t lo = 0, hi = e->n_spikes;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (e->spikes[mid].step < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return e->spikes + lo;
}

static void edit_compute(const struct without *w, size_t block, size_t lane, double *durations) {
    const struct hm_effects *e = w->e;
    const struct hm_grid *g = &e->t->grid;
    for (size_t k = 0; k < hm_grid_width(g, block); k++) {
        size_t step = block * HM_WIDTH + k;
        const struct hm_spike *spike = first_spike_in(e, step), *end = e->spikes + e->n_spikes;
        while (spike < end && spike->step == step && spike->lane < lane) spike++;
        double worker[HM_MAX_STAGES];
        for (size_t s = 0; s < e->stages; s++)
            worker[s] = e->slow_worker[s * e->lanes + lane] ? hm_worker_factor(e, s, lane, step) : 1;
        double replica = e->slow_replica[lane] ? e->replica[lane] : 1;
        for (uint32_t i = 0; i < e->slots; i++) {
            uint32_t class = e->class_of[i];
            if (class == UINT32_MAX) continue;
            const struct hm_slot *s = &e->t->model->slot[i];
            double *d = &durations[i * HM_WIDTH + k];
            bool spiked = spike < end && spike->step == step && spike->lane == lane && spike->slot == i;
            if (spiked && w->parts & HM_PART_SPIKES) *d = spike->expected_s;
            if (!spiked && w->parts & HM_PART_SEQUENCES) *d = e->mean[class] * worker[s->stage] * replica;
            if (w->parts & HM_PART_WORKERS) *d /= worker[s->stage];
            if (w->parts & HM_PART_REPLICAS) *d /= replica;
            if (w->parts & HM_PART_STAGES)
                *d *= e->stage_scale[(s->type == HM_BACKWARD_COMPUTE ? e->stages : 0) + s->stage];
            if (spiked) spike++;
        }
    }
}

static void edit_parts(void *context, size_t block, size_t lane, double *durations) {
    const struct without *w = context;
    const struct hm_effects *e = w->e;
    if (w->parts & (HM_PART_WORKERS | HM_PART_STAGES | HM_PART_SEQUENCES | HM_PART_SPIKES | HM_PART_REPLICAS))
        edit_compute(w, block, lane, durations);
    if (w->parts & HM_PART_LINKS)
        for (size_t i = 0; i < e->slots; i++) {
            const struct hm_slot *s = &e->t->model->slot[i];
            if (!w->slow_link[(s->type * e->stages + s->stage) * e->lanes + lane]) continue;
            for (size_t k = 0; k < HM_WIDTH; k++)
                durations[i * HM_WIDTH + k] = fmin(durations[i * HM_WIDTH + k], e->t->ideal_s[s->type]);
        }
}

double hm_replay_without(const struct hm_effects *e, unsigned parts) {
    struct without w = {.e = e, .parts = parts, .slow_link = hm_alloc(HM_OP_TYPES * e->stages * e->lanes, 1)};
    if (!w.slow_link) return NAN;
    for (size_t k = 0; k < e->n_links; k++)
        w.slow_link[(e->links[k].type * e->stages + e->links[k].stage) * e->lanes + e->links[k].lane] = 1;
    double mean = hm_replay_edited(e, edit_parts, &w);
    hm_free(w.slow_link);
    return mean;
}
