/* SPDX-License-Identifier: Apache-2.0 */
/* IEEE binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits. */
#include "num/num.h"

#include <string.h>

uint16_t pl_f16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;

    if (magnitude > 0x7f800000u) /* NaN: made quiet, the upper ten bits of its payload kept */
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* from 65520 on, halfway to 2^16, and infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) { /* normal, from 2^-14 on; a carry moves into the exponent */
        uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
        return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
    }
    if (magnitude < 0x33000000u) /* below 2^-25, half of the smallest subnormal */
        return (uint16_t)sign;
    /* Subnormal: the mantissa in units of 2^-24. */
    uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t shift = 126u - (magnitude >> 23); /* 14 .. 24 */
    uint32_t kept = mantissa >> shift, lost = mantissa & ((1u << shift) - 1u);
    uint32_t half = 1u << (shift - 1u);
    return (uint16_t)(sign | (kept + (lost > half || (lost == half && (kept & 1u)))));
}

float pl_f32_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = bits >> 10 & 0x1fu, mantissa = bits & 0x3ffu;
    uint32_t wide;

    if (exponent == 0x1f) {
        wide = 0x7f800000u | mantissa << 13;
    } else if (exponent) {
        wide = (exponent + 112u) << 23 | mantissa << 13;
    } else {
        float subnormal = (float)mantissa * 0x1p-24f; /* exact */
        memcpy(&wide, &subnormal, sizeof wide);
    }
    wide |= sign;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}
