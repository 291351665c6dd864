/* sequence_length.c - microbatches that hold more work than others: long sequences cost with the square of their length.
 *
 * The work shows on forward and backward of the same microbatch, and on all stages of its replica. OSDI 2025, section
 * 5.3, takes the correlation of forward and backward within one stage (0.9 and more); a coefficient of variation of the
 * common part is asked for as well, since healthy stages reach 0.81 to 0.90 with 2 to 3 % (spec "Reading the result"). */
#include "diagnose.h"

#include <math.h>
#include <string.h>

static const double least_spread = 0.03; /* of the common part, over its mean */
static const double least_correlation = 0.6;
static const size_t least_pairs = 16;
static const double least_shared = 0.4; /* of that spread must be common to all stages */

/* Sums over one replica. */
struct sums {
    double n, f, b, ff, bb, fb;
};

struct line {
    double n, x, y, xx, xy;
};

struct survey {
    struct hm_diagnoser *d;
    struct sums *
        pair; /* [lane][role / 2] forwards and backwards, in units of their bases; products are of what differs from the mean
                          of the step: levels that stay are no lengths */
    double *shared;    /* [lane] the same of the loads */
    struct line *line; /* [lane][role] duration on load */
    double *typical;   /* [role] exp(base) */
};

static double *load_steps(const struct hm_diagnoser *d, size_t lane, size_t mb) {
    return d->load + (lane * d->p.microbatches + mb) * d->p.steps;
}

/* The load of a microbatch: the mean of its computes over their bases. Every one of them is a + b x (sum of squared
 * lengths), so their mean is, too; the profile's medians of logarithms would not be. */
static void load_lane(void *context, size_t lane, int thread) {
    (void)thread;
    const struct survey *v = context;
    const struct hm_profile *p = &v->d->p;
    for (size_t mb = 0; mb < p->microbatches; mb++) {
        double *load = load_steps(v->d, lane, mb);
        for (size_t t = 0; t < p->steps; t++) {
            double sum = 0, n = 0;
            for (uint32_t role = 0; role < p->roles; role++) {
                if (hm_slot_of(p, role, mb) == HM_NONE) continue;
                double y = hm_cleaned_s(v->d, lane, role, mb, t) / v->typical[role];
                if (!isnan(y)) sum += y, n++;
            }
            load[t] = n > 0 ? sum / n : 1;
        }
    }
}

/* Moments of the microbatches of a step (or, with one a step, of all steps) about their own mean. */
static void add_about_mean(struct sums *to, const struct sums *s) {
    if (s->n < 2) return;
    double free = s->n / (s->n - 1); /* means take one of them */
    to->n += s->n, to->f += s->f, to->b += s->b;
    to->ff += free * (s->ff - s->f * s->f / s->n);
    to->bb += free * (s->bb - s->b * s->b / s->n);
    to->fb += free * (s->fb - s->f * s->b / s->n);
}

static void survey_lane(void *context, size_t lane, int thread) {
    (void)thread;
    const struct survey *v = context;
    const struct hm_profile *p = &v->d->p;
    for (uint32_t role = 0; role < p->roles; role += 2) {
        struct sums *all = &v->pair[lane * p->roles / 2 + role / 2], step = {0};
        for (size_t t = 0; t < p->steps; t++) {
            for (size_t mb = 0; mb < p->microbatches; mb++) {
                if (hm_slot_of(p, role, mb) == HM_NONE || hm_slot_of(p, role + 1, mb) == HM_NONE) continue;
                double y[2] = {hm_cleaned_s(v->d, lane, role, mb, t), hm_cleaned_s(v->d, lane, role + 1, mb, t)};
                if (isnan(y[0])) continue;
                double f = y[0] / v->typical[role], b = y[1] / v->typical[role + 1], x = load_steps(v->d, lane, mb)[t];
                step.n++, step.f += f, step.b += b, step.ff += f * f, step.bb += b * b, step.fb += f * b;
                for (int k = 0; k < 2; k++) {
                    size_t at = lane * p->roles + role + (size_t)k;
                    v->line[at].n++, v->line[at].x += x, v->line[at].y += y[k];
                    v->line[at].xx += x * x, v->line[at].xy += x * y[k];
                }
            }
            if (p->microbatches > 1) add_about_mean(all, &step), step = (struct sums){0};
        }
        if (p->microbatches == 1) add_about_mean(all, &step);
    }
    struct sums all = {0}, step = {0};
    for (size_t t = 0; t < p->steps; t++) {
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            double x = load_steps(v->d, lane, mb)[t];
            step.n++, step.f += x, step.ff += x * x;
        }
        if (p->microbatches > 1) add_about_mean(&all, &step), step = (struct sums){0};
    }
    if (p->microbatches == 1) add_about_mean(&all, &step);
    v->shared[lane] = all.n > 0 ? all.ff / all.n : 0;
}

struct stage_view {
    double pairs, correlation, spread, slope, intercept_s; /* backward = intercept + slope * forward, in seconds */
};

/* All chunks and replicas of a stage: chunks are centred one by one. */
static struct stage_view view_stage(const struct survey *v, size_t stage) {
    const struct hm_profile *p = &v->d->p;
    double n = 0, ff = 0, bb = 0, fb = 0, mean = 0, mf = 0, mb = 0, unit_f = 0, unit_b = 0;
    for (size_t c = 0; c < p->chunks; c++) {
        struct sums s = {0};
        uint32_t role = hm_role(p, stage, c, 0);
        for (size_t l = 0; l < p->lanes; l++) {
            const struct sums *k = &v->pair[l * p->roles / 2 + role / 2];
            s.n += k->n, s.f += k->f, s.b += k->b, s.ff += k->ff, s.bb += k->bb, s.fb += k->fb;
        }
        if (s.n == 0) continue;
        n += s.n;
        ff += s.ff, bb += s.bb, fb += s.fb;
        mean += 0.5 * (s.f + s.b), mf += s.f, mb += s.b;
        unit_f += v->typical[role] / (double)p->chunks, unit_b += v->typical[role + 1] / (double)p->chunks;
    }
    if (n == 0 || ff <= 0 || bb <= 0) return (struct stage_view){0};
    double slope = fb / ff;
    return (struct stage_view){n, fb / sqrt(ff * bb), sqrt(fmax(0, fb / n)) / (mean / n), slope * unit_b / unit_f,
                               unit_b * (mb / n - slope * mf / n)};
}

/* Each role's seconds for a unit of load, by least squares; and the mean load. */
static int fit_lines(const struct survey *v) {
    struct hm_diagnoser *d = v->d;
    const struct hm_profile *p = &d->p;
    if (!(d->slope_s = hm_alloc(p->roles, sizeof(double)))) return -1;
    double works = 0, n_works = 0;
    for (uint32_t role = 0; role < p->roles; role++) {
        double n = 0, x = 0, y = 0, xx = 0, xy = 0;
        for (size_t l = 0; l < p->lanes; l++) {
            size_t at = l * p->roles + role;
            n += v->line[at].n, x += v->line[at].x, y += v->line[at].y, xx += v->line[at].xx, xy += v->line[at].xy;
        }
        double spread = xx - x * x / n;
        d->slope_s[role] = n > 1 && spread > 0 ? fmax(0, (xy - x * y / n) / spread) : 0;
        works += x, n_works += n;
    }
    d->mean_load = works / n_works;
    return 0;
}

/* How much of their mean the loads of a step's microbatches differ by. */
static double spread_of_load(const struct survey *v) {
    const struct hm_profile *p = &v->d->p;
    double sum = 0, n = (double)(p->lanes * p->microbatches * p->steps);
    for (size_t k = 0; k < p->lanes * p->microbatches * p->steps; k++) sum += v->d->load[k];
    return sqrt(hm_mean(v->shared, p->lanes)) / (sum / n);
}

/* Forward against backward on one stage: the plot that shows it. */
static int plot_stage(const struct survey *v, struct hm_finding *f, size_t stage, const struct stage_view *view) {
    const struct hm_diagnoser *d = v->d;
    const struct hm_profile *p = &d->p;
    enum { MOST = 400 };
    double x[MOST], y[MOST];
    size_t n = 0, all = p->lanes * p->microbatches * p->steps, every = all / MOST + 1;
    uint32_t role = hm_role(p, stage, 0, 0);
    for (size_t k = 0; k < all && n < MOST; k += every) {
        size_t lane = k / p->steps / p->microbatches, mb = k / p->steps % p->microbatches, t = k % p->steps;
        if (hm_slot_of(p, role, mb) == HM_NONE || hm_slot_of(p, role + 1, mb) == HM_NONE) continue;
        double forward = hm_cleaned_s(d, lane, role, mb, t);
        if (isnan(forward)) continue;
        x[n] = 1e3 * forward;
        y[n++] = 1e3 * hm_cleaned_s(d, lane, role + 1, mb, t);
    }
    const char *name = hm_box_text(d->box, "correlation of forward and backward, stage %zu", stage);
    hm_note_plot(f, name, view->correlation, "", "forward, ms", "backward, ms", x, y, n);
    hm_note(f, view->intercept_s, "s", "backward = a + b x forward, stage %zu: a", stage);
    hm_note(f, view->slope, "ratio", "backward = a + b x forward, stage %zu: b", stage);
    return 0;
}

static int judge(const struct survey *v, struct hm_finding *f) {
    const struct hm_diagnoser *d = v->d;
    const struct hm_profile *p = &d->p;
    struct stage_view *view = hm_alloc(p->stages, sizeof *view);
    double *value = hm_alloc(p->stages, sizeof *value);
    int named = view && value ? 0 : -1;
    size_t widest = 0;
    for (size_t s = 0; named == 0 && s < p->stages; s++) {
        view[s] = view_stage(v, s);
        if (view[s].spread > view[widest].spread) widest = s;
    }
    if (named == 0) {
        for (size_t s = 0; s < p->stages; s++) value[s] = view[s].correlation;
        double correlation = hm_median(value, p->stages);
        for (size_t s = 0; s < p->stages; s++) value[s] = view[s].spread;
        double spread = hm_median(value, p->stages), shared = spread_of_load(v);
        named = correlation >= least_correlation && spread >= least_spread && view[0].pairs >= (double)least_pairs &&
                shared >= least_shared * spread;
        plot_stage(v, f, widest, &view[widest]);
        hm_note(f, correlation, "", "correlation of forward and backward, median of the stages");
        hm_note(f, spread, "ratio", "variation that forward and backward share, median of the stages");
        hm_note(f, shared, "ratio", "variation that all computes of a microbatch share");
        hm_note(f, view[widest].pairs, "", "pairs of forward and backward, stage %zu", widest);
        for (size_t s = 0; s < p->stages; s++)
            if (view[s].correlation >= least_correlation && view[s].spread >= least_spread) hm_at_stage(f, s);
        hm_at_pass(f, HM_FORWARD);
        hm_at_pass(f, HM_BACKWARD);
        f->strength = fmin(1, 0.5 + 0.5 * (correlation - least_correlation) / (0.9 - least_correlation));
    }
    hm_free(view);
    hm_free(value);
    return named;
}

int hm_find_sequence_length(struct hm_diagnoser *d, struct hm_finding *f) {
    const struct hm_profile *p = &d->p;
    if (p->microbatches == 0) return 0;
    struct survey v = {.d = d, .pair = hm_alloc(p->lanes * p->roles / 2, sizeof *v.pair)};
    v.typical = hm_alloc(p->roles, sizeof *v.typical);
    v.shared = hm_alloc(p->lanes, sizeof *v.shared);
    d->load = hm_alloc(p->lanes * p->microbatches * p->steps, sizeof(double));
    v.line = hm_alloc(p->lanes * p->roles, sizeof *v.line);
    int status = v.pair && v.line && v.typical && v.shared && d->load ? 0 : -1;
    for (uint32_t role = 0; status == 0 && role < p->roles; role++)
        v.typical[role] = exp(p->base[role] + d->e.usual[hm_role_row(p, role)]);
    if (status == 0) {
        hm_parallel(p->lanes, p->threads, load_lane, &v);
        hm_parallel(p->lanes, p->threads, survey_lane, &v);
        status = judge(&v, f);
    }
    if (status == 1 && fit_lines(&v) != 0) status = -1;
    hm_free(v.pair);
    hm_free(v.line);
    hm_free(v.typical);
    hm_free(v.shared);
    return status;
}

/* The fitted part goes, what the work does not explain stays. On a slow worker it is larger by the worker's factor. */
void hm_idealise_sequences(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    const struct hm_profile *p = &d->p;
    if (!d->slope_s) return;
    const size_t width = hm_grid_width(&d->t->grid, block);
    for (uint32_t role = 0; role < p->roles; role++) {
        double slope[HM_WIDTH] = {0};
        for (size_t k = 0; k < width; k++) {
            double slow = hm_all_slowness(d, hm_role_row(p, role), lane, block * HM_WIDTH + k);
            slope[k] = d->slope_s[role] * (slow != 0 ? exp(slow) : 1);
        }
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, role, mb);
            if (slot == HM_NONE) continue;
            double *now = &duration[slot * HM_WIDTH];
            const double *load = load_steps(d, lane, mb) + block * HM_WIDTH;
            for (size_t k = 0; k < width; k++) now[k] = fmax(0, now[k] - slope[k] * (load[k] - d->mean_load));
        }
    }
}
