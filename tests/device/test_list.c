/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's list of devices, and opening from it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_support.h"

static void list_is_consistent(void **state)
{
    (void)state;
    size_t count = 0;
    assert_ok(parlin_device_count(&count));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        parlin_device_info info;
        assert_ok(parlin_device_describe(i, &info));
        assert_int_equal(info.index, i);
        assert_true(strlen(info.name) > 0);
        assert_true(strlen(info.platform) > 0);
        assert_int_equal(strncmp(info.version, "OpenCL ", 7), 0);
        assert_true(info.compute_units > 0);
        assert_true(info.max_work_group > 0);
        assert_true(info.max_allocation > 0);
        assert_true(info.memory_alignment > 0);
    }
    parlin_device_info info = {.index = 77};
    assert_refused(parlin_device_describe(count, &info), PARLIN_ERROR_ARGUMENT, "index");
    assert_int_equal(info.index, 77);
    assert_refused(parlin_device_describe(0, NULL), PARLIN_ERROR_ARGUMENT, "info is NULL");
    assert_refused(parlin_device_count(NULL), PARLIN_ERROR_ARGUMENT, "count is NULL");
}

static void every_listed_device_opens(void **state)
{
    (void)state;
    size_t count = 0;
    assert_ok(parlin_device_count(&count));
    for (size_t i = 0; i < count; i++) {
        char spec[32];
        parlin_device *device = NULL;
        parlin_device_info wanted, info;
        assert_ok(parlin_device_describe(i, &wanted));
        snprintf(spec, sizeof spec, "%zu", i);
        assert_ok(parlin_device_open(spec, &device));
        assert_ok(parlin_device_get_info(device, &info));
        assert_int_equal(info.index, i);
        assert_string_equal(info.name, wanted.name);
        assert_non_null(parlin_device_context(device));
        assert_non_null(parlin_device_queue(device));
        assert_ok(parlin_device_finish(device));
        parlin_device_close(device);
        snprintf(spec, sizeof spec, "%zu:%zu", wanted.platform_index, wanted.platform_device);
        assert_ok(parlin_device_open(spec, &device));
        assert_ok(parlin_device_get_info(device, &info));
        assert_int_equal(info.index, i);
        parlin_device_close(device);
    }
}

static void case_C30_a_wrong_wish_lists_what_exists(void **state)
{
    (void)state;
    parlin_device_info first;
    assert_ok(parlin_device_describe(0, &first));
    parlin_device *device = NULL;
    assert_refused(parlin_device_open("9:0", &device), PARLIN_ERROR_NO_DEVICE, "\"9:0\"",
                   first.name, first.platform);
    assert_null(device);
    char *before = getenv("PARLIN_DEVICE");
    char *kept = before ? pl_text_copy(before) : NULL;
    setenv("PARLIN_DEVICE", "no such thing", 1);
    assert_refused(parlin_device_open(NULL, &device), PARLIN_ERROR_NO_DEVICE,
                   "PARLIN_DEVICE \"no such thing\"", first.name);
    assert_null(device);
    assert_ok(parlin_device_open("0", &device)); /* what is asked for in the call comes first */
    parlin_device_close(device);
    if (kept)
        setenv("PARLIN_DEVICE", kept, 1);
    else
        unsetenv("PARLIN_DEVICE");
    free(kept);
}

/* One context for each device and process, whoever opens it. */
static void opens_share_a_context(void **state)
{
    (void)state;
    parlin_device *one = open_device(), *two = open_device();
    assert_ptr_equal(parlin_device_context(one), parlin_device_context(two));
    assert_ptr_not_equal(parlin_device_queue(one), parlin_device_queue(two));
    parlin_device_close(one);
    use_test_kernels();
    run_fill(two, 3);
    parlin_device_close(two);
}

static void null_handles(void **state)
{
    (void)state;
    parlin_device_info info;
    assert_refused(parlin_device_open(NULL, NULL), PARLIN_ERROR_ARGUMENT, "device is NULL");
    assert_refused(parlin_device_get_info(NULL, &info), PARLIN_ERROR_ARGUMENT, "device is NULL");
    assert_refused(parlin_device_finish(NULL), PARLIN_ERROR_ARGUMENT, "device is NULL");
    assert_null(parlin_device_context(NULL));
    assert_null(parlin_device_id(NULL));
    assert_null(parlin_device_queue(NULL));
    assert_int_equal(parlin_device_get_counters(NULL).launches, 0);
    parlin_device_close(NULL);
}

static int destroyed;
static void count_destroyed(void *attached)
{
    assert_int_equal(*(int *)attached, destroyed);
    destroyed++;
}

/* Attached state goes before the context does, the last one first. */
static void attachments(void **state)
{
    (void)state;
    static const char key_one, key_two, key_three;
    static int first = 1, second = 0;
    parlin_device *device = open_device();
    assert_null(pl_device_attachment(device, &key_one));
    assert_ok(pl_device_attach(device, &key_one, &first, count_destroyed));
    assert_ok(pl_device_attach(device, &key_two, &second, count_destroyed));
    assert_ptr_equal(pl_device_attachment(device, &key_one), &first);
    assert_ptr_equal(pl_device_attachment(device, &key_two), &second);
    assert_null(pl_device_attachment(device, &key_three));
    pl_device_retain(device);
    parlin_device_close(device);
    assert_int_equal(destroyed, 0);
    pl_device_release(device);
    assert_int_equal(destroyed, 2);
}

static void error_names(void **state)
{
    (void)state;
    assert_string_equal(pl_cl_error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_string_equal(pl_cl_error_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
    assert_string_equal(pl_cl_error_name(CL_INVALID_DEVICE_PARTITION_COUNT),
                        "CL_INVALID_DEVICE_PARTITION_COUNT");
    assert_refused(pl_cl_error(CL_INVALID_KERNEL, "clFoo"), PARLIN_ERROR_DEVICE,
                   "clFoo: CL_INVALID_KERNEL (-48)");
    assert_refused(pl_cl_error(CL_MEM_OBJECT_ALLOCATION_FAILURE, "clFoo"), PARLIN_ERROR_MEMORY,
                   "CL_MEM_OBJECT_ALLOCATION_FAILURE");
    assert_refused(pl_cl_error(-12345, "clFoo"), PARLIN_ERROR_DEVICE, "-12345");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_is_consistent),
        cmocka_unit_test(every_listed_device_opens),
        cmocka_unit_test(case_C30_a_wrong_wish_lists_what_exists),
        cmocka_unit_test(opens_share_a_context),
        cmocka_unit_test(null_handles),
        cmocka_unit_test(attachments),
        cmocka_unit_test(error_names),
    };
    return SUPPORT_RUN("device/list", tests);
}
