/* table.c - op tables in Parquet and CSV, read through DuckDB.
 *
 * The rows never become a query result: a scalar function, hm_sink, is called with the columns by DuckDB's scan threads
 * and packs each row where it stands, so reading is parallel and nothing is materialised. The query returns only a
 * count. */
#include "trace.h"

#include <duckdb.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum column { C_STEP, C_DP, C_STAGE, C_OPTYPE, C_SEQ, C_START, C_DURATION, C_RANK, C_MC, C_MB, C_GMC, COLUMNS };
static const char *const column_name[COLUMNS] = {"step",     "dp_rank", "stage", "optype", "seq_id", "start_ts",
                                                 "duration", "rank",    "mc",    "mb_id",  "gmc"};

/* A trace needs a few bytes a row even when compressed well: its times differ. A file that claims more rows than this
 * is made to exhaust memory, not to be analysed. */
enum { MAX_ROWS_PER_BYTE = 64, FREE_ROWS = 1 << 20 };

struct hm_table {
    char *path, *relation; /* relation: read_parquet('...') or read_csv('...') */
    int fd;                /* keeps a path with glob characters open */
    int64_t file_bytes;
    size_t total_rows; /* 0: not known before reading */
    duckdb_database db;
    duckdb_connection con;
    char *expression[COLUMNS]; /* how to get the column as BIGINT or DOUBLE */
    int width[COLUMNS];        /* bytes of a value as the file has it: signed integers, floats; 0: neither */

    /* While reading: */
    struct hm_recording *recording;
    struct hm_dense *dense;                    /* hm_place reads straight into it */
    bool side_only, count_dropped, check_only; /* check_only: look at the rows, keep nothing */
    size_t row_limit;
    _Atomic bool stop, over_limit;
    _Atomic int64_t first_step, max_rank, max_mc, max_dp;
    _Atomic size_t done, unknown; /* unknown: rows of op types that are not known */
    pthread_mutex_t lock;         /* guards what follows */
    struct hm_error *err;
    bool failed;
};

static void fail_once(struct hm_table *t, enum hm_error_code code, const char *format, ...) HM_PRINTF(3, 4);
static void fail_once(struct hm_table *t, enum hm_error_code code, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&t->lock);
    if (!t->failed) hm_fail(t->err, code, "%s: %s", t->path, text);
    t->failed = true;
    pthread_mutex_unlock(&t->lock);
    atomic_store(&t->stop, true);
}

/* ---- the sink ---- */

struct chunk {
    const int64_t *integer[COLUMNS];
    const double *number[COLUMNS];
    uint64_t *valid[COLUMNS];
};

static bool is_null(const struct chunk *c, int column, idx_t i) {
    return c->valid[column] && !duckdb_validity_row_is_valid(c->valid[column], i);
}

/* Says what is wrong with row i in the words of the trace. Only called when something is. */
static void describe_bad_row(struct hm_table *t, const struct chunk *c, idx_t i, const char *type) {
    static const struct {
        int column;
        int64_t limit;
    } integers[] = {{C_STEP, INT64_MAX}, {C_STAGE, HM_MAX_STAGES}, {C_DP, HM_MAX_DP}, {C_SEQ, HM_MAX_SEQ}};
    char where[300] = "";
    for (size_t k = 0; k < 4; k++) {
        int column = integers[k].column;
        if (is_null(c, column, i)) {
            fail_once(t, HM_ERR_INPUT, "a row of %s%s has no usable %s; repair the file or leave that row out", type,
                      where, column_name[column]);
            return;
        }
        int64_t value = c->integer[column][i];
        size_t n = strlen(where);
        (void)snprintf(where + n, sizeof where - n, "%s %s %" PRId64, n ? "," : " at", column_name[column], value);
        if (value < 0 || value >= integers[k].limit) {
            fail_once(t, HM_ERR_INPUT,
                      "%s%s: %s is outside the layout (0 to %" PRId64 "); repair the file or leave that row out", type,
                      where, column_name[column], integers[k].limit - 1);
            return;
        }
    }
    for (int column = C_START; column <= C_DURATION; column++) {
        double value = is_null(c, column, i) ? NAN : c->number[column][i];
        if (isfinite(value) && value >= 0) continue;
        fail_once(t, HM_ERR_INPUT,
                  "%s%s: %s is %s; times are finite seconds, not negative: repair the file or leave that row out", type,
                  where, column_name[column],
                  isnan(value)   ? "not a number"
                  : isinf(value) ? "infinite"
                                 : "negative");
        return;
    }
    fail_once(t, HM_ERR_INPUT, "%s%s: unusable row; repair the file or leave that row out", type, where);
}

static int32_t small(const struct chunk *c, int column, idx_t i) {
    if (is_null(c, column, i)) return -1;
    int64_t v = c->integer[column][i];
    return v < -1 || v > INT32_MAX ? -1 : (int32_t)v;
}

static bool keep_side_row(struct hm_table *t, uint64_t key, const struct chunk *c, idx_t i) {
    struct hm_recording *r = t->recording;
    pthread_mutex_lock(&t->lock);
    if (r->sides == HM_MAX_CELL_OPS) r->sides = 0; /* of many steps, it seems: the cell that is needed is read again */
    struct hm_side_row *grown = hm_grow(r->side, r->sides, &r->side_capacity, sizeof *grown);
    if (grown) {
        r->side = grown;
        r->side[r->sides++] = (struct hm_side_row){key,
                                                   small(c, C_MC, i),
                                                   small(c, C_MB, i),
                                                   small(c, C_GMC, i),
                                                   c->number[C_START][i],
                                                   c->number[C_START][i] + c->number[C_DURATION][i]};
    }
    pthread_mutex_unlock(&t->lock);
    return grown != NULL;
}

static void raise_to(_Atomic int64_t *most, int64_t value) {
    int64_t seen = atomic_load_explicit(most, memory_order_relaxed);
    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

static void lower_to(_Atomic int64_t *least, int64_t value) {
    int64_t seen = atomic_load_explicit(least, memory_order_relaxed);
    while (value < seen && !atomic_compare_exchange_weak(least, &seen, value)) {
    }
}

static void report_progress(struct hm_table *t) {
    const struct hm_recording *r = t->recording;
    if (!r || !r->progress || pthread_mutex_trylock(&t->lock) != 0) return;
    int stop = r->progress(r->context, "reading", (double)atomic_load(&t->done), (double)t->total_rows);
    pthread_mutex_unlock(&t->lock);
    if (stop) fail_once(t, HM_ERR_CANCELLED, "stopped");
}

static void count_done(struct hm_table *t, size_t n) {
    if (atomic_fetch_add_explicit(&t->done, n, memory_order_relaxed) / (1 << 18) !=
        atomic_load_explicit(&t->done, memory_order_relaxed) / (1 << 18))
        report_progress(t);
}

/* Packs the rows of one chunk (at most 2,048). Consecutive rows mostly share step and op type: both are looked up once
 * a run. */
static void take_chunk(struct hm_table *t, const struct chunk *c, idx_t n) {
    size_t first = 0;
    const bool store = !t->side_only && !t->check_only;
    if (store) {
        if (atomic_load_explicit(&t->recording->rows.count, memory_order_relaxed) >
            (size_t)t->file_bytes * MAX_ROWS_PER_BYTE + FREE_ROWS) {
            fail_once(t, HM_ERR_INPUT,
                      "holds far more rows than a file of %" PRId64 " bytes can describe; this is not a trace",
                      t->file_bytes);
            return;
        }
        if (t->row_limit && atomic_load_explicit(&t->recording->rows.count, memory_order_relaxed) > t->row_limit) {
            atomic_store(&t->over_limit, true);
            atomic_store(&t->stop, true);
            return;
        }
        if (hm_rows_reserve(&t->recording->rows, n, &first) != 0) {
            fail_once(t, HM_ERR_MEMORY, "out of memory after %zu rows; use a machine with more", first);
            return;
        }
    }
    int64_t last_step = -1, max_rank = -1, max_mc = -1, max_dp = -1;
    uint32_t slot = UINT32_MAX;
    size_t unknown = 0;
    for (idx_t i = 0; i < n; i++) {
        int64_t type = is_null(c, C_OPTYPE, i) ? -1 : c->integer[C_OPTYPE][i];
        struct hm_row *row = store ? hm_rows_at(&t->recording->rows, first + i) : NULL;
        if (type < 0) {
            if (row) row->key = HM_KEY_DEAD;
            unknown++;
            continue;
        }
        int64_t step = c->integer[C_STEP][i], dp = c->integer[C_DP][i], stage = c->integer[C_STAGE][i],
                seq = c->integer[C_SEQ][i];
        double start = c->number[C_START][i], duration = c->number[C_DURATION][i];
        bool good = step >= 0 && dp >= 0 && dp < HM_MAX_DP && stage >= 0 && stage < HM_MAX_STAGES && seq >= 0 &&
                    seq < HM_MAX_SEQ && start >= 0 && duration >= 0 && start < INFINITY && duration < INFINITY;
        for (int k = C_STEP; k <= C_DURATION && good; k++) good = !is_null(c, k, i);
        if (!good) {
            describe_bad_row(t, c, i, hm_op_types[type].name);
            return;
        }
        if (t->check_only) continue;
        if (step != last_step) {
            slot = hm_step_intern(t->recording->step_table, step);
            last_step = step;
            lower_to(&t->first_step, step);
            if (slot == UINT32_MAX) {
                fail_once(t, HM_ERR_INPUT, "has more than %d different steps; analyse a part of it", HM_STEP_TABLE / 2);
                return;
            }
        }
        uint64_t key = hm_key(slot, (uint32_t)dp, (uint32_t)stage, (uint32_t)type, (uint32_t)seq);
        if (row) *row = (struct hm_row){key, start, duration};
        if (dp > max_dp) max_dp = dp;
        if (!is_null(c, C_RANK, i) && c->integer[C_RANK][i] > max_rank) max_rank = c->integer[C_RANK][i];
        if (!is_null(c, C_MC, i) && c->integer[C_MC][i] > max_mc) max_mc = c->integer[C_MC][i];
        /* the reference cell is most likely DP rank 0 in the first step: keep its columns for the model when they pass
         */
        if (t->side_only ||
            (t->count_dropped && dp == 0 && step <= atomic_load_explicit(&t->first_step, memory_order_relaxed))) {
            if (!keep_side_row(t, key, c, i)) {
                fail_once(t, HM_ERR_MEMORY, "out of memory; use a machine with more");
                return;
            }
        }
    }
    if (unknown) atomic_fetch_add(&t->unknown, unknown);
    raise_to(&t->max_rank, max_rank);
    raise_to(&t->max_mc, max_mc);
    raise_to(&t->max_dp, max_dp);
    count_done(t, n);
}

static void sink(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output) {
    struct hm_table *t = duckdb_scalar_function_get_extra_info(info);
    idx_t n = duckdb_data_chunk_get_size(input);
    struct chunk c = {0};
    for (int k = 0; k < COLUMNS; k++) {
        duckdb_vector v = duckdb_data_chunk_get_vector(input, (idx_t)k);
        void *data = duckdb_vector_get_data(v);
        c.valid[k] = duckdb_vector_get_validity(v);
        c.integer[k] = data;
        c.number[k] = data;
    }
    memset(duckdb_vector_get_data(output), t->check_only, n);
    if (!atomic_load_explicit(&t->stop, memory_order_relaxed)) take_chunk(t, &c, n);
    if (atomic_load_explicit(&t->stop, memory_order_relaxed)) duckdb_scalar_function_set_error(info, "stopped");
}

/* ---- straight into the dense arrays: hm_place(the columns of enum HM_DENSE_STEP...) as the file has them ---- */

static const int dense_column[HM_DENSE_COLUMNS] = {C_STEP, C_DP, C_STAGE, C_OPTYPE, C_SEQ, C_START, C_DURATION};

static bool any_missing(uint64_t *valid, idx_t n) {
    for (idx_t i = 0; valid && i < n; i++)
        if (!duckdb_validity_row_is_valid(valid, i)) return true;
    return false;
}

static void place_rows(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output) {
    struct hm_table *t = duckdb_scalar_function_get_extra_info(info);
    idx_t n = duckdb_data_chunk_get_size(input);
    struct hm_column column[HM_DENSE_COLUMNS];
    memset(duckdb_vector_get_data(output), 0, n);
    for (int k = 0; k < HM_DENSE_COLUMNS; k++) {
        duckdb_vector v = duckdb_data_chunk_get_vector(input, (idx_t)k);
        int width = t->width[dense_column[k]];
        column[k] = (struct hm_column){duckdb_vector_get_data(v), width ? width : 8};
        if (any_missing(duckdb_vector_get_validity(v), n)) atomic_store(&t->dense->stray, true);
    }
    if (!atomic_load_explicit(&t->dense->stray, memory_order_relaxed)) hm_dense_take(t->dense, column, n);
    /* not complete after all: no use in going on */
    if (atomic_load_explicit(&t->dense->stray, memory_order_relaxed)) atomic_store(&t->stop, true);
    count_done(t, n);
    if (atomic_load_explicit(&t->stop, memory_order_relaxed)) duckdb_scalar_function_set_error(info, "stopped");
}

/* Called once the columns' types are known. */
static bool register_place(struct hm_table *t) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, "hm_place");
    for (int k = 0; k < HM_DENSE_COLUMNS; k++) {
        int column = dense_column[k], width = t->width[column];
        bool real = column == C_START || column == C_DURATION;
        duckdb_logical_type type = duckdb_create_logical_type(real ? width == 4 ? DUCKDB_TYPE_FLOAT : DUCKDB_TYPE_DOUBLE
                                                              : width == 1 ? DUCKDB_TYPE_TINYINT
                                                              : width == 2 ? DUCKDB_TYPE_SMALLINT
                                                              : width == 4 ? DUCKDB_TYPE_INTEGER
                                                                           : DUCKDB_TYPE_BIGINT);
        duckdb_scalar_function_add_parameter(f, type);
        duckdb_destroy_logical_type(&type);
    }
    duckdb_logical_type flag = duckdb_create_logical_type(DUCKDB_TYPE_BOOLEAN);
    duckdb_scalar_function_set_return_type(f, flag);
    duckdb_destroy_logical_type(&flag);
    duckdb_scalar_function_set_special_handling(f); /* NULLs make it stray */
    duckdb_scalar_function_set_volatile(f);
    duckdb_scalar_function_set_extra_info(f, t, NULL);
    duckdb_scalar_function_set_function(f, place_rows);
    bool good = duckdb_register_scalar_function(t->con, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return good;
}

/* hm_op_type(text): the number of an op type, or -1. A function of one column, so that DuckDB evaluates it on the column's dictionary
 * and no row's text is ever copied. */
static void op_type(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output) {
    (void)info;
    duckdb_vector v = duckdb_data_chunk_get_vector(input, 0);
    duckdb_string_t *text = duckdb_vector_get_data(v);
    uint64_t *valid = duckdb_vector_get_validity(v);
    int64_t *type = duckdb_vector_get_data(output);
    for (idx_t i = 0; i < duckdb_data_chunk_get_size(input); i++)
        type[i] = valid && !duckdb_validity_row_is_valid(valid, i)
                      ? -1
                      : hm_op_type_find(duckdb_string_t_data(&text[i]), duckdb_string_t_length(text[i]));
}

static bool register_sink(duckdb_connection con, const char *name, struct hm_table *t) {
    duckdb_logical_type integer = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT),
                        number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE),
                        flag = duckdb_create_logical_type(DUCKDB_TYPE_BOOLEAN);
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, name);
    for (int k = 0; k < COLUMNS; k++)
        duckdb_scalar_function_add_parameter(f, k == C_START || k == C_DURATION ? number : integer);
    duckdb_scalar_function_set_return_type(f, flag);
    duckdb_scalar_function_set_special_handling(f); /* NULLs are ours to judge */
    duckdb_scalar_function_set_volatile(f);
    duckdb_scalar_function_set_extra_info(f, t, NULL);
    duckdb_scalar_function_set_function(f, sink);
    bool good = duckdb_register_scalar_function(con, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    duckdb_destroy_logical_type(&integer);
    duckdb_destroy_logical_type(&number);
    duckdb_destroy_logical_type(&flag);
    return good;
}

static bool register_op_type(duckdb_connection con) {
    duckdb_logical_type integer = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT),
                        text = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR);
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, "hm_op_type");
    duckdb_scalar_function_add_parameter(f, text);
    duckdb_scalar_function_set_return_type(f, integer);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, op_type);
    bool good = duckdb_register_scalar_function(con, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    duckdb_destroy_logical_type(&integer);
    duckdb_destroy_logical_type(&text);
    return good;
}

static int register_functions(struct hm_table *t) {
    return register_op_type(t->con) && register_sink(t->con, "hm_sink", t) ? 0 : -1;
}

/* ---- queries ---- */

/* The first line of a DuckDB message, without its "Error: " lead and without the path, which stands before it anyway. */
static void duckdb_reason(const char *message, char *text, size_t size) {
    if (!message) message = "the reader failed";
    const char *colon = strstr(message, "Error: ");
    if (colon && colon - message < 40) message = colon + 7;
    size_t n = strcspn(message, "\n");
    if (n >= size) n = size - 1;
    memcpy(text, message, n);
    text[n] = 0;
}

static int run(struct hm_table *t, const char *sql, duckdb_result *result, struct hm_error *err) {
    if (duckdb_query(t->con, sql, result) == DuckDBSuccess) return 0;
    char why[500];
    duckdb_reason(duckdb_result_error(result), why, sizeof why);
    duckdb_destroy_result(result);
    return hm_fail(err, HM_ERR_INPUT, "%s: cannot be read: %s; is the file complete and a trace?", t->path, why);
}

static bool is_integer_type(const char *type) {
    static const char *const names[] = {"TINYINT",  "SMALLINT",  "INTEGER",  "BIGINT",
                                        "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (strcmp(type, names[k]) == 0) return true;
    return false;
}

static bool is_real_type(const char *type) {
    return strcmp(type, "FLOAT") == 0 || strcmp(type, "DOUBLE") == 0 || strncmp(type, "DECIMAL", 7) == 0;
}

/* Bytes of a value that is read as it stands: a signed integer, or a float for a number. 0: it must be converted. */
static int native_width(const char *type, bool number) {
    static const struct {
        const char *name;
        int width;
        bool number;
    } types[] = {{"TINYINT", 1, false}, {"SMALLINT", 2, false}, {"INTEGER", 4, false},
                 {"BIGINT", 8, false},  {"FLOAT", 4, true},     {"DOUBLE", 8, true}};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        if (types[k].number == number && strcmp(type, types[k].name) == 0) return types[k].width;
    return 0;
}

/* How to read a column of DuckDB type `type`; NULL expression and an error if it cannot hold what is wanted. A value
 * that does not convert becomes NULL, which the sink names. */
static int column_expression(struct hm_table *t, int column, const char *type, struct hm_error *err) {
    const char *name = column_name[column], *format = NULL;
    bool text = strcmp(type, "VARCHAR") == 0, number = column == C_START || column == C_DURATION;
    if (column == C_OPTYPE) {
        if (text)
            format = "hm_op_type(\"%s\")";
        else if (strncmp(type, "ENUM", 4) == 0)
            format = "hm_op_type(CAST(\"%s\" AS VARCHAR))";
    } else if (number && (is_integer_type(type) || is_real_type(type))) {
        format = "CAST(\"%s\" AS DOUBLE)";
    } else if (number && text) {
        format = "TRY_CAST(\"%s\" AS DOUBLE)";
    } else if (!number && is_integer_type(type)) {
        format = strcmp(type, "UBIGINT") == 0 ? "TRY_CAST(\"%s\" AS BIGINT)" : "CAST(\"%s\" AS BIGINT)";
    } else if (!number && is_real_type(type)) { /* how pandas stores integers once one is missing */
        format = "CASE WHEN \"%1$s\" = floor(\"%1$s\") THEN TRY_CAST(\"%1$s\" AS BIGINT) END";
    } else if (!number && text) {
        format = "TRY_CAST(\"%s\" AS BIGINT)";
    }
    if (!format)
        return hm_fail(err, HM_ERR_INPUT, "%s: column %s has type %s where %s is needed; write it as such", t->path,
                       name, type,
                       column == C_OPTYPE ? "text"
                       : number           ? "seconds (float or double)"
                                          : "an integer");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    t->expression[column] = hm_sprintf(format, name);
#pragma GCC diagnostic pop
    t->width[column] = column == C_OPTYPE ? 0 : native_width(type, number);
    return t->expression[column] ? 0 : hm_fail_memory(err);
}

static int inspect_columns(struct hm_table *t, struct hm_error *err) {
    char *sql = hm_sprintf("DESCRIBE SELECT * FROM %s", t->relation);
    if (!sql) return hm_fail_memory(err);
    duckdb_result result;
    int status = run(t, sql, &result, err);
    hm_free(sql);
    if (status != 0) return -1;
    idx_t n = duckdb_row_count(&result);
    for (int k = 0; k < COLUMNS && status == 0; k++) {
        bool found = false;
        for (idx_t i = 0; i < n && !found && status == 0; i++) {
            char *name = duckdb_value_varchar(&result, 0, i), *type = duckdb_value_varchar(&result, 1, i);
            if (name && type && strcmp(name, column_name[k]) == 0) {
                found = true;
                status = column_expression(t, k, type, err);
            }
            duckdb_free(name);
            duckdb_free(type);
        }
        if (!found && status == 0)
            status = hm_fail(err, HM_ERR_INPUT,
                             "%s: has no column %s; a trace has dp_rank, stage, rank, step, optype, start_ts, "
                             "duration, seq_id, mc, mb_id, gmc",
                             t->path, column_name[k]);
    }
    duckdb_destroy_result(&result);
    return status;
}

static int count_parquet_rows(struct hm_table *t, struct hm_error *err) {
    char *sql =
        hm_sprintf("SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata%s", t->relation + strlen("read_parquet"));
    if (!sql) return hm_fail_memory(err);
    duckdb_result result;
    int status = run(t, sql, &result, err);
    hm_free(sql);
    if (status != 0) return -1;
    int64_t rows = duckdb_value_int64(&result, 0, 0);
    duckdb_destroy_result(&result);
    if (rows == 0) return hm_fail(err, HM_ERR_INPUT, "%s: holds no rows; was the recording switched on?", t->path);
    if (rows < 0 || rows > t->file_bytes * MAX_ROWS_PER_BYTE + FREE_ROWS)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: claims %" PRId64 " rows in %" PRId64 " bytes; the file is damaged or not a trace", t->path,
                       rows, t->file_bytes);
    t->total_rows = (size_t)rows;
    return 0;
}

/* ---- opening ---- */

enum format { PARQUET, CSV, CSV_GZ, NO_FORMAT };

static bool has_ending(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n >= m && strcmp(path + n - m, ending) == 0;
}

/* Looks at the file itself; the name only decides what to say when it does not fit. */
static enum format detect(struct hm_table *t, struct hm_error *err) {
    struct stat st;
    t->fd = open(t->path, O_RDONLY | O_CLOEXEC);
    if (t->fd < 0) {
        hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", t->path, strerror(errno));
        return NO_FORMAT;
    }
    if (fstat(t->fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        hm_fail(err, HM_ERR_IO, "%s: is a directory; give a trace file", t->path);
        return NO_FORMAT;
    }
    if (!S_ISREG(st.st_mode)) {
        hm_fail(err, HM_ERR_IO, "%s: is not a regular file; save the trace to a file first", t->path);
        return NO_FORMAT;
    }
    t->file_bytes = st.st_size;
    if (st.st_size == 0) {
        hm_fail(err, HM_ERR_INPUT, "%s: is empty; was the trace written completely?", t->path);
        return NO_FORMAT;
    }
    unsigned char head[512];
    ssize_t n = pread(t->fd, head, sizeof head, 0);
    if (n < 0) {
        hm_fail(err, HM_ERR_IO, "%s: %s", t->path, strerror(errno));
        return NO_FORMAT;
    }
    if (n >= 4 && memcmp(head, "PAR1", 4) == 0) return PARQUET;
    if (has_ending(t->path, ".parquet") || has_ending(t->path, ".pq")) {
        hm_fail(err, HM_ERR_INPUT,
                "%s: is not a Parquet file (it does not begin with PAR1); was it truncated, or is it another format?",
                t->path);
        return NO_FORMAT;
    }
    if (n >= 2 && head[0] == 0x1f && head[1] == 0x8b) return CSV_GZ;
    for (ssize_t i = 0; i < n; i++)
        if (head[i] == 0 || (head[i] < 0x20 && head[i] != '\n' && head[i] != '\r' && head[i] != '\t')) {
            hm_fail(err, HM_ERR_INPUT, "%s: is neither Parquet nor CSV text; give a trace in one of these formats",
                    t->path);
            return NO_FORMAT;
        }
    return CSV;
}

/* The relation in SQL. A path that DuckDB would take for a pattern is named through our open descriptor instead. */
static char *relation(const struct hm_table *t, enum format format) {
    struct hm_str s = {0};
    hm_str_add(&s, "%s('", format == PARQUET ? "read_parquet" : "read_csv");
    if (strpbrk(t->path, "*?[]{}") || strstr(t->path, "://"))
        hm_str_add(&s, "/proc/self/fd/%d", t->fd);
    else
        for (const char *c = t->path; *c; c++) hm_str_add(&s, *c == '\'' ? "''" : "%c", *c);
    hm_str_add(&s, "'%s)",
               format == PARQUET  ? ""
               : format == CSV_GZ ? ", header=true, compression='gzip'"
                                  : ", header=true, compression='none'");
    if (s.failed) {
        hm_str_free(&s);
        return NULL;
    }
    return s.text;
}

static int open_database(struct hm_table *t, int threads, struct hm_error *err) {
    duckdb_config config = NULL;
    char count[16];
    (void)snprintf(count, sizeof count, "%d", hm_thread_count(threads, SIZE_MAX));
    char *message = NULL;
    int status = 0;
    if (duckdb_create_config(&config) != DuckDBSuccess ||
        duckdb_set_config(config, "threads", count) != DuckDBSuccess ||
        duckdb_set_config(config, "preserve_insertion_order", "false") != DuckDBSuccess ||
        duckdb_set_config(config, "autoinstall_known_extensions", "false") != DuckDBSuccess ||
        duckdb_open_ext(NULL, &t->db, config, &message) != DuckDBSuccess ||
        duckdb_connect(t->db, &t->con) != DuckDBSuccess || register_functions(t) != 0)
        status = hm_fail(err, HM_ERR_MEMORY, "%s: the table reader could not be started: %s", t->path,
                         message ? message : "out of memory");
    duckdb_free(message);
    if (config) duckdb_destroy_config(&config);
    return status;
}

struct hm_table *hm_table_open(const char *path, int threads, struct hm_error *err) {
    struct hm_table *t = hm_alloc(1, sizeof *t);
    if (!t) {
        hm_fail_memory(err);
        return NULL;
    }
    t->fd = -1;
    pthread_mutex_init(&t->lock, NULL);
    enum format format = NO_FORMAT;
    if (!(t->path = hm_strdup(path)))
        hm_fail_memory(err);
    else if ((format = detect(t, err)) == NO_FORMAT)
        ;
    else if (!(t->relation = relation(t, format))) {
        hm_fail_memory(err);
        format = NO_FORMAT;
    } else if (open_database(t, threads, err) != 0 || (format == PARQUET && count_parquet_rows(t, err) != 0) ||
               inspect_columns(t, err) != 0)
        format = NO_FORMAT;
    else if (!register_place(t)) {
        hm_fail_memory(err);
        format = NO_FORMAT;
    }
    if (format == NO_FORMAT) {
        hm_table_close(t);
        return NULL;
    }
    return t;
}

void hm_table_close(struct hm_table *t) {
    if (!t) return;
    if (t->con) duckdb_disconnect(&t->con);
    if (t->db) duckdb_close(&t->db);
    for (int k = 0; k < COLUMNS; k++) hm_free(t->expression[k]);
    if (t->fd >= 0) close(t->fd);
    pthread_mutex_destroy(&t->lock);
    hm_free(t->relation);
    hm_free(t->path);
    hm_free(t);
}

/* ---- reading ---- */

/* Runs a query of one of our functions and frees its text. */
static int run_sink(struct hm_table *t, struct hm_str *sql, struct hm_error *err) {
    if (sql->failed) {
        hm_str_free(sql);
        return hm_fail_memory(err);
    }
    duckdb_result result;
    struct hm_error reader = {0};
    t->err = err;
    t->failed = false;
    atomic_store(&t->stop, false);
    int status = run(t, sql->text, &result, &reader);
    hm_str_free(sql);
    if (status == 0) duckdb_destroy_result(&result);
    if (t->failed) return -1; /* the sink's own reason is the cause */
    if (status != 0 && err) *err = reader;
    return status;
}

/* Sinks the rows of interest. */
static int sink_rows(struct hm_table *t, const char *where, struct hm_error *err) {
    struct hm_str sql = {0};
    hm_str_add(&sql, "SELECT count(hm_sink(");
    for (int k = 0; k < COLUMNS; k++) hm_str_add(&sql, "%s%s", k ? ", " : "", t->expression[k]);
    hm_str_add(&sql, ")) FROM %s%s", t->relation, where);
    return run_sink(t, &sql, err);
}

/* How to get a column with as little work as possible; its type is whatever the file has. */
static const char *bare(const struct hm_table *t, int column) {
    return t->width[column] ? column_name[column] : t->expression[column];
}

static void clear_sightings(struct hm_table *t) {
    atomic_store(&t->first_step, INT64_MAX);
    atomic_store(&t->max_rank, -1);
    atomic_store(&t->max_mc, -1);
    atomic_store(&t->max_dp, -1);
    atomic_store(&t->done, 0);
    atomic_store(&t->unknown, 0);
}

static void take_most(int64_t *most, int64_t value) {
    if (value > *most) *most = value;
}

static void take_sightings(const struct hm_table *t, struct hm_recording *r) {
    take_most(&r->layout.world, atomic_load(&t->max_rank) + 1);
    take_most(&r->layout.vpp, atomic_load(&t->max_mc) + 1);
    take_most(&r->layout.dp, atomic_load(&t->max_dp) + 1);
}

int hm_table_read_dense(struct hm_table *t, struct hm_recording *r, struct hm_dense *d, struct hm_error *err) {
    t->recording = r;
    clear_sightings(t);
    t->dense = d;
    struct hm_error reader = {0};
    struct hm_str sql = {0};
    hm_str_add(&sql, "SELECT count(hm_place(");
    for (int k = 0; k < HM_DENSE_COLUMNS; k++) {
        hm_str_add(&sql, "%s%s", k ? ", " : "", bare(t, dense_column[k]));
    }
    hm_str_add(&sql, ")) FROM %s", t->relation);
    int status = run_sink(t, &sql, &reader);
    t->dense = NULL;
    if (status != 0 && atomic_load(&d->stray) && !t->failed) return 0;
    if (status != 0 && err) *err = reader;
    return status;
}

uint64_t hm_table_bytes(const struct hm_table *t) {
    return (uint64_t)t->file_bytes;
}

size_t hm_table_rows(const struct hm_table *t) {
    return t->total_rows;
}

/* Names the op types that are not known, if there were any: a second, rare query. */
static int report_unknown(struct hm_table *t, struct hm_recording *r, const char *where, struct hm_error *err) {
    enum { NAMED = 16 };
    size_t named = 0, all = atomic_load(&t->unknown);
    if (all == 0) return 0;
    char *sql = hm_sprintf("SELECT coalesce(CAST(optype AS VARCHAR), '(none)'), count(*) AS n FROM %s%s %s %s < 0 "
                           "GROUP BY 1 ORDER BY n DESC, 1 LIMIT %d",
                           t->relation, where, *where ? "AND" : "WHERE", t->expression[C_OPTYPE], NAMED);
    if (!sql) return hm_fail_memory(err);
    duckdb_result result;
    int status = run(t, sql, &result, err);
    hm_free(sql);
    if (status != 0) return -1;
    for (idx_t i = 0; i < duckdb_row_count(&result) && status == 0; i++) {
        char *name = duckdb_value_varchar(&result, 0, i);
        size_t count = (size_t)duckdb_value_int64(&result, 1, i);
        named += count;
        status = hm_drop(r, "rows", count, "op type %.64s is not known", name ? name : "(none)");
        duckdb_free(name);
    }
    duckdb_destroy_result(&result);
    if (status == 0 && all > named) status = hm_drop(r, "rows", all - named, "further op types that are not known");
    return status == 0 ? 0 : hm_fail_memory(err);
}

int hm_table_read(struct hm_table *t, struct hm_recording *r, int64_t first_step, int64_t last_step, size_t row_limit,
                  bool count_dropped, struct hm_error *err) {
    t->recording = r;
    t->side_only = false;
    t->count_dropped = count_dropped;
    t->row_limit = row_limit;
    atomic_store(&t->over_limit, false);
    clear_sightings(t);
    char *where = first_step <= 0 && last_step == INT64_MAX ? hm_strdup("")
                                                            : hm_sprintf(" WHERE %s BETWEEN %" PRId64 " AND %" PRId64,
                                                                         bare(t, C_STEP), first_step, last_step);
    if (!where) return hm_fail_memory(err);
    struct hm_error reader = {0};
    int status = sink_rows(t, where, &reader);
    if (status == 0 && count_dropped) status = report_unknown(t, r, where, &reader);
    hm_free(where);
    if (atomic_load(&t->over_limit)) return 1;
    if (status != 0) {
        if (err) *err = reader;
        return -1;
    }
    take_sightings(t, r);
    return 0;
}

int hm_table_list_steps(struct hm_table *t, struct hm_step_rows **steps, size_t *n, struct hm_error *err) {
    char *sql =
        hm_sprintf("SELECT CAST(s AS BIGINT), n FROM (SELECT %s AS s, count(*) AS n FROM %s GROUP BY s) ORDER BY s",
                   bare(t, C_STEP), t->relation);
    if (!sql) return hm_fail_memory(err);
    duckdb_result result;
    int status = run(t, sql, &result, err);
    hm_free(sql);
    if (status != 0) return -1;
    *n = duckdb_row_count(&result);
    if (!(*steps = hm_alloc(*n, sizeof **steps))) status = hm_fail_memory(err);
    size_t i = 0;
    for (duckdb_data_chunk chunk; status == 0 && (chunk = duckdb_fetch_chunk(result)) != NULL;
         duckdb_destroy_data_chunk(&chunk)) {
        duckdb_vector numbers = duckdb_data_chunk_get_vector(chunk, 0);
        uint64_t *valid = duckdb_vector_get_validity(numbers);
        const int64_t *step = duckdb_vector_get_data(numbers),
                      *count = duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 1));
        for (idx_t k = 0; k < duckdb_data_chunk_get_size(chunk) && i < *n && status == 0; k++) {
            if ((valid && !duckdb_validity_row_is_valid(valid, k)) || step[k] < 0)
                status = hm_fail(err, HM_ERR_INPUT,
                                 "%s: %" PRId64 " rows have no usable step; repair the file or leave these rows out",
                                 t->path, count[k]);
            else
                (*steps)[i++] = (struct hm_step_rows){step[k], (size_t)count[k]};
        }
    }
    *n = i;
    duckdb_destroy_result(&result);
    if (status == 0 && *n > HM_STEP_TABLE / 2)
        status = hm_fail(err, HM_ERR_INPUT, "%s: has more than %d different steps; analyse a part of it", t->path,
                         HM_STEP_TABLE / 2);
    if (status != 0) {
        hm_free(*steps);
        *steps = NULL;
    }
    return status;
}

int hm_table_read_cell(struct hm_table *t, struct hm_recording *r, int64_t step, uint32_t dp, struct hm_error *err) {
    t->recording = r;
    t->side_only = true;
    t->count_dropped = false;
    t->row_limit = 0;
    clear_sightings(t);
    r->sides = 0;
    char *where = hm_sprintf(" WHERE %s = %" PRId64 " AND %s = %" PRIu32, bare(t, C_STEP), step, bare(t, C_DP), dp);
    if (!where) return hm_fail_memory(err);
    int status = sink_rows(t, where, err);
    hm_free(where);
    return status;
}

int hm_table_measure(struct hm_table *t, struct hm_table_span *span, struct hm_error *err) {
    static const struct {
        const char *aggregate;
        int column;
    } wanted[] = {{"min", C_STEP}, {"max", C_STEP}, {"max", C_DP}, {"max", C_RANK}};
    int64_t *const value[] = {&span->first_step, &span->last_step, &span->max_dp, &span->max_rank};
    enum { WANTED = sizeof wanted / sizeof wanted[0] };
    struct hm_str sql = {0};
    for (int k = 0; k < WANTED;
         k++) { /* of the bare column, where that will do: a file's statistics answer that at once */
        int column = wanted[k].column;
        hm_str_add(&sql, k ? ", %s(" : "SELECT %s(", wanted[k].aggregate);
        hm_str_add(&sql, "%s)", bare(t, column));
    }
    hm_str_add(&sql, " FROM %s", t->relation);
    if (sql.failed) {
        hm_str_free(&sql);
        return hm_fail_memory(err);
    }
    duckdb_result result;
    int status = run(t, sql.text, &result, err);
    hm_str_free(&sql);
    if (status != 0) return -1;
    for (idx_t k = 0; k < WANTED; k++)
        *value[k] = duckdb_value_is_null(&result, k, 0) ? -1 : duckdb_value_int64(&result, k, 0);
    duckdb_destroy_result(&result);
    return 0;
}

/* ---- copying ---- */

/* One table's rows in the columns' common types, checked as they pass. */
static void select_rows(const struct hm_table *t, size_t index, bool float32, struct hm_str *sql) {
    static const int order[COLUMNS] = {C_DP,       C_STAGE, C_RANK, C_STEP, C_OPTYPE, C_START,
                                       C_DURATION, C_SEQ,   C_MC,   C_MB,   C_GMC};
    for (int i = 0; i < COLUMNS; i++) {
        int k = order[i];
        const char *name = column_name[k], *from = t->expression[k];
        hm_str_add(sql, "%s", i ? ", " : "SELECT ");
        if (k == C_OPTYPE)
            hm_str_add(sql, "CAST(optype AS VARCHAR) AS optype");
        else if (k == C_START || k == C_DURATION)
            hm_str_add(sql, "CAST(%s AS %s) AS %s", from, float32 ? "FLOAT" : "DOUBLE", name);
        else if (k == C_STEP)
            hm_str_add(sql, "%s AS step", from);
        else if (k == C_RANK || k == C_MC || k == C_MB || k == C_GMC)
            hm_str_add(sql, "coalesce(TRY_CAST(%s AS INTEGER), -1) AS %s", from, name);
        else
            hm_str_add(sql, "TRY_CAST(%s AS INTEGER) AS %s", from, name);
    }
    hm_str_add(sql, " FROM %s WHERE hm_check_%zu(", t->relation, index);
    for (int k = 0; k < COLUMNS; k++) hm_str_add(sql, "%s%s", k ? ", " : "", t->expression[k]);
    hm_str_add(sql, ")");
}

/* Reading and writing are one query: a reader's complaint names an input, or nothing about writing. */
static int copy_failed(struct hm_table *const *tables, size_t n, const char *path, const char *message,
                       struct hm_error *err) {
    char why[500];
    duckdb_reason(message, why, sizeof why);
    if (strstr(why, "rite") || strstr(why, "No space")) return hm_table_copy_failed(path, message, err);
    return hm_fail(err, HM_ERR_INPUT, "%s%s: cannot be read: %s; is the file complete and a trace?", tables[0]->path,
                   n > 1 ? " and others" : "", why);
}

int hm_tables_copy(struct hm_table *const *tables, size_t n, bool float32, const char *to, const char *path,
                   struct hm_error *err) {
    duckdb_connection con = tables[0]->con;
    duckdb_result result;
    struct hm_str sql = {0};
    char settings[100];
    /* Rows in their order: row groups that are ready too early wait in memory, of which there shall be little. */
    (void)snprintf(settings, sizeof settings, "SET preserve_insertion_order = true; SET memory_limit = '%dMB'",
                   1024 + 64 * hm_thread_count(0, SIZE_MAX));
    bool good = duckdb_query(con, settings, NULL) == DuckDBSuccess;
    hm_str_add(&sql, "COPY (");
    for (size_t i = 0; i < n; i++) {
        struct hm_table *t = tables[i];
        char name[40];
        (void)snprintf(name, sizeof name, "hm_check_%zu", i);
        good = good && register_sink(con, name, t);
        t->recording = NULL;
        t->check_only = true;
        t->err = err;
        t->failed = false;
        atomic_store(&t->stop, false);
        clear_sightings(t);
        if (i) hm_str_add(&sql, " UNION ALL ");
        select_rows(t, i, float32, &sql);
    }
    hm_str_add(&sql, ")%s", to);
    int status = good && !sql.failed ? 0 : hm_fail_memory(err);
    if (status == 0) {
        bool written = duckdb_query(con, sql.text, &result) == DuckDBSuccess;
        bool unusable = false;
        for (size_t i = 0; i < n; i++) unusable |= tables[i]->failed; /* *err says why */
        if (unusable)
            status = -1;
        else if (!written)
            status = copy_failed(tables, n, path, duckdb_result_error(&result), err);
        duckdb_destroy_result(&result);
    }
    hm_str_free(&sql);
    return status;
}
