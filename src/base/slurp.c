/* slurp.c - a whole file into memory, plain or gzip, with a bound. */
#include "base.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

static int no_room(struct hm_error *err, const char *path, size_t most) {
    return hm_fail(err, HM_ERR_INPUT, "%s: more than %zu MiB, which no file of this kind is; check what it is", path,
                   most >> 20);
}

/* Fills *bytes; the caller frees it in any case. */
static int read_all(gzFile file, const char *path, size_t most, char **bytes, size_t *size, struct hm_error *err) {
    size_t capacity = 0;
    for (*size = 0;;) {
        if (*size + 1 >= capacity) {
            capacity = capacity ? 2 * capacity : (size_t)1 << 16;
            char *grown = hm_realloc(*bytes, capacity, 1);
            if (!grown) return hm_fail_memory(err);
            *bytes = grown;
        }
        size_t room = capacity - 1 - *size, piece = room < (size_t)1 << 30 ? room : (size_t)1 << 30;
        int n = gzread(file, *bytes + *size, (unsigned)piece);
        if (n < 0) return hm_fail(err, HM_ERR_INPUT, "%s: the compressed data is damaged; copy it again", path);
        if (n == 0) break;
        *size += (size_t)n;
        if (*size > most) return no_room(err, path, most);
    }
    (*bytes)[*size] = 0;
    return 0;
}

char *hm_slurp(const char *path, size_t most, size_t *size, struct hm_error *err) {
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)hm_fail(err, HM_ERR_IO, "%s: is a directory; give a file", path);
        return NULL;
    }
    errno = 0;
    gzFile file = hm_fault_hit() ? NULL : gzopen(path, "rb");
    if (!file) {
        (void)hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", path,
                      errno ? strerror(errno) : "cannot be opened");
        return NULL;
    }
    char *bytes = NULL;
    int status = read_all(file, path, most, &bytes, size, err);
    /* a gzip file that ends early reads as if it were shorter; gzclose knows */
    int closed = gzclose_r(file);
    if (status == 0 && closed == Z_BUF_ERROR)
        status = hm_fail(err, HM_ERR_INPUT, "%s: the compressed file is cut short; copy it again", path);
    if (status == 0) return bytes;
    hm_free(bytes);
    return NULL;
}
