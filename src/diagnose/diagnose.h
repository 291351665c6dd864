/* diagnose.h - why a job straggles: its compute times taken apart into effects, causes recognised in them, fixes priced by replay.
 *
 * A compute op's duration is taken as a product (docs/diagnosis.md):
 *
 *     mean of its (type, stage, chunk)  x  replica effect  x  worker effect  x  rest
 *
 * where the rest holds what differs from microbatch to microbatch: sequence lengths, garbage collections, noise. A cause is named if its
 * part shows the cause's signature and if a replay with only that part made neutral wins time back. */
#ifndef HM_DIAGNOSE_H
#define HM_DIAGNOSE_H

#include "whatif/whatif.h"

#include <pthread.h>

/* Parts that a replay can make neutral. */
enum hm_part {
    HM_PART_WORKERS = 1,   /* the worker effects of flagged workers */
    HM_PART_STAGES = 2,    /* stage means made equal */
    HM_PART_SEQUENCES = 4, /* the rest of every compute op but isolated spikes */
    HM_PART_SPIKES = 8,    /* isolated long forwards */
    HM_PART_LINKS = 16,    /* transfers of flagged links and groups */
    HM_PART_REPLICAS = 32, /* the replica effects of flagged replicas */
    HM_PART_LOADING = 64   /* only with launch delays: late first forwards */
};

/* An isolated long forward. */
struct hm_spike {
    uint32_t stage, lane, step, slot;
    double duration_s, expected_s;
};

/* Transfers of one direction between two stages of one replica, or of one DP-wide collective of a stage (lane UINT32_MAX). */
struct hm_link {
    uint32_t type, stage, lane;
    double mean_s, ideal_s;
    uint32_t steps; /* in how many steps it was slow */
};

struct hm_effects {
    struct hm_trace *t;
    int threads;
    size_t stages, lanes, steps, chunks, slots;
    uint32_t *partner;  /* [slot] the backward of a forward and the other way round; UINT32_MAX: none */
    uint32_t *class_of; /* [slot] (type, stage, chunk) of a compute op; UINT32_MAX: not compute */
    size_t classes;
    double *typical;      /* [class] median duration */
    double *mean;         /* [class] mean without spikes, replica and worker effects */
    float *ratio;         /* [stage][lane][step] median of duration / typical over the worker's computes in the step */
    float *low;           /* same shape: lower quartile */
    double *replica;      /* [lane] what all stages of a replica share, over all steps; about 1 */
    double *worker;       /* [stage][lane] mean over steps of what is the worker's own; about 1 */
    double *floor;        /* [stage][lane] the same of the lower quartiles */
    double *floor_noise;  /* [stage] */
    double *center;       /* [stage] what a usual worker of the stage shows before it is taken relative to its peers */
    double *worker_noise; /* [stage] robust deviation of the worker effects among the stage's workers */
    double *
        stage_scale; /* [2][stage] factor that makes the stage's mean time a microbatch the average one; forward, backward */
    double *stage_work;  /* [stage] forward + backward time a microbatch, over the mean of the other stages */
    bool *slow_worker;   /* [stage][lane] */
    bool *slow_replica;  /* [lane] */
    double *common;      /* [stage] relative deviation that forward and backward of a microbatch share */
    double *correlation; /* [stage] of forward and backward of a microbatch */
    double *variation;   /* [stage] coefficient of variation of the forwards' rest */
    struct hm_spike *spikes;
    size_t n_spikes, spike_capacity;
    struct hm_link *links;
    size_t n_links, link_capacity;
    double *loading; /* [lane][step] launch delay of the replica's first forward on stage 0, seconds */
};

int hm_effects_estimate(struct hm_effects *e, struct hm_trace *t, int threads, struct hm_error *err);
void hm_effects_free(struct hm_effects *e);

/* The factor by which worker (stage, lane) was slower than it should in that step: >= 1. */
double hm_worker_factor(const struct hm_effects *e, size_t stage, size_t lane, size_t step);

/* Mean step time (latest end of any op) of a replay with these parts neutral. NaN without memory. */
double hm_replay_without(const struct hm_effects *e, unsigned parts);
/* The same of any durations: edit(context, block, lane, durations[slot][8]) changes a copy of the lane's durations. */
typedef void (*hm_edit_fn)(void *context, size_t block, size_t lane, double *durations);
double hm_replay_edited(const struct hm_effects *e, hm_edit_fn edit, void *context);

/* ---- building the result ---- */

struct hm_findings; /* owns everything that the diagnosis points to */
void *hm_keep(struct hm_findings *f, size_t count, size_t size);
char *hm_keep_text(struct hm_findings *f, const char *format, ...) HM_PRINTF(2, 3);

/* Adds a figure to a cause; `name` is formatted. Returns the entry, for a plot's points, or NULL. */
struct hm_evidence *hm_evidence(struct hm_findings *f, struct hm_cause *c, double value, const char *unit,
                                const char *name, ...) HM_PRINTF(5, 6);

/* A cause: recognises itself in the effects and fills `cause` (all but recovers). False: not there. */
struct hm_cause_rule {
    const char *name;
    unsigned part;
    bool (*recognise)(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *cause);
};
extern const struct hm_cause_rule hm_cause_rules[]; /* ends with a NULL name */

bool hm_recognise_workers(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c);
bool hm_recognise_stages(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c);
bool hm_recognise_sequences(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c);
bool hm_recognise_collections(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c);
bool hm_recognise_links(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c);
bool hm_recognise_loading(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c);
bool hm_recognise_replicas(const struct hm_effects *e, struct hm_findings *f, struct hm_cause *c);

/* Prices fixes for the named parts into f. 0, or -1 without memory. */
int hm_price_fixes(const struct hm_effects *e, const struct hm_analysis *a, unsigned parts, struct hm_findings *f);
int hm_add_fix(struct hm_findings *f, const char *fix, double step_s, double speedup, const char *how);

#endif
