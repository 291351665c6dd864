/* output.c - streams into files that appear whole or not at all (files.c), into memory, or through gzip. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct hm_out {
    FILE *file;
    gzFile gz;
    char *path;
    struct hm_new_file into;
    int failed; /* errno of the first failure */
};

static void release(struct hm_out *out) {
    hm_new_file_abort(&out->into);
    hm_free(out->path);
    hm_free(out);
}

static struct hm_out *new_out(const char *path, struct hm_error *err) {
    struct hm_out *out = hm_alloc(1, sizeof *out);
    if (out) out->into.fd = out->into.through = -1;
    if (out && (out->path = hm_strdup(path))) return out;
    if (out) release(out);
    hm_fail_memory(err);
    return NULL;
}

struct hm_out *hm_out_open(const char *path, struct hm_error *err) {
    struct hm_out *out = new_out(path, err);
    if (!out) return NULL;
    if (hm_new_file_open(&out->into, path, false, err) != 0) {
        release(out);
        return NULL;
    }
    int fd = fcntl(out->into.fd, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0 && hm_ends_with(path, ".gz"))
        out->gz = gzdopen(fd, "wb6");
    else if (fd >= 0)
        out->file = fdopen(fd, "wb");
    if (!out->gz && !out->file) {
        if (fd >= 0) close(fd);
        release(out);
        hm_fail_memory(err);
        return NULL;
    }
    if (out->gz) gzbuffer(out->gz, 1 << 17);
    return out;
}

struct hm_out *hm_out_memory(char **text, size_t *size, struct hm_error *err) {
    *text = NULL;
    *size = 0;
    struct hm_out *out = new_out("memory", err);
    if (out && !hm_fault_hit()) out->file = open_memstream(text, size);
    if (!out || out->file) return out;
    release(out);
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
    bool replaces = out->into.temporary != NULL || strcmp(out->path, "memory") == 0;
    close_stream(out);
    if (!out->failed && out->into.fd >= 0 && hm_new_file_commit(&out->into) != 0) out->failed = errno;
    int result = 0;
    if (out->failed) {
        result = hm_fail(err, HM_ERR_IO, "%s: cannot write: %s; %s",
                         strcmp(out->path, "-") == 0 ? "standard output" : out->path, strerror(out->failed),
                         replaces ? "nothing was left behind" : "is the disk full, or the reader gone?");
    }
    release(out);
    return result;
}

void hm_out_abort(struct hm_out *out) {
    if (!out) return;
    close_stream(out);
    release(out);
}
