/* value.c - a document of plain values, and how one is made of a JSON text. */
#include "value.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 16 };

struct hm_block {
    struct hm_block *next;
    size_t used, size;
    _Alignas(8) char bytes[];
};

static void *take(struct hm_document *doc, size_t size) {
    size = (size + 7) / 8 * 8;
    struct hm_block *block = doc->block;
    if (!block || block->size - block->used < size) {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = hm_alloc(1, sizeof *block + room);
        if (!block) return NULL;
        *block = (struct hm_block){doc->block, 0, room};
        doc->block = block;
    }
    void *at = block->bytes + block->used;
    block->used += size;
    return at;
}

void hm_document_free(struct hm_document *doc) {
    for (size_t i = 0; i < doc->n_containers; i++) hm_free(doc->container[i]->item);
    hm_free(doc->container);
    while (doc->block) {
        struct hm_block *next = doc->block->next;
        hm_free(doc->block);
        doc->block = next;
    }
    *doc = (struct hm_document){0};
}

struct hm_value *hm_value_new(struct hm_document *doc, enum hm_value_kind kind) {
    struct hm_value *v = take(doc, sizeof *v);
    if (v) *v = (struct hm_value){.kind = kind};
    return v;
}

struct hm_value *hm_value_integer(struct hm_document *doc, int64_t integer) {
    struct hm_value *v = hm_value_new(doc, HM_VALUE_INTEGER);
    if (v) v->integer = integer;
    return v;
}

struct hm_value *hm_value_real(struct hm_document *doc, double real) {
    struct hm_value *v = hm_value_new(doc, HM_VALUE_REAL);
    if (v) v->real = real;
    return v;
}

/* Length of the UTF-8 character at b, at most `left` bytes long; 0: it is none, or a control character. */
static size_t character(const unsigned char *b, size_t left) {
    if (b[0] < 0x20 || b[0] == 0x7f) return 0;
    if (b[0] < 0x80) return 1;
    size_t n = b[0] >= 0xf0 && b[0] < 0xf5 ? 4 : b[0] >= 0xe0 ? 3 : b[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || n > left || b[0] >= 0xf5) return 0;
    for (size_t i = 1; i < n; i++)
        if ((b[i] & 0xc0) != 0x80) return 0;
    bool overlong = (b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xf0 && b[1] < 0x90);
    bool outside = (b[0] == 0xed && b[1] >= 0xa0) || (b[0] == 0xf4 && b[1] >= 0x90); /* surrogates; beyond U+10FFFF */
    return overlong || outside ? 0 : n;
}

struct hm_value *hm_value_text(struct hm_document *doc, const char *bytes, size_t size) {
    struct hm_value *v = hm_value_new(doc, HM_VALUE_TEXT);
    char *copy = v ? take(doc, size + 1) : NULL;
    if (!copy) return NULL;
    for (size_t i = 0; i < size;) {
        size_t n = character((const unsigned char *)bytes + i, size - i);
        if (n == 0) {
            copy[i++] = '?';
            continue;
        }
        memcpy(copy + i, bytes + i, n);
        i += n;
    }
    copy[size] = 0;
    v->text = copy;
    return v;
}

bool hm_value_append(struct hm_document *doc, struct hm_value *list, struct hm_value *item) {
    if (list->n == list->capacity) {
        bool first = list->capacity == 0;
        if (first) {
            struct hm_value **known =
                hm_grow(doc->container, doc->n_containers, &doc->container_capacity, sizeof(struct hm_value *));
            if (!known) return false;
            doc->container = known;
        }
        if (list->capacity > UINT32_MAX / 2) return false;
        uint32_t wanted = first ? 4 : 2 * list->capacity;
        struct hm_value **grown = hm_realloc(list->item, wanted, sizeof(struct hm_value *));
        if (!grown) return false;
        list->item = grown;
        list->capacity = wanted;
        if (first) doc->container[doc->n_containers++] = list;
    }
    list->item[list->n++] = item;
    return true;
}

const char *hm_value_key(const struct hm_value *dict, size_t i, char buffer[32]) {
    const struct hm_value *key = dict->item[2 * i];
    if (key->kind == HM_VALUE_TEXT) return key->text;
    if (key->kind != HM_VALUE_INTEGER) return "";
    (void)snprintf(buffer, 32, "%" PRId64, key->integer);
    return buffer;
}

const struct hm_value *hm_value_get(const struct hm_value *dict, const char *key) {
    if (!dict || dict->kind != HM_VALUE_DICT) return NULL;
    char buffer[32];
    for (size_t i = dict->n / 2; i-- > 0;)
        if (strcmp(hm_value_key(dict, i, buffer), key) == 0) return dict->item[2 * i + 1];
    return NULL;
}

int64_t hm_value_get_integer(const struct hm_value *dict, const char *key, int64_t otherwise) {
    const struct hm_value *v = hm_value_get(dict, key);
    if (!v) return otherwise;
    if (v->kind == HM_VALUE_INTEGER || v->kind == HM_VALUE_BOOL) return v->integer;
    if (v->kind == HM_VALUE_REAL && v->real > -9e18 && v->real < 9e18) return (int64_t)v->real;
    long long number;
    char rest;
    if (v->kind == HM_VALUE_TEXT && sscanf(v->text, "%lld%c", &number, &rest) == 1) return number;
    return otherwise;
}

const char *hm_value_get_text(const struct hm_value *dict, const char *key, const char *otherwise) {
    const struct hm_value *v = hm_value_get(dict, key);
    return v && v->kind == HM_VALUE_TEXT ? v->text : otherwise;
}

/* ---- JSON ---- */

static struct hm_value *from_json(struct hm_document *doc, const json_t *json);

static struct hm_value *from_array(struct hm_document *doc, const json_t *json) {
    struct hm_value *list = hm_value_new(doc, HM_VALUE_LIST);
    for (size_t i = 0; list && i < json_array_size(json); i++) {
        struct hm_value *item = from_json(doc, json_array_get(json, i));
        if (!item || !hm_value_append(doc, list, item)) return NULL;
    }
    return list;
}

static struct hm_value *from_object(struct hm_document *doc, const json_t *json) {
    struct hm_value *dict = hm_value_new(doc, HM_VALUE_DICT);
    const char *name;
    json_t *member;
    if (!dict) return NULL;
    json_object_foreach((json_t *)json, name, member) {
        struct hm_value *key = hm_value_text(doc, name, strlen(name)), *item = key ? from_json(doc, member) : NULL;
        if (!item || !hm_value_append(doc, dict, key) || !hm_value_append(doc, dict, item)) return NULL;
    }
    return dict;
}

static struct hm_value *from_json(struct hm_document *doc, const json_t *json) {
    struct hm_value *v;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return from_object(doc, json);
    case JSON_ARRAY:
        return from_array(doc, json);
    case JSON_STRING:
        return hm_value_text(doc, json_string_value(json), json_string_length(json));
    case JSON_INTEGER:
        return hm_value_integer(doc, json_integer_value(json));
    case JSON_REAL:
        return hm_value_real(doc, json_real_value(json));
    case JSON_TRUE:
    case JSON_FALSE:
        v = hm_value_integer(doc, json_is_true(json));
        if (v) v->kind = HM_VALUE_BOOL;
        return v;
    default:
        return hm_value_new(doc, HM_VALUE_NONE);
    }
}

const struct hm_value *hm_json_read(struct hm_document *doc, const char *bytes, size_t size, const char *path,
                                    struct hm_error *err) {
    json_error_t at;
    json_t *json = json_loadb(bytes, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &at);
    if (!json) {
        (void)hm_fail(err, HM_ERR_INPUT, "%s: line %d: broken JSON (%s); copy the file again", path, at.line, at.text);
        return NULL;
    }
    struct hm_value *v = from_json(doc, json);
    json_decref(json);
    if (!v) (void)hm_fail_memory(err);
    return v;
}
