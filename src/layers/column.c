/* SPDX-License-Identifier: Apache-2.0 */
/* The column layer: a merged layer of one part. */
#include "layers/layer.h"

#include <assert.h>

static_assert(offsetof(parlin_column_config, in_features) == sizeof(pl_common),
              "a configuration begins with the common fields");

parlin_column_config parlin_column_defaults(void)
{
    return (parlin_column_config){.struct_size = sizeof(parlin_column_config)};
}

static parlin_status check(const parlin_group *group, const parlin_column_config *config,
                           parlin_layer *const *layer, pl_spec *spec)
{
    PL_TRY(pl_spec_begin(spec, PARLIN_COLUMN, config, sizeof *config, layer));
    spec->in_features = config->in_features;
    spec->parts = 1;
    spec->part_rows = &config->out_features;
    spec->gather_output = config->gather_output;
    spec->activation = config->activation;
    PL_TRY(pl_spec_positive(spec, "in_features", config->in_features));
    PL_TRY(pl_spec_positive(spec, "out_features", config->out_features));
    PL_TRY(pl_spec_activation(spec));
    PL_TRY(pl_spec_total(spec));
    return pl_spec_units(spec, group, "out_features", config->out_features);
}

parlin_status parlin_column_create(parlin_group *group, const parlin_column_config *config,
                                   parlin_layer **layer)
{
    pl_spec spec = {0};
    if (group == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_column_create: group is NULL");
    return pl_layer_create(group, check(group, config, layer, &spec), &spec, layer);
}
