/* pairs.c - hindmost-pairs: which host's link is slow? One MPI rank a host.
 *
 * Pairs: round 1 measures disjoint pairs at the same time; round 2 pairs the slow with the fast; a host counts by its best
 * link (DLRover's node check), so that an innocent partner of a slow host is cleared. In round 3 those still above 2 x the
 * median are measured again with the fastest, one after another, everybody else asleep: only what holds there is named.
 *
 * Groups: all-reduce in groups by x / m, then by x mod n / m; who is in a slow group twice is suspect (ByteRobust). In round 3
 * each suspect is measured in a group with hosts that are known to be good, alone. */
#include "pairs/measure.h"
#include "pairs/report.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: mpirun ... hindmost-pairs [options]     (or srun; one rank a host)\n\n"
    "Which host's link is slow? Measures bandwidth and latency between pairs of hosts, in at most three rounds, and "
    "names hosts\n"
    "whose best link is worse than 2 x the median. Prints JSON (hindmost.pairs/1).\n\n"
    "  -g, --groups M      all-reduce in groups of M hosts instead of pairs, and the intersection of slow groups\n"
    "  -s, --size BYTES    largest message: 4M (default), 512K, ...\n"
    "  -t, --seconds S     for one measurement (default 1)\n"
    "  -f, --factor F      how many times worse than the median is slow (default 2)\n"
    "  -l, --latency-floor US   latencies that differ by less are not told apart (default 5)\n"
    "  -o, --results FILE  append the hosts' results as JSON lines in SuperBench's naming, for node judge\n"
    "      --help --version\n\n"
    "Exit status: 0 nobody is named; 1 nothing can be said; 2 a host is named; 3 it could not run.\n";

struct request {
    int groups, bytes;
    double seconds;
    struct hm_limits limits;
    const char *results;
    bool print; /* help or version */
    char error[160];
};

static bool parse_bytes(const char *text, int *bytes) {
    char *end;
    double v = strtod(text, &end);
    if (end != text && (*end == 'K' || *end == 'M')) v *= *end++ == 'K' ? 1 << 10 : 1 << 20;
    *bytes = v >= 1024 && v <= 1 << 30 ? (int)v / 8 * 8 : 0;
    return end != text && *end == 0 && *bytes > 0;
}

static void parse(int argc, char **argv, struct request *q, bool speak) {
    static const struct option options[] = {{"groups", required_argument, NULL, 'g'},
                                            {"size", required_argument, NULL, 's'},
                                            {"seconds", required_argument, NULL, 't'},
                                            {"factor", required_argument, NULL, 'f'},
                                            {"latency-floor", required_argument, NULL, 'l'},
                                            {"results", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    char *end = NULL;
    opterr = 0;
    for (int c; !*q->error && (c = getopt_long(argc, argv, ":g:s:t:f:l:o:h", options, NULL)) != -1;) {
        switch (c) {
        case 'g':
            q->groups = (int)strtol(optarg, &end, 10);
            if (*end || q->groups < 2 || q->groups > 4096)
                snprintf(q->error, sizeof q->error, "--groups %.40s: give 2 hosts or more", optarg);
            break;
        case 's':
            if (!parse_bytes(optarg, &q->bytes))
                snprintf(q->error, sizeof q->error, "--size %.40s: give bytes from 1K to 1024M", optarg);
            break;
        case 't':
            q->seconds = strtod(optarg, &end);
            if (end == optarg || *end || !(q->seconds > 0 && q->seconds <= 3600))
                snprintf(q->error, sizeof q->error, "--seconds %.40s: give seconds up to 3600", optarg);
            break;
        case 'f':
            q->limits.factor = strtod(optarg, &end);
            if (end == optarg || *end || !(q->limits.factor > 1))
                snprintf(q->error, sizeof q->error, "--factor %.40s: give a number above 1", optarg);
            break;
        case 'l':
            q->limits.floor_us = strtod(optarg, &end);
            if (end == optarg || *end || !(q->limits.floor_us >= 0))
                snprintf(q->error, sizeof q->error, "--latency-floor %.40s: give microseconds", optarg);
            break;
        case 'o':
            q->results = optarg;
            break;
        case 'h':
        case 'v':
            q->print = true;
            if (speak && c == 'h') fputs(help, stdout);
            if (speak && c == 'v') puts("hindmost " HM_VERSION);
            return;
        default:
            snprintf(q->error, sizeof q->error, "%.60s: %s; see --help", argv[optind - 1],
                     c == ':' ? "needs a value" : "no such option");
        }
    }
    if (!*q->error && optind < argc)
        snprintf(q->error, sizeof q->error, "takes no file, not %.60s; see --help", argv[optind]);
}

/* ---- running ---- */

struct run {
    struct hm_fabric f;
    struct hm_work work;
    int rank;
};

static void *room(size_t count, size_t size) {
    void *p = calloc(count, size);
    if (p) return p;
    fprintf(stderr, "hindmost: hindmost-pairs: out of memory\n");
    MPI_Abort(MPI_COMM_WORLD, 3);
    abort(); /* not reached */
}

/* Measures links, at the same time or one after another; the results are there in rank 0. */
static void measure_links(struct run *r, struct hm_link *link, int links, bool alone) {
    double *mine = room(3 * (size_t)links, sizeof *mine), *all = room(3 * (size_t)links, sizeof *all);
    struct hm_work work = r->work;
    if (alone) work.seconds *= 2; /* the last word: more tries */
    for (int i = 0; i < links; i++) {
        if (r->rank == link[i].a || r->rank == link[i].b) {
            struct hm_timing t = hm_time_link(&work, r->rank == link[i].a ? link[i].b : link[i].a);
            memcpy(mine + 3 * (size_t)i, (double[]){t.gbs, t.latency_us, t.repeats}, 3 * sizeof *mine);
        }
        if (alone) hm_meet(MPI_COMM_WORLD);
    }
    hm_meet(MPI_COMM_WORLD);
    MPI_Reduce(mine, all, 3 * links, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); /* one rank has what others have as 0 */
    for (int i = 0; i < links; i++)
        link[i].gbs = all[3 * i], link[i].latency_us = all[3 * i + 1], link[i].repeats = all[3 * i + 2];
    free(mine);
    free(all);
}

static void run_pairs(struct run *r) {
    struct hm_fabric *f = &r->f;
    f->link = room(HM_ROUNDS * (size_t)f->hosts, sizeof *f->link);
    for (int round = 0; round < HM_ROUNDS; round++) {
        struct hm_link *link = f->link + f->links;
        int links = 0;
        if (r->rank == 0) links = hm_plan_links(f->host, f->hosts, round, f->limits, link);
        MPI_Bcast(&links, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (links <= 0) break;
        MPI_Bcast(link, links * (int)sizeof *link, MPI_BYTE, 0, MPI_COMM_WORLD);
        measure_links(r, link, links, round == 2);
        for (int i = 0; i < links; i++) hm_count_link(f->host, &link[i]);
        f->links += links;
        f->rounds++;
    }
    struct hm_normal normal = hm_normal_of(f->host, f->hosts, f->limits);
    for (int i = 0; i < f->hosts; i++)
        f->bad[i] = f->hosts > 2 && f->host[i].links && hm_times_normal(&f->host[i], normal) > f->limits.factor;
}

/* Measures a group (-1: this rank is in none); in rank 0, gbs and repeats of `groups` groups. */
static void measure_groups(struct run *r, int mine, int groups, double *result) {
    double *own = room(2 * (size_t)groups, sizeof *own);
    int first = 0;
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, mine < 0 ? MPI_UNDEFINED : mine, r->rank, &comm);
    if (mine >= 0) {
        struct hm_timing t = hm_time_group(&r->work, comm);
        MPI_Comm_rank(comm, &first);
        if (first == 0) own[2 * mine] = t.gbs, own[2 * mine + 1] = t.repeats;
    }
    hm_meet(MPI_COMM_WORLD);
    MPI_Reduce(own, result, 2 * groups, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (mine >= 0) MPI_Comm_free(&comm);
    free(own);
}

static struct hm_group *add_group(struct hm_fabric *f, int round, const double *result) {
    struct hm_group *g = &f->group[f->groups++];
    *g = (struct hm_group){
        .member = room((size_t)f->hosts, sizeof(int)), .round = round, .gbs = result[0], .repeats = result[1]};
    return g;
}

static void run_groups(struct run *r) {
    struct hm_fabric *f = &r->f;
    int n = f->hosts, m = f->mode, groups = n / m, suspects = 0, slow = 0;
    double *result = room(2 * (size_t)(groups + n), sizeof *result), *gbs = room(2 * (size_t)groups, sizeof *gbs);
    bool *suspect = room((size_t)n, sizeof *suspect);
    int *member = room((size_t)n, sizeof *member);
    f->group = room(2 * (size_t)groups + (size_t)n, sizeof *f->group);
    for (int p = 0; p < 2; p++, f->rounds++) {
        measure_groups(r, hm_group_of(r->rank, n, m, p), groups, result);
        for (int g = 0; g < groups; g++) {
            struct hm_group *group = add_group(f, p, result + 2 * (size_t)g);
            gbs[p * groups + g] = group->gbs;
            for (int i = 0; i < n; i++)
                if (hm_group_of(i, n, m, p) == g) group->member[group->size++] = i;
        }
    }
    if (r->rank == 0) suspects = hm_find_suspects(gbs, n, m, f->limits.factor, suspect, &slow, &f->group_normal);
    f->inconsistent = slow > 0 && suspects == 0;
    MPI_Bcast(&suspects, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0, left = suspects; left > 0; i++) {
        int size = 0, mine = -1;
        if (r->rank == 0 && suspect[i]) size = hm_trial_group(gbs, suspect, i, n, m, member);
        MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!size) continue;
        left--;
        MPI_Bcast(member, size, MPI_INT, 0, MPI_COMM_WORLD);
        for (int k = 0; k < size; k++)
            if (member[k] == r->rank) mine = 0;
        if (size > 1) measure_groups(r, mine, 1, result);
        if (r->rank != 0 || size < 2) continue;
        struct hm_group *group = add_group(f, 2, result);
        for (int k = 0; k < size; k++) group->member[group->size++] = member[k];
        f->bad[i] = group->gbs * f->limits.factor < f->group_normal;
    }
    f->rounds += suspects > 0;
    free(result);
    free(gbs);
    free(suspect);
    free(member);
}

/* The hosts' names in all ranks; false if two ranks share one. */
static bool learn_names(struct run *r) {
    char name[MPI_MAX_PROCESSOR_NAME] = "", *names = room((size_t)r->f.hosts, HM_HOST_NAME);
    int length;
    bool distinct = true;
    MPI_Get_processor_name(name, &length);
    name[HM_HOST_NAME - 1] = 0;
    MPI_Allgather(name, HM_HOST_NAME, MPI_CHAR, names, HM_HOST_NAME, MPI_CHAR, MPI_COMM_WORLD);
    for (int i = 0; i < r->f.hosts; i++) {
        memcpy(r->f.host[i].name, names + (size_t)i * HM_HOST_NAME, HM_HOST_NAME);
        for (int k = 0; k < i && distinct; k++) distinct = strcmp(r->f.host[k].name, r->f.host[i].name) != 0;
    }
    free(names);
    return distinct;
}

/* What makes the request unusable, into q->error; the same in all ranks. */
static void check(struct request *q, struct run *r) {
    int n = r->f.hosts;
    if (*q->error) return;
    if (n < 2)
        snprintf(q->error, sizeof q->error, "needs 2 ranks or more, one a host; start it with mpirun or srun");
    else if (q->groups && n / q->groups < 2)
        snprintf(q->error, sizeof q->error, "--groups %d: %d hosts are fewer than two groups", q->groups, n);
    else if (!learn_names(r))
        snprintf(q->error, sizeof q->error, "two ranks on one host; start one rank a host");
}

static int report(const struct hm_fabric *f, const char *results) {
    FILE *out = results ? fopen(results, "a") : NULL;
    if (out) hm_fabric_write_results(f, out);
    if (results && (!out || fclose(out) != 0)) {
        fprintf(stderr, "hindmost: hindmost-pairs: %s: %s; name a file that may be written\n", results,
                strerror(errno));
        return 3;
    }
    hm_fabric_write_json(f, stdout);
    return fflush(stdout) == 0 ? hm_fabric_verdict(f) : 3;
}

int main(int argc, char **argv) {
    struct run r = {0};
    struct request q = {.bytes = 4 << 20, .seconds = 1, .limits = {2, 5}};
    int status = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.f.hosts);
    parse(argc, argv, &q, r.rank == 0);
    if (!q.print) {
        r.f.host = room((size_t)r.f.hosts, sizeof *r.f.host);
        check(&q, &r);
        if (*q.error && r.rank == 0) fprintf(stderr, "hindmost: hindmost-pairs: %s\n", q.error);
        if (*q.error) status = 3;
    }
    if (!q.print && !*q.error) {
        r.f.bytes = q.bytes;
        r.f.mode = q.groups;
        r.f.limits = q.limits;
        r.f.bad = room((size_t)r.f.hosts, sizeof *r.f.bad);
        r.work = (struct hm_work){room((size_t)q.bytes, 1), room((size_t)q.bytes, 1), q.bytes, q.seconds};
        if (q.groups)
            run_groups(&r);
        else
            run_pairs(&r);
        if (r.rank == 0) status = report(&r.f, q.results);
        free(r.work.buffer);
        free(r.work.other);
    }
    for (int i = 0; i < r.f.groups; i++) free(r.f.group[i].member);
    free(r.f.group);
    free(r.f.link);
    free(r.f.bad);
    free(r.f.host);
    MPI_Finalize();
    return status;
}
