/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending a layer of any kind, and what may be asked of it. */
#include "layers/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pl_range pl_part_range(const pl_spec *spec, size_t p, size_t r, size_t part)
{
    size_t rows = spec->part_rows[part];
    if (spec->kind == PARLIN_ROW)
        return (pl_range){0, rows};
    if (spec->kind != PARLIN_QKV)
        return pl_range_of(rows, p, r);
    pl_heads_cut cut = pl_heads_cut_of(spec->heads, spec->kv_heads, p, r);
    pl_range heads = part == 0 ? cut.heads : cut.kv_heads;
    size_t size = part == 2 ? spec->v_head_size : spec->head_size;
    return (pl_range){heads.start * size, heads.length * size};
}

pl_range pl_input_range(const pl_spec *spec, size_t p, size_t r)
{
    if (spec->kind != PARLIN_ROW)
        return (pl_range){0, spec->in_features};
    if (spec->heads == 0)
        return pl_range_of(spec->in_features, p, r);
    pl_range heads = pl_heads_cut_of(spec->heads, spec->kv_heads, p, r).heads;
    return (pl_range){heads.start * spec->v_head_size, heads.length * spec->v_head_size};
}

/* --- creation --- */

/* Ranks that differ in the parts of a merged layer are told by this number (FNV-1a). */
static uint64_t parts_hash(const pl_spec *spec)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < spec->parts; ++i)
        for (size_t shift = 0; shift < 64; shift += 8) {
            hash ^= ((uint64_t)spec->part_rows[i] >> shift) & 0xff;
            hash *= 0x100000001b3u;
        }
    return hash;
}

static uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* What all ranks must pass alike: name and number. */
#define CREATION_RECORD(X)                                                                         \
    X("layer", number)                                                                             \
    X("in_features", spec->in_features)                                                            \
    X("out_features", spec->out_features)                                                          \
    X("parts", spec->parts)                                                                        \
    X("parts hash", parts_hash(spec))                                                              \
    X("heads", spec->heads)                                                                        \
    X("kv_heads", spec->kv_heads)                                                                  \
    X("head_size", spec->head_size)                                                                \
    X("v_head_size", spec->v_head_size)                                                            \
    X("gather_output", spec->gather_output)                                                        \
    X("reduce_results", spec->reduce_results)                                                      \
    X("input_is_parallel", spec->input_is_parallel)                                                \
    X("activation", spec->activation)                                                              \
    X("gated", spec->gated)                                                                        \
    X("bias", spec->common.bias)                                                                   \
    X("skip_bias_add", spec->common.skip_bias_add)                                                 \
    X("param_dtype", spec->common.param_dtype)                                                     \
    X("compute_dtype", spec->common.compute_dtype)                                                 \
    X("output_dtype", spec->common.output_dtype)                                                   \
    X("weight_init.kind", spec->common.weight_init.kind)                                           \
    X("weight_init.value hash", double_bits(spec->common.weight_init.value))                       \
    X("bias_init.kind", spec->common.bias_init.kind)                                               \
    X("bias_init.value hash", double_bits(spec->common.bias_init.value))                           \
    X("seed", spec->common.seed)                                                                   \
    X("param_id", spec->common.param_id)

static pl_call creation_call(const pl_spec *spec, uint64_t number)
{
#define RECORD_NAME(name, value)  name,
#define RECORD_VALUE(name, value) value,
    static const char *const operations[] = {
        [PARLIN_COLUMN] = "column layer creation",
        [PARLIN_MERGED] = "merged layer creation",
        [PARLIN_QKV] = "qkv layer creation",
        [PARLIN_ROW] = "row layer creation",
    };
    static const char *const names[] = {CREATION_RECORD(RECORD_NAME)};
    pl_call call = {.operation = operations[spec->kind],
                    .object = spec->common.name,
                    .names = names,
                    .number = {CREATION_RECORD(RECORD_VALUE)},
                    .count = sizeof names / sizeof *names};
    return call;
#undef RECORD_NAME
#undef RECORD_VALUE
}

/* One block of text for the name and the labels, which all begin alike. */
static parlin_status build_text(parlin_layer *layer)
{
    static const char *const tensors[PL_LABEL_COUNT] = {"x", "y", "residual", "q", "k", "v"};
    const char *name = layer->spec.common.name;
    const char *kind = pl_kind_name(layer->spec.kind);
    size_t length = strlen(name) + 1;
    size_t label = length + sizeof "forward of merged layer '': residual";
    layer->text = calloc(PL_LABEL_COUNT + 1, label);
    if (layer->text == NULL)
        return pl_layer_error(&layer->spec, PARLIN_ERROR_MEMORY, "creation",
                              "no host memory for its name");
    memcpy(layer->text, name, length);
    layer->spec.common.name = layer->text;
    for (size_t i = 0; i < PL_LABEL_COUNT; ++i) {
        layer->labels[i] = layer->text + (i + 1) * label;
        snprintf(layer->labels[i], label, "forward of %s layer '%s': %s", kind, name, tensors[i]);
    }
    return PARLIN_SUCCESS;
}

static parlin_status build_arrays(parlin_layer *layer)
{
    pl_spec *spec = &layer->spec;
    size_t *part_rows = calloc(spec->parts, sizeof *part_rows);
    if (part_rows != NULL)
        memcpy(part_rows, spec->part_rows, spec->parts * sizeof *part_rows);
    spec->part_rows = part_rows;
    layer->parts = calloc(spec->parts, sizeof *layer->parts);
    layer->blocks = calloc(spec->parts, sizeof *layer->blocks);
    layer->lengths = calloc(spec->parts, layer->size * sizeof *layer->lengths);
    if (part_rows == NULL || layer->parts == NULL || layer->blocks == NULL ||
        layer->lengths == NULL)
        return pl_layer_error(spec, PARLIN_ERROR_MEMORY, "creation", "no host memory for %zu parts",
                              spec->parts);
    return PARLIN_SUCCESS;
}

/* Which rows and columns are here, and how wide everything is. */
static void build_plan(parlin_layer *layer)
{
    const pl_spec *spec = &layer->spec;
    size_t p = layer->size, r = layer->rank;
    /* a skipped bias is handed out as wide as the output */
    bool full_bias = spec->common.skip_bias_add && spec->gather_output;
    for (size_t i = 0; i < spec->parts; ++i) {
        pl_part *part = &layer->parts[i];
        part->weight.range = pl_part_range(spec, p, r, i);
        part->weight.at = layer->local_out;
        layer->local_out += part->weight.range.length;
        part->bias.range = full_bias ? (pl_range){0, spec->part_rows[i]} : part->weight.range;
        part->bias.at = layer->bias_rows;
        layer->bias_rows += part->bias.range.length;
    }
    layer->input = pl_input_range(spec, p, r);
    layer->output_parts = spec->gated ? 1 : spec->parts;
    for (size_t i = 0; i < layer->output_parts; ++i)
        for (size_t q = 0; q < p; ++q)
            layer->lengths[i * p + q] = pl_part_range(spec, p, q, i).length;

    size_t full_out = spec->gated ? spec->out_features / 2 : spec->out_features;
    layer->product_cols = spec->gated ? layer->local_out / 2 : layer->local_out;
    layer->output_cols = spec->gather_output ? full_out : layer->product_cols;
    layer->collective = p > 1 && (spec->gather_output || spec->reduce_results);
}

/* Names the layer in the sentence of a room that knows no layers. */
static parlin_status in_creation(const pl_spec *spec, parlin_status status)
{
    if (status == PARLIN_SUCCESS)
        return status;
    return pl_layer_error(spec, status, "creation", "%s", parlin_last_error());
}

static parlin_status build_params(parlin_layer *layer)
{
    const pl_common *common = &layer->spec.common;
    PL_TRY(in_creation(&layer->spec,
                       pl_weight_create(layer->device, common->param_dtype, layer->local_out,
                                        layer->input.length, &layer->weight)));
    PL_TRY(pl_init_param(layer, PARLIN_WEIGHT));
    if (!common->bias)
        return PARLIN_SUCCESS;
    PL_TRY(
        in_creation(&layer->spec, pl_buffer_create(layer->device, layer->bias_rows * sizeof(float),
                                                   &layer->bias)));
    /* one rank alone adds the bias of a sum */
    bool adds = !common->skip_bias_add && (layer->spec.kind != PARLIN_ROW || layer->rank == 0);
    layer->added_bias = adds ? layer->bias : NULL;
    return pl_init_param(layer, PARLIN_BIAS);
}

static parlin_status build(parlin_group *group, uint64_t number, const pl_spec *spec,
                           parlin_layer **out)
{
    parlin_layer *layer = calloc(1, sizeof *layer);
    if (layer == NULL)
        return pl_layer_error(spec, PARLIN_ERROR_MEMORY, "creation", "no host memory");
    pl_group_retain(group);
    layer->group = group;
    layer->device = parlin_group_device(group);
    layer->size = (size_t)parlin_group_size(group);
    layer->rank = (size_t)parlin_group_rank(group);
    layer->number = number;
    layer->param_id = spec->common.param_id == 0 ? number : spec->common.param_id;
    layer->spec = *spec;
    parlin_status status = build_arrays(layer);
    if (status == PARLIN_SUCCESS)
        status = build_text(layer);
    if (status == PARLIN_SUCCESS) {
        build_plan(layer);
        status = build_params(layer);
    }
    if (status != PARLIN_SUCCESS) {
        parlin_layer_destroy(layer);
        return status;
    }
    *out = layer;
    return PARLIN_SUCCESS;
}

parlin_status pl_layer_create(parlin_group *group, parlin_status local, const pl_spec *spec,
                              parlin_layer **layer)
{
    PL_TRY(pl_group_may_call(group, "layer creation", spec->common.name));
    /* taken whatever else happens, so that ranks stay alike */
    uint64_t number = pl_group_next_param_id(group);
    parlin_layer *made = NULL;
    if (local == PARLIN_SUCCESS)
        local = build(group, number, spec, &made);
    pl_call call = creation_call(spec, number);
    parlin_status status = pl_agree(group, local, &call);
    if (status != PARLIN_SUCCESS) {
        parlin_layer_destroy(made);
        return status;
    }
    *layer = made;
    return PARLIN_SUCCESS;
}

void parlin_layer_destroy(parlin_layer *layer)
{
    if (layer == NULL)
        return;
    pl_weight_destroy(layer->weight);
    if (layer->bias != NULL)
        pl_buffer_release(layer->device, layer->bias, layer->bias_rows * sizeof(float));
    free((size_t *)layer->spec.part_rows);
    free(layer->parts);
    free(layer->blocks);
    free(layer->lengths);
    free(layer->text);
    pl_group_release(layer->group);
    free(layer);
}

/* --- queries --- */

parlin_layer_info parlin_layer_get_info(const parlin_layer *layer)
{
    if (layer == NULL)
        return (parlin_layer_info){0};
    const pl_spec *spec = &layer->spec;
    bool cuts_rows = spec->kind == PARLIN_COLUMN || spec->kind == PARLIN_MERGED;
    return (parlin_layer_info){
        .kind = spec->kind,
        .name = spec->common.name,
        .in_features = spec->in_features,
        .out_features = spec->out_features,
        .parts = spec->parts,
        .input_cols = spec->input_is_parallel ? layer->input.length : spec->in_features,
        .output_cols = layer->output_cols,
        .input_start = layer->input.start,
        .input_length = layer->input.length,
        .output_start = cuts_rows ? layer->parts[0].weight.range.start : 0,
        .output_length = layer->local_out,
        .weight_bytes = pl_weight_bytes(layer->weight),
        .engine = pl_weight_engine(layer->weight),
        .has_bias = spec->common.bias,
        .collective = layer->collective,
        .param_dtype = spec->common.param_dtype,
        .compute_dtype = spec->common.compute_dtype,
        .output_dtype = spec->common.output_dtype,
    };
}

parlin_status parlin_layer_part(const parlin_layer *layer, size_t part, size_t *start,
                                size_t *length)
{
    if (layer == NULL || start == NULL || length == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_layer_part: %s is NULL",
                        layer == NULL   ? "layer"
                        : start == NULL ? "start"
                                        : "length");
    const pl_spec *spec = &layer->spec;
    if (part >= spec->parts)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL, "part %zu, wanted less than %zu",
                              part, spec->parts);
    pl_range range = spec->kind == PARLIN_ROW ? layer->input : layer->parts[part].weight.range;
    *start = range.start;
    *length = range.length;
    return PARLIN_SUCCESS;
}

parlin_status parlin_layer_output(const parlin_layer *layer, size_t rows, parlin_tensor *y)
{
    if (layer == NULL || y == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_layer_output: %s is NULL",
                        layer == NULL ? "layer" : "y");
    return parlin_tensor_create_on(layer->device, layer->spec.common.output_dtype, rows,
                                   layer->output_cols, y);
}

parlin_status parlin_layer_bias(const parlin_layer *layer, parlin_tensor *bias)
{
    if (layer == NULL || bias == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_layer_bias: %s is NULL",
                        layer == NULL ? "layer" : "bias");
    const pl_spec *spec = &layer->spec;
    if (!spec->common.bias)
        return pl_layer_error(spec, PARLIN_ERROR_STATE, "bias", "the layer has none");
    if (!spec->common.skip_bias_add)
        return pl_layer_error(spec, PARLIN_ERROR_STATE, "bias",
                              "the layer adds it itself (skip_bias_add is false)");
    PL_TRY(pl_param_ready(layer, "bias", PARLIN_BIAS, 0, spec->parts));
    *bias = parlin_tensor_wrap(layer->bias, pl_param_dtype(layer, PARLIN_BIAS), 0, 1,
                               layer->bias_rows, layer->bias_rows);
    bias->device = layer->device;
    return PARLIN_SUCCESS;
}
