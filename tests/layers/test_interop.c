/* SPDX-License-Identifier: Apache-2.0 */
/* Layers on the caller's own OpenCL objects: cases C27 (an out-of-order queue) and C33 (events in
   and out). */
#include "forward.h"
#include "own_opencl.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static const cl_command_queue_properties orders[] = {0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};

/* A layer with a dense x and y of the caller's, and the result for this x by the reference. */
typedef struct rig {
    forward f;
    size_t rows, x_count, y_count;
    cl_mem x, y;
    parlin_tensor tx, ty;
    float *host_x; /* this rank's */
    float *out, *minus;
    double *ref;
} rig;

static rig rig_begin(const own_opencl *own, parlin_group *group, const layers_case *c, size_t rows,
                     uint64_t salt)
{
    rig r = {.f = forward_begin(group, c, salt, true), .rows = rows};
    parlin_layer_info info = parlin_layer_get_info(r.f.layer);
    r.x_count = rows * info.input_cols;
    r.y_count = rows * info.output_cols;
    r.x = own_buffer(own, r.x_count);
    r.y = own_buffer(own, r.y_count);
    r.tx = parlin_tensor_wrap(r.x, PARLIN_F32, 0, rows, info.input_cols, info.input_cols);
    r.ty = parlin_tensor_wrap(r.y, PARLIN_F32, 0, rows, info.output_cols, info.output_cols);
    float *whole = support_alloc_floats(rows * c->in);
    r.host_x = support_alloc_floats(r.x_count);
    r.out = support_alloc_floats(r.y_count);
    r.minus = support_alloc_floats(r.y_count);
    r.ref = support_alloc(r.y_count * sizeof *r.ref);
    forward_numbers(&r.f, whole, rows * c->in);
    forward_own_input(&r.f, rows, whole, r.host_x);
    forward_expected(&r.f, rows, whole, NULL, r.ref);
    for (size_t i = 0; i < r.y_count; i++)
        r.minus[i] = -1;
    free(whole);
    return r;
}

static void rig_end(rig *r)
{
    own_ok(clReleaseMemObject(r->x));
    own_ok(clReleaseMemObject(r->y));
    free(r->host_x);
    free(r->out);
    free(r->minus);
    free(r->ref);
    forward_end(&r->f);
}

/* The layer has no bias and no activation, so that s x gives s y. */
static void write_scaled(const own_opencl *own, rig *r, int s)
{
    float *x = support_alloc_floats(r->x_count);
    for (size_t i = 0; i < r->x_count; i++)
        x[i] = (float)s * r->host_x[i];
    own_write(own, r->x, x, r->x_count);
    own_write(own, r->y, r->minus, r->y_count);
    free(x);
}

static void check_scaled(const rig *r, int s, const char *what)
{
    for (size_t i = 0; i < r->y_count; i++)
        if (!((double)r->out[i] == s * r->ref[i]))
            fail_msg("rank %d: %s: [%zu] is %g, wanted %d times %g", support_rank(), what, i,
                     r->out[i], s, r->ref[i]);
}

/* --- C27 --- */

static void out_of_order(const layers_case *c, size_t rows, int times)
{
    own_opencl own = own_begin(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    parlin_group *group = own_group(&own);
    rig a = rig_begin(&own, group, c, rows, 8000), b = rig_begin(&own, group, c, rows, 8001);
    parlin_device *device = parlin_group_device(group);
    a.ty.device = b.ty.device = device;
    for (int s = 1; s <= times; s++) {
        write_scaled(&own, &a, s);
        write_scaled(&own, &b, -s);
        assert_ok(parlin_layer_forward(a.f.layer, a.tx, a.ty));
        assert_ok(parlin_layer_forward(b.f.layer, b.tx, b.ty));
        assert_ok(parlin_tensor_read(b.ty, b.out));
        assert_ok(parlin_tensor_read(a.ty, a.out));
        check_scaled(&a, s, "first");
        check_scaled(&b, -s, "second");
    }
    assert_ok(parlin_device_finish(device));
    rig_end(&a);
    rig_end(&b);
    parlin_group_close(group);
    own_end(&own);
}

static void case_C27_out_of_order_row(void **state)
{
    (void)state;
    layers_case c = {.kind = PARLIN_ROW, .in = 256, .out = 256};
    out_of_order(&c, 256, 100);
}

static void case_C27_out_of_order_other_layers(void **state)
{
    (void)state;
    static const layers_case cases[] = {
        {.kind = PARLIN_COLUMN, .in = 65, .out = 100},
        {.kind = PARLIN_COLUMN, .in = 65, .out = 100, .gather_output = true},
        {.kind = PARLIN_MERGED, .in = 65, .parts = 3, .part_out = {33, 8, 64}},
        {.kind = PARLIN_QKV, .in = 65, .heads = 8, .kv_heads = 4, .head_size = 9},
        {.kind = PARLIN_ROW, .in = 100, .out = 65, .whole_input = true},
        {.kind = PARLIN_ROW, .in = 100, .out = 65, .partial = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        out_of_order(&cases[i], 1, 20);
        out_of_order(&cases[i], 33, 20);
    }
}

/* The result of one layer is the input of the next: nothing overtakes. */
static void case_C27_out_of_order_chain(void **state)
{
    (void)state;
    own_opencl own = own_begin(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    parlin_group *group = own_group(&own);
    layers_case up = {.kind = PARLIN_COLUMN, .in = 40, .out = 96};
    layers_case down = {.kind = PARLIN_ROW, .in = 96, .out = 40};
    rig first = rig_begin(&own, group, &up, 17, 8100);
    forward second = forward_begin(group, &down, 8101, true);
    /* the reference of the pair on the full middle */
    float *x = first.host_x, *middle = support_alloc_floats(17 * 96);
    double *wide = support_alloc(17 * 96 * sizeof *wide),
           *ref = support_alloc(17 * 40 * sizeof *ref);
    reference_linear(17, 96, 40, x, first.f.weight, NULL, PARLIN_NO_ACTIVATION, wide);
    for (size_t i = 0; i < 17 * 96; i++)
        middle[i] = (float)wide[i];
    reference_linear(17, 40, 96, middle, second.weight, NULL, PARLIN_NO_ACTIVATION, ref);
    cl_mem y = own_buffer(&own, 17 * 40);
    parlin_tensor ty = parlin_tensor_wrap(y, PARLIN_F32, 0, 17, 40, 40);
    ty.device = parlin_group_device(group);
    float out[17 * 40];
    for (int s = 1; s <= 50; s++) {
        write_scaled(&own, &first, s);
        assert_ok(parlin_layer_forward(first.f.layer, first.tx, first.ty));
        assert_ok(parlin_layer_forward(second.layer, first.ty, ty));
        assert_ok(parlin_tensor_read(ty, out));
        for (size_t i = 0; i < 17 * 40; i++)
            assert_true((double)out[i] == s * ref[i]);
    }
    own_ok(clReleaseMemObject(y));
    free(middle);
    free(wide);
    free(ref);
    forward_end(&second);
    rig_end(&first);
    parlin_group_close(group);
    own_end(&own);
}

/* --- C33 --- */

static const layers_case kinds[] = {
    {.kind = PARLIN_COLUMN, .in = 65, .out = 100},
    {.kind = PARLIN_COLUMN, .in = 65, .out = 100, .gather_output = true},
    {.kind = PARLIN_MERGED, .in = 65, .parts = 3, .part_out = {33, 8, 64}},
    {.kind = PARLIN_MERGED, .in = 65, .parts = 2, .part_out = {33, 8}, .gather_output = true},
    {.kind = PARLIN_QKV, .in = 65, .heads = 8, .kv_heads = 4, .head_size = 9},
    {.kind = PARLIN_ROW, .in = 100, .out = 65},
    {.kind = PARLIN_ROW, .in = 100, .out = 65, .whole_input = true},
    {.kind = PARLIN_ROW, .in = 100, .out = 65, .partial = true},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* One call: forward_after, or the three views of a qkv layer on the same columns of y. */
static parlin_status call(const rig *r, bool three, cl_uint count, const cl_event *events,
                          cl_event *done)
{
    if (!three)
        return parlin_layer_forward_after(r->f.layer, r->tx, r->ty, count, events, done);
    parlin_qkv_shape s = parlin_qkv_local(r->f.layer);
    size_t q = s.heads * s.head_size, k = s.kv_heads * s.head_size, v = s.kv_heads * s.v_head_size;
    return parlin_qkv_forward_after(
        r->f.layer, r->tx,
        parlin_tensor_heads(parlin_tensor_cols(r->ty, 0, q), s.heads, s.head_size),
        parlin_tensor_heads(parlin_tensor_cols(r->ty, q, k), s.kv_heads, s.head_size),
        parlin_tensor_heads(parlin_tensor_cols(r->ty, q + k, v), s.kv_heads, s.v_head_size), count,
        events, done);
}

/* Waits for nothing but the event, then reads through another queue. */
static void only_the_event(const own_opencl *own, parlin_group *group, const layers_case *c,
                           size_t rows, bool three)
{
    rig r = rig_begin(own, group, c, rows, 8200);
    for (int s = 1; s <= 10; s++) {
        cl_event done = NULL;
        write_scaled(own, &r, s);
        assert_ok(call(&r, three, 0, NULL, &done));
        assert_non_null(done);
        own_ok(clWaitForEvents(1, &done));
        own_read(own, r.y, r.out, r.y_count);
        check_scaled(&r, s, "after the event");
        own_ok(clReleaseEvent(done));
    }
    /* nobody has to take the event */
    write_scaled(own, &r, 3);
    assert_ok(call(&r, three, 0, NULL, NULL));
    assert_ok(parlin_device_finish(parlin_group_device(group)));
    own_read(own, r.y, r.out, r.y_count);
    check_scaled(&r, 3, "after finish");
    rig_end(&r);
}

static void on_every_order_and_kind(void (*body)(const own_opencl *, parlin_group *,
                                                 const layers_case *, size_t, bool))
{
    for (size_t o = 0; o < 2; o++) {
        own_opencl own = own_begin(orders[o]);
        parlin_group *group = own_group(&own);
        for (size_t i = 0; i < KINDS; i++)
            for (size_t rows = 1; rows <= 17; rows += 16)
                for (int three = 0; three <= (kinds[i].kind == PARLIN_QKV); three++)
                    body(&own, group, &kinds[i], rows, three);
        parlin_group_close(group);
        own_end(&own);
    }
}

static void case_C33_the_event_covers_the_call(void **state)
{
    (void)state;
    on_every_order_and_kind(only_the_event);
}

/* Sets a user event after a while, from another thread: a call with a collective blocks. */
static void *set_later(void *event)
{
    for (int i = 0; i < 100; i++)
        sched_yield();
    clSetUserEventStatus(event, CL_COMPLETE);
    return NULL;
}

/* x is written by the caller's own queue once a user event is set; forward waits for that
   write. Until then x holds what would give another result. */
static void after_events(const own_opencl *own, parlin_group *group, const layers_case *c,
                         size_t rows, bool three)
{
    rig r = rig_begin(own, group, c, rows, 8300);
    bool collective = parlin_layer_get_info(r.f.layer).collective;
    for (int s = 2; s <= 4; s++) {
        cl_int code;
        cl_event gate = clCreateUserEvent(own->context, &code), events[2], done = NULL;
        own_ok(code);
        float *x = support_alloc_floats(r.x_count);
        for (size_t i = 0; i < r.x_count; i++)
            x[i] = (float)s * r.host_x[i];
        write_scaled(own, &r, -7);
        size_t half = r.x_count / 2 * sizeof(float);
        own_ok(clEnqueueWriteBuffer(own->other, r.x, CL_FALSE, half,
                                    r.x_count * sizeof(float) - half, x + r.x_count / 2, 1, &gate,
                                    &events[0]));
        if (half == 0) {
            events[1] = events[0];
            own_ok(clRetainEvent(events[0]));
        } else {
            own_ok(
                clEnqueueWriteBuffer(own->other, r.x, CL_FALSE, 0, half, x, 0, NULL, &events[1]));
        }
        own_ok(clFlush(own->other));
        pthread_t thread;
        if (collective) {
            assert_int_equal(pthread_create(&thread, NULL, set_later, gate), 0);
            assert_ok(call(&r, three, 2, events, &done));
            pthread_join(thread, NULL);
        } else {
            assert_ok(call(&r, three, 2, events, &done)); /* only enqueues */
            own_ok(clSetUserEventStatus(gate, CL_COMPLETE));
        }
        own_ok(clWaitForEvents(1, &done));
        own_read(own, r.y, r.out, r.y_count);
        check_scaled(&r, s, "after the write");
        own_ok(clReleaseEvent(gate));
        own_ok(clReleaseEvent(events[0]));
        own_ok(clReleaseEvent(events[1]));
        own_ok(clReleaseEvent(done));
        free(x);
    }
    rig_end(&r);
}

static void case_C33_wait_lists(void **state)
{
    (void)state;
    on_every_order_and_kind(after_events);
}

/* Events that are no events of the device: refused, nothing written, the next call is right. */
static void wrong_events(const own_opencl *own, parlin_group *group, const layers_case *c,
                         size_t rows, bool three)
{
    rig r = rig_begin(own, group, c, rows, 8400);
    cl_int code;
    cl_context foreign = clCreateContext(NULL, 1, &own->id, NULL, NULL, &code);
    own_ok(code);
    cl_event bad = clCreateUserEvent(foreign, &code), none = NULL, done = (cl_event)(void *)&r;
    own_ok(code);
    own_ok(clSetUserEventStatus(bad, CL_COMPLETE));
    write_scaled(own, &r, 5);
    assert_refused(call(&r, three, 1, NULL, &done), PARLIN_ERROR_ARGUMENT, "events", "NULL", "1");
    assert_refused(call(&r, three, 1, &none, &done), PARLIN_ERROR_DEVICE, "CL_INVALID_");
    assert_refused(call(&r, three, 1, &bad, &done), PARLIN_ERROR_DEVICE, "CL_INVALID_");
    assert_ptr_equal(done, &r);
    own_read(own, r.y, r.out, r.y_count);
    assert_same_floats(r.out, r.minus, r.y_count);
    assert_ok(call(&r, three, 0, NULL, &done));
    own_ok(clWaitForEvents(1, &done));
    own_read(own, r.y, r.out, r.y_count);
    check_scaled(&r, 5, "after refusals");
    own_ok(clReleaseEvent(done));
    own_ok(clReleaseEvent(bad));
    own_ok(clReleaseContext(foreign));
    rig_end(&r);
}

static void case_C33_wrong_events(void **state)
{
    (void)state;
    on_every_order_and_kind(wrong_events);
}

/* What parlin hands out of a wrapped device is what it was given. */
static void test_handles_are_handed_out(void **state)
{
    (void)state;
    own_opencl own = own_begin(0);
    parlin_group *group = own_group(&own);
    parlin_device *device = parlin_group_device(group);
    assert_ptr_equal(parlin_device_context(device), own.context);
    assert_ptr_equal(parlin_device_id(device), own.id);
    assert_ptr_equal(parlin_device_queue(device), own.queue);
    parlin_group_close(group);
    own_end(&own);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handles_are_handed_out),
        cmocka_unit_test(case_C27_out_of_order_row),
        cmocka_unit_test(case_C27_out_of_order_other_layers),
        cmocka_unit_test(case_C27_out_of_order_chain),
        cmocka_unit_test(case_C33_the_event_covers_the_call),
        cmocka_unit_test(case_C33_wait_lists),
        cmocka_unit_test(case_C33_wrong_events),
    };
    return SUPPORT_RUN_MPI("layers: interop", tests);
}
