/* open.c - makes a ring: whose folder it may be in, its file with all its space, its header with the magic last. */
#include "probe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS_DEFAULT = 65536, NAME_TRIES = 1000 };

__attribute__((format(printf, 3, 4))) static int fail(char *why, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (why && size) vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return -1;
}

static void copy_text(char *to, size_t size, const char *from) {
    size_t n = from ? strnlen(from, size - 1) : 0;
    if (n) memcpy(to, from, n);
    to[n] = 0;
}

/* ---- the environment ---- */

static const char *first_of(const char *const *names) {
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value) return value;
    }
    return NULL;
}

static int number_of(const char *const *names, int otherwise) {
    const char *text = first_of(names);
    char *end;
    if (!text) return otherwise;
    errno = 0;
    long n = strtol(text, &end, 10);
    return errno || *end || end == text || n < 0 || n > INT_MAX ? otherwise : (int)n;
}

/* As torchrun, Open MPI, MPICH and its kin, and Slurm set them. Slurm's variables are also there in a batch script, outside
 * srun, where they say rank 0 of 1: they come last. */
struct hm_probe_options hm_probe_defaults(void) {
    static const char *const rank[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", NULL};
    static const char *const world[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
    static const char *const local[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID",
                                        NULL};
    static const char *const job[] = {"HINDMOST_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", NULL};
    static const char *const records[] = {"HINDMOST_RECORDS", NULL};
    const char *name = first_of(job), *folder = getenv("HINDMOST_DIR");
    return (struct hm_probe_options){.folder = folder && *folder ? folder : NULL,
                                     .job = name ? name : "job",
                                     .face = "c",
                                     .rank = number_of(rank, -1),
                                     .world = number_of(world, -1),
                                     .local_rank = number_of(local, -1),
                                     .dp = -1,
                                     .pp = -1,
                                     .tp = -1,
                                     .cp = -1,
                                     .ep = -1,
                                     .records = (uint32_t)number_of(records, RECORDS_DEFAULT)};
}

/* ---- folders ---- */

/* Nobody else may be able to change what stands in the folder: it is ours (or root's), and others may not write to it, or may
 * write to it but not remove what is ours (sticky). */
static bool folder_safe(int fd, bool shared) {
    struct stat st;
    if (fstat(fd, &st) != 0) return false;
    bool ours = st.st_uid == geteuid() || (shared && st.st_uid == 0);
    return ours && (!(st.st_mode & 022) || (shared && (st.st_mode & S_ISVTX)));
}

static int open_folder(int at, const char *name, const char *shown, bool shared, char *why, size_t size) {
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST) {
        return fail(why, size, "%s: cannot make the folder: %s; set HINDMOST_DIR to one that can be written", shown,
                    strerror(errno));
    }
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail(why, size, "%s: is no folder of ours: %s; remove it or set HINDMOST_DIR", shown, strerror(errno));
    if (!folder_safe(fd, shared)) {
        close(fd);
        return fail(why, size, "%s: belongs to another user or is open to their writing; remove it or set HINDMOST_DIR",
                    shown);
    }
    return fd;
}

/* ---- the file ---- */

static int write_zeros(int fd, size_t bytes) {
    static const char zeros[HM_RING_PAGE];
    for (size_t at = 0; at < bytes; at += sizeof zeros)
        if (pwrite(fd, zeros, sizeof zeros, (off_t)at) != (ssize_t)sizeof zeros) return errno ? errno : ENOSPC;
    return 0;
}

/* Takes the space of the whole file now: a page of a sparse file that finds no room later is a SIGBUS in the middle of training.
 * 0 or an errno. A file above RLIMIT_FSIZE would be a signal, so that limit is asked first. */
static int take_space(int fd, size_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) return EFBIG;
    int status;
    do status = posix_fallocate(fd, 0, (off_t)bytes);
    while (status == EINTR);
    return status == EOPNOTSUPP || status == EINVAL ? write_zeros(fd, bytes) : status;
}

static uint32_t power_of_two(uint32_t records) {
    uint32_t n = HM_RING_LEAST;
    while (n < records && n < HM_RING_MOST) n *= 2;
    return n;
}

/* A full disk gets a smaller ring: halves until it fits, down to HM_RING_LEAST. */
static uint32_t take_what_fits(int fd, uint32_t records, int *status) {
    for (;; records /= 2) {
        *status = take_space(fd, HM_RING_HEADER + (size_t)records * HM_RING_RECORD);
        if (*status == 0 || records <= HM_RING_LEAST) return records;
        if (*status != ENOSPC && *status != EDQUOT && *status != EFBIG) return records;
        if (ftruncate(fd, 0) != 0) return records;
    }
}

/* A name that nobody has: containers restart with the same process numbers. */
static int create(struct hm_probe *p, int folder, const char *shown, char *why, size_t size) {
    char name[64];
    for (int i = 0; i < NAME_TRIES; i++) {
        (void)snprintf(name, sizeof name, "rank%d.%s.%u.%d.ring", p->options.rank, p->face, p->pid, i);
        int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0) {
            int n = snprintf(p->path, sizeof p->path, "%s/%s", shown, name);
            if (n > 0 && (size_t)n < sizeof p->path) return fd;
            unlinkat(folder, name, 0);
            close(fd);
            return fail(why, size, "%s: the path is too long; set HINDMOST_DIR to a shorter one", shown);
        }
        if (errno != EEXIST) break;
    }
    return fail(why, size, "%s/%s: cannot make the ring: %s; set HINDMOST_DIR", shown, name, strerror(errno));
}

/* ---- the header ---- */

static size_t read_small(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

static void boot_id(uint8_t id[16]) {
    char text[64];
    int half = 0;
    (void)read_small("/proc/sys/kernel/random/boot_id", text, sizeof text);
    for (const char *c = text; *c && half < 32; c++) {
        if (!isxdigit((unsigned char)*c)) continue;
        unsigned digit = (unsigned)(isdigit((unsigned char)*c) ? *c - '0' : tolower((unsigned char)*c) - 'a' + 10);
        id[half / 2] = (uint8_t)((unsigned)id[half / 2] << 4 | digit);
        half++;
    }
}

/* Field 22; the program's name, field 2, stands in brackets and may hold anything, brackets too. */
static uint64_t start_time(void) {
    char text[1024];
    if (!read_small("/proc/self/stat", text, sizeof text)) return 0;
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The wall clock between two readings of the other; of three tries the tightest. */
struct hm_ring_pair hm_probe_clocks(void) {
    struct hm_ring_pair best = {0, 0};
    int64_t tightest = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t before = clock_ns(CLOCK_MONOTONIC), wall = clock_ns(CLOCK_REALTIME), after = clock_ns(CLOCK_MONOTONIC);
        if (after - before >= tightest) continue;
        tightest = after - before;
        best = (struct hm_ring_pair){before + (after - before) / 2, wall};
    }
    return best;
}

static void fill_header(const struct hm_probe *p, struct hm_ring_header *h, uint32_t capacity,
                        const struct hm_ring_header *parent) {
    const struct hm_probe_options *o = &p->options;
    h->version = HM_RING_VERSION;
    h->header = HM_RING_HEADER;
    h->record = HM_RING_RECORD;
    h->capacity = capacity;
    h->rank = o->rank;
    h->world = o->world;
    h->local_rank = o->local_rank;
    h->pid = p->pid;
    h->parent = (uint32_t)getppid();
    h->pid_start = start_time();
    boot_id(h->boot_id);
    h->dp = o->dp;
    h->pp = o->pp;
    h->tp = o->tp;
    h->cp = o->cp;
    h->ep = o->ep;
    h->first = hm_probe_clocks();
    copy_text(h->job, sizeof h->job, p->job);
    copy_text(h->gpu, sizeof h->gpu, p->gpu);
    copy_text(h->face, sizeof h->face, p->face);
    if (gethostname(h->host, sizeof h->host - 1) != 0) h->host[0] = 0;
    if (parent) { /* numbers of names that the program holds stay good in the child */
        uint32_t names = __atomic_load_n(&parent->names, __ATOMIC_ACQUIRE);
        memcpy((char *)h + HM_RING_NAMES_AT, (const char *)parent + HM_RING_NAMES_AT, names);
        h->names = names;
        h->flags = HM_RING_FORKED;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    uint64_t magic;
    memcpy(&magic, HM_RING_MAGIC, sizeof magic);
    __atomic_store_n((uint64_t *)(void *)h->magic, magic, __ATOMIC_RELEASE);
}

size_t hm_probe_bytes(const struct hm_ring_header *h) {
    return h->header + (size_t)h->capacity * h->record;
}

static int map_file(struct hm_probe *p, int fd, const struct hm_ring_header *parent, char *why, size_t size) {
    int status;
    uint32_t capacity = take_what_fits(fd, power_of_two(p->options.records), &status);
    if (status != 0)
        return fail(why, size, "%s: no room for a ring: %s; free some, or set HINDMOST_DIR", p->path, strerror(status));
    size_t bytes = HM_RING_HEADER + (size_t)capacity * HM_RING_RECORD;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        return fail(why, size, "%s: cannot map the ring: %s; set HINDMOST_DIR", p->path, strerror(errno));
    fill_header(p, map, capacity, parent);
    p->header = map;
    p->records = (struct hm_ring_record *)(void *)((char *)map + HM_RING_HEADER);
    p->mask = capacity - 1;
    return 0;
}

int hm_probe_map(struct hm_probe *p, const struct hm_ring_header *parent, char *why, size_t size) {
    char shown[PATH_MAX];
    int n = snprintf(shown, sizeof shown, "%s/%s", p->folder, p->job);
    if (n < 0 || (size_t)n >= sizeof shown)
        return fail(why, size, "%s: the path is too long; set HINDMOST_DIR", p->folder);
    p->pid = (uint32_t)getpid();
    int base = open_folder(AT_FDCWD, p->folder, p->folder, true, why, size);
    if (base < 0) return -1;
    int folder = open_folder(base, p->job, shown, false, why, size);
    close(base);
    if (folder < 0) return -1;
    int fd = create(p, folder, shown, why, size), status = -1;
    if (fd >= 0) {
        status = map_file(p, fd, parent, why, size);
        if (status != 0) unlinkat(folder, strrchr(p->path, '/') + 1, 0);
        close(fd);
    }
    close(folder);
    return status;
}
