/* SPDX-License-Identifier: Apache-2.0 */
/* Every layer and option with tiny shapes, for implementations that are slow. Starts MPI where it
   is run under mpiexec, or given "mpi" as its argument. Skips itself where PARLIN_TEST_PLATFORM
   names a platform that is not installed. */
#include "forward.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <parlin/opencl.h>

static const parlin_activation activations[] = {PARLIN_NO_ACTIVATION, PARLIN_RELU, PARLIN_GELU,
                                                PARLIN_GELU_TANH, PARLIN_SILU};

/* --- is the platform there? asked of OpenCL itself, not of the library --- */

static bool contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (!part[i])
            return true;
    }
    return false;
}

static bool platform_is_there(const char *part)
{
    cl_platform_id platforms[16];
    cl_uint count = 0, devices = 0;
    char name[128];
    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS)
        return false;
    for (cl_uint i = 0; i < count && i < 16; i++)
        if (clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL) ==
                CL_SUCCESS &&
            contains(name, part) &&
            clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 0, NULL, &devices) == CL_SUCCESS &&
            devices > 0)
            return true;
    return false;
}

/* On all ranks, which may have been told different devices. */
static bool is_there(void)
{
    static int there = -1;
    if (there < 0) {
        const char *wanted = getenv("PARLIN_TEST_PLATFORM");
        int mine = !wanted || platform_is_there(wanted);
        there = mine;
        if (support_size() > 1)
            MPI_Allreduce(&mine, &there, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    return there;
}

#define NEEDS_PLATFORM()                                                                           \
    do {                                                                                           \
        if (!is_there())                                                                           \
            SUPPORT_SKIP("an OpenCL platform that this test is for is not installed");             \
    } while (0)

/* --- the layers --- */

static void tiny(const layers_case *c, bool integers)
{
    forward f = forward_begin(support_group(), c, 9700, integers);
    bool residual = c->kind != PARLIN_QKV && !c->partial;
    forward_check(&f, 1, NO_RESIDUAL);
    forward_check(&f, 3, residual ? RESIDUAL_APART : NO_RESIDUAL);
    forward_check(&f, 2, residual ? RESIDUAL_IN_PLACE : NO_RESIDUAL);
    forward_check(&f, 0, NO_RESIDUAL);
    forward_end(&f);
}

static void test_column(void **state)
{
    (void)state;
    NEEDS_PLATFORM();
    for (int bias = 0; bias < 3; bias++)
        for (int gather = 0; gather < 2; gather++)
            for (int a = 0; a < (bias == 1 ? 5 : 1); a++) {
                layers_case c = {.kind = PARLIN_COLUMN,
                                 .in = 7,
                                 .out = 23,
                                 .bias = bias > 0,
                                 .skip_bias_add = bias == 2,
                                 .gather_output = gather,
                                 .activation = activations[a]};
                tiny(&c, a < 2);
            }
    layers_case least = {.kind = PARLIN_COLUMN, .in = 1, .out = (size_t)support_size()};
    tiny(&least, true);
}

static void test_merged(void **state)
{
    (void)state;
    NEEDS_PLATFORM();
    for (int bias = 0; bias < 3; bias++)
        for (int gather = 0; gather < 2; gather++) {
            layers_case c = {.kind = PARLIN_MERGED,
                             .in = 5,
                             .parts = 3,
                             .part_out = {9, 4, 11},
                             .bias = bias > 0,
                             .skip_bias_add = bias == 2,
                             .gather_output = gather};
            tiny(&c, true);
        }
    for (int a = 1; a < 5; a++) {
        layers_case c = {.kind = PARLIN_MERGED,
                         .in = 9,
                         .parts = 2,
                         .part_out = {11, 11},
                         .bias = a % 2,
                         .gather_output = a > 2,
                         .gated = true,
                         .activation = activations[a]};
        tiny(&c, a == 1);
    }
}

static void test_qkv(void **state)
{
    (void)state;
    NEEDS_PLATFORM();
    static const size_t shapes[][2] = {{4, 0}, {4, 2}, {4, 1}};
    for (size_t i = 0; i < 3; i++)
        for (int bias = 0; bias < 3; bias++) {
            layers_case c = {.kind = PARLIN_QKV,
                             .in = 6,
                             .heads = shapes[i][0],
                             .kv_heads = shapes[i][1],
                             .head_size = 3,
                             .v_head_size = i == 1 ? 2 : 0,
                             .bias = bias > 0,
                             .skip_bias_add = bias == 2};
            tiny(&c, true);
            forward f = forward_begin(support_group(), &c, 9800, true);
            parlin_device *device = parlin_group_device(f.group);
            parlin_qkv_shape s = parlin_qkv_local(f.layer);
            for (size_t rows = 1; rows < 4; rows++)
                forward_check_heads(&f, view_random(device, &f.own, rows, s.heads, s.head_size),
                                    view_random(device, &f.own, rows, s.kv_heads, s.head_size),
                                    view_random(device, &f.own, rows, s.kv_heads, s.v_head_size));
            forward_end(&f);
        }
}

static void test_row(void **state)
{
    (void)state;
    NEEDS_PLATFORM();
    for (int bias = 0; bias < 3; bias++)
        for (int whole = 0; whole < 2; whole++)
            for (int partial = 0; partial < (bias == 1 ? 1 : 2); partial++) {
                layers_case c = {.kind = PARLIN_ROW,
                                 .in = 19,
                                 .out = 6,
                                 .bias = bias > 0,
                                 .skip_bias_add = bias == 2,
                                 .whole_input = whole,
                                 .partial = partial};
                tiny(&c, whole);
            }
    layers_case least = {.kind = PARLIN_ROW, .in = (size_t)support_size(), .out = 1, .bias = true};
    tiny(&least, true);
}

/* Bits that went in come out, and a skipped bias is handed back. */
static void test_load_and_export(void **state)
{
    (void)state;
    NEEDS_PLATFORM();
    layers_case c = {.kind = PARLIN_QKV,
                     .in = 5,
                     .heads = 8,
                     .kv_heads = 2,
                     .head_size = 2,
                     .v_head_size = 1,
                     .bias = true,
                     .skip_bias_add = true};
    float *weight = layers_weight(&c), *bias = layers_bias(&c);
    parlin_layer *layer = layers_create(support_group(), &c);
    layers_load(layer, &c, weight, bias);
    layers_check_export(support_group(), layer, PARLIN_WEIGHT, PARLIN_WHOLE, weight,
                        layers_out(&c) * c.in);
    layers_check_skipped(support_group(), layer, &c, bias);
    parlin_layer_destroy(layer);
    free(weight);
    free(bias);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_column),
        cmocka_unit_test(test_merged),
        cmocka_unit_test(test_qkv),
        cmocka_unit_test(test_row),
        cmocka_unit_test(test_load_and_export),
    };
    bool mpi = getenv("PMI_RANK") || getenv("OMPI_COMM_WORLD_RANK") ||
               (argc > 1 && strcmp(argv[1], "mpi") == 0);
    return mpi ? SUPPORT_RUN_MPI("layers: tiny", tests) : SUPPORT_RUN("layers: tiny", tests);
}
