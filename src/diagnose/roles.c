/* roles.c - the ops of a job by what they do: roles of forwards and backwards, and what else a worker runs by itself. All that the
 * diagnosis of computes knows of op types stands here. */
#include "profile.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Microbatch numbers made dense. A trace without them counts a role's ops. */
static int number_microbatches(struct hm_profile *p, const struct hm_job *m) {
    int32_t *seen = hm_alloc(m->n_slots, sizeof *seen);
    uint32_t *count = hm_alloc(p->roles, sizeof *count);
    size_t n = 0, distinct = 0;
    bool good = seen && count, known = true;
    for (size_t i = 0; i < m->n_slots && good; i++) {
        if (p->role[i] == HM_NONE) continue;
        known &= m->slot[i].mb >= 0;
        seen[n++] = m->slot[i].mb;
    }
    if (good) qsort(seen, n, sizeof *seen, by_value);
    for (size_t i = 0; i < n && good; i++)
        if (i == 0 || seen[i] != seen[distinct - 1]) seen[distinct++] = seen[i];
    for (size_t i = 0; i < m->n_slots && good; i++) {
        if (p->role[i] == HM_NONE) continue;
        const int32_t *at = known ? bsearch(&m->slot[i].mb, seen, distinct, sizeof *seen, by_value) : NULL;
        p->microbatch[i] = at ? (uint32_t)(at - seen) : count[p->role[i]]++;
        if (p->microbatch[i] + 1 > p->microbatches) p->microbatches = p->microbatch[i] + 1;
    }
    hm_free(seen);
    hm_free(count);
    return good ? 0 : -1;
}

static bool is_single(const struct hm_class *c) {
    return c->scope == HM_ALONE && !hm_is_pass(c);
}

/* Ops without a group that are neither forward nor backward, by stage and type. */
static int find_singles(struct hm_profile *p, const struct hm_job *m) {
    p->types = m->n_classes < HM_MASK_BITS ? (uint32_t)m->n_classes : HM_MASK_BITS;
    p->single = hm_alloc(p->stages * p->types, sizeof *p->single);
    p->single_slot = hm_alloc(m->n_slots, sizeof *p->single_slot);
    if (!p->single || !p->single_slot) return -1;
    uint32_t n = 0;
    for (uint32_t stage = 0; stage < p->stages; stage++)
        for (uint32_t type = 0; type < p->types; type++) {
            if (!is_single(&m->cls[type])) continue;
            struct hm_single *s = &p->single[p->n_singles];
            *s = (struct hm_single){type, stage, n, 0};
            for (uint32_t i = 0; i < m->n_slots; i++)
                if (m->slot[i].stage == stage && m->slot[i].cls == type) p->single_slot[n++] = i, s->n_slots++;
            if (s->n_slots) p->n_singles++;
        }
    return 0;
}

int hm_profile_roles(struct hm_profile *p, const struct hm_job *m) {
    p->role = hm_alloc(m->n_slots, sizeof *p->role);
    p->microbatch = hm_alloc(m->n_slots, sizeof *p->microbatch);
    if (!p->role || !p->microbatch) return -1;
    p->chunks = 1;
    for (size_t i = 0; i < m->n_slots; i++)
        if (hm_is_pass(hm_class_of(m, i)) && m->slot[i].mc >= 0 && (size_t)m->slot[i].mc + 1 > p->chunks)
            p->chunks = (size_t)m->slot[i].mc + 1;
    p->roles = p->stages * p->chunks * 2;
    p->rows = p->stages * 2;
    for (size_t i = 0; i < m->n_slots; i++) {
        const struct hm_slot *slot = &m->slot[i];
        size_t chunk = slot->mc > 0 ? (size_t)slot->mc : 0;
        p->role[i] = hm_is_pass(hm_class_of(m, i))
                         ? hm_role(p, slot->stage, chunk, hm_class_of(m, i)->phase == HM_BACKWARD)
                         : HM_NONE;
    }
    if (number_microbatches(p, m) != 0 || find_singles(p, m) != 0) return -1;
    p->slot = hm_alloc(p->roles * p->microbatches, sizeof *p->slot);
    if (!p->slot) return -1;
    for (size_t k = 0; k < p->roles * p->microbatches; k++) p->slot[k] = HM_NONE;
    for (uint32_t i = 0; i < m->n_slots; i++) {
        if (p->role[i] == HM_NONE) continue;
        uint32_t *at = &p->slot[p->role[i] * p->microbatches + p->microbatch[i]];
        if (*at == HM_NONE)
            *at = i;
        else
            p->role[i] = HM_NONE; /* a second pass over the same microbatch is not compared with anything */
    }
    for (size_t s = 0; s < p->stages; s++) {
        bool any = false;
        for (size_t k = hm_role(p, s, 0, 0) * p->microbatches; k < hm_role(p, s + 1, 0, 0) * p->microbatches; k++)
            any |= p->slot[k] != HM_NONE;
        p->recorded += any;
    }
    p->whole = p->recorded == m->model_stages;
    return 0;
}
