/* commands.c - the table of subcommands. A new one is one file and one row. */
#include "cli.h"

#include <stddef.h>

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* a row has a help or a usage */

const struct command commands[] = {
    {"analyze", analyze_main, "what-if analysis of one job: who is slow, and what it costs", .usage = &analyze_usage},
    {"whatif", whatif_main, "one replay of your own: what if these ops took that long", .usage = &whatif_usage},
    {"synth", synth_main, "make a trace of a given layout and schedule, with stragglers where you say",
     .usage = &synth_usage},
    {"convert", convert_main, "any readable trace to the op table or to a timeline", .usage = &convert_usage},
    {"fleet", fleet_main, "many jobs at once: how many straggle, waste, causes", .usage = &fleet_usage},
    {"hang", hang_main, "who did not come: the flight-recorder dumps of a job that stands still", hang_help},
    {"tor", tor_main, "Training Overhead Ratio: measure a run, plan one, simulate it", tor_help},
    {"node", node_main, "the ledger of nodes: who is fit, who is out and why; verdicts on test results", node_help},
    {"sweep", sweep_main, "test this node: is it as fast as its kind, and does it compute right", sweep_help},
    {"ring", ring_main, "print, follow or convert what a probe records inside a training job", ring_help},
    {NULL, NULL, NULL, NULL},
};
