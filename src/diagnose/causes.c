/* causes.c - the table of causes, and the diagnosis: look for each, replay without it, name those that cost something. */
#include "diagnose.h"
#include "fixes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cause is named if the job is faster by this share of T without it: with it alone gone, or with it gone last. */
static const double least_gain = 0.01, least_last_gain = 0.02;
static const double hidden_gain =
    0.1; /* behind a larger cause a cause alone may win nothing, or lose: equal stages make a slow worker on a light one slower */
static const double least_deep_gain =
    0.05; /* ... deep behind it: with stages even, a slow worker on a light one may cost more than the heavy stage did */
static const double least_slowdown = 1.005;  /* below it shares of T - T_ideal mean nothing */
static const double straggles = 1.1;         /* OSDI 2025, section 4 */
static const double least_unexplained = .05; /* of T - T_ideal */
static const double trusted = 0.05;          /* discrepancy that the paper trusts */
static const double least_place = 0.005;     /* of T: a slow place that costs less is not named */
enum { MOST_TRIES = 6, MOST_PRUNED = 24, MOST_FINDINGS = HM_CAUSES + 17 };

const struct hm_cause_rule hm_cause_rules[HM_CAUSES] = {
    [HM_SLOW_WORKER] = {"slow-worker", hm_find_slow_workers, hm_idealise_workers, hm_describe_workers},
    [HM_REPLICA_IMBALANCE] = {"replica-imbalance", hm_find_replica_imbalance, hm_idealise_replicas,
                              hm_describe_replicas},
    [HM_GARBAGE_COLLECTION] = {"garbage-collection", hm_find_garbage_collection, hm_idealise_pauses, NULL},
    [HM_SEQUENCE_LENGTH] = {"sequence-length", hm_find_sequence_length, hm_idealise_sequences, NULL},
    [HM_STAGE_IMBALANCE] = {"stage-imbalance", hm_find_stage_imbalance, hm_idealise_stages, NULL},
    [HM_SLOW_LINK] = {"slow-link", hm_find_slow_links, hm_idealise_links, NULL},
    [HM_DATA_LOADING] = {"data-loading", hm_find_data_loading, NULL, NULL},
};

/* ---- replays ---- */

double hm_cleaned_s(const struct hm_diagnoser *d, size_t lane, uint32_t role, size_t mb, size_t step) {
    if (d->paused && role % 2 == 0 && hm_paused(d, lane, role, mb)[step]) return NAN;
    double slow = hm_all_slowness(d, hm_role_row(&d->p, role), lane, step);
    double s = hm_recorded_s(&d->p, lane, hm_slot_of(&d->p, role, mb), step);
    return slow != 0 ? s * exp(-slow) : s;
}

struct without {
    const struct hm_diagnoser *d;
    unsigned causes;
};

/* Pauses and the fitted part of the work first: they are seconds of the recorded durations, the others factors. */
static void take_out(const void *context, size_t block, size_t lane, double *duration) {
    static const enum hm_cause_kind order[] = {HM_GARBAGE_COLLECTION, HM_SEQUENCE_LENGTH, HM_SLOW_WORKER,
                                               HM_REPLICA_IMBALANCE,  HM_STAGE_IMBALANCE, HM_SLOW_LINK};
    const struct without *w = context;
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
        if (w->causes & 1u << order[k]) hm_cause_rules[order[k]].idealise(w->d, block, lane, duration);
}

double hm_without_s(struct hm_diagnoser *d, unsigned causes) {
    struct without w = {d, causes & d->found};
    return hm_scenario_mean_s(&d->s, w.causes ? take_out : NULL, NULL, &w);
}

static void wait(const void *context, size_t block, size_t lane, double *duration) {
    hm_add_waits(context, block, lane, duration);
}

/* What a cause costs alone: seconds of a step. */
static double cost_s(struct hm_diagnoser *d, enum hm_cause_kind kind) {
    if (kind ==
        HM_DATA_LOADING) /* no more than launches that come late cost in all, which the recorded step times bound */
        return fmin(hm_scenario_mean_s(&d->s, wait, NULL, d) - d->a->replayed_s, d->a->lost.launch_waits_s);
    return d->a->replayed_s - hm_without_s(d, 1u << kind);
}

/* ---- how far to trust ---- */

/* Few steps, launch delays the model does not explain, and dropped rows each take some confidence away, and say so. */
static double trust(const struct hm_diagnoser *d, struct hm_finding *f) {
    const struct hm_analysis *a = d->a;
    double factor = 1;
    if (a->n_steps < 8) {
        factor *= 0.4 + 0.6 * (double)a->n_steps / 8;
        hm_note(f, (double)a->n_steps, "", "steps recorded: few, so confidence is lower");
    }
    if (fabs(hm_unaccounted(a)) > trusted && strcmp(f->cause.cause, "data-loading") != 0) {
        factor *= fmax(0.3, 1 - 2 * (fabs(hm_unaccounted(a)) - trusted) - 0.2);
        hm_note(f, hm_unaccounted(a), "ratio", "discrepancy of the replay: over 5 %%, so confidence is lower");
    }
    if (a->n_dropped) {
        size_t count = 0;
        for (size_t i = 0; i < a->n_dropped; i++) count += a->dropped[i].count;
        factor *= 0.85;
        hm_note(f, (double)count, "", "%s and other items left out of the analysis, so confidence is lower",
                a->dropped[0].what);
    }
    return factor;
}

/* ---- the diagnosis ---- */

struct priced {
    struct hm_finding f;
    double cost_s;
};

/* No place is spared any more. */
static void spare_none(const struct hm_diagnoser *d) {
    for (size_t i = 0; i < d->n_places; i++) *hm_spared(d, d->place[i].stage, d->place[i].lane) = 0;
}

static enum hm_cause_kind kind_of(const struct hm_slow_place *a) {
    return a->stage == HM_ALL_STAGES ? HM_REPLICA_IMBALANCE : HM_SLOW_WORKER;
}

static void recount_places(struct hm_diagnoser *d) {
    d->found &= ~(1u << HM_SLOW_WORKER | 1u << HM_REPLICA_IMBALANCE);
    for (size_t i = 0; i < d->n_places; i++) d->found |= 1u << kind_of(&d->place[i]);
}

/* Whether places [first, end) are worth naming: with all else repaired, or alone. all: the step with everything repaired. */
static bool are_worth(struct hm_diagnoser *d, size_t first, size_t end, double all) {
    const bool everyone =
        first == 0 && end == d->n_places && end > MOST_PRUNED; /* then as a cause: it would go anyway */
    const double T = d->a->replayed_s;
    unsigned kinds = 0;
    for (int alone = 0; alone < 2; alone++) {
        for (size_t i = 0; i < d->n_places; i++) {
            bool in = i >= first && i < end;
            *hm_spared(d, d->place[i].stage, d->place[i].lane) = in != alone;
            if (in) kinds |= 1u << kind_of(&d->place[i]);
        }
        double gain = alone ? T - hm_without_s(d, kinds) : hm_without_s(d, d->found) - all;
        if (gain >= (!everyone ? least_place : alone ? least_gain : least_last_gain) * T) return true;
    }
    return false;
}

static void drop_places(struct hm_diagnoser *d, size_t first, size_t end) {
    while (end > first) hm_drop_place(d, --end);
}

/* Places whose repair wins back next to nothing go; of very many all at once, or the lesser half, and its half, while that is so. */
static void prune_places(struct hm_diagnoser *d) {
    if (!d->n_places) return;
    double all = hm_without_s(d, d->found);
    size_t tries = MOST_TRIES;
    for (size_t k = d->n_places; d->n_places > MOST_PRUNED && k > 0 && tries > 0; tries--) {
        bool worth = are_worth(d, d->n_places - k, d->n_places, all);
        if (!worth) drop_places(d, d->n_places - k, d->n_places);
        k = worth ? k / 2 : d->n_places / 2;
    }
    for (size_t i = d->n_places <= MOST_PRUNED ? d->n_places : 0; i-- > 0;)
        if (!are_worth(d, i, i + 1, all)) drop_places(d, i, i + 1);
    spare_none(d);
    recount_places(d);
    hm_group_places(d);
}

/* What is found but costs nothing is taken back; and no cause whose removal makes it worse, the rest being gone. */
static void prune_causes(struct hm_diagnoser *d, struct priced *found) {
    const double T = d->a->replayed_s;
    const unsigned loading = 1u << HM_DATA_LOADING;
    double all = d->found & ~loading ? hm_without_s(d, d->found) : T, last[HM_CAUSES];
    unsigned before = d->found;
    for (int k = 0; k < HM_CAUSES; k++) {
        if (!(before & 1u << k)) continue;
        double alone = found[k].cost_s = cost_s(d, (enum hm_cause_kind)k);
        last[k] = k == HM_DATA_LOADING ? alone : hm_without_s(d, before & ~(1u << k)) - all;
        if (alone >= least_gain * T) continue;
        if (last[k] >= (alone >= -hidden_gain * T ? least_last_gain : least_deep_gain) * T) {
            found[k].cost_s = fmax(0, alone);
            hm_note(&found[k].f, last[k], "s", "of the step won back without it, once the larger causes are gone");
        } else {
            d->found &= ~(1u << k);
        }
    }
    for (int again = HM_CAUSES; again > 0; again--) {
        int worst = -1;
        all = d->found & ~loading ? hm_without_s(d, d->found) : T;
        for (int k = 0; k < HM_CAUSES && k != HM_DATA_LOADING; k++) {
            if (!(d->found & 1u << k)) continue;
            double now = hm_without_s(d, d->found & ~(1u << k)) - all;
            bool harms = now < -least_gain * T || (now < 0 && found[k].cost_s < 0.5 * least_gain * T);
            if (harms && (worst < 0 || found[k].cost_s < found[worst].cost_s)) worst = k;
        }
        if (worst < 0) break;
        d->found &= ~(1u << worst);
    }
}

/* What was found after the slow places, so that it can be looked for again. */
static void forget_findings(struct hm_diagnoser *d) {
    void **arrays[] = {(void **)&d->pause,     (void **)&d->paused, (void **)&d->load,
                       (void **)&d->slope_s,   (void **)&d->load_s, (void **)&d->even,
                       (void **)&d->slow_link, (void **)&d->wait_s, (void **)&d->first_forward};
    for (size_t k = 0; k < sizeof arrays / sizeof arrays[0]; k++) {
        hm_free(*arrays[k]);
        *arrays[k] = NULL;
    }
    d->n_pauses = d->pause_capacity = 0;
}

/* Looks for the causes from `first` on. 0 or -1. */
static int look(struct hm_diagnoser *d, struct priced *found, int first) {
    bool straggles_at_all = d->a->slowdown >= least_slowdown && d->lost_s > 0;
    for (int k = first; k < HM_CAUSES; k++) {
        found[k].f = (struct hm_finding){.d = d, .cause.cause = hm_cause_rules[k].name};
        d->found &= ~(1u << k);
        if (!straggles_at_all && k != HM_DATA_LOADING) continue;
        int status = hm_cause_rules[k].find(d, &found[k].f);
        if (status < 0) return -1;
        if (status) d->found |= 1u << k;
    }
    return 0;
}

/* Whether places of a kind that costs nothing were dropped: what they had been given belongs to other causes. */
static bool drop_idle_places(struct hm_diagnoser *d) {
    size_t before = d->n_places;
    for (size_t i = d->n_places; i-- > 0;)
        if (!(d->found & 1u << kind_of(&d->place[i]))) hm_drop_place(d, i);
    if (d->n_places == before) return false;
    hm_group_places(d);
    return true;
}

/* Finds all causes; 0 or -1. */
static int find_causes(struct hm_diagnoser *d, struct priced *found) {
    if (look(d, found, 0) != 0) return -1;
    prune_places(d);
    prune_causes(d, found);
    if (!drop_idle_places(d)) return 0;
    forget_findings(d);
    if (hm_refit_work(d) != 0 || look(d, found, HM_GARBAGE_COLLECTION) != 0) return -1;
    prune_causes(d, found);
    return 0;
}

/* What a part of the slow places costs: alone or, if others like it hide it, with those gone. */
static double cost_of_part(struct hm_diagnoser *d, enum hm_cause_kind kind, uint32_t part) {
    double gain[2];
    for (int alone = 0; alone < 2; alone++) {
        for (size_t i = 0; i < d->n_places; i++) {
            const struct hm_slow_place *a = &d->place[i];
            bool own = kind_of(a) == kind && a->part == part;
            *hm_spared(d, a->stage, a->lane) = own != alone;
        }
        gain[alone] = hm_without_s(d, 1u << kind);
    }
    spare_none(d);
    return fmax(0, fmax(d->a->replayed_s - gain[1], gain[0] - hm_without_s(d, 1u << kind)));
}

static void add_finding(struct hm_diagnoser *d, struct hm_finding *f, double cost, struct hm_cause *list, size_t *n) {
    if (*n == MOST_FINDINGS) return;
    f->cause.recovers = cost / d->lost_s;
    hm_note(f, cost, "s", "of the step won back without it");
    f->cause.confidence = fmin(1, f->strength * trust(d, f));
    hm_range_steps(f);
    list[(*n)++] = f->cause;
}

/* Slow places, one finding for each group of them that is slow at the same time. */
static void name_places(struct hm_diagnoser *d, enum hm_cause_kind kind, double cost, struct hm_cause *list,
                        size_t *n) {
    uint32_t parts = 0;
    for (size_t i = 0; i < d->n_places; i++)
        if (kind_of(&d->place[i]) == kind && d->place[i].part >= parts) parts = d->place[i].part + 1;
    for (uint32_t part = 0; part < parts; part++) {
        struct hm_finding f = {.d = d, .cause.cause = hm_cause_rules[kind].name};
        hm_cause_rules[kind].describe(d, part, &f);
        add_finding(d, &f, parts > 1 ? fmin(cost, cost_of_part(d, kind, part)) : cost, list, n);
    }
}

static int by_recovers(const void *a, const void *b) {
    double x = ((const struct hm_cause *)a)->recovers, y = ((const struct hm_cause *)b)->recovers;
    return (x < y) - (x > y);
}

static int name_causes(struct hm_diagnoser *d) {
    struct priced found[HM_CAUSES];
    if (find_causes(d, found) != 0) return -1;
    struct hm_cause *list = hm_box_alloc(d->box, MOST_FINDINGS + 1, sizeof *list);
    if (!list) return -1;
    size_t n = 0;
    for (int k = 0; k < HM_CAUSES; k++) {
        if (!(d->found & 1u << k)) continue;
        if (k == HM_DATA_LOADING) d->late_data_s = found[k].cost_s;
        if (hm_cause_rules[k].describe)
            name_places(d, (enum hm_cause_kind)k, found[k].cost_s, list, &n);
        else
            add_finding(d, &found[k].f, found[k].cost_s, list, &n);
    }
    if (hm_name_left_out(d, list, &n, MOST_FINDINGS) != 0) return -1;
    unsigned in_replay = d->found & ~(1u << HM_DATA_LOADING);
    double late_s = d->a->lost.launch_waits_s - d->late_data_s, /* by whatever else */
        rest = d->lost_s > 0 ? (hm_without_s(d, in_replay) - d->a->ideal_s + late_s) / d->lost_s : 0;
    if (rest > least_unexplained && (n || d->a->slowdown_real >= straggles)) {
        struct hm_finding f = {.d = d, .cause.cause = "unexplained"};
        hm_note(&f, rest * d->lost_s, "s", "of the step lost although all named causes are gone");
        f.cause.recovers = rest;
        f.cause.confidence = trust(d, &f);
        list[n++] = f.cause;
    }
    qsort(list, n, sizeof *list, by_recovers);
    d->box->d.causes = list;
    d->box->d.n_causes = n;
    return d->box->failed ? -1 : 0;
}

/* ---- verdict ---- */

static void place(const struct hm_cause *c, char *text, size_t size) {
    text[0] = 0;
    if (strcmp(c->cause, "sequence-length") == 0) return;
    if (c->n_workers == 1)
        (void)snprintf(text, size, " (stage %u, dp %u)", c->workers[0].stage, c->workers[0].dp_rank);
    else if (c->n_workers > 1)
        (void)snprintf(text, size, " (%zu workers, first stage %u, dp %u)", c->n_workers, c->workers[0].stage,
                       c->workers[0].dp_rank);
    else if (c->n_stages)
        (void)snprintf(text, size, c->n_stages > 1 ? " (stage %u and others)" : " (stage %u)", c->stages[0]);
    else if (c->n_dp_ranks)
        (void)snprintf(text, size, c->n_dp_ranks > 1 ? " (dp %u and others)" : " (dp %u)", c->dp_ranks[0]);
}

/* Waits that are no part of S but of what was really lost. */
static void say_waits(const struct hm_analysis *a, struct hm_str *s) {
    const struct {
        double lost_s;
        const char *what;
    } waits[] = {{a->lost.launch_waits_s, "launches that come late"},
                 {a->lost.left_out_waits_s, "waiting for replicas that were left out"}};
    for (size_t k = 0; k < sizeof waits / sizeof waits[0]; k++)
        if (waits[k].lost_s >= least_gain * a->actual_s)
            hm_str_add(s, " %.3g s of each step (%.1f %%) go to %s.", waits[k].lost_s,
                       100 * waits[k].lost_s / a->actual_s, waits[k].what);
}

static const double a_day_s = 86400; /* no step takes that long; one in nanoseconds seems to */

static int write_summary(struct hm_diagnoser *d) {
    const struct hm_analysis *a = d->a;
    struct hm_diagnosis *out = &d->box->d;
    struct hm_str s = {0};
    out->straggling = a->slowdown_real >= straggles;
    if (out->straggling)
        hm_str_add(&s,
                   "The job straggles: it takes %.2f times as long as without stragglers, %.1f %% of its time is lost.",
                   a->slowdown_real, 100 * (1 - 1 / a->slowdown_real));
    else
        hm_str_add(&s, "The job does not straggle: it takes %.3f times as long as without stragglers.",
                   a->slowdown_real);
    say_waits(a, &s);
    size_t named = 0;
    for (size_t i = 0; i < out->n_causes && named < 3; i++) {
        const struct hm_cause *c = &out->causes[i];
        if (strcmp(c->cause, "unexplained") == 0) continue;
        char where[80];
        place(c, where, sizeof where);
        hm_str_add(&s, "%s%s%s, ", named ? "; then " : out->straggling ? " Causes: " : " Still: ", c->cause, where);
        if (c->recovers < 0.02)
            hm_str_add(&s, "hidden behind it");
        else
            hm_str_add(&s, "%.0f %% of the loss", 100 * c->recovers);
        named++;
    }
    if (named)
        hm_str_add(&s, ".");
    else if (out->straggling)
        hm_str_add(&s, " No cause that hindmost knows shows in the trace.");
    if (out->n_fixes)
        hm_str_add(&s, " Best single fix: %s, %.2f times as fast.", out->fixes[0].fix, out->fixes[0].speedup);
    if (fabs(hm_unaccounted(a)) > trusted)
        hm_str_add(&s, " The replay differs from the recording by %.1f %%: take all this with care.",
                   100 * hm_unaccounted(a));
    if (a->actual_s > a_day_s)
        hm_str_add(&s, " A step of %.3g s is longer than a day: times are in seconds, are these?", a->actual_s);
    out->summary = hm_box_text(d->box, "%s", s.text ? s.text : "");
    bool failed = s.failed || d->box->failed;
    hm_str_free(&s);
    return failed ? -1 : 0;
}

static void free_findings(struct hm_diagnoser *d) {
    hm_explanation_free(&d->e);
    hm_free(d->worker);
    hm_free(d->replica);
    hm_free(d->single);
    hm_free(d->place);
    hm_free(d->spared);
    hm_free(d->pause);
    hm_free(d->paused);
    hm_free(d->load);
    hm_free(d->slope_s);
    hm_free(d->load_s);
    hm_free(d->even);
    hm_free(d->slow_link);
    hm_free(d->usual_transfer_s);
    hm_free(d->wait_s);
    hm_free(d->first_forward);
    hm_profile_free(&d->p);
    hm_scenarios_end(&d->s);
}

struct hm_diagnosis *hm_diagnose(struct hm_trace *trace, const struct hm_analysis *analysis, int threads,
                                 struct hm_error *err) {
    struct hm_diagnoser d = {.t = trace, .a = analysis, .lost_s = hm_total_lost_s(analysis)};
    int status = -1;
    d.box = hm_alloc(1, sizeof *d.box);
    if (d.box && hm_profile_fit(&d.p, trace, threads) == 0 && hm_scenarios_begin(&d.s, trace, threads) == 0)
        status = name_causes(&d);
    if (status == 0) status = hm_list_limits(&d);
    if (status == 0) status = hm_price_fixes(&d);
    if (status == 0) status = write_summary(&d);
    free_findings(&d);
    if (status == 0) return &d.box->d;
    if (d.box) hm_diagnosis_free(&d.box->d);
    hm_fail_memory(err);
    return NULL;
}
