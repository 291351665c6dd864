/* node_apply.c - `hindmost node apply`, `health` and `prolog`: the ledger's decisions carried out, and the quick look. */
#include "cli.h"
#include "hindmost/node.h"
#include "hindmost/tor.h"
#include "node_actions.h"

#include <stdlib.h>
#include <string.h>

enum {
    O_LEDGER = 1,
    O_POLICY,
    O_SCHEDULER,
    O_SWEEP,
    O_TIMEOUT,
    O_DO,
    O_DRY,
    O_TAINT,
    O_WHO,
    O_FOLDER,
    O_STRICT,
    O_GPUS
};
#define BIT(id) (1u << (id))

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
                                           {"strict", 0, false, O_STRICT},
                                           {"gpus", 0, true, O_GPUS},
                                           {NULL, 0, false, 0}};

struct arguments {
    const char *ledger, *policy, *scheduler, *sweep, *who, *folder, *node;
    double timeout_s;
    long gpus;
    bool dry, taint, strict;
    unsigned given;
};

static const unsigned of_apply = BIT(O_LEDGER) | BIT(O_POLICY) | BIT(O_SCHEDULER) | BIT(O_SWEEP) | BIT(O_TIMEOUT) |
                                 BIT(O_DO) | BIT(O_DRY) | BIT(O_TAINT) | BIT(O_WHO),
                      of_health = BIT(O_LEDGER) | BIT(O_POLICY) | BIT(O_FOLDER) | BIT(O_STRICT) | BIT(O_GPUS);

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
        a->given |= BIT(id);
        if (id == O_TIMEOUT) {
            struct hm_error err = {0};
            char *end;
            a->timeout_s = strtod(o.value, &end); /* a number alone has always been seconds here */
            if ((end == o.value || *end) && hm_tor_parse_time(o.value, "--sweep-timeout", &a->timeout_s, &err) != 0)
                return complain(&err);
            if (!(a->timeout_s >= 1 && a->timeout_s <= 1e6))
                return complain_text("--sweep-timeout %s: give a time from 1s to 11d", o.value);
        } else if (id == O_STRICT) {
            a->strict = true;
        } else if (id == O_GPUS) {
            if (!option_integer(&o, "--gpus", 1, 4096, &a->gpus)) return EXIT_UNUSABLE;
        } else if (id == O_TAINT) {
            a->taint = true;
        } else if (id == O_DO || id == O_DRY) {
            a->dry = id == O_DRY;
        } else {
            *texts[id] = o.value;
        }
    }
    bool apply = strcmp(argv[0], "apply") == 0;
    for (const struct option_spec *s = specs; s->name; s++)
        if ((a->given & BIT(s->id)) && !((apply ? of_apply : of_health) & BIT(s->id)))
            return complain_text("--%s: node %s has no use for it; see 'hindmost help node'", s->name, argv[0]);
    if (apply && o.inputs)
        return complain_text("node apply takes no node: it goes through all; see 'hindmost help node'");
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
    char why[400], trouble[400];
    int status = parse(&a, argc, argv);
    if (status != EXIT_DONE) return status < 0 ? EXIT_DONE : status;
    struct hm_health_options o = {
        .ledger = node_ledger_path(a.ledger), .policy = a.policy, .node = a.node, .folder = a.folder, .gpus = a.gpus};
    int sick = hm_node_health(&o, why, trouble, &err);
    if (sick < 0) return complain(&err);
    /* Our own trouble is told and drains nobody, unless asked to. */
    if (*trouble) fprintf(stderr, "hindmost: %s\n", trouble);
    if (*trouble && a.strict && !sick) snprintf(why, sizeof why, "%s", trouble);
    sick = sick || (*trouble && a.strict);
    if (sick) printf("ERROR:  hindmost:  Health check failed:  %s\n", why); /* the shape that NHC made usual */
    return sick ? EXIT_CRITICAL : EXIT_DONE;
}
