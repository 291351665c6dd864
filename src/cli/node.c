/* node.c - `hindmost node ACTION`: which action, and where it lives. */
#include "cli.h"
#include "node_actions.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} actions[] = {{"judge", node_judge}};

const char node_help[] =
    "usage: hindmost node ACTION [options]\n\n"
    "  judge RESULTS.jsonl [--baseline FILE] [--rules FILE] [--json FILE] [--learn FILE]\n"
    "        verdicts on test results (SuperBench's formats or our own); --learn writes the baselines judged by.\n"
    "        With --check the exit status is 1 for a warning, 2 for a defective node\n";

int node_main(int argc, char **argv) {
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) return print_text(node_help);
    for (size_t i = 0; argc > 1 && i < sizeof actions / sizeof *actions; i++)
        if (strcmp(argv[1], actions[i].name) == 0) return actions[i].run(argc - 1, argv + 1);
    return complain_text("node: %s; see 'hindmost help node'", argc > 1 ? "no such action" : "give an action");
}
