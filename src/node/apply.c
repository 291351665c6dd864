/* apply.c - carries out what the ledger has decided: drains, waits, sweeps, lets back. One call makes the steps that are
 * possible now; call it again (a timer) for the rest. */
#include "node/scheduler.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ARGUMENTS = 64 };

struct work {
    struct hm_ledger *ledger;
    const struct hm_apply_options *o;
    const struct hm_scheduler *scheduler;
    char *node, *why;
    enum hm_node_state state;
};

struct names {
    struct work *item;
    size_t count, room;
    bool failed;
};

static void say(const struct work *w, const char *text) {
    if (w->o->run.step) w->o->run.step(w->o->run.context, w->node, text);
}

static int move_to(const struct work *w, enum hm_node_state to, const char *why, const char *evidence,
                   struct hm_error *err) {
    struct hm_node_change c = {.node = w->node,
                               .who = w->o->who,
                               .why = why,
                               .evidence = evidence,
                               .to = to,
                               .time_s = w->o->time_s > 0 ? w->o->time_s : (double)time(NULL)};
    return hm_ledger_change(w->ledger, &c, &w->o->run, err);
}

/* ---- how many are out, whoever took them ---- */

struct outside {
    struct hm_ledger *ledger;
    long others; /* in the pool by the ledger, out by the scheduler */
    struct hm_error *err;
    bool failed;
    const char *name;
};

static void count_row(void *context, const struct hm_node_row *r) {
    struct outside *o = context;
    o->others += (r->state == HM_NODE_HEALTHY || r->state == HM_NODE_SUSPECT) && strcmp(r->node, o->name) == 0;
}

/* A node that the ledger does not know is no part of its fleet. */
static void count_out(void *context, const char *name) {
    struct outside *o = context;
    struct hm_error unknown = {0};
    o->name = name;
    if (hm_ledger_list(o->ledger, name, count_row, o, &unknown) != 0 && unknown.code != HM_ERR_ARGUMENT)
        o->failed = true;
}

/* Whether one more node may be drained: the ledger's cap on nodes out at once, those that others drained counted as well. 1, 0, or -1. */
static int cap_allows(const struct work *w, struct hm_error *err) {
    struct outside o = {.ledger = w->ledger};
    char text[300];
    long cap, away;
    if (w->scheduler->list_out(count_out, &o, err) != 0) return -1;
    if (o.failed) return hm_fail(err, HM_ERR_IO, "the ledger cannot be read; is its disk there?");
    if (o.others == 0) return 1; /* the ledger's own have been counted when this one began to drain */
    if (hm_ledger_cap(w->ledger, &cap, &away, err) != 0) return -1;
    if (away + o.others <= cap) return 1;
    snprintf(text, sizeof text,
             "waits: the cap on nodes out at once is %ld, and others keep %ld out already; return some or raise it",
             cap, o.others);
    say(w, text);
    return 0;
}

/* draining: out of the scheduler's pool, and out in the ledger once it is empty. Returns the state reached. */
static int take_out(struct work *w, struct hm_error *err) {
    enum hm_pool pool = HM_POOL_EMPTY;
    char reason[400] = "", text[700];
    if (w->scheduler && w->scheduler->ask(w->node, &pool, reason, sizeof reason, err) != 0) return -1;
    if (pool == HM_POOL_IN || pool == HM_POOL_DOWN) {
        int may = cap_allows(w, err);
        if (may <= 0) return may < 0 ? -1 : HM_NODE_DRAINING;
        snprintf(text, sizeof text, "%s in %s: %s%s", w->o->run.dry_run ? "would drain" : "drains", w->scheduler->name,
                 HM_REASON_PREFIX, w->why);
        say(w, text);
        if (w->o->run.dry_run) return HM_NODE_DRAINING;
        if (w->scheduler->drain(w->node, w->why, w->o->taint, err) != 0 ||
            w->scheduler->ask(w->node, &pool, reason, sizeof reason, err) != 0)
            return -1;
        if (pool == HM_POOL_IN || pool == HM_POOL_DOWN)
            return hm_fail(err, HM_ERR_IO, "%s: %s does not keep it out though it was told to (%.100s)", w->node,
                           w->scheduler->name, reason);
    }
    if (pool == HM_POOL_BUSY || pool == HM_POOL_MOVING) {
        snprintf(text, sizeof text,
                 pool == HM_POOL_BUSY ? "still has work (%s): draining" : "is on its way (%s): left alone", reason);
        say(w, text);
        return HM_NODE_DRAINING;
    }
    if (pool == HM_POOL_FOREIGN) {
        snprintf(text, sizeof text, "is kept out by another already (%s): left alone", reason);
        say(w, text);
    }
    return move_to(w, HM_NODE_OUT, w->why, NULL, err);
}

/* Runs the sweep command with {node} replaced; its hindmost.sweep/1 on standard output is the verdict. */
static int run_sweep(const struct work *w, enum hm_verdict *verdict, char *why, size_t size, struct hm_error *err) {
    char words[ARGUMENTS][512];
    const char *argv[ARGUMENTS + 1] = {NULL};
    size_t n = 0;
    for (const char *c = w->o->sweep; *(c += strspn(c, " ")) && n < ARGUMENTS; n++) {
        size_t length = strcspn(c, " ");
        const char *mark = memmem(c, length, "{node}", 6);
        size_t before = mark ? (size_t)(mark - c) : length;
        snprintf(words[n], sizeof words[n], "%.*s%s%.*s", (int)before, c, mark ? w->node : "",
                 mark ? (int)(length - before - 6) : 0, mark ? mark + 6 : "");
        argv[n] = words[n];
        c += length;
    }
    struct hm_str out = {0};
    int code, status = hm_command(argv, w->o->sweep_timeout_s, &out, &code, err);
    json_t *root = status == 0 ? json_loads(out.text, 0, NULL) : NULL;
    hm_str_free(&out);
    if (status != 0) return -1;
    const char *text = json_string_value(json_object_get(root, "verdict"));
    *verdict = HM_UNKNOWN;
    for (int v = HM_PASS; text && v <= HM_FAIL; v++)
        if (strcmp(text, hm_verdict_name((enum hm_verdict)v)) == 0) *verdict = (enum hm_verdict)v;
    snprintf(why, size, "sweep: %s", text ? text : "gave no verdict");
    size_t i;
    json_t *test;
    json_array_foreach(json_object_get(root, "tests"), i, test) {
        const char *tv = json_string_value(json_object_get(test, "verdict"));
        size_t used = strlen(why);
        if (tv && (strcmp(tv, "fail") == 0 || strcmp(tv, "warn") == 0) && used + 1 < size)
            snprintf(why + used, size - used, "; %s %s", json_string_value(json_object_get(test, "name")),
                     json_string_value(json_object_get(test, "why")));
    }
    json_decref(root);
    return 0;
}

static int let_back(struct work *w, struct hm_error *err) {
    enum hm_pool pool = HM_POOL_IN;
    char reason[400] = "", text[600];
    if (w->scheduler && w->scheduler->ask(w->node, &pool, reason, sizeof reason, err) != 0) return -1;
    if (pool != HM_POOL_IN && pool != HM_POOL_EMPTY) {
        snprintf(text, sizeof text,
                 pool == HM_POOL_FOREIGN ? "stays qualified: it is kept out by another (%s)"
                 : pool == HM_POOL_BUSY  ? "stays qualified: it has work (%s)"
                                         : "stays qualified: it is not ready (%s)",
                 reason);
        say(w, text);
        return HM_NODE_QUALIFIED;
    }
    if (pool != HM_POOL_IN) {
        snprintf(text, sizeof text, "%s in %s", w->o->run.dry_run ? "would resume" : "resumes", w->scheduler->name);
        say(w, text);
        if (!w->o->run.dry_run && w->scheduler->resume(w->node, w->o->taint, err) != 0) return -1;
    }
    return move_to(w, HM_NODE_HEALTHY, "qualified by a sweep", NULL, err);
}

/* Whether the node may be tested: nothing runs on it, and it is not on its way anywhere. 1, 0, or -1. */
static int is_quiet(const struct work *w, struct hm_error *err) {
    enum hm_pool pool = HM_POOL_EMPTY;
    char reason[400] = "", text[600];
    if (w->scheduler && w->scheduler->ask(w->node, &pool, reason, sizeof reason, err) != 0) return -1;
    if (pool != HM_POOL_IN && pool != HM_POOL_BUSY && pool != HM_POOL_MOVING) return 1;
    snprintf(text, sizeof text,
             pool == HM_POOL_IN     ? "is not tested: it takes work in %s again; drain it, or clear it here"
             : pool == HM_POOL_BUSY ? "is not tested: it still has work in %s (%s)"
                                    : "is not tested: it is on its way in %s (%s)",
             w->scheduler->name, reason);
    say(w, text);
    return 0;
}

/* out: tests it. A node that failed its last sweep waits for a repair: a person's note (node mark --state testing). */
static int qualify(struct work *w, struct hm_error *err) {
    enum hm_verdict verdict;
    char why[500], text[600];
    if (!w->o->sweep) return (int)w->state;
    if (w->state == HM_NODE_OUT && strncmp(w->why, "sweep: ", 7) == 0) {
        say(w, "waits for a repair: its last sweep did not pass");
        return HM_NODE_OUT;
    }
    int quiet = is_quiet(w, err);
    if (quiet <= 0) return quiet < 0 ? -1 : (int)w->state;
    snprintf(text, sizeof text, "%s: %s", w->o->run.dry_run ? "would sweep" : "sweeps", w->o->sweep);
    say(w, text);
    if (w->o->run.dry_run) {
        say(w, "would become qualified and healthy if the sweep passes, out if not");
        return (int)w->state;
    }
    if (w->state == HM_NODE_OUT && move_to(w, HM_NODE_TESTING, "sweep begins", NULL, err) < 0) return -1;
    struct hm_error failure = {0};
    if (run_sweep(w, &verdict, why, sizeof why, &failure) != 0) {
        verdict = HM_UNKNOWN;
        snprintf(why, sizeof why, "sweep: could not run: %.400s", failure.message);
    }
    /* Only a pass qualifies: an unknown verdict is not one. */
    return move_to(w, verdict == HM_PASS ? HM_NODE_QUALIFIED : HM_NODE_OUT, why, why, err);
}

static int advance(struct work *w, struct hm_error *err) {
    int state = (int)w->state;
    if (state == HM_NODE_DRAINING) state = take_out(w, err);
    if (state == HM_NODE_OUT || state == HM_NODE_TESTING) {
        w->state = (enum hm_node_state)state;
        state = qualify(w, err);
    }
    if (state == HM_NODE_QUALIFIED) state = let_back(w, err);
    return state < 0 ? -1 : 0;
}

static void refresh(void *context, const struct hm_node_row *r) {
    struct work *w = context;
    hm_free(w->why);
    w->why = hm_strdup(r->why);                      /* NULL: out of memory */
    w->state = r->hold ? HM_NODE_HEALTHY : r->state; /* on hold by now: nothing to do */
}

/* Advances a node that nobody else works on, from the state it is in by now. */
static int advance_alone(struct work *w, struct hm_error *err) {
    enum { MARGIN_S = 600 }; /* for the scheduler's commands */
    if (w->o->run.dry_run) return advance(w, err);
    int mine = hm_ledger_claim(w->ledger, w->node, w->o->sweep_timeout_s + MARGIN_S, err);
    if (mine == 0) say(w, "another apply works on it: left alone");
    if (mine <= 0) return mine;
    int status = hm_ledger_list(w->ledger, w->node, refresh, w, err);
    if (status == 0) status = w->why ? advance(w, err) : hm_fail_memory(err);
    hm_ledger_release(w->ledger, w->node);
    return status;
}

static void collect(void *context, const struct hm_node_row *r) {
    struct names *n = context;
    if (r->state < HM_NODE_DRAINING || r->state == HM_NODE_RETIRED || r->hold || n->failed) return;
    struct work *grown = hm_grow(n->item, n->count, &n->room, sizeof *grown);
    if (!grown) {
        n->failed = true;
        return;
    }
    n->item = grown;
    grown[n->count] = (struct work){.node = hm_strdup(r->node), .why = hm_strdup(r->why), .state = r->state};
    n->failed = !grown[n->count].node || !grown[n->count].why;
    n->count++;
}

int hm_apply(struct hm_ledger *ledger, const struct hm_apply_options *o, struct hm_error *err) {
    static const struct hm_scheduler *const known[] = {&hm_slurm, &hm_kubernetes};
    const struct hm_scheduler *scheduler = NULL;
    struct names n = {0};
    for (size_t i = 0; i < 2; i++)
        if (o->scheduler && strcmp(o->scheduler, known[i]->name) == 0) scheduler = known[i];
    if (!scheduler && o->scheduler && strcmp(o->scheduler, "none") != 0)
        return hm_fail(err, HM_ERR_ARGUMENT, "--scheduler %s: give slurm, kubernetes or none", o->scheduler);
    int status = hm_ledger_list(ledger, NULL, collect, &n, err);
    if (status == 0 && n.failed) status = hm_fail_memory(err);
    bool listed = status == 0;
    for (size_t i = 0; listed && i < n.count; i++) { /* one node's trouble is not the others' */
        struct hm_error failure = {0};
        n.item[i].ledger = ledger;
        n.item[i].o = o;
        n.item[i].scheduler = scheduler;
        if (advance_alone(&n.item[i], &failure) == 0) continue;
        say(&n.item[i], failure.message);
        if (status == 0 && err) *err = failure; /* the first is the one returned */
        status = -1;
    }
    for (size_t i = 0; i < n.count; i++) {
        hm_free(n.item[i].node);
        hm_free(n.item[i].why);
    }
    hm_free(n.item);
    return status;
}
