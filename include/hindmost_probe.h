/* hindmost_probe.h - record what a rank does, from inside a training job, at some tens of nanoseconds an event.
 *
 * Link libhindmost-probe (shared or static; it needs libc only). Events go to a ring: a file of fixed size in shared memory
 * that stays readable when the process dies, whenever that is (docs/ring.md). `hindmost ring` prints it.
 *
 *     struct hm_probe *probe = hm_probe_process();          // from the environment; NULL: not recording
 *     uint16_t forward = hm_probe_name(probe, "forward");
 *     for (int step = 0; step < steps; step++) {
 *         hm_probe_step(probe, step);
 *         struct hm_probe_event e = hm_probe_begin(probe, HM_PROBE_COMPUTE, forward);
 *         ...
 *         hm_probe_end(probe, &e);
 *     }
 *
 * Rules
 *  - A NULL probe is allowed everywhere and does nothing: a job never has to ask whether it is recorded.
 *  - Recording never blocks, allocates, makes a system call or touches errno. Opening and naming may; do them beforehand.
 *  - Any thread may record at any time, and so may a signal handler. After fork the child's first event opens a ring of its
 *    own; names and groups keep their numbers in it.
 *  - The oldest records are overwritten. Readers see how many they missed.
 *
 * Environment: HINDMOST_DIR (folder of the rings), HINDMOST_JOB, HINDMOST_RECORDS (capacity, default 65536), HINDMOST_OFF=1.
 * Since 0.1.0. */
#ifndef HINDMOST_PROBE_H
#define HINDMOST_PROBE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HM_PROBE_API __attribute__((visibility("default")))
#else
#define HM_PROBE_API
#endif

/* What an event is. */
enum hm_probe_kind {
    HM_PROBE_COMPUTE = 1,
    HM_PROBE_COLLECTIVE,
    HM_PROBE_SEND,
    HM_PROBE_RECV,
    HM_PROBE_WAIT, /* the rank waits for the communication with the same group and seq */
    HM_PROBE_DATA,
    HM_PROBE_IO,
    HM_PROBE_GC,
    HM_PROBE_IDLE,
    HM_PROBE_MARKER /* a moment: begin equals end */
};

/* Flags of an event. */
enum {
    HM_PROBE_TOKENS = 1,   /* amount counts tokens, not bytes */
    HM_PROBE_ASYNC = 2,    /* asked for, and not waited for at once */
    HM_PROBE_ENQUEUED = 4, /* its times are those of asking, not of moving data */
    HM_PROBE_DEVICE = 8,   /* its times come from the accelerator's clock */
    HM_PROBE_FAILED = 16   /* the operation reported an error */
};

enum { HM_PROBE_NO_SEQ = -1, HM_PROBE_NO_STEP = -1 };

struct hm_probe;

struct hm_probe_options {
    const char *folder; /* of all jobs' rings; a folder with the job's name is made in it */
    const char *job, *face, *gpu;
    int rank, world, local_rank; /* -1: not known */
    int dp, pp, tp, cp, ep;      /* the rank's indices; -1: not known */
    uint32_t records;            /* capacity, rounded up to a power of two; halved while the disk has no room */
};

/* What the environment says: HINDMOST_*; rank, world and job also as torchrun, Open MPI, MPICH or Slurm set them. Texts point
 * into the environment or to static storage. The folder is /dev/shm/hindmost-UID unless HINDMOST_DIR names one. */
HM_PROBE_API struct hm_probe_options hm_probe_defaults(void);

/* Opens a ring, mode 0600, in FOLDER/JOB (made if missing, mode 0700; refused if somebody else's or open to writing by others).
 * All its space is taken at once, so that a full disk shows here and not later. NULL on failure, with the reason in `why`
 * (`size` bytes; may be NULL); HINDMOST_OFF=1 is a failure, too. Close with hm_probe_close. */
HM_PROBE_API struct hm_probe *hm_probe_open(const struct hm_probe_options *options, char *why, size_t size);

/* Marks the ring closed and lets go of it; its file stays. No thread may record any more. */
HM_PROBE_API void hm_probe_close(struct hm_probe *probe);

/* The process's own ring, opened at the first call as the environment says; NULL if it could not be (said once, on stderr, unless
 * HINDMOST_OFF is set). All parts of a program that ask here share it. Never close it. */
HM_PROBE_API struct hm_probe *hm_probe_process(void);

/* The ring's file. Valid until the probe is closed or the process forks. */
HM_PROBE_API const char *hm_probe_path(const struct hm_probe *probe);

/* The number of a name, at most 255 bytes long, made if new. 0, which stands for no name, if the table is full. Thread-safe. */
HM_PROBE_API uint16_t hm_probe_name(struct hm_probe *probe, const char *name);

/* The number of a group (communicator) with these members (global ranks, in the group's order). The same name with other
 * members is another group. If there is no room for the members, the group goes without. 0 if there is no room at all. */
HM_PROBE_API uint16_t hm_probe_group(struct hm_probe *probe, const char *name, const int *members, size_t count);

/* CLOCK_MONOTONIC, in ns. */
HM_PROBE_API int64_t hm_probe_now(void);

/* From now on events belong to this step, in all threads. Writes a marker named "step"; takes a pair of clocks every ten seconds. */
HM_PROBE_API void hm_probe_step(struct hm_probe *probe, int32_t step);
HM_PROBE_API int32_t hm_probe_current_step(const struct hm_probe *probe);

struct hm_probe_event {
    int64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
    int64_t launch_ns;        /* when the rank asked for it, if earlier than begin_ns; else 0 */
    uint64_t amount;          /* bytes, or tokens with HM_PROBE_TOKENS; 0: not known */
    int32_t step;             /* -1: in no step, or not known */
    int32_t peer;             /* global rank of the other side of a send or recv; -1: none */
    uint32_t seq;             /* number among the communications of its group since the start; UINT32_MAX: not known */
    uint16_t name, group;     /* 0: none */
    uint8_t kind, flags;
    uint16_t stream;           /* events of one stream of a rank do not overlap; 0: the main line */
    int16_t microbatch, chunk; /* -1: none */
};

/* An event that begins now, of the current step, with nothing else known. Fill in what you know, then hm_probe_end. */
HM_PROBE_API struct hm_probe_event hm_probe_begin(const struct hm_probe *probe, enum hm_probe_kind kind, uint16_t name);

/* The event ends now; records it. */
HM_PROBE_API void hm_probe_end(struct hm_probe *probe, struct hm_probe_event *event);

/* Records an event as it is. */
HM_PROBE_API void hm_probe_record(struct hm_probe *probe, const struct hm_probe_event *event);

#ifdef __cplusplus
}
#endif
#endif
