/* files.c - files from outside and files of ours, opened so that nothing surprising happens.
 *
 * New files. The bytes go into a file beside the target, with a name that nobody can guess, made by O_EXCL and O_NOFOLLOW: in a folder
 * where others may write, no link that waits there is followed and no file of theirs is taken. Once whole it is renamed over the
 * target. If the target is a link, what it points to is replaced; the mode of a replaced file stays. A target that is no regular file
 * (a pipe, /dev/null, a terminal, a descriptor of ours such as /dev/stdout) is written through: there is nothing to replace.
 *
 * Inputs. A reader gets a descriptor of a regular file, whatever was named: what comes through a pipe is first copied into a file
 * without a name. Nobody waits for ever: a FIFO into which nobody writes is refused. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ---- temporary files under way ---- */

enum { MOST_TEMPORARIES = 64 }; /* further ones are merely not cleaned up after a signal */
static const char *_Atomic temporaries[MOST_TEMPORARIES];

static void temporary_add(const char *name) {
    for (int k = 0; k < MOST_TEMPORARIES; k++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&temporaries[k], &none, name)) return;
    }
}

static void temporary_remove(const char *name) {
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

int hm_unnamed_file(const char *folder) {
    if (!folder) folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    char *name = hm_sprintf("%s/hindmost-XXXXXX", folder); /* a file system without unnamed files */
    if (!name) return -1;
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) unlink(name);
    hm_free(name);
    return fd;
}

/* ---- where a path leads ---- */

/* The descriptor that /dev/stdout, /dev/fd/3 or /proc/self/fd/3 stand for; -1: none. */
static int descriptor_of(const char *path) {
    static const char *const names[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    for (int k = 0; k < 3; k++)
        if (strcmp(path, names[k]) == 0) return k;
    for (int k = 0; k < 2; k++) {
        size_t n = strlen(folders[k]);
        char *end;
        if (strncmp(path, folders[k], n) != 0 || path[n] < '0' || path[n] > '9') continue;
        long fd = strtol(path + n, &end, 10);
        if (*end == 0 && fd <= INT_MAX) return (int)fd;
    }
    return -1;
}

/* What stands at the end of all links, which need not exist yet. NULL with errno set. */
static char *follow_links(const char *path) {
    enum { MOST_LINKS = 40 }; /* as many as Linux follows */
    char *at = hm_strdup(path), link[PATH_MAX];
    for (int k = 0; at && k < MOST_LINKS; k++) {
        ssize_t n = readlink(at, link, sizeof link - 1);
        if (n < 0 || descriptor_of(at) >= 0) return at;
        link[n] = 0;
        const char *slash = strrchr(at, '/');
        char *next = link[0] == '/' || !slash ? hm_strdup(link) : hm_sprintf("%.*s/%s", (int)(slash - at), at, link);
        hm_free(at);
        at = next;
    }
    errno = at ? ELOOP : ENOMEM;
    hm_free(at);
    return NULL;
}

/* ---- new files ---- */

/* Creates a file of its own beside the target. */
static int create_beside(struct hm_new_file *f, const struct stat *old) {
    const char *slash = strrchr(f->target, '/');
    int folder = slash ? (int)(slash - f->target) + 1 : 0;
    for (int tries = 0; tries < 100; tries++) {
        uint64_t chance = 0;
        if (getrandom(&chance, sizeof chance, 0) != sizeof chance) return -1;
        char *name = hm_sprintf("%.*s.hindmost.tmp.%016llx", folder, f->target, (unsigned long long)chance);
        if (!name) {
            errno = ENOMEM;
            return -1;
        }
        temporary_add(name); /* before it exists: a signal in between would leave it */
        f->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, old ? 0600 : 0666);
        if (f->fd >= 0) {
            f->temporary = name;
            return 0;
        }
        temporary_remove(name);
        hm_free(name);
        if (errno != EEXIST) return -1;
    }
    return -1;
}

/* A replaced file keeps its owner, where we may give files away, and its mode. */
static int keep_mode(const struct hm_new_file *f, const struct stat *old) {
    mode_t mode = old->st_mode & 07777;
    struct stat now;
    if (fstat(f->fd, &now) != 0) return -1;
    if ((now.st_uid != old->st_uid || now.st_gid != old->st_gid) && fchown(f->fd, old->st_uid, old->st_gid) != 0)
        mode &= 0777; /* not ours to pass on */
    return fchmod(f->fd, mode);
}

static int open_through(struct hm_new_file *f, const char *path, bool whole) {
    const char *target = f->target ? f->target : path;
    int given = strcmp(path, "-") == 0 ? STDOUT_FILENO : descriptor_of(target);
    int through = given >= 0 ? fcntl(given, F_DUPFD_CLOEXEC, 3) : open(target, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (through < 0) return -1;
    if (!whole) {
        f->fd = through;
        f->through = -1;
        return 0;
    }
    f->through = through;
    f->fd = hm_unnamed_file(NULL);
    return f->fd < 0 ? -1 : 0;
}

static int refuse_target(const char *path, struct hm_error *err) {
    int why = errno ? errno : EIO;
    return hm_fail(err, why == ENOMEM ? HM_ERR_MEMORY : HM_ERR_IO,
                   "%s: cannot write: %s; check that the folder exists and may be written to", path, strerror(why));
}

int hm_new_file_open(struct hm_new_file *f, const char *path, bool whole, struct hm_error *err) {
    struct stat st;
    *f = (struct hm_new_file){.fd = -1, .through = -1};
    errno = 0;
    bool to_stdout = strcmp(path, "-") == 0;
    if (hm_fault_hit() || (!to_stdout && !(f->target = follow_links(path)))) return refuse_target(path, err);
    bool there = !to_stdout && stat(f->target, &st) == 0;
    int status = 0;
    if (!to_stdout && (!*path || path[strlen(path) - 1] == '/')) {
        status = hm_fail(err, HM_ERR_IO, "%s: is no name of a file; give the name of a file to write", path);
    } else if (there && S_ISDIR(st.st_mode)) {
        status = hm_fail(err, HM_ERR_IO, "%s: is a directory; give the name of a file to write", path);
    } else if (to_stdout || descriptor_of(f->target) >= 0 || (there && !S_ISREG(st.st_mode))) {
        if (open_through(f, path, whole) != 0) status = refuse_target(path, err);
    } else if (there && access(f->target, W_OK) != 0) {
        status = hm_fail(err, HM_ERR_IO,
                         "%s: cannot write: %s; it is write-protected: give another name, or remove it first", path,
                         strerror(errno));
    } else if (create_beside(f, there ? &st : NULL) != 0 || (there && keep_mode(f, &st) != 0)) {
        status = refuse_target(path, err);
    }
    if (status != 0) hm_new_file_abort(f);
    return status;
}

int hm_out_check(const char *path, struct hm_error *err) {
    struct stat st;
    if (strcmp(path, "-") == 0) return 0;
    char *target = follow_links(path);
    if (!target) return refuse_target(path, err);
    const char *slash = strrchr(target, '/');
    char *folder = slash == target ? hm_strdup("/")
                   : slash         ? hm_sprintf("%.*s", (int)(slash - target), target)
                                   : hm_strdup(".");
    bool there = stat(target, &st) == 0;
    int status = 0;
    errno = 0;
    if (!folder)
        status = hm_fail_memory(err);
    else if (!*path || path[strlen(path) - 1] == '/')
        status = hm_fail(err, HM_ERR_IO, "%s: is no name of a file; give the name of a file to write", path);
    else if (there && S_ISDIR(st.st_mode))
        status = hm_fail(err, HM_ERR_IO, "%s: is a directory; give the name of a file to write", path);
    else if (there && access(target, W_OK) != 0)
        status = refuse_target(path, err);
    else if ((!there || S_ISREG(st.st_mode)) && descriptor_of(target) < 0 && access(folder, W_OK | X_OK) != 0)
        status = refuse_target(path, err);
    hm_free(folder);
    hm_free(target);
    return status;
}

/* Copies all of a file from its start. 0, or -1 with errno set. */
static int copy_all(int from, int to) {
    char block[1 << 16];
    ssize_t n;
    if (lseek(from, 0, SEEK_SET) != 0) return -1;
    while ((n = read(from, block, sizeof block)) > 0)
        for (ssize_t done = 0, wrote; done < n; done += wrote)
            if ((wrote = write(to, block + done, (size_t)(n - done))) < 0) return -1;
    return n < 0 ? -1 : 0;
}

static void release(struct hm_new_file *f) {
    if (f->fd >= 0) close(f->fd);
    if (f->through >= 0) close(f->through);
    if (f->temporary) {
        temporary_remove(f->temporary);
        hm_free(f->temporary);
    }
    hm_free(f->target);
    *f = (struct hm_new_file){.fd = -1, .through = -1};
}

int hm_new_file_commit(struct hm_new_file *f) {
    errno = 0;
    bool good = !hm_fault_hit();
    if (good && f->through >= 0) good = copy_all(f->fd, f->through) == 0;
    if (good && f->temporary) good = rename(f->temporary, f->target) == 0;
    int why = good ? 0 : errno ? errno : EIO;
    if (!good && f->temporary) unlink(f->temporary);
    release(f);
    errno = why;
    return good ? 0 : -1;
}

void hm_new_file_abort(struct hm_new_file *f) {
    if (f->temporary) unlink(f->temporary);
    release(f);
}

/* ---- inputs ---- */

enum { PATIENCE_MS = 3000 }; /* for somebody to begin writing into a FIFO */

/* Copies what comes through a pipe into a file without a name. */
static int keep_stream(int pipe, const char *path, bool named, struct hm_error *err) {
    struct pollfd ready = {.fd = pipe, .events = POLLIN};
    if (named && poll(&ready, 1, PATIENCE_MS) == 0)
        return hm_fail(err, HM_ERR_INPUT, "%s: is a pipe into which nobody writes; start the writer first", path);
    int flags = fcntl(pipe, F_GETFL), fd = hm_unnamed_file(NULL);
    if (flags >= 0 && named) (void)fcntl(pipe, F_SETFL, flags & ~O_NONBLOCK);
    char block[1 << 16];
    ssize_t n = 0;
    bool good = fd >= 0;
    while (good && ((n = read(pipe, block, sizeof block)) > 0 || (n < 0 && errno == EINTR)))
        for (ssize_t done = 0, wrote; good && done < n; done += wrote)
            good = (wrote = write(fd, block + done, (size_t)(n - done))) >= 0;
    if (good && n == 0 && lseek(fd, 0, SEEK_SET) == 0) return fd;
    int why = errno ? errno : EIO;
    if (fd >= 0) close(fd);
    return hm_fail(err, HM_ERR_IO, "%s: cannot be kept while it is read: %s; is the disk of TMPDIR full?", path,
                   strerror(why));
}

int hm_in_open(const char *path, int64_t *size, struct hm_error *err) {
    bool from_stdin = strcmp(path, "-") == 0;
    const char *name = from_stdin ? "standard input" : path;
    struct stat st;
    errno = 0;
    /* without O_NONBLOCK, opening a FIFO waits for its writer */
    int fd = hm_fault_hit() ? -1
             : from_stdin   ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                            : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0) {
        hm_fail(err, HM_ERR_IO, "%s: %s; check the name and the permissions", name, strerror(errno ? errno : EIO));
        if (fd >= 0) close(fd);
        return -1;
    }
    int kept = fd;
    if (S_ISDIR(st.st_mode))
        kept = hm_fail(err, HM_ERR_IO, "%s: is a directory; give a file", name);
    else if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
        kept = keep_stream(fd, name, !from_stdin, err);
    else if (!S_ISREG(st.st_mode))
        kept = hm_fail(err, HM_ERR_IO,
                       from_stdin ? "%s: nothing comes in; pipe the input in, or name a file"
                                  : "%s: is not a regular file; save it to a file first",
                       name);
    if (kept != fd) close(fd);
    if (kept >= 0 && from_stdin && kept == fd) (void)lseek(fd, 0, SEEK_SET);
    if (kept >= 0 && size) *size = fstat(kept, &st) == 0 ? (int64_t)st.st_size : 0;
    return kept;
}

FILE *hm_in_file(const char *path, struct hm_error *err) {
    int fd = hm_in_open(path, NULL, err);
    FILE *f = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (fd >= 0 && !f) {
        close(fd);
        hm_fail_memory(err);
    }
    return f;
}

bool hm_in_is_gzip(int fd) {
    unsigned char head[2];
    return pread(fd, head, 2, 0) == 2 && head[0] == 0x1f && head[1] == 0x8b;
}

/* Unpacks all members of a gzip file; each unpacked block goes to `take`, which may refuse it. zlib checks length and CRC of each. */
static int gunzip(int fd, const char *path,
                  int (*take)(void *context, const unsigned char *bytes, size_t n, struct hm_error *err), void *context,
                  struct hm_error *err) {
    enum { BLOCK = 1 << 17 };
    unsigned char *in = hm_alloc(2, BLOCK), *out = in ? in + BLOCK : NULL;
    z_stream z = {0};
    if (!in || inflateInit2(&z, 15 + 16) != Z_OK) {
        hm_free(in);
        return hm_fail_memory(err);
    }
    int status = 0, state = Z_OK;
    bool inside = false, members = false; /* inside a member; after a first one */
    off_t at = 0;
    for (ssize_t n; status == 0 && (n = pread(fd, in, BLOCK, at)) > 0; at += n) {
        z.next_in = in;
        z.avail_in = (unsigned)n;
        while (status == 0 && z.avail_in > 0) {
            if (!inside && members && z.next_in[0] == 0) { /* zeros behind the last member are padding */
                z.next_in++, z.avail_in--;
                continue;
            }
            inside = true;
            z.next_out = out;
            z.avail_out = BLOCK;
            state = inflate(&z, Z_NO_FLUSH);
            if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
                status = hm_fail(err, state == Z_MEM_ERROR ? HM_ERR_MEMORY : HM_ERR_INPUT,
                                 "%s: damaged gzip data near byte %lld (%s); copy the file again", path,
                                 (long long)(at + n - z.avail_in), z.msg ? z.msg : "cannot be unpacked");
            else if (take)
                status = take(context, out, BLOCK - z.avail_out, err);
            if (state == Z_STREAM_END) {
                inside = false, members = true;
                (void)inflateReset(&z);
            }
        }
    }
    if (status == 0 && (inside || !members))
        status = hm_fail(err, HM_ERR_INPUT,
                         "%s: cut short: its gzip data end after %lld bytes in the middle; copy the file again", path,
                         (long long)at);
    inflateEnd(&z);
    hm_free(in);
    return status;
}

int hm_in_check_gzip(int fd, const char *path, struct hm_error *err) {
    return gunzip(fd, path, NULL, NULL, err);
}

struct text {
    const char *path;
    char *bytes;
    size_t n, capacity, most;
};

static int take_text(void *context, const unsigned char *bytes, size_t n, struct hm_error *err) {
    struct text *t = context;
    if (n > t->most - t->n)
        return hm_fail(err, HM_ERR_INPUT, "%s: larger than %zu MB, the most such a file may have; is it the right one?",
                       t->path, t->most >> 20);
    while (t->n + n + 1 > t->capacity) {
        size_t wanted = t->capacity ? 2 * t->capacity : (size_t)1 << 16;
        char *grown = hm_realloc(t->bytes, wanted, 1);
        if (!grown) return hm_fail_memory(err);
        t->bytes = grown;
        t->capacity = wanted;
    }
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
    return 0;
}

char *hm_in_text(const char *path, size_t most, size_t *size, struct hm_error *err) {
    struct text t = {.path = strcmp(path, "-") == 0 ? "standard input" : path, .most = most};
    int fd = hm_in_open(path, NULL, err);
    if (fd < 0) return NULL;
    int status = take_text(&t, (const unsigned char *)"", 0, err);
    if (status == 0 && hm_in_is_gzip(fd)) {
        status = gunzip(fd, t.path, take_text, &t, err);
    } else if (status == 0) {
        unsigned char block[1 << 14];
        ssize_t n;
        for (off_t at = 0; status == 0 && (n = pread(fd, block, sizeof block, at)) > 0; at += n)
            status = take_text(&t, block, (size_t)n, err);
        if (status == 0 && n < 0) status = hm_fail(err, HM_ERR_IO, "%s: %s", t.path, strerror(errno));
    }
    close(fd);
    if (status != 0) {
        hm_free(t.bytes);
        return NULL;
    }
    *size = t.n;
    return t.bytes;
}
