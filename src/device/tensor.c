/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: making, releasing, and copies between them and the host. */
#include "core/size.h"
#include "device/internal.h"

parlin_status parlin_tensor_create_on(parlin_device *device, parlin_dtype dtype, size_t rows,
                                      size_t cols, parlin_tensor *tensor)
{
    if (!device || !tensor)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_tensor_create: %s is NULL",
                        device ? "tensor" : "device");
    size_t size = parlin_dtype_size(dtype), bytes;
    if (size == 0)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "parlin_tensor_create: dtype %d is none of f32, f16, bf16", (int)dtype);
    if (!pl_size_mul(rows, cols, &bytes) || !pl_size_mul(bytes, size, &bytes))
        return pl_error(PARLIN_ERROR_MEMORY,
                        "parlin_tensor_create: (%zu, %zu) elements of %s are more bytes than can "
                        "be counted; device %s allows at most %llu in one buffer",
                        rows, cols, parlin_dtype_name(dtype), device->info.name,
                        (unsigned long long)device->info.max_allocation);
    cl_mem buffer = NULL;
    parlin_status status = PARLIN_SUCCESS;
    if (bytes > 0)
        status = pl_buffer_create(device, bytes, &buffer);
    if (status != PARLIN_SUCCESS)
        return pl_error(status, "parlin_tensor_create: (%zu, %zu) of %s: %s", rows, cols,
                        parlin_dtype_name(dtype), parlin_last_error());
    pl_device_retain(device);
    *tensor = (parlin_tensor){.buffer = buffer,
                              .dtype = dtype,
                              .rows = rows,
                              .cols = cols,
                              .row_stride = cols,
                              .device = device,
                              .owned = true};
    return PARLIN_SUCCESS;
}

void parlin_tensor_destroy(parlin_tensor *tensor)
{
    if (!tensor)
        return;
    if (tensor->owned && tensor->device) {
        /* The fields are the caller's to change, so the buffer itself is asked for its size. */
        size_t bytes = 0;
        if (tensor->buffer) {
            clGetMemObjectInfo(tensor->buffer, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
            pl_buffer_release(tensor->device, tensor->buffer, bytes);
        }
        pl_device_release(tensor->device);
    }
    *tensor = (parlin_tensor){0};
}

/* --- copies to and from the host --- */

typedef struct transfer {
    parlin_device *device;
    cl_mem buffer;
    const char *host_in; /* one of the two */
    char *host_out;
} transfer;

static parlin_status move(const transfer *how, pl_rect at, size_t width, size_t rows,
                          size_t host_offset, size_t host_pitch, bool blocking)
{
    if (how->host_in)
        return pl_rect_write(how->device, how->buffer, at, width, rows, how->host_in + host_offset,
                             host_pitch, blocking);
    return pl_rect_read(how->device, how->buffer, at, width, rows, how->host_out + host_offset,
                        host_pitch, blocking);
}

/* As rectangles: one where the heads lie side by side, else one for each head or for each row,
   whichever is fewer. The queue is in order, so that just the last one has to block. */
static parlin_status move_heads(const transfer *how, const parlin_heads *view)
{
    size_t size = parlin_dtype_size(view->dtype);
    size_t head = view->head_size * size, line = view->heads * head;
    size_t row_pitch = view->row_stride * size, head_pitch = view->head_stride * size;
    size_t offset = view->offset * size;
    if (view->heads == 1 || view->head_stride == view->head_size)
        return move(how, (pl_rect){offset, row_pitch}, line, view->rows, 0, line, true);
    bool by_head = view->heads <= view->rows;
    size_t count = by_head ? view->heads : view->rows;
    parlin_status status = PARLIN_SUCCESS;
    for (size_t i = 0; i < count && status == PARLIN_SUCCESS; i++) {
        bool last = i + 1 == count;
        if (by_head)
            status = move(how, (pl_rect){offset + i * head_pitch, row_pitch}, head, view->rows,
                          i * head, line, last);
        else
            status = move(how, (pl_rect){offset + i * row_pitch, head_pitch}, head, view->heads,
                          i * line, head, last);
    }
    /* The host's memory is the caller's again after this call, so nothing may be pending on it. */
    if (status != PARLIN_SUCCESS)
        clFinish(how->device->queue);
    return status;
}

static parlin_status check_host(const parlin_heads *view, const void *host, const char *what)
{
    if (!view->device)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "%s: the tensor has no device; a wrapped one gets it by tensor.device = ..",
                        what);
    PL_TRY(pl_heads_check(view->device, view, what));
    bool empty = view->rows == 0 || view->heads == 0 || view->head_size == 0;
    if (!host && !empty)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: host is NULL", what);
    return PARLIN_SUCCESS;
}

static bool is_empty(const parlin_heads *view)
{
    return view->rows == 0 || view->heads == 0 || view->head_size == 0;
}

static parlin_status write_view(const parlin_heads *view, const void *host, const char *what)
{
    PL_TRY(check_host(view, host, what));
    const transfer how = {view->device, view->buffer, host, NULL};
    return is_empty(view) ? PARLIN_SUCCESS : move_heads(&how, view);
}

static parlin_status read_view(const parlin_heads *view, void *host, const char *what)
{
    PL_TRY(check_host(view, host, what));
    const transfer how = {view->device, view->buffer, NULL, host};
    return is_empty(view) ? PARLIN_SUCCESS : move_heads(&how, view);
}

/* Strides of a tensor are refused as such, before it becomes a view of one head. */
static parlin_status check_tensor(const parlin_tensor *tensor, const char *what)
{
    return tensor->device ? pl_tensor_check(tensor->device, tensor, what) : PARLIN_SUCCESS;
}

parlin_status parlin_tensor_write(parlin_tensor tensor, const void *host)
{
    PL_TRY(check_tensor(&tensor, "parlin_tensor_write"));
    parlin_heads view = pl_heads_of_tensor(&tensor);
    return write_view(&view, host, "parlin_tensor_write");
}

parlin_status parlin_tensor_read(parlin_tensor tensor, void *host)
{
    PL_TRY(check_tensor(&tensor, "parlin_tensor_read"));
    parlin_heads view = pl_heads_of_tensor(&tensor);
    return read_view(&view, host, "parlin_tensor_read");
}

parlin_status parlin_heads_write(parlin_heads tensor, const void *host)
{
    return write_view(&tensor, host, "parlin_heads_write");
}

parlin_status parlin_heads_read(parlin_heads tensor, void *host)
{
    return read_view(&tensor, host, "parlin_heads_read");
}

parlin_status pl_tensor_copy(parlin_device *device, const parlin_tensor *from,
                             const parlin_tensor *to)
{
    size_t size = parlin_dtype_size(from->dtype);
    return pl_rect_copy(
        device, from->buffer, (pl_rect){from->offset * size, from->row_stride * size}, to->buffer,
        (pl_rect){to->offset * size, to->row_stride * size}, from->cols * size, from->rows);
}
