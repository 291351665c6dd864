/* node_judge.c - `hindmost node judge`: verdicts on test results. */
#include "cli.h"
#include "hindmost/node.h"
#include "node_actions.h"

#include <string.h>

enum { O_BASELINE = 1, O_RULES, O_JSON, O_LEARN, O_CHECK };

static const struct option_spec specs[] = {{"baseline", 'b', true, O_BASELINE}, {"rules", 'r', true, O_RULES},
                                           {"json", 0, WRITES, O_JSON},         {"learn", 0, WRITES, O_LEARN},
                                           {"check", 0, false, O_CHECK},        {NULL, 0, false, 0}};

static void print_judgement(const struct hm_judgement *j) {
    for (size_t i = 0; i < hm_judgement_count(j); i++) {
        const struct hm_judged_node *n = hm_judgement_node(j, i);
        printf("%s: %s", n->node, hm_verdict_name(n->verdict));
        for (size_t k = 0; k < n->category_count; k++) printf("%s%s", k ? "," : " ", n->categories[k]);
        printf("\n");
        for (size_t k = 0; k < n->reason_count; k++) printf("    %s\n", n->reasons[k]);
    }
}

static int write_file(const struct hm_judgement *j, const char *path,
                      void (*write)(const struct hm_judgement *, struct hm_out *)) {
    struct hm_error err = {0};
    struct hm_out *out = hm_out_open(path, &err);
    if (out) write(j, out);
    return out && hm_out_commit(out, &err) == 0 ? EXIT_DONE : complain(&err);
}

int node_judge(int argc, char **argv) {
    struct hm_judge_options judge = {0};
    const char *json = NULL, *learn = NULL;
    bool check = false;
    struct options o;
    options_begin(&o, command_named("node"), specs, argc, argv);
    for (int id; (id = options_next(&o)) != OPTION_END;) {
        switch (id) {
        case OPTION_BAD:
            return EXIT_UNUSABLE;
        case OPTION_HELP:
            return EXIT_DONE;
        case O_BASELINE:
            judge.baseline = o.value;
            break;
        case O_RULES:
            judge.rules = o.value;
            break;
        case O_JSON:
            json = o.value;
            break;
        case O_LEARN:
            learn = o.value;
            break;
        default:
            check = true;
        }
    }
    if (o.inputs != 1) return complain_text("node judge takes one file of results; see 'hindmost help node'");
    judge.results = argv[1];
    struct hm_error err = {0};
    struct hm_judgement *j = hm_judge(&judge, &err);
    if (!j) return complain(&err);
    int status = EXIT_DONE, worst = EXIT_DONE;
    if (json) status = write_file(j, json, hm_judgement_write_json);
    if (status == EXIT_DONE && learn) status = write_file(j, learn, hm_judgement_write_baseline);
    if (!(json && strcmp(json, "-") == 0)) print_judgement(j);
    for (size_t i = 0; i < hm_judgement_count(j); i++) {
        enum hm_verdict v = hm_judgement_node(j, i)->verdict;
        int mine = v == HM_FAIL ? EXIT_CRITICAL : v == HM_PASS ? EXIT_DONE : EXIT_WARN;
        if (mine > worst) worst = mine;
    }
    hm_judgement_free(j);
    return status == EXIT_DONE && check ? worst : status;
}
