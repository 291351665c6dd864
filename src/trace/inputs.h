/* inputs.h - what the user named, as a list of files: a file, several, a folder, a pattern, or standard input. */
#ifndef HM_TRACE_INPUTS_H
#define HM_TRACE_INPUTS_H

#include "base/base.h"

/* Of one file. */
struct hm_input {
    char *path; /* for messages, as it was named */
    char *
        open_path; /* to open it by: the same, but for what was spooled from a pipe, and names that look like patterns */
    uint64_t bytes; /* size */
    bool gzip;      /* compressed: the head is what comes out */
    size_t format;  /* index into hm_readers, once readers.c has looked at it */
    int fd;         /* behind open_path if that is another, else -1 */
};

struct hm_inputs {
    char *name; /* of them all, for messages */
    struct hm_input *file;
    size_t n, capacity;
    uint64_t bytes;
    bool found;    /* by a folder or a pattern: files of no known format are passed over, if there are others */
    size_t passed; /* so many were */
};

/* Resolves the names: "-" and pipes are spooled to a temporary file, folders stand for the files in them (sorted as people count:
 * rank2 before rank10; no hidden ones, no .tmp), and a name that does not exist but holds * ? [ is a pattern. 0, or -1 with an
 * error that names what is wrong with which. Free in any case. */
int hm_inputs_find(struct hm_inputs *in, const char *const *names, size_t n, struct hm_error *err);
void hm_inputs_free(struct hm_inputs *in);
/* Takes a file out of the list. */
void hm_inputs_drop(struct hm_inputs *in, size_t index);

/* The beginning of a file, decompressed if it is gzipped. */
enum { HM_HEAD_BYTES = 1 << 16 };
struct hm_head {
    const char *path;
    unsigned char bytes[HM_HEAD_BYTES + 1]; /* a 0 behind the last */
    size_t n;
    bool whole; /* there is no more */
};
int hm_input_head(struct hm_input *file, struct hm_head *head, struct hm_error *err);

#endif
