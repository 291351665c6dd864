/* fleet.c - collects results from files and folders. */
#include "fleet.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIELD(kind, name)                                                                                              \
    { #name, HM_FIELD_##kind, offsetof(struct hm_fleet_job, name) }
const struct hm_fleet_job_field hm_fleet_job_fields[HM_JOB_FIELDS] = {
    FIELD(TEXT, file),
    FIELD(TEXT, name),
    FIELD(COUNT, dp),
    FIELD(COUNT, pp),
    FIELD(COUNT, tp),
    FIELD(COUNT, cp),
    FIELD(COUNT, vpp),
    FIELD(COUNT, world),
    FIELD(COUNT, workers),
    FIELD(COUNT, steps),
    FIELD(NUMBER, actual_s),
    FIELD(NUMBER, replayed_s),
    FIELD(NUMBER, ideal_s),
    FIELD(NUMBER, discrepancy),
    FIELD(NUMBER, slowdown),
    FIELD(NUMBER, waste),
    FIELD(NUMBER, worker_share),
    FIELD(NUMBER, last_stage_share),
    FIELD(NUMBER, step_p50),
    FIELD(NUMBER, step_p90),
    FIELD(NUMBER, step_p99),
    FIELD(NUMBER, gpu_hours),
    FIELD(TEXT, cause),
    FIELD(NUMBER, cause_confidence),
    FIELD(NUMBER, cause_recovers),
    FIELD(TEXT, causes),
    FIELD(TEXT, fix),
    FIELD(NUMBER, fix_speedup),
};

/* ---- jobs --------------------------------------------------------------------------------------------------------------------- */

static void clear(struct hm_fleet_job *job) {
    *job = (struct hm_fleet_job){0};
    for (size_t k = 0; k < HM_JOB_FIELDS; k++)
        if (hm_fleet_job_fields[k].kind == HM_FIELD_NUMBER) *hm_fleet_job_number(job, &hm_fleet_job_fields[k]) = NAN;
}

void hm_fleet_job_release(struct hm_fleet_job *job) {
    for (size_t k = 0; k < HM_JOB_FIELDS; k++)
        if (hm_fleet_job_fields[k].kind == HM_FIELD_TEXT)
            hm_free((char *)*hm_fleet_job_text(job, &hm_fleet_job_fields[k]));
}

struct hm_fleet_job *hm_fleet_job_add(struct hm_fleet_job_list *list, struct hm_error *err) {
    struct hm_fleet_job *grown = hm_grow(list->job, list->n, &list->capacity, sizeof *grown);
    if (!grown) {
        hm_fail_memory(err);
        return NULL;
    }
    list->job = grown;
    clear(&list->job[list->n]);
    return &list->job[list->n++];
}

/* ---- finding files --------------------------------------------------------------------------------------------------------------- */

/* What tells a file from all others, whatever names and links lead to it. */
struct identity {
    bool used;
    dev_t device;
    ino_t inode;
};

struct box {
    struct hm_fleet f;
    struct hm_fleet_job_list list;
    char **path; /* JSON results found */
    size_t n_paths, path_capacity;
    struct hm_fleet_skipped *skipped;
    size_t n_skipped, skipped_capacity;
    size_t *order;
    struct identity *seen; /* files and folders that were met: a hash table of `seen_room`, a power of two */
    size_t n_seen, seen_room;
};

static int add_path(struct box *b, char *path, struct hm_error *err) {
    char **grown = path ? hm_grow(b->path, b->n_paths, &b->path_capacity, sizeof *grown) : NULL;
    if (!grown) {
        hm_free(path);
        return hm_fail_memory(err);
    }
    b->path = grown;
    b->path[b->n_paths++] = path;
    return 0;
}

static int skip(struct box *b, const char *file, const char *why, struct hm_error *err) {
    struct hm_fleet_skipped *grown = hm_grow(b->skipped, b->n_skipped, &b->skipped_capacity, sizeof *grown);
    if (grown) b->skipped = grown;
    char *copy = grown ? hm_strdup(file) : NULL, *reason = grown ? hm_strdup(why) : NULL;
    if (!copy || !reason) {
        hm_free(copy);
        hm_free(reason);
        return hm_fail_memory(err);
    }
    b->skipped[b->n_skipped++] = (struct hm_fleet_skipped){copy, reason};
    return 0;
}

/* The reason without the name of the file in front: lists name the file anyway. */
static const char *reason_of(const struct hm_error *err, const char *file) {
    size_t n = strlen(file);
    return strncmp(err->message, file, n) == 0 && strncmp(err->message + n, ": ", 2) == 0 ? err->message + n + 2
                                                                                          : err->message;
}

static struct identity *place_of(struct identity *table, size_t room, const struct identity *who) {
    size_t at = hm_mix64((uint64_t)who->inode ^ (uint64_t)who->device << 48) & (room - 1);
    while (table[at].used && (table[at].inode != who->inode || table[at].device != who->device))
        at = (at + 1) & (room - 1);
    return &table[at];
}

/* Remembers a file or folder. 1 if it was met before: links go round in circles, and a result counts once; -1 without memory. */
static int met_before(struct box *b, const struct stat *st, struct hm_error *err) {
    if (2 * (b->n_seen + 1) > b->seen_room) {
        size_t room = b->seen_room ? 2 * b->seen_room : 256;
        struct identity *grown = hm_alloc(room, sizeof *grown);
        if (!grown) return hm_fail_memory(err);
        for (size_t i = 0; i < b->seen_room; i++)
            if (b->seen[i].used) *place_of(grown, room, &b->seen[i]) = b->seen[i];
        hm_free(b->seen);
        b->seen = grown;
        b->seen_room = room;
    }
    const struct identity who = {true, st->st_dev, st->st_ino};
    struct identity *place = place_of(b->seen, b->seen_room, &who);
    if (place->used) return 1;
    *place = who;
    b->n_seen++;
    return 0;
}

/* A result or a folder of them, once. Takes the path over. */
static int take_result(struct box *b, char *path, struct hm_error *err) {
    struct stat st;
    int before = path && stat(path, &st) == 0 && S_ISREG(st.st_mode) ? met_before(b, &st, err) : 0;
    if (before == 0) return add_path(b, path, err);
    hm_free(path);
    return before < 0 ? -1 : 0;
}

static int visible(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int search_folder(struct box *b, const char *folder, struct hm_error *err) {
    struct stat self;
    int before = stat(folder, &self) == 0 ? met_before(b, &self, err) : 0;
    if (before != 0) return before < 0 ? -1 : 0;
    struct dirent **entry;
    int n = scandir(folder, &entry, visible, by_name), status = 0;
    if (n < 0) return skip(b, folder, strerror(errno), err);
    for (int folders = 0; folders < 2; folders++) /* files first, then what lies deeper */
        for (int i = 0; i < n && status == 0; i++) {
            struct stat st;
            char *path = hm_sprintf("%s%s%s", folder, hm_ends_with(folder, "/") ? "" : "/", entry[i]->d_name);
            bool result = hm_ends_with(entry[i]->d_name, ".json") || hm_ends_with(entry[i]->d_name, ".json.gz");
            if (!path)
                status = hm_fail_memory(err);
            else if (!folders && result)
                status = take_result(b, hm_strdup(path), err);
            else if (folders && !result && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
                status = search_folder(b, path, err);
            hm_free(path);
        }
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
    return status;
}

static int take_input(struct box *b, const char *path, struct hm_error *err) {
    struct stat st;
    struct hm_error why = {0};
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return search_folder(b, path, err);
    if (!hm_ends_with(path, ".parquet")) return take_result(b, hm_strdup(path), err);
    int before = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? met_before(b, &st, err) : 0;
    if (before != 0) return before < 0 ? -1 : 0;
    if (hm_fleet_read_parquet(path, &b->list, &why) == 0) return 0;
    if (why.code == HM_ERR_MEMORY) return hm_fail_memory(err);
    return skip(b, path, reason_of(&why, path), err);
}

/* ---- reading results, in parallel --------------------------------------------------------------------------------------------------- */

struct reading {
    struct box *b;
    struct hm_fleet_job *job; /* [path] */
    struct hm_error *failure; /* [thread]: the latest */
    char **why;               /* [path] reason to skip it */
    pthread_mutex_t lock;
    size_t done;
    hm_progress_fn progress;
    void *context;
    atomic_int stop; /* an enum hm_error_code */
};

static void read_one(void *context, size_t i, int thread) {
    struct reading *r = context;
    if (atomic_load(&r->stop) != HM_OK) return;
    struct hm_error *failure = &r->failure[thread];
    clear(&r->job[i]);
    bool good = (r->job[i].file = hm_strdup(r->b->path[i])) != NULL;
    if (!good)
        atomic_store(&r->stop, HM_ERR_MEMORY);
    else if (hm_fleet_job_read_json(r->b->path[i], &r->job[i], failure) != 0) {
        r->why[i] = hm_strdup(reason_of(failure, r->b->path[i]));
        if (failure->code == HM_ERR_MEMORY || !r->why[i]) atomic_store(&r->stop, HM_ERR_MEMORY);
    }
    pthread_mutex_lock(&r->lock);
    r->done++;
    if (r->progress && r->progress(r->context, "reading results", (double)r->done, (double)r->b->n_paths))
        atomic_store(&r->stop, HM_ERR_CANCELLED);
    pthread_mutex_unlock(&r->lock);
}

/* Moves what was read into the list, in the order of the inputs, and names what was not. */
static int take_results(struct reading *r, struct hm_error *err) {
    int status = 0;
    for (size_t i = 0; i < r->b->n_paths; i++) {
        struct hm_fleet_job *job = status == 0 && !r->why[i] ? hm_fleet_job_add(&r->b->list, err) : NULL;
        if (job) {
            *job = r->job[i];
        } else {
            hm_fleet_job_release(&r->job[i]);
            if (status == 0) status = r->why[i] ? skip(r->b, r->b->path[i], r->why[i], err) : -1;
        }
    }
    return status;
}

static int read_results(struct box *b, int threads, hm_progress_fn progress, void *context, struct hm_error *err) {
    struct reading r = {.b = b, .progress = progress, .context = context};
    threads = hm_thread_count(threads, b->n_paths);
    r.job = hm_alloc(b->n_paths + 1, sizeof *r.job);
    r.why = hm_alloc(b->n_paths + 1, sizeof *r.why);
    r.failure = hm_alloc((size_t)threads, sizeof *r.failure);
    int status = 0;
    if (r.job && r.why && r.failure) {
        pthread_mutex_init(&r.lock, NULL);
        hm_parallel(b->n_paths, threads, read_one, &r);
        pthread_mutex_destroy(&r.lock);
        if (atomic_load(&r.stop) == HM_OK) {
            status = take_results(&r, err);
        } else {
            for (size_t i = 0; i < b->n_paths; i++) hm_fleet_job_release(&r.job[i]);
            status = atomic_load(&r.stop) == HM_ERR_CANCELLED ? hm_fail(err, HM_ERR_CANCELLED, "stopped")
                                                              : hm_fail_memory(err);
        }
    } else {
        status = hm_fail_memory(err);
    }
    for (size_t i = 0; r.why && i < b->n_paths; i++) hm_free(r.why[i]);
    hm_free(r.job);
    hm_free(r.why);
    hm_free(r.failure);
    return status;
}

/* ---- the fleet ------------------------------------------------------------------------------------------------------------------------- */

static int compare_jobs(const void *a, const void *b) {
    const struct hm_fleet_job *x = *(struct hm_fleet_job *const *)a, *y = *(struct hm_fleet_job *const *)b;
    int files = strcmp(x->file ? x->file : "", y->file ? y->file : ""),
        names = strcmp(x->name ? x->name : "", y->name ? y->name : "");
    if (files || names) return files ? files : names;
    if (x->slowdown != y->slowdown) return x->slowdown < y->slowdown ? -1 : 1;
    return (x > y) - (x < y);
}

static bool same_result(const struct hm_fleet_job *x, const struct hm_fleet_job *y) {
    return x->file && y->file && strcmp(x->file, y->file) == 0 &&
           strcmp(x->name ? x->name : "", y->name ? y->name : "") == 0 && x->slowdown == y->slowdown &&
           x->steps == y->steps;
}

/* A Parquet file of jobs may hold results that were also given as such: the first of equal ones stays. */
static int drop_repeated(struct hm_fleet_job_list *list, struct hm_error *err) {
    struct hm_fleet_job **order = hm_alloc(list->n + 1, sizeof *order);
    if (!order) return hm_fail_memory(err);
    for (size_t i = 0; i < list->n; i++) order[i] = &list->job[i];
    qsort(order, list->n, sizeof *order, compare_jobs);
    const struct hm_fleet_job *first = NULL; /* of equal ones */
    for (size_t i = 0; i < list->n; i++)
        if (first && same_result(first, order[i]))
            order[i]->slowdown = NAN; /* no job's: marks it */
        else
            first = order[i];
    hm_free(order);
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++)
        if (isnan(list->job[i].slowdown))
            hm_fleet_job_release(&list->job[i]);
        else
            list->job[kept++] = list->job[i];
    list->n = kept;
    return 0;
}

static int finish(struct box *b, struct hm_error *err) {
    if (drop_repeated(&b->list, err) != 0) return -1;
    if (b->list.n == 0 && b->n_skipped)
        return hm_fail(err, HM_ERR_INPUT, "%s: %s; no usable result is left (%zu skipped)", b->skipped[0].file,
                       b->skipped[0].why, b->n_skipped);
    if (b->list.n == 0)
        return hm_fail(err, HM_ERR_INPUT,
                       "no result found; give files that hindmost analyze --json wrote, or folders of them");
    double *scratch = hm_alloc(b->list.n, 2 * sizeof *scratch);
    b->order = hm_alloc(b->list.n, 2 * sizeof *b->order);
    int status = 0;
    if (scratch && b->order) {
        b->f.jobs = b->list.job, b->f.n_jobs = b->list.n;
        b->f.skipped = b->skipped, b->f.n_skipped = b->n_skipped;
        hm_fleet_sum(&b->f, b->order, b->order + b->list.n, scratch);
    } else {
        status = hm_fail_memory(err);
    }
    hm_free(scratch);
    return status;
}

struct hm_fleet *hm_fleet_read(const char *const *paths, size_t n, int threads, hm_progress_fn progress, void *context,
                               struct hm_error *err) {
    struct box *b = hm_alloc(1, sizeof *b);
    if (!b) {
        hm_fail_memory(err);
        return NULL;
    }
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) status = take_input(b, paths[i], err);
    if (status == 0) status = read_results(b, threads, progress, context, err);
    if (status == 0) status = finish(b, err);
    if (status == 0) return &b->f;
    hm_fleet_free(&b->f);
    return NULL;
}

void hm_fleet_free(struct hm_fleet *fleet) {
    if (!fleet) return;
    struct box *b = (struct box *)fleet;
    for (size_t i = 0; i < b->list.n; i++) hm_fleet_job_release(&b->list.job[i]);
    for (size_t i = 0; i < b->n_paths; i++) hm_free(b->path[i]);
    for (size_t i = 0; i < b->n_skipped; i++) {
        hm_free((char *)b->skipped[i].file);
        hm_free((char *)b->skipped[i].why);
    }
    hm_free(b->list.job);
    hm_free(b->path);
    hm_free(b->skipped);
    hm_free(b->order);
    hm_free(b->seen);
    hm_free(b);
}
