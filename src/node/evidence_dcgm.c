/* evidence_dcgm.c - `dcgmi diag`: its JSON in the forms of DCGM 2 to 4 (nvvs/include/NvvsJsonStrings.h), and its table for people. DCGM 4 puts a
 * failure of no single GPU into test_summary, repeated runs into iterations, and a diagnosis that broke off into runtime_error. */
#include "node/evidence.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const json_t *diagnostic(const json_t *o) {
    const json_t *d = json_object_get(o, "DCGM Diagnostic");
    return d ? d : json_object_get(o, "DCGM GPU Diagnostic");
}

bool hm_is_dcgm(const json_t *root) {
    return diagnostic(root) || json_object_get(root, "runtime_error") ||
           (json_is_array(json_object_get(root, "iterations")) &&
            (diagnostic(json_array_get(json_object_get(root, "iterations"), 0)) ||
             json_object_get(root, "Overall Result")));
}

static int add(struct hm_evidence_reading *r, bool fail, const char *test, const char *entity, const char *text,
               struct hm_error *err) {
    char detail[500];
    const char *node = hm_evidence_node(r, NULL, err);
    if (!node) return -1;
    snprintf(detail, sizeof detail, "%s%s%s: %s", test, *entity ? ", " : "", entity, text);
    struct hm_node_evidence e = {.node = node,
                                 .source = "dcgm",
                                 .kind = fail ? "dcgm-fail" : "dcgm-warn",
                                 .detail = detail,
                                 .subject = *entity ? entity : NULL,
                                 .time_s = r->now_s};
    return hm_evidence_add(r->list, &e, err);
}

/* Severity (DCGM 4.6): 2 isolate, 4 triage and 6 reset say the hardware; 1 monitor; 5 configuration accuses nobody. A FAIL of an old release
 * that names no severity counts as severe. */
static bool severe(const json_t *result) {
    size_t i;
    json_t *w;
    bool named = false;
    json_array_foreach(json_object_get(result, "warnings"), i, w) {
        const json_t *s = json_object_get(w, "error_severity");
        json_int_t v = json_integer_value(s);
        if (v == 2 || v == 4 || v == 6) return true;
        named = named || json_is_integer(s);
    }
    return !named;
}

static const char *text_of(const json_t *result) {
    const json_t *warnings = json_object_get(result, "warnings"), *first = json_array_get(warnings, 0);
    const char *text = json_string_value(first);
    if (!text) text = json_string_value(json_object_get(first, "warning"));
    if (!text) text = json_string_value(warnings);
    if (!text) text = json_string_value(json_object_get(result, "info"));
    return text ? text : "no reason given";
}

/* "GPU 3", "NvSwitch 1", "GPU 0,1"; empty where the result is of no entity. */
static void entity_of(const json_t *result, char *out, size_t size) {
    const json_t *id = json_object_get(result, "entity_id"), *gpus = json_object_get(result, "gpu_ids"), *gpu;
    const char *group = json_string_value(json_object_get(result, "entity_group"));
    size_t i;
    *out = 0;
    if (json_is_string(gpus) && *json_string_value(gpus))
        snprintf(out, size, "GPU %s", json_string_value(gpus));
    else if (json_is_integer(gpus))
        snprintf(out, size, "GPU %lld", (long long)json_integer_value(gpus));
    else if (json_is_array(gpus))
        json_array_foreach(gpus, i, gpu) {
            size_t n = strlen(out);
            snprintf(out + n, size - n, "%s%lld", i ? "," : "GPU ", (long long)json_integer_value(gpu));
        }
    else if (json_is_integer(id))
        snprintf(out, size, "%s %lld", group ? group : "GPU", (long long)json_integer_value(id));
}

enum outcome { PASSED, SKIPPED, WARNED, FAILED, STRANGE };
static enum outcome outcome_of(const char *status) {
    static const struct {
        const char *word;
        enum outcome outcome;
    } words[] = {{"PASS", PASSED},     {"PASSED", PASSED},   {"SKIP", SKIPPED},          {"SKIPPED", SKIPPED},
                 {"NOT RUN", SKIPPED}, {"NOT_RUN", SKIPPED}, {"NOTAPPLICABLE", SKIPPED}, {"WARN", WARNED},
                 {"WARNING", WARNED},  {"FAIL", FAILED},     {"FAILED", FAILED}};
    for (size_t i = 0; status && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(status, words[i].word) == 0) return words[i].outcome;
    return STRANGE;
}

struct tally {
    size_t of[STRANGE + 1];
};

/* One result, of an entity or of a whole test. */
static int take(struct hm_evidence_reading *r, struct tally *t, const char *test, const json_t *result,
                struct hm_error *err) {
    char entity[64], text[200];
    const char *status = json_string_value(json_object_get(result, "status"));
    enum outcome o = outcome_of(status);
    t->of[o]++;
    entity_of(result, entity, sizeof entity);
    if (o == FAILED || o == WARNED) return add(r, o == FAILED && severe(result), test, entity, text_of(result), err);
    if (o != STRANGE) return 0;
    snprintf(text, sizeof text, "its status '%.60s' is not known", status ? status : "");
    return add(r, false, test, entity, text, err);
}

static int take_test(struct hm_evidence_reading *r, struct tally *all, const json_t *test, struct hm_error *err) {
    const char *name = json_string_value(json_object_get(test, "name"));
    const json_t *results = json_object_get(test, "results"), *summary = json_object_get(test, "test_summary");
    struct tally t = {0};
    size_t k;
    json_t *result;
    if (json_is_null(test)) return 0; /* DCGM 3 writes such */
    if (!name) name = "a test without a name";
    json_array_foreach(results, k, result) if (take(r, &t, name, result, err) != 0) return -1;
    /* What entities failed is in the summary again; what none did is there alone. */
    if (json_is_object(summary)) {
        enum outcome o = outcome_of(json_string_value(json_object_get(summary, "status")));
        bool told = (o == FAILED && t.of[FAILED]) || (o == WARNED && t.of[FAILED] + t.of[WARNED]);
        if (!told && take(r, &t, name, summary, err) != 0) return -1;
    } else if (json_array_size(results) == 0) {
        if (json_object_get(test, "status") ? take(r, &t, name, test, err) != 0
                                            : add(r, false, name, "", "it has no result", err) != 0)
            return -1;
        if (!json_object_get(test, "status")) t.of[STRANGE]++;
    }
    for (int o = PASSED; o <= STRANGE; o++) all->of[o] += t.of[o];
    return 0;
}

static int take_diagnostic(struct hm_evidence_reading *r, struct tally *t, const json_t *d, struct hm_error *err) {
    static const char *const broke_off[] = {"runtime_error", "error", "Error"};
    const json_t *categories = json_object_get(d, "test_categories");
    size_t c, k;
    json_t *category, *test;
    for (size_t i = 0; i < 3; i++) {
        const json_t *why = json_object_get(d, broke_off[i]);
        if (!why || json_is_null(why) || (json_is_string(why) && !*json_string_value(why))) continue;
        t->of[STRANGE]++;
        if (add(r, false, "the diagnosis broke off", "", json_string_value(why) ? json_string_value(why) : broke_off[i],
                err) != 0)
            return -1;
    }
    json_array_foreach(categories, c, category)
        json_array_foreach(json_object_get(category, "tests"), k, test) if (take_test(r, t, test, err) != 0) return -1;
    return 0;
}

int hm_evidence_dcgm(struct hm_evidence_reading *r, const json_t *root, struct hm_error *err) {
    struct tally t = {0};
    const json_t *d = diagnostic(root), *iterations = json_object_get(root, "iterations");
    const char *overall = json_string_value(json_object_get(root, "Overall Result"));
    size_t i;
    json_t *one;
    if (!hm_evidence_node(r, NULL, err)) return -1;
    if (d && take_diagnostic(r, &t, d, err) != 0) return -1;
    if (take_diagnostic(r, &t, root, err) != 0) return -1; /* of a root that holds runtime_error only */
    json_array_foreach(iterations, i, one) {
        const json_t *inner = diagnostic(one);
        if (take_diagnostic(r, &t, inner ? inner : one, err) != 0) return -1;
    }
    if (t.of[FAILED] + t.of[WARNED] + t.of[STRANGE] > 0) return 0;
    if (overall && outcome_of(overall) != PASSED && outcome_of(overall) != SKIPPED)
        return add(r, false, "the overall result", "", overall, err);
    if (t.of[PASSED] == 0)
        return add(r, false, "the diagnosis", "",
                   t.of[SKIPPED] ? "every test was skipped: nothing was tested" : "it holds no test", err);
    return 0;
}

/* ---- the table ---- */

/* A row's two cells, without blanks around them. */
static bool cells(const char *line, char *left, char *right, size_t size) {
    line += strspn(line, " \t");
    const char *bar = *line == '|' ? strchr(line + 1, '|') : NULL, *end = bar ? strchr(bar + 1, '|') : NULL;
    if (!end) return false;
    const char *const from[] = {line + 1, bar + 1}, *const until[] = {bar, end};
    char *const out[] = {left, right};
    for (int i = 0; i < 2; i++) {
        const char *b = from[i] + strspn(from[i], " "), *e = until[i];
        while (e > b && e[-1] == ' ') e--;
        snprintf(out[i], size, "%.*s", e > b ? (int)(e - b) : 0, b);
    }
    return true;
}

bool hm_dcgm_table_line(struct hm_dcgm_table *t, const char *line) {
    char left[64], right[200];
    const char *first = line + strspn(line, " \t");
    if (t->open) return *first == '|' || *first == '+';
    return cells(line, left, right, sizeof left) && strcmp(left, "Diagnostic") == 0 && strcmp(right, "Result") == 0;
}

int hm_dcgm_table_row(struct hm_evidence_reading *r, struct hm_dcgm_table *t, const char *line, struct hm_error *err) {
    char left[200], right[200], word[32];
    const char *first = line + strspn(line, " \t");
    if (!t->open) { /* the header */
        r->documents++;
        r->lead = r->strange;
        *t = (struct hm_dcgm_table){.open = true};
        return 0;
    }
    if (strstr(first, "-----  ")) { /* "+-----  Hardware  ----+": a part of it */
        t->metadata = strstr(first, "Metadata") != NULL;
        return 0;
    }
    if (*first == '+') {
        if (first[1] == '-' && t->rows) t->open = false; /* the last line */
        return 0;
    }
    if (!cells(line, left, right, sizeof left)) {
        t->strange++;
        return 0;
    }
    if (*left) snprintf(t->test, sizeof t->test, "%.63s", left);
    if (t->metadata || strcmp(left, "Warning") == 0 || strcmp(left, "Info") == 0)
        return 0; /* explains the row before */
    snprintf(word, sizeof word, "%.*s", (int)strcspn(right, " -"), right);
    enum outcome o = outcome_of(word);
    t->rows++;
    if (o == PASSED || o == SKIPPED) return 0;
    if (o == STRANGE && !*left) return 0; /* the text goes on */
    const char *gpu = strstr(right, "GPU");
    char entity[64] = "";
    if (gpu && strchr(gpu, ':')) snprintf(entity, sizeof entity, "GPU%.50s", strchr(gpu, ':') + 1);
    return add(r, false, t->test, entity, o == STRANGE ? "its result is not understood" : right, err);
}

int hm_dcgm_table_end(struct hm_evidence_reading *r, const struct hm_dcgm_table *t, struct hm_error *err) {
    if (!t->open && !t->strange) return 0;
    return add(r, false, "the table", "",
               t->strange ? "some of its lines are not understood" : "it is cut: its last line is missing", err);
}
