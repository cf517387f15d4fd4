/* SPDX-License-Identifier: Apache-2.0 */
/* What a loader refuses: in an add at once, in a run before anything is loaded. */
#include "layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

/* A loader on a checkpoint of these tensors. */
static parlin_loader *loader_of(const parlin_stored *tensors, size_t count)
{
    const char *path = files_path("errors.safetensors");
    assert_ok(parlin_checkpoint_write(path, tensors, count, NULL, 0));
    parlin_checkpoint *checkpoint = files_open(path);
    parlin_loader *loader = NULL;
    assert_ok(parlin_loader_create(checkpoint, &loader));
    parlin_checkpoint_close(checkpoint);
    return loader;
}

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                               1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static parlin_stored matrix(const char *name, size_t rows, size_t cols)
{
    return parlin_stored_2d(name, ones, PARLIN_F32, rows, cols);
}

static parlin_stored vector(const char *name, size_t n)
{
    return parlin_stored_1d(name, ones, PARLIN_F32, n);
}

static const layers_case plain = {.kind = PARLIN_COLUMN, .in = 2, .out = 8, .name = "plain"};
static const layers_case biased = {
    .kind = PARLIN_COLUMN, .in = 2, .out = 8, .bias = true, .name = "biased"};
static const layers_case heads = {
    .kind = PARLIN_QKV, .in = 2, .heads = 8, .head_size = 1, .name = "attn"};

/* The layer still has no values. */
static void check_empty(parlin_layer *layer)
{
    parlin_layer_info info = parlin_layer_get_info(layer);
    parlin_tensor x, y;
    assert_ok(parlin_layer_output(layer, 1, &y));
    assert_ok(parlin_tensor_create_on(y.device, PARLIN_F32, 1, info.input_cols, &x));
    assert_refused(parlin_layer_forward(layer, x, y), PARLIN_ERROR_STATE, info.name,
                   "never loaded");
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&y);
}

static void missing_tensors(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const parlin_stored tensors[] = {matrix("a.weight", 8, 2), matrix("b", 8, 2)};
    parlin_loader *loader = loader_of(tensors, 2);
    parlin_layer *one = layers_create(group, &biased), *two = layers_create(group, &plain);
    assert_ok(parlin_loader_add(loader, one, PARLIN_WHOLE, "a"));
    assert_ok(parlin_loader_add(loader, two, PARLIN_WHOLE, "b"));
    assert_refused(parlin_loader_run(loader, NULL, NULL), PARLIN_ERROR_FILE, "errors.safetensors",
                   "no tensor 'a.bias', 'b.weight'");
    /* nothing was loaded, not even what is there */
    check_empty(one);
    check_empty(two);
    parlin_loader_destroy(loader);
    parlin_layer_destroy(one);
    parlin_layer_destroy(two);
}

static void many_missing(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    parlin_loader *loader = loader_of(NULL, 0);
    layers_case c = {.kind = PARLIN_MERGED, .in = 1, .parts = 4, .part_out = {8, 8, 8, 8}};
    parlin_layer *layers[5];
    for (size_t i = 0; i < 5; i++) {
        layers[i] = layers_create(group, &c);
        for (parlin_shard k = 0; k < 4; k++) {
            char prefix[200];
            snprintf(prefix, sizeof prefix, "%zu.%d.%0150d", i, k, 0);
            assert_ok(parlin_loader_add(loader, layers[i], k, prefix));
        }
    }
    assert_refused(parlin_loader_run(loader, NULL, NULL), PARLIN_ERROR_FILE, "'0.0.000", "'3.3.000",
                   "and 4 more");
    assert_null(strstr(parlin_last_error(), "'4.0."));
    parlin_loader_destroy(loader);
    for (size_t i = 0; i < 5; i++)
        parlin_layer_destroy(layers[i]);
}

static void fed_twice(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const parlin_stored tensors[] = {matrix("q.weight", 8, 2), matrix("k.weight", 8, 2),
                                     matrix("v.weight", 8, 2), matrix("all.weight", 24, 2)};
    parlin_loader *loader = loader_of(tensors, 4);
    parlin_layer *qkv = layers_create(group, &heads);
    assert_ok(parlin_loader_add(loader, qkv, PARLIN_Q, "q"));
    assert_ok(parlin_loader_add(loader, qkv, PARLIN_V, "v"));
    assert_refused(parlin_loader_add(loader, qkv, PARLIN_Q, "k"), PARLIN_ERROR_ARGUMENT, "'attn'",
                   "part q of the weight", "twice", "'q.weight'", "'k.weight'");
    assert_refused(parlin_loader_add(loader, qkv, PARLIN_WHOLE, "all"), PARLIN_ERROR_ARGUMENT,
                   "twice", "'q.weight'", "'all.weight'");
    assert_refused(parlin_loader_add_tensor(loader, qkv, PARLIN_WEIGHT, PARLIN_V, "v.weight", NULL),
                   PARLIN_ERROR_ARGUMENT, "part v of the weight", "twice");
    /* what was refused is forgotten */
    assert_ok(parlin_loader_add(loader, qkv, PARLIN_K, "k"));
    assert_int_equal(parlin_loader_left_over_count(loader), 1);
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    parlin_loader_destroy(loader);
    parlin_layer_destroy(qkv);

    /* a bias that is fed already: then the weight is not taken either */
    loader = loader_of((const parlin_stored[]){matrix("a.weight", 8, 2), vector("a.bias", 8)}, 2);
    parlin_layer *layer = layers_create(group, &biased);
    assert_ok(parlin_loader_add_tensor(loader, layer, PARLIN_BIAS, PARLIN_WHOLE, "a.bias", NULL));
    assert_refused(parlin_loader_add(loader, layer, PARLIN_WHOLE, "a"), PARLIN_ERROR_ARGUMENT,
                   "the bias is fed twice");
    assert_int_equal(parlin_loader_left_over_count(loader), 1);
    assert_ok(
        parlin_loader_add_tensor(loader, layer, PARLIN_WEIGHT, PARLIN_WHOLE, "a.weight", NULL));
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    parlin_loader_destroy(loader);
    parlin_layer_destroy(layer);
}

static void bias_without_an_owner(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const parlin_stored tensors[] = {matrix("a.weight", 8, 2), vector("a.bias", 8)};
    parlin_loader *loader = loader_of(tensors, 2);
    parlin_layer *layer = layers_create(group, &plain);
    assert_ok(parlin_loader_add(loader, layer, PARLIN_WHOLE, "a"));
    assert_refused(parlin_loader_run(loader, NULL, NULL), PARLIN_ERROR_FILE, "'a.bias'",
                   "has no bias");
    check_empty(layer);
    assert_refused(
        parlin_loader_add_tensor(loader, layer, PARLIN_BIAS, PARLIN_WHOLE, "a.bias", NULL),
        PARLIN_ERROR_ARGUMENT, "'plain'", "no bias");
    parlin_loader_destroy(loader);
    parlin_layer_destroy(layer);
}

/* q and v are fed, k is not; a weight is, its bias is not. */
static void case_C37_a_part_missing(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const parlin_stored tensors[] = {matrix("q.weight", 8, 2), matrix("v.weight", 8, 2)};
    parlin_loader *loader = loader_of(tensors, 2);
    parlin_layer *qkv = layers_create(group, &heads), *layer = layers_create(group, &biased);
    assert_ok(parlin_loader_add(loader, qkv, PARLIN_Q, "q"));
    assert_ok(parlin_loader_add(loader, qkv, PARLIN_V, "v"));
    assert_ok(
        parlin_loader_add_tensor(loader, layer, PARLIN_WEIGHT, PARLIN_WHOLE, "q.weight", NULL));
    assert_refused(parlin_loader_run(loader, NULL, NULL), PARLIN_ERROR_STATE,
                   "part k of the weight of qkv layer 'attn'", "the bias of column layer 'biased'");
    assert_null(strstr(parlin_last_error(), "part q"));
    check_empty(qkv);

    /* by hand the same: forward names it */
    assert_ok(
        parlin_layer_load(qkv, PARLIN_WEIGHT, PARLIN_Q, parlin_host_2d(ones, PARLIN_F32, 8, 2)));
    assert_ok(
        parlin_layer_load(qkv, PARLIN_WEIGHT, PARLIN_V, parlin_host_2d(ones, PARLIN_F32, 8, 2)));
    parlin_tensor x, y;
    assert_ok(parlin_layer_output(qkv, 1, &y));
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 1, 2, &x));
    assert_refused(parlin_layer_forward(qkv, x, y), PARLIN_ERROR_STATE, "part k of the weight");
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&y);
    parlin_loader_destroy(loader);
    parlin_layer_destroy(qkv);
    parlin_layer_destroy(layer);
}

static void wrong_tensors(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const parlin_stored tensors[] = {
        matrix("good", 8, 2),
        matrix("turned", 2, 8),
        {.name = "ints",
         .dtype_name = "I32",
         .dim_count = 2,
         .dims = {8, 2},
         .bytes = 64,
         .data = ones},
        {.name = "new",
         .dtype_name = "F8_E4M3",
         .dim_count = 2,
         .dims = {8, 2},
         .bytes = 16,
         .data = ones},
        {.name = "cube",
         .dtype_name = "F32",
         .dim_count = 3,
         .dims = {8, 2, 1},
         .bytes = 64,
         .data = ones},
    };
    static const struct {
        const char *name;
        bool transposed;
        parlin_qkv_order order;
        parlin_status status;
        const char *text;
    } cases[] = {
        {"turned", false, PARLIN_STACKED, PARLIN_ERROR_SHAPE, "given as (2, 8), wanted (8, 2)"},
        {"good", true, PARLIN_STACKED, PARLIN_ERROR_SHAPE, ", transposed: "},
        {"ints", false, PARLIN_STACKED, PARLIN_ERROR_UNSUPPORTED, "I32"},
        {"new", false, PARLIN_STACKED, PARLIN_ERROR_UNSUPPORTED, "F8_E4M3"},
        {"cube", false, PARLIN_STACKED, PARLIN_ERROR_SHAPE, "3 dimensions"},
        {"good", false, PARLIN_INTERLEAVED_HEADS, PARLIN_ERROR_ARGUMENT, "interleaved"},
        {"good", false, (parlin_qkv_order)9, PARLIN_ERROR_ARGUMENT, "order 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parlin_loader *loader = loader_of(tensors, sizeof tensors / sizeof *tensors);
        parlin_layer *first = layers_create(group, &plain), *second = layers_create(group, &plain);
        const parlin_layout layout = {cases[i].transposed, cases[i].order};
        char quoted[32];
        snprintf(quoted, sizeof quoted, "'%s'", cases[i].name);
        assert_ok(
            parlin_loader_add_tensor(loader, first, PARLIN_WEIGHT, PARLIN_WHOLE, "good", NULL));
        assert_ok(parlin_loader_add_tensor(loader, second, PARLIN_WEIGHT, PARLIN_WHOLE,
                                           cases[i].name, &layout));
        assert_refused(parlin_loader_run(loader, NULL, NULL), cases[i].status, quoted,
                       cases[i].text);
        check_empty(first);
        parlin_loader_destroy(loader);
        parlin_layer_destroy(first);
        parlin_layer_destroy(second);
    }
}

static void wrong_arguments(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const parlin_stored tensors[] = {matrix("a.weight", 8, 2)};
    parlin_loader *loader = loader_of(tensors, 1), *other = loader;
    parlin_layer *layer = layers_create(group, &biased);
    assert_refused(parlin_loader_create(NULL, &other), PARLIN_ERROR_ARGUMENT, "checkpoint is NULL");
    assert_ptr_equal(other, loader);
    assert_refused(parlin_loader_add(NULL, layer, PARLIN_WHOLE, "a"), PARLIN_ERROR_ARGUMENT,
                   "loader is NULL");
    assert_refused(parlin_loader_add(loader, NULL, PARLIN_WHOLE, "a"), PARLIN_ERROR_ARGUMENT,
                   "layer is NULL");
    assert_refused(parlin_loader_add(loader, layer, PARLIN_WHOLE, NULL), PARLIN_ERROR_ARGUMENT,
                   "prefix is NULL");
    assert_refused(parlin_loader_add(loader, layer, PARLIN_Q, "a"), PARLIN_ERROR_ARGUMENT,
                   "'biased'", "PARLIN_Q");
    assert_refused(parlin_loader_add_tensor(loader, layer, PARLIN_WEIGHT, PARLIN_WHOLE, NULL, NULL),
                   PARLIN_ERROR_ARGUMENT, "name is NULL");
    assert_refused(
        parlin_loader_add_tensor(loader, layer, (parlin_param)5, PARLIN_WHOLE, "a", NULL),
        PARLIN_ERROR_ARGUMENT, "parameter 5");
    const parlin_layout layout = {.transposed = true};
    assert_refused(parlin_loader_add_tensor(loader, layer, PARLIN_BIAS, PARLIN_WHOLE, "a", &layout),
                   PARLIN_ERROR_ARGUMENT, "a bias cannot be transposed");
    assert_refused(parlin_loader_ignore(loader, NULL), PARLIN_ERROR_ARGUMENT, "prefix is NULL");
    assert_refused(parlin_loader_ignore(NULL, "a"), PARLIN_ERROR_ARGUMENT, "loader is NULL");
    assert_refused(parlin_loader_run(NULL, NULL, NULL), PARLIN_ERROR_ARGUMENT, "loader is NULL");
    /* nothing of that is remembered: a run over nothing is right */
    assert_int_equal(parlin_loader_left_over_count(loader), 1);
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    parlin_loader_destroy(NULL);
    parlin_loader_destroy(loader);
    parlin_layer_destroy(layer);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_tensors),
        cmocka_unit_test(many_missing),
        cmocka_unit_test(fed_twice),
        cmocka_unit_test(bias_without_an_owner),
        cmocka_unit_test(case_C37_a_part_missing),
        cmocka_unit_test(wrong_tensors),
        cmocka_unit_test(wrong_arguments),
    };
    int failed = SUPPORT_RUN_MPI("layers_loader_errors", tests);
    files_remove();
    return failed;
}
