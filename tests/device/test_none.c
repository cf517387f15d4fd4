/* SPDX-License-Identifier: Apache-2.0 */
/* A machine without any OpenCL platform: the loader is pointed at an empty folder of drivers. */
#include <string.h>

#include "device_support.h"

static void case_C30_no_platform_at_all(void **state)
{
    (void)state;
    cl_uint platforms = 0;
    cl_int code = clGetPlatformIDs(0, NULL, &platforms);
    if (code == CL_SUCCESS && platforms > 0) {
        SUPPORT_SKIP("this OpenCL loader does not heed OCL_ICD_VENDORS");
        return;
    }
    size_t count = 77;
    parlin_device *device = NULL;
    parlin_device_info info;
    assert_ok(parlin_device_count(&count));
    assert_int_equal(count, 0);
    assert_refused(parlin_device_describe(0, &info), PARLIN_ERROR_ARGUMENT, "0 devices");
    assert_refused(parlin_device_open(NULL, &device), PARLIN_ERROR_NO_DEVICE,
                   "no OpenCL platform is installed on this machine");
    assert_null(strstr(parlin_last_error(), "1001"));
    assert_refused(parlin_device_open("gpu", &device), PARLIN_ERROR_NO_DEVICE, "\"gpu\"",
                   "no OpenCL platform is installed on this machine");
    assert_null(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(case_C30_no_platform_at_all)};
    return SUPPORT_RUN("device/none", tests);
}
