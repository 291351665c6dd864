/* findings.c - memory and text of a diagnosis, and the order in which it is put together. */
#include "findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *hm_keep(struct hm_findings *f, size_t count, size_t size) {
    void **grown = hm_grow(f->owned, f->n_owned, &f->owned_capacity, sizeof *grown);
    void *block = grown ? hm_alloc(count, size) : NULL;
    if (grown) f->owned = grown;
    if (block)
        f->owned[f->n_owned++] = block;
    else
        f->failed = true;
    return block;
}

char *hm_keep_text(struct hm_findings *f, const char *format, ...) {
    char text[800];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *copy = hm_keep(f, strlen(text) + 1, 1);
    if (copy) memcpy(copy, text, strlen(text) + 1);
    return copy;
}

enum { MOST_EVIDENCE = 12 };

struct hm_evidence *hm_evidence(struct hm_findings *f, struct hm_cause *c, double value, const char *unit,
                                const char *name, ...) {
    char text[200];
    va_list args;
    va_start(args, name);
    (void)vsnprintf(text, sizeof text, name, args);
    va_end(args);
    struct hm_evidence *list = (struct hm_evidence *)c->evidence;
    if (!list) c->evidence = list = hm_keep(f, MOST_EVIDENCE, sizeof *list);
    char *kept = list && c->n_evidence < MOST_EVIDENCE ? hm_keep_text(f, "%s", text) : NULL;
    if (!kept) return NULL;
    list[c->n_evidence] = (struct hm_evidence){.name = kept, .value = value, .unit = unit};
    return &list[c->n_evidence++];
}

int hm_add_fix(struct hm_findings *f, const char *fix, double step_s, double speedup, const char *how) {
    if (f->n_fixes == MOST_FIXES || !(speedup > 1.005))
        return 0; /* below half a percent it is not worth anybody's time */
    if (!how) return -1;
    f->fixes[f->n_fixes++] = (struct hm_fix){fix, step_s, speedup, how};
    return 0;
}

void hm_diagnosis_free(struct hm_diagnosis *d) {
    if (!d) return;
    struct hm_findings *f = (struct hm_findings *)d;
    for (size_t i = 0; i < f->n_owned; i++) hm_free(f->owned[i]);
    hm_free(f->owned);
    hm_free(f);
}

static int most_first(const void *a, const void *b) {
    double x = ((const struct hm_cause *)a)->recovers, y = ((const struct hm_cause *)b)->recovers;
    return (x < y) - (x > y);
}

static int fastest_first(const void *a, const void *b) {
    double x = ((const struct hm_fix *)a)->speedup, y = ((const struct hm_fix *)b)->speedup;
    return (x < y) - (x > y);
}

/* ---- causes ---- */

static const double least_share = 0.03; /* of T - T_ideal: less is not worth naming ... */
static const double least_gain = 0.004; /* ... nor less of T */

/* Late data is outside T: a replay without launch delays does not see it. Its price is a replay with the delays put before the first
 * forwards, against T. */
static void add_delays(void *context, size_t block, size_t lane, double *durations) {
    const struct hm_effects *e = context;
    for (size_t i = 0; i < e->slots; i++) {
        const struct hm_slot *s = &e->t->model->slot[i];
        if (s->stage != 0 || s->type != HM_FORWARD_COMPUTE || s->seq != 0) continue;
        for (size_t k = 0; k < hm_grid_width(&e->t->grid, block); k++)
            durations[i * HM_WIDTH + k] += e->loading[lane * e->steps + block * HM_WIDTH + k];
    }
}

/* What the analysis lacks to be sure of: it lowers confidence, and is said. */
static void temper(const struct hm_analysis *a, struct hm_findings *f, struct hm_cause *c) {
    if (a->n_steps < 5) {
        c->confidence *= 0.7;
        hm_evidence(f, c, (double)a->n_steps, "steps", "few steps recorded: less sure");
    }
    if (fabs(a->discrepancy) > 0.05) {
        c->confidence *= 0.8;
        hm_evidence(f, c, a->discrepancy, "ratio",
                    "the replay misses the recorded step time by more than 5 %%: less sure");
    }
    for (size_t i = 0; i < a->n_dropped; i++)
        if (strcmp(a->dropped[i].what, "steps") == 0 || strcmp(a->dropped[i].what, "dp ranks") == 0) {
            c->confidence *= 0.9;
            hm_evidence(f, c, (double)a->dropped[i].count, a->dropped[i].what, "left out of the recording: less sure");
            break;
        }
}

struct candidate {
    struct hm_cause cause;
    unsigned part;
    double gain, last_gain; /* made neutral alone; made neutral when all others are */
};

/* Recognises, prices, names. A cause may hide behind another one (a slow worker on a light stage behind a heavy stage): made neutral
 * alone neither wins much, so what a cause wins as the last one counts as well for naming it. `recovers` is always that of the cause
 * alone. *loss: what the shares are of, T - T_ideal, and the late data's time if that is a cause. */
static unsigned find_causes(const struct hm_effects *e, const struct hm_analysis *a, struct hm_findings *f,
                            double *loss) {
    const double t = a->replayed_s;
    struct candidate candidate[MOST_CAUSES];
    size_t n = 0;
    unsigned all = 0, named = 0;
    *loss = t - a->ideal_s;
    for (const struct hm_cause_rule *rule = hm_cause_rules; rule->name; rule++) {
        struct candidate x = {.cause = {.cause = rule->name, .confidence = 0.5}, .part = rule->part};
        if (!rule->recognise(e, f, &x.cause)) continue;
        x.gain = rule->part == HM_PART_LOADING ? hm_replay_edited(e, add_delays, (void *)e) - t
                                               : t - hm_replay_without(e, rule->part);
        if (rule->part == HM_PART_LOADING && x.gain < 0.01 * t) continue; /* launch delays of a percent are usual */
        if (rule->part == HM_PART_LOADING)
            *loss += x.gain;
        else
            all |= rule->part;
        candidate[n++] = x;
    }
    double t_all = all ? hm_replay_without(e, all) : t;
    for (size_t i = 0; i < n; i++) {
        struct candidate *x = &candidate[i];
        x->last_gain = x->gain;
        if (x->part != HM_PART_LOADING && x->part != all && x->gain < 0.1 * *loss)
            x->last_gain = hm_replay_without(e, all & ~x->part) - t_all;
        double gain = fmax(x->gain, x->last_gain);
        if (!(gain > least_gain * t) || !(gain > least_share * *loss)) continue;
        x->cause.recovers = x->gain / *loss;
        if (x->last_gain > x->gain + 0.05 * *loss)
            hm_evidence(f, &x->cause, x->last_gain / *loss, "share",
                        "won back when the other causes are gone: they hide this one");
        temper(a, f, &x->cause);
        f->causes[f->n_causes++] = x->cause;
        named |= x->part;
    }
    return named;
}

static void find_rest(const struct hm_effects *e, const struct hm_analysis *a, unsigned named, double loss,
                      struct hm_findings *f) {
    const double t = a->replayed_s, gap = t - a->ideal_s;
    if (!(gap > 0.03 * a->ideal_s)) return; /* the artefact explains nothing below S = 1.03 either */
    double explained =
        named & ~(unsigned)HM_PART_LOADING ? (t - hm_replay_without(e, named & ~(unsigned)HM_PART_LOADING)) / gap : 0;
    double rest = (1 - explained) * gap / loss; /* of a loss that may hold late data, which is explained */
    if (!(rest > 0.05)) return;
    struct hm_cause c = {.cause = "unexplained", .confidence = 1, .recovers = rest};
    hm_evidence(f, &c, 1 - rest, "share", "won back by all named causes together");
    f->causes[f->n_causes++] = c;
}

static const char *words(const struct hm_findings *f, const struct hm_cause *c, char *text, size_t size) {
    (void)f;
    if (strcmp(c->cause, "slow-worker") == 0 && c->n_workers == 1)
        (void)snprintf(text, size, "the worker at stage %u of DP rank %u is slow", c->workers[0].stage,
                       c->workers[0].dp_rank);
    else if (strcmp(c->cause, "slow-worker") == 0)
        (void)snprintf(text, size, "%zu workers are slow, first stage %u of DP rank %u", c->n_workers,
                       c->workers[0].stage, c->workers[0].dp_rank);
    else if (strcmp(c->cause, "stage-imbalance") == 0)
        (void)snprintf(text, size, "stage %u has more work than the others", c->stages[0]);
    else if (strcmp(c->cause, "sequence-length") == 0)
        (void)snprintf(text, size, "microbatches differ in sequence length");
    else if (strcmp(c->cause, "garbage-collection") == 0)
        (void)snprintf(text, size, "garbage collections interrupt single workers");
    else if (strcmp(c->cause, "slow-link") == 0)
        (void)snprintf(text, size, "a link or collective is slow");
    else if (strcmp(c->cause, "data-loading") == 0)
        (void)snprintf(text, size, "data arrives late");
    else if (strcmp(c->cause, "replica-imbalance") == 0)
        (void)snprintf(text, size, "DP rank %u as a whole is slow", c->dp_ranks[0]);
    else
        (void)snprintf(text, size, "the cause is not recognised");
    return text;
}

static void conclude(const struct hm_analysis *a, struct hm_findings *f) {
    char first[160], second[160];
    struct hm_diagnosis *d = &f->d;
    d->straggling = a->slowdown >= 1.1; /* OSDI 2025: a job straggles at S >= 1.1 */
    const char *state = d->straggling         ? "The job straggles"
                        : a->slowdown >= 1.03 ? "The job loses a little"
                                              : "The job runs well";
    size_t named = 0;
    for (size_t i = 0; i < f->n_causes; i++) named += strcmp(f->causes[i].cause, "unexplained") != 0;
    const struct hm_cause *c = f->causes;
    if (f->n_causes == 0)
        d->summary = hm_keep_text(f, "%s: S = %.2f, and no cause stands out.", state, a->slowdown);
    else if (named == 0)
        d->summary =
            hm_keep_text(f, "%s (S = %.2f), but nothing in the trace shows why: not enough evidence for a cause.",
                         state, a->slowdown);
    else if (f->n_causes == 1 || c[1].recovers < 0.1)
        d->summary = hm_keep_text(f, "%s (S = %.2f): %s, which explains %.0f %% of the loss.", state, a->slowdown,
                                  words(f, &c[0], first, sizeof first), 100 * c[0].recovers);
    else
        d->summary = hm_keep_text(f, "%s (S = %.2f): %s (%.0f %% of the loss), and %s (%.0f %%).", state, a->slowdown,
                                  words(f, &c[0], first, sizeof first), 100 * c[0].recovers,
                                  words(f, &c[1], second, sizeof second), 100 * c[1].recovers);
}

struct hm_diagnosis *hm_diagnose(struct hm_trace *trace, const struct hm_analysis *a, int threads,
                                 struct hm_error *err) {
    struct hm_findings *f = hm_alloc(1, sizeof *f);
    struct hm_effects e = {0};
    int status = -1;
    if (!f)
        hm_fail_memory(err);
    else if (hm_effects_estimate(&e, trace, threads, err) == 0) {
        double loss;
        unsigned named = find_causes(&e, a, f, &loss);
        find_rest(&e, a, named, loss, f);
        qsort(f->causes, f->n_causes, sizeof *f->causes, most_first);
        if (hm_price_fixes(&e, a, named, f) != 0 || hm_find_slack(&e, a, f) != 0) f->failed = true;
        qsort(f->fixes, f->n_fixes, sizeof *f->fixes, fastest_first);
        conclude(a, f);
        f->d.causes = f->causes;
        f->d.n_causes = f->n_causes;
        f->d.fixes = f->fixes;
        f->d.n_fixes = f->n_fixes;
        status = f->failed ? hm_fail_memory(err) : 0;
    }
    hm_effects_free(&e);
    if (status == 0) return &f->d;
    if (f) hm_diagnosis_free(&f->d);
    return NULL;
}
