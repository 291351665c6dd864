/* windows.c - the search for windows in one replica's contrasts, greedy with all sizes fitted again. */
#include "windows.h"

#include "profile.h"

#include <math.h>
#include <string.h>

static const double sigmas = 6;         /* a window must stand out by so many standard errors */
static const double a_second_row = 6;   /* more in the square for a second size */
static const double price_of_size = 12; /* what a second size costs in the comparison of windows */
static const double known_place = 15;   /* what a place that was found already is ahead */
static const double least_short = 0.06; /* the least level that lasts next to no time */
static const double alike = 0.3;        /* forward and backward of a worker: the smaller over the larger */
const double hm_least = 0.03, hm_natural = 0.08;
enum { ALL_UP_TO = 64 };

double hm_least_level(size_t n, size_t steps) {
    return hm_least + (least_short - hm_least) * (1 - (double)n / (double)steps);
}

double hm_effect_size(const struct hm_effect *e) {
    return e->directions == HM_BOTH ? 0.5 * (e->size[0] + e->size[1]) : e->size[e->directions];
}

/* ---- the list of windows ---- */

int hm_windows_list(struct hm_windows *w, size_t steps) {
    const size_t grid = steps <= ALL_UP_TO ? 1 : (steps + ALL_UP_TO - 1) / ALL_UP_TO,
                 points = (steps + grid - 1) / grid;
    size_t most = points * (points + 1) / 2;
    for (size_t n = 1; grid > 1 && n <= grid; n *= 2) most += steps;
    *w = (struct hm_windows){.grid = (uint32_t)grid, .at = hm_alloc(most, sizeof *w->at)};
    if (!w->at) return -1;
    for (size_t n = 1; grid > 1 && n <= grid; n *= 2)
        for (size_t i = 0; i + n <= steps; i++) w->at[w->n++] = (struct hm_window){(uint32_t)i, (uint32_t)(i + n)};
    for (size_t a = 0; a < points; a++)
        for (size_t b = a + 1; b <= points; b++) {
            size_t end = b * grid < steps ? b * grid : steps;
            w->at[w->n++] = (struct hm_window){(uint32_t)(a * grid), (uint32_t)end};
        }
    return 0;
}

void hm_windows_free(struct hm_windows *w) {
    hm_free(w->at);
    *w = (struct hm_windows){0};
}

struct hm_window hm_window_refine(struct hm_window at, size_t steps, uint32_t grid,
                                  double (*value)(const void *context, struct hm_window at), const void *context) {
    double best = value(context, at);
    for (uint32_t g = grid; g >= 1; g /= 2)
        for (bool moved = true; moved;) {
            moved = false;
            for (int k = 0; k < 4; k++) {
                struct hm_window w = at;
                uint32_t *edge = k < 2 ? &w.first : &w.end;
                if (k % 2 == 0 && *edge < g) continue;
                *edge = k % 2 ? *edge + g : *edge - g;
                if (w.first >= w.end || w.end > steps) continue;
                double v = value(context, w);
                if (v > best) best = v, at = w, moved = true;
            }
        }
    return at;
}

/* ---- working memory ---- */

int hm_search_room(struct hm_search_room *room, const struct hm_search *s) {
    const size_t rows = 2 * s->stages, sizes = 2 * s->most;
    *room = (struct hm_search_room){.left = hm_alloc(rows * s->steps, sizeof(double)),
                                    .prefix = hm_alloc((rows + 2) * (s->steps + 1), sizeof(double)),
                                    .added = hm_alloc(rows * s->steps, sizeof(double)),
                                    .equation = hm_alloc(sizes * (sizes + 2), sizeof(double))};
    if (room->left && room->prefix && room->added && room->equation) return 0;
    hm_search_room_free(room);
    return -1;
}

void hm_search_room_free(struct hm_search_room *room) {
    hm_free(room->left);
    hm_free(room->prefix);
    hm_free(room->added);
    hm_free(room->equation);
    *room = (struct hm_search_room){0};
}

void hm_effects_add(const struct hm_effect *effect, size_t n, size_t stages, size_t steps, double *x) {
    for (const struct hm_effect *e = effect; e < effect + n; e++)
        for (int d = 0; d < 2; d++) {
            if (e->directions != HM_BOTH && (int)e->directions != d) continue;
            size_t from = e->stage == HM_ALL_STAGES ? 0 : (size_t)e->stage,
                   to = e->stage == HM_ALL_STAGES ? stages : from + 1;
            for (size_t stage = from; stage < to; stage++)
                for (size_t t = e->first; t < e->end; t++) x[(2 * stage + (size_t)d) * steps + t] += e->size[d];
        }
}

/* ---- sums over rows ---- */

/* One unknown size: what rows it raises. */
struct column {
    int32_t stage;
    int direction;
};

static double weight_of(const struct hm_search *s, struct column c) {
    if (c.stage != HM_ALL_STAGES) return s->weight[2 * c.stage + c.direction];
    double sum = 0;
    for (size_t stage = 0; stage < s->stages; stage++) sum += s->weight[2 * stage + (size_t)c.direction];
    return sum;
}

static double total_weight(const struct hm_search *s) {
    return weight_of(s, (struct column){HM_ALL_STAGES, 0}) + weight_of(s, (struct column){HM_ALL_STAGES, 1});
}

/* The product of two columns as contrasts, a step. */
static double product(const struct hm_search *s, struct column a, struct column b, double total) {
    double shared = 0;
    if (a.direction == b.direction) {
        if (a.stage == b.stage || b.stage == HM_ALL_STAGES)
            shared = weight_of(s, a);
        else if (a.stage == HM_ALL_STAGES)
            shared = weight_of(s, b);
    }
    return shared - weight_of(s, a) * weight_of(s, b) / total;
}

/* Prefix sums over the steps of each row's weighted contrast; behind the rows those of each direction's sum. */
static void sum_up(const struct hm_search *s, const double *value, double *prefix) {
    const size_t rows = 2 * s->stages, T = s->steps;
    const double total = total_weight(s);
    memset(prefix, 0, (rows + 2) * (T + 1) * sizeof *prefix);
    for (size_t t = 0; t < T; t++) {
        double mean = 0;
        for (size_t r = 0; r < rows; r++) mean += s->weight[r] * value[r * T + t];
        mean /= total;
        for (size_t r = 0; r < rows; r++) {
            double x = s->weight[r] * (value[r * T + t] - mean);
            prefix[r * (T + 1) + t + 1] = prefix[r * (T + 1) + t] + x;
            prefix[(rows + r % 2) * (T + 1) + t + 1] += x;
        }
    }
    for (size_t r = rows; r < rows + 2; r++)
        for (size_t t = 0; t < T; t++) prefix[r * (T + 1) + t + 1] += prefix[r * (T + 1) + t];
}

static const double *prefix_of(const struct hm_search *s, const double *prefix, struct column c) {
    size_t row =
        c.stage == HM_ALL_STAGES ? 2 * s->stages + (size_t)c.direction : 2 * (size_t)c.stage + (size_t)c.direction;
    return prefix + row * (s->steps + 1);
}

/* ---- one candidate ---- */

/* A place and the directions in which it may be slow; its normal equations for one step, and their inverse. */
struct candidate {
    int32_t stage;
    enum hm_directions directions;
    const double *sum[2];
    double inverse[3]; /* of the matrix: aa, ab, bb */
    bool known;        /* the place has an effect already */
};

static bool candidate(const struct hm_search *s, const double *prefix, int32_t stage, enum hm_directions directions,
                      struct candidate *c) {
    const double total = total_weight(s);
    *c = (struct candidate){.stage = stage, .directions = directions};
    struct column a = {stage, directions == HM_BACKWARDS}, b = {stage, 1};
    c->sum[0] = prefix_of(s, prefix, a);
    double aa = product(s, a, a, total);
    if (!(aa > 1e-9 * total)) return false;
    c->inverse[0] = 1 / aa;
    if (directions != HM_BOTH) return true;
    double bb = product(s, b, b, total), ab = product(s, a, b, total), det = aa * bb - ab * ab;
    if (!(bb > 1e-9 * total && det > 1e-9 * aa * bb)) return false;
    c->sum[1] = prefix_of(s, prefix, b);
    c->inverse[0] = bb / det, c->inverse[1] = -ab / det, c->inverse[2] = aa / det;
    return true;
}

/* How much better the fit becomes with a window, and the sizes in it. */
static double gain_of(const struct candidate *c, struct hm_window w, double size[2]) {
    double n = (double)(w.end - w.first), z = c->sum[0][w.end] - c->sum[0][w.first];
    if (c->directions != HM_BOTH) {
        size[0] = size[1] = z * c->inverse[0] / n;
        return z * size[0];
    }
    double y = c->sum[1][w.end] - c->sum[1][w.first];
    size[0] = (c->inverse[0] * z + c->inverse[1] * y) / n;
    size[1] = (c->inverse[1] * z + c->inverse[2] * y) / n;
    return z * size[0] + y * size[1];
}

/* The least of what its rows have been found slow by, over a window. */
static double found_in(const struct hm_search *s, const struct candidate *c, const double *added, struct hm_window w) {
    double least = INFINITY;
    for (size_t stage = 0; stage < s->stages; stage++)
        for (int d = 0; d < 2; d++) {
            if ((c->stage != HM_ALL_STAGES && (size_t)c->stage != stage) ||
                (c->directions != HM_BOTH && (int)c->directions != d))
                continue;
            for (size_t t = w.first; t < w.end; t++) least = fmin(least, added[(2 * stage + (size_t)d) * s->steps + t]);
        }
    return least;
}

/* The score of a window; negative: it does not stand out. A known place may also be less slow for a while, before another place is
 * blamed: that keeps the neighbour of a pipeline of two stages innocent. */
static double score(const struct hm_search *s, const struct candidate *c, const double *added, struct hm_window w) {
    const bool both = c->directions == HM_BOTH;
    const size_t n = w.end - w.first;
    double size[2], white = gain_of(c, w, size), mean = 0.5 * (size[0] + size[1]);
    double square = sigmas * sigmas + (both ? a_second_row : 0);
    if (white <= square) return -1;
    double gain = white / (both || c->stage == HM_ALL_STAGES ? s->inflate2 : s->inflate1)[n];
    if (gain <= square) return -1;
    double least = hm_least_level(n, s->steps);
    size_t enough = both ? 2 : 3;
    bool long_enough = n >= enough || n == s->steps || (both && mean > hm_natural);
    double low = fmin(size[0], size[1]), high = fmax(size[0], size[1]), price = both ? price_of_size : 0;
    bool up = mean > least && long_enough && (!both || low > alike * high);
    if (up) return white - price + (c->known ? known_place : 0);
    if (!c->known || high >= -least) return -1;
    if (found_in(s, c, added, w) + low <= -hm_least) return -1;
    return white - price + known_place;
}

struct refining {
    const struct candidate *c;
    bool up;
};

static double refined_value(const void *context, struct hm_window at) {
    const struct refining *r = context;
    double size[2], gain = gain_of(r->c, at, size), mean = size[0] + size[1];
    return (r->up ? mean > 0 : mean < 0) ? gain : 0;
}

struct best {
    double score;
    struct candidate c;
    struct hm_window at;
};

static void try_all(const struct hm_search *s, const struct candidate *c, const double *added, struct best *best) {
    for (size_t k = 0; k < s->windows->n; k++) {
        double value = score(s, c, added, s->windows->at[k]);
        if (value > best->score) *best = (struct best){value, *c, s->windows->at[k]};
    }
}

/* ---- fitting ---- */

/* Solves the n normal equations a[n][n + 1] in place by elimination with pivots; columns that say the same share nothing: the later
 * one gets 0. */
static void solve(double *a, size_t n, double *x) {
    const size_t width = n + 1;
    for (size_t k = 0; k < n; k++) {
        double pivot = a[k * width + k];
        if (!(pivot > 1e-9 * x[k])) { /* x[k]: the diagonal before elimination */
            for (size_t j = 0; j < width; j++) a[k * width + j] = 0;
            a[k * width + k] = 1;
            for (size_t i = k + 1; i < n; i++) a[i * width + k] = 0;
            continue;
        }
        for (size_t i = k + 1; i < n; i++) {
            double f = a[i * width + k] / pivot;
            if (f == 0) continue;
            for (size_t j = k; j < width; j++) a[i * width + j] -= f * a[k * width + j];
        }
    }
    for (size_t k = n; k-- > 0;) {
        double sum = a[k * width + n];
        for (size_t j = k + 1; j < n; j++) sum -= a[k * width + j] * x[j];
        x[k] = sum / a[k * width + k];
    }
}

static int sizes_of(const struct hm_effect *e, struct column c[2]) {
    if (e->directions != HM_BOTH) {
        c[0] = (struct column){e->stage, e->directions == HM_BACKWARDS};
        return 1;
    }
    c[0] = (struct column){e->stage, 0};
    c[1] = (struct column){e->stage, 1};
    return 2;
}

/* All sizes together, by weighted least squares on the contrasts. prefix: sums of the values themselves. */
static void fit_sizes(const struct hm_search *s, const double *prefix, struct hm_effect *effect, size_t n, double *a) {
    const double total = total_weight(s);
    size_t sizes = 0;
    for (size_t i = 0; i < n; i++) sizes += effect[i].directions == HM_BOTH ? 2 : 1;
    double *x = a + sizes * (sizes + 1);
    for (size_t i = 0, row = 0; i < n; i++) {
        struct column ci[2], cj[2];
        int ni = sizes_of(&effect[i], ci);
        for (int p = 0; p < ni; p++, row++) {
            const double *sum = prefix_of(s, prefix, ci[p]);
            a[row * (sizes + 1) + sizes] = sum[effect[i].end] - sum[effect[i].first];
            for (size_t j = 0, col = 0; j < n; j++) {
                int nj = sizes_of(&effect[j], cj);
                double from = fmax(effect[i].first, effect[j].first), to = fmin(effect[i].end, effect[j].end);
                for (int q = 0; q < nj; q++, col++)
                    a[row * (sizes + 1) + col] = to > from ? (to - from) * product(s, ci[p], cj[q], total) : 0;
            }
            x[row] = a[row * (sizes + 1) + row];
        }
    }
    solve(a, sizes, x);
    for (size_t i = 0, row = 0; i < n; i++) {
        struct column c[2];
        int ni = sizes_of(&effect[i], c);
        effect[i].size[0] = effect[i].size[1] = 0;
        for (int p = 0; p < ni; p++) effect[i].size[c[p].direction] = x[row++];
    }
}

/* Fits all sizes; the weakest below its limit goes, until all stand. How many are left. */
static size_t refit(const struct hm_search *s, const double *prefix, struct hm_effect *effect, size_t n, double *a) {
    while (n) {
        fit_sizes(s, prefix, effect, n, a);
        size_t weakest = n;
        double most = 0;
        for (size_t i = 0; i < n; i++) {
            double lacks = hm_least_level(effect[i].end - effect[i].first, s->steps) - fabs(hm_effect_size(&effect[i]));
            if (lacks > most) most = lacks, weakest = i;
        }
        if (weakest == n) break;
        memmove(effect + weakest, effect + weakest + 1, (n - weakest - 1) * sizeof *effect);
        n--;
    }
    return n;
}

static bool known(const struct hm_effect *effect, size_t n, int32_t stage) {
    for (size_t i = 0; i < n; i++)
        if (effect[i].stage == stage) return true;
    return false;
}

/* The best window of all places. */
static struct best look(const struct hm_search *s, const double *prefix, const double *added,
                        const struct hm_effect *effect, size_t n) {
    struct best best = {.score = 0};
    for (int32_t stage = s->stages > 1 ? HM_ALL_STAGES : 0; stage < (int32_t)s->stages; stage++)
        for (enum hm_directions d = HM_FORWARDS; d <= HM_BOTH; d++) {
            struct candidate c;
            if (d == HM_BOTH && (stage == HM_ALL_STAGES || s->stages < 2)) continue;
            if (!candidate(s, prefix, stage, d, &c)) continue;
            c.known = known(effect, n, stage);
            try_all(s, &c, added, &best);
        }
    return best;
}

size_t hm_search_lane(const struct hm_search *s, const double *value, uint32_t lane, struct hm_search_room *room,
                      struct hm_effect *effect) {
    const size_t rows = 2 * s->stages, cells = rows * s->steps;
    size_t n = 0;
    if (!(total_weight(s) > 0)) return 0;
    for (size_t tries = 0; tries < s->most; tries++) {
        memset(room->added, 0, cells * sizeof(double));
        hm_effects_add(effect, n, s->stages, s->steps, room->added);
        for (size_t i = 0; i < cells; i++) room->left[i] = value[i] - room->added[i];
        sum_up(s, room->left, room->prefix);
        struct best best = look(s, room->prefix, room->added, effect, n);
        if (best.score <= 0 || !best.c.sum[0]) break;
        if (s->windows->grid > 1) {
            double size[2];
            (void)gain_of(&best.c, best.at, size);
            struct refining r = {&best.c, size[0] + size[1] > 0};
            best.at = hm_window_refine(best.at, s->steps, s->windows->grid, refined_value, &r);
        }
        effect[n++] = (struct hm_effect){lane, best.at.first, best.at.end, best.c.stage, best.c.directions, {0, 0}};
        sum_up(s, value, room->prefix);
        n = refit(s, room->prefix, effect, n, room->equation);
    }
    return n;
}
