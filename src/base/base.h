/* base.h - the ground floor: memory, strings, statistics, JSON writing, parallel loops. Uses libc, pthreads and zlib
 * only. */
#ifndef HM_BASE_H
#define HM_BASE_H

#include "hindmost/base.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- faults ----
 * Every allocation and every output call asks hm_fault_hit() first. Tests set hm_fault_after to n so that the n-th
 * question (counted from 1) answers true, once; 0 turns it off. The cost is one predictable branch. */
extern _Atomic long hm_fault_after;
bool hm_fault_hit(void);

/* ---- memory ----
 * Counts are multiplied with overflow checks; NULL means no memory (or an absurd size). hm_alloc returns zeroed memory. */
void *hm_alloc(size_t count, size_t size);
/* Zeroed memory at a 64-byte boundary. Free with hm_free. */
void *hm_alloc_aligned(size_t count, size_t size);
/* Zeroed memory straight from the system, for arrays of many megabytes: never cleared twice, given back at once. With a
 * `spill` folder the memory lies in an unlinked file there, so that the system can write it out; hm_map_release then
 * lets go of a part's pages without losing its content. NULL on failure. Free with hm_unmap and the same size. */
void *hm_map(size_t bytes, const char *spill);
/* Addresses of which little will be touched: nothing but that costs memory or time. Free with hm_unmap. */
void *hm_map_sparse(size_t bytes);
void hm_map_release(void *part, size_t bytes);
void hm_unmap(void *block, size_t bytes);
/* Half of the memory this process may use: of the machine, or of its cgroup. */
uint64_t hm_default_memory(void);
/* Grows or shrinks; the old block stays valid on failure. New bytes are not cleared. */
void *hm_realloc(void *old, size_t count, size_t size);
void hm_free(void *block);
char *hm_strdup(const char *text);
/* printf into fresh memory; NULL if there is none. */
char *hm_sprintf(const char *format, ...) HM_PRINTF(1, 2);
/* Fails with HM_ERR_MEMORY and says that memory ran out; always -1. */
int hm_fail_memory(struct hm_error *err);
/* That both return -1 is said here, too, where compilers and analysers see it. */
static inline int hm_always_failed(int status) {
    (void)status;
    return -1;
}
#define hm_fail(...) hm_always_failed(hm_fail(__VA_ARGS__))
#define hm_fail_memory(err) hm_always_failed(hm_fail_memory(err))
/* a * b into *product; false on overflow. */
static inline bool hm_mul(size_t a, size_t b, size_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}
/* Makes room for one more element in a growing array: doubles *capacity from 16. Returns the (moved) array or NULL. */
void *hm_grow(void *array, size_t count, size_t *capacity, size_t size);
/* The same for `more` elements. */
void *hm_grow_by(void *array, size_t count, size_t more, size_t *capacity, size_t size);

/* ---- files ----
 * How they are opened, and why so: files.c. */

/* A file that is to take the place of another. */
struct hm_new_file {
    int fd;      /* to write to, also by the name /proc/self/fd/N; readable and seekable unless written through */
    int through; /* where its bytes go at the end; -1: nowhere, or they go there at once */
    char *target, *temporary; /* temporary: NULL if the target is not replaced */
};
/* Opens one for `path` ("-": standard output). `whole`: its writer needs a seekable file, even where the target is a pipe. 0, or -1. */
int hm_new_file_open(struct hm_new_file *f, const char *path, bool whole, struct hm_error *err);
/* Puts it in its place; 0, or -1 with errno set and nothing left behind. The caller words the error. */
int hm_new_file_commit(struct hm_new_file *f);
void hm_new_file_abort(struct hm_new_file *f);

/* A file without a name in that folder (NULL: TMPDIR, else /tmp). -1 with errno set. */
int hm_unnamed_file(const char *folder);

/* Opens an input as a regular file that can be read from any place, and tells its size (size may be NULL). "-" is standard input; what
 * comes through a pipe is kept in an unnamed file. Folders, devices and FIFOs that nobody writes into are refused. -1 on failure. */
int hm_in_open(const char *path, int64_t *size, struct hm_error *err);
/* The same as a stream, for files that are read once. NULL on failure. */
FILE *hm_in_file(const char *path, struct hm_error *err);
bool hm_in_is_gzip(int fd);
/* Unpacks all of a gzip file and throws it away: 0 if it is whole, -1 if it is cut short or damaged. */
int hm_in_check_gzip(int fd, const char *path, struct hm_error *err);
/* All of an input of at most `most` bytes, unpacked if it is gzipped, with a 0 behind it. NULL on failure. Free with hm_free. */
char *hm_in_text(const char *path, size_t most, size_t *size, struct hm_error *err);

/* ---- files ---- */
/* A whole file, gunzipped if it is gzip, with a 0 behind its *size bytes; more than `most` of them is an error. NULL on
 * failure. Free with hm_free. */
char *hm_slurp(const char *path, size_t most, size_t *size, struct hm_error *err);

/* The rank in a file's name: "comm_lib_trace_rank_12", "_dump_12", "rank12_gloo.json"; -1: none. */
enum { HM_MOST_RANK = 1 << 24 };
int hm_rank_of_name(const char *path);

/* ---- strings ---- */
struct hm_str {
    char *text; /* NUL-terminated; NULL while empty */
    size_t length, capacity;
    bool failed; /* an allocation failed: the text is incomplete */
    bool people; /* for a terminal: what arguments and bytes bring along is made harmless (clean.c) */
};
void hm_str_add(struct hm_str *s, const char *format, ...) HM_PRINTF(2, 3);
void hm_str_bytes(struct hm_str *s, const char *bytes, size_t n);
void hm_str_free(struct hm_str *s);
/* "7" or "2-5", whole numbers of 0 or more, first <= last. *end is behind it; without `end` nothing else may stand there. */
bool hm_parse_range(const char *text, const char **end, int64_t *first, int64_t *last);

/* ---- text for people ----
 * A text that may meet a terminal is a struct hm_str with `people` set, or comes from hm_text_format (hindmost/base.h). Then formats
 * stand as they are, and what they are given as %s or %c cannot act: control characters show as \n or \x1b. Widths count characters. */

/* Style codes. As %s arguments they go through. */
enum hm_style {
    HM_STYLE_OFF,
    HM_STYLE_BOLD,
    HM_STYLE_DIM,
    HM_STYLE_RED,
    HM_STYLE_YELLOW,
    HM_STYLE_BLUE,
    HM_STYLE_MAGENTA,
    HM_STYLE_CYAN,
    HM_STYLES
};
extern const char hm_styles[HM_STYLES][8];
/* hm_str_add for a va_list, as if `people` were set. */
void hm_str_format(struct hm_str *s, const char *format, va_list list);
/* Appends bytes made harmless. */
void hm_str_clean(struct hm_str *s, const char *bytes, size_t n);
/* Breaks lines that are wider than `width` at spaces; what follows is indented by `indent` if the line's text begins there (behind a
 * label), else by two more than the line. The last word on how wide a report gets, whatever its parts put in. */
void hm_str_fold(struct hm_str *s, size_t width, size_t indent);
enum { HM_CLEANED = 12 };
/* The first character of `size` > 0 bytes, made harmless, as text in `out`; returns how many bytes it took. */
size_t hm_clean(const char *text, size_t size, char out[HM_CLEANED]);
/* Whether a character does something to a terminal instead of showing something. */
bool hm_acts(uint32_t code);
/* Bytes of the UTF-8 character that text begins with and its code point; 0 if it is none. */
size_t hm_utf8_length(const char *text, size_t left, uint32_t *code);
/* How many characters wide; styles take no room. */
size_t hm_columns(const char *text, size_t size);

/* ---- statistics ----
 * All ignore nothing: give them finite numbers. An empty set gives NaN. */
double hm_mean(const double *x, size_t n);
/* Exact median (mean of the two middle values when n is even); reorders x. O(n). */
double hm_median(double *x, size_t n);
/* The k-th smallest (from 0) of n > k numbers; reorders x so that no smaller one stands behind it. O(n). */
double hm_select(double *x, size_t n, size_t k);
/* The q-quantile, 0 <= q <= 1, linear between order statistics (type 7, as numpy and DuckDB); reorders x. */
double hm_quantile(double *x, size_t n, double q);
/* Median absolute deviation about `center`; reorders x and overwrites it. Not scaled. */
double hm_mad(double *x, size_t n, double center);
/* Pearson correlation; NaN if a side does not vary. */
double hm_pearson(const double *x, const double *y, size_t n);
double hm_stddev(const double *x, size_t n); /* population */

/* ---- random numbers ----
 * xoshiro256** seeded by splitmix64: the same seed gives the same numbers on every machine. */

/* Spreads a number over all bits, one to one: the finaliser of splitmix64 (Steele, Lea and Flood, 2014). */
static inline uint64_t hm_mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
struct hm_rng {
    uint64_t s[4];
};
void hm_rng_seed(struct hm_rng *rng, uint64_t seed);
uint64_t hm_rng_next(struct hm_rng *rng);
double hm_rng_uniform(struct hm_rng *rng); /* [0, 1) */
double hm_rng_normal(struct hm_rng *rng);  /* mean 0, variance 1 */
uint64_t hm_rng_below(struct hm_rng *rng, uint64_t n);

/* ---- JSON writing ----
 * A streaming writer over hm_out: commas, quoting and indentation are its business. Keys are given only inside objects, NULL inside
 * arrays. NaN and infinities become null. `inline_depth`: containers deeper than this stay on one line. */
struct hm_json {
    struct hm_out *out;
    int depth, inline_depth;
    bool first[64];
};
void hm_json_begin(struct hm_json *j, struct hm_out *out, int inline_depth);
void hm_json_object(struct hm_json *j, const char *key);
void hm_json_array(struct hm_json *j, const char *key);
void hm_json_end_object(struct hm_json *j);
void hm_json_end_array(struct hm_json *j);
void hm_json_string(struct hm_json *j, const char *key, const char *value); /* NULL value: null */
void hm_json_number(struct hm_json *j, const char *key, double value);      /* shortest text that reads back equal */
void hm_json_integer(struct hm_json *j, const char *key, int64_t value);
void hm_json_bool(struct hm_json *j, const char *key, bool value);
void hm_json_null(struct hm_json *j, const char *key);
/* After the outermost end: a newline. */
void hm_json_finish(struct hm_json *j);
/* The shortest %.{15,16,17}g text of a finite double that reads back equal, into buffer of at least 32 bytes. */
const char *hm_double_text(double value, char buffer[32]);

/* ---- parallel loops ----
 * Runs body(context, i, thread) for i in 0..count-1 on up to `threads` threads (0: all cores), in any order; returns when all are done. A
 * body reports failure by its own means. thread is in 0..threads-1 for per-thread scratch space. */
typedef void (*hm_loop_fn)(void *context, size_t index, int thread);
void hm_parallel(size_t count, int threads, hm_loop_fn body, void *context);
/* How many threads hm_parallel will use for `threads` asked and `count` pieces of work; at least 1. */
int hm_thread_count(int threads, size_t count);

double hm_now_s(void); /* monotonic clock */

#endif
