/* SPDX-License-Identifier: Apache-2.0 */
/* Loading as it is meant to be used: every shard id of every kind, fused tensors, the dtypes of a
   file, loading again, and what is missing. Each rank looks at its own values. */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static parlin_host weight_part(const layers_case *c, const float *weight, size_t part)
{
    return parlin_host_2d(weight + layers_part_start(c, part) * c->in, PARLIN_F32,
                          layers_part_rows(c, part), c->in);
}

static parlin_host bias_part(const layers_case *c, const float *bias, size_t part)
{
    return parlin_host_1d(bias + layers_part_start(c, part), PARLIN_F32, layers_part_rows(c, part));
}

static void every_shard_in_any_order(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (const layers_case *c = layers_kinds; c < layers_kinds + LAYERS_KINDS; c++) {
        float *weight = layers_weight(c), *bias = layers_bias(c);
        parlin_layer *layer = layers_create(group, c);
        /* loading is not collective: each rank in an order of its own */
        size_t parts = layers_parts(c), first = (size_t)support_rank();
        for (size_t i = 0; i < parts; i++) {
            size_t part = (first + parts - i) % parts;
            if (c->bias)
                assert_ok(parlin_layer_load(layer, PARLIN_BIAS, layers_shard(c, part),
                                            bias_part(c, bias, part)));
            assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, layers_shard(c, part),
                                        weight_part(c, weight, part)));
        }
        layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
    }
}

static void fused_without_shard_id(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (const layers_case *c = layers_kinds; c < layers_kinds + LAYERS_KINDS; c++) {
        float *weight = layers_weight(c), *bias = layers_bias(c);
        parlin_layer *layer = layers_create(group, c);
        assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                    parlin_host_2d(weight, PARLIN_F32, layers_out(c), c->in)));
        if (c->bias)
            assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE,
                                        parlin_host_1d(bias, PARLIN_F32, layers_out(c))));
        layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
    }
}

static void larger_odd_sizes(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case cases[] = {
        {.kind = PARLIN_COLUMN, .in = 129, .out = 1000},
        {.kind = PARLIN_ROW, .in = 1000, .out = 129, .partial = true},
        {.kind = PARLIN_MERGED, .in = 17, .parts = 4, .part_out = {1000, 129, 17, 129}},
        {.kind = PARLIN_QKV,
         .in = 129,
         .heads = 24,
         .kv_heads = 8,
         .head_size = 17,
         .v_head_size = 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *weight = layers_weight(&cases[i]);
        parlin_layer *layer = layers_create(group, &cases[i]);
        layers_load(layer, &cases[i], weight, NULL);
        layers_check_local(group, layer, &cases[i], weight, NULL);
        parlin_layer_destroy(layer);
        free(weight);
    }
}

/* A row layer after a qkv layer is cut at that one's query heads, and its weight with it. */
static void row_cut_like_qkv(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case q = {
        .kind = PARLIN_QKV, .in = 2, .heads = 24, .kv_heads = 8, .head_size = 2, .v_head_size = 5};
    parlin_layer *qkv = layers_create(group, &q);
    layers_case c = {.kind = PARLIN_ROW,
                     .in = 24 * 5,
                     .out = 3,
                     .heads = 24,
                     .kv_heads = 8,
                     .partial = true,
                     .input_like = qkv};
    float *weight = layers_weight(&c);
    parlin_layer *row = layers_create(group, &c);
    layers_load(row, &c, weight, NULL);
    layers_check_local(group, row, &c, weight, NULL);
    layers_check_export(group, row, PARLIN_WEIGHT, PARLIN_WHOLE, weight, c.in * c.out);
    parlin_layer_destroy(qkv);
    parlin_layer_destroy(row);
    free(weight);
}

/* --- dtypes --- */

/* The value of a 16-bit pattern, by its definition. */
static float value_of(parlin_dtype dtype, unsigned bits)
{
    int width = dtype == PARLIN_F16 ? 10 : 7, bias = dtype == PARLIN_F16 ? 15 : 127;
    int exponent = (int)(bits >> width) & (dtype == PARLIN_F16 ? 31 : 255);
    int mantissa = (int)bits & ((1 << width) - 1), most = dtype == PARLIN_F16 ? 31 : 255;
    double value = exponent == most ? (mantissa ? (double)NAN : (double)INFINITY)
                   : exponent == 0  ? ldexp(mantissa, 1 - bias - width)
                                    : ldexp((1 << width) + mantissa, exponent - bias - width);
    return (float)(bits & 0x8000 ? -value : value);
}

static void check_values(const float *out, const uint16_t *bits, parlin_dtype dtype, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float wanted = value_of(dtype, bits[i]);
        if (isnan(wanted) ? !isnan(out[i]) : memcmp(&out[i], &wanted, sizeof wanted) != 0)
            fail_msg("%s 0x%04x became %.9g, wanted %.9g", parlin_dtype_name(dtype), bits[i],
                     out[i], wanted);
    }
}

/* Every 16-bit pattern once, as a weight (256 x 256) of every kind, and 256 of them as a bias. */
static void sixteen_bit_files_convert_exactly(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    size_t n = 65536, side = 256;
    uint16_t *bits = support_alloc(n * sizeof *bits);
    for (size_t i = 0; i < n; i++)
        bits[i] = (uint16_t)(i * 40503u + 17); /* an odd factor: each pattern once, mixed */
    float *out = support_alloc_floats(n);
    layers_case cases[] = {
        {.kind = PARLIN_COLUMN, .in = side, .out = side, .bias = true},
        {.kind = PARLIN_MERGED, .in = side, .parts = 2, .part_out = {100, 156}, .bias = true},
        {.kind = PARLIN_QKV, .in = side, .heads = 16, .kv_heads = 8, .head_size = 8, .bias = true},
        {.kind = PARLIN_ROW, .in = side, .out = side, .bias = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const layers_case *c = &cases[i];
        for (parlin_dtype dtype = PARLIN_F16; dtype <= PARLIN_BF16; dtype++) {
            assert_int_equal(layers_out(c), side);
            parlin_layer *layer = layers_create(group, c);
            assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                        parlin_host_2d(bits, dtype, side, side)));
            assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE,
                                        parlin_host_1d(bits + 31 * side, dtype, side)));
            support_poison(out, n);
            assert_ok(
                parlin_layer_export(layer, PARLIN_WEIGHT, PARLIN_WHOLE, 0, out, n * sizeof *out));
            if (parlin_group_rank(group) == 0)
                check_values(out, bits, dtype, n);
            support_poison(out, side);
            assert_ok(
                parlin_layer_export(layer, PARLIN_BIAS, PARLIN_WHOLE, 0, out, side * sizeof *out));
            if (parlin_group_rank(group) == 0)
                check_values(out, bits + 31 * side, dtype, side);
            parlin_layer_destroy(layer);
        }
    }
    free(bits);
    free(out);
}

/* Parts of one layer may come in different dtypes. */
static void dtypes_may_differ_between_parts(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case c = {
        .kind = PARLIN_QKV, .in = 2, .heads = 8, .kv_heads = 4, .head_size = 2, .bias = true};
    size_t out = layers_out(&c), in = c.in;
    float *weight = layers_weight(&c), *bias = layers_bias(&c);
    uint16_t k[16], v[16];
    for (size_t i = 0; i < 16; i++) {
        k[i] = (uint16_t)(0x3c00 + 64 * i); /* f16: 1 + i / 16 */
        v[i] = (uint16_t)(0x3f80 + 8 * i);  /* bf16: the same */
        weight[16 * in + i] = weight[24 * in + i] = 1 + (float)i / 16;
    }
    assert_int_equal(out, 32);
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_Q, weight_part(&c, weight, 0)));
    assert_ok(
        parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_K, parlin_host_2d(k, PARLIN_F16, 8, in)));
    assert_ok(
        parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_V, parlin_host_2d(v, PARLIN_BF16, 8, in)));
    assert_ok(
        parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE, parlin_host_1d(bias, PARLIN_F32, out)));
    layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, out * in);
    layers_check_export(group, layer, PARLIN_BIAS, PARLIN_WHOLE, bias, out);
    parlin_layer_destroy(layer);
    free(weight);
    free(bias);
}

/* --- again, and missing --- */

static void loading_again_replaces_that_part_alone(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (const layers_case *c = layers_kinds; c < layers_kinds + LAYERS_KINDS; c++) {
        float *weight = layers_weight(c), *bias = layers_bias(c);
        parlin_layer *layer = layers_create(group, c);
        layers_load(layer, c, weight, bias);
        layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
        for (size_t part = 0; part < layers_parts(c); part++) {
            size_t rows = layers_part_rows(c, part), start = layers_part_start(c, part);
            for (size_t i = start * c->in; i < (start + rows) * c->in; i++)
                weight[i] += 5000;
            assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, layers_shard(c, part),
                                        weight_part(c, weight, part)));
            layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
            if (!c->bias)
                continue;
            for (size_t i = start; i < start + rows; i++)
                bias[i] += 7;
            assert_ok(parlin_layer_load(layer, PARLIN_BIAS, layers_shard(c, part),
                                        bias_part(c, bias, part)));
            layers_check_local(group, layer, c, weight, bias);
        }
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
    }
}

static void host_memory_is_not_kept(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const layers_case *c = &layers_kinds[2];
    float *weight = layers_weight(c), *bias = layers_bias(c);
    size_t n = layers_out(c) * c->in;
    float *given = support_alloc_floats(n);
    memcpy(given, weight, n * sizeof *given);
    parlin_layer *layer = layers_create(group, c);
    layers_load(layer, c, given, bias);
    support_poison(given, n);
    free(given);
    layers_check_local(group, layer, c, weight, bias);
    parlin_layer_destroy(layer);
    free(weight);
    free(bias);
}

/* A forward with a part missing is refused by name, and writes nothing. */
static void check_forward_refused(parlin_group *group, parlin_layer *layer, const char *param,
                                  const char *part)
{
    parlin_layer_info info = parlin_layer_get_info(layer);
    parlin_tensor x = {0}, y = {0};
    size_t n = 2 * info.output_cols;
    float *host = support_alloc_floats(n), *poison = support_alloc_floats(n);
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 2, info.input_cols, &x));
    assert_ok(parlin_layer_output(layer, 2, &y));
    float *zeros = support_alloc(2 * info.input_cols * sizeof *zeros);
    memset(zeros, 0, 2 * info.input_cols * sizeof *zeros);
    assert_ok(parlin_tensor_write(x, zeros));
    assert_ok(parlin_tensor_write(y, poison));
    assert_refused(parlin_layer_forward(layer, x, y), PARLIN_ERROR_STATE, info.name, param, part);
    assert_ok(parlin_tensor_read(y, host));
    assert_same_floats(host, poison, n);
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&y);
    free(host);
    free(poison);
    free(zeros);
}

static void forward_names_the_missing_part(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (const layers_case *c = layers_kinds; c < layers_kinds + LAYERS_KINDS; c++) {
        float *weight = layers_weight(c), *bias = layers_bias(c);
        size_t parts = layers_parts(c);
        for (size_t missing = 0; missing < parts; missing++)
            for (int in_bias = 0; in_bias <= (c->bias && !c->skip_bias_add); in_bias++) {
                char part[32];
                layers_part_text(c, missing, part);
                parlin_layer *layer = layers_create(group, c);
                for (size_t i = 0; i < parts; i++) {
                    if (i != missing || in_bias)
                        assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, layers_shard(c, i),
                                                    weight_part(c, weight, i)));
                    if (c->bias && (i != missing || !in_bias))
                        assert_ok(parlin_layer_load(layer, PARLIN_BIAS, layers_shard(c, i),
                                                    bias_part(c, bias, i)));
                }
                check_forward_refused(group, layer, in_bias ? "bias" : "weight", part);
                /* and goes on once it is there */
                assert_ok(parlin_layer_load(
                    layer, in_bias ? PARLIN_BIAS : PARLIN_WEIGHT, layers_shard(c, missing),
                    in_bias ? bias_part(c, bias, missing) : weight_part(c, weight, missing)));
                layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
                parlin_layer_destroy(layer);
            }
        free(weight);
        free(bias);
    }
}

/* Where one rank alone lacks a part of a layer with a collective, all are told, and which. */
static void missing_on_one_rank(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    int last = parlin_group_size(group) - 1;
    char who[16] = "";
    if (last > 0)
        snprintf(who, sizeof who, "rank %d", last);
    layers_case cases[] = {
        {.kind = PARLIN_ROW, .in = 9, .out = 3, .bias = true, .name = "late"},
        {.kind = PARLIN_COLUMN, .in = 3, .out = 9, .gather_output = true, .name = "late"},
    };
    for (size_t i = 0; i < 2; i++) {
        const layers_case *c = &cases[i];
        float *weight = layers_weight(c), *bias = layers_bias(c);
        parlin_layer *layer = layers_create(group, c);
        if (support_rank() != last)
            layers_load(layer, c, weight, bias);
        check_forward_refused(group, layer, "weight", who);
        if (last > 0)
            layers_check_same_sentence(last + 1);
        if (support_rank() == last)
            layers_load(layer, c, weight, bias);
        layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, c->in * c->out);
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
    }
}

static void skipped_bias(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (int gather = 0; gather < 2; gather++) {
        layers_case cases[] = {
            {.kind = PARLIN_COLUMN, .in = 3, .out = 19, .name = "skipper"},
            {.kind = PARLIN_MERGED, .in = 3, .parts = 2, .part_out = {9, 17}, .name = "skipper"},
            {.kind = PARLIN_QKV,
             .in = 3,
             .heads = 8,
             .kv_heads = 2,
             .head_size = 3,
             .name = "skipper"},
            {.kind = PARLIN_ROW, .in = 9, .out = 5, .name = "skipper"},
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            layers_case *c = &cases[i];
            c->bias = c->skip_bias_add = true;
            c->gather_output = gather && c->kind != PARLIN_QKV && c->kind != PARLIN_ROW;
            float *bias = layers_bias(c);
            parlin_tensor t = {0};
            parlin_layer *layer = layers_create(group, c);
            assert_refused(parlin_layer_bias(layer, &t), PARLIN_ERROR_STATE, "skipper", "bias");
            assert_null(t.buffer);
            /* in parts, then once more as a whole with other values */
            for (size_t part = 0; part < layers_parts(c); part++)
                assert_ok(parlin_layer_load(layer, PARLIN_BIAS, layers_shard(c, part),
                                            bias_part(c, bias, part)));
            layers_check_skipped(group, layer, c, bias);
            for (size_t j = 0; j < layers_out(c); j++)
                bias[j] *= 2;
            assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE,
                                        parlin_host_1d(bias, PARLIN_F32, layers_out(c))));
            layers_check_skipped(group, layer, c, bias);
            layers_check_export(group, layer, PARLIN_BIAS, PARLIN_WHOLE, bias, layers_out(c));
            parlin_layer_destroy(layer);
            free(bias);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shard_in_any_order),
        cmocka_unit_test(fused_without_shard_id),
        cmocka_unit_test(larger_odd_sizes),
        cmocka_unit_test(row_cut_like_qkv),
        cmocka_unit_test(sixteen_bit_files_convert_exactly),
        cmocka_unit_test(dtypes_may_differ_between_parts),
        cmocka_unit_test(loading_again_replaces_that_part_alone),
        cmocka_unit_test(host_memory_is_not_kept),
        cmocka_unit_test(forward_names_the_missing_part),
        cmocka_unit_test(missing_on_one_rank),
        cmocka_unit_test(skipped_bias),
    };
    return SUPPORT_RUN_MPI("layers: loading", tests);
}
