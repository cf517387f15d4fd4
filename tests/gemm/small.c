/* SPDX-License-Identifier: Apache-2.0 */
/* A little of everything: what is run on implementations that are slow. */
#include "gemm_case.h"

static void a_little_of_everything(void **state)
{
    (void)state;
    static const char *const engines[] = {"plain", "clblast"};
    support_random random = {support_seed()};
    for (int e = 0; e < 2; e++)
        for (size_t rows = 1; rows <= 6; rows += 5) {
            gemm_case c = {.engine = engines[e], .rows = rows, .out = 12, .in = 19};
            gemm_check(&c, &random);
            c.padding = 3;
            c.bias = true;
            c.activation = PARLIN_SILU;
            c.gated = true;
            c.residual = GEMM_IN_PLACE;
            gemm_check(&c, &random);
            c.activation = PARLIN_NO_ACTIVATION;
            c.gated = false;
            c.residual = GEMM_NO_RESIDUAL;
            c.blocks = 3;
            c.layout = GEMM_HEAD_MAJOR;
            for (int b = 0; b < 3; b++) {
                c.block[b].heads = b == 0 ? 2 : 1;
                c.block[b].head_size = b == 2 ? 4 : 3;
            }
            c.out = 13;
            gemm_check(&c, &random);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_little_of_everything),
    };
    int failed = SUPPORT_RUN("gemm/small", tests);
    gemm_device_close();
    return failed;
}
