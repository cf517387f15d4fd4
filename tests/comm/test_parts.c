/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that need no group: sums in rank order, staging pieces, even cuts, the wait. */
#include <stdlib.h>
#include <string.h>

#include "comm/group.h"
#include "comm/layout.h"
#include "comm/reduce.h"
#include "support.h"

static void test_sum_in_order(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 15, 16, 17, 1023, 1024, 1025, 3000};
    support_random random = {support_seed()};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int p = 1; p <= 5; p++)
            for (int own = -1; own < p; own++) {
                const size_t n = counts[c], stride = n + 3;
                float *parts = support_alloc_floats((size_t)p * stride + 1);
                float *mine = support_alloc_floats(n + 1), *wanted = support_alloc_floats(n);
                for (int q = 0; q < p; q++)
                    support_floats(&random, q == own ? mine : parts + (size_t)q * stride, n);
                for (size_t i = 0; i < n; i++)
                    for (int q = 0; q < p; q++) {
                        float x = q == own ? mine[i] : parts[(size_t)q * stride + i];
                        wanted[i] = q == 0 ? x : wanted[i] + x;
                    }
                /* the result in the place of a part, as the callers have it */
                float *out = own < 0 ? parts : mine;
                pl_sum_in_order(out, n, p, parts, stride, own, own < 0 ? NULL : mine);
                assert_same_floats(out, wanted, n);
                assert_true(support_is_poison(out[n]));
                free(parts);
                free(mine);
                free(wanted);
            }
}

static void test_a_lone_negative_zero_stays(void **state)
{
    (void)state;
    float zero = -0.0f, out = 1;
    const float wanted = -0.0f;
    pl_sum_in_order(&out, 1, 1, &zero, 1, -1, NULL);
    assert_same_floats(&out, &wanted, 1);
}

/* n = 7, p = 3: [0,3) [3,5) [5,7); n = 2, p = 3: [0,1) [1,2) [2,2) */
static void test_even_cuts(void **state)
{
    (void)state;
    static const size_t wanted[2][3][2] = {{{0, 3}, {3, 2}, {5, 2}}, {{0, 1}, {1, 1}, {2, 0}}};
    for (int r = 0; r < 3; r++) {
        assert_int_equal(pl_even_start(7, 3, r), wanted[0][r][0]);
        assert_int_equal(pl_even_length(7, 3, r), wanted[0][r][1]);
        assert_int_equal(pl_even_start(2, 3, r), wanted[1][r][0]);
        assert_int_equal(pl_even_length(2, 3, r), wanted[1][r][1]);
    }
    for (size_t n = 0; n < 40; n++)
        for (int p = 1; p < 12; p++) {
            size_t at = 0;
            for (int r = 0; r < p; at += pl_even_length(n, p, r++))
                assert_int_equal(pl_even_start(n, p, r), at);
            assert_int_equal(at, n);
        }
}

static void test_pieces(void **state)
{
    (void)state;
    /* two parts over three ranks: 2 0 5 and 1 1 1, four rows of 2-byte elements */
    static const size_t lengths[] = {2, 0, 5, 1, 1, 1};
    pl_piece pieces[3];
    pl_layout_pieces(3, 2, lengths, 4, 2, pieces);
    assert_int_equal(pieces[0].at, 0);
    assert_int_equal(pieces[0].bytes, 24);
    assert_int_equal(pieces[1].at, 24);
    assert_int_equal(pieces[1].bytes, 8);
    assert_int_equal(pieces[2].at, 32);
    assert_int_equal(pieces[2].bytes, 48);
}

static void test_a_wait_ends_at_its_limit(void **state)
{
    (void)state;
    pl_wait wait = {.limit = 0.01};
    pl_wait_new_call(&wait);
    pl_wait_new_operation(&wait);
    while (pl_wait_more(&wait)) {
    }
    /* The limit is that of the call, not of one of its operations. */
    pl_wait_new_operation(&wait);
    unsigned tests = 0;
    while (pl_wait_more(&wait))
        tests++;
    assert_in_range(tests, 1, 1000);
    pl_wait_new_call(&wait);
    pl_wait_new_operation(&wait);
    for (unsigned i = 0; i <= tests; i++)
        assert_true(pl_wait_more(&wait));
    wait.limit = 0;
    for (unsigned i = 0; i < 5000; i++)
        assert_true(pl_wait_more(&wait));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_in_order),
        cmocka_unit_test(test_a_lone_negative_zero_stays),
        cmocka_unit_test(test_even_cuts),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_a_wait_ends_at_its_limit),
    };
    return SUPPORT_RUN("comm_parts", tests);
}
