/* SPDX-License-Identifier: Apache-2.0 */
/* f16 and bf16 alike: nearest even, checked at every border between two neighbours. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "num/num.h"

typedef struct half_type {
    const char *name;
    uint16_t (*from)(float value);
    float (*to)(uint16_t bits);
    uint16_t infinity;
    uint16_t quiet; /* the bit that makes a NaN quiet */
    double smallest;
    int mantissa_bits;
    int lowest_exponent;
} half_type;

static const half_type types[] = {
    {"f16", pl_f16_from_f32, pl_f32_from_f16, 0x7c00, 0x0200, 0x1p-24, 10, -14},
    {"bf16", pl_bf16_from_f32, pl_f32_from_bf16, 0x7f80, 0x0040, 0x1p-133, 7, -126},
};

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void check(const half_type *type, float value, uint16_t wanted)
{
    uint16_t got = type->from(value);
    if (got != wanted)
        fail_msg("%s of 0x%08x is 0x%04x, wanted 0x%04x", type->name, bits_of(value), got, wanted);
}

/* A pattern's value by the definition of the format, in double. */
static double value_of(const half_type *type, uint16_t pattern)
{
    uint32_t exponent_bits = 15 - (uint32_t)type->mantissa_bits;
    uint32_t exponent = (uint32_t)(pattern >> type->mantissa_bits) & ((1u << exponent_bits) - 1);
    uint32_t mantissa = pattern & ((1u << type->mantissa_bits) - 1);
    double magnitude = exponent == 0 ? mantissa * type->smallest
                                     : ldexp(1 + ldexp((double)mantissa, -type->mantissa_bits),
                                             (int)exponent - 1 + type->lowest_exponent);
    return pattern & 0x8000 ? -magnitude : magnitude;
}

static void check_every_pattern(const half_type *type)
{
    for (uint32_t i = 0; i <= 0xffff; i++) {
        uint16_t pattern = (uint16_t)i, magnitude = pattern & 0x7fff;
        float value = type->to(pattern);
        assert_int_equal(signbit(value) != 0, pattern >> 15);
        if (magnitude > type->infinity) { /* NaN: sign and payload kept, made quiet */
            assert_true(isnan(value));
            check(type, value, pattern | type->quiet);
            continue;
        }
        if (magnitude == type->infinity)
            assert_true(isinf(value));
        else
            assert_true((double)value == value_of(type, pattern));
        check(type, value, pattern);
    }
}

static void case_C19_every_pattern_round_trips(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++)
        check_every_pattern(&types[i]);
}

/* Between each two neighbours a < b: the middle goes to the even one, just below to a, just above
   to b. The last b is infinity, at twice the exponent's power. */
static void check_every_border(const half_type *type)
{
    for (uint16_t a = 0; a < type->infinity; a++) {
        uint16_t b = a + 1, even = a & 1 ? b : a;
        /* Infinity stands where the next value would be. */
        double low = value_of(type, a), high = value_of(type, b);
        float middle = (float)((low + high) / 2);
        assert_true((double)middle == (low + high) / 2);
        check(type, middle, even);
        check(type, nextafterf(middle, 0), a);
        check(type, nextafterf(middle, INFINITY), b);
        check(type, -middle, even | 0x8000);
        check(type, -nextafterf(middle, 0), a | 0x8000);
        check(type, -nextafterf(middle, INFINITY), b | 0x8000);
    }
}

static void case_C19_every_border_is_nearest_even(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++)
        check_every_border(&types[i]);
}

static void case_C19_listed_f16(void **state)
{
    (void)state;
    static const struct {
        uint32_t from;
        uint16_t to;
    } listed[] = {
        {0x33800000, 0x0001}, {0x33000000, 0x0000}, {0x33000001, 0x0001}, {0x33C00000, 0x0002},
        {0x38000000, 0x0200}, {0x387FE000, 0x0400}, {0x477FEFFF, 0x7BFF}, {0x477FF000, 0x7C00},
        {0x00000000, 0x0000}, {0x00000001, 0x0000}, {0x7F800000, 0x7C00}, {0x7F7FFFFF, 0x7C00},
    };
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
        check(&types[0], float_of(listed[i].from), listed[i].to);
        check(&types[0], float_of(listed[i].from | 0x80000000u), listed[i].to | 0x8000);
    }
    assert_true(pl_f32_from_f16(0x0001) == 0x1p-24f);
}

static void case_C19_listed_bf16(void **state)
{
    (void)state;
    static const struct {
        uint32_t from;
        uint16_t to;
    } listed[] = {
        {0x3F808000, 0x3F80}, {0x3F808001, 0x3F81}, {0x3F818000, 0x3F82}, {0x3F817FFF, 0x3F81},
        {0x00008000, 0x0000}, {0x00008001, 0x0001}, {0x00018000, 0x0002}, {0x007FFFFF, 0x0080},
        {0x7F7F7FFF, 0x7F7F}, {0x7F7F8000, 0x7F80}, {0x7F800000, 0x7F80}, {0x43818000, 0x4382},
    };
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
        check(&types[1], float_of(listed[i].from), listed[i].to);
        check(&types[1], float_of(listed[i].from | 0x80000000u), listed[i].to | 0x8000);
    }
}

static void case_C19_nan_stays_a_nan(void **state)
{
    (void)state;
    static const uint32_t patterns[] = {0x7F800001, 0x7F801FFF, 0x7F80FFFF, 0x7FBFFFFF,
                                        0x7FC00000, 0x7FFFFFFF, 0x7FFF8000};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (uint32_t sign = 0; sign < 2; sign++)
            for (size_t t = 0; t < 2; t++) {
                uint16_t got = types[t].from(float_of(patterns[i] | sign << 31));
                assert_true((got & 0x7fff) > types[t].infinity);
                assert_true(got & types[t].quiet);
                assert_int_equal(got >> 15, sign);
            }
    /* C21: the payload of 0x7E01 goes there and back. */
    assert_int_equal(pl_f16_from_f32(pl_f32_from_f16(0x7E01)), 0x7E01);
}

/* Random bit patterns: no neighbour is nearer. */
static void test_random_values_are_nearest(void **state)
{
    (void)state;
    support_random random = {support_seed()};
    for (size_t t = 0; t < 2; t++)
        for (int i = 0; i < 200000; i++) {
            float value = float_of((uint32_t)support_next(&random));
            if (!isfinite(value))
                continue;
            uint16_t got = types[t].from(value), magnitude = got & 0x7fff;
            double error = fabs(value_of(&types[t], got) - value);
            if (magnitude < types[t].infinity)
                assert_true(error <= fabs(value_of(&types[t], got + 1) - value));
            if (magnitude > 0)
                assert_true(error <= fabs(value_of(&types[t], got - 1) - value));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C19_every_pattern_round_trips),
        cmocka_unit_test(case_C19_every_border_is_nearest_even),
        cmocka_unit_test(case_C19_listed_f16),
        cmocka_unit_test(case_C19_listed_bf16),
        cmocka_unit_test(case_C19_nan_stays_a_nan),
        cmocka_unit_test(test_random_values_are_nearest),
    };
    return SUPPORT_RUN("num/half", tests);
}
