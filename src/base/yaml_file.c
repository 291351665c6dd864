/* yaml_file.c - small helpers over libyaml's document interface: load a bounded file, look up a key. */
#include "yaml_file.h"

#include <string.h>

enum { SIZE_LIMIT = 1 << 20, DEEPEST = 32 };

/* libyaml goes through all simple keys that are still possible for each token, so that 100 kB of '[' take it minutes, and its
 * document functions call themselves for each level. Hence a first look by events, which stops at the first level that is too deep. */
static int check_depth(const char *text, size_t size, const char *path, struct hm_error *err) {
    yaml_parser_t parser;
    int status = 0, depth = 0;
    bool more = true;
    if (!yaml_parser_initialize(&parser)) return hm_fail_memory(err);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    while (more && status == 0) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) break; /* whoever parses it for good says why */
        more = event.type != YAML_STREAM_END_EVENT;
        if (event.type == YAML_MAPPING_START_EVENT || event.type == YAML_SEQUENCE_START_EVENT) depth++;
        if (event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT) depth--;
        if (depth > DEEPEST)
            status = hm_fail(err, HM_ERR_INPUT, "%s: line %zu: more than %d levels deep; give a YAML file of ours",
                             path, event.start_mark.line + 1, DEEPEST);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

char *hm_yaml_read(const char *path, size_t *size, struct hm_error *err) {
    char *text = hm_in_text(path, SIZE_LIMIT, size, err);
    if (text && check_depth(text, *size, path, err) == 0) return text;
    hm_free(text);
    return NULL;
}

int hm_yaml_load(yaml_document_t *document, const char *path, struct hm_error *err) {
    yaml_parser_t parser;
    size_t size;
    int status = 0;
    char *text = hm_yaml_read(path, &size, err);
    if (!text) return -1;
    if (!yaml_parser_initialize(&parser)) {
        hm_free(text);
        return hm_fail_memory(err);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if (!yaml_parser_load(&parser, document)) {
        status = hm_fail(err, HM_ERR_INPUT, "%s: line %zu: %s; correct the YAML", path, parser.problem_mark.line + 1,
                         parser.problem ? parser.problem : "not YAML");
    } else if (!yaml_document_get_root_node(document)) {
        yaml_document_delete(document);
        status = hm_fail(err, HM_ERR_INPUT, "%s: is empty; give a YAML document", path);
    }
    yaml_parser_delete(&parser);
    hm_free(text);
    return status;
}

const char *hm_yaml_text(const yaml_node_t *node) {
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

yaml_node_t *hm_yaml_get(yaml_document_t *document, yaml_node_t *mapping, const char *key) {
    if (!mapping || mapping->type != YAML_MAPPING_NODE) return NULL;
    for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < mapping->data.mapping.pairs.top; p++) {
        const char *name = hm_yaml_text(yaml_document_get_node(document, p->key));
        if (name && strcmp(name, key) == 0) return yaml_document_get_node(document, p->value);
    }
    return NULL;
}
