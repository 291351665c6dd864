/* edges.h - the dependency rules of pipeline training as edges between the ops of one replica in one step. */
#ifndef HM_EDGES_H
#define HM_EDGES_H

#include "model.h"

struct hm_edge {
    uint32_t after, before; /* ops: `after` waits for `before` */
};

struct hm_edges {
    const struct hm_ref_op *op;
    size_t n;
    uint32_t *group; /* [op] lowest op of its group */
    bool *across;    /* [op] its group spans all replicas */
    bool *
        lonely; /* [op] a transfer whose other side has no record: the computes it waits for tell when that side was ready */
    struct hm_edge *edge;
    size_t n_edges, capacity;
    bool uses_dp, overlapped, failed;
};

/* 0, or -1 without memory. */
int hm_edges_build(struct hm_edges *e, const struct hm_ref_op *ops, size_t n, int64_t dp_size);
void hm_edges_free(struct hm_edges *e);

#endif
