/* plan.c - expected TOR of a run in closed form. Derived in docs/tor.md, sections named beside the formulas. */
#include "tor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double stretch(const struct hm_tor_run *run) {
    return run->slowdown > 1 ? run->slowdown : 1;
}

/* ---- waiting for a node (docs/tor.md, "Spares") ---- */

struct wait {
    double mean, square; /* first two moments of the wait at a failure */
};

/* Nodes under repair are a birth-death chain: births while the job runs, deaths at k / repair. The job waits when a failure finds all
 * spares away; it goes on when the first of the s + 1 nodes comes back. */
static struct wait wait_for_node(const struct hm_tor_run *run) {
    double rate = hm_tor_job_rate(run);
    if (!(run->repair_s > 0) || !(rate > 0)) return (struct wait){0, 0};
    double up = 1 / rate + run->detect_s +
                run->restart_s; /* time between failures apart from waiting: repairs go on meanwhile */
    double load = run->repair_s / up, spares = floor(run->spares);
    /* P(k nodes away | job up), k = 0..s, is a truncated Poisson; a failure adds one. In logarithms: the load may be large. */
    double term = 0, sum = 0, log_term = 0, most = 0;
    for (double k = 1; k <= spares; k++) {
        log_term += log(load / k);
        if (log_term > most) most = log_term;
    }
    log_term = 0;
    for (double k = 0; k <= spares; k++) {
        if (k > 0) log_term += log(load / k);
        term = exp(log_term - most);
        sum += term;
    }
    double all_away = term / sum, first_back = run->repair_s / (spares + 1);
    return (struct wait){all_away * first_back, 2 * all_away * first_back * first_back};
}

/* ---- checkpoint intervals ---- */

/* Work kept in a failure cycle over the time of it, for interval x (docs/tor.md, "Fail-stop"). */
static double kept_rate(const struct hm_tor_run *run, double x, double down_s) {
    double rate = hm_tor_job_rate(run), save = run->save_s;
    if (!(rate > 0)) return run->async_save ? 1 : x / (x + save);
    double kept = run->async_save ? x * exp(-rate * save) / expm1(rate * x) : x / expm1(rate * (x + save));
    return kept / (1 / rate + down_s);
}

double hm_tor_best_interval(const struct hm_tor_run *run) {
    double rate = hm_tor_job_rate(run);
    if (!(rate > 0)) return INFINITY;
    if (!(run->save_s > 0) || run->async_save) {
        /* without a cost every moment is a good one; a save beside training takes its own time, so they follow each other */
        return run->async_save && run->save_s > 0 ? run->save_s : 1;
    }
    /* d/dx of x / (exp(rate (x + save)) - 1) = 0  <=>  1 - z = exp(-z - rate save), z = rate x; Newton from Young's value */
    double a = run->save_s * rate, z = fmin(sqrt(2 * a), 0.999999);
    for (int k = 0; k < 60; k++) {
        double f = 1 - z - exp(-z - a), slope = -1 + exp(-z - a), next = z - f / slope;
        if (!(next > 0)) next = z / 2;
        if (next >= 1) next = (z + 1) / 2;
        if (fabs(next - z) < 1e-14) break;
        z = next;
    }
    return z / rate;
}

static bool bad(double x) {
    return !isfinite(x) || x < 0;
}

int hm_tor_complete(const struct hm_tor_run *run, struct hm_tor_run *complete, struct hm_error *err) {
    *complete = *run;
    const double values[] = {run->nodes,       run->failure_rate,  run->save_s, run->interval_s, run->detect_s,
                             run->restart_s,   run->repair_s,      run->spares, run->slowdown,   run->slow_rate,
                             run->slow_factor, run->slow_detect_s, run->work_s};
    static const char *const names[] = {"nodes",       "failure-rate", "save",   "interval", "detect",
                                        "restart",     "repair",       "spares", "slowdown", "slow-rate",
                                        "slow-factor", "slow-detect",  "work"};
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
        if (bad(values[k])) return hm_fail(err, HM_ERR_ARGUMENT, "--%s: must be finite and not negative", names[k]);
    if (!(run->work_s > 0))
        return hm_fail(err, HM_ERR_ARGUMENT, "--work: give the time an ideal run would need, such as 30d");
    if (run->nodes < 1) return hm_fail(err, HM_ERR_ARGUMENT, "--nodes: a job has at least one node");
    if (run->slowdown != 0 && run->slowdown < 1)
        return hm_fail(err, HM_ERR_ARGUMENT, "--slowdown %g: S is at least 1", run->slowdown);
    if (run->slow_rate > 0 && run->slow_factor < 1)
        return hm_fail(err, HM_ERR_ARGUMENT, "--slow-factor %g: a slow step takes at least as long as a usual one",
                       run->slow_factor);
    if (run->spares > 1e6) return hm_fail(err, HM_ERR_ARGUMENT, "--spares %g: more than a million", run->spares);
    if (complete->interval_s == 0) complete->interval_s = hm_tor_best_interval(run);
    if (complete->interval_s > run->work_s * stretch(run))
        complete->interval_s = run->work_s * stretch(run); /* one interval: the whole run */
    if (run->async_save && complete->interval_s < run->save_s) complete->interval_s = run->save_s;
    return 0;
}

/* ---- expected time ---- */

struct moments {
    double mean, variance;
};

/* Time to get through `length` of training and saving in one go, begun anew after each failure (docs/tor.md, "A segment"). */
static struct moments segment(double rate, double length, double down_s, double down_variance) {
    if (!(rate > 0) || length <= 0) return (struct moments){length, 0};
    double x = rate * length, p = exp(-x), failures = expm1(x); /* expected failures: (1 - p) / p */
    if (!(failures < 1e12)) return (struct moments){INFINITY, INFINITY};
    double before = 1 / rate - length / failures; /* mean time to a failure within the segment */
    double square = 2 / (rate * rate) - (length * length + 2 * length / rate) / failures; /* its second moment */
    double spread = square - before * before;
    return (struct moments){length + failures * (before + down_s),
                            failures * (spread + down_variance) + failures / p * (before + down_s) * (before + down_s)};
}

/* Fail-slow: while one lasts, steps take slow_factor times as long; when it is found, a save and a restart (docs/tor.md, "Fail-slow"). */
static double slow_stretch(const struct hm_tor_run *run, double *restarts_per_s) {
    double rate = run->nodes * run->slow_rate;
    *restarts_per_s = 0;
    if (!(rate > 0) || !(run->slow_factor > 0)) return 1;
    double share = rate * run->slow_detect_s / (1 + rate * run->slow_detect_s); /* of running time */
    *restarts_per_s = rate / (1 + rate * run->slow_detect_s);
    return 1 / (1 - share + share / run->slow_factor);
}

int hm_tor_plan(const struct hm_tor_run *given, struct hm_tor_result *r, struct hm_error *err) {
    struct hm_tor_run run;
    if (hm_tor_complete(given, &run, err) != 0) return -1;
    const double rate = hm_tor_job_rate(&run), save = run.save_s, x = run.interval_s;
    struct wait wait = wait_for_node(&run);
    double down = run.detect_s + run.restart_s + wait.mean, restarts_per_s, slow = slow_stretch(&run, &restarts_per_s);
    double running = run.work_s * stretch(&run) * slow; /* training time that has to survive */
    struct moments total;
    if (run.async_save) { /* renewal over failure cycles */
        double per_s = kept_rate(&run, x, down), cycles = rate > 0 ? running / (per_s * (1 / rate + down)) : 0;
        total = (struct moments){running / per_s, cycles * (1 / (rate * rate) + wait.square - wait.mean * wait.mean)};
        if (!(rate > 0)) total.variance = 0;
    } else {
        double segments = ceil(running / x * (1 - 1e-12)) - 1; /* the last piece of work needs no save */
        if (segments < 0) segments = 0;
        double last = running - segments * x, down_variance = wait.square - wait.mean * wait.mean;
        struct moments one = segment(rate, x + save, down, down_variance),
                       end = segment(rate, last, down, down_variance);
        total = (struct moments){segments * one.mean + end.mean, segments * one.variance + end.variance};
    }
    double planned = restarts_per_s * running *
                     (run.save_s + run.restart_s); /* restarts after fail-slow events: nothing is rolled back */
    total.mean += planned;
    if (!isfinite(total.mean) || run.work_s / total.mean < 1e-9)
        return hm_fail(err, HM_ERR_ARGUMENT,
                       "this run never ends: with a failure every %.3g s it hardly gets from one checkpoint to the "
                       "next; make --interval or --save shorter",
                       1 / rate);
    const double z90 = 1.6448536269514722; /* normal quantile of 95 % */
    double spread = z90 * sqrt(total.variance > 0 ? total.variance : 0), least = running + planned;
    *r = (struct hm_tor_result){.tor = run.work_s / total.mean, .t_opt_s = run.work_s, .t_obs_s = total.mean};
    r->t_obs_low_s = fmax(total.mean - spread, least);
    r->t_obs_high_s = total.mean + spread;
    r->mttf_s = rate > 0 ? 1 / rate : INFINITY;
    r->interval_s = x;
    r->best_interval_s = hm_tor_best_interval(&run);
    r->young_s = rate > 0 ? sqrt(2 * save / rate) : INFINITY;
    /* Daly 2006, the higher-order estimate, for save < 2 MTTF */
    double h = sqrt(save * rate / 2);
    r->daly_s = !(rate > 0)       ? INFINITY
                : save < 2 / rate ? sqrt(2 * save / rate) * (1 + h / 3 + save * rate / 18) - save
                                  : 1 / rate;
    r->wait_s = wait.mean;
    /* time up = total - failures (down) - planned, failures = rate * up */
    r->failures = rate * (total.mean - planned) / (1 + rate * down);
    /* ETTR (Meta): productive running over wall time; slow running is still productive. Goodput: that without slow steps. */
    r->ettr = running / total.mean;
    r->goodput = run.work_s * stretch(&run) / total.mean;
    return 0;
}

/* ---- levers ---- */

static int best_first(const void *a, const void *b) {
    double x = ((const struct hm_tor_lever *)a)->tor, y = ((const struct hm_tor_lever *)b)->tor;
    return (x < y) - (x > y);
}

size_t hm_tor_levers(const struct hm_tor_run *run, struct hm_tor_lever levers[HM_TOR_LEVERS]) {
    struct hm_tor_result base, r;
    size_t n = 0;
    if (hm_tor_plan(run, &base, NULL) != 0) return 0;
    for (int k = 0; k < HM_TOR_LEVERS; k++) {
        struct hm_tor_run changed = *run;
        const char *name = NULL;
        switch (k) {
        case 0:
            name = "half the failures";
            changed.failure_rate /= 2;
            break;
        case 1:
            name = "checkpoints twice as fast";
            changed.save_s /= 2;
            break;
        case 2:
            name = "asynchronous checkpoints";
            changed.async_save = true;
            break;
        case 3:
            name = "the best checkpoint interval";
            changed.interval_s = 0;
            break;
        case 4:
            name = "detection in 10 s";
            changed.detect_s = fmin(changed.detect_s, 10);
            break;
        case 5:
            name = "restart twice as fast";
            changed.restart_s /= 2;
            break;
        case 6:
            name = "stragglers removed";
            changed.slowdown = 1;
            break;
        case 7:
            name = "always a spare at hand";
            changed.repair_s = 0;
            break;
        case 8:
            name = "repairs twice as fast";
            changed.repair_s /= 2;
            break;
        default:
            name = "fail-slow found in 1 min";
            changed.slow_detect_s = fmin(changed.slow_detect_s, 60);
            break;
        }
        if (k != 3 && run->interval_s > 0 && (k <= 2))
            changed.interval_s = 0; /* the lever with the interval that suits it */
        if (hm_tor_plan(&changed, &r, NULL) != 0 || !(r.tor > base.tor * (1 + 1e-6))) continue;
        levers[n++] = (struct hm_tor_lever){name, r.tor, r.t_obs_s};
    }
    qsort(levers, n, sizeof *levers, best_first);
    return n;
}
