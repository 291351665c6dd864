/* traces.c - from arguments to a list of traces, largest first, each with the name of its result. */
#include "many/traces.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 64 };

void hm_many_traces_free(struct hm_many_traces *traces) {
    for (size_t i = 0; i < traces->n; i++) {
        free(traces->trace[i].path);
        free(traces->trace[i].result);
        free(traces->trace[i].name);
    }
    free(traces->trace);
    *traces = (struct hm_many_traces){0};
}

static int no_memory(struct hm_error *err) {
    return hm_fail(err, HM_ERR_MEMORY, "out of memory");
}

/* Without what names a format: "a/b.csv.gz" is "a/b". A name of nothing else stays. */
static char *without_ending(const char *path) {
    static const char *const endings[] = {".csv.gz", ".json.gz", ".parquet", ".csv", ".json"};
    const char *file = strrchr(path, '/');
    size_t length = strlen(path), least = file ? (size_t)(file + 1 - path) : 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (hm_ends_with(path, endings[i]) && length - strlen(endings[i]) > least)
            return strndup(path, length - strlen(endings[i]));
    return strndup(path, length);
}

/* Takes over `name`. */
static int add(struct hm_many_traces *t, const char *path, char *name, uint64_t bytes, struct hm_error *err) {
    if (t->n == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        struct hm_many_trace *grown = reallocarray(t->trace, capacity, sizeof *grown);
        if (!grown) return free(name), no_memory(err);
        t->trace = grown;
        t->capacity = capacity;
    }
    struct hm_many_trace *trace = &t->trace[t->n];
    *trace = (struct hm_many_trace){.path = strdup(path), .name = name, .bytes = bytes};
    t->n++;
    return trace->path && name ? 0 : no_memory(err);
}

/* ---- folders of traces ---- */

struct walk {
    struct hm_many_traces *traces;
    size_t root; /* length of the folder's path, with its slash */
    struct stat results;
    bool results_exist;
    struct hm_error *err;
};

static bool is_trace_name(const char *name) {
    return name[0] != '.' &&
           (hm_ends_with(name, ".parquet") || hm_ends_with(name, ".csv") || hm_ends_with(name, ".csv.gz"));
}

static int walk_folder(struct walk *w, const char *folder, int depth);

static int walk_entry(struct walk *w, const char *folder, const char *name, int depth) {
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof path, "%s%s%s", folder, hm_ends_with(folder, "/") ? "" : "/", name) >= (int)sizeof path ||
        lstat(path, &st) != 0)
        return 0;
    if (S_ISDIR(st.st_mode)) {
        if (name[0] == '.' || (w->results_exist && st.st_dev == w->results.st_dev && st.st_ino == w->results.st_ino))
            return 0;
        return walk_folder(w, path, depth + 1);
    }
    if (S_ISLNK(st.st_mode) && (stat(path, &st) != 0 || S_ISDIR(st.st_mode))) return 0;
    return S_ISREG(st.st_mode) && is_trace_name(name)
               ? add(w->traces, path, without_ending(path + w->root), (uint64_t)st.st_size, w->err)
               : 0;
}

static int walk_folder(struct walk *w, const char *folder, int depth) {
    if (depth > MAX_DEPTH)
        return hm_fail(w->err, HM_ERR_INPUT, "%s: folders lie in one another more than %d deep", folder, MAX_DEPTH);
    DIR *dir = opendir(folder);
    if (!dir) return hm_fail(w->err, HM_ERR_IO, "%s: cannot be read: %s", folder, strerror(errno));
    int status = 0;
    for (struct dirent *e; status == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = walk_entry(w, folder, e->d_name, depth);
    closedir(dir);
    return status;
}

static int add_folder(struct hm_many_traces *t, const char *folder, const char *results, struct hm_error *err) {
    struct walk w = {.traces = t, .root = strlen(folder) + !hm_ends_with(folder, "/"), .err = err};
    w.results_exist = stat(results, &w.results) == 0;
    return walk_folder(&w, folder, 0);
}

/* ---- single recordings, and lists of them ---- */

static uint64_t folder_bytes(const char *folder) {
    struct hm_many_traces parts = {0};
    struct walk w = {.traces = &parts, .root = strlen(folder) + !hm_ends_with(folder, "/")};
    uint64_t bytes = 0;
    (void)walk_folder(&w, folder, 0);
    for (size_t i = 0; i < parts.n; i++) bytes += parts.trace[i].bytes;
    hm_many_traces_free(&parts);
    return bytes;
}

static int add_recording(struct hm_many_traces *t, const char *path, struct hm_error *err) {
    struct stat st;
    if (stat(path, &st) != 0)
        return hm_fail(err, HM_ERR_IO, "%s: %s; name traces, folders of them, or lists (.txt)", path, strerror(errno));
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    char *bare = strndup(path, length), *slash = bare ? strrchr(bare, '/') : NULL;
    char *name = bare ? without_ending(slash ? slash + 1 : bare) : NULL;
    free(bare);
    return add(t, path, name, S_ISDIR(st.st_mode) ? folder_bytes(path) : (uint64_t)st.st_size, err);
}

static int add_list(struct hm_many_traces *t, const char *path, struct hm_error *err) {
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "r");
    if (!file) return hm_fail(err, HM_ERR_IO, "%s: %s", path, strerror(errno));
    char *line = NULL;
    size_t room = 0, number = 0;
    int status = 0;
    for (ssize_t n; status == 0 && (n = getline(&line, &room, file)) >= 0;) {
        number++;
        while (n > 0 && strchr(" \t\r\n", line[n - 1])) line[--n] = 0;
        const char *text = line + strspn(line, " \t");
        if (!*text || *text == '#') continue;
        struct hm_error why = {0};
        if (strlen(text) != (size_t)(n - (text - line)))
            status = hm_fail(err, HM_ERR_INPUT, "%s: line %zu holds a zero byte; a list is text, one recording a line",
                             path, number);
        else if (add_recording(t, text, &why) != 0)
            status = hm_fail(err, why.code, "%s: line %zu: %s", path, number, why.message);
    }
    if (status == 0 && ferror(file)) status = hm_fail(err, HM_ERR_IO, "%s: %s", path, strerror(errno));
    free(line);
    if (!standard) fclose(file);
    return status;
}

static int add_argument(struct hm_many_traces *t, const char *argument, const char *results, struct hm_error *err) {
    struct stat st;
    if (strcmp(argument, "-") == 0 || hm_ends_with(argument, ".txt") || hm_ends_with(argument, ".list"))
        return add_list(t, argument, err);
    if (stat(argument, &st) == 0 && S_ISDIR(st.st_mode)) return add_folder(t, argument, results, err);
    return add_recording(t, argument, err);
}

/* ---- order and names ---- */

static int by_path(const void *a, const void *b) {
    const struct hm_many_trace *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static int by_name(const void *a, const void *b) {
    const struct hm_many_trace *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->path, y->path);
}

static int by_size(const void *a, const void *b) {
    const struct hm_many_trace *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->path, y->path);
}

static void drop_repeats(struct hm_many_traces *t) {
    size_t kept = 0;
    qsort(t->trace, t->n, sizeof *t->trace, by_path);
    for (size_t i = 0; i < t->n; i++) {
        if (kept && strcmp(t->trace[i].path, t->trace[kept - 1].path) == 0) {
            free(t->trace[i].path);
            free(t->trace[i].name);
            continue;
        }
        t->trace[kept++] = t->trace[i];
    }
    t->n = kept;
}

/* Of a path: so that a name stays the same from run to run. FNV-1a. */
static uint32_t hash_of(const char *text) {
    uint32_t h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static int tell_apart(struct hm_many_traces *t, struct hm_error *err) {
    qsort(t->trace, t->n, sizeof *t->trace, by_name);
    for (size_t i = 0, next; i < t->n; i = next) {
        for (next = i + 1; next < t->n && strcmp(t->trace[next].name, t->trace[i].name) == 0;) next++;
        for (size_t k = i; next > i + 1 && k < next; k++) {
            char *real = realpath(t->trace[k].path, NULL), *name = NULL;
            int length = asprintf(&name, "%s-%08" PRIx32, t->trace[k].name, hash_of(real ? real : t->trace[k].path));
            free(real);
            if (length < 0) return no_memory(err);
            free(t->trace[k].name);
            t->trace[k].name = name;
        }
    }
    return 0;
}

int hm_many_traces_list(struct hm_many_traces *traces, const char *const *arguments, size_t n, const char *results,
                        struct hm_error *err) {
    for (size_t i = 0; i < n; i++)
        if (add_argument(traces, arguments[i], results, err) != 0) return -1;
    if (traces->n == 0) return hm_fail(err, HM_ERR_INPUT, "%s: holds no trace (.parquet, .csv, .csv.gz)", arguments[0]);
    drop_repeats(traces);
    if (tell_apart(traces, err) != 0) return -1;
    for (size_t i = 0; i < traces->n; i++)
        if (asprintf(&traces->trace[i].result, "%s/%s.json", results, traces->trace[i].name) < 0) {
            traces->trace[i].result = NULL;
            return no_memory(err);
        }
    qsort(traces->trace, traces->n, sizeof *traces->trace, by_size);
    return 0;
}

/* ---- what is there ---- */

int hm_many_make_folder(const char *path, struct hm_error *err) {
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return hm_fail(err, HM_ERR_IO, "%s: the name is too long", path);
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash) *slash = 0;
        struct stat st;
        if (mkdir(part, 0777) != 0 && (errno != EEXIST || stat(part, &st) != 0 || !S_ISDIR(st.st_mode))) {
            int why = errno == EEXIST ? ENOTDIR : errno;
            return hm_fail(err, HM_ERR_IO, "%s: cannot be made a folder: %s", part, strerror(why));
        }
        if (!slash) return 0;
        *slash = '/';
    }
}

static bool newer(const struct stat *a, const struct stat *b) {
    return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec > b->st_mtim.tv_sec
                                                  : a->st_mtim.tv_nsec > b->st_mtim.tv_nsec;
}

int hm_many_traces_look(struct hm_many_traces *traces, struct hm_error *err) {
    for (size_t i = 0; i < traces->n; i++) {
        struct hm_many_trace *t = &traces->trace[i];
        struct stat result, input;
        char *slash = strrchr(t->result, '/');
        *slash = 0;
        int status = hm_many_make_folder(t->result, err);
        *slash = '/';
        if (status != 0) return -1;
        t->done = stat(t->result, &result) == 0 && stat(t->path, &input) == 0 && S_ISREG(result.st_mode) &&
                  newer(&result, &input);
    }
    return 0;
}
