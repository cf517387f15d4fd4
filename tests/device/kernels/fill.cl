/* SPDX-License-Identifier: Apache-2.0 */
/* out[i] = VALUE, i < n */
#ifndef VALUE
#define VALUE 7.0f
#endif

__kernel void fill(ulong n, __global float *out)
{
    size_t i = get_global_id(0);
    if (i < n)
        out[i] = VALUE;
}

/* out[i] = out[i] * 2 + 1: order matters */
__kernel void twice(ulong n, __global float *out)
{
    size_t i = get_global_id(0);
    if (i < n)
        out[i] = out[i] * 2.0f + 1.0f;
}

/* The same over all elements in one work-item: takes its time. */
__kernel void slow_twice(ulong n, __global float *out)
{
    for (ulong i = 0; i < n; i++)
        out[i] = out[i] * 2.0f + 1.0f;
}
