/* flight_recorder.h - dumps of PyTorch's flight recorder: the last collectives that one process put in line, and how far
 * each came. Pickle or JSON, versions 2.x (torch/csrc/distributed/c10d/FlightRecorder*). */
#ifndef HM_TRACE_FLIGHT_RECORDER_H
#define HM_TRACE_FLIGHT_RECORDER_H

#include "base/base.h"
#include "trace/value.h"

enum hm_flight_state { HM_FLIGHT_SCHEDULED, HM_FLIGHT_STARTED, HM_FLIGHT_COMPLETED };

/* Numbers that a dump does not hold are -1, texts "". Texts live in the dump's document. */
struct hm_flight_entry {
    const char *group, *description; /* the process group's name and what it is for */
    const char *library, *op;        /* "nccl:send 0->3" is library "nccl", op "send 0->3" */
    const struct hm_value *input_sizes, *input_types, *output_sizes, *output_types; /* NULL: not there */
    int64_t group_id, record; /* group_id: this process's number of the group, the key of its status */
    int64_t collective, p2p;  /* sequence numbers in the group */
    int64_t created_ns, started_ns, completed_ns, timeout_ms;
    int from, to; /* of a send or receive: ranks within the group; -1: not known */
    enum hm_flight_state state;
    bool is_p2p;
    bool retired; /* the watchdog is done with it: in flight no longer, whatever its state says */
};

/* A process group as this dump describes it. */
struct hm_flight_group {
    const char *name, *description;
    int *rank;
    size_t n_ranks;
};

/* The last collective of a group that was put in line, and that was seen complete. */
struct hm_flight_status {
    int64_t group_id, enqueued, completed;
};

struct hm_flight_dump {
    const char *path, *version;
    int rank; /* from the file's name: nothing inside says it */
    struct hm_flight_entry *entry;
    size_t n_entries;
    struct hm_flight_group *group;
    size_t n_groups;
    struct hm_flight_status *status;
    size_t n_statuses;
    struct hm_document document;
};

/* Whether these first bytes of a file can be a dump: a pickle, or JSON. */
bool hm_flight_detect(const char *bytes, size_t size);
/* Reads one dump. NULL on failure: no dump, no rank in the name, broken. `path` must outlive it. */
struct hm_flight_dump *hm_flight_read(const char *path, struct hm_error *err);
/* The same from bytes already in memory. */
struct hm_flight_dump *hm_flight_parse(const char *path, const char *bytes, size_t size, struct hm_error *err);
void hm_flight_free(struct hm_flight_dump *dump);

#endif
