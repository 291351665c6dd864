/* table_columns.c - how to get each column of an op table as the number it stands for, whatever type the file gives it. */
#include "table.h"

#include <ctype.h>
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
        format = "coalesce(TRY_CAST(\"%1$s\" AS DOUBLE), TRY_CAST(replace(\"%1$s\", ',', '.') AS DOUBLE))"; /* 0,5 s */
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

/* ---- columns as people name them ---- */

/* What else a column is called; what a trace can do without stands as "" at the end: -1 then. */
static const char *const other_names[COLUMNS][6] = {
    [C_DP] = {"dp", "data_parallel_rank"},  [C_STAGE] = {"pp_rank", "pp", "pipeline_rank", "stage_id"},
    [C_OPTYPE] = {"op_type", "op", "type"}, [C_SEQ] = {"seq", "sequence", ""},
    [C_START] = {"start", "start_time"},    [C_DURATION] = {"dur", "duration_s"},
    [C_RANK] = {"global_rank", ""},         [C_MC] = {"model_chunk", "chunk", ""},
    [C_MB] = {"mb", "microbatch", ""},      [C_GMC] = {""}};

/* "DP Rank " is dp_rank. */
static void plain_name(const char *name, char *text, size_t size) {
    size_t n = 0;
    while (*name == ' ') name++;
    for (; *name && n + 1 < size; name++)
        text[n++] = *name == ' ' || *name == '-' ? '_' : (char)tolower((unsigned char)*name);
    while (n && text[n - 1] == '_') n--;
    text[n] = 0;
}

static bool names_column(const char *plain, int column) {
    if (strcmp(plain, hm_table_column[column]) == 0) return true;
    for (size_t k = 0; k < 6 && other_names[column][k]; k++)
        if (*plain && strcmp(plain, other_names[column][k]) == 0) return true;
    return false;
}

static bool may_lack(int column) {
    for (size_t k = 0; k < 6 && other_names[column][k]; k++)
        if (!*other_names[column][k]) return true;
    return false;
}

/* A name in SQL. */
static void quote_name(struct hm_str *sql, const char *name) {
    hm_str_add(sql, "\"");
    for (; *name; name++) hm_str_add(sql, *name == '"' ? "\"\"" : "%c", *name);
    hm_str_add(sql, "\"");
}

/* The column of the file that is to be `column`: by its own name, else by another; -1: none. */
static int64_t find_column(duckdb_result *result, int column) {
    int64_t found = -1;
    for (idx_t i = 0; i < duckdb_row_count(result); i++) {
        char *name = duckdb_value_varchar(result, 0, i), plain[64] = "";
        if (name && strcmp(name, hm_table_column[column]) == 0) {
            duckdb_free(name);
            return (int64_t)i;
        }
        if (name) plain_name(name, plain, sizeof plain);
        if (found < 0 && names_column(plain, column)) found = (int64_t)i;
        duckdb_free(name);
    }
    return found;
}

/* Puts a selection around the relation that has all columns under their names. Files that have them are left as they are, for then the
 * reader can do more by itself. */
static int rename_columns(struct hm_table *t, duckdb_result *result, bool *renamed, struct hm_error *err) {
    struct hm_str sql = {0};
    hm_str_add(&sql, "(SELECT ");
    for (int k = 0; k < COLUMNS; k++) {
        int64_t at = find_column(result, k);
        char *name = at >= 0 ? duckdb_value_varchar(result, 0, (idx_t)at) : NULL;
        if (at < 0 && !may_lack(k)) {
            hm_str_free(&sql);
            return hm_fail(
                err, HM_ERR_INPUT,
                "%s: has no column %s; a trace has dp_rank, stage, step, optype, start_ts, duration and, where known, "
                "rank, seq_id, mc, mb_id, gmc",
                t->path, hm_table_column[k]);
        }
        *renamed = *renamed || !name || strcmp(name, hm_table_column[k]) != 0;
        hm_str_add(&sql, k ? ", " : "");
        if (name)
            quote_name(&sql, name);
        else if (k == C_SEQ) /* numbered by start within its worker, step and type, by the reader below */
            hm_str_add(&sql, "0::INTEGER");
        else
            hm_str_add(&sql, "-1::INTEGER");
        hm_str_add(&sql, " AS %s", hm_table_column[k]);
        duckdb_free(name);
    }
    hm_str_add(&sql, " FROM %s)", t->relation);
    if (sql.failed) {
        hm_str_free(&sql);
        return hm_fail_memory(err);
    }
    if (!*renamed) {
        hm_str_free(&sql);
        return 0;
    }
    hm_free(t->relation);
    t->relation = sql.text;
    return 0;
}

static int describe(struct hm_table *t, duckdb_result *result, struct hm_error *err) {
    char *sql = hm_sprintf("DESCRIBE SELECT * FROM %s", t->relation);
    if (!sql) return hm_fail_memory(err);
    int status = hm_table_run(t, sql, result, err);
    hm_free(sql);
    return status;
}

int hm_table_inspect(struct hm_table *t, struct hm_error *err) {
    duckdb_result result;
    bool renamed = false;
    if (describe(t, &result, err) != 0) return -1;
    int status = rename_columns(t, &result, &renamed, err);
    if (status == 0 && renamed) {
        duckdb_destroy_result(&result);
        if (describe(t, &result, err) != 0) return -1;
    }
    idx_t n = duckdb_row_count(&result);
    for (int k = 0; k < COLUMNS && status == 0; k++) {
        hm_free(t->expression[k]);
        t->expression[k] = NULL;
        for (idx_t i = 0; i < n && !t->expression[k] && status == 0; i++) {
            char *name = duckdb_value_varchar(&result, 0, i), *type = duckdb_value_varchar(&result, 1, i);
            if (name && type && strcmp(name, hm_table_column[k]) == 0) status = column_expression(t, k, type, err);
            duckdb_free(name);
            duckdb_free(type);
        }
    }
    duckdb_destroy_result(&result);
    return status;
}

/* How to get a column with as little work as possible; its type is whatever the file has. */
const char *hm_table_bare(const struct hm_table *t, int column) {
    return t->width[column] ? hm_table_column[column] : t->expression[column];
}
