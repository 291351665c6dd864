/* missing_ops.c - op types that a recording lacks: everywhere, or on one stage only. What they would show, nobody can tell. */
#include "diagnose.h"

#include <string.h>

/* Whether a worker of that stage should have such ops, given the others. The first and the last stage have transfers on one side only, unless
 * the model goes round (several chunks a stage); the embedding is on both ends. */
static bool belongs(const struct hm_profile *p, const struct hm_class *c, size_t stage) {
    const bool first = stage == 0 && p->chunks == 1, last = stage + 1 == p->t->job->model_stages && p->chunks == 1;
    if (c->scope == HM_EMBEDDING) return false;
    if (!hm_is_point_to_point(c)) return true;
    bool before = (c->kind == HM_RECV) == (c->phase == HM_FORWARD); /* with the stage before */
    return before ? !first : !last;
}

/* Whether a job of that shape cannot be without. */
static bool is_needed(const struct hm_profile *p, const struct hm_class *c) {
    if (hm_is_pass(c)) return true;
    if (hm_is_point_to_point(c)) return p->recorded > 1;
    return strcmp(c->name, "grads-reduce-scatter") == 0 && p->lanes > 1;
}

static const char *what_for(const struct hm_class *c) {
    return hm_is_pass(c)              ? "who is slow in them"
           : hm_is_point_to_point(c)  ? "slow links, and when data left or arrived there"
           : c->kind == HM_COLLECTIVE ? "waiting in them, and slow links"
                                      : "how long they take there";
}

static const char *one(struct hm_diagnoser *d, const struct hm_class *c) {
    const struct hm_profile *p = &d->p;
    const struct hm_job *m = p->t->job;
    size_t with = 0, without = 0, last = 0;
    for (size_t s = 0; s < p->stages; s++) {
        bool any = false, has = false;
        for (size_t i = 0; i < m->n_slots; i++) {
            if (m->slot[i].stage != s) continue;
            any = true;
            has |= hm_class_of(m, i) == c;
        }
        if (!any || !belongs(p, c, s)) continue;
        if (!has) last = s;
        *(has ? &with : &without) += 1;
    }
    if (!with && !without) return NULL;
    if (!with) return is_needed(p, c) ? hm_box_text(d->box, "no %s recorded: %s", c->name, what_for(c)) : NULL;
    if (!without) return NULL;
    if (without == 1) return hm_box_text(d->box, "no %s recorded on stage %zu: %s", c->name, last, what_for(c));
    return hm_box_text(d->box, "no %s recorded on %zu stages: %s", c->name, without, what_for(c));
}

size_t hm_list_missing(struct hm_diagnoser *d, const char **list, size_t most) {
    const struct hm_job *m = d->t->job;
    size_t n = 0;
    if (m->own_classes) return 0; /* roles of another kind of job differ in what they run */
    for (size_t k = 0; k < m->n_classes && n < most; k++) {
        if (m->unplaced >> (k & 31) & 1) continue; /* said elsewhere */
        const char *line = one(d, &m->cls[k]);
        if (line) list[n++] = line;
    }
    return n;
}
