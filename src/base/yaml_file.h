/* yaml_file.h - a YAML file as libyaml's document, and looking things up in it. */
#ifndef HM_BASE_YAML_FILE_H
#define HM_BASE_YAML_FILE_H

#include "base.h"

#include <yaml.h>

/* The text of a file of at most a megabyte and 32 levels. NULL on failure. Free with hm_free. */
char *hm_yaml_read(const char *path, size_t *size, struct hm_error *err);
/* Loads the first document of such a file. 0, or -1 with a message. */
int hm_yaml_load(yaml_document_t *document, const char *path, struct hm_error *err);
/* The value of a key in a mapping; NULL if absent. */
yaml_node_t *hm_yaml_get(yaml_document_t *document, yaml_node_t *mapping, const char *key);
/* A scalar's text; NULL for anything else. */
const char *hm_yaml_text(const yaml_node_t *node);

#endif
