/* json_file.h - a JSON file as jansson's tree. */
#ifndef HM_BASE_JSON_FILE_H
#define HM_BASE_JSON_FILE_H

#include "base.h"

#include <jansson.h>

/* Loads a file, also gzipped, or standard input ("-"), of at most HM_JSON_LARGEST bytes unpacked; a larger one would not fit in memory
 * as a tree. `give` ends the error: what to give instead. NULL on failure. */
enum { HM_JSON_LARGEST = 1 << 28 };
json_t *hm_json_load(const char *path, const char *give, struct hm_error *err);

#endif
