/* SPDX-License-Identifier: Apache-2.0 */
/* Views: making, checking and comparing them. No command is enqueued here.

   A view that was asked for beyond its tensor carries that fact in its offset, with the numbers in
   fields that nothing else then uses, until a call refuses it. */
#include "core/size.h"
#include "device/internal.h"

enum { BROKEN_ROWS, BROKEN_COLS, BROKEN_HEADS, BROKEN_COUNT };

static size_t broken_offset(int kind)
{
    return SIZE_MAX - (size_t)kind;
}

static bool is_broken(size_t offset)
{
    return offset > SIZE_MAX - BROKEN_COUNT;
}

/* kind rows, cols: `count` of them from `first` on of `extent`; heads: first columns, count
   heads of extent. */
static parlin_status refuse_broken(const char *what, size_t offset, size_t first, size_t count,
                                   size_t extent)
{
    if (offset == broken_offset(BROKEN_HEADS))
        return pl_error(PARLIN_ERROR_SHAPE,
                        "%s: %zu heads of %zu were made of a tensor of %zu columns", what, count,
                        extent, first);
    const char *unit = offset == broken_offset(BROKEN_ROWS) ? "rows" : "columns";
    return pl_error(PARLIN_ERROR_SHAPE,
                    "%s: a view of %zu %s from %zu on was made of a tensor of %zu %s", what, count,
                    unit, first, extent, unit);
}

parlin_tensor parlin_tensor_wrap(struct _cl_mem *buffer, parlin_dtype dtype, size_t offset,
                                 size_t rows, size_t cols, size_t row_stride)
{
    return (parlin_tensor){.buffer = buffer,
                           .dtype = dtype,
                           .offset = offset,
                           .rows = rows,
                           .cols = cols,
                           .row_stride = row_stride};
}

/* Broken row views hold (count, extent) in (rows, cols) and broken column views in (cols, rows). */
parlin_tensor parlin_tensor_rows(parlin_tensor tensor, size_t first, size_t count)
{
    tensor.owned = false;
    if (is_broken(tensor.offset))
        return tensor;
    size_t start;
    if (first > tensor.rows || count > tensor.rows - first ||
        !pl_size_mul(first, tensor.row_stride, &start) ||
        !pl_size_add(tensor.offset, start, &start) || is_broken(start)) {
        tensor.cols = tensor.rows;
        tensor.rows = count;
        tensor.row_stride = first;
        tensor.offset = broken_offset(BROKEN_ROWS);
        return tensor;
    }
    tensor.offset = start;
    tensor.rows = count;
    return tensor;
}

parlin_tensor parlin_tensor_cols(parlin_tensor tensor, size_t first, size_t count)
{
    tensor.owned = false;
    if (is_broken(tensor.offset))
        return tensor;
    size_t start;
    if (first > tensor.cols || count > tensor.cols - first ||
        !pl_size_add(tensor.offset, first, &start) || is_broken(start)) {
        tensor.rows = tensor.cols;
        tensor.cols = count;
        tensor.row_stride = first;
        tensor.offset = broken_offset(BROKEN_COLS);
        return tensor;
    }
    tensor.offset = start;
    tensor.cols = count;
    return tensor;
}

parlin_heads parlin_heads_wrap(struct _cl_mem *buffer, parlin_dtype dtype, size_t offset,
                               size_t rows, size_t heads, size_t head_size, size_t row_stride,
                               size_t head_stride)
{
    return (parlin_heads){.buffer = buffer,
                          .dtype = dtype,
                          .offset = offset,
                          .rows = rows,
                          .heads = heads,
                          .head_size = head_size,
                          .row_stride = row_stride,
                          .head_stride = head_stride};
}

parlin_heads pl_heads_of_tensor(const parlin_tensor *tensor)
{
    return (parlin_heads){.buffer = tensor->buffer,
                          .dtype = tensor->dtype,
                          .offset = tensor->offset,
                          .rows = tensor->rows,
                          .heads = 1,
                          .head_size = tensor->cols,
                          .row_stride = tensor->row_stride,
                          .head_stride = tensor->cols,
                          .device = tensor->device};
}

parlin_heads parlin_tensor_heads(parlin_tensor tensor, size_t heads, size_t head_size)
{
    parlin_heads view = pl_heads_of_tensor(&tensor);
    if (is_broken(tensor.offset))
        return view;
    size_t cols;
    if (!pl_size_mul(heads, head_size, &cols) || cols != tensor.cols) {
        view.offset = broken_offset(BROKEN_HEADS);
        view.row_stride = tensor.cols;
        view.rows = heads;
        view.head_size = head_size;
        return view;
    }
    view.heads = heads;
    view.head_size = head_size;
    view.head_stride = head_size;
    return view;
}

bool pl_tensor_same(const parlin_tensor *a, const parlin_tensor *b)
{
    return a->buffer == b->buffer && a->dtype == b->dtype && a->offset == b->offset &&
           a->rows == b->rows && a->cols == b->cols &&
           (a->row_stride == b->row_stride || a->rows <= 1);
}

/* --- checks --- */

static parlin_status check_dtype(parlin_dtype dtype, const char *what)
{
    if (parlin_dtype_size(dtype) == 0)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: dtype %d is none of f32, f16, bf16", what,
                        (int)dtype);
    return PARLIN_SUCCESS;
}

/* The buffer is one of the device's and holds `end` bytes. SIZE_MAX: more than can be counted. */
static parlin_status check_buffer(parlin_device *device, cl_mem buffer, const char *what,
                                  size_t end)
{
    cl_context context = NULL;
    size_t size = 0;
    cl_int code = clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS)
        code = clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof size, &size, NULL);
    if (code != CL_SUCCESS)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: the buffer is refused by OpenCL: %s (%d)", what,
                        pl_cl_error_name(code), (int)code);
    if (context != device->context)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "%s: the buffer belongs to another context than device %s", what,
                        device->info.name);
    if (end == SIZE_MAX)
        return pl_error(PARLIN_ERROR_SHAPE,
                        "%s: the view ends beyond what can be counted, its buffer at byte %zu",
                        what, size);
    if (end > size)
        return pl_error(PARLIN_ERROR_SHAPE, "%s: the view ends at byte %zu, its buffer at byte %zu",
                        what, end, size);
    return PARLIN_SUCCESS;
}

parlin_status pl_writable_check(cl_mem buffer, bool by_host, const char *what)
{
    cl_mem_flags flags = 0;
    if (!buffer || clGetMemObjectInfo(buffer, CL_MEM_FLAGS, sizeof flags, &flags, NULL) ||
        !(flags & (CL_MEM_READ_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)))
        return PARLIN_SUCCESS;
    if (flags & CL_MEM_READ_ONLY)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "%s: the buffer was made with CL_MEM_READ_ONLY, wanted one to write to",
                        what);
    if (by_host)
        return pl_error(
            PARLIN_ERROR_ARGUMENT,
            "%s: the buffer was made with %s, but a collective writes it from the host", what,
            flags & CL_MEM_HOST_NO_ACCESS ? "CL_MEM_HOST_NO_ACCESS" : "CL_MEM_HOST_READ_ONLY");
    return PARLIN_SUCCESS;
}

/* offset + (count - 1) * stride + ... + length, in bytes; SIZE_MAX where that does not fit. */
static size_t end_of(const parlin_heads *view)
{
    size_t row = 0, head = 0, end = view->offset;
    if (pl_size_mul(view->rows - 1, view->row_stride, &row) &&
        (view->heads == 1 || pl_size_mul(view->heads - 1, view->head_stride, &head)) &&
        pl_size_add(end, row, &end) && pl_size_add(end, head, &end) &&
        pl_size_add(end, view->head_size, &end) &&
        pl_size_mul(end, parlin_dtype_size(view->dtype), &end))
        return end;
    return SIZE_MAX;
}

parlin_status pl_tensor_check(parlin_device *device, const parlin_tensor *tensor, const char *what)
{
    if (is_broken(tensor->offset)) {
        bool rows = tensor->offset == broken_offset(BROKEN_ROWS);
        return refuse_broken(what, tensor->offset, tensor->row_stride,
                             rows ? tensor->rows : tensor->cols,
                             rows ? tensor->cols : tensor->rows);
    }
    PL_TRY(check_dtype(tensor->dtype, what));
    if (tensor->rows == 0 || tensor->cols == 0)
        return PARLIN_SUCCESS;
    if (tensor->row_stride < tensor->cols)
        return pl_error(PARLIN_ERROR_SHAPE, "%s: row stride %zu is below the %zu columns", what,
                        tensor->row_stride, tensor->cols);
    if (!tensor->buffer)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: (%zu, %zu) elements, but no buffer", what,
                        tensor->rows, tensor->cols);
    parlin_heads view = pl_heads_of_tensor(tensor);
    return check_buffer(device, tensor->buffer, what, end_of(&view));
}

/* True where no element of the view lies on another one: rows of heads or heads of rows follow each
   other with room between them. */
static bool is_apart(const parlin_heads *view)
{
    size_t row_stride = view->row_stride, head_stride = view->head_stride;
    size_t heads_extent, rows_extent;
    if (view->heads == 1)
        return view->rows == 1 || row_stride >= view->head_size;
    if (view->rows == 1)
        return head_stride >= view->head_size;
    if (head_stride >= view->head_size &&
        pl_size_mul(view->heads - 1, head_stride, &heads_extent) &&
        pl_size_add(heads_extent, view->head_size, &heads_extent) && row_stride >= heads_extent)
        return true;
    return row_stride >= view->head_size && pl_size_mul(view->rows - 1, row_stride, &rows_extent) &&
           pl_size_add(rows_extent, view->head_size, &rows_extent) && head_stride >= rows_extent;
}

parlin_status pl_heads_check(parlin_device *device, const parlin_heads *heads, const char *what)
{
    if (heads->offset == broken_offset(BROKEN_HEADS))
        return refuse_broken(what, heads->offset, heads->row_stride, heads->rows, heads->head_size);
    if (is_broken(heads->offset)) {
        bool rows = heads->offset == broken_offset(BROKEN_ROWS);
        return refuse_broken(what, heads->offset, heads->row_stride,
                             rows ? heads->rows : heads->head_size,
                             rows ? heads->head_size : heads->rows);
    }
    PL_TRY(check_dtype(heads->dtype, what));
    if (heads->rows == 0 || heads->heads == 0 || heads->head_size == 0)
        return PARLIN_SUCCESS;
    if (!is_apart(heads))
        return pl_error(PARLIN_ERROR_SHAPE,
                        "%s: with row stride %zu and head stride %zu, %zu rows of %zu heads of %zu "
                        "lie on each other",
                        what, heads->row_stride, heads->head_stride, heads->rows, heads->heads,
                        heads->head_size);
    if (!heads->buffer)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: (%zu, %zu, %zu) elements, but no buffer", what,
                        heads->rows, heads->heads, heads->head_size);
    return check_buffer(device, heads->buffer, what, end_of(heads));
}
