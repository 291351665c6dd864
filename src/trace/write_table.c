/* write_table.c - op tables out: .parquet and .csv, written by DuckDB.
 *
 * The rows stream from a callback through a table function into COPY, 2,048 at a time, so that a trace of any length
 * needs the memory of one row group. One thread writes, in the order in which the rows come: the same rows give the
 * same bytes. The file is written under a temporary name in the same folder and renamed when it is whole. */
#include "base/database.h"
#include "trace.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLUMNS = 11 };
static const char *const column_name[COLUMNS] = {"dp_rank",  "stage",  "rank", "step",  "optype", "start_ts",
                                                 "duration", "seq_id", "mc",   "mb_id", "gmc"};

struct writer {
    const struct hm_table_source *source;
    duckdb_type type[COLUMNS];
    duckdb_string_t name[HM_OP_TYPES];
    struct hm_table_row *rows; /* room for one chunk */
    size_t done;
    struct hm_error err;
    bool failed;
};

/* ---- columns ---- */

/* The narrowest integer that holds -1 .. most, as the public traces store their columns. */
static duckdb_type narrow(int64_t most) {
    return most <= INT8_MAX ? DUCKDB_TYPE_TINYINT : most <= INT16_MAX ? DUCKDB_TYPE_SMALLINT : DUCKDB_TYPE_INTEGER;
}

static void choose_types(struct writer *w) {
    const struct hm_table_source *s = w->source;
    duckdb_type time = s->float32 ? DUCKDB_TYPE_FLOAT : DUCKDB_TYPE_DOUBLE;
    int64_t chunk = s->max_gmc > s->max_rank ? s->max_gmc : s->max_rank;
    duckdb_type rank = narrow(chunk) == DUCKDB_TYPE_TINYINT ? DUCKDB_TYPE_SMALLINT : narrow(chunk);
    const duckdb_type types[COLUMNS] = {narrow(s->max_dp),
                                        narrow(s->max_stage),
                                        rank,
                                        DUCKDB_TYPE_BIGINT,
                                        DUCKDB_TYPE_VARCHAR,
                                        time,
                                        time,
                                        DUCKDB_TYPE_INTEGER,
                                        narrow(s->max_mc),
                                        narrow(s->max_mb),
                                        rank};
    memcpy(w->type, types, sizeof types);
}

/* Names stand still, so their strings are made once and refer to the table of op types. */
static void make_names(struct writer *w) {
    for (int t = 0; t < HM_OP_TYPES; t++) {
        size_t n = strlen(hm_op_types[t].name);
        w->name[t].value.inlined.length = (uint32_t)n;
        if (n <= sizeof w->name[t].value.inlined.inlined) {
            memcpy(w->name[t].value.inlined.inlined, hm_op_types[t].name, n);
        } else {
            memcpy(w->name[t].value.pointer.prefix, hm_op_types[t].name, sizeof w->name[t].value.pointer.prefix);
            memcpy(&w->name[t].value.pointer.ptr, &hm_op_types[t].name, sizeof(char *)); /* it is only read */
        }
    }
}

static int64_t integer_of(const struct hm_table_row *r, int column) {
    switch (column) {
    case 0:
        return r->dp;
    case 1:
        return r->stage;
    case 2:
        return r->rank;
    case 3:
        return r->step;
    case 7:
        return r->seq;
    case 8:
        return r->mc;
    case 9:
        return r->mb;
    default:
        return r->gmc;
    }
}

static void fill_column(const struct writer *w, int column, void *data, size_t n) {
    const struct hm_table_row *r = w->rows;
    switch (w->type[column]) {
    case DUCKDB_TYPE_TINYINT:
        for (size_t i = 0; i < n; i++) ((int8_t *)data)[i] = (int8_t)integer_of(&r[i], column);
        break;
    case DUCKDB_TYPE_SMALLINT:
        for (size_t i = 0; i < n; i++) ((int16_t *)data)[i] = (int16_t)integer_of(&r[i], column);
        break;
    case DUCKDB_TYPE_INTEGER:
        for (size_t i = 0; i < n; i++) ((int32_t *)data)[i] = (int32_t)integer_of(&r[i], column);
        break;
    case DUCKDB_TYPE_BIGINT:
        for (size_t i = 0; i < n; i++) ((int64_t *)data)[i] = integer_of(&r[i], column);
        break;
    case DUCKDB_TYPE_VARCHAR:
        for (size_t i = 0; i < n; i++) ((duckdb_string_t *)data)[i] = w->name[r[i].type];
        break;
    case DUCKDB_TYPE_FLOAT:
        for (size_t i = 0; i < n; i++) ((float *)data)[i] = (float)(column == 5 ? r[i].start_s : r[i].duration_s);
        break;
    default:
        for (size_t i = 0; i < n; i++) ((double *)data)[i] = column == 5 ? r[i].start_s : r[i].duration_s;
    }
}

/* ---- the table function ---- */

static void bind(duckdb_bind_info info) {
    const struct writer *w = duckdb_bind_get_extra_info(info);
    for (int k = 0; k < COLUMNS; k++) {
        duckdb_logical_type type = duckdb_create_logical_type(w->type[k]);
        duckdb_bind_add_result_column(info, column_name[k], type);
        duckdb_destroy_logical_type(&type);
    }
}

static void init(duckdb_init_info info) {
    duckdb_init_set_max_threads(info, 1);
}

static void give_rows(duckdb_function_info info, duckdb_data_chunk chunk) {
    struct writer *w = duckdb_function_get_extra_info(info);
    const struct hm_table_source *s = w->source;
    size_t n = w->failed ? 0 : s->next(s->context, w->rows, duckdb_vector_size(), &w->err);
    if (w->err.code != HM_OK) w->failed = true;
    w->done += n;
    if (!w->failed && s->progress && w->done / (1 << 18) != (w->done - n) / (1 << 18) &&
        s->progress(s->progress_context, "writing", (double)w->done, s->total_rows) != 0) {
        hm_fail(&w->err, HM_ERR_CANCELLED, "stopped");
        w->failed = true;
    }
    if (w->failed) {
        duckdb_function_set_error(info, w->err.message);
        n = 0;
    }
    for (int k = 0; k < COLUMNS && n; k++)
        fill_column(w, k, duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, (idx_t)k)), n);
    duckdb_data_chunk_set_size(chunk, n);
}

static bool register_source(duckdb_connection con, struct writer *w) {
    duckdb_table_function f = duckdb_create_table_function();
    duckdb_table_function_set_name(f, "hm_rows");
    duckdb_table_function_set_extra_info(f, w, NULL);
    duckdb_table_function_set_bind(f, bind);
    duckdb_table_function_set_init(f, init);
    duckdb_table_function_set_function(f, give_rows);
    duckdb_state state = duckdb_register_table_function(con, f);
    duckdb_destroy_table_function(&f);
    return state == DuckDBSuccess;
}

/* ---- files ---- */

static bool is_csv(const char *path) {
    return strcmp(path, "-") == 0 || hm_ends_with(path, ".csv");
}

int hm_table_check_name(const char *path, struct hm_error *err) {
    if (is_csv(path) || hm_ends_with(path, ".parquet") || strncmp(path, "/dev/", 5) == 0) return 0;
    return hm_fail(err, HM_ERR_ARGUMENT, "%s: cannot tell the format; give a name that ends in .parquet or .csv", path);
}

int hm_table_replace(const char *path, hm_table_copy_fn copy, void *context, struct hm_error *err) {
    struct hm_new_file file;
    if (hm_table_check_name(path, err) != 0) return -1;
    if (hm_new_file_open(&file, path, true, err) != 0) return -1;
    struct hm_table_target to = {.path = path, .fd = file.fd};
    (void)snprintf(to.sql, sizeof to.sql, " TO '" HM_DATABASE_FILE "' (FORMAT %s, USE_TMP_FILE false)", file.fd,
                   is_csv(path) ? "csv, HEADER true" : "parquet, COMPRESSION snappy");
    int status = copy(context, &to, err);
    if (status != 0)
        hm_new_file_abort(&file);
    else if (hm_new_file_commit(&file) != 0)
        status = hm_fail(err, HM_ERR_IO, "%s: cannot write: %s; nothing was left behind", path, strerror(errno));
    return status;
}

int hm_table_copy_failed(const char *path, const char *message, struct hm_error *err) {
    if (!message) message = "the writer failed";
    const char *colon = strstr(message, "Error: ");
    if (colon && colon - message < 40) message = colon + 7;
    const char *reason = strstr(message, "\": "); /* after the temporary name, which nobody knows */
    if (reason) message = reason + 3;
    return hm_fail(err, HM_ERR_IO, "%s: cannot write: %.*s; is the disk full? nothing was left behind", path,
                   (int)strcspn(message, "\n"), message);
}

/* ---- writing ---- */

static int copy_rows(void *context, const struct hm_table_target *to, struct hm_error *err) {
    struct writer *w = context;
    struct hm_database d = {0};
    duckdb_result result;
    char *sql = hm_sprintf("COPY (SELECT * FROM hm_rows())%s", to->sql),
         *what = hm_sprintf("%s: the table writer", to->path);
    /* one thread: more would only wait, busily */
    const struct hm_database_options options = {.threads = 1, .ordered = true, .files = &to->fd, .n_files = 1};
    int status = 0;
    if (!sql || !what)
        status = hm_fail_memory(err);
    else if (hm_database_open(&d, &options, what, err) != 0)
        status = -1;
    else if (!register_source(d.con, w))
        status = hm_fail_memory(err);
    if (status == 0) {
        if (duckdb_query(d.con, sql, &result) != DuckDBSuccess) {
            status = -1;
            if (!w->failed)
                hm_table_copy_failed(to->path, duckdb_result_error(&result), err);
            else if (err)
                *err = w->err; /* the source's own reason is the cause */
        }
        duckdb_destroy_result(&result);
    }
    hm_database_close(&d);
    hm_free(what);
    hm_free(sql);
    return status;
}

int hm_table_write(const char *path, const struct hm_table_source *source, struct hm_error *err) {
    struct writer w = {.source = source, .rows = hm_alloc(duckdb_vector_size(), sizeof *w.rows)};
    if (!w.rows) return hm_fail_memory(err);
    choose_types(&w);
    make_names(&w);
    int status = hm_table_replace(path, copy_rows, &w, err);
    hm_free(w.rows);
    return status;
}
