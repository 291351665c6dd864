/* table.h - what the files of the table reader share: a session with DuckDB over one file.
 *
 * table.c opens and asks, table_columns.c knows how to get each column, table_scan.c takes the rows, table_copy.c copies tables. */
#ifndef HM_TRACE_TABLE_H
#define HM_TRACE_TABLE_H

#include "base/database.h"
#include "readers.h"
#include "trace.h"

#include <pthread.h>
#include <stdatomic.h>

enum column { C_STEP, C_DP, C_STAGE, C_OPTYPE, C_SEQ, C_START, C_DURATION, C_RANK, C_MC, C_MB, C_GMC, COLUMNS };
extern const char *const hm_table_column[COLUMNS]; /* their names */

/* A trace needs a few bytes a row even when compressed well: its times differ. A file that claims more rows than this
 * is made to exhaust memory, not to be analysed. */
enum { MAX_ROWS_PER_BYTE = 64, FREE_ROWS = 1 << 20 };

struct hm_table {
    const struct hm_inputs *in;
    const char *path; /* the inputs' name, for messages */
    char *relation;   /* read_parquet([...]), read_csv([...]), or both together */
    int *files;       /* [in->n] open: DuckDB knows them by their descriptors only (base/database.h) */
    size_t n_files;
    int64_t file_bytes;
    bool merged;       /* of several ranks of a worker the slowest counts (table_ranks.c) */
    const char *cut;   /* a CSV file whose last line is not whole */
    bool cut_reported; /* in what was left out */
    size_t total_rows; /* 0: not known before reading */
    struct hm_database database;
    char *expression[COLUMNS]; /* how to get the column as BIGINT or DOUBLE */
    int width[COLUMNS];        /* bytes of a value as the file has it: signed integers, floats; 0: neither */

    /* While reading: */
    struct hm_recording *recording;
    struct hm_dense *dense;                    /* hm_place reads straight into it */
    bool side_only, count_dropped, check_only; /* check_only: look at the rows, keep nothing */
    size_t row_limit;
    _Atomic bool stop, over_limit;
    _Atomic int64_t first_step, max_rank, max_mc, max_dp;
    _Atomic size_t done, unknown, bad; /* unknown: rows of op types that are not known; bad: whose times are none */
    pthread_mutex_t lock;              /* guards what follows */
    char first_bad[300];               /* what is wrong with the first bad row */
    struct hm_error *err;
    bool failed;
};

/* Runs a query. Its complaint becomes the error, without the path that DuckDB puts into it. */
int hm_table_run(struct hm_table *t, const char *sql, duckdb_result *result, struct hm_error *err);

/* ---- table_cut.c ---- */
/* Whether the last line of a CSV file has fewer fields than its first. */
bool hm_table_is_cut(const struct hm_input *file);

/* ---- table_columns.c ---- */
/* Finds out how to get each column: t->expression and t->width. */
int hm_table_inspect(struct hm_table *t, struct hm_error *err);
/* How to get a column with as little work as possible; its type is whatever the file has. */
const char *hm_table_bare(const struct hm_table *t, int column);
/* Makes hm_op_type(text) known: the number of an op type, or -1. */
bool hm_table_register_op_type(duckdb_connection con);

/* ---- table_scan.c ---- */
/* Makes a function of all columns known that takes rows in for t. */
bool hm_table_register_sink(duckdb_connection con, const char *name, struct hm_table *t);
/* Makes hm_place known, once the columns' types are. */
bool hm_table_register_place(struct hm_table *t);
/* Before rows are scanned. */
void hm_table_clear_sightings(struct hm_table *t);

#endif
