/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values: of the full matrix, whatever the number of ranks; told apart by seed, parameter
   id, part, and weight or bias; within their bounds. */
#include "layers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static parlin_group *single(void)
{
    parlin_group *group = NULL;
    assert_ok(parlin_group_create_single(parlin_group_device(support_group()), NULL, &group));
    return group;
}

/* The full weight or bias of a layer made for the purpose, on every rank. */
static float *initial(parlin_group *group, const layers_case *c, parlin_param param)
{
    size_t n = layers_out(c) * (param == PARLIN_BIAS ? 1 : c->in);
    float *out = support_alloc_floats(n);
    parlin_layer *layer = layers_create(group, c);
    for (int root = 0; root < parlin_group_size(group); root++)
        assert_ok(parlin_layer_export(layer, param, PARLIN_WHOLE, root, out, n * sizeof *out));
    parlin_layer_destroy(layer);
    return out;
}

static void check_differ(const float *a, const float *b, size_t n)
{
    size_t same = 0;
    for (size_t i = 0; i < n; i++)
        same += a[i] == b[i];
    if (same > n / 8)
        fail_msg("%zu of %zu values are the same", same, n);
}

/* Within [-bound, bound], and close to both ends. */
static void check_bound(const float *values, size_t n, double bound)
{
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(values[i]));
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
    }
    /* the bound itself is rounded to f32 */
    double room = bound * (1 + FLT_EPSILON);
    if (least < -room || most > room || least > -0.9 * bound || most < 0.9 * bound)
        fail_msg("values in [%g, %g], wanted all of [%g, %g]", least, most, -bound, bound);
}

static void c18_column(parlin_group *group)
{
    layers_case c = {.kind = PARLIN_COLUMN,
                     .in = 2,
                     .out = 4,
                     .seed = 1,
                     .param_id = 5,
                     .weight_init = {PARLIN_INIT_REFERENCE, 0}};
    parlin_group *alone = single();
    float *whole = initial(alone, &c, PARLIN_WEIGHT);
    parlin_layer *layer = layers_create(group, &c);
    /* rank r holds rows 2r and 2r + 1, and not those of the other rank */
    size_t first = 4 * (size_t)parlin_group_rank(group);
    float local[4];
    layers_read_local(layer, local, NULL);
    for (size_t i = 0; i < 4; i++)
        assert_float_equal(local[i], whole[first + i], 0);
    check_differ(whole, whole + 4, 4);
    layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, whole, 8);
    parlin_layer_destroy(layer);
    parlin_group_close(alone);
    free(whole);
}

static void case_C18_column_shards_are_the_whole(void **state)
{
    (void)state;
    LAYERS_ON(c18_column, 2);
}

/* The fan is that of the full matrix: 8, not the 2 columns that a rank has. */
static void c18_row(parlin_group *group)
{
    layers_case c = {.kind = PARLIN_ROW,
                     .in = 8,
                     .out = 64,
                     .seed = 1,
                     .bias = true,
                     .weight_init = {PARLIN_INIT_REFERENCE, 0},
                     .bias_init = {PARLIN_INIT_REFERENCE, 0}};
    float *weight = initial(group, &c, PARLIN_WEIGHT), *bias = initial(group, &c, PARLIN_BIAS);
    check_bound(weight, 8 * 64, 0.353553390593);
    check_bound(bias, 64, 0.353553390593);
    free(weight);
    free(bias);
}

static void case_C18_row_bound_of_the_full_fan(void **state)
{
    (void)state;
    LAYERS_ON(c18_row, 1, 4);
}

static void c18_kv(parlin_group *group)
{
    layers_case c = {.kind = PARLIN_QKV,
                     .in = 3,
                     .heads = 8,
                     .kv_heads = 2,
                     .head_size = 2,
                     .v_head_size = 3,
                     .seed = 1,
                     .param_id = 5,
                     .weight_init = {PARLIN_INIT_REFERENCE, 0}};
    parlin_group *alone = single();
    float *whole = initial(alone, &c, PARLIN_WEIGHT);
    parlin_layer *layer = layers_create(group, &c);
    /* each rank's rows, those of a kv head on several ranks too, are the full matrix's */
    layers_check_local(group, layer, &c, whole, NULL);
    parlin_layer_destroy(layer);
    parlin_group_close(alone);
    free(whole);
}

static void case_C18_kv_heads_on_several_ranks_are_equal(void **state)
{
    (void)state;
    LAYERS_ON(c18_kv, support_size());
}

static const parlin_init inits[] = {
    {PARLIN_INIT_ZEROS, 0},      {PARLIN_INIT_ONES, 0},           {PARLIN_INIT_CONSTANT, -2.5},
    {PARLIN_INIT_UNIFORM, 0.75}, {PARLIN_INIT_NORMAL, 0.02},      {PARLIN_INIT_HE_UNIFORM, 0.5},
    {PARLIN_INIT_REFERENCE, 0},  {PARLIN_INIT_XAVIER_UNIFORM, 0},
};
#define INITS (sizeof inits / sizeof *inits)

static void any_number_of_ranks_makes_the_same(parlin_group *group)
{
    parlin_group *alone = single();
    for (size_t k = 0; k < LAYERS_KINDS; k++)
        for (size_t i = 0; i < INITS; i++) {
            layers_case c = layers_kinds[k];
            bool of_weights = inits[i].kind == PARLIN_INIT_HE_UNIFORM ||
                              inits[i].kind == PARLIN_INIT_XAVIER_UNIFORM;
            c.weight_init = inits[i];
            if (c.bias)
                c.bias_init = of_weights ? inits[3] : inits[i];
            c.seed = 0x123456789abcdef0u + i;
            c.param_id = 77 + k;
            float *weight = initial(alone, &c, PARLIN_WEIGHT);
            float *bias = c.bias ? initial(alone, &c, PARLIN_BIAS) : NULL;
            parlin_layer *layer = layers_create(group, &c);
            layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight,
                                layers_out(&c) * c.in);
            if (c.bias)
                layers_check_export(group, layer, PARLIN_BIAS, PARLIN_WHOLE, bias, layers_out(&c));
            if (c.bias && c.skip_bias_add)
                layers_check_skipped(group, layer, &c, bias);
            if (!c.bias)
                layers_check_local(group, layer, &c, weight, NULL);
            parlin_layer_destroy(layer);
            free(weight);
            free(bias);
        }
    parlin_group_close(alone);
}

static void every_kind_on_any_number_of_ranks(void **state)
{
    (void)state;
    LAYERS_ON(any_number_of_ranks_makes_the_same, support_size());
}

/* A row layer cut at query heads has the values of one cut evenly. */
static void row_cut_like_qkv(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case q = {.kind = PARLIN_QKV, .in = 2, .heads = 16, .kv_heads = 8, .head_size = 3};
    parlin_layer *qkv = layers_create(group, &q);
    layers_case c = {.kind = PARLIN_ROW,
                     .in = 48,
                     .out = 3,
                     .partial = true,
                     .seed = 3,
                     .param_id = 9,
                     .weight_init = {PARLIN_INIT_NORMAL, 1}};
    parlin_group *alone = single();
    float *even = initial(alone, &c, PARLIN_WEIGHT);
    c.heads = 16;
    c.kv_heads = 8;
    c.input_like = qkv;
    parlin_layer *row = layers_create(group, &c);
    layers_check_local(group, row, &c, even, NULL);
    parlin_layer_destroy(row);
    parlin_layer_destroy(qkv);
    parlin_group_close(alone);
    free(even);
}

/* More than is filled at once. */
static void large_weight(void **state)
{
    (void)state;
    parlin_group *group = support_group(), *alone = single();
    layers_case cases[] = {
        {.kind = PARLIN_COLUMN,
         .in = 1000,
         .out = 1301,
         .seed = 5,
         .param_id = 2,
         .weight_init = {PARLIN_INIT_UNIFORM, 1}},
        {.kind = PARLIN_ROW,
         .in = 1000,
         .out = 1301,
         .seed = 5,
         .param_id = 2,
         .weight_init = {PARLIN_INIT_UNIFORM, 1}},
    };
    float *first = NULL;
    for (size_t i = 0; i < 2; i++) {
        float *whole = initial(alone, &cases[i], PARLIN_WEIGHT);
        parlin_layer *layer = layers_create(group, &cases[i]);
        layers_check_export(group, layer, PARLIN_WEIGHT, PARLIN_WHOLE, whole, 1301 * 1000);
        parlin_layer_destroy(layer);
        if (first) /* the values are the place's, whatever the kind of layer */
            assert_same_floats(whole, first, 1301 * 1000);
        else
            for (size_t row = 1; row < 1301; row++)
                check_differ(whole, whole + row * 1000, 1000);
        free(first);
        first = whole;
    }
    free(first);
    parlin_group_close(alone);
}

/* Bounds by the formulas of <parlin/layer.h>; the fans are those of each single part. */
static void bounds_and_moments(void **state)
{
    (void)state;
    parlin_group *group = single(); /* as any group: see above */
    layers_case c = {.kind = PARLIN_MERGED,
                     .in = 40,
                     .parts = 2,
                     .part_out = {20, 200},
                     .seed = 11,
                     .param_id = 3,
                     .bias = true,
                     .weight_init = {PARLIN_INIT_XAVIER_UNIFORM, 0},
                     .bias_init = {PARLIN_INIT_REFERENCE, 0}};
    float *weight = initial(group, &c, PARLIN_WEIGHT), *bias = initial(group, &c, PARLIN_BIAS);
    check_bound(weight, 20 * 40, sqrt(6.0 / (40 + 20)));
    check_bound(weight + 20 * 40, 200 * 40, sqrt(6.0 / (40 + 200)));
    check_bound(bias, 220, 1 / sqrt(40.0));
    free(weight);
    free(bias);

    layers_case q = {.kind = PARLIN_QKV,
                     .in = 10,
                     .heads = 16,
                     .kv_heads = 8,
                     .head_size = 8,
                     .v_head_size = 4,
                     .seed = 11,
                     .param_id = 3,
                     .weight_init = {PARLIN_INIT_XAVIER_UNIFORM, 0}};
    weight = initial(group, &q, PARLIN_WEIGHT);
    check_bound(weight, 1280, sqrt(6.0 / (10 + 128)));
    check_bound(weight + 1280, 640, sqrt(6.0 / (10 + 64)));
    check_bound(weight + 1920, 320, sqrt(6.0 / (10 + 32)));
    free(weight);

    layers_case r = {.kind = PARLIN_ROW, .in = 50, .out = 30, .seed = 11, .param_id = 3};
    size_t n = 1500;
    r.weight_init = (parlin_init){PARLIN_INIT_HE_UNIFORM, 0.5};
    weight = initial(group, &r, PARLIN_WEIGHT);
    check_bound(weight, n, sqrt(6 / (1.25 * 50)));
    free(weight);
    r.weight_init = (parlin_init){PARLIN_INIT_UNIFORM, 0.3};
    weight = initial(group, &r, PARLIN_WEIGHT);
    check_bound(weight, n, 0.3);
    free(weight);
    r.weight_init = (parlin_init){PARLIN_INIT_NORMAL, 2};
    weight = initial(group, &r, PARLIN_WEIGHT);
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        mean += weight[i] / (double)n;
        square += (double)weight[i] * weight[i] / (double)n;
    }
    assert_true(fabs(mean) < 0.2);             /* four standard errors: 4 * 2 / sqrt(1500) */
    assert_true(square > 3.4 && square < 4.6); /* 4, four of 4 * sqrt(2 / 1500) */
    free(weight);

    static const struct {
        parlin_init init;
        float value;
    } fixed[] = {{{PARLIN_INIT_ZEROS, 9}, 0},
                 {{PARLIN_INIT_ONES, 9}, 1},
                 {{PARLIN_INIT_CONSTANT, -0.1}, -0.1f}};
    for (size_t i = 0; i < 3; i++) {
        r.weight_init = fixed[i].init;
        weight = initial(group, &r, PARLIN_WEIGHT);
        for (size_t j = 0; j < n; j++)
            assert_memory_equal(&weight[j], &fixed[i].value, sizeof(float));
        free(weight);
    }
    parlin_group_close(group);
}

static void told_apart(void **state)
{
    (void)state;
    parlin_group *group = single(); /* as any group: see above */
    enum { in = 16, rows = 16, n = in * rows };
    layers_case c = {.kind = PARLIN_MERGED,
                     .in = in,
                     .parts = 2,
                     .part_out = {rows, rows},
                     .bias = true,
                     .seed = 1,
                     .param_id = 1,
                     .weight_init = {PARLIN_INIT_UNIFORM, 1},
                     .bias_init = {PARLIN_INIT_UNIFORM, 1}};
    float *first = initial(group, &c, PARLIN_WEIGHT), *again = initial(group, &c, PARLIN_WEIGHT);
    float *bias = initial(group, &c, PARLIN_BIAS);
    assert_same_floats(again, first, 2 * n);
    check_differ(first, first + n, n);     /* part 0 and part 1 */
    check_differ(bias, bias + rows, rows); /* and their biases */
    check_differ(first, bias, rows);       /* weight and bias */
    for (size_t i = 1; i < rows; i++)
        check_differ(first, first + i * in, in);
    c.seed = 2;
    float *seed = initial(group, &c, PARLIN_WEIGHT);
    check_differ(first, seed, 2 * n);
    c.seed = 1;
    /* and neither a part nor a bias of one id is the weight of another */
    for (c.param_id = 2; c.param_id <= 6; c.param_id++) {
        float *id = initial(group, &c, PARLIN_WEIGHT), *id_bias = initial(group, &c, PARLIN_BIAS);
        check_differ(first, id, 2 * n);
        check_differ(first + n, id, n);
        check_differ(bias, id, rows);
        check_differ(seed, id, 2 * n);
        check_differ(bias, id_bias, 2 * rows);
        free(id);
        free(id_bias);
    }

    layers_case q = {.kind = PARLIN_QKV,
                     .in = in,
                     .heads = 8,
                     .head_size = 2,
                     .seed = 1,
                     .param_id = 3,
                     .weight_init = {PARLIN_INIT_NORMAL, 1}};
    float *qkv = initial(group, &q, PARLIN_WEIGHT);
    check_differ(qkv, qkv + n, n);
    check_differ(qkv, qkv + 2 * n, n);
    check_differ(qkv + n, qkv + 2 * n, n);
    free(first);
    free(again);
    free(bias);
    free(seed);
    free(qkv);
    parlin_group_close(group);
}

/* Without ids layers made in the same order get the same numbers on any group, and each others. */
static void default_ids(parlin_group *group)
{
    enum { in = 3, rows = 17, n = in * rows };
    layers_case c = {.kind = PARLIN_COLUMN,
                     .in = in,
                     .out = rows,
                     .seed = 4,
                     .weight_init = {PARLIN_INIT_UNIFORM, 1}};
    parlin_group *alone = single();
    float *one[3];
    parlin_layer *layers[3];
    for (size_t i = 0; i < 3; i++)
        one[i] = initial(alone, &c, PARLIN_WEIGHT);
    for (size_t i = 0; i < 3; i++)
        layers[i] = layers_create(group, &c);
    for (size_t i = 0; i < 3; i++) {
        layers_check_export(group, layers[i], PARLIN_WEIGHT, PARLIN_WHOLE, one[i], n);
        layers_check_local(group, layers[i], &c, one[i], NULL);
        check_differ(one[i], one[(i + 1) % 3], n);
        parlin_layer_destroy(layers[i]);
    }
    for (size_t i = 0; i < 3; i++)
        free(one[i]);
    parlin_group_close(alone);
}

static void default_ids_differ_and_are_alike_on_all_ranks(void **state)
{
    (void)state;
    LAYERS_ON(default_ids, support_size());
}

/* Initial values stand for a load, part by part. */
static void load_replaces_initial_values(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case c = {.kind = PARLIN_QKV,
                     .in = 3,
                     .heads = 8,
                     .kv_heads = 2,
                     .head_size = 2,
                     .bias = true,
                     .name = "half loaded",
                     .seed = 1,
                     .param_id = 1,
                     .weight_init = {PARLIN_INIT_CONSTANT, 7}};
    size_t out = layers_out(&c);
    parlin_layer *layer = layers_create(group, &c);
    parlin_layer_info info = parlin_layer_get_info(layer);
    parlin_tensor x = {0}, y = {0};
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 1, info.input_cols, &x));
    assert_ok(parlin_layer_output(layer, 1, &y));
    assert_refused(parlin_layer_forward(layer, x, y), PARLIN_ERROR_STATE, "half loaded", "bias");

    float *weight = support_alloc_floats(out * 3), *bias = layers_bias(&c);
    for (size_t i = 0; i < out * 3; i++)
        weight[i] = 7;
    for (size_t i = 0; i < 4 * 3; i++) /* k: rows 16 to 19 */
        weight[16 * 3 + i] = (float)i;
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_K,
                                parlin_host_2d(weight + 16 * 3, PARLIN_F32, 4, 3)));
    assert_ok(
        parlin_layer_load(layer, PARLIN_BIAS, PARLIN_WHOLE, parlin_host_1d(bias, PARLIN_F32, out)));
    layers_check_local(group, layer, &c, weight, bias);
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&y);
    parlin_layer_destroy(layer);
    free(weight);
    free(bias);
}

/* None is the default: nothing runs on numbers that nobody gave. */
static void none_by_default(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    assert_int_equal(parlin_column_defaults().weight_init.kind, PARLIN_INIT_NONE);
    assert_int_equal(parlin_merged_defaults().bias_init.kind, PARLIN_INIT_NONE);
    assert_int_equal(parlin_qkv_defaults().weight_init.kind, PARLIN_INIT_NONE);
    assert_int_equal(parlin_row_defaults().bias_init.kind, PARLIN_INIT_NONE);
    layers_case c = {.kind = PARLIN_COLUMN, .in = 2, .out = 8, .name = "bare"};
    parlin_layer *layer = layers_create(group, &c);
    float out[16];
    assert_refused(parlin_layer_export(layer, PARLIN_WEIGHT, PARLIN_WHOLE, 0, out, sizeof out),
                   PARLIN_ERROR_STATE, "bare", "weight");
    parlin_layer_destroy(layer);
}

static void refused_configurations(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    static const struct {
        parlin_init weight, bias;
        const char *text;
    } bad[] = {
        {{PARLIN_INIT_NONE, 0}, {PARLIN_INIT_HE_UNIFORM, 1}, "bias_init"},
        {{PARLIN_INIT_NONE, 0}, {PARLIN_INIT_XAVIER_UNIFORM, 0}, "bias_init"},
        {{(parlin_init_kind)99, 0}, {PARLIN_INIT_NONE, 0}, "weight_init"},
        {{(parlin_init_kind)-1, 0}, {PARLIN_INIT_NONE, 0}, "weight_init"},
        {{PARLIN_INIT_NONE, 0}, {(parlin_init_kind)99, 0}, "bias_init"},
        {{PARLIN_INIT_UNIFORM, (double)NAN}, {PARLIN_INIT_NONE, 0}, "weight_init"},
        {{PARLIN_INIT_NORMAL, -1}, {PARLIN_INIT_NONE, 0}, "weight_init"},
        {{PARLIN_INIT_NONE, 0}, {PARLIN_INIT_UNIFORM, -0.5}, "bias_init"},
        {{PARLIN_INIT_HE_UNIFORM, (double)INFINITY}, {PARLIN_INIT_NONE, 0}, "weight_init"},
    };
    parlin_device_counters before = parlin_device_get_counters(parlin_group_device(group));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int kind = PARLIN_COLUMN; kind <= PARLIN_ROW; kind++) {
            layers_case c = {.kind = (parlin_kind)kind,
                             .in = 8,
                             .out = 8,
                             .parts = 2,
                             .part_out = {8, 8},
                             .bias = true,
                             .name = "odd",
                             .weight_init = bad[i].weight,
                             .bias_init = bad[i].bias};
            if (kind == PARLIN_QKV)
                c.heads = c.head_size = 8;
            parlin_layer *layer = NULL;
            assert_refused(layers_try(group, &c, &layer), PARLIN_ERROR_ARGUMENT, "odd",
                           bad[i].text);
            assert_null(layer);
            if (parlin_group_size(group) > 1)
                layers_check_same_sentence(parlin_group_size(group));
        }
    parlin_device_counters after = parlin_device_get_counters(parlin_group_device(group));
    assert_int_equal(after.buffers_created, before.buffers_created);
    assert_int_equal(after.buffers_live, before.buffers_live);
}

/* Ranks that would make different networks are told. */
static void ranks_disagree(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    int p = parlin_group_size(group), last = support_rank() == p - 1;
    if (p == 1)
        SUPPORT_SKIP("needs two ranks");
    layers_case good = {.kind = PARLIN_COLUMN,
                        .in = 3,
                        .out = 8,
                        .seed = 1,
                        .param_id = 1,
                        .weight_init = {PARLIN_INIT_UNIFORM, 1}};
    layers_case seed = good, id = good, kind = good, value = good;
    seed.seed += (uint64_t)last;
    id.param_id += (uint64_t)last;
    kind.weight_init.kind = last ? PARLIN_INIT_NORMAL : PARLIN_INIT_UNIFORM;
    value.weight_init.value = last ? 1 : 2;
    const layers_case *bad[] = {&seed, &id, &kind, &value};
    for (size_t i = 0; i < 4; i++) {
        parlin_layer *layer = NULL;
        assert_refused(layers_try(group, bad[i], &layer), PARLIN_ERROR_MISMATCH, "rank");
        assert_null(layer);
        layers_check_same_sentence(p);
    }
    parlin_layer_destroy(layers_create(group, &good));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C18_column_shards_are_the_whole),
        cmocka_unit_test(case_C18_row_bound_of_the_full_fan),
        cmocka_unit_test(case_C18_kv_heads_on_several_ranks_are_equal),
        cmocka_unit_test(every_kind_on_any_number_of_ranks),
        cmocka_unit_test(row_cut_like_qkv),
        cmocka_unit_test(large_weight),
        cmocka_unit_test(bounds_and_moments),
        cmocka_unit_test(told_apart),
        cmocka_unit_test(default_ids_differ_and_are_alike_on_all_ranks),
        cmocka_unit_test(load_replaces_initial_values),
        cmocka_unit_test(none_by_default),
        cmocka_unit_test(refused_configurations),
        cmocka_unit_test(ranks_disagree),
    };
    return SUPPORT_RUN_MPI("layers: initial values", tests);
}
