/* notes.c - what a diagnosis owns: evidence, places, texts. */
#include "diagnose.h"

#include <stdio.h>
#include <string.h>

enum { MOST_TEXT = 1200 };

static void *keep(struct hm_diagnosis_box *box, void *block) {
    void **grown = block ? hm_grow(box->owned, box->n_owned, &box->capacity, sizeof *grown) : NULL;
    if (!grown) {
        hm_free(block);
        box->failed = true;
        return NULL;
    }
    box->owned = grown;
    return box->owned[box->n_owned++] = block;
}

void *hm_box_alloc(struct hm_diagnosis_box *box, size_t count, size_t size) {
    return keep(box, hm_alloc(count, size));
}

const char *hm_box_text(struct hm_diagnosis_box *box, const char *format, ...) {
    char line[MOST_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    const char *kept = keep(box, hm_strdup(line));
    return kept ? kept : "";
}

void hm_diagnosis_free(struct hm_diagnosis *diagnosis) {
    if (!diagnosis) return;
    struct hm_diagnosis_box *box = (struct hm_diagnosis_box *)diagnosis;
    for (size_t i = 0; i < box->n_owned; i++) hm_free(box->owned[i]);
    hm_free(box->owned);
    hm_free(box);
}

/* Room for one more of n elements in a list of the box: lists double, the old halves stay until the end. */
static void *extend(struct hm_diagnosis_box *box, const void *list, size_t n, size_t size) {
    if (n && (n & (n - 1))) return (void *)list;
    void *grown = hm_box_alloc(box, n ? 2 * n : 1, size);
    if (grown && n) memcpy(grown, list, n * size);
    return grown;
}

static struct hm_evidence *evidence(struct hm_finding *f) {
    struct hm_evidence *list = extend(f->d->box, f->cause.evidence, f->cause.n_evidence, sizeof *list);
    if (!list) return NULL;
    f->cause.evidence = list;
    return &list[f->cause.n_evidence++];
}

void hm_note(struct hm_finding *f, double value, const char *unit, const char *format, ...) {
    char line[MOST_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    const char *name = hm_box_text(f->d->box, "%s", line);
    struct hm_evidence *e = evidence(f);
    if (e) *e = (struct hm_evidence){.name = name, .value = value, .unit = unit};
}

void hm_note_plot(struct hm_finding *f, const char *name, double value, const char *unit, const char *x_label,
                  const char *y_label, const double *x, const double *y, size_t n) {
    enum { MOST = 400 };
    size_t kept = n < MOST ? n : MOST;
    double *xs = hm_box_alloc(f->d->box, kept, sizeof *xs), *ys = hm_box_alloc(f->d->box, kept, sizeof *ys);
    struct hm_evidence *e = xs && ys ? evidence(f) : NULL;
    if (!e) return;
    for (size_t i = 0; i < kept; i++) {
        size_t from = kept == n ? i : i * n / kept;
        xs[i] = x[from];
        ys[i] = y[from];
    }
    *e = (struct hm_evidence){hm_box_text(f->d->box, "%s", name), value, unit, x_label, y_label, kept, xs, ys};
}

void hm_at_worker(struct hm_finding *f, size_t stage, size_t lane) {
    struct hm_worker *list = extend(f->d->box, f->cause.workers, f->cause.n_workers, sizeof *list);
    if (!list) return;
    list[f->cause.n_workers++] = (struct hm_worker){(uint32_t)stage, f->d->t->recording->lanes[lane]};
    f->cause.workers = list;
}

static void add_number(struct hm_finding *f, const uint32_t **numbers, size_t *n, uint32_t number) {
    for (size_t i = 0; i < *n; i++)
        if ((*numbers)[i] == number) return;
    uint32_t *list = extend(f->d->box, *numbers, *n, sizeof *list);
    if (!list) return;
    list[(*n)++] = number;
    *numbers = list;
}

void hm_at_stage(struct hm_finding *f, size_t stage) {
    add_number(f, &f->cause.stages, &f->cause.n_stages, (uint32_t)stage);
}

void hm_at_dp_rank(struct hm_finding *f, size_t lane) {
    add_number(f, &f->cause.dp_ranks, &f->cause.n_dp_ranks, f->d->t->recording->lanes[lane]);
}

/* Steps come in ascending order. */
void hm_at_step(struct hm_finding *f, size_t step) {
    int64_t number = f->d->t->recording->steps[step];
    if (f->cause.n_steps && f->cause.steps[f->cause.n_steps - 1] == number) return;
    int64_t *list = extend(f->d->box, f->cause.steps, f->cause.n_steps, sizeof *list);
    if (!list) return;
    list[f->cause.n_steps++] = number;
    f->cause.steps = list;
}

/* Steps that follow each other in the recording as ranges of their numbers. */
void hm_range_steps(struct hm_finding *f) {
    const struct hm_recording *r = f->d->t->recording;
    struct hm_cause *c = &f->cause;
    struct hm_step_range *range = c->n_steps ? hm_box_alloc(f->d->box, c->n_steps, sizeof *range) : NULL;
    if (!range) return;
    size_t n = 0;
    for (size_t t = 0, k = 0, next = 0; t < r->n_steps && k < c->n_steps; t++) {
        if (r->steps[t] != c->steps[k]) continue;
        if (!n || next != t) range[n++].first = c->steps[k];
        range[n - 1].last = c->steps[k++];
        next = t + 1;
    }
    c->step_ranges = range;
    c->n_step_ranges = n;
}

void hm_at_op_type(struct hm_finding *f, uint32_t cls) {
    const char *name = f->d->t->job->cls[cls].name;
    for (size_t i = 0; i < f->cause.n_op_types; i++)
        if (strcmp(f->cause.op_types[i], name) == 0) return;
    const char **list = extend(f->d->box, f->cause.op_types, f->cause.n_op_types, sizeof *list);
    if (!list) return;
    list[f->cause.n_op_types++] = hm_box_text(f->d->box, "%s", name);
    f->cause.op_types = list;
}

void hm_at_pass(struct hm_finding *f, enum hm_phase phase) {
    int cls = hm_class_find(f->d->t->job, HM_COMPUTE, phase);
    if (cls >= 0) hm_at_op_type(f, (uint32_t)cls);
}
