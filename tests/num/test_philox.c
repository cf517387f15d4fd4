/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include "num/num.h"

/* Known answers of Random123 (kat_vectors, philox4x32-10). */
static void test_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], wanted[4];
    } table[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint32_t out[4] = {0};
        pl_philox(table[i].counter, table[i].key, out);
        assert_memory_equal(out, table[i].wanted, sizeof out);
    }
}

static void test_output_may_be_the_counter(void **state)
{
    (void)state;
    uint32_t block[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    const uint32_t key[2] = {0xa4093822, 0x299f31d0};
    pl_philox(block, key, block);
    assert_int_equal(block[0], 0xd16cfe09);
    assert_int_equal(block[3], 0x24126ea1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_output_may_be_the_counter),
    };
    return SUPPORT_RUN("num/philox", tests);
}
