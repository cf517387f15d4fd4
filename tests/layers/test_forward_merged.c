/* SPDX-License-Identifier: Apache-2.0 */
/* Forward of a merged column layer, every option, against the double reference. */
#include "forward.h"

static const parlin_activation activations[] = {PARLIN_NO_ACTIVATION, PARLIN_RELU, PARLIN_GELU,
                                                PARLIN_GELU_TANH, PARLIN_SILU};

static layers_case drawn(support_random *random, size_t parts, int bias, int gather)
{
    layers_case c = {.kind = PARLIN_MERGED,
                     .in = forward_size(random, 1),
                     .parts = parts,
                     .bias = bias > 0,
                     .skip_bias_add = bias == 2,
                     .gather_output = gather};
    for (size_t i = 0; i < parts; i++)
        c.part_out[i] = forward_size(random, (size_t)support_size());
    if (c.in == 1000) /* two or three parts of 1000 would cost a second each */
        c.in = 129;
    return c;
}

/* bias: 0 none, 1 added, 2 skipped */
static void every_option(bool integers)
{
    support_random random = {support_seed() + 10 + integers};
    uint64_t salt = integers ? 1100 : 1200;
    for (int bias = 0; bias < 3; bias++)
        for (int gather = 0; gather < 2; gather++)
            for (int a = 0; a < (bias == 2 ? 1 : integers ? 2 : 5); a++) {
                layers_case c = drawn(&random, 1 + support_below(&random, 4), bias, gather);
                c.activation = activations[a];
                forward_case(support_group(), &c, salt++, integers, 1);
            }
}

static void test_every_option(void **state)
{
    (void)state;
    every_option(false);
}

static void test_whole_numbers_are_exact(void **state)
{
    (void)state;
    every_option(true);
}

static void test_every_number_of_parts(void **state)
{
    (void)state;
    support_random random = {support_seed() + 12};
    for (size_t parts = 1; parts <= LAYERS_MOST_PARTS; parts++)
        for (int gather = 0; gather < 2; gather++) {
            layers_case c = drawn(&random, parts, 1, gather);
            forward_case(support_group(), &c, 1300 + 2 * parts + (unsigned)gather, false, 1);
        }
}

/* y = act(gate) up + residual, half as wide */
static void test_gated(void **state)
{
    (void)state;
    support_random random = {support_seed() + 13};
    for (int bias = 0; bias < 2; bias++)
        for (int gather = 0; gather < 2; gather++)
            for (int a = 1; a < 5; a++) {
                layers_case c = drawn(&random, 2, bias, gather);
                c.part_out[1] = c.part_out[0];
                c.gated = true;
                c.activation = activations[a];
                forward_case(support_group(), &c, 1400 + (uint64_t)(bias * 16 + gather * 8 + a),
                             false, 1);
            }
    layers_case exact = drawn(&random, 2, 1, 1);
    exact.part_out[1] = exact.part_out[0];
    exact.gated = true;
    exact.activation = PARLIN_RELU;
    exact.in = 17; /* products of two sums stay below 2^24 */
    forward_case(support_group(), &exact, 1500, true, 2);
}

static void test_rows_change_from_call_to_call(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_MERGED,
                     .in = 17,
                     .parts = 3,
                     .part_out = {9, 40, 17},
                     .gather_output = true,
                     .bias = true};
    forward f = forward_begin(support_group(), &c, 1600, false);
    static const size_t rows[] = {129, 1, 0, 1000, 2, 0, 1, 17};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        forward_check(&f, rows[i], (forward_residual)(i % 3));
    forward_end(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_every_number_of_parts),
        cmocka_unit_test(test_gated),
        cmocka_unit_test(test_rows_change_from_call_to_call),
    };
    return SUPPORT_RUN_MPI("layers: forward, merged", tests);
}
