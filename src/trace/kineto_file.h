/* kineto_file.h - the bytes of a trace: of a file, gzipped or not, or of one member of an archive. */
#ifndef HM_TRACE_KINETO_FILE_H
#define HM_TRACE_KINETO_FILE_H

#include "inputs.h"

#include <zlib.h>

struct hm_kineto_file {
    gzFile gz;
    bool tar, broken; /* broken: the compressed data are damaged, or end early */
    uint64_t left;    /* of the member, in an archive */
    uint64_t padding; /* behind it */
    char member[256];
};

int hm_kineto_file_open(struct hm_kineto_file *f, const struct hm_input *input, struct hm_error *err);
void hm_kineto_file_close(struct hm_kineto_file *f);
/* Goes to the next member of an archive; false at its end. A plain file has one, without a name. */
bool hm_kineto_file_next(struct hm_kineto_file *f);
/* hm_read_fn of the member. */
size_t hm_kineto_file_read(void *file, void *bytes, size_t n);
/* Whether these are the first bytes of an archive (POSIX ustar, GNU). */
bool hm_is_tar(const unsigned char *head, size_t n);

#endif
