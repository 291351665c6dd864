/* edges.h - what a builder of jobs fills: the ops of one lane in one step, what each waits for, and who moves data together. */
#ifndef HM_EDGES_H
#define HM_EDGES_H

#include "job.h"

struct hm_edge {
    uint32_t after, before; /* ops: `after` waits for `before` */
};

struct hm_edges {
    const struct hm_ref_op *op; /* [n] type: index of the class */
    size_t n;
    uint32_t *group;     /* [op] lowest op of its group */
    bool *across;        /* [op] its group spans lanes ... */
    uint32_t *partition; /* ... [op] in the blocks of that partition; NULL: everybody */
    uint32_t *stream;    /* [op]; NULL: all 0 */
    uint32_t *peers;     /* [op]; NULL: those of a class are peers */
    /* [op] a transfer whose other side has no record: the computes it waits for tell when that side was ready */
    bool *lonely;
    struct hm_edge *edge;
    size_t n_edges, capacity;
    bool failed; /* out of memory */
};

/* Room for n ops, each alone in its group. 0, or -1 without memory. */
int hm_edges_begin(struct hm_edges *e, const struct hm_ref_op *ops, size_t n);
/* `after` waits for `before`. */
void hm_edges_wait(struct hm_edges *e, uint32_t after, uint32_t before);
/* x and y move data together. Groups of more than two: join each with the same one. */
void hm_edges_join(struct hm_edges *e, uint32_t x, uint32_t y);
void hm_edges_free(struct hm_edges *e);

/* From edges to the program of `job`, whose classes are filled. 0 or -1. */
int hm_job_assemble(struct hm_job *job, const struct hm_edges *e, const char *path, struct hm_error *err);

#endif
