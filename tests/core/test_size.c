/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "core/size.h"

/* Borders of overflow, with the untouched output checked. */
static void check_mul(size_t a, size_t b, bool fits)
{
    size_t out = 77;
    assert_int_equal(pl_size_mul(a, b, &out), fits);
    assert_true(out == (fits ? a * b : 77));
}

static void check_add(size_t a, size_t b, bool fits)
{
    size_t out = 77;
    assert_int_equal(pl_size_add(a, b, &out), fits);
    assert_true(out == (fits ? a + b : 77));
}

static void test_mul(void **state)
{
    (void)state;
    const size_t root = (size_t)1 << (sizeof(size_t) * 4);
    check_mul(0, 0, true);
    check_mul(0, SIZE_MAX, true);
    check_mul(SIZE_MAX, 0, true);
    check_mul(1, SIZE_MAX, true);
    check_mul(SIZE_MAX, 1, true);
    check_mul(2, SIZE_MAX / 2, true);
    check_mul(2, SIZE_MAX / 2 + 1, false);
    check_mul(SIZE_MAX / 2 + 1, 2, false);
    check_mul(root, root, false);
    check_mul(root, root - 1, true);
    check_mul(root - 1, root + 1, true); /* SIZE_MAX itself */
    check_mul(root + 1, root + 1, false);
    check_mul(SIZE_MAX, SIZE_MAX, false);
    check_mul(123456, 654321, true);
}

static void test_add(void **state)
{
    (void)state;
    check_add(0, 0, true);
    check_add(0, SIZE_MAX, true);
    check_add(SIZE_MAX, 0, true);
    check_add(1, SIZE_MAX, false);
    check_add(SIZE_MAX, 1, false);
    check_add(SIZE_MAX / 2, SIZE_MAX / 2 + 1, true);
    check_add(SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1, false);
    check_add(SIZE_MAX, SIZE_MAX, false);
    check_add(3, 4, true);
}

static void test_output_may_be_an_input(void **state)
{
    (void)state;
    size_t value = 6;
    assert_true(pl_size_mul(value, 7, &value));
    assert_int_equal(value, 42);
    assert_true(pl_size_add(value, value, &value));
    assert_int_equal(value, 84);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mul),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_output_may_be_an_input),
    };
    return SUPPORT_RUN("core/size", tests);
}
