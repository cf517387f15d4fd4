/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, and tensors in host memory as they are given to a layer to load. */
#ifndef PARLIN_TYPES_H
#define PARLIN_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <parlin/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum parlin_dtype {
    PARLIN_DTYPE_DEFAULT = 0, /* in a configuration: as its comment says; elsewhere refused */
    PARLIN_F32 = 1,
    PARLIN_F16 = 2, /* IEEE binary16 */
    PARLIN_BF16 = 3 /* upper half of a binary32 */
} parlin_dtype;

/* Bytes of one element; 0 for a value that is no element type. Not collective. */
PARLIN_API size_t parlin_dtype_size(parlin_dtype dtype);

/* "f32", "f16", "bf16"; "unknown dtype" for anything else. Not collective. */
PARLIN_API const char *parlin_dtype_name(parlin_dtype dtype);

/* The order in which a stored tensor that holds query, key and value rows together has them. h:
   query head, kv: key/value head, d: row within a head. An interleaved order is for a whole qkv
   layer alone (PARLIN_WHOLE) and is refused with anything else. */
typedef enum parlin_qkv_order {
    PARLIN_STACKED = 0, /* all of q, then all of k, then all of v; merged: part after part */
    PARLIN_INTERLEAVED_HEADS =
        1, /* [h][q k v][d], as GPT-NeoX and BLOOM; needs as many kv heads as heads */
    PARLIN_INTERLEAVED_GROUPS = 2 /* [kv][q of its group.. k v][d], as Falcon */
} parlin_qkv_order;

/* A tensor in host memory, for parlin_layer_load: a weight (rows = out_features, cols =
   in_features) or a bias (rows = out_features, cols = 1). Strides are in elements and may be
   anything, negative too. Nothing is owned. */
typedef struct parlin_host {
    const void *data; /* address of element (0, 0); needs no alignment */
    parlin_dtype dtype;
    size_t rows;
    size_t cols;
    ptrdiff_t row_stride;
    ptrdiff_t col_stride;
    parlin_qkv_order order;
} parlin_host;

/* A matrix of (rows, cols), row-major and dense; more is said by changing the fields. Not
   collective. */
PARLIN_API parlin_host parlin_host_2d(const void *data, parlin_dtype dtype, size_t rows,
                                      size_t cols);

/* A vector of n elements, dense. Not collective. */
PARLIN_API parlin_host parlin_host_1d(const void *data, parlin_dtype dtype, size_t n);

/* The transposed view: for a weight stored (in_features, out_features), as GPT-2's Conv1D,
   parlin_host_transposed(parlin_host_2d(data, dtype, in, out)). Not collective. */
PARLIN_API parlin_host parlin_host_transposed(parlin_host tensor);

#ifdef __cplusplus
}
#endif

#endif
