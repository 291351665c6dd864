/* kineto_file.c - reads through gzip and tar in one pass, in bounded memory. */
#include "kineto_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, NAME = 100, SIZE_AT = 124, SIZE_LENGTH = 12, TYPE_AT = 156, MAGIC_AT = 257 };

bool hm_is_tar(const unsigned char *head, size_t n) {
    return n >= BLOCK && memcmp(head + MAGIC_AT, "ustar", 5) == 0;
}

int hm_kineto_file_open(struct hm_kineto_file *f, const struct hm_input *input, struct hm_error *err) {
    unsigned char head[BLOCK];
    *f = (struct hm_kineto_file){.gz = gzopen(input->open_path, "rbe")};
    if (!f->gz)
        return hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", input->path, strerror(errno));
    gzbuffer(f->gz, 1 << 18);
    int n = gzread(f->gz, head, sizeof head);
    f->tar = n > 0 && hm_is_tar(head, (size_t)n);
    if (gzrewind(f->gz) != 0) {
        hm_kineto_file_close(f);
        return hm_fail(err, HM_ERR_IO, "%s: cannot be read from its beginning", input->path);
    }
    f->left = f->tar ? 0 : UINT64_MAX;
    return 0;
}

void hm_kineto_file_close(struct hm_kineto_file *f) {
    if (f->gz) gzclose(f->gz);
    f->gz = NULL;
}

/* Reads and forgets; false at the end. */
static bool pass_over(struct hm_kineto_file *f, uint64_t n) {
    char bytes[1 << 14];
    while (n > 0) {
        int got = gzread(f->gz, bytes, n < sizeof bytes ? (unsigned)n : (unsigned)sizeof bytes);
        if (got <= 0) return false;
        n -= (uint64_t)got;
    }
    return true;
}

/* Of a trace, by its name, and of some length: folders, links and the like are passed over. */
static bool of_trace(const char *name, char type) {
    return (type == '0' || type == 0) && (hm_ends_with(name, ".json") || strstr(name, ".json.")) &&
           !hm_ends_with(name, ".tmp") && !hm_ends_with(name, ".gz");
}

bool hm_kineto_file_next(struct hm_kineto_file *f) {
    if (!f->tar) {
        bool first = f->left == UINT64_MAX && !f->padding;
        f->padding = 1; /* the one member is taken */
        return first;
    }
    char header[BLOCK + 1],
        longer[sizeof f->member] = ""; /* GNU tar puts a long name into a member of its own, before */
    for (;;) {
        if (!pass_over(f, f->left + f->padding) || gzread(f->gz, header, BLOCK) != BLOCK || !header[0]) return false;
        header[BLOCK] = 0;
        char size[SIZE_LENGTH + 1] = "";
        memcpy(size, header + SIZE_AT, SIZE_LENGTH);
        f->left = strtoull(size, NULL, 8);
        f->padding = (BLOCK - f->left % BLOCK) % BLOCK;
        if (header[TYPE_AT] == 'L') {
            size_t n = hm_kineto_file_read(f, longer, sizeof longer - 1);
            longer[n] = 0;
            continue;
        }
        (void)snprintf(f->member, sizeof f->member, "%.*s", longer[0] ? (int)sizeof f->member - 1 : NAME,
                       longer[0] ? longer : header);
        longer[0] = 0;
        for (char *c = f->member; *c; c++)
            if ((unsigned char)*c < 0x20) *c = '?'; /* it will stand in messages of one line */
        if (f->left > 0 && of_trace(f->member, header[TYPE_AT])) return true;
    }
}

size_t hm_kineto_file_read(void *file, void *bytes, size_t n) {
    struct hm_kineto_file *f = file;
    if (f->left != UINT64_MAX && n > f->left) n = (size_t)f->left;
    if (n == 0) return 0;
    int got = gzread(f->gz, bytes, n < 1 << 30 ? (unsigned)n : 1u << 30);
    if (got < 0) {
        f->broken = true; /* damaged, or written only in part: what came before is whole */
        return 0;
    }
    if (f->left != UINT64_MAX) f->left -= (uint64_t)got;
    return (size_t)got;
}
