/* commands.c - the table of subcommands. A new one is one file and one row. */
#include "cli.h"

#include <stddef.h>

const struct command commands[] = {
    {NULL, NULL, NULL, NULL},
};
