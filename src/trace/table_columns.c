/* table_columns.c - how to get each column of an op table as the number it stands for, whatever type the file gives it. */
#include "table.h"

#include <string.h>

const char *const hm_table_column[COLUMNS] = {"step",     "dp_rank", "stage", "optype", "seq_id", "start_ts",
                                              "duration", "rank",    "mc",    "mb_id",  "gmc"};

/* hm_op_type(text): the number of an op type, or -1. A function of one column, so that DuckDB evaluates it on the column's dictionary
 * and no row's text is ever copied. */
static void op_type(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output) {
    (void)info;
    duckdb_vector v = duckdb_data_chunk_get_vector(input, 0);
    duckdb_string_t *text = duckdb_vector_get_data(v);
    uint64_t *valid = duckdb_vector_get_validity(v);
    int64_t *type = duckdb_vector_get_data(output);
    for (idx_t i = 0; i < duckdb_data_chunk_get_size(input); i++)
        type[i] = valid && !duckdb_validity_row_is_valid(valid, i)
                      ? -1
                      : hm_op_type_find(duckdb_string_t_data(&text[i]), duckdb_string_t_length(text[i]));
}

bool hm_table_register_op_type(duckdb_connection con) {
    duckdb_logical_type integer = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT),
                        text = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR);
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, "hm_op_type");
    duckdb_scalar_function_add_parameter(f, text);
    duckdb_scalar_function_set_return_type(f, integer);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, op_type);
    bool good = duckdb_register_scalar_function(con, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    duckdb_destroy_logical_type(&integer);
    duckdb_destroy_logical_type(&text);
    return good;
}

static bool is_integer_type(const char *type) {
    static const char *const names[] = {"TINYINT",  "SMALLINT",  "INTEGER",  "BIGINT",
                                        "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        if (strcmp(type, names[k]) == 0) return true;
    return false;
}

static bool is_real_type(const char *type) {
    return strcmp(type, "FLOAT") == 0 || strcmp(type, "DOUBLE") == 0 || strncmp(type, "DECIMAL", 7) == 0;
}

/* Bytes of a value that is read as it stands: a signed integer, or a float for a number. 0: it must be converted. */
static int native_width(const char *type, bool number) {
    static const struct {
        const char *name;
        int width;
        bool number;
    } types[] = {{"TINYINT", 1, false}, {"SMALLINT", 2, false}, {"INTEGER", 4, false},
                 {"BIGINT", 8, false},  {"FLOAT", 4, true},     {"DOUBLE", 8, true}};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        if (types[k].number == number && strcmp(type, types[k].name) == 0) return types[k].width;
    return 0;
}

/* How to read a column of DuckDB type `type`; NULL expression and an error if it cannot hold what is wanted. A value
 * that does not convert becomes NULL, which the sink names. */
static int column_expression(struct hm_table *t, int column, const char *type, struct hm_error *err) {
    const char *name = hm_table_column[column], *format = NULL;
    bool text = strcmp(type, "VARCHAR") == 0, number = column == C_START || column == C_DURATION;
    if (column == C_OPTYPE) {
        if (text)
            format = "hm_op_type(\"%s\")";
        else if (strncmp(type, "ENUM", 4) == 0)
            format = "hm_op_type(CAST(\"%s\" AS VARCHAR))";
    } else if (number && (is_integer_type(type) || is_real_type(type))) {
        format = "CAST(\"%s\" AS DOUBLE)";
    } else if (number && text) {
        format = "TRY_CAST(\"%s\" AS DOUBLE)";
    } else if (!number && is_integer_type(type)) {
        format = strcmp(type, "UBIGINT") == 0 ? "TRY_CAST(\"%s\" AS BIGINT)" : "CAST(\"%s\" AS BIGINT)";
    } else if (!number && is_real_type(type)) { /* how pandas stores integers once one is missing */
        format = "CASE WHEN \"%1$s\" = floor(\"%1$s\") THEN TRY_CAST(\"%1$s\" AS BIGINT) END";
    } else if (!number && text) {
        format = "TRY_CAST(\"%s\" AS BIGINT)";
    }
    if (!format)
        return hm_fail(err, HM_ERR_INPUT, "%s: column %s has type %s where %s is needed; write it as such", t->path,
                       name, type,
                       column == C_OPTYPE ? "text"
                       : number           ? "seconds (float or double)"
                                          : "an integer");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    t->expression[column] = hm_sprintf(format, name);
#pragma GCC diagnostic pop
    t->width[column] = column == C_OPTYPE ? 0 : native_width(type, number);
    return t->expression[column] ? 0 : hm_fail_memory(err);
}

int hm_table_inspect(struct hm_table *t, struct hm_error *err) {
    char *sql = hm_sprintf("DESCRIBE SELECT * FROM %s", t->relation);
    if (!sql) return hm_fail_memory(err);
    duckdb_result result;
    int status = hm_table_run(t, sql, &result, err);
    hm_free(sql);
    if (status != 0) return -1;
    idx_t n = duckdb_row_count(&result);
    for (int k = 0; k < COLUMNS && status == 0; k++) {
        bool found = false;
        for (idx_t i = 0; i < n && !found && status == 0; i++) {
            char *name = duckdb_value_varchar(&result, 0, i), *type = duckdb_value_varchar(&result, 1, i);
            if (name && type && strcmp(name, hm_table_column[k]) == 0) {
                found = true;
                status = column_expression(t, k, type, err);
            }
            duckdb_free(name);
            duckdb_free(type);
        }
        if (!found && status == 0)
            status = hm_fail(err, HM_ERR_INPUT,
                             "%s: has no column %s; a trace has dp_rank, stage, rank, step, optype, start_ts, "
                             "duration, seq_id, mc, mb_id, gmc",
                             t->path, hm_table_column[k]);
    }
    duckdb_destroy_result(&result);
    return status;
}

/* How to get a column with as little work as possible; its type is whatever the file has. */
const char *hm_table_bare(const struct hm_table *t, int column) {
    return t->width[column] ? hm_table_column[column] : t->expression[column];
}
