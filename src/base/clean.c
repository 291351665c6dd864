/* clean.c - text that may meet a terminal.
 *
 * Names in recordings, results and metadata are other people's bytes: an escape sequence in one would move the cursor or retitle the
 * window, a line break would forge a row of a table. So whatever is meant for people is formatted here: what the format itself says
 * stands as it is, what its arguments bring (%s, %c) is made harmless. Style codes of our own are told from foreign ones by where they
 * lie: in hm_styles, which no input can reach. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char hm_styles[HM_STYLES][8] = {"\033[0m",  "\033[1m",  "\033[2m",  "\033[31m",
                                      "\033[33m", "\033[34m", "\033[35m", "\033[36m"};

static bool is_style(const char *text) {
    return text >= hm_styles[0] && text <= hm_styles[HM_STYLES - 1];
}

/* ---- UTF-8 ---- */

size_t hm_utf8_length(const char *text, size_t left, uint32_t *code) {
    const unsigned char *b = (const unsigned char *)text;
    if (left == 0) return 0;
    *code = b[0];
    if (b[0] < 0x80) return 1;
    size_t n = b[0] >= 0xf0 && b[0] < 0xf5 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (b[0] < 0xc2 || b[0] > 0xf4 || n > left) return 0;
    *code = b[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (b[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* a longer form than needed is no UTF-8 */
    return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

/* Characters that do something instead of showing something: controls (C0, DEL, C1), line and paragraph separators, and the marks that
 * turn the direction of writing (Unicode TR 36, "bidirectional text spoofing"). */
bool hm_acts(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

size_t hm_clean(const char *text, size_t size, char out[HM_CLEANED]) {
    uint32_t code = 0;
    size_t n = hm_utf8_length(text, size, &code);
    if (n && !hm_acts(code)) {
        memcpy(out, text, n);
        out[n] = 0;
        return n;
    }
    if (n && (code == '\n' || code == '\t' || code == '\r'))
        (void)snprintf(out, HM_CLEANED, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : 'r');
    else if (n > 1)
        (void)snprintf(out, HM_CLEANED, "\\u%04x", code);
    else
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): a text of `size` bytes has its first one */
        (void)snprintf(out, HM_CLEANED, "\\x%02x", (unsigned char)text[0]);
    return n ? n : 1;
}

void hm_str_clean(struct hm_str *s, const char *bytes, size_t n) {
    bool people = s->people;
    s->people = false;
    for (size_t i = 0; i < n;) {
        char one[HM_CLEANED];
        i += hm_clean(bytes + i, n - i, one);
        hm_str_bytes(s, one, strlen(one));
    }
    s->people = people;
}

size_t hm_columns(const char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\033') { /* a style takes no room */
            while (i < size && text[i] != 'm') i++;
            continue;
        }
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return n;
}

/* How many bytes of `text` (size > 0) go into `width` columns: up to the last space that fits, or a part of a word that fits nowhere.
 * *next is where the following line begins. */
static size_t line_part(const char *text, size_t size, size_t width, size_t *next) {
    size_t columns = 0, space = 0, at = 0;
    while (at < size) {
        size_t from = at;
        if (text[at] == '\033') {
            while (at < size && text[at] != 'm') at++;
            if (at < size) at++;
            continue;
        }
        at++;
        while (at < size && ((unsigned char)text[at] & 0xc0) == 0x80) at++;
        if (text[from] == ' ' && !(at < size && text[at] == '%')) space = from; /* "102 %" stays together */
        if (++columns > width) {
            at = space ? space : from;
            *next = at;
            while (*next < size && text[*next] == ' ') ++*next;
            return at;
        }
    }
    *next = size;
    return size;
}

static size_t leading_spaces(const char *text, size_t size) {
    size_t n = 0;
    while (n < size && text[n] == ' ') n++;
    return n;
}

/* Where the last column of a table begins: behind the last gap of two spaces or more that ends before `most`; `none` if there is none. */
static size_t column_of_text(const char *line, size_t size, size_t most, size_t none) {
    size_t at = none, column = 0, gap = 0;
    for (size_t i = leading_spaces(line, size); i < size && line[i] != '\033'; i++) {
        if (((unsigned char)line[i] & 0xc0) == 0x80) continue;
        column = hm_columns(line, i);
        if (line[i] != ' ' && gap >= 2 && column <= most) at = column;
        gap = line[i] == ' ' ? gap + 1 : 0;
        if (column > most) break;
    }
    return at;
}

static void fold_line(struct hm_str *out, const char *line, size_t size, size_t width, size_t indent) {
    size_t lead = leading_spaces(line, size), hang = lead + 2;
    /* a label in front: its columns are those before `indent`, styles aside */
    size_t label = 0, columns = 0;
    while (label < size && columns < indent) {
        if (line[label] == '\033')
            while (label < size && line[label] != 'm') label++;
        else
            columns += ((unsigned char)line[label] & 0xc0) != 0x80;
        label++;
    }
    if (columns == indent && label > 0 && label < size && line[label - 1] == ' ' && line[label] != ' ')
        hang = indent;
    else
        hang = column_of_text(line, size, width / 2, hang);
    if (hang > width / 2) hang = 2;
    for (bool first = true; first || size > 0; first = false) {
        size_t next = 0, room = first ? width : width - hang, n = size ? line_part(line, size, room, &next) : 0;
        if (first && n <= lead && next < size)
            n = next = lead + (width > lead ? width - lead : 1); /* nothing but its indent fits */
        if (next > size) n = next = size;
        if (!first) {
            hm_str_bytes(out, "\n", 1);
            for (size_t k = 0; k < hang; k++) hm_str_bytes(out, " ", 1);
        }
        while (n > 0 && line[n - 1] == ' ') n--; /* spaces at a line's end show nothing */
        hm_str_bytes(out, line, n);
        line += next;
        size -= next;
    }
}

void hm_str_fold(struct hm_str *s, size_t width, size_t indent) {
    struct hm_str out = {0};
    for (const char *line = s->text; line && *line;) {
        size_t size = strcspn(line, "\n");
        if (hm_columns(line, size) > width) {
            fold_line(&out, line, size, width, indent);
        } else {
            hm_str_bytes(&out, line, size);
        }
        line += size;
        if (*line == '\n') {
            hm_str_bytes(&out, "\n", 1);
            line++;
        }
    }
    out.failed |= s->failed;
    out.people = s->people;
    hm_free(s->text);
    *s = out;
}

char *hm_text_fold(const char *text, int width) {
    struct hm_str s = {.text = hm_strdup(text)};
    if (!s.text) return NULL;
    hm_str_fold(&s, width > 0 ? (size_t)width : 80, 11);
    if (!s.failed && s.text) return s.text;
    bool failed = s.failed;
    hm_str_free(&s);
    return failed ? NULL : hm_strdup("");
}

/* ---- formatting ---- */

/* One conversion of a format: "%-*.3zu". */
struct spec {
    char text[40];        /* as snprintf takes it, with widths filled in */
    int width, precision; /* -1: none */
    bool left;
    char length[3], conversion;
};

struct arguments {
    va_list list;
};

/* Reads the conversion behind a '%' and returns what stands behind it; NULL if it is none that is known. */
static const char *read_spec(const char *f, struct spec *s, struct arguments *a) {
    char flags[8] = "";
    size_t n = 0;
    *s = (struct spec){.width = -1, .precision = -1};
    for (; *f && strchr("-+ #0'", *f) && n < sizeof flags - 1; f++) {
        flags[n++] = *f;
        s->left |= *f == '-';
    }
    flags[n] = 0;
    if (*f == '*') {
        s->width = va_arg(a->list, int);
        f++;
    } else if (*f >= '0' && *f <= '9') {
        s->width = (int)strtol(f, (char **)&f, 10);
    }
    if (s->width < -1) {
        s->left = true;
        s->width = -s->width;
        flags[n++] = '-'; /* one of the eight is always free for it */
        flags[n] = 0;
    }
    if (*f == '.') {
        s->precision = 0;
        if (*++f == '*') {
            s->precision = va_arg(a->list, int);
            f++;
        } else if (*f >= '0' && *f <= '9') {
            s->precision = (int)strtol(f, (char **)&f, 10);
        }
    }
    for (n = 0; *f && strchr("hlzjt", *f) && n < 2; f++) s->length[n++] = *f;
    s->conversion = *f;
    if (!*f || !strchr("diuxXocsfFeEgGp", *f)) return NULL;
    char width[12] = "", precision[13] = "";
    if (s->width >= 0) (void)snprintf(width, sizeof width, "%d", s->width);
    if (s->precision >= 0) (void)snprintf(precision, sizeof precision, ".%d", s->precision);
    (void)snprintf(s->text, sizeof s->text, "%%%s%s%s%s%c", flags, width, precision, s->length, s->conversion);
    return f + 1;
}

static void fill(struct hm_str *s, size_t n) {
    for (size_t i = 0; i < n; i++) hm_str_bytes(s, " ", 1);
}

static void add_text(struct hm_str *s, const struct spec *p, const char *text) {
    if (!text) text = "(null)";
    if (is_style(text)) {
        hm_str_bytes(s, text, strlen(text));
        return;
    }
    size_t size = p->precision >= 0 ? strnlen(text, (size_t)p->precision) : strlen(text);
    if (p->precision >= 0 && text[size]) /* a cut does not go through a character */
        while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80) size--;
    struct hm_str clean = {0};
    hm_str_clean(&clean, text, size);
    size_t columns = clean.text ? hm_columns(clean.text, clean.length) : 0,
           room = p->width > 0 && (size_t)p->width > columns ? (size_t)p->width - columns : 0;
    if (!p->left) fill(s, room);
    if (clean.length) hm_str_bytes(s, clean.text, clean.length);
    if (p->left) fill(s, room);
    s->failed |= clean.failed;
    hm_str_free(&clean);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* The conversions that no input can abuse: numbers. */
static void add_number(struct hm_str *s, const struct spec *p, struct arguments *a) {
    char text[512];
    int n;
    if (strchr("fFeEgG", p->conversion))
        n = snprintf(text, sizeof text, p->text, va_arg(a->list, double));
    else if (p->conversion == 'p')
        n = snprintf(text, sizeof text, p->text, va_arg(a->list, void *));
    else if (strcmp(p->length, "ll") == 0)
        n = snprintf(text, sizeof text, p->text, va_arg(a->list, long long));
    else if (p->length[0] == 'l')
        n = snprintf(text, sizeof text, p->text, va_arg(a->list, long));
    else if (p->length[0] == 'j')
        n = snprintf(text, sizeof text, p->text, va_arg(a->list, intmax_t));
    else if (p->length[0] == 'z' || p->length[0] == 't')
        n = snprintf(text, sizeof text, p->text, va_arg(a->list, size_t));
    else
        n = snprintf(text, sizeof text, p->text, va_arg(a->list, int));
    if (n < 0) {
        s->failed = true;
        return;
    }
    hm_str_bytes(s, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}
#pragma GCC diagnostic pop

void hm_str_format(struct hm_str *s, const char *format, va_list list) {
    struct arguments a;
    va_copy(a.list, list);
    bool people = s->people;
    s->people = false; /* what is appended from here on is clean already */
    while (*format) {
        size_t plain = strcspn(format, "%");
        if (plain) hm_str_bytes(s, format, plain);
        format += plain;
        if (!*format) break;
        struct spec p;
        const char *next = format[1] == '%' ? NULL : read_spec(format + 1, &p, &a);
        if (!next) { /* "%%", or nothing we know: as it stands */
            hm_str_bytes(s, "%", 1);
            format += format[1] == '%' ? 2 : 1;
            continue;
        }
        format = next;
        if (p.conversion == 's') {
            add_text(s, &p, va_arg(a.list, const char *));
        } else if (p.conversion == 'c') {
            char one[2] = {(char)va_arg(a.list, int), 0};
            add_text(s, &p, one);
        } else {
            add_number(s, &p, &a);
        }
    }
    s->people = people;
    va_end(a.list);
}

char *hm_text_format(const char *format, va_list list) {
    struct hm_str s = {0};
    hm_str_format(&s, format, list);
    if (!s.failed && s.text) return s.text;
    bool failed = s.failed;
    hm_str_free(&s);
    return failed ? NULL : hm_strdup("");
}

/* ---- ASCII ---- */

/* What stands for a character where only ASCII can be shown. */
static char ascii_for(uint32_t code) {
    static const struct {
        uint32_t code;
        char ascii;
    } table[] = {{0xd7, 'x'},   {0xb7, '.'},    {0xb5, 'u'},    {0x3bc, 'u'},  {0x2013, '-'}, {0x2014, '-'},
                 {0x2212, '-'}, {0x2018, '\''}, {0x2019, '\''}, {0x201c, '"'}, {0x201d, '"'}, {0x2192, '>'},
                 {0x2190, '<'}, {0x2264, '<'},  {0x2265, '>'},  {0x2026, '.'}, {0x00a0, ' '}};
    static const char heights[] =
        "_.-:=+*#"; /* lower blocks U+2581.., an eighth each, as the plain sparkline has them */
    if (code >= 0x2581 && code <= 0x2588) return heights[code - 0x2581];
    if (code >= 0x2589 && code <= 0x258f)
        return code <= 0x258c ? '#' : ' '; /* left blocks: half and more fills the place */
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++)
        if (table[k].code == code) return table[k].ascii;
    return '?';
}

void hm_text_ascii(char *text) {
    size_t size = strlen(text), to = 0;
    for (size_t from = 0; from < size;) {
        uint32_t code = 0;
        size_t n = hm_utf8_length(text + from, size - from, &code);
        text[to++] = n == 1 ? text[from] : n ? ascii_for(code) : '?';
        from += n ? n : 1;
    }
    text[to] = 0;
}
