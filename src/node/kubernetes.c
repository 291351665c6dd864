/* kubernetes.c - cordons through kubectl: who and why stand in annotations, a condition tells the reason, a taint only
 * where asked for. A node with the label hindmost/exclude, or cordoned by another, is left alone. */
#include "node/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double TIMEOUT_S = 60;
static const char OWNER[] = "hindmost/cordon-by";

static int call(const char *const argv[], struct hm_error *err) {
    struct hm_str out = {0};
    int status = hm_command(argv, TIMEOUT_S, &out, NULL, err);
    hm_str_free(&out);
    return status;
}

static int ask(const char *node, enum hm_pool *pool, char *reason, size_t size, struct hm_error *err) {
    const char *const argv[] = {"kubectl", "get", "node", node, "-o", "json", NULL};
    struct hm_str out = {0};
    int status = hm_command(argv, TIMEOUT_S, &out, NULL, err);
    json_t *root = status == 0 ? json_loads(out.text, 0, NULL) : NULL;
    hm_str_free(&out);
    if (status != 0) return -1;
    if (!root) return hm_fail(err, HM_ERR_IO, "kubectl get node %s: its answer is no JSON; check its version", node);
    const json_t *meta = json_object_get(root, "metadata");
    const json_t *notes = json_object_get(meta, "annotations");
    bool cordoned = json_is_true(json_object_get(json_object_get(root, "spec"), "unschedulable"));
    const char *why = json_string_value(json_object_get(notes, "hindmost/cordon-reason"));
    if (json_object_get(json_object_get(meta, "labels"), "hindmost/exclude")) {
        *pool = HM_POOL_FOREIGN;
        why = "label hindmost/exclude";
    } else if (!cordoned) {
        *pool = HM_POOL_IN;
    } else {
        *pool = json_object_get(notes, OWNER) ? HM_POOL_EMPTY : HM_POOL_FOREIGN;
    }
    snprintf(reason, size, "%s", why ? why : "");
    json_decref(root);
    return 0;
}

static int condition(const char *node, bool fault, const char *why, struct hm_error *err) {
    json_t *o =
        json_pack("{s:{s:[{s:s, s:s, s:s, s:s}]}}", "status", "conditions", "type", "HindmostNodeUnfit", "status",
                  fault ? "True" : "False", "reason", fault ? "NodeUnfit" : "NodeQualified", "message", why);
    char *patch = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!patch) return hm_fail_memory(err);
    const char *const argv[] = {"kubectl",          "patch", "node", node, "--subresource=status",
                                "--type=strategic", "-p",    patch,  NULL};
    int status = call(argv, err);
    free(patch);
    return status;
}

static int drain(const char *node, const char *why, bool taint, struct hm_error *err) {
    char reason[512];
    snprintf(reason, sizeof reason, "hindmost/cordon-reason=%s", why);
    const char *const annotate[] = {"kubectl", "annotate", "node", node, "--overwrite", "hindmost/cordon-by=hindmost",
                                    reason,    NULL};
    const char *const cordon[] = {"kubectl", "cordon", node, NULL};
    const char *const tainted[] = {"kubectl", "taint", "node", node, "--overwrite", "hindmost/unfit=true:NoSchedule",
                                   NULL};
    /* The owner first: a cordon without one would count as another's for ever, if we ended between the two. */
    if (call(annotate, err) != 0 || call(cordon, err) != 0 || condition(node, true, why, err) != 0) return -1;
    return taint ? call(tainted, err) : 0;
}

static int resume(const char *node, bool taint, struct hm_error *err) {
    const char *const untaint[] = {"kubectl", "taint", "node", node, "hindmost/unfit:NoSchedule-", NULL};
    const char *const uncordon[] = {"kubectl", "uncordon", node, NULL};
    const char *const forget[] = {"kubectl", "annotate", "node", node, "hindmost/cordon-by-", "hindmost/cordon-reason-",
                                  NULL};
    if (condition(node, false, "a sweep has passed", err) != 0 || (taint && call(untaint, err) != 0) ||
        call(uncordon, err) != 0)
        return -1;
    return call(forget, err);
}

const struct hm_scheduler hm_kubernetes = {"kubernetes", ask, drain, resume};
