/* SPDX-License-Identifier: Apache-2.0 */
/* What a decoder does between its projections. f32 throughout; offsets and strides in elements.

     rows   tokens of this call, at positions first .. first + rows - 1
     H      HEAD_SIZE, a build option
     G      GROUP, work-items of a work-group: a power of two, a build option */
#ifndef HEAD_SIZE
#define HEAD_SIZE 64
#endif
#ifndef GROUP
#define GROUP 64
#endif

/* y[i][j] = table[ids[i]][j], widened to f32. kind: 0 f32, 1 f16, 2 bf16. Global (cols, rows). */
__kernel void take(__global const void *table, int kind, __global const int *ids, __global float *y)
{
    size_t j = get_global_id(0), cols = get_global_size(0), i = get_global_id(1);
    size_t at = (size_t)ids[i] * cols + j;
    float value;
    if (kind == 0)
        value = ((__global const float *)table)[at];
    else if (kind == 1)
        value = vload_half(at, (__global const half *)table);
    else
        value = as_float((uint)((__global const ushort *)table)[at] << 16);
    y[i * cols + j] = value;
}

/* The sum of `value` over the work-group, in every work-item. */
float sum_over_group(__local float *shared, float value)
{
    size_t item = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[item] = value;
    for (size_t step = GROUP / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < step)
            shared[item] += shared[item + step];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return shared[0];
}

float max_over_group(__local float *shared, float value)
{
    size_t item = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[item] = value;
    for (size_t step = GROUP / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < step)
            shared[item] = fmax(shared[item], shared[item + step]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return shared[0];
}

/* y[i][j] = weight[j] * x[i][j] / sqrt(mean over j of x[i][j]^2 + epsilon); x begins at `offset`.
   Global (G, rows), a work-group a row. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
rms_norm(__global const float *x, ulong offset, ulong cols, __global const float *weight,
         float epsilon, __global float *y)
{
    __local float shared[GROUP];
    size_t item = get_local_id(0), i = get_group_id(1);
    float sum = 0.0f;
    x += offset;
    for (size_t j = item; j < cols; j += GROUP)
        sum += x[i * cols + j] * x[i * cols + j];
    sum = sum_over_group(shared, sum);
    float scale = 1.0f / sqrt(sum / (float)cols + epsilon);
    for (size_t j = item; j < cols; j += GROUP)
        y[i * cols + j] = weight[j] * (scale * x[i * cols + j]);
}

/* Rotates heads in place. Element d of a head pairs with element d + H/2 (rotate-half):

     a' = a cos - b sin,  b' = b cos + a sin,  angle = position * theta^(-2d/H)

   turns [position][d] holds (cos, sin). Global (H/2, heads, rows). */
__kernel void rotate_heads(__global float *x, ulong offset, ulong row_stride, ulong head_stride,
                           __global const float2 *turns, ulong first)
{
    size_t d = get_global_id(0), h = get_global_id(1), i = get_global_id(2);
    __global float *head = x + offset + i * row_stride + h * head_stride;
    float2 turn = turns[(first + i) * (HEAD_SIZE / 2) + d];
    float a = head[d], b = head[d + HEAD_SIZE / 2];
    head[d] = a * turn.x - b * turn.y;
    head[d + HEAD_SIZE / 2] = b * turn.x + a * turn.y;
}

/* out[i][h] = sum over t <= first + i of softmax_t(q[i][h] . k[kv][t] / sqrt(H)) v[kv][t], kv =
   kv_of[h]. q, out: (rows, heads, H). keys, values: (kv heads, positions, H), the cache.

   Global (G, heads, rows): a work-group has one query head of one token and takes the positions
   G at a time; each work-item scores one of them, and then sums some of the H elements of v:

            t: 0 .. G-1 | G .. 2G-1 | ..          largest, total: of all blocks so far
     scores:   s_0 .. s_{G-1}   -> exp(s - largest)    sum[d] = sum[d] * exp(old - largest) + .. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
attend(__global const float *q, __global const float *keys, __global const float *values,
       ulong positions, __global const int *kv_of, ulong first, float scale, __global float *out)
{
    __local float query[HEAD_SIZE], sum[HEAD_SIZE], shared[GROUP], weight[GROUP];
    size_t item = get_local_id(0), h = get_group_id(1), heads = get_num_groups(1);
    size_t i = get_group_id(2), last = first + i;
    size_t cache = (size_t)kv_of[h] * positions * HEAD_SIZE;
    size_t at = (i * heads + h) * HEAD_SIZE;
    for (size_t d = item; d < HEAD_SIZE; d += GROUP) {
        query[d] = q[at + d];
        sum[d] = 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    float largest = -INFINITY, total = 0.0f;
    for (size_t block = 0; block <= last; block += GROUP) {
        size_t t = block + item;
        float score = -INFINITY;
        if (t <= last) {
            __global const float *key = keys + cache + t * HEAD_SIZE;
            score = 0.0f;
            for (size_t d = 0; d < HEAD_SIZE; d++)
                score += query[d] * key[d];
            score *= scale;
        }
        float higher = fmax(largest, max_over_group(shared, score));
        float shrink = exp(largest - higher), mine = exp(score - higher);
        total = total * shrink + sum_over_group(shared, mine);
        largest = higher;
        weight[item] = mine;
        barrier(CLK_LOCAL_MEM_FENCE);
        size_t count = last + 1 - block < GROUP ? last + 1 - block : GROUP;
        for (size_t d = item; d < HEAD_SIZE; d += GROUP) {
            float part = 0.0f;
            for (size_t j = 0; j < count; j++)
                part += weight[j] * values[cache + (block + j) * HEAD_SIZE + d];
            sum[d] = sum[d] * shrink + part;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (size_t d = item; d < HEAD_SIZE; d += GROUP)
        out[at + d] = sum[d] / total;
}
