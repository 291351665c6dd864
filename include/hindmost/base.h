/* hindmost/base.h - what every part of the hindmost library shares: errors, progress, output, version.
 *
 * Conventions of the whole API
 *  - Names start with hm_. Units stand in the names of doubles: _s seconds, _ns nanoseconds, _bytes, _ratio.
 *  - A function that can fail takes a `struct hm_error *` last. It returns 0 (or a non-NULL pointer) on success; on
 *    failure it returns -1 (or NULL), fills the error, and leaves nothing behind: no memory, no half-written file.
 *    The error argument may be NULL when the caller does not want the text.
 *  - What a function returns by pointer belongs to the caller, who frees it with the function that its comment names.
 *  - The library never prints, never exits and never aborts because of input.
 *  - Functions on different objects may run in different threads; one object is used by one thread at a time. */
#ifndef HINDMOST_BASE_H
#define HINDMOST_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HM_API __attribute__((visibility("default")))
#define HM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define HM_API
#define HM_PRINTF(fmt, args)
#endif

/* The version has this one place: the build, packages and pages read it from here. */
#define HM_VERSION_MAJOR 0
#define HM_VERSION_MINOR 1
#define HM_VERSION_PATCH 0

/* "0.1.0": the version of the library that runs, which may differ from the header's. Static storage. */
HM_API const char *hm_version(void);

/* What kind of failure an error is. A program can act on it; people read the message. */
enum hm_error_code {
    HM_OK = 0,
    HM_ERR_INPUT,    /* the input is unusable: the message says where and what to do */
    HM_ERR_IO,       /* the operating system refused: no such file, no permission, disk full */
    HM_ERR_MEMORY,   /* an allocation failed, or the input asks for more than it may */
    HM_ERR_ARGUMENT, /* the caller asked for something impossible */
    HM_ERR_CANCELLED /* a progress callback asked to stop */
};

/* An error: its kind, and one line without a final newline, "WHERE: what is wrong; what to do". */
struct hm_error {
    enum hm_error_code code;
    char message[1000];
};

/* Fills *err (if not NULL) with a code and a printf-formatted message; cuts what is too long. Always returns -1, so
 * that a function can end with `return hm_fail(err, ...)`. The first failure is the cause: keep it, do not overwrite
 * it. */
HM_API int hm_fail(struct hm_error *err, enum hm_error_code code, const char *format, ...) HM_PRINTF(3, 4);

/* Whether a text, such as a file name, ends so; a text that is only that does. */
HM_API bool hm_ends_with(const char *text, const char *end);

/* ---- text for terminals ---- */

/* printf into fresh memory, for people: what %s and %c bring cannot act on a terminal. Control characters, line breaks among them,
 * marks that turn the direction of writing and bytes that are no UTF-8 show as \n, \x1b, \u202e; widths count characters. NULL
 * without memory. Free with hm_text_free (hindmost.h). */
HM_API char *hm_text_format(const char *format, va_list arguments);
/* A copy of a text with lines of more than `width` columns (0: 80) broken at spaces; what follows stands below the last column of the
 * line. NULL without memory. Free with hm_text_free. */
HM_API char *hm_text_fold(const char *text, int width);
/* Where only ASCII can be shown: every other character becomes one that resembles it, or '?'. In place. */
HM_API void hm_text_ascii(char *text);

/* Called now and then during long work: `what` names the phase, done and total count its unit (total 0: unknown).
 * Return 0 to go on; anything else stops the work with HM_ERR_CANCELLED. Called from one thread at a time. */
typedef int (*hm_progress_fn)(void *context, const char *what, double done, double total);

/* ---- output ----
 * A file that appears whole or not at all: it is written under a temporary name that nobody can guess in the same folder, and renamed
 * over `path` by hm_out_commit; the mode of a file that was there stays. If `path` is a link, what it points to is replaced. Pipes,
 * devices and descriptors of this process (/dev/stdout) are written through. "-" is standard output, which is only flushed. A file
 * name that ends in .gz is compressed. */
struct hm_out;

/* Opens an output. Returns NULL on failure. Give it to hm_out_commit or hm_out_abort. */
HM_API struct hm_out *hm_out_open(const char *path, struct hm_error *err);

/* Looks whether hm_out_open could open that path, without touching anything: for long work to fail before it begins. 0, or -1. */
HM_API int hm_out_check(const char *path, struct hm_error *err);

/* An output into memory: once committed, *text (free it with free()) holds *size bytes and a 0 behind them. */
HM_API struct hm_out *hm_out_memory(char **text, size_t *size, struct hm_error *err);

/* Appends bytes, or printf-formatted text. Errors are remembered and reported by hm_out_commit. */
HM_API void hm_out_write(struct hm_out *out, const void *bytes, size_t size);
HM_API void hm_out_printf(struct hm_out *out, const char *format, ...) HM_PRINTF(2, 3);

/* Flushes, closes and renames. Frees `out` in any case. Returns 0, or -1 and leaves no file behind. */
HM_API int hm_out_commit(struct hm_out *out, struct hm_error *err);

/* Closes and removes what was written so far. Frees `out`. NULL is allowed. */
HM_API void hm_out_abort(struct hm_out *out);

/* Removes the temporary files of all outputs under way. For a program's handler of SIGINT and SIGTERM, before it dies:
 * async-signal-safe; the outputs are of no use afterwards. */
HM_API void hm_out_abandon_all(void);

#ifdef __cplusplus
}
#endif
#endif
