/* SPDX-License-Identifier: Apache-2.0 */
/* Every layer in a group of one, in a program that never starts MPI. */
#include "forward.h"

#include <stdlib.h>

#include <parlin/opencl.h>

static const parlin_activation activations[] = {PARLIN_NO_ACTIVATION, PARLIN_RELU, PARLIN_GELU,
                                                PARLIN_GELU_TANH, PARLIN_SILU};

/* bias: 0 none, 1 added, 2 skipped */
static void test_column(void **state)
{
    (void)state;
    support_random random = {support_seed() + 40};
    for (int bias = 0; bias < 3; bias++)
        for (int gather = 0; gather < 2; gather++)
            for (int a = 0; a < (bias == 2 ? 1 : 5); a++) {
                layers_case c = {.kind = PARLIN_COLUMN,
                                 .in = forward_size(&random, 1),
                                 .out = forward_size(&random, 1),
                                 .bias = bias > 0,
                                 .skip_bias_add = bias == 2,
                                 .gather_output = gather,
                                 .activation = activations[a]};
                forward_case(support_group(), &c, 9000, a < 2, 1);
            }
}

static void test_merged(void **state)
{
    (void)state;
    for (int bias = 0; bias < 3; bias++)
        for (int gather = 0; gather < 2; gather++)
            for (int gated = 0; gated < 2; gated++)
                for (int a = gated; a < (bias == 2 ? 1 : 5); a++) {
                    layers_case c = {.kind = PARLIN_MERGED,
                                     .in = 17,
                                     .parts = gated ? 2 : 3,
                                     .part_out = {129, gated ? 129 : 1, 3},
                                     .bias = bias > 0,
                                     .skip_bias_add = bias == 2,
                                     .gather_output = gather,
                                     .gated = gated,
                                     .activation = activations[a]};
                    forward_case(support_group(), &c, 9100, a < 2, 1);
                }
}

static void test_qkv(void **state)
{
    (void)state;
    for (int bias = 0; bias < 3; bias++)
        for (size_t kv = 0; kv <= 4; kv += 2) {
            layers_case c = {.kind = PARLIN_QKV,
                             .in = 33,
                             .heads = 4,
                             .kv_heads = kv,
                             .head_size = 5,
                             .v_head_size = kv == 2 ? 3 : 0,
                             .bias = bias > 0,
                             .skip_bias_add = bias == 2};
            forward_case(support_group(), &c, 9200, false, 2);
            forward f = forward_begin(support_group(), &c, 9300, true);
            parlin_device *device = parlin_group_device(f.group);
            parlin_qkv_shape s = parlin_qkv_local(f.layer);
            assert_int_equal(s.heads, 4);
            assert_int_equal(s.kv_heads, kv ? kv : 4);
            for (size_t rows = 0; rows < 4; rows++)
                forward_check_heads(&f, view_random(device, &f.own, rows, s.heads, s.head_size),
                                    view_random(device, &f.own, rows, s.kv_heads, s.head_size),
                                    view_random(device, &f.own, rows, s.kv_heads, s.v_head_size));
            forward_end(&f);
        }
}

static void test_row(void **state)
{
    (void)state;
    for (int bias = 0; bias < 3; bias++)
        for (int whole = 0; whole < 2; whole++)
            for (int partial = 0; partial < (bias == 1 ? 1 : 2); partial++) {
                layers_case c = {.kind = PARLIN_ROW,
                                 .in = 129,
                                 .out = 17,
                                 .bias = bias > 0,
                                 .skip_bias_add = bias == 2,
                                 .whole_input = whole,
                                 .partial = partial};
                forward_case(support_group(), &c, 9400, partial, 2);
            }
}

/* No forward is collective, and the skipped bias and exports are whole. */
static void test_the_layer_is_whole(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    assert_int_equal(parlin_group_rank(group), 0);
    assert_int_equal(parlin_group_size(group), 1);
    static const layers_case cases[] = {
        {.kind = PARLIN_COLUMN,
         .in = 3,
         .out = 5,
         .bias = true,
         .skip_bias_add = true,
         .gather_output = true},
        {.kind = PARLIN_MERGED,
         .in = 3,
         .parts = 2,
         .part_out = {5, 2},
         .bias = true,
         .skip_bias_add = true},
        {.kind = PARLIN_QKV,
         .in = 3,
         .heads = 4,
         .kv_heads = 2,
         .head_size = 2,
         .bias = true,
         .skip_bias_add = true},
        {.kind = PARLIN_ROW, .in = 3, .out = 5, .bias = true, .skip_bias_add = true},
    };
    for (size_t i = 0; i < 4; i++) {
        const layers_case *c = &cases[i];
        size_t out = layers_out(c);
        float *weight = layers_weight(c), *bias = layers_bias(c);
        parlin_layer *layer = layers_create(group, c);
        layers_load(layer, c, weight, bias);
        assert_false(parlin_layer_get_info(layer).collective);
        layers_check_skipped(group, layer, c, bias);
        layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, out * c->in);
        layers_check_export(group, layer, PARLIN_BIAS, PARLIN_WHOLE, bias, out);
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
    }
}

/* The group may be made on an open device or on the caller's own objects as well. */
static void test_other_ways_to_a_group(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_ROW, .in = 17, .out = 5, .bias = true};
    parlin_device *device = NULL, *wrapped = NULL;
    parlin_group *group = NULL;
    assert_ok(parlin_device_open(NULL, &device));
    assert_ok(parlin_group_create_single(device, NULL, &group));
    assert_ptr_equal(parlin_group_device(group), device);
    forward_case(group, &c, 9500, true, 1);
    parlin_group_close(group);

    assert_ok(parlin_device_wrap(parlin_device_context(device), parlin_device_id(device),
                                 parlin_device_queue(device), &wrapped));
    parlin_device_close(device);
    group = NULL;
    assert_ok(parlin_group_create_single(wrapped, NULL, &group));
    parlin_device_close(wrapped);
    forward_case(group, &c, 9600, true, 1);
    parlin_group_close(group);
}

static void case_C34_MPI_is_not_started_by_the_library(void **state)
{
    (void)state;
    parlin_group *group = NULL;
    assert_refused(parlin_group_open(MPI_COMM_WORLD, NULL, &group), PARLIN_ERROR_STATE, "MPI");
    assert_null(group);
    int started = 1;
    MPI_Initialized(&started);
    assert_false(started);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_column),
        cmocka_unit_test(test_merged),
        cmocka_unit_test(test_qkv),
        cmocka_unit_test(test_row),
        cmocka_unit_test(test_the_layer_is_whole),
        cmocka_unit_test(test_other_ways_to_a_group),
        cmocka_unit_test(case_C34_MPI_is_not_started_by_the_library),
    };
    int failed = SUPPORT_RUN("layers: a group of one", tests), started = 1;
    MPI_Initialized(&started);
    return failed || started;
}
