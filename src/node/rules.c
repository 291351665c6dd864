/* rules.c - reads SuperBench's diagnosis rules (superbench/analyzer, rule file format 0.4 and later). */
#include "node/node.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Python's \d and \w in POSIX's words; fresh memory. */
static char *pattern_of(const char *text) {
    struct hm_str s = {0};
    for (const char *c = text; *c; c++) {
        if (c[0] == '\\' && c[1] == 'd')
            hm_str_add(&s, "[0-9]"), c++;
        else if (c[0] == '\\' && c[1] == 'w')
            hm_str_add(&s, "[A-Za-z0-9_]"), c++;
        else if (c[0] == '\\' && !c[1]) /* SuperBench's documentation ends a pattern so */
            break;
        else if (strncmp(c, "(?:", 3) == 0)
            hm_str_add(&s, "("), c += 2;
        else if (c[0] == '\\' && c[1])
            hm_str_bytes(&s, c, 2), c++;
        else
            hm_str_bytes(&s, c, 1);
    }
    if (s.failed) {
        hm_str_free(&s);
        return NULL;
    }
    return s.text;
}

/* The C library's regcomp copies what is repeated, so a line of nested repetitions would take all memory. */
enum { MOST_PLUS = 8, MOST_BRACES = 2, MOST_TIMES = 100 };
static bool is_modest(const char *pattern) {
    int plus = 0, braces = 0;
    for (const char *c = pattern; *c; c++) {
        if (*c == '\\' && c[1]) {
            c++;
            continue;
        }
        plus += *c == '+';
        braces += *c == '{';
        if (*c == '{')
            for (char *end = (char *)c; *end == '{' || *end == ',';)
                if (strtol(end + 1, &end, 10) > MOST_TIMES) return false;
    }
    return plus <= MOST_PLUS && braces <= MOST_BRACES;
}

/* One more of at most `most` patterns. */
static int add_pattern(struct hm_rule *r, const char *text, size_t most, const char *path, struct hm_error *err) {
    regex_t regex;
    if (!r->patterns) r->patterns = hm_alloc(most, sizeof *r->patterns);
    if (!r->patterns) return hm_fail_memory(err);
    if (!text)
        return hm_fail(err, HM_ERR_INPUT, "%s: rule %s: metric %zu is no text", path, r->name, r->pattern_count + 1);
    char *pattern = pattern_of(text);
    if (!pattern) return hm_fail_memory(err);
    r->patterns[r->pattern_count++] = pattern;
    if (!is_modest(pattern))
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: rule %s: '%.60s' repeats too much: at most %d '+', two '{' up to 100; simplify it", path,
                       r->name, text, MOST_PLUS);
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: rule %s: '%s' is no regular expression; correct it", path, r->name,
                       text);
    regfree(&regex);
    return 0;
}

static int read_patterns(struct hm_rule *r, yaml_document_t *d, yaml_node_t *list, const char *path,
                         struct hm_error *err) {
    size_t n = 0;
    if (r->kind == HM_RULE_MULTI || r->kind == HM_RULE_SUMMARY) return 0;
    if (list && list->type == YAML_SCALAR_NODE) return add_pattern(r, hm_yaml_text(list), 1, path, err);
    if (list && list->type == YAML_SEQUENCE_NODE)
        n = (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
    if (n == 0) return hm_fail(err, HM_ERR_INPUT, "%s: rule %s: no metrics; list at least one", path, r->name);
    for (size_t i = 0; i < n; i++)
        if (add_pattern(r, hm_yaml_text(yaml_document_get_node(d, list->data.sequence.items.start[i])), n, path, err) !=
            0)
            return -1;
    return 0;
}

/* Of multi_rules only the form is checked here: which rules stand before is seen when they are applied. */
static bool any_label(void *context, const char *name, double *value, const double **values, size_t *n) {
    static const double none[1] = {0};
    (void)context, (void)name;
    *value = 0, *values = none, *n = 1;
    return true;
}

static int read_rule(struct hm_rule *r, yaml_document_t *d, yaml_node_t *key, yaml_node_t *body, const char *path,
                     struct hm_error *err) {
    static const char *const kinds[] = {"value", "variance", "multi_rules", "failure_check"};
    const char *name = hm_yaml_text(key), *kind = hm_yaml_text(hm_yaml_get(d, body, "function"));
    const char *criteria = hm_yaml_text(hm_yaml_get(d, body, "criteria"));
    const char *category = hm_yaml_text(hm_yaml_get(d, body, "categories"));
    const char *store = hm_yaml_text(hm_yaml_get(d, body, "store"));
    double unused;
    size_t k = 0;
    bool stores = store && (strcasecmp(store, "true") == 0 || strcasecmp(store, "yes") == 0);
    bool values = stores && !kind && !criteria, summary = !kind && !criteria && hm_yaml_get(d, body, "statistics");
    yaml_node_t *metrics = hm_yaml_get(d, body, "metrics");
    if (!metrics) metrics = hm_yaml_get(d, body, "metircs"); /* as an example of SuperBench's documentation has it */
    if (!name) return hm_fail(err, HM_ERR_INPUT, "%s: a rule has no name; give it one", path);
    while (kind && k < 4 && strcmp(kind, kinds[k]) != 0) k++;
    if (values || summary) k = values ? HM_RULE_STORE : HM_RULE_SUMMARY;
    if (!values && !summary && (!kind || k == 4))
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: rule %s: function is '%s'; give value, variance, multi_rules or "
                       "failure_check",
                       path, name, kind ? kind : "");
    if (!criteria && !values && !summary)
        return hm_fail(err, HM_ERR_INPUT, "%s: rule %s: no criteria; give a lambda", path, name);
    r->kind = (enum hm_rule_kind)k;
    r->store = stores;
    r->name = hm_strdup(name);
    r->criteria = hm_strdup(criteria ? criteria : "");
    r->category = hm_strdup(category ? category : name);
    if (!r->name || !r->criteria || !r->category) return hm_fail_memory(err);
    struct hm_error why = {0};
    if (r->kind <= HM_RULE_FAILURE &&
        hm_expression(criteria, 0, r->kind == HM_RULE_MULTI ? any_label : NULL, NULL, &unused, &why) != 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: rule %s: %s; correct the criteria", path, name, why.message);
    return read_patterns(r, d, metrics, path, err);
}

int hm_rules_read(struct hm_rules *rules, const char *path, struct hm_error *err) {
    yaml_document_t d;
    *rules = (struct hm_rules){0};
    if (hm_yaml_load(&d, path, err) != 0) return -1;
    int status = 0;
    yaml_node_t *list = hm_yaml_get(&d, hm_yaml_get(&d, yaml_document_get_root_node(&d), "superbench"), "rules");
    if (!list || list->type != YAML_MAPPING_NODE) {
        status = hm_fail(err, HM_ERR_INPUT, "%s: no superbench: rules: mapping; give a SuperBench rule file", path);
    } else {
        yaml_node_pair_t *first = list->data.mapping.pairs.start;
        size_t n = (size_t)(list->data.mapping.pairs.top - first);
        rules->rule = hm_alloc(n + 1, sizeof *rules->rule);
        if (!rules->rule) status = hm_fail_memory(err);
        for (size_t i = 0; status == 0 && i < n; i++) {
            rules->count = i + 1;
            status = read_rule(&rules->rule[i], &d, yaml_document_get_node(&d, first[i].key),
                               yaml_document_get_node(&d, first[i].value), path, err);
        }
    }
    yaml_document_delete(&d);
    if (status != 0) hm_rules_free(rules);
    return status;
}

void hm_rules_free(struct hm_rules *rules) {
    for (size_t i = 0; rules->rule && i < rules->count; i++) {
        struct hm_rule *r = &rules->rule[i];
        for (size_t k = 0; k < r->pattern_count; k++) hm_free(r->patterns[k]);
        hm_free(r->patterns);
        hm_free(r->name);
        hm_free(r->criteria);
        hm_free(r->category);
    }
    hm_free(rules->rule);
    *rules = (struct hm_rules){0};
}
