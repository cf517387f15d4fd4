/* SPDX-License-Identifier: Apache-2.0 */
/* The room's inner interface: what gemm, comm and layers ask of a device. Handles of OpenCL
   appear as such only to gemm; comm and layers go by tensors, buffers and bytes. A device is
   used by one thread at a time. */
#ifndef PL_DEVICE_H
#define PL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <parlin/opencl.h>

/* --- the device --- */

void pl_device_retain(parlin_device *device);
void pl_device_release(parlin_device *device); /* parlin_device_close */

/* Opens for rank `local_rank` of `local_size` on this node: `spec`, else PARLIN_DEVICE, else by
   place over the devices of the best class. More ranks than devices: one warning (from local
   rank 0), except on CPU devices. */
parlin_status pl_device_open_for(const char *spec, int local_rank, int local_size,
                                 parlin_device **device);

const parlin_device_info *pl_device_info(const parlin_device *device);

/* "CL_OUT_OF_RESOURCES" for -5, and so on. */
const char *pl_cl_error_name(cl_int code);

/* Writes "<what>: <NAME> (<code>)" as the thread's error. Returns PARLIN_ERROR_MEMORY for the
   codes that mean that, else PARLIN_ERROR_DEVICE. */
parlin_status pl_cl_error(cl_int code, const char *what);

/* State that a higher room keeps with a device (compiled kernels and the like), by key,
   destroyed before the device's context is given up. */
void *pl_device_attachment(const parlin_device *device, const void *key);
parlin_status pl_device_attach(parlin_device *device, const void *key, void *state,
                               void (*destroy)(void *state));

/* --- programs and launches (program.c, cache.c, launch.c) --- */

/* Kernel `name` of kernels/`file` built with `options`; owned by the device, made at the first
   call. Not for hot paths: callers keep what they get. */
parlin_status pl_device_kernel(parlin_device *device, const char *file, const char *name,
                               const char *options, cl_kernel *kernel);

/* Around everything that makes the driver compile: one thread and one process of the machine at a
   time. Not to be nested. pl_device_kernel does it itself; it is here for CLBlast's first calls. */
void pl_build_lock(void);
void pl_build_unlock(void);

typedef struct pl_arg {
    size_t size;
    const void *value; /* NULL: local memory of that size */
} pl_arg;

#define PL_ARG(variable)                                                                           \
    {                                                                                              \
        sizeof(variable), &(variable)                                                              \
    }

/* Enqueues a kernel over `global` work-items (`local` may be NULL). */
parlin_status pl_launch(parlin_device *device, cl_kernel kernel, cl_uint dims, const size_t *global,
                        const size_t *local, const pl_arg *args, cl_uint arg_count);

/* --- order in the queue (launch.c) --- */

/* What is enqueued later waits for these events. */
parlin_status pl_queue_after(parlin_device *device, cl_uint count, const cl_event *events);

/* An event that covers all that was enqueued so far. */
parlin_status pl_queue_mark(parlin_device *device, cl_event *event);

/* To be called after each command enqueued by other means than this room's (CLBlast): keeps an
   out-of-order queue in order. No work on an in-order queue. */
parlin_status pl_queue_fence(parlin_device *device);

/* Counts a launch made by other means (CLBlast). */
void pl_count_launch(parlin_device *device);

/* --- buffers (buffer.c) --- */

/* bytes > 0. Refused with both numbers above the device's max_allocation. */
parlin_status pl_buffer_create(parlin_device *device, size_t bytes, cl_mem *buffer);
void pl_buffer_release(parlin_device *device, cl_mem buffer, size_t bytes);

/* Test hook: the `after`-th creation from now on (1: the next one) fails with
   CL_MEM_OBJECT_ALLOCATION_FAILURE, once; 0 takes it back. */
void pl_buffer_fail(parlin_device *device, unsigned after);

/* Rectangles of bytes between a buffer and host memory or another buffer. `blocking` as in
   OpenCL. */
typedef struct pl_rect {
    size_t offset; /* bytes */
    size_t pitch;  /* bytes from row to row */
} pl_rect;

parlin_status pl_rect_write(parlin_device *device, cl_mem buffer, pl_rect at, size_t width,
                            size_t rows, const void *host, size_t host_pitch, bool blocking);
parlin_status pl_rect_read(parlin_device *device, cl_mem buffer, pl_rect at, size_t width,
                           size_t rows, void *host, size_t host_pitch, bool blocking);
parlin_status pl_rect_copy(parlin_device *device, cl_mem from, pl_rect from_at, cl_mem to,
                           pl_rect to_at, size_t width, size_t rows);

/* --- tensors (tensor.c) --- */

/* Refuses a view that is no view: dtype unknown, stride below the columns, a range beyond the
   buffer or beyond size_t, a buffer missing (allowed for no element), a buffer of another
   context. `what` names it in the sentence: "forward of row layer 'o': x". Cheap: no allocation,
   at most one query of the buffer's size. */
parlin_status pl_tensor_check(parlin_device *device, const parlin_tensor *tensor, const char *what);
parlin_status pl_heads_check(parlin_device *device, const parlin_heads *heads, const char *what);

/* Refuses a buffer that kernels may not write, or, with `by_host`, the host. NULL passes. */
parlin_status pl_writable_check(cl_mem buffer, bool by_host, const char *what);

/* Two views of the same elements. */
bool pl_tensor_same(const parlin_tensor *a, const parlin_tensor *b);

/* True where some element lies in both, sub-buffers of one buffer included. Exact for views of
   one row stride, else judged by the extents. */
bool pl_tensor_overlap(const parlin_tensor *a, const parlin_tensor *b);
bool pl_heads_overlap(const parlin_heads *a, const parlin_heads *b);
bool pl_heads_tensor_overlap(const parlin_heads *a, const parlin_tensor *b);

/* A heads view of one head and head_size = cols: every tensor is one. */
parlin_heads pl_heads_of_tensor(const parlin_tensor *tensor);

parlin_status pl_tensor_copy(parlin_device *device, const parlin_tensor *from,
                             const parlin_tensor *to);

/* --- pools (scratch.c) --- */

/* Device scratch from the device's pool. Giving it back while commands that use it are still
   enqueued is right: the queue is in order. */
typedef struct pl_scratch {
    cl_mem buffer;
    size_t bytes;
} pl_scratch;

parlin_status pl_scratch_take(parlin_device *device, size_t bytes, pl_scratch *scratch);
void pl_scratch_give(parlin_device *device,
                     pl_scratch *scratch); /* clears it; a cleared one is allowed */

/* Host memory that the device copies from and to at full speed (pinned where that exists),
   mapped once, pooled. To be given back only when no copy from or to it is pending. */
typedef struct pl_staging {
    void *host;
    size_t bytes;
    void *internal;
} pl_staging;

parlin_status pl_staging_take(parlin_device *device, size_t bytes, pl_staging *staging);
void pl_staging_give(parlin_device *device, pl_staging *staging);

#endif
