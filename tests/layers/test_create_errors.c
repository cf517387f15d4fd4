/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations that are refused: status, sentence with layer and field, given and wanted; no
   layer, no device memory; and the group makes a good layer afterwards. */
#include "forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

static parlin_device_counters before;

static void start(void)
{
    before = parlin_device_get_counters(parlin_group_device(support_group()));
}

/* What every refusal leaves behind: nothing. */
static void nothing_left(const parlin_layer *layer)
{
    parlin_device_counters now = parlin_device_get_counters(parlin_group_device(support_group()));
    assert_null(layer);
    assert_int_equal(now.buffers_live, before.buffers_live);
    assert_int_equal(now.bytes_live, before.bytes_live);
}

static void still_usable(void)
{
    static const layers_case good[] = {
        {.kind = PARLIN_COLUMN, .in = 3, .out = 17, .gather_output = true, .bias = true},
        {.kind = PARLIN_ROW, .in = 17, .out = 3, .bias = true},
    };
    for (size_t i = 0; i < 2; i++) {
        forward f = forward_begin(support_group(), &good[i], 5000 + i, true);
        forward_check(&f, 2, NO_RESIDUAL);
        forward_end(&f);
    }
}

#define REFUSED(call, status, ...)                                                                 \
    do {                                                                                           \
        parlin_layer *layer = NULL;                                                                \
        start();                                                                                   \
        assert_refused(call, status, __VA_ARGS__);                                                 \
        nothing_left(layer);                                                                       \
    } while (0)
#define COLUMN(status, ...)                                                                        \
    REFUSED(parlin_column_create(support_group(), &c, &layer), status, __VA_ARGS__)
#define MERGED(status, ...)                                                                        \
    REFUSED(parlin_merged_create(support_group(), &c, &layer), status, __VA_ARGS__)
#define QKV(status, ...)                                                                           \
    REFUSED(parlin_qkv_create(support_group(), &c, &layer), status, __VA_ARGS__)
#define ROW(status, ...)                                                                           \
    REFUSED(parlin_row_create(support_group(), &c, &layer), status, __VA_ARGS__)

static parlin_column_config column(void)
{
    parlin_column_config c = parlin_column_defaults();
    c.name = "up";
    c.in_features = 16;
    c.out_features = 24;
    return c;
}

static const size_t three[3] = {16, 24, 32}, two[2] = {24, 24};

static parlin_merged_config merged(void)
{
    parlin_merged_config c = parlin_merged_defaults();
    c.name = "gate_up";
    c.in_features = 16;
    c.parts = 3;
    c.out_features = three;
    return c;
}

static parlin_qkv_config qkv(void)
{
    parlin_qkv_config c = parlin_qkv_defaults();
    c.name = "attention";
    c.hidden_size = 16;
    c.head_size = 4;
    c.total_num_heads = 16;
    c.total_num_kv_heads = 8;
    return c;
}

static parlin_row_config row(void)
{
    parlin_row_config c = parlin_row_defaults();
    c.name = "down";
    c.in_features = 24;
    c.out_features = 16;
    return c;
}

static void test_defaults(void **state)
{
    (void)state;
    parlin_column_config c = parlin_column_defaults();
    parlin_merged_config m = parlin_merged_defaults();
    parlin_qkv_config q = parlin_qkv_defaults();
    parlin_row_config r = parlin_row_defaults();
    assert_int_equal(c.struct_size, sizeof c);
    assert_int_equal(m.struct_size, sizeof m);
    assert_int_equal(q.struct_size, sizeof q);
    assert_int_equal(r.struct_size, sizeof r);
    assert_false(c.bias || c.gather_output || c.skip_bias_add || c.activation);
    assert_true(m.bias);
    assert_false(m.gather_output || m.skip_bias_add || m.gated || m.activation);
    assert_true(q.bias);
    assert_false(q.skip_bias_add);
    assert_true(r.bias && r.input_is_parallel && r.reduce_results);
    assert_false(r.skip_bias_add);
    assert_null(r.input_like);
    assert_int_equal(c.weight_init.kind, PARLIN_INIT_NONE);
    assert_int_equal(r.bias_init.kind, PARLIN_INIT_NONE);
}

static void test_pointers_and_size(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    parlin_column_config c = column();
    parlin_row_config r = row();
    parlin_qkv_config q = qkv();
    parlin_merged_config m = merged();
    REFUSED(parlin_column_create(NULL, &c, &layer), PARLIN_ERROR_ARGUMENT, "parlin_column_create",
            "group");
    REFUSED(parlin_merged_create(NULL, &m, &layer), PARLIN_ERROR_ARGUMENT, "parlin_merged_create",
            "group");
    REFUSED(parlin_qkv_create(NULL, &q, &layer), PARLIN_ERROR_ARGUMENT, "parlin_qkv_create",
            "group");
    REFUSED(parlin_row_create(NULL, &r, &layer), PARLIN_ERROR_ARGUMENT, "parlin_row_create",
            "group");
    REFUSED(parlin_column_create(group, NULL, &layer), PARLIN_ERROR_ARGUMENT,
            "parlin_column_create", "config");
    REFUSED(parlin_merged_create(group, NULL, &layer), PARLIN_ERROR_ARGUMENT, "config");
    REFUSED(parlin_qkv_create(group, NULL, &layer), PARLIN_ERROR_ARGUMENT, "config");
    REFUSED(parlin_row_create(group, NULL, &layer), PARLIN_ERROR_ARGUMENT, "config");
    REFUSED(parlin_column_create(group, &c, NULL), PARLIN_ERROR_ARGUMENT, "layer");
    REFUSED(parlin_merged_create(group, &m, NULL), PARLIN_ERROR_ARGUMENT, "layer");
    REFUSED(parlin_qkv_create(group, &q, NULL), PARLIN_ERROR_ARGUMENT, "layer");
    REFUSED(parlin_row_create(group, &r, NULL), PARLIN_ERROR_ARGUMENT, "layer");

    /* written by hand instead of by the function that gives the defaults */
    char wanted[32];
    c.struct_size = 0;
    snprintf(wanted, sizeof wanted, "%zu", sizeof c);
    REFUSED(parlin_column_create(group, &c, &layer), PARLIN_ERROR_ARGUMENT, "struct_size", "0",
            wanted, "parlin_column_defaults");
    m.struct_size = 8;
    REFUSED(parlin_merged_create(group, &m, &layer), PARLIN_ERROR_ARGUMENT, "struct_size", "8",
            "parlin_merged_defaults");
    q.struct_size++;
    REFUSED(parlin_qkv_create(group, &q, &layer), PARLIN_ERROR_ARGUMENT, "struct_size",
            "parlin_qkv_defaults");
    r.struct_size = SIZE_MAX;
    REFUSED(parlin_row_create(group, &r, &layer), PARLIN_ERROR_ARGUMENT, "struct_size",
            "parlin_row_defaults");
    still_usable();
}

static void test_sizes(void **state)
{
    (void)state;
    {
        parlin_column_config c = column();
        c.in_features = 0;
        COLUMN(PARLIN_ERROR_ARGUMENT, "column layer 'up'", "in_features", "0");
        c = column();
        c.out_features = 0;
        COLUMN(PARLIN_ERROR_ARGUMENT, "column layer 'up'", "out_features", "0");
        c.out_features = SIZE_MAX / 2;
        COLUMN(PARLIN_ERROR_ARGUMENT, "column layer 'up'", "out_features");
        c.name = NULL; /* the kind is its name */
        c.out_features = 0;
        COLUMN(PARLIN_ERROR_ARGUMENT, "column layer 'column'", "out_features");
    }
    {
        parlin_merged_config c = merged();
        size_t with_zero[3] = {16, 0, 32};
        c.in_features = 0;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "in_features", "0");
        c = merged();
        c.parts = 0;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "parts", "0");
        c = merged();
        c.out_features = NULL;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "out_features", "NULL");
        c.out_features = with_zero;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "out_features[1]", "0");
        with_zero[1] = SIZE_MAX - 20;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "out_features");
    }
    {
        parlin_qkv_config c = qkv();
        c.hidden_size = 0;
        QKV(PARLIN_ERROR_ARGUMENT, "qkv layer 'attention'", "hidden_size", "0");
        c = qkv();
        c.head_size = 0;
        QKV(PARLIN_ERROR_ARGUMENT, "qkv layer 'attention'", "head_size", "0");
        c = qkv();
        c.total_num_heads = 0;
        QKV(PARLIN_ERROR_ARGUMENT, "qkv layer 'attention'", "total_num_heads", "0");
        c = qkv();
        c.total_num_kv_heads = 6;
        QKV(PARLIN_ERROR_ARGUMENT, "qkv layer 'attention'", "total_num_heads 16",
            "total_num_kv_heads 6");
        c.total_num_kv_heads = 32;
        QKV(PARLIN_ERROR_ARGUMENT, "qkv layer 'attention'", "16", "32");
        c = qkv();
        c.head_size = SIZE_MAX / 4;
        QKV(PARLIN_ERROR_ARGUMENT, "qkv layer 'attention'", "large");
        c = qkv();
        c.v_head_size = SIZE_MAX / 2;
        QKV(PARLIN_ERROR_ARGUMENT, "qkv layer 'attention'", "large");
    }
    {
        parlin_row_config c = row();
        c.in_features = 0;
        ROW(PARLIN_ERROR_ARGUMENT, "row layer 'down'", "in_features", "0");
        c = row();
        c.out_features = 0;
        ROW(PARLIN_ERROR_ARGUMENT, "row layer 'down'", "out_features", "0");
        c.out_features = SIZE_MAX;
        ROW(PARLIN_ERROR_ARGUMENT, "row layer 'down'", "out_features");
    }
    still_usable();
}

/* A weight that the device cannot have in one buffer: refused, on all ranks, with both numbers. */
static void test_larger_than_the_device(void **state)
{
    (void)state;
    parlin_device_info info;
    assert_ok(parlin_device_get_info(parlin_group_device(support_group()), &info));
    char most[32];
    snprintf(most, sizeof most, "%llu", (unsigned long long)info.max_allocation);
    parlin_column_config c = column();
    c.in_features = (size_t)1 << 20;
    c.out_features =
        (size_t)info.max_allocation / 4 + 1000; /* max_allocation on each of 2^20 ranks */
    COLUMN(PARLIN_ERROR_MEMORY, most);
    still_usable();
}

static void test_fewer_units_than_ranks(void **state)
{
    (void)state;
    if (support_size() == 1)
        SUPPORT_SKIP("one rank has enough of everything");
    size_t few = (size_t)support_size() - 1;
    char units[32], ranks[32];
    snprintf(units, sizeof units, "%zu", few);
    snprintf(ranks, sizeof ranks, "%d ranks", support_size());
    {
        parlin_column_config c = column();
        c.out_features = few;
        COLUMN(PARLIN_ERROR_SHAPE, "column layer 'up'", "out_features", units, ranks);
    }
    {
        parlin_merged_config c = merged();
        size_t parts[3] = {32, 24, few};
        c.out_features = parts;
        MERGED(PARLIN_ERROR_SHAPE, "merged layer 'gate_up'", "out_features[2]", units, ranks);
    }
    {
        parlin_qkv_config c = qkv();
        c.total_num_heads = c.total_num_kv_heads = few;
        QKV(PARLIN_ERROR_SHAPE, "qkv layer 'attention'", "total_num_heads", units, ranks);
    }
    {
        parlin_row_config c = row();
        c.in_features = few;
        ROW(PARLIN_ERROR_SHAPE, "row layer 'down'", "in_features", units, ranks);
    }
    still_usable();
}

/* The fields that every configuration has, through one kind after the other. */
#define SHARED_FIELDS(make, REFUSE, NAME)                                                          \
    do {                                                                                           \
        (c) = make();                                                                              \
        c.param_dtype = (parlin_dtype)9;                                                           \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "param_dtype", "9");                                   \
        (c) = make();                                                                              \
        c.param_dtype = PARLIN_BF16;                                                               \
        REFUSE(PARLIN_ERROR_UNSUPPORTED, NAME, "param_dtype", "bf16", "f32");                      \
        (c) = make();                                                                              \
        c.compute_dtype = PARLIN_F16;                                                              \
        REFUSE(PARLIN_ERROR_UNSUPPORTED, NAME, "compute_dtype", "f16", "f32");                     \
        (c) = make();                                                                              \
        c.output_dtype = PARLIN_F16;                                                               \
        REFUSE(PARLIN_ERROR_UNSUPPORTED, NAME, "output_dtype", "f16", "f32");                      \
        (c) = make();                                                                              \
        c.output_dtype = (parlin_dtype)-1;                                                         \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "output_dtype", "-1");                                 \
        (c) = make();                                                                              \
        c.weight_init.kind = (parlin_init_kind)12;                                                 \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "weight_init", "12");                                  \
        (c) = make();                                                                              \
        c.weight_init = (parlin_init){PARLIN_INIT_NORMAL, NAN};                                    \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "weight_init", "nan");                                 \
        (c) = make();                                                                              \
        c.weight_init = (parlin_init){PARLIN_INIT_UNIFORM, -2};                                    \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "weight_init", "-2");                                  \
        (c) = make();                                                                              \
        c.weight_init = (parlin_init){PARLIN_INIT_CONSTANT, INFINITY};                             \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "weight_init", "inf");                                 \
        (c) = make();                                                                              \
        c.bias = true;                                                                             \
        c.bias_init.kind = PARLIN_INIT_XAVIER_UNIFORM;                                             \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "bias_init", "xavier_uniform");                        \
        c.bias_init.kind = PARLIN_INIT_HE_UNIFORM;                                                 \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "bias_init", "he_uniform");                            \
        (c) = make();                                                                              \
        c.bias = false;                                                                            \
        c.bias_init.kind = PARLIN_INIT_ZEROS;                                                      \
        REFUSE(PARLIN_ERROR_ARGUMENT, NAME, "bias_init", "no bias");                               \
    } while (0)

static void test_shared_fields(void **state)
{
    (void)state;
    {
        parlin_column_config c;
        SHARED_FIELDS(column, COLUMN, "column layer 'up'");
    }
    {
        parlin_merged_config c;
        SHARED_FIELDS(merged, MERGED, "merged layer 'gate_up'");
    }
    {
        parlin_qkv_config c;
        SHARED_FIELDS(qkv, QKV, "qkv layer 'attention'");
    }
    {
        parlin_row_config c;
        SHARED_FIELDS(row, ROW, "row layer 'down'");
    }
    still_usable();
}

static void test_activations(void **state)
{
    (void)state;
    {
        parlin_column_config c = column();
        c.activation = (parlin_activation)5;
        COLUMN(PARLIN_ERROR_ARGUMENT, "column layer 'up'", "activation", "5");
        c.activation = PARLIN_GELU;
        c.bias = c.skip_bias_add = true;
        COLUMN(PARLIN_ERROR_ARGUMENT, "column layer 'up'", "activation", "skip_bias_add");
    }
    {
        parlin_merged_config c = merged();
        c.activation = (parlin_activation)-1;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "activation", "-1");
        c.activation = PARLIN_RELU;
        c.skip_bias_add = true;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "activation", "skip_bias_add");
        c = merged();
        c.gated = true;
        c.activation = PARLIN_SILU;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "gated", "3", "2");
        c.parts = 2;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "gated", "16", "24");
        c.out_features = two;
        c.activation = PARLIN_NO_ACTIVATION;
        MERGED(PARLIN_ERROR_ARGUMENT, "merged layer 'gate_up'", "gated", "activation");
    }
    still_usable();
}

static void test_reduce_results_with_a_bias(void **state)
{
    (void)state;
    parlin_row_config c = row();
    c.reduce_results = false;
    ROW(PARLIN_ERROR_ARGUMENT, "row layer 'down'", "reduce_results", "bias", "skip_bias_add");
    still_usable();
}

static void test_input_like(void **state)
{
    (void)state;
    parlin_group *group = support_group(), *other = NULL;
    assert_ok(parlin_group_split(group, 0, 0, &other));
    parlin_column_config up = column(), whole = column();
    parlin_merged_config both = merged(), uneven = merged();
    parlin_qkv_config heads = qkv();
    parlin_row_config before_it = row();
    whole.gather_output = true;
    whole.name = "whole";
    both.parts = 2;
    both.out_features = two;
    both.name = "both";
    heads.v_head_size = 3;
    parlin_layer *layers[7] = {NULL};
    assert_ok(parlin_column_create(group, &up, &layers[0]));
    assert_ok(parlin_column_create(group, &whole, &layers[1]));
    assert_ok(parlin_merged_create(group, &both, &layers[2]));
    assert_ok(parlin_merged_create(group, &uneven, &layers[3]));
    assert_ok(parlin_qkv_create(group, &heads, &layers[4]));
    assert_ok(parlin_row_create(group, &before_it, &layers[5]));
    assert_ok(parlin_column_create(other, &up, &layers[6]));

    parlin_row_config c = row();
    c.input_like = layers[0];
    c.in_features = 25;
    ROW(PARLIN_ERROR_SHAPE, "row layer 'down'", "input_like", "'up'", "25", "24");
    c.in_features = 24;
    c.input_like = layers[1];
    ROW(PARLIN_ERROR_ARGUMENT, "row layer 'down'", "input_like", "'whole'");
    c.input_like = layers[2];
    c.in_features = 48; /* both parts together */
    ROW(PARLIN_ERROR_SHAPE, "row layer 'down'", "input_like", "'both'", "48", "24");
    c.in_features = 24;
    c.input_like = layers[3];
    ROW(PARLIN_ERROR_SHAPE, "row layer 'down'", "input_like", "'gate_up'", "16", "24");
    c.input_like = layers[4]; /* 16 heads of v_head_size 3 */
    c.in_features = 64;
    ROW(PARLIN_ERROR_SHAPE, "row layer 'down'", "input_like", "'attention'", "64", "48");
    c.in_features = 16;
    c.input_like = layers[5];
    ROW(PARLIN_ERROR_ARGUMENT, "row layer 'down'", "input_like", "row layer 'down'");
    c.in_features = 24;
    c.input_like = layers[6];
    ROW(PARLIN_ERROR_ARGUMENT, "row layer 'down'", "input_like", "group");
    for (int i = 0; i < 7; i++)
        parlin_layer_destroy(layers[i]);
    parlin_group_close(other);
    still_usable();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_pointers_and_size),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_larger_than_the_device),
        cmocka_unit_test(test_fewer_units_than_ranks),
        cmocka_unit_test(test_shared_fields),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_reduce_results_with_a_bias),
        cmocka_unit_test(test_input_like),
    };
    return SUPPORT_RUN_MPI("layers: refused configurations", tests);
}
