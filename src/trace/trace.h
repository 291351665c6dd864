/* trace.h - what happened: a recording as rows, checked and laid out as a complete grid of replicas and steps.
 *
 * A reader fills places that hm_rows_reserve gave it, from several threads at once. hm_recording_settle then looks
 * at the cells of the grid (one cell: all ops of one replica, a DP rank, in one step), finds the op set most cells
 * agree on, repairs what it can (exact duplicates, numbering), and chooses the replicas and steps to keep so that every
 * kept cell is complete. What is left out is counted and named in `dropped`. After that the rest of the house trusts
 * the rows. */
#ifndef HM_TRACE_H
#define HM_TRACE_H

#include "base/base.h"
#include "op_types.h"

/* One recorded op. The key packs where it belongs; fields are compared and sorted as one number. */
struct hm_row {
    uint64_t key;
    double start_s, duration_s;
};
enum { HM_STEP_BITS = 21 };
enum { HM_DP_BITS = 14, HM_STAGE_BITS = 8, HM_TYPE_BITS = 4, HM_SEQ_BITS = 17 };
enum { HM_MAX_DP = 1 << HM_DP_BITS, HM_MAX_STAGES = 1 << HM_STAGE_BITS, HM_MAX_SEQ = 1 << HM_SEQ_BITS };
enum { HM_MAX_CHUNKS = 1 << 12 }; /* model chunks of a stage: there are never more than layers */
/* Ops of one replica in one step: 64 stages with 4 chunks and 512 microbatches have 0.8 million. */
enum { HM_MAX_CELL_OPS = 1 << 20 };
#define HM_KEY_DEAD UINT64_MAX /* a row that was left out */

/* Seconds that a clock can show: 1e18 ns since 1970 pass, 1e300 does not. */
static inline bool hm_is_time(double s) {
    return s > -1e20 && s < 1e20;
}

static inline uint64_t hm_key(uint32_t step, uint32_t dp, uint32_t stage, uint32_t type, uint32_t seq) {
    return ((((uint64_t)step << HM_DP_BITS | dp) << HM_STAGE_BITS | stage) << HM_TYPE_BITS | type) << HM_SEQ_BITS | seq;
}
static inline uint32_t hm_key_seq(uint64_t key) {
    return key & (HM_MAX_SEQ - 1);
}
static inline uint32_t hm_key_type(uint64_t key) {
    return key >> HM_SEQ_BITS & ((1 << HM_TYPE_BITS) - 1);
}
static inline uint32_t hm_key_stage(uint64_t key) {
    return key >> (HM_SEQ_BITS + HM_TYPE_BITS) & (HM_MAX_STAGES - 1);
}
static inline uint32_t hm_key_dp(uint64_t key) {
    return key >> (HM_SEQ_BITS + HM_TYPE_BITS + HM_STAGE_BITS) & (HM_MAX_DP - 1);
}
static inline uint32_t hm_key_step(uint64_t key) {
    return (uint32_t)(key >> (HM_SEQ_BITS + HM_TYPE_BITS + HM_STAGE_BITS + HM_DP_BITS));
}
/* stage, type and seq: the op within its cell. */
static inline uint32_t hm_key_op(uint64_t key) {
    return key & (((uint64_t)1 << (HM_SEQ_BITS + HM_TYPE_BITS + HM_STAGE_BITS)) - 1);
}

/* Rows in blocks, so that several threads append without moving what is there. */
enum { HM_BLOCK_ROWS = 1 << 20 };
struct hm_rows {
    struct hm_row **block;
    size_t blocks, capacity; /* blocks in use, room for block pointers */
    _Atomic size_t count;    /* rows reserved */
};
/* Loops over rows are cut into pieces of that many; a piece lies within one block. */
enum { HM_PIECE_ROWS = 1 << 16 };
struct hm_piece {
    struct hm_row *row;
    size_t n;
};

/* One op of the reference cell, with the columns only the model needs. */
struct hm_ref_op {
    uint32_t stage, type, seq;
    int32_t mc, mb, gmc;
    double start_s, end_s;
};

/* Where rows of known ops go: dense arrays [block of HM_WIDTH steps][lane][step in block][slot], filled by readers or from the row
 * store. (Replays want the steps innermost; but rows come step by step, and would then touch every cache line once a step. The grid
 * turns each lane's block around when all rows are in.) */
enum { HM_WIDTH = 8 };
struct hm_dense {
    size_t stages, slots, lanes, steps;
    const uint32_t *first; /* [stage * HM_OP_TYPES + type], and one behind the last */
    const uint32_t *slot;  /* [first + seq]; UINT32_MAX: no such op */
    double *start, *duration;
    /* Only while reading straight into the arrays: */
    const int64_t *step;     /* [steps] step numbers, ascending */
    uint64_t *hash;          /* [slot] hm_op_hash */
    _Atomic uint64_t *sum;   /* [step * lanes + lane] of the hashes of what arrived in the cell */
    _Atomic uint32_t *count; /* same shape: ops that arrived */
    _Atomic bool stray;      /* a row that has no place */
};

/* The slot of an op (type < HM_OP_TYPES); UINT32_MAX if there is none. */
static inline uint32_t hm_dense_slot(const struct hm_dense *d, uint32_t stage, uint32_t type, uint32_t seq) {
    if (stage >= d->stages) return UINT32_MAX;
    const uint32_t *first = d->first + (size_t)stage * HM_OP_TYPES + type;
    return seq < first[1] - first[0] ? d->slot[first[0] + seq] : UINT32_MAX;
}
/* Index into the arrays of slot 0 in that step and lane. */
static inline size_t hm_dense_cell(const struct hm_dense *d, size_t step, size_t lane) {
    return ((step / HM_WIDTH * d->lanes + lane) * HM_WIDTH + step % HM_WIDTH) * d->slots;
}

/* A column of a batch of rows: signed integers of 1, 2, 4 or 8 bytes; times are floats or doubles. No value is missing. */
struct hm_column {
    const void *data;
    int width;
};
enum {
    HM_DENSE_STEP,
    HM_DENSE_DP,
    HM_DENSE_STAGE,
    HM_DENSE_TYPE,
    HM_DENSE_SEQ,
    HM_DENSE_START,
    HM_DENSE_DURATION,
    HM_DENSE_COLUMNS
};
/* Puts n rows where they belong and counts them in their cells, or sets d->stray; thread-safe. Type: a number of op_types.h, or -1. */
void hm_dense_take(struct hm_dense *d, const struct hm_column column[HM_DENSE_COLUMNS], size_t n);

/* What was left out of the analysis, for the report. */
struct hm_dropped {
    char *what; /* "rows", "steps", "dp ranks" */
    size_t count;
    char *why;
};

/* Layout as metadata or the trace itself tells it. 0: not known. */
struct hm_layout {
    char name[128];
    int64_t dp, pp, tp, dsp, vpp, world;
};

/* A recording that fits in memory has one group of steps, whose rows stay. A larger one is read group by group, as
 * often as needed. */
struct hm_group {
    int64_t first_step, last_step;
};

struct hm_recording {
    char *path; /* the name of its inputs */
    struct hm_inputs *inputs;
    struct hm_layout layout;
    struct hm_rows rows; /* of the loaded group */
    struct hm_group *groups;
    bool guessed;                  /* by a survey: the steps are not read but guessed */
    size_t n_groups, loaded, seen; /* loaded: SIZE_MAX if none; seen: groups that were loaded before */
    bool spill;                    /* too large for memory: dense arrays go to a file */
    uint64_t memory_bytes;
    int threads;
    hm_progress_fn progress;
    void *context;
    struct hm_step_table *step_table;
    struct hm_table *table;
    struct hm_settle *settle; /* complete_grid.c's own, needed when groups are loaded again */
    /* Rows of DP rank 0 in the first step seen, with the model's columns, as the reader met them. */
    struct hm_side_row *side;
    size_t sides, side_capacity;

    /* Settled: */
    int64_t *steps; /* step numbers of the kept steps, ascending */
    size_t n_steps;
    uint32_t *lanes; /* DP ranks kept, ascending */
    size_t n_lanes;
    uint32_t *step_index; /* [interned step] -> index into steps, UINT32_MAX if left out; NULL after a mere survey */
    uint32_t *lane_index; /* [dp rank, n_ranked of them] -> index into lanes, UINT32_MAX if left out; likewise */
    size_t n_ranked;
    double *step_start_s;  /* [kept step] earliest start in it, among the kept replicas */
    struct hm_ref_op *ref; /* the reference cell: the first kept replica in the first kept step */
    size_t n_ref;
    struct hm_dropped *dropped;
    size_t n_dropped, dropped_capacity;
    size_t n_kept_drops; /* the first ones, which stay when the rows are read again */
    bool by_start;       /* seq_id does not follow the starts: ops are numbered by start */
    int64_t *impossible; /* step numbers to leave out: they take longer than any step can (hm_recording_refuse_step) */
    size_t n_impossible, impossible_capacity;
};

struct hm_side_row {
    uint64_t key;
    int32_t mc, mb, gmc;
    double start_s, end_s;
};

struct hm_trace_options; /* hindmost.h */

/* Opens a recording in any known format (readers.c), to be read within about memory_bytes (0: half of what this process may use). The
 * names are resolved as inputs.h says; format NULL: the content decides. */
struct hm_recording *hm_recording_open(const char *const *paths, size_t n, const char *format, uint64_t memory_bytes,
                                       int threads, hm_progress_fn progress, void *context, struct hm_error *err);
/* Most recordings are complete: every replica has the same ops in every step. hm_recording_survey looks at one cell and at the steps
 * only and lays the recording out as if it were; hm_recording_read_dense then reads straight into the arrays made for that layout and
 * checks that it is so. Both return 0 if so, 1 if not (nothing is lost: settle instead), -1 on errors. With `guess`, steps that
 * can be evenly spaced from the lowest to the highest are taken to be so, which saves reading them: r->guessed. */
int hm_recording_survey(struct hm_recording *r, bool guess, struct hm_error *err);
int hm_recording_read_dense(struct hm_recording *r, struct hm_dense *d, struct hm_error *err);
/* Forgets a survey, to settle instead. */
void hm_recording_forget(struct hm_recording *r);
/* Reads rows and chooses which replicas and steps to keep; any recording. */
int hm_recording_settle(struct hm_recording *r, struct hm_error *err);
/* The same from the start, once more is known of the recording (by_start). */
int hm_recording_settle_again(struct hm_recording *r, struct hm_error *err);
/* Has settling leave out a step, for an op in it has an impossible time. 0, or -1 without memory. */
int hm_recording_refuse_step(struct hm_recording *r, int64_t step);
/* Completes the layout from metadata (NULL: none) and what was seen. Last. */
int hm_recording_layout(struct hm_recording *r, const char *meta_path, struct hm_error *err);
/* Open and settle and layout in one. */
struct hm_recording *hm_recording_read(const char *path, const char *meta_path, uint64_t memory_bytes, int threads,
                                       hm_progress_fn progress, void *context, struct hm_error *err);
/* Loads the rows of a group, repaired as settled; rows of other groups go. Does nothing if it is loaded. */
int hm_recording_load(struct hm_recording *r, size_t group, struct hm_error *err);
/* The rows, the open file and what settling needed; after the dense arrays are filled. */
void hm_recording_release_rows(struct hm_recording *r);
void hm_recording_free(struct hm_recording *r);

/* What the model will take as it is must make sense: an error if a row of the reference cell's columns does not. */
int hm_recording_check_side(const struct hm_recording *r, const struct hm_side_row *s, struct hm_error *err);
/* Adds an entry to `dropped`; takes a printf-formatted reason. 0, or -1 without memory. */
int hm_drop(struct hm_recording *r, const char *what, size_t count, const char *why, ...) HM_PRINTF(4, 5);

/* ---- for the files of this room ---- */

/* Distinct step numbers, interned from several threads: in the order in which they are met they become 0, 1, 2, ... What is made is sized by
 * the steps there are; the table itself reserves addresses for the most there can be, and touches few of them. */
enum { HM_MOST_STEPS = 1 << (HM_STEP_BITS - 1) };
struct hm_step_table;
struct hm_step_table *hm_step_table_new(void); /* NULL without memory */
void hm_step_table_free(struct hm_step_table *t);
/* The index of a step number (>= 0); UINT32_MAX if there are more than HM_MOST_STEPS. Thread-safe. */
uint32_t hm_step_intern(struct hm_step_table *t, int64_t step);
/* Once no thread adds any more: how many there are, and the number of one. */
size_t hm_steps_interned(const struct hm_step_table *t);
int64_t hm_step_number(const struct hm_step_table *t, uint32_t index);

/* Room for n rows; *first is the index of the first. 0, or -1 without memory. Thread-safe. */
int hm_rows_reserve(struct hm_rows *rows, size_t n, size_t *first);
static inline struct hm_row *hm_rows_at(const struct hm_rows *rows, size_t i) {
    return &rows->block[i / HM_BLOCK_ROWS][i % HM_BLOCK_ROWS];
}
static inline size_t hm_rows_pieces(const struct hm_rows *rows) {
    return (rows->count + HM_PIECE_ROWS - 1) / HM_PIECE_ROWS;
}
static inline struct hm_piece hm_rows_piece(const struct hm_rows *rows, size_t piece) {
    size_t first = piece * HM_PIECE_ROWS, left = rows->count - first;
    return (struct hm_piece){hm_rows_at(rows, first), left < HM_PIECE_ROWS ? left : HM_PIECE_ROWS};
}
void hm_rows_free(struct hm_rows *rows);

/* A table of {step, dp_rank, ...} columns (Parquet, CSV, gzipped CSV) through DuckDB. */
struct hm_table;
struct hm_inputs;
struct hm_table *hm_table_open(const struct hm_inputs *in, int threads,
                               struct hm_error *err); /* `in` must outlive it */
/* The reader's way to it: r->table. */
int hm_table_recording(struct hm_recording *r, const struct hm_inputs *in, struct hm_error *err);
void hm_table_close(struct hm_table *t);
/* Rows in the file; 0 if that is not known before reading (CSV). */
size_t hm_table_rows(const struct hm_table *t);
/* Size of the files. */
uint64_t hm_table_bytes(const struct hm_table *t);
/* Appends the rows with first_step <= step <= last_step to r->rows, interning steps; what the trace shows of ranks and
 * chunks goes to r->layout (world: highest rank + 1; vpp: highest chunk + 1; dp: highest DP rank + 1). With
 * count_dropped, rows of unknown op types are counted into r->dropped. Returns 1, without an error, as soon as there
 * are more than row_limit rows (0: no limit). */
int hm_table_read(struct hm_table *t, struct hm_recording *r, int64_t first_step, int64_t last_step, size_t row_limit,
                  bool count_dropped, struct hm_error *err);
/* Reads all rows straight into d; 0 (and d->stray if it gave up), or -1. */
int hm_table_read_dense(struct hm_table *t, struct hm_recording *r, struct hm_dense *d, struct hm_error *err);
/* A step and its rows. */
struct hm_step_rows {
    int64_t step;
    size_t rows;
};
/* Lists the steps in the file, ascending; *steps is the caller's (hm_free), NULL after an error. */
int hm_table_list_steps(struct hm_table *t, struct hm_step_rows **steps, size_t *n, struct hm_error *err);
/* Lowest and highest values in the whole file, as its statistics tell if it has any. -1: not known. */
struct hm_table_span {
    int64_t first_step, last_step, max_dp, max_rank;
};
int hm_table_measure(struct hm_table *t, struct hm_table_span *span, struct hm_error *err);
/* If several ranks of one worker have rows in that cell (all ranks of a TP group), the table becomes one in which the slowest of them counts
 * for each op, which is said in r->dropped, and 1 is returned: read again. */
int hm_table_merge_ranks(struct hm_table *t, struct hm_recording *r, int64_t step, uint32_t dp, struct hm_error *err);
/* Reads mc, mb_id, gmc of one cell into r->side. */
int hm_table_read_cell(struct hm_table *t, struct hm_recording *r, int64_t step, uint32_t dp, struct hm_error *err);

/* Chooses what to keep; fills everything after "Settled". Needs rows, groups, step_table, and layout.dp; table may be
 * NULL if there is one group and `side` holds the reference cell. */
int hm_settle(struct hm_recording *r, struct hm_error *err);
/* The hash that cells are summed up with, of hm_key_op. */
static inline uint64_t hm_op_hash(uint32_t op) {
    return hm_mix64((uint64_t)op + 1);
}
void hm_settle_free(struct hm_settle *s);
/* Repairs the cells of the freshly loaded rows that settling found repairable. */
int hm_settle_mend(struct hm_recording *r, struct hm_error *err);

/* Reads a metadata YAML file into *layout (fields not named stay 0). */
int hm_metadata_read(const char *path, struct hm_layout *layout, struct hm_error *err);
/* Completes *layout (from metadata or empty) with what the trace shows; a contradiction is an error. */
int hm_layout_settle(struct hm_layout *layout, const struct hm_layout *seen, const char *path, const char *meta_path,
                     struct hm_error *err);

/* ---- writing op tables ---- */

struct hm_table_row {
    int64_t step;
    uint32_t dp, stage, rank, type, seq;
    int32_t mc, mb, gmc; /* -1 where they do not apply */
    double start_s, duration_s;
};

struct hm_table_source {
    /* Gives up to `max` rows; 0 at the end, or with *err filled on failure. */
    size_t (*next)(void *context, struct hm_table_row *rows, size_t max, struct hm_error *err);
    void *context;
    bool float32; /* times in float32, as the public traces have them; else in double */
    int64_t max_dp, max_stage, max_rank, max_mc, max_mb,
        max_gmc;       /* largest values: columns are as narrow as these allow */
    double total_rows; /* for progress; 0: not known */
    hm_progress_fn progress;
    void *progress_context;
};

/* Writes rows to PATH.parquet or PATH.csv (by extension), in the order in which they come. Nothing appears at `path` unless all is
 * written. */
int hm_table_write(const char *path, const struct hm_table_source *source, struct hm_error *err);

/* Whether a name tells the format: Parquet or CSV, as it ends; a name under /dev is Parquet, standard output ("-") CSV. */
int hm_table_check_name(const char *path, struct hm_error *err);

/* Where a COPY goes: its " TO 'file' (options)", the descriptor that a session must allow, and the name for people. */
struct hm_table_target {
    char sql[120];
    int fd;
    const char *path;
};
/* Calls copy(context, target, err) and puts what it wrote in the place of `path` if it returns 0. */
typedef int (*hm_table_copy_fn)(void *context, const struct hm_table_target *to, struct hm_error *err);
int hm_table_replace(const char *path, hm_table_copy_fn copy, void *context, struct hm_error *err);
int hm_table_copy_failed(const char *path, const char *message, struct hm_error *err);
/* Runs COPY (the rows of all tables, one after the other) to the target. Every row of a known op type is checked as a reader
 * would; rows of other types pass. */
int hm_tables_copy(struct hm_table *const *tables, size_t n, bool float32, const struct hm_table_target *to,
                   struct hm_error *err);

#endif
