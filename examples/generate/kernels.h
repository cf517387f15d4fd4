/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own kernels (kernels.cl), on parlin's device and in its queue. Each call enqueues
   one; errors are kept as errors.h says. */
#ifndef GENERATE_KERNELS_H
#define GENERATE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include <parlin/opencl.h>
#include <parlin/tensor.h>

typedef struct kernels {
    cl_command_queue queue;
    size_t head_size;
    size_t group; /* work-items of a work-group */
    cl_kernel take, norm, rotate, attend;
} kernels;

bool kernels_open(kernels *k, parlin_device *device, size_t head_size);
void kernels_close(kernels *k);

/* y (rows, cols) = the rows of `table` (any dtype) that `ids` names; ids holds int32. */
bool kernels_take(const kernels *k, parlin_tensor table, parlin_tensor ids, parlin_tensor y);

/* y = RMSNorm of x; weight (1, cols). */
bool kernels_norm(const kernels *k, parlin_tensor x, parlin_tensor weight, double epsilon,
                  parlin_tensor y);

/* Rotates heads in place, row 0 at position `first`. turns (positions, head_size): cos, sin. */
bool kernels_rotate(const kernels *k, parlin_heads heads, parlin_tensor turns, size_t first);

/* out = attention of q (rows, heads * head_size) to the cache, keys and values each (kv heads *
   positions, head_size), row 0 at position `first`. kv_of holds int32, the local kv head of each
   query head. */
bool kernels_attend(const kernels *k, parlin_tensor q, parlin_tensor keys, parlin_tensor values,
                    size_t positions, parlin_tensor kv_of, size_t first, parlin_tensor out);

#endif
