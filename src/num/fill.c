/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values: element (row, column) of the full matrix, made alike on the host and in kernels.

   Key, once for a parameter (64 bits): words 0 and 1 of
       philox(counter = {seed low, seed high, param id low, param id high}, key = {KEY_0, KEY_1})
   Block, four columns 4 b .. 4 b + 3 of one row:
       w = philox(counter = {b low, b high, row low, row high}, key),   b = column / 4

   uniform: column 4 b + i takes word i:
       value * ((w[i] >> 8) - 2^23) * 2^-23                            in [-value, value)
   normal: columns 4 b, 4 b + 1 take w[0], w[1] and columns 4 b + 2, 4 b + 3 take w[2], w[3]
   (Box and Muller, 1958):
       value * sqrt(-2 ln u) * (cos, sin)(2 pi t),   u = (w | 1) 2^-32 of the first word, cut to
       24 significant bits, t = the upper 26 bits of the second word, as a part of a turn

   Two rules make the bits the same everywhere: no log, sqrt, cos or division, and no product is
   added to anything but by fma, so that a compiler that contracts on its own finds nothing to
   contract. Subnormals appear only where the value given is itself next to that range. */
#include "num/num.h"

#include <math.h>
#include <string.h>

#define KEY_0 0x7061726cu
#define KEY_1 0x66696c6cu

static float uniform_of(uint32_t word)
{
    return (float)((int32_t)(word >> 8) - 0x800000) * 0x1p-23f;
}

/* -2 ln u, u = (word | 1) 2^-32. Polynomial for ln(1 + f), f in [sqrt 1/2, sqrt 2) - 1, of
   Cephes (S. Moshier), logf. */
static float minus_two_log(uint32_t word)
{
    uint32_t odd = word | 1u;
    int32_t zeros = __builtin_clz(odd);
    int32_t mantissa = (int32_t)((odd << zeros) >> 8); /* in [2^23, 2^24) */
    int32_t exponent = -zeros;
    if (mantissa < 0xb504f4) { /* sqrt(1/2) 2^24 */
        mantissa *= 2;
        exponent--;
    }
    float f = (float)(mantissa - 0x1000000) * 0x1p-24f; /* exact */
    float poly = 0x1.204376p-4f;
    poly = fmaf(poly, f, -0x1.d7a370p-4f);
    poly = fmaf(poly, f, 0x1.de4a34p-4f);
    poly = fmaf(poly, f, -0x1.fcba9ep-4f);
    poly = fmaf(poly, f, 0x1.23d37ep-3f);
    poly = fmaf(poly, f, -0x1.555ca0p-3f);
    poly = fmaf(poly, f, 0x1.999d58p-3f);
    poly = fmaf(poly, f, -0x1.fffff8p-3f);
    poly = fmaf(poly, f, 0x1.555554p-2f);
    poly = fmaf(poly, f, -0.5f);
    float log_1p = fmaf(f * f, poly, f);
    return fmaf((float)exponent, -0x1.62e430p+0f /* -2 ln 2 */, -2.0f * log_1p);
}

/* sqrt(s), s in [2^-24, 64): three Newton steps for 1 / sqrt(s) from a first guess made of s's
   bits, one for the root. */
static float square_root(float s)
{
    uint32_t bits;
    memcpy(&bits, &s, sizeof bits);
    bits = 0x5f375a86u - (bits >> 1);
    float inverse;
    memcpy(&inverse, &bits, sizeof inverse);
    float half = 0.5f * s;
    for (int step = 0; step < 3; step++)
        inverse *= fmaf(-(half * inverse), inverse, 1.5f);
    float root = s * inverse;
    return fmaf(0.5f * inverse, fmaf(-root, root, s), root);
}

/* cos and sin of 2 pi word 2^-32: the nearest quarter turn, and the angle from there, in
   [-pi/4, pi/4]. Polynomials of Cephes, sinf and cosf. */
static void turn(uint32_t word, float *cosine, float *sine)
{
    uint32_t shifted = word + 0x20000000u, quarter = shifted >> 30;
    int32_t rest = (int32_t)(shifted & 0x3fffffc0u) - 0x20000000;
    float x = (float)rest * 0x1.921fb6p-30f; /* pi/2 2^-30 */
    float z = x * x;
    float s = -0x1.9943f2p-13f;
    s = fmaf(s, z, 0x1.11073cp-7f);
    s = fmaf(s, z, -0x1.555546p-3f);
    s = fmaf(z * x, s, x);
    float c = 0x1.99eb9cp-16f;
    c = fmaf(c, z, -0x1.6c0c34p-10f);
    c = fmaf(c, z, 0x1.55554ap-5f);
    c = fmaf(c, z, -0.5f);
    c = fmaf(c, z, 1.0f);
    float x_axis = quarter & 1u ? s : c, y_axis = quarter & 1u ? c : s;
    *cosine = quarter == 1u || quarter == 2u ? -x_axis : x_axis;
    *sine = quarter >= 2u ? -y_axis : y_axis;
}

static void normal_pair(const uint32_t words[2], float out[2])
{
    float radius = square_root(minus_two_log(words[0])), cosine, sine;
    turn(words[1], &cosine, &sine);
    out[0] = radius * cosine;
    out[1] = radius * sine;
}

static void block_of(pl_fill_kind kind, const uint32_t words[4], float value, float out[4])
{
    if (kind == PL_FILL_NORMAL) {
        normal_pair(words, out);
        normal_pair(words + 2, out + 2);
    } else {
        for (int i = 0; i < 4; i++)
            out[i] = uniform_of(words[i]);
    }
    for (int i = 0; i < 4; i++)
        out[i] *= value;
}

void pl_fill_row(const pl_fill *fill, uint64_t row, uint64_t column, size_t count, float *out)
{
    if (fill->kind == PL_FILL_CONSTANT) {
        for (size_t j = 0; j < count; j++)
            out[j] = fill->value;
        return;
    }
    const uint32_t parameter[4] = {(uint32_t)fill->seed, (uint32_t)(fill->seed >> 32),
                                   (uint32_t)fill->param_id, (uint32_t)(fill->param_id >> 32)};
    const uint32_t base[2] = {KEY_0, KEY_1};
    uint32_t key[4], words[4];
    pl_philox(parameter, base, key);

    for (size_t done = 0; done < count;) {
        uint64_t block = (column + done) / 4;
        size_t first = (size_t)((column + done) % 4);
        size_t here = 4 - first < count - done ? 4 - first : count - done;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)row,
                                     (uint32_t)(row >> 32)};
        float values[4];
        pl_philox(counter, key, words);
        block_of(fill->kind, words, fill->value, values);
        memcpy(out + done, values + first, here * sizeof *out);
        done += here;
    }
}
