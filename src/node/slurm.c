/* slurm.c - drains and resumes through scontrol, as LBNL NHC does: only what bears our own prefix is ever resumed, and a
 * reason that another wrote is never written over. */
#include "node/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
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

/* The words of State=, "+" between them (Slurm 22.05 to 25.05, slurm.h's node_states and node_state flags). An unknown word is not guessed at. */
enum { W_IN = 1, W_WORK = 2, W_OUT = 4, W_DOWN = 8, W_MOVING = 16 };
static const struct {
    const char *word;
    int means;
} words[] = {{"IDLE", W_IN},
             {"ALLOCATED", W_IN | W_WORK},
             {"ALLOC", W_IN | W_WORK},
             {"MIXED", W_IN | W_WORK},
             {"MIX", W_IN | W_WORK},
             {"COMPLETING", W_WORK | W_MOVING},
             {"COMP", W_WORK | W_MOVING},
             {"DRAIN", W_OUT},
             {"DRAINED", W_OUT},
             {"DRAINING", W_OUT | W_WORK},
             {"FAIL", W_OUT},
             {"FAILING", W_OUT | W_WORK},
             {"MAINT", W_OUT},
             {"MAINTENANCE", W_OUT},
             {"DOWN", W_DOWN},
             {"ERROR", W_DOWN},
             {"NOT_RESPONDING", W_DOWN},
             {"INVALID_REG", W_DOWN},
             {"REBOOT", W_MOVING},
             {"REBOOT_ISSUED", W_MOVING},
             {"REBOOT_REQUESTED", W_MOVING},
             {"POWERING_DOWN", W_MOVING},
             {"POWERING_UP", W_MOVING},
             {"POWERED_DOWN", W_MOVING},
             {"POWER_DOWN", W_MOVING},
             {"POWER_UP", W_MOVING},
             {"BLOCKED", W_MOVING},
             {"UPDATE", W_MOVING},
             {"UNKNOWN", W_MOVING},
             {"FUTURE", W_MOVING},
             {"RESERVED", W_IN},
             {"RESV", W_IN},
             {"PLANNED", W_IN},
             {"CLOUD", 0},
             {"DYNAMIC_NORM", 0},
             {"DYNAMIC_FUTURE", 0},
             {"PERFCTRS", 0},
             {"PARALLEL", 0}};

/* What a state's words mean together; -1 if one of them is not known. "IDLE*": it does not answer. */
static int meaning(char *state) {
    int all = 0;
    for (char *word; (word = strsep(&state, "+")) != NULL;) {
        size_t n = strcspn(word, "*~#!%$@^-"), k = 0;
        const char *marks = word + n;
        if (n == 0) return -1;
        while (k < sizeof words / sizeof *words &&
               !(strlen(words[k].word) == n && strncmp(words[k].word, word, n) == 0))
            k++;
        if (k == sizeof words / sizeof *words) return -1;
        all |= words[k].means;
        if (strpbrk(marks, "~#!%$@^")) all |= W_MOVING; /* power saving, boot */
    }
    return all;
}

/* One line of `scontrol -o show node`: the node's name, what its state means, whose reason keeps it out. */
struct line {
    char name[256], state[200], reason[400];
    int means;
};

static bool read_line(const char *text, struct line *line) {
    char state[200], work[64];
    if (strncmp(text, "NodeName=", 9) != 0) return false;
    snprintf(line->name, sizeof line->name, "%.*s", (int)strcspn(text + 9, " \n"), text + 9);
    field(text, " State=", state, sizeof state);
    state[strcspn(state, " ")] = 0;
    snprintf(line->state, sizeof line->state, "%s", state);
    line->means = *state ? meaning(state) : -1;
    field(text, " CPUAlloc=", work, sizeof work);
    if (line->means >= 0 && strtol(work, NULL, 10) > 0) line->means |= W_WORK;
    field(text, " Reason=", line->reason, sizeof line->reason);
    char *stamp = strstr(line->reason, " ["); /* " [root@2026-01-01T00:00:00]" ends the reason */
    for (char *next; stamp && (next = strstr(stamp + 1, " [")) != NULL;) stamp = next;
    if (stamp) *stamp = 0;
    return line->means >= 0;
}

static enum hm_pool pool_of(const struct line *line) {
    bool ours = strncmp(line->reason, HM_REASON_PREFIX, strlen(HM_REASON_PREFIX)) == 0;
    bool out = line->means & W_OUT, down = line->means & W_DOWN;
    if (line->means & W_MOVING) return line->means & W_WORK ? HM_POOL_BUSY : HM_POOL_MOVING;
    if (!out && !down) return HM_POOL_IN;
    if (line->means & W_WORK) return HM_POOL_BUSY;
    if (ours) return HM_POOL_EMPTY;
    return out || *line->reason ? HM_POOL_FOREIGN : HM_POOL_DOWN;
}

static int ask(const char *node, enum hm_pool *pool, char *reason, size_t size, struct hm_error *err) {
    const char *const argv[] = {"scontrol", "-o", "show", "node", node, NULL};
    struct hm_str out = {0};
    struct line line;
    int status = hm_command(argv, TIMEOUT_S, &out, NULL, err);
    if (status == 0 && (!read_line(out.text, &line) || strcmp(line.name, node) != 0))
        status = hm_fail(err, HM_ERR_IO,
                         "scontrol show node %s: its answer is not understood: '%.*s'; the node is left where it is",
                         node, (int)(strcspn(out.text, "\n") < 80 ? strcspn(out.text, "\n") : 80), out.text);
    hm_str_free(&out);
    if (status != 0) return -1;
    *pool = pool_of(&line);
    snprintf(reason, size, "%s", *line.reason && *pool != HM_POOL_MOVING ? line.reason : line.state);
    return 0;
}

static int list_out(void (*node)(void *context, const char *name), void *context, struct hm_error *err) {
    static const char *const argv[] = {"scontrol", "-a", "-o", "show", "node", NULL};
    struct hm_str out = {0};
    struct line line;
    int status = hm_command(argv, TIMEOUT_S, &out, NULL, err);
    for (char *at = status == 0 ? out.text : NULL, *next; at && *at; at = next) {
        next = strchr(at, '\n');
        if (next) *next++ = 0;
        if (read_line(at, &line) && pool_of(&line) != HM_POOL_IN) node(context, line.name);
        if (!next) break;
    }
    hm_str_free(&out);
    return status;
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

const struct hm_scheduler hm_slurm = {"slurm", ask, drain, resume, list_out};
