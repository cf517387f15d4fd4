/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <string.h>

#include "num/num.h"

static const parlin_dtype dtypes[] = {PARLIN_F32, PARLIN_F16, PARLIN_BF16};

static void put(parlin_dtype dtype, unsigned char *at, float value)
{
    uint16_t bits;
    if (dtype == PARLIN_F32) {
        memcpy(at, &value, 4);
        return;
    }
    bits = dtype == PARLIN_F16 ? pl_f16_from_f32(value) : pl_bf16_from_f32(value);
    memcpy(at, &bits, 2);
}

static float get(parlin_dtype dtype, const unsigned char *at)
{
    float value;
    uint16_t bits;
    if (dtype == PARLIN_F32) {
        memcpy(&value, at, 4);
        return value;
    }
    memcpy(&bits, at, 2);
    return dtype == PARLIN_F16 ? pl_f32_from_f16(bits) : pl_f32_from_bf16(bits);
}

enum { COUNT = 9, SLOTS = 64, EDGE = 8 };

/* destination[i] = source[i * stride], at any alignment of both; bytes around stay as they are. */
static void check_pair(parlin_dtype to, parlin_dtype from, ptrdiff_t stride, size_t shift)
{
    unsigned char source[SLOTS * 4 + 4], out[EDGE + COUNT * 4 + 4 + EDGE], one[4];
    size_t from_size = parlin_dtype_size(from), to_size = parlin_dtype_size(to);
    memset(source, 0, sizeof source);
    memset(out, 0xa5, sizeof out);
    for (int i = 0; i < SLOTS; i++)
        put(from, source + shift + (size_t)i * from_size, (float)i * 1.37f - 20.0f);

    const unsigned char *first = source + shift + SLOTS / 2 * from_size;
    unsigned char *target = out + EDGE + shift;
    pl_convert(to, target, from, first, stride, COUNT);

    for (ptrdiff_t i = 0; i < COUNT; i++) {
        put(to, one, get(from, first + i * stride * (ptrdiff_t)from_size));
        assert_memory_equal(target + (size_t)i * to_size, one, to_size);
    }
    for (size_t i = 0; i < sizeof out; i++)
        if (out + i < target || out + i >= target + COUNT * to_size)
            assert_int_equal(out[i], 0xa5);
}

static void test_every_pair_stride_and_alignment(void **state)
{
    (void)state;
    for (size_t to = 0; to < 3; to++)
        for (size_t from = 0; from < 3; from++)
            for (ptrdiff_t stride = -3; stride <= 3; stride++)
                for (size_t shift = 0; shift < 4; shift++)
                    check_pair(dtypes[to], dtypes[from], stride, shift);
}

static void test_equal_types_copy_bits(void **state)
{
    (void)state;
    /* Signalling NaNs, which an arithmetic copy would make quiet. */
    static const uint32_t wide[] = {0x7f800001, 0xffbfffff, 0x80000000, 0x00000001};
    static const uint16_t narrow[] = {0x7c01, 0xfd00, 0x7f81, 0x8001};
    uint32_t wide_out[2];
    uint16_t narrow_out[2];
    for (ptrdiff_t stride = 1; stride <= 2; stride++) {
        pl_convert(PARLIN_F32, wide_out, PARLIN_F32, wide, stride, 2);
        assert_int_equal(wide_out[0], wide[0]);
        assert_int_equal(wide_out[1], wide[stride]);
        for (size_t t = 1; t < 3; t++) {
            pl_convert(dtypes[t], narrow_out, dtypes[t], narrow, stride, 2);
            assert_int_equal(narrow_out[0], narrow[0]);
            assert_int_equal(narrow_out[1], narrow[stride]);
        }
    }
}

/* Between the 16-bit types too there is one rounding: 1 + 2^-8 lies between two bf16 and is f16. */
static void test_between_the_halves(void **state)
{
    (void)state;
    const uint16_t f16[] = {0x3c04, 0x3c05, 0x7bff, 0x0001, 0x7c00, 0xfc00};
    const uint16_t as_bf16[] = {0x3f80, 0x3f81, 0x4780, 0x3380, 0x7f80, 0xff80};
    uint16_t out[6];
    pl_convert(PARLIN_BF16, out, PARLIN_F16, f16, 1, 6);
    assert_memory_equal(out, as_bf16, sizeof out);
    const uint16_t bf16[] = {0x3f80, 0x4780, 0x3380, 0x3300, 0x3301, 0x7f80};
    const uint16_t as_f16[] = {0x3c00, 0x7c00, 0x0001, 0x0000, 0x0001, 0x7c00};
    pl_convert(PARLIN_F16, out, PARLIN_BF16, bf16, 1, 6);
    assert_memory_equal(out, as_f16, sizeof out);
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    for (size_t to = 0; to < 3; to++)
        for (size_t from = 0; from < 3; from++)
            pl_convert(dtypes[to], NULL, dtypes[from], NULL, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_stride_and_alignment),
        cmocka_unit_test(test_equal_types_copy_bits),
        cmocka_unit_test(test_between_the_halves),
        cmocka_unit_test(test_nothing_to_do),
    };
    return SUPPORT_RUN("num/convert", tests);
}
