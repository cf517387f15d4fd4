/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- making --- */

/* The fields that every configuration has, from a case. A macro, since the structs share fields
   and not a type. */
#define FILL(config, c)                                                                            \
    do {                                                                                           \
        (config).name = (c)->name;                                                                 \
        (config).bias = (c)->bias;                                                                 \
        (config).skip_bias_add = (c)->skip_bias_add;                                               \
        (config).weight_init = (c)->weight_init;                                                   \
        (config).bias_init = (c)->bias_init;                                                       \
        (config).seed = (c)->seed;                                                                 \
        (config).param_id = (c)->param_id;                                                         \
    } while (0)

parlin_status layers_try(parlin_group *group, const layers_case *c, parlin_layer **layer)
{
    if (c->kind == PARLIN_COLUMN) {
        parlin_column_config config = parlin_column_defaults();
        FILL(config, c);
        config.in_features = c->in;
        config.out_features = c->out;
        config.gather_output = c->gather_output;
        config.activation = c->activation;
        return parlin_column_create(group, &config, layer);
    }
    if (c->kind == PARLIN_MERGED) {
        parlin_merged_config config = parlin_merged_defaults();
        FILL(config, c);
        config.in_features = c->in;
        config.parts = c->parts;
        config.out_features = c->part_out;
        config.gather_output = c->gather_output;
        config.activation = c->activation;
        config.gated = c->gated;
        return parlin_merged_create(group, &config, layer);
    }
    if (c->kind == PARLIN_QKV) {
        parlin_qkv_config config = parlin_qkv_defaults();
        FILL(config, c);
        config.hidden_size = c->in;
        config.head_size = c->head_size;
        config.v_head_size = c->v_head_size;
        config.total_num_heads = c->heads;
        config.total_num_kv_heads = c->kv_heads;
        return parlin_qkv_create(group, &config, layer);
    }
    parlin_row_config config = parlin_row_defaults();
    FILL(config, c);
    config.in_features = c->in;
    config.out_features = c->out;
    config.input_is_parallel = !c->whole_input;
    config.reduce_results = !c->partial;
    config.input_like = c->input_like;
    return parlin_row_create(group, &config, layer);
}

parlin_layer *layers_create(parlin_group *group, const layers_case *c)
{
    parlin_layer *layer = NULL;
    assert_ok(layers_try(group, c, &layer));
    assert_non_null(layer);
    return layer;
}

const layers_case layers_kinds[LAYERS_KINDS] = {
    {.kind = PARLIN_COLUMN, .in = 5, .out = 19, .bias = true, .name = "column a"},
    {.kind = PARLIN_COLUMN,
     .in = 1,
     .out = 8,
     .bias = true,
     .skip_bias_add = true,
     .name = "column b"},
    {.kind = PARLIN_MERGED,
     .in = 5,
     .parts = 3,
     .part_out = {9, 8, 17},
     .bias = true,
     .name = "merged a"},
    {.kind = PARLIN_MERGED,
     .in = 3,
     .parts = 2,
     .part_out = {11, 11},
     .bias = true,
     .skip_bias_add = true,
     .name = "merged b"},
    {.kind = PARLIN_QKV,
     .in = 5,
     .heads = 8,
     .kv_heads = 2,
     .head_size = 3,
     .v_head_size = 2,
     .bias = true,
     .name = "qkv a"},
    {.kind = PARLIN_QKV, .in = 4, .heads = 8, .head_size = 1, .name = "qkv b"},
    {.kind = PARLIN_QKV,
     .in = 7,
     .heads = 24,
     .kv_heads = 8,
     .head_size = 2,
     .v_head_size = 5,
     .bias = true,
     .name = "qkv c"},
    {.kind = PARLIN_QKV,
     .in = 3,
     .heads = 12,
     .kv_heads = 1,
     .head_size = 2,
     .bias = true,
     .skip_bias_add = true,
     .name = "qkv d"},
    {.kind = PARLIN_ROW,
     .in = 19,
     .out = 3,
     .partial = true,
     .bias = true,
     .skip_bias_add = true,
     .name = "row a"},
    {.kind = PARLIN_ROW, .in = 8, .out = 1, .partial = true, .name = "row b"},
};

/* --- the model --- */

void layers_deal(size_t n, size_t p, size_t r, size_t *start, size_t *length)
{
    /* the first rank takes ceil(n / p), the rest is dealt to the ranks after it */
    *start = 0;
    for (size_t rank = 0;; rank++, p--) {
        *length = (n + p - 1) / p;
        if (rank == r)
            return;
        *start += *length;
        n -= *length;
    }
}

static size_t kv_heads_of(const layers_case *c)
{
    return c->kv_heads ? c->kv_heads : c->heads;
}

static size_t v_head_size_of(const layers_case *c)
{
    return c->v_head_size ? c->v_head_size : c->head_size;
}

size_t layers_parts(const layers_case *c)
{
    return c->kind == PARLIN_MERGED ? c->parts : c->kind == PARLIN_QKV ? 3 : 1;
}

size_t layers_part_rows(const layers_case *c, size_t part)
{
    if (c->kind == PARLIN_MERGED)
        return c->part_out[part];
    if (c->kind == PARLIN_QKV)
        return part == 0   ? c->heads * c->head_size
               : part == 1 ? kv_heads_of(c) * c->head_size
                           : kv_heads_of(c) * v_head_size_of(c);
    return c->out;
}

size_t layers_part_start(const layers_case *c, size_t part)
{
    size_t start = 0;
    for (size_t before = 0; before < part; before++)
        start += layers_part_rows(c, before);
    return start;
}

size_t layers_out(const layers_case *c)
{
    return layers_part_start(c, layers_parts(c));
}

parlin_shard layers_shard(const layers_case *c, size_t part)
{
    if (c->kind == PARLIN_MERGED)
        return (parlin_shard)part;
    if (c->kind == PARLIN_QKV)
        return part == 0 ? PARLIN_Q : part == 1 ? PARLIN_K : PARLIN_V;
    return PARLIN_WHOLE;
}

void layers_part_text(const layers_case *c, size_t part, char text[32])
{
    text[0] = '\0';
    if (c->kind == PARLIN_QKV)
        snprintf(text, 32, "part %c", "qkv"[part]);
    else if (c->kind == PARLIN_MERGED)
        snprintf(text, 32, "part %zu", part);
}

void layers_heads(const layers_case *c, size_t p, size_t r, size_t *first, size_t *heads,
                  size_t *first_kv, size_t *kv_heads)
{
    size_t kv = kv_heads_of(c), start, length;
    *first = *first_kv = SIZE_MAX;
    *heads = *kv_heads = 0;
    layers_deal(p <= kv ? kv : c->heads, p, r, &start, &length);
    for (size_t h = 0; h < c->heads; h++) {
        size_t read = h * kv / c->heads; /* the kv head that h reads */
        size_t unit = p <= kv ? read : h;
        if (unit < start || unit >= start + length)
            continue;
        if (*heads == 0)
            *first = h;
        *heads += 1;
        if (*kv_heads == 0)
            *first_kv = read;
        *kv_heads = read + 1 - *first_kv;
    }
}

static size_t put_run(size_t *list, size_t n, size_t first, size_t length)
{
    for (size_t i = 0; list && i < length; i++)
        list[n + i] = first + i;
    return n + length;
}

size_t layers_rows(const layers_case *c, size_t p, size_t r, size_t *list)
{
    size_t n = 0, start, length;
    if (c->kind == PARLIN_ROW)
        return put_run(list, 0, 0, c->out);
    if (c->kind == PARLIN_QKV) {
        size_t first, heads, first_kv, kv, v = v_head_size_of(c);
        layers_heads(c, p, r, &first, &heads, &first_kv, &kv);
        n = put_run(list, n, first * c->head_size, heads * c->head_size);
        n = put_run(list, n, layers_part_start(c, 1) + first_kv * c->head_size, kv * c->head_size);
        return put_run(list, n, layers_part_start(c, 2) + first_kv * v, kv * v);
    }
    for (size_t part = 0; part < layers_parts(c); part++) {
        layers_deal(layers_part_rows(c, part), p, r, &start, &length);
        n = put_run(list, n, layers_part_start(c, part) + start, length);
    }
    return n;
}

size_t layers_cols(const layers_case *c, size_t p, size_t r, size_t *list)
{
    size_t start, length;
    if (c->kind != PARLIN_ROW)
        return put_run(list, 0, 0, c->in);
    if (c->heads) {
        size_t first, heads, first_kv, kv, width = c->in / c->heads;
        layers_heads(c, p, r, &first, &heads, &first_kv, &kv);
        return put_run(list, 0, first * width, heads * width);
    }
    layers_deal(c->in, p, r, &start, &length);
    return put_run(list, 0, start, length);
}

/* --- values --- */

float *layers_weight(const layers_case *c)
{
    size_t n = layers_out(c) * c->in;
    float *weight = support_alloc_floats(n);
    for (size_t i = 0; i < n; i++)
        weight[i] = (float)(i + 1);
    return weight;
}

float *layers_bias(const layers_case *c)
{
    size_t n = layers_out(c);
    float *bias = support_alloc_floats(n);
    for (size_t i = 0; i < n; i++)
        bias[i] = -(float)(1000 + 3 * i);
    return bias;
}

void layers_load(parlin_layer *layer, const layers_case *c, const float *weight, const float *bias)
{
    for (size_t part = 0; part < layers_parts(c); part++) {
        size_t rows = layers_part_rows(c, part), start = layers_part_start(c, part);
        parlin_shard shard = layers_shard(c, part);
        assert_ok(
            parlin_layer_load(layer, PARLIN_WEIGHT, shard,
                              parlin_host_2d(weight + start * c->in, PARLIN_F32, rows, c->in)));
        if (c->bias && bias)
            assert_ok(parlin_layer_load(layer, PARLIN_BIAS, shard,
                                        parlin_host_1d(bias + start, PARLIN_F32, rows)));
    }
}

void layers_read_local(parlin_layer *layer, float *weight, float *bias)
{
    parlin_layer_info info = parlin_layer_get_info(layer);
    assert_false(info.collective);
    size_t in = info.input_cols, out = info.output_cols, rows = in + 1;
    parlin_tensor y = {0}, x = {0};
    assert_ok(parlin_layer_output(layer, rows, &y));
    assert_int_equal(y.rows, rows);
    assert_int_equal(y.cols, out);
    assert_non_null(y.device);
    assert_ok(parlin_tensor_create_on(y.device, PARLIN_F32, rows, in, &x));

    /* row 0 is zero and gives the bias; row 1 + i is the unit vector that picks column i of W */
    float *host_x = support_alloc_floats(rows * in), *host_y = support_alloc_floats(rows * out);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < in; j++)
            host_x[i * in + j] = i == j + 1 ? 1.0f : 0.0f;
    assert_ok(parlin_tensor_write(x, host_x));
    assert_ok(parlin_tensor_write(y, host_y));
    assert_ok(parlin_layer_forward(layer, x, y));
    assert_ok(parlin_tensor_read(y, host_y));
    for (size_t o = 0; o < out; o++) {
        if (bias)
            bias[o] = host_y[o] + 0.0f; /* no -0 */
        for (size_t i = 0; weight && i < in; i++)
            weight[o * in + i] = host_y[(1 + i) * out + o] - host_y[o];
    }
    free(host_x);
    free(host_y);
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&y);
}

void layers_check_local(parlin_group *group, parlin_layer *layer, const layers_case *c,
                        const float *weight, const float *bias)
{
    size_t p = (size_t)parlin_group_size(group), r = (size_t)parlin_group_rank(group);
    size_t rows = layers_rows(c, p, r, NULL), cols = layers_cols(c, p, r, NULL);
    size_t *row = support_alloc(rows * sizeof *row), *col = support_alloc(cols * sizeof *col);
    layers_rows(c, p, r, row);
    layers_cols(c, p, r, col);

    parlin_layer_info info = parlin_layer_get_info(layer);
    assert_int_equal(info.input_cols, cols);
    assert_int_equal(info.output_cols, rows);
    float *local = support_alloc_floats(rows * cols), *local_bias = support_alloc_floats(rows);
    float *wanted = support_alloc_floats(rows * cols), *wanted_bias = support_alloc_floats(rows);
    for (size_t i = 0; i < rows; i++) {
        wanted_bias[i] = c->bias && bias && !c->skip_bias_add ? bias[row[i]] : 0.0f;
        for (size_t j = 0; j < cols; j++)
            wanted[i * cols + j] = weight[row[i] * c->in + col[j]];
    }
    layers_read_local(layer, local, local_bias);
    assert_same_floats(local, wanted, rows * cols);
    assert_same_floats(local_bias, wanted_bias, rows);
    if (c->skip_bias_add && bias)
        layers_check_skipped(group, layer, c, bias);
    free(local);
    free(local_bias);
    free(wanted);
    free(wanted_bias);
    free(row);
    free(col);
}

void layers_check_skipped(parlin_group *group, parlin_layer *layer, const layers_case *c,
                          const float *bias)
{
    size_t p = (size_t)parlin_group_size(group), r = (size_t)parlin_group_rank(group);
    size_t full = layers_out(c), *row = support_alloc(full * sizeof *row);
    size_t rows = c->gather_output ? full : layers_rows(c, p, r, row);
    parlin_tensor t = {0};
    assert_ok(parlin_layer_bias(layer, &t));
    assert_int_equal(t.rows, 1);
    assert_int_equal(t.cols, rows);
    float *local = support_alloc_floats(rows), *wanted = support_alloc_floats(rows);
    for (size_t i = 0; i < rows; i++)
        wanted[i] = bias[c->gather_output ? i : row[i]];
    assert_ok(parlin_tensor_read(t, local));
    assert_same_floats(local, wanted, rows);
    free(local);
    free(wanted);
    free(row);
}

void layers_check_export_to(parlin_group *group, parlin_layer *layer, parlin_param param,
                            parlin_shard shard, const float *full, size_t count, int root)
{
    bool mine = root == parlin_group_rank(group);
    float *out = support_alloc_floats(mine ? count : 1);
    assert_ok(parlin_layer_export(layer, param, shard, root, mine ? out : NULL,
                                  mine ? count * sizeof *out : 0));
    if (mine)
        assert_same_floats(out, full, count);
    free(out);
}

void layers_check_export(parlin_group *group, parlin_layer *layer, parlin_param param,
                         parlin_shard shard, const float *full, size_t count)
{
    layers_check_export_to(group, layer, param, shard, full, count, parlin_group_size(group) - 1);
}

/* --- groups and ranks --- */

void layers_on(void (*body)(parlin_group *group), const int *sizes)
{
    int ran = 0;
    parlin_group *world = support_group();
    for (; *sizes; sizes++) {
        if (*sizes > support_size())
            continue;
        parlin_group *part = NULL;
        assert_ok(parlin_group_split(world, support_rank() < *sizes ? 0 : -1, 0, &part));
        if (support_rank() < *sizes) {
            assert_non_null(part);
            assert_int_equal(parlin_group_size(part), *sizes);
            assert_int_equal(parlin_group_rank(part), support_rank());
            body(part);
        }
        parlin_group_close(part);
        ran++;
    }
    if (!ran)
        SUPPORT_SKIP("needs more ranks than %d", support_size());
}

void layers_check_same_sentence(int p)
{
    char mine[2048], first[2048];
    snprintf(mine, sizeof mine, "%s", parlin_last_error());
    if (support_rank() == 0) {
        for (int r = 1; r < p; r++)
            MPI_Send(mine, sizeof mine, MPI_CHAR, r, 7, MPI_COMM_WORLD);
        return;
    }
    MPI_Request request;
    int done = 0;
    MPI_Irecv(first, sizeof first, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        sched_yield(); /* a blocking receive would keep the core from rank 0 */
    }
    assert_string_equal(mine, first);
}
