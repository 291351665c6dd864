/* bench_kineto.c - how fast profiler traces are read, and in how much memory: one trace, gzipped, and several at once.
 *
 *     bench_kineto [MB a trace]
 *
 * Beside it, what a reader cannot be faster than: the JSON's tokens alone, and the bytes alone as zlib gives them (zcat). */
#include "base/base.h"
#include "base/json_stream.h"
#include "hindmost/arrivals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { RANKS = 4 };

/* Seconds of all cores together: what a core does does not depend on who else is on the machine. */
static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double peak_mib(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)r.ru_maxrss / 1024;
}

/* Twenty operators to a kernel to a collective's twentieth: about what a trace of a data-parallel job holds. */
static void write_events(gzFile f, int rank, uint64_t bytes) {
    uint64_t written = 0, k = 0;
    gzprintf(f,
             "{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d, "
             "\"pg_config\": [{\"pg_name\": \"0\", \"ranks\": [0, 1, 2, 3]}]},\n\"traceEvents\": [\n",
             rank, RANKS);
    for (; written < bytes; k++) {
        double at = 1.7e15 + 40.0 * (double)k;
        int n =
            gzprintf(f,
                     "  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::addmm\", \"pid\": 4242, \"tid\": "
                     "4242,\n    \"ts\": %.3f, \"dur\": 17.250,\n    \"args\": {\n      \"External id\": %llu,"
                     "\"Record function id\": 0, \"Sequence number\": %llu, \"Fwd thread id\": 0, \"Ev Idx\": %llu\n"
                     "    }\n  },\n",
                     at, (unsigned long long)k, (unsigned long long)k, (unsigned long long)k);
        if (k % 1000 == 0)
            n += gzprintf(f,
                          "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%llu\", \"pid\": 1, "
                          "\"tid\": 1, \"ts\": %.3f, \"dur\": 39990.0},\n",
                          (unsigned long long)k / 1000, at);
        if (k % 20 == 0)
            n += gzprintf(
                f,
                "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7,\n"
                "    \"ts\": %.3f, \"dur\": 30.000,\n    \"args\": {\n      \"External id\": %llu, \"queued\": 0, "
                "\"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": %llu,\n      \"grid\": [24, 1, "
                "1], \"block\": [544, 1, 1]\n    }\n  },\n",
                k % 400 == 0 ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)" : "ampere_sgemm_128x64_tn", at,
                (unsigned long long)k, (unsigned long long)k);
        if (n <= 0) break;
        written += (uint64_t)n;
    }
    gzprintf(f, "  {\"ph\": \"i\", \"name\": \"Record Window End\", \"ts\": 0}\n]}\n");
}

static size_t read_gz(void *file, void *bytes, size_t n) {
    int got = gzread(file, bytes, (unsigned)n);
    return got > 0 ? (size_t)got : 0;
}

/* Seconds for the bytes alone (tokens false) or for the tokens; *bytes as decompressed. */
static double read_plainly(const char *path, bool tokens, uint64_t *bytes) {
    gzFile f = gzopen(path, "rbe");
    static unsigned char buffer[HM_JSON_BUFFER];
    struct hm_json_stream s = {0};
    double begin = cpu_s();
    if (!f || (tokens && hm_json_stream_open(&s, read_gz, f) != 0)) exit(3);
    gzbuffer(f, HM_JSON_BUFFER);
    *bytes = 0;
    if (tokens) {
        for (enum hm_json_token t = HM_JSON_OBJECT; t != HM_JSON_END && t != HM_JSON_BAD && t != HM_JSON_CUT;)
            t = hm_json_stream_next(&s);
        *bytes = hm_json_stream_position(&s);
    } else {
        for (size_t n; (n = read_gz(f, buffer, sizeof buffer)) > 0;) *bytes += n;
    }
    double end = cpu_s();
    hm_json_stream_close(&s);
    gzclose(f);
    return end - begin;
}

/* Seconds by the clock given. */
static double read_traces(const char *const *paths, size_t n, int threads, double (*clock_s)(void)) {
    struct hm_error err;
    double begin = clock_s();
    struct hm_arrivals *a = hm_arrivals_read(paths, n, NULL, threads, NULL, &err);
    double end = clock_s();
    if (!a) {
        fprintf(stderr, "%s\n", err.message);
        exit(3);
    }
    hm_arrivals_free(a);
    return end - begin;
}

static void one(const char *what, const char *path) {
    uint64_t bytes;
    double raw = read_plainly(path, false, &bytes), tokens = read_plainly(path, true, &bytes), before = peak_mib(),
           read = read_traces(&path, 1, 1, cpu_s), mb = 1e-6 * (double)bytes;
    printf("%-9s %6.0f MB of JSON: %4.0f MB/s a core (must: >= 150); tokens alone %.0f, bytes alone %.0f MB/s; "
           "memory +%.1f MiB\n",
           what, mb, mb / read, mb / tokens, mb / raw, peak_mib() - before);
}

int main(int argc, char **argv) {
    uint64_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 256) * 1000000;
    const char *tmp = getenv("TMPDIR");
    char folder[256], plain[RANKS][300], zipped[300];
    const char *path[RANKS];
    snprintf(folder, sizeof folder, "%s/hindmost-kineto.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) return 3;
    snprintf(zipped, sizeof zipped, "%s/rank0.json.gz", folder);
    for (int r = 0; r <= RANKS; r++) {
        if (r < RANKS) snprintf(plain[r], sizeof plain[r], "%s/rank%d.json", folder, r);
        gzFile f = r < RANKS ? gzopen(plain[r], "wbeT") : gzopen(zipped, "wbe1");
        if (!f) return 3;
        write_events(f, r % RANKS, bytes);
        if (gzclose(f) != Z_OK) return 3;
    }
    one("plain", plain[0]);
    one("gzipped", zipped);
    double before = peak_mib();
    for (int r = 0; r < RANKS; r++) path[r] = plain[r];
    double alone = read_traces(path, RANKS, 1, hm_now_s), both = read_traces(path, RANKS, 2, hm_now_s);
    printf("%d ranks   %6.0f MB of JSON: two threads %.2f x faster than one; memory +%.1f MiB\n", RANKS,
           1e-6 * (double)bytes * RANKS, alone / both, peak_mib() - before);
    for (int r = 0; r < RANKS; r++) unlink(plain[r]);
    unlink(zipped);
    rmdir(folder);
    return 0;
}
