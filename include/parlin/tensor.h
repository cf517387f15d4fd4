/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on a device: views of (rows, cols) or (rows, heads, head_size) in an OpenCL buffer.
   They are plain values: copy and change them freely. All offsets and strides are in elements.
   */
#ifndef PARLIN_TENSOR_H
#define PARLIN_TENSOR_H

#include <parlin/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct _cl_mem; /* OpenCL's cl_mem is a pointer to it */

/* Element (i, j) lies at offset + i * row_stride + j. buffer may be NULL where rows or cols is
   0. */
typedef struct parlin_tensor {
    struct _cl_mem *buffer;
    parlin_dtype dtype;
    size_t offset;
    size_t rows;
    size_t cols;
    size_t row_stride;
    parlin_device
        *device; /* serves read and write; NULL in a wrapped tensor until the caller sets it */
    bool owned;  /* made by a create call: destroy releases buffer and device. False in views */
} parlin_tensor;

/* Element (i, h, d) lies at offset + i * row_stride + h * head_stride + d. */
typedef struct parlin_heads {
    struct _cl_mem *buffer;
    parlin_dtype dtype;
    size_t offset;
    size_t rows;
    size_t heads;
    size_t head_size;
    size_t row_stride;
    size_t head_stride;
    parlin_device *device;
    bool owned;
} parlin_heads;

/* A new dense tensor of (rows, cols) with undefined contents; a tensor of no element has no
   buffer. Ownership: the caller destroys it. Errors: ARGUMENT (dtype), MEMORY (larger than the
   device allows in one buffer, with both numbers, or none left). Not collective. See
   parlin_tensor_create in group.h for a group's device. */
PARLIN_API parlin_status parlin_tensor_create_on(parlin_device *device, parlin_dtype dtype,
                                                 size_t rows, size_t cols, parlin_tensor *tensor);

/* A view on the caller's own cl_mem, which is neither retained nor released. Not collective. */
PARLIN_API parlin_tensor parlin_tensor_wrap(struct _cl_mem *buffer, parlin_dtype dtype,
                                            size_t offset, size_t rows, size_t cols,
                                            size_t row_stride);

/* Views of `count` rows (columns) from `first` on; they own nothing. A range beyond the tensor
   gives a view that every call refuses with its numbers. Not collective. */
PARLIN_API parlin_tensor parlin_tensor_rows(parlin_tensor tensor, size_t first, size_t count);
PARLIN_API parlin_tensor parlin_tensor_cols(parlin_tensor tensor, size_t first, size_t count);

/* Releases what a create call made and clears the struct; views are only cleared. NULL is allowed.
   Not collective. */
PARLIN_API void parlin_tensor_destroy(parlin_tensor *tensor);

/* Copies between the tensor and host memory: rows * cols elements of the tensor's dtype, dense,
   row-major. Both return when the copy is done, and come after all work enqueued before. Errors:
   ARGUMENT (no device, no buffer), SHAPE (beyond the buffer), DEVICE. Not collective. */
PARLIN_API parlin_status parlin_tensor_write(parlin_tensor tensor, const void *host);
PARLIN_API parlin_status parlin_tensor_read(parlin_tensor tensor, void *host);

/* The same as (rows, heads, head_size): column h * head_size + d of the tensor is (h, d).
   tensor.cols must be heads * head_size, else the view is refused by every call. Owns nothing.
   Not collective. */
PARLIN_API parlin_heads parlin_tensor_heads(parlin_tensor tensor, size_t heads, size_t head_size);

/* A view on the caller's own cl_mem with free strides: token-major has head_stride = head_size,
   head-major row_stride = head_size; a kv cache has what it has. Not collective. */
PARLIN_API parlin_heads parlin_heads_wrap(struct _cl_mem *buffer, parlin_dtype dtype, size_t offset,
                                          size_t rows, size_t heads, size_t head_size,
                                          size_t row_stride, size_t head_stride);

/* Copies to and from dense host memory in the order (rows, heads, head_size), as
   parlin_tensor_read and _write. Not collective. */
PARLIN_API parlin_status parlin_heads_write(parlin_heads tensor, const void *host);
PARLIN_API parlin_status parlin_heads_read(parlin_heads tensor, void *host);

#ifdef __cplusplus
}
#endif

#endif
