/* lines.c - a file line by line, plain or gzip, in bounded memory. */
#include "series.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

struct lines {
    gzFile file;
    char text[LONGEST_LINE];
};

struct lines *lines_open(const char *path, struct hm_error *err) {
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)hm_fail(err, HM_ERR_IO, "%s: is a directory; give its log files", path);
        return NULL;
    }
    struct lines *l = hm_alloc(1, sizeof *l);
    if (!l) {
        (void)hm_fail_memory(err);
        return NULL;
    }
    errno = 0;
    l->file = hm_fault_hit() ? NULL : gzopen(path, "rb");
    if (l->file) {
        (void)gzbuffer(l->file, 1 << 18);
        return l;
    }
    (void)hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", path,
                  errno ? strerror(errno) : "cannot be opened");
    hm_free(l);
    return NULL;
}

char *lines_next(struct lines *l) {
    while (gzgets(l->file, l->text, LONGEST_LINE)) {
        size_t n = strlen(l->text);
        if (n > 0 && l->text[n - 1] == '\n') {
            while (n > 0 && (l->text[n - 1] == '\n' || l->text[n - 1] == '\r')) l->text[--n] = 0;
            return l->text;
        }
        if (gzeof(l->file)) return l->text;
        if (n + 1 < LONGEST_LINE) return memset(l->text, 0, 1); /* a 0 within: no text */
        do {                                                    /* too long: to its end */
            if (!gzgets(l->file, l->text, LONGEST_LINE)) return NULL;
            n = strlen(l->text);
        } while (n > 0 && l->text[n - 1] != '\n');
    }
    return NULL;
}

int lines_close(struct lines *l, const char *path, struct hm_error *err) {
    int code = Z_OK;
    (void)gzerror(l->file, &code);
    int closed = gzclose_r(l->file);
    hm_free(l);
    if (code == Z_OK && closed == Z_OK) return 0;
    return hm_fail(err, HM_ERR_INPUT, "%s: the compressed data is damaged or cut short; copy it again", path);
}
