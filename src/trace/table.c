/* table.c - op tables in Parquet and CSV: a session with DuckDB over one file, and the questions that need no rows. */
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- queries ---- */

int hm_table_run(struct hm_table *t, const char *sql, duckdb_result *result, struct hm_error *err) {
    if (duckdb_query(t->database.con, sql, result) == DuckDBSuccess) return 0;
    char why[500];
    hm_database_reason(duckdb_result_error(result), why, sizeof why);
    duckdb_destroy_result(result);
    return hm_fail(err, HM_ERR_INPUT, "%s: cannot be read: %s; is the file complete and a trace?", t->path, why);
}

static int count_parquet_rows(struct hm_table *t, struct hm_error *err) {
    char *sql =
        hm_sprintf("SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata%s", t->relation + strlen("read_parquet"));
    if (!sql) return hm_fail_memory(err);
    duckdb_result result;
    int status = hm_table_run(t, sql, &result, err);
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
    if (hm_ends_with(t->path, ".parquet") || hm_ends_with(t->path, ".pq")) {
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
    hm_str_add(&s, "%s(", format == PARQUET ? "read_parquet" : "read_csv");
    if (strpbrk(t->path, "*?[]{}") || strstr(t->path, "://"))
        hm_str_add(&s, "'/proc/self/fd/%d'", t->fd);
    else
        hm_database_quote(&s, t->path);
    hm_str_add(&s, "%s)",
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
    char *what = hm_sprintf("%s: the table reader", t->path);
    if (!what) return hm_fail_memory(err);
    int status = hm_database_open(&t->database, threads, false, what, err);
    hm_free(what);
    if (status == 0 &&
        !(hm_table_register_op_type(t->database.con) && hm_table_register_sink(t->database.con, "hm_sink", t)))
        status = hm_fail_memory(err);
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
               hm_table_inspect(t, err) != 0)
        format = NO_FORMAT;
    else if (!hm_table_register_place(t)) {
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
    hm_database_close(&t->database);
    for (int k = 0; k < COLUMNS; k++) hm_free(t->expression[k]);
    if (t->fd >= 0) close(t->fd);
    pthread_mutex_destroy(&t->lock);
    hm_free(t->relation);
    hm_free(t->path);
    hm_free(t);
}

/* ---- questions ---- */

uint64_t hm_table_bytes(const struct hm_table *t) {
    return (uint64_t)t->file_bytes;
}

size_t hm_table_rows(const struct hm_table *t) {
    return t->total_rows;
}

int hm_table_list_steps(struct hm_table *t, struct hm_step_rows **steps, size_t *n, struct hm_error *err) {
    char *sql =
        hm_sprintf("SELECT CAST(s AS BIGINT), n FROM (SELECT %s AS s, count(*) AS n FROM %s GROUP BY s) ORDER BY s",
                   hm_table_bare(t, C_STEP), t->relation);
    if (!sql) return hm_fail_memory(err);
    duckdb_result result;
    int status = hm_table_run(t, sql, &result, err);
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
        hm_str_add(&sql, "%s)", hm_table_bare(t, column));
    }
    hm_str_add(&sql, " FROM %s", t->relation);
    if (sql.failed) {
        hm_str_free(&sql);
        return hm_fail_memory(err);
    }
    duckdb_result result;
    int status = hm_table_run(t, sql.text, &result, err);
    hm_str_free(&sql);
    if (status != 0) return -1;
    for (idx_t k = 0; k < WANTED; k++)
        *value[k] = duckdb_value_is_null(&result, k, 0) ? -1 : duckdb_value_int64(&result, k, 0);
    duckdb_destroy_result(&result);
    return 0;
}
