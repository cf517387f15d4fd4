/* SPDX-License-Identifier: Apache-2.0 */
/* The qkv layer: heads are cut, and each rank holds the key/value heads that its query heads
   read. */
#include "layers/layer.h"

#include <assert.h>

#include "core/size.h"

static_assert(offsetof(parlin_qkv_config, hidden_size) == sizeof(pl_common),
              "a configuration begins with the common fields");

parlin_qkv_config parlin_qkv_defaults(void)
{
    return (parlin_qkv_config){.struct_size = sizeof(parlin_qkv_config), .bias = true};
}

static size_t or_else(size_t value, size_t otherwise)
{
    return value == 0 ? otherwise : value;
}

/* Rows of one part: heads of a size. */
static parlin_status part_rows(const pl_spec *spec, const char *part, size_t heads, size_t size,
                               size_t *rows)
{
    if (!pl_size_mul(heads, size, rows))
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "%zu %s heads of size %zu are too large for size_t", heads, part,
                              size);
    return PARLIN_SUCCESS;
}

/* `rows` is where the parts' rows are kept for the time of the creation. */
static parlin_status check(const parlin_group *group, const parlin_qkv_config *config,
                           parlin_layer *const *layer, size_t rows[3], pl_spec *spec)
{
    PL_TRY(pl_spec_begin(spec, PARLIN_QKV, config, sizeof *config, layer));
    PL_TRY(pl_spec_positive(spec, "hidden_size", config->hidden_size));
    PL_TRY(pl_spec_positive(spec, "head_size", config->head_size));
    PL_TRY(pl_spec_positive(spec, "total_num_heads", config->total_num_heads));
    spec->in_features = config->hidden_size;
    spec->heads = config->total_num_heads;
    spec->kv_heads = or_else(config->total_num_kv_heads, spec->heads);
    spec->head_size = config->head_size;
    spec->v_head_size = or_else(config->v_head_size, spec->head_size);
    if (spec->heads % spec->kv_heads != 0)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, NULL,
                              "total_num_heads %zu is not a multiple of total_num_kv_heads %zu",
                              spec->heads, spec->kv_heads);
    PL_TRY(pl_spec_units(spec, group, "total_num_heads", spec->heads));
    PL_TRY(part_rows(spec, "query", spec->heads, spec->head_size, &rows[0]));
    PL_TRY(part_rows(spec, "key", spec->kv_heads, spec->head_size, &rows[1]));
    PL_TRY(part_rows(spec, "value", spec->kv_heads, spec->v_head_size, &rows[2]));
    spec->parts = 3;
    spec->part_rows = rows;
    return pl_spec_total(spec);
}

parlin_status parlin_qkv_create(parlin_group *group, const parlin_qkv_config *config,
                                parlin_layer **layer)
{
    size_t rows[3];
    pl_spec spec = {0};
    if (group == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_qkv_create: group is NULL");
    return pl_layer_create(group, check(group, config, layer, rows, &spec), &spec, layer);
}

static pl_heads_cut local_cut(const parlin_layer *qkv)
{
    return pl_heads_cut_of(qkv->spec.heads, qkv->spec.kv_heads, qkv->size, qkv->rank);
}

parlin_qkv_shape parlin_qkv_local(const parlin_layer *qkv)
{
    if (qkv == NULL || qkv->spec.kind != PARLIN_QKV)
        return (parlin_qkv_shape){0};
    pl_heads_cut cut = local_cut(qkv);
    return (parlin_qkv_shape){
        .heads = cut.heads.length,
        .kv_heads = cut.kv_heads.length,
        .first_head = cut.heads.start,
        .first_kv_head = cut.kv_heads.start,
        .head_size = qkv->spec.head_size,
        .v_head_size = qkv->spec.v_head_size,
    };
}

size_t parlin_qkv_kv_head(const parlin_layer *qkv, size_t head)
{
    if (qkv == NULL || qkv->spec.kind != PARLIN_QKV)
        return SIZE_MAX;
    pl_heads_cut cut = local_cut(qkv);
    if (head >= cut.heads.length)
        return SIZE_MAX;
    return pl_heads_local_kv(&cut, qkv->spec.heads, qkv->spec.kv_heads, head);
}
