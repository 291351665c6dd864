/* tor.c - `hindmost tor measure|plan|simulate`: the Training Overhead Ratio of a run, of a plan, by Monte Carlo. */
#include "cli.h"
#include "hindmost/tor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char tor_help[] =
    "usage: hindmost tor measure LOG... [options]\n"
    "       hindmost tor plan --work T [options]\n"
    "       hindmost tor simulate --work T [options]\n\n"
    "Training Overhead Ratio: the time an ideal run would need over the time really taken.\n\n"
    "measure: from an event log (JSON lines), a Megatron-LM log with time stamps, sacct --parsable2; several files are "
    "one run\n"
    "      --analysis FILE.json  S of 'hindmost analyze --json': splits stragglers from progress\n"
    "      --slowdown S          the same, by hand\n"
    "      --ideal-step T        ideal step time (default: mean of the usual steps)\n"
    "      --zone [FILE=]NAME    time zone of times that say none (default UTC), such as Europe/Berlin or +02:00; of "
    "one\n"
    "                            log, or of all. Repeatable\n\n"
    "plan, simulate: values need units (30s, 5min, 12h, 2d; 6.5e-3/day); A..B gives a curve\n"
    "      --work T              what the run would take without any loss\n"
    "      --nodes N --failure-rate R/day    failures a node; or --faults FILE [--fault-nodes N] for rate and repair\n"
    "      --save T --interval T|best --async\n"
    "      --detect T --restart T --repair T --spares N\n"
    "      --slowdown S          stragglers while running\n"
    "      --slow-rate R/day --slow-factor F --slow-detect T    fail-slow nodes\n"
    "simulate: --runs N --seed N --distribution exponential|weibull:SHAPE|empirical -j, --threads N\n\n"
    "      --json FILE  --html FILE  --check FLOOR (exit 1 below the floor, 2 if more than a tenth below)\n";

enum {
    O_WORK = 1,
    O_NODES,
    O_RATE,
    O_FAULTS,
    O_FAULT_NODES,
    O_SAVE,
    O_INTERVAL,
    O_ASYNC,
    O_DETECT,
    O_RESTART,
    O_REPAIR,
    O_SPARES,
    O_SLOWDOWN,
    O_SLOW_RATE,
    O_SLOW_FACTOR,
    O_SLOW_DETECT,
    O_RUNS,
    O_SEED,
    O_DISTRIBUTION,
    O_THREADS,
    O_JSON,
    O_HTML,
    O_CHECK,
    O_ANALYSIS,
    O_IDEAL,
    O_ZONE,
    OPTIONS
};

static const struct option_spec specs[] = {{"work", 0, true, O_WORK},
                                           {"nodes", 0, true, O_NODES},
                                           {"failure-rate", 0, true, O_RATE},
                                           {"faults", 0, true, O_FAULTS},
                                           {"fault-nodes", 0, true, O_FAULT_NODES},
                                           {"save", 0, true, O_SAVE},
                                           {"interval", 0, true, O_INTERVAL},
                                           {"async", 0, false, O_ASYNC},
                                           {"detect", 0, true, O_DETECT},
                                           {"restart", 0, true, O_RESTART},
                                           {"repair", 0, true, O_REPAIR},
                                           {"spares", 0, true, O_SPARES},
                                           {"slowdown", 0, true, O_SLOWDOWN},
                                           {"slow-rate", 0, true, O_SLOW_RATE},
                                           {"slow-factor", 0, true, O_SLOW_FACTOR},
                                           {"slow-detect", 0, true, O_SLOW_DETECT},
                                           {"runs", 0, true, O_RUNS},
                                           {"seed", 0, true, O_SEED},
                                           {"distribution", 0, true, O_DISTRIBUTION},
                                           {"threads", 'j', true, O_THREADS},
                                           {"json", 0, WRITES, O_JSON},
                                           {"html", 0, WRITES, O_HTML},
                                           {"check", 0, true, O_CHECK},
                                           {"analysis", 0, true, O_ANALYSIS},
                                           {"ideal-step", 0, true, O_IDEAL},
                                           {"zone", 0, true, O_ZONE},
                                           {NULL, 0, false, 0}};

/* By their first letters: measure, plan, simulate. What one would pass over is refused there. */
static const char *const used_by[OPTIONS] = {
    [O_WORK] = "ps",        [O_NODES] = "ps",    [O_RATE] = "ps",      [O_FAULTS] = "ps",      [O_FAULT_NODES] = "ps",
    [O_SAVE] = "ps",        [O_INTERVAL] = "ps", [O_ASYNC] = "ps",     [O_DETECT] = "ps",      [O_RESTART] = "ps",
    [O_REPAIR] = "ps",      [O_SPARES] = "ps",   [O_SLOWDOWN] = "mps", [O_SLOW_RATE] = "ps",   [O_SLOW_FACTOR] = "ps",
    [O_SLOW_DETECT] = "ps", [O_RUNS] = "s",      [O_SEED] = "s",       [O_DISTRIBUTION] = "s", [O_THREADS] = "s",
    [O_JSON] = "mps",       [O_HTML] = "mps",    [O_CHECK] = "mps",    [O_ANALYSIS] = "mps",   [O_IDEAL] = "m",
    [O_ZONE] = "m"};

enum { CURVE_POINTS = 17, MOST_ZONES = 64 };

struct request {
    struct hm_tor_run run;
    struct hm_faults *faults;
    const char *faults_path, *json, *html, *curve; /* curve: the parameter given as a range */
    double *curved, low, high;                     /* the field it sets, and its ends */
    bool has_rate, has_repair;
    double floor, slowdown, ideal_step, fault_nodes;
    long runs, seed, threads;
    bool given[OPTIONS];
    const char *zone[MOST_ZONES];
    size_t zones;
};

static int report_error(const struct hm_error *err) {
    complain(err);
    return -1;
}

/* One value, or A..B for a curve. unit: 't' time, 'r' rate, 'n' plain number. */
static int parse_one(const char *text, const char *what, char unit, double *value) {
    struct hm_error err = {0};
    if (unit == 't') return hm_tor_parse_time(text, what, value, &err) == 0 ? 0 : report_error(&err);
    if (unit == 'r') return hm_tor_parse_rate(text, what, value, &err) == 0 ? 0 : report_error(&err);
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !isfinite(*value) || *value < 0) {
        complain_text("%s %s: give a number that is not negative", what, text);
        return -1;
    }
    return 0;
}

static int parse_value(struct request *q, const char *text, const char *what, char unit, double *field) {
    const char *dots = strstr(text, "..");
    if (!dots) return parse_one(text, what, unit, field);
    if (q->curve) {
        complain_text("%s %s: only one parameter may be a range, and %s is one already", what, text, q->curve);
        return -1;
    }
    char low[64];
    if (dots - text >= (long)sizeof low) return complain_text("%s %s: too long", what, text), -1;
    memcpy(low, text, (size_t)(dots - text));
    low[dots - text] = 0;
    if (parse_one(low, what, unit, &q->low) != 0 || parse_one(dots + 2, what, unit, &q->high) != 0) return -1;
    if (!(q->high > q->low)) return complain_text("%s %s: a range ascends", what, text), -1;
    q->curve = what;
    q->curved = field;
    *field = q->low > 0 ? sqrt(q->low * q->high) : 0.5 * (q->low + q->high);
    return 0;
}

static int parse_distribution(struct request *q, const char *text) {
    if (strcmp(text, "exponential") == 0) return 0;
    if (strncmp(text, "weibull:", 8) == 0) {
        q->run.distribution = HM_TOR_WEIBULL;
        return parse_one(text + 8, "--distribution weibull", 'n', &q->run.weibull_shape);
    }
    if (strcmp(text, "empirical") == 0) {
        q->run.distribution = HM_TOR_EMPIRICAL;
        return 0;
    }
    complain_text("--distribution %s: give exponential, weibull:SHAPE or empirical", text);
    return -1;
}

static int take_option(struct request *q, int id, const struct options *o) {
    struct hm_tor_run *r = &q->run;
    const char *v = o->value;
    q->given[id] = true;
    switch (id) {
    case O_WORK:
        return parse_value(q, v, "--work", 't', &r->work_s);
    case O_NODES:
        return parse_value(q, v, "--nodes", 'n', &r->nodes);
    case O_RATE:
        q->has_rate = true;
        return parse_value(q, v, "--failure-rate", 'r', &r->failure_rate);
    case O_FAULTS:
        q->faults_path = v;
        return 0;
    case O_FAULT_NODES:
        return parse_one(v, "--fault-nodes", 'n', &q->fault_nodes);
    case O_SAVE:
        return parse_value(q, v, "--save", 't', &r->save_s);
    case O_INTERVAL:
        if (strcmp(v, "best") == 0) return r->interval_s = 0, 0;
        if (parse_value(q, v, "--interval", 't', &r->interval_s) != 0) return -1;
        return r->interval_s > 0 ? 0 : (complain_text("--interval %s: give a time above 0, or best", v), -1);
    case O_ASYNC:
        r->async_save = true;
        return 0;
    case O_DETECT:
        return parse_value(q, v, "--detect", 't', &r->detect_s);
    case O_RESTART:
        return parse_value(q, v, "--restart", 't', &r->restart_s);
    case O_REPAIR:
        q->has_repair = true;
        return parse_value(q, v, "--repair", 't', &r->repair_s);
    case O_SPARES:
        return parse_value(q, v, "--spares", 'n', &r->spares);
    case O_SLOWDOWN:
        return parse_value(q, v, "--slowdown", 'n', &r->slowdown) != 0 ? -1 : (q->slowdown = r->slowdown, 0);
    case O_SLOW_RATE:
        return parse_value(q, v, "--slow-rate", 'r', &r->slow_rate);
    case O_SLOW_FACTOR:
        return parse_value(q, v, "--slow-factor", 'n', &r->slow_factor);
    case O_SLOW_DETECT:
        return parse_value(q, v, "--slow-detect", 't', &r->slow_detect_s);
    case O_RUNS:
        return option_integer(o, "--runs", 1, 10000000, &q->runs) ? 0 : -1;
    case O_SEED:
        return option_integer(o, "--seed", 0, 2000000000, &q->seed) ? 0 : -1;
    case O_DISTRIBUTION:
        return parse_distribution(q, v);
    case O_THREADS:
        return option_integer(o, "--threads", 1, 256, &q->threads) ? 0 : -1;
    case O_JSON:
        q->json = v;
        return 0;
    case O_HTML:
        q->html = v;
        return 0;
    case O_CHECK:
        return option_number(o, "--check", 0, 1, &q->floor) ? 0 : -1;
    case O_ANALYSIS: {
        struct hm_error err = {0};
        if (hm_tor_slowdown_of(v, &q->slowdown, &err) != 0) return report_error(&err);
        r->slowdown = q->slowdown;
        return 0;
    }
    case O_IDEAL:
        return parse_one(v, "--ideal-step", 't', &q->ideal_step);
    case O_ZONE:
        if (q->zones == MOST_ZONES) return complain_text("--zone: at most %d", MOST_ZONES), -1;
        q->zone[q->zones++] = v;
        return 0;
    default:
        return -1;
    }
}

/* ---- text ---- */

static const char *span(double s, char text[32]) {
    if (!isfinite(s)) return isnan(s) ? "unknown" : "never";
    if (s < 120)
        (void)snprintf(text, 32, "%.3g s", s);
    else if (s < 7200)
        (void)snprintf(text, 32, "%.1f min", s / 60);
    else if (s < 172800)
        (void)snprintf(text, 32, "%.2f h", s / 3600);
    else
        (void)snprintf(text, 32, "%.2f d", s / 86400);
    return text;
}

static void print_ledger(const double *seconds, double total) {
    char text[32];
    (void)print_text("\nWhere the time goes\n");
    for (int c = 0; c < HM_TOR_CLASSES; c++) {
        if (!(seconds[c] > 0)) continue;
        double share = seconds[c] / total;
        printf("  %-18s %10s  %6.2f %%  %.*s\n", hm_tor_class_name((enum hm_tor_class)c), span(seconds[c], text),
               100 * share, (int)(share * 40 + 0.5), "########################################");
    }
}

static void print_plan(const struct request *q, const struct hm_tor_result *r) {
    char a[32], b[32], c[32];
    printf("TOR %.4f: %s of ideal work take %s\n", r->tor, span(r->t_opt_s, a), span(r->t_obs_s, b));
    printf("  90 %% interval     %s to %s\n", span(r->t_obs_low_s, a), span(r->t_obs_high_s, b));
    printf("  ETTR, goodput     %.4f, %.4f\n", r->ettr, r->goodput);
    printf("  MTTF of the job   %s; %.1f failures expected\n", span(r->mttf_s, a), r->failures);
    printf("  interval          %s; best %s, Young %s, ", span(r->interval_s, a), span(r->best_interval_s, b),
           span(r->young_s, c));
    printf("Daly %s\n", span(r->daly_s, a));
    if (q->run.repair_s > 0) printf("  wait for a node   %s at a failure\n", span(r->wait_s, a));
}

static void print_levers(const struct request *q, const struct hm_tor_result *base) {
    struct hm_tor_lever levers[HM_TOR_LEVERS];
    size_t n = hm_tor_levers(&q->run, levers);
    char text[32];
    if (n) (void)print_text("\nWhat would help, each alone\n");
    for (size_t i = 0; i < n; i++)
        printf("  %-32s TOR %.4f  (+%.4f)  %s\n", levers[i].lever, levers[i].tor, levers[i].tor - base->tor,
               span(levers[i].t_obs_s, text));
}

static int write_json(const char *path, const struct request *q, const struct hm_tor_result *r,
                      const struct hm_tor_simulation *s, const struct hm_tor_curve *curve,
                      const struct hm_tor_measurement *m) {
    struct hm_error err = {0};
    struct hm_out *out = hm_out_open(path, &err);
    if (!out) return complain(&err);
    if (m)
        hm_tor_measurement_write_json(m, out);
    else
        hm_tor_plan_write_json(&q->run, r, s, curve, out);
    return hm_out_commit(out, &err) == 0 ? EXIT_DONE : complain(&err);
}

static int judge(const struct request *q, double tor) {
    if (!(q->floor > 0)) return EXIT_DONE;
    if (isnan(tor))
        return complain_text("--check: the TOR cannot be told from these logs: they hold no training steps");
    return tor >= q->floor ? EXIT_DONE : tor >= 0.9 * q->floor ? EXIT_WARN : EXIT_CRITICAL;
}

/* ---- the three ---- */

static int measure(struct request *q, const char *const *paths, int n) {
    if (n < 1) return complain_text("tor measure needs at least one log; see 'hindmost help tor'");
    struct hm_error err = {0};
    struct hm_tor_measure_options o = {
        .slowdown = q->slowdown, .ideal_step_s = q->ideal_step, .n_zones = q->zones, .zones = q->zone};
    struct hm_tor_measurement *m = hm_tor_measure(paths, (size_t)n, &o, &err);
    if (!m) return complain(&err);
    int status = q->json ? write_json(q->json, q, NULL, NULL, NULL, m) : EXIT_DONE;
    if (status == EXIT_DONE && q->html && hm_tor_measurement_html(m, q->html, &err) != 0) status = complain(&err);
    if (status == EXIT_DONE && !(q->json && strcmp(q->json, "-") == 0)) {
        char a[32], b[32];
        if (isnan(m->tor))
            printf("TOR unknown: no training steps in the logs; %s of wall time\n", span(m->t_obs_s, a));
        else
            printf("TOR %.4f: %s of ideal work in %s\n", m->tor, span(m->t_opt_s, a), span(m->t_obs_s, b));
        if (!isnan(m->ettr)) printf("  ETTR, goodput     %.4f, %.4f\n", m->ettr, m->goodput);
        printf("  steps             %zu run, %zu kept, ideal %s; %zu attempts, %zu failures, %zu saves\n", m->steps_run,
               m->steps_kept, span(m->ideal_step_s, a), m->attempts, m->failures, m->saves);
        printf("  MTTF of the job   %s; best interval %s\n", span(m->mttf_s, a), span(m->best_interval_s, b));
        print_ledger(m->ledger_s, m->t_obs_s);
        if (m->n_notes) (void)print_text("\nHow the logs were taken\n");
        for (size_t i = 0; i < m->n_notes; i++) printf("  %zu %s\n", m->notes[i].count, m->notes[i].what);
    }
    if (status == EXIT_DONE) status = judge(q, m->tor);
    hm_tor_measurement_free(m);
    return status;
}

static int make_curve(struct request *q, struct hm_tor_curve *curve, double *value, double *tor, double *t_obs) {
    double middle = *q->curved;
    *curve = (struct hm_tor_curve){.parameter = q->curve + 2, .value = value, .tor = tor, .t_obs_s = t_obs};
    for (int k = 0; k < CURVE_POINTS; k++) {
        double x = (double)k / (CURVE_POINTS - 1);
        *q->curved = q->low > 0 ? q->low * pow(q->high / q->low, x) : q->low + (q->high - q->low) * x;
        struct hm_tor_result r;
        struct hm_error err = {0};
        if (hm_tor_plan(&q->run, &r, &err) != 0) return complain(&err);
        value[curve->n] = *q->curved, tor[curve->n] = r.tor, t_obs[curve->n++] = r.t_obs_s;
    }
    *q->curved = middle;
    return EXIT_DONE;
}

/* A fault file names nodes that failed. Were they the whole fleet, faults at random would leave some without: nodes x e^-(faults a node). */
static void warn_of_fleet(const struct request *q) {
    double nodes = (double)q->faults->nodes, each = (double)q->faults->faults / nodes;
    if (q->given[O_FAULT_NODES] || nodes * exp(-each) < 0.05) return;
    fprintf(
        stderr,
        "hindmost: %s: every one of its %.0f nodes has failed, so the fleet is larger and the failure rate of a node "
        "lower; give --fault-nodes N, the nodes of the whole fleet\n",
        q->faults_path, nodes);
}

static int plan(struct request *q, bool simulate) {
    struct hm_error err = {0};
    if (q->faults_path) {
        q->faults = hm_faults_read(q->faults_path, (size_t)q->fault_nodes, &err);
        if (!q->faults) return complain(&err);
        q->run.faults = q->faults;
        warn_of_fleet(q);
        if (!q->has_rate) q->run.failure_rate = q->faults->rate_per_node_s;
        if (!q->has_repair) q->run.repair_s = q->faults->n_repairs ? q->faults->mean_repair_s : 0;
    }
    struct hm_tor_result r;
    struct hm_tor_simulation s;
    struct hm_tor_curve curve = {0};
    double value[CURVE_POINTS], tor[CURVE_POINTS], t_obs[CURVE_POINTS];
    if (hm_tor_plan(&q->run, &r, &err) != 0) return complain(&err);
    if (q->curve && make_curve(q, &curve, value, tor, t_obs) != EXIT_DONE) return EXIT_UNUSABLE;
    if (simulate && hm_tor_simulate(&q->run, (size_t)q->runs, (uint64_t)q->seed, (int)q->threads, &s, &err) != 0)
        return complain(&err);
    int status = q->json ? write_json(q->json, q, &r, simulate ? &s : NULL, &curve, NULL) : EXIT_DONE;
    if (status == EXIT_DONE && q->html && hm_tor_plan_html(&q->run, &r, q->html, &err) != 0) status = complain(&err);
    if (status == EXIT_DONE && !(q->json && strcmp(q->json, "-") == 0)) {
        char a[32];
        if (q->faults)
            printf("faults: %zu on %zu nodes in %s, %.2f a 1,000 node-days; repair median %.2f d, mean %.2f d\n",
                   q->faults->faults, q->faults->nodes, span(q->faults->span_s, a),
                   q->faults->rate_per_node_s * 86400 * 1000, q->faults->median_repair_s / 86400,
                   q->faults->mean_repair_s / 86400);
        print_plan(q, simulate ? &s.result : &r);
        if (simulate) {
            printf("  simulated         %zu runs, %.0f failures; closed form: TOR %.4f\n", s.runs, s.cycles, r.tor);
            print_ledger(s.ledger_s, s.result.t_obs_s);
        }
        for (size_t i = 0; i < curve.n; i++) {
            if (i == 0) printf("\n%16s  %8s  %12s\n", curve.parameter, "TOR", "wall time");
            printf("%16.6g  %8.4f  %12s\n", value[i], tor[i], span(t_obs[i], a));
        }
        print_levers(q, &r);
    }
    return status == EXIT_DONE ? judge(q, simulate ? s.result.tor : r.tor) : status;
}

int tor_main(int argc, char **argv) {
    struct request q = {.run = {.nodes = 1}, .runs = 1000, .seed = 1};
    struct options o;
    options_begin(&o, command_named("tor"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        if (id == OPTION_BAD) return EXIT_UNUSABLE;
        if (id == OPTION_HELP) return EXIT_DONE;
        if (take_option(&q, id, &o) != 0) return EXIT_UNUSABLE;
    }
    const char *what = o.inputs > 0 ? argv[1] : "";
    int status;
    bool known = strcmp(what, "measure") == 0 || strcmp(what, "plan") == 0 || strcmp(what, "simulate") == 0;
    for (const struct option_spec *s = specs; known && s->name; s++)
        if (q.given[s->id] && !strchr(used_by[s->id], *what))
            return complain_text("--%s: tor %s has no use for it; see 'hindmost help tor'", s->name, what);
    if (q.given[O_FAULT_NODES] && !q.faults_path)
        return complain_text("--fault-nodes: the size of the fleet that --faults FILE is of; give that too");
    if (strcmp(what, "measure") == 0)
        status = measure(&q, (const char *const *)(argv + 2), o.inputs - 1);
    else if ((strcmp(what, "plan") == 0 || strcmp(what, "simulate") == 0) && o.inputs == 1)
        status = plan(&q, what[0] == 's');
    else
        status = complain_text("tor %s: give measure LOG..., plan or simulate; see 'hindmost help tor'", what);
    hm_faults_free(q.faults);
    return status;
}
