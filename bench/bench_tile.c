/* bench_tile.c - a large trace out of a small one: DP ranks and steps repeated with 1 % noise.
 *
 * usage: bench_tile IN.parquet OUT.(parquet|csv|csv.gz) RANKS STEPS   (how often to repeat the DP ranks and the steps) */
#include "base/base.h"

#include <duckdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: bench_tile IN OUT RANKS STEPS\n");
        return 3;
    }
    duckdb_database db;
    duckdb_connection con;
    duckdb_result result;
    const char *format = strstr(argv[2], ".csv")
                             ? (strstr(argv[2], ".gz") ? "FORMAT csv, COMPRESSION gzip" : "FORMAT csv")
                             : "FORMAT parquet, COMPRESSION snappy";
    char *sql = hm_sprintf(
        "COPY (WITH t AS (SELECT *, max(dp_rank) OVER () + 1 AS dp, max(rank) OVER () + 1 AS world FROM '%s') "
        "SELECT (dp_rank + dp * r)::SMALLINT AS dp_rank, stage, (rank + world * r)::INTEGER AS rank, step * %s + s AS "
        "step, optype, "
        "(start_ts * (0.995 + 0.01 * random()))::FLOAT AS start_ts, (duration * (0.995 + 0.01 * random()))::FLOAT AS "
        "duration, "
        "seq_id, mc, mb_id, gmc FROM t, range(%s) a(r), range(%s) b(s)) TO '%s' (%s)",
        argv[1], argv[4], argv[3], argv[4], argv[2], format);
    if (!sql || duckdb_open(NULL, &db) != DuckDBSuccess || duckdb_connect(db, &con) != DuckDBSuccess) return 3;
    if (duckdb_query(con, "SELECT setseed(0.5)", &result) != DuckDBSuccess ||
        duckdb_query(con, sql, &result) != DuckDBSuccess) {
        fprintf(stderr, "%s\n", duckdb_result_error(&result));
        return 3;
    }
    hm_free(sql);
    return 0;
}
