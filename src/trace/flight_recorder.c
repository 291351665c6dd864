/* flight_recorder.c - reads a dump of PyTorch's flight recorder into plain structures; what is judged of it is src/hang. */
#include "flight_recorder.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A recorder holds some thousand entries of about a kilobyte. */
#define MOST_BYTES ((size_t)128 << 20)
enum { MOST_RANK = HM_MOST_RANK };

/* ---- entries ---- */

static const struct hm_value *list_of(const struct hm_value *dict, const char *key) {
    const struct hm_value *v = hm_value_get(dict, key);
    return v && v->kind == HM_VALUE_LIST ? v : NULL;
}

static const char *text_at(const struct hm_value *list, size_t i) {
    return list && list->kind == HM_VALUE_LIST && i < list->n && list->item[i]->kind == HM_VALUE_TEXT
               ? list->item[i]->text
               : "";
}

/* "nccl:send 0->3" and "nccl:recv 0<-3": who sends to whom, as ranks of the group. */
static void take_op(struct hm_document *doc, struct hm_flight_entry *e, const char *name) {
    const char *colon = strchr(name, ':');
    struct hm_value *library = colon ? hm_value_text(doc, name, (size_t)(colon - name)) : NULL;
    e->library = library ? library->text : "";
    e->op = colon ? colon + 1 : name;
    int a, b;
    e->from = e->to = -1;
    if (sscanf(e->op, "send %d->%d", &a, &b) == 2) {
        e->from = a;
        e->to = b;
    } else if (sscanf(e->op, "recv %d<-%d", &a, &b) == 2) {
        e->from = b;
        e->to = a;
    }
}

static enum hm_flight_state state_of(const struct hm_value *dict, const struct hm_flight_entry *e) {
    const char *state = hm_value_get_text(dict, "state", "");
    if (strcmp(state, "completed") == 0 || (!*state && e->completed_ns > 0)) return HM_FLIGHT_COMPLETED;
    if (strcmp(state, "started") == 0 || (!*state && e->started_ns > 0)) return HM_FLIGHT_STARTED;
    return HM_FLIGHT_SCHEDULED;
}

/* Missing times are None in a pickle and 0 in JSON. */
static int64_t time_of(const struct hm_value *dict, const char *key) {
    int64_t ns = hm_value_get_integer(dict, key, 0);
    return ns > 0 ? ns : -1;
}

static void take_entry(struct hm_document *doc, struct hm_flight_entry *e, const struct hm_value *dict) {
    const struct hm_value *group = hm_value_get(dict, "process_group");
    *e = (struct hm_flight_entry){
        .group = group && group->kind == HM_VALUE_TEXT ? group->text : text_at(group, 0),
        .description = text_at(group, 1),
        .input_sizes = list_of(dict, "input_sizes"),
        .input_types = list_of(dict, "input_dtypes"),
        .output_sizes = list_of(dict, "output_sizes"),
        .output_types = list_of(dict, "output_dtypes"),
        .group_id = hm_value_get_integer(dict, "pg_id", -1),
        .record = hm_value_get_integer(dict, "record_id", -1),
        .collective = hm_value_get_integer(dict, "collective_seq_id", hm_value_get_integer(dict, "seq_id", -1)),
        .p2p = hm_value_get_integer(dict, "p2p_seq_id", -1),
        .created_ns = time_of(dict, "time_created_ns"),
        .started_ns = time_of(dict, "time_discovered_started_ns"),
        .completed_ns = time_of(dict, "time_discovered_completed_ns"),
        .timeout_ms = hm_value_get_integer(dict, "timeout_ms", -1),
        .is_p2p = hm_value_get_integer(dict, "is_p2p", 0) != 0,
        .retired = hm_value_get_integer(dict, "retired", 0) != 0,
    };
    e->state = state_of(dict, e);
    take_op(doc, e, hm_value_get_text(dict, "profiling_name", ""));
    if (e->from >= 0) e->is_p2p = true;
}

static int take_entries(struct hm_flight_dump *dump, const struct hm_value *list, struct hm_error *err) {
    dump->entry = hm_alloc(list->n, sizeof *dump->entry);
    if (!dump->entry) return hm_fail_memory(err);
    for (size_t i = 0; i < list->n; i++) {
        if (list->item[i]->kind != HM_VALUE_DICT)
            return hm_fail(err, HM_ERR_INPUT, "%s: entry %zu is no dict; is this a flight-recorder dump?", dump->path,
                           i);
        take_entry(&dump->document, &dump->entry[dump->n_entries++], list->item[i]);
    }
    return 0;
}

/* ---- groups ---- */

/* "[0, 1, 2]", or a list of numbers. */
static int take_ranks(struct hm_flight_group *g, const struct hm_value *ranks, struct hm_error *err) {
    size_t capacity = 0;
    bool is_list = ranks && ranks->kind == HM_VALUE_LIST;
    const char *at = ranks && ranks->kind == HM_VALUE_TEXT ? ranks->text : "";
    for (size_t i = 0;; i++) {
        long rank = -1;
        if (is_list) {
            if (i == ranks->n) return 0;
            if (ranks->item[i]->kind == HM_VALUE_INTEGER) rank = (long)ranks->item[i]->integer;
        } else {
            while (*at && !isdigit((unsigned char)*at)) at++;
            if (!*at) return 0;
            char *end;
            rank = strtol(at, &end, 10);
            at = end;
        }
        if (rank < 0 || rank >= MOST_RANK) continue;
        int *grown = hm_grow(g->rank, g->n_ranks, &capacity, sizeof *grown);
        if (!grown) return hm_fail_memory(err);
        g->rank = grown;
        g->rank[g->n_ranks++] = (int)rank;
    }
}

static int take_groups(struct hm_flight_dump *dump, const struct hm_value *dict, struct hm_error *err) {
    size_t n = dict && dict->kind == HM_VALUE_DICT ? dict->n / 2 : 0;
    dump->group = hm_alloc(n, sizeof *dump->group);
    if (!dump->group) return hm_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const struct hm_value *info = dict->item[2 * i + 1], *key = dict->item[2 * i];
        struct hm_flight_group *g = &dump->group[dump->n_groups++];
        g->name = hm_value_get_text(info, "name", key->kind == HM_VALUE_TEXT ? key->text : "");
        g->description = hm_value_get_text(info, "desc", "");
        if (take_ranks(g, hm_value_get(info, "ranks"), err) != 0) return -1;
    }
    return 0;
}

static int take_statuses(struct hm_flight_dump *dump, const struct hm_value *dict, struct hm_error *err) {
    size_t n = dict && dict->kind == HM_VALUE_DICT ? dict->n / 2 : 0;
    dump->status = hm_alloc(n, sizeof *dump->status);
    if (!dump->status) return hm_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        char buffer[32], *end;
        const char *key = hm_value_key(dict, i, buffer);
        long long id = strtoll(key, &end, 10);
        if (end == key || *end) continue;
        const struct hm_value *status = dict->item[2 * i + 1];
        dump->status[dump->n_statuses++] =
            (struct hm_flight_status){id, hm_value_get_integer(status, "last_enqueued_collective", -1),
                                      hm_value_get_integer(status, "last_completed_collective", -1)};
    }
    return 0;
}

/* ---- the dump ---- */

bool hm_flight_detect(const char *bytes, size_t size) {
    if (size >= 2 && (unsigned char)bytes[0] == 0x80 && bytes[1] <= 5) return true;
    size_t i = 0;
    while (i < size && isspace((unsigned char)bytes[i])) i++;
    return i < size && bytes[i] == '{' && memmem(bytes, size, "\"entries\"", 9) != NULL;
}

static int fill(struct hm_flight_dump *dump, const char *bytes, size_t size, struct hm_error *err) {
    struct hm_document *doc = &dump->document;
    size_t i = 0;
    while (i < size && isspace((unsigned char)bytes[i])) i++;
    if (i == size) return hm_fail(err, HM_ERR_INPUT, "%s: is empty; the dump was cut off, copy it again", dump->path);
    /* 'd' and '(' begin pickles of protocol 0 and 1; only JSON begins with a brace or is text */
    const struct hm_value *top = bytes[i] == '{' || bytes[i] == '[' ? hm_json_read(doc, bytes, size, dump->path, err)
                                                                    : hm_pickle_read(doc, bytes, size, dump->path, err);
    if (!top) return -1;
    const struct hm_value *entries = list_of(top, "entries");
    if (top->kind != HM_VALUE_DICT || (!entries && !hm_value_get(top, "pg_config") && !hm_value_get(top, "pg_status")))
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: no flight-recorder dump: it has no \"entries\"; give the files that PyTorch wrote to "
                       "TORCH_FR_DUMP_TEMP_FILE",
                       dump->path);
    dump->version = hm_value_get_text(top, "version", "");
    if (*dump->version && strncmp(dump->version, "2.", 2) != 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: flight-recorder version %s; versions 2.x are read", dump->path,
                       dump->version);
    int64_t rank = hm_value_get_integer(top, "rank", dump->rank);
    if (rank >= 0 && rank < MOST_RANK) dump->rank = (int)rank;
    if (dump->rank < 0)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: nothing inside a dump says which rank it is of, and the name has no number; rename it to "
                       "end in the rank",
                       dump->path);
    if (entries && take_entries(dump, entries, err) != 0) return -1;
    return take_groups(dump, hm_value_get(top, "pg_config"), err) != 0
               ? -1
               : take_statuses(dump, hm_value_get(top, "pg_status"), err);
}

struct hm_flight_dump *hm_flight_parse(const char *path, const char *bytes, size_t size, struct hm_error *err) {
    struct hm_flight_dump *dump = hm_alloc(1, sizeof *dump);
    if (!dump) {
        (void)hm_fail_memory(err);
        return NULL;
    }
    dump->path = path;
    dump->version = "";
    dump->rank = hm_rank_of_name(path);
    if (fill(dump, bytes, size, err) == 0) return dump;
    hm_flight_free(dump);
    return NULL;
}

struct hm_flight_dump *hm_flight_read(const char *path, struct hm_error *err) {
    size_t size;
    char *bytes = hm_slurp(path, MOST_BYTES, &size, err);
    if (!bytes) return NULL;
    struct hm_flight_dump *dump = hm_flight_parse(path, bytes, size, err);
    hm_free(bytes);
    return dump;
}

void hm_flight_free(struct hm_flight_dump *dump) {
    if (!dump) return;
    for (size_t i = 0; i < dump->n_groups; i++) hm_free(dump->group[i].rank);
    hm_free(dump->group);
    hm_free(dump->entry);
    hm_free(dump->status);
    hm_document_free(&dump->document);
    hm_free(dump);
}
