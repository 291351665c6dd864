/* inputs.c - finds the files behind the names on a command line. */
#include "inputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* A name that some library would take for a pattern or an address is opened here, and passed on as a descriptor. */
static bool is_odd(const char *path) {
    return strpbrk(path, "*?[]{}") || strstr(path, "://");
}

static int add(struct hm_inputs *in, const char *path, int fd, uint64_t bytes, struct hm_error *err) {
    if (fd < 0 && is_odd(path) && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", path, strerror(errno));
    struct hm_input *grown = hm_grow(in->file, in->n, &in->capacity, sizeof *grown);
    if (!grown) {
        if (fd >= 0) close(fd);
        return hm_fail_memory(err);
    }
    in->file = grown;
    struct hm_input *f = &in->file[in->n++];
    *f = (struct hm_input){.path = hm_strdup(path),
                           .open_path = fd < 0 ? hm_strdup(path) : hm_sprintf("/proc/self/fd/%d", fd),
                           .bytes = bytes,
                           .fd = fd};
    in->bytes += bytes;
    return f->path && f->open_path ? 0 : hm_fail_memory(err);
}

/* ---- files and pipes ---- */

/* Readers look at a file more than once, so what comes through a pipe is kept: hm_in_open. */
static int take_stream(struct hm_inputs *in, const char *path, const char *name, struct hm_error *err) {
    int64_t bytes = 0;
    int fd = hm_in_open(path, &bytes, err);
    if (fd < 0) return -1;
    if (bytes > 0) return add(in, name, fd, (uint64_t)bytes, err);
    close(fd);
    return hm_fail(err, HM_ERR_INPUT, "%s: is empty; was the trace written completely?", name);
}

static int take_file(struct hm_inputs *in, const char *path, const struct stat *st, struct hm_error *err) {
    if (!S_ISREG(st->st_mode)) return take_stream(in, path, path, err);
    if (st->st_size == 0) return hm_fail(err, HM_ERR_INPUT, "%s: is empty; was the trace written completely?", path);
    return add(in, path, -1, (uint64_t)st->st_size, err);
}

/* ---- folders and patterns ---- */

/* Neither hidden nor still being written. */
static bool of_interest(const char *name) {
    return name[0] != '.' && !hm_ends_with(name, ".tmp") && !strstr(name, ".tmp.");
}

static int by_count(const void *a, const void *b) {
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the non-empty regular files among the paths, in the order of their numbers. */
static int add_sorted(struct hm_inputs *in, char **paths, size_t n, struct hm_error *err) {
    if (n) qsort(paths, n, sizeof *paths, by_count);
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        if (stat(paths[i], &st) != 0 || !S_ISREG(st.st_mode)) continue;
        if (st.st_size == 0)
            in->passed++;
        else if (add(in, paths[i], -1, (uint64_t)st.st_size, err) != 0)
            return -1;
    }
    return 0;
}

static int take_folder(struct hm_inputs *in, const char *folder, struct hm_error *err) {
    DIR *d = opendir(folder);
    if (!d) return hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", folder, strerror(errno));
    char **paths = NULL;
    size_t n = 0, capacity = 0, before = in->n;
    int status = 0;
    for (const struct dirent *e; status == 0 && (e = readdir(d)) != NULL;) {
        if (!of_interest(e->d_name)) continue;
        char **grown = hm_grow(paths, n, &capacity, sizeof *grown);
        if (grown) paths = grown;
        if (!grown || !(paths[n] = hm_sprintf("%s%s%s", folder, hm_ends_with(folder, "/") ? "" : "/", e->d_name)))
            status = hm_fail_memory(err);
        else
            n++;
    }
    closedir(d);
    if (status == 0) status = add_sorted(in, paths, n, err);
    for (size_t i = 0; i < n; i++) hm_free(paths[i]);
    hm_free(paths);
    in->found = true;
    if (status == 0 && in->n == before)
        status = hm_fail(err, HM_ERR_INPUT,
                         "%s: is a folder without a recording; name the folder with the files of one job", folder);
    return status;
}

static int take_pattern(struct hm_inputs *in, const char *pattern, struct hm_error *err) {
    glob_t found = {0};
    size_t before = in->n;
    int status = 0, rc = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (rc == GLOB_NOSPACE)
        status = hm_fail_memory(err);
    else if (rc == 0)
        status = add_sorted(in, found.gl_pathv, found.gl_pathc, err);
    if (rc == 0) globfree(&found);
    in->found = true;
    if (status == 0 && in->n == before)
        status = hm_fail(err, HM_ERR_IO, "%s: no file is named so; check the pattern", pattern);
    return status;
}

static int take(struct hm_inputs *in, const char *name, struct hm_error *err) {
    struct stat st;
    if (strcmp(name, "-") == 0) return take_stream(in, name, "standard input", err);
    if (stat(name, &st) != 0) {
        int why = errno;
        if (why == ENOENT && strpbrk(name, "*?[")) return take_pattern(in, name, err);
        return hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", name, strerror(why));
    }
    return S_ISDIR(st.st_mode) ? take_folder(in, name, err) : take_file(in, name, &st, err);
}

int hm_inputs_find(struct hm_inputs *in, const char *const *names, size_t n, struct hm_error *err) {
    *in = (struct hm_inputs){0};
    if (n == 0) return hm_fail(err, HM_ERR_ARGUMENT, "there is no recording to read; name one");
    for (size_t i = 0; i < n; i++)
        if (take(in, names[i], err) != 0) return -1;
    const char *first = strcmp(names[0], "-") == 0 ? "standard input" : names[0];
    in->name = n == 1 ? hm_strdup(first) : hm_sprintf("%s and %zu more", first, n - 1);
    return in->name ? 0 : hm_fail_memory(err);
}

static void free_file(struct hm_input *f) {
    if (f->fd >= 0) close(f->fd);
    hm_free(f->path);
    hm_free(f->open_path);
}

void hm_inputs_drop(struct hm_inputs *in, size_t index) {
    in->bytes -= in->file[index].bytes;
    free_file(&in->file[index]);
    memmove(in->file + index, in->file + index + 1, (--in->n - index) * sizeof *in->file);
}

void hm_inputs_free(struct hm_inputs *in) {
    for (size_t i = 0; i < in->n; i++) free_file(&in->file[i]);
    hm_free(in->file);
    hm_free(in->name);
    *in = (struct hm_inputs){0};
}

/* ---- the beginning of a file ---- */

/* What comes out of as much of a gzipped beginning as there is. */
/* NOLINTNEXTLINE(readability-non-const-parameter): inflate writes to it */
static size_t decompress(const unsigned char *from, size_t n, unsigned char *to, size_t room, bool *ended) {
    z_stream z = {
        .next_in = (unsigned char *)from, .avail_in = (unsigned)n, .next_out = to, .avail_out = (unsigned)room};
    if (inflateInit2(&z, 15 + 16) != Z_OK) return 0;
    *ended = inflate(&z, Z_SYNC_FLUSH) == Z_STREAM_END;
    size_t out = room - z.avail_out;
    inflateEnd(&z);
    return out;
}

int hm_input_head(struct hm_input *file, struct hm_head *head, struct hm_error *err) {
    int fd = open(file->open_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", file->path, strerror(errno));
    ssize_t n = pread(fd, head->bytes, HM_HEAD_BYTES, 0);
    int why = errno;
    close(fd);
    if (n < 0) return hm_fail(err, HM_ERR_IO, "%s: %s", file->path, strerror(why));
    head->path = file->path;
    head->n = (size_t)n;
    head->whole = head->n == file->bytes;
    file->gzip = n >= 2 && head->bytes[0] == 0x1f && head->bytes[1] == 0x8b;
    if (file->gzip) {
        bool ended = false;
        unsigned char *packed = hm_alloc(head->n, 1);
        if (!packed) return hm_fail_memory(err);
        memcpy(packed, head->bytes, head->n);
        head->n = decompress(packed, head->n, head->bytes, HM_HEAD_BYTES, &ended);
        head->whole = head->whole && ended;
        hm_free(packed);
    }
    head->bytes[head->n] = 0;
    return 0;
}
