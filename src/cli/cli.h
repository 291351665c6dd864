/* cli.h - what the subcommands share: the table they stand in, option parsing, messages. The command line uses the
 * public API only. */
#ifndef HM_CLI_H
#define HM_CLI_H

#include "hindmost/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit status: 0 done; 1 warning and 2 critical where asked to judge; 3 the tool failed or the input is unusable. */
enum { EXIT_DONE = 0, EXIT_WARN = 1, EXIT_CRITICAL = 2, EXIT_UNUSABLE = 3 };

struct usage;
struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
    const char *summary;               /* one line for `hindmost help` */
    const char *help;                  /* usage and options, for `hindmost help NAME` and --help */
    const struct usage *usage;         /* instead of `help`: a table of options */
};
extern const struct command commands[];                /* ends with a NULL name */
const struct command *command_named(const char *name); /* NULL: none */

int analyze_main(int argc, char **argv);
extern const struct usage analyze_usage;
int fleet_main(int argc, char **argv);
extern const struct usage fleet_usage;
int whatif_main(int argc, char **argv);
extern const struct usage whatif_usage;
int hang_main(int argc, char **argv);
extern const char hang_help[];
int tor_main(int argc, char **argv);
extern const char tor_help[];
int synth_main(int argc, char **argv);
extern const struct usage synth_usage;
int node_main(int argc, char **argv);
extern const char node_help[];
int sweep_main(int argc, char **argv);
extern const char sweep_help[];
int convert_main(int argc, char **argv);
extern const struct usage convert_usage;
int ring_main(int argc, char **argv);
extern const char ring_help[];

/* ---- tables of options ----
 * An option of a subcommand is a row: how it is called, what it does, and which field of the subcommand's own struct takes its value. The
 * help is made from the rows. */
enum option_kind {
    OPTION_FLAG,    /* bool: true */
    OPTION_TEXT,    /* const char * */
    OPTION_OUTPUT,  /* likewise, a file to write: looked at before any work begins */
    OPTION_TEXTS,   /* struct texts: repeatable */
    OPTION_INTEGER, /* int, within least and most */
    OPTION_UINT32,  /* likewise */
    OPTION_UINT64,  /* likewise */
    OPTION_NUMBER,  /* double, within least and most */
    OPTION_BYTES,   /* uint64_t: "2G", "512M", "1.5GiB" in powers of 1024 */
    OPTION_TAKE     /* `take` takes it; the offset is its business */
};
struct texts {
    const char **text; /* room for argc, made by the subcommand */
    size_t n;
};
struct option {
    const char *name;  /* without the dashes; NULL ends the table */
    char letter;       /* 0: none */
    const char *value; /* what the help calls its value; NULL for flags */
    const char *help;  /* one line; more are separated by \n */
    enum option_kind kind;
    size_t offset; /* of the field in the subcommand's struct */
    double least, most;
    bool (*take)(void *request, const char *value); /* false after printing what is wrong */
};
/* clang-format off: a brace that the formatter cannot place */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type and a field are no expressions */
/* Most subcommands have these. */
#define OPTION_THREADS(type, field)                                                                                    \
    { "threads", 'j', "N", "threads (default: all cores)", OPTION_INTEGER, offsetof(type, field), 1, 256, NULL }
/* What all that read a trace have; `open` is the struct's hm_trace_options. */
#define OPTIONS_OF_TRACE(type, open)                                                                                   \
    {"meta",      'm',                                                                                                 \
     "FILE.yaml", "layout of the job (default: inferred from the trace)",                                              \
     OPTION_TEXT, offsetof(type, open.metadata),                                                                       \
     0,           0,                                                                                                   \
     NULL},                                                                                                            \
        {"format", 0, "NAME", "of the trace (default: its content decides)", OPTION_TEXT, offsetof(type, open.format), \
         0,        0, NULL},                                                                                           \
    {                                                                                                                  \
        "steps", 0, "12,20-23", "only these steps", OPTION_TEXT, offsetof(type, open.steps), 0, 0, NULL                \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */
#define TRACE_ARGUMENT                                                                                                 \
    "TRACE\ta recording: one file or several, a folder, a pattern, or - (standard input); formats: docs/inputs.md\n"
struct usage {
    const char *synopsis, *what, *arguments; /* arguments: lines "NAME\texplanation" */
    const struct option *options;
    const char *more; /* behind the options; NULL: nothing */
};
/* Fills the request from the command line; argv[1 .. *inputs] are then the positional arguments. EXIT_DONE; -1 after printing the help or
 * the version; EXIT_UNUSABLE after printing what is wrong. */
int options_read(const struct command *command, void *request, int argc, char **argv, int *inputs);
void print_help(const struct command *command);

/* ---- options, one by one ----
 * Options may stand anywhere; "--" ends them. Long ones take "--name value" or "--name=value". One that holds a value is given once,
 * unless it REPEATS; the file of one that WRITES is looked at before any work begins. */
enum { TAKES_VALUE = 1, REPEATS = TAKES_VALUE | 2, WRITES = TAKES_VALUE | 4 };
struct option_spec {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    int takes;        /* false, true (a value), REPEATS, WRITES */
    int id;           /* what options_next returns */
};
struct options {
    int argc, next, inputs; /* argv[1 .. inputs] are the positional arguments once options_next returned 0 */
    char **argv;
    const struct command *command;
    const struct option_spec *specs;
    const char *value; /* of the option just returned */
    bool ended;
    uint64_t seen; /* bit k: specs[k] was given */
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

/* ---- printing ----
 * What goes to standard output goes through here: where the locale knows no UTF-8, only ASCII leaves; and that standard output is full
 * is said once, at the end (output_status). */
/* Writes a text of ours or of the library, which is fit for a terminal, broken to its width; EXIT_DONE. */
int print_text(const char *text);
/* The same for a text that would be hard to read when broken, or is read by programs. */
void print_table(const char *text);
/* printf for people: what %s brings cannot act on a terminal (hm_text_format). Returns the bytes printed. */
int print(const char *format, ...) HM_PRINTF(1, 2);
/* A plain printf would pass names on as inputs have them: in this folder the word means print. */
#undef printf
#define printf print
/* `status`, or EXIT_UNUSABLE, having said so, if standard output could not take all of it. */
int output_status(int status);

/* Whether output to `stream` may use colour: a terminal, no NO_COLOR, and --color does not say otherwise. */
bool use_color(FILE *stream);
/* Columns to fill: $COLUMNS, else those of the terminal behind standard output, else 80. */
int terminal_width(void);
/* A progress bar on stderr for work over a second, if stderr is a terminal. Give it as hm_progress_fn with NULL
 * context. It never asks to stop: main's signal handler ends the program. */
int progress_bar(void *context, const char *what, double done, double total);
void progress_clear(void);

#endif
