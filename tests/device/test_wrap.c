/* SPDX-License-Identifier: Apache-2.0 */
/* Devices on the caller's own context and queue: order, events, and release in any order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/select.h"
#include "device_support.h"

enum { N = 65536 };

/* Fewer of everything where each work-item is emulated. */
static size_t elements(const parlin_device *device)
{
    return pl_device_info(device)->device_class == PARLIN_EMULATION ? N / 256 : N;
}

static int rounds(const parlin_device *device, int usual)
{
    return pl_device_info(device)->device_class == PARLIN_EMULATION ? 5 : usual;
}

/* What a caller has of its own: beside the device's context a second one. */
typedef struct caller {
    cl_device_id id;
    cl_context context, other;
    cl_command_queue queue;
} caller;

static caller make_caller(cl_command_queue_properties properties)
{
    caller made = {0};
    cl_int code;
    parlin_device *device = open_device();
    made.id = parlin_device_id(device);
    parlin_device_close(device);
    made.context = clCreateContext(NULL, 1, &made.id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    made.other = clCreateContext(NULL, 1, &made.id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    made.queue = clCreateCommandQueue(made.context, made.id, properties, &code);
    assert_int_equal(code, CL_SUCCESS);
    use_test_kernels();
    return made;
}

static void release_caller(caller *from)
{
    clReleaseCommandQueue(from->queue);
    clReleaseContext(from->context);
    clReleaseContext(from->other);
}

static cl_uint references(cl_command_queue queue)
{
    cl_uint count = 0;
    assert_int_equal(
        clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL),
        CL_SUCCESS);
    return count;
}

static void objects_are_the_callers(void **state)
{
    (void)state;
    caller own = make_caller(0);
    cl_uint before = references(own.queue);
    parlin_device *device;
    parlin_device_info info;
    assert_ok(parlin_device_wrap(own.context, own.id, own.queue, &device));
    assert_ptr_equal(parlin_device_context(device), own.context);
    assert_ptr_equal(parlin_device_queue(device), own.queue);
    assert_ptr_equal(parlin_device_id(device), own.id);
    assert_ok(parlin_device_get_info(device, &info));
    assert_true(info.index != SIZE_MAX); /* it is in parlin's list */
    assert_true(references(own.queue) > before);
    parlin_device_close(device);
    assert_int_equal(references(own.queue), before);
    /* And it works. (Commands may hold the queue for a while, so nothing is counted after them.) */
    assert_ok(parlin_device_wrap(own.context, own.id, own.queue, &device));
    run_fill(device, 6);
    assert_ok(parlin_device_finish(device));
    parlin_device_close(device);
    release_caller(&own);
}

static void wrong_objects_are_refused(void **state)
{
    (void)state;
    caller own = make_caller(0);
    cl_int code;
    cl_uint before = references(own.queue);
    parlin_device *device = NULL;
    assert_refused(parlin_device_wrap(NULL, own.id, own.queue, &device), PARLIN_ERROR_ARGUMENT,
                   "context is NULL");
    assert_refused(parlin_device_wrap(own.context, NULL, own.queue, &device), PARLIN_ERROR_ARGUMENT,
                   "id is NULL");
    assert_refused(parlin_device_wrap(own.context, own.id, NULL, &device), PARLIN_ERROR_ARGUMENT,
                   "queue is NULL");
    assert_refused(parlin_device_wrap(own.context, own.id, own.queue, NULL), PARLIN_ERROR_ARGUMENT,
                   "device is NULL");
    cl_command_queue foreign = clCreateCommandQueue(own.other, own.id, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_refused(parlin_device_wrap(own.context, own.id, foreign, &device), PARLIN_ERROR_ARGUMENT,
                   "queue belongs to another context");
    clReleaseCommandQueue(foreign);
    /* Another device of the machine, where there is one. */
    size_t count = 0;
    assert_ok(parlin_device_count(&count));
    for (size_t i = 0; i < count; i++) {
        char spec[32];
        parlin_device *other;
        snprintf(spec, sizeof spec, "%zu", i);
        assert_ok(parlin_device_open(spec, &other));
        if (parlin_device_id(other) != own.id)
            assert_refused(
                parlin_device_wrap(own.context, parlin_device_id(other), own.queue, &device),
                PARLIN_ERROR_ARGUMENT, "none of the context's");
        parlin_device_close(other);
    }
    assert_null(device);
    assert_int_equal(references(own.queue), before);
    release_caller(&own);
}

/* A sub-device is not in parlin's list, and works. */
static void sub_device(void **state)
{
    (void)state;
    caller own = make_caller(0);
    const cl_device_partition_property split[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_device_id part;
    cl_uint count = 0;
    /* rusticl has no such function at all, so that it must be asked first. */
    clGetDeviceInfo(own.id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof count, &count, NULL);
    cl_int code = count > 1 ? clCreateSubDevices(own.id, split, 0, NULL, &count) : CL_INVALID_VALUE;
    cl_device_id *parts = support_alloc((count + 1) * sizeof *parts);
    if (code != CL_SUCCESS || count == 0 ||
        clCreateSubDevices(own.id, split, count, parts, NULL) != CL_SUCCESS) {
        free(parts);
        release_caller(&own);
        SUPPORT_SKIP("this device has no sub-devices");
        return;
    }
    part = parts[0];
    cl_context context = clCreateContext(NULL, 1, &part, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_command_queue queue = clCreateCommandQueue(context, part, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    parlin_device *device;
    parlin_device_info info;
    assert_ok(parlin_device_wrap(context, part, queue, &device));
    assert_ok(parlin_device_get_info(device, &info));
    assert_true(info.index == SIZE_MAX);
    assert_int_equal(info.compute_units, 1);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    for (cl_uint i = 0; i < count; i++)
        clReleaseDevice(parts[i]);
    free(parts);
    run_fill(device, 6);
    parlin_device_close(device);
    release_caller(&own);
}

/* out = 1, then x -> 2 x + 1 `times` times: 2^(times + 1) - 1, if the order is kept. */
static void chain(parlin_device *device, parlin_tensor tensor, const char *step, int times)
{
    cl_kernel fill, twice;
    assert_ok(pl_device_kernel(device, "fill.cl", "fill", "-DVALUE=1.0f", &fill));
    assert_ok(pl_device_kernel(device, "fill.cl", step, "-DVALUE=1.0f", &twice));
    const cl_ulong n = tensor.cols;
    const size_t wide = tensor.cols, one = 1;
    const pl_arg args[] = {PL_ARG(n), PL_ARG(tensor.buffer)};
    assert_ok(pl_launch(device, fill, 1, &wide, NULL, args, 2));
    const size_t *global = strcmp(step, "slow_twice") == 0 ? &one : &wide;
    for (int i = 0; i < times; i++)
        assert_ok(pl_launch(device, twice, 1, global, NULL, args, 2));
}

/* Kernels, copies and host transfers that depend on each other, on a queue that keeps no order. */
static void case_C27_out_of_order_queue(void **state)
{
    (void)state;
    parlin_device *first = open_device();
    bool able = pl_device_info(first)->out_of_order;
    parlin_device_close(first);
    if (!able) {
        SUPPORT_SKIP("this device has no out-of-order queues");
        return;
    }
    caller own = make_caller(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    parlin_device *device;
    parlin_tensor one, two;
    float *host = support_alloc_floats(N);
    assert_ok(parlin_device_wrap(own.context, own.id, own.queue, &device));
    const size_t n = elements(device), bytes = n * sizeof(float);
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 1, n, &one));
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 1, n, &two));
    pl_staging staging;
    assert_ok(pl_staging_take(device, bytes, &staging));
    float *stage = staging.host;
    for (int round = 0; round < rounds(device, 100); round++) {
        for (size_t i = 0; i < n; i++)
            host[i] = -1;
        assert_ok(parlin_tensor_write(two, host));
        chain(device, one, "slow_twice", 2);
        assert_ok(pl_tensor_copy(device, &one, &two));
        chain(device, one, "twice", 3 + round % 3);
        /* Out and back through one staging block, twice, other data each time; only the end waits. */
        assert_ok(
            pl_rect_read(device, two.buffer, (pl_rect){0, bytes}, bytes, 1, stage, bytes, false));
        assert_ok(
            pl_rect_write(device, two.buffer, (pl_rect){0, bytes}, bytes, 1, stage, bytes, false));
        assert_ok(
            pl_rect_read(device, one.buffer, (pl_rect){0, bytes}, bytes, 1, stage, bytes, false));
        assert_ok(
            pl_rect_write(device, one.buffer, (pl_rect){0, bytes}, bytes, 1, stage, bytes, false));
        assert_ok(parlin_tensor_read(two, host));
        for (size_t i = 0; i < n; i++)
            if (host[i] != 7)
                fail_msg("round %d, element %zu of the first is %g, wanted 7", round, i, host[i]);
        assert_ok(parlin_tensor_read(one, host));
        float wanted = (float)((16 << round % 3) - 1);
        for (size_t i = 0; i < n; i++)
            if (host[i] != wanted)
                fail_msg("round %d, element %zu of the second is %g, wanted %g", round, i, host[i],
                         wanted);
    }
    pl_staging_give(device, &staging);
    parlin_tensor_destroy(&one);
    parlin_tensor_destroy(&two);
    parlin_device_close(device);
    release_caller(&own);
    free(host);
}

/* The event covers everything before it, seen from another queue; and a wait list is waited for. */
static void event_covers_everything(cl_command_queue_properties properties)
{
    caller own = make_caller(properties);
    cl_int code;
    parlin_device *device;
    parlin_tensor tensor;
    float host[N / 64] = {0};
    assert_ok(parlin_device_wrap(own.context, own.id, own.queue, &device));
    if (pl_text_holds(pl_device_info(device)->platform, "oclgrind")) {
        parlin_device_close(device);
        release_caller(&own);
        SUPPORT_SKIP("Oclgrind's clFlush waits, for the event that this test gives afterwards");
        return;
    }
    const size_t n = elements(device) / 64;
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 1, n, &tensor));
    cl_command_queue reader = clCreateCommandQueue(own.context, own.id, 0, &code);
    assert_int_equal(code, CL_SUCCESS);
    for (int round = 0; round < rounds(device, 50); round++) {
        cl_event go = clCreateUserEvent(own.context, &code), done = NULL;
        assert_int_equal(code, CL_SUCCESS);
        support_poison(host, n);
        assert_ok(parlin_tensor_write(tensor, host));
        assert_ok(pl_queue_after(device, 1, &go));
        chain(device, tensor, "slow_twice", 3);
        assert_ok(pl_queue_mark(device, &done));
        assert_non_null(done);
        /* Nothing may have run: the caller has not let it. */
        cl_int status = CL_COMPLETE;
        assert_int_equal(
            clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL),
            CL_SUCCESS);
        assert_int_not_equal(status, CL_COMPLETE);
        assert_int_equal(clEnqueueReadBuffer(reader, tensor.buffer, CL_TRUE, 0, n * sizeof(float),
                                             host, 0, NULL, NULL),
                         CL_SUCCESS);
        for (size_t i = 0; i < n; i++)
            assert_true(support_is_poison(host[i]));
        assert_int_equal(clSetUserEventStatus(go, CL_COMPLETE), CL_SUCCESS);
        assert_int_equal(clEnqueueReadBuffer(reader, tensor.buffer, CL_TRUE, 0, n * sizeof(float),
                                             host, 1, &done, NULL),
                         CL_SUCCESS);
        for (size_t i = 0; i < n; i++)
            if (host[i] != 15)
                fail_msg("round %d: element %zu is %g, wanted 15", round, i, host[i]);
        clReleaseEvent(go);
        clReleaseEvent(done);
    }
    assert_ok(pl_queue_after(device, 0, NULL));
    clReleaseCommandQueue(reader);
    parlin_tensor_destroy(&tensor);
    parlin_device_close(device);
    release_caller(&own);
}

static void case_C33_event_covers_everything(void **state)
{
    (void)state;
    event_covers_everything(0);
}

static void case_C33_out_of_order(void **state)
{
    (void)state;
    parlin_device *device = open_device();
    bool able = pl_device_info(device)->out_of_order;
    parlin_device_close(device);
    if (!able) {
        SUPPORT_SKIP("this device has no out-of-order queues");
        return;
    }
    event_covers_everything(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

static void case_C32_release_in_any_order(void **state)
{
    (void)state;
    for (int order = 0; order < 6; order++) {
        caller own = make_caller(0);
        parlin_device *device;
        parlin_tensor tensor;
        pl_scratch scratch;
        pl_staging staging;
        assert_ok(parlin_device_wrap(own.context, own.id, own.queue, &device));
        assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 10, 10, &tensor));
        assert_ok(pl_scratch_take(device, 1000, &scratch));
        assert_ok(pl_staging_take(device, 1000, &staging));
        pl_scratch_give(device, &scratch);
        pl_staging_give(device, &staging);
        chain(device, (parlin_tensor){.buffer = tensor.buffer, .cols = 100}, "slow_twice", 2);
        static const char *const orders[6] = {"ctd", "cdt", "tcd", "tdc", "dtc", "dct"};
        for (const char *at = orders[order]; *at; at++)
            if (*at == 'c')
                release_caller(&own);
            else if (*at == 'd')
                parlin_device_close(device);
            else
                parlin_tensor_destroy(&tensor);
    }
    /* A tensor that outlives all handles still works. */
    caller own = make_caller(0);
    parlin_device *device;
    parlin_tensor tensor;
    float host[4] = {1, 2, 3, 4}, back[4];
    assert_ok(parlin_device_wrap(own.context, own.id, own.queue, &device));
    assert_ok(parlin_tensor_create_on(device, PARLIN_F32, 2, 2, &tensor));
    release_caller(&own);
    parlin_device_close(device);
    assert_ok(parlin_tensor_write(tensor, host));
    assert_ok(parlin_tensor_read(tensor, back));
    assert_same_floats(back, host, 4);
    parlin_tensor_destroy(&tensor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_the_callers),
        cmocka_unit_test(wrong_objects_are_refused),
        cmocka_unit_test(sub_device),
        cmocka_unit_test(case_C27_out_of_order_queue),
        cmocka_unit_test(case_C33_event_covers_everything),
        cmocka_unit_test(case_C33_out_of_order),
        cmocka_unit_test(case_C32_release_in_any_order),
    };
    return SUPPORT_RUN("device/wrap", tests);
}
