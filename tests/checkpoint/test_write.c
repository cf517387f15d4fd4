/* SPDX-License-Identifier: Apache-2.0 */
/* The writer: bit for bit what was given comes back; what is refused leaves no file behind. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "files.h"

static size_t files_in_folder(void)
{
    size_t count = 0;
    DIR *folder = opendir(files_folder());
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void same_tensor(const parlin_stored *t, const parlin_stored *wanted)
{
    assert_string_equal(t->name, wanted->name);
    assert_string_equal(t->dtype_name, wanted->dtype_name);
    assert_int_equal(t->dim_count, wanted->dim_count);
    for (size_t i = 0; i < t->dim_count; i++)
        assert_int_equal(t->dims[i], wanted->dims[i]);
    assert_int_equal(t->bytes, wanted->bytes);
    if (t->bytes > 0)
        assert_memory_equal(t->data, wanted->data, t->bytes);
}

static void round_trip(void **state)
{
    (void)state;
    unsigned char bytes[64];
    support_random random = {support_seed()};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)support_next(&random);
    const parlin_stored tensors[] = {
        parlin_stored_1d("odd", bytes, PARLIN_BF16, 3),
        {.name = "bytes",
         .dtype_name = "U8",
         .dim_count = 1,
         .dims = {5},
         .bytes = 5,
         .data = bytes},
        parlin_stored_2d("matrix", bytes + 1, PARLIN_F32, 2, 3),
        parlin_stored_2d("half", bytes, PARLIN_F16, 3, 1),
        {.name = "wide", .dtype_name = "F64", .dim_count = 0, .bytes = 8, .data = bytes + 3},
        {.name = "none \"q\" \\ \xe4\xb8\x96 \n",
         .dtype_name = "I32",
         .dim_count = 3,
         .dims = {2, 0, 7}},
        {.name = "new",
         .dtype_name = "F8_E4M3",
         .dim_count = 1,
         .dims = {3},
         .bytes = 3,
         .data = bytes},
    };
    const size_t count = sizeof tensors / sizeof *tensors;
    const parlin_metadata metadata[] = {{"format", "pt"}, {"k\"\t", "\xc3\xbc"}};
    const char *path = files_path("written.safetensors");
    assert_ok(parlin_checkpoint_write(path, tensors, count, metadata, 2));

    parlin_checkpoint *c = files_open(path);
    assert_int_equal(parlin_checkpoint_count(c), count);
    assert_string_equal(parlin_checkpoint_metadata(c, "format"), "pt");
    assert_string_equal(parlin_checkpoint_metadata(c, "k\"\t"), "\xc3\xbc");
    parlin_stored t;
    for (size_t i = 0; i < count; i++) {
        assert_ok(parlin_checkpoint_find(c, tensors[i].name, &t));
        same_tensor(&t, &tensors[i]);
        /* others' readers want every tensor aligned to its elements */
        if (t.element_bytes > 0)
            assert_int_equal((uintptr_t)t.data % t.element_bytes, 0);
    }

    /* what is read can be written: the same bytes */
    parlin_stored again[sizeof tensors / sizeof *tensors];
    for (size_t i = 0; i < count; i++)
        assert_ok(parlin_checkpoint_find(c, tensors[i].name, &again[i]));
    const char *copy = files_path("copy.safetensors");
    assert_ok(parlin_checkpoint_write(copy, again, count, metadata, 2));
    char command[256];
    snprintf(command, sizeof command, "cmp %s %s", path, copy);
    assert_int_equal(system(command), 0);

    /* a file that is read may be replaced meanwhile: the reader keeps the one that it opened */
    assert_ok(parlin_checkpoint_write(path, tensors, 1, NULL, 0));
    assert_ok(parlin_checkpoint_find(c, "matrix", &t));
    same_tensor(&t, &tensors[2]);
    parlin_checkpoint_close(c);
    c = files_open(path);
    assert_int_equal(parlin_checkpoint_count(c), 1);
    parlin_checkpoint_close(c);
    assert_int_equal(files_in_folder(), 2);
}

static void no_tensor(void **state)
{
    (void)state;
    const char *path = files_path("nothing.safetensors");
    assert_ok(parlin_checkpoint_write(path, NULL, 0, NULL, 0));
    parlin_checkpoint *c = files_open(path);
    assert_int_equal(parlin_checkpoint_count(c), 0);
    parlin_checkpoint_close(c);
}

static void refused(void **state)
{
    (void)state;
    const float data[4] = {1, 2, 3, 4};
    const parlin_stored good = parlin_stored_1d("t", data, PARLIN_F32, 4);
    const char *path = files_path("old.safetensors");
    assert_ok(parlin_checkpoint_write(path, &good, 1, NULL, 0));
    size_t before = files_in_folder();

#define REFUSED(field, text)                                                                       \
    do {                                                                                           \
        parlin_stored t[2] = {good, good};                                                         \
        t[1].name = "u";                                                                           \
        t[1].field;                                                                                \
        assert_refused(parlin_checkpoint_write(path, t, 2, NULL, 0), PARLIN_ERROR_ARGUMENT,        \
                       "old.safetensors", text);                                                   \
    } while (0)
    REFUSED(name = NULL, "name is NULL");
    REFUSED(name = "t", "'t' is there twice");
    REFUSED(name = "__metadata__", "__metadata__");
    REFUSED(name = "\xff", "no UTF-8");
    REFUSED(bytes = 15, "15 bytes, its shape takes 16");
    REFUSED(dims[0] = 5, "16 bytes, its shape takes 20");
    REFUSED(dims[0] = SIZE_MAX / 2, "'u'");
    REFUSED(dim_count = 9, "9 dimensions");
    REFUSED(data = NULL, "data is NULL");
    REFUSED(dtype_name = "F64", "its shape takes 32");
#undef REFUSED
    parlin_stored t = good;
    t.dtype_name = NULL;
    t.dtype = (parlin_dtype)9;
    assert_refused(parlin_checkpoint_write(path, &t, 1, NULL, 0), PARLIN_ERROR_ARGUMENT, "'t'",
                   "dtype 9");
    t = parlin_stored_2d("t", data, PARLIN_F32, SIZE_MAX / 2, 3);
    assert_refused(parlin_checkpoint_write(path, &t, 1, NULL, 0), PARLIN_ERROR_ARGUMENT, "'t'");
    const parlin_metadata twice[] = {{"a", "1"}, {"b", "2"}, {"a", "3"}}, null[] = {{"a", NULL}};
    assert_refused(parlin_checkpoint_write(path, &good, 1, twice, 3), PARLIN_ERROR_ARGUMENT, "'a'",
                   "twice");
    assert_refused(parlin_checkpoint_write(path, &good, 1, null, 1), PARLIN_ERROR_ARGUMENT,
                   "NULL value");
    assert_refused(parlin_checkpoint_write(NULL, &good, 1, NULL, 0), PARLIN_ERROR_ARGUMENT,
                   "path is NULL");
    assert_refused(parlin_checkpoint_write(path, NULL, 1, NULL, 0), PARLIN_ERROR_ARGUMENT,
                   "tensors is NULL");
    assert_refused(parlin_checkpoint_write(path, &good, 1, NULL, 1), PARLIN_ERROR_ARGUMENT,
                   "metadata is NULL");

    /* nothing was written, and the old file is as it was */
    assert_int_equal(files_in_folder(), before);
    parlin_checkpoint *c = files_open(path);
    parlin_stored kept;
    assert_ok(parlin_checkpoint_find(c, "t", &kept));
    same_tensor(&kept, &good);
    parlin_checkpoint_close(c);
}

static void no_place(void **state)
{
    (void)state;
    const float one = 1;
    const parlin_stored t = parlin_stored_1d("t", &one, PARLIN_F32, 1);
    assert_refused(parlin_checkpoint_write(files_path("nowhere/x"), &t, 1, NULL, 0),
                   PARLIN_ERROR_FILE, "nowhere/x", "open", "No such file");
    size_t before = files_in_folder();
    const char *folder = files_make_folder("taken");
    assert_refused(parlin_checkpoint_write(folder, &t, 1, NULL, 0), PARLIN_ERROR_FILE, "taken",
                   "rename");
    assert_int_equal(files_in_folder(), before + 1);
    /* a disk that is full, in the middle of the data */
    const struct rlimit small = {4096, RLIM_INFINITY};
    struct rlimit usual;
    float *much = support_alloc_floats(10000);
    const parlin_stored large = parlin_stored_1d("t", much, PARLIN_F32, 10000);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    parlin_status status = parlin_checkpoint_write(files_path("large"), &large, 1, NULL, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    assert_refused(status, PARLIN_ERROR_FILE, "large", "write", "File too large");
    assert_int_equal(files_in_folder(), before + 1);
    free(much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(no_tensor),
        cmocka_unit_test(refused),
        cmocka_unit_test(no_place),
    };
    int failed = SUPPORT_RUN("checkpoint_write", tests);
    files_remove();
    return failed;
}
