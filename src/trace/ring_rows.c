/* ring_rows.c - all rings of a job as rows: which rings count, on one clock a host, with steps and numbers within the step. */
#include "trace/ring_rows.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- which files ---- */

static bool is_ring_name(const char *name) {
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".ring") == 0;
}

/* A ring whose header is not finished is just being opened, or its writer died doing so: there is nothing in it yet. */
static bool is_finished(const char *path) {
    unsigned char magic[8] = {0}, none[8] = {0};
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(magic, 1, sizeof magic, f) : 1;
    if (f) fclose(f);
    return n > 0 && memcmp(magic, none, sizeof none) != 0;
}

struct found {
    char **path;
    size_t count, capacity;
};

static int add_path(struct found *f, const char *path, struct hm_error *err) {
    char **grown = hm_grow(f->path, f->count, &f->capacity, sizeof *grown), *copy = grown ? hm_strdup(path) : NULL;
    if (grown) f->path = grown;
    if (!copy) return hm_fail_memory(err);
    f->path[f->count++] = copy;
    return 0;
}

static int search(struct found *f, const char *folder, int depth, struct hm_error *err) {
    DIR *d = opendir(folder);
    int status = 0;
    if (!d) return hm_fail(err, HM_ERR_IO, "%s: %s; name a .ring file or a folder of them", folder, strerror(errno));
    for (const struct dirent *e; status == 0 && (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.') continue;
        char *path = hm_sprintf("%s/%s", folder, e->d_name);
        if (!path)
            status = hm_fail_memory(err);
        else if (is_ring_name(path) && stat(path, &st) == 0 && S_ISREG(st.st_mode))
            status = is_finished(path) ? add_path(f, path, err) : 0;
        else if (depth > 0 && lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            status = search(f, path, depth - 1, err);
        hm_free(path);
    }
    closedir(d);
    return status;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int hm_ring_find(const char *path, char ***paths, size_t *count, struct hm_error *err) {
    struct found f = {0};
    struct stat st;
    int status;
    if (stat(path, &st) != 0)
        status = hm_fail(err, HM_ERR_IO, "%s: %s; name a .ring file or a folder of them", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        status = search(&f, path, 1, err);
    else
        status = add_path(&f, path, err);
    if (status == 0 && f.count == 0)
        status = hm_fail(err, HM_ERR_INPUT,
                         "%s: no .ring files in it or its folders; name the folder a probe writes to", path);
    if (status == 0) {
        qsort(f.path, f.count, sizeof *f.path, by_text);
        *paths = f.path;
        *count = f.count;
        return 0;
    }
    for (size_t i = 0; i < f.count; i++) hm_free(f.path[i]);
    hm_free(f.path);
    return -1;
}

/* ---- which rings ---- */

static int open_rings(struct hm_ring_rows *rows, char *const *paths, size_t n, struct hm_error *err) {
    size_t room = rows->ring_count + n;
    struct hm_ring **rings = hm_realloc(rows->rings, room, sizeof *rings);
    if (!rings) return hm_fail_memory(err);
    rows->rings = rings;
    for (size_t i = 0; i < n; i++) {
        struct hm_ring *ring = hm_ring_open(paths[i], 0, err);
        if (!ring) return -1;
        rows->rings[rows->ring_count++] = ring;
    }
    return 0;
}

static bool same_process(const struct hm_ring_info *a, const struct hm_ring_info *b) {
    return a->pid == b->pid && a->pid_start == b->pid_start && memcmp(a->boot_id, b->boot_id, sizeof a->boot_id) == 0;
}

/* A rank that was started again has rings of both attempts; step numbers repeat. The newest process of a rank counts, with the children
 * that it forked. */
static const struct hm_ring_info *newest_of_rank(const struct hm_ring_rows *rows, int rank) {
    const struct hm_ring_info *newest = NULL;
    for (size_t i = 0; i < rows->ring_count; i++) {
        const struct hm_ring_info *info = &rows->infos[i];
        if (info->rank == rank && !info->forked && (!newest || info->wall_ns > newest->wall_ns)) newest = info;
    }
    return newest;
}

static bool belongs(const struct hm_ring_rows *rows, const struct hm_ring_info *info) {
    const struct hm_ring_info *newest = newest_of_rank(rows, info->rank);
    if (!newest || same_process(newest, info)) return true;
    return info->forked && info->parent == newest->pid && info->wall_ns >= newest->wall_ns;
}

/* All processes of a host share one monotonic clock: one offset a boot, so that they stay exact among each other. */
static int64_t wall_offset(const struct hm_ring_rows *rows, const struct hm_ring_info *info) {
    const struct hm_ring_info *first = info;
    for (size_t i = 0; i < rows->ring_count; i++) {
        const struct hm_ring_info *other = &rows->infos[i];
        if (memcmp(other->boot_id, info->boot_id, sizeof info->boot_id) == 0 &&
            other->monotonic_ns < first->monotonic_ns)
            first = other;
    }
    return first->wall_ns - first->monotonic_ns;
}

static int check_ring(const struct hm_ring_rows *rows, const struct hm_ring_info *info, struct hm_error *err) {
    if (info->rank < 0 && rows->ring_count > 1)
        return hm_fail(err, HM_ERR_INPUT,
                       "%s: its writer did not know its rank; set RANK where the job starts, or leave this ring out",
                       info->path);
    if (info->monotonic_ns < 0 || info->wall_ns < info->monotonic_ns || info->wall_ns > INT64_MAX / 2)
        return hm_fail(err, HM_ERR_INPUT, "%s: clocks of %lld and %lld ns: the header is damaged; leave this ring out",
                       info->path, (long long)info->monotonic_ns, (long long)info->wall_ns);
    return 0;
}

/* ---- rows ---- */

static bool is_communication(const char *kind) {
    return strcmp(kind, "collective") == 0 || strcmp(kind, "send") == 0 || strcmp(kind, "recv") == 0;
}

enum { FORK_STREAMS = 1000 }; /* streams of a child begin there; they are numbered anew later */

static int add_event(struct hm_ring_rows *rows, const struct hm_ring_info *info, const struct hm_ring_event *e,
                     int64_t offset, struct hm_error *err) {
    if (e->end_ns > INT64_MAX / 2) return 0; /* no clock says so */
    const struct hm_ring_row row = {
        .ring = info,
        .kind = e->kind,
        .name = e->name,
        .group = e->group,
        .members = e->members,
        .start_ns = e->begin_ns + offset,
        .end_ns = e->end_ns + offset,
        .launch_ns = e->launch_ns && e->launch_ns < e->begin_ns ? e->launch_ns + offset : 0,
        .bytes = e->bytes,
        .tokens = e->tokens,
        .seq = e->seq,
        .rank = info->rank < 0 ? 0 : info->rank,
        .step = e->step,
        .peer = e->peer,
        .stream = info->forked ? FORK_STREAMS + (int)(info->pid % 100000) * 100 + e->stream % 100 : e->stream,
        .microbatch = e->microbatch,
        .chunk = e->chunk,
        .communication = is_communication(e->kind)};
    return hm_ring_row_add(rows, &row, err);
}

static void add_counts(struct hm_ring_counts *sum, const struct hm_ring_counts *c) {
    sum->read += c->read;
    sum->dropped += c->dropped;
    sum->unfinished += c->unfinished;
    sum->refused += c->refused;
}

static int read_rings(struct hm_ring_rows *rows, struct hm_ring_summary *summary, struct hm_error *err) {
    for (size_t i = 0; i < rows->ring_count; i++) {
        struct hm_ring_event e;
        const struct hm_ring_info *info = &rows->infos[i];
        int more = 0;
        if (check_ring(rows, info, err) != 0) return -1;
        if (!belongs(rows, info)) {
            summary->superseded++;
            continue;
        }
        int64_t offset = wall_offset(rows, info);
        summary->rings++;
        while ((more = hm_ring_next(rows->rings[i], &e, err)) == 1)
            if (add_event(rows, info, &e, offset, err) != 0) return -1;
        if (more < 0) return -1;
        struct hm_ring_counts counts = hm_ring_counts(rows->rings[i]);
        add_counts(&summary->counts, &counts);
    }
    return 0;
}

/* ---- order ---- */

/* By rank and start; of what starts together the longer one first, so that it is the outer. Stable in what is left. */
static int by_start(const void *x, const void *y) {
    const struct hm_ring_row *a = x, *b = y;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns) return a->end_ns > b->end_ns ? -1 : 1;
    return a->stream != b->stream ? (a->stream < b->stream ? -1 : 1) : strcmp(a->kind, b->kind);
}

static bool begins_step(const struct hm_ring_row *row) {
    return row->name && row->step >= 0 && strcmp(row->kind, "marker") == 0 && strcmp(row->name, "step") == 0;
}

/* A part that does not know the step (NCCL's plugin) takes it from the one that does (the training script). */
static void fill_steps(struct hm_ring_row *row, size_t n) {
    int step = -1;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || row[i].rank != row[i - 1].rank) step = -1;
        if (begins_step(&row[i])) step = row[i].step;
        if (row[i].step < 0) row[i].step = step;
    }
}

static int flatten(struct hm_ring_rows *rows, struct hm_ring_summary *summary, struct hm_error *err) {
    struct hm_ring_rows flat = {0};
    int status = 0;
    for (size_t from = 0, to; from < rows->count && status == 0; from = to) {
        for (to = from; to < rows->count && rows->row[to].rank == rows->row[from].rank; to++) {
        }
        status = hm_ring_flatten(&flat, rows->row + from, to - from, summary, err);
        summary->ranks++;
    }
    hm_free(rows->row);
    rows->row = flat.row;
    rows->count = flat.count;
    rows->capacity = flat.capacity;
    if (status == 0 && rows->count) qsort(rows->row, rows->count, sizeof *rows->row, by_start);
    return status;
}

/* ---- numbers within the step ----
 * A probe counts the communications of a group from the job's begin. Within a step they count from the smallest number that any member has
 * there: right even where records are missing. A send and its receive count in the sender's and receiver's pair. */

static int source_of(const struct hm_ring_row *r) {
    return strcmp(r->kind, "send") == 0 ? r->rank : r->peer;
}

static int target_of(const struct hm_ring_row *r) {
    return strcmp(r->kind, "send") == 0 ? r->peer : r->rank;
}

static int sign(int64_t a, int64_t b) {
    return a < b ? -1 : a > b;
}

static int by_group(const void *x, const void *y) {
    const struct hm_ring_row *a = *(struct hm_ring_row *const *)x, *b = *(struct hm_ring_row *const *)y;
    bool a_pair = a->peer >= 0, b_pair = b->peer >= 0;
    int order = strcmp(a->group, b->group);
    if (!order) order = sign(a->step, b->step);
    if (!order) order = sign(a_pair, b_pair);
    if (!order && a_pair) order = sign(source_of(a), source_of(b));
    if (!order && a_pair) order = sign(target_of(a), target_of(b));
    return order;
}

/* Waits stand with what they wait for: their numbers are found first, while both still count from the begin. */
static int by_number(const void *x, const void *y) {
    const struct hm_ring_row *a = *(struct hm_ring_row *const *)x, *b = *(struct hm_ring_row *const *)y;
    int order = sign(a->rank, b->rank);
    if (!order) order = strcmp(a->group, b->group);
    if (!order) order = sign(a->peer, b->peer);
    if (!order) order = sign(a->seq, b->seq);
    return order ? order : sign(!a->communication, !b->communication);
}

static void forget_strange_waits(struct hm_ring_row **row, size_t n) {
    const struct hm_ring_row *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if (row[i]->communication) {
            last = row[i];
            continue;
        }
        bool known = last && last->rank == row[i]->rank && last->seq == row[i]->seq && last->peer == row[i]->peer &&
                     strcmp(last->group, row[i]->group) == 0;
        if (!known || last->step != row[i]->step)
            row[i]->seq = -1; /* of another step, or not recorded: no number says which */
    }
}

static void count_from_least(struct hm_ring_row **row, size_t n) {
    for (size_t from = 0, to; from < n; from = to) {
        int64_t least = INT64_MAX;
        for (to = from; to < n && by_group(&row[to], &row[from]) == 0; to++)
            if (row[to]->seq >= 0 && row[to]->seq < least) least = row[to]->seq;
        for (size_t i = from; i < to; i++)
            if (row[i]->seq >= 0) row[i]->seq -= least;
    }
}

static int number(struct hm_ring_rows *rows, struct hm_error *err) {
    struct hm_ring_row **row = hm_alloc(rows->count ? rows->count : 1, sizeof(struct hm_ring_row *));
    size_t n = 0;
    if (!row) return hm_fail_memory(err);
    for (size_t i = 0; i < rows->count; i++) {
        bool wait = strcmp(rows->row[i].kind, "wait") == 0;
        if (rows->row[i].group && rows->row[i].seq >= 0 && (wait || rows->row[i].communication))
            row[n++] = &rows->row[i];
        else
            rows->row[i].seq = -1;
    }
    qsort(row, n, sizeof(struct hm_ring_row *), by_number);
    forget_strange_waits(row, n);
    qsort(row, n, sizeof(struct hm_ring_row *), by_group);
    count_from_least(row, n);
    hm_free(row);
    return 0;
}

/* ---- groups ----
 * Where one name has several lists of members (every rank calls its tensor-parallel group "tp"), the members become part of the name. */

static int by_name_and_members(const void *x, const void *y) {
    const struct hm_ring_row *a = *(struct hm_ring_row *const *)x, *b = *(struct hm_ring_row *const *)y;
    int order = strcmp(a->group, b->group);
    return order ? order : strcmp(a->members ? a->members : "", b->members ? b->members : "");
}

static char *distinct_name(const char *name, const char *members) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = members; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    char *text = strlen(members) <= 48 ? hm_sprintf("%s[%s]", name, members)
                                       : hm_sprintf("%s[%.32s...%08x]", name, members, hash);
    for (char *c = text ? text + strlen(name) : NULL; c && *c; c++)
        if (*c == ',') *c = ' '; /* tables are often CSV */
    return text;
}

static int rename_range(struct hm_ring_rows *rows, struct hm_ring_row **row, size_t n, struct hm_error *err) {
    char **made = hm_grow(rows->made, rows->made_count, &rows->made_capacity, sizeof *made);
    char *name = made ? distinct_name(row[0]->group, row[0]->members) : NULL;
    if (made) rows->made = made;
    if (!name) return hm_fail_memory(err);
    rows->made[rows->made_count++] = name;
    for (size_t i = 0; i < n; i++) row[i]->group = name;
    return 0;
}

/* row: all of one name, by members. */
static int tell_apart(struct hm_ring_rows *rows, struct hm_ring_row **row, size_t n, struct hm_error *err) {
    size_t known = 0;
    while (known < n && !row[known]->members) known++;
    if (known == n || strcmp(row[known]->members, row[n - 1]->members) == 0) return 0;
    for (size_t from = known, to; from < n; from = to) {
        for (to = from; to < n && strcmp(row[to]->members, row[from]->members) == 0; to++) {
        }
        if (rename_range(rows, row + from, to - from, err) != 0) return -1;
    }
    return 0;
}

static int name_groups(struct hm_ring_rows *rows, struct hm_error *err) {
    struct hm_ring_row **row = hm_alloc(rows->count ? rows->count : 1, sizeof(struct hm_ring_row *));
    size_t n = 0;
    int status = 0;
    if (!row) return hm_fail_memory(err);
    for (size_t i = 0; i < rows->count; i++)
        if (rows->row[i].group) row[n++] = &rows->row[i];
    qsort(row, n, sizeof(struct hm_ring_row *), by_name_and_members);
    for (size_t from = 0, to; from < n && status == 0; from = to) {
        const char *name = row[from]->group;
        for (to = from; to < n && strcmp(row[to]->group, name) == 0; to++) {
        }
        status = tell_apart(rows, row + from, to - from, err);
    }
    hm_free(row);
    return status;
}

int hm_ring_rows_read(struct hm_ring_rows *rows, const char *const *inputs, size_t n, struct hm_ring_summary *summary,
                      struct hm_error *err) {
    *rows = (struct hm_ring_rows){0};
    *summary = (struct hm_ring_summary){0};
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        char **paths = NULL;
        size_t count = 0;
        status = hm_ring_find(inputs[i], &paths, &count, err);
        if (status == 0) status = open_rings(rows, paths, count, err);
        for (size_t k = 0; k < count; k++) hm_free(paths[k]);
        hm_free(paths);
    }
    if (status == 0 && !(rows->infos = hm_alloc(rows->ring_count, sizeof *rows->infos))) status = hm_fail_memory(err);
    for (size_t i = 0; i < rows->ring_count && status == 0; i++) rows->infos[i] = hm_ring_info(rows->rings[i]);
    if (status == 0) status = read_rings(rows, summary, err);
    if (status == 0 && rows->count == 0)
        status = hm_fail(err, HM_ERR_INPUT, "%s: no records in %zu ring%s; did the job record anything yet?", inputs[0],
                         rows->ring_count, rows->ring_count == 1 ? "" : "s");
    if (status == 0) {
        qsort(rows->row, rows->count, sizeof *rows->row, by_start);
        fill_steps(rows->row, rows->count);
        status = flatten(rows, summary, err);
    }
    if (status == 0) status = name_groups(rows, err);
    if (status == 0) status = number(rows, err);
    summary->events = rows->count;
    if (status != 0) hm_ring_rows_free(rows);
    return status;
}

void hm_ring_rows_free(struct hm_ring_rows *rows) {
    for (size_t i = 0; i < rows->ring_count; i++) hm_ring_close(rows->rings[i]);
    hm_free(rows->rings);
    hm_free(rows->infos);
    for (size_t i = 0; i < rows->made_count; i++) hm_free(rows->made[i]);
    hm_free(rows->made);
    hm_free(rows->row);
    *rows = (struct hm_ring_rows){0};
}
