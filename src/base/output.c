/* output.c - files that appear whole or not at all.
 *
 * The bytes go to PATH.tmp.PID.N beside the target (same folder, so the rename is atomic); the target is touched only
 * by the rename. Targets that are no regular file (a pipe, /dev/null, a terminal) are written directly: there is
 * nothing to replace. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct hm_out {
    FILE *file;
    gzFile gz;
    char *path, *temporary; /* temporary: NULL when written directly */
    int failed;             /* errno of the first failure */
};

/* ---- temporary files under way ---- */

enum { MOST_TEMPORARIES = 64 }; /* further ones are merely not cleaned up after a signal */
static const char *_Atomic temporaries[MOST_TEMPORARIES];

void hm_temporary_add(const char *name) {
    for (int k = 0; k < MOST_TEMPORARIES; k++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&temporaries[k], &none, name)) return;
    }
}

void hm_temporary_remove(const char *name) {
    for (int k = 0; k < MOST_TEMPORARIES; k++) {
        const char *expected = name;
        if (atomic_compare_exchange_strong(&temporaries[k], &expected, NULL)) return;
    }
}

void hm_out_abandon_all(void) {
    for (int k = 0; k < MOST_TEMPORARIES; k++) {
        const char *name = atomic_exchange(&temporaries[k], NULL);
        if (name) unlink(name);
    }
}

/* ---- outputs ---- */

static void release(struct hm_out *out) {
    if (out->temporary) hm_temporary_remove(out->temporary);
    hm_free(out->path);
    hm_free(out->temporary);
    hm_free(out);
}

struct hm_out *hm_out_open(const char *path, struct hm_error *err) {
    static atomic_uint serial;
    struct hm_out *out = hm_alloc(1, sizeof *out);
    if (!out || !(out->path = hm_strdup(path))) {
        if (out) release(out);
        hm_fail_memory(err);
        return NULL;
    }
    struct stat st;
    bool to_stdout = strcmp(path, "-") == 0;
    bool direct = to_stdout || (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
    if (!direct) {
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            hm_fail(err, HM_ERR_IO, "%s: is a directory; give the name of a file to write", path);
            release(out);
            return NULL;
        }
        out->temporary = hm_sprintf("%s.tmp.%ld.%u", path, (long)getpid(), atomic_fetch_add(&serial, 1));
        if (out->temporary) hm_temporary_add(out->temporary);
        if (!out->temporary) {
            release(out);
            hm_fail_memory(err);
            return NULL;
        }
    }
    int fd = -1;
    if (to_stdout)
        fd = dup(STDOUT_FILENO);
    else if (!hm_fault_hit())
        fd = open(direct ? path : out->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0) {
        if (!to_stdout && hm_ends_with(path, ".gz"))
            out->gz = gzdopen(fd, "wb6");
        else
            out->file = fdopen(fd, "wb");
        if (!out->gz && !out->file) close(fd);
    }
    if (!out->gz && !out->file) {
        int why = errno ? errno : EIO;
        hm_fail(err, HM_ERR_IO, "%s: cannot write: %s; check that the folder exists and may be written to", path,
                strerror(why));
        if (out->temporary) unlink(out->temporary);
        release(out);
        return NULL;
    }
    if (out->gz) gzbuffer(out->gz, 1 << 17);
    return out;
}

struct hm_out *hm_out_memory(char **text, size_t *size, struct hm_error *err) {
    struct hm_out *out = hm_alloc(1, sizeof *out);
    *text = NULL;
    *size = 0;
    if (out && (out->path = hm_strdup("memory")) && !hm_fault_hit()) out->file = open_memstream(text, size);
    if (out && out->file) return out;
    if (out) release(out);
    hm_fail_memory(err);
    return NULL;
}

void hm_out_write(struct hm_out *out, const void *bytes, size_t size) {
    if (out->failed || size == 0) return;
    errno = 0;
    bool good;
    if (hm_fault_hit())
        good = false;
    else if (out->gz)
        good = size < UINT32_MAX / 2 && gzwrite(out->gz, bytes, (unsigned)size) == (int)size;
    else
        good = fwrite(bytes, 1, size, out->file) == size;
    if (!good) out->failed = errno ? errno : EIO;
}

void hm_out_printf(struct hm_out *out, const char *format, ...) {
    char buffer[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    if (n < 0) {
        out->failed = EINVAL;
    } else if ((size_t)n < sizeof buffer) {
        hm_out_write(out, buffer, (size_t)n);
    } else {
        char *text = hm_alloc((size_t)n + 1, 1);
        if (!text) {
            out->failed = ENOMEM;
            return;
        }
        va_start(args, format);
        (void)vsnprintf(text, (size_t)n + 1, format, args);
        va_end(args);
        hm_out_write(out, text, (size_t)n);
        hm_free(text);
    }
}

static void close_stream(struct hm_out *out) {
    errno = 0;
    bool good = true;
    if (out->gz)
        good = gzclose(out->gz) == Z_OK;
    else if (out->file)
        good = fclose(out->file) == 0;
    if (hm_fault_hit()) good = false;
    if (!good && !out->failed) out->failed = errno ? errno : EIO;
    out->gz = NULL;
    out->file = NULL;
}

int hm_out_commit(struct hm_out *out, struct hm_error *err) {
    close_stream(out);
    if (!out->failed && out->temporary && (hm_fault_hit() || rename(out->temporary, out->path) != 0))
        out->failed = errno ? errno : EIO;
    int result = 0;
    if (out->failed) {
        if (out->temporary) unlink(out->temporary);
        result = hm_fail(err, HM_ERR_IO, "%s: cannot write: %s; nothing was left behind",
                         strcmp(out->path, "-") == 0 ? "standard output" : out->path, strerror(out->failed));
    }
    release(out);
    return result;
}

void hm_out_abort(struct hm_out *out) {
    if (!out) return;
    close_stream(out);
    if (out->temporary) unlink(out->temporary);
    release(out);
}
