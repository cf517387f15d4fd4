/* SPDX-License-Identifier: Apache-2.0 */
/* Every collective against formulas of rank and size: both dimensions, equal, unequal and empty
   runs, strided views with poison around them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "views.h"

static const size_t shapes[][2] = {{1, 1},   {1, 17}, {3, 8}, {17, 3},
                                   {5, 129}, {0, 4},  {4, 0}, {129, 65}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* out = rank r's whole tensor of (rows, cols) */
static void fill(float *out, int r, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[i * cols + j] = value_of(r, i, j);
}

/* out = sum over ranks of fill */
static void fill_sum(float *out, int p, size_t rows, size_t cols)
{
    memset(out, 0, rows * cols * sizeof *out);
    for (int r = 0; r < p; r++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++)
                out[i * cols + j] += value_of(r, i, j);
}

/* out = the run [start, start + length) along dim of a whole of (rows, cols) */
static void cut(const float *whole, size_t rows, size_t cols, int dim, size_t start, size_t length,
                float *out)
{
    if (dim == 0) {
        memcpy(out, whole + start * cols, length * cols * sizeof *out);
        return;
    }
    for (size_t i = 0; i < rows; i++)
        memcpy(out + i * length, whole + i * cols + start, length * sizeof *out);
}

static size_t start_of(const size_t *lengths, int r)
{
    size_t start = 0;
    for (int q = 0; q < r; q++)
        start += lengths[q];
    return start;
}

static void test_all_reduce(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    for (size_t s = 0; s < SHAPES; s++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const size_t rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
            float *host = support_alloc_floats(n), *wanted = support_alloc_floats(n);
            test_view source = view_make(group, PARLIN_F32, rows, cols);
            test_view result = view_make(group, PARLIN_F32, rows, cols);
            fill(host, r, rows, cols);
            fill_sum(wanted, p, rows, cols);
            view_write(&source, host);
            assert_ok(
                parlin_all_reduce(group, source.tensor, in_place ? source.tensor : result.tensor));
            if (in_place) {
                assert_view(&source, wanted, "all-reduce in place");
            } else {
                assert_view(&source, host, "source of all-reduce");
                assert_view(&result, wanted, "all-reduce");
            }
            view_free(&source);
            view_free(&result);
            free(host);
            free(wanted);
        }
}

/* One all-gather (or, the other way round, reduce-scatter) of a whole of (rows, cols). */
static void gather_once(parlin_group *group, size_t rows, size_t cols, int dim, int kind)
{
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    size_t *lengths = support_alloc((size_t)p * sizeof *lengths);
    float *whole = support_alloc_floats(rows * cols), *run = support_alloc_floats(rows * cols);
    view_lengths(kind, dim == 0 ? rows : cols, p, lengths);
    const size_t start = start_of(lengths, r), length = lengths[r];
    fill(whole, 2, rows, cols);
    cut(whole, rows, cols, dim, start, length, run);
    test_view source =
        view_make(group, PARLIN_F32, dim == 0 ? length : rows, dim == 0 ? cols : length);
    test_view result = view_make(group, PARLIN_F32, rows, cols);
    view_write(&source, run);
    assert_ok(parlin_all_gather(group, dim, lengths, source.tensor, result.tensor));
    assert_view(&source, run, "source of all-gather");
    assert_view(&result, whole, dim == 0 ? "all-gather of rows" : "all-gather of columns");
    view_free(&source);
    view_free(&result);
    free(lengths);
    free(whole);
    free(run);
}

static void test_all_gather(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (int dim = 0; dim < 2; dim++)
            for (int kind = 0; kind < LENGTH_KINDS; kind++)
                gather_once(support_group(), shapes[s][0], shapes[s][1], dim, kind);
}

static void scatter_once(parlin_group *group, size_t rows, size_t cols, int dim, int kind)
{
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    size_t *lengths = support_alloc((size_t)p * sizeof *lengths);
    float *host = support_alloc_floats(rows * cols), *sum = support_alloc_floats(rows * cols);
    float *run = support_alloc_floats(rows * cols);
    view_lengths(kind, dim == 0 ? rows : cols, p, lengths);
    const size_t start = start_of(lengths, r), length = lengths[r];
    fill(host, r, rows, cols);
    fill_sum(sum, p, rows, cols);
    cut(sum, rows, cols, dim, start, length, run);
    test_view source = view_make(group, PARLIN_F32, rows, cols);
    test_view result =
        view_make(group, PARLIN_F32, dim == 0 ? length : rows, dim == 0 ? cols : length);
    view_write(&source, host);
    assert_ok(parlin_reduce_scatter(group, dim, lengths, source.tensor, result.tensor));
    assert_view(&source, host, "source of reduce-scatter");
    assert_view(&result, run, dim == 0 ? "reduce-scatter of rows" : "reduce-scatter of columns");
    view_free(&source);
    view_free(&result);
    free(lengths);
    free(host);
    free(sum);
    free(run);
}

static void test_reduce_scatter(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHAPES; s++)
        for (int dim = 0; dim < 2; dim++)
            for (int kind = 0; kind < LENGTH_KINDS; kind++)
                scatter_once(support_group(), shapes[s][0], shapes[s][1], dim, kind);
}

/* NULL lengths: earlier ranks take one more. 7 over 3: 3, 2, 2. */
static void test_lengths_left_out(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    const size_t rows = (size_t)p * 2 + 1, cols = 5;
    const size_t start = (size_t)r * 2 + (r > 0), length = r == 0 ? 3 : 2;
    float *whole = support_alloc_floats(rows * cols);
    test_view run = view_make(group, PARLIN_F32, length, cols);
    test_view result = view_make(group, PARLIN_F32, rows, cols);
    fill(whole, 4, rows, cols);
    view_write(&run, whole + start * cols);
    assert_ok(parlin_all_gather(group, 0, NULL, run.tensor, result.tensor));
    assert_view(&result, whole, "all-gather, lengths NULL");

    test_view part = view_make(group, PARLIN_F32, length, cols);
    assert_ok(parlin_reduce_scatter(group, 0, NULL, result.tensor, part.tensor));
    for (size_t i = 0; i < length * cols; i++)
        whole[start * cols + i] *= (float)p;
    assert_view(&part, whole + start * cols, "reduce-scatter, lengths NULL");
    view_free(&run);
    view_free(&result);
    view_free(&part);
    free(whole);
}

/* The layers' form: several parts side by side; the whole is part 0, then part 1, .. */
static void test_all_gather_of_parts(void **state)
{
    (void)state;
    static const char *const names[] = {"rows"};
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    enum { PARTS = 3 };
    for (size_t rows = 1; rows < 6; rows += 4) {
        size_t *lengths = support_alloc(PARTS * (size_t)p * sizeof *lengths);
        size_t totals[PARTS] = {7, 12, 3}, cols = 22, mine = 0, column = 0;
        for (int t = 0; t < PARTS; t++) {
            view_lengths(t, totals[t], p, lengths + t * p);
            mine += lengths[t * p + r];
        }
        float *whole = support_alloc_floats(rows * cols), *own = support_alloc_floats(rows * cols);
        fill(whole, 1, rows, cols);
        for (size_t i = 0; i < rows; i++, column = 0)
            for (int t = 0, at = 0; t < PARTS; at += (int)totals[t++]) {
                const size_t length = lengths[t * p + r], start = start_of(lengths + t * p, r);
                memcpy(own + i * mine + column, whole + i * cols + (size_t)at + start,
                       length * sizeof *own);
                column += length;
            }
        test_view source = view_make(group, PARLIN_F32, rows, mine);
        test_view result = view_make(group, PARLIN_F32, rows, cols);
        view_write(&source, own);
        const pl_call call = {
            .operation = "merged gather", .names = names, .number = {rows}, .count = 1};
        assert_ok(pl_all_gather(group, PARLIN_SUCCESS, &call, 1, PARTS, lengths, &source.tensor,
                                &result.tensor));
        assert_view(&result, whole, "all-gather of three parts");
        view_free(&source);
        view_free(&result);
        free(lengths);
        free(whole);
        free(own);
    }
}

/* C12: gathered {0,1,2,3},{10,11,12,13}; one row would hide the fault. */
static void case_C12_gather_of_columns_with_two_rows(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    const size_t cols = 2 * (size_t)p;
    float own[4], *wanted = support_alloc_floats(2 * cols);
    for (size_t j = 0; j < cols; j++) {
        wanted[j] = (float)j;
        wanted[cols + j] = (float)(10 + j);
    }
    own[0] = (float)(2 * r), own[1] = (float)(2 * r + 1);
    own[2] = (float)(2 * r + 10), own[3] = (float)(2 * r + 11);
    test_view source = view_make(group, PARLIN_F32, 2, 2);
    test_view result = view_make(group, PARLIN_F32, 2, cols);
    view_write(&source, own);
    assert_ok(parlin_all_gather(group, 1, NULL, source.tensor, result.tensor));
    assert_view(&result, wanted, "C12");
    view_free(&source);
    view_free(&result);
    free(wanted);
}

static void test_broadcast(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    for (size_t s = 0; s < SHAPES; s++)
        for (int root = 0; root < p; root++) {
            const size_t rows = shapes[s][0], cols = shapes[s][1];
            float *host = support_alloc_floats(rows * cols);
            test_view view = view_make(group, PARLIN_F32, rows, cols);
            fill(host, r, rows, cols);
            view_write(&view, host);
            assert_ok(parlin_broadcast(group, root, view.tensor));
            fill(host, root, rows, cols);
            assert_view(&view, host, "broadcast");
            view_free(&view);
            free(host);
        }
}

/* What rank a sends to rank b has length 1 + (a + 2 b) % 3 along dim, or 0 for a == 1; and the
   value of (a, b, i, j). */
static size_t sent(int a, int b)
{
    return a == 1 ? 0 : 1 + (size_t)(a + 2 * b) % 3;
}

static float sent_value(int a, int b, size_t i, size_t j)
{
    return (float)(a * 1000 + b * 100) + (float)(i * 10 + j);
}

static void test_all_to_all(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    const size_t across = 4;
    for (int dim = 0; dim < 2; dim++) {
        size_t *out = support_alloc((size_t)p * sizeof *out);
        size_t *in = support_alloc((size_t)p * sizeof *in);
        size_t n_out = 0, n_in = 0, at_out = 0, at_in = 0;
        for (int q = 0; q < p; q++) {
            n_out += out[q] = sent(r, q);
            n_in += in[q] = sent(q, r);
        }
        float *from = support_alloc_floats(n_out * across);
        float *to = support_alloc_floats(n_in * across);
        for (int q = 0; q < p; at_out += out[q], at_in += in[q], q++)
            for (size_t u = 0; u < 3; u++)
                for (size_t v = 0; v < across; v++) {
                    size_t i = dim == 0 ? u : v, j = dim == 0 ? v : u;
                    size_t row = dim == 0 ? at_out + u : v, col = dim == 0 ? v : at_out + u;
                    if (u < out[q])
                        from[row * (dim == 0 ? across : n_out) + col] = sent_value(r, q, i, j);
                    row = dim == 0 ? at_in + u : v, col = dim == 0 ? v : at_in + u;
                    if (u < in[q])
                        to[row * (dim == 0 ? across : n_in) + col] = sent_value(q, r, i, j);
                }
        test_view source =
            view_make(group, PARLIN_F32, dim == 0 ? n_out : across, dim == 0 ? across : n_out);
        test_view result =
            view_make(group, PARLIN_F32, dim == 0 ? n_in : across, dim == 0 ? across : n_in);
        view_write(&source, from);
        assert_ok(parlin_all_to_all(group, dim, out, in, source.tensor, result.tensor));
        assert_view(&source, from, "source of all-to-all");
        assert_view(&result, to, dim == 0 ? "all-to-all of rows" : "all-to-all of columns");
        view_free(&source);
        view_free(&result);
        free(out);
        free(in);
        free(from);
        free(to);
    }
}

/* C21: an all-gather keeps the payload of NaN 0x7E01; 16-bit types travel as bytes. */
static void case_C21_nan_payloads_survive_an_all_gather(void **state)
{
    (void)state;
    static const parlin_dtype dtypes[] = {PARLIN_F16, PARLIN_BF16};
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    for (int d = 0; d < 2; d++)
        for (int dim = 0; dim < 2; dim++) {
            const size_t rows = dim == 0 ? (size_t)p : 3, cols = dim == 0 ? 3 : (size_t)p;
            uint16_t own[3], *wanted = support_alloc(3 * (size_t)p * sizeof *wanted);
            for (size_t i = 0; i < 3; i++)
                own[i] = (uint16_t)(0x7e01 + 16 * r + (int)i);
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < cols; j++)
                    wanted[i * cols + j] =
                        (uint16_t)(0x7e01 + 16 * (dim == 0 ? i : j) + (dim == 0 ? j : i));
            test_view source = view_make(group, dtypes[d], dim == 0 ? 1 : 3, dim == 0 ? 3 : 1);
            test_view result = view_make(group, dtypes[d], rows, cols);
            view_write(&source, own);
            assert_ok(parlin_all_gather(group, dim, NULL, source.tensor, result.tensor));
            assert_view(&result, wanted, "C21");

            test_view copy = view_make(group, dtypes[d], rows, cols);
            if (r == p - 1)
                view_write(&copy, wanted);
            assert_ok(parlin_broadcast(group, p - 1, copy.tensor));
            assert_view(&copy, wanted, "broadcast of 16-bit types");
            view_free(&source);
            view_free(&result);
            view_free(&copy);
            free(wanted);
        }
}

/* Longer than one round of 1 MiB, unequal, and nothing on rank 0. */
static void test_gather_of_host_bytes(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const int p = parlin_group_size(group), r = parlin_group_rank(group);
    size_t *bytes = support_alloc((size_t)p * sizeof *bytes), total = 0;
    for (int q = 0; q < p; q++)
        total += bytes[q] = q == 0 && p > 1 ? 0 : 700000 * (size_t)(q % 3 + 1) + (size_t)q;
    unsigned char *mine = support_alloc(bytes[r]), *all = support_alloc(total);
    for (size_t i = 0; i < bytes[r]; i++)
        mine[i] = (unsigned char)(i * 31 + (size_t)r);
    for (int root = 0; root<p; root += p> 1 ? p - 1 : 1) {
        memset(all, 0xee, total);
        assert_ok(pl_gather_host(group, root, bytes, mine, r == root ? all : NULL));
        size_t at = 0;
        for (int q = 0; q < p && r == root; at += bytes[q], q++)
            for (size_t i = 0; i < bytes[q]; i++)
                if (all[at + i] != (unsigned char)(i * 31 + (size_t)q))
                    fail_msg("root %d: byte %zu of rank %d is %d, wanted %d", root, i, q,
                             all[at + i], (unsigned char)(i * 31 + (size_t)q));
    }
    free(bytes);
    free(mine);
    free(all);
}

static void test_barrier(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_ok(parlin_barrier(support_group()));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_reduce_scatter),
        cmocka_unit_test(test_lengths_left_out),
        cmocka_unit_test(test_all_gather_of_parts),
        cmocka_unit_test(case_C12_gather_of_columns_with_two_rows),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_all_to_all),
        cmocka_unit_test(case_C21_nan_payloads_survive_an_all_gather),
        cmocka_unit_test(test_gather_of_host_bytes),
        cmocka_unit_test(test_barrier),
    };
    return SUPPORT_RUN_MPI("comm_collectives", tests);
}
