/* test_node_faults.c - the node room with every allocation (ours, SQLite's, jansson's) and every file operation of SQLite failing
 * once: each ends in a clean error of one line or in a whole result, and the ledger stays whole. */
#include "node/node.h"

#include "no_sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/hm-node-faults-XXXXXX";
static char ledger_path[64], evidence_path[64], results_path[64], json_path[64];

/* ---- what fails ---- */

static sqlite3_mem_methods memory;

static void *sql_malloc(int n) {
    return hm_fault_hit() ? NULL : memory.xMalloc(n);
}

static void *sql_realloc(void *old, int n) {
    return hm_fault_hit() ? NULL : memory.xRealloc(old, n);
}

static void *json_malloc(size_t n) {
    return hm_fault_hit() ? NULL : malloc(n);
}

static ssize_t failing_write(int fd, const void *bytes, size_t n, off_t at) {
    if (!hm_fault_hit()) return pwrite(fd, bytes, n, at);
    errno = ENOSPC;
    return -1;
}

static int failing_open(const char *path, int flags, int mode) {
    if (!hm_fault_hit()) return open(path, flags, mode);
    errno = EMFILE;
    return -1;
}

static int failing_truncate(int fd, off_t size) {
    if (!hm_fault_hit()) return ftruncate(fd, size);
    errno = EIO;
    return -1;
}

static void let_sqlite_fail(void) {
    sqlite3_mem_methods ours;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory), SQLITE_OK);
    ours = memory;
    ours.xMalloc = sql_malloc;
    ours.xRealloc = sql_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &ours), SQLITE_OK);
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0), SQLITE_OK); /* every allocation is asked for */
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    assert_int_equal(vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)failing_open), SQLITE_OK);
    assert_int_equal(vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)failing_write), SQLITE_OK);
    assert_int_equal(vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)failing_write), SQLITE_OK);
    assert_int_equal(vfs->xSetSystemCall(vfs, "ftruncate", (sqlite3_syscall_ptr)failing_truncate), SQLITE_OK);
    json_set_alloc_funcs(json_malloc, free);
}

/* ---- what is done ---- */

typedef int (*work_fn)(struct hm_error *err);

static int add_work(struct hm_error *err) {
    struct hm_ledger *l = hm_ledger_open(ledger_path, NULL, err);
    int status = l ? hm_ledger_add(l, "b", "h100", false, "test", 2, err) : -1;
    hm_ledger_close(l);
    return status;
}

static int mark_work(struct hm_error *err) {
    struct hm_evidence_list *e = hm_evidence_read(evidence_path, NULL, 5, err);
    struct hm_ledger *l = e ? hm_ledger_open(ledger_path, NULL, err) : NULL;
    int status = l ? hm_ledger_evidence(l, hm_evidence_items(e), hm_evidence_count(e), NULL, err) : -1;
    hm_ledger_close(l);
    hm_evidence_free(e);
    return status;
}

static int write_with(int (*write)(struct hm_ledger *, const char *, struct hm_out *, struct hm_error *),
                      struct hm_error *err) {
    struct hm_ledger *l = hm_ledger_open(ledger_path, NULL, err);
    struct hm_out *out = l ? hm_out_open(json_path, err) : NULL;
    int status = out ? write(l, NULL, out, err) : -1;
    if (status == 0)
        status = hm_out_commit(out, err);
    else
        hm_out_abort(out);
    hm_ledger_close(l);
    return status;
}

static int list_work(struct hm_error *err) {
    return write_with(hm_ledger_write_list, err);
}

static int history_work(struct hm_error *err) {
    return write_with(hm_ledger_write_history, err);
}

/* A draining node goes out, is swept by a command that says pass, and comes back. */
static int apply_work(struct hm_error *err) {
    long after = hm_fault_after;
    hm_fault_after = 0;
    struct hm_ledger *l = hm_ledger_open(ledger_path, NULL, NULL);
    struct hm_node_evidence e = {.node = "a", .source = "t", .kind = "gpu-lost", .time_s = 2};
    assert_int_equal(hm_ledger_evidence(l, &e, 1, NULL, NULL), 0);
    hm_fault_after = after;
    struct hm_apply_options o = {
        .sweep = "echo {\"verdict\":\"pass\"}", .sweep_timeout_s = 10, .who = "apply", .time_s = 3};
    int status = hm_apply(l, &o, err);
    hm_ledger_close(l);
    return status;
}

static int judge_work(struct hm_error *err) {
    struct hm_judge_options o = {.results = results_path};
    struct hm_judgement *j = hm_judge(&o, err);
    int status = j ? 0 : -1;
    if (j) { /* whole: the slow node is named, as without a fault */
        assert_int_equal(hm_judgement_count(j), 6);
        assert_int_equal(hm_judgement_node(j, 3)->verdict, HM_FAIL);
        assert_int_equal(hm_judgement_node(j, 0)->verdict, HM_PASS);
    }
    hm_judgement_free(j);
    return status;
}

/* ---- what must hold ---- */

static json_t *rows(const char *sql) {
    struct hm_error err = {0};
    struct hm_ledger *l = hm_ledger_open(ledger_path, NULL, &err);
    if (!l) fail_msg("the ledger does not open any more: %s", err.message);
    struct hm_out *out = hm_out_open(json_path, &err);
    struct hm_json w;
    hm_json_begin(&w, out, 9);
    hm_json_object(&w, NULL);
    assert_int_equal(hm_ledger_query_json(l, "rows", sql, NULL, &w, &err), 0);
    hm_json_end_object(&w);
    hm_json_finish(&w);
    assert_int_equal(hm_out_commit(out, &err), 0);
    hm_ledger_close(l);
    json_t *read = json_load_file(json_path, 0, NULL);
    json_t *found = json_incref(json_object_get(read, "rows"));
    json_decref(read);
    unlink(json_path);
    return found;
}

static void ledger_is_whole(void) {
    json_t *check = rows("PRAGMA integrity_check"), *wrong;
    assert_string_equal(json_string_value(json_object_get(json_array_get(check, 0), "integrity_check")), "ok");
    wrong = rows("SELECT name FROM node WHERE state <> (SELECT to_state FROM step WHERE node = name ORDER BY id DESC "
                 "LIMIT 1)");
    assert_int_equal(json_array_size(wrong), 0);
    json_decref(check);
    json_decref(wrong);
}

static long long count(const char *sql) {
    json_t *r = rows(sql);
    long long n = json_integer_value(json_object_get(json_array_get(r, 0), "n"));
    json_decref(r);
    return n;
}

static void whole_add(bool done) {
    assert_int_equal(count("SELECT count(*) n FROM node WHERE name = 'b' AND class = 'h100'"), done);
    assert_int_equal(count("SELECT count(*) n FROM step WHERE node = 'b'"), done);
}

static void whole_mark(bool done) { /* both pieces or none, with their details, and the steps they lead to */
    assert_int_equal(count("SELECT count(*) n FROM evidence WHERE detail IS NOT NULL"), done ? 2 : 0);
    assert_int_equal(count("SELECT count(*) n FROM evidence"), done ? 2 : 0);
    assert_int_equal(count("SELECT count(*) n FROM node WHERE name = 'a' AND state = 'draining'"), done);
}

static void whole_list(bool done) {
    json_t *read = json_load_file(json_path, 0, NULL);
    assert_int_equal(read != NULL, done);
    const json_t *first = json_array_get(json_object_get(read, "nodes"), 0);
    if (done) {
        assert_string_equal(json_string_value(json_object_get(first, "node")), "a");
        assert_string_equal(json_string_value(json_object_get(first, "state")), "healthy");
    }
    json_decref(read);
    unlink(json_path);
}

static void whole_history(bool done) {
    json_t *read = json_load_file(json_path, 0, NULL);
    assert_int_equal(read != NULL, done);
    const json_t *first = json_array_get(json_object_get(read, "steps"), 0);
    if (done) assert_string_equal(json_string_value(json_object_get(first, "why")), "added");
    json_decref(read);
    unlink(json_path);
}

static void whole_apply(bool done) { /* no fault qualifies a node that no sweep has passed */
    long long passed = count("SELECT count(*) n FROM step WHERE why = 'sweep: pass'");
    assert_true(passed == 1 || count("SELECT count(*) n FROM step WHERE to_state = 'qualified'") == 0);
    assert_true(!done || count("SELECT count(*) n FROM node WHERE state IN ('healthy', 'out')") == 1);
}

static void fresh_ledger(void) {
    char name[80];
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", ledger_path, ends[i]);
        unlink(name);
    }
    struct hm_ledger *l = hm_ledger_open(ledger_path, NULL, NULL);
    assert_non_null(l);
    assert_int_equal(hm_ledger_add(l, "a", "h100", false, "test", 1, NULL), 0);
    hm_ledger_close(l);
}

static void inject_everywhere(const char *name, work_fn work, void (*whole)(bool done), bool reads_json,
                              long at_least) {
    long n = 1;
    for (;; n++) {
        struct hm_error err = {0};
        fresh_ledger();
        hm_fault_after = n;
        int status = work(&err);
        bool hit = hm_fault_after <= 0;
        hm_fault_after = 0;
        if (status != 0) {
            if (!hit) fail_msg("%s, without a fault: %s", name, err.message);
            /* jansson words a lack of memory within a text as a syntax error */
            bool parsing = err.code == HM_ERR_INPUT && strstr(err.message, ": line ") != NULL;
            if (err.code != HM_ERR_MEMORY && err.code != HM_ERR_IO && !(reads_json && parsing))
                fail_msg("%s, fault %ld: code %d, '%s'", name, n, (int)err.code, err.message);
            assert_true(strlen(err.message) > 10 && !strchr(err.message, '\n'));
        }
        if (whole) whole(status == 0);
        ledger_is_whole();
        if (!hit) break;
    }
    print_message("%s: %ld faults\n", name, n - 1);
    assert_true(n > at_least);
}

static void adding(void **unused) {
    (void)unused;
    inject_everywhere("add", add_work, whole_add, false, 100);
}

static void marking(void **unused) {
    (void)unused;
    inject_everywhere("mark", mark_work, whole_mark, true, 100);
}

static void listing(void **unused) {
    (void)unused;
    inject_everywhere("list", list_work, whole_list, false, 100);
    inject_everywhere("history", history_work, whole_history, false, 100);
}

static void applying(void **unused) {
    (void)unused;
    inject_everywhere("apply", apply_work, whole_apply, false, 100);
}

static void judging(void **unused) {
    (void)unused;
    inject_everywhere("judge", judge_work, NULL, true, 20);
}

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    snprintf(ledger_path, sizeof ledger_path, "%s/nodes.db", folder);
    snprintf(evidence_path, sizeof evidence_path, "%s/e.jsonl", folder);
    snprintf(results_path, sizeof results_path, "%s/r.jsonl", folder);
    snprintf(json_path, sizeof json_path, "%s/out.json", folder);
    put(evidence_path, "{\"node\":\"a\",\"kind\":\"nic-down\",\"source\":\"t\",\"time\":3,\"detail\":{\"port\":1}}\n"
                       "{\"node\":\"a\",\"kind\":\"gpu-lost\",\"source\":\"t\",\"time\":4,\"detail\":\"gone\"}\n");
    put(results_path, "{\"node\":\"n1\",\"mem/bw\":[100,101,100,101]}\n{\"node\":\"n2\",\"mem/bw\":[101,100,101,102]}\n"
                      "{\"node\":\"n3\",\"mem/bw\":[102,102,101,102]}\n{\"node\":\"n4\",\"mem/bw\":80}\n"
                      "{\"node\":\"n5\",\"mem/bw\":100}\n{\"node\":\"n6\",\"mem/bw\":101}\n");
    let_sqlite_fail();
    const struct CMUnitTest tests[] = {cmocka_unit_test(adding), cmocka_unit_test(marking), cmocka_unit_test(listing),
                                       cmocka_unit_test(applying), cmocka_unit_test(judging)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 ? failed : 1;
}
