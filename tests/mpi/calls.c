/* calls.c - an MPI program that knows of no probe and checks its own results: collectives, sends and receives, split and duplicated
 * communicators, nonblocking calls completed in every way, two threads. Prints "good" on rank 0. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;
static MPI_Comm thread_comm;

static void expect(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *thread_main(void *context) {
    (void)context;
    for (int i = 0; i < 10; i++) {
        int one = 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, thread_comm);
        expect(sum == size, "all-reduce in a thread");
    }
    return NULL;
}

static void collectives(MPI_Comm comm) {
    int n, me, all[64], sum = 0;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    MPI_Barrier(comm);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == n * (n - 1) / 2, "all-reduce");
    MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, comm);
    expect(all[n - 1] == n - 1, "all-gather");
    MPI_Bcast(&sum, 1, MPI_INT, 0, comm);
    MPI_Reduce_scatter_block(all, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == n * me, "reduce-scatter");
    MPI_Alltoall(all, 1, MPI_INT, all + 32, 1, MPI_INT, comm);
}

static void nonblocking(void) {
    MPI_Request r[4];
    int sum[4], flag = 0, index, done, indices[4], me = rank;
    MPI_Status statuses[4];
    for (int i = 0; i < 4; i++) MPI_Iallreduce(&me, &sum[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[i]);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    while (!flag) MPI_Test(&r[1], &flag, MPI_STATUS_IGNORE);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++) expect(sum[i] == size * (size - 1) / 2, "nonblocking all-reduce");
    MPI_Ibarrier(MPI_COMM_WORLD, &r[0]);
    MPI_Waitany(1, r, &index, MPI_STATUS_IGNORE);
    expect(index == 0, "any");
    MPI_Ibarrier(MPI_COMM_WORLD, &r[0]);
    MPI_Waitsome(1, r, &done, indices, statuses);
    expect(done == 1, "some");
}

static void pairs(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size, got = -1;
    MPI_Request r[2];
    MPI_Status status;
    MPI_Sendrecv(&rank, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(got == from, "send and receive");
    MPI_Irecv(&got, 1, MPI_INT, from, 2, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(&rank, 1, MPI_INT, to, 2, MPI_COMM_WORLD, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    expect(got == from, "nonblocking pair");
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &r[0]);
    MPI_Send(&rank, 1, MPI_INT, to, 3, MPI_COMM_WORLD);
    MPI_Wait(&r[0], &status);
    expect(got == from && status.MPI_SOURCE == from, "from anybody");
    MPI_Send(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int provided;
    pthread_t thread;
    MPI_Comm half, again;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(half, &again);
    MPI_Comm_dup(MPI_COMM_WORLD, &thread_comm);
    collectives(MPI_COMM_WORLD);
    collectives(half);
    collectives(again);
    if (provided == MPI_THREAD_MULTIPLE) pthread_create(&thread, NULL, thread_main, NULL);
    nonblocking();
    pairs();
    if (provided == MPI_THREAD_MULTIPLE)
        pthread_join(thread, NULL);
    else
        thread_main(NULL);
    MPI_Comm_free(&again);
    MPI_Comm_free(&half);
    MPI_Comm_free(&thread_comm);
    if (rank == 0) printf("good\n");
    MPI_Finalize();
    return 0;
}
