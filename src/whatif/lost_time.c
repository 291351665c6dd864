/* lost_time.c - time that replays leave out, put back.
 *
 * A launch delay is the time between the latest recorded end of what an op waits for and its recorded start: data that come late, CPU
 * work, Python. Replays use 0 (OSDI 2025, section 3), so a replica that waits for its batch half of each step costs nothing there. Here each
 * op's delay beyond what is usual among the replicas in the same step is put into a replay of the recorded durations; what it becomes longer
 * by is lost. What all replicas have alike is no straggling: it would be there without stragglers as well.
 *
 * A launch that is late by d moves its group by how much the group's latest launch would have been earlier without it. So a late member
 * that others waited for anyway costs nothing. The same holds for replicas that were left out (grid.outside): their launches delay the
 * groups that they share with the replicas that were kept.
 *
 * Clocks that are apart make delays out of nothing. The recording bounds that: what was put back is never more than the recorded step is
 * longer than the replayed one. */
#include "lost_time.h"

#include <math.h>
#include <string.h>

static const double nothing = 1e-5; /* of a step: shorter delays are not looked at, they are many and cost time */

struct put_back {
    const struct hm_trace *t;
    const double *replayed_s;
    double *launch_s, *left_out_s; /* [step] */
    double *
        late_s; /* [block][stage * lanes + lane] sums over steps: added up in order, so that the number of threads changes no digit */
    size_t workers;
    double least_s;
    /* [thread] */
    struct hm_groups *groups;
    struct hm_scratch **scratch;
    struct hm_view **views;
    double **late; /* [lane][slot][8] delays, then what every op is late by, then durations */
    double **end;  /* [slot][8] of one lane; also room for one value a lane */
};

/* Recorded start - latest recorded end of what it waits for, for every op of one lane; 0 where nothing was recorded. */
static void launch_delays(const struct put_back *b, const struct hm_groups *groups, size_t lane, double *end,
                          double *delay) {
    const struct hm_job *m = b->t->job;
    const struct hm_grid *g = &b->t->grid;
    const double *start = hm_grid_lane(g, g->start, groups->block, lane),
                 *duration = hm_grid_lane(g, g->duration, groups->block, lane);
    for (uint32_t n = 0; n < m->n_nodes; n++) {
        double begin[HM_WIDTH];
        hm_group_start(groups, lane, n, begin);
        for (size_t i = m->node[n].first_slot; i < (size_t)m->node[n].first_slot + m->node[n].n_slots; i++)
            for (size_t k = 0; k < HM_WIDTH; k++) end[i * HM_WIDTH + k] = begin[k] + duration[i * HM_WIDTH + k];
    }
    for (size_t i = 0; i < m->n_slots; i++) {
        const struct hm_slot *slot = &m->slot[i];
        double ready[HM_WIDTH] = {0};
        for (uint32_t d = 0; d < slot->n_deps; d++) {
            const double *e = end + (size_t)m->dep[slot->first_dep + d] * HM_WIDTH;
            for (size_t k = 0; k < HM_WIDTH; k++)
                if (d == 0 || e[k] > ready[k]) ready[k] = e[k];
        }
        for (size_t k = 0; k < HM_WIDTH; k++) {
            double late = start[i * HM_WIDTH + k] - ready[k];
            delay[i * HM_WIDTH + k] = isfinite(late) ? late : 0;
        }
    }
}

/* What is usual: the lower third, so that more than half of the replicas may be late; never less than nothing. */
static double usual(double *x, size_t n) {
    double low = hm_select(x, n, (n - 1) / 3);
    return low > 0 ? low : 0;
}

/* Leaves of each delay of a slot what it is beyond the usual: among the replicas in that step, or among the block's steps if there is only
 * one replica. */
static void beyond_usual(const struct put_back *b, size_t slot, size_t width, double *late, double *room) {
    const size_t lanes = b->t->grid.lanes, stride = b->t->grid.slots * HM_WIDTH;
    double *x = late + slot * HM_WIDTH;
    if (lanes == 1) {
        memcpy(room, x, width * sizeof *x);
        double all = usual(room, width);
        for (size_t k = 0; k < HM_WIDTH; k++) x[k] = width > 1 && k < width ? fmax(0, x[k] - all) : 0;
        return;
    }
    for (size_t k = 0; k < HM_WIDTH; k++) {
        double most = 0;
        for (size_t l = 0; l < lanes; l++) most = fmax(most, x[l * stride + k]);
        double all = INFINITY;
        if (most > b->least_s && k < width) {
            for (size_t l = 0; l < lanes; l++) room[l] = x[l * stride + k];
            all = usual(room, lanes);
        }
        for (size_t l = 0; l < lanes; l++) x[l * stride + k] = fmax(0, x[l * stride + k] - all);
    }
}

static void add_up(const struct put_back *b, size_t width, const double *late, double *late_s) {
    const struct hm_job *m = b->t->job;
    const size_t lanes = b->t->grid.lanes;
    for (size_t l = 0; l < lanes; l++)
        for (size_t i = 0; i < m->n_slots; i++)
            for (size_t k = 0; k < width; k++)
                late_s[m->slot[i].stage * lanes + l] += late[(l * m->n_slots + i) * HM_WIDTH + k];
}

/* Raises begin to the latest launch of a node's members in one lane, and without to what that were if none was late. */
static void raise_launches(const struct hm_node *node, const double *start, const double *late, double *begin,
                           double *without) {
    for (size_t i = (size_t)node->first_slot * HM_WIDTH; i < (size_t)(node->first_slot + node->n_slots) * HM_WIDTH;
         i++) {
        size_t k = i % HM_WIDTH;
        if (start[i] > begin[k]) begin[k] = start[i];
        if (start[i] - late[i] > without[k]) without[k] = start[i] - late[i];
    }
}

/* From what the members' launches are late by to what the whole node is: its members end together. */
static void spread_to_group(const struct put_back *b, const struct hm_groups *groups, const struct hm_node *node,
                            size_t first, size_t lanes, double *late) {
    const struct hm_grid *g = &b->t->grid;
    double begin[HM_WIDTH], without[HM_WIDTH];
    for (size_t k = 0; k < HM_WIDTH; k++) begin[k] = without[k] = -INFINITY;
    for (size_t l = first; l < first + lanes; l++)
        raise_launches(node, hm_grid_lane(g, g->start, groups->block, l), late + l * g->slots * HM_WIDTH, begin,
                       without);
    for (size_t k = 0; k < HM_WIDTH; k++) begin[k] = begin[k] > without[k] ? begin[k] - without[k] : 0;
    for (size_t l = first; l < first + lanes; l++)
        for (size_t i = node->first_slot; i < (size_t)node->first_slot + node->n_slots; i++)
            memcpy(late + (l * g->slots + i) * HM_WIDTH, begin, sizeof begin);
}

/* Adds to the across nodes' members what replicas that were left out came later by than all others. */
static void add_outside(const struct put_back *b, size_t block, double *late) {
    const struct hm_job *m = b->t->job;
    const struct hm_grid *g = &b->t->grid;
    for (size_t n = 0; n < m->n_nodes; n++) {
        const struct hm_node *node = &m->node[n];
        if (node->across < 0) continue;
        const double *outside = g->outside->launch_s + hm_outside_at(g->outside, node, block);
        double begin[HM_WIDTH], without[HM_WIDTH];
        for (size_t k = 0; k < HM_WIDTH; k++) begin[k] = without[k] = -INFINITY;
        for (size_t l = 0; l < g->lanes; l++)
            raise_launches(node, hm_grid_lane(g, g->start, block, l), late + l * g->slots * HM_WIDTH, begin, without);
        for (size_t l = 0; l < g->lanes; l++)
            for (size_t i = node->first_slot; i < (size_t)node->first_slot + node->n_slots; i++)
                for (size_t k = 0; k < hm_grid_width(g, block); k++)
                    if (outside[k] > begin[k]) late[(l * g->slots + i) * HM_WIDTH + k] += outside[k] - begin[k];
    }
}

/* Step times with the recorded durations, each longer by what it is late. */
static void replay_with(const struct put_back *b, size_t block, int thread, double *step_s) {
    const struct hm_grid *g = &b->t->grid;
    double *late = b->late[thread];
    for (size_t l = 0; l < g->lanes; l++) {
        const double *duration = hm_grid_lane(g, g->duration, block, l);
        double *own = late + l * g->slots * HM_WIDTH;
        for (size_t i = 0; i < g->slots * HM_WIDTH; i++) own[i] += duration[i];
        b->views[thread][l] = (struct hm_view){.duration = own};
    }
    struct hm_ends ends;
    hm_replay(b->t->program, b->views[thread], g->lanes, true, b->scratch[thread], &ends);
    hm_ends_span(&ends, hm_grid_width(g, block), step_s);
}

static void put_back_block(void *context, size_t block, int thread) {
    const struct put_back *b = context;
    const struct hm_job *m = b->t->job;
    const struct hm_grid *g = &b->t->grid;
    const size_t width = hm_grid_width(g, block), first = block * HM_WIDTH, lane_size = g->slots * HM_WIDTH;
    struct hm_groups *groups = &b->groups[thread];
    double *late = b->late[thread], *end = b->end[thread], outside_s[HM_WIDTH], both_s[HM_WIDTH];
    double missing = 0; /* what the recorded steps are longer by than the replayed ones */
    for (size_t k = 0; k < width; k++) missing = fmax(missing, g->actual_s[first + k] - b->replayed_s[first + k]);
    memcpy(outside_s, b->replayed_s + first, width * sizeof(double));
    if (g->outside && missing > 0) {
        memset(late, 0, g->lanes * lane_size * sizeof(double));
        add_outside(b, block, late);
        replay_with(b, block, thread, outside_s);
    }
    if (missing > b->least_s) {
        hm_groups_gather_all(groups, block);
        for (size_t l = 0; l < g->lanes; l++) launch_delays(b, groups, l, end, late + l * lane_size);
        for (size_t i = 0; i < g->slots; i++) beyond_usual(b, i, width, late, end);
        add_up(b, width, late, b->late_s + block * b->workers);
        for (size_t n = 0; n < m->n_nodes; n++) {
            const struct hm_node *node = &m->node[n];
            if (node->across >= 0) spread_to_group(b, groups, node, 0, g->lanes, late);
            for (size_t l = 0; node->across < 0 && node->n_slots > 1 && l < g->lanes; l++)
                spread_to_group(b, groups, node, l, 1, late);
        }
        if (g->outside) add_outside(b, block, late);
        replay_with(b, block, thread, both_s);
    } else {
        memcpy(both_s, outside_s, sizeof both_s);
    }
    for (size_t k = 0; k < width; k++) {
        double room = fmax(0, g->actual_s[first + k] - b->replayed_s[first + k]);
        b->left_out_s[first + k] = fmin(room, fmax(0, outside_s[k] - b->replayed_s[first + k]));
        b->launch_s[first + k] = fmin(room - b->left_out_s[first + k], fmax(0, both_s[k] - outside_s[k]));
    }
    hm_grid_release(g, block, 0, g->lanes);
}

static bool begin(struct put_back *b, int threads) {
    const struct hm_grid *g = &b->t->grid;
    size_t n = (size_t)threads, room = g->slots * HM_WIDTH > g->lanes ? g->slots * HM_WIDTH : g->lanes;
    b->launch_s = hm_alloc(g->steps, sizeof(double));
    b->left_out_s = hm_alloc(g->steps, sizeof(double));
    b->late_s = hm_alloc(g->blocks * b->workers, sizeof(double));
    b->groups = hm_alloc(n, sizeof *b->groups);
    b->scratch = hm_alloc(n, sizeof *b->scratch);
    b->views = hm_alloc(n, sizeof *b->views);
    b->late = hm_alloc(n, sizeof *b->late);
    b->end = hm_alloc(n, sizeof *b->end);
    bool good = b->launch_s && b->left_out_s && b->late_s && b->groups && b->scratch && b->views && b->late && b->end;
    for (size_t t = 0; good && t < n; t++)
        good = hm_groups_begin(&b->groups[t], g, b->t->job) == 0 &&
               (b->scratch[t] = hm_scratch_new(b->t->program, g->lanes)) != NULL &&
               (b->views[t] = hm_alloc(g->lanes, sizeof **b->views)) != NULL &&
               (b->late[t] = hm_alloc_aligned(g->lanes * g->slots * HM_WIDTH, sizeof(double))) != NULL &&
               (b->end[t] = hm_alloc(room, sizeof(double))) != NULL;
    return good;
}

static void finish(struct put_back *b, int threads) {
    for (int t = 0; t < threads; t++) {
        if (b->groups) hm_groups_end(&b->groups[t]);
        if (b->scratch) hm_scratch_free(b->scratch[t]);
        if (b->views) hm_free(b->views[t]);
        if (b->late) hm_free(b->late[t]);
        if (b->end) hm_free(b->end[t]);
    }
    hm_free(b->launch_s);
    hm_free(b->left_out_s);
    hm_free(b->late_s);
    hm_free(b->groups);
    hm_free(b->scratch);
    hm_free(b->views);
    hm_free(b->late);
    hm_free(b->end);
}

int hm_lost_time(const struct hm_trace *t, const double *replayed_s, int threads, struct hm_lost_time *lost) {
    const struct hm_grid *g = &t->grid;
    struct put_back b = {.t = t, .replayed_s = replayed_s, .workers = t->job->stages * g->lanes};
    *lost = (struct hm_lost_time){.late_s = hm_alloc(b.workers, sizeof(double))};
    double missing = 0;
    for (size_t i = 0; i < g->steps; i++) missing = fmax(missing, g->actual_s[i] - replayed_s[i]);
    b.least_s = nothing * hm_mean(replayed_s, g->steps);
    if (!lost->late_s) return -1;
    if (!g->start || !(missing > b.least_s)) return 0;
    int n = hm_thread_count(threads, g->blocks);
    bool good = begin(&b, n);
    if (good) {
        hm_parallel(g->blocks, n, put_back_block, &b);
        lost->launch_waits_s = hm_mean(b.launch_s, g->steps);
        lost->left_out_waits_s = hm_mean(b.left_out_s, g->steps);
        for (size_t i = 0; i < g->blocks * b.workers; i++)
            lost->late_s[i % b.workers] += b.late_s[i] / (double)g->steps;
    }
    finish(&b, n);
    return good ? 0 : -1;
}

void hm_lost_time_free(struct hm_lost_time *lost) {
    hm_free(lost->late_s);
    lost->late_s = NULL;
}
