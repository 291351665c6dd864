/* fleet_sql.c - questions in SQL over the table `jobs`, and over nothing else. */
#include "fleet.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All values of the answer as text. NULL where there is none. */
struct answer {
    size_t columns, rows, capacity;
    const char **name; /* [column], of `types` */
    bool *numeric;     /* [column] */
    char **cell;       /* [row][column] */
};

static void free_answer(struct answer *a) {
    for (size_t i = 0; a->cell && i < a->rows * a->columns; i++) hm_free(a->cell[i]);
    for (size_t k = 0; a->name && k < a->columns; k++) hm_free((char *)a->name[k]);
    hm_free(a->cell);
    hm_free(a->name);
    hm_free(a->numeric);
}

static bool is_numeric(duckdb_type t) {
    return (t >= DUCKDB_TYPE_TINYINT && t <= DUCKDB_TYPE_DOUBLE) || t == DUCKDB_TYPE_HUGEINT ||
           t == DUCKDB_TYPE_UHUGEINT || t == DUCKDB_TYPE_DECIMAL;
}

static int take_names(struct answer *a, duckdb_result *result, struct hm_error *err) {
    a->columns = duckdb_column_count(result);
    a->name = hm_alloc(a->columns, sizeof *a->name);
    a->numeric = hm_alloc(a->columns, sizeof *a->numeric);
    for (size_t k = 0; a->name && a->numeric && k < a->columns; k++) {
        a->numeric[k] = is_numeric(duckdb_column_type(result, k));
        if (!(a->name[k] = hm_strdup(duckdb_column_name(result, k)))) return hm_fail_memory(err);
    }
    return a->name && a->numeric ? 0 : hm_fail_memory(err);
}

static int take_cells(struct answer *a, duckdb_data_chunk chunk, struct hm_error *err) {
    size_t n = duckdb_data_chunk_get_size(chunk), needed = (a->rows + n) * a->columns;
    if (needed > a->capacity || !a->cell) {
        size_t capacity = needed > 2 * a->capacity ? needed + 1 : 2 * a->capacity;
        char **grown = hm_realloc(a->cell, capacity, sizeof *grown);
        if (!grown) return hm_fail_memory(err);
        a->cell = grown;
        a->capacity = capacity;
    }
    for (size_t row = 0; row < n; row++, a->rows++) {
        memset(a->cell + a->rows * a->columns, 0, a->columns * sizeof *a->cell);
        for (size_t k = 0; k < a->columns; k++) {
            duckdb_vector column = duckdb_data_chunk_get_vector(chunk, k);
            uint64_t *valid = duckdb_vector_get_validity(column);
            if (valid && !duckdb_validity_row_is_valid(valid, row)) continue;
            duckdb_string_t *s = &((duckdb_string_t *)duckdb_vector_get_data(column))[row];
            if (!(a->cell[a->rows * a->columns + k] =
                      hm_sprintf("%.*s", (int)duckdb_string_t_length(*s), duckdb_string_t_data(s)))) {
                a->rows++;
                return hm_fail_memory(err);
            }
        }
    }
    return 0;
}

/* ---- what may be asked ---- */

struct permission {
    const json_t *tree;
    char why[160]; /* not empty: refused */
};

/* Whether a WITH of the query, wherever it stands, defines that name. A name of DuckDB's own views is never one: outside of its WITH it
 * would mean the view. */
static bool defined(const json_t *node, const char *name) {
    static const char *const own[] = {"duckdb_", "pg_", "sqlite_", "pragma_"};
    for (size_t k = 0; k < sizeof own / sizeof own[0]; k++)
        if (strncasecmp(name, own[k], strlen(own[k])) == 0) return false;
    const char *key;
    json_t *value;
    size_t i;
    const json_t *map = json_object_get(json_object_get(node, "cte_map"), "map");
    json_array_foreach(map, i, value) {
        const char *defines = json_string_value(json_object_get(value, "key"));
        if (defines && strcasecmp(defines, name) == 0) return true;
    }
    if (json_is_array(node)) json_array_foreach(node, i, value) if (defined(value, name)) return true;
    if (json_is_object(node)) json_object_foreach((json_t *)node, key, value) if (defined(value, name)) return true;
    return false;
}

static const char *text_of(const json_t *node, const char *key) {
    const char *text = json_string_value(json_object_get(node, key));
    return text ? text : "";
}

static bool among(const char *name, const char *const *names) {
    for (; *names; names++)
        if (strcasecmp(name, *names) == 0) return true;
    return false;
}

/* Looks at one node of the parsed query. */
static void judge_node(struct permission *p, const json_t *node) {
    static const char *const series[] = {"range", "generate_series", "unnest", NULL},
                             *const peeks[] = {"current_setting", "getvariable", "getenv", "nextval", "currval", NULL};
    const char *type = text_of(node, "type"), *table = text_of(node, "table_name");
    bool base = strcmp(type, "BASE_TABLE") == 0;
    if (base || strcmp(type, "SHOW_REF") == 0) {
        bool ours = strcasecmp(table, "jobs") == 0 && strcasecmp(text_of(node, "schema_name"), "main") == 0;
        bool plain = !*text_of(node, "schema_name") && !*text_of(node, "catalog_name");
        if (!ours && !(plain && (strcasecmp(table, "jobs") == 0 || (!base && !*table) || defined(p->tree, table))))
            (void)snprintf(p->why, sizeof p->why,
                           "table %.60s is not there: a query reads the table jobs and nothing else",
                           *table ? table : "of tables");
    } else if (strcmp(type, "TABLE_FUNCTION") == 0) {
        const char *name = text_of(json_object_get(node, "function"), "function_name");
        if (!among(name, series))
            (void)snprintf(p->why, sizeof p->why,
                           "%.60s() is not allowed: a query reads the table jobs and nothing else", name);
    } else if (strcmp(type, "FUNCTION") == 0 && among(text_of(node, "function_name"), peeks)) {
        (void)snprintf(p->why, sizeof p->why, "%.60s() is not allowed: a query reads the table jobs and nothing else",
                       text_of(node, "function_name"));
    }
}

static void judge(struct permission *p, const json_t *node) {
    const char *key;
    json_t *value;
    size_t i;
    if (p->why[0]) return;
    if (json_is_object(node)) {
        judge_node(p, node);
        json_object_foreach((json_t *)node, key, value) judge(p, value);
    } else if (json_is_array(node)) {
        json_array_foreach(node, i, value) judge(p, value);
    }
}

/* The session itself can reach nothing outside (database.h); here DuckDB's own parse of the query shows that it is one SELECT, and that
 * all it reads is the table jobs. */
static int permit(struct hm_database *d, const char *query, struct hm_error *err) {
    struct hm_str sql = {0};
    duckdb_result result;
    hm_str_add(&sql, "SELECT json_serialize_sql('");
    for (const char *c = query; *c; c++) hm_str_bytes(&sql, *c == '\'' ? "''" : c, *c == '\'' ? 2 : 1);
    hm_str_add(&sql, "')");
    int status = sql.failed ? hm_fail_memory(err) : hm_jobs_run(d, sql.text, &result, HM_ERR_ARGUMENT, "--sql", err);
    hm_str_free(&sql);
    if (status != 0) return -1;
    char *text = duckdb_value_varchar(&result, 0, 0);
    json_t *parsed = text ? json_loads(text, JSON_DECODE_INT_AS_REAL, NULL) : NULL;
    const json_t *statements = json_object_get(parsed, "statements");
    struct permission p = {.tree = statements};
    if (json_is_true(json_object_get(parsed, "error"))) {
        const char *message = text_of(parsed, "error_message");
        if (strncmp(message, "Only SELECT", 11) == 0)
            status =
                hm_fail(err, HM_ERR_ARGUMENT, "--sql: is no SELECT; a query reads the table jobs and nothing else");
        else
            status =
                hm_fail(err, HM_ERR_ARGUMENT, "--sql: %.*s; correct the query", (int)strcspn(message, "\n"), message);
    } else if (json_array_size(statements) != 1) {
        status =
            hm_fail(err, HM_ERR_ARGUMENT, "--sql: is %zu statements; give one SELECT", json_array_size(statements));
    } else {
        judge(&p, statements);
        if (p.why[0]) status = hm_fail(err, HM_ERR_ARGUMENT, "--sql: %s", p.why);
    }
    json_decref(parsed);
    duckdb_free(text);
    duckdb_destroy_result(&result);
    return status;
}

static int ask(struct hm_database *d, const char *query, struct answer *a, struct hm_error *err) {
    if (permit(d, query, err) != 0) return -1;
    size_t length = strlen(query);
    while (length && strchr("; \t\r\n", query[length - 1])) length--;
    char *sql = hm_sprintf("CREATE TEMP TABLE hm_answer AS FROM (%.*s\n)", (int)length, query);
    duckdb_result result;
    int status = sql ? hm_jobs_run(d, sql, NULL, HM_ERR_ARGUMENT, "--sql", err) : hm_fail_memory(err);
    hm_free(sql);
    if (status == 0 && (status = hm_jobs_run(d, "FROM hm_answer LIMIT 0", &result, HM_ERR_MEMORY, "--sql", err)) == 0) {
        status = take_names(a, &result, err);
        duckdb_destroy_result(&result);
    }
    if (status == 0 && (status = hm_jobs_run(d, "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM hm_answer", &result,
                                             HM_ERR_MEMORY, "--sql", err)) == 0) {
        for (duckdb_data_chunk chunk; status == 0 && (chunk = duckdb_fetch_chunk(result)) != NULL;) {
            status = take_cells(a, chunk, err);
            duckdb_destroy_data_chunk(&chunk);
        }
        duckdb_destroy_result(&result);
    }
    return status;
}

/* ---- the answer ---- */

/* How wide a text shows, with what cannot show escaped. */
static size_t width_of(const char *text) {
    struct hm_str clean = {0};
    hm_str_clean(&clean, text, strlen(text));
    size_t n = clean.text ? hm_columns(clean.text, clean.length) : 0;
    hm_str_free(&clean);
    return n;
}

static void print_cell(struct hm_str *s, const char *text, size_t width, bool right, bool last) {
    if (right)
        hm_str_add(s, "%*s%s", (int)width, text, last ? "" : "  ");
    else
        hm_str_add(s, "%-*s%s", last ? 0 : (int)width, text, last ? "" : "  ");
    if (last) hm_str_add(s, "\n");
}

static int print_table(const struct answer *a, struct hm_out *out, struct hm_error *err) {
    size_t *width = hm_alloc(a->columns, sizeof *width);
    if (!width) return hm_fail_memory(err);
    for (size_t k = 0; k < a->columns; k++) {
        width[k] = width_of(a->name[k]);
        for (size_t i = 0; i < a->rows; i++) {
            const char *text = a->cell[i * a->columns + k];
            size_t n = text ? width_of(text) : 0;
            if (n > width[k]) width[k] = n;
        }
    }
    struct hm_str s = {.people = true};
    for (size_t k = 0; k < a->columns; k++) print_cell(&s, a->name[k], width[k], a->numeric[k], k + 1 == a->columns);
    for (size_t i = 0; i < a->rows; i++)
        for (size_t k = 0; k < a->columns; k++) {
            const char *text = a->cell[i * a->columns + k];
            print_cell(&s, text ? text : "", width[k], a->numeric[k], k + 1 == a->columns);
        }
    hm_free(width);
    if (!s.failed && s.length) hm_out_write(out, s.text, s.length);
    bool failed = s.failed;
    hm_str_free(&s);
    return failed ? hm_fail_memory(err) : 0;
}

static void print_json(const struct answer *a, struct hm_out *out) {
    struct hm_json j;
    hm_json_begin(&j, out, 1);
    hm_json_array(&j, NULL);
    for (size_t i = 0; i < a->rows; i++) {
        hm_json_object(&j, NULL);
        for (size_t k = 0; k < a->columns; k++) {
            const char *text = a->cell[i * a->columns + k];
            if (text && a->numeric[k])
                hm_json_number(&j, a->name[k], strtod(text, NULL));
            else
                hm_json_string(&j, a->name[k], text);
        }
        hm_json_end_object(&j);
    }
    hm_json_end_array(&j);
    hm_json_finish(&j);
}

int hm_fleet_sql(const struct hm_fleet *fleet, const char *query, bool json, struct hm_out *out, struct hm_error *err) {
    struct hm_database d = {0};
    struct answer a = {0};
    int status = hm_jobs_open(&d, &(struct hm_database_options){.ordered = true}, fleet, err);
    if (status == 0) status = ask(&d, query, &a, err);
    if (status == 0 && json) print_json(&a, out);
    if (status == 0 && !json) status = print_table(&a, out, err);
    free_answer(&a);
    hm_database_close(&d);
    return status;
}
