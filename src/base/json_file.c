/* json_file.c - loads a JSON file. */
#include "json_file.h"

#include <string.h>

json_t *hm_json_load(const char *path, const char *give, struct hm_error *err) {
    size_t size = 0;
    char *text = hm_in_text(path, HM_JSON_LARGEST, &size, err);
    if (!text) return NULL;
    if (strcmp(path, "-") == 0) path = "standard input";
    json_error_t why;
    json_t *root = size ? json_loadb(text, size, 0, &why) : NULL;
    if (size == 0)
        hm_fail(err, HM_ERR_INPUT, "%s: is empty; %s", path, give);
    else if (!root && json_error_code(&why) == json_error_out_of_memory)
        hm_fail_memory(err);
    else if (!root)
        hm_fail(err, HM_ERR_INPUT, "%s: line %d: not JSON (%s); %s", path, why.line, why.text, give);
    hm_free(text);
    return root;
}
