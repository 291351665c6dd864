/* table_scan.c - the rows of an op table.
 *
 * They never become a query result: a scalar function, hm_sink, is called with the columns by DuckDB's scan threads
 * and packs each row where it stands, so reading is parallel and nothing is materialised. The query returns only a
 * count. */
#include "table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* Says what is wrong with row i in the words of the trace; false: it is its place, which is outside of any layout. Only called when
 * something is wrong. */
static bool describe_bad_row(const struct chunk *c, idx_t i, const char *type, char *text, size_t size) {
    static const struct {
        int column;
        int64_t limit;
    } integers[] = {{C_STEP, INT64_MAX}, {C_STAGE, HM_MAX_STAGES}, {C_DP, HM_MAX_DP}, {C_SEQ, HM_MAX_SEQ}};
    char where[200] = "";
    for (size_t k = 0; k < 4; k++) {
        int column = integers[k].column;
        if (is_null(c, column, i)) {
            (void)snprintf(text, size, "a row of %s%s has no usable %s", type, where, hm_table_column[column]);
            return false;
        }
        int64_t value = c->integer[column][i];
        size_t n = strlen(where);
        (void)snprintf(where + n, sizeof where - n, "%s %s %" PRId64, n ? "," : " at", hm_table_column[column], value);
        if (value < 0 || value >= integers[k].limit) {
            (void)snprintf(text, size, "%s%s: %s is outside the layout (0 to %" PRId64 ")", type, where,
                           hm_table_column[column], integers[k].limit - 1);
            return false;
        }
    }
    for (int column = C_START; column <= C_DURATION; column++) {
        double value = is_null(c, column, i) ? NAN : c->number[column][i];
        if (hm_is_time(value) && (column == C_START || value >= 0)) continue;
        (void)snprintf(text, size, "%s%s: %s is %s", type, where, hm_table_column[column],
                       isnan(value)        ? "not a number"
                       : isinf(value)      ? "infinite"
                       : hm_is_time(value) ? "negative"
                                           : "no time in seconds");
        break;
    }
    return true;
}

/* A row whose times are none costs the step that it belongs to, not the answer: it is passed over, and its cell is not whole. */
static bool pass_over_bad_row(struct hm_table *t, const struct chunk *c, idx_t i, const char *type) {
    char text[sizeof t->first_bad] = "";
    bool placed = describe_bad_row(c, i, type, text, sizeof text);
    /* what a cut line lacks is where it stands */
    if ((!placed && !t->cut) || t->check_only) {
        fail_once(t, HM_ERR_INPUT, "%s%s: repair the file or leave that row out", text,
                  placed ? "; times are finite seconds, durations not negative" : "");
        return false;
    }
    pthread_mutex_lock(&t->lock);
    if (placed && !t->first_bad[0]) memcpy(t->first_bad, text, sizeof text);
    pthread_mutex_unlock(&t->lock);
    if (placed) atomic_fetch_add(&t->bad, 1);
    return true;
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
                    seq < HM_MAX_SEQ && hm_is_time(start) && duration >= 0 && hm_is_time(duration);
        for (int k = C_STEP; k <= C_DURATION && good; k++) good = !is_null(c, k, i);
        if (!good) {
            if (!pass_over_bad_row(t, c, i, hm_op_types[type].name)) return;
            if (row) row->key = HM_KEY_DEAD;
            continue;
        }
        if (t->check_only) continue;
        if (step != last_step) {
            slot = hm_step_intern(t->recording->step_table, step);
            last_step = step;
            lower_to(&t->first_step, step);
            if (slot == UINT32_MAX) {
                fail_once(t, HM_ERR_INPUT, "has more than %d different steps; analyse a part of it", HM_MOST_STEPS);
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
bool hm_table_register_place(struct hm_table *t) {
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
    bool good = duckdb_register_scalar_function(t->database.con, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return good;
}

bool hm_table_register_sink(duckdb_connection con, const char *name, struct hm_table *t) {
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
    int status = hm_table_run(t, sql->text, &result, &reader);
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

void hm_table_clear_sightings(struct hm_table *t) {
    atomic_store(&t->first_step, INT64_MAX);
    atomic_store(&t->max_rank, -1);
    atomic_store(&t->max_mc, -1);
    atomic_store(&t->max_dp, -1);
    atomic_store(&t->done, 0);
    atomic_store(&t->unknown, 0);
    atomic_store(&t->bad, 0);
    t->first_bad[0] = 0;
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
    hm_table_clear_sightings(t);
    t->dense = d;
    struct hm_error reader = {0};
    struct hm_str sql = {0};
    hm_str_add(&sql, "SELECT count(hm_place(");
    for (int k = 0; k < HM_DENSE_COLUMNS; k++) {
        hm_str_add(&sql, "%s%s", k ? ", " : "", hm_table_bare(t, dense_column[k]));
    }
    hm_str_add(&sql, ")) FROM %s", t->relation);
    int status = run_sink(t, &sql, &reader);
    t->dense = NULL;
    if (status != 0 && atomic_load(&d->stray) && !t->failed) return 0;
    if (status != 0 && err) *err = reader;
    return status;
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
    int status = hm_table_run(t, sql, &result, err);
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

/* What was passed over. */
static int report_passed_over(struct hm_table *t, struct hm_recording *r, const char *where, struct hm_error *err) {
    size_t bad = atomic_load(&t->bad);
    if (t->cut && !t->cut_reported) {
        t->cut_reported = true;
        if (hm_drop(
                r, "rows", 1,
                "the last line of %s is cut short: what should follow it is missing, whole replicas or steps perhaps",
                t->cut) != 0)
            return hm_fail_memory(err);
    }
    if (bad && hm_drop(r, "rows", bad, "no times of an op; the first: %s", t->first_bad) != 0)
        return hm_fail_memory(err);
    return report_unknown(t, r, where, err);
}

int hm_table_read(struct hm_table *t, struct hm_recording *r, int64_t first_step, int64_t last_step, size_t row_limit,
                  bool count_dropped, struct hm_error *err) {
    t->recording = r;
    t->side_only = false;
    t->count_dropped = count_dropped;
    t->row_limit = row_limit;
    atomic_store(&t->over_limit, false);
    hm_table_clear_sightings(t);
    char *where =
        first_step <= 0 && last_step == INT64_MAX
            ? hm_strdup("")
            : hm_sprintf(" WHERE %s BETWEEN %" PRId64 " AND %" PRId64, hm_table_bare(t, C_STEP), first_step, last_step);
    if (!where) return hm_fail_memory(err);
    struct hm_error reader = {0};
    int status = sink_rows(t, where, &reader);
    if (status == 0 && count_dropped) status = report_passed_over(t, r, where, &reader);
    hm_free(where);
    if (atomic_load(&t->over_limit)) return 1;
    if (status != 0) {
        if (err) *err = reader;
        return -1;
    }
    take_sightings(t, r);
    return 0;
}

int hm_table_read_cell(struct hm_table *t, struct hm_recording *r, int64_t step, uint32_t dp, struct hm_error *err) {
    t->recording = r;
    t->side_only = true;
    t->count_dropped = false;
    t->row_limit = 0;
    hm_table_clear_sightings(t);
    r->sides = 0;
    char *where = hm_sprintf(" WHERE %s = %" PRId64 " AND %s = %" PRIu32, hm_table_bare(t, C_STEP), step,
                             hm_table_bare(t, C_DP), dp);
    if (!where) return hm_fail_memory(err);
    int status = sink_rows(t, where, err);
    hm_free(where);
    return status;
}
