/* SPDX-License-Identifier: Apache-2.0 */
#include "num/num.h"

#include <string.h>

/* Elements are read and written through memcpy: a mapped file gives no alignment. */
static float load(parlin_dtype dtype, const unsigned char *from)
{
    if (dtype == PARLIN_F32) {
        float value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, from, sizeof bits);
    return dtype == PARLIN_F16 ? pl_f32_from_f16(bits) : pl_f32_from_bf16(bits);
}

static void store(parlin_dtype dtype, unsigned char *to, float value)
{
    if (dtype == PARLIN_F32) {
        memcpy(to, &value, sizeof value);
        return;
    }
    uint16_t bits = dtype == PARLIN_F16 ? pl_f16_from_f32(value) : pl_bf16_from_f32(value);
    memcpy(to, &bits, sizeof bits);
}

/* Equal dtypes: bits are moved, never looked at as a float, so that every NaN stays as it is. */
static void move4(unsigned char *to, const unsigned char *from, ptrdiff_t step, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + 4 * i, from + step * (ptrdiff_t)i, 4);
}

static void move2(unsigned char *to, const unsigned char *from, ptrdiff_t step, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + 2 * i, from + step * (ptrdiff_t)i, 2);
}

void pl_convert(parlin_dtype to, void *destination, parlin_dtype from, const void *source,
                ptrdiff_t stride, size_t count)
{
    unsigned char *target = destination;
    const unsigned char *origin = source;
    size_t target_size = parlin_dtype_size(to), origin_size = parlin_dtype_size(from);
    ptrdiff_t step = stride * (ptrdiff_t)origin_size;

    if (count == 0)
        return;
    if (to != from) {
        /* Through f32, which holds every value of the 16-bit types: one rounding in all. */
        for (size_t i = 0; i < count; i++)
            store(to, target + target_size * i, load(from, origin + step * (ptrdiff_t)i));
    } else if (stride == 1) {
        memcpy(target, origin, count * target_size);
    } else if (target_size == 4) {
        move4(target, origin, step, count);
    } else {
        move2(target, origin, step, count);
    }
}
