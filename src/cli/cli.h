/* cli.h - what the subcommands share: the table they stand in, option parsing, messages. The command line uses the
 * public API only. */
#ifndef HM_CLI_H
#define HM_CLI_H

#include "hindmost/base.h"

#include <stdbool.h>
#include <stdio.h>

/* Exit status: 0 done; 1 warning and 2 critical where asked to judge; 3 the tool failed or the input is unusable. */
enum { EXIT_DONE = 0, EXIT_WARN = 1, EXIT_CRITICAL = 2, EXIT_UNUSABLE = 3 };

struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
    const char *summary;               /* one line for `hindmost help` */
    const char *help;                  /* usage and options, for `hindmost help NAME` and --help */
};
extern const struct command commands[];                /* ends with a NULL name */
const struct command *command_named(const char *name); /* NULL: none */

int analyze_main(int argc, char **argv);
extern const char analyze_help[];
int fleet_main(int argc, char **argv);
extern const char fleet_help[];
int whatif_main(int argc, char **argv);
extern const char whatif_help[];
int hang_main(int argc, char **argv);
extern const char hang_help[];
int tor_main(int argc, char **argv);
extern const char tor_help[];
int synth_main(int argc, char **argv);
extern const char synth_help[];
int node_main(int argc, char **argv);
extern const char node_help[];
int sweep_main(int argc, char **argv);
extern const char sweep_help[];
int convert_main(int argc, char **argv);
extern const char convert_help[];

/* ---- options ----
 * Options may stand anywhere; "--" ends them. Long ones take "--name value" or "--name=value". */
struct option_spec {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    bool takes_value;
    int id; /* what options_next returns */
};
struct options {
    int argc, next, inputs; /* argv[1 .. inputs] are the positional arguments once options_next returned 0 */
    char **argv;
    const struct command *command;
    const struct option_spec *specs;
    const char *value; /* of the option just returned */
    bool ended;
};
enum { OPTION_END = 0, OPTION_BAD = -1, OPTION_HELP = -2 };
void options_begin(struct options *o, const struct command *command, const struct option_spec *specs, int argc,
                   char **argv);
/* The next option's id; OPTION_END when all were seen; OPTION_BAD after printing what is wrong (return EXIT_UNUSABLE);
 * OPTION_HELP after printing the help (return EXIT_DONE). */
int options_next(struct options *o);
/* Whole and real numbers with a range; false after printing what is wrong. */
bool option_integer(const struct options *o, const char *name, long min, long max, long *value);
/* "2G", "512M", "1.5GiB": bytes in powers of 1024. */
bool option_bytes(const struct options *o, const char *name, uint64_t *bytes);
bool option_number(const struct options *o, const char *name, double min, double max, double *value);

/* ---- messages ---- */
/* Prints "hindmost: MESSAGE" to stderr, returns EXIT_UNUSABLE. */
int complain(const struct hm_error *err);
int complain_text(const char *format, ...) HM_PRINTF(1, 2);
/* Writes `text` to standard output; EXIT_DONE, or EXIT_UNUSABLE if that fails. */
int print_text(const char *text);

/* Whether output to `stream` may use colour: a terminal, no NO_COLOR, and --color does not say otherwise. */
bool use_color(FILE *stream);
/* Width of the terminal behind standard output; 100 if there is none. */
int terminal_width(void);
/* A progress bar on stderr for work over a second, if stderr is a terminal. Give it as hm_progress_fn with NULL
 * context. It never asks to stop: main's signal handler ends the program. */
int progress_bar(void *context, const char *what, double done, double total);
void progress_clear(void);

#endif
