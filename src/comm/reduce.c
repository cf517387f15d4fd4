/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/reduce.h"

#include <string.h>

/* A block stays in the first cache while all parts are added to it. The inner loop has a constant
   length, which compilers turn into vector code at -O2. */
enum { BLOCK = 1024, LANES = 16 };

static void add(float *restrict sum, const float *restrict part, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sum[i + lane] += part[i + lane];
    for (; i < n; i++)
        sum[i] += part[i];
}

void pl_sum_in_order(float *out, size_t n, int p, const float *parts, size_t stride, int own,
                     const float *own_part)
{
    float sum[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t length = n - at < BLOCK ? n - at : BLOCK;
        for (int q = 0; q < p; q++) {
            const float *part = q == own ? own_part : parts + (size_t)q * stride;
            if (q == 0)
                memcpy(sum, part + at, length * sizeof *sum);
            else
                add(sum, part + at, length);
        }
        memcpy(out + at, sum, length * sizeof *out);
    }
}
