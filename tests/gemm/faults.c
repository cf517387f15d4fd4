/* SPDX-License-Identifier: Apache-2.0 */
/* Values that show a wrong product at once: ones, NaN, infinity, whatever lay in the output; and
   the same bits call after call. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gemm_case.h"

static const char *const engines[] = {"plain", "clblast"};

static float *ones(size_t n)
{
    float *values = support_alloc_floats(n);
    for (size_t i = 0; i < n; i++)
        values[i] = 1;
    return values;
}

/* CLBlast goes from one kernel to another between 192 and 256 on some devices and at 896 on
   others: ones everywhere, every element of y is K. */
static void case_C22_squares_of_ones(void **state)
{
    (void)state;
    static const size_t sizes[] = {191, 192, 193, 255, 256, 257, 895, 896, 897};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t n = sizes[s];
        float *w = ones(n * n), *y = support_alloc_floats(n * n);
        for (int e = 0; e < 2; e++) {
            pl_weight *weight = gemm_weight(n, n, w, engines[e]);
            support_poison(y, n * n);
            gemm_simple(weight, n, w, y);
            assert_string_equal(pl_weight_engine(weight), engines[e]);
            for (size_t i = 0; i < n * n; i++)
                if (y[i] != (float)n) {
                    print_error("engine %s, %zu cubed, element %zu: %g\n", engines[e], n, i,
                                (double)y[i]);
                    fail();
                }
            pl_weight_destroy(weight);
        }
        free(w), free(y);
    }
}

/* The output is full of NaN: beta = 0, the bias kernel and the one-row way must not read it. The
   scratch that the product goes through was left full of NaN as well. */
static void case_C26_output_is_not_read(void **state)
{
    (void)state;
    enum { M = 33, N = 33, K = 2 };
    float w[N * K], x[M * K], y[M * N], nans[M * N], b[N];
    for (int i = 0; i < N * K; i++)
        w[i] = (float)(i / K);
    for (int i = 0; i < M * K; i++)
        x[i] = (float)(i / K);
    for (int i = 0; i < M * N; i++)
        nans[i] = NAN;
    for (int i = 0; i < N; i++)
        b[i] = 100;
    for (int e = 0; e < 2; e++)
        for (int rows = 1; rows <= M; rows += M - 1)
            for (int bias = 0; bias < 2; bias++) {
                pl_weight *weight = gemm_weight(N, K, w, engines[e]);
                cl_mem xs = gemm_buffer(x, M * K), ys = gemm_buffer(nans, M * N);
                cl_mem bs = gemm_buffer(b, N);
                pl_scratch scratch;
                assert_ok(pl_scratch_take(gemm_device(), sizeof y, &scratch));
                gemm_buffer_write(scratch.buffer, nans, M * N);
                pl_scratch_give(gemm_device(), &scratch);

                /* The last `rows` rows of x, so that a single one is not all zeros. */
                const size_t first = (size_t)(M - rows);
                parlin_tensor xt = parlin_tensor_rows(gemm_tensor(xs, M, K), first, (size_t)rows);
                parlin_tensor yt = parlin_tensor_rows(gemm_tensor(ys, M, N), first, (size_t)rows);
                pl_block block = {.out = pl_heads_of_tensor(&yt)};
                pl_epilogue epilogue = {
                    .bias = bias ? bs : NULL, .block_count = 1, .blocks = &block};
                assert_ok(pl_gemm(weight, &xt, &epilogue));
                assert_string_equal(pl_weight_engine(weight), engines[e]);
                gemm_buffer_read(ys, y, M * N);
                for (size_t i = 0; i < M; i++)
                    for (size_t j = 0; j < N; j++) {
                        float got = y[i * N + j];
                        if (i < first)
                            assert_true(isnan(got));
                        else
                            assert_true(got == (float)(2 * i * j) + (bias ? 100 : 0));
                    }
                gemm_buffer_release(xs, M * K);
                gemm_buffer_release(ys, M * N);
                gemm_buffer_release(bs, N);
                pl_weight_destroy(weight);
            }
}

/* NaN and infinity of x stay in their rows, those of W in their columns. */
static void case_C26_nan_and_infinity_come_through(void **state)
{
    (void)state;
    enum { M = 6, N = 9, K = 70 };
    float w[N * K], x[M * K], y[M * N];
    for (int i = 0; i < N * K; i++)
        w[i] = 1;
    for (int i = 0; i < M * K; i++)
        x[i] = 1;
    x[1 * K + 69] = NAN;
    x[2 * K + 3] = INFINITY;
    w[4 * K + 68] = NAN;
    w[5 * K + 0] = -INFINITY;
    for (int e = 0; e < 2; e++)
        for (int rows = 1; rows <= M; rows++) {
            pl_weight *weight = gemm_weight(N, K, w, engines[e]);
            support_poison(y, M * N);
            gemm_simple(weight, (size_t)(rows == 1 ? 1 : M), rows == 1 ? x + K : x, y);
            for (int i = 0; i < (rows == 1 ? 1 : M); i++)
                for (int j = 0; j < N; j++) {
                    const float got = y[i * N + j];
                    const int row = rows == 1 ? 1 : i;
                    if (row == 1 || j == 4 || (row == 2 && j == 5))
                        assert_true(isnan(got) && !support_is_poison(got));
                    else if (row == 2)
                        assert_true(got == INFINITY);
                    else
                        assert_true(got == (j == 5 ? -INFINITY : (float)K));
                }
            pl_weight_destroy(weight);
            if (rows == 1)
                rows = M - 1;
        }
}

static void same_bits_twice(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{1, 300, 500}, {5, 300, 500}, {200, 130, 70}};
    support_random random = {support_seed()};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t rows = sizes[s][0], out = sizes[s][1], in = sizes[s][2];
        float *w = support_alloc_floats(out * in), *x = support_alloc_floats(rows * in);
        float *y = support_alloc_floats(rows * out), *again = support_alloc_floats(rows * out);
        support_floats(&random, w, out * in);
        support_floats(&random, x, rows * in);
        for (int e = 0; e < 2; e++) {
            pl_weight *weight = gemm_weight(out, in, w, engines[e]);
            weight->scratch_limit = 1;
            support_poison(y, rows * out);
            gemm_simple(weight, rows, x, y);
            for (int repeat = 0; repeat < 3; repeat++) {
                support_poison(again, rows * out);
                gemm_simple(weight, rows, x, again);
                assert_same_floats(again, y, rows * out);
            }
            pl_weight_destroy(weight);
        }
        free(w), free(x), free(y), free(again);
    }
}

/* The plain engine's bits do not depend on how many rows there are. */
static void plain_rows_do_not_depend_on_each_other(void **state)
{
    (void)state;
    enum { ROWS = 7, OUT = 21, IN = 83 };
    float w[OUT * IN], x[ROWS * IN], y[ROWS * OUT], one[OUT];
    support_random random = {support_seed() + 1};
    support_floats(&random, w, OUT * IN);
    support_floats(&random, x, ROWS * IN);
    support_poison(y, ROWS * OUT);
    pl_weight *weight = gemm_weight(OUT, IN, w, "plain");
    gemm_simple(weight, ROWS, x, y);
    for (size_t i = 0; i < ROWS; i++) {
        support_poison(one, OUT);
        gemm_simple(weight, 1, x + i * IN, one);
        assert_same_floats(one, y + i * OUT, OUT);
    }
    pl_weight_destroy(weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C22_squares_of_ones),
        cmocka_unit_test(case_C26_output_is_not_read),
        cmocka_unit_test(case_C26_nan_and_infinity_come_through),
        cmocka_unit_test(same_bits_twice),
        cmocka_unit_test(plain_rows_do_not_depend_on_each_other),
    };
    int failed = SUPPORT_RUN("gemm/faults", tests);
    gemm_device_close();
    return failed;
}
