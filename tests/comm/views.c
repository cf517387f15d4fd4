/* SPDX-License-Identifier: Apache-2.0 */
#include "views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ABOVE = 1, LEFT = 2, MORE_ROWS = 2, MORE_COLS = 5 };

static const uint32_t poison32 = SUPPORT_POISON;
static const uint16_t poison16 = 0x7fde;

static const void *poison_of(parlin_dtype dtype)
{
    return dtype == PARLIN_F32 ? (const void *)&poison32 : (const void *)&poison16;
}

test_view view_make(parlin_group *group, parlin_dtype dtype, size_t rows, size_t cols)
{
    const size_t element = parlin_dtype_size(dtype);
    const size_t n = (rows + MORE_ROWS) * (cols + MORE_COLS);
    test_view view;
    assert_ok(parlin_tensor_create(group, dtype, rows + MORE_ROWS, cols + MORE_COLS, &view.around));
    char *fill = support_alloc(n * element);
    for (size_t i = 0; i < n; i++)
        memcpy(fill + i * element, poison_of(dtype), element);
    assert_ok(parlin_tensor_write(view.around, fill));
    free(fill);
    view.tensor = parlin_tensor_cols(parlin_tensor_rows(view.around, ABOVE, rows), LEFT, cols);
    return view;
}

void view_free(test_view *view)
{
    parlin_tensor_destroy(&view->around);
}

void view_write(const test_view *view, const void *host)
{
    assert_ok(parlin_tensor_write(view->tensor, host));
}

void view_check(const test_view *view, const void *wanted, const char *what, const char *file,
                int line)
{
    const parlin_dtype dtype = view->tensor.dtype;
    const size_t element = parlin_dtype_size(dtype);
    const size_t rows = view->tensor.rows, cols = view->tensor.cols;
    const size_t all_rows = rows + MORE_ROWS, all_cols = cols + MORE_COLS;
    char *host = support_alloc(all_rows * all_cols * element);
    assert_ok(parlin_tensor_read(view->around, host));
    for (size_t i = 0; i < all_rows; i++)
        for (size_t j = 0; j < all_cols; j++) {
            bool inside = wanted && i >= ABOVE && i < ABOVE + rows && j >= LEFT && j < LEFT + cols;
            const void *want =
                inside ? (const char *)wanted + ((i - ABOVE) * cols + (j - LEFT)) * element
                       : poison_of(dtype);
            const char *got = host + (i * all_cols + j) * element;
            if (memcmp(got, want, element) == 0)
                continue;
            uint32_t got_bits = 0, want_bits = 0;
            memcpy(&got_bits, got, element);
            memcpy(&want_bits, want, element);
            fprintf(stderr, "rank %d of %d: %s: (%td, %td) of a (%zu, %zu) view is %08x",
                    support_rank(), support_size(), what, (ptrdiff_t)i - ABOVE, (ptrdiff_t)j - LEFT,
                    rows, cols, got_bits);
            if (dtype == PARLIN_F32)
                fprintf(stderr, " (%g, wanted %g)", (double)*(const float *)(const void *)got,
                        (double)*(const float *)want);
            fprintf(stderr, ", wanted %08x%s\n", want_bits, inside ? "" : ": untouched");
            _fail(file, line);
        }
    free(host);
}

void view_lengths(int kind, size_t total, int p, size_t *lengths)
{
    for (int q = 0; q < p; q++)
        lengths[q] = 0;
    switch (kind) {
    case 0:
        for (size_t i = 0; i < total; i++)
            lengths[i * (size_t)p / (total ? total : 1)]++;
        break;
    case 1: /* 1, 2, 3, ..: what is left to the first */
        for (size_t left = total, q = (size_t)p - 1; left > 0; q = q ? q - 1 : 0) {
            size_t take = q == 0 || left < q ? left : q;
            lengths[q] += take;
            left -= take;
        }
        break;
    case 2:
        lengths[p - 1] = total;
        break;
    default: /* even ranks only */
        for (size_t i = 0; i < total; i++)
            lengths[(i * (size_t)((p + 1) / 2) / total) * 2]++;
    }
}
