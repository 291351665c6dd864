/* pairs.c - hindmost-pairs: which host's link is slow? One MPI rank a host. Round 1 measures disjoint pairs at the same time;
 * round 2 pairs the slow with the fast; a host's time is its better one (DLRover's node check), so an innocent partner of
 * a slow host is cleared. A host above 2 x the median is named. In a third round those above 2 x the
 * median are measured again with the fastest, nobody else working (and who was left out in an odd number of hosts). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3, REPEATS = 3, NAME = 64 };
static const double FACTOR = 2; /* DLRover */
static const double SECONDS = 1;

struct host {
    int rank, measured;
    double best_s;
    char name[NAME];
};

static int by_time(const void *a, const void *b) {
    const struct host *x = a, *y = b;
    int few = (x->measured < 2) - (y->measured < 2); /* who was left out comes first */
    if (few) return -few;
    return x->best_s > y->best_s ? -1 : x->best_s < y->best_s ? 1 : x->rank - y->rank;
}

/* Best of many round trips of `bytes` each way with `partner` in about a second, seconds one way: the best is what the link
 * can do; a busy core only lengthens some trips. The lower rank decides when it is enough: its first byte says so. */
static double exchange(char *buffer, int bytes, int rank, int partner) {
    double best = 1e300, begin = MPI_Wtime();
    buffer[0] = 0;
    for (int i = 0; !buffer[0]; i++) { /* the first opens the connection */
        double start = MPI_Wtime();
        if (rank < partner) {
            buffer[0] = i >= REPEATS && start - begin > SECONDS;
            MPI_Send(buffer, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
        }
        double one_way = (MPI_Wtime() - start) / 2;
        if (i > 0 && one_way < best) best = one_way;
    }
    return best;
}

static double median_of(const struct host *h, int n) { /* h sorted by time */
    return n % 2 ? h[n / 2].best_s : (h[n / 2 - 1].best_s + h[n / 2].best_s) / 2;
}

/* Neighbours first; then, sorted slow to fast, first with last; at last only the doubtful. Returns the pairs. */
static int pair_up(struct host *h, int n, int round, int *partner) {
    int pairs = n / 2;
    for (int i = 0; i < n; i++) partner[i] = -1;
    if (round > 0) qsort(h, (size_t)n, sizeof *h, by_time);
    if (round == 2) {
        double median = median_of(h, n);
        int doubtful = 0;
        for (int i = 0; i < n; i++) doubtful += h[i].measured < 2 || h[i].best_s > FACTOR * median;
        if (doubtful < pairs) pairs = doubtful;
    }
    for (int i = 0; i < pairs; i++) {
        int one = h[round ? i : 2 * i].rank, other = h[round ? n - 1 - i : 2 * i + 1].rank;
        partner[one] = other;
        partner[other] = one;
    }
    return pairs;
}

/* Waits for everybody without burning the core that a working pair may need. */
static void meet(void) {
    MPI_Request request;
    int all = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &all, MPI_STATUS_IGNORE) == MPI_SUCCESS && !all) usleep(1000);
}

static int report(struct host *h, int n, int rounds, int bytes) {
    int named = 0, first = 1;
    for (int i = 0; i < n; i++) h[i].measured = 2; /* sorted by time alone */
    qsort(h, (size_t)n, sizeof *h, by_time);
    double median = median_of(h, n);
    for (int i = 0; i < n; i++) named += n > 2 && h[i].best_s > FACTOR * median;
    printf(
        "{\"schema\": \"hindmost.pairs/1\", \"hosts\": %d, \"rounds\": %d, \"median_gbs\": %.6g, \"verdict\": \"%s\",\n"
        " \"culprits\": [",
        n, rounds, bytes / median / 1e9,
        n < 3   ? "unknown"
        : named ? "fail"
                : "pass");
    for (int i = 0; i < n; i++)
        if (n > 2 && h[i].best_s > FACTOR * median) printf("%s\"%s\"", first ? "" : ", ", h[i].name), first = 0;
    printf("],\n \"nodes\": [");
    for (int i = 0; i < n; i++)
        printf("%s\n  {\"node\": \"%s\", \"bandwidth_gbs\": %.6g, \"times_median\": %.4g}", i ? "," : "", h[i].name,
               bytes / h[i].best_s / 1e9, h[i].best_s / median);
    printf("]}\n");
    return named ? 2 : n < 3;
}

int main(int argc, char **argv) {
    int rank, n, length, status = 0, bytes = 4 << 20, rounds = 0;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (argc > 1) bytes = atoi(argv[1]);
    if (bytes < 1024 || n < 2) {
        if (rank == 0)
            fprintf(stderr, "hindmost: hindmost-pairs: needs 2 ranks, one a host, and at least 1024 bytes\n");
        MPI_Finalize();
        return 3;
    }
    MPI_Get_processor_name(name, &length);
    char *buffer = calloc((size_t)bytes, 1), *names = calloc((size_t)n, NAME);
    struct host *h = calloc((size_t)n, sizeof *h);
    int *partner = calloc((size_t)n, sizeof *partner);
    double *times = calloc((size_t)n, sizeof *times);
    if (!buffer || !names || !h || !partner || !times) {
        fprintf(stderr, "hindmost: hindmost-pairs: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
        abort(); /* not reached */
    }
    name[NAME - 1] = 0;
    MPI_Gather(name, NAME, MPI_CHAR, names, NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) {
        h[i] = (struct host){.rank = i, .best_s = 1e300};
        memcpy(h[i].name, names + (size_t)i * NAME, NAME);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int needed = 0;
        if (rank == 0) needed = pair_up(h, n, round, partner);
        MPI_Bcast(&needed, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!needed) break;
        rounds++;
        MPI_Bcast(partner, n, MPI_INT, 0, MPI_COMM_WORLD);
        double mine = partner[rank] < 0 ? -1 : exchange(buffer, bytes, rank, partner[rank]);
        meet();
        MPI_Gather(&mine, 1, MPI_DOUBLE, times, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        for (int i = 0; rank == 0 && i < n; i++) {
            double t = times[h[i].rank];
            if (t < 0) continue;
            h[i].measured++;
            if (t < h[i].best_s) h[i].best_s = t;
        }
    }
    if (rank == 0) status = report(h, n, rounds, bytes);
    free(buffer);
    free(names);
    free(h);
    free(partner);
    free(times);
    MPI_Finalize();
    return status;
}
