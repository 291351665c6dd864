/* fleet.c - `hindmost fleet`: many jobs at once. */
#include "cli.h"
#include "hindmost/report.h"

#include <string.h>

enum { O_JSON = 1, O_HTML, O_PARQUET, O_SQL, O_THREADS };

static const struct option_spec specs[] = {{"json", 0, true, O_JSON},         {"html", 0, true, O_HTML},
                                           {"parquet", 0, true, O_PARQUET},   {"sql", 0, true, O_SQL},
                                           {"threads", 'j', true, O_THREADS}, {NULL, 0, false, 0}};

const char fleet_help[] =
    "usage: hindmost fleet RESULT... [options]\n\n"
    "Sums up many jobs: how many straggle, what it costs, by size and by cause, and the worst ones.\n\n"
    "  RESULT              results of 'hindmost analyze --json' (.json, .json.gz), folders of them, or Parquet files "
    "made by\n"
    "                      --parquet; what cannot be read is skipped and named\n"
    "      --json FILE     the summary as JSON; - is standard output, without the text\n"
    "      --html FILE     the summary as one self-contained page\n"
    "      --parquet FILE  the table of jobs, one row each\n"
    "      --sql QUERY     DuckDB SQL over the table `jobs`, instead of the text; with --json the rows as JSON\n"
    "                      (columns: --sql 'DESCRIBE jobs')\n"
    "  -j, --threads N     threads (default: all cores)\n";

struct request {
    const char *json, *html, *parquet, *sql;
    long threads;
    int inputs;
};

static int parse(struct request *q, int argc, char **argv) {
    struct options o;
    options_begin(&o, command_named("fleet"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        switch (id) {
        case OPTION_BAD:
            return EXIT_UNUSABLE;
        case OPTION_HELP:
            return -1;
        case O_JSON:
            q->json = o.value;
            break;
        case O_HTML:
            q->html = o.value;
            break;
        case O_PARQUET:
            q->parquet = o.value;
            break;
        case O_SQL:
            q->sql = o.value;
            break;
        case O_THREADS:
            if (!option_integer(&o, "--threads", 1, 256, &q->threads)) return EXIT_UNUSABLE;
            break;
        default:
            break;
        }
    }
    q->inputs = o.inputs;
    if (o.inputs < 1)
        return complain_text("fleet needs results of 'hindmost analyze --json'; see 'hindmost help fleet'");
    return EXIT_DONE;
}

/* The answer to --sql, or the summary as JSON. */
static int write_out(const struct request *q, const struct hm_fleet *fleet, struct hm_error *err) {
    struct hm_out *out = hm_out_open(q->json ? q->json : "-", err);
    if (!out) return -1;
    if (!q->sql) {
        hm_fleet_write_json(fleet, out);
    } else if (hm_fleet_sql(fleet, q->sql, q->json != NULL, out, err) != 0) {
        hm_out_abort(out);
        return -1;
    }
    return hm_out_commit(out, err);
}

static int print_summary(const struct hm_fleet *fleet) {
    char *text = hm_fleet_text(fleet);
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
    if ((q->json || q->sql) && write_out(q, fleet, &err) != 0) return complain(&err);
    if (q->sql || is_stdout(q->json) || is_stdout(q->html)) return EXIT_DONE;
    return print_summary(fleet);
}

int fleet_main(int argc, char **argv) {
    struct request q = {0};
    int status = parse(&q, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    struct hm_error err = {0};
    struct hm_fleet *fleet =
        hm_fleet_read((const char *const *)argv + 1, (size_t)q.inputs, (int)q.threads, progress_bar, NULL, &err);
    progress_clear();
    if (fleet && fleet->n_skipped && (q.json || q.sql))
        (void)fprintf(stderr, "hindmost: %zu of the results were skipped, the first: %s: %s\n", fleet->n_skipped,
                      fleet->skipped[0].file, fleet->skipped[0].why);
    status = fleet ? report(&q, fleet) : complain(&err);
    hm_fleet_free(fleet);
    return status;
}
