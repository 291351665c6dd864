/* slowdown.c - prints S of a trace and its slowest worker: the smallest use of the hindmost library.
 *
 *     cc slowdown.c -o slowdown $(pkg-config --cflags --libs hindmost) && ./slowdown trace.parquet */
#include <hindmost/hindmost.h>
#include <stdio.h>

static void print(const struct hm_analysis *a) {
    size_t slowest = 0;
    for (size_t w = 1; w < a->pp * a->dp; w++)
        if (a->by_worker[w] > a->by_worker[slowest]) slowest = w; /* workers that were left out are NaN: never larger */
    printf("%s: %zu steps of %zu workers\n", a->name, a->n_steps, a->pp * a->dp);
    printf("S = %.4f: a step takes %.3f s, without stragglers %.3f s\n", a->slowdown, a->replayed_s, a->ideal_s);
    printf("slowest worker: stage %zu of DP rank %zu, S_w = %.4f\n", slowest / a->dp, slowest % a->dp,
           a->by_worker[slowest]);
    for (size_t i = 0; i < a->n_dropped; i++)
        printf("left out: %zu %s (%s)\n", a->dropped[i].count, a->dropped[i].what, a->dropped[i].why);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s TRACE\n", argv[0]);
        return 3;
    }
    struct hm_error err = {0};
    struct hm_trace *trace = hm_trace_open(argv[1], NULL, &err);
    struct hm_analysis *analysis = trace ? hm_analyze(trace, NULL, &err) : NULL;
    hm_trace_free(trace);
    if (!analysis) {
        fprintf(stderr, "%s\n", err.message);
        return 3;
    }
    print(analysis);
    hm_analysis_free(analysis);
    return 0;
}
