/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, rectangles and pools, checked by contents and by the device's counters. */
#include <stdio.h>
#include <string.h>

#include "device_support.h"

static parlin_device *device;

static int set_up(void **state)
{
    (void)state;
    device = open_device();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    parlin_device_close(device);
    return 0;
}

static parlin_device_counters counters(void)
{
    return parlin_device_get_counters(device);
}

static void creations_are_counted(void **state)
{
    (void)state;
    cl_mem one, two;
    assert_ok(pl_buffer_create(device, 1000, &one));
    assert_ok(pl_buffer_create(device, 50, &two));
    assert_int_equal(counters().buffers_created, 2);
    assert_int_equal(counters().buffers_live, 2);
    assert_int_equal(counters().bytes_live, 1050);
    pl_buffer_release(device, one, 1000);
    pl_buffer_release(device, NULL, 1000);
    assert_int_equal(counters().buffers_live, 1);
    assert_int_equal(counters().bytes_live, 50);
    assert_int_equal(counters().bytes_peak, 1050);
    assert_int_equal(counters().buffers_created, 2);
    pl_buffer_release(device, two, 50);
    assert_int_equal(counters().bytes_live, 0);
    assert_refused(pl_buffer_create(device, 0, &one), PARLIN_ERROR_ARGUMENT, "0 bytes");
}

static void failing_creations(void **state)
{
    (void)state;
    cl_mem buffer = NULL;
    pl_buffer_fail(device, 2);
    assert_ok(pl_buffer_create(device, 16, &buffer));
    pl_buffer_release(device, buffer, 16);
    buffer = NULL;
    assert_refused(pl_buffer_create(device, 16, &buffer), PARLIN_ERROR_MEMORY,
                   "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    assert_null(buffer);
    assert_int_equal(counters().buffers_live, 0);
    assert_int_equal(counters().buffers_created, 1);
    assert_ok(pl_buffer_create(device, 16, &buffer)); /* once */
    pl_buffer_fail(device, 1);
    pl_buffer_fail(device, 0); /* taken back */
    cl_mem other;
    assert_ok(pl_buffer_create(device, 16, &other));
    pl_buffer_release(device, buffer, 16);
    pl_buffer_release(device, other, 16);
    /* A pool with blocks in it does not hide the failure. */
    pl_scratch scratch;
    assert_ok(pl_scratch_take(device, 100, &scratch));
    pl_scratch_give(device, &scratch);
    pl_buffer_fail(device, 1);
    assert_refused(pl_buffer_create(device, 16, &buffer), PARLIN_ERROR_MEMORY, "16 bytes");
    pl_buffer_fail(device, 1);
    assert_refused(pl_scratch_take(device, 1000000, &scratch), PARLIN_ERROR_MEMORY,
                   "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    assert_null(scratch.buffer);
    pl_staging staging = {0};
    pl_buffer_fail(device, 1);
    assert_refused(pl_staging_take(device, 1000, &staging), PARLIN_ERROR_MEMORY,
                   "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    assert_null(staging.host);
}

/* Rectangles of bytes against memcpy, at random. */
static void rectangles(void **state)
{
    (void)state;
    enum { SPACE = 600 };
    support_random random = {support_seed()};
    unsigned char model[2][SPACE], host[SPACE], copy[SPACE];
    cl_mem buffer[2];
    for (size_t b = 0; b < 2; b++) {
        for (size_t i = 0; i < SPACE; i++)
            model[b][i] = (unsigned char)support_next(&random);
        assert_ok(pl_buffer_create(device, SPACE, &buffer[b]));
        assert_ok(
            pl_rect_write(device, buffer[b], (pl_rect){0, SPACE}, SPACE, 1, model[b], SPACE, true));
    }
    uint64_t created = counters().buffers_created;
    for (size_t trial = 0; trial < 300; trial++) {
        size_t width = support_below(&random, 12), rows = support_below(&random, 9);
        pl_rect at = {support_below(&random, 200), width + support_below(&random, 30)};
        pl_rect to = {support_below(&random, 200), width + support_below(&random, 30)};
        size_t pitch = support_below(&random, 2) ? width : width + support_below(&random, 30);
        if (support_below(&random, 3) == 0)
            at.pitch = to.pitch = pitch = width;
        memset(host, 0, sizeof host);
        memset(copy, 0, sizeof copy);
        size_t b = support_below(&random, 2);
        for (size_t r = 0; r < rows; r++)
            memcpy(copy + r * pitch, model[b] + at.offset + r * at.pitch, width);
        assert_ok(pl_rect_read(device, buffer[b], at, width, rows, host, pitch, true));
        assert_memory_equal(host, copy, SPACE);
        for (size_t i = 0; i < SPACE; i++)
            host[i] = (unsigned char)support_next(&random);
        for (size_t r = 0; r < rows; r++)
            memcpy(model[b] + to.offset + r * to.pitch, host + r * pitch, width);
        assert_ok(pl_rect_write(device, buffer[b], to, width, rows, host, pitch, true));
        for (size_t r = 0; r < rows; r++)
            memcpy(model[1 - b] + at.offset + r * at.pitch, model[b] + to.offset + r * to.pitch,
                   width);
        assert_ok(pl_rect_copy(device, buffer[b], to, buffer[1 - b], at, width, rows));
        for (size_t k = 0; k < 2; k++) {
            assert_ok(
                pl_rect_read(device, buffer[k], (pl_rect){0, SPACE}, SPACE, 1, host, SPACE, true));
            assert_memory_equal(host, model[k], SPACE);
        }
    }
    assert_int_equal(counters().buffers_created, created);
    /* Nothing to do, so nothing is looked at. */
    assert_ok(pl_rect_write(device, NULL, (pl_rect){0, 0}, 0, 5, NULL, 0, true));
    assert_ok(pl_rect_read(device, NULL, (pl_rect){0, 0}, 5, 0, NULL, 0, true));
    assert_ok(pl_rect_copy(device, NULL, (pl_rect){0, 0}, NULL, (pl_rect){0, 0}, 0, 0));
    for (size_t b = 0; b < 2; b++)
        pl_buffer_release(device, buffer[b], SPACE);
}

static void rectangles_that_opencl_refuses(void **state)
{
    (void)state;
    cl_mem buffer;
    char host[64];
    assert_ok(pl_buffer_create(device, 64, &buffer));
    assert_refused(pl_rect_read(device, buffer, (pl_rect){60, 8}, 8, 1, host, 8, true),
                   PARLIN_ERROR_DEVICE, "clEnqueueReadBuffer", "CL_INVALID_VALUE");
    assert_refused(pl_rect_write(device, buffer, (pl_rect){0, 40}, 8, 3, host, 8, true),
                   PARLIN_ERROR_DEVICE, "clEnqueueWriteBufferRect", "CL_INVALID_VALUE");
    pl_buffer_release(device, buffer, 64);
}

/* Give back and take again: the same block, and nothing is made. */
static void pools_make_nothing_twice(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 100, 4096, 5000, 100000, 1000003};
    for (int round = 0; round < 50; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            pl_scratch scratch;
            pl_staging staging;
            uint64_t created = counters().buffers_created;
            assert_ok(pl_scratch_take(device, sizes[i], &scratch));
            assert_ok(pl_staging_take(device, sizes[i], &staging));
            assert_true(scratch.bytes >= sizes[i] && staging.bytes >= sizes[i]);
            memset(staging.host, round, sizes[i]);
            assert_ok(pl_rect_write(device, scratch.buffer, (pl_rect){0, sizes[i]}, sizes[i], 1,
                                    staging.host, sizes[i], true));
            if (round > 0)
                assert_int_equal(counters().buffers_created, created);
            pl_scratch_give(device, &scratch);
            pl_staging_give(device, &staging);
            assert_null(scratch.buffer);
            assert_null(staging.host);
            pl_scratch_give(device, &scratch); /* a cleared one */
            pl_staging_give(device, &staging);
        }
}

/* Blocks in use at once are different ones. */
static void blocks_in_use_are_apart(void **state)
{
    (void)state;
    enum { N = 24 }; /* more than a pool keeps */
    pl_scratch scratch[N];
    pl_staging staging[N];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) {
            assert_ok(pl_scratch_take(device, 1000, &scratch[i]));
            assert_ok(pl_staging_take(device, 1000, &staging[i]));
            memset(staging[i].host, (int)i, 1000);
            for (size_t j = 0; j < i; j++)
                assert_ptr_not_equal(scratch[i].buffer, scratch[j].buffer);
        }
        for (size_t i = 0; i < N; i++) {
            for (size_t k = 0; k < 1000; k++)
                assert_int_equal(((unsigned char *)staging[i].host)[k], i);
            pl_scratch_give(device, &scratch[i]);
            pl_staging_give(device, &staging[i]);
        }
        assert_true(counters().buffers_live <= 2 * PL_POOL_BLOCKS);
    }
}

/* Sizes that creep up from call to call meet few blocks, and a small wish gets no giant one. */
static void pools_stay_small(void **state)
{
    (void)state;
    pl_scratch scratch, giant;
    for (size_t bytes = 1; bytes < 1000000; bytes += 997) {
        assert_ok(pl_scratch_take(device, bytes, &scratch));
        assert_true(scratch.bytes >= bytes);
        pl_scratch_give(device, &scratch);
    }
    assert_true(counters().buffers_created <= 40);
    assert_true(counters().bytes_live < 16000000);
    assert_ok(pl_scratch_take(device, 16000000, &giant));
    void *buffer = giant.buffer;
    pl_scratch_give(device, &giant);
    assert_ok(pl_scratch_take(device, 100, &scratch));
    assert_ptr_not_equal(scratch.buffer, buffer);
    assert_ok(pl_scratch_take(device, 16000000, &giant));
    assert_ptr_equal(giant.buffer, buffer);
    pl_scratch_give(device, &giant);
    pl_scratch_give(device, &scratch);
}

static void too_large_for_one_buffer(void **state)
{
    (void)state;
    char allowed[32];
    size_t limit = (size_t)pl_device_info(device)->max_allocation;
    snprintf(allowed, sizeof allowed, "%zu", limit);
    pl_scratch scratch = {0};
    pl_staging staging = {0};
    assert_refused(pl_scratch_take(device, limit + 1, &scratch), PARLIN_ERROR_MEMORY, allowed);
    assert_refused(pl_staging_take(device, limit + 1, &staging), PARLIN_ERROR_MEMORY, allowed);
    assert_refused(pl_scratch_take(device, SIZE_MAX, &scratch), PARLIN_ERROR_MEMORY, allowed);
    assert_null(scratch.buffer);
    assert_null(staging.host);
    assert_int_equal(counters().buffers_created, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(creations_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failing_creations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rectangles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rectangles_that_opencl_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pools_make_nothing_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_in_use_are_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pools_stay_small, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_large_for_one_buffer, set_up, tear_down),
    };
    return SUPPORT_RUN("device/buffer", tests);
}
