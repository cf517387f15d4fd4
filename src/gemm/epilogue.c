/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "gemm/engine.h"

/* As in kernels/epilogue.clh and epilogue.cl. */
#define HAS_BIAS      1u
#define ROWS_PER_ITEM 8

size_t pl_round_items(size_t n)
{
    return n <= 64 ? n : (n + 63) / 64 * 64;
}

/* Columns side by side: head borders need not be looked for. */
static bool dense(const parlin_heads *heads)
{
    return heads->heads <= 1 || heads->head_stride == heads->head_size;
}

size_t pl_block_args_fill(pl_block_args *args, const pl_epilogue *epilogue, size_t *block,
                          size_t row, cl_mem unused)
{
    size_t cols = 0;
    args->flags = epilogue->bias ? HAS_BIAS : 0;
    for (unsigned i = 0; i < PL_BLOCKS; i++) {
        cl_ulong *place = args->place[i].s;
        args->out[i] = args->residual[i] = unused;
        memset(place, 0, sizeof args->place[i]);
        if (*block < epilogue->block_count) {
            const pl_block *b = &epilogue->blocks[(*block)++];
            const parlin_heads *out = &b->out, *residual = &b->residual;
            const bool added = residual->buffer != NULL;
            const size_t block_cols = out->heads * out->head_size;
            const bool flat = dense(out) && (!added || dense(residual));
            cols += block_cols;
            if (out->buffer)
                args->out[i] = out->buffer;
            place[0] = out->offset + row * out->row_stride;
            place[1] = out->row_stride;
            place[2] = out->head_stride;
            place[3] = flat ? block_cols : out->head_size;
            if (added) {
                args->flags |= HAS_BIAS << (1 + i);
                args->residual[i] = residual->buffer;
                place[4] = residual->offset + row * residual->row_stride;
                place[5] = residual->row_stride;
                place[6] = residual->head_stride;
            }
        }
        place[7] = cols;
    }
    return cols;
}

static parlin_status epilogue_kernel(pl_weight *weight, const pl_epilogue *epilogue,
                                     cl_kernel *kernel)
{
    cl_kernel *kept = &weight->state->epilogue[epilogue->activation][epilogue->gated];
    if (!*kept) {
        char options[64];
        snprintf(options, sizeof options, "-DACTIVATION=%d -DGATED=%d", (int)epilogue->activation,
                 epilogue->gated);
        PL_TRY(pl_device_kernel(weight->device, "epilogue.cl", "epilogue", options, kept));
    }
    *kernel = *kept;
    return PARLIN_SUCCESS;
}

parlin_status pl_epilogue_run(pl_weight *weight, const pl_epilogue *epilogue, cl_mem product,
                              size_t row, size_t rows)
{
    cl_kernel kernel;
    PL_TRY(epilogue_kernel(weight, epilogue, &kernel));
    const cl_ulong rows_here = rows, stride = weight->out, to_up = weight->out / 2;
    const cl_mem bias = epilogue->bias ? epilogue->bias : product;
    cl_ulong first = 0;
    for (size_t block = 0; block < epilogue->block_count;) {
        pl_block_args blocks;
        const cl_ulong cols = pl_block_args_fill(&blocks, epilogue, &block, row, product);
        if (cols == 0)
            continue;
        const pl_arg args[] = {PL_ARG(product), PL_ARG(rows_here),    PL_ARG(stride),
                               PL_ARG(first),   PL_ARG(cols),         PL_ARG(to_up),
                               PL_ARG(bias),    PL_BLOCK_ARGS(blocks)};
        const size_t global[] = {pl_round_items(cols), (rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM};
        PL_TRY(
            pl_launch(weight->device, kernel, 2, global, NULL, args, sizeof args / sizeof *args));
        first += cols;
    }
    return PARLIN_SUCCESS;
}
