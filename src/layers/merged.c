/* SPDX-License-Identifier: Apache-2.0 */
/* The merged column layer: each part is cut by itself, and the local pieces stand one after the
   other in one weight, so that one product serves them all. */
#include "layers/layer.h"

#include <assert.h>
#include <stdio.h>

static_assert(offsetof(parlin_merged_config, in_features) == sizeof(pl_common),
              "a configuration begins with the common fields");

parlin_merged_config parlin_merged_defaults(void)
{
    return (parlin_merged_config){.struct_size = sizeof(parlin_merged_config), .bias = true};
}

static parlin_status check_gated(const pl_spec *spec)
{
    const size_t *rows = spec->part_rows;
    if (spec->parts != 2)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "gated has %zu parts, wanted exactly 2", spec->parts);
    if (rows[0] != rows[1])
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "gated has parts of %zu and %zu out_features, wanted equal ones",
                              rows[0], rows[1]);
    if (spec->activation == PARLIN_NO_ACTIVATION)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "gated has no activation, wanted one");
    return PARLIN_SUCCESS;
}

static parlin_status check(const parlin_group *group, const parlin_merged_config *config,
                           parlin_layer *const *layer, pl_spec *spec)
{
    PL_TRY(pl_spec_begin(spec, PARLIN_MERGED, config, sizeof *config, layer));
    spec->in_features = config->in_features;
    spec->part_rows = config->out_features;
    spec->gather_output = config->gather_output;
    spec->activation = config->activation;
    spec->gated = config->gated;
    PL_TRY(pl_spec_positive(spec, "in_features", config->in_features));
    PL_TRY(pl_spec_positive(spec, "parts", config->parts));
    if (config->out_features == NULL)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "out_features is NULL, wanted %zu numbers", config->parts);
    spec->parts = config->parts;
    for (size_t i = 0; i < spec->parts; ++i) {
        char field[64];
        snprintf(field, sizeof field, "out_features[%zu]", i);
        PL_TRY(pl_spec_positive(spec, field, spec->part_rows[i]));
        PL_TRY(pl_spec_units(spec, group, field, spec->part_rows[i]));
    }
    PL_TRY(pl_spec_activation(spec));
    if (spec->gated)
        PL_TRY(check_gated(spec));
    return pl_spec_total(spec);
}

parlin_status parlin_merged_create(parlin_group *group, const parlin_merged_config *config,
                                   parlin_layer **layer)
{
    pl_spec spec = {0};
    if (group == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_merged_create: group is NULL");
    return pl_layer_create(group, check(group, config, layer, &spec), &spec, layer);
}
