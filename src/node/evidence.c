/* evidence.c - evidence as it comes: which kind a file is, our own JSON, sweeps, pairs. "No evidence" is said of a file only if all of it was
 * understood: a diagnosis that nobody can read is no all-clear. */
#include "node/evidence.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_LIMIT = 64 << 20 };
static const double TIME_MAX_S = 1e11;

static const char *copy(const char *text, bool *failed) {
    char *c = text ? hm_strdup(text) : NULL;
    *failed = *failed || (text && !c);
    return c;
}

int hm_evidence_add(struct hm_evidence_list *l, const struct hm_node_evidence *e, struct hm_error *err) {
    struct hm_node_evidence *grown = hm_grow(l->item, l->count, &l->room, sizeof *grown);
    bool failed = !grown;
    if (failed) return hm_fail_memory(err);
    l->item = grown;
    grown[l->count++] = (struct hm_node_evidence){.node = copy(e->node, &failed),
                                                  .class_name = copy(e->class_name, &failed),
                                                  .source = copy(e->source, &failed),
                                                  .kind = copy(e->kind, &failed),
                                                  .detail = copy(e->detail, &failed),
                                                  .subject = copy(e->subject, &failed),
                                                  .time_s = e->time_s,
                                                  .dated = e->dated};
    return failed ? hm_fail_memory(err) : 0;
}

/* Names that images give before a machine has its own, and that anonymised logs bear: they name nobody. */
static bool is_placeholder(const char *host) {
    static const char *const names[] = {"localhost", "localhost.localdomain", "(none)", "host", "hostname"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(host, names[i]) == 0) return true;
    return false;
}

/* "gpu-7" is "gpu-7.cluster.example". */
static bool same_host(const char *a, const char *b) {
    size_t n = strcspn(a, "."), m = strcspn(b, ".");
    if (a[n] && b[m]) return strcasecmp(a, b) == 0;
    return n == m && strncasecmp(a, b, n) == 0;
}

const char *hm_evidence_node(const struct hm_evidence_reading *r, const char *host, struct hm_error *err) {
    if (!host || !*host) {
        if (r->node) return r->node;
        hm_fail(err, HM_ERR_INPUT, "%s: it names no node; give --node NAME", r->path);
        return NULL;
    }
    if (!r->node || same_host(host, r->node)) return r->node ? r->node : host;
    if (is_placeholder(host)) return r->node;
    hm_fail(err, HM_ERR_INPUT, "%s: line %zu is of %.100s, not of %.100s; leave out --node: each line says whose it is",
            r->path, r->line, host, r->node);
    return NULL;
}

/* ---- our own JSON ---- */

static int own(struct hm_evidence_reading *r, const json_t *o, struct hm_error *err) {
    const char *schema = json_string_value(json_object_get(o, "schema"));
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const char *tier = json_string_value(json_object_get(o, "tier"));
    const char *named = json_string_value(json_object_get(o, "node"));
    const char *source = json_string_value(json_object_get(o, "source"));
    const json_t *time = json_object_get(o, "time"), *detail = json_object_get(o, "detail");
    char joined[128];
    if (schema && strcmp(schema, "hindmost.evidence/1") != 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: schema '%s'; evidence is hindmost.evidence/1", r->path, schema);
    if (!named) named = r->node;
    if (!named || !*named || !kind || !*kind)
        return hm_fail(err, HM_ERR_INPUT, "%s: evidence without \"node\" or \"kind\"; give both", r->path);
    if (r->node && !same_host(named, r->node))
        return hm_fail(err, HM_ERR_INPUT, "%s: evidence against %.100s, not %.100s; leave out --node", r->path, named,
                       r->node);
    if (time && (!json_is_number(time) || json_number_value(time) < 0 || json_number_value(time) > TIME_MAX_S))
        return hm_fail(err, HM_ERR_INPUT, "%s: \"time\" is no number from 0 to 1e11; give seconds since 1970", r->path);
    if (tier) snprintf(joined, sizeof joined, "%s-%s", kind, tier);
    char *text = detail && !json_is_string(detail) ? json_dumps(detail, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (detail && !json_is_string(detail) && !text) return hm_fail_memory(err);
    struct hm_node_evidence e = {.node = named,
                                 .class_name = json_string_value(json_object_get(o, "class")),
                                 .source = source ? source : "unnamed",
                                 .kind = tier ? joined : kind,
                                 .detail = text ? text : json_string_value(detail),
                                 .subject = json_string_value(json_object_get(o, "gpu")),
                                 .time_s = time ? json_number_value(time) : r->now_s,
                                 .dated = time != NULL};
    int status = hm_evidence_add(r->list, &e, err);
    free(text);
    return status;
}

/* ---- a sweep's verdict ---- */

/* hindmost.sweep/1: "sweep-fail", "sweep-warn", "sweep-pass" or "sweep-unknown", with the tests that say so. */
static int sweep(struct hm_evidence_reading *r, const json_t *root, struct hm_error *err) {
    const char *verdict = json_string_value(json_object_get(root, "verdict"));
    const char *named = json_string_value(json_object_get(root, "node"));
    char kind[64], detail[400] = "";
    size_t i;
    json_t *test;
    if (!verdict || (!named && !r->node))
        return hm_fail(err, HM_ERR_INPUT, "%s: a sweep without \"verdict\" or \"node\"; give the sweep's own file",
                       r->path);
    const char *node = hm_evidence_node(r, named, err);
    if (!node) return -1;
    snprintf(kind, sizeof kind, "sweep-%s", verdict);
    json_array_foreach(json_object_get(root, "tests"), i, test) {
        const char *v = json_string_value(json_object_get(test, "verdict"));
        const char *name = json_string_value(json_object_get(test, "name"));
        const char *why = json_string_value(json_object_get(test, "why"));
        size_t used = strlen(detail);
        if (v && name && why && (strcmp(v, "fail") == 0 || strcmp(v, "warn") == 0) && used + 1 < sizeof detail)
            snprintf(detail + used, sizeof detail - used, "%s%s %s", used ? "; " : "", name, why);
    }
    struct hm_node_evidence e = {.node = node,
                                 .class_name = json_string_value(json_object_get(root, "class")),
                                 .source = "sweep",
                                 .kind = kind,
                                 .detail = *detail ? detail : NULL,
                                 .time_s = r->now_s};
    return hm_evidence_add(r->list, &e, err);
}

/* ---- pairs and groups of hosts ---- */

/* hindmost.pairs/1: "sweep-fail" of each culprit, with what was measured. Of the others it says nothing. */
static int pairs(struct hm_evidence_reading *r, const json_t *root, struct hm_error *err) {
    const json_t *culprits = json_object_get(root, "culprits");
    size_t i, k;
    json_t *name, *node;
    if (!json_is_array(culprits))
        return hm_fail(err, HM_ERR_INPUT, "%s: pairs without \"culprits\"; give the file of hindmost-pairs", r->path);
    json_array_foreach(culprits, i, name) {
        char *detail = NULL;
        if (!json_string_value(name)) return hm_fail(err, HM_ERR_INPUT, "%s: a culprit is no name", r->path);
        json_array_foreach(json_object_get(root, "nodes"), k, node) {
            const char *of = json_string_value(json_object_get(node, "node"));
            if (!detail && of && strcmp(of, json_string_value(name)) == 0) detail = json_dumps(node, JSON_COMPACT);
        }
        struct hm_node_evidence e = {.node = json_string_value(name),
                                     .source = "pairs",
                                     .kind = "sweep-fail",
                                     .detail = detail,
                                     .time_s = r->now_s};
        int status = hm_evidence_add(r->list, &e, err);
        free(detail);
        if (status != 0) return -1;
    }
    return 0;
}

/* ---- a document ---- */

int hm_evidence_document(struct hm_evidence_reading *r, const json_t *root, struct hm_error *err) {
    const char *schema = json_string_value(json_object_get(root, "schema"));
    int status = 0;
    size_t i;
    json_t *o;
    r->documents++;
    if (schema && strcmp(schema, "hindmost.sweep/1") == 0) return sweep(r, root, err);
    if (schema && strcmp(schema, "hindmost.pairs/1") == 0) return pairs(r, root, err);
    if (hm_is_dcgm(root)) return hm_evidence_dcgm(r, root, err);
    if (hm_is_monitor(root)) return hm_evidence_monitor(r, root, err);
    if (json_is_array(root) && json_array_size(root) == 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: an empty list says nothing; give evidence", r->path);
    if (!json_is_array(root)) return own(r, root, err);
    json_array_foreach(root, i, o) if (status == 0) status = hm_evidence_document(r, o, err);
    return status;
}

/* ---- text: kernel logs, JSON lines, JSON behind a banner, dcgmi's table ---- */

static int json_error(const struct hm_evidence_reading *r, size_t line, const json_error_t *why, struct hm_error *err) {
    if (hm_json_no_memory(why)) return hm_fail_memory(err);
    return hm_fail(err, HM_ERR_INPUT, "%s: line %zu: %s; give JSON or kernel log lines", r->path, line, why->text);
}

/* The document that begins at `text`; moves to the end of its last line. */
static int text_document(struct hm_evidence_reading *r, struct hm_kernel_log *k, char **text, struct hm_error *err) {
    json_error_t why;
    json_t *root = json_loads(*text, JSON_DISABLE_EOF_CHECK, &why);
    if (!root) return json_error(r, r->line + (why.line > 0 ? (size_t)why.line - 1 : 0), &why, err);
    char *end = *text + why.position;
    int status = hm_is_journal(root) ? (r->documents++, hm_evidence_journal(r, k, root, err))
                                     : hm_evidence_document(r, root, err);
    json_decref(root);
    if (r->documents == 1) r->lead = r->strange; /* a banner */
    if (status != 0) return -1;
    for (const char *c = *text; c < end; c++) r->line += *c == '\n';
    if (strspn(end, " \t\r") < strcspn(end, "\n")) /* "{...} and more" in a line */
        return hm_fail(err, HM_ERR_INPUT, "%s: line %zu: something follows the JSON; give one object a line", r->path,
                       r->line);
    *text = end;
    return 0;
}

static int text_line(struct hm_evidence_reading *r, struct hm_kernel_log *k, struct hm_dcgm_table *table, char *line,
                     struct hm_error *err) {
    if (!line[strspn(line, " \t\r")]) return hm_kernel_line(r, k, line, err) < 0 ? -1 : 0;
    if (hm_dcgm_table_line(table, line)) return hm_dcgm_table_row(r, table, line, err);
    int known = hm_kernel_line(r, k, line, err);
    if (known < 0) return -1;
    if (known) {
        r->log_lines++;
    } else if (r->strange++ == 0) {
        r->first_strange = r->line;
    }
    return 0;
}

static int text(struct hm_evidence_reading *r, char *at, struct hm_error *err) {
    struct hm_kernel_log *k = hm_kernel_log_new();
    struct hm_dcgm_table table = {0};
    bool json = at[strspn(at, " \t\r\n")] == '{'; /* then every line is; a log may hold anything */
    int status = k ? 0 : hm_fail_memory(err);
    for (r->line = 1; status == 0 && *at; r->line++) {
        char *first = at + strspn(at, " \t\r"), *next;
        if (*first == '{') {
            status = text_document(r, k, &first, err);
            at = first;
            next = strchr(at, '\n');
        } else {
            if ((next = strchr(at, '\n')) != NULL) *next = 0;
            if (json && *first)
                status =
                    hm_fail(err, HM_ERR_INPUT, "%s: line %zu: no JSON among JSON lines; give JSON or kernel log lines",
                            r->path, r->line);
            else
                status = text_line(r, k, &table, at, err);
        }
        at = next ? next + 1 : at + strlen(at);
    }
    if (status == 0) status = hm_kernel_end(r, k, err);
    if (status == 0) status = hm_dcgm_table_end(r, &table, err);
    hm_kernel_log_free(k);
    return status;
}

/* ---- the file ---- */

static int slurp(struct hm_str *s, const char *path, struct hm_error *err) {
    s->text = hm_in_text(path, FILE_LIMIT, &s->length, err);
    if (!s->text) return -1;
    if (s->length == 0) return hm_fail(err, HM_ERR_INPUT, "%s: is empty; give evidence", path);
    if (memchr(s->text, 0, s->length)) return hm_fail(err, HM_ERR_INPUT, "%s: is not text; give evidence", path);
    return 0;
}

static int parse(struct hm_evidence_reading *r, char *begin, struct hm_error *err) {
    json_error_t not_json = {0};
    if (strncmp(begin, "\xef\xbb\xbf", 3) == 0) begin += 3; /* a byte order mark */
    const char *first = begin + strspn(begin, " \t\r\n");
    json_t *root = *first == '{' || *first == '[' ? json_loads(begin, 0, &not_json) : NULL;
    if (!root && (*first == '{' || *first == '[') && hm_json_no_memory(&not_json)) return hm_fail_memory(err);
    if (!root && *first == '[' && strchr("{]", first[1 + strspn(first + 1, " \t\r\n")]))
        return hm_fail(err, HM_ERR_INPUT, "%s: line %d: %s; correct the JSON", r->path, not_json.line, not_json.text);
    if (!root || hm_is_journal(root)) {
        json_decref(root);
        return text(r, begin, err);
    }
    r->line = 1;
    int status = hm_evidence_document(r, root, err);
    json_decref(root);
    return status;
}

/* A file of which nothing, or only a part that is free of evidence, was understood is no all-clear. */
static int judge_reading(struct hm_evidence_reading *r, struct hm_error *err) {
    size_t strange = r->strange - r->lead;
    if (r->documents + r->log_lines == 0)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: nothing in it is understood; give evidence JSON, dcgmi diag -j, or a kernel log with times "
                       "(journalctl -k, dmesg -T)",
                       r->path);
    if (strange && r->list->count == 0)
        return hm_fail(
            err, HM_ERR_INPUT,
            "%s: %zu of its lines are not understood, the first is line %zu, and the rest holds no evidence: "
            "that is no all-clear; leave out what is no log",
            r->path, strange, r->first_strange);
    if (r->strange == 0) return 0;
    r->list->note = hm_sprintf("%s: %zu lines are not understood and were passed over; the first is line %zu", r->path,
                               r->strange, r->first_strange);
    return r->list->note ? 0 : hm_fail_memory(err);
}

/* When the machine started, as --boot says. */
static int read_boot(struct hm_evidence_reading *r, const char *boot, struct hm_error *err) {
    struct hm_stamp s;
    double utc[2];
    int answers;
    size_t n = boot ? hm_stamp_read(boot, &s) : 0;
    if (!boot) return 0;
    if (n == 0 || boot[n] || !hm_zone_stamp(r->zone, &s, utc, &answers) || s.kind == HM_STAMP_UPTIME ||
        s.kind == HM_STAMP_NO_YEAR)
        return hm_fail(err, HM_ERR_ARGUMENT,
                       "--boot %.60s: give a date and time such as 2026-12-01T10:00:00Z ('uptime -s' says it)", boot);
    r->boot_s = utc[0];
    return 0;
}

struct hm_evidence_list *hm_evidence_read_as(const char *path, const struct hm_evidence_options *o,
                                             struct hm_error *err) {
    struct hm_evidence_list *l = hm_alloc(1, sizeof *l);
    struct hm_evidence_reading r = {
        .list = l, .path = path, .node = o->node, .now_s = o->now_s, .gpus = o->gpus, .boot_s = NAN};
    struct hm_str s = {0};
    struct hm_zone *zone = NULL;
    int status = l ? hm_zone_open(o->zone, &zone, err) : hm_fail_memory(err);
    r.zone = zone;
    if (status == 0) status = read_boot(&r, o->boot, err);
    if (status == 0) status = slurp(&s, path, err);
    if (status == 0) status = parse(&r, s.text, err);
    if (status == 0) status = judge_reading(&r, err);
    hm_str_free(&s);
    hm_zone_close(zone);
    if (status == 0) return l;
    hm_evidence_free(l);
    return NULL;
}

struct hm_evidence_list *hm_evidence_read(const char *path, const char *node, double now_s, struct hm_error *err) {
    return hm_evidence_read_as(path, &(struct hm_evidence_options){.node = node, .now_s = now_s}, err);
}

size_t hm_evidence_count(const struct hm_evidence_list *l) {
    return l->count;
}

const struct hm_node_evidence *hm_evidence_items(const struct hm_evidence_list *l) {
    return l->item;
}

const char *hm_evidence_note(const struct hm_evidence_list *l) {
    return l->note;
}

void hm_evidence_free(struct hm_evidence_list *l) {
    if (!l) return;
    for (size_t i = 0; i < l->count; i++) {
        const struct hm_node_evidence *e = &l->item[i];
        const char *const texts[] = {e->node, e->class_name, e->source, e->kind, e->detail, e->subject};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) hm_free((void *)texts[k]);
    }
    hm_free(l->item);
    hm_free(l->note);
    hm_free(l);
}
