/* op_types.c - the table of op types. */
#include "op_types.h"

#include <ctype.h>
#include <string.h>

const struct hm_op_type_info hm_op_types[HM_OP_TYPES] = {
    [HM_FORWARD_COMPUTE] = {"forward-compute", "forward-compute", HM_ALONE, false},
    [HM_BACKWARD_COMPUTE] = {"backward-compute", "backward-compute", HM_ALONE, false},
    [HM_FORWARD_SEND] = {"forward-send", "forward-pp-comm", HM_PAIR, true},
    [HM_FORWARD_RECV] = {"forward-recv", "forward-pp-comm", HM_PAIR, true},
    [HM_BACKWARD_SEND] = {"backward-send", "backward-pp-comm", HM_PAIR, true},
    [HM_BACKWARD_RECV] = {"backward-recv", "backward-pp-comm", HM_PAIR, true},
    [HM_PARAMS_ALL_GATHER] = {"params-all-gather", "params-all-gather", HM_DP_GROUP, true},
    [HM_GRADS_REDUCE_SCATTER] = {"grads-reduce-scatter", "grads-reduce-scatter", HM_DP_GROUP, true},
    /* takes the median like a communication, but the artefact gives it no group: the replay runs it as compute */
    [HM_LAYERNORM_ALL_REDUCE] = {"layernorm-grads-all-reduce", "layernorm-grads-all-reduce", HM_ALONE, true},
    [HM_EMBEDDING_ALL_REDUCE] = {"embedding-grads-all-reduce", "embedding-grads-all-reduce", HM_EMBEDDING, true},
    [HM_SEPARATE_ALL_REDUCE] = {"separate-grads-all-reduce", "separate-grads-all-reduce", HM_DP_GROUP, true},
    [HM_CLIP_MAIN_GRAD] = {"optimizer-clip-main-grad", "optimizer-clip-main-grad", HM_EVERYBODY, true},
    [HM_OPTIMIZER] = {"optimizer", "optimizer", HM_ALONE, false},
    [HM_GC] = {"gc", "gc", HM_ALONE, false},
};

/* As people spell them: capitals, underscores or blanks for hyphens, blanks around. */
static int find_spelled_otherwise(const char *name, size_t length) {
    char text[40];
    while (length && name[0] == ' ') name++, length--;
    while (length && name[length - 1] == ' ') length--;
    if (length == 0 || length >= sizeof text) return -1;
    for (size_t i = 0; i < length; i++)
        text[i] = name[i] == '_' || name[i] == ' ' ? '-' : (char)tolower((unsigned char)name[i]);
    text[length] = 0;
    for (int t = 0; t < HM_OP_TYPES; t++)
        if (strcmp(hm_op_types[t].name, text) == 0) return t;
    return -1;
}

int hm_op_type_find(const char *name, size_t length) {
    for (int t = 0; t < HM_OP_TYPES; t++) {
        const char *n = hm_op_types[t].name;
        if (length && n[0] == name[0] && strlen(n) == length && memcmp(n, name, length) == 0) return t;
    }
    return find_spelled_otherwise(name, length);
}

/* forward-send and -recv share family 2, backward-send and -recv family 3; everything else keeps its order. */
int hm_family_of(int type) {
    if (type < HM_FORWARD_SEND) return type;
    if (type <= HM_FORWARD_RECV) return 2;
    if (type <= HM_BACKWARD_RECV) return 3;
    return type - 2;
}

const char *hm_family_name(int family) {
    for (int t = 0; t < HM_OP_TYPES; t++)
        if (hm_family_of(t) == family) return hm_op_types[t].family;
    return NULL;
}
