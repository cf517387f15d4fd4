/* SPDX-License-Identifier: Apache-2.0 */
#include "num/num.h"

size_t parlin_dtype_size(parlin_dtype dtype)
{
    switch (dtype) {
    case PARLIN_F32:
        return 4;
    case PARLIN_F16:
    case PARLIN_BF16:
        return 2;
    case PARLIN_DTYPE_DEFAULT:
        break;
    }
    return 0;
}

const char *parlin_dtype_name(parlin_dtype dtype)
{
    switch (dtype) {
    case PARLIN_F32:
        return "f32";
    case PARLIN_F16:
        return "f16";
    case PARLIN_BF16:
        return "bf16";
    case PARLIN_DTYPE_DEFAULT:
        break;
    }
    return "unknown dtype";
}

parlin_host parlin_host_2d(const void *data, parlin_dtype dtype, size_t rows, size_t cols)
{
    return (parlin_host){.data = data,
                         .dtype = dtype,
                         .rows = rows,
                         .cols = cols,
                         .row_stride = (ptrdiff_t)cols,
                         .col_stride = 1,
                         .order = PARLIN_STACKED};
}

parlin_host parlin_host_1d(const void *data, parlin_dtype dtype, size_t n)
{
    return parlin_host_2d(data, dtype, n, 1);
}

parlin_host parlin_host_transposed(parlin_host tensor)
{
    parlin_host transposed = tensor;
    transposed.rows = tensor.cols;
    transposed.cols = tensor.rows;
    transposed.row_stride = tensor.col_stride;
    transposed.col_stride = tensor.row_stride;
    return transposed;
}
