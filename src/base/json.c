/* json.c - a streaming JSON writer. */
#include "base.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* JSON is UTF-8: a byte that is none becomes U+FFFD. What acts on a terminal is escaped as well: results are also shown on terminals. */
static void quote(struct hm_out *out, const char *text) {
    hm_out_write(out, "\"", 1);
    size_t left = strlen(text);
    for (const char *c = text; *c;) {
        unsigned char b = (unsigned char)*c;
        uint32_t code = b;
        size_t n = b < 0x80 ? 1 : hm_utf8_length(c, left, &code);
        if (b == '"' || b == '\\')
            hm_out_printf(out, "\\%c", b);
        else if (b == '\n')
            hm_out_write(out, "\\n", 2);
        else if (b == '\t')
            hm_out_write(out, "\\t", 2);
        else if (b < 0x20 ||
                 (b == '<' && (c[1] == '/' || c[1] == '!'))) /* "</script" and "<!--" must not end a page's script */
            hm_out_printf(out, "\\u%04x", b);
        else if (n == 0)
            hm_out_write(out, "\xef\xbf\xbd", 3);
        else if (hm_acts(code))
            hm_out_printf(out, "\\u%04x", code);
        else
            hm_out_write(out, c, n);
        c += n ? n : 1;
        left -= n ? n : 1;
    }
    hm_out_write(out, "\"", 1);
}

static void newline(struct hm_json *j) {
    if (j->depth > j->inline_depth) return;
    hm_out_printf(j->out, "\n%*s", j->depth * 1, "");
}

static void lead(struct hm_json *j, const char *key) {
    if (j->depth > 0) {
        if (!j->first[j->depth])
            hm_out_write(j->out, j->depth > j->inline_depth ? ", " : ",", j->depth > j->inline_depth ? 2 : 1);
        j->first[j->depth] = false;
        newline(j);
    }
    if (key) {
        quote(j->out, key);
        hm_out_write(j->out, ": ", 2);
    }
}

static void open_container(struct hm_json *j, const char *key, char bracket) {
    lead(j, key);
    hm_out_write(j->out, &bracket, 1);
    if (j->depth + 1 < (int)(sizeof j->first / sizeof j->first[0])) j->depth++;
    j->first[j->depth] = true;
}

static void close_container(struct hm_json *j, char bracket) {
    bool empty = j->first[j->depth], was_inline = j->depth > j->inline_depth;
    if (j->depth > 0) j->depth--;
    if (!empty && !was_inline) {
        hm_out_printf(j->out, "\n%*s", j->depth, "");
    }
    hm_out_write(j->out, &bracket, 1);
}

void hm_json_begin(struct hm_json *j, struct hm_out *out, int inline_depth) {
    *j = (struct hm_json){.out = out, .inline_depth = inline_depth};
    j->first[0] = true;
}

void hm_json_object(struct hm_json *j, const char *key) {
    open_container(j, key, '{');
}

void hm_json_array(struct hm_json *j, const char *key) {
    open_container(j, key, '[');
}

void hm_json_end_object(struct hm_json *j) {
    close_container(j, '}');
}

void hm_json_end_array(struct hm_json *j) {
    close_container(j, ']');
}

void hm_json_string(struct hm_json *j, const char *key, const char *value) {
    if (!value) {
        hm_json_null(j, key);
        return;
    }
    lead(j, key);
    quote(j->out, value);
}

const char *hm_double_text(double value, char buffer[32]) {
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(buffer, 32, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value) break;
    }
    return buffer;
}

void hm_json_number(struct hm_json *j, const char *key, double value) {
    if (!isfinite(value)) {
        hm_json_null(j, key);
        return;
    }
    char buffer[32];
    lead(j, key);
    hm_out_printf(j->out, "%s", hm_double_text(value, buffer));
}

void hm_json_integer(struct hm_json *j, const char *key, int64_t value) {
    lead(j, key);
    hm_out_printf(j->out, "%" PRId64, value);
}

void hm_json_bool(struct hm_json *j, const char *key, bool value) {
    lead(j, key);
    hm_out_printf(j->out, "%s", value ? "true" : "false");
}

void hm_json_null(struct hm_json *j, const char *key) {
    lead(j, key);
    hm_out_write(j->out, "null", 4);
}

void hm_json_finish(struct hm_json *j) {
    hm_out_write(j->out, "\n", 1);
}
