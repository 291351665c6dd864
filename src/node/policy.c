/* policy.c - which evidence moves a node where. The defaults are ByteRobust's table (SOSP 2025), Guard's three strikes,
 * and NVIDIA's Xid catalogue: codes that a program causes by itself accuse nobody. */
#include "node/node.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *kind;
    enum hm_action action;
    long count;
    double within_s;
} defaults[] = {
    {"gpu-lost", HM_ACT_DRAIN, 1, 0},      /* ByteRobust: out at once */
    {"disk-fault", HM_ACT_DRAIN, 1, 0},    /* ByteRobust: out at once */
    {"nic-down", HM_ACT_DRAIN, 2, 300},    /* ByteRobust: flaps heal; twice in 5 minutes does not */
    {"switch-down", HM_ACT_DRAIN, 2, 300}, /* as above */
    {"rdma-idle", HM_ACT_SUSPECT, 1, 0},   /* ByteRobust: no RDMA traffic for 10 minutes is a hang, not yet a node */
    {"alarm-replace", HM_ACT_DRAIN, 1, 0}, /* a monitor's tier "replace" */
    {"alarm-*", HM_ACT_SUSPECT, 1, 0},     /* any other tier */
    {"sweep-fail", HM_ACT_DRAIN, 1, 0},    /* Guard: a failed sweep is proof */
    {"sweep-warn", HM_ACT_SUSPECT, 1, 0},  /* worse, but within what may be chance */
    {"dcgm-fail", HM_ACT_DRAIN, 1, 0},     /* a diagnostic with severity isolate, triage or reset */
    {"dcgm-warn", HM_ACT_SUSPECT, 1, 0},   /* severity monitor, or unnamed */
    {"xid-79", HM_ACT_DRAIN, 1, 0},        /* the GPU has fallen off the bus */
    {"xid-48", HM_ACT_DRAIN, 1, 0},        /* double-bit ECC error */
    {"xid-64", HM_ACT_DRAIN, 1, 0},        /* row remapper failure */
    {"xid-74", HM_ACT_DRAIN, 2, 3600},     /* NVLink error: once may heal */
    {"xid-95", HM_ACT_DRAIN, 1, 0},        /* uncontained memory error */
    {"xid-119", HM_ACT_DRAIN, 1, 0},       /* GSP does not answer; with 120 the most frequent fatal one on Delta */
    {"xid-120", HM_ACT_DRAIN, 1, 0},
    {"xid-13", HM_ACT_RECORD, 1, 0}, /* graphics exception: a program's fault as a rule */
    {"xid-31", HM_ACT_RECORD, 1, 0}, /* page fault of a program */
    {"xid-43", HM_ACT_RECORD, 1, 0}, /* a program stopped */
    {"xid-45", HM_ACT_RECORD, 1, 0}, /* clean-up after another error */
    {"xid-*", HM_ACT_SUSPECT, 1, 0},
    {"condition-fail-*", HM_ACT_DRAIN, 1, 0}, /* another monitor is sure of the hardware: NVSentinel drains by these */
    {"condition-warn-*", HM_ACT_SUSPECT, 1, 0}, /* degraded, unknown, or not the hardware's */
    {"condition-note-*", HM_ACT_RECORD, 1, 0},  /* it says itself that nothing is to be done */
    {"slow-worker", HM_ACT_SUSPECT, 1, 0},      /* one job's analysis: a sweep is the proof */
    {"operator-drain", HM_ACT_DRAIN, 1, 0},
    {"operator-suspect", HM_ACT_SUSPECT, 1, 0},
};

static int append(struct hm_policy *p, size_t *room, const char *kind, enum hm_action action, long count,
                  double within_s) {
    struct hm_policy_rule *grown = hm_grow(p->rule, p->count, room, sizeof *grown);
    if (!grown) return -1;
    p->rule = grown;
    char *copy = hm_strdup(kind);
    if (!copy) return -1;
    grown[p->count++] = (struct hm_policy_rule){copy, action, count, within_s};
    return 0;
}

static int number(yaml_document_t *d, yaml_node_t *in, const char *key, double low, double high, double *value,
                  const char *path, struct hm_error *err) {
    yaml_node_t *node = hm_yaml_get(d, in, key);
    const char *text = hm_yaml_text(node);
    char *end;
    if (!node) return 0;
    double v = text ? strtod(text, &end) : NAN;
    if (!text || end == text || *end || !(v >= low && v <= high))
        return hm_fail(err, HM_ERR_INPUT, "%s: %s: '%s' is not a number from %g to %g; correct it", path, key,
                       text ? text : "a list", low, high);
    *value = v;
    return 0;
}

/* Every key is one of known[0..n) and stands once: a misspelt limit must not be passed over. */
static int check_keys(yaml_document_t *d, yaml_node_t *mapping, const char *const *known, size_t n, const char *list,
                      const char *path, struct hm_error *err) {
    bool seen[8] = {false};
    if (mapping->type != YAML_MAPPING_NODE)
        return hm_fail(err, HM_ERR_INPUT, "%s: line %zu is no mapping; see docs/node-policy.md", path,
                       mapping->start_mark.line + 1);
    for (yaml_node_pair_t *k = mapping->data.mapping.pairs.start; k < mapping->data.mapping.pairs.top; k++) {
        const char *name = hm_yaml_text(yaml_document_get_node(d, k->key));
        size_t i = 0;
        while (name && i < n && strcmp(name, known[i]) != 0) i++;
        if (!name || i == n)
            return hm_fail(err, HM_ERR_INPUT, "%s: unknown key '%s'; known are %s", path, name ? name : "", list);
        if (seen[i]) return hm_fail(err, HM_ERR_INPUT, "%s: key '%s' stands twice; keep one", path, name);
        seen[i] = true;
    }
    return 0;
}

/* "5%", "100%": a share of the fleet; below 1 without a sign: a share, too; else a whole number of nodes. */
static int read_cap(struct hm_policy *p, yaml_document_t *d, yaml_node_t *root, const char *path,
                    struct hm_error *err) {
    yaml_node_t *node = hm_yaml_get(d, root, "cap");
    const char *text = hm_yaml_text(node);
    char *end;
    if (!node) return 0;
    double v = text ? strtod(text, &end) : NAN;
    bool number = text && end > text, percent = number && strcmp(end + strspn(end, " "), "%") == 0;
    if (number && (percent || !*end) && v >= 0 && (percent ? v <= 100 : v < 1 || (v <= 1e6 && v == floor(v)))) {
        p->cap_is_share = percent || (v > 0 && v < 1);
        p->cap = percent ? v / 100 : v;
        return 0;
    }
    return hm_fail(err, HM_ERR_INPUT,
                   "%s: cap: '%s' is neither a share (5%%, up to 100%%) nor a whole number of nodes; correct it", path,
                   text ? text : "a list");
}

static int read_rule(struct hm_policy *p, size_t *room, yaml_document_t *d, yaml_node_t *rule, const char *path,
                     struct hm_error *err) {
    static const char *const names[] = {"record", "suspect", "drain"};
    static const char *const known[] = {"evidence", "action", "count", "within_s"};
    if (check_keys(d, rule, known, 4, "evidence, action, count, within_s", path, err) != 0) return -1;
    const char *kind = hm_yaml_text(hm_yaml_get(d, rule, "evidence"));
    const char *action = hm_yaml_text(hm_yaml_get(d, rule, "action"));
    double count = 1, within = 0;
    size_t a = 0;
    while (action && a < 3 && strcmp(action, names[a]) != 0) a++;
    if (!kind || !action || a == 3)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: a rule needs evidence: KIND and action: record, suspect or drain "
                       "(evidence %s, action %s)",
                       path, kind ? kind : "-", action ? action : "-");
    if (number(d, rule, "count", 1, 1e6, &count, path, err) != 0 ||
        number(d, rule, "within_s", 0, 1e9, &within, path, err) != 0)
        return -1;
    return append(p, room, kind, (enum hm_action)a, (long)count, within) == 0 ? 0 : hm_fail_memory(err);
}

static int read_file(struct hm_policy *p, size_t *room, const char *path, struct hm_error *err) {
    static const char *const known[] = {"cap", "strikes", "strike_days", "rules"};
    yaml_document_t d;
    if (hm_yaml_load(&d, path, err) != 0) return -1;
    yaml_node_t *root = yaml_document_get_root_node(&d), *rules = hm_yaml_get(&d, root, "rules");
    double strikes = (double)p->strikes, days = p->strike_window_s / 86400;
    int status = check_keys(&d, root, known, 4, "cap, strikes, strike_days, rules", path, err);
    if (status == 0) status = read_cap(p, &d, root, path, err);
    if (status == 0) status = number(&d, root, "strikes", 1, 1000, &strikes, path, err);
    if (status == 0) status = number(&d, root, "strike_days", 0, 3650, &days, path, err);
    if (status == 0 && rules && rules->type != YAML_SEQUENCE_NODE)
        status = hm_fail(err, HM_ERR_INPUT, "%s: rules is no list; see docs/node-policy.md", path);
    for (yaml_node_item_t *i = rules && status == 0 ? rules->data.sequence.items.start : NULL;
         i && status == 0 && i < rules->data.sequence.items.top; i++)
        status = read_rule(p, room, &d, yaml_document_get_node(&d, *i), path, err);
    p->strikes = (long)strikes;
    p->strike_window_s = days * 86400;
    yaml_document_delete(&d);
    return status;
}

/* A file's rules stand before the defaults: it says only what differs. */
int hm_policy_read(struct hm_policy *p, const char *path, struct hm_error *err) {
    size_t room = 0;
    *p = (struct hm_policy){.cap = 0.05, .cap_is_share = true, .strikes = 3, .strike_window_s = 7 * 86400.0};
    int status = path ? read_file(p, &room, path, err) : 0;
    for (size_t i = 0; status == 0 && i < sizeof defaults / sizeof *defaults; i++)
        if (append(p, &room, defaults[i].kind, defaults[i].action, defaults[i].count, defaults[i].within_s) != 0)
            status = hm_fail_memory(err);
    if (status != 0) hm_policy_free(p);
    return status;
}

void hm_policy_free(struct hm_policy *p) {
    for (size_t i = 0; i < p->count; i++) hm_free(p->rule[i].kind);
    hm_free(p->rule);
    *p = (struct hm_policy){0};
}

const struct hm_policy_rule *hm_policy_rule(const struct hm_policy *p, const char *kind) {
    for (size_t i = 0; i < p->count; i++)
        if (fnmatch(p->rule[i].kind, kind, 0) == 0) return &p->rule[i];
    return NULL;
}

/* A share leaves room for one node even in a small fleet; a cap of 0 lets none go. */
long hm_policy_cap(const struct hm_policy *p, long nodes) {
    if (!p->cap_is_share || p->cap == 0) return (long)p->cap;
    long share = (long)floor(p->cap * (double)nodes + 1e-9);
    return share > 0 ? share : 1;
}
