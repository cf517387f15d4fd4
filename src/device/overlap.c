/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two views share an element. Views are taken as checked: they lie in a buffer, so that all
   their bytes can be counted in int64_t. */
#include "device/internal.h"

/* Runs of `width` bytes from `start` on, `rows` of them `row_stride` apart, that `heads` times
   over, `head_stride` apart. */
typedef struct runs {
    int64_t start, width;
    int64_t rows, row_stride;
    int64_t heads, head_stride;
} runs;

/* `origin`: where the view's buffer begins in the buffer that the offsets are counted in. */
static runs runs_of(const parlin_heads *view, size_t origin)
{
    int64_t size = (int64_t)parlin_dtype_size(view->dtype);
    /* a stride that is never taken may be anything */
    size_t row_stride = view->rows > 1 ? view->row_stride : 0;
    size_t head_stride = view->heads > 1 ? view->head_stride : 0;
    runs out = {(int64_t)view->offset * size + (int64_t)origin,
                (int64_t)view->head_size * size,
                (int64_t)view->rows,
                (int64_t)row_stride * size,
                (int64_t)view->heads,
                (int64_t)head_stride * size};
    if (out.heads > 1 && out.head_stride == out.width) {
        out.width *= out.heads;
        out.heads = 1;
    }
    return out;
}

static int64_t end_of(const runs *view)
{
    return view->start + (view->rows - 1) * view->row_stride +
           (view->heads > 1 ? (view->heads - 1) * view->head_stride : 0) + view->width;
}

/* Rows of one head of each, b beginning d bytes after a: is there a k, the difference of two row
   numbers, with -b.width < d + k stride < a.width? */
static bool rows_meet(const runs *a, const runs *b, int64_t d, int64_t stride)
{
    int64_t least = -(a->rows - 1), most = b->rows - 1;
    if (stride == 0)
        return d > -b->width && d < a->width;
    int64_t above = -b->width - d; /* k stride must be greater */
    int64_t k = above / stride - (above % stride < 0) + 1;
    if (k < least)
        k = least;
    return k <= most && d + k * stride < a->width;
}

static bool meet(const runs *a, const runs *b)
{
    if (end_of(a) <= b->start || end_of(b) <= a->start)
        return false;
    if (a->rows > 1 && b->rows > 1 && a->row_stride != b->row_stride)
        return true;
    int64_t stride = a->rows > 1 ? a->row_stride : b->rows > 1 ? b->row_stride : 0;
    int64_t d = b->start - a->start;
    if (a->heads > 1 && b->heads > 1 && a->head_stride != b->head_stride) {
        for (int64_t i = 0; i < a->heads; i++)
            for (int64_t j = 0; j < b->heads; j++)
                if (rows_meet(a, b, d + j * b->head_stride - i * a->head_stride, stride))
                    return true;
        return false;
    }
    int64_t head_stride = a->heads > 1 ? a->head_stride : b->head_stride;
    for (int64_t k = -(a->heads - 1); k < b->heads; k++)
        if (rows_meet(a, b, d + k * head_stride, stride))
            return true;
    return false;
}

/* The buffer that `buffer` is a part of, or itself, and where it begins there in bytes. */
static cl_mem whole_of(cl_mem buffer, size_t *origin)
{
    cl_mem whole = NULL;
    *origin = 0;
    if (clGetMemObjectInfo(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof whole, &whole, NULL) !=
            CL_SUCCESS ||
        !whole)
        return buffer;
    clGetMemObjectInfo(buffer, CL_MEM_OFFSET, sizeof *origin, origin, NULL);
    return whole;
}

bool pl_heads_overlap(const parlin_heads *a, const parlin_heads *b)
{
    if (!a->buffer || !b->buffer || a->rows == 0 || a->heads == 0 || a->head_size == 0 ||
        b->rows == 0 || b->heads == 0 || b->head_size == 0)
        return false;
    size_t from_a = 0, from_b = 0;
    if (a->buffer != b->buffer && whole_of(a->buffer, &from_a) != whole_of(b->buffer, &from_b))
        return false;
    runs one = runs_of(a, from_a), two = runs_of(b, from_b);
    return meet(&one, &two);
}

bool pl_tensor_overlap(const parlin_tensor *a, const parlin_tensor *b)
{
    parlin_heads one = pl_heads_of_tensor(a), two = pl_heads_of_tensor(b);
    return pl_heads_overlap(&one, &two);
}

bool pl_heads_tensor_overlap(const parlin_heads *a, const parlin_tensor *b)
{
    parlin_heads two = pl_heads_of_tensor(b);
    return pl_heads_overlap(a, &two);
}
