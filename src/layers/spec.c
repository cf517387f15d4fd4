/* SPDX-License-Identifier: Apache-2.0 */
/* What the configurations of the four kinds share: defaults, checks, and their sentences. */
#include "layers/layer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/size.h"

const char *pl_kind_name(parlin_kind kind)
{
    switch (kind) {
    case PARLIN_COLUMN:
        return "column";
    case PARLIN_MERGED:
        return "merged";
    case PARLIN_QKV:
        return "qkv";
    case PARLIN_ROW:
        return "row";
    }
    return "unknown";
}

parlin_status pl_layer_error(const pl_spec *spec, parlin_status status, const char *doing,
                             const char *format, ...)
{
    char sentence[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    return pl_error(status, "%s%s%s layer '%s': %s", doing == NULL ? "" : doing,
                    doing == NULL ? "" : " of ", pl_kind_name(spec->kind), spec->common.name,
                    sentence);
}

/* This version multiplies in f32 alone; the other types are known, and refused by name. */
static parlin_status check_dtype(const pl_spec *spec, const char *field, parlin_dtype dtype)
{
    if (parlin_dtype_size(dtype) == 0)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL, "%s %d is no element type", field,
                              (int)dtype);
    if (dtype != PARLIN_F32)
        return pl_layer_error(spec, PARLIN_ERROR_UNSUPPORTED, NULL,
                              "%s %s is not supported, wanted f32", field,
                              parlin_dtype_name(dtype));
    return PARLIN_SUCCESS;
}

static parlin_dtype dtype_or(parlin_dtype dtype, parlin_dtype otherwise)
{
    return dtype == PARLIN_DTYPE_DEFAULT ? otherwise : dtype;
}

parlin_status pl_spec_begin(pl_spec *spec, parlin_kind kind, const void *config, size_t config_size,
                            parlin_layer *const *layer)
{
    const char *kind_name = pl_kind_name(kind);
    spec->kind = kind;
    if (config == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_%s_create: config is NULL", kind_name);
    if (layer == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_%s_create: layer is NULL", kind_name);
    size_t struct_size = *(const size_t *)config;
    if (struct_size != config_size)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "parlin_%s_create: config.struct_size is %zu, wanted %zu as set by "
                        "parlin_%s_defaults",
                        kind_name, struct_size, config_size, kind_name);

    pl_common *common = &spec->common;
    memcpy(common, config, sizeof *common);
    if (common->name == NULL)
        common->name = kind_name;
    common->param_dtype = dtype_or(common->param_dtype, PARLIN_F32);
    common->compute_dtype = dtype_or(common->compute_dtype, common->param_dtype);
    common->output_dtype = dtype_or(common->output_dtype, common->param_dtype);
    PL_TRY(check_dtype(spec, "param_dtype", common->param_dtype));
    PL_TRY(check_dtype(spec, "compute_dtype", common->compute_dtype));
    PL_TRY(check_dtype(spec, "output_dtype", common->output_dtype));
    PL_TRY(pl_init_check(spec, common->weight_init, "weight_init", PARLIN_WEIGHT));
    return pl_init_check(spec, common->bias_init, "bias_init", PARLIN_BIAS);
}

parlin_status pl_spec_positive(const pl_spec *spec, const char *field, size_t value)
{
    if (value == 0)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL, "%s is 0, wanted 1 or more",
                              field);
    return PARLIN_SUCCESS;
}

parlin_status pl_spec_units(const pl_spec *spec, const parlin_group *group, const char *units,
                            size_t count)
{
    size_t p = (size_t)parlin_group_size(group);
    if (count < p)
        return pl_layer_error(spec, PARLIN_ERROR_SHAPE, NULL,
                              "%s %zu is fewer than the %zu ranks of the group", units, count, p);
    return PARLIN_SUCCESS;
}

parlin_status pl_spec_activation(const pl_spec *spec)
{
    int activation = (int)spec->activation;
    if (activation < PARLIN_NO_ACTIVATION || activation > PARLIN_SILU)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL, "activation %d is unknown",
                              activation);
    if (activation != PARLIN_NO_ACTIVATION && spec->common.skip_bias_add)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "activation with skip_bias_add is refused: the bias would come "
                              "after the activation");
    return PARLIN_SUCCESS;
}

parlin_status pl_spec_total(pl_spec *spec)
{
    size_t out = 0, elements, bytes;
    bool fits = true;
    for (size_t i = 0; i < spec->parts && fits; ++i)
        fits = pl_size_add(out, spec->part_rows[i], &out);
    fits = fits && pl_size_mul(out, spec->in_features, &elements) &&
           pl_size_mul(elements, parlin_dtype_size(spec->common.param_dtype), &bytes);
    if (!fits)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "in_features %zu and out_features are too large: the weight's bytes "
                              "do not fit size_t",
                              spec->in_features);
    spec->out_features = out;
    return PARLIN_SUCCESS;
}
