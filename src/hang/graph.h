/* graph.h - which collective holds up each rank, who is absent from it, and who keeps most others waiting. */
#ifndef HM_HANG_GRAPH_H
#define HM_HANG_GRAPH_H

#include "hang.h"

/* A collective that somebody has in line, or one rank's send or receive. */
struct knot {
    size_t first, end; /* its items */
    int *absent;       /* ranks */
    size_t n_absent;
    int *held; /* came, but held up by something earlier */
    size_t n_held;
    size_t n_open, n_past;
    size_t n_waiting; /* ranks that it holds up */
    bool missing;     /* who is absent has no dump */
};

struct graph {
    const struct scene *s;
    struct knot *knot;
    size_t n_knots, capacity;
    int *blocked_by;   /* of each rank: the knot that holds it up; NO_INDEX */
    size_t *past_open; /* of each rank: entries in line that others have finished */
    bool *alone;       /* of each rank: held up by what others have finished */
};

/* Who is waited for and waits for nobody outside its circle. */
struct roots {
    size_t *n_victims;   /* of each rank: how many wait for it; 0 if it waits for others itself */
    int *circle;         /* of each rank: the ranks that wait for each other have the same */
    size_t *circle_size; /* of each circle */
};

int graph_build(struct graph *g, struct hm_error *err);
int graph_find_roots(const struct graph *g, struct roots *roots, struct hm_error *err);
void graph_free(struct graph *g);
void roots_free(struct roots *roots);

#endif
