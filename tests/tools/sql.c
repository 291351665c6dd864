/* sql.c - runs SQL statements against DuckDB, one an argument; the command-line tests make variants of traces with it. The rows of a
 * result are printed tab-separated. */
#include <duckdb.h>
#include <stdio.h>

static int run(duckdb_connection con, const char *statement) {
    duckdb_result result;
    if (duckdb_query(con, statement, &result) != DuckDBSuccess) {
        fprintf(stderr, "sql: %s\n", duckdb_result_error(&result));
        duckdb_destroy_result(&result);
        return 1;
    }
    idx_t rows = duckdb_row_count(&result), columns = duckdb_column_count(&result);
    for (idx_t i = 0; i < rows; i++)
        for (idx_t k = 0; k < columns; k++) {
            char *text = duckdb_value_varchar(&result, k, i);
            printf("%s%c", text ? text : "NULL", k + 1 < columns ? '\t' : '\n');
            duckdb_free(text);
        }
    duckdb_destroy_result(&result);
    return 0;
}

int main(int argc, char **argv) {
    duckdb_database db;
    duckdb_connection con;
    if (duckdb_open(NULL, &db) != DuckDBSuccess || duckdb_connect(db, &con) != DuckDBSuccess) return 1;
    int status = run(con, "SET threads = 1");
    for (int i = 1; i < argc && status == 0; i++) status = run(con, argv[i]);
    duckdb_disconnect(&con);
    duckdb_close(&db);
    return status;
}
