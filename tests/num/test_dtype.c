/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

static void test_sizes_and_names(void **state)
{
    (void)state;
    assert_int_equal(parlin_dtype_size(PARLIN_F32), 4);
    assert_int_equal(parlin_dtype_size(PARLIN_F16), 2);
    assert_int_equal(parlin_dtype_size(PARLIN_BF16), 2);
    assert_string_equal(parlin_dtype_name(PARLIN_F32), "f32");
    assert_string_equal(parlin_dtype_name(PARLIN_F16), "f16");
    assert_string_equal(parlin_dtype_name(PARLIN_BF16), "bf16");
}

static void test_no_element_type(void **state)
{
    (void)state;
    const parlin_dtype wrong[] = {PARLIN_DTYPE_DEFAULT, (parlin_dtype)4, (parlin_dtype)99};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parlin_dtype_size(wrong[i]), 0);
        assert_string_equal(parlin_dtype_name(wrong[i]), "unknown dtype");
    }
}

static void check_host(parlin_host host, const void *data, size_t rows, size_t cols,
                       ptrdiff_t row_stride, ptrdiff_t col_stride)
{
    assert_ptr_equal(host.data, data);
    assert_int_equal(host.rows, rows);
    assert_int_equal(host.cols, cols);
    assert_true(host.row_stride == row_stride);
    assert_true(host.col_stride == col_stride);
}

static void test_host_tensors(void **state)
{
    (void)state;
    const float data[12] = {0};
    parlin_host matrix = parlin_host_2d(data, PARLIN_F16, 3, 4);
    check_host(matrix, data, 3, 4, 4, 1);
    assert_int_equal(matrix.dtype, PARLIN_F16);
    assert_int_equal(matrix.order, PARLIN_STACKED);

    parlin_host vector = parlin_host_1d(data, PARLIN_BF16, 12);
    check_host(vector, data, 12, 1, 1, 1);
    assert_int_equal(vector.dtype, PARLIN_BF16);
    assert_int_equal(vector.order, PARLIN_STACKED);
}

static void test_transposed(void **state)
{
    (void)state;
    const float data[12] = {0};
    parlin_host matrix = parlin_host_2d(data, PARLIN_F32, 3, 4);
    matrix.row_stride = -7;
    matrix.order = PARLIN_INTERLEAVED_GROUPS;
    parlin_host turned = parlin_host_transposed(matrix);
    check_host(turned, data, 4, 3, 1, -7);
    assert_int_equal(turned.dtype, PARLIN_F32);
    assert_int_equal(turned.order, PARLIN_INTERLEAVED_GROUPS);
    check_host(parlin_host_transposed(turned), data, 3, 4, -7, 1);
}

/* C05: disk (in = 4, out = 4), d[i][o] = 10 i + o. Square, so that only the view can tell. */
static void case_C05_square_transposed(void **state)
{
    (void)state;
    float disk[4][4];
    for (int i = 0; i < 4; i++)
        for (int o = 0; o < 4; o++)
            disk[i][o] = (float)(10 * i + o);
    parlin_host view = parlin_host_transposed(parlin_host_2d(disk, PARLIN_F32, 4, 4));
    static const float wanted[2][4] = {{0, 10, 20, 30}, {1, 11, 21, 31}};
    const float *data = view.data;
    for (ptrdiff_t row = 0; row < 2; row++)
        for (ptrdiff_t col = 0; col < 4; col++)
            assert_true(data[row * view.row_stride + col * view.col_stride] == wanted[row][col]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_and_names),       cmocka_unit_test(test_no_element_type),
        cmocka_unit_test(test_host_tensors),          cmocka_unit_test(test_transposed),
        cmocka_unit_test(case_C05_square_transposed),
    };
    return SUPPORT_RUN("num/dtype", tests);
}
