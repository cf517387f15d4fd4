/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: each rank is given the full tensor and takes its own slice. Only the bytes of that
   slice are touched, as the tensor may lie in a mapped file. */
#include "layers/layer.h"

#include <stdlib.h>

#include "num/num.h"

static parlin_status check_order(const parlin_layer *layer, const char *text,
                                 const parlin_host *tensor, parlin_shard shard)
{
    const pl_spec *spec = &layer->spec;
    int order = (int)tensor->order;
    if (order == PARLIN_STACKED)
        return PARLIN_SUCCESS;
    if (order != PARLIN_INTERLEAVED_HEADS && order != PARLIN_INTERLEAVED_GROUPS)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "load",
                              "%s is given in order %d, which is unknown", text, order);
    if (spec->kind != PARLIN_QKV || shard != PARLIN_WHOLE)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "load",
                              "%s is given in an interleaved order, which is for PARLIN_WHOLE of a "
                              "qkv layer alone",
                              text);
    if (order == PARLIN_INTERLEAVED_HEADS && spec->heads != spec->kv_heads)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "load",
                              "%s is given in order PARLIN_INTERLEAVED_HEADS, which needs as many "
                              "kv heads as heads; the layer has %zu kv heads and %zu heads",
                              text, spec->kv_heads, spec->heads);
    return PARLIN_SUCCESS;
}

/* Parts [first, first + count) are wanted from the tensor. */
static parlin_status check_tensor(const parlin_layer *layer, parlin_param param, parlin_shard shard,
                                  size_t first, size_t count, const parlin_host *tensor)
{
    const pl_spec *spec = &layer->spec;
    char text[PL_PARAM_TEXT];
    pl_param_text(layer, param, first, count, text);
    PL_TRY(check_order(layer, text, tensor, shard));
    size_t rows = pl_param_rows(layer, first, count);
    size_t cols = param == PARLIN_BIAS ? 1 : spec->in_features;
    if (parlin_dtype_size(tensor->dtype) == 0)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "load",
                              "%s is given in dtype %d, which is no element type", text,
                              (int)tensor->dtype);
    if (tensor->rows != rows || tensor->cols != cols)
        return pl_layer_error(spec, PARLIN_ERROR_SHAPE, "load",
                              "%s is given as (%zu, %zu), wanted (%zu, %zu)", text, tensor->rows,
                              tensor->cols, rows, cols);
    if (tensor->data == NULL)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "load", "%s is given at NULL", text);
    return PARLIN_SUCCESS;
}

/* out = the tensor's rows [row, row + rows) and columns `cols`, dense, converted. */
static void convert_block(const parlin_host *tensor, size_t row, size_t rows, pl_range cols,
                          parlin_dtype dtype, char *out, size_t out_pitch)
{
    ptrdiff_t from_size = (ptrdiff_t)parlin_dtype_size(tensor->dtype);
    for (size_t i = 0; i < rows; ++i) {
        ptrdiff_t at =
            (ptrdiff_t)(row + i) * tensor->row_stride + (ptrdiff_t)cols.start * tensor->col_stride;
        pl_convert(dtype, out + i * out_pitch, tensor->dtype,
                   (const char *)tensor->data + at * from_size, tensor->col_stride, cols.length);
    }
}

/* A block as lines of bytes that lie side by side; one of the strides is 1. */
static pl_lines lines_of(const parlin_host *tensor, size_t row, size_t rows, pl_range cols)
{
    size_t size = parlin_dtype_size(tensor->dtype);
    bool as_is = tensor->col_stride == 1;
    size_t across = as_is ? rows : cols.length, along = as_is ? cols.length : rows;
    ptrdiff_t at = (ptrdiff_t)row * tensor->row_stride + (ptrdiff_t)cols.start * tensor->col_stride;
    size_t stride = (size_t)(as_is ? tensor->row_stride : tensor->col_stride);
    return (pl_lines){.first = (const char *)tensor->data + at * (ptrdiff_t)size,
                      .pitch = stride * size,
                      .width = along * size,
                      .count = across};
}

static void convert_rows(const parlin_host *tensor, size_t row, size_t rows, pl_range cols,
                         parlin_dtype dtype, char *out, const pl_load_watch *watch)
{
    /* where columns lie apart (a transposed tensor), rows share cache lines: narrow strips */
    size_t strip = tensor->col_stride == 1 ? cols.length : 64;
    size_t to_size = parlin_dtype_size(dtype), pitch = cols.length * to_size;
    for (size_t col = 0; col < cols.length; col += strip) {
        pl_range wide = {cols.start + col, cols.length - col < strip ? cols.length - col : strip};
        size_t step = rows;
        if (watch != NULL && tensor->col_stride == 1) {
            pl_lines line = lines_of(tensor, row, 1, wide);
            step = watch->most_lines(line.pitch, line.width);
        }
        for (size_t i = 0; i < rows; i += step) {
            size_t here = rows - i < step ? rows - i : step;
            pl_lines lines = lines_of(tensor, row + i, here, wide);
            if (watch != NULL)
                watch->before(watch->user, &lines);
            convert_block(tensor, row + i, here, wide, dtype, out + i * pitch + col * to_size,
                          pitch);
            if (watch != NULL)
                watch->after(watch->user, &lines);
        }
    }
}

/* Loads one part: number `index` of those that the tensor holds. */
static parlin_status load_part(parlin_layer *layer, parlin_param param, const pl_slot *slot,
                               const pl_fused *fused, size_t index, const parlin_host *tensor,
                               char *chunk, size_t chunk_rows, const pl_load_watch *watch)
{
    pl_range cols = pl_param_cols(layer, param);
    pl_run run;
    for (size_t done = 0; pl_fused_next_run(fused, index, slot->range, done, &run);
         done += run.length)
        for (size_t row = 0; row < run.length; row += chunk_rows) {
            size_t rows = run.length - row < chunk_rows ? run.length - row : chunk_rows;
            convert_rows(tensor, run.source + row, rows, cols, pl_param_dtype(layer, param), chunk,
                         watch);
            PL_TRY(pl_param_write(layer, param, slot->at + run.target + row, rows, chunk));
        }
    return PARLIN_SUCCESS;
}

parlin_status pl_load_check(const parlin_layer *layer, parlin_param param, parlin_shard shard,
                            const parlin_host *tensor)
{
    size_t first, count;
    PL_TRY(pl_param_find(layer, "load", param, shard, &first, &count));
    return check_tensor(layer, param, shard, first, count, tensor);
}

parlin_status parlin_layer_load(parlin_layer *layer, parlin_param param, parlin_shard shard,
                                parlin_host tensor)
{
    if (layer == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_layer_load: layer is NULL");
    return pl_load(layer, param, shard, &tensor, NULL);
}

parlin_status pl_load(parlin_layer *layer, parlin_param param, parlin_shard shard,
                      const parlin_host *tensor, const pl_load_watch *watch)
{
    const pl_spec *spec = &layer->spec;
    size_t first, count;
    PL_TRY(pl_param_find(layer, "load", param, shard, &first, &count));
    PL_TRY(check_tensor(layer, param, shard, first, count, tensor));

    size_t row_bytes =
        pl_param_cols(layer, param).length * parlin_dtype_size(pl_param_dtype(layer, param));
    size_t most_rows = 0;
    for (size_t i = first; i < first + count; ++i) {
        size_t length = pl_slot_of(layer, param, i)->range.length;
        most_rows = length > most_rows ? length : most_rows;
    }
    size_t chunk_rows = pl_chunk_rows(row_bytes);
    chunk_rows = chunk_rows < most_rows ? chunk_rows : most_rows;
    char *chunk = malloc(chunk_rows * row_bytes);
    if (chunk == NULL)
        return pl_layer_error(spec, PARLIN_ERROR_MEMORY, "load", "no host memory for %zu bytes",
                              chunk_rows * row_bytes);

    /* from here on only the device can fail, and then the parts count as never loaded */
    for (size_t i = first; i < first + count; ++i)
        pl_slot_of(layer, param, i)->ready = false;
    pl_fused fused = {.order = tensor->order,
                      .parts = count,
                      .part_rows = spec->part_rows + first,
                      .heads = spec->heads,
                      .kv_heads = spec->kv_heads,
                      .head_size = spec->head_size,
                      .v_head_size = spec->v_head_size};
    parlin_status status = PARLIN_SUCCESS;
    for (size_t i = first; i < first + count && status == PARLIN_SUCCESS; ++i) {
        pl_slot *slot = pl_slot_of(layer, param, i);
        status = load_part(layer, param, slot, &fused, i - first, tensor, chunk, chunk_rows, watch);
        slot->ready = status == PARLIN_SUCCESS;
    }
    free(chunk);
    return status;
}
