/* SPDX-License-Identifier: Apache-2.0 */
/* Weight and bias as load, export and the initialisers see them: rows of a local stack of
   parts. A bias is a matrix of one column. */
#include "layers/layer.h"

#include <stdio.h>

size_t pl_chunk_rows(size_t row_bytes)
{
    return row_bytes < PL_CHUNK_BYTES ? PL_CHUNK_BYTES / row_bytes : 1;
}

static const char *param_name(parlin_param param)
{
    return param == PARLIN_BIAS ? "bias" : "weight";
}

void pl_param_text(const parlin_layer *layer, parlin_param param, size_t first, size_t count,
                   char text[PL_PARAM_TEXT])
{
    const char *name = param_name(param);
    if (count > 1 || layer->spec.kind == PARLIN_COLUMN || layer->spec.kind == PARLIN_ROW)
        snprintf(text, PL_PARAM_TEXT, "the %s", name);
    else if (layer->spec.kind == PARLIN_QKV)
        snprintf(text, PL_PARAM_TEXT, "part %c of the %s", "qkv"[first], name);
    else
        snprintf(text, PL_PARAM_TEXT, "part %zu of the %s", first, name);
}

/* The shards that a kind has, for the sentence of a refusal. */
static void shards_text(const pl_spec *spec, char text[64])
{
    if (spec->kind == PARLIN_QKV)
        snprintf(text, 64, "PARLIN_WHOLE, PARLIN_Q, PARLIN_K or PARLIN_V");
    else if (spec->kind == PARLIN_MERGED)
        snprintf(text, 64, "PARLIN_WHOLE or 0 to %zu", spec->parts - 1);
    else
        snprintf(text, 64, "PARLIN_WHOLE");
}

static const char *shard_name(parlin_shard shard, char text[32])
{
    switch (shard) {
    case PARLIN_WHOLE:
        return "PARLIN_WHOLE";
    case PARLIN_Q:
        return "PARLIN_Q";
    case PARLIN_K:
        return "PARLIN_K";
    case PARLIN_V:
        return "PARLIN_V";
    default:
        snprintf(text, 32, "%d", shard);
        return text;
    }
}

parlin_status pl_param_find(const parlin_layer *layer, const char *doing, parlin_param param,
                            parlin_shard shard, size_t *first, size_t *count)
{
    const pl_spec *spec = &layer->spec;
    if (param != PARLIN_WEIGHT && param != PARLIN_BIAS)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, doing,
                              "parameter %d, wanted PARLIN_WEIGHT or PARLIN_BIAS", (int)param);
    if (param == PARLIN_BIAS && !spec->common.bias)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, doing, "the layer has no bias");
    bool is_qkv = spec->kind == PARLIN_QKV && shard <= PARLIN_Q && shard >= PARLIN_V;
    bool is_part = spec->kind == PARLIN_MERGED && shard >= 0 && (size_t)shard < spec->parts;
    if (shard == PARLIN_WHOLE) {
        *first = 0;
        *count = spec->parts;
    } else if (is_qkv || is_part) {
        *first = is_qkv ? (size_t)(PARLIN_Q - shard) : (size_t)shard;
        *count = 1;
    } else {
        char wanted[64], given[32];
        shards_text(spec, wanted);
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, doing, "%s: shard %s, wanted %s",
                              param_name(param), shard_name(shard, given), wanted);
    }
    return PARLIN_SUCCESS;
}

parlin_status pl_param_ready(const parlin_layer *layer, const char *doing, parlin_param param,
                             size_t first, size_t count)
{
    for (size_t i = first; i < first + count; ++i)
        if (!pl_slot_of(layer, param, i)->ready) {
            char text[PL_PARAM_TEXT];
            pl_param_text(layer, param, i, 1, text);
            return pl_layer_error(&layer->spec, PARLIN_ERROR_STATE, doing, "%s was never loaded",
                                  text);
        }
    return PARLIN_SUCCESS;
}

size_t pl_param_rows(const parlin_layer *layer, size_t first, size_t count)
{
    size_t rows = 0;
    for (size_t i = first; i < first + count; ++i)
        rows += layer->spec.part_rows[i];
    return rows;
}

pl_range pl_param_cols(const parlin_layer *layer, parlin_param param)
{
    return param == PARLIN_BIAS ? (pl_range){0, 1} : layer->input;
}

parlin_dtype pl_param_dtype(const parlin_layer *layer, parlin_param param)
{
    return param == PARLIN_BIAS ? PARLIN_F32 : layer->spec.common.param_dtype;
}

parlin_status pl_param_write(parlin_layer *layer, parlin_param param, size_t row, size_t rows,
                             const void *host)
{
    if (param == PARLIN_WEIGHT)
        return pl_weight_write(layer->weight, row, rows, host);
    size_t bytes = rows * sizeof(float);
    return pl_rect_write(layer->device, layer->bias, (pl_rect){row * sizeof(float), bytes}, bytes,
                         1, host, bytes, true);
}

parlin_status pl_param_read(const parlin_layer *layer, parlin_param param, size_t row, size_t rows,
                            void *host)
{
    if (param == PARLIN_WEIGHT)
        return pl_weight_read(layer->weight, row, rows, host);
    size_t bytes = rows * sizeof(float);
    return pl_rect_read(layer->device, layer->bias, (pl_rect){row * sizeof(float), bytes}, bytes, 1,
                        host, bytes, true);
}
