/* traces.h - which traces a run of hindmost-many is to analyse, and where their results go. Knows nothing of MPI. */
#ifndef HM_MANY_TRACES_H
#define HM_MANY_TRACES_H

#include "hindmost/base.h"

/* One recording to analyse. */
struct hm_many_trace {
    char *path;     /* as `hindmost analyze` takes it */
    char *result;   /* the file of its result: the folder of results, then `name`.json */
    char *name;     /* of the result, below the folder of results, without .json */
    uint64_t bytes; /* its size: the largest go first */
    bool done;      /* its result is there and newer than it */
};

struct hm_many_traces {
    struct hm_many_trace *trace; /* largest first; of one size by path */
    size_t n, capacity;
};

/* Lists what the arguments name: a file is a trace; a folder holds traces (.parquet, .csv, .csv.gz) at any depth, links to folders not
 * followed; a file that ends in .txt or .list names one recording a line (a folder named there is one recording in parts; # begins a
 * comment), "-" the same on standard input. A trace named twice is listed once. A result is called like its trace: below a folder like
 * the path in it, else like the file; traces that would share a result get a hash of their place behind their names. `results` is the
 * folder of results, which is skipped where it lies within a folder of traces. HM_ERR_INPUT if a named file does not exist or nothing
 * is left. 0 or -1; free with hm_many_traces_free in any case. */
int hm_many_traces_list(struct hm_many_traces *traces, const char *const *arguments, size_t n, const char *results,
                        struct hm_error *err);
void hm_many_traces_free(struct hm_many_traces *traces);

/* Makes a folder and those above it. 0, or -1: HM_ERR_IO. */
int hm_many_make_folder(const char *path, struct hm_error *err);
/* Makes the folders that the results lie in, and looks which results are there and newer than their traces. 0 or -1. */
int hm_many_traces_look(struct hm_many_traces *traces, struct hm_error *err);

#endif
