/* yaml_file.c - small helpers over libyaml's document interface: load a bounded file, look up a key. */
#include "yaml_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SIZE_LIMIT = 1 << 20 };

int hm_yaml_load(yaml_document_t *document, const char *path, struct hm_error *err) {
    yaml_parser_t parser;
    struct stat st;
    int status = 0;
    FILE *f = fopen(path, "r");
    if (!f) return hm_fail(err, HM_ERR_IO, "%s: %s; name a YAML file", path, strerror(errno));
    if (fstat(fileno(f), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > SIZE_LIMIT) {
        fclose(f);
        return hm_fail(err, HM_ERR_INPUT, "%s: is not a regular file below 1 MB; give a YAML file", path);
    }
    if (!yaml_parser_initialize(&parser)) {
        fclose(f);
        return hm_fail_memory(err);
    }
    yaml_parser_set_input_file(&parser, f);
    if (!yaml_parser_load(&parser, document)) {
        status = hm_fail(err, HM_ERR_INPUT, "%s: line %zu: %s; correct the YAML", path, parser.problem_mark.line + 1,
                         parser.problem ? parser.problem : "not YAML");
    } else if (!yaml_document_get_root_node(document)) {
        yaml_document_delete(document);
        status = hm_fail(err, HM_ERR_INPUT, "%s: is empty; give a YAML document", path);
    }
    yaml_parser_delete(&parser);
    fclose(f);
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
