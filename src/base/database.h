/* database.h - DuckDB in memory, set up in one place: for op tables, the table of jobs, and whatever else is asked in SQL. */
#ifndef HM_BASE_DATABASE_H
#define HM_BASE_DATABASE_H

#include "base.h"

#include <duckdb.h>

struct hm_database {
    duckdb_database db;
    duckdb_connection con;
};

struct hm_database_options {
    int threads;      /* 0: all cores */
    bool ordered;     /* results keep the order of their input, which costs memory and time */
    int memory_mb;    /* 0: DuckDB's own limit */
    const int *files; /* descriptors that its SQL may read and write, by the name HM_DATABASE_FILE; nothing else */
    size_t n_files;
};
/* How SQL names an open file (a printf format). Whatever the file is called, DuckDB sees only this: its own ideas of names (~, globs,
 * columns from folders such as step=7/, addresses) never matter. */
#define HM_DATABASE_FILE "/proc/self/fd/%d"

/* Opens an empty database, every one of ours. It touches no file, no network and no extension beyond `files`, and no statement can
 * change that. `what` names the purpose in errors. Close it in any case. */
int hm_database_open(struct hm_database *d, const struct hm_database_options *options, const char *what,
                     struct hm_error *err);
void hm_database_close(struct hm_database *d);

/* The first line of DuckDB's message (NULL: none) without its "... Error: " lead. */
void hm_database_reason(const char *message, char *text, size_t size);

#endif
