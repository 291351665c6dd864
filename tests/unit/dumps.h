/* dumps.h - flight-recorder dumps made to order, as pickles of any protocol or as JSON, by a writer of its own. */
#ifndef HM_TESTS_DUMPS_H
#define HM_TESTS_DUMPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One entry; what is 0 or NULL has the usual value. Times are in microseconds after a fixed moment. */
struct made_entry {
    const char *group, *op; /* "nccl:all_reduce" */
    int seq;
    bool p2p, retired;
    int state; /* 0 scheduled, 1 started, 2 completed */
    double created_us, completed_us;
    int size, timeout_s; /* elements (default 1024), seconds (default 600) */
    const char *type;    /* "Float" */
};

struct made_group {
    const char *name, *description, *ranks; /* "[0, 1, 2]" */
};

struct made_dump {
    const char *version; /* "2.9" */
    const struct made_group *group;
    size_t n_groups;
    const struct made_entry *entry;
    size_t n_entries;
    int status_enqueued, status_completed; /* of group number 0 if not both 0 */
};

/* protocol 0 to 5, or -1 for JSON. Returns fresh bytes (free with free()); *size without a 0 at the end. */
char *dump_bytes(const struct made_dump *dump, int protocol, size_t *size);
/* The same into a file. Aborts if it cannot be written. */
void dump_write(const char *path, const struct made_dump *dump, int protocol);

#endif
