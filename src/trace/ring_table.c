/* ring_table.c - the rows of rings as an event table: .csv, .csv.gz, or .parquet, and the members of groups beside it. */
#include "base/database.h"
#include "trace/ring_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- columns: a row of this table is a column of that one ---- */

typedef void (*print_fn)(struct hm_out *out, const struct hm_ring_row *row);

static void print_text(struct hm_out *out, const char *text) {
    if (!text) return;
    if (!*text || !strpbrk(text, ",\"\n\r")) {
        hm_out_write(out, text, strlen(text));
        return;
    }
    hm_out_write(out, "\"", 1);
    for (const char *c = text; *c; c++) hm_out_write(out, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
    hm_out_write(out, "\"", 1);
}

static void print_known(struct hm_out *out, int64_t value) {
    if (value >= 0) hm_out_printf(out, "%lld", (long long)value);
}

#define TEXT(field, expression)                                                                                        \
    static void print_##field(struct hm_out *out, const struct hm_ring_row *row) {                                     \
        print_text(out, expression);                                                                                   \
    }
#define KNOWN(field, expression)                                                                                       \
    static void print_##field(struct hm_out *out, const struct hm_ring_row *row) {                                     \
        print_known(out, expression);                                                                                  \
    }
TEXT(host, row->ring->host)
TEXT(gpu, *row->ring->gpu ? row->ring->gpu : NULL)
TEXT(kind, row->kind)
TEXT(name, row->name ? row->name : row->kind)
TEXT(group, row->group)
KNOWN(rank, row->rank)
KNOWN(pp, row->ring->pp)
KNOWN(dp, row->ring->dp)
KNOWN(tp, row->ring->tp)
KNOWN(cp, row->ring->cp)
KNOWN(ep, row->ring->ep)
KNOWN(stream, row->stream)
KNOWN(peer, row->peer)
KNOWN(seq, row->seq)
KNOWN(start_ns, row->start_ns)
KNOWN(end_ns, row->end_ns)
KNOWN(launch_ns, row->launch_ns ? row->launch_ns : -1)
KNOWN(microbatch, row->microbatch)
KNOWN(chunk, row->chunk)
KNOWN(bytes, row->bytes)
KNOWN(tokens, row->tokens)

static void print_step(struct hm_out *out, const struct hm_ring_row *row) {
    hm_out_printf(out, "%d", row->step);
}

static const struct {
    const char *name, *type;
    print_fn print;
} columns[] = {
    {"rank", "INTEGER", print_rank},
    {"host", "VARCHAR", print_host},
    {"gpu", "VARCHAR", print_gpu},
    {"pp", "INTEGER", print_pp},
    {"dp", "INTEGER", print_dp},
    {"tp", "INTEGER", print_tp},
    {"cp", "INTEGER", print_cp},
    {"ep", "INTEGER", print_ep},
    {"step", "INTEGER", print_step},
    {"stream", "INTEGER", print_stream},
    {"kind", "VARCHAR", print_kind},
    {"name", "VARCHAR", print_name},
    {"group", "VARCHAR", print_group},
    {"peer", "INTEGER", print_peer},
    {"seq", "INTEGER", print_seq},
    {"start_ns", "BIGINT", print_start_ns},
    {"end_ns", "BIGINT", print_end_ns},
    {"launch_ns", "BIGINT", print_launch_ns},
    {"microbatch", "INTEGER", print_microbatch},
    {"chunk", "INTEGER", print_chunk},
    {"bytes", "BIGINT", print_bytes},
    {"tokens", "BIGINT", print_tokens},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static int write_csv(const struct hm_ring_rows *rows, const char *path, struct hm_error *err) {
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    for (size_t k = 0; k < COLUMNS; k++) hm_out_printf(out, "%s%s", k ? "," : "", columns[k].name);
    hm_out_write(out, "\n", 1);
    for (size_t i = 0; i < rows->count; i++) {
        for (size_t k = 0; k < COLUMNS; k++) {
            if (k) hm_out_write(out, ",", 1);
            columns[k].print(out, &rows->row[i]);
        }
        hm_out_write(out, "\n", 1);
    }
    return hm_out_commit(out, err);
}

/* ---- Parquet: DuckDB reads the CSV that was just written, with the types of the table above ---- */

static int copy_csv(void *context, const struct hm_table_target *to, struct hm_error *err) {
    const int csv = *(const int *)context, files[] = {csv, to->fd};
    const struct hm_database_options options = {.ordered = true, .files = files, .n_files = 2};
    struct hm_database d = {0};
    duckdb_result result;
    struct hm_str sql = {0};
    hm_str_add(&sql, "COPY (SELECT * FROM read_csv('" HM_DATABASE_FILE "'", csv);
    hm_str_add(&sql, ", header = true, delim = ',', quote = '\"', escape = '\"', auto_detect = false, columns = {");
    for (size_t k = 0; k < COLUMNS; k++)
        hm_str_add(&sql, "%s'%s': '%s'", k ? ", " : "", columns[k].name, columns[k].type);
    hm_str_add(&sql, "}))%s", to->sql);
    int status = sql.failed ? hm_fail_memory(err) : hm_database_open(&d, &options, "the table writer", err);
    if (status == 0) {
        if (duckdb_query(d.con, sql.text, &result) != DuckDBSuccess)
            status = hm_table_copy_failed(to->path, duckdb_result_error(&result), err);
        duckdb_destroy_result(&result);
    }
    hm_database_close(&d);
    hm_str_free(&sql);
    return status;
}

static int write_parquet(const struct hm_ring_rows *rows, const char *path, struct hm_error *err) {
    char name[40];
    int csv = hm_unnamed_file(NULL);
    if (csv < 0)
        return hm_fail(err, HM_ERR_IO, "%s: needs room for a temporary file; set TMPDIR to a folder with room", path);
    (void)snprintf(name, sizeof name, HM_DATABASE_FILE, csv);
    int status = write_csv(rows, name, err);
    if (status == 0) status = hm_table_replace(path, copy_csv, &csv, err);
    close(csv);
    return status;
}

/* ---- groups ---- */

static int by_group_name(const void *a, const void *b) {
    const struct hm_ring_row *x = *(struct hm_ring_row *const *)a, *y = *(struct hm_ring_row *const *)b;
    return strcmp(x->group, y->group);
}

/* "0-2,8-12:2" as "0 1 2 8 10 12"; what does not read as such is copied as it is. */
static void print_members(struct hm_out *out, const char *members) {
    long room = 1 << 20; /* members; no group is larger, but a damaged ring may say so */
    bool first = true;
    for (const char *at = members; *at;) {
        char *end;
        long begin = strtol(at, &end, 10), last = begin, stride = 1;
        if (end == at || begin < 0) return;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (*end == ':') stride = strtol(end + 1, &end, 10);
        if (last < begin || stride < 1 || (last - begin) / stride >= room) return;
        room -= (last - begin) / stride + 1;
        for (long m = begin; m <= last; m += stride, first = false) hm_out_printf(out, "%s%ld", first ? "" : " ", m);
        at = *end == ',' ? end + 1 : end;
        if (at == end && *end) return;
    }
}

static char *groups_path(const char *output) {
    static const char *const endings[] = {".csv.gz", ".csv", ".parquet"};
    for (size_t i = 0; i < 3; i++)
        if (hm_ends_with(output, endings[i]))
            return hm_sprintf("%.*s.groups.csv", (int)(strlen(output) - strlen(endings[i])), output);
    return NULL;
}

static int write_groups(const struct hm_ring_rows *rows, const char *output, struct hm_error *err) {
    const struct hm_ring_row **row = hm_alloc(rows->count + 1, sizeof(struct hm_ring_row *));
    char *path = groups_path(output);
    size_t n = 0;
    int status = row && path ? 0 : hm_fail_memory(err);
    for (size_t i = 0; i < rows->count && status == 0; i++)
        if (rows->row[i].group && rows->row[i].members) row[n++] = &rows->row[i];
    if (status == 0 && n > 0) {
        qsort(row, n, sizeof(struct hm_ring_row *), by_group_name);
        struct hm_out *out = hm_out_open(path, err);
        if (out) hm_out_printf(out, "group,members\n");
        for (size_t i = 0; i < n && out; i++) {
            if (i > 0 && strcmp(row[i]->group, row[i - 1]->group) == 0) continue;
            print_text(out, row[i]->group);
            hm_out_write(out, ",", 1);
            print_members(out, row[i]->members);
            hm_out_write(out, "\n", 1);
        }
        status = out ? hm_out_commit(out, err) : -1;
    }
    hm_free(row);
    hm_free(path);
    return status;
}

int hm_rings_convert(const char *const *inputs, size_t n, const char *output, struct hm_ring_summary *summary,
                     struct hm_error *err) {
    struct hm_ring_rows rows;
    struct hm_ring_summary own;
    bool parquet = hm_ends_with(output, ".parquet");
    if (!parquet && !hm_ends_with(output, ".csv") && !hm_ends_with(output, ".csv.gz"))
        return hm_fail(err, HM_ERR_ARGUMENT,
                       "%s: cannot tell the format; give a name that ends in .parquet, .csv or .csv.gz", output);
    if (n == 0) return hm_fail(err, HM_ERR_ARGUMENT, "%s: there is nothing to convert; name a ring", output);
    if (hm_ring_rows_read(&rows, inputs, n, summary ? summary : &own, err) != 0) return -1;
    int status = parquet ? write_parquet(&rows, output, err) : write_csv(&rows, output, err);
    if (status == 0 && write_groups(&rows, output, err) != 0) {
        unlink(output);
        status = -1;
    }
    hm_ring_rows_free(&rows);
    return status;
}
