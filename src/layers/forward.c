/* SPDX-License-Identifier: Apache-2.0 */
/* Forward. Each call checks, enqueues one product whose epilogue writes straight into its
   target, and joins the ranks' products where the layer has a collective.

   What a rank finds wrong before a collective is not returned at once: it travels, so that no
   rank waits for one that left. Nothing here allocates or formats text unless it fails. */
#include "layers/layer.h"

/* --- checks --- */

static parlin_status check_ready(const parlin_layer *layer)
{
    const pl_spec *spec = &layer->spec;
    PL_TRY(pl_param_ready(layer, "forward", PARLIN_WEIGHT, 0, spec->parts));
    if (spec->common.bias)
        PL_TRY(pl_param_ready(layer, "forward", PARLIN_BIAS, 0, spec->parts));
    return PARLIN_SUCCESS;
}

static parlin_status check_dtype(const parlin_layer *layer, pl_label label, parlin_dtype given,
                                 parlin_dtype wanted)
{
    if (given != wanted)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s is %s, wanted %s", layer->labels[label],
                        parlin_dtype_name(given), parlin_dtype_name(wanted));
    return PARLIN_SUCCESS;
}

static parlin_status check_tensor(const parlin_layer *layer, pl_label label,
                                  const parlin_tensor *tensor, parlin_dtype dtype, size_t rows,
                                  size_t cols)
{
    PL_TRY(pl_tensor_check(layer->device, tensor, layer->labels[label]));
    PL_TRY(check_dtype(layer, label, tensor->dtype, dtype));
    if (tensor->rows != rows || tensor->cols != cols)
        return pl_error(PARLIN_ERROR_SHAPE, "%s is (%zu, %zu), wanted (%zu, %zu)",
                        layer->labels[label], tensor->rows, tensor->cols, rows, cols);
    return PARLIN_SUCCESS;
}

static parlin_status check_x(const parlin_layer *layer, const parlin_tensor *x)
{
    const pl_spec *spec = &layer->spec;
    size_t cols = spec->input_is_parallel ? layer->input.length : spec->in_features;
    return check_tensor(layer, PL_LABEL_X, x, spec->common.compute_dtype, x->rows, cols);
}

static parlin_status check_heads(const parlin_layer *layer, pl_label label, const parlin_heads *out,
                                 size_t rows, size_t heads, size_t head_size)
{
    PL_TRY(pl_heads_check(layer->device, out, layer->labels[label]));
    PL_TRY(pl_writable_check(out->buffer, false, layer->labels[label]));
    PL_TRY(check_dtype(layer, label, out->dtype, layer->spec.common.output_dtype));
    if (out->rows != rows || out->heads != heads || out->head_size != head_size)
        return pl_error(PARLIN_ERROR_SHAPE, "%s is (%zu, %zu, %zu), wanted (%zu, %zu, %zu)",
                        layer->labels[label], out->rows, out->heads, out->head_size, rows, heads,
                        head_size);
    return PARLIN_SUCCESS;
}

static parlin_status check_residual(const parlin_layer *layer, const parlin_tensor *residual,
                                    const parlin_tensor *y)
{
    const pl_spec *spec = &layer->spec;
    if (spec->kind == PARLIN_QKV)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "forward",
                              "a qkv layer takes no residual");
    if (spec->kind == PARLIN_ROW && !spec->reduce_results)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "forward",
                              "reduce_results false takes no residual, as it would enter once for "
                              "each rank");
    PL_TRY(check_tensor(layer, PL_LABEL_RESIDUAL, residual, spec->common.output_dtype, y->rows,
                        y->cols));
    if (!pl_tensor_same(residual, y) && pl_tensor_overlap(residual, y))
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "forward",
                              "residual overlaps y and is not y itself");
    return PARLIN_SUCCESS;
}

static parlin_status check(const parlin_layer *layer, const parlin_tensor *x,
                           const parlin_tensor *residual, const parlin_tensor *y)
{
    const pl_spec *spec = &layer->spec;
    PL_TRY(check_ready(layer));
    PL_TRY(check_x(layer, x));
    PL_TRY(
        check_tensor(layer, PL_LABEL_Y, y, spec->common.output_dtype, x->rows, layer->output_cols));
    PL_TRY(pl_writable_check(y->buffer, layer->collective, layer->labels[PL_LABEL_Y]));
    if (pl_tensor_overlap(x, y))
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "forward", "y overlaps x");
    return residual == NULL ? PARLIN_SUCCESS : check_residual(layer, residual, y);
}

static parlin_status wait_for(const parlin_layer *layer, cl_uint count, const cl_event *events)
{
    if (count == 0)
        return PARLIN_SUCCESS;
    if (events == NULL)
        return pl_layer_error(&layer->spec, PARLIN_ERROR_ARGUMENT, "forward",
                              "events is NULL, count is %u", (unsigned)count);
    parlin_status status = pl_queue_after(layer->device, count, events);
    if (status != PARLIN_SUCCESS)
        return pl_layer_error(&layer->spec, status, "forward", "%s", parlin_last_error());
    return PARLIN_SUCCESS;
}

/* --- the product --- */

/* This rank's product into layer->blocks[0 .. count). */
static parlin_status run(parlin_layer *layer, const parlin_tensor *x, size_t count)
{
    if (x->rows == 0)
        return PARLIN_SUCCESS;
    const pl_spec *spec = &layer->spec;
    parlin_tensor input = *x;
    if (spec->kind == PARLIN_ROW && !spec->input_is_parallel)
        input = parlin_tensor_cols(input, layer->input.start, layer->input.length);
    pl_epilogue epilogue = {.bias = layer->added_bias,
                            .activation = spec->activation,
                            .gated = spec->gated,
                            .block_count = count,
                            .blocks = layer->blocks};
    return pl_gemm(layer->weight, &input, &epilogue);
}

/* This rank's product, (rows, product_cols), into `out`. The residual is as wide as y: where
   that is wider (a gather), this rank takes its own columns of each part from it. */
static parlin_status product(parlin_layer *layer, const parlin_tensor *x,
                             const parlin_tensor *residual, const parlin_tensor *out)
{
    pl_block *blocks = layer->blocks;
    if (residual == NULL || residual->cols == out->cols) {
        blocks[0].out = pl_heads_of_tensor(out);
        blocks[0].residual = residual == NULL ? (parlin_heads){0} : pl_heads_of_tensor(residual);
        return run(layer, x, 1);
    }
    size_t full = 0, local = 0;
    for (size_t i = 0; i < layer->output_parts; ++i) {
        pl_range range = layer->parts[i].weight.range;
        parlin_tensor to = parlin_tensor_cols(*out, local, range.length);
        parlin_tensor add = parlin_tensor_cols(*residual, full + range.start, range.length);
        blocks[i].out = pl_heads_of_tensor(&to);
        blocks[i].residual = pl_heads_of_tensor(&add);
        local += range.length;
        full += layer->spec.part_rows[i];
    }
    return run(layer, x, layer->output_parts);
}

/* --- joining the ranks --- */

/* This rank's product in scratch memory, as `mine`: y stays as it is until all ranks agree. */
static parlin_status product_apart(parlin_layer *layer, const parlin_tensor *x,
                                   const parlin_tensor *residual, pl_scratch *scratch,
                                   parlin_tensor *mine)
{
    size_t cols = layer->product_cols;
    *mine = parlin_tensor_wrap(NULL, layer->spec.common.output_dtype, 0, x->rows, cols, cols);
    if (x->rows == 0)
        return PARLIN_SUCCESS;
    /* no larger than y, whose size was checked */
    size_t bytes = x->rows * cols * parlin_dtype_size(mine->dtype);
    PL_TRY(pl_scratch_take(layer->device, bytes, scratch));
    mine->buffer = scratch->buffer;
    mine->device = layer->device;
    /* the sum takes the residual once, from rank 0 */
    bool adds = layer->spec.gather_output || layer->rank == 0;
    return product(layer, x, adds ? residual : NULL, mine);
}

static parlin_status forward_joined(parlin_layer *layer, parlin_status local,
                                    const parlin_tensor *x, const parlin_tensor *residual,
                                    const parlin_tensor *y)
{
    static const char *const operations[] = {[PARLIN_COLUMN] = "column layer forward",
                                             [PARLIN_MERGED] = "merged layer forward",
                                             [PARLIN_ROW] = "row layer forward"};
    static const char *const names[] = {"layer", "rows", "in_features", "out_features", "residual"};
    const pl_spec *spec = &layer->spec;
    const pl_call call = {
        .operation = operations[spec->kind],
        .object = spec->common.name,
        .names = names,
        .number = {layer->number, x->rows, spec->in_features, spec->out_features, residual != NULL},
        .count = sizeof names / sizeof *names};
    pl_scratch scratch = {0};
    parlin_tensor mine = {0};
    if (local == PARLIN_SUCCESS)
        local = product_apart(layer, x, residual, &scratch, &mine);
    parlin_status status = spec->gather_output
                               ? pl_all_gather(layer->group, local, &call, 1, layer->output_parts,
                                               layer->lengths, &mine, y)
                               : pl_all_reduce(layer->group, local, &call, &mine, y);
    pl_scratch_give(layer->device, &scratch);
    return status;
}

/* --- the calls --- */

static parlin_status forward(parlin_layer *layer, const parlin_tensor *x,
                             const parlin_tensor *residual, const parlin_tensor *y, cl_uint count,
                             const cl_event *events)
{
    if (layer == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_layer_forward: layer is NULL");
    parlin_status local = check(layer, x, residual, y);
    if (local == PARLIN_SUCCESS)
        local = wait_for(layer, count, events);
    if (layer->collective)
        return forward_joined(layer, local, x, residual, y);
    return local == PARLIN_SUCCESS ? product(layer, x, residual, y) : local;
}

parlin_status parlin_layer_forward(parlin_layer *layer, parlin_tensor x, parlin_tensor y)
{
    return forward(layer, &x, NULL, &y, 0, NULL);
}

parlin_status parlin_layer_forward_residual(parlin_layer *layer, parlin_tensor x,
                                            parlin_tensor residual, parlin_tensor y)
{
    return forward(layer, &x, &residual, &y, 0, NULL);
}

parlin_status parlin_layer_forward_after(parlin_layer *layer, parlin_tensor x, parlin_tensor y,
                                         cl_uint count, const cl_event *events, cl_event *done)
{
    PL_TRY(forward(layer, &x, NULL, &y, count, events));
    return done == NULL ? PARLIN_SUCCESS : pl_queue_mark(layer->device, done);
}

parlin_status parlin_qkv_forward(parlin_layer *qkv, parlin_tensor x, parlin_heads q, parlin_heads k,
                                 parlin_heads v)
{
    return parlin_qkv_forward_after(qkv, x, q, k, v, 0, NULL, NULL);
}

/* Refuses q, k, v that share elements with each other or with x. */
static parlin_status check_apart(const parlin_layer *qkv, const parlin_tensor *x,
                                 const parlin_heads *out)
{
    static const char names[] = "qkv";
    for (size_t i = 0; i < 3; ++i) {
        if (pl_heads_tensor_overlap(&out[i], x))
            return pl_layer_error(&qkv->spec, PARLIN_ERROR_ARGUMENT, "forward", "%c overlaps x",
                                  names[i]);
        for (size_t j = 0; j < i; ++j)
            if (pl_heads_overlap(&out[i], &out[j]))
                return pl_layer_error(&qkv->spec, PARLIN_ERROR_ARGUMENT, "forward",
                                      "%c overlaps %c", names[i], names[j]);
    }
    return PARLIN_SUCCESS;
}

parlin_status parlin_qkv_forward_after(parlin_layer *qkv, parlin_tensor x, parlin_heads q,
                                       parlin_heads k, parlin_heads v, cl_uint count,
                                       const cl_event *events, cl_event *done)
{
    if (qkv == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_qkv_forward: qkv is NULL");
    const pl_spec *spec = &qkv->spec;
    if (spec->kind != PARLIN_QKV)
        return pl_layer_error(spec, PARLIN_ERROR_ARGUMENT, "forward",
                              "q, k and v are for a qkv layer alone");
    size_t head_size = spec->head_size, v_head_size = spec->v_head_size;
    size_t heads = qkv->parts[0].weight.range.length / head_size;
    size_t kv_heads = qkv->parts[1].weight.range.length / head_size;
    const parlin_heads out[3] = {q, k, v};
    PL_TRY(check_ready(qkv));
    PL_TRY(check_x(qkv, &x));
    PL_TRY(check_heads(qkv, PL_LABEL_Q, &q, x.rows, heads, head_size));
    PL_TRY(check_heads(qkv, PL_LABEL_K, &k, x.rows, kv_heads, head_size));
    PL_TRY(check_heads(qkv, PL_LABEL_V, &v, x.rows, kv_heads, v_head_size));
    PL_TRY(check_apart(qkv, &x, out));
    PL_TRY(wait_for(qkv, count, events));
    for (size_t i = 0; i < 3; ++i)
        qkv->blocks[i] = (pl_block){.out = out[i]};
    PL_TRY(run(qkv, &x, 3));
    return done == NULL ? PARLIN_SUCCESS : pl_queue_mark(qkv->device, done);
}
