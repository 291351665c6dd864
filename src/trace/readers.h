/* readers.h - the formats in which a recording may come: a table, one row each.
 *
 * A new format is one file with its functions, and one row in readers.c. What a file is, its content decides, never its name: but for
 * what to say when the content does not fit. */
#ifndef HM_TRACE_READERS_H
#define HM_TRACE_READERS_H

#include "inputs.h"

struct hm_recording;

struct hm_reader {
    const char *name; /* of --format */
    const char *what; /* for people, after "is" */
    /* Whether the beginning of a file is of this format. */
    bool (*detect)(const struct hm_head *head);
    /* Opens the recording: op tables. NULL: see `profiler` and `instead`. */
    int (*open)(struct hm_recording *r, const struct hm_inputs *in, struct hm_error *err);
    /* Not a recording, but known: what to do with it. */
    const char *instead;
    /* A trace of a profiler, one a rank: kineto.c and arrivals.c read it. */
    bool profiler;
};
extern const struct hm_reader hm_readers[];
extern const size_t hm_readers_count;

/* The one format of all files; with `format` (NULL: the content decides) it is that. NULL with an error that says what is known. */
const struct hm_reader *hm_reader_choose(struct hm_inputs *in, const char *format, struct hm_error *err);

/* Whether it opens op tables; -1 with an error if not. */
int hm_reader_is_table(const struct hm_reader *reader, const struct hm_inputs *in, struct hm_error *err);

#endif
