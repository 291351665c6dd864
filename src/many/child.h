/* child.h - one trace analysed in a process of its own, so that whatever happens to it costs that trace only. Knows nothing of MPI. */
#ifndef HM_MANY_CHILD_H
#define HM_MANY_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hm_many_child {
    pid_t pid;     /* 0: none */
    int errors;    /* its standard error */
    char why[512]; /* the last line it wrote there */
    size_t length; /* of the line under way */
};

/* Starts `hindmost analyze TRACE --json RESULT OPTIONS...`; program: path of hindmost. 0, or errno. */
int hm_many_child_start(struct hm_many_child *child, const char *program, const char *trace, const char *result,
                        const char *const *options, size_t n);
/* Looks after it without waiting. Returns true once it has ended: *good if it left a result, else `why` says why not. */
bool hm_many_child_ended(struct hm_many_child *child, bool *good);
/* Ends it, if there is one. */
void hm_many_child_kill(struct hm_many_child *child);

#endif
