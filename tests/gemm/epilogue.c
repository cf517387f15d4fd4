/* SPDX-License-Identifier: Apache-2.0 */
/* Everything after the product: bias, activation, gating, residual, and the scatter into blocks
   of heads. */
#include <math.h>

#include "gemm_case.h"

static const char *const engines[] = {"plain", "clblast"};

static void every_activation(void **state)
{
    (void)state;
    support_random random = {support_seed()};
    for (int e = 0; e < 2; e++)
        for (int activation = 0; activation < PL_ACTIVATIONS; activation++)
            for (int gated = 0; gated < 2; gated++)
                for (int residual = 0; residual < 3; residual++)
                    for (size_t rows = 1; rows <= 19; rows += 9) {
                        gemm_case c = {.engine = engines[e],
                                       .rows = rows,
                                       .out = 70,
                                       .in = 37,
                                       .bias = rows != 10,
                                       .activation = (parlin_activation)activation,
                                       .gated = gated,
                                       .residual = (gemm_residual)residual,
                                       .padding = rows == 19 ? 3 : 0};
                        gemm_check(&c, &random);
                    }
}

/* Far from 0 an activation must neither overflow nor lose its digits: z = x[i] from a product
   with the unit matrix. The reference in terms that do not cancel. */
static void activations_far_from_zero(void **state)
{
    (void)state;
    enum { N = 12 };
    static const float z[N] = {-200, -90, -30, -6, -4.5f, -1e-3f, 0, 1e-3f, 4.5f, 30, 90, 1e10f};
    float w[N * N] = {0};
    for (int i = 0; i < N; i++)
        w[i * N + i] = 1;
    for (int e = 0; e < 2; e++)
        for (int activation = 1; activation < PL_ACTIVATIONS; activation++) {
            pl_weight *weight = gemm_weight(N, N, w, engines[e]);
            float y[2 * N], x[2 * N];
            for (int i = 0; i < 2 * N; i++)
                x[i] = z[i % N];
            cl_mem xs = gemm_buffer(x, 2 * N), ys = gemm_buffer(x, 2 * N);
            parlin_tensor xt = gemm_tensor(xs, 2, N), yt = gemm_tensor(ys, 2, N);
            pl_block block = {.out = pl_heads_of_tensor(&yt)};
            pl_epilogue epilogue = {
                .activation = (parlin_activation)activation, .block_count = 1, .blocks = &block};
            assert_ok(pl_gemm(weight, &xt, &epilogue));
            gemm_buffer_read(ys, y, 2 * N);
            for (int i = 0; i < 2 * N; i++) {
                const double v = x[i];
                double ref = v < 0 ? 0 : v;
                if (activation == PARLIN_GELU)
                    ref = 0.5 * v * erfc(-v / sqrt(2.0));
                if (activation == PARLIN_GELU_TANH)
                    ref = v / (1 + exp(-2 * sqrt(2 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
                if (activation == PARLIN_SILU)
                    ref = v / (1 + exp(-v));
                if (!(fabs(y[i] - ref) <= 2e-5 * fabs(ref) + 1e-37)) {
                    print_error("engine %s, activation %d of %g: %g, wanted %g\n", engines[e],
                                activation, v, (double)y[i], ref);
                    fail();
                }
            }
            gemm_buffer_release(xs, 2 * N);
            gemm_buffer_release(ys, 2 * N);
            pl_weight_destroy(weight);
        }
}

static void blocks_of_heads(void **state)
{
    (void)state;
    static const struct {
        size_t blocks;
        size_t heads[GEMM_CASE_BLOCKS], head_size[GEMM_CASE_BLOCKS];
    } splits[] = {
        {1, {6}, {11}},
        {1, {66}, {1}},
        {2, {3, 3}, {16, 6}},
        {3, {4, 2, 2}, {8, 8, 9}},
        {3, {1, 0, 13}, {14, 5, 4}},
        {5, {1, 2, 3, 4, 5}, {10, 5, 2, 5, 4}},
    };
    support_random random = {support_seed() + 1};
    for (int e = 0; e < 2; e++)
        for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
            for (int layout = GEMM_SIDE_BY_SIDE; layout <= GEMM_HEAD_MAJOR; layout++)
                for (size_t rows = 1; rows <= 21; rows += 10) {
                    gemm_case c = {.engine = engines[e],
                                   .rows = rows,
                                   .in = 29,
                                   .bias = rows > 1,
                                   .layout = (gemm_layout)layout,
                                   .residual = (gemm_residual)support_below(&random, 3),
                                   .gated = support_below(&random, 2),
                                   .blocks = splits[s].blocks,
                                   .padding = layout + rows / 10};
                    size_t cols = 0;
                    for (size_t b = 0; b < c.blocks; b++) {
                        c.block[b].heads = splits[s].heads[b];
                        c.block[b].head_size = splits[s].head_size[b];
                        cols += c.block[b].heads * c.block[b].head_size;
                    }
                    c.out = c.gated ? 2 * cols : cols;
                    gemm_check(&c, &random);
                }
}

/* The output is head-major, its residual token-major: each keeps its own strides. */
static void residual_of_other_strides(void **state)
{
    (void)state;
    enum { ROWS = 5, HEADS = 3, SIZE = 4, OUT = HEADS * SIZE };
    float w[OUT] = {0}, x[ROWS] = {0}, y[ROWS * OUT], r[ROWS * OUT];
    for (int i = 0; i < OUT; i++)
        w[i] = (float)i;
    for (int i = 0; i < ROWS; i++)
        x[i] = 1;
    for (int i = 0; i < ROWS * OUT; i++)
        r[i] = (float)(100 * i);
    for (int e = 0; e < 2; e++) {
        pl_weight *weight = gemm_weight(OUT, 1, w, engines[e]);
        support_poison(y, ROWS * OUT);
        cl_mem xs = gemm_buffer(x, ROWS), ys = gemm_buffer(y, ROWS * OUT);
        cl_mem rs = gemm_buffer(r, ROWS * OUT);
        parlin_tensor xt = gemm_tensor(xs, ROWS, 1), rt = gemm_tensor(rs, ROWS, OUT);
        pl_block block = {
            .out = parlin_heads_wrap(ys, PARLIN_F32, 0, ROWS, HEADS, SIZE, SIZE, ROWS * SIZE),
            .residual = parlin_tensor_heads(rt, HEADS, SIZE)};
        pl_epilogue epilogue = {.block_count = 1, .blocks = &block};
        assert_ok(pl_gemm(weight, &xt, &epilogue));
        gemm_buffer_read(ys, y, ROWS * OUT);
        for (int i = 0; i < ROWS; i++)
            for (int h = 0; h < HEADS; h++)
                for (int d = 0; d < SIZE; d++)
                    assert_float_equal(y[h * ROWS * SIZE + i * SIZE + d],
                                       w[h * SIZE + d] + r[i * OUT + h * SIZE + d], 0);
        gemm_buffer_release(xs, ROWS);
        gemm_buffer_release(ys, ROWS * OUT);
        gemm_buffer_release(rs, ROWS * OUT);
        pl_weight_destroy(weight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_activation),
        cmocka_unit_test(activations_far_from_zero),
        cmocka_unit_test(blocks_of_heads),
        cmocka_unit_test(residual_of_other_strides),
    };
    int failed = SUPPORT_RUN("gemm/epilogue", tests);
    gemm_device_close();
    return failed;
}
