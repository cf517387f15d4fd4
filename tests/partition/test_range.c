/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "partition/partition.h"

/* Runs follow each other from 0 to n, and earlier ranks take one more. */
static void check_cut(size_t n, size_t p)
{
    size_t next = 0, before = SIZE_MAX, shortest = SIZE_MAX, longest = 0;
    for (size_t r = 0; r < p; r++) {
        pl_range range = pl_range_of(n, p, r);
        assert_int_equal(range.start, next);
        assert_true(range.length <= before);
        before = range.length;
        shortest = range.length < shortest ? range.length : shortest;
        longest = range.length > longest ? range.length : longest;
        next += range.length;
    }
    assert_int_equal(next, n);
    assert_true(longest - shortest <= 1);
}

static void test_every_small_cut(void **state)
{
    (void)state;
    for (size_t p = 1; p <= 64; p++)
        for (size_t n = 0; n <= 300; n++)
            check_cut(n, p);
}

static void test_large_numbers(void **state)
{
    (void)state;
    for (size_t p = 1; p <= 64; p++) {
        check_cut(SIZE_MAX, p);
        check_cut(((size_t)1 << 40) + 12345, p);
    }
}

static void test_units(void **state)
{
    (void)state;
    for (size_t p = 1; p <= 64; p++)
        for (size_t units = 0; units <= 70; units++)
            for (size_t unit = 0; unit <= 9; unit++)
                for (size_t r = 0; r < p; r++) {
                    pl_range whole = pl_range_of(units, p, r);
                    pl_range range = pl_range_of_units(units, unit, p, r);
                    assert_int_equal(range.start, whole.start * unit);
                    assert_int_equal(range.length, whole.length * unit);
                }
}

static void check_lengths(size_t n, size_t p, const size_t *lengths)
{
    for (size_t r = 0; r < p; r++)
        assert_int_equal(pl_range_of(n, p, r).length, lengths[r]);
}

/* The table of range.c. */
static void test_worked_cuts(void **state)
{
    (void)state;
    check_lengths(8, 2, (const size_t[]){4, 4});
    check_lengths(7, 2, (const size_t[]){4, 3});
    check_lengths(7, 3, (const size_t[]){3, 2, 2});
    check_lengths(2, 3, (const size_t[]){1, 1, 0});
    check_lengths(0, 3, (const size_t[]){0, 0, 0});
}

/* C07: merged parts {3, 3} with rows 0..2 and 100..102, p = 2: each part is cut by itself. */
static void case_C07_merged_parts_are_cut_one_by_one(void **state)
{
    (void)state;
    const size_t first_value[2] = {0, 100};
    static const size_t wanted[2][4] = {{0, 1, 100, 101}, {2, 102}};
    static const size_t wanted_count[2] = {4, 2};
    for (size_t r = 0; r < 2; r++) {
        size_t count = 0;
        for (size_t part = 0; part < 2; part++) {
            pl_range range = pl_range_of(3, 2, r);
            for (size_t i = 0; i < range.length; i++)
                assert_int_equal(first_value[part] + range.start + i, wanted[r][count++]);
        }
        assert_int_equal(count, wanted_count[r]);
    }
}

/* C08: columns of a column layer with out = 7 and of a row layer with in = 7, p = 2: 4 and 3. */
static void case_C08_seven_over_two(void **state)
{
    (void)state;
    assert_int_equal(pl_range_of(7, 2, 0).length, 4);
    assert_int_equal(pl_range_of(7, 2, 1).start, 4);
    assert_int_equal(pl_range_of(7, 2, 1).length, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_cut),
        cmocka_unit_test(test_large_numbers),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_worked_cuts),
        cmocka_unit_test(case_C07_merged_parts_are_cut_one_by_one),
        cmocka_unit_test(case_C08_seven_over_two),
    };
    return SUPPORT_RUN("partition/range", tests);
}
