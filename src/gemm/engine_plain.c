/* SPDX-License-Identifier: Apache-2.0 */
/* The plain engine: one kernel, product and epilogue together. It serves everything. */
#include <stdio.h>

#include "core/status.h"
#include "gemm/engine.h"

/* As in kernels/gemm_plain.cl. */
#define TILE_ROWS 4
#define TILE_COLS 4

static parlin_status plain_kernel(pl_weight *weight, bool gated, bool several, cl_kernel *kernel)
{
    cl_kernel *kept = &weight->state->plain[gated][several];
    if (!*kept) {
        char options[64];
        snprintf(options, sizeof options, "-DGATED=%d -DTILE_ROWS=%d", gated,
                 several ? TILE_ROWS : 1);
        PL_TRY(pl_device_kernel(weight->device, "gemm_plain.cl", "gemm_plain", options, kept));
    }
    *kernel = *kept;
    return PARLIN_SUCCESS;
}

static parlin_status plain_multiply(pl_weight *weight, const parlin_tensor *x,
                                    const pl_epilogue *epilogue, size_t *done)
{
    const size_t row = *done, rows_left = x->rows - row;
    const bool several = rows_left > 1;
    const size_t tile_rows = several ? TILE_ROWS : 1;
    cl_kernel kernel;
    PL_TRY(plain_kernel(weight, epilogue->gated, several, &kernel));

    const cl_ulong x_offset = x->offset + row * x->row_stride, x_stride = x->row_stride;
    const cl_ulong rows = rows_left, in = weight->in, to_up = weight->out / 2;
    const cl_mem bias = epilogue->bias ? epilogue->bias : weight->buffer;
    const cl_int activation = (cl_int)epilogue->activation;
    cl_ulong first = 0;
    for (size_t block = 0; block < epilogue->block_count;) {
        pl_block_args blocks;
        const cl_ulong cols = pl_block_args_fill(&blocks, epilogue, &block, row, weight->buffer);
        if (cols == 0)
            continue;
        const pl_arg args[] = {PL_ARG(x->buffer), PL_ARG(x_offset),       PL_ARG(x_stride),
                               PL_ARG(rows),      PL_ARG(weight->buffer), PL_ARG(in),
                               PL_ARG(first),     PL_ARG(cols),           PL_ARG(to_up),
                               PL_ARG(bias),      PL_ARG(activation),     PL_BLOCK_ARGS(blocks)};
        const size_t global[] = {pl_round_items((cols + TILE_COLS - 1) / TILE_COLS),
                                 (rows_left + tile_rows - 1) / tile_rows};
        PL_TRY(
            pl_launch(weight->device, kernel, 2, global, NULL, args, sizeof args / sizeof *args));
        first += cols;
    }
    *done = x->rows;
    return PARLIN_SUCCESS;
}

const pl_engine pl_engine_plain = {"plain", plain_multiply};
