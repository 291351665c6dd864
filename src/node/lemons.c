/* lemons.c - which nodes fail more than their work explains, what removing them would have saved, and how many spares a
 * fleet needs. After Meta (HPCA 2025) and ByteRobust (SOSP 2025). */
#include "base/json_file.h"
#include "node/node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fault {
    size_t node;
    double start, end;
};

struct hm_lemons {
    json_t *owner; /* of the names */
    struct fault *fault;
    size_t faults, fault_room;
    struct hm_lemon *node;
    size_t nodes, node_room, unpaired;
    double last;
};

static long index_of(struct hm_lemons *l, json_t *names, const char *name) {
    json_t *known = json_object_get(names, name);
    if (known) return (long)json_integer_value(known);
    struct hm_lemon *grown = hm_grow(l->node, l->nodes, &l->node_room, sizeof *grown);
    if (!grown || json_object_set_new(names, name, json_integer((json_int_t)l->nodes)) != 0) {
        if (grown) l->node = grown;
        return -1;
    }
    l->node = grown;
    grown[l->nodes] = (struct hm_lemon){.node = name};
    return (long)l->nodes++;
}

/* A start opens a fault; an end closes the oldest open one of its node and kind. */
static int add_event(struct hm_lemons *l, json_t *names, json_t *open, const json_t *e, size_t i, const char *path,
                     struct hm_error *err) {
    const char *name = json_string_value(json_object_get(e, "node_id"));
    const char *type = json_string_value(json_object_get(e, "event_type"));
    const json_t *time = json_object_get(e, "event_time");
    double t = json_number_value(time);
    if (!name) name = json_string_value(json_object_get(e, "node"));
    if (!name || !type || !json_is_number(time) || (strcmp(type, "fault_start") != 0 && strcmp(type, "fault_end") != 0))
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: event %zu: give node_id, event_time (days) and event_type fault_start or "
                       "fault_end",
                       path, i + 1);
    long node = index_of(l, names, name);
    char *kind = json_dumps(json_object_get(e, "fault_type"), JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    char *key = hm_sprintf("%ld %s", node, kind ? kind : "");
    free(kind);
    if (node < 0 || !key) {
        hm_free(key);
        return hm_fail_memory(err);
    }
    l->last = fmax(l->last, t);
    json_t *queue = json_object_get(open, key);
    int status = 0;
    if (strcmp(type, "fault_start") == 0) {
        struct fault *grown = hm_grow(l->fault, l->faults, &l->fault_room, sizeof *grown);
        if (grown) l->fault = grown;
        if (grown && !queue) json_object_set_new(open, key, queue = json_array());
        if (!grown || json_array_append_new(queue, json_integer((json_int_t)l->faults)) != 0)
            status = hm_fail_memory(err);
        else
            grown[l->faults++] = (struct fault){(size_t)node, t, NAN};
    } else if (json_array_size(queue) == 0) {
        l->unpaired++;
    } else {
        l->fault[json_integer_value(json_array_get(queue, 0))].end = t;
        json_array_remove(queue, 0);
    }
    hm_free(key);
    return status;
}

static double overlap(double a, double b, double from, double to) {
    return fmax(0, fmin(b, to) - fmax(a, from));
}

static int by_score(const void *a, const void *b) {
    const struct hm_lemon *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return strcmp(x->node, y->node); /* the same order every time */
}

/* Faults in the window before the decision, minus what a node that was up as long would have had at the fleet's rate. */
static void score(struct hm_lemons *l, const struct hm_lemon_options *o) {
    double from = o->at_day - o->window_days, fleet_faults = 0, fleet_up = 0;
    for (size_t i = 0; i < l->nodes; i++) l->node[i].exposure_days = o->window_days;
    for (size_t i = 0; i < l->faults; i++) {
        const struct fault *f = &l->fault[i];
        struct hm_lemon *n = &l->node[f->node];
        double end = isnan(f->end) ? l->last : f->end;
        n->faults++;
        n->exposure_days -= overlap(f->start, end, from, o->at_day);
        n->observed += f->start >= from && f->start < o->at_day;
        n->downtime_after_days += overlap(f->start, end, o->at_day, l->last);
    }
    for (size_t i = 0; i < l->nodes; i++) {
        l->node[i].exposure_days = fmax(0, l->node[i].exposure_days); /* faults of one node may overlap */
        fleet_faults += l->node[i].observed;
        fleet_up += l->node[i].exposure_days;
    }
    /* nodes that never failed are in no event, but they were up */
    if (o->fleet > l->nodes) fleet_up += (double)(o->fleet - l->nodes) * o->window_days;
    double rate = fleet_up > 0 ? fleet_faults / fleet_up : 0;
    for (size_t i = 0; i < l->nodes; i++) {
        l->node[i].expected = rate * l->node[i].exposure_days;
        l->node[i].score = l->node[i].observed - l->node[i].expected;
    }
    qsort(l->node, l->nodes, sizeof *l->node, by_score);
}

/* Jobs, if given, say who worked: a job of n nodes that failed is expected to fail at the fleet's rate per node; each
 * node's share of it is rate x its time. Only jobs that began in the window count. */
static int score_jobs(struct hm_lemons *l, const struct hm_lemon_options *o, struct hm_error *err) {
    size_t i, k;
    json_t *job, *name;
    json_t *jobs = hm_json_load(o->jobs, "give a JSON array of jobs {nodes, start, end, failed_node}", err),
           *place = json_object();
    double failures = 0, node_days = 0, from = o->at_day - o->window_days;
    if (!json_is_array(jobs) || !place) {
        bool loaded = jobs != NULL;
        json_decref(jobs);
        json_decref(place);
        if (!loaded) return -1;
        return hm_fail(err, HM_ERR_INPUT, "%s: no JSON array of jobs {nodes, start, end, failed_node}", o->jobs);
    }
    for (i = 0; i < l->nodes; i++) {
        l->node[i].observed = l->node[i].expected = l->node[i].exposure_days = 0;
        json_object_set_new(place, l->node[i].node, json_integer((json_int_t)i));
    }
    for (int pass = 0; pass < 2; pass++) {
        json_array_foreach(jobs, i, job) {
            double start = json_number_value(json_object_get(job, "start"));
            double days = json_number_value(json_object_get(job, "end")) - start;
            const json_t *nodes = json_object_get(job, "nodes");
            bool failed = json_is_true(json_object_get(job, "failed"));
            if (start < from || start >= o->at_day || !(days > 0)) continue;
            double size = (double)json_array_size(nodes);
            /* an unattributed failure is spread: one failure, 1/n for each member */
            if (pass == 0) failures += failed, node_days += days * size;
            if (pass == 0 || node_days <= 0) continue;
            json_array_foreach(nodes, k, name) {
                const json_t *at = json_object_get(place, json_string_value(name) ? json_string_value(name) : "");
                if (!at) continue;
                struct hm_lemon *n = &l->node[json_integer_value(at)];
                n->exposure_days += days;
                n->observed += failed ? 1 / size : 0;
                n->expected += failures / node_days * days;
            }
        }
    }
    for (i = 0; i < l->nodes; i++) l->node[i].score = l->node[i].observed - l->node[i].expected;
    qsort(l->node, l->nodes, sizeof *l->node, by_score);
    json_decref(jobs);
    json_decref(place);
    return 0;
}

struct hm_lemons *hm_lemons_read(const struct hm_lemon_options *options, struct hm_error *err) {
    struct hm_lemon_options o = *options;
    struct hm_lemons *l = hm_alloc(1, sizeof *l);
    json_t *names = json_object(), *open = json_object(), *e;
    size_t i;
    int status = l && names && open ? 0 : hm_fail_memory(err);
    if (status == 0 && !(l->owner = hm_json_load(o.faults, "give a JSON array of fault events", err))) status = -1;
    if (status == 0 && (!json_is_array(l->owner) || json_array_size(l->owner) == 0))
        status = hm_fail(err, HM_ERR_INPUT, "%s: is no array of fault events", o.faults);
    json_array_foreach(l ? l->owner : NULL, i, e) {
        if (status == 0) status = add_event(l, names, open, e, i, o.faults, err);
    }
    if (status == 0) {
        if (!(o.at_day >= 0)) o.at_day = l->last / 2;
        if (!(o.window_days > 0)) o.window_days = 28;
        score(l, &o);
        if (o.jobs) status = score_jobs(l, &o, err);
    }
    json_decref(names);
    json_decref(open);
    if (status == 0) return l;
    hm_lemons_free(l);
    return NULL;
}

void hm_lemons_free(struct hm_lemons *l) {
    if (!l) return;
    json_decref(l->owner);
    hm_free(l->fault);
    hm_free(l->node);
    hm_free(l);
}

size_t hm_lemons_count(const struct hm_lemons *l) {
    return l->nodes;
}

const struct hm_lemon *hm_lemons_node(const struct hm_lemons *l, size_t i) {
    return &l->node[i];
}

double hm_lemons_saved(const struct hm_lemons *l, size_t k) {
    double all = 0, mine = 0;
    for (size_t i = 0; i < l->nodes; i++) {
        all += l->node[i].downtime_after_days;
        if (i < k) mine += l->node[i].downtime_after_days;
    }
    return all > 0 ? mine / all : 0;
}

long hm_spares(long nodes, double p, double quantile) {
    if (nodes < 1 || !(p >= 0 && p <= 1) || !(quantile > 0 && quantile < 1)) return -1;
    if (p == 0) return 0;
    if (p == 1) return nodes;
    double sum = 0, n = (double)nodes;
    for (long k = 0; k < nodes; k++) {
        double d = (double)k;
        sum += exp(lgamma(n + 1) - lgamma(d + 1) - lgamma(n - d + 1) + d * log(p) + (n - d) * log1p(-p));
        if (sum >= quantile) return k;
    }
    return nodes;
}
