/* ring.c - `hindmost ring`: prints the rings of a running or dead job, follows them, converts them to an event table. */
#include "cli.h"
#include "hindmost/ring.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { O_FOLLOW = 1, O_AS, O_OUTPUT, O_SUMMARY };

static const struct option_spec specs[] = {{"follow", 'f', false, O_FOLLOW},
                                           {"as", 0, true, O_AS},
                                           {"output", 'o', true, O_OUTPUT},
                                           {"summary", 0, false, O_SUMMARY},
                                           {NULL, 0, false, 0}};

const char ring_help[] =
    "usage: hindmost ring FILE|DIR... [-f] [--summary]\n"
    "       hindmost ring FILE|DIR... --as events -o OUT\n\n"
    "Prints what a probe recorded in a training job: all .ring files named, or in the folders named. The job may be "
    "running, and need not\n"
    "notice; or it may have died.\n\n"
    "  -f, --follow              go on printing what is recorded, also of rings that are opened later; Ctrl-C ends it\n"
    "      --summary             only the headers: whose ring it is, how many records it has and lost\n"
    "      --as events -o OUT    write the event table that 'hindmost analyze' reads; OUT ends in .csv, .csv.gz or "
    ".parquet.\n"
    "                            Members of groups go to a file beside it, NAME.groups.csv\n";

static volatile sig_atomic_t stopped;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

/* ---- printing ---- */

static void print_header(const struct hm_ring *ring) {
    struct hm_ring_info i = hm_ring_info(ring);
    time_t opened = (time_t)(i.wall_ns / 1000000000);
    struct tm tm;
    char when[40] = "?";
    if (gmtime_r(&opened, &tm)) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &tm);
    printf("%s\n  job %s, rank %d of %d on %s%s%s, written by %s in process %u (%s%s), opened %s\n", i.path, i.job,
           i.rank, i.world, i.host, *i.gpu ? ", GPU " : "", i.gpu, i.face, i.pid, i.forked ? "forked, " : "",
           i.closed              ? "closed"
           : hm_ring_alive(ring) ? "running"
                                 : "gone",
           when);
}

static void print_counts(const struct hm_ring *ring) {
    struct hm_ring_info i = hm_ring_info(ring);
    struct hm_ring_counts c = hm_ring_counts(ring);
    printf("  %llu records begun, room for %u: %llu read, %llu overwritten before that, %llu unfinished, %llu refused",
           (unsigned long long)i.claimed, i.capacity, (unsigned long long)c.read, (unsigned long long)c.dropped,
           (unsigned long long)c.unfinished, (unsigned long long)c.refused);
    if (i.lost) printf("; %llu given up by the writer", (unsigned long long)i.lost);
    if (i.unnamed) printf("; %llu names found no room", (unsigned long long)i.unnamed);
    printf("\n");
}

static void print_columns(void) {
    printf("%6s %8s %6s  %-10s %-24s %14s %12s  %s\n", "rank", "number", "step", "kind", "name", "begin_s", "took_ms",
           "more");
}

static void print_more(const struct hm_ring_event *e) {
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"seq", e->seq},
                   {"peer", e->peer},
                   {"stream", e->stream ? e->stream : -1},
                   {"microbatch", e->microbatch},
                   {"chunk", e->chunk},
                   {"bytes", e->bytes},
                   {"tokens", e->tokens}};
    if (e->group) printf(" group=%s", e->group);
    if (e->members) printf(" members=%s", e->members);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value >= 0) printf(" %s=%lld", numbers[i].name, (long long)numbers[i].value);
    if (e->launch_ns && e->launch_ns < e->begin_ns)
        printf(" waited_ms=%.3f", (double)(e->begin_ns - e->launch_ns) / 1e6);
    printf("%s%s%s%s\n", e->async ? " async" : "", e->enqueued ? " enqueued" : "", e->device ? " device" : "",
           e->failed ? " failed" : "");
}

static void print_event(const struct hm_ring *ring, const struct hm_ring_event *e) {
    struct hm_ring_info i = hm_ring_info(ring);
    printf("%6d %8llu %6d  %-10s %-24s %14.6f %12.6f ", i.rank, (unsigned long long)e->number, e->step, e->kind,
           e->name ? e->name : "-", (double)(e->begin_ns - i.monotonic_ns) / 1e9,
           (double)(e->end_ns - e->begin_ns) / 1e6);
    print_more(e);
}

/* ---- the rings under way ---- */

struct rings {
    struct hm_ring **ring;
    size_t count;
};

static bool is_open(const struct rings *r, const char *path) {
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(hm_ring_info(r->ring[i]).path, path) == 0) return true;
    return false;
}

static int open_one(struct rings *r, const char *path, double patience_s, struct hm_error *err) {
    struct hm_ring **grown = realloc(r->ring, (r->count + 1) * sizeof(struct hm_ring *));
    if (!grown) return hm_fail(err, HM_ERR_MEMORY, "out of memory");
    r->ring = grown;
    r->ring[r->count] = hm_ring_open(path, patience_s, err);
    if (!r->ring[r->count]) return -1;
    r->count++;
    return 0;
}

/* Opens what the path stands for and is not open yet. A damaged ring among others is said and left out: *bad counts them. */
static int open_new(struct rings *r, const char *path, double patience_s, size_t *bad, struct hm_error *err) {
    char **paths = NULL;
    size_t count = 0;
    int status = hm_ring_find(path, &paths, &count, err);
    for (size_t i = 0; i < count; i++) {
        if (status == 0 && !is_open(r, paths[i]) && open_one(r, paths[i], patience_s, err) != 0) {
            if (count == 1)
                status = -1;
            else
                complain(err), (*bad)++;
        }
        free(paths[i]);
    }
    free(paths);
    return status;
}

static void close_all(struct rings *r) {
    for (size_t i = 0; i < r->count; i++) hm_ring_close(r->ring[i]);
    free(r->ring);
}

/* Prints what is there now; *printed counts records. */
static int drain(const struct rings *r, size_t from, bool quiet, size_t *printed, struct hm_error *err) {
    for (size_t i = from; i < r->count; i++) {
        struct hm_ring_event e;
        int more;
        while ((more = hm_ring_next(r->ring[i], &e, err)) == 1) {
            if (!quiet) print_event(r->ring[i], &e);
            (*printed)++;
        }
        if (more < 0) return -1;
    }
    return 0;
}

static int print_once(char **inputs, int n, bool summary) {
    struct rings r = {0};
    struct hm_error err = {0};
    size_t bad = 0, printed = 0;
    int status = 0;
    for (int i = 0; i < n && status == 0; i++) status = open_new(&r, inputs[i], 0, &bad, &err);
    for (size_t i = 0; i < r.count && status == 0; i++) {
        const struct rings one = {r.ring + i, 1};
        print_header(r.ring[i]);
        if (!summary) print_columns();
        status = drain(&one, 0, summary, &printed, &err);
        if (status == 0) print_counts(r.ring[i]);
    }
    close_all(&r);
    if (status != 0) return complain(&err);
    return bad ? EXIT_UNUSABLE : EXIT_DONE;
}

/* ---- following ---- */

static void pause_ms(long ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* New rings are looked for once a second; a damaged one is said once and then passed over, because it stays open or is tried again silently. */
static int follow(char **inputs, int n) {
    struct rings r = {0};
    struct hm_error err = {0};
    size_t bad = 0, printed = 0;
    int status = 0;
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    for (int i = 0; i < n && status == 0; i++) status = open_new(&r, inputs[i], 0.2, &bad, &err);
    for (size_t i = 0; i < r.count && status == 0; i++) print_header(r.ring[i]);
    if (status == 0) print_columns();
    for (int round = 1; status == 0 && !stopped; round++) {
        status = drain(&r, 0, false, &printed, &err);
        if (fflush(stdout) != 0 || ferror(stdout)) break; /* whoever read it has gone */
        pause_ms(100);
        for (int i = 0; i < n && round % 10 == 0; i++) {
            struct hm_error passed = {0};
            char **paths = NULL;
            size_t count = 0, before = r.count;
            if (hm_ring_find(inputs[i], &paths, &count, &passed) != 0) continue;
            for (size_t k = 0; k < count; k++) {
                if (!is_open(&r, paths[k])) (void)open_one(&r, paths[k], 0.2, &passed);
                free(paths[k]);
            }
            free(paths);
            for (size_t k = before; k < r.count; k++) print_header(r.ring[k]);
        }
    }
    for (size_t i = 0; i < r.count; i++) print_counts(r.ring[i]);
    close_all(&r);
    return status == 0 ? EXIT_DONE : complain(&err);
}

/* ---- converting ---- */

static int convert(char **inputs, int n, const char *output) {
    struct hm_ring_summary s;
    struct hm_error err = {0};
    if (hm_rings_convert((const char *const *)inputs, (size_t)n, output, &s, &err) != 0) return complain(&err);
    printf("%s: %llu events of %zu rank%s from %zu ring%s\n", output, (unsigned long long)s.events, s.ranks,
           s.ranks == 1 ? "" : "s", s.rings, s.rings == 1 ? "" : "s");
    if (s.superseded)
        printf("left out: %zu ring%s of an earlier attempt of the same rank\n", s.superseded,
               s.superseded == 1 ? "" : "s");
    if (s.counts.dropped || s.counts.unfinished || s.counts.refused)
        printf("missing: %llu records overwritten before they were read, %llu unfinished, %llu refused\n",
               (unsigned long long)s.counts.dropped, (unsigned long long)s.counts.unfinished,
               (unsigned long long)s.counts.refused);
    if (s.absorbed)
        printf("%llu events lay inside a communication and are part of it\n", (unsigned long long)s.absorbed);
    if (s.clipped)
        printf("%llu events end early: the next one of their stream began before their end\n",
               (unsigned long long)s.clipped);
    return EXIT_DONE;
}

int ring_main(int argc, char **argv) {
    struct options o;
    bool following = false, summary = false;
    const char *as = NULL, *output = NULL;
    options_begin(&o, command_named("ring"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        if (id == OPTION_BAD) return EXIT_UNUSABLE;
        if (id == OPTION_HELP) return EXIT_DONE;
        if (id == O_FOLLOW) following = true;
        if (id == O_SUMMARY) summary = true;
        if (id == O_AS) as = o.value;
        if (id == O_OUTPUT) output = o.value;
    }
    if (o.inputs < 1) return complain_text("ring needs a .ring file or a folder of them; see 'hindmost help ring'");
    if (as && strcmp(as, "events") != 0) return complain_text("--as %s: rings convert to 'events' only", as);
    if (as && !output) return complain_text("--as events needs -o OUT, a name that ends in .csv, .csv.gz or .parquet");
    if (output && (following || summary)) return complain_text("-o writes a table once; leave out -f and --summary");
    if (following && summary) return complain_text("-f and --summary exclude each other");
    if (output) return convert(argv + 1, o.inputs, output);
    return following ? follow(argv + 1, o.inputs) : print_once(argv + 1, o.inputs, summary);
}
