/* health.c - the quick look that a scheduler makes every few minutes: no scheduler command, no long test, no GPU touched. */
#include "node/evidence.h"

#include <dirent.h>
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

/* A node that the ledger does not know is nobody's concern. A ledger that cannot be read is our own trouble, not the node's: a full disk or a
 * lock on the ledger's file system must not drain a cluster. */
static void check_ledger(const char *path, const char *node, char why[400], char trouble[400]) {
    enum { WAIT_S = 2 }; /* a prolog delays a job */
    struct hm_error err = {0};
    struct hm_ledger *l = hm_ledger_open_to_read(path, NULL, WAIT_S, &err);
    if (!l || (hm_ledger_list(l, node, state_of, why, &err) != 0 && err.code != HM_ERR_ARGUMENT))
        snprintf(trouble, 400, "%.390s", err.message);
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

/* Faults for which the policy drains at once, in the kernel's log since boot. */
static void check_log(const struct hm_policy *policy, char *log, char why[400]) {
    for (char *line = log, *next; line && *line; line = next) {
        char gpu[64], kind[32];
        bool broken;
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (!hm_kernel_fault(line, kind, gpu, &broken)) continue;
        const struct hm_policy_rule *rule = hm_policy_rule(policy, kind);
        if (!rule || rule->action != HM_ACT_DRAIN || rule->count != 1) continue;
        if (strncmp(kind, "xid-", 4) == 0)
            snprintf(why, 400, "GPU %s: Xid %s in the kernel's log", gpu, kind + 4);
        else
            snprintf(why, 400, "GPU %s: lost, says the kernel's log", *gpu ? gpu : "?");
        return;
    }
}

/* How many GPUs the driver has. */
static void count_gpus(long expected, char why[400]) {
    long found = 0;
    DIR *folder = opendir("/proc/driver/nvidia/gpus");
    for (const struct dirent *e; folder && (e = readdir(folder)) != NULL;) found += e->d_name[0] != '.';
    if (folder) closedir(folder);
    if (found < expected) snprintf(why, 400, "%ld of %ld GPUs are there", found, expected);
}

int hm_node_health(const struct hm_health_options *o, char why[400], char trouble[400], struct hm_error *err) {
    struct hm_policy policy;
    struct hm_error bad_policy = {0};
    char name[256] = "";
    const char *node = o->node;
    *why = *trouble = 0;
    if (hm_policy_read(&policy, o->policy, &bad_policy) != 0) { /* ours, too: the defaults then */
        if (bad_policy.code == HM_ERR_MEMORY || hm_policy_read(&policy, NULL, err) != 0) return hm_fail_memory(err);
        snprintf(trouble, 400, "%.390s", bad_policy.message);
    }
    if (!node) {
        gethostname(name, sizeof name - 1);
        node = name;
    }
    if (o->ledger) check_ledger(o->ledger, node, why, trouble);
    if (!*why) check_folder(o->folder ? o->folder : "/tmp", why);
    if (!*why && o->gpus > 0) count_gpus(o->gpus, why);
    char *log = *why ? NULL : hm_alloc(LOG_LIMIT + 1, 1);
    if (log && klogctl(READ_ALL, log, LOG_LIMIT) > 0) check_log(&policy, log, why);
    hm_free(log);
    hm_policy_free(&policy);
    return *why != 0;
}
