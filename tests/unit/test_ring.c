/* test_ring.c - the ring, its writer and its reader: content against a second reader, threads, laps, kills at any instruction, forks, full
 * disks, hostile folders and files. HM_RING_KILLS: how many writers are killed (default 60; scripts/test long: 1,000). */
#include "hindmost/ring.h"
#include "hindmost_probe.h"
#include "ring_bytes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256];

static int make_folder(void **state) {
    (void)state;
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/hindmost-test-ring.XXXXXX", tmp ? tmp : "/tmp");
    unsetenv("HINDMOST_OFF");
    return mkdtemp(folder) ? 0 : -1;
}

static void remove_tree(const char *path) {
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char inner[600];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        (void)snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner) != 0) remove_tree(inner);
    }
    if (d) closedir(d);
    rmdir(path);
}

static int drop_folder(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

static struct hm_probe_options options_of(const char *job, uint32_t records) {
    struct hm_probe_options o = hm_probe_defaults();
    o.folder = folder;
    o.job = job;
    o.rank = 3;
    o.world = 8;
    o.records = records;
    return o;
}

static struct hm_probe *open_probe(const char *job, uint32_t records) {
    char why[512] = "";
    struct hm_probe_options o = options_of(job, records);
    struct hm_probe *p = hm_probe_open(&o, why, sizeof why);
    if (!p) fail_msg("%s", why);
    return p;
}

static struct hm_ring *open_ring(const char *path, double patience_s) {
    struct hm_error err = {0};
    struct hm_ring *r = hm_ring_open(path, patience_s, &err);
    if (!r) fail_msg("%s", err.message);
    return r;
}

/* ---- content ---- */

static void test_both_readers_see_what_was_written(void **state) {
    (void)state;
    struct hm_probe_options o = options_of("content", 100);
    o.face = "test";
    o.gpu = "GPU-1";
    o.dp = 1;
    o.pp = 2;
    o.ep = 4;
    struct hm_probe *p = hm_probe_open(&o, NULL, 0);
    assert_non_null(p);
    const int members[] = {0, 1, 2, 3, 8, 16, 24, 5};
    uint16_t name = hm_probe_name(p, "all_reduce"), group = hm_probe_group(p, "dp", members, 8);
    assert_int_equal(hm_probe_name(p, "all_reduce"), name);
    assert_int_not_equal(hm_probe_group(p, "dp", members, 4), group); /* other members, another group */
    hm_probe_step(p, 7);
    struct hm_probe_event e = hm_probe_begin(p, HM_PROBE_COLLECTIVE, name);
    e.group = group;
    e.amount = 1234567890123;
    e.seq = 42;
    e.peer = 5;
    e.stream = 2;
    e.microbatch = 6;
    e.chunk = 1;
    e.flags = HM_PROBE_ASYNC | HM_PROBE_DEVICE;
    e.launch_ns = e.begin_ns - 1000;
    hm_probe_end(p, &e);
    struct ring_bytes b;
    assert_int_equal(ring_bytes_load(&b, hm_probe_path(p)), 0);
    assert_int_equal(ring_bytes_u32(&b, 20), 128); /* capacity: 100 rounded up */
    assert_int_equal(ring_bytes_u64(&b, 24), 2);   /* the step's marker, and the event */
    assert_int_equal(ring_bytes_u32(&b, 40), 3);   /* rank */
    assert_int_equal(ring_bytes_u32(&b, 44), 8);
    assert_int_equal(ring_bytes_u32(&b, 56), getpid());
    assert_int_equal(ring_bytes_u32(&b, 88), 1); /* dp, pp, then tp and cp unknown, ep */
    assert_int_equal(ring_bytes_u32(&b, 92), 2);
    assert_int_equal(ring_bytes_u32(&b, 96), UINT32_MAX);
    assert_int_equal(ring_bytes_u32(&b, 104), 4);
    assert_string_equal((char *)b.bytes + 136, "content");
    assert_string_equal((char *)b.bytes + 264, "GPU-1");
    assert_string_equal((char *)b.bytes + 328, "test");
    size_t at = ring_bytes_record(&b, 1);
    assert_int_not_equal(at, 0);
    assert_int_equal(ring_bytes_u64(&b, at + 8), e.begin_ns);
    assert_int_equal(ring_bytes_u64(&b, at + 16), e.end_ns);
    assert_int_equal(ring_bytes_u64(&b, at + 24), e.begin_ns - 1000);
    assert_int_equal(ring_bytes_u64(&b, at + 32), 1234567890123);
    assert_int_equal(ring_bytes_u32(&b, at + 40), 7);
    assert_int_equal(ring_bytes_u32(&b, at + 44), 5);
    assert_int_equal(ring_bytes_u32(&b, at + 48), 42);
    assert_string_equal(ring_bytes_name(&b, ring_bytes_u16(&b, at + 52)), "all_reduce");
    const char *text = ring_bytes_name(&b, ring_bytes_u16(&b, at + 54));
    assert_string_equal(text, "dp");
    assert_string_equal(text + 3, "0-3,8-24:8,5");
    assert_int_equal(b.bytes[at + 56], 2);
    assert_int_equal(b.bytes[at + 57], 2 | 8);
    assert_int_equal(ring_bytes_u16(&b, at + 58), 2);
    assert_int_equal(ring_bytes_u16(&b, at + 60), 6);
    assert_int_equal(ring_bytes_u16(&b, at + 62), 1);
    ring_bytes_free(&b);

    struct hm_ring *r = open_ring(hm_probe_path(p), 0);
    struct hm_ring_event got;
    assert_int_equal(hm_ring_next(r, &got, NULL), 1);
    assert_string_equal(got.kind, "marker");
    assert_string_equal(got.name, "step");
    assert_int_equal(hm_ring_next(r, &got, NULL), 1);
    assert_string_equal(got.kind, "collective");
    assert_string_equal(got.group, "dp");
    assert_string_equal(got.members, "0-3,8-24:8,5");
    assert_true(got.bytes == 1234567890123 && got.tokens == -1 && got.seq == 42 && got.peer == 5 && got.step == 7 &&
                got.stream == 2);
    assert_true(got.async && got.device && !got.enqueued && !got.failed && got.launch_ns == e.begin_ns - 1000);
    assert_int_equal(hm_ring_next(r, &got, NULL), 0);
    assert_true(hm_ring_alive(r));
    hm_probe_close(p);
    assert_int_equal(hm_ring_next(r, &got, NULL), 0);
    assert_true(hm_ring_info(r).closed);
    assert_false(hm_ring_alive(r));
    hm_ring_close(r);
}

static void test_null_probe_does_nothing(void **state) {
    (void)state;
    struct hm_probe_event e = hm_probe_begin(NULL, HM_PROBE_COMPUTE, hm_probe_name(NULL, "x"));
    hm_probe_end(NULL, &e);
    hm_probe_record(NULL, &e);
    hm_probe_step(NULL, 3);
    hm_probe_close(NULL);
    assert_int_equal(hm_probe_group(NULL, "g", NULL, 0), 0);
    assert_int_equal(hm_probe_current_step(NULL), -1);
    assert_null(hm_probe_path(NULL));
}

static void test_laps_drop_the_oldest_and_count_them(void **state) {
    (void)state;
    struct hm_probe *p = open_probe("laps", 64);
    struct hm_ring *r = open_ring(hm_probe_path(p), 0);
    struct hm_ring_event got;
    struct hm_probe_event e = {
        .kind = HM_PROBE_COMPUTE, .begin_ns = 1, .end_ns = 2, .step = -1, .peer = -1, .microbatch = -1, .chunk = -1};
    for (uint64_t i = 0; i < 200; i++) {
        e.amount = i + 1;
        hm_probe_record(p, &e);
    }
    for (int64_t i = 136; i < 200; i++) {
        assert_int_equal(hm_ring_next(r, &got, NULL), 1);
        assert_int_equal(got.bytes, i + 1);
        assert_int_equal(got.number, i);
    }
    assert_int_equal(hm_ring_next(r, &got, NULL), 0);
    assert_int_equal(hm_ring_counts(r).dropped, 136);
    assert_int_equal(hm_ring_counts(r).read, 64);
    hm_ring_close(r);
    hm_probe_close(p);
}

/* A writer that fell asleep in a record one lap ago: nobody waits for it, nobody writes into its slot. */
static void test_slot_in_use_is_given_up(void **state) {
    (void)state;
    struct hm_probe *p = open_probe("slot", 64);
    struct hm_probe_event e = {
        .kind = HM_PROBE_COMPUTE, .begin_ns = 1, .end_ns = 2, .step = -1, .peer = -1, .microbatch = -1, .chunk = -1};
    for (int i = 0; i < 64; i++) hm_probe_record(p, &e);
    int fd = open(hm_probe_path(p), O_RDWR);
    uint64_t odd = 2 * 5 + 1;
    assert_int_equal(pwrite(fd, &odd, sizeof odd, 65536 + 5 * 64), 8);
    for (int i = 0; i < 64; i++) hm_probe_record(p, &e);
    struct hm_ring *r = open_ring(hm_probe_path(p), 0);
    struct hm_ring_event got;
    int n = 0;
    while (hm_ring_next(r, &got, NULL) == 1) n++;
    assert_int_equal(n, 63);
    assert_int_equal(hm_ring_counts(r).unfinished, 1);
    assert_int_equal(hm_ring_info(r).lost, 1);
    hm_ring_close(r);
    close(fd);
    hm_probe_close(p);
}

static void test_names_run_out(void **state) {
    (void)state;
    struct hm_probe *p = open_probe("names", 64);
    char name[300];
    int made = 0;
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(name, sizeof name, "%0200d", i);
        uint16_t id = hm_probe_name(p, name);
        if (id) made++;
        assert_true(i > 200 || id);
    }
    struct hm_ring *r = open_ring(hm_probe_path(p), 0);
    assert_int_equal(hm_ring_info(r).unnamed, 2000 - made);
    assert_true(made < 2000);
    hm_ring_close(r);
    hm_probe_close(p);
    /* a group whose members find no room goes without them */
    p = open_probe("members", 64);
    static int members[20000];
    for (int i = 0; i < 20000; i++) members[i] = i * i % 19997;
    assert_int_not_equal(hm_probe_group(p, "odd", members, 20000), 0);
    struct ring_bytes b;
    assert_int_equal(ring_bytes_load(&b, hm_probe_path(p)), 0);
    const char *text = ring_bytes_name(&b, 2);
    assert_string_equal(text, "odd");
    assert_int_equal(text[4], 0);
    ring_bytes_free(&b);
    hm_probe_close(p);
}

/* ---- threads ---- */

enum { THREADS = 4, EACH = 50000 };

/* Every field follows from one number, so that a torn record shows. */
static void stamp(struct hm_probe_event *e, uint64_t v) {
    *e = (struct hm_probe_event){.begin_ns = (int64_t)v,
                                 .end_ns = (int64_t)(2 * v),
                                 .launch_ns = (int64_t)(v / 2),
                                 .amount = v,
                                 .step = (int32_t)(v % 100000),
                                 .peer = (int32_t)(v % 1000),
                                 .seq = (uint32_t)(v * 7),
                                 .kind = HM_PROBE_SEND,
                                 .stream = (uint16_t)v,
                                 .microbatch = (int16_t)(v % 30000),
                                 .chunk = (int16_t)(v % 20000)};
}

static bool stamped(const struct hm_ring_event *g) {
    struct hm_probe_event e;
    stamp(&e, (uint64_t)g->bytes);
    return g->begin_ns == e.begin_ns && g->end_ns == e.end_ns && g->launch_ns == e.launch_ns && g->step == e.step &&
           g->peer == e.peer && g->seq == (int64_t)e.seq && g->stream == e.stream && g->microbatch == e.microbatch &&
           g->chunk == e.chunk;
}

struct writer {
    struct hm_probe *probe;
    uint64_t id;
};

static void *write_many(void *context) {
    const struct writer *w = context;
    for (uint64_t i = 1; i <= EACH; i++) {
        struct hm_probe_event e;
        stamp(&e, w->id * EACH + i);
        hm_probe_record(w->probe, &e);
    }
    return NULL;
}

static void test_threads_never_tear(void **state) {
    (void)state;
    struct hm_probe *p = open_probe("threads", 1024);
    struct hm_ring *r = open_ring(hm_probe_path(p), 0.05);
    pthread_t thread[THREADS];
    struct writer w[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) {
        w[i] = (struct writer){p, i};
        assert_int_equal(pthread_create(&thread[i], NULL, write_many, &w[i]), 0);
    }
    struct hm_ring_event got;
    struct hm_ring_counts c;
    do {
        int more = hm_ring_next(r, &got, NULL);
        assert_true(more >= 0);
        if (more) assert_true(stamped(&got));
        c = hm_ring_counts(r);
    } while (c.read + c.dropped + c.unfinished < (uint64_t)THREADS * EACH);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_int_equal(c.refused, 0);
    assert_true(c.read >= 1);
    assert_int_equal(hm_ring_info(r).claimed, (uint64_t)THREADS * EACH);
    hm_ring_close(r);
    hm_probe_close(p);
}

/* ---- kills ---- */

static _Atomic uint64_t *shared;

/* The child: opens a ring (in some runs under the parent's eyes), then records without end, telling how far it came. */
static void write_until_killed(const char *job, bool open_watched) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(9);
    if (open_watched) raise(SIGSTOP);
    struct hm_probe_options o = options_of(job, 64);
    struct hm_probe *p = hm_probe_open(&o, NULL, 0);
    if (!p) _exit(9);
    for (uint64_t i = 0;; i++) {
        struct hm_probe_event e;
        if (i == 150 && !open_watched) raise(SIGSTOP); /* in the third lap */
        stamp(&e, i + 1);
        hm_probe_record(p, &e);
        atomic_store(shared, i + 1);
    }
}

/* Lets it run for so many instructions, then kills it. */
static void kill_after(pid_t child, long instructions) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    for (long i = 0; i < instructions; i++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSTOPPED(status));
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static bool ring_of(const char *job, char *path, size_t size) {
    char dir[300];
    (void)snprintf(dir, sizeof dir, "%s/%s", folder, job);
    DIR *d = opendir(dir);
    bool found = false;
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            (void)snprintf(path, size, "%s/%s", dir, e->d_name);
            found = true;
        }
    if (d) closedir(d);
    return found;
}

/* All that was recorded, to the last call that returned, is there and whole: for both readers. */
static void check_after_kill(const char *path, uint64_t done) {
    struct ring_bytes b;
    struct hm_ring *r = open_ring(path, 0);
    struct hm_ring_event got;
    uint64_t expected = done > 64 ? done - 64 : 0, last = 0;
    assert_int_equal(ring_bytes_load(&b, path), 0);
    while (hm_ring_next(r, &got, NULL) == 1) {
        assert_true(stamped(&got));
        assert_int_equal(got.bytes, got.number + 1);
        assert_int_not_equal(ring_bytes_record(&b, got.number), 0);
        last = got.number + 1;
    }
    struct hm_ring_counts c = hm_ring_counts(r);
    assert_true(last >= done && last <= done + 1);
    assert_true(c.read + 1 + expected >= done && c.read <= 64);
    assert_true(c.unfinished <= 1 && c.refused == 0);
    ring_bytes_free(&b);
    hm_ring_close(r);
}

static void test_killed_at_any_instruction(void **state) {
    (void)state;
    const char *asked = getenv("HM_RING_KILLS");
    int kills = asked ? atoi(asked) : 60, checked = 0;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    srand(20261203);
    for (int i = 0; i < kills; i++) {
        char job[32], path[600];
        bool open_watched = i % 5 == 4;
        (void)snprintf(job, sizeof job, "kill%d", i);
        atomic_store(shared, 0);
        pid_t child = fork();
        if (child == 0) {
            write_until_killed(job, open_watched);
            _exit(9);
        }
        kill_after(child, rand() % (open_watched ? 40000 : 1500));
        if (!ring_of(job, path, sizeof path)) continue; /* it did not come to make one */
        struct hm_error err = {0};
        struct hm_ring *r = hm_ring_open(path, 0, &err);
        if (r) {
            hm_ring_close(r);
            check_after_kill(path, atomic_load(shared));
            checked++;
        } else {
            assert_non_null(strstr(err.message, "not finished"));
            assert_int_equal(atomic_load(shared), 0);
        }
    }
    printf("%d writers killed, %d rings read\n", kills, checked);
    assert_true(checked >= kills * 4 / 5);
    munmap((void *)shared, 4096);
}

/* ---- forks ---- */

static void test_child_opens_its_own(void **state) {
    (void)state;
    struct hm_probe *p = open_probe("fork", 64);
    uint16_t name = hm_probe_name(p, "before");
    struct hm_probe_event e = hm_probe_begin(p, HM_PROBE_COMPUTE, name);
    hm_probe_end(p, &e);
    pid_t child = fork();
    if (child == 0) {
        char parents[600];
        (void)snprintf(parents, sizeof parents, "%s", hm_probe_path(p));
        errno = 77;
        e = hm_probe_begin(p, HM_PROBE_DATA, name);
        hm_probe_end(p, &e);
        bool good = errno == 77 && strcmp(hm_probe_path(p), parents) != 0 && hm_probe_name(p, "before") == name &&
                    hm_probe_name(p, "after") != 0;
        hm_probe_close(p);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char dir[300], **paths;
    size_t count;
    (void)snprintf(dir, sizeof dir, "%s/fork", folder);
    assert_int_equal(hm_ring_find(dir, &paths, &count, NULL), 0);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        struct hm_ring *r = open_ring(paths[i], 0);
        struct hm_ring_event got;
        bool forked = hm_ring_info(r).forked;
        assert_int_equal(hm_ring_next(r, &got, NULL), 1);
        assert_string_equal(got.name, "before");
        assert_string_equal(got.kind, forked ? "data" : "compute");
        assert_int_equal(hm_ring_next(r, &got, NULL), 0);
        assert_int_equal(hm_ring_info(r).pid, forked ? child : getpid());
        assert_int_equal(hm_ring_info(r).parent, forked ? getpid() : getppid());
        assert_int_equal(hm_ring_info(r).closed, forked);
        hm_ring_close(r);
        free(paths[i]);
    }
    free(paths);
    hm_probe_close(p);
}

/* ---- no room, no right ---- */

static void test_full_disk_gives_a_smaller_ring_or_a_reason(void **state) {
    (void)state;
    char mounted[300], why[512] = "";
    (void)snprintf(mounted, sizeof mounted, "%s/small", folder);
    assert_int_equal(mkdir(mounted, 0700), 0);
    if (mount("none", mounted, "tmpfs", 0, "size=256k,mode=0700") != 0) {
        print_message("no right to mount a small disk: skipped\n");
        skip();
    }
    struct hm_probe_options o = options_of("full", 65536);
    o.folder = mounted;
    struct hm_probe *p = hm_probe_open(&o, why, sizeof why), *second;
    bool opened = p != NULL;
    if (p) {
        struct hm_ring *r = open_ring(hm_probe_path(p), 0);
        opened = hm_ring_info(r).capacity == 2048; /* 64 KiB + 128 KiB of 256 */
        hm_ring_close(r);
        for (int i = 0; i < 5000; i++) hm_probe_step(p, i); /* all of its space is there */
    }
    second = hm_probe_open(&o, why, sizeof why);
    bool refused = !second && strstr(why, "No space left");
    hm_probe_close(p);
    hm_probe_close(second);
    assert_int_equal(umount(mounted), 0);
    assert_true(opened);
    assert_true(refused);
}

static void test_file_size_limit_is_no_signal(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {200 * 1024, 200 * 1024};
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
        struct hm_probe_options o = options_of("limit", 65536);
        struct hm_probe *p = hm_probe_open(&o, NULL, 0);
        for (int i = 0; p && i < 5000; i++) hm_probe_step(p, i);
        _exit(p ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void refused(const char *base, const char *job, const char *word) {
    char why[512] = "";
    struct hm_probe_options o = options_of(job, 64);
    o.folder = base;
    assert_null(hm_probe_open(&o, why, sizeof why));
    if (!strstr(why, word)) fail_msg("'%s' does not say '%s'", why, word);
    assert_null(strchr(why, '\n'));
}

static void test_unsafe_folders_are_refused(void **state) {
    (void)state;
    char base[300], inner[400];
    (void)snprintf(base, sizeof base, "%s/open", folder);
    assert_int_equal(mkdir(base, 0700), 0);
    assert_int_equal(chmod(base, 0777), 0);
    refused(base, "job", "open to their writing");
    assert_int_equal(chmod(base, 01777), 0); /* like /tmp: fine, what is ours cannot be removed */
    struct hm_probe_options o = options_of("job", 64);
    o.folder = base;
    struct hm_probe *p = hm_probe_open(&o, NULL, 0);
    assert_non_null(p);
    struct stat st;
    assert_int_equal(stat(hm_probe_path(p), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    hm_probe_close(p);
    (void)snprintf(inner, sizeof inner, "%s/link", base);
    assert_int_equal(symlink("/tmp", inner), 0);
    refused(base, "link", "no folder of ours");
    refused(inner, "job", "no folder of ours");
    refused("/proc/none/there", "job", "HINDMOST_DIR");
    if (geteuid() == 0) {
        (void)snprintf(inner, sizeof inner, "%s/theirs", base);
        assert_int_equal(mkdir(inner, 0700), 0);
        assert_int_equal(chown(inner, 12345, 12345), 0);
        refused(base, "theirs", "another user");
    }
    p = NULL;
    o.job = "../../up"; /* a job's name never leaves the folder */
    p = hm_probe_open(&o, NULL, 0);
    assert_non_null(p);
    assert_non_null(strstr(hm_probe_path(p), "/open/_._.._up/"));
    hm_probe_close(p);
}

static void test_off(void **state) {
    (void)state;
    char why[100];
    struct hm_probe_options o = options_of("off", 64);
    setenv("HINDMOST_OFF", "1", 1);
    assert_null(hm_probe_open(&o, why, sizeof why));
    assert_non_null(strstr(why, "off"));
    setenv("HINDMOST_OFF", "0", 1);
    struct hm_probe *p = hm_probe_open(&o, NULL, 0);
    assert_non_null(p);
    hm_probe_close(p);
    unsetenv("HINDMOST_OFF");
}

/* Patience: a record under way holds back the later ones for a while, and no longer. */
static void test_patience(void **state) {
    (void)state;
    struct hm_probe *p = open_probe("patience", 64);
    struct hm_probe_event e = {
        .kind = HM_PROBE_IO, .begin_ns = 1, .end_ns = 2, .step = -1, .peer = -1, .microbatch = -1, .chunk = -1};
    for (int i = 0; i < 3; i++) hm_probe_record(p, &e);
    int fd = open(hm_probe_path(p), O_RDWR);
    uint64_t odd = 3, whole = 4;
    assert_int_equal(pwrite(fd, &odd, sizeof odd, 65536 + 64), 8);
    struct hm_ring *r = open_ring(hm_probe_path(p), 1000), *hasty = open_ring(hm_probe_path(p), 0);
    struct hm_ring_event got;
    assert_int_equal(hm_ring_next(r, &got, NULL), 1);
    assert_int_equal(hm_ring_next(r, &got, NULL), 0);
    assert_int_equal(hm_ring_next(r, &got, NULL), 0);
    assert_int_equal(pwrite(fd, &whole, sizeof whole, 65536 + 64), 8);
    assert_int_equal(hm_ring_next(r, &got, NULL), 1);
    assert_int_equal(got.number, 1);
    assert_int_equal(hm_ring_next(r, &got, NULL), 1);
    assert_int_equal(pwrite(fd, &odd, sizeof odd, 65536 + 64), 8);
    assert_int_equal(hm_ring_next(hasty, &got, NULL), 1);
    assert_int_equal(hm_ring_next(hasty, &got, NULL), 1);
    assert_int_equal(got.number, 2);
    assert_int_equal(hm_ring_counts(hasty).unfinished, 1);
    hm_ring_close(r);
    hm_ring_close(hasty);
    close(fd);
    hm_probe_close(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_readers_see_what_was_written),
        cmocka_unit_test(test_null_probe_does_nothing),
        cmocka_unit_test(test_laps_drop_the_oldest_and_count_them),
        cmocka_unit_test(test_slot_in_use_is_given_up),
        cmocka_unit_test(test_names_run_out),
        cmocka_unit_test(test_threads_never_tear),
        cmocka_unit_test(test_killed_at_any_instruction),
        cmocka_unit_test(test_child_opens_its_own),
        cmocka_unit_test(test_full_disk_gives_a_smaller_ring_or_a_reason),
        cmocka_unit_test(test_file_size_limit_is_no_signal),
        cmocka_unit_test(test_unsafe_folders_are_refused),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_patience),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
