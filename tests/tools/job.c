/* job.c - writes the op table of a small random job (tests/unit/jobs.h): job OUT.csv [pp=N] [dp=N] [vpp=N] [mb=N] [steps=N] [overlap=0|1]
 * [seed=N] [clock=S] [shuffle=N]. */
#include "../unit/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(int argc, char **argv, const char *name, int otherwise) {
    size_t n = strlen(name);
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=') return (int)strtol(argv[i] + n + 1, NULL, 10);
    return otherwise;
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    struct job_options o = {.pp = number(argc, argv, "pp", 4),
                            .dp = number(argc, argv, "dp", 3),
                            .vpp = number(argc, argv, "vpp", 1),
                            .microbatches = number(argc, argv, "mb", 8),
                            .steps = number(argc, argv, "steps", 6),
                            .overlap = number(argc, argv, "overlap", 0),
                            .no_delays = number(argc, argv, "exact", 0) != 0};
    struct job_table table = {.clock_s = number(argc, argv, "clock", 0),
                              .shuffle = (uint64_t)number(argc, argv, "shuffle", 0)};
    struct job *j = job_make((uint64_t)number(argc, argv, "seed", 1), &o);
    job_write(j, argv[1], &table);
    job_free(j);
    return 0;
}
