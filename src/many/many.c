/* many.c - hindmost-many: many traces over the ranks of an MPI program, one trace at a time a rank, largest first.
 *
 * Rank 0 holds the list. Every rank, rank 0 too, asks for a trace, analyses it in a process of its own (child.c) and tells how it went,
 * and says once a second that it lives. A rank that falls silent is given up: its trace goes to another rank, once; a trace that takes two
 * ranks with it is listed. So a trace that crashes costs that trace, and (under mpirun --enable-recovery, or srun) a rank that dies costs
 * what it was at. Results appear whole, since the single program writes them; a second run does what is missing. */
#include "many/child.h"
#include "many/traces.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: mpirun -n N hindmost-many analyze TRACE|FOLDER|LIST... -o RESULTS [options]     (or srun)\n\n"
    "Analyses many traces, one at a time a rank, the largest first; one JSON result a trace, as 'hindmost analyze "
    "--json' writes it.\n"
    "A trace that fails is named with its reason, and the rest goes on. Run again, it does what is missing or older "
    "than its trace.\n\n"
    "  FOLDER is searched for .parquet, .csv and .csv.gz; LIST (.txt, .list, or - for standard input) names a "
    "recording a line.\n\n"
    "  -o, --output RESULTS  the folder of results; also failures.jsonl, and jobs.parquet for 'hindmost fleet'\n"
    "  -j, --threads N       threads a rank (default: the host's cores, shared out to its ranks)\n"
    "      --memory SIZE     of a rank (default: half of the host's memory, shared out likewise)\n"
    "      --steps, --format, --attribution, --per-step   as 'hindmost analyze' takes them\n"
    "      --again           also traces whose results are there\n"
    "      --lost-after S    seconds of silence after which a rank is given up (default 60)\n"
    "      --help --version\n\n"
    "A rank that dies ends the others unless they are told to go on: mpirun --enable-recovery, or srun.\n"
    "Exit status: 0 every trace has its result; 3 some have not, or it could not run.\n";

enum { MAX_OPTIONS = 16, MAX_TRIES = 2, POLL_NS = 2000000 };

struct request {
    const char *results;
    const char *option[MAX_OPTIONS]; /* for the single program */
    char threads[32], memory[32];    /* where they are not given */
    size_t options;
    double lost_after_s;
    bool again, threads_given, memory_given, print;
    int first; /* of the inputs, in argv */
    int lost;  /* ranks */
    char error[400];
};

/* ---- messages ---- */

enum { FROM_WORKER = 1, FROM_MASTER = 2 };
enum { IDLE, DONE, ALIVE };

struct told { /* by a worker */
    int what, good;
    double seconds;
    char why[512];
};

struct task { /* for a worker; an empty trace: the end */
    int lost; /* how many ranks are: MPI would wait for them when it ends */
    char trace[PATH_MAX], result[PATH_MAX];
};

/* ---- what a rank does with its trace ---- */

struct worker {
    struct request *q;
    const char *program;
    struct hm_many_child child;
    double began_s;
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(void) {
    nanosleep(&(struct timespec){0, POLL_NS}, NULL);
}

/* True if it could not be begun; told says why. */
static bool begin(struct worker *w, const struct task *task, struct told *told) {
    w->began_s = now_s();
    int why = hm_many_child_start(&w->child, w->program, task->trace, task->result, w->q->option, w->q->options);
    if (why == 0) return false;
    *told = (struct told){.what = DONE};
    (void)snprintf(told->why, sizeof told->why, "%s: %s", w->program, strerror(why));
    return true;
}

/* True once it has ended. */
static bool ended(struct worker *w, struct told *told) {
    bool good = false;
    if (!w->child.pid || !hm_many_child_ended(&w->child, &good)) return false;
    *told = (struct told){.what = DONE, .good = good, .seconds = now_s() - w->began_s};
    if (!good) (void)snprintf(told->why, sizeof told->why, "%s", w->child.why);
    return true;
}

static void tell(const struct told *told) {
    (void)MPI_Send(told, sizeof *told, MPI_BYTE, 0, FROM_WORKER, MPI_COMM_WORLD);
}

/* How many ranks were lost, this one included if rank 0 is. */
static int work(struct worker *w) {
    struct told told = {.what = IDLE};
    struct task task;
    double last_s = now_s();
    tell(&told);
    for (;; rest()) {
        if (ended(w, &told)) tell(&told);
        if (now_s() - last_s >= 1) {
            tell(&(struct told){.what = ALIVE});
            last_s = now_s();
        }
        int there = 0;
        if (MPI_Iprobe(0, FROM_MASTER, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 1;
        if (!there) continue;
        if (MPI_Recv(&task, sizeof task, MPI_BYTE, 0, FROM_MASTER, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return 1;
        if (!task.trace[0]) return task.lost;
        if (begin(w, &task, &told)) tell(&told);
    }
}

/* ---- rank 0: who does what ---- */

enum state { STATE_WAITING, STATE_RUNNING, STATE_GOOD, STATE_FAILED };

struct progress {
    enum state state;
    int tries;
    char why[600];
};

struct rank {
    int trace; /* what it is at, or -1 */
    bool idle, lost;
    double heard_s;
    char host[MPI_MAX_PROCESSOR_NAME];
};

struct master {
    const struct request *q;
    struct hm_many_traces traces;
    struct progress *progress; /* [trace] */
    struct rank *rank;
    int ranks;
    size_t skipped, open; /* open: not yet good or failed */
};

static int next_trace(const struct master *m) {
    for (size_t i = 0; i < m->traces.n; i++)
        if (m->progress[i].state == STATE_WAITING) return (int)i;
    return -1;
}

static void settle(struct master *m, int r, const struct told *told) {
    struct rank *rank = &m->rank[r];
    rank->heard_s = now_s();
    if (told->what == ALIVE) return;
    rank->idle = true;
    if (told->what == IDLE || rank->trace < 0) return;
    const struct hm_many_trace *trace = &m->traces.trace[rank->trace];
    struct progress *p = &m->progress[rank->trace];
    rank->trace = -1;
    if (p->state != STATE_RUNNING) return;
    p->state = told->good ? STATE_GOOD : STATE_FAILED;
    m->open--;
    (void)snprintf(p->why, sizeof p->why, "%.*s", (int)sizeof told->why, told->why);
    fprintf(stderr, "hindmost: %zu left; %s: %s", m->open, trace->path, told->good ? "" : p->why);
    if (told->good) fprintf(stderr, "%.2f s", told->seconds);
    fprintf(stderr, "\n");
}

static void give_up_silent(struct master *m) {
    for (int r = 1; r < m->ranks; r++) {
        struct rank *rank = &m->rank[r];
        if (rank->lost || now_s() - rank->heard_s < m->q->lost_after_s) continue;
        rank->lost = true;
        rank->idle = false;
        fprintf(stderr, "hindmost: rank %d on %s is silent for %.0f s and given up\n", r, rank->host,
                m->q->lost_after_s);
        if (rank->trace < 0) continue;
        struct progress *p = &m->progress[rank->trace];
        bool again = ++p->tries < MAX_TRIES;
        p->state = again ? STATE_WAITING : STATE_FAILED;
        if (!again) m->open--;
        (void)snprintf(p->why, sizeof p->why, "%d ranks were lost while they worked on it", p->tries);
        rank->trace = -1;
    }
}

static void hear(struct master *m) {
    for (int there = 1; there;) {
        MPI_Status from;
        struct told told;
        there = 0;
        if (MPI_Iprobe(MPI_ANY_SOURCE, FROM_WORKER, MPI_COMM_WORLD, &there, &from) != MPI_SUCCESS || !there) return;
        if (MPI_Recv(&told, sizeof told, MPI_BYTE, from.MPI_SOURCE, FROM_WORKER, MPI_COMM_WORLD, &from) ==
                MPI_SUCCESS &&
            !m->rank[from.MPI_SOURCE].lost)
            settle(m, from.MPI_SOURCE, &told);
    }
}

static void hand_out(struct master *m, struct worker *own) {
    for (int r = 0; r < m->ranks; r++) {
        struct rank *rank = &m->rank[r];
        int i = rank->idle && !rank->lost ? next_trace(m) : -1;
        if (i < 0) continue;
        struct task task = {0};
        struct told told;
        (void)snprintf(task.trace, sizeof task.trace, "%s", m->traces.trace[i].path);
        (void)snprintf(task.result, sizeof task.result, "%s", m->traces.trace[i].result);
        rank->idle = false;
        rank->trace = i;
        m->progress[i].state = STATE_RUNNING;
        if (r > 0)
            (void)MPI_Send(&task, sizeof task, MPI_BYTE, r, FROM_MASTER, MPI_COMM_WORLD);
        else if (begin(own, &task, &told))
            settle(m, 0, &told);
    }
}

/* How many ranks were lost. */
static int lead(struct master *m, struct worker *own) {
    m->rank[0].idle = true;
    for (int r = 0; r < m->ranks; r++) m->rank[r].heard_s = now_s();
    for (; m->open; rest()) {
        struct told told;
        if (ended(own, &told)) settle(m, 0, &told);
        hear(m);
        give_up_silent(m);
        hand_out(m, own);
    }
    struct task end = {0};
    for (int r = 1; r < m->ranks; r++) end.lost += m->rank[r].lost;
    for (int r = 1; r < m->ranks; r++)
        if (!m->rank[r].lost) (void)MPI_Send(&end, sizeof end, MPI_BYTE, r, FROM_MASTER, MPI_COMM_WORLD);
    return end.lost;
}

/* ---- rank 0: before and after ---- */

static void quote(struct hm_out *out, const char *text) {
    hm_out_printf(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            hm_out_printf(out, "\\%c", c);
        else if (c < 0x20)
            hm_out_printf(out, "\\u%04x", c);
        else
            hm_out_write(out, text, 1);
    }
    hm_out_printf(out, "\"");
}

/* failures.jsonl: a line a trace that has no result; none left, no file. */
static int list_failures(const struct master *m, struct hm_error *err) {
    char path[PATH_MAX];
    size_t failed = 0;
    (void)snprintf(path, sizeof path, "%s/failures.jsonl", m->q->results);
    for (size_t i = 0; i < m->traces.n; i++) failed += m->progress[i].state == STATE_FAILED;
    if (!failed)
        return unlink(path) == 0 || errno == ENOENT ? 0 : hm_fail(err, HM_ERR_IO, "%s: %s", path, strerror(errno));
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    for (size_t i = 0; i < m->traces.n; i++) {
        if (m->progress[i].state != STATE_FAILED) continue;
        hm_out_printf(out, "{\"trace\": ");
        quote(out, m->traces.trace[i].path);
        hm_out_printf(out, ", \"why\": ");
        quote(out, m->progress[i].why);
        hm_out_printf(out, "}\n");
    }
    return hm_out_commit(out, err);
}

/* `hindmost fleet RESULTS --parquet RESULTS/jobs.parquet`, its summary on our standard output. */
static int sum_up(const char *program, const char *results) {
    char parquet[PATH_MAX];
    (void)snprintf(parquet, sizeof parquet, "%s/jobs.parquet", results);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, "fleet", results, "--parquet", parquet, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int prepare(struct master *m, const char *const *inputs, size_t n, struct hm_error *err) {
    if (hm_many_make_folder(m->q->results, err) != 0 ||
        hm_many_traces_list(&m->traces, inputs, n, m->q->results, err) != 0 ||
        hm_many_traces_look(&m->traces, err) != 0)
        return -1;
    m->progress = calloc(m->traces.n, sizeof *m->progress);
    m->rank = calloc((size_t)m->ranks, sizeof *m->rank);
    if (!m->progress || !m->rank) return hm_fail(err, HM_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < m->traces.n; i++) {
        bool there = m->traces.trace[i].done && !m->q->again;
        m->progress[i].state = there ? STATE_GOOD : STATE_WAITING;
        m->skipped += there;
        m->open += !there;
    }
    for (int r = 0; r < m->ranks; r++) m->rank[r].trace = -1;
    return 0;
}

static int finish(struct master *m, const char *program) {
    struct hm_error err = {0};
    size_t failed = 0;
    for (size_t i = 0; i < m->traces.n; i++) failed += m->progress[i].state == STATE_FAILED;
    fprintf(stderr, "hindmost: %zu traces: %zu analysed, %zu were there, %zu failed\n", m->traces.n,
            m->traces.n - m->skipped - failed, m->skipped, failed);
    if (list_failures(m, &err) != 0) return fprintf(stderr, "hindmost: %s\n", err.message), 3;
    if (failed < m->traces.n && sum_up(program, m->q->results) != 0) return 3;
    return failed ? 3 : 0;
}

/* Everybody learns whether rank 0 could list the traces; then the work is done. */
static int run(struct request *q, int rank, int ranks, const char *program, const char *const *inputs, size_t n) {
    struct master m = {.q = q, .ranks = ranks};
    struct worker w = {.q = q, .program = program};
    struct hm_error err = {0};
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    int length, good = 1;
    if (rank == 0 && prepare(&m, inputs, n, &err) != 0) {
        fprintf(stderr, "hindmost: %s\n", err.message);
        good = 0;
    }
    MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!good) return hm_many_traces_free(&m.traces), rank == 0 ? 3 : 0;
    MPI_Get_processor_name(host, &length);
    char *hosts = rank == 0 ? calloc((size_t)ranks, sizeof host) : NULL;
    MPI_Gather(host, sizeof host, MPI_BYTE, hosts, sizeof host, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int r = 0; hosts && m.rank && r < ranks; r++)
        memcpy(m.rank[r].host, hosts + (size_t)r * sizeof host, sizeof host);
    free(hosts);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* a lost rank is no reason to end */
    int status = 0;
    if (rank == 0) {
        q->lost = lead(&m, &w);
        status = finish(&m, program);
    } else {
        q->lost = work(&w);
    }
    hm_many_child_kill(&w.child);
    hm_many_traces_free(&m.traces);
    free(m.progress);
    free(m.rank);
    return status;
}

/* ---- the command line ---- */

static void pass(struct request *q, const char *option, const char *value) {
    if (q->options + 2 > MAX_OPTIONS) return (void)snprintf(q->error, sizeof q->error, "%s: too many options", option);
    q->option[q->options++] = option;
    if (value) q->option[q->options++] = value;
}

static void parse(int argc, char **argv, struct request *q) {
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},     {"threads", required_argument, NULL, 'j'},
        {"memory", required_argument, NULL, 'm'},     {"steps", required_argument, NULL, 's'},
        {"format", required_argument, NULL, 'f'},     {"attribution", required_argument, NULL, 'a'},
        {"per-step", no_argument, NULL, 'p'},         {"again", no_argument, NULL, 'n'},
        {"lost-after", required_argument, NULL, 'l'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},          {NULL, 0, NULL, 0}};
    static const char *const names[] = {['j'] = "--threads", ['m'] = "--memory",      ['s'] = "--steps",
                                        ['f'] = "--format",  ['a'] = "--attribution", ['p'] = "--per-step"};
    char *end = NULL;
    opterr = 0;
    q->lost_after_s = 60;
    for (int c; !*q->error && (c = getopt_long(argc, argv, ":o:j:h", options, NULL)) != -1;) {
        switch (c) {
        case 'o':
            q->results = optarg;
            break;
        case 'n':
            q->again = true;
            break;
        case 'l':
            q->lost_after_s = strtod(optarg, &end);
            if (end == optarg || *end || !(q->lost_after_s >= 3 && q->lost_after_s <= 1e6))
                (void)snprintf(q->error, sizeof q->error, "--lost-after %.40s: give seconds, 3 or more", optarg);
            break;
        case 'h':
        case 'v':
            q->print = true;
            c == 'h' ? (void)fputs(help, stdout) : (void)printf("hindmost %s\n", hm_version());
            return;
        case ':':
        case '?':
            (void)snprintf(q->error, sizeof q->error, "%.60s: %s; see --help", argv[optind - 1],
                           c == ':' ? "needs a value" : "no such option");
            break;
        default:
            q->threads_given |= c == 'j';
            q->memory_given |= c == 'm';
            pass(q, names[c], c == 'p' ? NULL : optarg);
        }
    }
    q->first = optind + 1;
    if (*q->error) return;
    if (optind >= argc || strcmp(argv[optind], "analyze") != 0)
        (void)snprintf(q->error, sizeof q->error, "%.60s: the one thing it does is analyze; see --help",
                       optind < argc ? argv[optind] : "no subcommand");
    else if (optind + 1 >= argc)
        (void)snprintf(q->error, sizeof q->error, "analyze needs traces, folders of them, or a list; see --help");
    else if (!q->results)
        (void)snprintf(q->error, sizeof q->error, "-o is missing: name the folder of results");
}

/* The host's cores and memory belong to all of its ranks. */
static void share_host(struct request *q) {
    MPI_Comm host;
    int ranks = 1;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &ranks);
    MPI_Comm_free(&host);
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (!q->threads_given) {
        (void)snprintf(q->threads, sizeof q->threads, "%ld", cores > ranks ? cores / ranks : 1);
        pass(q, "--threads", q->threads);
    }
    if (!q->memory_given && ranks > 1 && pages > 0) {
        (void)snprintf(q->memory, sizeof q->memory, "%lldM", (long long)pages * page / 2 / ranks / (1 << 20));
        pass(q, "--memory", q->memory);
    }
}

/* hindmost lies beside this program. */
static const char *find_program(char *path, size_t size) {
    ssize_t n = readlink("/proc/self/exe", path, size - 16);
    if (n <= 0) return NULL;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    (void)snprintf(slash + 1, 16, "hindmost");
    return access(path, X_OK) == 0 ? path : NULL;
}

int main(int argc, char **argv) {
    struct request q = {0};
    char path[PATH_MAX];
    int rank = 0, ranks = 1, status = 3;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE *quiet = rank > 0 ? freopen("/dev/null", "w", stdout) : NULL; /* one rank speaks */
    (void)quiet;
    parse(argc, argv, &q);
    const char *program = find_program(path, sizeof path);
    if (!*q.error && !program)
        (void)snprintf(q.error, sizeof q.error,
                       "%.300s: there is no program of that name beside this one; install both in one folder", path);
    if (q.print) {
        status = 0;
    } else if (*q.error) {
        if (rank == 0)
            fprintf(stderr, "hindmost: hindmost-many: %s\n", q.error);
        else
            status = 0;
    } else {
        share_host(&q);
        status = run(&q, rank, ranks, program, (const char *const *)argv + q.first, (size_t)(argc - q.first));
    }
    fflush(NULL);
    if (q.lost) _exit(status);
    MPI_Finalize();
    return status;
}
