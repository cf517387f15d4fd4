/* SPDX-License-Identifier: Apache-2.0 */
/* Export is the inverse of loading: bit for bit what was loaded, to any root; and what is refused
   is refused on all ranks, which go on together. */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any bits at all: NaNs with payloads, infinities, subnormals, zeros of both signs. */
static float *random_bits(support_random *random, size_t n)
{
    static const uint32_t special[] = {0x7f800001, 0xffc12345, 0x7f800000, 0xff800000,
                                       0x00000001, 0x80000000, 0x00000000, 0x7fbfffff};
    float *out = support_alloc_floats(n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)support_next(random);
        if (bits % 5 == 0)
            bits = special[bits / 5 % 8];
        memcpy(&out[i], &bits, sizeof bits);
    }
    return out;
}

static void bits_of_every_part_to_every_root(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    support_random random = {support_seed()};
    for (const layers_case *c = layers_kinds; c < layers_kinds + LAYERS_KINDS; c++) {
        size_t out = layers_out(c);
        float *weight = random_bits(&random, out * c->in), *bias = random_bits(&random, out);
        parlin_layer *layer = layers_create(group, c);
        layers_load(layer, c, weight, bias);
        int p = parlin_group_size(group), root = 0;
        for (root = 0; root < p; root++)
            layers_check_export_to(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, out * c->in,
                                   root);
        for (root = 0; c->bias && root < p; root++)
            layers_check_export_to(group, layer, PARLIN_BIAS, PARLIN_WHOLE, bias, out, root);
        for (size_t part = 0; part < layers_parts(c); part++) {
            size_t rows = layers_part_rows(c, part), start = layers_part_start(c, part);
            parlin_shard shard = layers_shard(c, part);
            layers_check_export_to(group, layer, PARLIN_WEIGHT, shard, weight + start * c->in,
                                   rows * c->in, root++ % p);
            if (c->bias)
                layers_check_export_to(group, layer, PARLIN_BIAS, shard, bias + start, rows,
                                       root++ % p);
        }
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
    }
}

/* With the options that change the output, and so the way a bias is kept. */
static void layers_with_a_collective(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    support_random random = {support_seed() + 1};
    layers_case cases[] = {
        {.kind = PARLIN_COLUMN, .in = 7, .out = 1000, .bias = true, .gather_output = true},
        {.kind = PARLIN_COLUMN,
         .in = 7,
         .out = 19,
         .bias = true,
         .gather_output = true,
         .skip_bias_add = true},
        {.kind = PARLIN_MERGED,
         .in = 3,
         .parts = 2,
         .part_out = {9, 17},
         .bias = true,
         .gather_output = true,
         .skip_bias_add = true},
        {.kind = PARLIN_MERGED,
         .in = 3,
         .parts = 2,
         .part_out = {9, 9},
         .bias = true,
         .gated = true,
         .activation = PARLIN_SILU},
        {.kind = PARLIN_ROW, .in = 1000, .out = 129, .bias = true},
        {.kind = PARLIN_ROW, .in = 19, .out = 1, .bias = true, .whole_input = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const layers_case *c = &cases[i];
        size_t out = layers_out(c);
        float *weight = random_bits(&random, out * c->in), *bias = random_bits(&random, out);
        parlin_layer *layer = layers_create(group, c);
        layers_load(layer, c, weight, bias);
        layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, out * c->in);
        layers_check_export(group, layer, PARLIN_BIAS, PARLIN_WHOLE, bias, out);
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
    }
}

/* More than goes through host memory at once, on the way in (from a transposed tensor) and out. */
static void large_weights(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    support_random random = {support_seed() + 2};
    layers_case cases[] = {
        {.kind = PARLIN_COLUMN, .in = 1000, .out = 1301},
        {.kind = PARLIN_QKV,
         .in = 1000,
         .heads = 16,
         .kv_heads = 8,
         .head_size = 83,
         .v_head_size = 171},
        {.kind = PARLIN_ROW, .in = 1000, .out = 1301},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const layers_case *c = &cases[i];
        size_t out = layers_out(c), in = c->in;
        float *weight = random_bits(&random, out * in), *stored = support_alloc_floats(out * in);
        for (size_t o = 0; o < out; o++)
            for (size_t j = 0; j < in; j++)
                memcpy(&stored[j * out + o], &weight[o * in + j], sizeof *stored);
        parlin_layer *layer = layers_create(group, c);
        assert_ok(
            parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                              parlin_host_transposed(parlin_host_2d(stored, PARLIN_F32, in, out))));
        layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, out * in);
        layers_load(layer, c, weight, NULL);
        layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, out * in);
        parlin_layer_destroy(layer);
        free(weight);
        free(stored);
    }
}

/* f16 and bf16 hold fewer values than f32: what was read from them comes out as that value. */
static void values_of_sixteen_bit_files(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    static const uint16_t f16[8] = {0x3c00, 0x0001, 0xfbff, 0x8000, 0x7c00, 0xbe00, 0x0400, 0x3555};
    static const uint16_t bf16[8] = {0x3f80, 0x0001, 0xff7f, 0x8000,
                                     0x7f80, 0xbfc0, 0x0080, 0x3eab};
    static const float of_f16[8] = {1,     0x1p-24f, -65504,     -0.0f, (float)INFINITY,
                                    -1.5f, 0x1p-14f, 0x1.554p-2f};
    static const float of_bf16[8] = {1,     0x1p-133f, -0x1.fep127f, -0.0f, (float)INFINITY,
                                     -1.5f, 0x1p-126f, 0x1.56p-2f};
    layers_case c = {.kind = PARLIN_COLUMN, .in = 1, .out = 8, .bias = true};
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                parlin_host_2d(f16, PARLIN_F16, 8, 1)));
    assert_ok(
        parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE, parlin_host_1d(bf16, PARLIN_BF16, 8)));
    layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, of_f16, 8);
    layers_check_export(group, layer, PARLIN_BIAS, PARLIN_WHOLE, of_bf16, 8);
    parlin_layer_destroy(layer);
}

/* Data and bytes count on the root alone; nothing beyond the part is written; nothing is kept. */
static void root_alone_gives_memory(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    int last = parlin_group_size(group) - 1;
    bool mine = support_rank() == last;
    layers_case c = {.kind = PARLIN_QKV, .in = 3, .heads = 8, .kv_heads = 2, .head_size = 2};
    float *weight = layers_weight(&c);
    parlin_layer *layer = layers_create(group, &c);
    layers_load(layer, &c, weight, NULL);
    enum { n = 4 * 3 };
    float out[n + 2];
    parlin_device_counters before = parlin_device_get_counters(parlin_group_device(group));
    for (int again = 0; again < 3; again++) {
        support_poison(out, n + 2);
        /* the other ranks' pointer is nobody's memory */
        assert_ok(parlin_layer_export(layer, PARLIN_WEIGHT, PARLIN_K, last,
                                      mine ? out + 1 : (void *)(uintptr_t)8,
                                      mine ? n * sizeof *out : 5));
        assert_true(support_is_poison(out[0]));
        assert_true(support_is_poison(out[n + 1]));
        if (mine)
            assert_same_floats(out + 1, weight + 16 * 3, n);
        else
            assert_true(support_is_poison(out[1]));
    }
    parlin_device_counters after = parlin_device_get_counters(parlin_group_device(group));
    assert_int_equal(after.buffers_live, before.buffers_live);
    assert_int_equal(after.bytes_live, before.bytes_live);
    parlin_layer_destroy(layer);
    free(weight);
}

/* --- refused --- */

/* The same words on all ranks, and the group and layer go on. */
static void check_goes_on(parlin_group *group, parlin_layer *layer, const layers_case *c,
                          const float *weight)
{
    if (parlin_group_size(group) > 1)
        layers_check_same_sentence(parlin_group_size(group));
    layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, layers_out(c) * c->in);
    assert_ok(parlin_barrier(group));
}

static void wrong_arguments(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    int p = parlin_group_size(group), root = p - 1;
    char who[16] = "";
    if (p > 1)
        snprintf(who, sizeof who, "rank %d", root);
    layers_case c = {
        .kind = PARLIN_MERGED, .in = 2, .parts = 2, .part_out = {8, 9}, .name = "exported"};
    float *weight = layers_weight(&c), out[34];
    support_poison(out, 34);
    parlin_layer *layer = layers_create(group, &c);
    layers_load(layer, &c, weight, NULL);
    const parlin_param W = PARLIN_WEIGHT;

    /* the root's bytes: 34 floats are wanted */
    assert_refused(parlin_layer_export(layer, W, PARLIN_WHOLE, root, out, 34 * 4 - 1),
                   PARLIN_ERROR_SHAPE, "exported", "weight", "135", "136", who);
    check_goes_on(group, layer, &c, weight);
    assert_refused(parlin_layer_export(layer, W, PARLIN_WHOLE, root, out, 34 * 4 + 4),
                   PARLIN_ERROR_SHAPE, "exported", "weight", "140", "136", who);
    check_goes_on(group, layer, &c, weight);
    assert_refused(parlin_layer_export(layer, W, 1, root, out, 34 * 4), PARLIN_ERROR_SHAPE,
                   "exported", "weight", "136", "72", who);
    check_goes_on(group, layer, &c, weight);
    assert_refused(parlin_layer_export(layer, W, PARLIN_WHOLE, root, NULL, 34 * 4),
                   PARLIN_ERROR_ARGUMENT, "exported", "NULL", who);
    check_goes_on(group, layer, &c, weight);

    /* roots that are no rank */
    assert_refused(parlin_layer_export(layer, W, PARLIN_WHOLE, -1, out, 34 * 4),
                   PARLIN_ERROR_ARGUMENT, "exported", "root", "-1");
    check_goes_on(group, layer, &c, weight);
    char size[16];
    snprintf(size, sizeof size, "%d", p);
    assert_refused(parlin_layer_export(layer, W, PARLIN_WHOLE, p, out, 34 * 4),
                   PARLIN_ERROR_ARGUMENT, "exported", "root", size);
    check_goes_on(group, layer, &c, weight);

    /* shards, parameters */
    assert_refused(parlin_layer_export(layer, W, 2, root, out, 34 * 4), PARLIN_ERROR_ARGUMENT,
                   "exported", "weight", "2");
    check_goes_on(group, layer, &c, weight);
    assert_refused(parlin_layer_export(layer, W, PARLIN_Q, root, out, 34 * 4),
                   PARLIN_ERROR_ARGUMENT, "exported", "weight", "Q");
    check_goes_on(group, layer, &c, weight);
    assert_refused(parlin_layer_export(layer, PARLIN_BIAS, PARLIN_WHOLE, root, out, 17 * 4),
                   PARLIN_ERROR_ARGUMENT, "exported", "bias");
    check_goes_on(group, layer, &c, weight);
    assert_refused(parlin_layer_export(layer, (parlin_param)3, PARLIN_WHOLE, root, out, 34 * 4),
                   PARLIN_ERROR_ARGUMENT, "exported", "3");
    check_goes_on(group, layer, &c, weight);
    for (size_t i = 0; i < 34; i++)
        assert_true(support_is_poison(out[i]));
    parlin_layer_destroy(layer);
    free(weight);
}

static void no_layer(void **state)
{
    (void)state;
    float out[4];
    assert_refused(parlin_layer_export(NULL, PARLIN_WEIGHT, PARLIN_WHOLE, 0, out, sizeof out),
                   PARLIN_ERROR_ARGUMENT, "NULL");
}

/* Ranks that ask for different things are told so. */
static void ranks_disagree(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    int p = parlin_group_size(group);
    bool last = support_rank() == p - 1;
    if (p == 1)
        SUPPORT_SKIP("needs two ranks");
    layers_case c = {.kind = PARLIN_MERGED,
                     .in = 2,
                     .parts = 2,
                     .part_out = {8, 8},
                     .bias = true,
                     .name = "exported"};
    float *weight = layers_weight(&c), *bias = layers_bias(&c), out[32];
    support_poison(out, 32);
    parlin_layer *layer = layers_create(group, &c);
    layers_load(layer, &c, weight, bias);
    assert_refused(parlin_layer_export(layer, PARLIN_WEIGHT, last ? 1 : 0, 0, out, 64),
                   PARLIN_ERROR_MISMATCH, "exported");
    check_goes_on(group, layer, &c, weight);
    assert_refused(parlin_layer_export(layer, last ? PARLIN_BIAS : PARLIN_WEIGHT, 0, 0, out, 64),
                   PARLIN_ERROR_MISMATCH, "exported");
    check_goes_on(group, layer, &c, weight);
    /* each rank thinks that it is the root */
    assert_refused(
        parlin_layer_export(layer, PARLIN_WEIGHT, PARLIN_WHOLE, support_rank(), out, sizeof out),
        PARLIN_ERROR_MISMATCH, "exported");
    check_goes_on(group, layer, &c, weight);
    for (size_t i = 0; i < 32; i++)
        assert_true(support_is_poison(out[i]));
    parlin_layer_destroy(layer);
    free(weight);
    free(bias);
}

static void part_never_loaded(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (const layers_case *c = layers_kinds; c < layers_kinds + LAYERS_KINDS; c++) {
        float *weight = layers_weight(c), *bias = layers_bias(c);
        size_t parts = layers_parts(c), n = layers_out(c) * c->in;
        float *out = support_alloc_floats(n);
        for (size_t missing = 0; missing < parts; missing++) {
            char part[32];
            layers_part_text(c, missing, part);
            parlin_layer *layer = layers_create(group, c);
            for (size_t i = 0; i < parts; i++) {
                size_t rows = layers_part_rows(c, i), start = layers_part_start(c, i);
                parlin_host w = parlin_host_2d(weight + start * c->in, PARLIN_F32, rows, c->in);
                if (i == missing)
                    continue;
                assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, layers_shard(c, i), w));
            }
            size_t rows = layers_part_rows(c, missing);
            assert_refused(parlin_layer_export(layer, PARLIN_WEIGHT, layers_shard(c, missing), 0,
                                               out, rows * c->in * sizeof *out),
                           PARLIN_ERROR_STATE, c->name, "weight", part);
            assert_refused(
                parlin_layer_export(layer, PARLIN_WEIGHT, PARLIN_WHOLE, 0, out, n * sizeof *out),
                PARLIN_ERROR_STATE, c->name, "weight", part);
            if (c->bias)
                assert_refused(parlin_layer_export(layer, PARLIN_BIAS, PARLIN_WHOLE, 0, out,
                                                   layers_out(c) * sizeof *out),
                               PARLIN_ERROR_STATE, c->name, "bias");
            for (size_t i = 0; i < n; i++)
                assert_true(support_is_poison(out[i]));
            /* the parts that are there can be had */
            for (size_t i = 0; i < parts; i++)
                if (i != missing)
                    layers_check_export(group, layer, PARLIN_WEIGHT, layers_shard(c, i),
                                        weight + layers_part_start(c, i) * c->in,
                                        layers_part_rows(c, i) * c->in);
            layers_load(layer, c, weight, bias);
            layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight, n);
            parlin_layer_destroy(layer);
        }
        free(out);
        free(weight);
        free(bias);
    }
}

/* Loaded on all ranks but one. */
static void never_loaded_on_one_rank(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    int p = parlin_group_size(group);
    char who[16] = "";
    if (p > 1)
        snprintf(who, sizeof who, "rank %d", p - 1);
    layers_case c = {.kind = PARLIN_COLUMN, .in = 2, .out = 8, .name = "late"};
    float *weight = layers_weight(&c), out[16];
    support_poison(out, 16);
    parlin_layer *layer = layers_create(group, &c);
    if (support_rank() != p - 1)
        layers_load(layer, &c, weight, NULL);
    assert_refused(parlin_layer_export(layer, PARLIN_WEIGHT, PARLIN_WHOLE, 0, out, sizeof out),
                   PARLIN_ERROR_STATE, "late", "weight", who);
    assert_true(support_is_poison(out[0]));
    layers_load(layer, &c, weight, NULL);
    check_goes_on(group, layer, &c, weight);
    parlin_layer_destroy(layer);
    free(weight);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_every_part_to_every_root),
        cmocka_unit_test(layers_with_a_collective),
        cmocka_unit_test(large_weights),
        cmocka_unit_test(values_of_sixteen_bit_files),
        cmocka_unit_test(root_alone_gives_memory),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(no_layer),
        cmocka_unit_test(ranks_disagree),
        cmocka_unit_test(part_never_loaded),
        cmocka_unit_test(never_loaded_on_one_rank),
    };
    return SUPPORT_RUN_MPI("layers: export", tests);
}
