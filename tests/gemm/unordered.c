/* SPDX-License-Identifier: Apache-2.0 */
/* Products on the caller's out-of-order queue: zeros before the one-row product, CLBlast, the
   epilogue, all through the same scratch, must keep their order. */
#include <stdlib.h>

#include <parlin/opencl.h>

#include "gemm_case.h"

enum { ROWS = 96, OUT = 160, IN = 32, CHAIN = 20 };

/* Chains products without waiting, each with another bias into another output. */
static void chain(parlin_device *device, const char *engine, size_t rows)
{
    float *w = support_alloc_floats(OUT * IN), *x = support_alloc_floats(rows * IN);
    float *y = support_alloc_floats(rows * OUT), bias[OUT];
    for (size_t i = 0; i < OUT * IN; i++)
        w[i] = 1;
    for (size_t i = 0; i < rows * IN; i++)
        x[i] = (float)(i / IN);
    pl_weight *weight;
    parlin_tensor xt, yt[CHAIN];
    cl_mem biases[CHAIN];
    assert_ok(pl_weight_create(device, PARLIN_F32, OUT, IN, &weight));
    assert_true(pl_weight_force(weight, engine));
    assert_ok(pl_weight_write(weight, 0, OUT, w));
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, rows, IN, &xt));
    assert_ok(parlin_tensor_write(xt, x));
    support_poison(y, rows * OUT);
    const pl_rect whole = {0, sizeof bias};
    for (int n = 0; n < CHAIN; n++) {
        for (int j = 0; j < OUT; j++)
            bias[j] = (float)(1000 * n);
        assert_ok(pl_buffer_create(device, sizeof bias, &biases[n]));
        assert_ok(pl_rect_write(device, biases[n], whole, sizeof bias, 1, bias, sizeof bias, true));
        assert_ok(parlin_tensor_create_on(device, PARLIN_F32, rows, OUT, &yt[n]));
        assert_ok(parlin_tensor_write(yt[n], y));
    }
    for (int n = 0; n < CHAIN; n++) {
        pl_block block = {.out = pl_heads_of_tensor(&yt[n])};
        pl_epilogue epilogue = {
            .bias = n % 3 ? biases[n] : NULL, .block_count = 1, .blocks = &block};
        assert_ok(pl_gemm(weight, &xt, &epilogue));
    }
    for (int n = 0; n < CHAIN; n++) {
        assert_ok(parlin_tensor_read(yt[n], y));
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < OUT; j++)
                assert_true(y[i * OUT + j] == (float)(IN * i) + (n % 3 ? 1000.0f * n : 0));
        parlin_tensor_destroy(&yt[n]);
        pl_buffer_release(device, biases[n], sizeof bias);
    }
    parlin_tensor_destroy(&xt);
    pl_weight_destroy(weight);
    free(w), free(x), free(y);
}

static void out_of_order_queue(void **state)
{
    (void)state;
    const cl_device_id id = parlin_device_id(gemm_device());
    if (!pl_device_info(gemm_device())->out_of_order)
        SUPPORT_SKIP("the device has no out-of-order queues");
    cl_int code;
    cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_command_queue queue =
        clCreateCommandQueue(context, id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    assert_int_equal(code, CL_SUCCESS);
    parlin_device *device;
    assert_ok(parlin_device_wrap(context, id, queue, &device));
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    for (int repeat = 0; repeat < 5; repeat++) {
        chain(device, "clblast", 1);
        chain(device, "clblast", ROWS);
        chain(device, "plain", ROWS);
    }
    parlin_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_order_queue),
    };
    int failed = SUPPORT_RUN("gemm/unordered", tests);
    gemm_device_close();
    return failed;
}
