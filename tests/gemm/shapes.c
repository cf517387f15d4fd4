/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that are no multiple of anything, and those around CLBlast's switch between its kernels. */
#include "gemm_case.h"

static const char *const engines[] = {"plain", "clblast"};

static void odd_sizes(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 3, 17, 33}, outs[] = {1, 3, 17, 129}, ins[] = {1, 2, 33, 1000};
    support_random random = {support_seed()};
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                for (int k = 0; k < 4; k++) {
                    gemm_case c = {.engine = engines[e],
                                   .rows = rows[i],
                                   .out = outs[j],
                                   .in = ins[k],
                                   .padding = support_below(&random, 2) * 5};
                    gemm_check(&c, &random);
                }
}

static void larger_sizes(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {
        {129, 1000, 17}, {1000, 129, 33}, {1, 1000, 1000}, {191, 193, 192},
        {257, 255, 256}, {1, 64, 128},    {1, 4097, 65},
    };
    support_random random = {support_seed() + 1};
    for (int e = 0; e < 2; e++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t padding = 0; padding <= 7; padding += 7) {
                gemm_case c = {.engine = engines[e],
                               .rows = sizes[i][0],
                               .out = sizes[i][1],
                               .in = sizes[i][2],
                               .bias = padding > 0,
                               .padding = padding};
                gemm_check(&c, &random);
            }
}

/* A padded x and y, but every number in between is right: integers come out exact. */
static void integers_are_exact(void **state)
{
    (void)state;
    support_random random = {support_seed() + 2};
    for (int e = 0; e < 2; e++)
        for (size_t rows = 1; rows <= 40; rows += 13) {
            gemm_case c = {.engine = engines[e],
                           .rows = rows,
                           .out = 66,
                           .in = 300,
                           .bias = true,
                           .gated = rows == 14,
                           .residual = GEMM_SEPARATE,
                           .padding = 3,
                           .integers = true};
            gemm_check(&c, &random);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(larger_sizes),
        cmocka_unit_test(integers_are_exact),
    };
    int failed = SUPPORT_RUN("gemm/shapes", tests);
    gemm_device_close();
    return failed;
}
