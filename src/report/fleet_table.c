/* fleet_table.c - the table `jobs` in DuckDB: Parquet in and out, and SQL. Its columns are hm_fleet_job_fields. */
#include "fleet.h"

#include "base/database.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs a statement; its first line of complaint becomes the error, behind `where`. */
static int run(struct hm_database *d, const char *sql, duckdb_result *result, enum hm_error_code code,
               const char *where, struct hm_error *err) {
    duckdb_result own;
    duckdb_result *r = result ? result : &own;
    if (duckdb_query(d->con, sql, r) == DuckDBSuccess) {
        if (!result) duckdb_destroy_result(r);
        return 0;
    }
    const char *why = duckdb_result_error(r);
    int length = why ? (int)strcspn(why, "\n") : 0;
    hm_fail(err, code, "%s: %.*s", where, length, why ? why : "");
    duckdb_destroy_result(r);
    return -1;
}

static const char *type_of(const struct hm_fleet_job_field *f) {
    return f->kind == HM_FIELD_TEXT ? "VARCHAR" : f->kind == HM_FIELD_COUNT ? "BIGINT" : "DOUBLE";
}

static void append_row(duckdb_appender appender, const struct hm_fleet_job *job) {
    for (size_t k = 0; k < HM_JOB_FIELDS; k++) {
        const struct hm_fleet_job_field *f = &hm_fleet_job_fields[k];
        const char *text = f->kind == HM_FIELD_TEXT ? *hm_fleet_job_text((struct hm_fleet_job *)job, f) : NULL;
        double number = f->kind == HM_FIELD_NUMBER ? *hm_fleet_job_number((struct hm_fleet_job *)job, f) : 0;
        if (f->kind == HM_FIELD_COUNT)
            duckdb_append_int64(appender, *hm_fleet_job_count((struct hm_fleet_job *)job, f));
        else if (f->kind == HM_FIELD_NUMBER && !isnan(number))
            duckdb_append_double(appender, number);
        else if (text)
            duckdb_append_varchar(appender, text);
        else
            duckdb_append_null(appender);
    }
    duckdb_appender_end_row(appender);
}

/* Opens a database with the table. Close it in any case. */
static int open_jobs(struct hm_database *d, const struct hm_fleet *fleet, struct hm_error *err) {
    if (hm_database_open(d, 0, true, "the table of jobs", err) != 0) return -1;
    struct hm_str sql = {0};
    hm_str_add(&sql, "CREATE TABLE jobs (");
    for (size_t k = 0; k < HM_JOB_FIELDS; k++)
        hm_str_add(&sql, "%s%s %s", k ? ", " : "", hm_fleet_job_fields[k].name, type_of(&hm_fleet_job_fields[k]));
    hm_str_add(&sql, ")");
    int status = sql.failed ? hm_fail_memory(err) : run(d, sql.text, NULL, HM_ERR_MEMORY, "the table of jobs", err);
    hm_str_free(&sql);
    if (status != 0) return -1;
    duckdb_appender appender = NULL;
    bool good = duckdb_appender_create(d->con, NULL, "jobs", &appender) == DuckDBSuccess;
    for (size_t i = 0; good && i < fleet->n_jobs; i++) append_row(appender, &fleet->jobs[i]);
    good = good && duckdb_appender_close(appender) == DuckDBSuccess;
    const char *why = good || !appender ? NULL : duckdb_appender_error(appender);
    if (!good) status = hm_fail(err, HM_ERR_INPUT, "a job cannot go into the table: %s", why ? why : "out of memory");
    if (appender) duckdb_appender_destroy(&appender);
    return status;
}

/* ---- Parquet --------------------------------------------------------------------------------------------------------------------- */

int hm_fleet_write_parquet(const struct hm_fleet *fleet, const char *path, struct hm_error *err) {
    struct hm_database d;
    struct hm_str sql = {0};
    char *temporary = hm_sprintf("%s.tmp.%ld", path, (long)getpid());
    if (!temporary) return hm_fail_memory(err);
    int status = open_jobs(&d, fleet, err);
    if (status == 0) {
        hm_str_add(&sql, "COPY jobs TO ");
        hm_database_quote(&sql, temporary);
        hm_str_add(&sql, " (FORMAT parquet)");
        status = sql.failed ? hm_fail_memory(err) : run(&d, sql.text, NULL, HM_ERR_IO, path, err);
        if (status == 0 && rename(temporary, path) != 0)
            status = hm_fail(err, HM_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
        if (status != 0) (void)unlink(temporary);
    }
    hm_database_close(&d);
    hm_str_free(&sql);
    hm_free(temporary);
    return status;
}

/* One value of a chunk into a job. False without memory. */
static bool take(struct hm_fleet_job *job, const struct hm_fleet_job_field *f, void *values, idx_t row) {
    if (f->kind == HM_FIELD_COUNT) {
        *hm_fleet_job_count(job, f) = ((int64_t *)values)[row];
    } else if (f->kind == HM_FIELD_NUMBER) {
        *hm_fleet_job_number(job, f) = ((double *)values)[row];
    } else {
        duckdb_string_t *s = &((duckdb_string_t *)values)[row];
        return (*hm_fleet_job_text(job, f) =
                    hm_sprintf("%.*s", (int)duckdb_string_t_length(*s), duckdb_string_t_data(s))) != NULL;
    }
    return true;
}

static int take_chunk(duckdb_data_chunk chunk, const char *path, struct hm_fleet_job_list *list, struct hm_error *err) {
    for (idx_t row = 0; row < duckdb_data_chunk_get_size(chunk); row++) {
        struct hm_fleet_job *job = hm_fleet_job_add(list, err);
        if (!job) return -1;
        for (size_t k = 0; k < HM_JOB_FIELDS; k++) {
            duckdb_vector column = duckdb_data_chunk_get_vector(chunk, k);
            uint64_t *valid = duckdb_vector_get_validity(column);
            if (valid && !duckdb_validity_row_is_valid(valid, row)) continue;
            if (!take(job, &hm_fleet_job_fields[k], duckdb_vector_get_data(column), row)) return hm_fail_memory(err);
        }
        if (!isfinite(job->slowdown) || job->slowdown <= 0)
            return hm_fail(err, HM_ERR_INPUT,
                           "%s: a job has no slowdown; write the file again with hindmost fleet --parquet", path);
        if (!(job->gpu_hours >= 0)) job->gpu_hours = 0;
        if (isnan(job->waste)) job->waste = 1 - 1 / job->slowdown;
    }
    return 0;
}

int hm_fleet_read_parquet(const char *path, struct hm_fleet_job_list *list, struct hm_error *err) {
    /* Named through our descriptor: DuckDB would take a path with * or :// for a pattern or an address. */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", path, strerror(errno));
    struct hm_database d;
    struct hm_str sql = {0};
    duckdb_result result;
    const size_t before = list->n;
    int status = hm_database_open(&d, 0, true, "the table of jobs", err);
    hm_str_add(&sql, "SELECT ");
    for (size_t k = 0; k < HM_JOB_FIELDS; k++)
        hm_str_add(&sql, "%sCAST(%s AS %s)", k ? ", " : "", hm_fleet_job_fields[k].name,
                   type_of(&hm_fleet_job_fields[k]));
    hm_str_add(&sql, " FROM read_parquet('/proc/self/fd/%d')", fd);
    if (status == 0) {
        struct hm_error why = {0};
        if (sql.failed)
            status = hm_fail_memory(err);
        else if ((status = run(&d, sql.text, &result, HM_ERR_INPUT, "DuckDB", &why)) != 0)
            hm_fail(err, HM_ERR_INPUT, "%s: not a table of jobs as hindmost fleet --parquet writes it (%s)", path,
                    why.message);
        if (status == 0) {
            for (duckdb_data_chunk chunk; status == 0 && (chunk = duckdb_fetch_chunk(result)) != NULL;) {
                status = take_chunk(chunk, path, list, err);
                duckdb_destroy_data_chunk(&chunk);
            }
            duckdb_destroy_result(&result);
        }
    }
    while (status != 0 && list->n > before) hm_fleet_job_release(&list->job[--list->n]);
    hm_database_close(&d);
    hm_str_free(&sql);
    close(fd);
    return status;
}

/* ---- SQL ------------------------------------------------------------------------------------------------------------------------------ */

/* All values of the answer as text. NULL where there is none. */
struct answer {
    size_t columns, rows, capacity;
    const char **name; /* [column], of `types` */
    bool *numeric;     /* [column] */
    char **cell;       /* [row][column] */
};

static void free_answer(struct answer *a) {
    for (size_t i = 0; a->cell && i < a->rows * a->columns; i++) hm_free(a->cell[i]);
    for (size_t k = 0; a->name && k < a->columns; k++) hm_free((char *)a->name[k]);
    hm_free(a->cell);
    hm_free(a->name);
    hm_free(a->numeric);
}

static bool is_numeric(duckdb_type t) {
    return (t >= DUCKDB_TYPE_TINYINT && t <= DUCKDB_TYPE_DOUBLE) || t == DUCKDB_TYPE_HUGEINT ||
           t == DUCKDB_TYPE_UHUGEINT || t == DUCKDB_TYPE_DECIMAL;
}

static int take_names(struct answer *a, duckdb_result *result, struct hm_error *err) {
    a->columns = duckdb_column_count(result);
    a->name = hm_alloc(a->columns, sizeof *a->name);
    a->numeric = hm_alloc(a->columns, sizeof *a->numeric);
    for (size_t k = 0; a->name && a->numeric && k < a->columns; k++) {
        a->numeric[k] = is_numeric(duckdb_column_type(result, k));
        if (!(a->name[k] = hm_strdup(duckdb_column_name(result, k)))) return hm_fail_memory(err);
    }
    return a->name && a->numeric ? 0 : hm_fail_memory(err);
}

static int take_cells(struct answer *a, duckdb_data_chunk chunk, struct hm_error *err) {
    size_t n = duckdb_data_chunk_get_size(chunk), needed = (a->rows + n) * a->columns;
    if (needed > a->capacity || !a->cell) {
        size_t capacity = needed > 2 * a->capacity ? needed + 1 : 2 * a->capacity;
        char **grown = hm_realloc(a->cell, capacity, sizeof *grown);
        if (!grown) return hm_fail_memory(err);
        a->cell = grown;
        a->capacity = capacity;
    }
    for (size_t row = 0; row < n; row++, a->rows++) {
        memset(a->cell + a->rows * a->columns, 0, a->columns * sizeof *a->cell);
        for (size_t k = 0; k < a->columns; k++) {
            duckdb_vector column = duckdb_data_chunk_get_vector(chunk, k);
            uint64_t *valid = duckdb_vector_get_validity(column);
            if (valid && !duckdb_validity_row_is_valid(valid, row)) continue;
            duckdb_string_t *s = &((duckdb_string_t *)duckdb_vector_get_data(column))[row];
            if (!(a->cell[a->rows * a->columns + k] =
                      hm_sprintf("%.*s", (int)duckdb_string_t_length(*s), duckdb_string_t_data(s)))) {
                a->rows++;
                return hm_fail_memory(err);
            }
        }
    }
    return 0;
}

static int ask(struct hm_database *d, const char *query, struct answer *a, struct hm_error *err) {
    size_t length = strlen(query);
    while (length && strchr("; \t\r\n", query[length - 1])) length--;
    char *sql = hm_sprintf("CREATE TEMP TABLE hm_answer AS FROM (%.*s\n)", (int)length, query);
    duckdb_result result;
    int status = sql ? run(d, sql, NULL, HM_ERR_ARGUMENT, "--sql", err) : hm_fail_memory(err);
    hm_free(sql);
    if (status == 0 && (status = run(d, "FROM hm_answer LIMIT 0", &result, HM_ERR_MEMORY, "--sql", err)) == 0) {
        status = take_names(a, &result, err);
        duckdb_destroy_result(&result);
    }
    if (status == 0 && (status = run(d, "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM hm_answer", &result, HM_ERR_MEMORY,
                                     "--sql", err)) == 0) {
        for (duckdb_data_chunk chunk; status == 0 && (chunk = duckdb_fetch_chunk(result)) != NULL;) {
            status = take_cells(a, chunk, err);
            duckdb_destroy_data_chunk(&chunk);
        }
        duckdb_destroy_result(&result);
    }
    return status;
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static size_t width_of(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void print_cell(struct hm_out *out, const char *text, size_t width, bool right, bool last) {
    int pad = (int)(width - width_of(text));
    if (right)
        hm_out_printf(out, "%*s%s%s", pad, "", text, last ? "\n" : "  ");
    else
        hm_out_printf(out, "%s%*s%s", text, last ? 0 : pad, "", last ? "\n" : "  ");
}

static int print_table(const struct answer *a, struct hm_out *out, struct hm_error *err) {
    size_t *width = hm_alloc(a->columns, sizeof *width);
    if (!width) return hm_fail_memory(err);
    for (size_t k = 0; k < a->columns; k++) {
        width[k] = width_of(a->name[k]);
        for (size_t i = 0; i < a->rows; i++) {
            const char *text = a->cell[i * a->columns + k];
            if (text && width_of(text) > width[k]) width[k] = width_of(text);
        }
    }
    for (size_t k = 0; k < a->columns; k++) print_cell(out, a->name[k], width[k], a->numeric[k], k + 1 == a->columns);
    for (size_t i = 0; i < a->rows; i++)
        for (size_t k = 0; k < a->columns; k++) {
            const char *text = a->cell[i * a->columns + k];
            print_cell(out, text ? text : "", width[k], a->numeric[k], k + 1 == a->columns);
        }
    hm_free(width);
    return 0;
}

static void print_json(const struct answer *a, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 1);
    hm_json_array(&j, NULL);
    for (size_t i = 0; i < a->rows; i++) {
        hm_json_object(&j, NULL);
        for (size_t k = 0; k < a->columns; k++) {
            const char *text = a->cell[i * a->columns + k];
            if (text && a->numeric[k])
                hm_json_number(&j, a->name[k], strtod(text, NULL));
            else
                hm_json_string(&j, a->name[k], text);
        }
        hm_json_end_object(&j);
    }
    hm_json_end_array(&j);
    hm_json_finish(&j);
}

int hm_fleet_sql(const struct hm_fleet *fleet, const char *query, bool json, struct hm_out *out, struct hm_error *err) {
    struct hm_database d;
    struct answer a = {0};
    int status = open_jobs(&d, fleet, err);
    if (status == 0) status = ask(&d, query, &a, err);
    if (status == 0 && json) print_json(&a, out);
    if (status == 0 && !json) status = print_table(&a, out, err);
    free_answer(&a);
    hm_database_close(&d);
    return status;
}
