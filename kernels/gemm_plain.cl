/* SPDX-License-Identifier: Apache-2.0 */
/* The plain product, Y = epilogue(X W^T), for any device and any size.

     X (rows, in), row stride x_stride     W (out, in), dense     Y: up to three views of heads

   A work-item forms TILE_ROWS x TILE_COLS outputs, each the dot product of a row of X and a row
   of W, both of which lie dense in memory:

              k ->                        work-item (g, h):
        X  [ . . . . . . . . ]  TILE_ROWS   rows    [h * TILE_ROWS, ..)
        W  [ . . . . . . . . ]  TILE_COLS   columns [g * TILE_COLS, ..)

   The order of summation depends on `in` alone: LANES interleaved partial sums by fma, then the
   tail, then their sum. So an output has the same bits whatever tile it is in. At the edges a
   tile repeats the last row or column and does not store it. Any work-group size will do. */
#include "epilogue.clh"

#ifndef GATED
#define GATED 0
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 4
#endif
#define TILE_COLS 4
#define LANES 8

/* sum[i][j] = x[x_at[i] ..] . w[w_at[j] ..] over `in` elements */
inline void dot_tile(__global const float *x, const ulong *x_at, __global const float *w,
                     const ulong *w_at, ulong in, float *sum)
{
    const ulong whole = in - in % LANES;
    float8 acc[TILE_ROWS * TILE_COLS];
#pragma unroll
    for (int t = 0; t < TILE_ROWS * TILE_COLS; t++)
        acc[t] = (float8)(0.0f);
    for (ulong k = 0; k < whole; k += LANES) {
        float8 xs[TILE_ROWS];
#pragma unroll
        for (int i = 0; i < TILE_ROWS; i++)
            xs[i] = vload8(0, x + x_at[i] + k);
#pragma unroll
        for (int j = 0; j < TILE_COLS; j++) {
            const float8 ws = vload8(0, w + w_at[j] + k);
#pragma unroll
            for (int i = 0; i < TILE_ROWS; i++)
                acc[i * TILE_COLS + j] = fma(xs[i], ws, acc[i * TILE_COLS + j]);
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_ROWS; i++) {
#pragma unroll
        for (int j = 0; j < TILE_COLS; j++) {
            float tail = 0.0f;
            for (ulong k = whole; k < in; k++)
                tail = fma(x[x_at[i] + k], w[w_at[j] + k], tail);
            const float8 a = acc[i * TILE_COLS + j];
            const float4 b = a.lo + a.hi;
            sum[i * TILE_COLS + j] = ((b.s0 + b.s1) + (b.s2 + b.s3)) + tail;
        }
    }
}

/* Columns [first, first + cols) of the product. to_up: from a gate's column to its up's. */
__kernel void gemm_plain(__global const float *x, ulong x_offset, ulong x_stride, ulong rows,
                         __global const float *w, ulong in, ulong first, ulong cols, ulong to_up,
                         __global const float *bias, int activation, BLOCK_PARAMETERS)
{
    const ulong column = (ulong)get_global_id(0) * TILE_COLS;
    const ulong row = (ulong)get_global_id(1) * TILE_ROWS;
    if (column >= cols || row >= rows)
        return;

    ulong x_at[TILE_ROWS], w_at[TILE_COLS];
#pragma unroll
    for (int i = 0; i < TILE_ROWS; i++)
        x_at[i] = x_offset + min(row + i, rows - 1) * x_stride;
#pragma unroll
    for (int j = 0; j < TILE_COLS; j++)
        w_at[j] = (first + min(column + j, cols - 1)) * in;

    float z[TILE_ROWS * TILE_COLS];
    dot_tile(x, x_at, w, w_at, in, z);
#if GATED
    float up[TILE_ROWS * TILE_COLS];
#pragma unroll
    for (int j = 0; j < TILE_COLS; j++)
        w_at[j] += to_up * in;
    dot_tile(x, x_at, w, w_at, in, up);
#endif

#pragma unroll
    for (int j = 0; j < TILE_COLS; j++) {
        const ulong c = column + j;
        if (c < cols) {
            const target to = FIND_TARGET(c);
            float b = 0.0f, b_up = 0.0f;
            if (flags & HAS_BIAS) {
                b = bias[first + c];
#if GATED
                b_up = bias[first + c + to_up];
#endif
            }
#pragma unroll
            for (int i = 0; i < TILE_ROWS; i++)
                if (row + i < rows) {
                    float y = activate(activation, z[i * TILE_COLS + j] + b);
#if GATED
                    y *= up[i * TILE_COLS + j] + b_up;
#endif
                    if (to.has_residual)
                        y += to.residual[(row + i) * to.residual_row_stride];
                    to.out[(row + i) * to.row_stride] = y;
                }
        }
    }
}
