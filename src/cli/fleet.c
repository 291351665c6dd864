/* fleet.c - `hindmost fleet`: many jobs at once. */
#include "cli.h"
#include "hindmost/report.h"

#include <stdlib.h>
#include <string.h>

struct request {
    const char *json, *html, *parquet, *sql;
    int threads, inputs;
};

#define FIELD(name) offsetof(struct request, name)
static const struct option options[] = {
    {"json", 0, "FILE", "the summary as JSON; - is standard output, without the text", OPTION_OUTPUT, FIELD(json), 0, 0,
     NULL},
    {"html", 0, "FILE", "the summary as one self-contained page", OPTION_OUTPUT, FIELD(html), 0, 0, NULL},
    {"parquet", 0, "FILE", "the table of jobs, one row each", OPTION_OUTPUT, FIELD(parquet), 0, 0, NULL},
    {"sql", 0, "QUERY",
     "DuckDB SQL over the table `jobs`, instead of the text; with --json the rows as JSON\n"
     "(columns: --sql 'DESCRIBE jobs')",
     OPTION_TEXT, FIELD(sql), 0, 0, NULL},
    OPTION_THREADS(struct request, threads),
    {NULL, 0, NULL, NULL, OPTION_FLAG, 0, 0, 0, NULL}};

const struct usage fleet_usage = {
    "RESULT... [options]",
    "Sums up many jobs: how many straggle, what it costs, by size and by cause, and the worst ones.\n",
    "RESULT\tresults of 'hindmost analyze --json' (.json, .json.gz), folders of them, or Parquet files made by\n"
    "\t--parquet; what cannot be read is skipped and named\n",
    options, NULL};

static int parse(struct request *q, int argc, char **argv) {
    int status = options_read(command_named("fleet"), q, argc, argv, &q->inputs);
    if (status == EXIT_DONE && q->inputs < 1)
        return complain_text("fleet needs results of 'hindmost analyze --json'; see 'hindmost help fleet'");
    return status;
}

/* The summary, or the answer to --sql, as JSON. */
static int write_json(const struct request *q, const struct hm_fleet *fleet, struct hm_error *err) {
    struct hm_out *out = hm_out_open(q->json, err);
    if (!out) return -1;
    if (!q->sql) {
        hm_fleet_write_json(fleet, out);
    } else if (hm_fleet_sql(fleet, q->sql, true, out, err) != 0) {
        hm_out_abort(out);
        return -1;
    }
    return hm_out_commit(out, err);
}

/* The answer to --sql as a table; as wide as it is. */
static int print_answer(const struct request *q, const struct hm_fleet *fleet, struct hm_error *err) {
    char *text;
    size_t size;
    struct hm_out *out = hm_out_memory(&text, &size, err);
    if (!out) return -1;
    if (hm_fleet_sql(fleet, q->sql, false, out, err) != 0) {
        hm_out_abort(out);
        free(text);
        return -1;
    }
    int status = hm_out_commit(out, err);
    if (status == 0) print_table(text);
    free(text);
    return status;
}

static int print_summary(const struct hm_fleet *fleet) {
    char *text = hm_fleet_text(fleet, terminal_width());
    if (!text) return complain_text("out of memory while writing the summary");
    int status = print_text(text);
    hm_text_free(text);
    return status;
}

static bool is_stdout(const char *path) {
    return path && strcmp(path, "-") == 0;
}

static int report(const struct request *q, const struct hm_fleet *fleet) {
    struct hm_error err = {0};
    if (q->html && hm_fleet_html(fleet, q->html, &err) != 0) return complain(&err);
    if (q->parquet && hm_fleet_write_parquet(fleet, q->parquet, &err) != 0) return complain(&err);
    if (q->json && write_json(q, fleet, &err) != 0) return complain(&err);
    if (q->sql && !q->json && print_answer(q, fleet, &err) != 0) return complain(&err);
    if (q->sql || is_stdout(q->json) || is_stdout(q->html)) return EXIT_DONE;
    return print_summary(fleet);
}

int fleet_main(int argc, char **argv) {
    struct request q = {0};
    int status = parse(&q, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    struct hm_error err = {0};
    struct hm_fleet *fleet =
        hm_fleet_read((const char *const *)argv + 1, (size_t)q.inputs, q.threads, progress_bar, NULL, &err);
    progress_clear();
    if (fleet && fleet->n_skipped && (q.json || q.sql))
        (void)complain_text("%zu of the results were skipped, the first: %s: %s", fleet->n_skipped,
                            fleet->skipped[0].file, fleet->skipped[0].why);
    status = fleet ? report(&q, fleet) : complain(&err);
    hm_fleet_free(fleet);
    return status;
}
