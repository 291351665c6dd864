/* node.c - `hindmost node ACTION`: which action, and where it lives. */
#include "cli.h"
#include "node_actions.h"

#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} actions[] = {{"apply", node_apply},    {"health", node_health}, {"prolog", node_health}, {"lemons", node_lemons},
               {"spares", node_spares},  {"judge", node_judge},   {"list", node_ledger},   {"show", node_ledger},
               {"history", node_ledger}, {"export", node_ledger}, {"add", node_ledger},    {"mark", node_ledger},
               {"clear", node_ledger},   {"hold", node_ledger},   {"except", node_ledger}, {"serve", node_serve}};

const char node_help[] =
    "usage: hindmost node ACTION [options]\n\n"
    "  list [--json FILE], show NODE, history [NODE] [--json FILE]\n"
    "  export [--textfile FILE.prom] [--json FILE]   Prometheus text, and the whole history\n"
    "  serve [--listen 127.0.0.1:9633] [--tls-certificate FILE --tls-key FILE]   /metrics over HTTP until it is "
    "stopped\n"
    "  add NODE [--class C] [--untested]             a new node; untested ones are out until a sweep passes\n"
    "  mark --evidence FILE|- [--node NAME]          evidence (JSON, dcgmi diag -j, kernel log); policy moves the "
    "node\n"
    "        [--zone NAME] [--boot TIME] [--gpus N]  of times that say no zone; of seconds since boot; of lists of "
    "GPUs\n"
    "  mark --analysis RESULT.json --hosts FILE      the slow workers of an analysis, on the hosts they ran on\n"
    "  mark NODE --state STATE --why TEXT            one step by hand\n"
    "  clear NODE --why TEXT [--replaced]            a suspect is healthy; with --replaced a retired node is new\n"
    "  hold NODE --why TEXT | --off                  only people move it meanwhile\n"
    "  except NODE --kind KIND --why TEXT | --off    such evidence moves it not\n"
    "        All: -l, --ledger FILE ($HINDMOST_LEDGER, /var/lib/hindmost/nodes.db), -p, --policy FILE.yaml,\n"
    "        --who NAME, --time SECONDS (mark, clear, hold, except: when it was), -n, --dry-run (mark, clear: show the "
    "steps, do nothing)\n\n"
    "  apply [--do] [--scheduler slurm|kubernetes|none] [--sweep COMMAND] [--sweep-timeout S] [--taint]\n"
    "        carry out what the ledger decided: drain, wait, sweep ({node} in COMMAND), let back. Without --do a dry "
    "run\n"
    "  health [NODE], prolog [NODE]   the quick look for HealthCheckProgram and Prolog: silent when healthy, else one\n"
    "        line and exit 2. --folder DIR must be writable (default /tmp); --gpus N is how many the driver must have. "
    "Our own\n"
    "        trouble (no ledger, a full disk) is said and exit 0; --strict makes it fail the node. Calls no "
    "scheduler\n\n"
    "  lemons FAULTS.json [--jobs FILE] [--at DAY] [--window 28] [--fleet N] [--worst K] [--json FILE]\n"
    "        nodes that fail more than their exposure explains, and what removing the K worst at DAY would have saved\n"
    "  spares --nodes N (--probability P | --failure-rate R/day --repair T) [--quantile 0.99] [--json FILE]\n\n"
    "  judge RESULTS.jsonl [--baseline FILE] [--rules FILE] [--json FILE] [--learn FILE]\n"
    "        verdicts on test results (SuperBench's formats or our own); --learn writes the baselines judged by.\n"
    "        With --check the exit status is 1 for a warning, 2 for a defective node\n";

int node_main(int argc, char **argv) {
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) return print_text(node_help);
    for (size_t i = 0; argc > 1 && i < sizeof actions / sizeof *actions; i++)
        if (strcmp(argv[1], actions[i].name) == 0) return actions[i].run(argc - 1, argv + 1);
    if (argc > 1) return complain_text("node %s: no such action; see 'hindmost help node'", argv[1]);
    return complain_text("node: give an action; see 'hindmost help node'");
}
