/* pickle.c - Python pickles of plain data. A pickle is a program for a small stack machine; here it has only the opcodes that
 * put values together. Those that look up or call anything (GLOBAL, REDUCE, BUILD, ...) do not exist, so that a dump from
 * anywhere is safe to open. Opcodes and their arguments: Python's Lib/pickletools.py, protocols 0 to 5.
 *
 * Every opcode makes at most one value and takes at least one byte, so memory is a small multiple of the file's size. */
#include "value.h"

#include <errno.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct machine {
    struct hm_document *doc;
    const unsigned char *bytes;
    size_t size, at, opcode_at;
    struct hm_value **stack; /* NULL: a mark */
    size_t n, capacity;
    struct hm_value **memo; /* NULL: never put */
    size_t memo_size, n_put;
    const char *path;
    struct hm_error *err;
};

static int broken(struct machine *m, const char *what) {
    return hm_fail(m->err, HM_ERR_INPUT, "%s: broken pickle at byte %zu: %s; copy the file again", m->path,
                   m->opcode_at, what);
}

static int push(struct machine *m, struct hm_value *v) {
    struct hm_value **grown = hm_grow(m->stack, m->n, &m->capacity, sizeof(struct hm_value *));
    if (!grown) return hm_fail_memory(m->err);
    m->stack = grown;
    m->stack[m->n++] = v;
    return 0;
}

static int push_new(struct machine *m, struct hm_value *v) {
    return v ? push(m, v) : hm_fail_memory(m->err);
}

static int pop(struct machine *m, struct hm_value **v) {
    if (m->n == 0 || !m->stack[m->n - 1]) return broken(m, "nothing on the stack");
    *v = m->stack[--m->n];
    return 0;
}

/* The place of the last mark. */
static int find_mark(struct machine *m, size_t *mark) {
    for (size_t i = m->n; i-- > 0;)
        if (!m->stack[i]) {
            *mark = i;
            return 0;
        }
    return broken(m, "no mark on the stack");
}

/* ---- arguments ---- */

static int take(struct machine *m, size_t n, const unsigned char **bytes) {
    if (n > m->size - m->at) return broken(m, "the file ends early");
    *bytes = m->bytes + m->at;
    m->at += n;
    return 0;
}

static int number(struct machine *m, int n, uint64_t *value) {
    const unsigned char *b;
    if (take(m, (size_t)n, &b) != 0) return -1;
    *value = 0;
    for (int i = n; i-- > 0;) *value = *value << 8 | b[i];
    return 0;
}

/* A line of text without its end. */
static int line(struct machine *m, const char **text, size_t *n) {
    const unsigned char *from = m->bytes + m->at, *end = memchr(from, '\n', m->size - m->at);
    if (!end) return broken(m, "a line without end");
    *text = (const char *)from;
    *n = (size_t)(end - from);
    m->at += *n + 1;
    return 0;
}

/* ---- values ---- */

static int push_integer(struct machine *m, int64_t value) {
    return push_new(m, hm_value_integer(m->doc, value));
}

static int push_bool(struct machine *m, bool value) {
    struct hm_value *v = hm_value_integer(m->doc, value);
    if (v) v->kind = HM_VALUE_BOOL;
    return push_new(m, v);
}

static int push_text(struct machine *m, int length_bytes) {
    uint64_t n;
    const unsigned char *b;
    if (number(m, length_bytes, &n) != 0) return -1;
    if (n > m->size || take(m, (size_t)n, &b) != 0) return broken(m, "a text longer than the file");
    return push_new(m, hm_value_text(m->doc, (const char *)b, (size_t)n));
}

/* Little-endian two's complement of any length; what does not fit 64 bits becomes a real number. */
static int push_long(struct machine *m, int length_bytes) {
    uint64_t n;
    const unsigned char *b;
    if (number(m, length_bytes, &n) != 0) return -1;
    if (n > m->size || take(m, (size_t)n, &b) != 0) return broken(m, "a number longer than the file");
    bool negative = n > 0 && (b[n - 1] & 0x80);
    uint64_t low = negative ? UINT64_MAX : 0;
    double real = 0;
    for (size_t i = (size_t)n; i-- > 0;) {
        low = low << 8 | b[i];
        real = real * 256 + b[i];
    }
    if (n <= 8) {
        int64_t value;
        memcpy(&value, &low, sizeof value);
        return push_integer(m, value);
    }
    return push_new(m, hm_value_real(m->doc, negative ? -HUGE_VAL : real));
}

static int push_decimal(struct machine *m) {
    const char *text;
    size_t n;
    if (line(m, &text, &n) != 0) return -1;
    if (m->bytes[m->opcode_at] == 'I' && n == 2 && text[0] == '0') return push_bool(m, text[1] == '1');
    char copy[64], *end;
    if (n == 0 || n >= sizeof copy) return broken(m, "an impossible number");
    memcpy(copy, text, n);
    copy[n] = 0;
    errno = 0;
    long long value = strtoll(copy, &end, 10);
    if (end == copy || (*end && strcmp(end, "L") != 0)) return broken(m, "a number that is none");
    return errno ? push_new(m, hm_value_real(m->doc, strtod(copy, NULL))) : push_integer(m, value);
}

static int push_float_text(struct machine *m) {
    const char *text;
    size_t n;
    char copy[64], *end;
    if (line(m, &text, &n) != 0) return -1;
    if (n == 0 || n >= sizeof copy) return broken(m, "an impossible number");
    memcpy(copy, text, n);
    copy[n] = 0;
    double value = strtod(copy, &end);
    return *end ? broken(m, "a number that is none") : push_new(m, hm_value_real(m->doc, value));
}

static int push_float(struct machine *m) {
    const unsigned char *b;
    if (take(m, 8, &b) != 0) return -1;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++) bits = bits << 8 | b[i];
    double value;
    memcpy(&value, &bits, sizeof value);
    return push_new(m, hm_value_real(m->doc, value));
}

/* STRING has quotes about its text, UNICODE has none. Escapes stay as they are: names have none. */
static int push_line_text(struct machine *m, bool quoted) {
    const char *text;
    size_t n;
    if (line(m, &text, &n) != 0) return -1;
    if (quoted) {
        if (n < 2 || text[0] != text[n - 1]) return broken(m, "a text without its quotes");
        text++;
        n -= 2;
    }
    return push_new(m, hm_value_text(m->doc, text, n));
}

/* ---- containers ---- */

static int append_from(struct machine *m, size_t from, enum hm_value_kind kind) {
    if (from == 0 || !m->stack[from - 1] || m->stack[from - 1]->kind != kind)
        return broken(m, kind == HM_VALUE_DICT ? "no dict to put items in" : "no list to append to");
    for (size_t i = from; i < m->n; i++)
        if (!m->stack[i]) return broken(m, "a mark among the items");
    if (kind == HM_VALUE_DICT && (m->n - from) % 2 != 0) return broken(m, "a key without its value");
    for (size_t i = from; i < m->n; i++)
        if (!hm_value_append(m->doc, m->stack[from - 1], m->stack[i])) return hm_fail_memory(m->err);
    m->n = from;
    return 0;
}

/* APPENDS, SETITEMS, ADDITEMS: what stands above the last mark goes into what stands below it. */
static int append_marked(struct machine *m, enum hm_value_kind kind) {
    size_t mark;
    if (find_mark(m, &mark) != 0) return -1;
    memmove(m->stack + mark, m->stack + mark + 1, (m->n - mark - 1) * sizeof *m->stack);
    m->n--;
    return append_from(m, mark, kind);
}

/* A new container of the last n values. */
static int collect(struct machine *m, size_t n, enum hm_value_kind kind) {
    if (n > m->n) return broken(m, "nothing on the stack");
    if (push_new(m, hm_value_new(m->doc, kind)) != 0) return -1;
    struct hm_value *container = m->stack[m->n - 1];
    memmove(m->stack + m->n - n, m->stack + m->n - 1 - n, n * sizeof *m->stack);
    m->stack[m->n - 1 - n] = container;
    return append_from(m, m->n - n, kind);
}

static int collect_marked(struct machine *m, enum hm_value_kind kind) {
    size_t mark;
    if (find_mark(m, &mark) != 0) return -1;
    size_t n = m->n - mark - 1;
    memmove(m->stack + mark, m->stack + mark + 1, n * sizeof *m->stack);
    m->n--;
    return collect(m, n, kind);
}

/* ---- memo ---- */

static int put(struct machine *m, uint64_t index) {
    if (m->n == 0 || !m->stack[m->n - 1]) return broken(m, "nothing on the stack");
    if (index > m->size) return broken(m, "a memo number larger than the file");
    if (index >= m->memo_size) {
        size_t wanted = 2 * (size_t)index + 16;
        struct hm_value **grown = hm_realloc(m->memo, wanted, sizeof(struct hm_value *));
        if (!grown) return hm_fail_memory(m->err);
        memset(grown + m->memo_size, 0, (wanted - m->memo_size) * sizeof *grown);
        m->memo = grown;
        m->memo_size = wanted;
    }
    m->memo[index] = m->stack[m->n - 1];
    m->n_put++;
    return 0;
}

static int get(struct machine *m, uint64_t index) {
    if (index >= m->memo_size || !m->memo[index]) return broken(m, "a memo number that was never put");
    return push(m, m->memo[index]);
}

static int memo_line(struct machine *m, int (*act)(struct machine *, uint64_t)) {
    const char *text;
    size_t n;
    if (line(m, &text, &n) != 0) return -1;
    char *end;
    uint64_t index = strtoull(text, &end, 10); /* the line's end stops it */
    return end == text || end != text + n ? broken(m, "a memo number that is none") : act(m, index);
}

static int memo_number(struct machine *m, int bytes, int (*act)(struct machine *, uint64_t)) {
    uint64_t index;
    return number(m, bytes, &index) != 0 ? -1 : act(m, index);
}

/* ---- opcodes ---- */

static int refuse(struct machine *m, unsigned char opcode) {
    static const struct {
        unsigned char opcode;
        const char *name;
    } named[] = {{'c', "GLOBAL"}, {'R', "REDUCE"},       {'b', "BUILD"},           {'i', "INST"},
                 {'o', "OBJ"},    {0x81, "NEWOBJ"},      {0x92, "NEWOBJ_EX"},      {0x93, "STACK_GLOBAL"},
                 {'P', "PERSID"}, {'Q', "BINPERSID"},    {0x82, "EXT1"},           {0x83, "EXT2"},
                 {0x84, "EXT4"},  {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (named[i].opcode == opcode)
            return hm_fail(m->err, HM_ERR_INPUT,
                           "%s: opcode %s at byte %zu would run or look up code; only plain data is read: no flight "
                           "recorder writes this, do not open it elsewhere",
                           m->path, named[i].name, m->opcode_at);
    return hm_fail(m->err, HM_ERR_INPUT, "%s: unknown opcode 0x%02x at byte %zu; this is no pickle of plain data",
                   m->path, opcode, m->opcode_at);
}

static int numbers(struct machine *m, unsigned char opcode) {
    uint64_t v;
    switch (opcode) {
    case 'K': /* BININT1 */
        return number(m, 1, &v) != 0 ? -1 : push_integer(m, (int64_t)v);
    case 'M': /* BININT2 */
        return number(m, 2, &v) != 0 ? -1 : push_integer(m, (int64_t)v);
    case 'J': /* BININT */
        return number(m, 4, &v) != 0 ? -1 : push_integer(m, (int32_t)(uint32_t)v);
    case 0x8a: /* LONG1 */
        return push_long(m, 1);
    case 0x8b: /* LONG4 */
        return push_long(m, 4);
    case 'I': /* INT */
    case 'L': /* LONG */
        return push_decimal(m);
    case 'F': /* FLOAT */
        return push_float_text(m);
    case 'G': /* BINFLOAT */
        return push_float(m);
    case 'N': /* NONE */
        return push_new(m, hm_value_new(m->doc, HM_VALUE_NONE));
    case 0x88: /* NEWTRUE */
    case 0x89: /* NEWFALSE */
        return push_bool(m, opcode == 0x88);
    default:
        return refuse(m, opcode);
    }
}

static int texts(struct machine *m, unsigned char opcode) {
    switch (opcode) {
    case 'U':  /* SHORT_BINSTRING */
    case 'C':  /* SHORT_BINBYTES */
    case 0x8c: /* SHORT_BINUNICODE */
        return push_text(m, 1);
    case 'T': /* BINSTRING */
    case 'B': /* BINBYTES */
    case 'X': /* BINUNICODE */
        return push_text(m, 4);
    case 0x8d: /* BINUNICODE8 */
    case 0x8e: /* BINBYTES8 */
    case 0x96: /* BYTEARRAY8 */
        return push_text(m, 8);
    case 'S': /* STRING */
    case 'V': /* UNICODE */
        return push_line_text(m, opcode == 'S');
    default:
        return numbers(m, opcode);
    }
}

static int containers(struct machine *m, unsigned char opcode) {
    switch (opcode) {
    case ']':  /* EMPTY_LIST */
    case ')':  /* EMPTY_TUPLE */
    case 0x8f: /* EMPTY_SET */
        return push_new(m, hm_value_new(m->doc, HM_VALUE_LIST));
    case '}': /* EMPTY_DICT */
        return push_new(m, hm_value_new(m->doc, HM_VALUE_DICT));
    case 'a': /* APPEND */
        return m->n < 1 ? broken(m, "nothing on the stack") : append_from(m, m->n - 1, HM_VALUE_LIST);
    case 's': /* SETITEM */
        return m->n < 2 ? broken(m, "nothing on the stack") : append_from(m, m->n - 2, HM_VALUE_DICT);
    case 'e':  /* APPENDS */
    case 0x90: /* ADDITEMS */
        return append_marked(m, HM_VALUE_LIST);
    case 'u': /* SETITEMS */
        return append_marked(m, HM_VALUE_DICT);
    case 'l':  /* LIST */
    case 't':  /* TUPLE */
    case 0x91: /* FROZENSET */
        return collect_marked(m, HM_VALUE_LIST);
    case 'd': /* DICT */
        return collect_marked(m, HM_VALUE_DICT);
    case 0x85: /* TUPLE1 */
    case 0x86: /* TUPLE2 */
    case 0x87: /* TUPLE3 */
        return collect(m, (size_t)(opcode - 0x84), HM_VALUE_LIST);
    default:
        return texts(m, opcode);
    }
}

static int step(struct machine *m, unsigned char opcode) {
    struct hm_value *v;
    uint64_t ignored;
    size_t mark;
    switch (opcode) {
    case 0x80: /* PROTO */
        if (number(m, 1, &ignored) != 0) return -1;
        return ignored <= 5 ? 0 : broken(m, "a protocol newer than 5");
    case 0x95: /* FRAME: only says how much to read at once */
        return number(m, 8, &ignored);
    case '(': /* MARK */
        return push(m, NULL);
    case '0': /* POP */
        if (m->n == 0) return broken(m, "nothing on the stack");
        m->n--;
        return 0;
    case '1': /* POP_MARK */
        if (find_mark(m, &mark) != 0) return -1;
        m->n = mark;
        return 0;
    case '2': /* DUP */
        if (pop(m, &v) != 0) return -1;
        return push(m, v) != 0 ? -1 : push(m, v);
    case 'p': /* PUT */
        return memo_line(m, put);
    case 'q': /* BINPUT */
        return memo_number(m, 1, put);
    case 'r': /* LONG_BINPUT */
        return memo_number(m, 4, put);
    case 0x94: /* MEMOIZE */
        return put(m, m->n_put);
    case 'g': /* GET */
        return memo_line(m, get);
    case 'h': /* BINGET */
        return memo_number(m, 1, get);
    case 'j': /* LONG_BINGET */
        return memo_number(m, 4, get);
    default:
        return containers(m, opcode);
    }
}

static const struct hm_value *run(struct machine *m) {
    struct hm_value *result = NULL;
    for (;;) {
        m->opcode_at = m->at;
        if (m->at == m->size) {
            (void)broken(m, "the file ends early");
            return NULL;
        }
        unsigned char opcode = m->bytes[m->at++];
        if (opcode == '.') return pop(m, &result) == 0 ? result : NULL; /* STOP */
        if (step(m, opcode) != 0) return NULL;
    }
}

const struct hm_value *hm_pickle_read(struct hm_document *doc, const char *bytes, size_t size, const char *path,
                                      struct hm_error *err) {
    struct machine m = {.doc = doc, .bytes = (const unsigned char *)bytes, .size = size, .path = path, .err = err};
    const struct hm_value *result = run(&m);
    hm_free(m.stack);
    hm_free(m.memo);
    return result;
}
