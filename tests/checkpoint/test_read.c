/* SPDX-License-Identifier: Apache-2.0 */
/* Reading sound files: every dtype, names, shapes, metadata, odd places, large files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

static void every_dtype(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t bytes;
        parlin_dtype dtype;
    } dtypes[] = {{"F64", 8, PARLIN_DTYPE_DEFAULT}, {"F32", 4, PARLIN_F32},
                  {"F16", 2, PARLIN_F16},           {"BF16", 2, PARLIN_BF16},
                  {"I64", 8, PARLIN_DTYPE_DEFAULT}, {"I32", 4, PARLIN_DTYPE_DEFAULT},
                  {"I16", 2, PARLIN_DTYPE_DEFAULT}, {"I8", 1, PARLIN_DTYPE_DEFAULT},
                  {"U8", 1, PARLIN_DTYPE_DEFAULT},  {"BOOL", 1, PARLIN_DTYPE_DEFAULT}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char header[128];
        unsigned char data[6 * 8];
        for (size_t j = 0; j < sizeof data; j++)
            data[j] = (unsigned char)(7 * j + i);
        size_t bytes = 6 * dtypes[i].bytes;
        snprintf(header, sizeof header,
                 "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[0,%zu]}}",
                 dtypes[i].name, bytes);
        parlin_checkpoint *c = files_open(files_safetensors("dtype", header, data, bytes));
        parlin_stored t;
        assert_ok(parlin_checkpoint_find(c, "t", &t));
        assert_string_equal(t.name, "t");
        assert_string_equal(t.dtype_name, dtypes[i].name);
        assert_int_equal(t.dtype, dtypes[i].dtype);
        assert_int_equal(t.element_bytes, dtypes[i].bytes);
        assert_int_equal(t.dim_count, 2);
        assert_int_equal(t.dims[0], 2);
        assert_int_equal(t.dims[1], 3);
        assert_int_equal(t.bytes, bytes);
        assert_memory_equal(t.data, data, bytes);
        parlin_host host;
        if (dtypes[i].dtype == PARLIN_DTYPE_DEFAULT) {
            assert_refused(parlin_checkpoint_host(c, "t", &host), PARLIN_ERROR_UNSUPPORTED,
                           dtypes[i].name, "'t'", "wanted F32, F16 or BF16");
        } else {
            assert_ok(parlin_checkpoint_host(c, "t", &host));
            assert_int_equal(host.dtype, dtypes[i].dtype);
            assert_int_equal(host.rows, 2);
            assert_int_equal(host.cols, 3);
            assert_int_equal(host.row_stride, 3);
            assert_int_equal(host.col_stride, 1);
            assert_ptr_equal(host.data, t.data);
        }
        parlin_checkpoint_close(c);
    }
}

static const char three[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"empty\":\"\",\"a \\\"key\\\"\":\"gr\\u00fcn\"},"
    "\"z\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
    "\"b.weight\":{\"dtype\":\"U8\",\"shape\":[0,4],\"data_offsets\":[4,4]},"
    "\"a\\u00e9\\u4e16\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}   \n";

static void names_and_metadata(void **state)
{
    (void)state;
    parlin_checkpoint *c = files_open(files_safetensors("three", three, "wxyz", 4));
    assert_int_equal(parlin_checkpoint_count(c), 3);
    static const char *const names[] = {"a\xc3\xa9\xe4\xb8\x96", "b.weight", "z"};
    parlin_stored t;
    for (size_t i = 0; i < 3; i++) {
        assert_ok(parlin_checkpoint_get(c, i, &t));
        assert_string_equal(t.name, names[i]);
        assert_true(parlin_checkpoint_has(c, names[i]));
    }
    assert_ok(parlin_checkpoint_find(c, "z", &t));
    assert_int_equal(t.dim_count, 0);
    assert_memory_equal(t.data, "w", 1);
    assert_ok(parlin_checkpoint_find(c, names[0], &t));
    assert_memory_equal(t.data, "xyz", 3);
    assert_ok(parlin_checkpoint_find(c, "b.weight", &t));
    assert_int_equal(t.bytes, 0);

    assert_string_equal(parlin_checkpoint_metadata(c, "format"), "pt");
    assert_string_equal(parlin_checkpoint_metadata(c, "empty"), "");
    assert_string_equal(parlin_checkpoint_metadata(c, "a \"key\""), "gr\xc3\xbcn");
    assert_null(parlin_checkpoint_metadata(c, "forma"));
    assert_false(parlin_checkpoint_has(c, "__metadata__"));
    assert_false(parlin_checkpoint_has(c, "b"));
    parlin_checkpoint_give_back(c);
    assert_ok(parlin_checkpoint_find(c, "z", &t));
    assert_memory_equal(t.data, "w", 1);
    parlin_checkpoint_close(c);
}

static void wrong_questions(void **state)
{
    (void)state;
    parlin_checkpoint *c = files_open(files_safetensors("three", three, "wxyz", 4)), *d = c;
    parlin_stored t = {.bytes = 77};
    parlin_host host = {.rows = 77};
    assert_refused(parlin_checkpoint_find(c, "b.bias", &t), PARLIN_ERROR_FILE, "'b.bias'", "three");
    assert_refused(parlin_checkpoint_host(c, "b.bias", &host), PARLIN_ERROR_FILE, "'b.bias'");
    assert_refused(parlin_checkpoint_host(c, "z", &host), PARLIN_ERROR_UNSUPPORTED, "'z'", "U8");
    assert_refused(parlin_checkpoint_get(c, 3, &t), PARLIN_ERROR_ARGUMENT, "tensor 3", "has 3");
    assert_refused(parlin_checkpoint_get(NULL, 0, &t), PARLIN_ERROR_ARGUMENT, "checkpoint is NULL");
    assert_refused(parlin_checkpoint_get(c, 0, NULL), PARLIN_ERROR_ARGUMENT, "tensor is NULL");
    assert_refused(parlin_checkpoint_find(c, NULL, &t), PARLIN_ERROR_ARGUMENT, "name is NULL");
    assert_refused(parlin_checkpoint_open(NULL, &d), PARLIN_ERROR_ARGUMENT, "path is NULL");
    assert_refused(parlin_checkpoint_open("x", NULL), PARLIN_ERROR_ARGUMENT, "checkpoint is NULL");
    assert_refused(parlin_checkpoint_open(files_path("nowhere"), &d), PARLIN_ERROR_FILE, "nowhere",
                   "No such file");
    assert_ptr_equal(d, c);
    assert_int_equal(t.bytes, 77);
    assert_int_equal(host.rows, 77);
    assert_int_equal(parlin_checkpoint_count(NULL), 0);
    assert_false(parlin_checkpoint_has(NULL, "z"));
    assert_null(parlin_checkpoint_metadata(NULL, "format"));
    assert_null(parlin_checkpoint_metadata(c, NULL));
    parlin_checkpoint_give_back(NULL);
    parlin_checkpoint_close(NULL);
    parlin_checkpoint_close(c);
}

static void shapes_for_a_layer(void **state)
{
    (void)state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    parlin_checkpoint *c = files_open(
        files_safetensors("shapes",
                          "{\"v\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                          "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[12,16]},"
                          "\"c\":{\"dtype\":\"F32\",\"shape\":[1,2,1],\"data_offsets\":[16,24]}}",
                          data, sizeof data));
    parlin_host host;
    assert_ok(parlin_checkpoint_host(c, "v", &host));
    assert_int_equal(host.rows, 3);
    assert_int_equal(host.cols, 1);
    assert_refused(parlin_checkpoint_host(c, "s", &host), PARLIN_ERROR_SHAPE, "'s'",
                   "0 dimensions");
    assert_refused(parlin_checkpoint_host(c, "c", &host), PARLIN_ERROR_SHAPE, "'c'",
                   "3 dimensions");
    parlin_checkpoint_close(c);
}

/* The header is as long as it likes, so data may begin at any byte. */
static void case_C36_header_of_61_bytes(void **state)
{
    (void)state;
    static const char header[] =
        "{\"odd\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}     ";
    assert_int_equal(strlen(header), 61);
    const float data[] = {1.5f, -2.25f};
    parlin_checkpoint *c = files_open(files_safetensors("odd", header, data, sizeof data));
    parlin_host host;
    assert_ok(parlin_checkpoint_host(c, "odd", &host));
    assert_int_not_equal((uintptr_t)host.data % sizeof(float), 0);
    float out[2];
    support_poison(out, 2);
    memcpy(out, host.data, sizeof out);
    assert_same_floats(out, data, 2);
    parlin_checkpoint_close(c);
}

static void case_C36_names_in_another_order_than_offsets(void **state)
{
    (void)state;
    parlin_checkpoint *c = files_open(
        files_safetensors("order",
                          "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},"
                          "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                          "\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}",
                          "bcccaa", 6));
    parlin_stored t;
    assert_ok(parlin_checkpoint_find(c, "a", &t));
    assert_memory_equal(t.data, "aa", 2);
    assert_ok(parlin_checkpoint_find(c, "b", &t));
    assert_memory_equal(t.data, "b", 1);
    assert_ok(parlin_checkpoint_find(c, "c", &t));
    assert_memory_equal(t.data, "ccc", 3);
    parlin_checkpoint_close(c);
}

static void case_C38_unknown_dtype(void **state)
{
    (void)state;
    const float one = 1;
    unsigned char data[9] = {1, 2, 3, 4, 5};
    memcpy(data + 5, &one, sizeof one);
    parlin_checkpoint *c = files_open(
        files_safetensors("f8",
                          "{\"new\":{\"dtype\":\"F8_E4M3\",\"shape\":[5],\"data_offsets\":[0,5]},"
                          "\"old\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5,9]}}",
                          data, sizeof data));
    parlin_host host;
    assert_ok(parlin_checkpoint_host(c, "old", &host));
    assert_memory_equal(host.data, &one, sizeof one);
    assert_refused(parlin_checkpoint_host(c, "new", &host), PARLIN_ERROR_UNSUPPORTED, "f8", "'new'",
                   "F8_E4M3");
    /* what it is may be seen all the same */
    parlin_stored t;
    assert_ok(parlin_checkpoint_find(c, "new", &t));
    assert_string_equal(t.dtype_name, "F8_E4M3");
    assert_int_equal(t.element_bytes, 0);
    assert_int_equal(t.bytes, 5);
    assert_memory_equal(t.data, data, 5);
    parlin_checkpoint_close(c);
}

static void case_C39_metadata_empty(void **state)
{
    (void)state;
    parlin_checkpoint *c = files_open(files_safetensors("empty", "{\"__metadata__\":{}}", NULL, 0));
    assert_int_equal(parlin_checkpoint_count(c), 0);
    assert_null(parlin_checkpoint_metadata(c, "format"));
    parlin_checkpoint_close(c);
    c = files_open(files_safetensors("empty", "{}", NULL, 0));
    assert_int_equal(parlin_checkpoint_count(c), 0);
    assert_false(parlin_checkpoint_has(c, ""));
    parlin_checkpoint_close(c);
}

static void case_C40_tensor_above_2_GiB(void **state)
{
    (void)state;
    const uint64_t count = ((uint64_t)1 << 29) + 3, bytes = 4 * count;
    char header[128];
    int length =
        snprintf(header, sizeof header,
                 "{\"big\":{\"dtype\":\"F32\",\"shape\":[%llu],\"data_offsets\":[0,%llu]}}",
                 (unsigned long long)count, (unsigned long long)bytes);
    const char *path = files_safetensors("big", header, NULL, (size_t)bytes);
    const float one = 1, *last;
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &one, 4, (off_t)(8 + (uint64_t)length + bytes - 4)), 4);
    close(fd);
    parlin_checkpoint *c = files_open(path);
    parlin_host host;
    assert_ok(parlin_checkpoint_host(c, "big", &host));
    assert_int_equal(host.rows, count);
    last = (const float *)((const char *)host.data + 4 * (count - 1));
    float got = 0;
    memcpy(&got, last, sizeof got);
    assert_true(got == 1);
    parlin_checkpoint_close(c);
    unlink(path);
}

/* Tens of thousands of tensors open at once: nothing in it grows with the square. */
static void many_tensors(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    char *header = support_alloc(MANY * 96);
    size_t used = (size_t)sprintf(header, "{");
    for (size_t i = 0; i < MANY; i++)
        used += (size_t)sprintf(
            header + used, "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
            i ? "," : "", i * 7919 % MANY, i, i + 1);
    sprintf(header + used, "}");
    parlin_checkpoint *c = files_open(files_safetensors("many", header, NULL, MANY));
    assert_int_equal(parlin_checkpoint_count(c), MANY);
    parlin_stored first, t;
    assert_ok(parlin_checkpoint_find(c, "t0", &first));
    for (size_t i = 0; i < MANY; i++) {
        char name[32];
        sprintf(name, "t%zu", i * 7919 % MANY);
        assert_ok(parlin_checkpoint_find(c, name, &t));
        assert_true((const char *)t.data - (const char *)first.data == (ptrdiff_t)i);
    }
    parlin_checkpoint_close(c);
    free(header);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype),
        cmocka_unit_test(names_and_metadata),
        cmocka_unit_test(wrong_questions),
        cmocka_unit_test(shapes_for_a_layer),
        cmocka_unit_test(case_C36_header_of_61_bytes),
        cmocka_unit_test(case_C36_names_in_another_order_than_offsets),
        cmocka_unit_test(case_C38_unknown_dtype),
        cmocka_unit_test(case_C39_metadata_empty),
        cmocka_unit_test(case_C40_tensor_above_2_GiB),
        cmocka_unit_test(many_tensors),
    };
    int failed = SUPPORT_RUN("checkpoint_read", tests);
    files_remove();
    return failed;
}
