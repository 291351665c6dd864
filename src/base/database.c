/* database.c - sets up DuckDB. */
#include "database.h"

#include <stdio.h>
#include <string.h>

/* Shuts the door, in this order: once the configuration is locked, nothing opens it again. */
static bool lock(const struct hm_database *d, const struct hm_database_options *o) {
    struct hm_str sql = {0};
    hm_str_add(&sql, "SET allowed_paths = [");
    for (size_t i = 0; i < o->n_files; i++) hm_str_add(&sql, "%s'" HM_DATABASE_FILE "'", i ? ", " : "", o->files[i]);
    hm_str_add(&sql, "]");
    if (o->memory_mb) hm_str_add(&sql, "; SET memory_limit = '%dMB'", o->memory_mb);
    hm_str_add(&sql, "; SET temp_directory = ''; SET enable_external_access = false; SET lock_configuration = true");
    bool good = !sql.failed && duckdb_query(d->con, sql.text, NULL) == DuckDBSuccess;
    hm_str_free(&sql);
    return good;
}

int hm_database_open(struct hm_database *d, const struct hm_database_options *options, const char *what,
                     struct hm_error *err) {
    duckdb_config config = NULL;
    char count[16], *message = NULL;
    int status = 0;
    *d = (struct hm_database){0};
    (void)snprintf(count, sizeof count, "%d", hm_thread_count(options->threads, SIZE_MAX));
    if (hm_fault_hit() || duckdb_create_config(&config) != DuckDBSuccess ||
        duckdb_set_config(config, "threads", count) != DuckDBSuccess ||
        duckdb_set_config(config, "preserve_insertion_order", options->ordered ? "true" : "false") != DuckDBSuccess ||
        duckdb_set_config(config, "autoinstall_known_extensions", "false") != DuckDBSuccess ||
        duckdb_set_config(config, "autoload_known_extensions", "false") != DuckDBSuccess ||
        duckdb_open_ext(NULL, &d->db, config, &message) != DuckDBSuccess ||
        duckdb_connect(d->db, &d->con) != DuckDBSuccess || !lock(d, options))
        status = hm_fail(err, HM_ERR_MEMORY, "%s could not be started: %s", what, message ? message : "out of memory");
    duckdb_free(message);
    if (config) duckdb_destroy_config(&config);
    return status;
}

void hm_database_close(struct hm_database *d) {
    if (d->con) duckdb_disconnect(&d->con);
    if (d->db) duckdb_close(&d->db);
    *d = (struct hm_database){0};
}

void hm_database_reason(const char *message, char *text, size_t size) {
    if (!message) message = "the reader failed";
    const char *colon = strstr(message, "Error: ");
    if (colon && colon - message < 40) message = colon + 7;
    size_t n = strcspn(message, "\n");
    if (n >= size) n = size - 1;
    memcpy(text, message, n);
    text[n] = 0;
}
