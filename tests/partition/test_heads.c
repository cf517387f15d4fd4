/* SPDX-License-Identifier: Apache-2.0 */
/* H query heads, K key/value heads, g = H / K; p ranks. */
#include "support.h"

#include "partition/partition.h"

static void check_one(size_t heads, size_t kv_heads, size_t p)
{
    size_t g = heads / kv_heads, next = 0, owners[64] = {0}, holders[64] = {0};
    size_t shortest = SIZE_MAX, longest = 0, before = SIZE_MAX, kv_seen = 0;

    for (size_t r = 0; r < p; r++) {
        pl_heads_cut cut = pl_heads_cut_of(heads, kv_heads, p, r);
        /* Query heads: everything once, in order, nobody without, earlier ranks take more. */
        assert_int_equal(cut.heads.start, next);
        assert_true(cut.heads.length >= 1);
        assert_true(cut.heads.length <= before);
        next = cut.heads.start + cut.heads.length;
        before = cut.heads.length;
        shortest = cut.heads.length < shortest ? cut.heads.length : shortest;
        longest = cut.heads.length > longest ? cut.heads.length : longest;

        /* Exactly the kv heads that these read, by brute force. */
        bool reads[64] = {false};
        for (size_t h = cut.heads.start; h < next; h++)
            reads[h / g] = true;
        for (size_t kv = 0; kv < kv_heads; kv++) {
            bool holds = kv >= cut.kv_heads.start && kv < cut.kv_heads.start + cut.kv_heads.length;
            assert_int_equal(holds, reads[kv]);
            bool owns = pl_heads_owns_kv(heads, kv_heads, p, r, kv);
            assert_true(holds || !owns);
            assert_int_equal(owns, holds && holders[kv] == 0); /* the first that holds it */
            holders[kv] += holds;
            owners[kv] += owns;
        }
        assert_true(cut.kv_heads.start + cut.kv_heads.length <= kv_heads);
        kv_seen += cut.kv_heads.length;

        for (size_t h = 0; h < cut.heads.length; h++) {
            size_t local = pl_heads_local_kv(&cut, heads, kv_heads, h);
            assert_true(local < cut.kv_heads.length);
            assert_int_equal(cut.kv_heads.start + local, (cut.heads.start + h) / g);
        }
        /* On group borders as long as there is a kv head for everybody. */
        if (p <= kv_heads)
            assert_true(cut.heads.start % g == 0 && cut.heads.length % g == 0);
    }
    assert_int_equal(next, heads);
    assert_true(longest - shortest <= (p <= kv_heads ? g : 1)); /* one unit at most */
    for (size_t kv = 0; kv < kv_heads; kv++)
        assert_int_equal(owners[kv], 1);
    if (p <= kv_heads)
        assert_int_equal(kv_seen, kv_heads); /* none is held twice */
}

static void test_every_combination(void **state)
{
    (void)state;
    size_t combinations = 0;
    for (size_t kv_heads = 1; kv_heads <= 64; kv_heads++)
        for (size_t heads = kv_heads; heads <= 64; heads += kv_heads)
            for (size_t p = 1; p <= heads; p++, combinations++)
                check_one(heads, kv_heads, p);
    assert_true(combinations > 8000);
}

typedef struct worked {
    size_t heads, kv_heads, p;
    size_t head_lengths[8];
    pl_range kv[8];
} worked;

static void check_worked(const worked *table)
{
    size_t start = 0;
    for (size_t r = 0; r < table->p; r++) {
        pl_heads_cut cut = pl_heads_cut_of(table->heads, table->kv_heads, table->p, r);
        assert_int_equal(cut.heads.start, start);
        assert_int_equal(cut.heads.length, table->head_lengths[r]);
        assert_int_equal(cut.kv_heads.start, table->kv[r].start);
        assert_int_equal(cut.kv_heads.length, table->kv[r].length);
        start += cut.heads.length;
    }
}

/* The table of heads.c. */
static void test_worked_cuts(void **state)
{
    (void)state;
    static const worked table[] = {
        {4, 4, 2, {2, 2}, {{0, 2}, {2, 2}}},
        {8, 4, 3, {4, 2, 2}, {{0, 2}, {2, 1}, {3, 1}}},
        {8, 2, 3, {3, 3, 2}, {{0, 1}, {0, 2}, {1, 1}}},
        {8, 1, 2, {4, 4}, {{0, 1}, {0, 1}}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_worked(&table[i]);
}

/* C01: more ranks than kv heads. Rows of k in braces: rank 0, 1: {0,1}; rank 2, 3: {2,3}. */
static void case_C01_more_ranks_than_kv_heads(void **state)
{
    (void)state;
    const size_t head_size = 2;
    static const worked table = {4, 2, 4, {1, 1, 1, 1}, {{0, 1}, {0, 1}, {1, 1}, {1, 1}}};
    check_worked(&table);
    for (size_t r = 0; r < 4; r++) {
        pl_heads_cut cut = pl_heads_cut_of(4, 2, 4, r);
        assert_int_equal(cut.kv_heads.start * head_size, r < 2 ? 0 : 2);
        assert_int_equal(cut.kv_heads.length * head_size, 2);
        assert_int_equal(pl_heads_owns_kv(4, 2, 4, r, r / 2), r % 2 == 0);
    }
}

/* C02: a kv head is never cut. */
static void case_C02_a_kv_head_is_whole(void **state)
{
    (void)state;
    const size_t head_size = 4;
    for (size_t r = 0; r < 8; r++) {
        pl_heads_cut cut = pl_heads_cut_of(8, 4, 8, r);
        assert_int_equal(cut.kv_heads.start * head_size, r / 2 * 4);
        assert_int_equal(cut.kv_heads.length * head_size, 4);
        assert_int_equal((cut.heads.length + 2 * cut.kv_heads.length) * head_size, 12);
    }
    assert_int_equal(pl_heads_cut_of(8, 4, 8, 5).kv_heads.start * head_size, 8);
    for (size_t r = 0; r < 2; r++) {
        pl_range kv = pl_heads_cut_of(8, 1, 2, r).kv_heads;
        assert_int_equal(kv.start, 0);
        assert_int_equal(kv.length, 1);
    }
}

/* C06: head width is not hidden / heads. H = K = 4, hs = 3, p = 2: widths 6 6 6, rank 1 has Q rows
   6..11. */
static void case_C06_head_size_of_its_own(void **state)
{
    (void)state;
    const size_t head_size = 3;
    for (size_t r = 0; r < 2; r++) {
        pl_heads_cut cut = pl_heads_cut_of(4, 4, 2, r);
        assert_int_equal(cut.heads.start * head_size, 6 * r);
        assert_int_equal(cut.heads.length * head_size, 6);
        assert_int_equal(cut.kv_heads.start * head_size, 6 * r);
        assert_int_equal(cut.kv_heads.length * head_size, 6);
        pl_range rows = pl_range_of_units(4, head_size, 2, r);
        assert_int_equal(rows.start, 6 * r);
        assert_int_equal(rows.length, 6);
    }
}

/* C08: H = 40, K = 10, p = 4: kv heads 3 3 2 2 and query heads 12 12 8 8. */
static void case_C08_heads_that_do_not_divide(void **state)
{
    (void)state;
    static const worked table = {40, 10, 4, {12, 12, 8, 8}, {{0, 3}, {3, 3}, {6, 2}, {8, 2}}};
    check_worked(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_combination),
        cmocka_unit_test(test_worked_cuts),
        cmocka_unit_test(case_C01_more_ranks_than_kv_heads),
        cmocka_unit_test(case_C02_a_kv_head_is_whole),
        cmocka_unit_test(case_C06_head_size_of_its_own),
        cmocka_unit_test(case_C08_heads_that_do_not_divide),
    };
    return SUPPORT_RUN("partition/heads", tests);
}
