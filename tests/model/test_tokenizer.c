/* SPDX-License-Identifier: Apache-2.0 */
/* Text to tokens and back, and malformed files. */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "said.h"
#include "tokenizer.h"

/* Ids 0 to 258 as in every such file, then these. */
enum { FIRST = 259, SPACE = FIRST, A, B, C, AB, BC, SPACE_A, LONG, UMLAUT, COUNT };

static const struct {
    const char *bytes;
    float score;
} more[] = {{" ", -9},  {"a", -9},  {"b", -9},   {"c", -9},       {"ab", -2},
            {"bc", -1}, {" a", -3}, {"abc", -5}, {"\xc3\xa4", -9}};

static unsigned char file[16384];
static size_t file_bytes;
static char folder[64];

static void put(float score, const char *bytes)
{
    uint32_t length = (uint32_t)strlen(bytes);
    memcpy(file + file_bytes, &score, 4);
    memcpy(file + file_bytes + 4, &length, 4);
    memcpy(file + file_bytes + 8, bytes, length);
    file_bytes += 8 + length;
}

static int set_up(void **state)
{
    (void)state;
    char byte[8];
    file_bytes = 4;
    put(0, "<unk>");
    put(0, "\n<s>\n");
    put(0, "\n</s>\n");
    for (unsigned i = 0; i < 256; i++) {
        snprintf(byte, sizeof byte, "<0x%02X>", i);
        put(0, byte);
    }
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        put(more[i].score, more[i].bytes);
    strcpy(folder, new_folder());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/tokenizer.bin", folder);
    unlink(path);
    rmdir(folder);
    return 0;
}

static bool opens(size_t bytes, size_t vocabulary, tokenizer **t)
{
    write_file(folder, "tokenizer.bin", file, bytes);
    return tokenizer_open(folder, vocabulary, t);
}

static tokenizer *whole(void)
{
    tokenizer *t = NULL;
    assert_true(opens(file_bytes, COUNT, &t));
    assert_non_null(t);
    return t;
}

static void assert_tokens(const tokenizer *t, const char *text, const int *wanted, size_t count)
{
    int *tokens = NULL;
    size_t given = 99;
    assert_true(tokenizer_encode(t, text, &tokens, &given));
    if (given != count || (count > 0 && memcmp(tokens, wanted, count * sizeof *tokens) != 0)) {
        fprintf(stderr, "'%s':", text);
        for (size_t i = 0; i < given; i++)
            fprintf(stderr, " %d", tokens[i]);
        fail_msg("%zu tokens, wanted others", given);
    }
    free(tokens);
}

#define assert_encodes(t, text, ...)                                                               \
    assert_tokens(t, text, (const int[]){__VA_ARGS__},                                             \
                  sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* One leading space; of two pairs the better score first, of two equal ones the left. */
static void joins_by_score(void **state)
{
    (void)state;
    tokenizer *t = whole();
    assert_tokens(t, "", NULL, 0);
    assert_encodes(t, "a", SPACE_A);
    assert_encodes(t, "b", SPACE, B);
    assert_encodes(t, "ab", SPACE, AB);    /* ab before " a" */
    assert_encodes(t, "abc", SPACE_A, BC); /* bc, then " a"; " abc" is no token */
    assert_encodes(t, "cabc", SPACE, C, LONG);
    assert_encodes(t, "bcbc", SPACE, BC, BC);
    assert_encodes(t, " a", SPACE, SPACE_A);
    tokenizer_close(t);
}

static void unknown_characters_are_bytes(void **state)
{
    (void)state;
    tokenizer *t = whole();
    assert_encodes(t, "\xc3\xa4", SPACE, UMLAUT);
    assert_encodes(t, "\xc3\xb6z", SPACE, 0xc3 + 3, 0xb6 + 3, 'z' + 3);
    assert_encodes(t, "\n", SPACE, '\n' + 3);
    assert_encodes(t, "\xff\xbf\xbf\xbf\xbf", SPACE, 0xff + 3, 0xbf + 3, 0xbf + 3, 0xbf + 3,
                   0xbf + 3);
    tokenizer_close(t);
}

static void assert_piece(const tokenizer *t, int bos, int before, int token, const char *wanted,
                         size_t length)
{
    size_t given;
    const char *piece = tokenizer_piece(t, bos, before, token, &given);
    assert_int_equal(given, length);
    assert_memory_equal(piece, wanted, length);
}

static void pieces(void **state)
{
    (void)state;
    tokenizer *t = whole();
    assert_piece(t, 1, A, SPACE_A, " a", 2);
    assert_piece(t, 1, 1, SPACE_A, "a", 1);
    assert_piece(t, -1, -1, SPACE_A, " a", 2);
    assert_piece(t, 1, 1, BC, "bc", 2);
    assert_piece(t, 1, A, 3 + 0x0a, "\n", 1);
    assert_piece(t, 1, A, 3 + 0xff, "\xff", 1);
    assert_piece(t, 1, A, 3, "\0", 1);
    assert_piece(t, 1, A, COUNT, "", 0); /* the model's vocabulary may be larger */
    assert_piece(t, 1, A, -1, "", 0);
    tokenizer_close(t);
}

static void refuses_malformed_files(void **state)
{
    (void)state;
    tokenizer *t = NULL;
    assert_true(tokenizer_open(folder, COUNT, &t)); /* no file: no tokenizer */
    assert_null(t);
    assert_fails(opens(0, COUNT, &t), "0 bytes");
    assert_fails(opens(3, COUNT, &t), "3 bytes");
    assert_fails(opens(4, COUNT, &t), "0 tokens; the bytes alone");
    assert_fails(opens(file_bytes - 1, COUNT, &t), "reaches beyond the file");
    assert_fails(opens(file_bytes + 7, COUNT + 1, &t), "reaches beyond the file");
    assert_fails(opens(file_bytes, COUNT - 1, &t), "more tokens than the model's vocabulary");
    const int32_t lengths[] = {-1, 5000, INT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        memcpy(file + 8, &lengths[i], 4);
        assert_fails(opens(file_bytes, COUNT, &t), "token 0 at byte 4 reaches beyond the file");
    }
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(joins_by_score, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_characters_are_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_malformed_files, set_up, tear_down),
    };
    return SUPPORT_RUN("model_tokenizer", tests);
}
