/* SPDX-License-Identifier: Apache-2.0 */
/* Whether views share an element, against marking every byte. No device is needed. */
#include <string.h>

#include "device_support.h"

enum { SPACE = 400 };

static void mark(const parlin_heads *view, unsigned char bytes[SPACE])
{
    size_t size = parlin_dtype_size(view->dtype);
    memset(bytes, 0, SPACE);
    for (size_t i = 0; i < view->rows; i++)
        for (size_t h = 0; h < view->heads; h++) {
            size_t at = view->offset + i * view->row_stride + h * view->head_stride;
            assert_true((at + view->head_size) * size <= SPACE);
            memset(bytes + at * size, 1, view->head_size * size);
        }
}

static bool shares(const parlin_heads *a, const parlin_heads *b)
{
    unsigned char one[SPACE], two[SPACE];
    mark(a, one);
    mark(b, two);
    for (size_t i = 0; i < SPACE; i++)
        if (one[i] && two[i])
            return true;
    return false;
}

static char place;
#define BUFFER ((cl_mem)(void *)&place)

/* Exact where the row strides are equal or one view has a single row. */
static void exact_for_one_row_stride(void **state)
{
    (void)state;
    support_random random = {support_seed()};
    size_t met = 0, apart = 0;
    for (size_t trial = 0; trial < 200000; trial++) {
        parlin_heads view[2];
        size_t stride = 1 + support_below(&random, 16);
        for (size_t v = 0; v < 2; v++) {
            size_t heads = 1 + support_below(&random, 3), size = 1 + support_below(&random, 3);
            view[v] = parlin_heads_wrap(BUFFER, support_below(&random, 2) ? PARLIN_F32 : PARLIN_F16,
                                        support_below(&random, 20), 1 + support_below(&random, 4),
                                        heads, size, stride, size + support_below(&random, 4));
            if (view[v].rows == 1 && support_below(&random, 2))
                view[v].row_stride = support_below(&random, 30);
        }
        /* Strides count bytes there: rows of equal pitch have unequal element strides. */
        if (view[0].dtype != view[1].dtype)
            for (size_t v = 0; v < 2; v++)
                if (view[v].dtype == PARLIN_F16 && view[v].row_stride == stride)
                    view[v].row_stride *= 2;
        bool wanted = shares(&view[0], &view[1]);
        bool given = pl_heads_overlap(&view[0], &view[1]);
        if (given != wanted || pl_heads_overlap(&view[1], &view[0]) != wanted) {
            for (size_t v = 0; v < 2; v++)
                print_error("%s offset %zu rows %zu heads %zu size %zu strides %zu %zu\n",
                            parlin_dtype_name(view[v].dtype), view[v].offset, view[v].rows,
                            view[v].heads, view[v].head_size, view[v].row_stride,
                            view[v].head_stride);
            fail_msg("overlap is %d, wanted %d (seed %llu)", given, wanted,
                     (unsigned long long)support_seed());
        }
        met += wanted;
        apart += !wanted;
    }
    assert_true(met > 1000 && apart > 1000);
}

/* Row strides that differ: never missed, though perhaps suspected. */
static void never_missed(void **state)
{
    (void)state;
    support_random random = {support_seed()};
    for (size_t trial = 0; trial < 50000; trial++) {
        parlin_heads view[2];
        for (size_t v = 0; v < 2; v++) {
            size_t size = 1 + support_below(&random, 3);
            view[v] = parlin_heads_wrap(
                BUFFER, PARLIN_F32, support_below(&random, 20), 1 + support_below(&random, 4),
                1 + support_below(&random, 3), size, 1 + support_below(&random, 16),
                size + support_below(&random, 4));
        }
        if (shares(&view[0], &view[1]))
            assert_true(pl_heads_overlap(&view[0], &view[1]));
    }
}

static void by_example(void **state)
{
    (void)state;
    parlin_tensor left = parlin_tensor_wrap(BUFFER, PARLIN_F32, 0, 5, 3, 6);
    parlin_tensor right = parlin_tensor_wrap(BUFFER, PARLIN_F32, 3, 5, 3, 6);
    parlin_tensor both = parlin_tensor_wrap(BUFFER, PARLIN_F32, 2, 5, 2, 6);
    assert_false(pl_tensor_overlap(&left, &right));
    assert_true(pl_tensor_overlap(&left, &both));
    assert_true(pl_tensor_overlap(&right, &both));
    assert_true(pl_tensor_overlap(&left, &left));
    parlin_tensor none = left;
    none.rows = 0;
    assert_false(pl_tensor_overlap(&left, &none));
    none = left;
    none.buffer = NULL;
    assert_false(pl_tensor_overlap(&none, &none));
    /* Keys and values interleaved in one cache. */
    parlin_heads k = parlin_heads_wrap(BUFFER, PARLIN_F32, 0, 4, 3, 2, 12, 4);
    parlin_heads v = parlin_heads_wrap(BUFFER, PARLIN_F32, 2, 4, 3, 2, 12, 4);
    assert_false(pl_heads_overlap(&k, &v));
    assert_false(pl_heads_tensor_overlap(&k, &(parlin_tensor){.buffer = BUFFER,
                                                              .dtype = PARLIN_F32,
                                                              .offset = 2,
                                                              .rows = 4,
                                                              .cols = 2,
                                                              .row_stride = 12}));
    v.offset = 3;
    assert_true(pl_heads_overlap(&k, &v));
}

/* Parts of one buffer are compared where they lie in it. */
static void sub_buffers(void **state)
{
    (void)state;
    parlin_device *device = open_device();
    size_t align = (size_t)pl_device_info(device)->memory_alignment;
    size_t n = align / sizeof(float);
    cl_int code;
    cl_mem whole = clCreateBuffer(device->context, CL_MEM_READ_WRITE, 4 * align, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_mem other = clCreateBuffer(device->context, CL_MEM_READ_WRITE, 4 * align, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_mem part[2];
    for (size_t i = 0; i < 2; i++) {
        cl_buffer_region region = {.origin = i * align, .size = 2 * align};
        part[i] = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        assert_int_equal(code, CL_SUCCESS);
    }
    struct {
        cl_mem a, b;
        size_t at_a, at_b; /* of n floats each */
        bool meet;
    } cases[] = {
        {whole, part[0], 0, 0, true},         {whole, part[0], 2 * n, 0, false},
        {whole, part[1], 0, 0, false},        {whole, part[1], n, 0, true},
        {part[0], part[1], n, 0, true},       {part[0], part[1], 0, 0, false},
        {part[0], part[1], n - 1, 0, true},   {part[1], whole, n, 3 * n, false},
        {part[1], whole, n, 3 * n - 1, true}, {whole, other, 0, 0, false},
        {part[0], other, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parlin_tensor a = parlin_tensor_wrap(cases[i].a, PARLIN_F32, cases[i].at_a, 1, n, n);
        parlin_tensor b = parlin_tensor_wrap(cases[i].b, PARLIN_F32, cases[i].at_b, 1, n, n);
        if (pl_tensor_overlap(&a, &b) != cases[i].meet ||
            pl_tensor_overlap(&b, &a) != cases[i].meet)
            fail_msg("case %zu, wanted %s", i, cases[i].meet ? "overlap" : "no overlap");
    }
    clReleaseMemObject(part[0]);
    clReleaseMemObject(part[1]);
    clReleaseMemObject(whole);
    clReleaseMemObject(other);
    parlin_device_close(device);
}

/* A stride that is never taken may be anything. */
static void strides_never_taken(void **state)
{
    (void)state;
    struct _cl_mem *buffer = (struct _cl_mem *)(uintptr_t)16; /* never looked at */
    parlin_tensor a = parlin_tensor_wrap(buffer, PARLIN_F32, 0, 1, 4, SIZE_MAX / 2);
    parlin_tensor b = parlin_tensor_wrap(buffer, PARLIN_F32, 3, 1, 4, SIZE_MAX);
    assert_true(pl_tensor_overlap(&a, &b));
    b.offset = 4;
    assert_false(pl_tensor_overlap(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_for_one_row_stride),
        cmocka_unit_test(never_missed),
        cmocka_unit_test(by_example),
        cmocka_unit_test(sub_buffers),
        cmocka_unit_test(strides_never_taken),
    };
    return SUPPORT_RUN("device/overlap", tests);
}
