/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of blocks that are not in use, one of device scratch and one of staging. A block is rounded
   up to a quarter of a power of two (4096, 5120, 6144, 7168, 8192, 10240, ..), so that sizes that
   grow a little from call to call meet few blocks. A take gets the smallest block that is large
   enough and at most four times too large. A pool keeps PL_POOL_BLOCKS blocks; of more the one that
   was given back longest ago is released. */
#include "core/size.h"
#include "device/internal.h"

enum { SMALLEST = 4096, WASTE = 4 };

static size_t round_up(size_t bytes, size_t limit)
{
    size_t power = SMALLEST;
    while (power <= bytes / 2)
        power *= 2;
    size_t rounded = power;
    while (rounded < bytes) {
        if (!pl_size_add(rounded, power / 4, &rounded))
            return bytes;
    }
    return rounded > limit ? bytes : rounded;
}

/* Takes the best block out of the pool; false where none fits. */
static bool take(pl_pool *pool, size_t bytes, pl_block_free *block)
{
    size_t best = SIZE_MAX;
    size_t least = bytes > SMALLEST ? bytes : SMALLEST;
    for (size_t i = 0; i < pool->count; i++)
        if (pool->blocks[i].bytes >= bytes && pool->blocks[i].bytes / WASTE <= least &&
            (best == SIZE_MAX || pool->blocks[i].bytes < pool->blocks[best].bytes))
            best = i;
    if (best == SIZE_MAX)
        return false;
    *block = pool->blocks[best];
    pool->blocks[best] = pool->blocks[--pool->count];
    return true;
}

static void release(parlin_device *device, const pl_block_free *block)
{
    if (block->host)
        clEnqueueUnmapMemObject(device->queue, block->buffer, block->host, 0, NULL, NULL);
    pl_buffer_release(device, block->buffer, block->bytes);
}

static void give(parlin_device *device, pl_pool *pool, cl_mem buffer, void *host, size_t bytes)
{
    if (pool->count == PL_POOL_BLOCKS) {
        size_t oldest = 0;
        for (size_t i = 1; i < pool->count; i++)
            if (pool->blocks[i].given < pool->blocks[oldest].given)
                oldest = i;
        release(device, &pool->blocks[oldest]);
        pool->blocks[oldest] = pool->blocks[--pool->count];
    }
    pool->blocks[pool->count++] = (pl_block_free){buffer, host, bytes, pool->clock++};
}

static bool drain(parlin_device *device, pl_pool *pool)
{
    bool any = pool->count > 0;
    while (pool->count > 0)
        release(device, &pool->blocks[--pool->count]);
    return any;
}

bool pl_pools_drain(parlin_device *device)
{
    bool scratch = drain(device, &device->scratch);
    return drain(device, &device->staging) || scratch;
}

parlin_status pl_scratch_take(parlin_device *device, size_t bytes, pl_scratch *scratch)
{
    pl_block_free block = {0};
    if (!take(&device->scratch, bytes, &block)) {
        block.bytes = round_up(bytes, device->info.max_allocation);
        PL_TRY(pl_buffer_create(device, block.bytes, &block.buffer));
    }
    *scratch = (pl_scratch){block.buffer, block.bytes};
    return PARLIN_SUCCESS;
}

void pl_scratch_give(parlin_device *device, pl_scratch *scratch)
{
    if (scratch->buffer)
        give(device, &device->scratch, scratch->buffer, NULL, scratch->bytes);
    *scratch = (pl_scratch){0};
}

parlin_status pl_staging_take(parlin_device *device, size_t bytes, pl_staging *staging)
{
    pl_block_free block = {0};
    if (!take(&device->staging, bytes, &block)) {
        block.bytes = round_up(bytes, device->info.max_allocation);
        PL_TRY(pl_buffer_create_flags(device, block.bytes,
                                      CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, &block.buffer));
        cl_int code;
        block.host =
            clEnqueueMapBuffer(device->queue, block.buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                               block.bytes, 0, NULL, NULL, &code);
        if (!block.host || code != CL_SUCCESS) {
            pl_buffer_release(device, block.buffer, block.bytes);
            return pl_cl_error(code, "mapping a staging buffer: clEnqueueMapBuffer");
        }
    }
    *staging = (pl_staging){block.host, block.bytes, block.buffer};
    return PARLIN_SUCCESS;
}

void pl_staging_give(parlin_device *device, pl_staging *staging)
{
    if (staging->internal)
        give(device, &device->staging, staging->internal, staging->host, staging->bytes);
    *staging = (pl_staging){0};
}
