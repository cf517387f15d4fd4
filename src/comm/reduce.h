/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in rank order. */
#ifndef PL_COMM_REDUCE_H
#define PL_COMM_REDUCE_H

#include <stddef.h>

/* out[i] = ((part_0[i] + part_1[i]) + ..) + part_(p-1)[i], i < n, each + rounded to f32. Part q
   is parts + q * stride, but for q == own, which is own_part. out may be one of the parts. */
void pl_sum_in_order(float *out, size_t n, int p, const float *parts, size_t stride, int own,
                     const float *own_part);

#endif
