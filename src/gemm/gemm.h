/* SPDX-License-Identifier: Apache-2.0 */
/* The product: Y = epilogue(X W^T). rows, in = k, out = n. Arguments are trusted: layers check
   them. */
#ifndef PL_GEMM_H
#define PL_GEMM_H

#include <parlin/layer.h>

#include "device/device.h"

/* A weight of (out, in) on a device, in the layout that its engine wants. */
typedef struct pl_weight pl_weight;

/* Contents undefined. out and in >= 1. */
parlin_status pl_weight_create(parlin_device *device, parlin_dtype dtype, size_t out, size_t in,
                               pl_weight **weight);
void pl_weight_destroy(pl_weight *weight);
size_t pl_weight_bytes(const pl_weight *weight);

/* Rows [row, row + rows), columns [0, in), between the weight and dense host memory of its
   dtype. Blocking. */
parlin_status pl_weight_write(pl_weight *weight, size_t row, size_t rows, const void *host);
parlin_status pl_weight_read(const pl_weight *weight, size_t row, size_t rows, void *host);

/* A run of the product's columns and where it goes. Columns are counted after gating. out.heads
   * out.head_size columns; element (i, c) goes to out at (i, c / head_size, c % head_size). */
typedef struct pl_block {
    parlin_heads out;
    parlin_heads residual; /* same shape, added last; buffer NULL: none. May be `out` itself */
} pl_block;

/* Y = act(X W^T + b) + residual; gated: Y = act(left half) * right half + residual. */
typedef struct pl_epilogue {
    cl_mem bias; /* `out` f32 values; NULL: none */
    parlin_activation activation;
    bool gated;
    size_t block_count; /* >= 1; the blocks' columns add up to out, gated: to out / 2 */
    const pl_block *blocks;
} pl_epilogue;

/* Enqueues the product for x.rows >= 1 rows; what an output held before has no part in the
   result, except as its own residual. x is (rows, in), of the device. */
parlin_status pl_gemm(pl_weight *weight, const parlin_tensor *x, const pl_epilogue *epilogue);

/* Which engine ran the last product of this weight: "plain", "clblast", or "none". */
const char *pl_weight_engine(const pl_weight *weight);

#endif
