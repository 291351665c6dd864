/* diagnose.h - why a job straggles: one file a cause, a table of them, and what they share.
 *
 * A cause is found in two steps. Its file looks for its signature in the recorded durations, notes the figures, and
 * remembers what the job would look like without it (find, idealise). Then the job is replayed with that alone
 * idealised: what this wins back is `recovers`, and a cause that wins back nothing is not named. */
#ifndef HM_DIAGNOSE_H
#define HM_DIAGNOSE_H

#include "explain.h"
#include "whatif/scenario.h"

/* In the order in which they are looked for: what one finds, the later ones leave out of their statistics. */
enum hm_cause_kind {
    HM_SLOW_WORKER,
    HM_REPLICA_IMBALANCE,
    HM_GARBAGE_COLLECTION,
    HM_SEQUENCE_LENGTH,
    HM_STAGE_IMBALANCE,
    HM_SLOW_LINK,
    HM_DATA_LOADING,
    HM_CAUSES
};
enum { HM_ALL_CAUSES = (1 << HM_CAUSES) - 1 };

struct hm_pause { /* a forward that stood still */
    uint32_t lane, slot, step;
    double excess_s;
};

/* A worker or replica that is slow: HM_ALL_STAGES is the replica. */
struct hm_slow_place {
    int32_t stage;
    uint32_t lane, part; /* part: which finding names it; those slow at the same time in the same ops share one */
    uint32_t ops;        /* bit of each op type */
    size_t n_steps;
    double excess,
        sigmas; /* own compute time over that of its peers - 1, in those steps; how far that is from chance */
};

struct hm_diagnoser {
    const struct hm_trace *t;
    const struct hm_analysis *a;
    struct hm_profile p;
    struct hm_scenarios s;
    struct hm_diagnosis_box *box;
    double lost_s;      /* T - T_ideal, and the waits that replays leave out */
    double late_data_s; /* what data-loading costs, once it is named */

    /* What the causes found. NULL or empty: nothing. */
    size_t n_warm_up; /* steps at the beginning */
    struct hm_explanation e;
    double *worker;              /* [row][lane][step] what slow workers add to the logarithm of their computes */
    double *replica;             /* the same of slow replicas */
    double *single;              /* [single][lane][step] the same of a worker's other ops */
    struct hm_slow_place *place; /* workers first, then replicas; the worst of each first */
    size_t n_places;
    uint8_t *spared; /* [stage][lane], then [lane] of replicas: left as it is for now (prices of single places) */
    struct hm_pause *pause; /* by lane */
    size_t n_pauses, pause_capacity;
    uint8_t *paused; /* [lane][role / 2][microbatch][step] */
    double *load;    /* [lane][microbatch][step] what there is to do, in units of the usual */
    double mean_load;
    double *slope_s;    /* [role] seconds for each unit of load */
    double *load_s;     /* [stage] forward + backward of a microbatch, all chunks, without what was found before */
    double *even;       /* [role] factor that makes the stages equal */
    uint8_t *slow_link; /* [lane][slot] transfers to be made usual */
    double *usual_transfer_s; /* [peers] */
    double *wait_s;           /* [lane][stage][step] launch delay before the first forward, beyond the usual */
    uint32_t *first_forward;  /* [stage] slot, HM_NONE: none */
    unsigned found;           /* bit of each cause that was found */
};

/* A cause being described. The arrays of `cause` are the box's. */
struct hm_finding {
    struct hm_cause cause;
    struct hm_diagnoser *d;
    struct hm_evidence *evidence;
    size_t capacity;
    double strength; /* 0 to 1: how clear the signature is */
};

struct hm_cause_rule {
    const char *name;
    /* 1: there are signs of it; 0: no; -1: no memory. */
    int (*find)(struct hm_diagnoser *d, struct hm_finding *f);
    /* Takes it out of one replica's durations in a block; NULL: replays do not hold it anyway. */
    void (*idealise)(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration);
    /* Describes the places of one part (slow places only: there may be several findings of one kind). */
    void (*describe)(const struct hm_diagnoser *d, uint32_t part, struct hm_finding *f);
};
extern const struct hm_cause_rule hm_cause_rules[HM_CAUSES];

int hm_find_slow_workers(struct hm_diagnoser *d, struct hm_finding *f);
int hm_find_replica_imbalance(struct hm_diagnoser *d, struct hm_finding *f);
int hm_find_garbage_collection(struct hm_diagnoser *d, struct hm_finding *f);
int hm_find_sequence_length(struct hm_diagnoser *d, struct hm_finding *f);
int hm_find_stage_imbalance(struct hm_diagnoser *d, struct hm_finding *f);
int hm_find_slow_links(struct hm_diagnoser *d, struct hm_finding *f);
int hm_find_data_loading(struct hm_diagnoser *d, struct hm_finding *f);
void hm_describe_workers(const struct hm_diagnoser *d, uint32_t part, struct hm_finding *f);
void hm_describe_replicas(const struct hm_diagnoser *d, uint32_t part, struct hm_finding *f);
void hm_idealise_workers(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration);
void hm_idealise_replicas(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration);
void hm_idealise_pauses(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration);
void hm_idealise_sequences(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration);
void hm_idealise_stages(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration);
void hm_idealise_links(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration);
/* Data loading is not in a replay: this adds the recorded waits. */
void hm_add_waits(const struct hm_diagnoser *d, size_t block, size_t lane, double *duration);

/* The link inside a replica that a slot's op uses: e joins stage e and the next, n_stages the first and the last
 * (embedding all-reduce); HM_NONE: none. */
uint32_t hm_edge_of(const struct hm_job *m, uint32_t slot);

/* A worker's slowness in a step as found, 0 if it is not slow. */
static inline double hm_slowness(const struct hm_diagnoser *d, size_t stage, int backward, size_t lane, size_t step) {
    return d->worker ? d->worker[((stage * 2 + (size_t)backward) * d->p.lanes + lane) * d->p.steps + step] : 0;
}
/* ... and what its replica adds. */
static inline double hm_all_slowness(const struct hm_diagnoser *d, size_t row, size_t lane, size_t step) {
    size_t at = (row * d->p.lanes + lane) * d->p.steps + step;
    return (d->worker ? d->worker[at] : 0) + (d->replica ? d->replica[at] : 0);
}
/* Counts the steps of a warm-up and takes them out of the levels; lists what the recording cannot show (limits.c). 0, or -1 without
 * memory. */
int hm_find_warm_up(struct hm_diagnoser *d);
int hm_list_limits(struct hm_diagnoser *d);
/* Op types that were recorded nowhere, or not on some stages, into list, up to `most` lines (missing_ops.c). How many. */
size_t hm_list_missing(struct hm_diagnoser *d, const char **list, size_t most);
/* Finds slow places (places.c): fills worker, replica, single, place. 0, or -1 without memory. */
int hm_find_places(struct hm_diagnoser *d);
/* Drops a place: its worker or replica is as its peers from now on. */
void hm_drop_place(struct hm_diagnoser *d, size_t index);
/* The work of the microbatches again, with all that is slow taken off. 0, or -1 without memory. */
int hm_refit_work(struct hm_diagnoser *d);
/* Which places share a finding: place[].part. */
void hm_group_places(struct hm_diagnoser *d);
static inline uint8_t *hm_spared(const struct hm_diagnoser *d, int32_t stage, size_t lane) {
    return d->spared + (stage == HM_ALL_STAGES ? d->p.stages : (size_t)stage) * d->p.lanes + lane;
}
/* Takes one slow worker out of a replica's durations in a block. */
void hm_mend_worker(const struct hm_diagnoser *d, size_t block, size_t stage, size_t lane, double *duration);
static inline uint8_t *hm_paused(const struct hm_diagnoser *d, size_t lane, uint32_t role, size_t mb) {
    size_t pairs = d->p.roles / 2;
    return d->paused + ((lane * pairs + role / 2) * d->p.microbatches + mb) * d->p.steps;
}
/* A compute's duration without the slow workers and replicas found so far; NaN for a forward that paused. */
double hm_cleaned_s(const struct hm_diagnoser *d, size_t lane, uint32_t role, size_t mb, size_t step);

/* Appends who of the replicas that were left out is waited for (left_out.c), up to `most` causes. 0, or -1 without memory. */
int hm_name_left_out(struct hm_diagnoser *d, struct hm_cause *list, size_t *n, size_t most);
/* The mean step time with the causes whose bits are set idealised. */
double hm_without_s(struct hm_diagnoser *d, unsigned causes);

/* What a step loses in all; 0 rather than a negative trifle. */
static inline double hm_total_lost_s(const struct hm_analysis *a) {
    double lost_s = a->lost.stragglers_s + a->lost.launch_waits_s + a->lost.left_out_waits_s;
    return lost_s > 0 ? lost_s : 0;
}

/* How far the replay is from the recording, but for waiting for replicas that were left out, which it cannot hold. */
static inline double hm_unaccounted(const struct hm_analysis *a) {
    return a->discrepancy - a->lost.left_out_waits_s / a->replayed_s;
}

/* ---- notes (notes.c): everything that a diagnosis owns ---- */

struct hm_diagnosis_box {
    struct hm_diagnosis d;
    void **owned;
    size_t n_owned, capacity;
    bool failed; /* an allocation failed */
};
/* Zeroed memory that lives as long as the diagnosis; NULL without memory, and box->failed. */
void *hm_box_alloc(struct hm_diagnosis_box *box, size_t count, size_t size);
/* printf into such memory; "" without memory. */
const char *hm_box_text(struct hm_diagnosis_box *box, const char *format, ...) HM_PRINTF(2, 3);
/* One figure of evidence, its name printf-formatted. */
void hm_note(struct hm_finding *f, double value, const char *unit, const char *format, ...) HM_PRINTF(4, 5);
/* A figure with n points (at most 400 are kept, evenly spread). x and y are copied. */
void hm_note_plot(struct hm_finding *f, const char *name, double value, const char *unit, const char *x_label,
                  const char *y_label, const double *x, const double *y, size_t n);
/* Places; they grow one by one. */
void hm_at_worker(struct hm_finding *f, size_t stage, size_t lane);
void hm_at_stage(struct hm_finding *f, size_t stage);
void hm_at_dp_rank(struct hm_finding *f, size_t lane);
void hm_at_step(struct hm_finding *f, size_t step);
void hm_at_op_type(struct hm_finding *f, uint32_t cls);
void hm_at_pass(struct hm_finding *f, enum hm_phase phase); /* the forward or backward computes */
/* The steps named so far as ranges, once all are. */
void hm_range_steps(struct hm_finding *f);

#endif
