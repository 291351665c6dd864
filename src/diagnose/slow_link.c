/* slow_link.c - transfers far over the usual of their type: a link between two stages of a replica, or a whole group. */
#include "diagnose.h"

#include <math.h>

enum { NAMED = 16 };

bool hm_recognise_links(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c) {
    if (e->n_links == 0) return false;
    /* ends of slow links as workers; a type is named once */
    struct hm_worker *workers = hm_keep(f, e->n_links, sizeof *workers);
    const char **types = hm_keep(f, HM_OP_TYPES, sizeof *types);
    if (!workers || !types) return false;
    bool seen[HM_OP_TYPES] = {false};
    size_t n = 0, worst = 0;
    for (size_t i = 0; i < e->n_links; i++) {
        const struct hm_link *l = &e->links[i];
        if (l->mean_s - l->ideal_s > e->links[worst].mean_s - e->links[worst].ideal_s) worst = i;
        if (!seen[l->type]) types[c->n_op_types++] = hm_op_types[l->type].name;
        seen[l->type] = true;
        size_t k = 0;
        uint32_t dp = e->t->recording->lanes[l->lane];
        while (k < n && (workers[k].stage != l->stage || workers[k].dp_rank != dp)) k++;
        if (k == n && n < NAMED) workers[n++] = (struct hm_worker){l->stage, dp};
    }
    c->op_types = types;
    c->workers = workers;
    c->n_workers = n;
    const struct hm_link *l = &e->links[worst];
    c->confidence = fmin(0.95, 0.6 + 0.05 * (double)l->steps);
    hm_evidence(f, c, l->mean_s / l->ideal_s, "times", "%s of stage %u dp %u over the usual transfer",
                hm_op_types[l->type].name, l->stage, e->t->recording->lanes[l->lane]);
    hm_evidence(f, c, (double)l->steps, "steps", "in which it took more than twice the usual");
    hm_evidence(f, c, (double)e->n_links, "", "transfers (type, stage, DP rank) that were slow in some step");
    return true;
}
