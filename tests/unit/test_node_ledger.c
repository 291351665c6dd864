/* test_node_ledger.c - the ledger: its steps, and two properties under 1,000 random sequences of events: the cap is never
 * passed, and nobody enters out three times in a week without being retired. */
#include "node/node.h"

#include "no_sync.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const double DAY = 86400;

static struct hm_ledger *memory(void) {
    struct hm_error err = {0};
    struct hm_ledger *l = hm_ledger_open(":memory:", NULL, &err);
    if (!l) fail_msg("%s", err.message);
    return l;
}

static int step(struct hm_ledger *l, const char *node, enum hm_node_state to, double t) {
    struct hm_node_change c = {.node = node, .who = "test", .why = "because", .evidence = "e", .to = to, .time_s = t};
    return hm_ledger_change(l, &c, NULL, NULL);
}

static void state_row(void *context, const struct hm_node_row *r) {
    *(enum hm_node_state *)context = r->state;
}

static enum hm_node_state state(struct hm_ledger *l, const char *node) {
    enum hm_node_state s = HM_NODE_RETIRED;
    assert_int_equal(hm_ledger_list(l, node, state_row, &s, NULL), 0);
    return s;
}

static void evidence(struct hm_ledger *l, const char *node, const char *kind, double t) {
    struct hm_node_evidence e = {.node = node, .source = "test", .kind = kind, .time_s = t};
    assert_int_equal(hm_ledger_evidence(l, &e, 1, NULL, NULL), 0);
}

static void policy_table(void **unused) {
    (void)unused;
    struct hm_ledger *l = memory();
    for (int i = 0; i < 40; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(hm_ledger_add(l, name, "h", false, "test", 0, NULL), 0);
    }
    evidence(l, "n0", "nic-down", 100);
    assert_int_equal(state(l, "n0"), HM_NODE_SUSPECT);
    evidence(l, "n0", "nic-down", 500); /* 400 s later: a flap */
    assert_int_equal(state(l, "n0"), HM_NODE_SUSPECT);
    evidence(l, "n0", "nic-down", 700); /* 200 s later: the second within 5 minutes */
    assert_int_equal(state(l, "n0"), HM_NODE_DRAINING);
    evidence(l, "n1", "xid-31", 800);
    assert_int_equal(state(l, "n1"), HM_NODE_HEALTHY);
    evidence(l, "n1", "gpu-lost", 800);
    assert_int_equal(state(l, "n1"), HM_NODE_DRAINING);
    evidence(l, "n2", "gpu-lost", 900); /* 5 % of 40 are two: the cap */
    assert_int_equal(state(l, "n2"), HM_NODE_SUSPECT);
    assert_int_equal(hm_ledger_hold(l, "n3", "me", "in use", 900, NULL), 0);
    struct hm_node_change held = {
        .node = "n3", .who = "robot", .why = "wants to", .to = HM_NODE_SUSPECT, .time_s = 901};
    struct hm_error refused = {0};
    assert_int_equal(hm_ledger_change(l, &held, NULL, &refused), -1);
    assert_non_null(strstr(refused.message, "on hold"));
    evidence(l, "n3", "xid-63", 900);
    assert_int_equal(state(l, "n3"), HM_NODE_HEALTHY);
    assert_int_equal(hm_ledger_except(l, "n4", "xid-63", "me", "known", 900, NULL), 0);
    evidence(l, "n4", "xid-63", 900);
    assert_int_equal(state(l, "n4"), HM_NODE_HEALTHY);
    evidence(l, "n4", "xid-94", 900);
    assert_int_equal(state(l, "n4"), HM_NODE_SUSPECT);
    struct hm_node_change silent = {.node = "n4", .who = "t", .why = "quiet", .to = HM_NODE_HEALTHY, .time_s = 1e9};
    assert_int_equal(hm_ledger_change(l, &silent, NULL, NULL), -1); /* silence clears nothing */
    assert_int_equal(step(l, "n4", HM_NODE_QUALIFIED, 1e6), -1);
    hm_ledger_close(l);
}

static void three_strikes(void **unused) {
    (void)unused;
    struct hm_ledger *l = memory();
    assert_int_equal(hm_ledger_add(l, "a", "", false, "test", 0, NULL), 0);
    for (int i = 0; i < 3; i++) {
        double t = i * 2 * DAY;
        assert_int_equal(step(l, "a", HM_NODE_DRAINING, t), HM_NODE_DRAINING);
        int reached = step(l, "a", HM_NODE_OUT, t);
        assert_int_equal(reached, i < 2 ? HM_NODE_OUT : HM_NODE_RETIRED);
        if (i == 2) break;
        step(l, "a", HM_NODE_TESTING, t);
        step(l, "a", HM_NODE_QUALIFIED, t);
        assert_int_equal(step(l, "a", HM_NODE_HEALTHY, t), HM_NODE_HEALTHY);
    }
    assert_int_equal(step(l, "a", HM_NODE_OUT, 5 * DAY), -1);
    struct hm_node_change c = {
        .node = "a", .who = "t", .why = "new", .to = HM_NODE_OUT, .time_s = 5 * DAY, .replaced = true};
    assert_int_equal(hm_ledger_change(l, &c, NULL, NULL), HM_NODE_OUT);
    hm_ledger_close(l);
}

static void count_away(void *context, const struct hm_node_row *r) {
    long *count = context;
    count[0] += r->state >= HM_NODE_DRAINING && r->state <= HM_NODE_QUALIFIED;
    count[1] += r->state != HM_NODE_RETIRED;
}

/* The checker keeps its own books: the times at which each node went from draining to out. */
static void random_sequence(uint64_t seed) {
    static const char *const kinds[] = {"gpu-lost", "nic-down", "xid-31", "xid-94", "alarm-replace", "sweep-fail"};
    enum { NODES = 30, EVENTS = 60 };
    struct hm_rng rng;
    hm_rng_seed(&rng, seed);
    struct hm_ledger *l = memory();
    double entries[NODES][EVENTS], t = 0;
    size_t entered[NODES] = {0};
    char name[8];
    for (int i = 0; i < NODES; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(hm_ledger_add(l, name, "", false, "test", 0, NULL), 0);
    }
    for (int k = 0; k < EVENTS; k++) {
        size_t n = hm_rng_below(&rng, 3); /* few nodes get most events, so that they come back often */
        if (hm_rng_below(&rng, 4) == 0) n = hm_rng_below(&rng, NODES);
        t += hm_rng_uniform(&rng) * DAY / 4;
        snprintf(name, sizeof name, "n%zu", n);
        enum hm_node_state before = state(l, name);
        if (hm_rng_below(&rng, 3) == 0) {
            evidence(l, name, kinds[hm_rng_below(&rng, 6)], t);
        } else { /* mostly the usual next step, now and then anything */
            enum hm_node_state to = hm_rng_below(&rng, 5) ? (enum hm_node_state)((before + 1) % 6)
                                                          : (enum hm_node_state)hm_rng_below(&rng, 7);
            step(l, name, to, t);
        }
        enum hm_node_state after = state(l, name);
        if (before == HM_NODE_DRAINING && (after == HM_NODE_OUT || after == HM_NODE_RETIRED)) {
            size_t recent = 0;
            for (size_t i = 0; i < entered[n]; i++) recent += entries[n][i] > t - 7 * DAY;
            if (after == HM_NODE_OUT) {
                assert_true(recent < 2);
                entries[n][entered[n]++] = t;
            }
        }
        if (before == HM_NODE_RETIRED) assert_int_equal(after, HM_NODE_RETIRED);
        long counts[2] = {0};
        assert_int_equal(hm_ledger_list(l, NULL, count_away, counts, NULL), 0);
        long cap = counts[1] / 20;
        assert_true(counts[0] <= (cap > 0 ? cap : 1));
    }
    hm_ledger_close(l);
}

static void properties(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 1000; seed++) random_sequence(seed);
}

/* Writers are killed at random moments; what is left always opens, passes SQLite's check, and every node's state is that
 * of its last step. */
static void killed(void **unused) {
    (void)unused;
    char dir[] = "/tmp/hm_ledger_XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/ledger.db", dir);
    struct hm_ledger *l = hm_ledger_open(path, NULL, NULL);
    assert_non_null(l);
    hm_ledger_close(l);
    const char *wanted = getenv("HM_KILLS"); /* scripts/test long asks for more */
    int rounds = wanted ? atoi(wanted) : 30;
    for (int round = 0; round < rounds; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct hm_ledger *mine = hm_ledger_open(path, NULL, NULL);
            if (!mine) _exit(1);
            for (int i = 0;; i++) { /* until it is killed */
                struct hm_node_evidence e = {
                    .node = i % 2 ? "a" : "b", .source = "t", .kind = "gpu-lost", .time_s = i * DAY};
                hm_ledger_evidence(mine, &e, 1, NULL, NULL);
                for (int s = HM_NODE_OUT; s <= HM_NODE_QUALIFIED + 1; s++)
                    step(mine, e.node, s <= HM_NODE_QUALIFIED ? (enum hm_node_state)s : HM_NODE_HEALTHY, i * DAY);
            }
        }
        usleep((useconds_t)(3000 + round % 60 * 1700));
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        char command[256];
        snprintf(command, sizeof command, "%s/check.json", dir);
        l = hm_ledger_open(path, NULL, NULL);
        assert_non_null(l);
        struct hm_out *out = hm_out_open(command, NULL);
        struct hm_json w;
        hm_json_begin(&w, out, 9);
        hm_json_object(&w, NULL);
        assert_int_equal(hm_ledger_query_json(l, "check", "PRAGMA integrity_check", NULL, &w, NULL), 0);
        assert_int_equal(hm_ledger_query_json(l, "wrong",
                                              "SELECT name FROM node WHERE state <> (SELECT to_state FROM step WHERE "
                                              "node = name ORDER BY id DESC LIMIT 1)",
                                              NULL, &w, NULL),
                         0);
        hm_json_end_object(&w);
        hm_json_finish(&w);
        assert_int_equal(hm_out_commit(out, NULL), 0);
        hm_ledger_close(l);
        json_t *read = json_load_file(command, 0, NULL);
        assert_int_equal(json_array_size(json_object_get(read, "wrong")), 0);
        const json_t *row = json_array_get(json_object_get(read, "check"), 0);
        assert_string_equal(json_string_value(json_object_get(row, "integrity_check")), "ok");
        json_decref(read);
    }
    char remove_it[128];
    snprintf(remove_it, sizeof remove_it, "rm -r %s", dir);
    assert_int_equal(system(remove_it), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(policy_table), cmocka_unit_test(three_strikes),
                                       cmocka_unit_test(properties), cmocka_unit_test(killed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
