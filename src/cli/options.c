/* options.c - tables of options: parsed into a struct, and printed as help. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 28, MOST_OPTIONS = 63 /* bits of options.seen */ };

/* ---- help ---- */

/* "NAME" in its column and the explanation beside it, or below if the name is long. */
static void add_row(FILE *to, const char *name, const char *text) {
    int width = fprintf(to, "%s", name);
    for (;;) {
        size_t n = strcspn(text, "\n");
        if (width > HELP_COLUMN - 2) {
            fputc('\n', to);
            width = 0;
        }
        fprintf(to, "%*s%.*s\n", HELP_COLUMN - width, "", (int)n, text);
        if (!text[n]) return;
        text += n + 1;
        width = 0;
    }
}

static void add_option(FILE *to, const struct option *o) {
    char name[80], letter[8] = "    ";
    if (o->letter) (void)snprintf(letter, sizeof letter, "-%c, ", o->letter);
    (void)snprintf(name, sizeof name, "  %s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
    add_row(to, name, o->help);
}

static void add_arguments(FILE *to, const char *text) {
    for (; text && *text; text += strcspn(text, "\n"), text += *text == '\n') {
        size_t n = strcspn(text, "\t");
        char name[80], help[400];
        (void)snprintf(name, sizeof name, "  %.*s", (int)n, text);
        (void)snprintf(help, sizeof help, "%.*s", (int)strcspn(text + n + 1, "\n"), text + n + 1);
        add_row(to, name, help);
        text += n;
    }
}

void print_help(const struct command *command) {
    const struct usage *u = command->usage;
    char *text = NULL;
    size_t size;
    FILE *to = u ? open_memstream(&text, &size) : NULL;
    if (!u) {
        (void)print_text(command->help);
        return;
    }
    if (to) {
        fprintf(to, "usage: hindmost %s %s\n\n%s\n", command->name, u->synopsis, u->what);
        add_arguments(to, u->arguments);
        for (const struct option *o = u->options; o->name; o++) add_option(to, o);
        add_row(to, "      --color WHEN", "always, never or auto");
        if (u->more) fprintf(to, "\n%s", u->more);
    }
    if (!to || fclose(to) != 0)
        (void)complain_text("out of memory");
    else
        (void)print_text(text);
    free(text);
}

/* ---- parsing ---- */

/* False after printing what is wrong. */
static bool take(const struct options *seen, const struct option *o, void *request) {
    char name[80];
    void *field = (char *)request + o->offset;
    long n = 0;
    (void)snprintf(name, sizeof name, "--%s", o->name);
    if (o->kind == OPTION_INTEGER || o->kind == OPTION_UINT32 || o->kind == OPTION_UINT64)
        if (!option_integer(seen, name, (long)o->least, o->most >= 9e18 ? INT64_MAX : (long)o->most, &n)) return false;
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return true;
    case OPTION_TEXT:
    case OPTION_OUTPUT:
        *(const char **)field = seen->value;
        return true;
    case OPTION_TEXTS:
        ((struct texts *)field)->text[((struct texts *)field)->n++] = seen->value;
        return true;
    case OPTION_INTEGER:
        *(int *)field = (int)n;
        return true;
    case OPTION_UINT32:
        *(uint32_t *)field = (uint32_t)n;
        return true;
    case OPTION_UINT64:
        *(uint64_t *)field = (uint64_t)n;
        return true;
    case OPTION_NUMBER:
        return option_number(seen, name, o->least, o->most, field);
    case OPTION_BYTES:
        return option_bytes(seen, name, field);
    case OPTION_TAKE:
        return o->take(request, seen->value);
    }
    return false;
}

int options_read(const struct command *command, void *request, int argc, char **argv, int *inputs) {
    struct option_spec specs[MOST_OPTIONS + 1];
    const struct option *rows = command->usage->options;
    int n = 0, id;
    for (; rows[n].name && n < MOST_OPTIONS; n++)
        specs[n] = (struct option_spec){rows[n].name, rows[n].letter,
                                        rows[n].kind == OPTION_OUTPUT  ? WRITES
                                        : rows[n].kind == OPTION_TEXTS ? REPEATS
                                                                       : rows[n].value != NULL,
                                        n + 1};
    specs[n] = (struct option_spec){0};
    struct options seen;
    options_begin(&seen, command, specs, argc, argv);
    while ((id = options_next(&seen)) != OPTION_END) {
        if (id == OPTION_HELP) return -1;
        if (id == OPTION_BAD || !take(&seen, &rows[id - 1], request)) return EXIT_UNUSABLE;
    }
    *inputs = seen.inputs;
    return EXIT_DONE;
}
