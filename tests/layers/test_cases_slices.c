/* SPDX-License-Identifier: Apache-2.0 */
/* Which slice of a stored tensor each rank holds: cases C01 to C09. Every expected set is written
   out, and looked at on every rank (C09), by its values. "Row i" of a stored tensor holds the
   value i in every column. */
#include "layers.h"

#include <stdlib.h>
#include <string.h>

/* A tensor of n rows of `in` columns, row i holding first + i; kept until the next call on the
   same slot. */
static parlin_host counted(size_t slot, int first, size_t n, size_t in)
{
    static float kept[3][4096];
    assert_true(slot < 3 && n * in <= sizeof kept[0] / sizeof kept[0][0]);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < in; j++)
            kept[slot][i * in + j] = (float)(first + (int)i);
    return parlin_host_2d(kept[slot], PARLIN_F32, n, in);
}

/* The local rows of the weight and of the bias, where the layer adds one, hold these values. */
static void check_rows(parlin_layer *layer, const int *weight, const int *bias, size_t rows)
{
    parlin_layer_info info = parlin_layer_get_info(layer);
    assert_int_equal(info.output_cols, rows);
    size_t in = info.input_cols;
    float *w = support_alloc_floats(rows * in), *b = support_alloc_floats(rows);
    layers_read_local(layer, w, b);
    for (size_t i = 0; i < rows; i++) {
        float wanted = (float)weight[i], wanted_bias = bias ? (float)bias[i] : 0;
        for (size_t j = 0; j < in; j++)
            assert_float_equal(w[i * in + j], wanted, 0);
        assert_float_equal(b[i], wanted_bias, 0);
    }
    free(w);
    free(b);
}

#define CHECK_ROWS(layer, ...)                                                                     \
    check_rows(layer, (const int[]){__VA_ARGS__}, NULL,                                            \
               sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void c01(parlin_group *group)
{
    static const int k[4][2] = {{0, 1}, {0, 1}, {2, 3}, {2, 3}};
    int r = parlin_group_rank(group);
    layers_case c = {
        .kind = PARLIN_QKV, .in = 8, .heads = 4, .kv_heads = 2, .head_size = 2, .bias = true};
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_Q, counted(0, 100, 8, 8)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_K, counted(0, 0, 4, 8)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_V, counted(0, 200, 4, 8)));
    assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_Q, counted(0, 400, 8, 1)));
    assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_K, counted(0, 500, 4, 1)));
    assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_V, counted(0, 600, 4, 1)));

    int weight[6] = {100 + 2 * r, 101 + 2 * r, k[r][0], k[r][1], 200 + k[r][0], 200 + k[r][1]};
    int bias[6];
    for (int i = 0; i < 6; i++)
        bias[i] = weight[i] + (i < 2 ? 300 : i < 4 ? 500 : 400);
    check_rows(layer, weight, bias, 6);
    parlin_layer_destroy(layer);
}

static void case_C01_more_ranks_than_kv_heads(void **state)
{
    (void)state;
    LAYERS_ON(c01, 4);
}

static void c02_eight(parlin_group *group)
{
    int r = parlin_group_rank(group);
    layers_case c = {.kind = PARLIN_QKV, .in = 3, .heads = 8, .kv_heads = 4, .head_size = 4};
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_Q, counted(0, 1000, 32, 3)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_K, counted(0, 0, 16, 3)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_V, counted(0, 2000, 16, 3)));

    /* rank 5: kv head 2, rows 8..11 */
    assert_int_equal(parlin_layer_get_info(layer).output_cols, 12);
    size_t start = 0, length = 0;
    assert_ok(parlin_layer_part(layer, 1, &start, &length));
    assert_int_equal(length, 4);
    assert_int_equal(start, r / 2 * 4);
    if (r == 5)
        assert_int_equal(start, 8);
    int wanted[12];
    for (int i = 0; i < 4; i++) {
        wanted[i] = 1000 + 4 * r + i;
        wanted[4 + i] = r / 2 * 4 + i;
        wanted[8 + i] = 2000 + r / 2 * 4 + i;
    }
    check_rows(layer, wanted, NULL, 12);
    parlin_layer_destroy(layer);
}

static void c02_one_kv_head(parlin_group *group)
{
    int r = parlin_group_rank(group);
    layers_case c = {.kind = PARLIN_QKV, .in = 2, .heads = 4, .kv_heads = 1, .head_size = 2};
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_Q, counted(0, 10, 8, 2)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_K, counted(0, 20, 2, 2)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_V, counted(0, 30, 2, 2)));
    if (r == 0)
        CHECK_ROWS(layer, 10, 11, 12, 13, 20, 21, 30, 31);
    else
        CHECK_ROWS(layer, 14, 15, 16, 17, 20, 21, 30, 31);
    parlin_layer_destroy(layer);
}

static void case_C02_kv_head_never_cut(void **state)
{
    (void)state;
    LAYERS_ON(c02_eight, 8);
}

static void case_C02_one_kv_head_on_both_ranks(void **state)
{
    (void)state;
    LAYERS_ON(c02_one_kv_head, 2);
}

/* Loads rows 0.. fused, and a fused bias 100.. */
static parlin_layer *fused(parlin_group *group, size_t heads, size_t kv_heads, size_t in,
                           parlin_qkv_order order)
{
    layers_case c = {.kind = PARLIN_QKV,
                     .in = in,
                     .heads = heads,
                     .kv_heads = kv_heads,
                     .head_size = 1,
                     .bias = true};
    parlin_layer *layer = layers_create(group, &c);
    parlin_host weight = counted(0, 0, layers_out(&c), in);
    parlin_host bias = counted(1, 100, layers_out(&c), 1);
    weight.order = bias.order = order;
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight));
    assert_ok(parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE, bias));
    return layer;
}

static void check_fused(parlin_layer *layer, const int *rows, size_t count)
{
    int bias[16];
    for (size_t i = 0; i < count; i++)
        bias[i] = 100 + rows[i];
    check_rows(layer, rows, bias, count);
    parlin_layer_destroy(layer);
}

static void c03(parlin_group *group)
{
    static const int even[2][6] = {{0, 1, 4, 5, 8, 9}, {2, 3, 6, 7, 10, 11}};
    static const int grouped2[2][4] = {{0, 1, 4, 6}, {2, 3, 5, 7}};
    static const int grouped4[4][3] = {{0, 4, 6}, {1, 4, 6}, {2, 5, 7}, {3, 5, 7}};
    int r = parlin_group_rank(group);
    if (parlin_group_size(group) == 2) {
        check_fused(fused(group, 4, 4, 1, PARLIN_STACKED), even[r], 6);
        check_fused(fused(group, 4, 2, 1, PARLIN_STACKED), grouped2[r], 4);
    } else {
        check_fused(fused(group, 4, 2, 1, PARLIN_STACKED), grouped4[r], 3);
    }
}

static void case_C03_fused_without_shard_id(void **state)
{
    (void)state;
    LAYERS_ON(c03, 2, 4);
}

static void c04(parlin_group *group)
{
    static const int one[8] = {0, 1, 4, 5, 2, 6, 3, 7};
    static const int two[2][4] = {{0, 1, 2, 3}, {4, 5, 6, 7}};
    static const int four[4][3] = {{0, 2, 3}, {1, 2, 3}, {4, 6, 7}, {5, 6, 7}};
    int r = parlin_group_rank(group), p = parlin_group_size(group);
    parlin_layer *layer = fused(group, 4, 2, 1, PARLIN_INTERLEAVED_GROUPS);
    if (p == 1)
        check_fused(layer, one, 8);
    else if (p == 2)
        check_fused(layer, two[r], 4);
    else
        check_fused(layer, four[r], 3);

    /* never guessed: the same tensor without the flag is stacked */
    static const int stacked[4][3] = {{0, 4, 6}, {1, 4, 6}, {2, 5, 7}, {3, 5, 7}};
    if (p == 4)
        check_fused(fused(group, 4, 2, 1, PARLIN_STACKED), stacked[r], 3);
}

static void case_C04_interleaved_per_kv_group(void **state)
{
    (void)state;
    LAYERS_ON(c04, 1, 2, 4);
}

static void c05(parlin_group *group)
{
    size_t r = (size_t)parlin_group_rank(group);
    float disk[16], local[8];
    for (size_t i = 0; i < 4; i++)
        for (size_t o = 0; o < 4; o++)
            disk[i * 4 + o] = (float)(10 * i + o);
    layers_case c = {.kind = PARLIN_COLUMN, .in = 4, .out = 4};
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                parlin_host_transposed(parlin_host_2d(disk, PARLIN_F32, 4, 4))));
    layers_read_local(layer, local, NULL);
    static const float wanted[2][8] = {{0, 10, 20, 30, 1, 11, 21, 31},
                                       {2, 12, 22, 32, 3, 13, 23, 33}};
    assert_same_floats(local, wanted[r], 8);
    parlin_layer_destroy(layer);

    layers_case f = {.kind = PARLIN_QKV, .in = 2, .heads = 2, .head_size = 1};
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 6; j++)
            disk[i * 6 + j] = (float)(10 * i + j);
    layer = layers_create(group, &f);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                parlin_host_transposed(parlin_host_2d(disk, PARLIN_F32, 2, 6))));
    layers_read_local(layer, local, NULL);
    static const float wanted_fused[2][6] = {{0, 10, 2, 12, 4, 14}, {1, 11, 3, 13, 5, 15}};
    assert_same_floats(local, wanted_fused[r], 6);
    parlin_layer_destroy(layer);
}

static void case_C05_transposed_on_disk(void **state)
{
    (void)state;
    LAYERS_ON(c05, 2);
}

static void c06(parlin_group *group)
{
    int r = parlin_group_rank(group);
    layers_case c = {.kind = PARLIN_QKV, .in = 8, .heads = 4, .kv_heads = 4, .head_size = 3};
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_Q, counted(0, 0, 12, 8)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_K, counted(0, 100, 12, 8)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_V, counted(0, 200, 12, 8)));
    parlin_qkv_shape s = parlin_qkv_local(layer);
    assert_int_equal(s.heads * s.head_size, 6);
    assert_int_equal(s.kv_heads * s.head_size, 6);
    assert_int_equal(s.kv_heads * s.v_head_size, 6);
    for (size_t part = 0; part < 3; part++) {
        size_t start = 99, length = 99;
        assert_ok(parlin_layer_part(layer, part, &start, &length));
        assert_int_equal(start, 6 * r);
        assert_int_equal(length, 6);
    }
    int wanted[18]; /* q, k, v from local rows 0, 6, 12 on */
    for (int i = 0; i < 18; i++)
        wanted[i] = i / 6 * 100 + 6 * r + i % 6;
    check_rows(layer, wanted, NULL, 18);
    parlin_layer_destroy(layer);
}

static void case_C06_head_width_of_its_own(void **state)
{
    (void)state;
    LAYERS_ON(c06, 2);
}

static void c07(parlin_group *group)
{
    layers_case c = {.kind = PARLIN_MERGED, .in = 1, .parts = 2, .part_out = {3, 3}};
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, 0, counted(0, 0, 3, 1)));
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, 1, counted(0, 100, 3, 1)));
    for (int fused_too = 0; fused_too < 2; fused_too++) {
        if (parlin_group_rank(group) == 0)
            CHECK_ROWS(layer, 0, 1, 100, 101);
        else
            CHECK_ROWS(layer, 2, 102);
        float both[6] = {0, 1, 2, 100, 101, 102};
        assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                    parlin_host_2d(both, PARLIN_F32, 6, 1)));
    }
    parlin_layer_destroy(layer);
}

static void case_C07_merged_parts_cut_one_by_one(void **state)
{
    (void)state;
    LAYERS_ON(c07, 2);
}

static void c08_heads(parlin_group *group)
{
    static const size_t heads[4] = {12, 12, 8, 8}, kv[4] = {3, 3, 2, 2};
    static const size_t first[4] = {0, 12, 24, 32}, first_kv[4] = {0, 3, 6, 8};
    int r = parlin_group_rank(group);
    layers_case c = {.kind = PARLIN_QKV, .in = 2, .heads = 40, .kv_heads = 10, .head_size = 1};
    parlin_layer *layer = layers_create(group, &c);
    parlin_qkv_shape s = parlin_qkv_local(layer);
    assert_int_equal(s.heads, heads[r]);
    assert_int_equal(s.kv_heads, kv[r]);
    assert_int_equal(s.first_head, first[r]);
    assert_int_equal(s.first_kv_head, first_kv[r]);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE, counted(0, 0, 60, 2)));
    int wanted[18], n = 0;
    for (size_t i = 0; i < heads[r]; i++)
        wanted[n++] = (int)(first[r] + i);
    for (int base = 40; base <= 50; base += 10)
        for (size_t i = 0; i < kv[r]; i++)
            wanted[n++] = base + (int)(first_kv[r] + i);
    check_rows(layer, wanted, NULL, (size_t)n);
    parlin_layer_destroy(layer);
}

static void c08_column_and_row(parlin_group *group)
{
    int r = parlin_group_rank(group);
    layers_case column = {.kind = PARLIN_COLUMN, .in = 2, .out = 7};
    parlin_layer *layer = layers_create(group, &column);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE, counted(0, 0, 7, 2)));
    if (r == 0)
        CHECK_ROWS(layer, 0, 1, 2, 3);
    else
        CHECK_ROWS(layer, 4, 5, 6);
    parlin_layer_destroy(layer);

    layers_case row = {.kind = PARLIN_ROW, .in = 7, .out = 2, .partial = true};
    layer = layers_create(group, &row);
    float weight[14] = {0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16}, local[8];
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                parlin_host_2d(weight, PARLIN_F32, 2, 7)));
    layers_read_local(layer, local, NULL);
    static const float wanted[2][8] = {{0, 1, 2, 3, 10, 11, 12, 13}, {4, 5, 6, 14, 15, 16}};
    assert_int_equal(parlin_layer_get_info(layer).input_cols, r == 0 ? 4 : 3);
    assert_same_floats(local, wanted[r], r == 0 ? 8 : 6);
    parlin_layer_destroy(layer);
}

/* Refused on every rank of the group of four, in the same words, with both numbers; no device
   memory is taken, and the group goes on. */
static void check_too_few(parlin_group *group, const layers_case *c, const char *units)
{
    parlin_device *device = parlin_group_device(group);
    parlin_layer *layer = NULL;
    parlin_device_counters before = parlin_device_get_counters(device);
    assert_refused(layers_try(group, c, &layer), PARLIN_ERROR_SHAPE, c->name, units, "4");
    assert_null(layer);
    parlin_device_counters after = parlin_device_get_counters(device);
    assert_int_equal(after.buffers_created, before.buffers_created);
    assert_int_equal(after.buffers_live, before.buffers_live);
    assert_int_equal(after.bytes_live, before.bytes_live);
    layers_check_same_sentence(4);

    layers_case good = {.kind = PARLIN_COLUMN, .in = 3, .out = 4};
    layer = layers_create(group, &good);
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE, counted(0, 7, 4, 3)));
    CHECK_ROWS(layer, 7 + parlin_group_rank(group));
    parlin_layer_destroy(layer);
}

static void c08_too_few(parlin_group *group)
{
    layers_case column = {.kind = PARLIN_COLUMN, .in = 8, .out = 3, .name = "short column"};
    layers_case row = {.kind = PARLIN_ROW, .in = 3, .out = 8, .name = "short row"};
    layers_case qkv = {
        .kind = PARLIN_QKV, .in = 8, .heads = 2, .head_size = 8, .name = "short qkv"};
    layers_case merged = {
        .kind = PARLIN_MERGED, .in = 8, .parts = 3, .part_out = {9, 3, 9}, .name = "short merged"};
    check_too_few(group, &column, "3");
    check_too_few(group, &row, "3");
    check_too_few(group, &qkv, "2");
    check_too_few(group, &merged, "3");
}

static void case_C08_heads_that_do_not_divide(void **state)
{
    (void)state;
    LAYERS_ON(c08_heads, 4);
}

static void case_C08_column_and_row_that_do_not_divide(void **state)
{
    (void)state;
    LAYERS_ON(c08_column_and_row, 2);
}

static void case_C08_fewer_units_than_ranks(void **state)
{
    (void)state;
    LAYERS_ON(c08_too_few, 4);
}

static void case_C09_values_on_every_rank(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (const layers_case *c = layers_kinds; c < layers_kinds + LAYERS_KINDS; c++) {
        float *weight = layers_weight(c), *bias = layers_bias(c);
        parlin_layer *layer = layers_create(group, c);
        layers_load(layer, c, weight, bias);
        layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C01_more_ranks_than_kv_heads),
        cmocka_unit_test(case_C02_kv_head_never_cut),
        cmocka_unit_test(case_C02_one_kv_head_on_both_ranks),
        cmocka_unit_test(case_C03_fused_without_shard_id),
        cmocka_unit_test(case_C04_interleaved_per_kv_group),
        cmocka_unit_test(case_C05_transposed_on_disk),
        cmocka_unit_test(case_C06_head_width_of_its_own),
        cmocka_unit_test(case_C07_merged_parts_cut_one_by_one),
        cmocka_unit_test(case_C08_heads_that_do_not_divide),
        cmocka_unit_test(case_C08_column_and_row_that_do_not_divide),
        cmocka_unit_test(case_C08_fewer_units_than_ranks),
        cmocka_unit_test(case_C09_values_on_every_rank),
    };
    return SUPPORT_RUN_MPI("layers: cases of slices", tests);
}
