/* SPDX-License-Identifier: Apache-2.0 */
/* Pure host numbers: 16-bit floats, conversion, and initial values. */
#ifndef PL_NUM_H
#define PL_NUM_H

#include <stddef.h>
#include <stdint.h>

#include <parlin/types.h>

/* Round to nearest even; subnormals, infinities and signs kept; a NaN stays a NaN (quiet, upper
   payload kept). */
uint16_t pl_f16_from_f32(float value);
float pl_f32_from_f16(uint16_t bits);
uint16_t pl_bf16_from_f32(float value);
float pl_f32_from_bf16(uint16_t bits);

/* destination[i] = source[i * stride], i < count, converted; stride in elements of the source,
   any sign. Neither end needs alignment. Equal dtypes copy bits. */
void pl_convert(parlin_dtype to, void *destination, parlin_dtype from, const void *source,
                ptrdiff_t stride, size_t count);

/* Philox 4x32-10 (Salmon et al., SC 2011): one block of four words for a counter and a key. */
void pl_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* How the initial values of a matrix are formed once the fans are known. */
typedef enum pl_fill_kind { PL_FILL_CONSTANT, PL_FILL_UNIFORM, PL_FILL_NORMAL } pl_fill_kind;

typedef struct pl_fill {
    pl_fill_kind kind;
    float value; /* the constant, the bound, or the standard deviation */
    uint64_t seed;
    uint64_t param_id;
} pl_fill;

/* out[j] = the value at (row, column + j) of the full matrix, j < count. A pure function of
   (fill, row, column), formed of integers, exact conversions, +, * and explicit fma alone, so
   that a kernel can give the same bits. */
void pl_fill_row(const pl_fill *fill, uint64_t row, uint64_t column, size_t count, float *out);

#endif
