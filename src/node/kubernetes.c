/* kubernetes.c - cordons through kubectl: who and why stand in annotations, a condition tells the reason, a taint only
 * where asked for. A node with the label hindmost/exclude, or cordoned by another, is left alone. */
#include "node/scheduler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double TIMEOUT_S = 60;
static const char OWNER[] = "hindmost/cordon-by", CONDITION[] = "HindmostNodeUnfit";
enum { TRIES = 5 };

static int call(const char *const argv[], struct hm_error *err) {
    struct hm_str out = {0};
    int status = hm_command(argv, TIMEOUT_S, &out, NULL, err);
    hm_str_free(&out);
    return status;
}

static json_t *get(const char *node, struct hm_error *err) {
    const char *const argv[] = {"kubectl", "get", "node", node, "-o", "json", NULL};
    struct hm_str out = {0};
    int status = hm_command(argv, TIMEOUT_S, &out, NULL, err);
    json_t *root = status == 0 ? json_loads(out.text, 0, NULL) : NULL;
    hm_str_free(&out);
    const char *name = json_string_value(json_object_get(json_object_get(root, "metadata"), "name"));
    if (status != 0) return NULL;
    if (name && strcmp(name, node) == 0 && json_is_object(json_object_get(root, "spec"))) return root;
    json_decref(root);
    hm_fail(err, HM_ERR_IO, "kubectl get node %s: its answer is not understood; the node is left where it is", node);
    return NULL;
}

/* A list of kubectl's; NULL with an error. */
static json_t *get_list(const char *const argv[], struct hm_error *err) {
    struct hm_str out = {0};
    int status = hm_command(argv, TIMEOUT_S, &out, NULL, err);
    json_t *root = status == 0 ? json_loads(out.text, 0, NULL) : NULL;
    hm_str_free(&out);
    if (status != 0 || json_is_array(json_object_get(root, "items"))) return root;
    json_decref(root);
    hm_fail(err, HM_ERR_IO, "kubectl get %s: its answer is no list; the node is left where it is", argv[2]);
    return NULL;
}

/* A pod that a test of the node would disturb, or be disturbed by: not one of a DaemonSet or the kubelet's own, not the cluster's, not ended. */
static bool is_work(const json_t *pod) {
    const json_t *meta = json_object_get(pod, "metadata"), *owner;
    const char *space = json_string_value(json_object_get(meta, "namespace"));
    const char *phase = json_string_value(json_object_get(json_object_get(pod, "status"), "phase"));
    size_t i;
    if (space && strcmp(space, "kube-system") == 0) return false;
    if (phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)) return false;
    json_array_foreach(json_object_get(meta, "ownerReferences"), i, owner) {
        const char *kind = json_string_value(json_object_get(owner, "kind"));
        if (kind && (strcmp(kind, "DaemonSet") == 0 || strcmp(kind, "Node") == 0)) return false;
    }
    return true;
}

/* Cordoning evicts nobody: whether pods still run there. 1, 0, or -1. */
static int has_work(const char *node, char *reason, size_t size, struct hm_error *err) {
    char selector[300];
    snprintf(selector, sizeof selector, "spec.nodeName=%s", node);
    const char *const argv[] = {"kubectl", "get",  "pods", "--all-namespaces", "--field-selector", selector,
                                "-o",      "json", NULL};
    json_t *root = get_list(argv, err), *pod;
    int work = root ? 0 : -1;
    size_t i;
    json_array_foreach(json_object_get(root, "items"), i, pod) if (!work && is_work(pod)) {
        const char *name = json_string_value(json_object_get(json_object_get(pod, "metadata"), "name"));
        snprintf(reason, size, "pod %.200s", name ? name : "without a name");
        work = 1;
    }
    json_decref(root);
    return work;
}

static int ask(const char *node, enum hm_pool *pool, char *reason, size_t size, struct hm_error *err) {
    json_t *root = get(node, err);
    if (!root) return -1;
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
    int work = *pool == HM_POOL_IN ? 0 : has_work(node, reason, size, err);
    if (work > 0) *pool = HM_POOL_BUSY;
    return work < 0 ? -1 : 0;
}

static int list_out(void (*node)(void *context, const char *name), void *context, struct hm_error *err) {
    static const char *const argv[] = {"kubectl", "get", "nodes", "-o", "json", NULL};
    json_t *root = get_list(argv, err), *one;
    size_t i;
    if (!root) return -1;
    json_array_foreach(json_object_get(root, "items"), i, one) {
        const char *name = json_string_value(json_object_get(json_object_get(one, "metadata"), "name"));
        if (name && json_is_true(json_object_get(json_object_get(one, "spec"), "unschedulable"))) node(context, name);
    }
    json_decref(root);
    return 0;
}

/* The node with our condition set anew; what stands there of others stays. */
static int set_condition(json_t *node, bool fault, const char *why) {
    json_t *conditions = json_object_get(json_object_get(node, "status"), "conditions");
    char now[32];
    time_t t = time(NULL);
    struct tm tm;
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    json_t *ours = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "type", CONDITION, "status", fault ? "True" : "False",
                             "reason", fault ? "NodeUnfit" : "NodeQualified", "message", why, "lastHeartbeatTime", now,
                             "lastTransitionTime", now);
    if (!conditions) { /* a node that never reported */
        json_t *status = json_object_get(node, "status");
        if (!status && json_object_set_new(node, "status", status = json_object()) != 0) status = NULL;
        conditions = json_array();
        if (json_object_set_new(status, "conditions", conditions) != 0) conditions = NULL;
    }
    for (size_t i = json_array_size(conditions); i-- > 0;) {
        const char *type = json_string_value(json_object_get(json_array_get(conditions, i), "type"));
        if (type && strcmp(type, CONDITION) == 0) json_array_remove(conditions, i);
    }
    return json_array_append_new(conditions, ours);
}

/* PUTs the status of one reading. Conflict: somebody, the kubelet as a rule, wrote since. */
static int put_status(const char *node, json_t *root, struct hm_error *err) {
    char path[] = "/tmp/hindmost-status-XXXXXX", url[320];
    snprintf(url, sizeof url, "/api/v1/nodes/%s/status", node);
    int fd = mkstemp(path);
    if (fd < 0) return hm_fail(err, HM_ERR_IO, "%s: %s; it is needed for kubectl", path, strerror(errno));
    const char *const argv[] = {"kubectl", "replace", "--validate=false", "--raw", url, "-f", path, NULL};
    int status = json_dumpfd(root, fd, JSON_COMPACT) == 0
                     ? call(argv, err)
                     : hm_fail(err, HM_ERR_IO, "%s: cannot be written; is the disk full?", path);
    close(fd);
    unlink(path);
    return status;
}

/* A condition lives in the node's status. kubectl patch reaches it from 1.24 on only (--subresource), a raw PUT always. */
static int condition(const char *node, bool fault, const char *why, struct hm_error *err) {
    struct hm_error failure = {0};
    if (strlen(node) > 253 || node[strspn(node, "abcdefghijklmnopqrstuvwxyz0123456789.-")])
        return hm_fail(err, HM_ERR_ARGUMENT, "%s: is no Kubernetes node name", node);
    for (int i = 0; i < TRIES; i++) {
        json_t *root = get(node, err);
        if (!root) return -1;
        int status = set_condition(root, fault, why) == 0 ? put_status(node, root, &failure) : hm_fail_memory(&failure);
        json_decref(root);
        if (status == 0) return 0;
        if (!strstr(failure.message, "onflict")) break;
    }
    return hm_fail(err, failure.code, "%s", failure.message);
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

const struct hm_scheduler hm_kubernetes = {"kubernetes", ask, drain, resume, list_out};
