/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a part within a tensor that holds all parts, against a row map written out by walking
   through the stored tensor as its order says. */
#include "support.h"

#include <stdlib.h>

#include "partition/partition.h"

enum { Q, K, V, ROWS = 512 };

/* map[part][i] = the stored row of the part's row i. */
typedef struct row_map {
    size_t row[3][ROWS];
    size_t count[3];
    size_t stored;
} row_map;

static void put(row_map *map, size_t part, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        assert_true(map->count[part] < ROWS);
        map->row[part][map->count[part]++] = map->stored++;
    }
}

static row_map map_of(const pl_fused *fused)
{
    row_map map = {.stored = 0};
    size_t hs = fused->head_size, vhs = fused->v_head_size;
    if (fused->order == PARLIN_STACKED) {
        for (size_t part = 0; part < fused->parts; part++)
            put(&map, part, fused->part_rows[part]);
    } else if (fused->order == PARLIN_INTERLEAVED_HEADS) {
        for (size_t h = 0; h < fused->heads; h++) {
            put(&map, Q, hs);
            put(&map, K, hs);
            put(&map, V, vhs);
        }
    } else {
        for (size_t kv = 0; kv < fused->kv_heads; kv++) {
            for (size_t h = 0; h < fused->heads / fused->kv_heads; h++)
                put(&map, Q, hs);
            put(&map, K, hs);
            put(&map, V, vhs);
        }
    }
    return map;
}

/* Walks through the runs: each goes on where the former ended, none is empty, and every row comes
   from where the map says. Returns how many runs there were. */
static size_t check_runs(const pl_fused *fused, const row_map *map, size_t part, pl_range wanted)
{
    size_t done = 0, runs = 0;
    pl_run run;
    while (pl_fused_next_run(fused, part, wanted, done, &run)) {
        assert_true(done < wanted.length);
        assert_int_equal(run.target, done);
        assert_true(run.length >= 1);
        assert_true(run.length <= wanted.length - done);
        for (size_t i = 0; i < run.length; i++)
            assert_int_equal(run.source + i, map->row[part][wanted.start + done + i]);
        done += run.length;
        runs++;
    }
    assert_int_equal(done, wanted.length);
    return runs;
}

static void check_every_range(const pl_fused *fused)
{
    row_map map = map_of(fused);
    for (size_t part = 0; part < fused->parts; part++)
        for (size_t start = 0; start <= map.count[part]; start++)
            for (size_t length = 0; start + length <= map.count[part]; length++) {
                size_t runs = check_runs(fused, &map, part, (pl_range){start, length});
                if (fused->order == PARLIN_STACKED)
                    assert_int_equal(runs, length > 0);
            }
}

static pl_fused qkv_fused(parlin_qkv_order order, size_t heads, size_t kv_heads, size_t head_size,
                          size_t v_head_size, size_t part_rows[3])
{
    part_rows[Q] = heads * head_size;
    part_rows[K] = kv_heads * head_size;
    part_rows[V] = kv_heads * v_head_size;
    return (pl_fused){.order = order,
                      .parts = 3,
                      .part_rows = part_rows,
                      .heads = heads,
                      .kv_heads = kv_heads,
                      .head_size = head_size,
                      .v_head_size = v_head_size};
}

static void test_every_range_of_small_tensors(void **state)
{
    (void)state;
    size_t part_rows[3];
    for (size_t kv_heads = 1; kv_heads <= 4; kv_heads++)
        for (size_t g = 1; g <= 3; g++)
            for (size_t head_size = 1; head_size <= 3; head_size++)
                for (size_t v_head_size = 1; v_head_size <= 3; v_head_size++)
                    for (int order = PARLIN_STACKED; order <= PARLIN_INTERLEAVED_GROUPS; order++) {
                        if (order == PARLIN_INTERLEAVED_HEADS && g != 1)
                            continue;
                        pl_fused fused = qkv_fused((parlin_qkv_order)order, g * kv_heads, kv_heads,
                                                   head_size, v_head_size, part_rows);
                        check_every_range(&fused);
                    }
}

/* The ranges that ranks take, for every p. */
static void test_every_cut(void **state)
{
    (void)state;
    static const size_t shapes[][4] = {
        {8, 8, 5, 5}, {8, 4, 5, 3}, {12, 3, 4, 4}, {16, 2, 3, 7}, {15, 5, 2, 3}, {24, 24, 4, 2},
    };
    size_t part_rows[3];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int order = PARLIN_STACKED; order <= PARLIN_INTERLEAVED_GROUPS; order++) {
            size_t heads = shapes[i][0], kv_heads = shapes[i][1];
            if (order == PARLIN_INTERLEAVED_HEADS && heads != kv_heads)
                continue;
            pl_fused fused = qkv_fused((parlin_qkv_order)order, heads, kv_heads, shapes[i][2],
                                       shapes[i][3], part_rows);
            row_map map = map_of(&fused);
            for (size_t p = 1; p <= heads; p++)
                for (size_t r = 0; r < p; r++) {
                    pl_heads_cut cut = pl_heads_cut_of(heads, kv_heads, p, r);
                    size_t hs = shapes[i][2], vhs = shapes[i][3];
                    check_runs(&fused, &map, Q,
                               (pl_range){cut.heads.start * hs, cut.heads.length * hs});
                    check_runs(&fused, &map, K,
                               (pl_range){cut.kv_heads.start * hs, cut.kv_heads.length * hs});
                    check_runs(&fused, &map, V,
                               (pl_range){cut.kv_heads.start * vhs, cut.kv_heads.length * vhs});
                }
        }
}

/* A run is as long as what lies in one piece: a copy for each row would do the same, slowly. */
static void test_runs_are_long(void **state)
{
    (void)state;
    size_t part_rows[3];
    pl_fused fused = qkv_fused(PARLIN_INTERLEAVED_GROUPS, 8, 2, 4, 4, part_rows);
    row_map map = map_of(&fused);
    assert_int_equal(check_runs(&fused, &map, Q, (pl_range){0, 32}), 2);
    assert_int_equal(check_runs(&fused, &map, K, (pl_range){0, 8}), 2);
    fused = qkv_fused(PARLIN_INTERLEAVED_HEADS, 4, 4, 4, 4, part_rows);
    map = map_of(&fused);
    assert_int_equal(check_runs(&fused, &map, V, (pl_range){4, 8}), 2);
}

static void test_merged_stack_of_unequal_parts(void **state)
{
    (void)state;
    static const size_t part_rows[] = {3, 1, 5};
    pl_fused fused = {.order = PARLIN_STACKED, .parts = 3, .part_rows = part_rows};
    check_every_range(&fused);
}

/* This rank's rows of q, k, v, one after the other, as stored row numbers. */
static void check_local(parlin_qkv_order order, size_t heads, size_t kv_heads, size_t p, size_t r,
                        size_t count, const size_t *wanted)
{
    size_t part_rows[3], at = 0;
    pl_fused fused = qkv_fused(order, heads, kv_heads, 1, 1, part_rows);
    pl_heads_cut cut = pl_heads_cut_of(heads, kv_heads, p, r);
    for (size_t part = Q; part <= V; part++) {
        pl_range range = part == Q ? cut.heads : cut.kv_heads;
        pl_run run;
        for (size_t done = 0; pl_fused_next_run(&fused, part, range, done, &run);
             done += run.length)
            for (size_t i = 0; i < run.length; i++) {
                assert_true(at < count);
                assert_int_equal(run.source + i, wanted[at++]);
            }
    }
    assert_int_equal(at, count);
}

/* C03: fused [Q | K | V] on disk. */
static void case_C03_stacked(void **state)
{
    (void)state;
    const parlin_qkv_order order = PARLIN_STACKED;
    check_local(order, 4, 4, 2, 0, 6, (const size_t[]){0, 1, 4, 5, 8, 9});
    check_local(order, 4, 4, 2, 1, 6, (const size_t[]){2, 3, 6, 7, 10, 11});
    check_local(order, 4, 2, 2, 0, 4, (const size_t[]){0, 1, 4, 6});
    check_local(order, 4, 2, 2, 1, 4, (const size_t[]){2, 3, 5, 7});
    check_local(order, 4, 2, 4, 0, 3, (const size_t[]){0, 4, 6});
    check_local(order, 4, 2, 4, 1, 3, (const size_t[]){1, 4, 6});
    check_local(order, 4, 2, 4, 2, 3, (const size_t[]){2, 5, 7});
    check_local(order, 4, 2, 4, 3, 3, (const size_t[]){3, 5, 7});
}

/* C04: interleaved per kv group: q0 q1 k0 v0 q2 q3 k1 v1. */
static void case_C04_interleaved_groups(void **state)
{
    (void)state;
    const parlin_qkv_order order = PARLIN_INTERLEAVED_GROUPS;
    check_local(order, 4, 2, 1, 0, 8, (const size_t[]){0, 1, 4, 5, 2, 6, 3, 7});
    check_local(order, 4, 2, 2, 0, 4, (const size_t[]){0, 1, 2, 3});
    check_local(order, 4, 2, 2, 1, 4, (const size_t[]){4, 5, 6, 7});
    check_local(order, 4, 2, 4, 0, 3, (const size_t[]){0, 2, 3});
    check_local(order, 4, 2, 4, 1, 3, (const size_t[]){1, 2, 3});
    check_local(order, 4, 2, 4, 2, 3, (const size_t[]){4, 6, 7});
    check_local(order, 4, 2, 4, 3, 3, (const size_t[]){5, 6, 7});
}

/* C05: fused and transposed on disk, (in = 2, 6), d[i][j] = 10 i + j: rank 1 of 2 has the columns
   1, 3, 5. */
static void case_C05_fused_transposed(void **state)
{
    (void)state;
    check_local(PARLIN_STACKED, 2, 2, 2, 1, 3, (const size_t[]){1, 3, 5});
    float disk[2][6];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 6; j++)
            disk[i][j] = (float)(10 * i + j);
    parlin_host view = parlin_host_transposed(parlin_host_2d(disk, PARLIN_F32, 2, 6));
    const float *data = view.data;
    assert_int_equal(view.rows, 6);
    assert_int_equal(view.cols, 2);
    for (ptrdiff_t row = 1; row < 6; row += 2)
        for (ptrdiff_t col = 0; col < 2; col++)
            assert_true(data[row * view.row_stride + col * view.col_stride] ==
                        (float)(10 * col + row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_range_of_small_tensors),
        cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_runs_are_long),
        cmocka_unit_test(test_merged_stack_of_unequal_parts),
        cmocka_unit_test(case_C03_stacked),
        cmocka_unit_test(case_C04_interleaved_groups),
        cmocka_unit_test(case_C05_fused_transposed),
    };
    return SUPPORT_RUN("partition/fused", tests);
}
