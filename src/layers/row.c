/* SPDX-License-Identifier: Apache-2.0 */
/* The row layer: W's columns are cut, each rank has one term of the sum. */
#include "layers/layer.h"

#include <assert.h>

static_assert(offsetof(parlin_row_config, in_features) == sizeof(pl_common),
              "a configuration begins with the common fields");

parlin_row_config parlin_row_defaults(void)
{
    return (parlin_row_config){.struct_size = sizeof(parlin_row_config),
                               .bias = true,
                               .input_is_parallel = true,
                               .reduce_results = true};
}

/* Cuts the input where `like` cuts its output. Its columns (column, merged) are cut evenly, as
   the input would be without it; its heads (qkv) may not be. */
static parlin_status cut_like(pl_spec *spec, const parlin_group *group, const parlin_layer *like)
{
    const pl_spec *other = &like->spec;
    const char *other_kind = pl_kind_name(other->kind);
    const char *name = other->common.name;
    if (like->group != group)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "input_like, %s layer '%s', belongs to another group", other_kind,
                              name);
    if (other->kind == PARLIN_ROW || other->gather_output)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "input_like, %s layer '%s', gives its full output on every rank: it "
                              "is not cut",
                              other_kind, name);

    size_t columns = other->part_rows[0];
    if (other->kind == PARLIN_QKV) {
        columns = other->heads * other->v_head_size;
        spec->heads = other->heads;
        spec->kv_heads = other->kv_heads;
        spec->v_head_size = other->v_head_size;
    } else {
        for (size_t i = 1; i < other->parts; ++i)
            if (other->part_rows[i] != columns)
                return pl_layer_error(spec, PARLIN_ERROR_SHAPE, NULL,
                                      "input_like, %s layer '%s', has parts of %zu and %zu "
                                      "out_features, wanted equal ones",
                                      other_kind, name, columns, other->part_rows[i]);
    }
    if (spec->in_features != columns)
        return pl_layer_error(
            spec, PARLIN_ERROR_SHAPE, NULL,
            "in_features %zu does not fit input_like, %s layer '%s', wanted %zu%s",
            spec->in_features, other_kind, name, columns,
            other->kind == PARLIN_QKV ? " (total_num_heads times v_head_size)" : "");
    return PARLIN_SUCCESS;
}

static parlin_status check(const parlin_group *group, const parlin_row_config *config,
                           parlin_layer *const *layer, pl_spec *spec)
{
    PL_TRY(pl_spec_begin(spec, PARLIN_ROW, config, sizeof *config, layer));
    spec->in_features = config->in_features;
    spec->parts = 1;
    spec->part_rows = &config->out_features;
    spec->input_is_parallel = config->input_is_parallel;
    spec->reduce_results = config->reduce_results;
    PL_TRY(pl_spec_positive(spec, "in_features", config->in_features));
    PL_TRY(pl_spec_positive(spec, "out_features", config->out_features));
    if (config->bias && !config->skip_bias_add && !config->reduce_results)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "reduce_results false with a bias is refused, as the bias would "
                              "enter once for each rank: set skip_bias_add or leave the bias out");
    PL_TRY(pl_spec_total(spec));
    if (config->input_like != NULL)
        PL_TRY(cut_like(spec, group, config->input_like));
    return pl_spec_units(spec, group, "in_features", config->in_features);
}

parlin_status parlin_row_create(parlin_group *group, const parlin_row_config *config,
                                parlin_layer **layer)
{
    pl_spec spec = {0};
    if (group == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_row_create: group is NULL");
    return pl_layer_create(group, check(group, config, layer, &spec), &spec, layer);
}
