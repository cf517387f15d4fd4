/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "device/internal.h"

/* --- making and releasing --- */

static cl_mem create(parlin_device *device, size_t bytes, cl_mem_flags flags, cl_int *code)
{
    if (device->fail_after > 0 && --device->fail_after == 0) {
        *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    cl_mem made = clCreateBuffer(device->context, flags, bytes, NULL, code);
    /* What lies unused in the pools may be what is missing. */
    if (!made && pl_pools_drain(device))
        made = clCreateBuffer(device->context, flags, bytes, NULL, code);
    return made;
}

parlin_status pl_buffer_create_flags(parlin_device *device, size_t bytes, cl_mem_flags flags,
                                     cl_mem *buffer)
{
    if (bytes == 0)
        return pl_error(PARLIN_ERROR_ARGUMENT, "a buffer of 0 bytes was asked for");
    if (bytes > device->info.max_allocation)
        return pl_error(PARLIN_ERROR_MEMORY,
                        "a buffer of %zu bytes was asked for; device %s allows at most %llu in one",
                        bytes, device->info.name, (unsigned long long)device->info.max_allocation);
    cl_int code = CL_SUCCESS;
    cl_mem made = create(device, bytes, flags, &code);
    if (!made) {
        char what[400];
        snprintf(what, sizeof what, "making a buffer of %zu bytes on %s: clCreateBuffer", bytes,
                 device->info.name);
        return pl_cl_error(code, what);
    }
    parlin_device_counters *counters = &device->counters;
    counters->buffers_created++;
    counters->buffers_live++;
    counters->bytes_live += bytes;
    if (counters->bytes_live > counters->bytes_peak)
        counters->bytes_peak = counters->bytes_live;
    *buffer = made;
    return PARLIN_SUCCESS;
}

parlin_status pl_buffer_create(parlin_device *device, size_t bytes, cl_mem *buffer)
{
    return pl_buffer_create_flags(device, bytes, CL_MEM_READ_WRITE, buffer);
}

void pl_buffer_release(parlin_device *device, cl_mem buffer, size_t bytes)
{
    if (!buffer)
        return;
    clReleaseMemObject(buffer);
    device->counters.buffers_live--;
    device->counters.bytes_live -= bytes;
}

void pl_buffer_fail(parlin_device *device, unsigned after)
{
    device->fail_after = after;
}

/* --- rectangles --- */

/* Row y of a rectangle begins at offset + y * pitch. As an OpenCL origin (x, y, 0), where some
   drivers want x within the pitch. */
static void origin_of(pl_rect at, size_t origin[3])
{
    origin[0] = at.offset % at.pitch;
    origin[1] = at.offset / at.pitch;
    origin[2] = 0;
}

static parlin_status done(parlin_device *device, cl_int code, const char *what)
{
    return code == CL_SUCCESS ? pl_queue_fence(device) : pl_cl_error(code, what);
}

parlin_status pl_rect_write(parlin_device *device, cl_mem buffer, pl_rect at, size_t width,
                            size_t rows, const void *host, size_t host_pitch, bool blocking)
{
    if (width == 0 || rows == 0)
        return PARLIN_SUCCESS;
    cl_bool block = blocking ? CL_TRUE : CL_FALSE;
    if (rows == 1 || (at.pitch == width && host_pitch == width))
        return done(device,
                    clEnqueueWriteBuffer(device->queue, buffer, block, at.offset, width * rows,
                                         host, 0, NULL, NULL),
                    "writing to a buffer: clEnqueueWriteBuffer");
    const size_t host_origin[3] = {0, 0, 0}, region[3] = {width, rows, 1};
    size_t origin[3];
    origin_of(at, origin);
    return done(device,
                clEnqueueWriteBufferRect(device->queue, buffer, block, origin, host_origin, region,
                                         at.pitch, 0, host_pitch, 0, host, 0, NULL, NULL),
                "writing to a buffer: clEnqueueWriteBufferRect");
}

parlin_status pl_rect_read(parlin_device *device, cl_mem buffer, pl_rect at, size_t width,
                           size_t rows, void *host, size_t host_pitch, bool blocking)
{
    if (width == 0 || rows == 0)
        return PARLIN_SUCCESS;
    cl_bool block = blocking ? CL_TRUE : CL_FALSE;
    if (rows == 1 || (at.pitch == width && host_pitch == width))
        return done(device,
                    clEnqueueReadBuffer(device->queue, buffer, block, at.offset, width * rows, host,
                                        0, NULL, NULL),
                    "reading from a buffer: clEnqueueReadBuffer");
    const size_t host_origin[3] = {0, 0, 0}, region[3] = {width, rows, 1};
    size_t origin[3];
    origin_of(at, origin);
    return done(device,
                clEnqueueReadBufferRect(device->queue, buffer, block, origin, host_origin, region,
                                        at.pitch, 0, host_pitch, 0, host, 0, NULL, NULL),
                "reading from a buffer: clEnqueueReadBufferRect");
}

static parlin_status copy_rect(parlin_device *device, cl_mem from, pl_rect from_at, cl_mem to,
                               pl_rect to_at, size_t width, size_t rows)
{
    const size_t region[3] = {width, rows, 1};
    size_t from_origin[3], to_origin[3];
    origin_of(from_at, from_origin);
    origin_of(to_at, to_origin);
    return done(device,
                clEnqueueCopyBufferRect(device->queue, from, to, from_origin, to_origin, region,
                                        from_at.pitch, 0, to_at.pitch, 0, 0, NULL, NULL),
                "copying between buffers: clEnqueueCopyBufferRect");
}

parlin_status pl_rect_copy(parlin_device *device, cl_mem from, pl_rect from_at, cl_mem to,
                           pl_rect to_at, size_t width, size_t rows)
{
    if (width == 0 || rows == 0)
        return PARLIN_SUCCESS;
    if (rows == 1 || (from_at.pitch == width && to_at.pitch == width))
        return done(device,
                    clEnqueueCopyBuffer(device->queue, from, to, from_at.offset, to_at.offset,
                                        width * rows, 0, NULL, NULL),
                    "copying between buffers: clEnqueueCopyBuffer");
    if (from != to)
        return copy_rect(device, from, from_at, to, to_at, width, rows);
    /* Within one buffer OpenCL refuses two pitches, and rows that lie between each other. */
    pl_scratch scratch;
    PL_TRY(pl_scratch_take(device, width * rows, &scratch));
    const pl_rect dense = {0, width};
    parlin_status status = copy_rect(device, from, from_at, scratch.buffer, dense, width, rows);
    if (status == PARLIN_SUCCESS)
        status = copy_rect(device, scratch.buffer, dense, to, to_at, width, rows);
    pl_scratch_give(device, &scratch);
    return status;
}
