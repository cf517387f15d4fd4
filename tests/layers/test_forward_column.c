/* SPDX-License-Identifier: Apache-2.0 */
/* Forward of a column layer, every option, against the double reference. */
#include "forward.h"

#include <stdlib.h>

static const parlin_activation activations[] = {PARLIN_NO_ACTIVATION, PARLIN_RELU, PARLIN_GELU,
                                                PARLIN_GELU_TANH, PARLIN_SILU};

/* bias: 0 none, 1 added, 2 skipped */
static void every_option(bool integers)
{
    support_random random = {support_seed() + integers};
    size_t p = (size_t)support_size();
    uint64_t salt = integers ? 100 : 200;
    for (int bias = 0; bias < 3; bias++)
        for (int gather = 0; gather < 2; gather++)
            for (int a = 0; a < (bias == 2 ? 1 : integers ? 2 : 5); a++) {
                layers_case c = {.kind = PARLIN_COLUMN,
                                 .in = forward_size(&random, 1),
                                 .out = forward_size(&random, p),
                                 .bias = bias > 0,
                                 .skip_bias_add = bias == 2,
                                 .gather_output = gather,
                                 .activation = activations[a]};
                forward_case(support_group(), &c, salt++, integers, 2);
            }
}

static void test_every_option(void **state)
{
    (void)state;
    every_option(false);
}

static void test_whole_numbers_are_exact(void **state)
{
    (void)state;
    every_option(true);
}

/* Every pair of odd sizes that the ranks can share. */
static void test_every_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 3, 17, 129, 1000};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++) {
            if (sizes[j] < (size_t)support_size())
                continue;
            layers_case c = {.kind = PARLIN_COLUMN,
                             .in = sizes[i],
                             .out = sizes[j],
                             .bias = true,
                             .gather_output = (i + j) % 2};
            forward f = forward_begin(support_group(), &c, 300 + 5 * i + j, false);
            forward_check(&f, 1, NO_RESIDUAL);
            forward_check(&f, 2, NO_RESIDUAL);
            forward_check(&f, forward_rows(&f.random, c.in, c.out), NO_RESIDUAL);
            forward_end(&f);
        }
}

/* x and y as column and row slices of larger tensors, made by the library's own view calls. */
static void test_slices_of_larger_tensors(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case c = {.kind = PARLIN_COLUMN, .in = 17, .out = 29, .bias = true};
    forward f = forward_begin(group, &c, 400, false);
    size_t rows = 5, cols = parlin_layer_get_info(f.layer).output_cols;
    size_t wide = 40, tall = 9;
    float *x = support_alloc_floats(tall * wide), *own = support_alloc_floats(rows * c.in);
    float *y = support_alloc_floats(tall * wide), *out = support_alloc_floats(rows * cols);
    double *ref = support_alloc(rows * cols * sizeof *ref);
    forward_numbers(&f, x, tall * wide);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < c.in; j++)
            own[i * c.in + j] = x[(3 + i) * wide + 11 + j];
    forward_expected(&f, rows, own, NULL, ref);

    parlin_tensor big_x = {0}, big_y = {0};
    assert_ok(parlin_tensor_create(group, PARLIN_F32, tall, wide, &big_x));
    assert_ok(parlin_tensor_create(group, PARLIN_F32, tall, wide, &big_y));
    assert_ok(parlin_tensor_write(big_x, x));
    assert_ok(parlin_tensor_write(big_y, y));
    assert_ok(parlin_layer_forward(
        f.layer, parlin_tensor_cols(parlin_tensor_rows(big_x, 3, rows), 11, c.in),
        parlin_tensor_rows(parlin_tensor_cols(big_y, 7, cols), 4, rows)));
    assert_ok(parlin_tensor_read(big_y, y));
    for (size_t i = 0; i < tall; i++)
        for (size_t j = 0; j < wide; j++) {
            bool inside = i >= 4 && i < 4 + rows && j >= 7 && j < 7 + cols;
            if (inside)
                out[(i - 4) * cols + j - 7] = y[i * wide + j];
            else
                assert_true(support_is_poison(y[i * wide + j]));
        }
    forward_close(&f, out, ref, rows * cols);
    parlin_tensor_destroy(&big_x);
    parlin_tensor_destroy(&big_y);
    free(x);
    free(own);
    free(y);
    free(out);
    free(ref);
    forward_end(&f);
}

/* The same input may be given to any number of layers, and rows may change from call to call. */
static void test_rows_change_from_call_to_call(void **state)
{
    (void)state;
    layers_case c = {
        .kind = PARLIN_COLUMN, .in = 33, .out = 40, .gather_output = true, .bias = true};
    forward f = forward_begin(support_group(), &c, 500, false);
    static const size_t rows[] = {129, 1, 0, 1000, 2, 0, 1, 17};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        forward_check(&f, rows[i], (forward_residual)(i % 3));
    forward_end(&f);
}

/* parlin_layer_output gives what forward wants. */
static void test_output_has_the_right_shape(void **state)
{
    (void)state;
    for (int gather = 0; gather < 2; gather++) {
        layers_case c = {.kind = PARLIN_COLUMN, .in = 3, .out = 17, .gather_output = gather};
        forward f = forward_begin(support_group(), &c, 600, true);
        for (size_t rows = 0; rows < 3; rows++) {
            parlin_tensor x = {0}, y = {0};
            assert_ok(parlin_layer_output(f.layer, rows, &y));
            assert_int_equal(y.rows, rows);
            assert_int_equal(y.cols, parlin_layer_get_info(f.layer).output_cols);
            assert_int_equal(y.dtype, PARLIN_F32);
            assert_int_equal(y.offset, 0);
            assert_true(rows == 0 || y.row_stride == y.cols);
            assert_true(rows > 0 || y.buffer == NULL);
            assert_ok(parlin_tensor_create(f.group, PARLIN_F32, rows, 3, &x));
            assert_ok(parlin_layer_forward(f.layer, x, y));
            parlin_tensor_destroy(&x);
            parlin_tensor_destroy(&y);
        }
        forward_end(&f);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_slices_of_larger_tensors),
        cmocka_unit_test(test_rows_change_from_call_to_call),
        cmocka_unit_test(test_output_has_the_right_shape),
    };
    return SUPPORT_RUN_MPI("layers: forward, column", tests);
}
