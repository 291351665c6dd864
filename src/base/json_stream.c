/* json_stream.c - a pull parser for JSON (RFC 8259) over a buffer that is refilled. */
#include "json_stream.h"

#include <string.h>

int hm_json_stream_open(struct hm_json_stream *s, hm_read_fn read, void *context) {
    memset(s, 0, sizeof *s);
    s->read = read;
    s->context = context;
    s->buffer = hm_alloc(1, HM_JSON_BUFFER);
    return s->buffer ? 0 : -1;
}

void hm_json_stream_close(struct hm_json_stream *s) {
    hm_free(s->buffer);
    s->buffer = NULL;
}

uint64_t hm_json_stream_position(const struct hm_json_stream *s) {
    return s->consumed + s->at;
}

/* The next byte without taking it; -1 at the end. */
static int peek(struct hm_json_stream *s) {
    if (s->at == s->n) {
        s->consumed += s->n;
        s->at = 0;
        s->n = s->read(s->context, s->buffer, HM_JSON_BUFFER);
        if (s->n == 0) return -1;
    }
    return s->buffer[s->at];
}

static int take(struct hm_json_stream *s) {
    int c = peek(s);
    if (c >= 0) s->at++;
    return c;
}

static int skip_blanks(struct hm_json_stream *s) {
    int c;
    while ((c = peek(s)) == ' ' || c == '\n' || c == '\r' || c == '\t') {
        size_t at = s->at + 1;
        while (at < s->n && s->buffer[at] == ' ') at++; /* indentation */
        s->at = at;
    }
    return c;
}

static void add_byte(struct hm_json_stream *s, unsigned c) {
    if (s->length + 1 < HM_JSON_TEXT) s->text[s->length++] = (char)c;
}

/* ---- strings ---- */

static int hex(struct hm_json_stream *s) {
    unsigned value = 0;
    for (int k = 0; k < 4; k++) {
        int c = take(s), digit = c >= '0' && c <= '9'   ? c - '0'
                                 : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                 : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                        : -1;
        if (digit < 0) return -1;
        value = value << 4 | (unsigned)digit;
    }
    return (int)value;
}

/* As UTF-8; halves of surrogate pairs stand for themselves: names are compared, not shown letter by letter. */
static void add_code(struct hm_json_stream *s, unsigned code) {
    if (code < 0x80) {
        add_byte(s, code);
    } else if (code < 0x800) {
        add_byte(s, 0xc0 | code >> 6);
        add_byte(s, 0x80 | (code & 0x3f));
    } else {
        add_byte(s, 0xe0 | code >> 12);
        add_byte(s, 0x80 | (code >> 6 & 0x3f));
        add_byte(s, 0x80 | (code & 0x3f));
    }
}

static bool escape(struct hm_json_stream *s) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = take(s);
    const char *at = c > 0 ? strchr(from, c) : NULL;
    if (at) {
        add_byte(s, (unsigned char)to[at - from]);
        return true;
    }
    int code = c == 'u' ? hex(s) : -1;
    if (code >= 0) add_code(s, (unsigned)code);
    return code >= 0;
}

/* Behind the opening quote. Runs without escapes are copied whole. */
static enum hm_json_token string(struct hm_json_stream *s, enum hm_json_token token) {
    s->length = 0;
    while (peek(s) >= 0) {
        const unsigned char *from = s->buffer + s->at;
        size_t left = s->n - s->at, run = 0;
        while (run < left && from[run] != '"' && from[run] != '\\') run++;
        size_t room = HM_JSON_TEXT - 1 - s->length, kept = run < room ? run : room;
        memcpy(s->text + s->length, from, kept);
        s->length += kept;
        s->at += run;
        if (run == left) continue;
        if (s->buffer[s->at++] == '"') {
            s->text[s->length] = 0;
            return token;
        }
        if (!escape(s)) return peek(s) < 0 ? HM_JSON_CUT : HM_JSON_BAD;
    }
    return HM_JSON_CUT;
}

/* ---- values ---- */

/* Bytes of numbers and words; a table, because most of a trace is numbers. */
static const bool of_word[256] = {
    ['0' ... '9'] = true, ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['-'] = true, ['+'] = true, ['.'] = true};

/* A number or a word. NaN and Infinity are no JSON, but profilers write them. Runs are copied whole. */
static enum hm_json_token plain(struct hm_json_stream *s) {
    int c;
    s->length = 0;
    while ((c = peek(s)) >= 0 && of_word[c]) {
        const unsigned char *from = s->buffer + s->at;
        size_t left = s->n - s->at, run = 1;
        while (run < left && of_word[from[run]]) run++;
        size_t room = HM_JSON_TEXT - 1 - s->length, kept = run < room ? run : room;
        memcpy(s->text + s->length, from, kept);
        s->length += kept;
        s->at += run;
    }
    s->text[s->length] = 0;
    if (c < 0 && s->depth > 0) return HM_JSON_CUT; /* it may have been longer */
    if (s->length == 0) return HM_JSON_BAD;
    if ((s->text[0] >= '0' && s->text[0] <= '9') || (s->text[0] == '-' && s->text[1] != 'I')) return HM_JSON_NUMBER;
    static const char *const words[] = {"true", "false", "null", "NaN", "nan", "Infinity", "-Infinity", "inf"};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (strcmp(s->text, words[k]) == 0) return HM_JSON_WORD;
    return HM_JSON_BAD;
}

static enum hm_json_token enter(struct hm_json_stream *s, bool object) {
    if (s->depth == HM_JSON_DEPTH) return HM_JSON_BAD;
    s->in_object[s->depth++] = object;
    s->want = HM_JSON_WANT_FIRST;
    return object ? HM_JSON_OBJECT : HM_JSON_ARRAY;
}

static enum hm_json_token leave(struct hm_json_stream *s, int c) {
    bool object = s->depth > 0 && s->in_object[s->depth - 1];
    if (s->depth == 0 || (c == '}') != object) return HM_JSON_BAD;
    s->depth--;
    s->want = HM_JSON_WANT_COMMA;
    return object ? HM_JSON_OBJECT_END : HM_JSON_ARRAY_END;
}

static enum hm_json_token value(struct hm_json_stream *s, int c) {
    s->want = HM_JSON_WANT_COMMA;
    if (c == '{' || c == '[') {
        s->at++;
        return enter(s, c == '{');
    }
    if (c != '"') return plain(s);
    s->at++;
    return string(s, HM_JSON_STRING);
}

enum hm_json_token hm_json_stream_next(struct hm_json_stream *s) {
    if (s->depth == 0 && s->want == HM_JSON_WANT_COMMA) return HM_JSON_END;
    int c = skip_blanks(s);
    if (s->want == HM_JSON_WANT_COMMA && c == ',') {
        s->at++;
        s->want = HM_JSON_WANT_VALUE;
        c = skip_blanks(s);
    } else if (s->want == HM_JSON_WANT_COMMA && c != '}' && c != ']') {
        return c < 0 ? HM_JSON_CUT : HM_JSON_BAD;
    }
    if (c < 0) return HM_JSON_CUT;
    /* a comma before the end is no JSON, but writers that were stopped leave one */
    if ((c == '}' || c == ']') && s->want != HM_JSON_WANT_COLON) {
        s->at++;
        return leave(s, c);
    }
    bool key = s->depth > 0 && s->in_object[s->depth - 1] && s->want != HM_JSON_WANT_COLON;
    if (!key) return value(s, c);
    if (c != '"') return HM_JSON_BAD;
    s->at++;
    enum hm_json_token token = string(s, HM_JSON_KEY);
    if (token != HM_JSON_KEY) return token;
    c = skip_blanks(s);
    if (c != ':') return c < 0 ? HM_JSON_CUT : HM_JSON_BAD;
    s->at++;
    s->want = HM_JSON_WANT_COLON;
    return HM_JSON_KEY;
}

enum hm_json_token hm_json_stream_skip(struct hm_json_stream *s, enum hm_json_token token) {
    if (token == HM_JSON_KEY) token = hm_json_stream_next(s);
    if (token != HM_JSON_OBJECT && token != HM_JSON_ARRAY) return token;
    unsigned depth = s->depth;
    while (s->depth >= depth) {
        token = hm_json_stream_next(s);
        if (token == HM_JSON_CUT || token == HM_JSON_BAD) return token;
    }
    return token;
}
