/* cli.c - option parsing, messages and the progress bar of all subcommands. */
#include "cli.h"

#include <errno.h>
#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const char *color_mode = "auto"; /* --color, of whatever subcommand */

/* Whether the locale (LC_ALL, LC_CTYPE, LANG) shows more than ASCII; main set it. */
static bool knows_utf8(void) {
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void options_begin(struct options *o, const struct command *command, const struct option_spec *specs, int argc,
                   char **argv) {
    *o = (struct options){.argc = argc, .next = 1, .argv = argv, .command = command, .specs = specs};
}

static int bad_option(const struct options *o, const char *option, const char *why) {
    complain_text("%s: %s; see 'hindmost help %s'", option, why, o->command->name);
    return OPTION_BAD;
}

static int take_value(struct options *o, const char *option, const char *inline_value, const struct option_spec *s) {
    struct hm_error err = {0};
    uint64_t bit = UINT64_C(1) << (s - o->specs);
    o->value = NULL;
    if (!s->takes) return inline_value ? bad_option(o, option, "takes no value") : s->id;
    if (inline_value)
        o->value = inline_value;
    else if (o->next < o->argc)
        o->value = o->argv[o->next++];
    else
        return bad_option(o, option, "needs a value");
    if ((o->seen & bit) && (s->takes & REPEATS) != REPEATS) {
        complain_text("--%s is given twice, the second time as %s; it holds one value: give it once", s->name,
                      o->value);
        return OPTION_BAD;
    }
    o->seen |= bit;
    if ((s->takes & WRITES) == WRITES && hm_out_check(o->value, &err) != 0) {
        complain(&err);
        return OPTION_BAD;
    }
    return s->id;
}

static int long_option(struct options *o, const char *arg) {
    const char *name = arg + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    if (length == 4 && strncmp(name, "help", 4) == 0) {
        print_help(o->command);
        return OPTION_HELP;
    }
    if (length == 7 && strncmp(name, "version", 7) == 0) {
        printf("hindmost %s\n", hm_version());
        return OPTION_HELP;
    }
    if (length == 5 && strncmp(name, "color", 5) == 0) {
        color_mode = equals ? equals + 1 : "always";
        if (strcmp(color_mode, "always") != 0 && strcmp(color_mode, "never") != 0 && strcmp(color_mode, "auto") != 0)
            return bad_option(o, arg, "is not always, never or auto");
        return options_next(o);
    }
    for (const struct option_spec *s = o->specs; s->name; s++)
        if (strlen(s->name) == length && strncmp(s->name, name, length) == 0)
            return take_value(o, arg, equals ? equals + 1 : NULL, s);
    return bad_option(o, arg, "no such option");
}

int options_next(struct options *o) {
    while (o->next < o->argc) {
        char *arg = o->argv[o->next++];
        if (!o->ended && strcmp(arg, "--") == 0) {
            o->ended = true;
        } else if (o->ended || arg[0] != '-' || arg[1] == 0) {
            o->argv[++o->inputs] = arg; /* never overtakes next: the positional arguments gather at the front */
        } else if (arg[1] == '-') {
            return long_option(o, arg);
        } else {
            for (const struct option_spec *s = o->specs; s->name; s++)
                if (s->letter && s->letter == arg[1]) return take_value(o, arg, arg[2] ? arg + 2 : NULL, s);
            if (arg[1] == 'h' && arg[2] == 0) {
                print_help(o->command);
                return OPTION_HELP;
            }
            return bad_option(o, arg, "no such option");
        }
    }
    return OPTION_END;
}

bool option_integer(const struct options *o, const char *name, long min, long max, long *value) {
    char *end;
    errno = 0;
    long parsed = strtol(o->value, &end, 10);
    if (errno || end == o->value || *end || parsed < min || parsed > max) {
        complain_text("%s %s: needs a whole number from %ld to %ld", name, o->value, min, max);
        return false;
    }
    *value = parsed;
    return true;
}

bool option_number(const struct options *o, const char *name, double min, double max, double *value) {
    char *end;
    double parsed = strtod(o->value, &end);
    if (end == o->value || *end || !isfinite(parsed) || parsed < min || parsed > max) {
        complain_text("%s %s: needs a number from %g to %g", name, o->value, min, max);
        return false;
    }
    *value = parsed;
    return true;
}

bool option_bytes(const struct options *o, const char *name, uint64_t *bytes) {
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(o->value, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        for (int k = 0; k <= unit - units; k++) value *= 1024;
        end++;
        if (strcmp(end, "iB") == 0 || strcmp(end, "B") == 0) end += strlen(end);
    }
    if (end == o->value || *end || !isfinite(value) || value < 1 || value > 1e18) {
        complain_text("%s %s: needs a size such as 512M or 2G", name, o->value);
        return false;
    }
    *bytes = (uint64_t)value;
    return true;
}

int complain(const struct hm_error *err) {
    return complain_text("%s", err->message[0] ? err->message : "failed for an unknown reason");
}

static bool complained;

int complain_text(const char *format, ...) {
    progress_clear();
    complained = true;
    va_list args;
    va_start(args, format);
    char *line = hm_text_format(format, args);
    va_end(args);
    if (line && !knows_utf8()) hm_text_ascii(line);
    (void)fprintf(stderr, "hindmost: %s\n", line ? line : "out of memory");
    free(line);
    return EXIT_UNUSABLE;
}

/* ---- printing ---- */

static int write_failed; /* errno of the first failure */

static void put(char *text) {
    errno = 0;
    if (!knows_utf8()) hm_text_ascii(text);
    if (fputs(text, stdout) == EOF && !write_failed) write_failed = errno ? errno : EIO;
}

int print_text(const char *text) {
    char *copy = hm_text_fold(text, terminal_width());
    if (!copy) return complain_text("out of memory");
    put(copy);
    free(copy);
    return EXIT_DONE;
}

void print_table(const char *text) {
    char *copy = strdup(text);
    if (copy) put(copy);
    if (!copy) write_failed = ENOMEM;
    free(copy);
}

int print(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = hm_text_format(format, args);
    va_end(args);
    if (text) put(text);
    if (!text && !write_failed) write_failed = ENOMEM;
    int size = text ? (int)strlen(text) : 0;
    free(text);
    return size;
}

int output_status(int status) {
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && !write_failed) write_failed = errno ? errno : EIO;
    if (!write_failed) return status;
    return complained ? EXIT_UNUSABLE
                      : complain_text("standard output: cannot write: %s; is the disk full?", strerror(write_failed));
}

bool use_color(FILE *stream) {
    if (strcmp(color_mode, "always") == 0) return true;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (strcmp(color_mode, "never") == 0 || (no_color && *no_color)) return false;
    return isatty(fileno(stream)) && !(term && strcmp(term, "dumb") == 0);
}

int terminal_width(void) {
    enum { LEAST = 40, MOST = 1000 };
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    long width = columns ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width <= 0) width = 80;
    return (int)(width < LEAST ? LEAST : width > MOST ? MOST : width);
}

static bool bar_shown;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int progress_bar(void *context, const char *what, double done, double total) {
    (void)context;
    static double began, last;
    static const char *phase;
    double now = now_s();
    if (began == 0) began = now;
    if (phase != what) {
        phase = what;
        began = now;
    }
    if (!isatty(STDERR_FILENO) || now - began < 1 || now - last < 0.1) return 0;
    last = now;
    double rate = done / (now - began);
    fprintf(stderr, "\r\033[K%s", what);
    if (total > 0) {
        int filled = (int)(24 * (done / total) + 0.5);
        if (filled > 24) filled = 24;
        fprintf(stderr, " [%.*s%*s] %3.0f %%", filled, "########################", 24 - filled, "", 100 * done / total);
        if (rate > 0) fprintf(stderr, ", %.0f s left", (total - done) / rate);
    }
    fprintf(stderr, ", %.3g M/s", rate / 1e6);
    fflush(stderr);
    bar_shown = true;
    return 0;
}

void progress_clear(void) {
    if (!bar_shown) return;
    fputs("\r\033[K", stderr);
    bar_shown = false;
}
