/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that cannot overflow without being told. */
#ifndef PL_CORE_SIZE_H
#define PL_CORE_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* *out = a * b (or a + b); false, and *out untouched, where it does not fit size_t. */
bool pl_size_mul(size_t a, size_t b, size_t *out);
bool pl_size_add(size_t a, size_t b, size_t *out);

#endif
