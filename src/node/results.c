/* results.c - reads test results: JSON lines, one object a node, metric names in SuperBench's naming. */
#include "node/node.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_LIMIT = 64 << 20 }; /* a line of a node with a million metrics */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_line(struct hm_results *r, const char *path, const char *line, size_t length, size_t number,
                     struct hm_error *err) {
    json_error_t why;
    json_t *row = json_loadb(line, length, JSON_REJECT_DUPLICATES, &why);
    if (!row && hm_json_no_memory(&why)) return hm_fail_memory(err);
    if (!row)
        return hm_fail(err, HM_ERR_INPUT, "%s: line %zu, column %d: %s; give one JSON object a node and line", path,
                       number, why.column, why.text);
    const char *node = json_string_value(json_object_get(row, "node"));
    if (!node || !*node) {
        json_decref(row);
        return hm_fail(err, HM_ERR_INPUT, "%s: line %zu: no \"node\"; name the node that was tested", path, number);
    }
    if (json_array_append_new(r->lines, row) != 0) return hm_fail_memory(err);
    return 0;
}

static int read_lines(struct hm_results *r, const char *path, struct hm_error *err) {
    FILE *f = hm_in_file(path, err);
    if (!f) return -1;
    char *line = NULL;
    size_t capacity = 0, number = 0;
    int status = 0;
    for (ssize_t n; status == 0 && (n = getline(&line, &capacity, f)) > 0;) {
        number++;
        if (n > LINE_LIMIT)
            status = hm_fail(err, HM_ERR_INPUT, "%s: line %zu is over 64 MB; give one node a line", path, number);
        else if (strspn(line, " \t\r\n") < (size_t)n)
            status = read_line(r, path, line, (size_t)n, number, err);
    }
    if (status == 0 && ferror(f)) status = hm_fail(err, HM_ERR_IO, "%s: cannot be read; is it a file?", path);
    if (status == 0 && json_array_size(r->lines) == 0)
        status = hm_fail(err, HM_ERR_INPUT, "%s: holds no results; give one JSON object a node and line", path);
    free(line);
    fclose(f);
    return status;
}

/* The set of all metric names, sorted. */
static int collect_metrics(struct hm_results *r, struct hm_error *err) {
    size_t total = 0, n = 0;
    for (size_t i = 0; i < r->nodes; i++) total += json_object_size(json_array_get(r->lines, i));
    r->metric = hm_alloc(total + 1, sizeof *r->metric);
    if (!r->metric) return hm_fail_memory(err);
    for (size_t i = 0; i < r->nodes; i++) {
        const char *key;
        json_t *value;
        json_object_foreach(json_array_get(r->lines, i), key, value) {
            if (json_is_number(value) || json_is_array(value) || json_is_null(value)) r->metric[n++] = key;
        }
    }
    qsort(r->metric, n, sizeof *r->metric, by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(r->metric[i], r->metric[r->metrics - 1]) != 0) r->metric[r->metrics++] = r->metric[i];
    return 0;
}

/* The number of a value: itself, or the median of an array of repeats. */
static int value_of(const json_t *v, double *out, struct hm_error *err) {
    *out = NAN;
    if (json_is_number(v)) *out = json_number_value(v);
    if (!json_is_array(v) || json_array_size(v) == 0) return 0;
    size_t n = json_array_size(v);
    double *x = hm_alloc(n, sizeof *x);
    if (!x) return hm_fail_memory(err);
    size_t good = 0;
    for (size_t i = 0; i < n; i++)
        if (json_is_number(json_array_get(v, i))) x[good++] = json_number_value(json_array_get(v, i));
    if (good) *out = hm_median(x, good);
    hm_free(x);
    return 0;
}

int hm_results_read(struct hm_results *r, const char *path, struct hm_error *err) {
    *r = (struct hm_results){.lines = json_array()};
    size_t cells;
    if (!r->lines) return hm_fail_memory(err);
    if (read_lines(r, path, err) != 0) goto failed;
    r->nodes = json_array_size(r->lines);
    if (collect_metrics(r, err) != 0) goto failed;
    if (!hm_mul(r->nodes, r->metrics, &cells)) goto no_memory;
    r->node = hm_alloc(r->nodes, sizeof *r->node);
    r->value = hm_alloc(cells + 1, sizeof *r->value);
    r->seen = hm_alloc(cells + 1, sizeof *r->seen);
    if (!r->node || !r->value || !r->seen) goto no_memory;
    for (size_t i = 0; i < r->nodes; i++) {
        const json_t *row = json_array_get(r->lines, i);
        r->node[i] = json_string_value(json_object_get(row, "node"));
        for (size_t m = 0; m < r->metrics; m++) {
            const json_t *v = json_object_get(row, r->metric[m]);
            r->seen[i * r->metrics + m] = v != NULL;
            if (value_of(v, &r->value[i * r->metrics + m], err) != 0) goto failed;
        }
    }
    return 0;
no_memory:
    hm_fail_memory(err);
failed:
    hm_results_free(r);
    return -1;
}

void hm_results_free(struct hm_results *r) {
    json_decref(r->lines);
    hm_free(r->node);
    hm_free(r->metric);
    hm_free(r->value);
    hm_free(r->seen);
    *r = (struct hm_results){0};
}

long hm_results_metric(const struct hm_results *r, const char *name) {
    const char **found = bsearch(&name, r->metric, r->metrics, sizeof *r->metric, by_text);
    return found ? found - r->metric : -1;
}

double *hm_results_samples(const struct hm_results *r, size_t node, size_t metric, size_t *n) {
    const json_t *v = json_object_get(json_array_get(r->lines, node), r->metric[metric]);
    *n = 0;
    if (!json_is_array(v)) return NULL;
    double *x = hm_alloc(json_array_size(v) + 1, sizeof *x);
    if (!x) *n = 1;
    for (size_t i = 0; x && i < json_array_size(v); i++)
        if (json_is_number(json_array_get(v, i))) x[(*n)++] = json_number_value(json_array_get(v, i));
    return x;
}
