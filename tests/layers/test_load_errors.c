/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong loads: each is refused with its status and a sentence that names layer, parameter, given
   and wanted; and nothing has changed: the layer exports the same bits and gives the same output
   as before. */
#include "layers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough memory for every wrong tensor below. */
static float memory[4096];

typedef struct bad_load {
    const char *what;
    parlin_param param;
    parlin_shard shard;
    parlin_host host;
    parlin_status status;
    const char *texts[4];
} bad_load;

/* What a layer answers: its exports, on rank 0, and a forward's output, on every rank. */
typedef struct answers {
    float *weight, *bias, *y;
    size_t weights, biases, ys;
} answers;

static answers ask(parlin_group *group, parlin_layer *layer, const layers_case *c)
{
    enum { rows = 3 };
    parlin_layer_info info = parlin_layer_get_info(layer);
    answers a = {
        .weights = layers_out(c) * c->in, .biases = layers_out(c), .ys = rows * info.output_cols};
    a.weight = support_alloc_floats(a.weights);
    a.bias = support_alloc_floats(a.biases);
    a.y = support_alloc_floats(a.ys);
    assert_ok(parlin_layer_export(layer, PARLIN_WEIGHT, PARLIN_WHOLE, 0, a.weight,
                                  a.weights * sizeof(float)));
    if (c->bias)
        assert_ok(parlin_layer_export(layer, PARLIN_BIAS, PARLIN_WHOLE, 0, a.bias,
                                      a.biases * sizeof(float)));
    parlin_tensor x = {0}, y = {0};
    assert_ok(parlin_tensor_create(group, PARLIN_F32, rows, info.input_cols, &x));
    assert_ok(parlin_layer_output(layer, rows, &y));
    float *host = support_alloc_floats(rows * info.input_cols);
    for (size_t i = 0; i < rows * info.input_cols; i++)
        host[i] = (float)(i % 7) - 3;
    assert_ok(parlin_tensor_write(x, host));
    assert_ok(parlin_layer_forward(layer, x, y));
    assert_ok(parlin_tensor_read(y, a.y));
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&y);
    free(host);
    return a;
}

static void check_same_answers(answers *before, answers *after)
{
    if (support_rank() == 0) {
        assert_same_floats(after->weight, before->weight, before->weights);
        assert_same_floats(after->bias, before->bias, before->biases);
    }
    assert_same_floats(after->y, before->y, before->ys);
}

static void forget(answers *a)
{
    free(a->weight);
    free(a->bias);
    free(a->y);
}

static parlin_host w(size_t rows, size_t cols)
{
    return parlin_host_2d(memory, PARLIN_F32, rows, cols);
}

static parlin_host b(size_t n)
{
    return parlin_host_1d(memory, PARLIN_F32, n);
}

static parlin_host of_dtype(parlin_host host, int dtype)
{
    host.dtype = (parlin_dtype)dtype;
    return host;
}

static parlin_host in_order(parlin_host host, int order)
{
    host.order = (parlin_qkv_order)order;
    return host;
}

static parlin_host of_nothing(parlin_host host)
{
    host.data = NULL;
    return host;
}

/* Every bad load on a loaded layer, and on one that was never loaded, which stays so. */
static void check_bad_loads(const layers_case *c, const bad_load *bad, size_t count)
{
    parlin_group *group = support_group();
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        memory[i] = 4242; /* what must never arrive */
    float *weight = layers_weight(c), *bias = layers_bias(c);
    parlin_layer *layer = layers_create(group, c), *empty = layers_create(group, c);
    layers_load(layer, c, weight, bias);
    answers before = ask(group, layer, c);
    for (size_t i = 0; i < count; i++) {
        parlin_layer *both[2] = {layer, empty};
        for (int k = 0; k < 2; k++) {
            parlin_status status =
                parlin_layer_load(both[k], bad[i].param, bad[i].shard, bad[i].host);
            if (status != bad[i].status)
                fprintf(stderr, "%s: ", bad[i].what);
            assert_refused(status, bad[i].status, c->name);
            for (size_t t = 0; t < 4 && bad[i].texts[t]; t++)
                if (!strstr(parlin_last_error(), bad[i].texts[t]))
                    fail_msg("%s: said \"%s\", wanted \"%s\" in it", bad[i].what,
                             parlin_last_error(), bad[i].texts[t]);
        }
        answers after = ask(group, layer, c);
        check_same_answers(&before, &after);
        forget(&after);
    }
    /* the empty layer still has nothing */
    for (size_t part = 0; part < layers_parts(c); part++) {
        size_t n = layers_part_rows(c, part) * c->in;
        float *out = support_alloc_floats(n);
        assert_refused(parlin_layer_export(empty, PARLIN_WEIGHT, layers_shard(c, part), 0, out,
                                           n * sizeof *out),
                       PARLIN_ERROR_STATE, c->name, "weight");
        free(out);
    }
    /* and right loads still work on both */
    layers_load(empty, c, weight, bias);
    answers after = ask(group, empty, c);
    check_same_answers(&before, &after);
    forget(&after);
    forget(&before);
    parlin_layer_destroy(empty);
    parlin_layer_destroy(layer);
    free(weight);
    free(bias);
}

#define CHECK_BAD(c, bad) check_bad_loads(c, bad, sizeof(bad) / sizeof *(bad))
#define W                 PARLIN_WEIGHT
#define B                 PARLIN_BIAS
#define WHOLE             PARLIN_WHOLE
#define ARGUMENT          PARLIN_ERROR_ARGUMENT
#define SHAPE             PARLIN_ERROR_SHAPE

static void column(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_COLUMN, .in = 6, .out = 17, .bias = true, .name = "up"};
    bad_load bad[] = {
        {"a row too few", W, WHOLE, w(16, 6), SHAPE, {"weight", "16", "17", "6"}},
        {"a row too many", W, WHOLE, w(18, 6), SHAPE, {"weight", "18", "17", "6"}},
        {"a column too few", W, WHOLE, w(17, 5), SHAPE, {"weight", "5", "17", "6"}},
        {"a column too many", W, WHOLE, w(17, 7), SHAPE, {"weight", "7", "17", "6"}},
        {"transposed by mistake", W, WHOLE, w(6, 17), SHAPE, {"weight", "17", "6"}},
        {"transposed twice", W, WHOLE, parlin_host_transposed(w(17, 6)), SHAPE, {"weight", "17"}},
        {"as many elements", W, WHOLE, w(34, 3), SHAPE, {"weight", "34", "17", "6"}},
        {"nothing", W, WHOLE, w(0, 6), SHAPE, {"weight", "0", "17", "6"}},
        {"no columns", W, WHOLE, w(17, 0), SHAPE, {"weight", "0", "17", "6"}},
        {"a shape that overflows", W, WHOLE, w(SIZE_MAX, SIZE_MAX), SHAPE, {"weight", "17", "6"}},
        {"a short bias", B, WHOLE, b(16), SHAPE, {"bias", "16", "17"}},
        {"a long bias", B, WHOLE, b(18), SHAPE, {"bias", "18", "17"}},
        {"a lying bias", B, WHOLE, w(1, 17), SHAPE, {"bias", "17", "1"}},
        {"a weight as bias", B, WHOLE, w(17, 6), SHAPE, {"bias", "17", "6"}},
        {"a bias as weight", W, WHOLE, b(17), SHAPE, {"weight", "17", "6"}},
        {"a part's index", W, 0, w(17, 6), ARGUMENT, {"weight", "0"}},
        {"another index", W, 1, w(17, 6), ARGUMENT, {"weight", "1"}},
        {"q", W, PARLIN_Q, w(17, 6), ARGUMENT, {"weight", "Q"}},
        {"k of the bias", B, PARLIN_K, b(17), ARGUMENT, {"bias", "K"}},
        {"v", W, PARLIN_V, w(17, 6), ARGUMENT, {"weight", "V"}},
        {"no such shard", W, -5, w(17, 6), ARGUMENT, {"weight", "-5"}},
        {"no such shard either", W, INT_MIN, w(17, 6), ARGUMENT, {"weight", "-2147483648"}},
        {"no dtype",
         W,
         WHOLE,
         of_dtype(w(17, 6), PARLIN_DTYPE_DEFAULT),
         ARGUMENT,
         {"weight", "dtype", "0"}},
        {"an unknown dtype", W, WHOLE, of_dtype(w(17, 6), 9), ARGUMENT, {"weight", "dtype", "9"}},
        {"a negative dtype", B, WHOLE, of_dtype(b(17), -1), ARGUMENT, {"bias", "dtype", "-1"}},
        {"no data", W, WHOLE, of_nothing(w(17, 6)), ARGUMENT, {"weight", "NULL"}},
        {"no bias data", B, WHOLE, of_nothing(b(17)), ARGUMENT, {"bias", "NULL"}},
        {"interleaved heads",
         W,
         WHOLE,
         in_order(w(17, 6), PARLIN_INTERLEAVED_HEADS),
         ARGUMENT,
         {"weight", "interleaved"}},
        {"interleaved groups",
         B,
         WHOLE,
         in_order(b(17), PARLIN_INTERLEAVED_GROUPS),
         ARGUMENT,
         {"bias", "interleaved"}},
        {"an unknown order", W, WHOLE, in_order(w(17, 6), 3), ARGUMENT, {"weight", "order", "3"}},
        {"no parameter", (parlin_param)0, WHOLE, w(17, 6), ARGUMENT, {"param", "0"}},
        {"an unknown parameter", (parlin_param)3, WHOLE, w(17, 6), ARGUMENT, {"param", "3"}},
    };
    CHECK_BAD(&c, bad);
}

static void merged(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_MERGED,
                     .in = 6,
                     .parts = 2,
                     .part_out = {9, 17},
                     .bias = true,
                     .name = "gate and up"};
    bad_load bad[] = {
        {"the other part's shape", W, 0, w(17, 6), SHAPE, {"weight", "17", "9", "6"}},
        {"the other part's shape", W, 1, w(9, 6), SHAPE, {"weight", "17", "9", "6"}},
        {"all as one part", W, 1, w(26, 6), SHAPE, {"weight", "26", "17", "6"}},
        {"one part as all", W, WHOLE, w(17, 6), SHAPE, {"weight", "26", "17", "6"}},
        {"transposed by mistake", W, WHOLE, w(6, 26), SHAPE, {"weight", "26", "6"}},
        {"transposed by mistake", W, 0, w(6, 9), SHAPE, {"weight", "9", "6"}},
        {"the other part's bias", B, 0, b(17), SHAPE, {"bias", "17", "9"}},
        {"a part's bias as all", B, WHOLE, b(9), SHAPE, {"bias", "9", "26"}},
        {"beyond the parts", W, 2, w(9, 6), ARGUMENT, {"weight", "2"}},
        {"far beyond the parts", B, INT_MAX, b(9), ARGUMENT, {"bias", "2147483647"}},
        {"q", W, PARLIN_Q, w(9, 6), ARGUMENT, {"weight", "Q"}},
        {"v of the bias", B, PARLIN_V, b(9), ARGUMENT, {"bias", "V"}},
        {"no such shard", W, -5, w(9, 6), ARGUMENT, {"weight", "-5"}},
        {"an unknown dtype", W, 1, of_dtype(w(17, 6), 4), ARGUMENT, {"weight", "dtype", "4"}},
        {"no data", W, 1, of_nothing(w(17, 6)), ARGUMENT, {"weight", "NULL"}},
        {"interleaved",
         W,
         WHOLE,
         in_order(w(26, 6), PARLIN_INTERLEAVED_HEADS),
         ARGUMENT,
         {"weight", "interleaved"}},
        {"an unknown parameter", (parlin_param)7, 0, w(9, 6), ARGUMENT, {"param", "7"}},
    };
    CHECK_BAD(&c, bad);
}

static void qkv(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_QKV,
                     .in = 6,
                     .heads = 16,
                     .kv_heads = 8,
                     .head_size = 2,
                     .v_head_size = 3,
                     .bias = true,
                     .name = "attention"};
    /* q 32 rows, k 16, v 24, all 72 */
    bad_load bad[] = {
        {"k's rows for q", W, PARLIN_Q, w(16, 6), SHAPE, {"weight", "16", "32", "6"}},
        {"q's rows for k", W, PARLIN_K, w(32, 6), SHAPE, {"weight", "32", "16", "6"}},
        {"k's rows for v", W, PARLIN_V, w(16, 6), SHAPE, {"weight", "16", "24", "6"}},
        {"query heads' worth of v", W, PARLIN_V, w(48, 6), SHAPE, {"weight", "48", "24", "6"}},
        {"transposed by mistake", W, PARLIN_K, w(6, 16), SHAPE, {"weight", "16", "6"}},
        {"one part as all", W, WHOLE, w(32, 6), SHAPE, {"weight", "32", "72", "6"}},
        {"all as one part", W, PARLIN_Q, w(72, 6), SHAPE, {"weight", "32", "72", "6"}},
        {"three times q", W, WHOLE, w(96, 6), SHAPE, {"weight", "96", "72", "6"}},
        {"interleaved, one row short",
         W,
         WHOLE,
         in_order(w(71, 6), PARLIN_INTERLEAVED_GROUPS),
         SHAPE,
         {"weight", "71", "72", "6"}},
        {"k's bias for v", B, PARLIN_V, b(16), SHAPE, {"bias", "16", "24"}},
        {"q's bias as all", B, WHOLE, b(32), SHAPE, {"bias", "32", "72"}},
        {"a part's index", W, 0, w(32, 6), ARGUMENT, {"weight", "0"}},
        {"a part's index", B, 1, b(16), ARGUMENT, {"bias", "1"}},
        {"no such shard", W, -5, w(32, 6), ARGUMENT, {"weight", "-5"}},
        {"interleaved heads, fewer kv heads",
         W,
         WHOLE,
         in_order(w(72, 6), PARLIN_INTERLEAVED_HEADS),
         ARGUMENT,
         {"weight", "16", "8"}},
        {"interleaved heads, fewer kv heads, bias",
         B,
         WHOLE,
         in_order(b(72), PARLIN_INTERLEAVED_HEADS),
         ARGUMENT,
         {"bias", "16", "8"}},
        {"an unknown order", W, WHOLE, in_order(w(72, 6), -1), ARGUMENT, {"weight", "order", "-1"}},
        {"an unknown dtype",
         W,
         PARLIN_K,
         of_dtype(w(16, 6), 11),
         ARGUMENT,
         {"weight", "dtype", "11"}},
        {"no data", W, PARLIN_V, of_nothing(w(24, 6)), ARGUMENT, {"weight", "NULL"}},
        {"no data", W, WHOLE, of_nothing(w(72, 6)), ARGUMENT, {"weight", "NULL"}},
        {"an unknown parameter", (parlin_param)-1, PARLIN_Q, w(32, 6), ARGUMENT, {"param", "-1"}},
    };
    CHECK_BAD(&c, bad);
}

static void row(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_ROW, .in = 19, .out = 4, .bias = true, .name = "down"};
    bad_load bad[] = {
        {"a column too few", W, WHOLE, w(4, 18), SHAPE, {"weight", "18", "4", "19"}},
        {"a column too many", W, WHOLE, w(4, 20), SHAPE, {"weight", "20", "4", "19"}},
        {"a row too many", W, WHOLE, w(5, 19), SHAPE, {"weight", "5", "4", "19"}},
        {"transposed by mistake", W, WHOLE, w(19, 4), SHAPE, {"weight", "19", "4"}},
        {"a bias as wide as the input", B, WHOLE, b(19), SHAPE, {"bias", "19", "4"}},
        {"a part's index", W, 0, w(4, 19), ARGUMENT, {"weight", "0"}},
        {"q", B, PARLIN_Q, b(4), ARGUMENT, {"bias", "Q"}},
        {"an unknown dtype",
         W,
         WHOLE,
         of_dtype(w(4, 19), 100),
         ARGUMENT,
         {"weight", "dtype", "100"}},
        {"no data", B, WHOLE, of_nothing(b(4)), ARGUMENT, {"bias", "NULL"}},
        {"interleaved",
         W,
         WHOLE,
         in_order(w(4, 19), PARLIN_INTERLEAVED_GROUPS),
         ARGUMENT,
         {"weight", "interleaved"}},
        {"an unknown parameter", (parlin_param)3, WHOLE, w(4, 19), ARGUMENT, {"param", "3"}},
    };
    CHECK_BAD(&c, bad);
}

static void stored_bias_for_a_layer_without_one(void **state)
{
    (void)state;
    layers_case cases[] = {
        {.kind = PARLIN_COLUMN, .in = 3, .out = 8, .name = "bare column"},
        {.kind = PARLIN_MERGED, .in = 3, .parts = 1, .part_out = {8}, .name = "bare merged"},
        {.kind = PARLIN_QKV, .in = 3, .heads = 8, .head_size = 1, .name = "bare qkv"},
        {.kind = PARLIN_ROW, .in = 8, .out = 8, .name = "bare row"},
    };
    for (size_t i = 0; i < 4; i++) {
        bad_load bad[] = {
            {"a bias", B, WHOLE, b(layers_out(&cases[i])), ARGUMENT, {"bias"}},
            {"a part's bias", B, layers_shard(&cases[i], 0), b(8), ARGUMENT, {"bias"}},
        };
        CHECK_BAD(&cases[i], bad);
    }
}

static void no_layer(void **state)
{
    (void)state;
    assert_refused(parlin_layer_load(NULL, W, WHOLE, w(4, 4)), ARGUMENT, "NULL");
}

/* A rank that is refused alone does not hold up the others: loading is not collective. */
static void refused_on_one_rank(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    int last = parlin_group_size(group) - 1;
    layers_case c = {.kind = PARLIN_ROW, .in = 19, .out = 4, .name = "down"};
    float *weight = layers_weight(&c);
    parlin_layer *layer = layers_create(group, &c);
    layers_load(layer, &c, weight, NULL);
    answers before = ask(group, layer, &c);
    if (support_rank() == last)
        assert_refused(parlin_layer_load(layer, W, WHOLE, w(19, 4)), SHAPE, "down");
    answers after = ask(group, layer, &c);
    check_same_answers(&before, &after);
    forget(&before);
    forget(&after);
    parlin_layer_destroy(layer);
    free(weight);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(column),
        cmocka_unit_test(merged),
        cmocka_unit_test(qkv),
        cmocka_unit_test(row),
        cmocka_unit_test(stored_bias_for_a_layer_without_one),
        cmocka_unit_test(no_layer),
        cmocka_unit_test(refused_on_one_rank),
    };
    return SUPPORT_RUN_MPI("layers: loads that are refused", tests);
}
