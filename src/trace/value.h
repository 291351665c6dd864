/* value.h - plain data as it stands in a pickle or a JSON text: none, numbers, texts, lists, dicts. A document owns all of
 * its values and frees them at once, so that a pickle which holds itself does no harm. */
#ifndef HM_TRACE_VALUE_H
#define HM_TRACE_VALUE_H

#include "base/base.h"

enum hm_value_kind {
    HM_VALUE_NONE,
    HM_VALUE_BOOL,
    HM_VALUE_INTEGER,
    HM_VALUE_REAL,
    HM_VALUE_TEXT,
    HM_VALUE_LIST,
    HM_VALUE_DICT
};

struct hm_value {
    enum hm_value_kind kind;
    uint32_t n, capacity; /* of item */
    union {
        int64_t integer; /* of a bool: 0 or 1 */
        double real;
        const char *text; /* printable UTF-8: what is none becomes '?' */
        /* A list's (or tuple's, or set's) values; of a dict key, value, key, value ... */
        struct hm_value **item;
    };
};

struct hm_document {
    struct hm_block *block;      /* the values, and the texts */
    struct hm_value **container; /* those whose item must be freed */
    size_t n_containers, container_capacity;
};
void hm_document_free(struct hm_document *doc);

/* New values in the document; NULL: no memory. */
struct hm_value *hm_value_new(struct hm_document *doc, enum hm_value_kind kind);
struct hm_value *hm_value_integer(struct hm_document *doc, int64_t integer);
struct hm_value *hm_value_real(struct hm_document *doc, double real);
struct hm_value *hm_value_text(struct hm_document *doc, const char *bytes, size_t size);
bool hm_value_append(struct hm_document *doc, struct hm_value *list, struct hm_value *item);

/* What a dict has under a name (the last, if several); NULL: nothing, or no dict. A key that is an integer has the name of
 * its digits. The others answer a default where the kind is another. */
const struct hm_value *hm_value_get(const struct hm_value *dict, const char *key);
int64_t hm_value_get_integer(const struct hm_value *dict, const char *key, int64_t otherwise);
const char *hm_value_get_text(const struct hm_value *dict, const char *key, const char *otherwise);
/* The name of the i-th key of a dict: digits of an integer are written into buffer. "" if it is neither. */
const char *hm_value_key(const struct hm_value *dict, size_t i, char buffer[32]);

/* A pickle of protocol 0 to 5 that holds plain data only. No code runs: an opcode that would call or look up anything is an
 * error that names the opcode and its byte. Memory is bounded by a small multiple of `size`. NULL on failure. */
const struct hm_value *hm_pickle_read(struct hm_document *doc, const char *bytes, size_t size, const char *path,
                                      struct hm_error *err);
/* A JSON text. NULL on failure. */
const struct hm_value *hm_json_read(struct hm_document *doc, const char *bytes, size_t size, const char *path,
                                    struct hm_error *err);

#endif
