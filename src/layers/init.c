/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values. Each belongs to a place in the full matrix, so that a rank makes its own slice
   and any number of ranks makes the same network. */
#include "layers/layer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "num/num.h"

parlin_status pl_init_check(const pl_spec *spec, parlin_init init, const char *field,
                            parlin_param param)
{
    int kind = (int)init.kind;
    double value = init.value;
    if (kind < PARLIN_INIT_NONE || kind > PARLIN_INIT_REFERENCE)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL, "%s.kind %d is unknown", field,
                              kind);
    if (param == PARLIN_BIAS && kind != PARLIN_INIT_NONE && !spec->common.bias)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "%s is given and the layer has no bias", field);
    if (param == PARLIN_BIAS &&
        (kind == PARLIN_INIT_HE_UNIFORM || kind == PARLIN_INIT_XAVIER_UNIFORM))
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "%s: he_uniform and xavier_uniform are for weights", field);
    bool is_bound = kind == PARLIN_INIT_UNIFORM || kind == PARLIN_INIT_NORMAL;
    bool is_used = is_bound || kind == PARLIN_INIT_CONSTANT || kind == PARLIN_INIT_HE_UNIFORM;
    if (is_used && !(fabs(value) <= FLT_MAX))
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "%s.value %g, wanted a finite float", field, value);
    if (is_bound && value < 0)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL, "%s.value %g, wanted 0 or more",
                              field, value);
    return PARLIN_SUCCESS;
}

/* What one part is filled with. fan_in = in_features, fan_out = rows of the full part. */
static pl_fill fill_of(const parlin_layer *layer, parlin_param param, size_t part)
{
    parlin_init init =
        param == PARLIN_BIAS ? layer->spec.common.bias_init : layer->spec.common.weight_init;
    double fan_in = (double)layer->spec.in_features;
    double fan_out = (double)layer->spec.part_rows[part];
    double value = init.value;
    pl_fill_kind kind = PL_FILL_UNIFORM;
    switch (init.kind) {
    case PARLIN_INIT_NONE:
    case PARLIN_INIT_ZEROS:
        kind = PL_FILL_CONSTANT;
        value = 0;
        break;
    case PARLIN_INIT_ONES:
        kind = PL_FILL_CONSTANT;
        value = 1;
        break;
    case PARLIN_INIT_CONSTANT:
        kind = PL_FILL_CONSTANT;
        break;
    case PARLIN_INIT_UNIFORM:
        break;
    case PARLIN_INIT_NORMAL:
        kind = PL_FILL_NORMAL;
        break;
    case PARLIN_INIT_HE_UNIFORM:
        value = sqrt(6 / ((1 + value * value) * fan_in));
        break;
    case PARLIN_INIT_XAVIER_UNIFORM:
        value = sqrt(6 / (fan_in + fan_out));
        break;
    case PARLIN_INIT_REFERENCE: /* he_uniform(sqrt 5) is this very bound */
        value = 1 / sqrt(fan_in);
        break;
    }
    /* Each part's weight and bias is a stream of its own: stream s of a layer has the number
       param_id + s * (2^64 / golden ratio). Ids of layers are small and do not meet. */
    uint64_t stream = 2 * (uint64_t)part + (param == PARLIN_BIAS);
    return (pl_fill){.kind = kind,
                     .value = (float)value,
                     .seed = layer->spec.common.seed,
                     .param_id = layer->param_id + stream * 0x9e3779b97f4a7c15u};
}

/* Local rows [row, row + rows) of a slot. A bias is filled as one row of the full part. */
static void fill_rows(const parlin_layer *layer, parlin_param param, const pl_fill *fill,
                      const pl_slot *slot, size_t row, size_t rows, float *out)
{
    size_t first = slot->range.start + row;
    pl_range cols = pl_param_cols(layer, param);
    if (param == PARLIN_BIAS) {
        pl_fill_row(fill, 0, first, rows, out);
        return;
    }
    for (size_t i = 0; i < rows; ++i)
        pl_fill_row(fill, first + i, cols.start, cols.length, out + i * cols.length);
}

parlin_status pl_init_param(parlin_layer *layer, parlin_param param)
{
    const pl_common *common = &layer->spec.common;
    parlin_init init = param == PARLIN_BIAS ? common->bias_init : common->weight_init;
    if (init.kind == PARLIN_INIT_NONE)
        return PARLIN_SUCCESS;
    size_t row_bytes = pl_param_cols(layer, param).length * sizeof(float);
    size_t chunk_rows = pl_chunk_rows(row_bytes);
    float *chunk = malloc(chunk_rows * row_bytes);
    if (chunk == NULL)
        return pl_layer_error(&layer->spec, PARLIN_ERROR_MEMORY, "creation",
                              "no host memory for %zu bytes", chunk_rows * row_bytes);
    parlin_status status = PARLIN_SUCCESS;
    for (size_t i = 0; i < layer->spec.parts && status == PARLIN_SUCCESS; ++i) {
        pl_slot *slot = pl_slot_of(layer, param, i);
        pl_fill fill = fill_of(layer, param, i);
        size_t length = slot->range.length;
        for (size_t row = 0; row < length && status == PARLIN_SUCCESS; row += chunk_rows) {
            size_t rows = length - row < chunk_rows ? length - row : chunk_rows;
            fill_rows(layer, param, &fill, slot, row, rows, chunk);
            status = pl_param_write(layer, param, slot->at + row, rows, chunk);
        }
        slot->ready = status == PARLIN_SUCCESS;
    }
    free(chunk);
    return status;
}
