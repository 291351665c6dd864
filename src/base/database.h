/* database.h - DuckDB in memory, set up in one place: for op tables, the table of jobs, and whatever else is asked in SQL. */
#ifndef HM_BASE_DATABASE_H
#define HM_BASE_DATABASE_H

#include "base.h"

#include <duckdb.h>

struct hm_database {
    duckdb_database db;
    duckdb_connection con;
};

/* Opens an empty database that never fetches extensions. threads: 0 for all cores; ordered: results keep the order of their input,
 * which costs memory and time. `what` names the purpose in errors. Close it in any case. */
int hm_database_open(struct hm_database *d, int threads, bool ordered, const char *what, struct hm_error *err);
void hm_database_close(struct hm_database *d);

/* The first line of DuckDB's message (NULL: none) without its "... Error: " lead. */
void hm_database_reason(const char *message, char *text, size_t size);
/* 'text', quoted for SQL. */
void hm_database_quote(struct hm_str *sql, const char *text);

#endif
