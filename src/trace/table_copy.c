/* table_copy.c - op tables into one, by one query that checks the rows as they pass. */
#include "table.h"

#include <stdio.h>
#include <string.h>

/* One table's rows in the columns' common types, checked as they pass. */
static void select_rows(const struct hm_table *t, size_t index, bool float32, struct hm_str *sql) {
    static const int order[COLUMNS] = {C_DP,       C_STAGE, C_RANK, C_STEP, C_OPTYPE, C_START,
                                       C_DURATION, C_SEQ,   C_MC,   C_MB,   C_GMC};
    for (int i = 0; i < COLUMNS; i++) {
        int k = order[i];
        const char *name = hm_table_column[k], *from = t->expression[k];
        hm_str_add(sql, "%s", i ? ", " : "SELECT ");
        if (k == C_OPTYPE)
            hm_str_add(sql, "CAST(optype AS VARCHAR) AS optype");
        else if (k == C_START || k == C_DURATION)
            hm_str_add(sql, "CAST(%s AS %s) AS %s", from, float32 ? "FLOAT" : "DOUBLE", name);
        else if (k == C_STEP)
            hm_str_add(sql, "%s AS step", from);
        else if (k == C_RANK || k == C_MC || k == C_MB || k == C_GMC)
            hm_str_add(sql, "coalesce(TRY_CAST(%s AS INTEGER), -1) AS %s", from, name);
        else
            hm_str_add(sql, "TRY_CAST(%s AS INTEGER) AS %s", from, name);
    }
    hm_str_add(sql, " FROM %s WHERE hm_check_%zu(", t->relation, index);
    for (int k = 0; k < COLUMNS; k++) hm_str_add(sql, "%s%s", k ? ", " : "", t->expression[k]);
    hm_str_add(sql, ")");
}

/* Reading and writing are one query: a reader's complaint names an input, or nothing about writing. */
static int copy_failed(struct hm_table *const *tables, size_t n, const char *path, const char *message,
                       struct hm_error *err) {
    char why[500];
    hm_database_reason(message, why, sizeof why);
    if (strstr(why, "rite") || strstr(why, "No space")) return hm_table_copy_failed(path, message, err);
    return hm_fail(err, HM_ERR_INPUT, "%s%s: cannot be read: %s; is the file complete and a trace?", tables[0]->path,
                   n > 1 ? " and others" : "", why);
}

static int open_session(struct hm_database *d, struct hm_table *const *tables, size_t n,
                        const struct hm_table_target *to, struct hm_error *err) {
    size_t n_files = 0, all = 1;
    for (size_t i = 0; i < n; i++) all += tables[i]->n_files;
    int *files = hm_alloc(all, sizeof *files);
    char *what = hm_sprintf("%s: the table writer", to->path);
    int status = files && what ? 0 : hm_fail_memory(err);
    for (size_t i = 0; status == 0 && i < n; i++)
        for (size_t k = 0; k < tables[i]->n_files; k++) files[n_files++] = tables[i]->files[k];
    if (status == 0) {
        files[n_files++] = to->fd;
        /* Rows in their order: row groups that are ready too early wait in memory, of which there shall be little. */
        const struct hm_database_options options = {
            .ordered = true, .memory_mb = 1024 + 64 * hm_thread_count(0, SIZE_MAX), .files = files, .n_files = n_files};
        status = hm_database_open(d, &options, what, err);
    }
    hm_free(files);
    hm_free(what);
    return status == 0 && !hm_table_register_op_type(d->con) ? hm_fail_memory(err) : status;
}

int hm_tables_copy(struct hm_table *const *tables, size_t n, bool float32, const struct hm_table_target *to,
                   struct hm_error *err) {
    struct hm_database d = {0};
    duckdb_result result;
    struct hm_str sql = {0};
    int status = open_session(&d, tables, n, to, err);
    bool good = status == 0;
    hm_str_add(&sql, "COPY (");
    for (size_t i = 0; i < n && good; i++) {
        struct hm_table *t = tables[i];
        char name[40];
        (void)snprintf(name, sizeof name, "hm_check_%zu", i);
        good = hm_table_register_sink(d.con, name, t);
        t->recording = NULL;
        t->check_only = true;
        t->err = err;
        t->failed = false;
        atomic_store(&t->stop, false);
        hm_table_clear_sightings(t);
        if (i) hm_str_add(&sql, " UNION ALL ");
        select_rows(t, i, float32, &sql);
    }
    hm_str_add(&sql, ")%s", to->sql);
    if (status == 0 && (!good || sql.failed)) status = hm_fail_memory(err);
    if (status == 0) {
        bool written = duckdb_query(d.con, sql.text, &result) == DuckDBSuccess;
        bool unusable = false;
        for (size_t i = 0; i < n; i++) unusable |= tables[i]->failed; /* *err says why */
        if (unusable)
            status = -1;
        else if (!written)
            status = copy_failed(tables, n, to->path, duckdb_result_error(&result), err);
        duckdb_destroy_result(&result);
    }
    hm_database_close(&d);
    hm_str_free(&sql);
    return status;
}
