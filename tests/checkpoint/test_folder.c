/* SPDX-License-Identifier: Apache-2.0 */
/* Folders: one file, or several that an index joins. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

#define U8(name, from, to)                                                                         \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" from "," to "]}"
#define INDEX "/model.safetensors.index.json"

static const char *write_text(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s", folder, name);
    return files_write(path, text, strlen(text));
}

/* Folder: file 1 has a and b, file 2 has b (another) and c, each a byte. */
static const char *two_files(const char *folder)
{
    char path[128];
    const char *made = files_make_folder(folder);
    snprintf(path, sizeof path, "%s/one.safetensors", folder);
    files_safetensors(
        path, "{\"__metadata__\":{\"from\":\"one\"}," U8("a", "0", "1") "," U8("b", "1", "2") "}",
        "AB", 2);
    snprintf(path, sizeof path, "%s/two.safetensors", folder);
    files_safetensors(path,
                      "{\"__metadata__\":{\"from\":\"two\",\"second\":\"yes\"}," U8(
                          "b", "0", "1") "," U8("c", "1", "2") "}",
                      "bC", 2);
    return made;
}

static char byte_of(const parlin_checkpoint *c, const char *name)
{
    parlin_stored t;
    assert_ok(parlin_checkpoint_find(c, name, &t));
    assert_int_equal(t.bytes, 1);
    return *(const char *)t.data;
}

static void single_file_in_a_folder(void **state)
{
    (void)state;
    const char *folder = files_make_folder("single");
    files_safetensors("single/model.safetensors", "{" U8("a", "0", "1") "}", "A", 1);
    parlin_checkpoint *c = files_open(folder);
    assert_int_equal(parlin_checkpoint_count(c), 1);
    assert_int_equal(byte_of(c, "a"), 'A');
    parlin_checkpoint_close(c);
}

static void case_C37_the_index_decides(void **state)
{
    (void)state;
    const char *folder = two_files("joined");
    static const char *const holders[] = {"one", "two"};
    for (size_t i = 0; i < 2; i++) {
        char index[256];
        snprintf(index, sizeof index,
                 "{\"metadata\":{\"total_size\":3.0},\"weight_map\":{\"c\":\"two.safetensors\","
                 "\"b\":\"%s.safetensors\",\"a\":\"one.safetensors\"}}",
                 holders[i]);
        const char *path = write_text("joined", INDEX, index);
        /* by the folder, and by the index itself */
        for (size_t how = 0; how < 2; how++) {
            parlin_checkpoint *c = files_open(how == 0 ? folder : path);
            assert_int_equal(parlin_checkpoint_count(c), 3);
            assert_int_equal(byte_of(c, "a"), 'A');
            assert_int_equal(byte_of(c, "b"), i == 0 ? 'B' : 'b');
            assert_int_equal(byte_of(c, "c"), 'C');
            parlin_stored t;
            for (size_t k = 0; k < 3; k++) {
                assert_ok(parlin_checkpoint_get(c, k, &t));
                assert_int_equal(t.name[0], 'a' + (int)k);
            }
            assert_string_equal(parlin_checkpoint_metadata(c, "from"), "one");
            assert_string_equal(parlin_checkpoint_metadata(c, "second"), "yes");
            parlin_checkpoint_close(c);
        }
    }
    /* an older copy in an extra file, even one of the well-known name, is not looked at */
    files_safetensors("joined/model.safetensors", "{" U8("a", "0", "1") "}", "X", 1);
    parlin_checkpoint *c = files_open(folder);
    assert_int_equal(byte_of(c, "a"), 'A');
    assert_int_equal(parlin_checkpoint_count(c), 3);
    parlin_checkpoint_close(c);
    /* nor is a tensor that the index does not map */
    write_text("joined", INDEX, "{\"weight_map\":{\"a\":\"one.safetensors\"}}");
    c = files_open(folder);
    assert_int_equal(parlin_checkpoint_count(c), 1);
    assert_false(parlin_checkpoint_has(c, "b"));
    parlin_checkpoint_close(c);
}

static void folders_below(void **state)
{
    (void)state;
    const char *folder = files_make_folder("below");
    files_make_folder("below/..parts");
    files_safetensors("below/..parts/p.safetensors", "{" U8("a", "0", "1") "}", "A", 1);
    write_text("below", INDEX, "{\"weight_map\":{\"a\":\"..parts/p.safetensors\"}}");
    parlin_checkpoint *c = files_open(folder);
    assert_int_equal(byte_of(c, "a"), 'A');
    parlin_checkpoint_close(c);
    /* the index by its bare name, from within the folder */
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    c = files_open("model.safetensors.index.json");
    assert_int_equal(byte_of(c, "a"), 'A');
    parlin_checkpoint_close(c);
    c = files_open(".");
    parlin_checkpoint_close(c);
    assert_int_equal(chdir(before), 0);
}

static void case_C37_wrong_indexes(void **state)
{
    (void)state;
    const char *folder = two_files("wrong");
    static const struct {
        const char *index;
        const char *texts[3];
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"c\":\"gone.safetensors\"}}",
         {"/wrong/gone.safetensors", "No such file"}},
        {"{\"weight_map\":{\"c\":\"one.safetensors\"}}", {"'c'", "not in", "one.safetensors"}},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"one.safetensors\","
         "\"a\":\"one.safetensors\"}}",
         {"'a'", "twice"}},
        {"{\"weight_map\":{\"b\":\"one.safetensors\",\"a\":\"one.safetensors\","
         "\"b\":\"two.safetensors\"}}",
         {"'b'", "twice"}},
        {"{\"weight_map\":{},\"weight_map\":{}}", {"weight_map is there twice"}},
        {"{\"weight_map\":{\"a\":3}}", {"'a'", "no text"}},
        {"{\"weight_map\":[\"a\"]}", {"no weight_map"}},
        {"{}", {"no weight_map"}},
        {"[]", {"begin with '{'"}},
        {"{\"weight_map\":{\"a\":\"one.safetensors\"", {"no JSON"}},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", {"'a'", "not within the folder"}},
        {"{\"weight_map\":{\"a\":\"x/../../one.safetensors\"}}", {"'a'", "not within"}},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", {"'a'", "/etc/passwd", "not within"}},
        {"{\"weight_map\":{\"a\":\"\"}}", {"'a'", "not within"}},
        {"{\"weight_map\":{\"a\":\".\"}}", {"a folder, wanted a file"}},
        {"{\"weight_map\":{\"a\":\"model.safetensors.index.json\"}}", {"index.json", "header"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("wrong", INDEX, cases[i].index);
        parlin_checkpoint *c = NULL;
        support_assert_refused(parlin_checkpoint_open(folder, &c), PARLIN_ERROR_FILE,
                               cases[i].index, __FILE__, __LINE__,
                               (const char *const[]){"/wrong", cases[i].texts[0], cases[i].texts[1],
                                                     cases[i].texts[1] ? cases[i].texts[2] : NULL,
                                                     NULL});
        assert_null(c);
    }
    files_write("wrong/gone.safetensors", "abc", 3);
    write_text("wrong", INDEX, cases[0].index);
    parlin_checkpoint *c = NULL;
    assert_refused(parlin_checkpoint_open(folder, &c), PARLIN_ERROR_FILE, "gone.safetensors",
                   "truncated");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_file_in_a_folder),
        cmocka_unit_test(case_C37_the_index_decides),
        cmocka_unit_test(folders_below),
        cmocka_unit_test(case_C37_wrong_indexes),
    };
    int failed = SUPPORT_RUN("checkpoint_folder", tests);
    files_remove();
    return failed;
}
