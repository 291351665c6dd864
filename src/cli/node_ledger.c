/* node_ledger.c - `hindmost node list|show|history|export|add|mark|clear|hold|except`: the ledger by hand. */
#include "cli.h"
#include "hindmost/node.h"
#include "node_actions.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    O_LEDGER = 1,
    O_POLICY,
    O_JSON,
    O_WHY,
    O_WHO,
    O_STATE,
    O_EVIDENCE,
    O_NODE,
    O_CLASS,
    O_KIND,
    O_TEXTFILE,
    O_DRY,
    O_UNTESTED,
    O_REPLACED,
    O_OFF,
    O_TIME,
    O_ZONE,
    O_BOOT,
    O_GPUS,
    O_ANALYSIS,
    O_HOSTS,
    OPTIONS
};

static const struct option_spec specs[] = {{"ledger", 'l', true, O_LEDGER},
                                           {"policy", 'p', true, O_POLICY},
                                           {"json", 0, WRITES, O_JSON},
                                           {"why", 0, true, O_WHY},
                                           {"who", 0, true, O_WHO},
                                           {"state", 0, true, O_STATE},
                                           {"evidence", 0, true, O_EVIDENCE},
                                           {"node", 0, true, O_NODE},
                                           {"class", 0, true, O_CLASS},
                                           {"kind", 0, true, O_KIND},
                                           {"textfile", 0, WRITES, O_TEXTFILE},
                                           {"dry-run", 'n', false, O_DRY},
                                           {"untested", 0, false, O_UNTESTED},
                                           {"replaced", 0, false, O_REPLACED},
                                           {"off", 0, false, O_OFF},
                                           {"time", 0, true, O_TIME},
                                           {"zone", 0, true, O_ZONE},
                                           {"boot", 0, true, O_BOOT},
                                           {"gpus", 0, true, O_GPUS},
                                           {"analysis", 0, true, O_ANALYSIS},
                                           {"hosts", 0, true, O_HOSTS},
                                           {NULL, 0, false, 0}};

/* What each action has a use for, besides --ledger and --policy. */
static const struct {
    const char *action;
    unsigned long options;
} uses[] = {
#define BIT(id) (1ul << (id))
    {"list", BIT(O_JSON)},
    {"show", BIT(O_JSON) | BIT(O_NODE)},
    {"history", BIT(O_JSON) | BIT(O_NODE)},
    {"export", BIT(O_JSON) | BIT(O_TEXTFILE)},
    {"add", BIT(O_NODE) | BIT(O_CLASS) | BIT(O_UNTESTED) | BIT(O_WHO) | BIT(O_TIME)},
    {"mark", BIT(O_NODE) | BIT(O_WHY) | BIT(O_WHO) | BIT(O_STATE) | BIT(O_EVIDENCE) | BIT(O_DRY) | BIT(O_TIME) |
                 BIT(O_ZONE) | BIT(O_BOOT) | BIT(O_GPUS) | BIT(O_ANALYSIS) | BIT(O_HOSTS)},
    {"clear", BIT(O_NODE) | BIT(O_WHY) | BIT(O_WHO) | BIT(O_REPLACED) | BIT(O_DRY) | BIT(O_TIME)},
    {"hold", BIT(O_NODE) | BIT(O_WHY) | BIT(O_WHO) | BIT(O_OFF) | BIT(O_TIME)},
    {"except", BIT(O_NODE) | BIT(O_WHY) | BIT(O_WHO) | BIT(O_OFF) | BIT(O_KIND) | BIT(O_TIME)},
};

struct arguments {
    const char *ledger, *policy, *json, *why, *who, *state, *evidence, *node, *class_name, *kind, *textfile, *zone,
        *boot, *analysis, *hosts;
    bool dry, untested, replaced, off;
    unsigned long given;
    long gpus;
    double time_s;
    const char *name; /* the positional node */
};

const char *node_ledger_path(const char *given) {
    const char *env = getenv("HINDMOST_LEDGER");
    return given ? given : env && *env ? env : "/var/lib/hindmost/nodes.db";
}

const char *node_who(const char *given) {
    const char *user = getenv("SUDO_USER");
    if (given) return given;
    if (!user) user = getenv("USER");
    return user && *user ? user : geteuid() == 0 ? "root" : "operator";
}

/* EXIT_DONE with the arguments filled, else the status to end with, or -1 after help. */
static int parse(struct arguments *a, int argc, char **argv) {
    struct options o;
    *a = (struct arguments){.time_s = (double)time(NULL)};
    options_begin(&o, command_named("node"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        const char **const texts[] = {
            [O_LEDGER] = &a->ledger,    [O_POLICY] = &a->policy, [O_JSON] = &a->json,         [O_WHY] = &a->why,
            [O_WHO] = &a->who,          [O_STATE] = &a->state,   [O_EVIDENCE] = &a->evidence, [O_NODE] = &a->node,
            [O_CLASS] = &a->class_name, [O_KIND] = &a->kind,     [O_TEXTFILE] = &a->textfile};
        if (id == OPTION_BAD) return EXIT_UNUSABLE;
        if (id == OPTION_HELP) return -1;
        a->given |= BIT(id);
        if (id <= O_TEXTFILE) *texts[id] = o.value;
        if (id == O_ZONE) a->zone = o.value;
        if (id == O_BOOT) a->boot = o.value;
        if (id == O_ANALYSIS) a->analysis = o.value;
        if (id == O_HOSTS) a->hosts = o.value;
        if (id == O_GPUS && !option_integer(&o, "--gpus", 1, 4096, &a->gpus)) return EXIT_UNUSABLE;
        if (id == O_DRY) a->dry = true;
        if (id == O_UNTESTED) a->untested = true;
        if (id == O_REPLACED) a->replaced = true;
        if (id == O_OFF) a->off = true;
        if (id == O_TIME && !option_number(&o, "--time", 0, 1e11, &a->time_s)) return EXIT_UNUSABLE;
    }
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        for (const struct option_spec *s = specs; strcmp(argv[0], uses[i].action) == 0 && s->name; s++)
            if ((a->given & BIT(s->id)) && !((uses[i].options | BIT(O_LEDGER) | BIT(O_POLICY)) & BIT(s->id)))
                return complain_text("--%s: node %s has no use for it; see 'hindmost help node'", s->name, argv[0]);
    if (o.inputs > 1)
        return complain_text("node %s takes one node, not %d; see 'hindmost help node'", argv[0], o.inputs);
    a->name = o.inputs ? argv[1] : a->node;
    return EXIT_DONE;
}

void node_print_step(void *context, const char *node, const char *step) {
    const bool *dry = context;
    printf("%s%s: %s\n", *dry ? "dry run: " : "", node, step);
}

static void print_row(void *context, const struct hm_node_row *r) {
    (void)context;
    char since[32];
    time_t t = (time_t)r->since_s;
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &tm);
    printf("%-24s %-12s %-10s %s  %s%s%s\n", r->node, r->class_name, hm_node_state_name(r->state), since, r->why,
           r->hold ? "  [hold] " : "", r->hold ? r->hold : "");
}

static int write_json(struct hm_ledger *l, const char *path, const char *node,
                      int (*write)(struct hm_ledger *, const char *, struct hm_out *, struct hm_error *),
                      struct hm_error *err) {
    struct hm_out *out = hm_out_open(path, err);
    if (!out) return -1;
    if (write(l, node, out, err) == 0) return hm_out_commit(out, err);
    hm_out_abort(out);
    return -1;
}

static int write_metrics(struct hm_ledger *l, const char *node, struct hm_out *out, struct hm_error *err) {
    (void)node;
    return hm_ledger_write_metrics(l, out, err);
}

/* Evidence of a file, or of an analysis and a table of hosts. */
static int mark_by_evidence(struct hm_ledger *l, struct arguments *a, struct hm_error *err) {
    struct hm_ledger_run run = {a->dry, node_print_step, &a->dry};
    struct hm_evidence_options o = {
        .node = a->name, .now_s = a->time_s, .boot = a->boot, .zone = a->zone, .gpus = a->gpus};
    struct hm_evidence_list *e = a->evidence ? hm_evidence_read_as(a->evidence, &o, err)
                                             : hm_evidence_of_analysis(a->analysis, a->hosts, a->time_s, err);
    if (!e) return -1;
    int status = hm_ledger_evidence(l, hm_evidence_items(e), hm_evidence_count(e), &run, err);
    if (status == 0 && hm_evidence_count(e) == 0) printf("no evidence against any node in it\n");
    if (status == 0 && hm_evidence_note(e)) fprintf(stderr, "hindmost: %s\n", hm_evidence_note(e));
    hm_evidence_free(e);
    return status;
}

static int mark(struct hm_ledger *l, struct arguments *a, struct hm_error *err) {
    struct hm_ledger_run run = {a->dry, node_print_step, &a->dry};
    const unsigned long by_file = BIT(O_ZONE) | BIT(O_BOOT) | BIT(O_GPUS);
    if ((a->analysis != NULL) != (a->hosts != NULL))
        return hm_fail(err, HM_ERR_ARGUMENT, "mark: --analysis RESULT.json and --hosts FILE go together");
    if ((a->evidence || a->analysis) && (a->state || a->why))
        return hm_fail(err, HM_ERR_ARGUMENT,
                       "mark: --state and --why are for a step by hand; evidence says why itself");
    if (a->evidence && a->analysis)
        return hm_fail(err, HM_ERR_ARGUMENT, "mark: give --evidence or --analysis, one at a time");
    if (!a->evidence && (a->given & by_file))
        return hm_fail(err, HM_ERR_ARGUMENT, "mark: --zone, --boot and --gpus are for --evidence FILE; give that too");
    if (a->analysis && a->name)
        return hm_fail(err, HM_ERR_ARGUMENT, "mark: --hosts says which nodes; leave out %s", a->name);
    if (a->evidence || a->analysis) return mark_by_evidence(l, a, err);
    int to = hm_node_state_named(a->state);
    if (!a->name) return hm_fail(err, HM_ERR_ARGUMENT, "mark: name a node, or give --evidence FILE");
    if (to < 0)
        return hm_fail(err, HM_ERR_ARGUMENT,
                       "mark: --state '%s': give suspect, draining, out, testing, qualified, "
                       "healthy or retired",
                       a->state ? a->state : "");
    if (!a->why) return hm_fail(err, HM_ERR_ARGUMENT, "mark: --why is missing; the ledger keeps reasons");
    struct hm_node_change c = {.node = a->name,
                               .who = node_who(a->who),
                               .why = a->why,
                               .evidence = "operator",
                               .to = (enum hm_node_state)to,
                               .time_s = a->time_s,
                               .person = true};
    return hm_ledger_change(l, &c, &run, err) < 0 ? -1 : 0;
}

static int clear(struct hm_ledger *l, struct arguments *a, struct hm_error *err) {
    struct hm_ledger_run run = {a->dry, node_print_step, &a->dry};
    if (!a->name || !a->why) return hm_fail(err, HM_ERR_ARGUMENT, "clear: name a node and give --why");
    struct hm_node_change c = {.node = a->name,
                               .who = node_who(a->who),
                               .why = a->why,
                               .evidence = "operator",
                               .to = a->replaced ? HM_NODE_OUT : HM_NODE_HEALTHY,
                               .time_s = a->time_s,
                               .replaced = a->replaced,
                               .person = true};
    return hm_ledger_change(l, &c, &run, err) < 0 ? -1 : 0;
}

static int act(const char *action, struct hm_ledger *l, struct arguments *a, struct hm_error *err) {
    const char *who = node_who(a->who);
    if (strcmp(action, "list") == 0 || strcmp(action, "show") == 0) {
        if (*action == 's' && !a->name) return hm_fail(err, HM_ERR_ARGUMENT, "show: name a node");
        if (a->json) return write_json(l, a->json, a->name, hm_ledger_write_list, err);
        return hm_ledger_list(l, a->name, print_row, NULL, err);
    }
    if (strcmp(action, "history") == 0)
        return write_json(l, a->json ? a->json : "-", a->name, hm_ledger_write_history, err);
    if (strcmp(action, "export") == 0) {
        if (a->json && write_json(l, a->json, NULL, hm_ledger_write_history, err) != 0) return -1;
        if (a->json && !a->textfile) return 0;
        return write_json(l, a->textfile ? a->textfile : "-", NULL, write_metrics, err);
    }
    if (strcmp(action, "mark") == 0) return mark(l, a, err);
    if (strcmp(action, "clear") == 0) return clear(l, a, err);
    if (!a->name) return hm_fail(err, HM_ERR_ARGUMENT, "%s: name a node", action);
    if (strcmp(action, "add") == 0) return hm_ledger_add(l, a->name, a->class_name, a->untested, who, a->time_s, err);
    if (!a->off && !a->why) return hm_fail(err, HM_ERR_ARGUMENT, "%s: give --why, or --off", action);
    if (strcmp(action, "hold") == 0) return hm_ledger_hold(l, a->name, who, a->off ? NULL : a->why, a->time_s, err);
    if (!a->kind) return hm_fail(err, HM_ERR_ARGUMENT, "except: give --kind KIND of evidence");
    return hm_ledger_except(l, a->name, a->kind, who, a->off ? NULL : a->why, a->time_s, err);
}

int node_ledger(int argc, char **argv) {
    struct arguments a;
    struct hm_error err = {0};
    int status = parse(&a, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    static const char *const readers[] = {"list", "show", "history", "export"};
    bool reads = false;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) reads = reads || strcmp(argv[0], readers[i]) == 0;
    const char *path = node_ledger_path(a.ledger);
    struct hm_ledger *l =
        reads ? hm_ledger_open_to_read(path, a.policy, 10, &err) : hm_ledger_open(path, a.policy, &err);
    status = l && act(argv[0], l, &a, &err) == 0 ? EXIT_DONE : complain(&err);
    hm_ledger_close(l);
    return status;
}
