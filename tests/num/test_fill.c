/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values: what they are a function of, and how they are spread. Seeds are fixed: these are
   statements about given numbers, not chances. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/num.h"
#include "partition/partition.h"

enum { UNIFORM = PL_FILL_UNIFORM, NORMAL = PL_FILL_NORMAL };

static pl_fill make(int kind, float value, uint64_t seed, uint64_t param_id)
{
    return (pl_fill){(pl_fill_kind)kind, value, seed, param_id};
}

static float one(const pl_fill *fill, uint64_t row, uint64_t column)
{
    float value;
    support_poison(&value, 1);
    pl_fill_row(fill, row, column, 1, &value);
    return value;
}

static void test_constant(void **state)
{
    (void)state;
    pl_fill fill = make(PL_FILL_CONSTANT, -2.5f, 1, 1);
    float out[7];
    support_poison(out, 7);
    pl_fill_row(&fill, 3, 5, 6, out);
    for (int i = 0; i < 6; i++)
        assert_true(out[i] == -2.5f);
    assert_true(support_is_poison(out[6]));
}

/* Any slice holds the same values, whatever its start and length; nothing is written beyond. */
static void test_slices(void **state)
{
    (void)state;
    enum { COLUMNS = 41 };
    const uint64_t bases[] = {0, ((uint64_t)1 << 34) - 10, (uint64_t)1 << 50};
    for (int kind = UNIFORM; kind <= NORMAL; kind++)
        for (size_t b = 0; b < 3; b++) {
            pl_fill fill = make(kind, 0.7f, 11, 22);
            float whole[COLUMNS], slice[COLUMNS + 1];
            pl_fill_row(&fill, bases[b] + 1, bases[b], COLUMNS, whole);
            for (size_t start = 0; start <= COLUMNS; start++)
                for (size_t length = 0; start + length <= COLUMNS; length++) {
                    support_poison(slice, COLUMNS + 1);
                    pl_fill_row(&fill, bases[b] + 1, bases[b] + start, length, slice);
                    assert_same_floats(slice, whole + start, length);
                    assert_true(support_is_poison(slice[length]));
                }
        }
}

/* C18 at this level: column out = 4, in = 2, seed 1, p = 2; row in = 8, p = 4. */
static void case_C18_shards_are_slices(void **state)
{
    (void)state;
    pl_fill fill = make(UNIFORM, 0.353553f, 1, 1);
    float whole[4][2], shard[2];
    for (uint64_t row = 0; row < 4; row++)
        pl_fill_row(&fill, row, 0, 2, whole[row]);
    for (size_t r = 0; r < 2; r++) {
        pl_range rows = pl_range_of(4, 2, r);
        for (size_t i = 0; i < rows.length; i++) {
            pl_fill_row(&fill, rows.start + i, 0, 2, shard);
            assert_same_floats(shard, whole[rows.start + i], 2);
        }
    }
    assert_memory_not_equal(whole[0], whole[2], sizeof whole[0]);

    float row_whole[8];
    pl_fill_row(&fill, 3, 0, 8, row_whole);
    for (size_t r = 0; r < 4; r++) {
        pl_range cols = pl_range_of(8, 4, r);
        pl_fill_row(&fill, 3, cols.start, cols.length, shard);
        assert_same_floats(shard, row_whole + cols.start, cols.length);
    }
}

/* Each of seed, parameter, row and column matters, to its last and to its highest bit. */
static void test_every_input_matters(void **state)
{
    (void)state;
    for (int kind = UNIFORM; kind <= NORMAL; kind++) {
        pl_fill fill = make(kind, 1, 0x123456789abcdef0u, 7);
        float here = one(&fill, 5, 9);
        for (int bit = 0; bit < 64; bit++) {
            uint64_t flip = (uint64_t)1 << bit;
            pl_fill other_seed = fill, other_param = fill;
            other_seed.seed ^= flip;
            other_param.param_id ^= flip;
            assert_true(one(&other_seed, 5, 9) != here);
            assert_true(one(&other_param, 5, 9) != here);
            assert_true(one(&fill, 5 ^ flip, 9) != here);
            assert_true(one(&fill, 5, 9 ^ flip) != here);
        }
        /* Seed and parameter are not added up, nor row and column. */
        pl_fill swapped = make(kind, 1, 7, 0x123456789abcdef0u);
        assert_true(one(&swapped, 5, 9) != here);
        assert_true(one(&fill, 9, 5) != here);
    }
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The key and the words of a block, formed here once more from the description in fill.c. */
static void words_of(const pl_fill *fill, uint64_t row, uint64_t block, uint32_t words[4])
{
    const uint32_t parameter[4] = {(uint32_t)fill->seed, (uint32_t)(fill->seed >> 32),
                                   (uint32_t)fill->param_id, (uint32_t)(fill->param_id >> 32)};
    const uint32_t base[2] = {0x7061726c, 0x66696c6c};
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)row,
                                 (uint32_t)(row >> 32)};
    uint32_t key[4];
    pl_philox(parameter, base, key);
    pl_philox(counter, key, words);
}

static void test_uniform_is_as_described(void **state)
{
    (void)state;
    pl_fill fill = make(UNIFORM, 1, 99, 3);
    float values[4];
    uint32_t words[4];
    for (uint64_t block = 0; block < 500; block++) {
        pl_fill_row(&fill, 17, 4 * block, 4, values);
        words_of(&fill, 17, block, words);
        for (int i = 0; i < 4; i++)
            assert_true((double)values[i] == ldexp((double)(words[i] >> 8), -23) - 1);
    }
}

/* Against log, sqrt, cos and sin in double: within a few roundings of f32. */
static void test_normal_is_as_described(void **state)
{
    (void)state;
    const double two_pi = 2 * acos(-1.0);
    pl_fill fill = make(NORMAL, 1, 99, 3);
    float values[4];
    uint32_t words[4];
    double worst = 0;
    for (uint64_t block = 0; block < 50000; block++) {
        pl_fill_row(&fill, 17, 4 * block, 4, values);
        words_of(&fill, 17, block, words);
        for (int pair = 0; pair < 2; pair++) {
            int zeros = __builtin_clz(words[2 * pair] | 1);
            uint32_t cut = (words[2 * pair] | 1) & (0xffffff00u >> zeros);
            double u = ldexp((double)(zeros >= 8 ? words[2 * pair] | 1 : cut), -32);
            double turn = ldexp((double)(words[2 * pair + 1] & 0xffffffc0u), -32);
            double radius = sqrt(-2 * log(u));
            double x = fabs(values[2 * pair] - radius * cos(two_pi * turn));
            double y = fabs(values[2 * pair + 1] - radius * sin(two_pi * turn));
            worst = fmax(worst, fmax(x, y) / fmax(radius, 1e-3));
        }
    }
    assert_true(worst > 0);
    if (!(worst < 4e-7))
        fail_msg("relative to the radius the worst error is %g", worst);
}

/* The extremes of the normal's input words give finite values; zero words are reached by none of
   the loops above. Searched for by counter instead: the largest radius is sqrt(-2 ln 2^-32). */
static void test_normal_is_bounded(void **state)
{
    (void)state;
    pl_fill fill = make(NORMAL, 1, 5, 5);
    float values[4096];
    for (uint64_t row = 0; row < 256; row++) {
        pl_fill_row(&fill, row, 0, 4096, values);
        for (int i = 0; i < 4096; i++)
            assert_true(fabs((double)values[i]) <= 6.67);
    }
}

static void test_uniform_bounds(void **state)
{
    (void)state;
    const float bounds[] = {1.0f, 0.353553f, 1e-3f, 3.0f, 0.1f, 1e20f};
    float values[4096];
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        pl_fill fill = make(UNIFORM, bounds[b], 2, b);
        float low = 0, high = 0;
        for (uint64_t row = 0; row < 16; row++) {
            pl_fill_row(&fill, row, 0, 4096, values);
            for (int i = 0; i < 4096; i++) {
                assert_true(values[i] >= -bounds[b] && values[i] < bounds[b]);
                low = fminf(low, values[i]);
                high = fmaxf(high, values[i]);
            }
        }
        assert_true(low < -0.999f * bounds[b] && high > 0.999f * bounds[b]);
    }
}

/* Pinned: values once given belong to every network made from a seed. */
static void test_pinned_values(void **state)
{
    (void)state;
    static const uint32_t uniform[8] = {0xbe9216a0, 0xbdf76eb8, 0xbd494900, 0x3cb2d780,
                                        0x3ee40908, 0x3ea78870, 0x3e57820c, 0x3e804e34};
    static const uint32_t normal[8] = {0x3c065957, 0xbcd9618e, 0x3c0aacf9, 0x3caff821,
                                       0xbbfb81e5, 0xbb468738, 0xbc43a284, 0xbbc95832};
    float out[8];
    pl_fill fill = make(UNIFORM, 0.5f, 42, 1);
    pl_fill_row(&fill, 2, 3, 8, out);
    for (int i = 0; i < 8; i++)
        assert_int_equal(bits_of(out[i]), uniform[i]);
    fill = make(NORMAL, 0.02f, 42, 1);
    pl_fill_row(&fill, 2, 3, 8, out);
    for (int i = 0; i < 8; i++)
        assert_int_equal(bits_of(out[i]), normal[i]);
}

/* --- how the values are spread --- */

enum { SIDE = 400, N = SIDE * SIDE };

static float *square(const pl_fill *fill)
{
    float *values = support_alloc_floats(N);
    for (uint64_t row = 0; row < SIDE; row++)
        pl_fill_row(fill, row, 0, SIDE, values + row * SIDE);
    return values;
}

static double moment(const float *values, double centre, int power)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        sum += pow(values[i] - centre, power);
    return sum / N;
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov: sqrt(n) times the largest distance of the two distribution functions.
   1.95 is passed by chance once in a thousand. Sorts the values. */
static double distance(float *values, size_t n, double (*probability)(double))
{
    double largest = 0;
    qsort(values, n, sizeof *values, ascending);
    for (size_t i = 0; i < n; i++) {
        double p = probability(values[i]);
        largest = fmax(largest, fmax((double)(i + 1) / (double)n - p, p - (double)i / (double)n));
    }
    return largest * sqrt((double)n);
}

static double uniform_probability(double x)
{
    return (x + 1) / 2;
}

static double normal_probability(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static double correlation(const float *values, size_t lag)
{
    double sum = 0;
    for (size_t i = 0; i + lag < N; i++)
        sum += (double)values[i] * values[i + lag];
    return sum / (double)(N - lag);
}

static void check_spread(int kind, uint64_t seed, double variance, double fourth,
                         double fourth_variance)
{
    const double root = sqrt((double)N);
    pl_fill fill = make(kind, 1, seed, seed * 3 + 1);
    float *values = square(&fill);
    assert_true(fabs(moment(values, 0, 1)) < 4 * sqrt(variance) / root);
    assert_true(fabs(moment(values, 0, 2) - variance) <
                4 * sqrt(fourth - variance * variance) / root);
    assert_true(fabs(moment(values, 0, 4) - fourth) < 4 * sqrt(fourth_variance) / root);
    /* Neighbours in a row (within a block and across), blocks, and rows. */
    const size_t lags[] = {1, 2, 3, 4, 5, SIDE, SIDE + 1};
    for (size_t i = 0; i < sizeof lags / sizeof *lags; i++)
        assert_true(fabs(correlation(values, lags[i])) < 4 * variance / root);
    assert_true(distance(values, N, kind == UNIFORM ? uniform_probability : normal_probability) <
                1.95);
    free(values);
}

/* Moments: uniform on [-1, 1): 1/3, 1/5, and x^8 has 1/9. */
static void test_uniform_spread(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        check_spread(UNIFORM, seed, 1.0 / 3, 1.0 / 5, 1.0 / 9 - 1.0 / 25);
}

/* Moments: 1, 3, and x^8 has 105. */
static void test_normal_spread(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        check_spread(NORMAL, seed, 1, 3, 105 - 9);
}

/* One column of a tall matrix, one element of many parameters, and of many seeds: also spread. */
static void test_spread_across_keys(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    float *values = support_alloc_floats(COUNT);
    for (int along = 0; along < 3; along++)
        for (int kind = UNIFORM; kind <= NORMAL; kind++) {
            for (uint64_t i = 0; i < COUNT; i++) {
                pl_fill fill = make(kind, 1, along == 1 ? i : 1, along == 2 ? i : 1);
                values[i] = one(&fill, along == 0 ? i : 0, 0);
            }
            assert_true(distance(values, COUNT,
                                 kind == UNIFORM ? uniform_probability : normal_probability) <
                        1.95);
        }
    free(values);
}

static void test_value_scales(void **state)
{
    (void)state;
    float unit[64], scaled[64];
    for (int kind = UNIFORM; kind <= NORMAL; kind++) {
        pl_fill fill = make(kind, 1, 8, 8);
        pl_fill_row(&fill, 0, 0, 64, unit);
        fill.value = 0.02f;
        pl_fill_row(&fill, 0, 0, 64, scaled);
        for (int i = 0; i < 64; i++)
            unit[i] *= 0.02f;
        assert_same_floats(scaled, unit, 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(case_C18_shards_are_slices),
        cmocka_unit_test(test_every_input_matters),
        cmocka_unit_test(test_uniform_is_as_described),
        cmocka_unit_test(test_normal_is_as_described),
        cmocka_unit_test(test_normal_is_bounded),
        cmocka_unit_test(test_uniform_bounds),
        cmocka_unit_test(test_pinned_values),
        cmocka_unit_test(test_uniform_spread),
        cmocka_unit_test(test_normal_spread),
        cmocka_unit_test(test_spread_across_keys),
        cmocka_unit_test(test_value_scales),
    };
    return SUPPORT_RUN("num/fill", tests);
}
