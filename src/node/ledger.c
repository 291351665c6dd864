/* ledger.c - the ledger of nodes: states, steps, evidence, in one SQLite file. Every public call is one immediate
 * transaction, so two processes never decide on the same old state, and a kill leaves the last whole step. */
#include "node/node.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct hm_ledger {
    sqlite3 *db;
    char *path;
    struct hm_policy policy;
};

static const char schema[] =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "CREATE TABLE IF NOT EXISTS node(name TEXT PRIMARY KEY, class TEXT NOT NULL DEFAULT '', state TEXT NOT NULL,"
    " since REAL NOT NULL, why TEXT NOT NULL DEFAULT '', hold TEXT, replaced REAL NOT NULL DEFAULT -1e18) STRICT;"
    "CREATE TABLE IF NOT EXISTS step(id INTEGER PRIMARY KEY, node TEXT NOT NULL REFERENCES node(name),"
    " time REAL NOT NULL, from_state TEXT NOT NULL, to_state TEXT NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,"
    " evidence TEXT) STRICT;"
    "CREATE INDEX IF NOT EXISTS step_node ON step(node, time);"
    "CREATE TABLE IF NOT EXISTS evidence(id INTEGER PRIMARY KEY, node TEXT NOT NULL, time REAL NOT NULL,"
    " source TEXT NOT NULL, kind TEXT NOT NULL, detail TEXT, subject TEXT) STRICT;"
    "CREATE INDEX IF NOT EXISTS evidence_node ON evidence(node, kind, time);"
    "CREATE TABLE IF NOT EXISTS exception(node TEXT NOT NULL, kind TEXT NOT NULL, who TEXT NOT NULL,"
    " why TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY(node, kind)) STRICT;"
    "CREATE TABLE IF NOT EXISTS claim(node TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL,"
    " until REAL NOT NULL) STRICT;";

static const char *const state_names[] = {"healthy", "suspect", "draining", "out", "testing", "qualified", "retired"};

const char *hm_node_state_name(enum hm_node_state state) {
    return state <= HM_NODE_RETIRED ? state_names[state] : "unknown";
}

int hm_node_state_named(const char *name) {
    for (int i = 0; name && i <= HM_NODE_RETIRED; i++)
        if (strcmp(name, state_names[i]) == 0) return i;
    return -1;
}

/* ---- SQL ---- */

static int fail_sql(struct hm_ledger *l, struct hm_error *err) {
    if (sqlite3_errcode(l->db) == SQLITE_NOMEM) return hm_fail_memory(err);
    return hm_fail(err, HM_ERR_IO, "%s: %s; is it a ledger, and may it be written?", l->path, sqlite3_errmsg(l->db));
}

/* Prepares and binds: 's' text (NULL allowed), 'd' double. NULL after filling the error. */
static sqlite3_stmt *query(struct hm_ledger *l, struct hm_error *err, const char *types, const char *sql, ...) {
    sqlite3_stmt *s = NULL;
    va_list ap;
    if (sqlite3_prepare_v2(l->db, sql, -1, &s, NULL) != SQLITE_OK) {
        fail_sql(l, err);
        return NULL;
    }
    int rc = SQLITE_OK;
    va_start(ap, sql);
    for (int i = 0; rc == SQLITE_OK && types[i] && i < sqlite3_bind_parameter_count(s); i++) {
        if (types[i] == 's')
            rc = sqlite3_bind_text(s, i + 1, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
        else
            rc = sqlite3_bind_double(s, i + 1, va_arg(ap, double));
    }
    va_end(ap);
    if (rc == SQLITE_OK) return s;
    fail_sql(l, err); /* unbound it would be NULL: another statement */
    sqlite3_finalize(s);
    return NULL;
}

/* Runs a statement without rows; frees it. */
static int done(struct hm_ledger *l, sqlite3_stmt *s, struct hm_error *err) {
    if (!s) return -1;
    int rc = sqlite3_step(s);
    if (rc != SQLITE_DONE && rc != SQLITE_ROW) fail_sql(l, err);
    sqlite3_finalize(s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : -1;
}

/* The first column of the first row; 0 if there is no row. Frees it. */
static int number_of(struct hm_ledger *l, sqlite3_stmt *s, double *value, struct hm_error *err) {
    if (!s) return -1;
    int rc = sqlite3_step(s);
    *value = rc == SQLITE_ROW ? sqlite3_column_double(s, 0) : 0;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) fail_sql(l, err);
    sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

static int begin(struct hm_ledger *l, struct hm_error *err) {
    return sqlite3_exec(l->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK ? 0 : fail_sql(l, err);
}

/* Ends a transaction: commits if all went well and it is no dry run. Passes status on. */
static int end(struct hm_ledger *l, int status, bool dry_run, struct hm_error *err) {
    if (status >= 0 && !dry_run) {
        if (sqlite3_exec(l->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK) return status;
        status = fail_sql(l, err);
    }
    sqlite3_exec(l->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* Ledgers of before 2026-12 lack the column. Two processes may find that at once: the second is told that it is there. */
static int add_subject(struct hm_ledger *l) {
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(l->db, "SELECT subject FROM evidence LIMIT 1", -1, &s, NULL) == SQLITE_OK)
        return sqlite3_finalize(s);
    int rc = sqlite3_exec(l->db, "ALTER TABLE evidence ADD COLUMN subject TEXT", NULL, NULL, NULL);
    return rc == SQLITE_ERROR &&
                   sqlite3_prepare_v2(l->db, "SELECT subject FROM evidence LIMIT 1", -1, &s, NULL) == SQLITE_OK
               ? sqlite3_finalize(s)
               : rc;
}

struct hm_ledger *hm_ledger_open(const char *path, const char *policy, struct hm_error *err) {
    struct hm_ledger *l = hm_alloc(1, sizeof *l);
    if (!l) {
        hm_fail_memory(err);
        return NULL;
    }
    if (hm_policy_read(&l->policy, policy, err) != 0) goto failed;
    l->path = hm_strdup(path);
    if (!l->path) {
        hm_fail_memory(err);
        goto failed;
    }
    int rc = sqlite3_open_v2(path, &l->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(l->db, 10000);
    if (rc == SQLITE_OK) rc = sqlite3_exec(l->db, schema, NULL, NULL, NULL);
    if (rc == SQLITE_OK) rc = add_subject(l);
    if (rc == SQLITE_OK) return l;
    fail_sql(l, err);
failed:
    hm_ledger_close(l);
    return NULL;
}

/* A ledger in WAL mode is read through a file of shared memory beside it. Where none is there and none can be made (no permission, a file
 * system that is full or read-only), nobody writes now, or nobody could: then the file is read as it stands. */
static int open_as(struct hm_ledger *l, const char *path, bool as_it_stands, double wait_s) {
    struct hm_str uri = {0};
    sqlite3_stmt *s = NULL;
    hm_str_add(&uri, "file:");
    for (const char *c = path; *c; c++) hm_str_add(&uri, strchr("?#%", *c) ? "%%%02x" : "%c", (unsigned char)*c);
    hm_str_add(&uri, "?mode=ro%s", as_it_stands ? "&immutable=1" : "");
    if (uri.failed) {
        hm_str_free(&uri);
        return SQLITE_NOMEM;
    }
    int rc = sqlite3_open_v2(uri.text, &l->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    hm_str_free(&uri);
    if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(l->db, (int)(wait_s * 1000));
    if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(l->db, "SELECT name FROM node LIMIT 1", -1, &s, NULL);
    if (rc == SQLITE_OK && sqlite3_step(s) != SQLITE_ROW) rc = sqlite3_errcode(l->db);
    sqlite3_finalize(s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

struct hm_ledger *hm_ledger_open_to_read(const char *path, const char *policy, double wait_s, struct hm_error *err) {
    struct hm_ledger *l = hm_alloc(1, sizeof *l);
    struct stat st;
    if (!l || !(l->path = hm_strdup(path))) {
        hm_fail_memory(err);
        hm_ledger_close(l);
        return NULL;
    }
    if (hm_policy_read(&l->policy, policy, err) != 0) {
        hm_ledger_close(l);
        return NULL;
    }
    if (stat(path, &st) != 0) {
        hm_fail(err, HM_ERR_IO, "%s: %s; 'hindmost node add' makes a ledger, --ledger FILE names another", path,
                strerror(errno));
        hm_ledger_close(l);
        return NULL;
    }
    int rc = open_as(l, path, false, wait_s);
    if (rc == SQLITE_CANTOPEN || rc == SQLITE_READONLY || rc == SQLITE_FULL || rc == SQLITE_IOERR) {
        sqlite3_close(l->db);
        l->db = NULL;
        rc = open_as(l, path, true, wait_s);
    }
    if (rc == SQLITE_OK) return l;
    if (rc == SQLITE_NOMEM)
        hm_fail_memory(err);
    else
        hm_fail(err, HM_ERR_IO, "%s: %s; is it a ledger, and may it be read?", path,
                l->db ? sqlite3_errmsg(l->db) : "cannot be opened");
    hm_ledger_close(l);
    return NULL;
}

void hm_ledger_close(struct hm_ledger *l) {
    if (!l) return;
    sqlite3_close(l->db);
    hm_policy_free(&l->policy);
    hm_free(l->path);
    hm_free(l);
}

/* ---- steps ---- */

static void tell(const struct hm_ledger_run *run, const char *node, const char *format, ...) HM_PRINTF(3, 4);
static void tell(const struct hm_ledger_run *run, const char *node, const char *format, ...) {
    char text[600];
    va_list ap;
    if (!run || !run->step) return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    run->step(run->context, node, text);
}

static bool allowed(enum hm_node_state from, enum hm_node_state to, bool replaced) {
    static const bool table[7][7] = {
        [HM_NODE_HEALTHY] = {[HM_NODE_SUSPECT] = true, [HM_NODE_DRAINING] = true},
        [HM_NODE_SUSPECT] = {[HM_NODE_HEALTHY] = true, [HM_NODE_DRAINING] = true},
        [HM_NODE_DRAINING] = {[HM_NODE_OUT] = true, [HM_NODE_RETIRED] = true},
        [HM_NODE_OUT] = {[HM_NODE_TESTING] = true, [HM_NODE_RETIRED] = true},
        [HM_NODE_TESTING] = {[HM_NODE_OUT] = true, [HM_NODE_QUALIFIED] = true, [HM_NODE_RETIRED] = true},
        [HM_NODE_QUALIFIED] = {[HM_NODE_HEALTHY] = true, [HM_NODE_SUSPECT] = true, [HM_NODE_DRAINING] = true},
    };
    return table[from][to] || (from == HM_NODE_RETIRED && to == HM_NODE_OUT && replaced);
}

static bool away(enum hm_node_state s) {
    return s >= HM_NODE_DRAINING && s <= HM_NODE_QUALIFIED;
}

int hm_ledger_cap(struct hm_ledger *l, long *cap, long *gone, struct hm_error *err) {
    double nodes, count;
    if (number_of(l, query(l, err, "", "SELECT count(*) FROM node WHERE state <> 'retired'"), &nodes, err) != 0 ||
        number_of(
            l, query(l, err, "", "SELECT count(*) FROM node WHERE state IN ('draining','out','testing','qualified')"),
            &count, err) != 0)
        return -1;
    *cap = hm_policy_cap(&l->policy, (long)nodes);
    *gone = (long)count;
    return 0;
}

/* 1 if one more node may leave the pool. */
static int cap_allows(struct hm_ledger *l, struct hm_error *err) {
    long cap, gone;
    return hm_ledger_cap(l, &cap, &gone, err) == 0 ? gone + 1 <= cap : -1;
}

/* State of a node, or -1. */
static int state_of(struct hm_ledger *l, const char *node, struct hm_error *err) {
    sqlite3_stmt *s = query(l, err, "s", "SELECT state FROM node WHERE name = ?1", node);
    if (!s) return -1;
    int state = -1, rc = sqlite3_step(s);
    const char *name = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    if (name) state = hm_node_state_named(name);
    bool failed = rc == SQLITE_ROW ? !name : rc != SQLITE_DONE;
    if (failed) fail_sql(l, err);
    sqlite3_finalize(s);
    if (failed) return -1;
    if (state < 0) return hm_fail(err, HM_ERR_ARGUMENT, "%s: no node '%s'; see 'hindmost node list'", l->path, node);
    return state;
}

/* Entries into out within the window that ends at `time_s`, since the hardware was last replaced. */
static int strikes(struct hm_ledger *l, const char *node, double time_s, double *count, struct hm_error *err) {
    return number_of(l,
                     query(l, err, "sd",
                           "SELECT count(*) FROM step, node WHERE node = ?1 AND name = node AND from_state = 'draining'"
                           " AND to_state = 'out' AND time > ?2 AND id > replaced",
                           node, time_s - l->policy.strike_window_s),
                     count, err);
}

static int write_step(struct hm_ledger *l, const struct hm_node_change *c, enum hm_node_state from,
                      enum hm_node_state to, const char *why, struct hm_error *err) {
    if (done(
            l,
            query(l, err, "sdsssss",
                  "INSERT INTO step(node, time, from_state, to_state, who, why, evidence) VALUES(?1,?2,?3,?4,?5,?6,?7)",
                  c->node, c->time_s, state_names[from], state_names[to], c->who, why, c->evidence),
            err) != 0)
        return -1;
    if (c->replaced &&
        done(l, query(l, err, "s", "UPDATE node SET replaced = (SELECT max(id) FROM step) WHERE name = ?1", c->node),
             err) != 0)
        return -1;
    return done(l,
                query(l, err, "sdss", "UPDATE node SET state = ?1, since = ?2, why = ?3 WHERE name = ?4",
                      state_names[to], c->time_s, why, c->node),
                err);
}

/* One step inside a transaction; the state reached, or -1. */
static int change(struct hm_ledger *l, const struct hm_node_change *c, const struct hm_ledger_run *run,
                  struct hm_error *err) {
    int from = state_of(l, c->node, err);
    if (from < 0) return -1;
    enum hm_node_state to = c->to;
    char why[600];
    snprintf(why, sizeof why, "%s", c->why);
    if (!allowed((enum hm_node_state)from, to, c->replaced))
        return hm_fail(err, HM_ERR_ARGUMENT, "%s: %s is %s: it cannot become %s; see docs/node.md", l->path, c->node,
                       state_names[from], state_names[to]);
    if (from == HM_NODE_SUSPECT && to == HM_NODE_HEALTHY && !c->evidence)
        return hm_fail(err, HM_ERR_ARGUMENT, "%s: %s is suspect: only evidence clears it; give some", l->path, c->node);
    double held = 0;
    if (!c->person &&
        number_of(l, query(l, err, "s", "SELECT hold IS NOT NULL FROM node WHERE name = ?1", c->node), &held, err) != 0)
        return -1;
    if (held > 0) return hm_fail(err, HM_ERR_ARGUMENT, "%s: %s is on hold: only a person moves it", l->path, c->node);
    if (!away((enum hm_node_state)from) && away(to)) {
        int may = cap_allows(l, err);
        if (may < 0) return -1;
        if (!may)
            return hm_fail(err, HM_ERR_ARGUMENT,
                           "%s: %s stays %s: the cap on nodes out at once is reached; return "
                           "others first or raise the policy's cap",
                           l->path, c->node, state_names[from]);
    }
    double entries = 0;
    if (from == HM_NODE_DRAINING && to == HM_NODE_OUT) {
        if (strikes(l, c->node, c->time_s, &entries, err) != 0) return -1;
        if (entries + 1 >= (double)l->policy.strikes) {
            to = HM_NODE_RETIRED;
            snprintf(why, sizeof why, "entry %.0f within %g days: %s", entries + 1, l->policy.strike_window_s / 86400,
                     c->why);
        }
    }
    if (write_step(l, c, (enum hm_node_state)from, to, why, err) != 0) return -1;
    tell(run, c->node, "%s -> %s: %s", state_names[from], state_names[to], why);
    return (int)to;
}

static int check_words(const char *who, const char *why, double time_s, struct hm_error *err) {
    if (!who || !*who || !why || !*why)
        return hm_fail(err, HM_ERR_ARGUMENT, "a step needs who and why; the ledger keeps both");
    if (!isfinite(time_s)) return hm_fail(err, HM_ERR_ARGUMENT, "a step needs a time");
    return 0;
}

int hm_ledger_change(struct hm_ledger *l, const struct hm_node_change *c, const struct hm_ledger_run *run,
                     struct hm_error *err) {
    if (check_words(c->who, c->why, c->time_s, err) != 0 || begin(l, err) != 0) return -1;
    return end(l, change(l, c, run, err), run && run->dry_run, err);
}

/* Names go to scontrol and kubectl: one that is an option, a list ("n[1-9]", "a,b") or Slurm's word for all nodes would move
 * others than itself. */
static int check_name(const char *node, struct hm_error *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:";
    size_t good = strspn(node, letters);
    if (good > 0 && good <= 253 && !node[good] && *node != '-' && strcasecmp(node, "all") != 0) return 0;
    return hm_fail(
        err, HM_ERR_INPUT,
        "a node's name is letters, digits and ._-:, not first -, not ALL; what was given (%zu bytes) is none",
        strlen(node));
}

static int add(struct hm_ledger *l, const char *node, const char *class_name, bool untested, const char *who,
               double time_s, struct hm_error *err) {
    double known;
    const char *state = untested ? "out" : "healthy";
    if (check_name(node, err) != 0) return -1;
    if (number_of(l, query(l, err, "s", "SELECT count(*) FROM node WHERE name = ?1", node), &known, err) != 0)
        return -1;
    if (known > 0)
        return !class_name || !*class_name
                   ? 0
                   : done(l, query(l, err, "ss", "UPDATE node SET class = ?1 WHERE name = ?2", class_name, node), err);
    if (done(l,
             query(l, err, "sssds", "INSERT INTO node(name, class, state, since, why) VALUES(?1,?2,?3,?4,?5)", node,
                   class_name ? class_name : "", state, time_s, untested ? "new: has yet to prove itself" : "added"),
             err) != 0)
        return -1;
    return done(l,
                query(l, err, "sdss",
                      "INSERT INTO step(node, time, from_state, to_state, who, why) VALUES(?1,?2,'',?3,?4,'added')",
                      node, time_s, state, who),
                err);
}

int hm_ledger_add(struct hm_ledger *l, const char *node, const char *class_name, bool untested, const char *who,
                  double time_s, struct hm_error *err) {
    if (!node || !*node) return hm_fail(err, HM_ERR_ARGUMENT, "a node needs a name");
    if (check_words(who, "added", time_s, err) != 0 || begin(l, err) != 0) return -1;
    return end(l, add(l, node, class_name, untested, who, time_s, err), false, err);
}

/* A note in the history: the state stays. */
static int note(struct hm_ledger *l, const char *node, const char *who, const char *why, double time_s,
                struct hm_error *err) {
    return done(l,
                query(l, err, "sdss",
                      "INSERT INTO step(node, time, from_state, to_state, who, why) SELECT name, ?2, state, state, ?3, "
                      "?4 FROM node WHERE name = ?1",
                      node, time_s, who, why),
                err);
}

int hm_ledger_hold(struct hm_ledger *l, const char *node, const char *who, const char *why, double time_s,
                   struct hm_error *err) {
    char text[600];
    snprintf(text, sizeof text, why ? "hold: %s" : "hold taken away", why);
    if (check_words(who, text, time_s, err) != 0 || begin(l, err) != 0) return -1;
    int status = state_of(l, node, err) < 0 ? -1 : 0;
    if (status == 0) status = done(l, query(l, err, "ss", "UPDATE node SET hold = ?1 WHERE name = ?2", why, node), err);
    if (status == 0) status = note(l, node, who, text, time_s, err);
    return end(l, status, false, err);
}

int hm_ledger_except(struct hm_ledger *l, const char *node, const char *kind, const char *who, const char *why,
                     double time_s, struct hm_error *err) {
    char text[600];
    snprintf(text, sizeof text, "exception for %s%s%s", kind, why ? ": " : " taken away", why ? why : "");
    if (check_words(who, text, time_s, err) != 0 || begin(l, err) != 0) return -1;
    int status = state_of(l, node, err) < 0 ? -1 : 0;
    if (status == 0 && why)
        status = done(l,
                      query(l, err, "ssssd", "INSERT OR REPLACE INTO exception VALUES(?1,?2,?3,?4,?5)", node, kind, who,
                            why, time_s),
                      err);
    else if (status == 0)
        status = done(l, query(l, err, "ss", "DELETE FROM exception WHERE node = ?1 AND kind = ?2", node, kind), err);
    if (status == 0) status = note(l, node, who, text, time_s, err);
    return end(l, status, false, err);
}

/* ---- claims ---- */

static bool is_gone(const char *host, const char *here, long pid) {
    return strcmp(host, here) == 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static int claim(struct hm_ledger *l, const char *node, double seconds, struct hm_error *err) {
    char here[256] = "";
    double now = (double)time(NULL);
    gethostname(here, sizeof here - 1);
    sqlite3_stmt *s = query(l, err, "s", "SELECT host, pid, until FROM claim WHERE node = ?1", node);
    if (!s) return -1;
    int rc = sqlite3_step(s);
    bool taken = rc == SQLITE_ROW && sqlite3_column_double(s, 2) > now &&
                 !is_gone((const char *)sqlite3_column_text(s, 0), here, (long)sqlite3_column_int64(s, 1));
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) fail_sql(l, err);
    sqlite3_finalize(s);
    if (taken) return 0;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return -1;
    return done(l,
                query(l, err, "ssdd",
                      "INSERT OR REPLACE INTO claim(node, host, pid, until) VALUES(?1, ?2, CAST(?3 AS INTEGER), ?4)",
                      node, here, (double)getpid(), now + seconds),
                err) == 0
               ? 1
               : -1;
}

int hm_ledger_claim(struct hm_ledger *l, const char *node, double seconds, struct hm_error *err) {
    if (begin(l, err) != 0) return -1;
    return end(l, claim(l, node, seconds, err), false, err);
}

/* A claim that cannot be given back ends with its time. */
void hm_ledger_release(struct hm_ledger *l, const char *node) {
    char here[256] = "";
    gethostname(here, sizeof here - 1);
    (void)done(l,
               query(l, NULL, "ssd", "DELETE FROM claim WHERE node = ?1 AND host = ?2 AND pid = CAST(?3 AS INTEGER)",
                     node, here, (double)getpid()),
               NULL);
}

/* ---- evidence ---- */

/* What the policy makes of one piece of evidence that was just recorded. */
static int act(struct hm_ledger *l, const struct hm_node_evidence *e, const char *id, const struct hm_ledger_run *run,
               struct hm_error *err) {
    const struct hm_policy_rule *rule = hm_policy_rule(&l->policy, e->kind);
    double count, held, excepted;
    int state = state_of(l, e->node, err);
    if (state < 0) return -1;
    if (!rule || rule->action == HM_ACT_RECORD) {
        tell(run, e->node, "%s recorded", e->kind);
        return 0;
    }
    if (number_of(l,
                  query(l, err, "ssd", "SELECT count(*) FROM evidence WHERE node = ?1 AND kind GLOB ?2 AND time > ?3",
                        e->node, rule->kind, rule->within_s > 0 ? e->time_s - rule->within_s : -1e18),
                  &count, err) != 0 ||
        number_of(l, query(l, err, "s", "SELECT hold IS NOT NULL FROM node WHERE name = ?1", e->node), &held, err) !=
            0 ||
        number_of(
            l, query(l, err, "ss", "SELECT count(*) FROM exception WHERE node = ?1 AND ?2 GLOB kind", e->node, e->kind),
            &excepted, err) != 0)
        return -1;
    struct hm_node_change c = {.node = e->node, .who = e->source, .evidence = id, .time_s = e->time_s};
    char why[500];
    snprintf(why, sizeof why, "%s%s%s", e->kind, e->detail ? ": " : "", e->detail ? e->detail : "");
    if (excepted > 0 || held > 0) {
        tell(run, e->node, "%s recorded: %s", e->kind, held > 0 ? "the node is on hold" : "excepted for this node");
        return 0;
    }
    /* In the pool: it may leave. Out of it already: evidence alone changes nothing, the sweep will. */
    if (state != HM_NODE_HEALTHY && state != HM_NODE_SUSPECT && state != HM_NODE_QUALIFIED) {
        tell(run, e->node, "%s recorded: the node is %s already", e->kind, state_names[state]);
        return 0;
    }
    bool enough = count >= (double)rule->count;
    int may = rule->action == HM_ACT_DRAIN && enough ? state == HM_NODE_QUALIFIED ? 1 : cap_allows(l, err) : 0;
    if (may < 0) return -1;
    if (!may && rule->action == HM_ACT_DRAIN && enough)
        snprintf(why, sizeof why, "%s: would drain, but the cap on nodes out at once is reached", e->kind);
    else if (!enough)
        snprintf(why, sizeof why, "%s: %.0f of %ld within %g s", e->kind, count, rule->count, rule->within_s);
    c.why = why;
    c.to = HM_NODE_SUSPECT;
    if (state != HM_NODE_SUSPECT)
        state = change(l, &c, run, err);
    else if (!may)
        tell(run, e->node, "stays suspect: %s", why);
    if (state < 0 || !may) return state < 0 ? -1 : 0;
    c.to = HM_NODE_DRAINING;
    return change(l, &c, run, err) < 0 ? -1 : 0;
}

/* The name under which the ledger knows a node: logs say "gpu-7.cluster.example" where a scheduler says "gpu-7", and the other way round. The
 * name itself if it is known, or if no single other fits. */
static int resolve(struct hm_ledger *l, const char *given, char name[256], struct hm_error *err) {
    snprintf(name, 256, "%s", given);
    sqlite3_stmt *s = query(l, err, "s",
                            "SELECT name FROM node WHERE name = ?1 OR name GLOB ?1 || '.*' OR ?1 GLOB name || '.*' "
                            "ORDER BY name <> ?1 LIMIT 2",
                            given);
    if (!s) return -1;
    int rc = sqlite3_step(s);
    const char *first = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    char found[256] = "";
    if (first) snprintf(found, sizeof found, "%s", first);
    bool known = strcmp(found, given) == 0;
    if (rc == SQLITE_ROW && !known) rc = sqlite3_step(s) == SQLITE_DONE ? SQLITE_DONE : SQLITE_ROW;
    if (rc == SQLITE_DONE && *found) snprintf(name, 256, "%s", found);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) fail_sql(l, err);
    sqlite3_finalize(s);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : -1;
}

/* Whether a dated event is in the ledger already: 1, 0, or -1. Kernel lines of one GPU and code within 5 s are one event (Delta), whichever log
 * they come from. */
static int recorded(struct hm_ledger *l, const struct hm_node_evidence *e, struct hm_error *err) {
    double same_s = strcmp(e->source, "kernel") == 0 ? 5 : 1e-3, count;
    if (!e->dated) return 0;
    if (number_of(
            l,
            query(
                l, err, "sssddss",
                "SELECT count(*) FROM evidence WHERE node = ?1 AND kind = ?2 AND subject IS ?3 AND time BETWEEN ?4 AND "
                "?5 AND source = ?6 AND (?6 = 'kernel' OR detail IS ?7)",
                e->node, e->kind, e->subject, e->time_s - same_s, e->time_s + same_s, e->source, e->detail),
            &count, err) != 0)
        return -1;
    return count > 0;
}

static int record(struct hm_ledger *l, const struct hm_node_evidence *given, const struct hm_ledger_run *run,
                  struct hm_error *err) {
    char id[32], name[256];
    struct hm_node_evidence known = *given;
    const struct hm_node_evidence *e = &known;
    if (!e->node || !*e->node || !e->kind || !*e->kind)
        return hm_fail(err, HM_ERR_INPUT, "evidence without node or kind; name both");
    if (check_words(e->source, e->kind, e->time_s, err) != 0 || check_name(e->node, err) != 0 ||
        resolve(l, e->node, name, err) != 0)
        return -1;
    known.node = name;
    int again = recorded(l, e, err);
    if (again < 0) return -1;
    if (again) {
        tell(run, e->node, "%s%s%s: the same event is recorded already", e->kind, e->subject ? ", " : "",
             e->subject ? e->subject : "");
        return 0;
    }
    if (add(l, e->node, e->class_name, false, e->source, e->time_s, err) != 0 ||
        done(l,
             query(l, err, "sdssss",
                   "INSERT INTO evidence(node, time, source, kind, detail, subject) VALUES(?1,?2,?3,?4,?5,?6)", e->node,
                   e->time_s, e->source, e->kind, e->detail, e->subject),
             err) != 0)
        return -1;
    snprintf(id, sizeof id, "evidence %lld", (long long)sqlite3_last_insert_rowid(l->db));
    return act(l, e, id, run, err);
}

int hm_ledger_evidence(struct hm_ledger *l, const struct hm_node_evidence *evidence, size_t n,
                       const struct hm_ledger_run *run, struct hm_error *err) {
    if (begin(l, err) != 0) return -1;
    int status = 0;
    for (size_t i = 0; status == 0 && i < n; i++) status = record(l, &evidence[i], run, err);
    return end(l, status, run && run->dry_run, err);
}

/* ---- reading ---- */

int hm_ledger_list(struct hm_ledger *l, const char *node, void (*row)(void *, const struct hm_node_row *),
                   void *context, struct hm_error *err) {
    sqlite3_stmt *s = query(l, err, "s",
                            "SELECT name, class, state, since, why, hold FROM node WHERE ?1 IS NULL OR name = ?1 "
                            "ORDER BY name",
                            node);
    if (!s) return -1;
    int rc, rows = 0;
    for (; (rc = sqlite3_step(s)) == SQLITE_ROW; rows++) {
        bool whole = true; /* SQLite turns text over when it is asked for, and may lack the memory */
        struct hm_node_row r = {.node = (const char *)sqlite3_column_text(s, 0),
                                .class_name = (const char *)sqlite3_column_text(s, 1),
                                .why = (const char *)sqlite3_column_text(s, 4),
                                .hold = (const char *)sqlite3_column_text(s, 5),
                                .since_s = sqlite3_column_double(s, 3)};
        const char *state_name = (const char *)sqlite3_column_text(s, 2);
        for (int i = 0; i < 5; i++) whole = whole && (i == 3 || sqlite3_column_text(s, i));
        if (!whole) {
            rc = SQLITE_NOMEM;
            break;
        }
        int state = hm_node_state_named(state_name);
        r.state = state < 0 ? HM_NODE_OUT : (enum hm_node_state)state;
        row(context, &r);
    }
    sqlite3_finalize(s);
    if (rc != SQLITE_DONE) return fail_sql(l, err);
    if (node && rows == 0)
        return hm_fail(err, HM_ERR_ARGUMENT, "%s: no node '%s'; see 'hindmost node list'", l->path, node);
    return 0;
}

int hm_ledger_query_json(struct hm_ledger *l, const char *name, const char *sql, const char *node, struct hm_json *w,
                         struct hm_error *err) {
    sqlite3_stmt *s = query(l, err, "s", sql, node);
    if (!s) return -1;
    int rc;
    hm_json_array(w, name);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        hm_json_object(w, NULL);
        for (int i = 0; i < sqlite3_column_count(s); i++) {
            const char *key = sqlite3_column_name(s, i);
            if (sqlite3_column_type(s, i) == SQLITE_FLOAT)
                hm_json_number(w, key, sqlite3_column_double(s, i));
            else if (sqlite3_column_type(s, i) == SQLITE_INTEGER)
                hm_json_integer(w, key, sqlite3_column_int64(s, i));
            else
                hm_json_string(w, key, (const char *)sqlite3_column_text(s, i));
        }
        hm_json_end_object(w);
    }
    hm_json_end_array(w);
    sqlite3_finalize(s);
    return rc == SQLITE_DONE ? 0 : fail_sql(l, err);
}
