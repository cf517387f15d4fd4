/* SPDX-License-Identifier: Apache-2.0 */
/* Bias, activation, gating, residual and scatter of a finished product, in one pass.

     product (rows, stride), its columns [first, first + cols) ->  up to three views of heads

   A work-item has one output column and ROWS_PER_ITEM rows: neighbours touch neighbouring
   columns, and finding the column's place is paid once for all its rows.

     work-item (g, h):  column g,  rows [h * ROWS_PER_ITEM, ..)

   Any work-group size will do. */
#include "epilogue.clh"

#ifndef ACTIVATION
#define ACTIVATION 0
#endif
#ifndef GATED
#define GATED 0
#endif
#ifndef ROWS_PER_ITEM
#define ROWS_PER_ITEM 8
#endif

/* to_up: from a gate's column to its up's. */
__kernel void epilogue(__global const float *product, ulong rows, ulong stride, ulong first,
                       ulong cols, ulong to_up, __global const float *bias, BLOCK_PARAMETERS)
{
    const ulong column = get_global_id(0);
    const ulong start = (ulong)get_global_id(1) * ROWS_PER_ITEM;
    if (column >= cols)
        return;
    const ulong stop = min(start + ROWS_PER_ITEM, rows);
    const target to = FIND_TARGET(column);
    __global const float *from = product + first + column;

    float b = 0.0f;
    if (flags & HAS_BIAS)
        b = bias[first + column];
#if GATED
    float b_up = 0.0f;
    if (flags & HAS_BIAS)
        b_up = bias[first + column + to_up];
#endif

    for (ulong i = start; i < stop; i++) {
        float y = activate(ACTIVATION, from[i * stride] + b);
#if GATED
        y *= from[i * stride + to_up] + b_up;
#endif
        if (to.has_residual)
            y += to.residual[i * to.residual_row_stride];
        to.out[i * to.row_stride] = y;
    }
}
