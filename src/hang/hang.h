/* hang.h - what a set of dumps says together: ranks, groups, and each rank's place in each collective. Filled by gather.c,
 * judged by judge.c. */
#ifndef HM_HANG_H
#define HM_HANG_H

#include "base/base.h"
#include "hindmost/hang.h"
#include "trace/flight_recorder.h"

enum { NO_INDEX = -1 };

/* A process group of one library: the same name with other members is another group. Ranks are indices into scene.rank. */
struct group {
    const char *library, *name, *description;
    uint64_t hash;
    int *member; /* in the order of the group's own ranks */
    size_t n_members;
    bool ascending; /* as nearly always: found by halving */
    bool has_p2p;
};

/* One entry of one rank. */
struct item {
    const struct hm_flight_entry *entry;
    int group, rank; /* index of the rank */
    int64_t seq;     /* the collective's number, or the send's or receive's own */
    int part;        /* several entries of one rank can share a number (coalesced): 0, 1, ... */
    bool p2p;
    bool open; /* put in line and not known to be done */
};

/* What a rank is known to have reached in a group. */
struct place {
    int64_t enqueued, completed; /* last collective; -1: not known */
    bool seen;
};

struct rank_state {
    int number;
    bool has_dump;
    size_t n_entries, n_open;
    size_t first_open; /* its earliest open item; SIZE_MAX: none */
};

struct scene {
    struct hm_flight_dump **dump;
    size_t n_dumps, dump_capacity;
    struct rank_state *rank; /* by number, ascending */
    size_t n_ranks;
    struct group *group;
    size_t n_groups;
    struct item *item; /* by group, kind, number, part, rank */
    size_t n_items;
    struct place *place; /* [group's first place + position of the member] */
    size_t *first_place; /* of each group */
    int64_t last_ns;     /* the latest stamp in all dumps */
};

int scene_rank(const struct scene *s, int number); /* index; NO_INDEX: unknown */
/* Position of a rank among a group's members; NO_INDEX: it is none. */
int group_position(const struct group *g, int rank);

/* Puts the dumps together. */
int scene_gather(struct scene *s, struct hm_error *err);
void scene_free(struct scene *s);

/* Appends a line, which the list then owns; NULL is "no memory". */
int hang_add_line(char ***lines, size_t *n, char *line, struct hm_error *err);

/* Fills the verdict. */
int hang_judge(const struct scene *s, struct hm_hang *hang, struct hm_error *err);
/* Members of one collective that ask for different things. */
int hang_find_mismatches(const struct scene *s, struct hm_hang *hang, struct hm_error *err);
/* Ranks that usually come late, as far as completed collectives show; late_s has one number a rank (0: not late). */
int hang_find_late(const struct scene *s, struct hm_hang *hang, double *late_s, struct hm_error *err);

#endif
