/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

/* --- making --- */

/* Layers keep their names. */
static const char *name_of(size_t index, const char *part)
{
    static char name[64];
    snprintf(name, sizeof name, "layers.%zu.%s", index, part);
    return name;
}

static bool create_layer(model *m, size_t index, decoder_layer *layer)
{
    const model_config *c = m->config;

    parlin_qkv_config qkv = parlin_qkv_defaults();
    qkv.name = name_of(index, "qkv");
    qkv.hidden_size = c->hidden;
    qkv.head_size = c->head_size;
    qkv.total_num_heads = c->heads;
    qkv.total_num_kv_heads = c->kv_heads;
    qkv.bias = c->attention_bias;
    if (!check_all(parlin_qkv_create(m->group, &qkv, &layer->qkv)))
        return false;

    parlin_row_config o = parlin_row_defaults();
    o.name = name_of(index, "o");
    o.in_features = c->heads * c->head_size;
    o.out_features = c->hidden;
    o.bias = c->output_bias;
    o.input_like = layer->qkv;
    if (!check_all(parlin_row_create(m->group, &o, &layer->o)))
        return false;

    const size_t parts[] = {c->inner, c->inner};
    parlin_merged_config gate_up = parlin_merged_defaults();
    gate_up.name = name_of(index, "gate_up");
    gate_up.in_features = c->hidden;
    gate_up.parts = 2;
    gate_up.out_features = parts;
    gate_up.bias = c->mlp_bias;
    gate_up.activation = PARLIN_SILU;
    gate_up.gated = true;
    if (!check_all(parlin_merged_create(m->group, &gate_up, &layer->gate_up)))
        return false;

    parlin_row_config down = parlin_row_defaults();
    down.name = name_of(index, "down");
    down.in_features = c->inner;
    down.out_features = c->hidden;
    down.bias = c->mlp_bias;
    down.input_like = layer->gate_up;
    return check_all(parlin_row_create(m->group, &down, &layer->down));
}

static bool create_head(model *m)
{
    parlin_column_config head = parlin_column_defaults();
    head.name = "head";
    head.in_features = m->config->hidden;
    head.out_features = m->config->vocabulary;
    head.gather_output = true;
    return check_all(parlin_column_create(m->group, &head, &m->head));
}

static bool tensor(model *m, size_t rows, size_t cols, parlin_tensor *out)
{
    return check(parlin_tensor_create(m->group, PARLIN_F32, rows, cols, out));
}

/* cos and sin for every position, in double precision: angles grow with the position. */
static bool create_turns(model *m)
{
    const size_t size = m->config->head_size, positions = m->positions;
    float *turns = malloc(positions * size * sizeof *turns);
    if (!turns)
        return fail("no memory for the rotation of %zu positions", positions);
    for (size_t t = 0; t < positions; t++)
        for (size_t d = 0; d < size / 2; d++) {
            double power = -2.0 * (double)d / (double)size;
            double angle = (double)t * pow(m->config->rope_theta, power);
            turns[t * size + 2 * d] = (float)cos(angle);
            turns[t * size + 2 * d + 1] = (float)sin(angle);
        }
    bool fine =
        tensor(m, positions, size, &m->turns) && check(parlin_tensor_write(m->turns, turns));
    free(turns);
    return fine;
}

/* int32 in tensors of f32: as many bytes, and parlin only carries them. */
static bool create_kv_of(model *m)
{
    int32_t *kv_of = malloc(m->heads * sizeof *kv_of);
    if (!kv_of)
        return fail("no memory for %zu heads", m->heads);
    for (size_t h = 0; h < m->heads; h++)
        kv_of[h] = (int32_t)parlin_qkv_kv_head(m->layers[0].qkv, h);
    bool fine = tensor(m, 1, m->heads, &m->kv_of) && check(parlin_tensor_write(m->kv_of, kv_of));
    free(kv_of);
    return fine;
}

static bool create_cache(model *m)
{
    const size_t rows = m->kv_heads * m->positions, size = m->config->head_size;
    for (size_t i = 0; i < m->config->layers; i++)
        if (!tensor(m, rows, size, &m->layers[i].keys) ||
            !tensor(m, rows, size, &m->layers[i].values))
            return false;
    m->cache_bytes = m->config->layers * 2 * rows * size * sizeof(float);
    return true;
}

static void count_weights(model *m)
{
    m->weight_bytes = parlin_layer_get_info(m->head).weight_bytes;
    for (size_t i = 0; i < m->config->layers; i++) {
        const decoder_layer *l = &m->layers[i];
        const parlin_layer *all[] = {l->qkv, l->o, l->gate_up, l->down};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            m->weight_bytes += parlin_layer_get_info(all[j]).weight_bytes;
    }
}

bool model_create(model *m, parlin_group *group, const model_config *config, size_t positions,
                  size_t rows, size_t logit_rows)
{
    *m = (model){.config = config, .group = group, .positions = positions, .rows = rows};
    m->layers = calloc(config->layers, sizeof *m->layers);
    m->host_ids = malloc(rows * sizeof *m->host_ids);
    if (!m->layers || !m->host_ids)
        fail("no memory for %zu layers", config->layers);
    /* The collective calls first: every rank makes them, or none (all_well). */
    if (!all_well(MPI_COMM_WORLD))
        return false;
    for (size_t i = 0; i < config->layers; i++)
        if (!create_layer(m, i, &m->layers[i]))
            return false;
    if (!create_head(m))
        return false;
    count_weights(m);

    const parlin_qkv_shape here = parlin_qkv_local(m->layers[0].qkv);
    m->heads = here.heads;
    m->kv_heads = here.kv_heads;
    const size_t width = here.heads * config->head_size;
    const size_t inner = parlin_layer_get_info(m->layers[0].gate_up).output_cols;
    return kernels_open(&m->kernels, parlin_group_device(group), config->head_size) &&
           create_turns(m) && create_kv_of(m) && create_cache(m) && tensor(m, rows, 1, &m->ids) &&
           tensor(m, rows, config->hidden, &m->x) && tensor(m, rows, config->hidden, &m->h) &&
           tensor(m, rows, width, &m->q) && tensor(m, rows, width, &m->a) &&
           tensor(m, rows, inner, &m->g) && tensor(m, logit_rows, config->vocabulary, &m->logits);
}

void model_close(model *m)
{
    parlin_tensor *all[] = {&m->table, &m->norm, &m->turns, &m->kv_of, &m->ids,   &m->x,
                            &m->h,     &m->q,    &m->a,     &m->g,     &m->logits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        parlin_tensor_destroy(all[i]);
    for (size_t i = 0; m->layers && i < m->config->layers; i++) {
        decoder_layer *l = &m->layers[i];
        parlin_layer *layers[] = {l->qkv, l->o, l->gate_up, l->down};
        parlin_tensor *tensors[] = {&l->norm1, &l->norm2, &l->keys, &l->values};
        for (size_t j = 0; j < sizeof layers / sizeof *layers; j++) {
            parlin_layer_destroy(layers[j]);
            parlin_tensor_destroy(tensors[j]);
        }
    }
    parlin_layer_destroy(m->head);
    kernels_close(&m->kernels);
    free(m->layers);
    free(m->host_ids);
    *m = (model){0};
}

/* --- loading --- */

/* A stored tensor of the given shape, as it is, onto the device. (1, cols) may be stored as a
   vector. */
static bool upload(model *m, const parlin_checkpoint *checkpoint, const char *name, size_t rows,
                   size_t cols, parlin_tensor *out)
{
    enum { BLOCK_BYTES = 4 << 20 };
    parlin_host stored;
    if (!check(parlin_checkpoint_host(checkpoint, name, &stored)))
        return false;
    bool vector = rows == 1 && stored.cols == 1;
    if ((vector ? stored.cols : stored.rows) != rows ||
        (vector ? stored.rows : stored.cols) != cols)
        return fail("%s is (%zu, %zu), wanted (%zu, %zu)", name, stored.rows, stored.cols, rows,
                    cols);
    if (!check(parlin_tensor_create(m->group, stored.dtype, rows, cols, out)))
        return false;
    size_t bytes = cols * parlin_dtype_size(stored.dtype);
    size_t block = bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1;
    for (size_t i = 0; i < rows; i += block) {
        size_t count = rows - i < block ? rows - i : block;
        if (!check(parlin_tensor_write(parlin_tensor_rows(*out, i, count),
                                       (const char *)stored.data + i * bytes)))
            return false;
        parlin_checkpoint_give_back(checkpoint);
    }
    return true;
}

/* A norm's weight as f32: row 0 of a table of one row. */
static bool upload_norm(model *m, const parlin_checkpoint *checkpoint, const char *name,
                        parlin_tensor *out)
{
    static const int32_t zero = 0;
    parlin_tensor stored = {0};
    bool fine = upload(m, checkpoint, name, 1, m->config->hidden, &stored) &&
                check(parlin_tensor_write(parlin_tensor_rows(m->ids, 0, 1), &zero)) &&
                tensor(m, 1, m->config->hidden, out) &&
                kernels_take(&m->kernels, stored, m->ids, *out) && model_wait(m);
    parlin_tensor_destroy(&stored);
    return fine;
}

/* Which stored tensor feeds which part. */
static bool add_layer(parlin_loader *loader, size_t index, const decoder_layer *layer)
{
    const struct {
        parlin_layer *layer;
        parlin_shard shard;
        const char *name;
    } parts[] = {
        {layer->qkv, PARLIN_Q, "self_attn.q_proj"},   {layer->qkv, PARLIN_K, "self_attn.k_proj"},
        {layer->qkv, PARLIN_V, "self_attn.v_proj"},   {layer->o, PARLIN_WHOLE, "self_attn.o_proj"},
        {layer->gate_up, 0, "mlp.gate_proj"},         {layer->gate_up, 1, "mlp.up_proj"},
        {layer->down, PARLIN_WHOLE, "mlp.down_proj"},
    };
    char name[128];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "model.layers.%zu.%s", index, parts[i].name);
        if (!check(parlin_loader_add(loader, parts[i].layer, parts[i].shard, name)))
            return false;
    }
    return true;
}

static bool load_layers(model *m, parlin_loader *loader)
{
    for (size_t i = 0; i < m->config->layers; i++)
        if (!add_layer(loader, i, &m->layers[i]))
            return false;
    const char *head = m->config->tied ? "model.embed_tokens" : "lm_head";
    return check(parlin_loader_add(loader, m->head, PARLIN_WHOLE, head)) &&
           check(parlin_loader_run(
               loader, parlin_group_rank(m->group) == 0 ? parlin_progress_terminal : NULL, NULL));
}

static const char *norm_name(char *name, size_t bytes, size_t layer, int which)
{
    snprintf(name, bytes, "model.layers.%zu.%s.weight", layer,
             which == 0 ? "input_layernorm" : "post_attention_layernorm");
    return name;
}

static bool load_others(model *m, const parlin_checkpoint *checkpoint)
{
    char name[128];
    for (size_t i = 0; i < m->config->layers; i++) {
        decoder_layer *l = &m->layers[i];
        if (!upload_norm(m, checkpoint, norm_name(name, sizeof name, i, 0), &l->norm1) ||
            !upload_norm(m, checkpoint, norm_name(name, sizeof name, i, 1), &l->norm2))
            return false;
    }
    return upload_norm(m, checkpoint, "model.norm.weight", &m->norm) &&
           upload(m, checkpoint, "model.embed_tokens.weight", m->config->vocabulary,
                  m->config->hidden, &m->table);
}

/* What the loader does not read: load_others does, or it is known to be of no use. */
static bool ignore_others(const model *m, parlin_loader *loader)
{
    char name[128];
    for (size_t i = 0; i < m->config->layers; i++) {
        for (int which = 0; which < 2; which++)
            if (!check(parlin_loader_ignore(loader, norm_name(name, sizeof name, i, which))))
                return false;
        /* of old exports: a table that this program makes itself */
        snprintf(name, sizeof name, "model.layers.%zu.self_attn.rotary_emb.inv_freq", i);
        if (!check(parlin_loader_ignore(loader, name)))
            return false;
    }
    return check(parlin_loader_ignore(loader, "model.norm.weight")) &&
           check(parlin_loader_ignore(loader, "model.embed_tokens.weight"));
}

bool model_load(model *m, const char *folder, load_report *report)
{
    parlin_checkpoint *checkpoint = NULL;
    parlin_loader *loader = NULL;
    *report = (load_report){0};
    bool fine = check(parlin_checkpoint_open(folder, &checkpoint)) &&
                check(parlin_loader_create(checkpoint, &loader)) && ignore_others(m, loader) &&
                load_layers(m, loader) && load_others(m, checkpoint);
    if (fine) {
        report->left_over = parlin_loader_left_over_count(loader);
        const char *first = parlin_loader_left_over(loader, 0);
        snprintf(report->first, sizeof report->first, "%s", first ? first : "");
    }
    parlin_loader_destroy(loader);
    parlin_checkpoint_close(checkpoint);
    return fine;
}

/* --- running --- */

/* A forward of a layer whose ranks join. A rank where something failed before hands in nothing:
   that is refused on all ranks, so that none waits for one that has left. */
static bool join(parlin_layer *layer, parlin_tensor x, const parlin_tensor *residual,
                 parlin_tensor y)
{
    if (failed())
        x = (parlin_tensor){0};
    return check_all(residual ? parlin_layer_forward_residual(layer, x, *residual, y)
                              : parlin_layer_forward(layer, x, y));
}

/* This rank's kv heads at positions first .. first + rows - 1 of a cache. */
static parlin_heads in_cache(const model *m, parlin_tensor cache, size_t first, size_t rows)
{
    const size_t size = m->config->head_size;
    return parlin_heads_wrap(cache.buffer, cache.dtype, first * size, rows, m->kv_heads, size, size,
                             m->positions * size);
}

static bool attend(const model *m, const decoder_layer *l, size_t rows, size_t first)
{
    const parlin_tensor x = parlin_tensor_rows(m->x, 0, rows),
                        h = parlin_tensor_rows(m->h, 0, rows);
    const parlin_tensor q = parlin_tensor_rows(m->q, 0, rows),
                        a = parlin_tensor_rows(m->a, 0, rows);
    const parlin_heads q_heads = parlin_tensor_heads(q, m->heads, m->config->head_size);
    const parlin_heads k = in_cache(m, l->keys, first, rows);
    const parlin_heads v = in_cache(m, l->values, first, rows);
    return kernels_norm(&m->kernels, x, l->norm1, m->config->norm_epsilon, h) &&
           check(parlin_qkv_forward(l->qkv, h, q_heads, k, v)) &&
           kernels_rotate(&m->kernels, q_heads, m->turns, first) &&
           kernels_rotate(&m->kernels, k, m->turns, first) &&
           kernels_attend(&m->kernels, q, l->keys, l->values, m->positions, m->kv_of, first, a);
}

static bool feed_layer(const model *m, const decoder_layer *l, size_t rows, size_t first)
{
    const parlin_tensor x = parlin_tensor_rows(m->x, 0, rows),
                        h = parlin_tensor_rows(m->h, 0, rows);
    const parlin_tensor a = parlin_tensor_rows(m->a, 0, rows),
                        g = parlin_tensor_rows(m->g, 0, rows);
    if (!failed())
        attend(m, l, rows, first);
    if (!join(l->o, a, &x, x))
        return false;
    if (kernels_norm(&m->kernels, x, l->norm2, m->config->norm_epsilon, h))
        check(parlin_layer_forward(l->gate_up, h, g));
    return join(l->down, g, &x, x);
}

/* A single id goes to the device without waiting: host_ids stays as it is until the next call,
   which comes after this one's logits. */
static bool embed(model *m, const int *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        m->host_ids[i] = tokens[i];
    return check_cl(clEnqueueWriteBuffer(m->kernels.queue, m->ids.buffer, count > 1, 0,
                                         count * sizeof *m->host_ids, m->host_ids, 0, NULL, NULL),
                    "token ids") &&
           kernels_take(&m->kernels, m->table, m->ids, parlin_tensor_rows(m->x, 0, count));
}

bool model_feed(model *m, const int *tokens, size_t count, size_t first, size_t logit_rows)
{
    embed(m, tokens, count);
    for (size_t i = 0; i < m->config->layers; i++)
        if (!feed_layer(m, &m->layers[i], count, first))
            return false;
    if (logit_rows == 0)
        return true;
    const parlin_tensor x = parlin_tensor_rows(m->x, count - logit_rows, logit_rows);
    const parlin_tensor h = parlin_tensor_rows(m->h, 0, logit_rows);
    kernels_norm(&m->kernels, x, m->norm, m->config->norm_epsilon, h);
    return join(m->head, h, NULL, parlin_tensor_rows(m->logits, 0, logit_rows));
}

bool model_wait(model *m)
{
    return check(parlin_device_finish(parlin_group_device(m->group)));
}

bool model_logits(model *m, size_t rows, float *logits)
{
    return check(parlin_tensor_read(parlin_tensor_rows(m->logits, 0, rows), logits));
}
