/* ranks.c - who is slow, from each rank's own time in each step: the least table that is a recording.
 *
 * Ranks of a step meet at its end, so the step takes as long as its slowest rank. Peers (ranks of the same pipeline stage) do the same
 * work: their ideal is the mean of their own times over all steps. S is the mean of the steps' maxima over that of the ideal step; S
 * of a rank keeps that rank's own times and gives all others theirs ideal, as everywhere. A rank is called slow for persistence (the
 * slowest of its peers in most steps) before its size: among n peers chance makes it the slowest in one of n. */
#include "series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_STEPS = 3 };
static const double LEAST_PACE = 1.05, MOST_OFTEN = 0.6, NO_SPREAD = 0.005;

/* ---- which timers are own time ---- */

/* Best first: all parts of a row must have been printed. */
static const struct {
    const char *part[2], *says;
    bool may_wait; /* waiting for other ranks is in it */
} own_times[] = {
    {{"time printed", NULL}, "the time printed", true},
    {{"forward-compute", "backward-compute"}, "forward-compute + backward-compute", false},
    {{"fwd", "bwd_inner"}, "fwd + bwd_inner", false},
    {{"forward-backward", NULL}, "forward-backward", true},
    {{"forward-compute", NULL}, "forward-compute", false},
};
enum { N_OWN = sizeof own_times / sizeof own_times[0] };

static int timer_named(const struct collected *c, const char *name) {
    for (int k = 0; name && k < c->n_timers; k++)
        if (strcmp(c->timer[k], name) == 0) return k;
    return -1;
}

static bool has_times(const struct collected *c, int timer) {
    for (size_t i = 0; timer >= 0 && i < c->n_times; i++)
        if (c->time[i].timer == timer) return true;
    return false;
}

static int choose_own(const struct collected *c) {
    for (int k = 0; k < N_OWN; k++) {
        bool all = true;
        for (int p = 0; p < 2 && own_times[k].part[p]; p++) all &= has_times(c, timer_named(c, own_times[k].part[p]));
        if (all) return k;
    }
    return -1;
}

/* ---- the table ---- */

static int by_number(const void *a, const void *b) {
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int list_ranks(struct collected *c, struct hm_error *err) {
    struct hm_series *s = c->s;
    int *number = hm_alloc(c->n_times, sizeof *number);
    size_t n = 0, bytes;
    if (!number) return hm_fail_memory(err);
    for (size_t i = 0; i < c->n_times; i++) number[i] = c->time[i].rank;
    qsort(number, c->n_times, sizeof *number, by_number);
    for (size_t i = 0; i < c->n_times; i++)
        if (n == 0 || number[n - 1] != number[i]) number[n++] = number[i];
    s->rank = hm_alloc(n, sizeof *s->rank);
    s->own_s = hm_mul(n, s->n, &bytes) ? hm_alloc(bytes, sizeof *s->own_s) : NULL;
    for (size_t r = 0; s->rank && r < n; r++)
        s->rank[r] = (struct hm_series_rank){.rank = number[r], .stage = -1, .data_s = NAN, .pace = NAN};
    s->n_ranks = n;
    hm_free(number);
    if (!s->rank || !s->own_s) return hm_fail_memory(err);
    return 0;
}

static size_t index_of(const struct hm_series *s, int number) {
    size_t low = 0, high = s->n_ranks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->rank[middle].rank < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sums the parts; a step of which a part is missing has no time. */
static int fill_table(struct collected *c, int own, struct hm_error *err) {
    struct hm_series *s = c->s;
    size_t cells = s->n_ranks * s->n;
    unsigned char *parts = hm_alloc(cells, 1);
    if (!parts) return hm_fail_memory(err);
    int wanted = own_times[own].part[1] ? 2 : 1;
    for (size_t i = 0; i < c->n_times; i++) {
        const struct rank_time *t = &c->time[i];
        if (t->place >= s->n) continue; /* timers of a step whose line never came */
        size_t cell = index_of(s, t->rank) * s->n + t->place;
        for (int p = 0; p < wanted; p++)
            if (t->timer == timer_named(c, own_times[own].part[p]) && !(parts[cell] & 1 << p)) {
                s->own_s[cell] += t->seconds;
                parts[cell] |= (unsigned char)(1 << p);
            }
    }
    for (size_t k = 0; k < cells; k++)
        if (parts[k] != (1 << wanted) - 1 || !(s->own_s[k] > 0)) s->own_s[k] = NAN;
    hm_free(parts);
    return 0;
}

/* Megatron lays out ranks with the pipeline stage slowest. */
static void set_stages(struct collected *c) {
    struct hm_series *s = c->s;
    bool known = c->pipeline >= 1 && (c->pipeline == 1 || (c->world >= c->pipeline && c->world % c->pipeline == 0));
    for (size_t r = 0; known && r < s->n_ranks; r++)
        s->rank[r].stage = c->pipeline == 1 ? 0 : (int)(s->rank[r].rank / (c->world / c->pipeline));
}

/* ---- measures ---- */

struct measures {
    double *scratch;     /* ranks or steps */
    double *ideal;       /* of each rank: its peers' mean */
    double ideal_step;   /* the largest of them */
    double *peer_median; /* [rank * n + step] */
};

static double mean_of_stage(const struct hm_series *s, int stage) {
    double sum = 0;
    size_t n = 0;
    for (size_t r = 0; r < s->n_ranks; r++)
        for (size_t i = s->paces.warm_up; s->rank[r].stage == stage && i < s->n; i++)
            if (!isnan(s->own_s[r * s->n + i])) {
                sum += s->own_s[r * s->n + i];
                n++;
            }
    return n ? sum / (double)n : NAN;
}

static void find_ideals(const struct hm_series *s, struct measures *m) {
    m->ideal_step = 0;
    for (size_t r = 0; r < s->n_ranks; r++) {
        bool same = r > 0 && s->rank[r].stage == s->rank[r - 1].stage; /* stages ascend with ranks */
        m->ideal[r] = same ? m->ideal[r - 1] : mean_of_stage(s, s->rank[r].stage);
        m->ideal_step = fmax(m->ideal_step, m->ideal[r]);
    }
}

static double median_of_step(const struct hm_series *s, struct measures *m, int stage, size_t i) {
    size_t n = 0;
    for (size_t r = 0; r < s->n_ranks; r++)
        if (s->rank[r].stage == stage && !isnan(s->own_s[r * s->n + i])) m->scratch[n++] = s->own_s[r * s->n + i];
    return n >= 2 ? hm_median(m->scratch, n) : NAN;
}

static void find_medians(const struct hm_series *s, struct measures *m) {
    for (size_t i = 0; i < s->n; i++)
        for (size_t r = 0; r < s->n_ranks; r++)
            m->peer_median[r * s->n + i] = r > 0 && s->rank[r].stage == s->rank[r - 1].stage
                                               ? m->peer_median[(r - 1) * s->n + i]
                                               : median_of_step(s, m, s->rank[r].stage, i);
}

static double slowest_of_step(const struct hm_series *s, int stage, size_t i, bool any_stage) {
    double most = NAN;
    for (size_t r = 0; r < s->n_ranks; r++)
        if (any_stage || s->rank[r].stage == stage) most = fmax(most, s->own_s[r * s->n + i]);
    return most;
}

static void find_slowdown(struct hm_series *s, const struct measures *m) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = s->paces.warm_up; i < s->n; i++) {
        double step = slowest_of_step(s, 0, i, true);
        if (isnan(step)) continue;
        sum += fmax(step, m->ideal_step);
        n++;
    }
    s->slowdown = n && m->ideal_step > 0 ? sum / (double)n / m->ideal_step : NAN;
}

/* How far a rank is from its peers, step by step, and when it was. */
static int measure_rank(struct hm_series *s, const struct measures *m, size_t r, struct hm_error *err) {
    struct hm_series_rank *rank = &s->rank[r];
    const double *own = s->own_s + r * s->n;
    double sum = 0, alone = 0;
    size_t n = 0, n_pace = 0, slowest = 0;
    double *pace = hm_alloc(s->n, sizeof *pace);
    int64_t *step = hm_alloc(s->n, sizeof *step);
    for (size_t i = s->paces.warm_up; pace && step && i < s->n; i++) {
        if (isnan(own[i])) continue;
        sum += own[i];
        alone += fmax(own[i], m->ideal_step);
        n++;
        double median = m->peer_median[r * s->n + i];
        if (!(median > 0)) continue;
        pace[n_pace] = own[i] / median;
        step[n_pace++] = s->step[i];
        slowest += own[i] > median && own[i] >= slowest_of_step(s, rank->stage, i, false);
    }
    rank->own_s = n ? sum / (double)n : NAN;
    rank->slowdown = n && m->ideal_step > 0 ? alone / (double)n / m->ideal_step : NAN;
    rank->slowest = n_pace ? (double)slowest / (double)n_pace : NAN;
    int status = pace && step ? 0 : hm_fail_memory(err);
    struct hm_step_paces paces = {0};
    if (status == 0) status = hm_step_paces_find(pace, NULL, step, n_pace, &paces, err);
    if (status == 0 && n_pace >= FEWEST_STEPS) {
        rank->from_step = step[0];
        rank->to_step = step[n_pace - 1];
        const struct hm_step_episode *worst = NULL;
        for (size_t e = 0; e < paces.n_episodes; e++)
            if (!worst || paces.episode[e].lost_s > worst->lost_s) worst = &paces.episode[e];
        rank->pace = hm_median(pace, n_pace);
        if (worst && paces.usual_s * worst->slowdown >= LEAST_PACE) { /* for a while: since an onset, until an end */
            rank->slow = true;
            rank->pace = paces.usual_s * worst->slowdown;
            rank->from_step = worst->from_step;
            rank->to_step = worst->to_step;
        } else {
            rank->slow = rank->pace >= LEAST_PACE && rank->slowest >= MOST_OFTEN;
        }
    }
    hm_step_paces_free(&paces);
    hm_free(pace);
    hm_free(step);
    return status;
}

/* Ranks that end each step together were waiting for each other: their times are all the same. */
static void look_for_waiting(struct hm_series *s, struct measures *m, bool may_wait) {
    size_t n = 0;
    for (size_t i = s->paces.warm_up; i < s->n; i++) {
        double most = slowest_of_step(s, 0, i, true), least = NAN;
        for (size_t r = 0; r < s->n_ranks; r++) least = fmin(least, s->own_s[r * s->n + i]);
        if (most > 0) m->scratch[n++] = most / least - 1;
    }
    s->waiting_inside = may_wait && s->n_ranks > 1 && n > 0 && hm_median(m->scratch, n) < NO_SPREAD;
}

static void average_data(struct collected *c) {
    struct hm_series *s = c->s;
    int timer = timer_named(c, "batch-generator");
    for (size_t r = 0; has_times(c, timer) && r < s->n_ranks; r++) {
        double sum = 0;
        size_t n = 0;
        for (size_t i = 0; i < c->n_times; i++)
            if (c->time[i].timer == timer && c->time[i].rank == s->rank[r].rank && c->time[i].place < s->n) {
                sum += c->time[i].seconds;
                n++;
            }
        if (n) s->rank[r].data_s = sum / (double)n;
    }
}

int judge_ranks(struct collected *c, struct hm_error *err) {
    struct hm_series *s = c->s;
    s->slowdown = NAN;
    int own = choose_own(c);
    if (own < 0 || s->n == 0) return 0;
    s->timers = hm_strdup(own_times[own].says);
    if (!s->timers) return hm_fail_memory(err);
    if (list_ranks(c, err) != 0 || fill_table(c, own, err) != 0) return -1;
    set_stages(c);
    size_t room = s->n > s->n_ranks ? s->n : s->n_ranks;
    struct measures m = {.scratch = hm_alloc(room, sizeof(double)),
                         .ideal = hm_alloc(s->n_ranks, sizeof(double)),
                         .peer_median = hm_alloc(s->n_ranks * s->n, sizeof(double))};
    int status = m.scratch && m.ideal && m.peer_median ? 0 : hm_fail_memory(err);
    if (status == 0) {
        find_ideals(s, &m);
        find_medians(s, &m);
        find_slowdown(s, &m);
        for (size_t r = 0; status == 0 && r < s->n_ranks; r++) status = measure_rank(s, &m, r, err);
        look_for_waiting(s, &m, own_times[own].may_wait);
        for (size_t r = 0; r < s->n_ranks; r++) s->rank[r].slow &= !s->waiting_inside;
        average_data(c);
    }
    hm_free(m.scratch);
    hm_free(m.ideal);
    hm_free(m.peer_median);
    return status;
}
