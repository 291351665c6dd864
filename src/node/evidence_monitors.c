/* evidence_monitors.c - what other monitors say: conditions of Kubernetes nodes as node-problem-detector and NVSentinel set them, NVSentinel's
 * health events, gpud's states. They become condition-fail-TYPE, condition-warn-TYPE or condition-note-TYPE: the hardware, to be watched, to
 * be known; policy goes by these. */
#include "node/evidence.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum tier { NOTE, WARN, FAIL };
static const char *const tiers[] = {"note", "warn", "fail"};

/* ---- what they recommend ---- */

enum action { UNSAID, NOTHING, PROGRAM, REPAIR };

/* NVSentinel, gpud, DCGM and AWS have a word each for the same four things (nothing; look at the program; reset, reboot, replace, inspect). */
static enum action action_named(const char *text) {
    static const struct {
        const char *word;
        enum action action;
    } words[] = {{"IGNORE", NOTHING},   {"NO_ACTION", NOTHING}, {"NONE", NOTHING},  {"CHECK_USER", PROGRAM},
                 {"REBOOT", REPAIR},    {"RESTART", REPAIR},    {"RESET", REPAIR},  {"REPLACE", REPAIR},
                 {"INSPECT", REPAIR},   {"ISOLATE", REPAIR},    {"TRIAGE", REPAIR}, {"CONTACT_SUPPORT", REPAIR},
                 {"FIELDDIAG", REPAIR}, {"RUN_DCGMEUD", REPAIR}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(text, words[i].word)) return words[i].action;
    return UNSAID;
}

/* Any text in a value: a string, a list, an object of lists. A repair among them counts most. */
static enum action action_of(const json_t *v) {
    enum action most = UNSAID, one;
    size_t i;
    const char *key;
    json_t *e;
    if (json_is_string(v)) return action_named(json_string_value(v));
    if (json_is_integer(v)) return json_integer_value(v) == 0 ? NOTHING : REPAIR; /* NVSentinel's enum: 0 is NONE */
    json_array_foreach(v, i, e) most = (one = action_of(e)) > most ? one : most;
    json_object_foreach((json_t *)v, key, e) if (strcmp(key, "description") != 0) most =
        (one = action_of(e)) > most ? one : most;
    return most;
}

static enum tier with_action(enum tier tier, enum action action) {
    if (action == NOTHING) return NOTE;
    if (action == PROGRAM) return tier < WARN ? tier : WARN;
    return action == REPAIR && tier == WARN ? FAIL : tier;
}

/* ---- one finding ---- */

/* A type's letters and digits are the kind's; anything else becomes "-". */
static int add(struct hm_evidence_reading *r, const char *host, const char *source, enum tier tier, const char *type,
               const char *subject, const char *text, double time_s, struct hm_error *err) {
    char kind[128], detail[500];
    const char *node = hm_evidence_node(r, host, err);
    if (!node) return -1;
    size_t n = (size_t)snprintf(kind, sizeof kind, "condition-%s-%.80s", tiers[tier], type);
    for (size_t i = 0; i < n && kind[i]; i++)
        if (!isalnum((unsigned char)kind[i]) && kind[i] != '-' && kind[i] != '_' && kind[i] != '.') kind[i] = '-';
    snprintf(detail, sizeof detail, "%s: %s", type, text && *text ? text : "no reason given");
    struct hm_node_evidence e = {.node = node,
                                 .source = source,
                                 .kind = kind,
                                 .detail = detail,
                                 .subject = subject,
                                 .time_s = isnan(time_s) ? r->now_s : time_s,
                                 .dated = !isnan(time_s)};
    return hm_evidence_add(r->list, &e, err);
}

static double time_at(const struct hm_evidence_reading *r, const json_t *o, const char *const *keys) {
    struct hm_stamp s;
    double utc[2];
    int answers;
    for (; *keys; keys++) {
        const char *text = json_string_value(json_object_get(o, *keys));
        if (text && hm_stamp_read(text, &s) && (s.kind == HM_STAMP_ABSOLUTE || s.kind == HM_STAMP_CIVIL) &&
            hm_zone_stamp(r->zone, &s, utc, &answers))
            return utc[0];
    }
    return NAN;
}

/* ---- conditions ---- */

/* What a condition that holds says of the hardware. The first that fits. */
static const struct {
    const char *type;
    enum tier tier;
} severities[] = {{"ReadonlyFilesystem", FAIL},
                  {"KernelDeadlock", FAIL},
                  {"XfsShutdown", FAIL},
                  {"CperHardwareErrorFatal", FAIL},
                  {"*pressure", NOTE},
                  {"*gpu*", FAIL},
                  {"*nvlink*", FAIL},
                  {"*nvswitch*", FAIL},
                  {"*xid*", FAIL},
                  {"*sxid*", FAIL},
                  {"*ecc*", FAIL},
                  {"*infiniband*", FAIL},
                  {"*hardware*", FAIL},
                  {"*", WARN}};

static enum tier severity_of(const char *type) {
    size_t i = 0;
    while (fnmatch(severities[i].type, type, FNM_CASEFOLD) != 0) i++;
    return severities[i].tier;
}

/* Of most, True is the fault (node-problem-detector); of those that name what is well, False is. */
static bool is_good(const char *type) {
    static const char *const good[] = {"*Ready", "*Healthy", "*Available", "*Passed", "*Succeeded", "*Ok"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (fnmatch(good[i], type, FNM_CASEFOLD) == 0) return strcasecmp(type, "NetworkUnavailable") != 0;
    return false;
}

static bool is_condition(const json_t *o) {
    return json_is_string(json_object_get(o, "type")) &&
           (json_is_string(json_object_get(o, "status")) || json_is_boolean(json_object_get(o, "status")));
}

static int condition(struct hm_evidence_reading *r, const char *host, const json_t *c, struct hm_error *err) {
    static const char *const times[] = {"lastTransitionTime", "transition", "lastHeartbeatTime", NULL};
    const char *type = json_string_value(json_object_get(c, "type"));
    const char *status = json_string_value(json_object_get(c, "status"));
    const char *message = json_string_value(json_object_get(c, "message"));
    const char *reason = json_string_value(json_object_get(c, "reason"));
    char text[400];
    if (!is_condition(c))
        return hm_fail(err, HM_ERR_INPUT, "%s: a condition without type and status; give both", r->path);
    if (!status) status = json_is_true(json_object_get(c, "status")) ? "True" : "False";
    if (strcmp(type, "HindmostNodeUnfit") == 0) return 0; /* our own word is no evidence */
    bool yes = strcasecmp(status, "True") == 0, no = strcasecmp(status, "False") == 0;
    if ((yes || no) && yes == is_good(type)) return 0;
    snprintf(text, sizeof text, "%s%s%s%s", yes || no ? "" : "status ", yes || no ? "" : status, yes || no ? "" : ", ",
             message && *message ? message
             : reason            ? reason
                                 : "");
    const char *advice = message ? strcasestr(message, "RecommendedAction") : NULL;
    enum tier tier = !yes && !no ? WARN : is_good(type) ? WARN : severity_of(type);
    if (yes && advice) tier = with_action(tier, action_named(advice));
    return add(r, host, "condition", tier, type, NULL, text, time_at(r, c, times), err);
}

static int conditions(struct hm_evidence_reading *r, const char *host, const json_t *list, struct hm_error *err) {
    size_t i;
    json_t *c;
    json_array_foreach(list, i, c) if (condition(r, host, c, err) != 0) return -1;
    return 0;
}

static bool is_node(const json_t *o) {
    const char *kind = json_string_value(json_object_get(o, "kind"));
    return kind && strcmp(kind, "Node") == 0 && json_object_get(o, "metadata");
}

static int kubernetes_node(struct hm_evidence_reading *r, const json_t *o, struct hm_error *err) {
    const char *name = json_string_value(json_object_get(json_object_get(o, "metadata"), "name"));
    const json_t *list = json_object_get(json_object_get(o, "status"), "conditions");
    if (!name || !json_is_array(list))
        return hm_fail(err, HM_ERR_INPUT, "%s: a Node without name or conditions; give 'kubectl get nodes -o json'",
                       r->path);
    return hm_evidence_node(r, name, err) ? conditions(r, name, list, err) : -1;
}

/* ---- NVSentinel's health events ---- */

static bool is_health_event(const json_t *o) {
    return json_object_get(o, "checkName") && (json_object_get(o, "isFatal") || json_object_get(o, "isHealthy"));
}

static int health_event(struct hm_evidence_reading *r, const json_t *o, struct hm_error *err) {
    static const char *const times[] = {"generatedTimestamp", "timestamp", NULL};
    const char *check = json_string_value(json_object_get(o, "checkName"));
    const char *host = json_string_value(json_object_get(o, "nodeName"));
    const json_t *entity = json_array_get(json_object_get(o, "entitiesImpacted"), 0);
    const char *what = json_string_value(json_object_get(entity, "entityType"));
    const char *which = json_string_value(json_object_get(entity, "entityValue"));
    const char *code = json_string_value(json_array_get(json_object_get(o, "errorCode"), 0));
    char subject[64] = "", text[400];
    if (!hm_evidence_node(r, host, err)) return -1;
    if (json_is_true(json_object_get(o, "isHealthy"))) return 0;
    if (which) snprintf(subject, sizeof subject, "%.30s %.30s", what ? what : "GPU", which);
    const char *message = json_string_value(json_object_get(o, "message"));
    snprintf(text, sizeof text, "%s%s%s%.300s", code ? "[" : "", code ? code : "", code ? "] " : "",
             message ? message : "");
    enum tier tier = json_is_true(json_object_get(o, "isFatal")) ? FAIL : WARN;
    enum action action = action_of(json_object_get(o, "recommendedAction"));
    /* An event that is not fatal is to be watched, whatever mends it. */
    if (tier == FAIL || action == NOTHING) tier = with_action(tier, action);
    return add(r, host, "nvsentinel", tier, check ? check : "event", *subject ? subject : NULL, text,
               time_at(r, o, times), err);
}

/* ---- gpud ---- */

static bool is_gpud(const json_t *o) {
    return json_is_string(json_object_get(o, "component")) && json_is_array(json_object_get(o, "states"));
}

static int gpud_state(struct hm_evidence_reading *r, const char *component, const json_t *s, struct hm_error *err) {
    static const char *const times[] = {"time", NULL};
    const char *health = json_string_value(json_object_get(s, "health"));
    const char *reason = json_string_value(json_object_get(s, "reason"));
    enum action action = action_of(json_object_get(s, "suggested_actions"));
    char text[400];
    if (!health && json_is_boolean(json_object_get(s, "healthy"))) /* older releases */
        health = json_is_true(json_object_get(s, "healthy")) ? "Healthy" : "Unhealthy";
    if (health && strcasecmp(health, "Healthy") == 0) return 0;
    snprintf(text, sizeof text, "%.60s: %.300s", health ? health : "no health given", reason ? reason : "");
    bool unhealthy = health && strcasecmp(health, "Unhealthy") == 0,
         starting = health && strcasecmp(health, "Initializing") == 0;
    bool hardware = fnmatch("*accelerator*", component, FNM_CASEFOLD) == 0 ||
                    fnmatch("*nvidia*", component, FNM_CASEFOLD) == 0 ||
                    fnmatch("*infiniband*", component, FNM_CASEFOLD) == 0;
    enum tier tier = starting ? NOTE : unhealthy && hardware ? FAIL : WARN;
    if (unhealthy) tier = with_action(tier, action);
    return add(r, NULL, "gpud", tier, component, NULL, text, time_at(r, s, times), err);
}

static int gpud(struct hm_evidence_reading *r, const json_t *o, struct hm_error *err) {
    const char *component = json_string_value(json_object_get(o, "component"));
    size_t i;
    json_t *s;
    if (!hm_evidence_node(r, NULL, err)) return -1;
    if (json_array_size(json_object_get(o, "states")) == 0)
        return add(r, NULL, "gpud", NOTE, component, NULL, "it has no state", NAN, err);
    json_array_foreach(json_object_get(o, "states"), i, s) if (gpud_state(r, component, s, err) != 0) return -1;
    return 0;
}

/* ---- which ---- */

/* The list of nodes, events or components in an object that holds one. */
static const json_t *inner_list(const json_t *o) {
    static const char *const keys[] = {"items", "healthEvents", "events", "components", "conditions"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *list = json_object_get(o, keys[i]), *first = json_array_get(list, 0);
        if (first && (is_node(first) || is_health_event(first) || is_gpud(first) || is_condition(first))) return list;
    }
    return NULL;
}

bool hm_is_monitor(const json_t *o) {
    const json_t *first = json_is_array(o) ? json_array_get(o, 0) : o;
    return is_node(first) || is_health_event(first) || is_gpud(first) || is_condition(first) ||
           (json_is_object(o) && inner_list(o));
}

int hm_evidence_monitor(struct hm_evidence_reading *r, const json_t *o, struct hm_error *err) {
    size_t i;
    json_t *e;
    if (json_is_array(o)) {
        json_array_foreach(o, i, e) {
            if (!hm_is_monitor(e))
                return hm_fail(err, HM_ERR_INPUT, "%s: element %zu of the list is not understood; correct it", r->path,
                               i + 1);
            if (hm_evidence_monitor(r, e, err) != 0) return -1;
        }
        return 0;
    }
    if (is_node(o)) return kubernetes_node(r, o, err);
    if (is_health_event(o)) return health_event(r, o, err);
    if (is_gpud(o)) return gpud(r, o, err);
    if (is_condition(o)) return condition(r, NULL, o, err);
    return hm_evidence_monitor(r, inner_list(o), err);
}
