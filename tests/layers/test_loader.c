/* SPDX-License-Identifier: Apache-2.0 */
/* A loader run: every kind of layer from one checkpoint, layouts, dtypes, progress, what is left
   over, and the order of ends. Each rank has files of its own and looks at its own values. */
#include "layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

/* --- a checkpoint of every kind: "<i>.<part>.weight" and "<i>.<part>.bias" --- */

typedef struct all_kinds {
    float *weight[LAYERS_KINDS];
    float *bias[LAYERS_KINDS];
    parlin_stored tensors[LAYERS_KINDS * LAYERS_MOST_PARTS * 2];
    char names[LAYERS_KINDS * LAYERS_MOST_PARTS * 2][32];
    size_t count;
} all_kinds;

static void add(all_kinds *all, size_t kind, size_t part, const char *what, parlin_stored tensor)
{
    char *name = all->names[all->count];
    snprintf(name, sizeof all->names[0], "%zu.%zu.%s", kind, part, what);
    tensor.name = name;
    all->tensors[all->count++] = tensor;
}

static all_kinds *make_all(void)
{
    all_kinds *all = support_alloc(sizeof *all);
    all->count = 0;
    for (size_t i = 0; i < LAYERS_KINDS; i++) {
        const layers_case *c = &layers_kinds[i];
        all->weight[i] = layers_weight(c);
        all->bias[i] = layers_bias(c);
        for (size_t part = 0; part < layers_parts(c); part++) {
            size_t rows = layers_part_rows(c, part), start = layers_part_start(c, part);
            add(all, i, part, "weight",
                parlin_stored_2d("", all->weight[i] + start * c->in, PARLIN_F32, rows, c->in));
            if (c->bias)
                add(all, i, part, "bias",
                    parlin_stored_1d("", all->bias[i] + start, PARLIN_F32, rows));
        }
    }
    return all;
}

static void free_all(all_kinds *all)
{
    for (size_t i = 0; i < LAYERS_KINDS; i++) {
        free(all->weight[i]);
        free(all->bias[i]);
    }
    free(all);
}

static void feed_all(parlin_loader *loader, parlin_layer **layers, parlin_group *group)
{
    for (size_t i = 0; i < LAYERS_KINDS; i++) {
        layers[i] = layers_create(group, &layers_kinds[i]);
        for (size_t part = 0; part < layers_parts(&layers_kinds[i]); part++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "%zu.%zu", i, part);
            assert_ok(
                parlin_loader_add(loader, layers[i], layers_shard(&layers_kinds[i], part), prefix));
        }
    }
}

static void check_all(parlin_group *group, parlin_layer **layers, const all_kinds *all)
{
    for (size_t i = 0; i < LAYERS_KINDS; i++) {
        const layers_case *c = &layers_kinds[i];
        layers_check_local(group, layers[i], c, all->weight[i], c->bias ? all->bias[i] : NULL);
        if (c->skip_bias_add)
            layers_check_skipped(group, layers[i], c, all->bias[i]);
        parlin_layer_destroy(layers[i]);
    }
}

static parlin_loader *loader_of(const char *path)
{
    parlin_checkpoint *checkpoint = files_open(path);
    parlin_loader *loader = NULL;
    assert_ok(parlin_loader_create(checkpoint, &loader));
    /* the loader keeps what it needs */
    parlin_checkpoint_close(checkpoint);
    return loader;
}

static void every_kind(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    all_kinds *all = make_all();
    const char *path = files_path("all.safetensors");
    assert_ok(parlin_checkpoint_write(path, all->tensors, all->count, NULL, 0));
    parlin_loader *loader = loader_of(path);
    parlin_layer *layers[LAYERS_KINDS];
    feed_all(loader, layers, group);
    assert_int_equal(parlin_loader_left_over_count(loader), 0);
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    check_all(group, layers, all);
    /* after its layers */
    parlin_loader_destroy(loader);
    free_all(all);
}

/* Two files, and data at odd places in both. */
static void every_kind_from_a_folder(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    all_kinds *all = make_all();
    const char *folder = files_make_folder("all");
    const parlin_stored odd = {
        .name = "odd", .dtype_name = "U8", .dim_count = 0, .bytes = 1, .data = "x"};
    char *index = support_alloc(all->count * 96 + 64);
    size_t used = (size_t)sprintf(index, "{\"weight_map\":{\"odd\":\"0.safetensors\"");
    for (size_t file = 0; file < 2; file++) {
        char header[8192], name[32];
        size_t length = (size_t)sprintf(
            header, "{\"odd\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}");
        size_t at = 1;
        char *data = support_alloc(1 << 20);
        data[0] = *(const char *)odd.data;
        for (size_t i = file; i < all->count; i += 2) {
            const parlin_stored *t = &all->tensors[i];
            char shape[64];
            snprintf(shape, sizeof shape, t->dim_count == 2 ? "%zu,%zu" : "%zu", t->dims[0],
                     t->dims[1]);
            length += (size_t)sprintf(
                header + length,
                ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", t->name,
                shape, at, at + t->bytes);
            memcpy(data + at, t->data, t->bytes);
            at += t->bytes;
            used += (size_t)sprintf(index + used, ",\"%s\":\"%zu.safetensors\"", t->name, file);
        }
        sprintf(header + length, "}");
        sprintf(name, "all/%zu.safetensors", file);
        files_safetensors(name, header, data, at);
        free(data);
    }
    used += (size_t)sprintf(index + used, "}}");
    files_write("all/model.safetensors.index.json", index, used);
    free(index);

    parlin_loader *loader = loader_of(folder);
    parlin_layer *layers[LAYERS_KINDS];
    feed_all(loader, layers, group);
    assert_int_equal(parlin_loader_left_over_count(loader), 1);
    assert_string_equal(parlin_loader_left_over(loader, 0), "odd");
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    check_all(group, layers, all);
    parlin_loader_destroy(loader);
    free_all(all);
}

/* --- layouts: the expert call --- */

static float *transposed(const float *from, size_t rows, size_t cols)
{
    float *to = support_alloc_floats(rows * cols);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            to[j * rows + i] = from[i * cols + j];
    return to;
}

static void transposed_in_every_kind(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    for (size_t i = 0; i < LAYERS_KINDS; i++) {
        const layers_case *c = &layers_kinds[i];
        float *weight = layers_weight(c), *bias = layers_bias(c);
        float *turned = transposed(weight, layers_out(c), c->in);
        const parlin_stored tensors[] = {
            parlin_stored_2d("c_attn.w", turned, PARLIN_F32, c->in, layers_out(c)),
            parlin_stored_1d("c_attn.b", bias, PARLIN_F32, layers_out(c)),
        };
        const char *path = files_path("conv1d.safetensors");
        assert_ok(parlin_checkpoint_write(path, tensors, 2, NULL, 0));
        parlin_loader *loader = loader_of(path);
        parlin_layer *layer = layers_create(group, c);
        const parlin_layout layout = {.transposed = true};
        assert_ok(parlin_loader_add_tensor(loader, layer, PARLIN_WEIGHT, PARLIN_WHOLE, "c_attn.w",
                                           &layout));
        if (c->bias)
            assert_ok(parlin_loader_add_tensor(loader, layer, PARLIN_BIAS, PARLIN_WHOLE, "c_attn.b",
                                               NULL));
        assert_ok(parlin_loader_run(loader, NULL, NULL));
        layers_check_local(group, layer, c, weight, c->bias ? bias : NULL);
        parlin_loader_destroy(loader);
        parlin_layer_destroy(layer);
        free(weight);
        free(bias);
        free(turned);
    }
}

/* Falcon: q0 q1 k0 v0 q2 q3 k1 v1 .. of each kv group, one row each. */
static void interleaved_groups(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    enum { KV = 4, G = 2, IN = 3, ROWS = KV * (G + 2) };
    layers_case c = {.kind = PARLIN_QKV, .in = IN, .heads = KV * G, .kv_heads = KV, .head_size = 1};
    float *weight = layers_weight(&c), mixed[ROWS * IN];
    for (size_t kv = 0; kv < KV; kv++)
        for (size_t i = 0; i < G + 2; i++) {
            size_t row = i < G ? kv * G + i : i == G ? KV * G + kv : KV * G + KV + kv;
            memcpy(mixed + (kv * (G + 2) + i) * IN, weight + row * IN, IN * sizeof *weight);
        }
    const parlin_stored tensor = parlin_stored_2d("qkv", mixed, PARLIN_F32, ROWS, IN);
    const char *path = files_path("falcon.safetensors");
    assert_ok(parlin_checkpoint_write(path, &tensor, 1, NULL, 0));
    parlin_loader *loader = loader_of(path);
    parlin_layer *layer = layers_create(group, &c);
    const parlin_layout layout = {.order = PARLIN_INTERLEAVED_GROUPS};
    assert_ok(parlin_loader_add_tensor(loader, layer, PARLIN_WEIGHT, PARLIN_WHOLE, "qkv", &layout));
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    layers_check_local(group, layer, &c, weight, NULL);
    parlin_loader_destroy(loader);
    parlin_layer_destroy(layer);
    free(weight);
}

/* Whole numbers up to 256 are exact in all three dtypes. */
static void stored_dtypes(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case c = {.kind = PARLIN_COLUMN, .in = 3, .out = 19, .bias = true};
    float *weight = layers_weight(&c), bias[19];
    uint16_t half[57], brain[57], brain_bias[19];
    for (size_t i = 0; i < 57; i++) {
        uint32_t bits;
        memcpy(&bits, &weight[i], sizeof bits);
        brain[i] = (uint16_t)(bits >> 16);
        half[i] = (uint16_t)(((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff));
    }
    for (size_t i = 0; i < 19; i++) {
        bias[i] = -(float)(i + 1);
        uint32_t bits;
        memcpy(&bits, &bias[i], sizeof bits);
        brain_bias[i] = (uint16_t)(bits >> 16);
    }
    const parlin_stored tensors[] = {
        parlin_stored_2d("h.weight", half, PARLIN_F16, 19, 3),
        parlin_stored_1d("h.bias", bias, PARLIN_F32, 19),
        parlin_stored_2d("b.weight", brain, PARLIN_BF16, 19, 3),
        parlin_stored_1d("b.bias", brain_bias, PARLIN_BF16, 19),
    };
    const char *path = files_path("dtypes.safetensors");
    assert_ok(parlin_checkpoint_write(path, tensors, 4, NULL, 0));
    parlin_loader *loader = loader_of(path);
    parlin_layer *layers[] = {layers_create(group, &c), layers_create(group, &c)};
    assert_ok(parlin_loader_add(loader, layers[0], PARLIN_WHOLE, "h"));
    assert_ok(parlin_loader_add(loader, layers[1], PARLIN_WHOLE, "b"));
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    for (size_t i = 0; i < 2; i++) {
        layers_check_local(group, layers[i], &c, weight, bias);
        parlin_layer_destroy(layers[i]);
    }
    parlin_loader_destroy(loader);
    free(weight);
}

/* --- progress --- */

typedef struct seen {
    size_t calls, last, total;
} seen;

static void watch(void *user, size_t done, size_t total)
{
    seen *s = user;
    if (s->calls == 0)
        assert_int_equal(done, 0);
    else
        assert_true(done > s->last && total == s->total);
    assert_true(done <= total);
    *s = (seen){s->calls + 1, done, total};
}

/* Bytes as they are stored, of this rank's slices alone; a tied tensor counts for each layer. */
static void progress(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    size_t p = (size_t)support_size(), r = (size_t)support_rank();
    enum { IN = 1000, OUT = 20000 };
    layers_case column = {.kind = PARLIN_COLUMN, .in = IN, .out = OUT, .bias = true};
    layers_case row = {.kind = PARLIN_ROW, .in = IN, .out = OUT, .bias = true};
    uint16_t *data = calloc((size_t)IN * OUT, sizeof *data);
    assert_non_null(data);
    float *bias = layers_bias(&column);
    const parlin_stored tensors[] = {
        parlin_stored_2d("a.weight", data, PARLIN_BF16, OUT, IN),
        parlin_stored_1d("a.bias", bias, PARLIN_F32, OUT),
    };
    const char *path = files_path("progress.safetensors");
    assert_ok(parlin_checkpoint_write(path, tensors, 2, NULL, 0));
    parlin_loader *loader = loader_of(path);
    parlin_layer *layers[] = {layers_create(group, &column), layers_create(group, &row)};
    assert_ok(parlin_loader_add(loader, layers[0], PARLIN_WHOLE, "a"));
    assert_ok(parlin_loader_add(loader, layers[1], PARLIN_WHOLE, "a"));
    seen s = {0};
    assert_ok(parlin_loader_run(loader, watch, &s));
    size_t start, rows, cols;
    layers_deal(OUT, p, r, &start, &rows);
    layers_deal(IN, p, r, &start, &cols);
    assert_int_equal(s.total, rows * IN * 2 + rows * 4 + (size_t)OUT * cols * 2 + OUT * 4);
    assert_int_equal(s.last, s.total);
    assert_true(s.calls > 4);
    /* again, with the ready-made one: stderr is no terminal here, or the load too short */
    assert_ok(parlin_loader_run(loader, parlin_progress_terminal, NULL));
    parlin_loader_destroy(loader);
    parlin_layer_destroy(layers[0]);
    parlin_layer_destroy(layers[1]);
    free(data);
    free(bias);
}

/* --- what is left over --- */

static void left_over(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case c = {.kind = PARLIN_COLUMN, .in = 1, .out = 8};
    const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const char *const names[] = {"model.norm.weight", "model.a.weight", "extra",
                                        "model.norm.bias", "model.b.weight"};
    parlin_stored tensors[5];
    for (size_t i = 0; i < 5; i++)
        tensors[i] = parlin_stored_2d(names[i], ones, PARLIN_F32, 8, 1);
    const char *path = files_path("rest.safetensors");
    assert_ok(parlin_checkpoint_write(path, tensors, 5, NULL, 0));
    parlin_loader *loader = loader_of(path);
    assert_int_equal(parlin_loader_left_over_count(loader), 5);
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_loader_add(loader, layer, PARLIN_WHOLE, "model.a"));
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    static const char *const rest[] = {"extra", "model.b.weight", "model.norm.bias",
                                       "model.norm.weight"};
    assert_int_equal(parlin_loader_left_over_count(loader), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(parlin_loader_left_over(loader, i), rest[i]);
    assert_null(parlin_loader_left_over(loader, 4));
    assert_ok(parlin_loader_ignore(loader, "model.norm."));
    assert_int_equal(parlin_loader_left_over_count(loader), 2);
    assert_string_equal(parlin_loader_left_over(loader, 1), "model.b.weight");
    assert_ok(parlin_loader_ignore(loader, ""));
    assert_int_equal(parlin_loader_left_over_count(loader), 0);
    assert_int_equal(parlin_loader_left_over_count(NULL), 0);
    assert_null(parlin_loader_left_over(NULL, 0));
    parlin_loader_destroy(loader);
    parlin_layer_destroy(layer);
}

/* Weights are refreshed by a second run; a part that is initialised needs no feed. */
static void again_and_initialised(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    layers_case c = {.kind = PARLIN_ROW,
                     .in = 9,
                     .out = 4,
                     .bias = true,
                     .partial = true,
                     .skip_bias_add = true,
                     .bias_init = {PARLIN_INIT_CONSTANT, 7}};
    float *weight = layers_weight(&c);
    const parlin_stored tensor = parlin_stored_2d("o", weight, PARLIN_F32, 4, 9);
    const char *path = files_path("again.safetensors");
    assert_ok(parlin_checkpoint_write(path, &tensor, 1, NULL, 0));
    parlin_loader *loader = loader_of(path);
    parlin_layer *layer = layers_create(group, &c);
    assert_ok(parlin_loader_add_tensor(loader, layer, PARLIN_WEIGHT, PARLIN_WHOLE, "o", NULL));
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    layers_check_local(group, layer, &c, weight, NULL);
    layers_check_skipped(group, layer, &c, (const float[]){7, 7, 7, 7});

    const float zeros[36] = {0};
    assert_ok(parlin_layer_load(layer, PARLIN_WEIGHT, PARLIN_WHOLE,
                                parlin_host_2d(zeros, PARLIN_F32, 4, 9)));
    layers_check_local(group, layer, &c, zeros, NULL);
    assert_ok(parlin_loader_run(loader, NULL, NULL));
    layers_check_local(group, layer, &c, weight, NULL);
    parlin_layer_destroy(layer);
    parlin_loader_destroy(loader);
    free(weight);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind),
        cmocka_unit_test(every_kind_from_a_folder),
        cmocka_unit_test(transposed_in_every_kind),
        cmocka_unit_test(interleaved_groups),
        cmocka_unit_test(stored_dtypes),
        cmocka_unit_test(progress),
        cmocka_unit_test(left_over),
        cmocka_unit_test(again_and_initialised),
    };
    int failed = SUPPORT_RUN_MPI("layers_loader", tests);
    files_remove();
    return failed;
}
