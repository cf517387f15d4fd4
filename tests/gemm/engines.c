/* SPDX-License-Identifier: Apache-2.0 */
/* Weights, and which engine answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <clblast_c.h>

#include "gemm_case.h"

static void weight_keeps_its_rows(void **state)
{
    (void)state;
    enum { OUT = 5, IN = 7 };
    float w[OUT * IN], back[OUT * IN];
    support_random random = {support_seed()};
    support_floats(&random, w, OUT * IN);
    pl_weight *weight = gemm_weight(OUT, IN, w, "auto");
    assert_int_equal(pl_weight_bytes(weight), OUT * IN * sizeof(float));
    support_poison(back, OUT * IN);
    assert_ok(pl_weight_read(weight, 0, OUT, back));
    assert_same_floats(back, w, OUT * IN);
    for (int i = 0; i < 2 * IN; i++)
        w[3 * IN + i] = (float)i;
    assert_ok(pl_weight_write(weight, 3, 2, w + 3 * IN));
    support_poison(back, OUT * IN);
    assert_ok(pl_weight_read(weight, 0, OUT, back));
    assert_same_floats(back, w, OUT * IN);
    support_poison(back, OUT * IN);
    assert_ok(pl_weight_read(weight, 2, 2, back));
    assert_same_floats(back, w + 2 * IN, 2 * IN);
    assert_true(support_is_poison(back[2 * IN]));
    pl_weight_destroy(weight);
    pl_weight_destroy(NULL);
}

static void weights_that_are_refused(void **state)
{
    (void)state;
    pl_weight *weight = NULL;
    parlin_device *device = gemm_device();
    const parlin_device_counters before = parlin_device_get_counters(device);
    assert_refused(pl_weight_create(device, PARLIN_F16, 3, 4, &weight), PARLIN_ERROR_UNSUPPORTED,
                   "(3, 4)", "f16", "f32");
    assert_refused(pl_weight_create(device, PARLIN_BF16, 3, 4, &weight), PARLIN_ERROR_UNSUPPORTED,
                   "bf16");
    assert_refused(pl_weight_create(device, PARLIN_F32, SIZE_MAX / 2, 4, &weight),
                   PARLIN_ERROR_MEMORY, "4");
    const size_t rows = (size_t)pl_device_info(device)->max_allocation / 4096 + 1;
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%zu", rows * 4096);
    assert_refused(pl_weight_create(device, PARLIN_F32, rows, 1024, &weight), PARLIN_ERROR_MEMORY,
                   bytes);
    pl_buffer_fail(device, 1);
    assert_refused(pl_weight_create(device, PARLIN_F32, 3, 4, &weight), PARLIN_ERROR_MEMORY,
                   "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    assert_null(weight);
    const parlin_device_counters after = parlin_device_get_counters(device);
    assert_int_equal(after.buffers_live, before.buffers_live);
    assert_int_equal(after.bytes_live, before.bytes_live);
}

/* Scratch cannot be had: an error, and the next call works. */
static void scratch_fails(void **state)
{
    (void)state;
    enum { ROWS = 11, OUT = 1237, IN = 3 };
    parlin_device *device;
    assert_ok(parlin_device_open(NULL, &device));
    float w[OUT * IN], x[ROWS * IN], *y = support_alloc_floats(ROWS * OUT);
    for (int i = 0; i < OUT * IN; i++)
        w[i] = 1;
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)(i / IN);
    pl_weight *weight;
    parlin_tensor xt, yt;
    assert_ok(pl_weight_create(device, PARLIN_F32, OUT, IN, &weight));
    assert_ok(pl_weight_write(weight, 0, OUT, w));
    assert_true(pl_weight_force(weight, "clblast"));
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, ROWS, IN, &xt));
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, ROWS, OUT, &yt));
    assert_ok(parlin_tensor_write(xt, x));
    support_poison(y, ROWS * OUT);
    assert_ok(parlin_tensor_write(yt, y));
    pl_block block = {.out = pl_heads_of_tensor(&yt)};
    pl_epilogue epilogue = {.activation = PARLIN_RELU, .block_count = 1, .blocks = &block};
    pl_buffer_fail(device, 1);
    assert_refused(pl_gemm(weight, &xt, &epilogue), PARLIN_ERROR_MEMORY,
                   "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    assert_ok(parlin_tensor_read(yt, y));
    for (int i = 0; i < ROWS * OUT; i++)
        assert_true(support_is_poison(y[i]));
    assert_ok(pl_gemm(weight, &xt, &epilogue));
    assert_ok(parlin_tensor_read(yt, y));
    for (int i = 0; i < ROWS * OUT; i++)
        assert_true(y[i] == (float)(IN * (i / OUT)));
    parlin_tensor_destroy(&xt);
    parlin_tensor_destroy(&yt);
    pl_weight_destroy(weight);
    parlin_device_close(device);
    free(y);
}

/* The engine that a new weight has run with after one product. */
static const char *engine_under(const char *variable)
{
    const float w[6] = {1, 2, 3, 4, 5, 6}, x[4] = {1, 1, 2, 2};
    if (variable)
        assert_int_equal(setenv("PARLIN_ENGINE", variable, 1), 0);
    else
        assert_int_equal(unsetenv("PARLIN_ENGINE"), 0);
    pl_weight *weight;
    assert_ok(pl_weight_create(gemm_device(), PARLIN_F32, 3, 2, &weight));
    assert_string_equal(pl_weight_engine(weight), "none");
    assert_ok(pl_weight_write(weight, 0, 3, w));
    float y[6];
    support_poison(y, 6);
    gemm_simple(weight, 2, x, y);
    const float wanted[6] = {3, 7, 11, 6, 14, 22};
    assert_same_floats(y, wanted, 6);
    const char *engine = pl_weight_engine(weight);
    pl_weight_destroy(weight);
    assert_int_equal(unsetenv("PARLIN_ENGINE"), 0);
    return engine;
}

static void environment_chooses(void **state)
{
    (void)state;
    assert_string_equal(engine_under("plain"), "plain");
    assert_string_equal(engine_under("clblast"), "clblast");
    assert_string_equal(engine_under("auto"), "clblast");
    assert_string_equal(engine_under(NULL), "clblast");
    pl_weight *weight = gemm_weight(1, 1, (const float[]){1}, "auto");
    assert_false(pl_weight_force(weight, "cublas"));
    pl_weight_destroy(weight);
}

/* What is written to stderr in between: caught, and how often `text` is in it. */
static int caught, behind;

static void catch_begin(void)
{
    char path[] = "/tmp/parlin-engines-XXXXXX";
    caught = mkstemp(path);
    behind = dup(STDERR_FILENO);
    assert_true(caught >= 0 && behind >= 0);
    unlink(path);
    fflush(stderr);
    dup2(caught, STDERR_FILENO);
}

static int catch_end(const char *text)
{
    char all[8192] = "";
    fflush(stderr);
    dup2(behind, STDERR_FILENO);
    close(behind);
    assert_true(pread(caught, all, sizeof all - 1, 0) >= 0);
    close(caught);
    int count = 0;
    for (const char *at = all; (at = strstr(at, text)); at++)
        count++;
    return count;
}

/* A value that is none of them is told once and changes nothing. */
static void bad_value_is_told_once(void **state)
{
    (void)state;
    catch_begin();
    const char *first = engine_under("clBLAS"), *second = engine_under("clBLAS");
    assert_int_equal(catch_end("PARLIN_ENGINE=clBLAS"), 1);
    assert_string_equal(first, "clblast");
    assert_string_equal(second, "clblast");
}

/* CLBlast refuses (here: parameters with which a group has too many work-items): the plain engine
   answers, also where clblast was asked for by name. CLBlast, which then writes a line, is not
   asked again. */
static void refused_products_are_answered(void **state)
{
    (void)state;
    assert_true(pl_clblast_refusal(CLBlastInvalidLocalThreadsTotal));
    assert_true(pl_clblast_refusal(CLBlastInvalidLocalMemUsage));
    assert_true(pl_clblast_refusal(CLBlastOpenCLBuildProgramFailure));
    assert_false(pl_clblast_refusal(CLBlastInvalidCommandQueue));
    assert_false(pl_clblast_refusal(CLBlastSuccess));
    assert_string_equal(pl_clblast_name(-54), "CLBlastInvalidLocalThreadsTotal");
    assert_string_equal(pl_clblast_name(-2046), "CLBlastInvalidLocalMemUsage");
    assert_string_equal(pl_clblast_name(12345), "unknown CLBlast status");

    gemm_device_close();
    const char *names[] = {"WGS1", "WPT1"};
    const size_t values[] = {1 << 20, 1}; /* work-items in a group: more than any device has */
    assert_int_equal(CLBlastOverrideParameters(parlin_device_id(gemm_device()), "Xgemv",
                                               CLBlastPrecisionSingle, 2, names, values),
                     CLBlastSuccess);
    static const char *const engines[] = {"auto", "clblast"};
    support_random random = {support_seed()};
    catch_begin();
    for (int e = 0; e < 2; e++)
        for (int residual = 0; residual < 3; residual++) {
            gemm_case c = {.engine = engines[e],
                           .ran = "plain",
                           .rows = 1,
                           .out = 30,
                           .in = 20,
                           .bias = residual > 0,
                           .residual = (gemm_residual)residual,
                           .padding = 2};
            gemm_check(&c, &random);
            /* 65 rows are a block of 64 and one of a single row: refused half way, and what was
               done (the residual in place!) is not done again. */
            c.rows = 65;
            c.scratch_limit = 1;
            gemm_check(&c, &random);
        }
    assert_int_equal(catch_end("CLBlast"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_keeps_its_rows),  cmocka_unit_test(weights_that_are_refused),
        cmocka_unit_test(scratch_fails),          cmocka_unit_test(environment_chooses),
        cmocka_unit_test(bad_value_is_told_once), cmocka_unit_test(refused_products_are_answered),
    };
    int failed = SUPPORT_RUN("gemm/engines", tests);
    gemm_device_close();
    return failed;
}
