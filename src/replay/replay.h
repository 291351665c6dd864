/* replay.h - when everything happens: durations in, step ends out. Knows nothing of causes, files or people.
 *
 * start(op) = latest end of what it waits for (0 if nothing); a compute op ends start + duration; the ops of a group
 * end at the group's latest start + their own transfer duration. (spec "Replay"; OSDI 2025, section 3.)
 *
 * Eight steps are one vector. The durations of one replica in a block of eight steps lie in the order in which the
 * program uses them: [block][lane][slot][8]. A lane is a replica. */
#ifndef HM_REPLAY_H
#define HM_REPLAY_H

#include "job/job.h"

/* ---- the grid: recorded times, dense ---- */

struct hm_outside;

struct hm_grid {
    size_t steps, blocks, lanes, slots;
    double *duration; /* [block][lane][slot][8]: durations of compute, transfer durations of communication; 0 beyond the
                         last step */
    double *start;    /* same shape: recorded start, seconds from the step's start; NULL once released */
    double *actual_s; /* [step] recorded step time: latest end - earliest start of any op */
    bool spilled;     /* the arrays lie in a file: let go of blocks when done with them (hm_grid_release) */
    size_t bytes;     /* of duration, and of start */
    struct hm_outside *outside; /* what was recorded of replicas that were left out; NULL: nothing */
    size_t negative_zeroed;     /* transfers of -10 ms or less, taken as 0: clocks apart */
};

/* Fills the grid from a recording: op durations first, then transfer durations for groups. A recording that was only surveyed is read
 * straight into the arrays; returns 1 if it turns out not to be complete. A settled one is placed from its rows; if they do not fit in
 * memory, group by group, and the arrays lie in a file in $TMPDIR (or /tmp). */
int hm_grid_fill(struct hm_grid *g, struct hm_recording *r, const struct hm_job *m, int threads, struct hm_error *err);
/* Done with `lanes` lanes of a block for now: their pages may leave memory if the grid is spilled. */
void hm_grid_release(const struct hm_grid *g, size_t block, size_t lane, size_t lanes);
void hm_grid_free(struct hm_grid *g);

static inline double *hm_grid_lane(const struct hm_grid *g, double *base, size_t block, size_t lane) {
    return base + (block * g->lanes + lane) * g->slots * HM_WIDTH;
}
/* Steps in that block: 8, or fewer in the last one. */
static inline size_t hm_grid_width(const struct hm_grid *g, size_t block) {
    return g->steps - block * HM_WIDTH < HM_WIDTH ? g->steps - block * HM_WIDTH : HM_WIDTH;
}

/* ---- replicas that were left out (outside.c) ---- */

/* They are no lanes, but members of the groups over all replicas: the others wait for them. And they compute, fast or slow. */
struct hm_outside {
    size_t n, stages, blocks;
    uint32_t *dp_rank; /* [n] ascending */
    /* [across][block][8] latest recorded launch among them, seconds from the step's start; -infinity: none. And whose: 0 to n - 1. */
    double *launch_s;
    uint32_t *whose;
    /* [(i * stages + stage) * 2 + backward] its computes in all steps that were kept: how long in all, and how many. Whole numbers: rows come
     * in any order. */
    uint64_t *pass_ns, *passes;
};
/* An op of class `type` is a forward (0), a backward (1), or neither (-1). */
int hm_direction(const struct hm_job *m, uint32_t type);
/* Room for the replicas that settling left out, if any has rows; 0, or -1 without memory. */
int hm_outside_begin(struct hm_grid *g, const struct hm_recording *r, const struct hm_job *m);
/* Takes their rows among those that are loaded; d: the places of the ops. 0, or -1 without memory. */
int hm_outside_take(struct hm_grid *g, const struct hm_recording *r, const struct hm_job *m, const struct hm_dense *d);
/* Once the block's starts count from the step's earliest one, before waiting is taken off: launches likewise. One that comes after a member
 * was done is of another op. */
void hm_outside_settle(const struct hm_grid *g, const struct hm_job *m, size_t block, const double earliest[HM_WIDTH]);
void hm_outside_free(struct hm_outside *o);
static inline size_t hm_outside_at(const struct hm_outside *o, const struct hm_node *n, size_t block) {
    return ((size_t)n->across * o->blocks + block) * HM_WIDTH;
}

/* ---- when a group's data began to move, as recorded (groups.c) ---- */

/* Works on one block of eight steps at a time. */
struct hm_groups {
    const struct hm_grid *g;
    const struct hm_job *m;
    size_t block;
    double (*latest)[HM_WIDTH]; /* [start]: latest launch of the group */
};
/* 0, or -1 without memory. */
int hm_groups_begin(struct hm_groups *s, const struct hm_grid *g, const struct hm_job *m);
void hm_groups_end(struct hm_groups *s);
/* Looks at all replicas in that block: for one node, or for all. Before hm_group_start of an across node. */
void hm_groups_gather(struct hm_groups *s, size_t block, uint32_t node);
void hm_groups_gather_all(struct hm_groups *s, size_t block);
/* When the node's members in that replica began to move data, or to compute: the latest launch in their group. A transfer whose other side
 * has no record takes the computes that it waits for as the other side's launch. The recorded end is that + the grid's duration. */
void hm_group_start(const struct hm_groups *s, size_t lane, uint32_t node, double start[HM_WIDTH]);

/* ---- the program, compiled ---- */

/* How lanes meet: each lane's group starts. Lanes of one group share its number. */
struct hm_ties {
    size_t starts; /* in all */
    uint32_t **of; /* [lane][across]; NULL: everybody meets everybody, starts are numbered as the across nodes */
    size_t lanes;
};
void hm_ties_free(struct hm_ties *t);
/* The job's own lanes. 0, or -1 without memory. */
int hm_ties_whole(struct hm_ties *t, const struct hm_job *m);
/* When one lane keeps its durations and all others run alike, the others differ only in how they are tied to it: classes of lanes whose
 * members meet, in every family of groups, the same classes. One lane a class then stands for all of them, exactly. ties: of the
 * representatives, the lane itself first; *n: how many. member: [lane] room for each lane's class. 0, or -1 without memory. */
int hm_ties_around(struct hm_ties *t, const struct hm_job *m, size_t lane, uint32_t *member, size_t *n);

struct hm_program;
struct hm_program *hm_program_compile(const struct hm_job *m, struct hm_error *err);
void hm_program_free(struct hm_program *p);

/* What one lane runs with in one block. */
struct hm_view {
    const double *duration; /* the lane's [slot][8]; may be NULL if keep is all 0 */
    const double *fill;     /* [slot][8]: used where keep is 0 */
    const uint8_t *keep;    /* [slot]: 1 from duration, 0 from fill; NULL: all from duration */
};

/* The latest ends of the eight steps: of optimizer ops, and of any op. And the earliest start: what waits for nothing starts at 0, but
 * what follows a transfer of negative duration (clocks apart by less than 10 ms) may start before. */
struct hm_ends {
    double optimizer[HM_WIDTH], any[HM_WIDTH], first[HM_WIDTH];
};
/* The step times: latest end of any op - earliest start, as for the recording. */
static inline void hm_ends_span(const struct hm_ends *ends, size_t width, double *step_s) {
    for (size_t k = 0; k < width; k++) step_s[k] = ends->any[k] - ends->first[k];
}

/* Working memory of one thread, with room for the state of `lanes` lanes. */
struct hm_scratch;
struct hm_scratch *hm_scratch_new(const struct hm_program *p, size_t lanes);
void hm_scratch_free(struct hm_scratch *s);
/* Op instances evaluated with this scratch so far (slots run x steps of a block). */
double hm_scratch_evaluated(const struct hm_scratch *s);

/* A replay has two parts. In the first rounds no lane needs anything from another one, so each lane's part is its own
 * and can be shared by scenarios that differ only in the other lanes: hm_begin runs it for n lanes and leaves their
 * states in the scratch. Then hm_against answers for single lanes among ideal ones (any number of times), and hm_finish
 * for all n lanes together (once: it uses the states up). ends->any and ->first are filled only if want_any was given to hm_begin
 * (it costs an instruction an op). */
void hm_begin(const struct hm_program *p, const struct hm_view *lanes, size_t n, bool want_any, struct hm_scratch *s);
void hm_finish(const struct hm_program *p, const struct hm_view *lanes, size_t n, struct hm_scratch *s,
               struct hm_ends *ends);

/* Lanes given from now on meet as these ties say (NULL: as the job's own lanes do); for classes of lanes. */
void hm_scratch_tie(struct hm_scratch *s, const struct hm_ties *ties);

/* hm_begin and hm_finish: replays n lanes that meet at the across nodes. */
void hm_replay(const struct hm_program *p, const struct hm_view *lanes, size_t n, bool want_any, struct hm_scratch *s,
               struct hm_ends *ends);

/* A lane whose run is remembered round by round, to stand for all replicas that run with the same durations in every
 * step. */
struct hm_lane_run;
struct hm_lane_run *hm_lane_run_new(const struct hm_program *p, const double *fill, struct hm_scratch *s,
                                    struct hm_error *err);
void hm_lane_run_free(struct hm_lane_run *run);
/* The ends when every lane runs like this one. */
const struct hm_ends *hm_lane_run_ends(const struct hm_lane_run *run);

/* The ends when one lane runs among lanes that all run like `rest`. */
void hm_replay_against(const struct hm_program *p, const struct hm_view *lane, const struct hm_lane_run *rest,
                       struct hm_scratch *s, struct hm_ends *ends);

/* The same for lane k of hm_begin's runs: exactly what a replay of all lanes gives, at the price of
 * the rest of one lane, plus the rounds in which `rest` has to wait for it. Takes two lanes, k and k + 1, if `two`
 * (each among `rest` alone, not together): they share the decoding. Fills ends[0], and ends[1] if two; only .optimizer. */
void hm_against(const struct hm_program *p, const struct hm_view *lanes, size_t k, bool two,
                const struct hm_lane_run *rest, struct hm_scratch *s, struct hm_ends *ends);

/* ---- the plain replay: every start and end of one lane set in one step, for timelines and as the reference in tests ---- */

/* duration, start, end: [lane][slot]. launch_delay: same shape or NULL. Straight from the definition, one op at a time. */
void hm_replay_plain(const struct hm_job *m, size_t lanes, const double *duration, double *start, double *end);

#endif
