/* fleet_table.c - the table `jobs` in DuckDB: Parquet in and out. Its columns are hm_fleet_job_fields. */
#include "fleet.h"

#include "base/database.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int hm_jobs_run(struct hm_database *d, const char *sql, duckdb_result *result, enum hm_error_code code,
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

/* DuckDB takes UTF-8 only; a file name may hold any bytes. */
static void append_text(duckdb_appender appender, const char *text) {
    size_t size = strlen(text), at = 0, n;
    uint32_t code;
    while (at < size && (n = hm_utf8_length(text + at, size - at, &code)) > 0) at += n;
    struct hm_str readable = {0};
    if (at < size) hm_str_clean(&readable, text, size);
    duckdb_append_varchar(appender, readable.text ? readable.text : at < size ? "(no name)" : text);
    hm_str_free(&readable);
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
            append_text(appender, text);
        else
            duckdb_append_null(appender);
    }
    duckdb_appender_end_row(appender);
}

int hm_jobs_open(struct hm_database *d, const struct hm_database_options *options, const struct hm_fleet *fleet,
                 struct hm_error *err) {
    if (hm_database_open(d, options, "the table of jobs", err) != 0) return -1;
    struct hm_str sql = {0};
    hm_str_add(&sql, "CREATE TABLE jobs (");
    for (size_t k = 0; k < HM_JOB_FIELDS; k++)
        hm_str_add(&sql, "%s%s %s", k ? ", " : "", hm_fleet_job_fields[k].name, type_of(&hm_fleet_job_fields[k]));
    hm_str_add(&sql, ")");
    int status =
        sql.failed ? hm_fail_memory(err) : hm_jobs_run(d, sql.text, NULL, HM_ERR_MEMORY, "the table of jobs", err);
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
    struct hm_database d = {0};
    struct hm_new_file file;
    char sql[100];
    if (hm_new_file_open(&file, path, true, err) != 0) return -1;
    const struct hm_database_options options = {.ordered = true, .files = &file.fd, .n_files = 1};
    (void)snprintf(sql, sizeof sql, "COPY jobs TO '" HM_DATABASE_FILE "' (FORMAT parquet, USE_TMP_FILE false)",
                   file.fd);
    int status = hm_jobs_open(&d, &options, fleet, err);
    if (status == 0) status = hm_jobs_run(&d, sql, NULL, HM_ERR_IO, path, err);
    hm_database_close(&d);
    if (status != 0)
        hm_new_file_abort(&file);
    else if (hm_new_file_commit(&file) != 0)
        status = hm_fail(err, HM_ERR_IO, "%s: cannot write: %s; nothing was left behind", path, strerror(errno));
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
    int fd = hm_in_open(path, NULL, err);
    if (fd < 0) return -1;
    struct hm_database d;
    struct hm_str sql = {0};
    duckdb_result result;
    const size_t before = list->n;
    const struct hm_database_options options = {.ordered = true, .files = &fd, .n_files = 1};
    int status = hm_database_open(&d, &options, "the table of jobs", err);
    hm_str_add(&sql, "SELECT ");
    for (size_t k = 0; k < HM_JOB_FIELDS; k++)
        hm_str_add(&sql, "%sCAST(%s AS %s)", k ? ", " : "", hm_fleet_job_fields[k].name,
                   type_of(&hm_fleet_job_fields[k]));
    hm_str_add(&sql, " FROM read_parquet('" HM_DATABASE_FILE "', hive_partitioning=false)", fd);
    if (status == 0) {
        struct hm_error why = {0};
        if (sql.failed)
            status = hm_fail_memory(err);
        else if ((status = hm_jobs_run(&d, sql.text, &result, HM_ERR_INPUT, "DuckDB", &why)) != 0)
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
