/* faults.c - a file of recorded faults: rates, gaps, repair times. */
#include "base/json_file.h"
#include "tor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct event {
    const char *node;
    double time_s;
    bool start;
};

struct file {
    struct hm_faults f; /* first: freed as a whole */
    double *repairs, *gaps;
};

void hm_faults_free(struct hm_faults *faults) {
    if (!faults) return;
    struct file *file = (struct file *)faults;
    hm_free(file->repairs);
    hm_free(file->gaps);
    hm_free(file);
}

static int by_node(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    int order = strcmp(x->node, y->node);
    if (order) return order;
    if (x->time_s != y->time_s) return x->time_s < y->time_s ? -1 : 1;
    return (int)y->start - (int)x->start; /* a start before an end at the same moment */
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int take_events(const char *path, const json_t *root, struct event *events, struct hm_error *err) {
    for (size_t i = 0; i < json_array_size(root); i++) {
        const json_t *e = json_array_get(root, i);
        const char *node = json_string_value(json_object_get(e, "node_id")),
                   *type = json_string_value(json_object_get(e, "event_type"));
        const json_t *time = json_object_get(e, "event_time");
        if (!node || !type || !json_is_number(time) || !(json_number_value(time) >= 0))
            return hm_fail(err, HM_ERR_INPUT,
                           "%s: event %zu: needs node_id, event_type and event_time in days, not negative", path,
                           i + 1);
        bool start = strcmp(type, "fault_start") == 0;
        if (!start && strcmp(type, "fault_end") != 0)
            return hm_fail(err, HM_ERR_INPUT,
                           "%s: event %zu: event_type is '%.40s'; it must be fault_start or fault_end", path, i + 1,
                           type);
        events[i] = (struct event){node, json_number_value(time) * 86400, start};
    }
    return 0;
}

/* The k-th start of a node ends with its k-th end: faults of one node may overlap. */
static int summarise(struct file *file, struct event *events, size_t n, size_t nodes, struct hm_error *err) {
    struct hm_faults *f = &file->f;
    file->repairs = hm_alloc(n, sizeof(double));
    file->gaps = hm_alloc(n + 1, sizeof(double));
    if (!file->repairs || !file->gaps) return hm_fail_memory(err);
    qsort(events, n, sizeof *events, by_node);
    size_t starts = 0, open = 0; /* open: the node's oldest start without an end, among file->gaps */
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(events[i].node, events[i - 1].node) != 0) {
            f->nodes++;
            open = starts;
        }
        if (events[i].time_s > f->span_s) f->span_s = events[i].time_s;
        if (events[i].start)
            file->gaps[starts++] = events[i].time_s;
        else if (open < starts)
            file->repairs[f->n_repairs++] = events[i].time_s - file->gaps[open++];
    }
    f->faults = starts;
    if (nodes) f->nodes = nodes;
    f->rate_per_node_s = f->span_s > 0 ? (double)starts / ((double)f->nodes * f->span_s) : 0;
    qsort(file->gaps, starts, sizeof(double), by_value);
    for (size_t i = 0; i + 1 < starts; i++) file->gaps[i] = file->gaps[i + 1] - file->gaps[i];
    f->n_gaps = starts > 1 ? starts - 1 : 0;
    file->gaps[f->n_gaps] = 0; /* their sum stands behind them, for scaling to a rate */
    for (size_t i = 0; i < f->n_gaps; i++) file->gaps[f->n_gaps] += file->gaps[i];
    qsort(file->repairs, f->n_repairs, sizeof(double), by_value);
    f->mean_repair_s = hm_mean(file->repairs, f->n_repairs);
    if (f->n_repairs)
        f->median_repair_s = 0.5 * (file->repairs[(f->n_repairs - 1) / 2] + file->repairs[f->n_repairs / 2]);
    f->repairs_s = file->repairs;
    f->gaps_s = file->gaps;
    return 0;
}

struct hm_faults *hm_faults_read(const char *path, size_t nodes, struct hm_error *err) {
    json_t *root = hm_json_load(path, "a fault file is a JSON array of events", err);
    struct file *file = NULL;
    struct event *events = NULL;
    int status = -1;
    if (!root)
        ; /* *err says why */
    else if (!json_is_array(root) || json_array_size(root) == 0)
        hm_fail(err, HM_ERR_INPUT,
                "%s: holds no events; a fault file is a JSON array of {node_id, event_time, event_type}", path);
    else if (!(file = hm_alloc(1, sizeof *file)) || !(events = hm_alloc(json_array_size(root), sizeof *events)))
        hm_fail_memory(err);
    else if (take_events(path, root, events, err) == 0)
        status = summarise(file, events, json_array_size(root), nodes, err);
    hm_free(events);
    json_decref(root);
    if (status == 0) return &file->f;
    if (file) hm_faults_free(&file->f);
    return NULL;
}
