/* simulate.c - Monte Carlo of the planned run: failures, rollbacks, waiting for nodes, spares and repairs, fail-slow events.
 *
 * Nothing happens between two events but training, so a cycle costs one draw, whatever its length. Each run has its own stream of random
 * numbers, so threads do not change the result. */
#include "tor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AWAY = 4096 };

struct state {
    const struct hm_tor_run *run;
    struct hm_rng rng;
    double now;   /* wall clock */
    double *away; /* heap of the times at which nodes come back */
    size_t n_away;
    double ledger[HM_TOR_CLASSES];
    double failures;
};

static double exponential(struct hm_rng *rng, double mean) {
    return -mean * log1p(-hm_rng_uniform(rng));
}

/* Time to the job's next failure, of running time. */
static double draw_gap(struct state *s, double mean) {
    const struct hm_tor_run *run = s->run;
    if (!isfinite(mean)) return INFINITY;
    switch (run->distribution) {
    case HM_TOR_WEIBULL:
        return mean / tgamma(1 + 1 / run->weibull_shape) *
               pow(-log1p(-hm_rng_uniform(&s->rng)), 1 / run->weibull_shape);
    case HM_TOR_EMPIRICAL: {
        const struct hm_faults *f = run->faults;
        return f->gaps_s[hm_rng_below(&s->rng, f->n_gaps)] * mean * (double)f->n_gaps /
               f->gaps_s[f->n_gaps]; /* [n]: their sum */
    }
    default:
        return exponential(&s->rng, mean);
    }
}

static double draw_repair(struct state *s) {
    const struct hm_tor_run *run = s->run;
    if (run->distribution == HM_TOR_EMPIRICAL && run->faults->n_repairs)
        return run->faults->repairs_s[hm_rng_below(&s->rng, run->faults->n_repairs)];
    return exponential(&s->rng, run->repair_s);
}

static void spend(struct state *s, enum hm_tor_class class, double seconds) {
    s->ledger[class] += seconds;
    s->now += seconds;
}

/* ---- nodes away ---- */

static void send_away(struct state *s, double until) {
    size_t i = s->n_away++;
    for (; i > 0 && s->away[(i - 1) / 2] > until; i = (i - 1) / 2) s->away[i] = s->away[(i - 1) / 2];
    s->away[i] = until;
}

static void take_back(struct state *s) {
    double last = s->away[--s->n_away];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->n_away; i = child) {
        if (child + 1 < s->n_away && s->away[child + 1] < s->away[child]) child++;
        if (s->away[child] >= last) break;
        s->away[i] = s->away[child];
    }
    s->away[i] = last;
}

/* A failed node leaves; the job waits if more are away than there are spares. */
static void replace_node(struct state *s) {
    const struct hm_tor_run *run = s->run;
    if (!(run->repair_s > 0) && !(run->distribution == HM_TOR_EMPIRICAL && run->faults->n_repairs)) return;
    while (s->n_away && s->away[0] <= s->now) take_back(s);
    if (s->n_away < MOST_AWAY) send_away(s, s->now + draw_repair(s));
    if ((double)s->n_away > run->spares) {
        double wait = s->away[0] - s->now;
        take_back(s);
        if (wait > 0) spend(s, HM_TOR_WAITING, wait);
    }
}

/* ---- one run ---- */

/* Splits kept training time into progress, stragglers and fail-slow. */
static void keep(struct state *s, double training, double slow_extra) {
    double stretch = s->run->slowdown > 1 ? s->run->slowdown : 1, usual = training - slow_extra;
    s->ledger[HM_TOR_PROGRESS] += usual / stretch;
    s->ledger[HM_TOR_STRAGGLERS] += usual - usual / stretch;
    s->ledger[HM_TOR_SLOW_STEPS] += slow_extra;
    s->now += training;
}

/* Training without fail-slow events: whole cycles at once. */
static void run_plain(struct state *s) {
    const struct hm_tor_run *run = s->run;
    const double rate = hm_tor_job_rate(run), mean = rate > 0 ? 1 / rate : INFINITY, x = run->interval_s,
                 save = run->save_s, step = run->async_save ? x : x + save;
    double left = run->work_s * (run->slowdown > 1 ? run->slowdown : 1);
    while (left > 0) {
        double gap = draw_gap(s, mean),
               saves = ceil(left / x * (1 - 1e-12)) - 1; /* before the end; the last piece needs none */
        double to_end = run->async_save ? left : left + saves * save;
        if (gap >= to_end) {
            if (!run->async_save && saves > 0) spend(s, HM_TOR_SAVING, saves * save);
            keep(s, left, 0);
            return;
        }
        s->failures++;
        double done = floor(run->async_save ? fmax(gap - save, 0) / x : gap / step);
        if (!run->async_save) spend(s, HM_TOR_SAVING, done * save);
        keep(s, done * x, 0);
        left -= done * x;
        double lost = gap - done * step,
               saving = run->async_save ? 0 : fmax(lost - x, 0); /* a save that failed is rolled back as well */
        spend(s, HM_TOR_ROLLED_BACK, lost - saving);
        spend(s, HM_TOR_SAVING, saving);
        spend(s, HM_TOR_DETECTION, run->detect_s);
        replace_node(s);
        spend(s, HM_TOR_RESTART, run->restart_s);
    }
}

/* With fail-slow events: interval by interval, at most one such event at a time. A slow spell ends when it is found, with a save and a
 * restart at the next checkpoint boundary; failures roll back as usual. */
static void run_slow(struct state *s) {
    const struct hm_tor_run *run = s->run;
    const double rate = hm_tor_job_rate(run), mean = rate > 0 ? 1 / rate : INFINITY,
                 slow_mean = 1 / (run->nodes * run->slow_rate);
    double left = run->work_s * (run->slowdown > 1 ? run->slowdown : 1), gap = draw_gap(s, mean);
    double quiet = exponential(&s->rng, slow_mean),
           spell = 0;                      /* running time until a spell begins; rest of the present one */
    double since_save = 0, slow_since = 0; /* work done since the last save, extra time in it */
    while (left - since_save > 1e-9) {
        double factor = spell > 0 ? run->slow_factor : 1;
        double need = fmin(run->interval_s, left) - since_save; /* work to the next boundary */
        double time = need * factor, until = fmin(gap, spell > 0 ? spell : quiet), spent = fmin(time, until);
        since_save += spent / factor;
        slow_since += spent - spent / factor;
        gap -= spent;
        if (spell > 0)
            spell -= spent;
        else
            quiet -= spent;
        if (gap <= 0) {
            s->failures++;
            spend(s, HM_TOR_ROLLED_BACK, since_save + slow_since);
            since_save = slow_since = 0;
            spend(s, HM_TOR_DETECTION, run->detect_s);
            replace_node(s);
            spend(s, HM_TOR_RESTART, run->restart_s);
            gap = draw_gap(s, mean);
            spell = 0;
            continue;
        }
        bool boundary = since_save >= fmin(run->interval_s, left) * (1 - 1e-12), found = factor > 1 && spell <= 0;
        if (spell <= 0 && quiet <= 0) {
            spell = run->slow_detect_s;
            quiet = exponential(&s->rng, slow_mean);
        }
        if (!boundary && !found) continue;
        keep(s, since_save + slow_since, slow_since);
        left -= since_save;
        since_save = slow_since = 0;
        if (left > 1e-9) spend(s, HM_TOR_SAVING, run->save_s);
        gap -= run->save_s; /* a failure within the save is taken at its end: nothing is lost but the save */
        if (gap < 0) gap = 0;
        if (found) spend(s, HM_TOR_RESTART, run->restart_s);
    }
    if (since_save > 0) keep(s, since_save + slow_since, slow_since);
}

/* ---- many runs ---- */

struct batch {
    const struct hm_tor_run *run;
    uint64_t seed;
    double *time;                         /* [run] */
    double (*ledger)[HM_TOR_CLASSES + 1]; /* [run], and failures */
    double **away;                        /* [thread] */
};

static void simulate_one(void *context, size_t i, int thread) {
    struct batch *b = context;
    struct state s = {.run = b->run, .away = b->away[thread]};
    hm_rng_seed(&s.rng, b->seed * 0x9e3779b97f4a7c15u + i + 1);
    if (b->run->slow_rate > 0 && b->run->slow_factor > 1)
        run_slow(&s);
    else
        run_plain(&s);
    b->time[i] = s.now;
    memcpy(b->ledger[i], s.ledger, sizeof s.ledger);
    b->ledger[i][HM_TOR_CLASSES] = s.failures;
}

int hm_tor_simulate(const struct hm_tor_run *given, size_t runs, uint64_t seed, int threads,
                    struct hm_tor_simulation *out, struct hm_error *err) {
    struct hm_tor_run run;
    struct hm_tor_result planned;
    if (hm_tor_complete(given, &run, err) != 0) return -1;
    /* the closed form refuses runs that never end, which a simulation would try for ever */
    struct hm_tor_run exponential_run = run;
    exponential_run.distribution = HM_TOR_EXPONENTIAL;
    if (hm_tor_plan(&exponential_run, &planned, err) != 0) return -1;
    if (runs == 0 || runs > 10000000) return hm_fail(err, HM_ERR_ARGUMENT, "--runs: from 1 to 10000000");
    if (run.distribution == HM_TOR_WEIBULL && !(run.weibull_shape > 0.1 && run.weibull_shape < 20))
        return hm_fail(err, HM_ERR_ARGUMENT, "--distribution weibull:%g: the shape lies between 0.1 and 20",
                       run.weibull_shape);
    if (run.distribution == HM_TOR_EMPIRICAL && (!run.faults || run.faults->n_gaps == 0))
        return hm_fail(err, HM_ERR_ARGUMENT, "--distribution empirical: needs --faults FILE with at least two faults");
    int n = hm_thread_count(threads, runs);
    struct batch b = {.run = &run,
                      .seed = seed,
                      .time = hm_alloc(runs, sizeof(double)),
                      .ledger = hm_alloc(runs, sizeof *b.ledger),
                      .away = hm_alloc((size_t)n, sizeof *b.away)};
    bool good = b.time && b.ledger && b.away;
    for (int t = 0; good && t < n; t++) good = (b.away[t] = hm_alloc(MOST_AWAY + 1, sizeof(double))) != NULL;
    if (good) {
        hm_parallel(runs, n, simulate_one, &b);
        *out = (struct hm_tor_simulation){.result = planned, .runs = runs};
        double saving = 0;
        for (size_t i = 0; i < runs; i++) {
            for (int c = 0; c < HM_TOR_CLASSES; c++) out->ledger_s[c] += b.ledger[i][c] / (double)runs;
            out->cycles += b.ledger[i][HM_TOR_CLASSES];
        }
        (void)saving;
        struct hm_tor_result *r = &out->result;
        r->t_obs_s = hm_mean(b.time, runs);
        r->tor = run.work_s / r->t_obs_s;
        r->ettr =
            (out->ledger_s[HM_TOR_PROGRESS] + out->ledger_s[HM_TOR_STRAGGLERS] + out->ledger_s[HM_TOR_SLOW_STEPS]) /
            r->t_obs_s;
        r->goodput = (out->ledger_s[HM_TOR_PROGRESS] + out->ledger_s[HM_TOR_STRAGGLERS]) / r->t_obs_s;
        r->failures = out->cycles / (double)runs;
        r->wait_s = r->failures > 0 ? out->ledger_s[HM_TOR_WAITING] / r->failures : 0;
        r->t_obs_low_s = hm_quantile(b.time, runs, 0.05);
        r->t_obs_high_s = hm_quantile(b.time, runs, 0.95);
    }
    for (int t = 0; b.away && t < n; t++) hm_free(b.away[t]);
    hm_free(b.time);
    hm_free(b.ledger);
    hm_free(b.away);
    return good ? 0 : hm_fail_memory(err);
}
