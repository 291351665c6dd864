/* node_apply.c - `hindmost node apply`, `health` and `prolog`: the ledger's decisions carried out, and the quick look. */
#include "cli.h"
#include "hindmost/node.h"
#include "node_actions.h"

#include <string.h>

enum { O_LEDGER = 1, O_POLICY, O_SCHEDULER, O_SWEEP, O_TIMEOUT, O_DO, O_DRY, O_TAINT, O_WHO, O_FOLDER };

static const struct option_spec specs[] = {{"ledger", 'l', true, O_LEDGER},
                                           {"policy", 'p', true, O_POLICY},
                                           {"scheduler", 0, true, O_SCHEDULER},
                                           {"sweep", 0, true, O_SWEEP},
                                           {"sweep-timeout", 0, true, O_TIMEOUT},
                                           {"do", 0, false, O_DO},
                                           {"dry-run", 'n', false, O_DRY},
                                           {"taint", 0, false, O_TAINT},
                                           {"who", 0, true, O_WHO},
                                           {"folder", 0, true, O_FOLDER},
                                           {NULL, 0, false, 0}};

struct arguments {
    const char *ledger, *policy, *scheduler, *sweep, *who, *folder, *node;
    double timeout_s;
    bool dry, taint;
};

/* EXIT_DONE, the status to end with, or -1 after help. */
static int parse(struct arguments *a, int argc, char **argv) {
    struct options o;
    *a = (struct arguments){.timeout_s = 9000, .dry = true};
    options_begin(&o, command_named("node"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        const char **const texts[] = {[O_LEDGER] = &a->ledger, [O_POLICY] = &a->policy, [O_SCHEDULER] = &a->scheduler,
                                      [O_SWEEP] = &a->sweep,   [O_WHO] = &a->who,       [O_FOLDER] = &a->folder};
        if (id == OPTION_BAD) return EXIT_UNUSABLE;
        if (id == OPTION_HELP) return -1;
        if (id == O_TIMEOUT) {
            if (!option_number(&o, "--sweep-timeout", 1, 1e6, &a->timeout_s)) return EXIT_UNUSABLE;
        } else if (id == O_TAINT) {
            a->taint = true;
        } else if (id == O_DO || id == O_DRY) {
            a->dry = id == O_DRY;
        } else {
            *texts[id] = o.value;
        }
    }
    if (o.inputs > 1) return complain_text("node %s takes one node; see 'hindmost help node'", argv[0]);
    a->node = o.inputs ? argv[1] : NULL;
    return EXIT_DONE;
}

int node_apply(int argc, char **argv) {
    struct arguments a;
    struct hm_error err = {0};
    int status = parse(&a, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    struct hm_apply_options apply = {.scheduler = a.scheduler,
                                     .sweep = a.sweep,
                                     .sweep_timeout_s = a.timeout_s,
                                     .taint = a.taint,
                                     .who = a.who ? a.who : "apply",
                                     .run = {a.dry, node_print_step, &a.dry}};
    struct hm_ledger *l = hm_ledger_open(node_ledger_path(a.ledger), a.policy, &err);
    status = l && hm_apply(l, &apply, &err) == 0 ? EXIT_DONE : complain(&err);
    hm_ledger_close(l);
    return status;
}

int node_health(int argc, char **argv) {
    struct arguments a;
    struct hm_error err = {0};
    char why[400];
    int status = parse(&a, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    int sick = hm_node_health(node_ledger_path(a.ledger), a.policy, a.node, a.folder, why, &err);
    if (sick < 0) return complain(&err);
    if (sick) printf("ERROR:  hindmost:  Health check failed:  %s\n", why); /* the shape that NHC made usual */
    return sick ? EXIT_CRITICAL : EXIT_DONE;
}
