/* explain.h - who is slow, from when to when: all levels of a job explained together. */
#ifndef HM_EXPLAIN_H
#define HM_EXPLAIN_H

#include "usual.h"
#include "windows.h"

/* An explanation: level[row][lane][step] = usual[row] + what the effects of the replica add + what its rows share + noise. */
struct hm_explanation {
    double *usual;            /* [row] */
    size_t most;              /* effects a replica may have */
    struct hm_effect *effect; /* [lane][most] of workers, or of one direction of a replica */
    size_t *n_effects;        /* [lane] */
    double *added;            /* [row][lane][step] the effects summed up */
    struct hm_paces paces;    /* replicas as a whole */
    double
        margin; /* by how much the next best explanation is worse, in squared standard errors; infinity: only one was looked at */
};

/* Explains the levels of a profile, which must have computes; p->work then is what the microbatches hold besides. 0, or -1 without
 * memory. */
int hm_explain(struct hm_explanation *e, struct hm_profile *p);
void hm_explanation_free(struct hm_explanation *e);

#endif
