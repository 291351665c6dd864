/* judge.c - verdicts on test results: SuperBench's rules where given, else 5 % worse than the fleet. */
#include "base/json_file.h"
#include "node/node.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

static const double TOLERANCE = 0.05; /* SuperBench's 5 % */
enum { FLEET_MIN = 3 };               /* fewer values tell nobody's normal */

struct judged {
    struct hm_judged_node view;
    char **categories, **reasons;
    size_t category_room, reason_room;
    bool failed, warned, unknown;
};

struct hm_judgement {
    struct hm_results r;
    struct hm_rules rules;
    json_t *given;    /* the baseline file; NULL: learnt */
    double *baseline; /* [nodes * metrics]; NaN: none */
    struct judged *node;
    double *violations; /* [rules] of the node at hand, for multi_rules */
    size_t rule_at, node_at;
    double *stored; /* [metrics] of a rule that stores values */
};

static int add_text(char ***list, size_t *count, size_t *room, char *text) {
    char **grown = text ? hm_grow(*list, *count, room, sizeof **list) : NULL;
    if (!grown) {
        hm_free(text);
        return -1;
    }
    *list = grown;
    grown[(*count)++] = text;
    return 0;
}

static int add_reason(struct judged *n, char *text) {
    return add_text(&n->reasons, &n->view.reason_count, &n->reason_room, text);
}

static int add_category(struct judged *n, const char *category, size_t length) {
    for (size_t i = 0; i < n->view.category_count; i++)
        if (strlen(n->categories[i]) == length && strncmp(n->categories[i], category, length) == 0) return 0;
    return add_text(&n->categories, &n->view.category_count, &n->category_room,
                    hm_sprintf("%.*s", (int)length, category));
}

/* The length of a metric's name without its ":N" of the GPU or rank. */
static size_t stem(const char *metric) {
    const char *colon = strrchr(metric, ':');
    return colon && colon[1] && colon[strspn(colon + 1, "0123456789") + 1] == 0 ? (size_t)(colon - metric)
                                                                                : strlen(metric);
}

static const char *class_of(const struct hm_results *r, size_t node) {
    const char *c = json_string_value(json_object_get(json_array_get(r->lines, node), "class"));
    return c ? c : "";
}

/* ---- baselines ---- */

static double given_baseline(const struct hm_judgement *j, size_t node, const char *metric) {
    const json_t *b = json_object_get(j->given, class_of(&j->r, node));
    if (!json_is_object(b)) b = j->given;
    char name[512];
    const json_t *v = json_object_get(b, metric);
    if (!v && stem(metric) < sizeof name) {
        memcpy(name, metric, stem(metric));
        name[stem(metric)] = 0;
        v = json_object_get(b, name);
    }
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Learns one baseline for metrics [from, to), which differ in their GPU only, and all nodes of one class. */
static int learn(struct hm_judgement *j, const size_t *metrics, size_t count, const char *class, struct hm_error *err) {
    const struct hm_results *r = &j->r;
    size_t n = 0, finite = 0, kept, room;
    double *x = hm_mul(count, r->nodes, &room) ? hm_alloc(room + 1, sizeof *x) : NULL;
    if (!x) return hm_fail_memory(err);
    for (size_t i = 0; i < r->nodes; i++)
        for (size_t k = 0; k < count && strcmp(class_of(r, i), class) == 0; k++)
            x[n++] = r->value[i * r->metrics + metrics[k]];
    for (size_t i = 0; i < n; i++) finite += isfinite(x[i]) ? 1 : 0;
    double b = hm_learn_baseline(x, n, TOLERANCE, hm_lower_is_better(r->metric[metrics[0]]), &kept);
    for (size_t i = 0; i < r->nodes; i++)
        for (size_t k = 0; k < count && strcmp(class_of(r, i), class) == 0; k++)
            j->baseline[i * r->metrics + metrics[k]] = kept >= FLEET_MIN ? b : NAN;
    hm_free(x);
    return finite > 0 && kept == 0 ? hm_fail_memory(err) : 0; /* of finite values some are always kept */
}

static bool first_of_class(const struct hm_results *r, size_t node) {
    for (size_t i = 0; i < node; i++)
        if (strcmp(class_of(r, i), class_of(r, node)) == 0) return false;
    return true;
}

static int learn_all(struct hm_judgement *j, struct hm_error *err) {
    const struct hm_results *r = &j->r;
    bool *done = hm_alloc(r->metrics + 1, sizeof *done);
    size_t *same = hm_alloc(r->metrics + 1, sizeof *same);
    int status = done && same ? 0 : hm_fail_memory(err);
    for (size_t m = 0; status == 0 && m < r->metrics; m++) {
        if (done[m]) continue;
        size_t count = 0, length = stem(r->metric[m]);
        for (size_t k = m; k < r->metrics && strncmp(r->metric[k], r->metric[m], length) == 0; k++)
            if (!done[k] && stem(r->metric[k]) == length) same[count++] = k, done[k] = true;
        for (size_t i = 0; status == 0 && i < r->nodes; i++)
            if (first_of_class(r, i)) status = learn(j, same, count, class_of(r, i), err);
    }
    hm_free(done);
    hm_free(same);
    return status;
}

static int find_baselines(struct hm_judgement *j, const char *path, struct hm_error *err) {
    const struct hm_results *r = &j->r;
    j->baseline = hm_alloc(r->nodes * r->metrics + 1, sizeof *j->baseline); /* product checked in hm_results_read */
    if (!j->baseline) return hm_fail_memory(err);
    if (!path) return learn_all(j, err);
    j->given = hm_json_load(path, "give a JSON object metric -> value", err);
    if (!j->given) return -1;
    if (!json_is_object(j->given))
        return hm_fail(err, HM_ERR_INPUT, "%s: is no JSON object; give metric -> value", path);
    for (size_t i = 0; i < r->nodes; i++)
        for (size_t m = 0; m < r->metrics; m++) j->baseline[i * r->metrics + m] = given_baseline(j, i, r->metric[m]);
    return 0;
}

/* ---- rules ---- */

/* The benchmark that a metric or a pattern names: what stands before the first "/", or ":" where that is sooner ("model-benchmarks:stress/..."). */
static size_t benchmark(const char *name) {
    size_t n = strcspn(name, "/");
    return strcspn(name, ":") < n ? strcspn(name, ":") : n;
}

/* Patterns match within the benchmark that they name, anywhere in the metric (superbench/analyzer/rule_base.py). */
static bool matches(const regex_t *regex, const char *pattern, const char *metric) {
    size_t n = benchmark(pattern);
    return n == benchmark(metric) && strncmp(pattern, metric, n) == 0 && regexec(regex, metric, 0, NULL, 0) == 0;
}

/* The values of a rule's metrics on a node, each metric once; how many. */
static size_t stored(const struct hm_judgement *j, const struct hm_rule *rule, size_t node, double *out) {
    const struct hm_results *r = &j->r;
    size_t n = 0;
    for (size_t m = 0; m < r->metrics; m++) {
        bool mine = false;
        for (size_t p = 0; p < rule->pattern_count && !mine; p++) {
            regex_t regex;
            if (regcomp(&regex, rule->patterns[p], REG_EXTENDED | REG_NOSUB) != 0) continue;
            mine = matches(&regex, rule->patterns[p], r->metric[m]);
            regfree(&regex);
        }
        if (mine) out[n++] = r->value[node * r->metrics + m];
    }
    return n;
}

/* Of a rule before the one at hand: how many of its metrics were violated, or, of one that stores values, these. */
static bool label_value(void *context, const char *name, double *value, const double **values, size_t *n) {
    const struct hm_judgement *j = context;
    for (size_t k = 0; k < j->rule_at; k++)
        if (strcmp(j->rules.rule[k].name, name) == 0) {
            *value = j->violations[k];
            *values = NULL;
            *n = 0;
            if (j->rules.rule[k].kind == HM_RULE_STORE) {
                *n = stored(j, &j->rules.rule[k], j->node_at, j->stored);
                *values = j->stored;
            }
            return true;
        }
    return false;
}

static int broken(struct judged *n, const struct hm_rule *rule, char *reason) {
    if (rule->store) {
        hm_free(reason);
        return 0;
    }
    n->failed = true;
    for (const char *c = rule->category; *c;) { /* SuperBench joins categories by commas */
        size_t length = strcspn(c, ",");
        if (length && add_category(n, c, length) != 0) {
            hm_free(reason);
            return -1;
        }
        c += length + (c[length] == ',');
    }
    return add_reason(n, reason);
}

/* One metric of a rule on one node. 1: violated, 0: not, -1: failed. */
static int check_metric(struct hm_judgement *j, size_t node, const struct hm_rule *rule, size_t m,
                        struct hm_error *err) {
    struct judged *n = &j->node[node];
    const char *metric = j->r.metric[m];
    double value = j->r.value[node * j->r.metrics + m], base = j->baseline[node * j->r.metrics + m], result;
    if (isnan(
            value)) { /* a test that failed to give its result is a failed test, whatever the rule's own category; it violates no criterion */
        const struct hm_rule missing = {.category = (char *)"FailedTest"};
        if (rule->kind == HM_RULE_FAILURE) return 0;
        return broken(n, &missing, hm_sprintf("%s_miss", metric)) == 0 ? 0 : hm_fail_memory(err);
    }
    double x = value;
    if (rule->kind == HM_RULE_VARIANCE) {
        if (isnan(base) || base == 0) {
            n->unknown = true;
            return add_reason(n, hm_sprintf("%s: no baseline", metric)) == 0 ? 0 : hm_fail_memory(err);
        }
        x = (value - base) / base;
    }
    if (hm_expression(rule->criteria, x, NULL, NULL, &result, err) != 0) return -1;
    if (result == 0) return 0;
    char *reason = rule->kind == HM_RULE_VARIANCE ? hm_sprintf("%s(B/L: %.4f VAL: %.4f VAR: %.2f%% Rule:%s)", metric,
                                                               base, value, x * 100, rule->criteria)
                                                  : hm_sprintf("%s(VAL: %.4f Rule:%s)", metric, value, rule->criteria);
    return broken(n, rule, reason) == 0 ? 1 : hm_fail_memory(err);
}

static int check_multi(struct hm_judgement *j, size_t node, const struct hm_rule *rule, struct hm_error *err) {
    double result;
    struct hm_error why = {0};
    if (hm_expression(rule->criteria, 0, label_value, j, &result, &why) != 0)
        return hm_fail(err, HM_ERR_INPUT, "rule %s: %s; correct the criteria", rule->name, why.message);
    if (isnan(result)) { /* nothing was stored that it could judge: nobody is accused, nobody is cleared */
        j->node[node].unknown = true;
        return add_reason(&j->node[node], hm_sprintf("%s: what it judges was not measured", rule->name)) == 0
                   ? 0
                   : hm_fail_memory(err);
    }
    if (result == 0) return 0;
    return broken(&j->node[node], rule, hm_sprintf("%s:%s", rule->name, rule->criteria)) == 0 ? 1 : hm_fail_memory(err);
}

/* All metrics of a rule that `pattern` finds, on all nodes; violations into counts[nodes]. */
static int check_pattern(struct hm_judgement *j, const struct hm_rule *rule, const char *pattern, double *counts,
                         bool *taken, struct hm_error *err) {
    const struct hm_results *r = &j->r;
    regex_t regex;
    int status = 0;
    size_t found = 0;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0) return hm_fail_memory(err);
    bool *has = hm_alloc(r->nodes, sizeof *has);
    if (!has) status = hm_fail_memory(err);
    for (size_t m = 0; status == 0 && m < r->metrics; m++) {
        if (!matches(&regex, pattern, r->metric[m])) continue;
        found++;
        for (size_t i = 0; i < r->nodes; i++) has[i] = has[i] || !isnan(r->value[i * r->metrics + m]);
        if (taken[m]) continue; /* two patterns of a rule may find the same metric: it counts once */
        taken[m] = true;
        for (size_t i = 0; status >= 0 && i < r->nodes; i++) {
            status = check_metric(j, i, rule, m, err);
            if (status > 0) counts[i]++;
        }
        if (status > 0) status = 0;
    }
    for (size_t i = 0; status == 0 && i < r->nodes; i++) {
        if (found && (has[i] || rule->kind != HM_RULE_FAILURE)) continue;
        if (rule->kind == HM_RULE_FAILURE) {
            counts[i]++;
            if (broken(&j->node[i], rule, hm_sprintf("%s_miss", pattern)) != 0) status = hm_fail_memory(err);
        } else { /* no node ran the test: nobody is accused, nobody is cleared */
            j->node[i].unknown = true;
            if (add_reason(&j->node[i], hm_sprintf("%s: no node has such a result", pattern)) != 0)
                status = hm_fail_memory(err);
        }
    }
    hm_free(has);
    regfree(&regex);
    return status;
}

static int apply_rules(struct hm_judgement *j, struct hm_error *err) {
    size_t nodes = j->r.nodes, rules = j->rules.count, cells;
    double *counts = hm_mul(nodes, rules + 1, &cells) ? hm_alloc(cells, sizeof *counts) : NULL;
    bool *taken = hm_alloc(j->r.metrics + 1, sizeof *taken);
    j->violations = hm_alloc(rules + 1, sizeof *j->violations);
    j->stored = hm_alloc(j->r.metrics + 1, sizeof *j->stored);
    int status = counts && taken && j->violations && j->stored ? 0 : hm_fail_memory(err);
    for (size_t k = 0; status == 0 && k < rules; k++) {
        const struct hm_rule *rule = &j->rules.rule[k];
        double *mine = counts + k * nodes;
        memset(taken, 0, j->r.metrics * sizeof *taken);
        for (size_t p = 0; status == 0 && rule->kind <= HM_RULE_FAILURE && p < rule->pattern_count; p++)
            status = check_pattern(j, rule, rule->patterns[p], mine, taken, err);
        for (size_t i = 0; status == 0 && rule->kind == HM_RULE_MULTI && i < nodes; i++) {
            j->rule_at = k;
            j->node_at = i;
            for (size_t b = 0; b < k; b++) j->violations[b] = counts[b * nodes + i];
            int hit = check_multi(j, i, rule, err);
            if (hit > 0) mine[i] = 1;
            if (hit < 0) status = -1;
        }
    }
    hm_free(counts);
    hm_free(taken);
    return status;
}

/* ---- without rules ---- */

/* Whether the repeats of a metric are distributed worse than those of the other nodes of its class. */
static int check_distribution(struct hm_judgement *j, size_t node, size_t m, struct hm_error *err) {
    const struct hm_results *r = &j->r;
    size_t n, count = 0;
    double *mine = hm_results_samples(r, node, m, &n), *others = NULL, p = NAN;
    if (!mine) return n ? hm_fail_memory(err) : 0;
    int status = 0;
    for (size_t i = 0; status == 0 && i < r->nodes; i++) {
        size_t k;
        if (i == node || strcmp(class_of(r, i), class_of(r, node)) != 0) continue;
        double *x = hm_results_samples(r, i, m, &k), *grown = x ? hm_realloc(others, count + k + 1, sizeof *x) : NULL;
        if ((x && !grown) || (!x && k)) status = hm_fail_memory(err);
        if (grown) {
            others = grown;
            memcpy(others + count, x, k * sizeof *x);
            count += k;
        }
        hm_free(x);
    }
    if (status == 0) p = hm_one_sided(mine, n, others, count, hm_lower_is_better(r->metric[m]));
    if (status == 0 && isnan(p) && n >= 4 && count >= 4) status = hm_fail_memory(err);
    /* A distribution can differ surely and yet by nothing that matters: half the tolerance is asked as well. */
    double base = j->baseline[node * r->metrics + m], value = r->value[node * r->metrics + m];
    double worse = (hm_lower_is_better(r->metric[m]) ? value - base : base - value) / fabs(base);
    if (status == 0 && p < 0.001 && worse > TOLERANCE / 2) {
        j->node[node].warned = true;
        if (add_reason(&j->node[node], hm_sprintf("%s: its repeats are distributed worse than the fleet's (p = %.2g, "
                                                  "median %.2f%% worse)",
                                                  r->metric[m], p, worse * 100)) != 0)
            status = hm_fail_memory(err);
    }
    hm_free(mine);
    hm_free(others);
    return status;
}

static int check_default(struct hm_judgement *j, size_t node, size_t m, size_t *judged, struct hm_error *err) {
    const char *metric = j->r.metric[m];
    size_t group = strcspn(metric, "/"), at = node * j->r.metrics + m;
    char category[64];
    snprintf(category, sizeof category, "%.*s", (int)(group < 60 ? group : 60), metric);
    bool code = strstr(metric, "return_code") != NULL, lower = hm_lower_is_better(metric);
    struct hm_rule rule = {.kind = code ? HM_RULE_VALUE : HM_RULE_VARIANCE,
                           .category = code ? "FailedTest" : category,
                           .criteria = code    ? "lambda x:x>0"
                                       : lower ? "lambda x:x>0.05"
                                               : "lambda x:x<-0.05"};
    if (!j->r.seen[at] && isnan(j->baseline[at])) return 0;
    if (!code && (isnan(j->baseline[at]) || j->baseline[at] == 0)) return 0;
    (*judged)++;
    int hit = check_metric(j, node, &rule, m, err);
    return hit < 0 ? -1 : hit > 0 || code ? 0 : check_distribution(j, node, m, err);
}

static int apply_defaults(struct hm_judgement *j, struct hm_error *err) {
    for (size_t i = 0; i < j->r.nodes; i++) {
        size_t judged = 0;
        for (size_t m = 0; m < j->r.metrics; m++)
            if (check_default(j, i, m, &judged, err) != 0) return -1;
        if (judged) continue;
        j->node[i].unknown = true;
        if (add_reason(&j->node[i], hm_sprintf("no baseline for any of its results: fewer than %d values of its class",
                                               FLEET_MIN)) != 0)
            return hm_fail_memory(err);
    }
    return 0;
}

struct hm_judgement *hm_judge(const struct hm_judge_options *options, struct hm_error *err) {
    struct hm_judgement *j = hm_alloc(1, sizeof *j);
    if (!j) {
        hm_fail_memory(err);
        return NULL;
    }
    if (hm_results_read(&j->r, options->results, err) != 0) goto failed;
    if (options->rules && hm_rules_read(&j->rules, options->rules, err) != 0) goto failed;
    j->node = hm_alloc(j->r.nodes, sizeof *j->node);
    if (!j->node) {
        hm_fail_memory(err);
        goto failed;
    }
    if (find_baselines(j, options->baseline, err) != 0) goto failed;
    if ((options->rules ? apply_rules(j, err) : apply_defaults(j, err)) != 0) goto failed;
    for (size_t i = 0; i < j->r.nodes; i++) {
        struct judged *n = &j->node[i];
        n->view.node = j->r.node[i];
        n->view.verdict = n->failed ? HM_FAIL : n->unknown ? HM_UNKNOWN : n->warned ? HM_WARN : HM_PASS;
        n->view.categories = (const char *const *)n->categories;
        n->view.reasons = (const char *const *)n->reasons;
    }
    return j;
failed:
    hm_judgement_free(j);
    return NULL;
}

void hm_judgement_free(struct hm_judgement *j) {
    if (!j) return;
    for (size_t i = 0; j->node && i < j->r.nodes; i++) {
        for (size_t k = 0; k < j->node[i].view.category_count; k++) hm_free(j->node[i].categories[k]);
        for (size_t k = 0; k < j->node[i].view.reason_count; k++) hm_free(j->node[i].reasons[k]);
        hm_free(j->node[i].categories);
        hm_free(j->node[i].reasons);
    }
    hm_free(j->node);
    hm_free(j->baseline);
    hm_free(j->violations);
    hm_free(j->stored);
    json_decref(j->given);
    hm_rules_free(&j->rules);
    hm_results_free(&j->r);
    hm_free(j);
}

size_t hm_judgement_count(const struct hm_judgement *j) {
    return j->r.nodes;
}

const struct hm_judged_node *hm_judgement_node(const struct hm_judgement *j, size_t i) {
    return &j->node[i].view;
}

void hm_judgement_write_json(const struct hm_judgement *j, struct hm_out *out) {
    struct hm_json w;
    hm_json_begin(&w, out, 3);
    hm_json_object(&w, NULL);
    hm_json_string(&w, "schema", "hindmost.judge/1");
    hm_json_array(&w, "nodes");
    for (size_t i = 0; i < j->r.nodes; i++) {
        const struct hm_judged_node *n = &j->node[i].view;
        hm_json_object(&w, NULL);
        hm_json_string(&w, "node", n->node);
        hm_json_string(&w, "verdict", hm_verdict_name(n->verdict));
        hm_json_array(&w, "categories");
        for (size_t k = 0; k < n->category_count; k++) hm_json_string(&w, NULL, n->categories[k]);
        hm_json_end_array(&w);
        hm_json_array(&w, "why");
        for (size_t k = 0; k < n->reason_count; k++) hm_json_string(&w, NULL, n->reasons[k]);
        hm_json_end_array(&w);
        hm_json_end_object(&w);
    }
    hm_json_end_array(&w);
    hm_json_end_object(&w);
    hm_json_finish(&w);
}

void hm_judgement_write_baseline(const struct hm_judgement *j, struct hm_out *out) {
    struct hm_json w;
    const struct hm_results *r = &j->r;
    hm_json_begin(&w, out, 8);
    hm_json_object(&w, NULL);
    for (size_t i = 0; i < r->nodes; i++) {
        if (!first_of_class(r, i)) continue;
        const char *class = class_of(r, i);
        if (*class) hm_json_object(&w, class);
        for (size_t m = 0; m < r->metrics; m++)
            if (!isnan(j->baseline[i * r->metrics + m]))
                hm_json_number(&w, r->metric[m], j->baseline[i * r->metrics + m]);
        if (*class) hm_json_end_object(&w);
    }
    hm_json_end_object(&w);
    hm_json_finish(&w);
}
