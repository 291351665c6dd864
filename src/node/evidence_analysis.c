/* evidence_analysis.c - a what-if analysis as evidence: the slow workers that it names, on the hosts that a table gives their ranks. */
#include "node/evidence.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 1 << 22, MOST_COLUMNS = 16 };

/* ---- the table of hosts: rank,host[,gpu] or stage,dp_rank,host[,gpu] ---- */

struct row {
    long rank, stage, dp_rank; /* -1: not said */
    char *host, *gpu;          /* gpu may be NULL */
};
struct hosts {
    struct row *row;
    size_t count, room;
};

static void free_hosts(struct hosts *h) {
    for (size_t i = 0; i < h->count; i++) {
        hm_free(h->row[i].host);
        hm_free(h->row[i].gpu);
    }
    hm_free(h->row);
}

/* Cells by commas, or by blanks where there is no comma; without blanks or quotes around them. */
static size_t cells(char *line, char **cell) {
    const char *by = strchr(line, ',') ? "," : " \t";
    size_t n = 0;
    for (char *part; n < MOST_COLUMNS && (part = strsep(&line, by)) != NULL;) {
        part += strspn(part, " \t\"");
        size_t length = strlen(part);
        while (length && strchr(" \t\r\n\"", part[length - 1])) part[--length] = 0;
        if (*part || *by == ',') cell[n++] = part;
    }
    return n;
}

enum { C_RANK, C_STAGE, C_DP, C_HOST, C_GPU, COLUMNS };

/* Whether the cells are names of columns; which are where. */
static bool header(char *const *cell, size_t n, int found[COLUMNS]) {
    int column[COLUMNS];
    static const char *const names[COLUMNS][3] = {{"rank", "global_rank", ""},
                                                  {"stage", "pp_rank", ""},
                                                  {"dp_rank", "dp", ""},
                                                  {"host", "hostname", "node"},
                                                  {"gpu", "local_rank", ""}};
    for (int c = 0; c < COLUMNS; c++) {
        column[c] = -1;
        for (size_t k = 0; k < n; k++)
            for (int a = 0; a < 3; a++)
                if (*names[c][a] && strcasecmp(cell[k], names[c][a]) == 0) column[c] = (int)k;
    }
    if (column[C_HOST] < 0 || (column[C_RANK] < 0 && (column[C_STAGE] < 0 || column[C_DP] < 0))) return false;
    memcpy(found, column, sizeof column);
    return true;
}

static bool number(char *const *cell, size_t n, int column, long *value) {
    char *end;
    *value = -1;
    if (column < 0) return true;
    if (column >= (int)n || !*cell[column]) return false;
    *value = strtol(cell[column], &end, 10);
    return !*end && *value >= 0;
}

static int read_hosts(struct hosts *h, const char *path, struct hm_error *err) {
    FILE *f = fopen(path, "r");
    char *line = NULL, *cell[MOST_COLUMNS];
    size_t capacity = 0, number_of_line = 0;
    int column[COLUMNS] = {0, -1, -1, 1, 2}, status = 0; /* without a header: rank, host, gpu */
    if (!f) return hm_fail(err, HM_ERR_IO, "%s: %s; name a table of rank,host", path, strerror(errno));
    while (status == 0 && getline(&line, &capacity, f) > 0) {
        char *text = line + (number_of_line == 0 && strncmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
        struct row row = {0};
        number_of_line++;
        if (!text[strspn(text, " \t\r\n")] || *text == '#') continue;
        size_t n = cells(text, cell);
        if (h->count == 0 && header(cell, n, column)) continue;
        if (!number(cell, n, column[C_RANK], &row.rank) || !number(cell, n, column[C_STAGE], &row.stage) ||
            !number(cell, n, column[C_DP], &row.dp_rank) || column[C_HOST] >= (int)n || !*cell[column[C_HOST]]) {
            status = hm_fail(err, HM_ERR_INPUT, "%s: line %zu: no rank and host; give rank,host or stage,dp_rank,host",
                             path, number_of_line);
            break;
        }
        struct row *grown = h->count < MOST_ROWS ? hm_grow(h->row, h->count, &h->room, sizeof *grown) : NULL;
        if (grown) h->row = grown;
        row.host = grown ? hm_strdup(cell[column[C_HOST]]) : NULL;
        bool gpu = column[C_GPU] >= 0 && column[C_GPU] < (int)n && *cell[column[C_GPU]];
        if (row.host && gpu) row.gpu = hm_strdup(cell[column[C_GPU]]);
        if (!row.host || (gpu && !row.gpu)) {
            hm_free(row.host);
            status = hm_fail_memory(err);
            break;
        }
        grown[h->count++] = row;
    }
    if (status == 0 && ferror(f)) status = hm_fail(err, HM_ERR_IO, "%s: cannot be read; is it a file?", path);
    if (status == 0 && h->count == 0)
        status = hm_fail(err, HM_ERR_INPUT, "%s: no rank and host in it; give rank,host", path);
    free(line);
    fclose(f);
    return status;
}

/* ---- the analysis ---- */

struct culprit {
    long rank, stage, dp_rank; /* rank -1: not known yet */
};

struct joining {
    struct hm_evidence_list *list;
    const json_t *result;
    const char *path, *hosts_path, *detail;
    struct hosts hosts;
    double now_s;
};

static long whole(const json_t *o, const char *key, long otherwise) {
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? (long)json_integer_value(v) : otherwise;
}

static int blame_row(struct joining *j, const struct row *row, struct hm_error *err) {
    for (size_t i = 0; i < j->list->count;
         i++) { /* several ranks of one host are one piece, unless on GPUs of their own */
        const struct hm_node_evidence *e = &j->list->item[i];
        if (strcmp(e->node, row->host) == 0 && strcmp(e->detail, j->detail) == 0 &&
            strcmp(e->subject ? e->subject : "", row->gpu ? row->gpu : "") == 0)
            return 0;
    }
    struct hm_node_evidence e = {.node = row->host,
                                 .source = "analysis",
                                 .kind = "slow-worker",
                                 .detail = j->detail,
                                 .subject = row->gpu,
                                 .time_s = j->now_s};
    return hm_evidence_add(j->list, &e, err);
}

/* The ranks of a worker: those that the result lists; else Megatron-LM's order, TP and CP innermost, then DP, then stages. */
static int blame(struct joining *j, const struct culprit *c, struct hm_error *err) {
    const json_t *job = json_object_get(j->result, "job");
    long dp = whole(job, "dp", 1), width = whole(job, "tp", 1) * whole(job, "cp", 1), found = 0;
    long first = c->rank >= 0 ? c->rank : (c->stage * dp + c->dp_rank) * width,
         last = c->rank >= 0 ? c->rank : first + width - 1;
    size_t i;
    json_t *by_rank;
    for (size_t k = 0; k < j->hosts.count; k++) { /* a table by stage and DP rank says it itself */
        const struct row *row = &j->hosts.row[k];
        if (row->stage < 0 || c->stage < 0 || row->stage != c->stage || row->dp_rank != c->dp_rank) continue;
        found++;
        if (blame_row(j, row, err) != 0) return -1;
    }
    if (found) return 0;
    json_array_foreach(json_object_get(j->result, "by_rank"), i, by_rank) {
        long rank = whole(by_rank, "rank", -1);
        bool mine = c->rank >= 0
                        ? rank == c->rank
                        : whole(by_rank, "stage", -1) == c->stage && whole(by_rank, "dp_rank", -1) == c->dp_rank;
        for (size_t k = 0; mine && k < j->hosts.count; k++)
            if (j->hosts.row[k].rank == rank && ++found && blame_row(j, &j->hosts.row[k], err) != 0) return -1;
    }
    for (size_t k = 0; !found && k < j->hosts.count; k++)
        if (j->hosts.row[k].rank >= first && j->hosts.row[k].rank <= last && blame_row(j, &j->hosts.row[k], err) != 0)
            return -1;
    for (size_t k = 0; k < j->hosts.count; k++) found += j->hosts.row[k].rank >= first && j->hosts.row[k].rank <= last;
    if (found) return 0;
    if (c->rank >= 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: no host of rank %ld, which is slow; add it", j->hosts_path, c->rank);
    return hm_fail(err, HM_ERR_INPUT, "%s: no host of stage %ld, DP rank %ld (ranks %ld to %ld), which is slow; add it",
                   j->hosts_path, c->stage, c->dp_rank, first, last);
}

static int slow_worker(struct joining *j, const json_t *cause, struct hm_error *err) {
    const json_t *where = json_object_get(cause, "where"), *ranks = json_object_get(where, "ranks"),
                 *workers = json_object_get(where, "workers"), *one;
    size_t i;
    if (json_array_size(ranks) + json_array_size(workers) == 0)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: slow-worker names neither workers nor ranks; give the result of this version", j->path);
    if (json_array_size(ranks)) {
        json_array_foreach(ranks, i,
                           one) if (blame(j, &(struct culprit){json_integer_value(one), -1, -1}, err) != 0) return -1;
        return 0;
    }
    json_array_foreach(workers, i, one) {
        struct culprit c = {-1, whole(one, "stage", 0), whole(one, "dp_rank", 0)};
        if (blame(j, &c, err) != 0) return -1;
    }
    return 0;
}

struct hm_evidence_list *hm_evidence_of_analysis(const char *result, const char *hosts, double now_s,
                                                 struct hm_error *err) {
    struct joining j = {.path = result, .hosts_path = hosts, .now_s = now_s};
    char detail[400];
    size_t i;
    json_t *cause, *root;
    json_error_t why;
    int status = 0;
    j.list = hm_alloc(1, sizeof *j.list);
    j.result = root = json_load_file(result, 0, &why);
    if (!j.list)
        status = hm_fail_memory(err);
    else if (!root)
        status = hm_json_no_memory(&why) ? hm_fail_memory(err)
                                         : hm_fail(err, why.line > 0 ? HM_ERR_INPUT : HM_ERR_IO,
                                                   "%s: line %d: %s; give the JSON of 'hindmost analyze --json'",
                                                   result, why.line, why.text);
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (status == 0 &&
        (!schema || strcmp(schema, "hindmost.analysis/1") != 0 || !json_is_array(json_object_get(root, "causes"))))
        status = hm_fail(err, HM_ERR_INPUT, "%s: is no hindmost.analysis/1; give the JSON of 'hindmost analyze --json'",
                         result);
    if (status == 0) status = read_hosts(&j.hosts, hosts, err);
    const json_t *s = json_object_get(root, "slowdown_real");
    if (!json_is_number(s)) s = json_object_get(root, "slowdown");
    json_array_foreach(json_object_get(root, "causes"), i, cause) {
        const char *name = json_string_value(json_object_get(cause, "cause"));
        const char *evidence = json_string_value(json_object_get(cause, "evidence"));
        if (status != 0 || !name || strcmp(name, "slow-worker") != 0) continue;
        snprintf(detail, sizeof detail, "job %.80s: S %.3f, recovers %.0f %%; %.200s",
                 json_string_value(json_object_get(json_object_get(root, "job"), "name"))
                     ? json_string_value(json_object_get(json_object_get(root, "job"), "name"))
                     : "without a name",
                 json_number_value(s), 100 * json_number_value(json_object_get(cause, "recovers")),
                 evidence ? evidence : "");
        j.detail = detail;
        status = slow_worker(&j, cause, err);
    }
    json_decref(root);
    free_hosts(&j.hosts);
    if (status == 0) return j.list;
    hm_evidence_free(j.list);
    return NULL;
}
