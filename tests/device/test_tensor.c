/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and views of heads: copies to and from the host, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_support.h"

static parlin_device *device;

static int set_up(void **state)
{
    (void)state;
    device = open_device();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    parlin_device_close(device);
    return 0;
}

/* A tensor of n floats (1, n) whose element i is i. */
static parlin_tensor counted(size_t n)
{
    parlin_tensor tensor;
    float *values = support_alloc_floats(n);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)i;
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 1, n, &tensor));
    assert_ok(parlin_tensor_write(tensor, values));
    free(values);
    return tensor;
}

static void dense_round_trip(void **state)
{
    (void)state;
    const size_t shapes[][2] = {{1, 1}, {3, 17}, {129, 5}, {1000, 3}, {1, 1000}};
    support_random random = {support_seed()};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t rows = shapes[i][0], cols = shapes[i][1], n = rows * cols;
        float *in = support_alloc_floats(n), *out = support_alloc_floats(n);
        parlin_tensor tensor;
        support_floats(&random, in, n);
        assert_ok(parlin_tensor_create_on(device, PARLIN_F32, rows, cols, &tensor));
        assert_int_equal(tensor.rows, rows);
        assert_int_equal(tensor.cols, cols);
        assert_int_equal(tensor.row_stride, cols);
        assert_int_equal(tensor.offset, 0);
        assert_true(tensor.owned);
        assert_ptr_equal(tensor.device, device);
        assert_ok(parlin_tensor_write(tensor, in));
        assert_ok(parlin_tensor_read(tensor, out));
        assert_same_floats(out, in, n);
        parlin_tensor_destroy(&tensor);
        assert_null(tensor.buffer);
        assert_false(tensor.owned);
        free(in);
        free(out);
    }
}

static void other_dtypes_travel_as_bits(void **state)
{
    (void)state;
    const parlin_dtype dtypes[] = {PARLIN_F16, PARLIN_BF16};
    for (size_t i = 0; i < 2; i++) {
        const uint16_t in[6] = {0x7e01, 0x3c00, 0x8000, 0xffff, 0x0001, 0x7c00};
        uint16_t out[6] = {0}, two[2] = {0};
        parlin_tensor tensor;
        assert_ok(parlin_tensor_create_on(device, dtypes[i], 2, 3, &tensor));
        assert_ok(parlin_tensor_write(tensor, in));
        assert_ok(parlin_tensor_read(tensor, out));
        assert_memory_equal(in, out, sizeof in);
        assert_ok(parlin_tensor_read(parlin_tensor_cols(tensor, 1, 1), two));
        assert_int_equal(two[0], 0x3c00);
        assert_int_equal(two[1], 0x0001);
        parlin_tensor_destroy(&tensor);
    }
}

/* Element (i, j) of a view lies at offset + i * stride + j; a write leaves all others alone. */
static void strided_views(void **state)
{
    (void)state;
    enum { N = 1000 };
    static const struct {
        size_t offset, rows, cols, stride;
    } table[] = {{0, 1, 7, 7},    {5, 3, 4, 9},    {999, 1, 1, 1},
                 {7, 31, 32, 32}, {1, 37, 17, 27}, {13, 2, 100, 700},
                 {29, 5, 11, 12}, {3, 100, 1, 9},  {26, 4, 20, 25}};
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        size_t offset = table[t].offset, rows = table[t].rows, cols = table[t].cols;
        size_t stride = table[t].stride, n = rows * cols;
        parlin_tensor all = counted(N);
        parlin_tensor view = parlin_tensor_wrap(all.buffer, PARLIN_F32, offset, rows, cols, stride);
        view.device = device;
        float *out = support_alloc_floats(n), *whole = support_alloc_floats(N);
        assert_ok(parlin_tensor_read(view, out));
        for (size_t i = 0; i < n; i++)
            assert_true(out[i] == (float)(offset + i / cols * stride + i % cols));
        for (size_t i = 0; i < n; i++)
            out[i] = -(float)i - 1;
        assert_ok(parlin_tensor_write(view, out));
        assert_ok(parlin_tensor_read(all, whole));
        for (size_t e = 0; e < N; e++) {
            size_t row = e < offset ? rows : (e - offset) / stride;
            size_t col = e < offset ? 0 : (e - offset) % stride;
            float wanted = row < rows && col < cols ? -(float)(row * cols + col) - 1 : (float)e;
            if (whole[e] != wanted)
                fail_msg("table %zu, element %zu is %g, wanted %g", t, e, whole[e], wanted);
        }
        free(out);
        free(whole);
        parlin_tensor_destroy(&all);
    }
}

static void views_of_rows_and_columns(void **state)
{
    (void)state;
    parlin_tensor all = counted(60), table = all;
    table.rows = 6;
    table.cols = table.row_stride = 10;
    float out[60];
    parlin_tensor rows = parlin_tensor_rows(table, 2, 3);
    assert_false(rows.owned);
    parlin_tensor inner = parlin_tensor_cols(rows, 4, 2);
    assert_ok(parlin_tensor_read(inner, out));
    const float wanted[6] = {24, 25, 34, 35, 44, 45};
    assert_same_floats(out, wanted, 6);
    assert_ok(parlin_tensor_read(parlin_tensor_rows(inner, 1, 1), out));
    assert_same_floats(out, wanted + 2, 2);
    assert_ok(parlin_tensor_read(parlin_tensor_rows(table, 6, 0), NULL)); /* nothing, at the end */
    assert_ok(parlin_tensor_read(parlin_tensor_cols(table, 10, 0), NULL));
    parlin_tensor_destroy(&rows); /* owns nothing */
    assert_null(rows.buffer);
    assert_ok(parlin_tensor_read(table, out));
    assert_true(out[59] == 59);
    parlin_tensor_destroy(&all);
}

static void views_out_of_range_are_refused(void **state)
{
    (void)state;
    parlin_tensor all = counted(60), table = all;
    table.rows = 3; /* so that the buffer is larger than the tensor */
    table.cols = table.row_stride = 10;
    float out[60];
    support_poison(out, 60);
    assert_refused(parlin_tensor_read(parlin_tensor_rows(table, 2, 2), out), PARLIN_ERROR_SHAPE,
                   "parlin_tensor_read", "2 rows from 2 on", "3 rows");
    assert_refused(parlin_tensor_read(parlin_tensor_rows(table, 4, 0), out), PARLIN_ERROR_SHAPE,
                   "0 rows from 4 on", "3 rows");
    assert_refused(parlin_tensor_read(parlin_tensor_cols(table, 8, 3), out), PARLIN_ERROR_SHAPE,
                   "3 columns from 8 on", "10 columns");
    assert_refused(parlin_tensor_read(parlin_tensor_cols(table, SIZE_MAX, 2), out),
                   PARLIN_ERROR_SHAPE, "2 columns from", "10 columns");
    assert_refused(parlin_tensor_read(parlin_tensor_rows(table, 1, SIZE_MAX), out),
                   PARLIN_ERROR_SHAPE, "from 1 on", "3 rows");
    /* A view of a refused view stays refused, with the first numbers. */
    parlin_tensor broken = parlin_tensor_rows(table, 2, 2);
    assert_refused(parlin_tensor_write(parlin_tensor_rows(broken, 0, 1), out), PARLIN_ERROR_SHAPE,
                   "2 rows from 2 on", "3 rows");
    assert_refused(parlin_tensor_write(parlin_tensor_cols(broken, 0, 1), out), PARLIN_ERROR_SHAPE,
                   "2 rows from 2 on", "3 rows");
    assert_refused(parlin_heads_read(parlin_tensor_heads(broken, 1, 1), out), PARLIN_ERROR_SHAPE,
                   "2 rows from 2 on", "3 rows");
    parlin_heads narrow = parlin_tensor_heads(parlin_tensor_cols(table, 8, 3), 1, 3);
    assert_refused(parlin_heads_read(narrow, out), PARLIN_ERROR_SHAPE, "3 columns from 8 on",
                   "10 columns");
    assert_refused(parlin_heads_read(parlin_tensor_heads(table, 3, 4), out), PARLIN_ERROR_SHAPE,
                   "3 heads of 4", "10 columns");
    assert_refused(parlin_heads_read(parlin_tensor_heads(table, SIZE_MAX, 2), out),
                   PARLIN_ERROR_SHAPE, "heads of 2", "10 columns");
    for (size_t i = 0; i < 60; i++)
        assert_true(support_is_poison(out[i]));
    parlin_tensor_destroy(&all);
}

static void bad_views_are_refused(void **state)
{
    (void)state;
    parlin_tensor good = counted(60), bad;
    float host[60];
    good.rows = 6;
    good.cols = good.row_stride = 10;
#define WITH(field, value) (bad = good, bad.field = (value), bad)
    assert_refused(parlin_tensor_read(WITH(dtype, 9), host), PARLIN_ERROR_ARGUMENT, "dtype 9");
    assert_refused(parlin_tensor_read(WITH(dtype, 0), host), PARLIN_ERROR_ARGUMENT, "dtype 0");
    assert_refused(parlin_tensor_read(WITH(device, NULL), host), PARLIN_ERROR_ARGUMENT,
                   "no device");
    assert_refused(parlin_tensor_read(WITH(buffer, NULL), host), PARLIN_ERROR_ARGUMENT,
                   "(6, 10) elements, but no buffer");
    assert_refused(parlin_tensor_read(good, NULL), PARLIN_ERROR_ARGUMENT, "host is NULL");
    assert_refused(parlin_tensor_write(good, NULL), PARLIN_ERROR_ARGUMENT, "host is NULL");
    assert_refused(parlin_tensor_read(WITH(row_stride, 9), host), PARLIN_ERROR_SHAPE,
                   "row stride 9 is below the 10 columns");
    assert_refused(parlin_tensor_read(WITH(rows, 7), host), PARLIN_ERROR_SHAPE, "byte 280",
                   "byte 240");
    assert_refused(parlin_tensor_read(WITH(offset, 1), host), PARLIN_ERROR_SHAPE, "byte 244",
                   "byte 240");
    assert_refused(parlin_tensor_write(WITH(row_stride, 11), host), PARLIN_ERROR_SHAPE, "byte 260",
                   "byte 240");
    /* Numbers that overflow must not come round to a small one. */
    assert_refused(parlin_tensor_read(WITH(offset, SIZE_MAX - 20), host), PARLIN_ERROR_SHAPE,
                   "beyond what can be counted");
    assert_refused(parlin_tensor_read(WITH(rows, SIZE_MAX), host), PARLIN_ERROR_SHAPE,
                   "beyond what can be counted");
    assert_refused(parlin_tensor_read(WITH(row_stride, SIZE_MAX / 4), host), PARLIN_ERROR_SHAPE,
                   "beyond what can be counted");
    assert_refused(parlin_tensor_read(WITH(offset, SIZE_MAX / 4), host), PARLIN_ERROR_SHAPE,
                   "beyond what can be counted");
#undef WITH
    assert_ok(parlin_tensor_read(good, host));
    assert_true(host[59] == 59);
    good.rows = 1;
    parlin_tensor_destroy(&good);
}

static void buffer_of_another_context(void **state)
{
    (void)state;
    cl_device_id id = parlin_device_id(device);
    cl_int code;
    cl_context other = clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_mem buffer = clCreateBuffer(other, CL_MEM_READ_WRITE, 64, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    float host[16];
    parlin_tensor view = parlin_tensor_wrap(buffer, PARLIN_F32, 0, 4, 4, 4);
    view.device = device;
    assert_refused(parlin_tensor_read(view, host), PARLIN_ERROR_ARGUMENT, "another context");
    assert_refused(pl_tensor_check(device, &view, "forward: x"), PARLIN_ERROR_ARGUMENT,
                   "forward: x: the buffer belongs to another context");
    clReleaseMemObject(buffer);
    clReleaseContext(other);
}

/* What may be written by whom is asked of the buffer. */
static void buffers_not_to_be_written(void **state)
{
    (void)state;
    static const struct {
        cl_mem_flags flags;
        const char *device, *host; /* the flag that refuses, or NULL */
    } cases[] = {
        {CL_MEM_READ_WRITE, NULL, NULL},
        {CL_MEM_WRITE_ONLY, NULL, NULL},
        {CL_MEM_READ_ONLY, "CL_MEM_READ_ONLY", "CL_MEM_READ_ONLY"},
        {CL_MEM_HOST_READ_ONLY, NULL, "CL_MEM_HOST_READ_ONLY"},
        {CL_MEM_HOST_NO_ACCESS, NULL, "CL_MEM_HOST_NO_ACCESS"},
        {CL_MEM_HOST_WRITE_ONLY, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cl_int code;
        cl_mem buffer = clCreateBuffer(device->context, cases[i].flags, 64, NULL, &code);
        assert_int_equal(code, CL_SUCCESS);
        for (int by_host = 0; by_host < 2; by_host++) {
            const char *wanted = by_host ? cases[i].host : cases[i].device;
            if (wanted)
                assert_refused(pl_writable_check(buffer, by_host, "call: y"), PARLIN_ERROR_ARGUMENT,
                               "call: y", wanted);
            else
                assert_ok(pl_writable_check(buffer, by_host, "call: y"));
        }
        clReleaseMemObject(buffer);
    }
    assert_ok(pl_writable_check(NULL, true, "call: y"));
}

static void tensors_of_no_element(void **state)
{
    (void)state;
    parlin_tensor tensor;
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 0, 5, &tensor));
    assert_null(tensor.buffer);
    assert_int_equal(tensor.cols, 5);
    assert_ok(parlin_tensor_write(tensor, NULL));
    assert_ok(parlin_tensor_read(tensor, NULL));
    assert_ok(parlin_heads_read(parlin_tensor_heads(tensor, 5, 1), NULL));
    parlin_tensor_destroy(&tensor);
    parlin_tensor_destroy(NULL);
    parlin_tensor_destroy(&tensor); /* a second time */
    assert_int_equal(parlin_device_get_counters(device).buffers_created, 0);
}

static void refused_creations(void **state)
{
    (void)state;
    parlin_tensor tensor = {.rows = 77};
    parlin_device_info info;
    char given[32], allowed[32];
    assert_ok(parlin_device_get_info(device, &info));
    assert_refused(parlin_tensor_create_on(NULL, PARLIN_F32, 1, 1, &tensor), PARLIN_ERROR_ARGUMENT,
                   "device is NULL");
    assert_refused(parlin_tensor_create_on(device, PARLIN_F32, 1, 1, NULL), PARLIN_ERROR_ARGUMENT,
                   "tensor is NULL");
    assert_refused(parlin_tensor_create_on(device, PARLIN_DTYPE_DEFAULT, 1, 1, &tensor),
                   PARLIN_ERROR_ARGUMENT, "dtype 0");
    size_t cols = (size_t)info.max_allocation / 4 + 1;
    snprintf(given, sizeof given, "%zu bytes", cols * 4);
    snprintf(allowed, sizeof allowed, "at most %llu", (unsigned long long)info.max_allocation);
    assert_refused(parlin_tensor_create_on(device, PARLIN_F32, 1, cols, &tensor),
                   PARLIN_ERROR_MEMORY, given, allowed);
    assert_refused(parlin_tensor_create_on(device, PARLIN_F32, SIZE_MAX / 2, 3, &tensor),
                   PARLIN_ERROR_MEMORY, "can be counted", allowed);
    assert_int_equal(tensor.rows, 77);
    assert_int_equal(parlin_device_get_counters(device).buffers_created, 0);
    /* A failing allocation, and all as before after it. */
    pl_buffer_fail(device, 1);
    assert_refused(parlin_tensor_create_on(device, PARLIN_F32, 2, 2, &tensor), PARLIN_ERROR_MEMORY,
                   "16 bytes", "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    assert_int_equal(tensor.rows, 77);
    assert_int_equal(parlin_device_get_counters(device).buffers_live, 0);
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 2, 2, &tensor));
    parlin_tensor_destroy(&tensor);
}

/* Element (i, h, d) lies at offset + i * row_stride + h * head_stride + d. */
static void views_of_heads(void **state)
{
    (void)state;
    enum { N = 2000 };
    static const struct {
        const char *layout;
        size_t offset, rows, heads, size, row_stride, head_stride;
    } table[] = {
        {"token-major", 0, 5, 3, 4, 12, 4},
        {"token-major, wide rows", 7, 5, 3, 4, 40, 4},
        {"token-major, wide heads", 7, 5, 3, 4, 40, 11},
        {"head-major", 3, 5, 3, 4, 4, 20},
        {"head-major, few rows", 3, 2, 7, 4, 4, 20},
        {"cache of 50 rows, from row 20 on", 20 * 4, 6, 3, 4, 4, 200},
        {"interleaved keys and values", 4, 6, 3, 4, 24, 8},
        {"one head", 1, 9, 1, 5, 6, 0},
        {"one row", 1, 1, 4, 5, 0, 9},
        {"one element each", 2, 3, 4, 1, 100, 7},
        {"odd", 11, 13, 7, 3, 71, 10},
    };
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        size_t rows = table[t].rows, heads = table[t].heads, size = table[t].size;
        size_t n = rows * heads * size;
        parlin_tensor all = counted(N);
        parlin_heads view = parlin_heads_wrap(all.buffer, PARLIN_F32, table[t].offset, rows, heads,
                                              size, table[t].row_stride, table[t].head_stride);
        view.device = device;
        float *out = support_alloc_floats(n), *whole = support_alloc_floats(N);
        float wanted[N];
        for (size_t e = 0; e < N; e++)
            wanted[e] = (float)e;
        assert_ok(parlin_heads_read(view, out));
        for (size_t e = 0; e < n; e++) {
            size_t i = e / (heads * size), h = e / size % heads, d = e % size;
            size_t at = table[t].offset + i * table[t].row_stride + h * table[t].head_stride + d;
            if (out[e] != (float)at)
                fail_msg("%s: element %zu is %g, wanted %zu", table[t].layout, e, out[e], at);
            out[e] = wanted[at] = -(float)e - 1;
        }
        assert_ok(parlin_heads_write(view, out));
        assert_ok(parlin_tensor_read(all, whole));
        assert_same_floats(whole, wanted, N);
        free(out);
        free(whole);
        parlin_tensor_destroy(&all);
    }
}

static void bad_views_of_heads(void **state)
{
    (void)state;
    parlin_tensor all = counted(60);
    float host[60];
    const parlin_heads good = {.buffer = all.buffer,
                               .dtype = PARLIN_F32,
                               .rows = 3,
                               .heads = 4,
                               .head_size = 5,
                               .row_stride = 20,
                               .head_stride = 5,
                               .device = device};
    parlin_heads bad;
    assert_ok(parlin_heads_read(good, host));
#define WITH(field, value) (bad = good, bad.field = (value), bad)
    assert_refused(parlin_heads_read(WITH(dtype, 9), host), PARLIN_ERROR_ARGUMENT, "dtype 9");
    assert_refused(parlin_heads_read(WITH(device, NULL), host), PARLIN_ERROR_ARGUMENT, "no device");
    assert_refused(parlin_heads_read(WITH(buffer, NULL), host), PARLIN_ERROR_ARGUMENT,
                   "(3, 4, 5) elements, but no buffer");
    assert_refused(parlin_heads_read(good, NULL), PARLIN_ERROR_ARGUMENT, "host is NULL");
    assert_refused(parlin_heads_read(WITH(row_stride, 19), host), PARLIN_ERROR_SHAPE,
                   "row stride 19 and head stride 5, 3 rows of 4 heads of 5 lie on each other");
    assert_refused(parlin_heads_read(WITH(head_stride, 4), host), PARLIN_ERROR_SHAPE,
                   "lie on each other");
    assert_refused(parlin_heads_read(WITH(row_stride, 0), host), PARLIN_ERROR_SHAPE,
                   "lie on each other");
    assert_refused(parlin_heads_read(WITH(head_stride, SIZE_MAX), host), PARLIN_ERROR_SHAPE,
                   "beyond what can be counted");
    assert_refused(parlin_heads_read(WITH(rows, 4), host), PARLIN_ERROR_SHAPE, "byte 320",
                   "byte 240");
    assert_refused(parlin_heads_read(WITH(offset, 1), host), PARLIN_ERROR_SHAPE, "byte 244");
    assert_ok(parlin_heads_read(WITH(heads, 0), NULL));
#undef WITH
    parlin_tensor_destroy(&all);
}

static void copies_on_the_device(void **state)
{
    (void)state;
    parlin_tensor from = counted(60), to = counted(60), all_from = from, all_to = to;
    float out[60];
    from.rows = to.rows = 6;
    from.cols = to.cols = from.row_stride = to.row_stride = 10;
    parlin_tensor source = parlin_tensor_cols(from, 1, 3);
    parlin_tensor target = parlin_tensor_rows(parlin_tensor_cols(to, 6, 3), 0, 6);
    assert_ok(pl_tensor_copy(device, &source, &target));
    assert_ok(parlin_tensor_read(all_to, out));
    for (size_t i = 0; i < 60; i++)
        assert_true(out[i] == (float)(i % 10 >= 6 && i % 10 < 9 ? i - 5 : i));
    /* Within one buffer: rows between each other, and two strides. */
    target = parlin_tensor_cols(from, 4, 3);
    assert_ok(pl_tensor_copy(device, &source, &target));
    parlin_tensor dense = parlin_tensor_wrap(to.buffer, PARLIN_F32, 0, 3, 4, 4);
    parlin_tensor wide = parlin_tensor_wrap(to.buffer, PARLIN_F32, 20, 3, 4, 10);
    assert_ok(pl_tensor_copy(device, &wide, &dense));
    assert_ok(parlin_tensor_read(all_from, out));
    for (size_t i = 0; i < 60; i++)
        assert_true(out[i] == (float)(i % 10 >= 4 && i % 10 < 7 ? i - 3 : i));
    assert_ok(parlin_tensor_read(all_to, out));
    for (size_t i = 0; i < 12; i++)
        assert_true(out[i] == (float)(20 + i / 4 * 10 + i % 4));
    dense.rows = wide.rows = 0;
    assert_ok(pl_tensor_copy(device, &wide, &dense));
    parlin_tensor_destroy(&all_from);
    parlin_tensor_destroy(&all_to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(dense_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_dtypes_travel_as_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strided_views, set_up, tear_down),
        cmocka_unit_test_setup_teardown(views_of_rows_and_columns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(views_out_of_range_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_views_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(buffer_of_another_context, set_up, tear_down),
        cmocka_unit_test_setup_teardown(buffers_not_to_be_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tensors_of_no_element, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_creations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(views_of_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_views_of_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_on_the_device, set_up, tear_down),
    };
    return SUPPORT_RUN("device/tensor", tests);
}
