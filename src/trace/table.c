/* table.c - op tables in Parquet and CSV: a session with DuckDB over one file, and the questions that need no rows. */
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* ---- queries ---- */

int hm_table_run(struct hm_table *t, const char *sql, duckdb_result *result, struct hm_error *err) {
    if (duckdb_query(t->database.con, sql, result) == DuckDBSuccess) return 0;
    char why[500];
    hm_database_reason(duckdb_result_error(result), why, sizeof why);
    duckdb_destroy_result(result);
    return hm_fail(err, HM_ERR_INPUT, "%s: cannot be read: %s; is the file complete and a trace?", t->path, why);
}

static int count_parquet_rows(struct hm_table *t, const char *files, struct hm_error *err) {
    char *sql = hm_sprintf("SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata(%s)", files);
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

/* Files that one call of DuckDB's reads together. */
enum group { PARQUET, CSV, CSV_GZIP, GROUPS };

static enum group group_of(const struct hm_input *file) {
    return strcmp(hm_readers[file->format].name, "parquet") == 0 ? PARQUET : file->gzip ? CSV_GZIP : CSV;
}

/* ['a', 'b'] of the files of a group; empty if there is none. */
static void list_files(const struct hm_table *t, enum group group, struct hm_str *s) {
    const struct hm_inputs *in = t->in;
    for (size_t i = 0, listed = 0; i < in->n; i++) {
        if (group_of(&in->file[i]) != group) continue;
        hm_str_add(s, listed++ ? ", " : "[");
        hm_str_add(s, "'" HM_DATABASE_FILE "'", t->files[i]);
    }
    if (s->length) hm_str_add(s, "]");
}

/* The relation in SQL. Columns of several files get the widest of their types. */
static void make_relation(const struct hm_inputs *in, struct hm_str files[GROUPS], bool cut, struct hm_str *s) {
    static const char *const call[GROUPS] = {
        "read_parquet(%s%s, hive_partitioning=false)",
        "read_csv(%s%s, header=true, hive_partitioning=false, compression='none')",
        "read_csv(%s%s, header=true, hive_partitioning=false, compression='gzip')"};
    int used = 0;
    for (int g = 0; g < GROUPS; g++) used += files[g].length > 0;
    for (int g = 0, done = 0; g < GROUPS; g++) {
        if (!files[g].length) continue;
        if (used > 1) hm_str_add(s, done++ ? " UNION ALL BY NAME SELECT * FROM " : "(SELECT * FROM ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        hm_str_add(s, call[g], files[g].text,
                   g == CSV && cut ? ", union_by_name=true, null_padding=true" /* what a cut line lacks is nothing */
                   : in->n > 1     ? ", union_by_name=true"
                                   : "");
#pragma GCC diagnostic pop
    }
    if (used > 1) hm_str_add(s, ")");
}

static int open_database(struct hm_table *t, int threads, struct hm_error *err) {
    char *what = hm_sprintf("%s: the table reader", t->path);
    if (!what) return hm_fail_memory(err);
    const struct hm_database_options options = {.threads = threads, .files = t->files, .n_files = t->n_files};
    int status = hm_database_open(&t->database, &options, what, err);
    hm_free(what);
    if (status == 0 &&
        !(hm_table_register_op_type(t->database.con) && hm_table_register_sink(t->database.con, "hm_sink", t)))
        status = hm_fail_memory(err);
    return status;
}

static int open_files(struct hm_table *t, struct hm_error *err) {
    t->files = hm_alloc(t->in->n, sizeof *t->files);
    if (!t->files) return hm_fail_memory(err);
    for (size_t i = 0; i < t->in->n; i++) {
        const struct hm_input *f = &t->in->file[i];
        int fd = f->fd >= 0 ? fcntl(f->fd, F_DUPFD_CLOEXEC, 3) : hm_in_open(f->path, NULL, err);
        if (fd < 0) return f->fd >= 0 ? hm_fail(err, HM_ERR_IO, "%s: %s", f->path, strerror(errno)) : -1;
        t->files[t->n_files++] = fd;
        /* DuckDB takes what it gets of a cut file, and does not look at the checksum */
        if (f->gzip && hm_in_check_gzip(fd, f->path, err) != 0) return -1;
    }
    return 0;
}

/* From the files to a session whose columns are known. */
static int open_session(struct hm_table *t, int threads, struct hm_error *err) {
    struct hm_str files[GROUPS] = {0}, relation = {0};
    bool failed = false;
    if (open_files(t, err) != 0) return -1;
    for (size_t i = 0; i < t->in->n; i++)
        if (group_of(&t->in->file[i]) == CSV && hm_table_is_cut(&t->in->file[i])) t->cut = t->in->file[i].path;
    for (int g = 0; g < GROUPS; g++) {
        list_files(t, (enum group)g, &files[g]);
        failed |= files[g].failed;
    }
    if (!failed) make_relation(t->in, files, t->cut != NULL, &relation);
    t->relation = relation.text;
    int status = failed || relation.failed ? hm_fail_memory(err) : open_database(t, threads, err);
    bool counted = !files[CSV].length && !files[CSV_GZIP].length; /* only Parquet says how many rows it has */
    if (status == 0 && counted) status = count_parquet_rows(t, files[PARQUET].text, err);
    if (status == 0) status = hm_table_inspect(t, err);
    if (status == 0 && !hm_table_register_place(t)) status = hm_fail_memory(err);
    for (int g = 0; g < GROUPS; g++) hm_str_free(&files[g]);
    return status;
}

struct hm_table *hm_table_open(const struct hm_inputs *in, int threads, struct hm_error *err) {
    struct hm_table *t = hm_alloc(1, sizeof *t);
    if (!t) {
        hm_fail_memory(err);
        return NULL;
    }
    t->in = in;
    t->path = in->name;
    t->file_bytes = (int64_t)in->bytes;
    pthread_mutex_init(&t->lock, NULL);
    if (open_session(t, threads, err) == 0) return t;
    hm_table_close(t);
    return NULL;
}

int hm_table_recording(struct hm_recording *r, const struct hm_inputs *in, struct hm_error *err) {
    r->table = hm_table_open(in, r->threads, err);
    return r->table ? 0 : -1;
}

void hm_table_close(struct hm_table *t) {
    if (!t) return;
    hm_database_close(&t->database);
    for (int k = 0; k < COLUMNS; k++) hm_free(t->expression[k]);
    pthread_mutex_destroy(&t->lock);
    for (size_t i = 0; i < t->n_files; i++) close(t->files[i]);
    hm_free(t->files);
    hm_free(t->relation);
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
    if (status == 0 && *n > HM_MOST_STEPS)
        status = hm_fail(err, HM_ERR_INPUT, "%s: has more than %d different steps; analyse a part of it", t->path,
                         HM_MOST_STEPS);
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
