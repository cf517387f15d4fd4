/* SPDX-License-Identifier: Apache-2.0 */
/* Case C32: device, group, layers, tensors and the caller's own OpenCL objects are released in
   any order, after MPI_Finalize too; nothing of the caller's is held for longer. */
#include "forward.h"
#include "own_opencl.h"

#include <sched.h>

enum { DEVICE, GROUP, LAYER, TENSOR, THINGS };

typedef struct things {
    parlin_device *device;
    parlin_group *group;
    parlin_layer *layer;
    parlin_tensor x, y;
} things;

/* Everything made and used once. */
static things make(parlin_device *device)
{
    things t = {.device = device};
    layers_case c = {.kind = PARLIN_ROW, .in = 16, .out = 3, .name = "released"};
    float weight[3 * 16], x[2 * 16], y[6];
    parlin_group_config config = parlin_group_defaults();
    config.timeout_seconds = 60;
    assert_ok(parlin_group_create(device, MPI_COMM_WORLD, &config, &t.group));
    t.layer = layers_create(t.group, &c);
    for (size_t i = 0; i < 3 * 16; i++)
        weight[i] = (float)(i / 16 + 1);
    for (size_t i = 0; i < 2 * 16; i++)
        x[i] = 1;
    layers_load(t.layer, &c, weight, NULL);
    assert_ok(parlin_tensor_create(t.group, PARLIN_F32, 2,
                                   parlin_layer_get_info(t.layer).input_cols, &t.x));
    assert_ok(parlin_layer_output(t.layer, 2, &t.y));
    assert_ok(parlin_tensor_write(t.x, x));
    assert_ok(parlin_layer_forward(t.layer, t.x, t.y));
    assert_ok(parlin_tensor_read(t.y, y));
    for (size_t i = 0; i < 6; i++)
        assert_true(y[i] == (float)(16 * (i % 3 + 1)));
    return t;
}

static void release(things *t, int which)
{
    switch (which) {
    case DEVICE:
        parlin_device_close(t->device);
        break;
    case GROUP:
        parlin_group_close(t->group);
        break;
    case LAYER:
        parlin_layer_destroy(t->layer);
        break;
    default:
        parlin_tensor_destroy(&t->x);
        parlin_tensor_destroy(&t->y);
    }
}

/* Work is still enqueued when the first reference goes. */
static void release_all(things *t, const int order[THINGS])
{
    assert_ok(parlin_layer_forward(t->layer, t->x, t->y));
    for (int i = 0; i < THINGS; i++)
        release(t, order[i]);
}

static void in_every_order(void (*body)(const int order[THINGS]))
{
    for (int code = 0; code < 4 * 4 * 4 * 4; code++) {
        int order[THINGS] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6}, seen = 0;
        for (int i = 0; i < THINGS; i++)
            seen |= 1 << order[i];
        if (seen == 15)
            body(order);
    }
}

static void opened(const int order[THINGS])
{
    parlin_device *device = NULL;
    assert_ok(parlin_device_open(NULL, &device));
    things t = make(device);
    release_all(&t, order);
}

static void case_C32_opened_device(void **state)
{
    (void)state;
    in_every_order(opened);
}

static cl_uint references(cl_context context, cl_command_queue queue)
{
    cl_uint count = 0;
    own_ok(queue
               ? clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL)
               : clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL));
    return count;
}

/* The last command's own reference may go a little after the command is done. */
static void assert_references(cl_context context, cl_command_queue queue, cl_uint wanted)
{
    for (int tries = 0; tries < 1000000 && references(context, queue) != wanted; tries++)
        sched_yield();
    assert_int_equal(references(context, queue), wanted);
}

/* The caller gives up queue and context first, and keeps one reference to count the others. */
static void wrapped_caller_first(const int order[THINGS])
{
    own_opencl own = own_begin(0);
    cl_context context = own.context;
    parlin_device *device = NULL;
    assert_ok(parlin_device_wrap(own.context, own.id, own.queue, &device));
    things t = make(device);
    own_ok(clRetainContext(context));
    own_end(&own);
    release_all(&t, order);
    assert_references(context, NULL, 1);
    own_ok(clReleaseContext(context));
}

static void case_C32_the_callers_objects_first(void **state)
{
    (void)state;
    in_every_order(wrapped_caller_first);
}

static void wrapped_caller_last(const int order[THINGS])
{
    own_opencl own = own_begin(0);
    parlin_device *device = NULL;
    cl_uint before = references(own.context, NULL);
    assert_ok(parlin_device_wrap(own.context, own.id, own.queue, &device));
    things t = make(device);
    release_all(&t, order);
    own_ok(clFinish(own.queue));
    assert_references(own.context, NULL, before);
    assert_references(own.context, own.queue, 1);
    own_end(&own);
}

static void case_C32_the_callers_objects_last(void **state)
{
    (void)state;
    in_every_order(wrapped_caller_last);
}

/* A layer outlives everybody's references and still works; a sub-group outlives its parent. */
static void case_C32_a_layer_keeps_what_it_needs(void **state)
{
    (void)state;
    parlin_device *device = NULL;
    parlin_group *group = NULL, *part = NULL;
    assert_ok(parlin_device_open(NULL, &device));
    assert_ok(parlin_group_create(device, MPI_COMM_WORLD, NULL, &group));
    parlin_device_close(device);
    assert_ok(parlin_group_split(group, 0, 0, &part));
    layers_case c = {.kind = PARLIN_ROW, .in = 16, .out = 3, .bias = true};
    forward f = forward_begin(part, &c, 8500, true);
    parlin_group_close(group);
    forward_check(&f, 2, NO_RESIDUAL);
    view x = view_at(parlin_group_device(part), 2, 1, parlin_layer_get_info(f.layer).input_cols, 0,
                     16, 1, 0);
    view y = view_at(parlin_group_device(part), 2, 1, 3, 0, 3, 1, 0);
    parlin_group_close(part);
    assert_ok(parlin_layer_forward(f.layer, x.tensor, y.tensor));
    parlin_layer_destroy(f.layer);
    f.layer = NULL;
    float out[6];
    view_read(&y, out); /* tensors keep the device */
    view_free(&x);
    view_free(&y);
    forward_end(&f);
}

/* Kept until after MPI_Finalize. */
static things late[2];

static void case_C32_closed_after_finalize(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        parlin_device *device = NULL;
        assert_ok(parlin_device_open(NULL, &device));
        late[i] = make(device);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C32_opened_device),
        cmocka_unit_test(case_C32_the_callers_objects_first),
        cmocka_unit_test(case_C32_the_callers_objects_last),
        cmocka_unit_test(case_C32_a_layer_keeps_what_it_needs),
        cmocka_unit_test(case_C32_closed_after_finalize),
    };
    int failed = SUPPORT_RUN_MPI("layers: release", tests);
    /* an MPI call here would end the program */
    for (int i = 0; i < THINGS; i++)
        release(&late[0], i);
    for (int i = THINGS - 1; i >= 0; i--)
        release(&late[1], i);
    int finalized = 0;
    MPI_Finalized(&finalized);
    return failed || !finalized;
}
