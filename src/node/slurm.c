/* slurm.c - drains and resumes through scontrol, as LBNL NHC does: only what bears our own prefix is ever resumed, and a
 * reason that another wrote is never written over. */
#include "node/scheduler.h"

#include <stdio.h>
#include <string.h>

static const double TIMEOUT_S = 60;

/* "Key=" in the one-line form of scontrol show node: its value to the next " Key=" (values may hold blanks). */
static void field(const char *text, const char *key, char *value, size_t size) {
    const char *at = strstr(text, key);
    *value = 0;
    if (!at) return;
    at += strlen(key);
    size_t n = strcspn(at, "\n");
    snprintf(value, size, "%.*s", (int)n, at);
}

static int ask(const char *node, enum hm_pool *pool, char *reason, size_t size, struct hm_error *err) {
    const char *const argv[] = {"scontrol", "-o", "show", "node", node, NULL};
    struct hm_str out = {0};
    char state[128];
    if (hm_command(argv, TIMEOUT_S, &out, NULL, err) != 0) {
        hm_str_free(&out);
        return -1;
    }
    field(out.text, " State=", state, sizeof state);
    state[strcspn(state, " ")] = 0;
    field(out.text, " Reason=", reason, size);
    char *stamp = strstr(reason, " ["); /* " [root@2026-01-01T00:00:00]" ends the reason */
    for (char *next; stamp && (next = strstr(stamp + 1, " [")) != NULL;) stamp = next;
    if (stamp) *stamp = 0;
    hm_str_free(&out);
    bool draining = strstr(state, "DRAIN") || strstr(state, "FAIL") || strstr(state, "MAINT");
    if (!draining && !strstr(state, "DOWN"))
        *pool = HM_POOL_IN;
    else if (strncmp(reason, HM_REASON_PREFIX, strlen(HM_REASON_PREFIX)) != 0)
        *pool = draining || *reason ? HM_POOL_FOREIGN : HM_POOL_IN;
    else
        *pool = strstr(state, "ALLOC") || strstr(state, "MIX") || strstr(state, "COMP") ? HM_POOL_BUSY : HM_POOL_EMPTY;
    return 0;
}

static int update(const char *node, const char *state, const char *reason, struct hm_error *err) {
    char name[300], to[64], because[512];
    snprintf(name, sizeof name, "NodeName=%s", node);
    snprintf(to, sizeof to, "State=%s", state);
    snprintf(because, sizeof because, "Reason=%s%s", HM_REASON_PREFIX, reason ? reason : "");
    const char *const argv[] = {"scontrol", "update", name, to, reason ? because : NULL, NULL};
    struct hm_str out = {0};
    int status = hm_command(argv, TIMEOUT_S, &out, NULL, err);
    hm_str_free(&out);
    return status;
}

static int drain(const char *node, const char *why, bool taint, struct hm_error *err) {
    (void)taint;
    return update(node, "DRAIN", why, err);
}

static int resume(const char *node, bool taint, struct hm_error *err) {
    (void)taint;
    return update(node, "RESUME", NULL, err);
}

const struct hm_scheduler hm_slurm = {"slurm", ask, drain, resume};
