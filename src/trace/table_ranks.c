/* table_ranks.c - tables with a row for each GPU of a worker.
 *
 * A worker is the GPUs of a tensor-parallel group (spec "Terms"); the published traces store one of them. Where all were stored, the group
 * is as slow as its slowest: of a compute the row that took longest counts, of a communication the one that was launched last. */
#include "table.h"

#include <inttypes.h>

static int count_further(struct hm_table *t, int64_t step, uint32_t dp, int64_t *further, struct hm_error *err) {
    char *sql = hm_sprintf(
        "SELECT coalesce(sum(n - 1), 0)::BIGINT FROM (SELECT count(DISTINCT %s) AS n FROM %s WHERE %s = %" PRId64
        " AND %s = %" PRIu32 " GROUP BY %s)",
        t->expression[C_RANK], t->relation, t->expression[C_STEP], step, t->expression[C_DP], dp,
        t->expression[C_STAGE]);
    if (!sql) return hm_fail_memory(err);
    duckdb_result result;
    int status = hm_table_run(t, sql, &result, err);
    hm_free(sql);
    if (status != 0) return -1;
    *further = duckdb_value_int64(&result, 0, 0);
    duckdb_destroy_result(&result);
    return 0;
}

int hm_table_merge_ranks(struct hm_table *t, struct hm_recording *r, int64_t step, uint32_t dp, struct hm_error *err) {
    int64_t further = 0;
    if (t->merged) return 0;
    if (count_further(t, step, dp, &further, err) != 0) return -1;
    if (further <= 0) return 0;
    char *sql = hm_sprintf("(SELECT step, dp_rank, stage, optype, seq_id, arg_max(start_ts, weight) AS start_ts, "
                           "arg_max(duration, weight) AS duration, "
                           "min(rank) AS rank, min(mc) AS mc, min(mb_id) AS mb_id, min(gmc) AS gmc FROM (SELECT *, "
                           "CASE WHEN %s IN (0, 1, %d, %d, %d) "
                           "THEN duration ELSE start_ts END AS weight FROM %s) GROUP BY ALL)",
                           t->expression[C_OPTYPE], HM_OPTIMIZER, HM_GC, HM_LAYERNORM_ALL_REDUCE, t->relation);
    if (!sql) return hm_fail_memory(err);
    hm_free(t->relation);
    t->relation = sql;
    t->merged = true;
    t->total_rows = 0;
    if (hm_table_inspect(t, err) != 0) return -1;
    r->n_kept_drops = 0; /* what was counted so far is counted again, but for this */
    for (size_t i = 0; i < r->n_dropped; i++) {
        hm_free(r->dropped[i].what);
        hm_free(r->dropped[i].why);
    }
    r->n_dropped = 0;
    if (hm_drop(r, "ranks", (size_t)further,
                "a replica has rows of several ranks of a worker (all GPUs of a TP group); of each op the slowest "
                "counts") != 0)
        return hm_fail_memory(err);
    r->n_kept_drops = r->n_dropped;
    return 1;
}
