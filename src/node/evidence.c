/* evidence.c - evidence as it comes: our documented JSON, dcgmi diag -j, kernel log lines with Xid. */
#include "node/node.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FILE_LIMIT = 64 << 20 };
static const double XID_MERGE_S = 5; /* Delta, SC 2025 */
static const double TIME_MAX_S = 1e11;

struct hm_evidence_list {
    struct hm_node_evidence *item;
    size_t count, room;
};

static const char *copy(const char *text, bool *failed) {
    char *c = text ? hm_strdup(text) : NULL;
    *failed = *failed || (text && !c);
    return c;
}

static int append(struct hm_evidence_list *l, const struct hm_node_evidence *e, struct hm_error *err) {
    struct hm_node_evidence *grown = hm_grow(l->item, l->count, &l->room, sizeof *grown);
    bool failed = !grown;
    if (failed) return hm_fail_memory(err);
    l->item = grown;
    grown[l->count++] = (struct hm_node_evidence){.node = copy(e->node, &failed),
                                                  .class_name = copy(e->class_name, &failed),
                                                  .source = copy(e->source, &failed),
                                                  .kind = copy(e->kind, &failed),
                                                  .detail = copy(e->detail, &failed),
                                                  .time_s = e->time_s};
    return failed ? hm_fail_memory(err) : 0;
}

/* ---- our own JSON ---- */

static int own(struct hm_evidence_list *l, const json_t *o, const char *path, const char *node, double now_s,
               struct hm_error *err) {
    const char *schema = json_string_value(json_object_get(o, "schema"));
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const char *tier = json_string_value(json_object_get(o, "tier"));
    const char *named = json_string_value(json_object_get(o, "node"));
    const char *source = json_string_value(json_object_get(o, "source"));
    const json_t *time = json_object_get(o, "time"), *detail = json_object_get(o, "detail");
    char joined[128];
    if (schema && strcmp(schema, "hindmost.evidence/1") != 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: schema '%s'; evidence is hindmost.evidence/1", path, schema);
    if (!named) named = node;
    if (!named || !*named || !kind || !*kind)
        return hm_fail(err, HM_ERR_INPUT, "%s: evidence without \"node\" or \"kind\"; give both", path);
    if (time && (!json_is_number(time) || json_number_value(time) < 0 || json_number_value(time) > TIME_MAX_S))
        return hm_fail(err, HM_ERR_INPUT, "%s: \"time\" is no number from 0 to 1e11; give seconds since 1970", path);
    if (tier) snprintf(joined, sizeof joined, "%s-%s", kind, tier);
    char *text = detail && !json_is_string(detail) ? json_dumps(detail, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (detail && !json_is_string(detail) && !text) return hm_fail_memory(err);
    struct hm_node_evidence e = {.node = named,
                                 .class_name = json_string_value(json_object_get(o, "class")),
                                 .source = source ? source : "unnamed",
                                 .kind = tier ? joined : kind,
                                 .detail = text ? text : json_string_value(detail),
                                 .time_s = time ? json_number_value(time) : now_s};
    int status = append(l, &e, err);
    free(text);
    return status;
}

/* ---- dcgmi diag -j ---- */

/* Severity (DCGM 4.6): 2 isolate, 4 triage and 6 reset say the hardware; 1 monitor; 5 configuration accuses nobody. */
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
    return !named; /* a FAIL of an old release that names no severity counts as one */
}

static int dcgm_result(struct hm_evidence_list *l, const char *test, const json_t *r, const char *node, double now_s,
                       struct hm_error *err) {
    const char *status = json_string_value(json_object_get(r, "status"));
    bool fail = status && strcasecmp(status, "FAIL") == 0, warn = status && strcasecmp(status, "WARN") == 0;
    if (!fail && !warn) return 0;
    const json_t *first = json_array_get(json_object_get(r, "warnings"), 0);
    const char *text = json_string_value(first);
    if (!text) text = json_string_value(json_object_get(first, "warning"));
    if (!text) text = json_string_value(json_object_get(r, "warnings"));
    const json_t *id = json_object_get(r, "entity_id");
    const char *gpus = json_string_value(json_object_get(r, "gpu_ids"));
    char gpu[64], detail[500];
    snprintf(gpu, sizeof gpu, "%lld", (long long)json_integer_value(id));
    snprintf(detail, sizeof detail, "%s, GPU %s: %s", test,
             gpus                  ? gpus
             : json_is_integer(id) ? gpu
                                   : "?",
             text ? text : "no reason given");
    struct hm_node_evidence e = {.node = node,
                                 .source = "dcgm",
                                 .kind = fail && severe(r) ? "dcgm-fail" : "dcgm-warn",
                                 .detail = detail,
                                 .time_s = now_s};
    return append(l, &e, err);
}

static int dcgm(struct hm_evidence_list *l, const json_t *root, const char *path, const char *node, double now_s,
                struct hm_error *err) {
    size_t c, t, k;
    json_t *category, *test, *result;
    if (!node) return hm_fail(err, HM_ERR_INPUT, "%s: DCGM's file names no node; give --node NAME", path);
    json_array_foreach(json_object_get(root, "test_categories"), c, category)
        json_array_foreach(json_object_get(category, "tests"), t, test)
            json_array_foreach(json_object_get(test, "results"), k, result) {
        const char *name = json_string_value(json_object_get(test, "name"));
        if (dcgm_result(l, name ? name : "?", result, node, now_s, err) != 0) return -1;
    }
    return 0;
}

/* ---- a sweep's verdict ---- */

/* hindmost.sweep/1: "sweep-fail", "sweep-warn", "sweep-pass" or "sweep-unknown", with the tests that say so. */
static int sweep(struct hm_evidence_list *l, const json_t *root, const char *path, const char *node, double now_s,
                 struct hm_error *err) {
    const char *verdict = json_string_value(json_object_get(root, "verdict"));
    const char *named = json_string_value(json_object_get(root, "node"));
    char kind[64], detail[400] = "";
    size_t i;
    json_t *test;
    if (!verdict || (!named && !node))
        return hm_fail(err, HM_ERR_INPUT, "%s: a sweep without \"verdict\" or \"node\"; give the sweep's own file",
                       path);
    snprintf(kind, sizeof kind, "sweep-%s", verdict);
    json_array_foreach(json_object_get(root, "tests"), i, test) {
        const char *v = json_string_value(json_object_get(test, "verdict"));
        const char *name = json_string_value(json_object_get(test, "name"));
        const char *why = json_string_value(json_object_get(test, "why"));
        size_t used = strlen(detail);
        if (v && name && why && (strcmp(v, "fail") == 0 || strcmp(v, "warn") == 0) && used + 1 < sizeof detail)
            snprintf(detail + used, sizeof detail - used, "%s%s %s", used ? "; " : "", name, why);
    }
    struct hm_node_evidence e = {.node = named ? named : node,
                                 .class_name = json_string_value(json_object_get(root, "class")),
                                 .source = "sweep",
                                 .kind = kind,
                                 .detail = *detail ? detail : NULL,
                                 .time_s = now_s};
    return append(l, &e, err);
}

/* ---- pairs and groups of hosts ---- */

/* hindmost.pairs/1: "sweep-fail" of each culprit, with what was measured. Of the others it says nothing. */
static int pairs(struct hm_evidence_list *l, const json_t *root, const char *path, double now_s, struct hm_error *err) {
    const json_t *culprits = json_object_get(root, "culprits");
    size_t i, k;
    json_t *name, *node;
    if (!json_is_array(culprits))
        return hm_fail(err, HM_ERR_INPUT, "%s: pairs without \"culprits\"; give the file of hindmost-pairs", path);
    json_array_foreach(culprits, i, name) {
        char *detail = NULL;
        if (!json_string_value(name)) return hm_fail(err, HM_ERR_INPUT, "%s: a culprit is no name", path);
        json_array_foreach(json_object_get(root, "nodes"), k, node) {
            const char *of = json_string_value(json_object_get(node, "node"));
            if (!detail && of && strcmp(of, json_string_value(name)) == 0) detail = json_dumps(node, JSON_COMPACT);
        }
        struct hm_node_evidence e = {.node = json_string_value(name),
                                     .source = "pairs",
                                     .kind = "sweep-fail",
                                     .detail = detail,
                                     .time_s = now_s};
        int status = append(l, &e, err);
        free(detail);
        if (status != 0) return -1;
    }
    return 0;
}

/* ---- kernel log ---- */

/* The time of a line: "[12345.678]" of dmesg (after boot: the differences count), an epoch or ISO prefix of journalctl;
 * now_s without. Syslog's "Dec  1 12:00:00" has no year: that of now_s. */
static double line_time(const char *line, double now_s) {
    double t;
    struct tm tm = {0};
    const char *rest;
    if (sscanf(line, " [ %lf]", &t) == 1 || (sscanf(line, "%lf", &t) == 1 && t > 1e9)) return t;
    if ((rest = strptime(line, "%Y-%m-%dT%H:%M:%S", &tm))) {
        double fraction = *rest == '.' || *rest == ',' ? strtod(*rest == '.' ? rest : "0", NULL) : 0;
        while (*rest == '.' || *rest == ',' || isdigit((unsigned char)*rest)) rest++;
        int hours = 0, minutes = 0;
        double zone = 0;
        if ((*rest == '+' || *rest == '-') && sscanf(rest + 1, "%2d%*[:]%2d", &hours, &minutes) < 2)
            sscanf(rest + 1, "%2d%2d", &hours, &minutes);
        zone = (*rest == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
        return (double)timegm(&tm) + fraction - zone;
    }
    time_t now = (time_t)now_s;
    gmtime_r(&now, &tm);
    int year = tm.tm_year;
    if (strptime(line, "%b %d %H:%M:%S", &tm)) {
        tm.tm_year = year;
        return (double)timegm(&tm);
    }
    return now_s;
}

struct xid_event {
    char gpu[64];
    long code;
    double first_s, last_s;
};

struct xid_events {
    struct xid_event *event;
    size_t count, room;
};

static int xid_line(struct hm_evidence_list *l, struct xid_events *seen, const char *line, const char *node,
                    double now_s, struct hm_error *err) {
    const char *at = strstr(line, "NVRM: Xid (");
    char gpu[64];
    long code;
    if (!at || sscanf(at, "NVRM: Xid (%63[^)]): %ld", gpu, &code) != 2) return 0;
    double t = line_time(line, now_s);
    if (!(t >= 0 && t <= TIME_MAX_S)) t = now_s; /* NaN, too */
    bool since_boot = strchr(line, '[') && t < 1e8;
    for (size_t i = seen->count; i-- > 0;) { /* lines may be out of order: any event so near is the same */
        struct xid_event *e = &seen->event[i];
        if (e->code != code || strcmp(e->gpu, gpu) != 0) continue;
        if (t < e->first_s - XID_MERGE_S || t > e->last_s + XID_MERGE_S) continue;
        e->first_s = fmin(e->first_s, t);
        e->last_s = fmax(e->last_s, t);
        return 0;
    }
    struct xid_event *grown = hm_grow(seen->event, seen->count, &seen->room, sizeof *grown);
    if (!grown) return hm_fail_memory(err);
    seen->event = grown;
    struct xid_event *fresh = &grown[seen->count++];
    *fresh = (struct xid_event){.code = code, .first_s = t, .last_s = t};
    snprintf(fresh->gpu, sizeof fresh->gpu, "%s", gpu);
    char kind[32], detail[400];
    snprintf(kind, sizeof kind, "xid-%ld", code);
    snprintf(detail, sizeof detail, "%.*s", (int)strcspn(at, "\r\n"), at);
    struct hm_node_evidence e = {
        .node = node, .source = "kernel", .kind = kind, .detail = detail, .time_s = since_boot ? now_s : t};
    return append(l, &e, err);
}

static int lines(struct hm_evidence_list *l, char *text, const char *path, const char *node, double now_s,
                 struct hm_error *err) {
    struct xid_events seen = {0};
    bool json = text[strspn(text, " \t\r\n")] == '{'; /* then every line is; a log may hold anything */
    int status = 0;
    size_t number = 0;
    for (char *line = text, *next; status == 0 && line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        number++;
        const char *first = line + strspn(line, " \t\r");
        if (*first == '{' || (json && *first)) {
            json_error_t why;
            json_t *o = json_loads(line, 0, &why);
            status = o ? own(l, o, path, node, now_s, err)
                     : hm_json_no_memory(&why)
                         ? hm_fail_memory(err)
                         : hm_fail(err, HM_ERR_INPUT, "%s: line %zu: %s; give JSON or kernel log lines", path, number,
                                   why.text);
            json_decref(o);
        } else if (strstr(line, "NVRM: Xid (")) {
            status = node ? xid_line(l, &seen, line, node, now_s, err)
                          : hm_fail(err, HM_ERR_INPUT, "%s: a kernel log names no node; give --node NAME", path);
        }
    }
    hm_free(seen.event);
    return status;
}

/* ---- the file ---- */

static int slurp(struct hm_str *s, const char *path, struct hm_error *err) {
    char block[65536];
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    if (!f) return hm_fail(err, HM_ERR_IO, "%s: %s; name a file of evidence", path, strerror(errno));
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0 && s->length <= FILE_LIMIT;) hm_str_bytes(s, block, n);
    bool bad = ferror(f) != 0;
    if (f != stdin) fclose(f);
    if (bad) return hm_fail(err, HM_ERR_IO, "%s: cannot be read; is it a file?", path);
    if (s->failed) return hm_fail_memory(err);
    if (s->length > FILE_LIMIT) return hm_fail(err, HM_ERR_INPUT, "%s: is over 64 MB; split it", path);
    if (s->length == 0) return hm_fail(err, HM_ERR_INPUT, "%s: is empty; give evidence", path);
    if (memchr(s->text, 0, s->length)) return hm_fail(err, HM_ERR_INPUT, "%s: is not text; give evidence", path);
    return 0;
}

static int parse(struct hm_evidence_list *l, struct hm_str *s, const char *path, const char *node, double now_s,
                 struct hm_error *err) {
    json_error_t not_json;
    json_t *root = json_loads(s->text, 0, &not_json);
    if (!root && hm_json_no_memory(&not_json)) return hm_fail_memory(err);
    const char *first = s->text + strspn(s->text, " \t\r\n");
    if (!root && *first == '[' && strchr("{]", first[1 + strspn(first + 1, " \t\r\n")]))
        return hm_fail(err, HM_ERR_INPUT, "%s: line %d: %s; correct the JSON", path, not_json.line, not_json.text);
    if (!root) return lines(l, s->text, path, node, now_s, err);
    const json_t *diag = json_object_get(root, "DCGM Diagnostic");
    if (!diag) diag = json_object_get(root, "DCGM GPU Diagnostic");
    int status = 0;
    size_t i;
    json_t *o;
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (schema && strcmp(schema, "hindmost.sweep/1") == 0)
        status = sweep(l, root, path, node, now_s, err);
    else if (schema && strcmp(schema, "hindmost.pairs/1") == 0)
        status = pairs(l, root, path, now_s, err);
    else if (diag)
        status = dcgm(l, diag, path, node, now_s, err);
    else if (json_is_object(root))
        status = own(l, root, path, node, now_s, err);
    else
        json_array_foreach(root, i, o) if (status == 0) status = own(l, o, path, node, now_s, err);
    json_decref(root);
    return status;
}

struct hm_evidence_list *hm_evidence_read(const char *path, const char *node, double now_s, struct hm_error *err) {
    struct hm_evidence_list *l = hm_alloc(1, sizeof *l);
    struct hm_str s = {0};
    int status = l ? slurp(&s, path, err) : hm_fail_memory(err);
    if (status == 0) status = parse(l, &s, path, node, now_s, err);
    hm_str_free(&s);
    if (status == 0) return l;
    hm_evidence_free(l);
    return NULL;
}

size_t hm_evidence_count(const struct hm_evidence_list *l) {
    return l->count;
}

const struct hm_node_evidence *hm_evidence_items(const struct hm_evidence_list *l) {
    return l->item;
}

void hm_evidence_free(struct hm_evidence_list *l) {
    if (!l) return;
    for (size_t i = 0; i < l->count; i++) {
        hm_free((void *)l->item[i].node);
        hm_free((void *)l->item[i].class_name);
        hm_free((void *)l->item[i].source);
        hm_free((void *)l->item[i].kind);
        hm_free((void *)l->item[i].detail);
    }
    hm_free(l->item);
    hm_free(l);
}
