/* test_json_stream.c - JSON piece by piece: tokens, escapes, what is cut and what is none, whatever the sizes of the pieces read. */
#include "base/json_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct text {
    const char *bytes;
    size_t left, most;
};

static size_t give(void *context, void *bytes, size_t n) {
    struct text *t = context;
    if (n > t->most) n = t->most;
    if (n > t->left) n = t->left;
    memcpy(bytes, t->bytes, n);
    t->bytes += n;
    t->left -= n;
    return n;
}

/* The tokens as letters: { } [ ] k s n w, and . for the end, ~ cut, ! bad. */
static void tokens(const char *json, size_t n, size_t piece, char *letters, char *last) {
    static const char letter[] = ".~!{}[]ksnw";
    struct hm_json_stream s;
    struct text t = {json, n, piece};
    assert_int_equal(hm_json_stream_open(&s, give, &t), 0);
    for (size_t k = 0;; k++) {
        enum hm_json_token token = hm_json_stream_next(&s);
        letters[k] = letter[token];
        letters[k + 1] = 0;
        if (last && (token == HM_JSON_STRING || token == HM_JSON_NUMBER)) strcpy(last, s.text);
        if (token <= HM_JSON_BAD) break;
    }
    hm_json_stream_close(&s);
}

static void each_piece(void **state) {
    (void)state;
    static const struct {
        const char *json, *tokens, *last;
    } cases[] = {{"{\"a\": [1, -2.5e3, \"x\"], \"b\": {}}", "{k[nns]k{}}.", "x"},
                 {" [true,false , null, NaN]", "[wwww].", ""},
                 {"[\"a\\\"\\\\\\n\\u00e9\\u20ac\"]", "[s].", "a\"\\\n\xc3\xa9\xe2\x82\xac"},
                 {"12", "n.", "12"},
                 {"[1, 2,]", "[nn].", "2"}, /* a comma too many: writers that were stopped leave it */
                 {"[1 2]", "[n!", "1"},
                 {"{\"a\" 1}", "{!", ""},
                 {"{\"a\":}", "{k!", ""},
                 {"{1: 2}", "{!", ""},
                 {"[1}", "[n!", "1"},
                 {"]", "!", ""},
                 {"[\"\\x\"]", "[!", ""},
                 {"", "~", ""}};
    char letters[64];
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (size_t piece = 1; piece <= 40; piece += 13) {
            char last[64] = "";
            tokens(cases[k].json, strlen(cases[k].json), piece, letters, last);
            assert_string_equal(letters, cases[k].tokens);
            assert_string_equal(last, cases[k].last);
        }
}

static void cut_anywhere(void **state) {
    (void)state;
    static const char json[] = "{\"a\": [1, \"two\", {\"b\": null}], \"c\": 3}";
    char letters[64];
    for (size_t n = 0; n < strlen(json); n++) {
        tokens(json, n, 5, letters, NULL);
        assert_int_equal(letters[strlen(letters) - 1], '~');
    }
}

static void deep_and_long(void **state) {
    (void)state;
    static char json[1 << 17], letters[2000];
    memset(json, '[', 1000);
    tokens(json, 1000, 4096, letters, NULL);
    assert_int_equal(strlen(letters), HM_JSON_DEPTH + 1);
    assert_int_equal(letters[HM_JSON_DEPTH], '!');
    memset(json, 'x', sizeof json);
    json[0] = '"';
    json[sizeof json - 1] = '"';
    static char text[HM_JSON_TEXT + 1];
    tokens(json, sizeof json, 1000, letters, text);
    assert_string_equal(letters, "s.");
    assert_int_equal(strlen(text), HM_JSON_TEXT - 1); /* only its beginning is kept */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_piece), cmocka_unit_test(cut_anywhere),
                                       cmocka_unit_test(deep_and_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
