/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and kernels: sources, builds that fail, launches. */
#include <stdlib.h>
#include <string.h>

#include "device/kernel_files.h"
#include "device/select.h"
#include "device_support.h"

static int set_up(void **state)
{
    use_test_kernels();
    setenv("PARLIN_CACHE", "off", 1);
    *state = open_device();
    return 0;
}

static int tear_down(void **state)
{
    parlin_device_close(*state);
    return 0;
}

static void includes_are_expanded(void **state)
{
    parlin_device *device = *state;
    cl_kernel kernel;
    cl_mem buffer;
    assert_ok(pl_device_kernel(device, "outer.cl", "outer", NULL, &kernel));
    assert_ok(pl_buffer_create(device, 12, &buffer));
    const size_t global = 1;
    const pl_arg args[] = {PL_ARG(buffer)};
    assert_ok(pl_launch(device, kernel, 1, &global, NULL, args, 1));
    cl_int out[3] = {0};
    assert_ok(pl_rect_read(device, buffer, (pl_rect){0, 12}, 12, 1, out, 12, true));
    assert_int_equal(out[0], 42);
    assert_int_equal(out[1], 41);
    assert_int_equal(out[2], 9); /* its line in outer.cl */
    pl_buffer_release(device, buffer, 12);
}

static void failed_build_tells_its_log(void **state)
{
    parlin_device *device = *state;
    cl_kernel kernel = NULL;
    assert_refused(pl_device_kernel(device, "includes_bad.cl", "includes_bad", "-DX=1", &kernel),
                   PARLIN_ERROR_BUILD, "includes_bad.cl", "-DX=1", "CL_BUILD_PROGRAM_FAILURE",
                   "no_such_name");
    /* With the place in the included file; Oclgrind counts lines of what it was given. */
    if (!pl_text_holds(pl_device_info(device)->platform, "oclgrind"))
        assert_non_null(strstr(parlin_last_error(), "bad.clh:3"));
    assert_null(kernel);
    assert_int_equal(parlin_device_get_counters(device).programs_built, 0);
    run_fill(device, 4); /* the device is as good as before */
}

static void refused_requests(void **state)
{
    parlin_device *device = *state;
    cl_kernel kernel = NULL;
    assert_refused(pl_device_kernel(device, "absent.cl", "f", NULL, &kernel), PARLIN_ERROR_FILE,
                   "absent.cl", DEVICE_TEST_KERNELS, "No such file");
    assert_refused(pl_device_kernel(device, "lost.cl", "f", NULL, &kernel), PARLIN_ERROR_FILE,
                   "nowhere.clh", "included by lost.cl");
    assert_refused(pl_device_kernel(device, "circle.cl", "f", NULL, &kernel), PARLIN_ERROR_FILE,
                   "circle.cl", "include each other");
    assert_refused(pl_device_kernel(device, "fill.cl", "absent", NULL, &kernel), PARLIN_ERROR_BUILD,
                   "kernel absent of fill.cl", "CL_INVALID_KERNEL_NAME");
    assert_null(kernel);
    setenv("PARLIN_KERNELS", "/no/such/folder", 1);
    assert_refused(pl_device_kernel(device, "outer.cl", "outer", NULL, &kernel), PARLIN_ERROR_FILE,
                   "/no/such/folder/outer.cl");
    use_test_kernels();
    run_fill(device, 4);
}

static void kernels_are_made_once(void **state)
{
    parlin_device *device = *state;
    cl_kernel one, two, other, twice;
    assert_ok(pl_device_kernel(device, "fill.cl", "fill", "", &one));
    assert_ok(pl_device_kernel(device, "fill.cl", "fill", NULL, &two));
    assert_ptr_equal(one, two);
    assert_int_equal(parlin_device_get_counters(device).programs_built, 1);
    assert_ok(pl_device_kernel(device, "fill.cl", "twice", "", &twice)); /* the same program */
    assert_int_equal(parlin_device_get_counters(device).programs_built, 1);
    assert_ptr_not_equal(one, twice);
    assert_ok(pl_device_kernel(device, "fill.cl", "fill", "-DVALUE=1.0f", &other));
    assert_int_equal(parlin_device_get_counters(device).programs_built, 2);
    assert_ptr_not_equal(one, other);
}

/* Without PARLIN_KERNELS the library's own files serve. */
static void embedded_files(void **state)
{
    parlin_device *device = *state;
    cl_kernel kernel;
    unsetenv("PARLIN_KERNELS");
    assert_refused(pl_device_kernel(device, "absent.cl", "f", NULL, &kernel), PARLIN_ERROR_FILE,
                   "absent.cl", "none of the library's");
    assert_true(pl_kernel_file_count > 0);
    for (size_t i = 0; i < pl_kernel_file_count; i++) {
        char *text = NULL;
        assert_int_equal(strlen(pl_kernel_files[i].text), pl_kernel_files[i].size);
        assert_ok(pl_source_read(pl_kernel_files[i].name, &text));
        assert_non_null(strstr(text, pl_kernel_files[i].name)); /* in its #line */
        assert_null(strstr(text, "#include \""));
        free(text);
    }
    use_test_kernels();
}

static void launches(void **state)
{
    parlin_device *device = *state;
    cl_kernel kernel;
    uint64_t before = parlin_device_get_counters(device).launches;
    run_fill(device, 4);
    assert_int_equal(parlin_device_get_counters(device).launches, before + 1);
    pl_count_launch(device);
    assert_int_equal(parlin_device_get_counters(device).launches, before + 2);
    assert_ok(pl_device_kernel(device, "fill.cl", "fill", "", &kernel));
    const cl_uint narrow = 1;
    cl_mem none = NULL;
    const size_t global = 8;
    const pl_arg wrong_size[] = {PL_ARG(narrow), PL_ARG(none)};
    assert_refused(pl_launch(device, kernel, 1, &global, NULL, wrong_size, 2), PARLIN_ERROR_DEVICE,
                   "kernel fill", "clSetKernelArg, argument 0", "CL_INVALID_ARG_SIZE");
    const cl_ulong n = 1;
    const pl_arg too_many[] = {PL_ARG(n), PL_ARG(none), PL_ARG(n)};
    assert_refused(pl_launch(device, kernel, 1, &global, NULL, too_many, 3), PARLIN_ERROR_DEVICE,
                   "kernel fill", "argument 2", "CL_INVALID_ARG_INDEX");
    const pl_arg right[] = {PL_ARG(n), PL_ARG(none)};
    assert_refused(pl_launch(device, kernel, 0, &global, NULL, right, 2), PARLIN_ERROR_DEVICE,
                   "kernel fill: clEnqueueNDRangeKernel", "CL_INVALID_WORK_DIMENSION");
    assert_int_equal(parlin_device_get_counters(device).launches, before + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(includes_are_expanded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failed_build_tells_its_log, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_are_made_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(embedded_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(launches, set_up, tear_down),
    };
    return SUPPORT_RUN("device/program", tests);
}
