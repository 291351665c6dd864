/* database.c - sets up DuckDB. */
#include "database.h"

#include <stdio.h>
#include <string.h>

int hm_database_open(struct hm_database *d, int threads, bool ordered, const char *what, struct hm_error *err) {
    duckdb_config config = NULL;
    char count[16], *message = NULL;
    int status = 0;
    *d = (struct hm_database){0};
    (void)snprintf(count, sizeof count, "%d", hm_thread_count(threads, SIZE_MAX));
    if (hm_fault_hit() || duckdb_create_config(&config) != DuckDBSuccess ||
        duckdb_set_config(config, "threads", count) != DuckDBSuccess ||
        duckdb_set_config(config, "preserve_insertion_order", ordered ? "true" : "false") != DuckDBSuccess ||
        duckdb_set_config(config, "autoinstall_known_extensions", "false") != DuckDBSuccess ||
        duckdb_open_ext(NULL, &d->db, config, &message) != DuckDBSuccess ||
        duckdb_connect(d->db, &d->con) != DuckDBSuccess)
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

void hm_database_quote(struct hm_str *sql, const char *text) {
    hm_str_bytes(sql, "'", 1);
    for (const char *c = text; *c; c++) hm_str_add(sql, *c == '\'' ? "''" : "%c", *c);
    hm_str_bytes(sql, "'", 1);
}
