/* test_pickle.c - pickles of plain data, and those that are refused. */
#include "trace/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct hm_value *read_bytes(struct hm_document *doc, const char *bytes, size_t size,
                                         struct hm_error *err) {
    return hm_pickle_read(doc, bytes, size, "p", err);
}
#define READ(doc, literal, err) read_bytes(doc, literal, sizeof(literal) - 1, err)

/* Every opcode of plain data, each in the smallest pickle that has it. Bytes are as CPython's pickletools describes them. */
static void numbers(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int64_t value;
    } cases[] = {
#define CASE(literal, value) {literal, sizeof(literal) - 1, value}
        CASE("K\xff.", 255),
        CASE("M\x01\x02.", 513),
        CASE("J\xff\xff\xff\xff.", -1),
        CASE("I-12\n.", -12),
        CASE("L123L\n.", 123),
        CASE("\x8a\x00.", 0),
        CASE("\x8a\x01\xff.", -1),
        CASE("\x8a\x02\xff\x00.", 255),
        CASE("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", INT64_MIN),
        CASE("\x8b\x02\x00\x00\x00\x00\x01.", 256),
        CASE("\x88.", 1),
        CASE("\x89.", 0),
        CASE("I01\n.", 1),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hm_document doc = {0};
        const struct hm_value *v = read_bytes(&doc, cases[i].bytes, cases[i].size, NULL);
        assert_non_null(v);
        assert_true(v->kind == HM_VALUE_INTEGER || v->kind == HM_VALUE_BOOL);
        assert_int_equal(v->integer, cases[i].value);
        hm_document_free(&doc);
    }
}

static void reals_and_texts(void **state) {
    (void)state;
    struct hm_document doc = {0};
    assert_float_equal(READ(&doc, "G\x3f\xf8\x00\x00\x00\x00\x00\x00.", NULL)->real, 1.5, 0);
    assert_float_equal(READ(&doc, "F2.25\n.", NULL)->real, 2.25, 0);
    assert_string_equal(READ(&doc, "X\x02\x00\x00\x00hi.", NULL)->text, "hi");
    assert_string_equal(READ(&doc, "\x8c\x02hi.", NULL)->text, "hi");
    assert_string_equal(READ(&doc, "S'hi'\n.", NULL)->text, "hi");
    assert_string_equal(READ(&doc, "Vhi\n.", NULL)->text, "hi");
    assert_string_equal(READ(&doc, "U\x02hi.", NULL)->text, "hi");
    assert_string_equal(READ(&doc, "C\x02hi.", NULL)->text, "hi");
    assert_string_equal(READ(&doc, "\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi.", NULL)->text, "hi");
    /* what cannot be shown or is no UTF-8 becomes '?' */
    assert_string_equal(READ(&doc,
                             "U\x06"
                             "a\x00\n\xff\xc3\xa9.",
                             NULL)
                            ->text,
                        "a???\xc3\xa9");
    hm_document_free(&doc);
}

static void containers_and_memo(void **state) {
    (void)state;
    struct hm_document doc = {0};
    /* {"a": [1, 2], "b": the same list} with a memo */
    const struct hm_value *v = READ(&doc,
                                    "\x80\x02}q\x00(U\x01"
                                    "a]q\x01(K\x01K\x02"
                                    "eU\x01"
                                    "bh\x01u.",
                                    NULL);
    assert_non_null(v);
    assert_int_equal(v->kind, HM_VALUE_DICT);
    assert_ptr_equal(hm_value_get(v, "a"), hm_value_get(v, "b"));
    assert_int_equal(hm_value_get(v, "a")->item[1]->integer, 2);
    assert_null(hm_value_get(v, "c"));
    v = READ(&doc, "(K\x01K\x02t.", NULL);
    assert_int_equal(v->n, 2);
    v = READ(&doc, "K\x01K\x02\x86.", NULL);
    assert_int_equal(v->n, 2);
    v = READ(&doc,
             "(U\x01"
             "aK\x07"
             "d.",
             NULL);
    assert_int_equal(hm_value_get_integer(v, "a", 0), 7);
    v = READ(&doc, "}K\x05K\x06s.", NULL); /* an integer is a key, too */
    assert_int_equal(hm_value_get_integer(v, "5", 0), 6);
    v = READ(&doc,
             "\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x01x\x94h\x01"
             "e.",
             NULL);
    assert_int_equal(v->n, 2);
    /* a list that holds itself */
    v = READ(&doc,
             "]q\x00h\x00"
             "a.",
             NULL);
    assert_ptr_equal(v->item[0], v);
    hm_document_free(&doc);
}

/* Whatever would look up or call something is refused by name and byte. */
static void code_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } cases[] = {
#define CASE(literal, says) {literal, sizeof(literal) - 1, says}
        CASE("cos\nsystem\n(S'ls'\ntR.", "GLOBAL at byte 0"),
        CASE("\x80\x02K\x01K\x01R.", "REDUCE at byte 6"),
        CASE("(S'ls'\nios\nsystem\n.", "INST at byte 7"),
        CASE("(o.", "OBJ at byte 1"),
        CASE("}}b.", "BUILD at byte 2"),
        CASE("\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL at byte 14"),
        CASE("))\x81.", "NEWOBJ at byte 2"),
        CASE("))}\x92.", "NEWOBJ_EX at byte 3"),
        CASE("P1\n.", "PERSID at byte 0"),
        CASE("K\x01Q.", "BINPERSID at byte 2"),
        CASE("\x82\x01.", "EXT1 at byte 0"),
        CASE("\x97.", "NEXT_BUFFER at byte 0"),
        CASE("\xfe.", "unknown opcode 0xfe at byte 0"),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hm_document doc = {0};
        struct hm_error err = {0};
        assert_null(read_bytes(&doc, cases[i].bytes, cases[i].size, &err));
        assert_non_null(strstr(err.message, cases[i].says));
        hm_document_free(&doc);
    }
}

/* Broken ones end in an error, not in a crash. */
static void broken(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
#define CASE(literal) {literal, sizeof(literal) - 1}
        CASE(""),
        CASE("."),
        CASE("K"),
        CASE("\x80\x09N."),
        CASE("X\xff\xff\xff\x7fhi."),
        CASE("a."),
        CASE("K\x01"
             "a."),
        CASE("(e."),
        CASE("]u."),
        CASE("}(K\x01u."),
        CASE("h\x05."),
        CASE("q\x05."),
        CASE("Nr\xff\xff\xff\xff."),
        CASE("(t"),
        CASE("0."),
        CASE("1."),
        CASE("I12"),
        CASE("Ix\n."),
        CASE("S'hi\n."),
        CASE("(."),
        CASE("\x86."),
        CASE("](s."),
        CASE("}K\x01(s."),
        CASE("\x8a\xffx."),
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hm_document doc = {0};
        struct hm_error err = {0};
        if (read_bytes(&doc, cases[i].bytes, cases[i].size, &err)) fail_msg("case %zu was read", i);
        assert_int_equal(err.code, HM_ERR_INPUT);
        hm_document_free(&doc);
    }
}

/* Each allocation fails once. */
static void no_memory(void **state) {
    (void)state;
    static const char bytes[] = "\x80\x02}q\x00(U\x01"
                                "a]q\x01(K\x01K\x02K\x03K\x04K\x05"
                                "eU\x01"
                                "b\x8a\x08\x01\x02\x03\x04\x05\x06\x07\x08u.";
    bool failed = true;
    for (long k = 1; failed; k++) {
        struct hm_document doc = {0};
        struct hm_error err = {0};
        hm_fault_after = k;
        failed = read_bytes(&doc, bytes, sizeof bytes - 1, &err) == NULL;
        hm_fault_after = 0;
        if (failed) assert_int_equal(err.code, HM_ERR_MEMORY);
        hm_document_free(&doc);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),         cmocka_unit_test(reals_and_texts), cmocka_unit_test(containers_and_memo),
        cmocka_unit_test(code_is_refused), cmocka_unit_test(broken),          cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
