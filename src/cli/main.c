/* main.c - finds the subcommand and runs it; help and version. */
#include "cli.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int help(int argc, char **argv);

static const struct command help_command = {
    .name = "help", .run = help, .summary = "help on a subcommand", .help = "usage: hindmost help [SUBCOMMAND]\n"};

const struct command *command_named(const char *name) {
    if (strcmp(name, "help") == 0) return &help_command;
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0) return c;
    return NULL;
}

static void print_overview(void) {
    printf("usage: hindmost SUBCOMMAND [options] INPUT...\n\n"
           "Finds who is slow in a training job, what it costs, and what to do about it.\n\n");
    for (const struct command *c = commands; c->name; c++) {
        char line[200];
        (void)snprintf(line, sizeof line, "  %-10s %s\n", c->name, c->summary);
        (void)print_text(line);
    }
    (void)print_text(
        "\n  hindmost help SUBCOMMAND   options of a subcommand\n  hindmost --version         the version\n\n"
        "Exit status: 0 done; 1 warning, 2 critical where asked to judge; 3 the input is unusable or the tool "
        "failed.\n");
}

static int help(int argc, char **argv) {
    if (argc < 2) {
        print_overview();
        return EXIT_DONE;
    }
    const struct command *c = command_named(argv[1]);
    if (!c) return complain_text("%s: no such subcommand; see 'hindmost help'", argv[1]);
    print_help(c);
    return EXIT_DONE;
}

/* Ctrl-C, or a reader that has gone: nothing half-written stays, and the shell sees that a signal ended us. */
static void die(int signal_number) {
    hm_out_abandon_all();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

int main(int argc, char **argv) {
    (void)setlocale(LC_CTYPE, "");  /* numbers stay as they are in C */
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error with a line, not the end */
    static const int deadly[] = {SIGINT,  SIGTERM,   SIGHUP,  SIGQUIT, SIGPIPE,
                                 SIGALRM, SIGVTALRM, SIGXCPU, SIGUSR1, SIGUSR2};
    for (size_t k = 0; k < sizeof deadly / sizeof deadly[0]; k++) {
        struct sigaction action = {.sa_handler = die};
        sigaction(deadly[k], &action, NULL);
    }
    if (argc < 2) {
        return complain_text("give a subcommand; usage: hindmost SUBCOMMAND [options] INPUT..., see 'hindmost help'");
    }
    int status;
    const struct command *c;
    bool subcommand = command_named(argv[1]) != NULL;
    if (strcmp(argv[subcommand && argc > 2 ? 2 : 1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("hindmost %s\n", hm_version());
        status = EXIT_DONE;
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_overview();
        status = EXIT_DONE;
    } else if ((c = command_named(argv[1])) != NULL) {
        status = c->run(argc - 1, argv + 1);
    } else {
        status = complain_text("%s: no such subcommand; see 'hindmost help'", argv[1]);
    }
    progress_clear();
    return output_status(status);
}
