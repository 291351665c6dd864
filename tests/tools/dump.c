/* dump.c - writes flight-recorder dumps for tests: dump FOLDER PROTOCOL RANKS ABSENT, an all-reduce to which one rank does not come
 * (ABSENT -1: all come). PROTOCOL -1 is JSON. */
#include "../unit/dumps.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int protocol = atoi(argv[2]), ranks = atoi(argv[3]), absent = atoi(argv[4]);
    char members[4000] = "[0";
    int n = 2;
    for (int r = 1; r < ranks && n < 3900; r++) n += snprintf(members + n, sizeof members - (size_t)n, ", %d", r);
    (void)snprintf(members + n, sizeof members - (size_t)n, "]");
    struct made_group world = {"0", "default_pg", members};
    for (int r = 0; r < ranks; r++) {
        struct made_entry e[2] = {
            {.group = "0", .op = "nccl:all_reduce", .seq = 1, .state = 2, .created_us = 1, .completed_us = 1000},
            {.group = "0", .op = "nccl:all_reduce", .seq = 2, .created_us = 2000 + r}};
        char path[500];
        (void)snprintf(path, sizeof path, "%s/comm_lib_trace_rank_%d", argv[1], r);
        dump_write(path,
                   &(struct made_dump){.group = &world, .n_groups = 1, .entry = e, .n_entries = r == absent ? 1 : 2},
                   protocol);
    }
    return 0;
}
