/* json_stream.h - JSON piece by piece, in bounded memory whatever the size: for traces of many gigabytes.
 *
 * The caller pulls tokens. Of strings and numbers the text is given; of a very long one only the beginning. An input that ends in the
 * middle ends with HM_JSON_CUT, so that a recording whose job was killed can be used as far as it goes. */
#ifndef HM_BASE_JSON_STREAM_H
#define HM_BASE_JSON_STREAM_H

#include "base.h"

enum hm_json_token {
    HM_JSON_END, /* one whole value was read */
    HM_JSON_CUT, /* the input ended before that */
    HM_JSON_BAD, /* not JSON: see hm_json_stream_position */
    HM_JSON_OBJECT,
    HM_JSON_OBJECT_END,
    HM_JSON_ARRAY,
    HM_JSON_ARRAY_END,
    HM_JSON_KEY,
    HM_JSON_STRING,
    HM_JSON_NUMBER,
    HM_JSON_WORD /* true, false, null */
};

/* Gives up to n bytes; 0 at the end or on failure (which the caller's context remembers). */
typedef size_t (*hm_read_fn)(void *context, void *bytes, size_t n);

enum { HM_JSON_TEXT = 4096, HM_JSON_DEPTH = 256, HM_JSON_BUFFER = 1 << 18 };
struct hm_json_stream {
    hm_read_fn read;
    void *context;
    unsigned char *buffer;
    size_t at, n;      /* within the buffer */
    uint64_t consumed; /* bytes before the buffer */
    unsigned depth;
    bool in_object[HM_JSON_DEPTH];
    enum { HM_JSON_WANT_VALUE, HM_JSON_WANT_FIRST, HM_JSON_WANT_COLON, HM_JSON_WANT_COMMA } want;
    char text[HM_JSON_TEXT]; /* of the last key, string, number or word; a 0 behind it */
    size_t length;
};

/* 0, or -1 without memory. Free it in any case. */
int hm_json_stream_open(struct hm_json_stream *s, hm_read_fn read, void *context);
void hm_json_stream_close(struct hm_json_stream *s);
enum hm_json_token hm_json_stream_next(struct hm_json_stream *s);
/* Passes over the value that `token` begins. Returns the token that ended it: CUT and BAD tell that it was not whole. */
enum hm_json_token hm_json_stream_skip(struct hm_json_stream *s, enum hm_json_token token);
/* Bytes read so far. */
uint64_t hm_json_stream_position(const struct hm_json_stream *s);

#endif
