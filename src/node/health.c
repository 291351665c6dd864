/* health.c - the quick look that a scheduler makes every few minutes: no scheduler command, no long test, no GPU touched. */
#include "node/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { READ_ALL = 3, LOG_LIMIT = 4 << 20 };

static void state_of(void *context, const struct hm_node_row *r) {
    char *text = context;
    if (r->state >= HM_NODE_DRAINING && r->state != HM_NODE_QUALIFIED)
        snprintf(text, 400, "the ledger says %s: %.300s", hm_node_state_name(r->state), r->why);
}

/* A node that the ledger does not know is nobody's concern; a ledger that is not there neither. */
static void check_ledger(const char *path, const char *node, char why[400]) {
    if (!path || access(path, R_OK) != 0) return;
    struct hm_error err = {0};
    struct hm_ledger *l = hm_ledger_open(path, NULL, &err);
    if (!l)
        snprintf(why, 400, "%.390s", err.message);
    else
        hm_ledger_list(l, node, state_of, why, NULL);
    hm_ledger_close(l);
}

static void check_folder(const char *folder, char why[400]) {
    char path[512];
    struct statvfs fs;
    snprintf(path, sizeof path, "%s/hindmost-health-XXXXXX", folder);
    int fd = mkstemp(path);
    if (fd < 0) {
        snprintf(why, 400, "%.200s cannot be written: %s", folder, strerror(errno));
        return;
    }
    unlink(path);
    close(fd);
    if (statvfs(folder, &fs) == 0 && fs.f_bavail * fs.f_frsize < (unsigned long)64 << 20)
        snprintf(why, 400, "%.200s has less than 64 MB left", folder);
}

/* Xid codes for which the policy drains at once, in the kernel's log since boot. */
static void check_log(const struct hm_policy *policy, const char *log, char why[400]) {
    for (const char *at = log; (at = strstr(at, "NVRM: Xid (")); at++) {
        char gpu[64], kind[32];
        long code;
        if (sscanf(at, "NVRM: Xid (%63[^)]): %ld", gpu, &code) != 2) continue;
        snprintf(kind, sizeof kind, "xid-%ld", code);
        const struct hm_policy_rule *rule = hm_policy_rule(policy, kind);
        if (rule && rule->action == HM_ACT_DRAIN && rule->count == 1) {
            snprintf(why, 400, "GPU %s: Xid %ld in the kernel's log", gpu, code);
            return;
        }
    }
}

int hm_node_health(const char *ledger, const char *policy_path, const char *node, const char *folder, char why[400],
                   struct hm_error *err) {
    struct hm_policy policy;
    char name[256] = "";
    *why = 0;
    if (hm_policy_read(&policy, policy_path, err) != 0) return -1;
    if (!node) {
        gethostname(name, sizeof name - 1);
        node = name;
    }
    check_ledger(ledger, node, why);
    if (!*why) check_folder(folder ? folder : "/tmp", why);
    char *log = *why ? NULL : hm_alloc(LOG_LIMIT + 1, 1);
    if (log && klogctl(READ_ALL, log, LOG_LIMIT) > 0) check_log(&policy, log, why);
    hm_free(log);
    hm_policy_free(&policy);
    return *why != 0;
}
