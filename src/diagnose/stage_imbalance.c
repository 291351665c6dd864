/* stage_imbalance.c - a stage whose microbatches take longer than the other stages', in all replicas: too many layers, or
 * the loss on top (OSDI 2025, section 5.2: the last stage's forward was 2.07 and its backward 1.41 times an average one).
 *
 * Judged by the mean durations of a stage's roles once slow workers, replicas and pauses are taken out. Idealised by
 * scaling each role to the mean of its direction: the variation inside a stage stays. */
#include "diagnose.h"

#include <math.h>

static const double least = 0.02; /* above the mean stage */
static const double sigmas = 5;

struct means {
    struct hm_diagnoser *d;
    double *sum, *n; /* [role][lane] */
};

static void add_lane(void *context, size_t lane, int thread) {
    (void)thread;
    const struct means *m = context;
    const struct hm_profile *p = &m->d->p;
    for (uint32_t role = 0; role < p->roles; role++)
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            if (hm_slot_of(p, role, mb) == HM_NONE) continue;
            for (size_t t = 0; t < p->steps; t++) {
                double s = hm_cleaned_s(m->d, lane, role, mb, t);
                if (isnan(s)) continue;
                m->sum[role * p->lanes + lane] += s;
                m->n[role * p->lanes + lane]++;
            }
        }
}

/* The mean of each role, and the factors that make the roles of a direction equal. */
static int even_out(struct means *m, double *mean) {
    struct hm_diagnoser *d = m->d;
    const struct hm_profile *p = &d->p;
    if (!(d->even = hm_alloc(p->roles, sizeof(double)))) return -1;
    double direction[2] = {0}, roles[2] = {0};
    for (uint32_t role = 0; role < p->roles; role++) {
        double sum = 0, n = 0;
        for (size_t l = 0; l < p->lanes; l++) sum += m->sum[role * p->lanes + l], n += m->n[role * p->lanes + l];
        mean[role] = n > 0 ? sum / n : NAN;
        if (n > 0) direction[role % 2] += mean[role], roles[role % 2]++;
    }
    for (uint32_t role = 0; role < p->roles; role++)
        d->even[role] = mean[role] > 0 ? direction[role % 2] / roles[role % 2] / mean[role] : 1;
    return 0;
}

/* How the stages' shares differ from replica to replica: the standard error of a stage's mean over the replicas. What a replica's
 * stages share is its own pace, what a stage's replicas share is the stage. */
static double interaction(const struct means *m, double *level) {
    const struct hm_profile *p = &m->d->p;
    double square = 0, freedom = (double)(p->recorded - 1) * (double)(p->lanes - 1);
    if (p->lanes < 2) return 0;
    for (size_t s = 0; s < p->stages; s++)
        for (size_t l = 0; l < p->lanes; l++) {
            double sum = 0, n = 0;
            for (uint32_t role = hm_role(p, s, 0, 0); role < hm_role(p, s + 1, 0, 0); role++)
                sum += m->sum[role * p->lanes + l], n += m->n[role * p->lanes + l];
            level[s * p->lanes + l] = n > 0 && sum > 0 ? log(sum / n) : 0;
        }
    for (size_t s = 0; s < p->stages; s++) {
        double mean = hm_mean(level + s * p->lanes, p->lanes);
        for (size_t l = 0; l < p->lanes; l++) level[s * p->lanes + l] -= mean;
    }
    for (size_t l = 0; l < p->lanes; l++) {
        double mean = 0;
        for (size_t s = 0; s < p->stages; s++)
            mean += level[s * p->lanes + l] / (double)p->recorded; /* 0 where nothing was recorded */
        for (size_t s = 0; s < p->stages; s++)
            if (m->n[hm_role(p, s, 0, 0) * p->lanes + l] > 0)
                square += (level[s * p->lanes + l] - mean) * (level[s * p->lanes + l] - mean);
    }
    return sqrt(square / freedom / (double)p->lanes);
}

/* Standard error of a stage's mean from the noise, and from how its replicas differ. */
static double error_of(const struct hm_profile *p, size_t stage, double differ) {
    double noise = fmax(p->noise[2 * stage], p->noise[2 * stage + 1]);
    return hypot(noise / sqrt((double)(p->microbatches * p->chunks * 2 * p->lanes * p->steps)), differ);
}

static int judge(const struct means *m, const double *mean, struct hm_finding *f) {
    enum { NAMED = 64 };
    struct hm_diagnoser *d = m->d;
    const struct hm_profile *p = &d->p;
    double total = 0, heaviest = 0, forward = 0, backward = 0, strength = 0;
    double *load = d->load_s = hm_alloc(p->stages, sizeof *load), *number = hm_alloc(p->stages, sizeof *number);
    double *level = hm_alloc(p->stages * p->lanes, sizeof *level), differ = level ? interaction(m, level) : 0;
    bool named = false, good = load && number && level;
    size_t top = 0;
    hm_free(level);
    for (size_t s = 0; good && s < p->stages; s++) {
        number[s] = (double)s;
        for (uint32_t role = hm_role(p, s, 0, 0); role < hm_role(p, s + 1, 0, 0); role++) {
            load[s] += isnan(mean[role]) ? 0 : mean[role];
            *(role % 2 ? &backward : &forward) += isnan(mean[role]) ? 0 : mean[role];
        }
        total += load[s] / (double)p->recorded;
        if (load[s] > heaviest) heaviest = load[s], top = s;
    }
    for (size_t s = 0; good && s < p->stages; s++) {
        double above = load[s] / total - 1, error = error_of(p, s, differ);
        if (above < least || above < sigmas * error) continue;
        named = true;
        strength = fmax(strength, fmin(1, above / (2 * least)));
        if (f->cause.n_stages < NAMED) hm_at_stage(f, s);
    }
    for (uint32_t role = 0; role < p->roles; role++) /* chunks may differ inside a stage, too */
        if (p->chunks > 1 && d->even[role] < 1 - 2 * least) {
            named = true;
            strength = fmax(strength, fmin(1, (1 / d->even[role] - 1) / (2 * least)));
            if (f->cause.n_stages < NAMED) hm_at_stage(f, hm_role_stage(p, role));
        }
    if (good) {
        double own[2] = {0};
        for (uint32_t role = hm_role(p, top, 0, 0); role < hm_role(p, top + 1, 0, 0); role++)
            own[role % 2] += mean[role];
        hm_note_plot(f, "heaviest stage over the mean stage", heaviest / total, "ratio", "stage",
                     "forward + backward of a microbatch, s", number, load, p->stages);
        hm_note(f, own[0] / (forward / (double)p->recorded), "ratio", "forward of stage %zu over the mean stage's",
                top);
        hm_note(f, own[1] / (backward / (double)p->recorded), "ratio", "backward of stage %zu over the mean stage's",
                top);
        if (p->lanes == 1) hm_note(f, 1, "", "replicas: with one, a slow worker and a heavy stage look the same");
        hm_at_pass(f, HM_FORWARD);
        hm_at_pass(f, HM_BACKWARD);
        f->strength = p->lanes == 1 ? 0.5 * strength : strength;
    }
    hm_free(number);
    return good ? named : -1;
}

int hm_find_stage_imbalance(struct hm_diagnoser *d, struct hm_finding *f) {
    const struct hm_profile *p = &d->p;
    if (p->recorded < 2 || p->microbatches == 0) return 0;
    struct means m = {.d = d, .sum = hm_alloc(p->roles * p->lanes, sizeof(double))};
    m.n = hm_alloc(p->roles * p->lanes, sizeof(double));
    double *mean = hm_alloc(p->roles, sizeof(double));
    int status = m.sum && m.n && mean ? 0 : -1;
    if (status == 0) {
        hm_parallel(p->lanes, p->threads, add_lane, &m);
        status = even_out(&m, mean);
    }
    if (status == 0) status = judge(&m, mean, f);
    hm_free(m.sum);
    hm_free(m.n);
    hm_free(mean);
    return status;
}

void hm_idealise_stages(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration) {
    (void)block, (void)lane;
    const struct hm_profile *p = &d->p;
    if (!d->even) return;
    for (uint32_t role = 0; role < p->roles; role++)
        for (size_t mb = 0; mb < p->microbatches; mb++) {
            uint32_t slot = hm_slot_of(p, role, mb);
            for (size_t k = 0; slot != HM_NONE && k < HM_WIDTH; k++) duration[slot * HM_WIDTH + k] *= d->even[role];
        }
}
