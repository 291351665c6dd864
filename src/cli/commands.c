/* commands.c - the table of subcommands. A new one is one file and one row. */
#include "cli.h"

#include <stddef.h>

int analyze_main(int argc, char **argv);

const struct command commands[] = {
    {"analyze", analyze_main, "what-if analysis of one job: who is slow, and what it costs", "usage: hindmost analyze TRACE\n"},
    {NULL, NULL, NULL, NULL},
};
