/* SPDX-License-Identifier: Apache-2.0 */
/* Malformed files: each is refused at open, with file and tensor in the sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"

/* Refused as malformed, and the sentence holds the file's name and these texts. */
#define assert_malformed(path, ...)                                                                \
    do {                                                                                           \
        parlin_checkpoint *opened = NULL;                                                          \
        const char *where = path;                                                                  \
        assert_refused(parlin_checkpoint_open(where, &opened), PARLIN_ERROR_FILE, where,           \
                       __VA_ARGS__);                                                               \
        assert_null(opened);                                                                       \
    } while (0)

/* One header with so much data (zeros) is refused with these texts. */
#define refuse_header(header, bytes, ...)                                                          \
    assert_malformed(files_safetensors("bad", header, NULL, bytes), __VA_ARGS__)

/* One tensor "t". */
#define T(dtype, shape, offsets)                                                                   \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void case_C35_shape_and_offsets(void **state)
{
    (void)state;
    refuse_header(T("\"F32\"", "[1000,1000]", "[0,4]"), 4, "'t'", "(1000, 1000)", "4000000",
                  "span 4");
    refuse_header(T("\"F32\"", "[1000,1000]", "[0,4000000]"), 4, "'t'", "[0, 4000000]",
                  "4 bytes of data");
    refuse_header(T("\"F32\"", "[1]", "[8,4]"), 8, "'t'", "[8, 4]", "ends before it begins");
    refuse_header(T("\"F32\"", "[1]", "[-1,3]"), 8, "'t'", "[-1, 3]", "whole numbers");
    refuse_header(T("\"F32\"", "[1]", "[4]"), 4, "'t'", "two numbers");
    refuse_header(T("\"F32\"", "[1]", "[0,4,8]"), 4, "'t'", "two numbers");
}

static void two(const char *a, const char *b, size_t bytes, const char *const *texts)
{
    char header[256];
    snprintf(header, sizeof header,
             "{\"A\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":%s},"
             "\"B\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":%s}}",
             a, b);
    parlin_checkpoint *opened = NULL;
    const char *path = files_safetensors("two", header, NULL, bytes);
    support_assert_refused(parlin_checkpoint_open(path, &opened), PARLIN_ERROR_FILE, header,
                           __FILE__, __LINE__, texts);
}

static void case_C36_overlap_hole_rest_double(void **state)
{
    (void)state;
    two("[0,8]", "[4,12]", 12, (const char *const[]){"/two", "'B'", "within 'A'", NULL});
    two("[0,8]", "[0,8]", 8, (const char *const[]){"/two", "'B'", "within 'A'", NULL});
    two("[0,8]", "[12,20]", 20,
        (const char *const[]){"/two", "'B'", "hole from 8", "'A' ends", NULL});
    two("[16,24]", "[0,8]", 24, (const char *const[]){"/two", "'A'", "hole from 8", NULL});
    two("[0,8]", "[8,16]", 19,
        (const char *const[]){"/two", "'B'", "ends at 16", "19 bytes", NULL});
    refuse_header(T("\"U8\"", "[4]", "[4,8]"), 8, "'t'", "hole from 0", "the header ends");
    refuse_header("{\"A\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                  "\"A\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                  8, "'A'", "twice");
    refuse_header("{\"A\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                  "\"B\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                  "\"\\u0041\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
                  4, "'A'", "twice");
    refuse_header("{}", 3, "3 bytes of data, and no tensor");
}

static void case_C39_metadata(void **state)
{
    (void)state;
    refuse_header("{\"__metadata__\":{\"n\":1}}", 0, "__metadata__", "'n'", "no text");
    refuse_header("{\"__metadata__\":1}", 0, "__metadata__", "no object");
    refuse_header("{\"__metadata__\":[]}", 0, "__metadata__", "no object");
    refuse_header("{\"__metadata__\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
                  "__metadata__", "'shape'", "no tensor");
    refuse_header("{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\",\"a\":\"3\"}}", 0, "__metadata__",
                  "'a'", "twice");
    refuse_header("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__", "twice");
    refuse_header("{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "__metadata__", "'a'");
}

/* Padding is of spaces, as the format says; the reference reader refuses a NUL as well. */
static void case_C39_padding(void **state)
{
    (void)state;
    static const char header[] = T("\"U8\"", "[1]", "[0,1]") "\0\0\0";
    assert_malformed(files_raw("nul", sizeof header - 1, header, sizeof header - 1, "x", 1), "NUL",
                     "spaces");
    static const char inside[] =
        "{\"a\0b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}";
    assert_malformed(files_raw("nul", sizeof inside - 1, inside, sizeof inside - 1, "x", 1), "NUL");
    refuse_header("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
                  "NUL in a string");
    refuse_header(" " T("\"U8\"", "[1]", "[0,1]"), 1, "begin with '{'");
    refuse_header(T("\"U8\"", "[1]", "[0,1]") "  {}", 1, "more after its last brace");
    parlin_checkpoint *c =
        files_open(files_safetensors("good", T("\"U8\"", "[1]", "[0,1]") " \t\r\n  ", "x", 1));
    parlin_checkpoint_close(c);
    /* no NUL: a backslash, then u0000 */
    c = files_open(files_safetensors(
        "good", "{\"\\\\u0000\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", "x", 1));
    assert_true(parlin_checkpoint_has(c, "\\u0000"));
    parlin_checkpoint_close(c);
}

static void lengths(void **state)
{
    (void)state;
    static const char header[] = "{}";
    assert_malformed(files_write("short", "", 0), "empty");
    assert_malformed(files_write("short", "\2\0\0", 3), "truncated", "3 bytes");
    assert_malformed(files_raw("short", 0, "", 0, NULL, 0), "begin with '{'");
    assert_malformed(files_raw("short", 0, header, 2, NULL, 0), "begin with '{'");
    assert_malformed(files_raw("short", 2, "", 0, NULL, 0), "truncated", "header of 2");
    assert_malformed(files_raw("short", 3, header, 2, NULL, 0), "truncated", "header of 3",
                     "has 2");
    assert_malformed(files_raw("short", 100000001, header, 2, NULL, 100000001),
                     "header of 100000001", "at most 100000000");
    assert_malformed(files_raw("short", UINT64_MAX, header, 2, NULL, 0),
                     "header of 18446744073709551615");
    assert_malformed(files_raw("short", (uint64_t)1 << 63, header, 2, NULL, 0), "at most");
    assert_malformed(files_raw("short", UINT64_MAX - 7, header, 2, NULL, 0), "at most");
    assert_malformed(files_raw("zeros", 1000, NULL, 0, NULL, 2000), "begin with '{'");
    assert_malformed(files_raw("cut", 40, T("\"U8\"", "[1]", "[0,1]"), 40, NULL, 20), "no JSON");
}

static void not_json(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{",
        "{\"t\"}",
        "{\"t\":}",
        "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}",
        "{\"t\":{\"dtype\":\"U8\",\"shape\":[1,],\"data_offsets\":[0,1]}}",
        "{t:{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"t\":{\"dtype\":\"U8,\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"t\":NaN}",
        "{\"t\\ud800\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"t\\q\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        refuse_header(texts[i], 1, "no JSON");
    refuse_header("[]", 0, "begin with '{'");
    refuse_header("\"t\"", 0, "begin with '{'");
    refuse_header("{\"\xff\":{}}", 0, "no UTF-8", "byte 2");
    refuse_header("{\"\xc0\x80\":{}}", 0, "no UTF-8");
    refuse_header("{\"\xed\xa0\x80\":{}}", 0, "no UTF-8");
    refuse_header("{\"\xf4\x90\x80\x80\":{}}", 0, "no UTF-8");
    refuse_header("{\"\xe4\xb8\":{}}", 0, "no UTF-8");
    static const char *const cut[] = {"00e;", "x041", "00", "", "+041", " 041"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char header[128];
        snprintf(header, sizeof header,
                 "{\"a\\u%s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", cut[i]);
        refuse_header(header, 1, "\\u without four digits");
    }
    refuse_header("{\"a\\u00", 1, "without four digits");
    refuse_header("{\"a\nb\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1,
                  "control character");
}

static void deep(void **state)
{
    (void)state;
    enum { DEPTH = 2000000 };
    char *header = support_alloc(DEPTH + 16);
    strcpy(header, "{\"t\":");
    memset(header + 5, '[', DEPTH);
    header[5 + DEPTH] = 0;
    refuse_header(header, 0, "nested too deep");
    for (size_t i = 0; i + 5 < DEPTH; i += 5)
        memcpy(header + 5 + i, "{\"a\":", 5);
    refuse_header(header, 0, "nested too deep");
    free(header);
    /* deep, but JSON */
    char some[1700] = "{\"t\":";
    memset(some + 5, '[', 800);
    memset(some + 805, ']', 800);
    some[1605] = '}';
    refuse_header(some, 0, "'t'", "no object");
}

static void wrong_entries(void **state)
{
    (void)state;
    refuse_header("{\"t\":1}", 0, "'t'", "no object");
    refuse_header("{\"t\":null}", 0, "'t'", "no object");
    refuse_header("{\"t\":[\"U8\",[1],[0,1]]}", 1, "'t'", "no object");
    refuse_header("{\"t\":{}}", 0, "'t'", "no dtype");
    refuse_header("{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "'t'", "no data_offsets");
    refuse_header("{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "'t'", "no shape");
    refuse_header("{\"a\":{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}}", 1,
                  "'a'", "has 't'");
    refuse_header("{\"t\":{\"dtype\":\"U8\",\"Shape\":[1],\"data_offsets\":[0,1]}}", 1, "'t'",
                  "has 'Shape'");
    refuse_header("{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,1]}}",
                  1, "'t'", "shape twice");
    refuse_header(T("3", "[1]", "[0,1]"), 1, "'t'", "dtype is no text");
    refuse_header(T("\"U8\"", "1", "[0,1]"), 1, "'t'", "shape is no list");
    refuse_header(T("\"U8\"", "{\"a\":1}", "[0,1]"), 1, "'t'", "shape is no list");
    refuse_header(T("\"U8\"", "[[1]]", "[0,1]"), 1, "'t'", "dimension 0", "no number");
    refuse_header(T("\"U8\"", "[1,\"1\"]", "[0,1]"), 1, "'t'", "dimension 1", "no number");
    refuse_header(T("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "'t'", "more than 8 dimensions");
    refuse_header(T("\"U8\"", "[1]", "{\"a\":0,\"b\":1}"), 1, "'t'", "two numbers");
    refuse_header(T("\"U8\"", "[1]", "[\"0\",\"1\"]"), 1, "'t'", "two numbers");
    refuse_header(T("\"U8\"", "[1]", "[0,[1]]"), 1, "'t'", "two numbers");
    refuse_header(T("\"U8\"", "[1]", "true"), 1, "'t'", "two numbers");
}

static void numbers(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "1e300", "1e999", "-1", "1.5", "9007199254740992", "18446744073709551616"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char header[256];
        snprintf(header, sizeof header, T("\"U8\"", "[%s]", "[0,1]"), wrong[i]);
        refuse_header(header, 1, "'t'", "dimension 0", "whole number below 2^53");
        snprintf(header, sizeof header, T("\"U8\"", "[1]", "[0,%s]"), wrong[i]);
        refuse_header(header, 1, "'t'", "data_offsets", "whole numbers below 2^53");
        snprintf(header, sizeof header, T("\"U8\"", "[1]", "[%s,1]"), wrong[i]);
        refuse_header(header, 1, "'t'", "data_offsets", "whole numbers below 2^53");
    }
    /* whole numbers, but spelled otherwise */
    static const char *const spelled[] = {"1e0", "1.0", "01", "-0", "0.1e1", "1E+0"};
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
        char header[256];
        bool zero = strcmp(spelled[i], "-0") == 0;
        snprintf(header, sizeof header, T("\"U8\"", "[1%s]", "[%s,1]"), "", zero ? "-0" : "0");
        if (!zero)
            snprintf(header, sizeof header, T("\"U8\"", "[%s]", "[0,1]"), spelled[i]);
        refuse_header(header, 1, "plain digits");
    }
    refuse_header(T("\"F32\"", "[9007199254740991,9007199254740991]", "[0,4]"), 4, "'t'",
                  "more bytes than 64 bits count");
    /* 2^62 f32 are 2^64 bytes */
    refuse_header(T("\"F32\"", "[2147483648,2147483648]", "[0,0]"), 0, "'t'", "64 bits");
    refuse_header(T("\"F8_NEW\"", "[4294967296,4294967296]", "[0,4]"), 4, "'t'", "64 bits");
    refuse_header(T("\"U8\"", "[0]", "[0,1]"), 1, "'t'", "0 bytes", "span 1");
}

/* A hostile name stays a name: bounded, and no control characters for the terminal. */
static void names_in_sentences(void **state)
{
    (void)state;
    char header[4096] = "{\"\\u001b[2J";
    memset(header + strlen(header), 'x', 3000);
    strcat(header, "\":1}");
    refuse_header(header, 0, "'?[2Jxxx", "xxx..'");
    assert_true(strlen(parlin_last_error()) < 512);
    assert_null(strchr(parlin_last_error(), 0x1b));
}

static void no_file(void **state)
{
    (void)state;
    assert_malformed(files_make_folder("hollow"), "neither model.safetensors nor");
    files_make_folder("hollow/model.safetensors");
    parlin_checkpoint *none = NULL;
    assert_refused(parlin_checkpoint_open(files_path("hollow"), &none), PARLIN_ERROR_FILE,
                   "hollow/model.safetensors", "a folder, wanted a file");
    assert_int_equal(mkfifo(files_path("pipe"), 0666), 0);
    assert_malformed(files_path("pipe"), "no regular file");
    assert_malformed("/dev/null", "no regular file");
    assert_malformed("", "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C35_shape_and_offsets),
        cmocka_unit_test(case_C36_overlap_hole_rest_double),
        cmocka_unit_test(case_C39_metadata),
        cmocka_unit_test(case_C39_padding),
        cmocka_unit_test(lengths),
        cmocka_unit_test(not_json),
        cmocka_unit_test(deep),
        cmocka_unit_test(wrong_entries),
        cmocka_unit_test(numbers),
        cmocka_unit_test(names_in_sentences),
        cmocka_unit_test(no_file),
    };
    int failed = SUPPORT_RUN("checkpoint_malformed", tests);
    files_remove();
    return failed;
}
