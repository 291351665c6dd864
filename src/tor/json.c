/* json.c - plans and measurements as JSON, schema hindmost.tor/1. */
#include "tor.h"

#include <math.h>

static const char *const class_names[HM_TOR_CLASSES] = {"healthy-progress",
                                                        "slow-steps",
                                                        "stragglers",
                                                        "checkpoint-saving",
                                                        "work-rolled-back",
                                                        "failure-detection",
                                                        "waiting-for-nodes",
                                                        "restart-and-load",
                                                        "repair",
                                                        "idle",
                                                        "unknown"};

const char *hm_tor_class_name(enum hm_tor_class part) {
    return class_names[part];
}

static void ledger(struct hm_json *j, const double *seconds) {
    hm_json_array(j, "ledger");
    for (int c = 0; c < HM_TOR_CLASSES; c++) {
        hm_json_object(j, NULL);
        hm_json_string(j, "class", class_names[c]);
        hm_json_number(j, "seconds", seconds[c]);
        hm_json_end_object(j);
    }
    hm_json_end_array(j);
}

/* The expected ledger of a plan, from its closed form: what adds up to t_obs_s. */
static void planned_ledger(const struct hm_tor_run *run, const struct hm_tor_result *r, double *seconds) {
    double s = run->slowdown > 1 ? run->slowdown : 1, running = r->ettr * r->t_obs_s, rest;
    for (int c = 0; c < HM_TOR_CLASSES; c++) seconds[c] = 0;
    seconds[HM_TOR_PROGRESS] = run->work_s;
    seconds[HM_TOR_STRAGGLERS] = run->work_s * (s - 1);
    seconds[HM_TOR_SLOW_STEPS] = running - run->work_s * s;
    seconds[HM_TOR_SAVING] =
        run->async_save ? 0 : fmax(0, ceil(running / r->interval_s * (1 - 1e-12)) - 1) * run->save_s;
    seconds[HM_TOR_DETECTION] = r->failures * run->detect_s;
    seconds[HM_TOR_RESTART] = r->failures * run->restart_s;
    seconds[HM_TOR_WAITING] = r->failures * r->wait_s;
    rest = r->t_obs_s;
    for (int c = 0; c < HM_TOR_CLASSES; c++) rest -= seconds[c];
    seconds[HM_TOR_ROLLED_BACK] = rest;
}

static void numbers(struct hm_json *j, const char *key, const double *x, size_t n) {
    hm_json_array(j, key);
    for (size_t i = 0; i < n; i++) hm_json_number(j, NULL, x[i]);
    hm_json_end_array(j);
}

void hm_tor_plan_write_json(const struct hm_tor_run *run, const struct hm_tor_result *plan,
                            const struct hm_tor_simulation *simulation, const struct hm_tor_curve *curve,
                            struct hm_out *out) {
    const struct hm_tor_result *r = simulation ? &simulation->result : plan;
    struct hm_json j;
    double seconds[HM_TOR_CLASSES];
    hm_json_begin(&j, out, 1);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "schema", "hindmost.tor/1");
    hm_json_number(&j, "tor", r->tor);
    hm_json_number(&j, "ettr", r->ettr);
    hm_json_number(&j, "goodput", r->goodput);
    hm_json_number(&j, "t_opt_s", r->t_opt_s);
    hm_json_number(&j, "t_obs_s", r->t_obs_s);
    hm_json_number(&j, "mttf_s", r->mttf_s);
    hm_json_number(&j, "interval_s", r->interval_s);
    hm_json_number(&j, "best_interval_s", r->best_interval_s);
    hm_json_number(&j, "young_interval_s", r->young_s);
    hm_json_number(&j, "daly_interval_s", r->daly_s);
    hm_json_array(&j, "interval90");
    hm_json_number(&j, NULL, r->t_obs_low_s);
    hm_json_number(&j, NULL, r->t_obs_high_s);
    hm_json_end_array(&j);
    hm_json_number(&j, "failures", r->failures);
    hm_json_number(&j, "wait_s", r->wait_s);
    if (simulation) {
        ledger(&j, simulation->ledger_s);
        hm_json_integer(&j, "runs", (int64_t)simulation->runs);
        hm_json_number(&j, "cycles", simulation->cycles);
    } else {
        planned_ledger(run, r, seconds);
        ledger(&j, seconds);
    }
    struct hm_tor_lever levers[HM_TOR_LEVERS];
    size_t n = hm_tor_levers(run, levers);
    hm_json_array(&j, "levers");
    for (size_t i = 0; i < n; i++) {
        hm_json_object(&j, NULL);
        hm_json_string(&j, "lever", levers[i].lever);
        hm_json_number(&j, "tor", levers[i].tor);
        hm_json_number(&j, "t_obs_s", levers[i].t_obs_s);
        hm_json_end_object(&j);
    }
    hm_json_end_array(&j);
    if (curve && curve->parameter) {
        hm_json_object(&j, "curve");
        hm_json_string(&j, "parameter", curve->parameter);
        numbers(&j, "value", curve->value, curve->n);
        numbers(&j, "tor", curve->tor, curve->n);
        numbers(&j, "t_obs_s", curve->t_obs_s, curve->n);
        hm_json_end_object(&j);
    }
    hm_json_end_object(&j);
    hm_json_finish(&j);
}

void hm_tor_measurement_write_json(const struct hm_tor_measurement *m, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 1);
    hm_json_object(&j, NULL);
    hm_json_string(&j, "schema", "hindmost.tor/1");
    hm_json_number(&j, "tor", m->tor);
    hm_json_number(&j, "ettr", m->ettr);
    hm_json_number(&j, "goodput", m->goodput);
    hm_json_number(&j, "t_opt_s", m->t_opt_s);
    hm_json_number(&j, "t_obs_s", m->t_obs_s);
    hm_json_number(&j, "mttf_s", m->mttf_s);
    hm_json_number(&j, "best_interval_s", m->best_interval_s);
    hm_json_array(&j, "interval90"); /* measured: there is no spread */
    hm_json_number(&j, NULL, m->t_obs_s);
    hm_json_number(&j, NULL, m->t_obs_s);
    hm_json_end_array(&j);
    hm_json_number(&j, "ideal_step_s", m->ideal_step_s);
    hm_json_integer(&j, "steps_run", (int64_t)m->steps_run);
    hm_json_integer(&j, "steps_kept", (int64_t)m->steps_kept);
    hm_json_integer(&j, "attempts", (int64_t)m->attempts);
    hm_json_integer(&j, "failures", (int64_t)m->failures);
    hm_json_integer(&j, "saves", (int64_t)m->saves);
    ledger(&j, m->ledger_s);
    hm_json_array(&j, "levers");
    hm_json_end_array(&j);
    hm_json_array(&j, "series");
    for (size_t i = 0; i < m->n_series; i++) {
        hm_json_object(&j, NULL);
        hm_json_number(&j, "from_s", m->series[i].from_s);
        hm_json_number(&j, "until_s", m->series[i].until_s);
        hm_json_number(&j, "r", m->series[i].r);
        hm_json_end_object(&j);
    }
    hm_json_end_array(&j);
    hm_json_array(&j, "notes");
    for (size_t i = 0; i < m->n_notes; i++) {
        hm_json_object(&j, NULL);
        hm_json_integer(&j, "count", (int64_t)m->notes[i].count);
        hm_json_string(&j, "what", m->notes[i].what);
        hm_json_end_object(&j);
    }
    hm_json_end_array(&j);
    hm_json_end_object(&j);
    hm_json_finish(&j);
}
