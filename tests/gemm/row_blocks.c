/* SPDX-License-Identifier: Apache-2.0 */
/* Products cut into row blocks, products that one engine leaves to the next, and CLBlast's kernels
   for large products on small ones (its switch between kernels is moved). */
#include <math.h>

#include <clblast_c.h>

#include "gemm_case.h"

static void scratch_stays_small(void **state)
{
    (void)state;
    /* Blocks of 64 rows: 3 whole ones and one of a row, of two, of 63. */
    static const size_t rows[] = {193, 194, 255};
    support_random random = {support_seed()};
    for (size_t i = 0; i < 3; i++)
        for (int residual = 0; residual < 3; residual++)
            for (int layout = GEMM_SIDE_BY_SIDE; layout <= GEMM_HEAD_MAJOR; layout++) {
                gemm_case c = {.engine = "clblast",
                               .rows = rows[i],
                               .out = 40,
                               .in = 24,
                               .bias = residual > 0,
                               .gated = residual == 1,
                               .residual = (gemm_residual)residual,
                               .layout = (gemm_layout)layout,
                               .padding = i,
                               .scratch_limit = 1};
                gemm_check(&c, &random);
            }
}

/* The scratch of 1000 rows of 4096 columns would be 16 MB; with the limit of 4 MB it is 4 MB. */
static void scratch_limit_is_kept(void **state)
{
    (void)state;
    enum { ROWS = 1000, OUT = 4096, IN = 2 };
    float *w = support_alloc_floats(OUT * IN), *x = support_alloc_floats(ROWS * IN);
    float *y = support_alloc_floats(ROWS * OUT);
    support_random random = {support_seed()};
    support_integers(&random, w, OUT * IN, 9);
    support_integers(&random, x, ROWS * IN, 9);
    support_poison(y, ROWS * OUT);

    parlin_device *device;
    assert_ok(parlin_device_open(NULL, &device));
    pl_weight *weight;
    assert_ok(pl_weight_create(device, PARLIN_F32, OUT, IN, &weight));
    assert_ok(pl_weight_write(weight, 0, OUT, w));
    assert_true(pl_weight_force(weight, "clblast"));
    weight->scratch_limit = 8 << 20; /* half of it for a copy that CLBlast may make of Y */
    parlin_tensor xt, yt;
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, ROWS, IN, &xt));
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, ROWS, OUT, &yt));
    assert_ok(parlin_tensor_write(xt, x));
    pl_block block = {.out = pl_heads_of_tensor(&yt)};
    pl_epilogue epilogue = {.activation = PARLIN_RELU, .block_count = 1, .blocks = &block};
    const uint64_t before = parlin_device_get_counters(device).bytes_live;
    assert_ok(pl_gemm(weight, &xt, &epilogue));
    const uint64_t peak = parlin_device_get_counters(device).bytes_peak;
    assert_in_range(peak - before, 1, 5 << 20);
    assert_ok(parlin_tensor_read(yt, y));
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < OUT; j++) {
            float z = x[i * IN] * w[j * IN] + x[i * IN + 1] * w[j * IN + 1];
            assert_true(y[i * OUT + j] == (z < 0 ? 0 : z));
        }
    parlin_tensor_destroy(&xt);
    parlin_tensor_destroy(&yt);
    pl_weight_destroy(weight);
    parlin_device_close(device);
    free(w), free(x), free(y);
}

/* Elements beyond CLBlast's int indices: the plain engine answers, for the whole product. */
static void beyond_int_indices(void **state)
{
    (void)state;
    support_random random = {support_seed() + 1};
    gemm_case c = {.engine = "clblast", .rows = 20, .out = 30, .in = 10, .padding = 2};
    /* x ends at element 2 + 19 * 12 + 10 = 240, y at 2 + 19 * 32 + 30 = 640, W at 300. */
    c.index_limit = 640;
    gemm_check(&c, &random);
    c.index_limit = 639; /* y */
    c.ran = "plain";
    gemm_check(&c, &random);
    c.bias = true; /* y goes through scratch of 20 * 30 elements */
    c.ran = "clblast";
    gemm_check(&c, &random);
    c.index_limit = 299; /* W */
    c.ran = "plain";
    gemm_check(&c, &random);
    c.padding = 300; /* x */
    c.index_limit = 6000;
    gemm_check(&c, &random);
    c.rows = 1;
    c.padding = 0;
    c.bias = false;
    c.index_limit = 299;
    gemm_check(&c, &random);
}

static void force_large_kernel(size_t from)
{
    const char *names[] = {"XGEMM_MIN_INDIRECT_SIZE"};
    assert_int_equal(CLBlastOverrideParameters(parlin_device_id(gemm_device()), "GemmRoutine",
                                               CLBlastPrecisionSingle, 1, names, &from),
                     CLBlastSuccess);
}

static void large_product_kernel(void **state)
{
    (void)state;
    force_large_kernel(1);
    static const size_t sizes[][3] = {{2, 3, 1},    {3, 1, 17},  {17, 33, 129}, {32, 32, 32},
                                      {64, 96, 64}, {33, 33, 2}, {130, 66, 34}};
    support_random random = {support_seed() + 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t padding = 0; padding <= 3; padding += 3)
            for (int epilogue = 0; epilogue < 2; epilogue++) {
                gemm_case c = {.engine = "clblast",
                               .rows = sizes[i][0],
                               .out = sizes[i][1],
                               .in = sizes[i][2],
                               .bias = epilogue,
                               .residual = epilogue ? GEMM_IN_PLACE : GEMM_NO_RESIDUAL,
                               .padding = padding,
                               .scratch_limit = 1,
                               .integers = padding > 0};
                gemm_check(&c, &random);
            }
}

/* beta = 0 does not read Y, and no padding reads what lies around X; NaN and infinity in X stay in
   their rows. */
static void case_C26_large_product_kernel(void **state)
{
    (void)state;
    enum { M = 33, N = 33, K = 2 };
    force_large_kernel(1);
    float w[N * K], x[M * K], y[M * N];
    for (int i = 0; i < N * K; i++)
        w[i] = 1;
    for (int i = 0; i < M * K; i++)
        x[i] = (float)(i / K);
    x[5 * K] = NAN;
    x[7 * K + 1] = INFINITY;
    for (int i = 0; i < M * N; i++)
        y[i] = NAN;
    pl_weight *weight = gemm_weight(N, K, w, "clblast");
    gemm_simple(weight, M, x, y);
    assert_true(weight->plan.temp_bytes > 0);
    assert_string_equal(pl_weight_engine(weight), "clblast");
    for (int i = 0; i < M * N; i++)
        if (i / N == 5)
            assert_true(isnan(y[i]));
        else
            assert_true(y[i] == (i / N == 7 ? INFINITY : (float)(2 * (i / N))));
    pl_weight_destroy(weight);
}

/* CLBlast's parameters for some devices (here: those it has for a Core i5-4590S) give wrong large
   products: they must be left alone. One that is right with GEMMK = 1 must not. */
static void case_C23_wrong_parameters_are_avoided(void **state)
{
    (void)state;
    const char *names[] = {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB",
                           "NDIMC", "NWG",  "SA",  "SB",  "STRM",  "STRN",  "VWM", "VWN"};
    size_t values[] = {1, 16, 1, 1, 2, 2, 64, 2, 2, 128, 0, 0, 0, 0, 8, 2};
    enum { COUNT = sizeof values / sizeof *values };
    for (int right = 0; right < 2; right++) {
        gemm_device_close();
        force_large_kernel(1);
        if (right)
            values[9] = values[6]; /* NWG = MWG */
        assert_int_equal(CLBlastOverrideParameters(parlin_device_id(gemm_device()), "Xgemm",
                                                   CLBlastPrecisionSingle, COUNT, names, values),
                         CLBlastSuccess);
        support_random random = {support_seed() + 3};
        gemm_case c = {.engine = "clblast", .rows = 1, .out = 7, .in = 5};
        gemm_check(&c, &random); /* one row goes another way, whatever the parameters */
        pl_gemm_device *kept;
        assert_ok(pl_gemm_device_get(gemm_device(), &kept));
        assert_int_equal(kept->clblast.direct_only, !right);
        for (c.rows = 127; !right && c.rows <= 129; c.rows++) {
            c.ran = "plain";
            c.out = 2 * c.rows;
            c.in = 64;
            gemm_check(&c, &random);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scratch_stays_small),
        cmocka_unit_test(scratch_limit_is_kept),
        cmocka_unit_test(beyond_int_indices),
        cmocka_unit_test(large_product_kernel),
        cmocka_unit_test(case_C26_large_product_kernel),
        cmocka_unit_test(case_C23_wrong_parameters_are_avoided),
    };
    int failed = SUPPORT_RUN("gemm/row_blocks", tests);
    gemm_device_close();
    return failed;
}
