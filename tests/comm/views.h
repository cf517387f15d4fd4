/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors for the tests of this room: a view in the middle of a larger buffer full of poison, so
   that every element written outside the view is seen. */
#ifndef TESTS_COMM_VIEWS_H
#define TESTS_COMM_VIEWS_H

#include "support.h"

typedef struct test_view {
    parlin_tensor tensor; /* the view */
    parlin_tensor around; /* the buffer: (rows + 2, cols + 5) */
} test_view;

/* Poison everywhere. */
test_view view_make(parlin_group *group, parlin_dtype dtype, size_t rows, size_t cols);
void view_free(test_view *view);

/* Dense host memory of the view's dtype. */
void view_write(const test_view *view, const void *host);

/* Fails where the view is not bit for bit `wanted`, or something around it was written. */
#define assert_view(view, wanted, what) view_check(view, wanted, what, __FILE__, __LINE__)
void view_check(const test_view *view, const void *wanted, const char *what, const char *file,
                int line);

/* Fails where anything was written since view_make. */
#define assert_untouched(view, what) view_check(view, NULL, what, __FILE__, __LINE__)

/* The value of rank r at (i, j): whole and small, so that sums over eight ranks are exact. */
static inline float value_of(int r, size_t i, size_t j)
{
    return (float)((r + 1) * 10000) + (float)((i * 31 + j * 7) % 9973);
}

/* Runs that add up to `total`: kind 0 even, 1 uneven, 2 all on the last rank, 3 some empty. */
enum { LENGTH_KINDS = 4 };
void view_lengths(int kind, size_t total, int p, size_t *lengths);

#endif
