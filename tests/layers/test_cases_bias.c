/* SPDX-License-Identifier: Apache-2.0 */
/* A row layer's bias enters once, and a gather of several rows: cases C10 to C12. */
#include "layers.h"

#include <stdlib.h>

/* A row layer of ones with bias {100, ..}; the group's p cuts `in` evenly. */
static parlin_layer *ones(parlin_group *group, layers_case c)
{
    float *weight = support_alloc_floats(c.in * c.out), *bias = support_alloc_floats(c.out);
    for (size_t i = 0; i < c.in * c.out; i++)
        weight[i] = 1;
    for (size_t i = 0; i < c.out; i++)
        bias[i] = 100 + 10 * (float)i;
    parlin_layer *layer = layers_create(group, &c);
    layers_load(layer, &c, weight, bias);
    free(weight);
    free(bias);
    return layer;
}

/* y = layer(x) for x all ones; y holds rows * output_cols. */
static void forward_ones(parlin_group *group, parlin_layer *layer, size_t rows, float *y)
{
    size_t in = parlin_layer_get_info(layer).input_cols;
    parlin_tensor x = {0}, out = {0};
    assert_ok(parlin_tensor_create(group, PARLIN_F32, rows, in, &x));
    assert_ok(parlin_layer_output(layer, rows, &out));
    float *host = support_alloc_floats(rows * in);
    for (size_t i = 0; i < rows * in; i++)
        host[i] = 1;
    support_poison(y, rows * out.cols);
    assert_ok(parlin_tensor_write(x, host));
    assert_ok(parlin_tensor_write(out, y));
    assert_ok(parlin_layer_forward(layer, x, out));
    assert_ok(parlin_tensor_read(out, y));
    free(host);
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&out);
}

static void c10(parlin_group *group)
{
    size_t in = parlin_group_size(group) == 4 ? 4 : 2;
    float y[6];
    for (int whole_input = 0; whole_input < 2; whole_input++) {
        layers_case c = {
            .kind = PARLIN_ROW, .in = in, .out = 1, .bias = true, .whole_input = whole_input != 0};
        parlin_layer *layer = ones(group, c);
        forward_ones(group, layer, 1, y);
        assert_float_equal(y[0], 100 + (float)in, 0);
        forward_ones(group, layer, 1, y); /* nothing is left over from the call before */
        assert_float_equal(y[0], 100 + (float)in, 0);
        parlin_layer_destroy(layer);
    }
    /* wider than the group: no rank's share of the bias is cut off */
    layers_case wide = {.kind = PARLIN_ROW, .in = in, .out = 3, .bias = true};
    parlin_layer *layer = ones(group, wide);
    forward_ones(group, layer, 2, y);
    for (size_t i = 0; i < 6; i++)
        assert_float_equal(y[i], 100 + 10 * (float)(i % 3) + (float)in, 0);
    parlin_layer_destroy(layer);
}

static void case_C10_row_bias_enters_once(void **state)
{
    (void)state;
    LAYERS_ON(c10, 1, 2, 4);
}

static void check_skipped(parlin_layer *layer, size_t out)
{
    float bias[4];
    parlin_tensor t = {0};
    assert_ok(parlin_layer_bias(layer, &t));
    assert_int_equal(t.rows, 1);
    assert_int_equal(t.cols, out);
    assert_ok(parlin_tensor_read(t, bias));
    for (size_t i = 0; i < out; i++)
        assert_float_equal(bias[i], 100 + 10 * (float)i, 0);
}

static void c11(parlin_group *group)
{
    float y[4];
    layers_case c = {.kind = PARLIN_ROW, .in = 2, .out = 1, .bias = true, .skip_bias_add = true};
    parlin_layer *layer = ones(group, c);
    forward_ones(group, layer, 1, y);
    assert_float_equal(y[0], 2, 0);
    check_skipped(layer, 1);
    parlin_layer_destroy(layer);

    c.out = 4;
    layer = ones(group, c);
    forward_ones(group, layer, 1, y);
    for (size_t i = 0; i < 4; i++)
        assert_float_equal(y[i], 2, 0);
    check_skipped(layer, 4);
    parlin_layer_destroy(layer);

    /* each rank its part, the bias apart */
    c.out = 1;
    c.partial = true;
    layer = ones(group, c);
    forward_ones(group, layer, 1, y);
    assert_float_equal(y[0], 2 / (float)parlin_group_size(group), 0);
    check_skipped(layer, 1);
    parlin_layer_destroy(layer);

    /* an added bias would enter p times */
    c.skip_bias_add = false;
    c.name = "partial sums";
    layer = NULL;
    assert_refused(layers_try(group, &c, &layer), PARLIN_ERROR_ARGUMENT, "partial sums",
                   "reduce_results", "bias");
    assert_null(layer);
    if (parlin_group_size(group) > 1)
        layers_check_same_sentence(parlin_group_size(group));
    c.bias = false;
    layer = ones(group, c);
    forward_ones(group, layer, 1, y);
    assert_float_equal(y[0], 2 / (float)parlin_group_size(group), 0);
    parlin_layer_destroy(layer);
}

static void case_C11_skipped_bias_and_partial_sums(void **state)
{
    (void)state;
    LAYERS_ON(c11, 1, 2);
}

static void c12(parlin_group *group)
{
    /* x = unit rows and W[o] = {o, 10 + o}: y = {0,1,2,3},{10,11,12,13} */
    static const float x[4] = {1, 0, 0, 1}, w[8] = {0, 10, 1, 11, 2, 12, 3, 13};
    static const float wanted[8] = {0, 1, 2, 3, 10, 11, 12, 13};
    for (int gather = 0; gather < 2; gather++) {
        layers_case c = {.kind = PARLIN_COLUMN, .in = 2, .out = 4, .gather_output = gather != 0};
        parlin_layer *layer = layers_create(group, &c);
        layers_load(layer, &c, w, NULL);
        parlin_tensor in = {0}, out = {0};
        assert_ok(parlin_tensor_create(group, PARLIN_F32, 2, 2, &in));
        assert_ok(parlin_layer_output(layer, 2, &out));
        float y[8];
        support_poison(y, 8);
        assert_ok(parlin_tensor_write(in, x));
        assert_ok(parlin_tensor_write(out, y));
        assert_ok(parlin_layer_forward(layer, in, out));
        assert_ok(parlin_tensor_read(out, y));
        if (gather) {
            assert_int_equal(out.cols, 4);
            assert_same_floats(y, wanted, 8);
        } else {
            size_t first = 2 * (size_t)parlin_group_rank(group);
            assert_int_equal(out.cols, 2);
            assert_same_floats(y, wanted + first, 2);
            assert_same_floats(y + 2, wanted + 4 + first, 2);
        }
        parlin_tensor_destroy(&in);
        parlin_tensor_destroy(&out);
        parlin_layer_destroy(layer);
    }
}

static void case_C12_gather_of_two_rows(void **state)
{
    (void)state;
    LAYERS_ON(c12, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C10_row_bias_enters_once),
        cmocka_unit_test(case_C11_skipped_bias_and_partial_sums),
        cmocka_unit_test(case_C12_gather_of_two_rows),
    };
    return SUPPORT_RUN_MPI("layers: cases of biases and gathers", tests);
}
