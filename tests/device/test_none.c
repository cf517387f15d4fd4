/* SPDX-License-Identifier: Apache-2.0 */
/* A machine without any OpenCL platform, and one whose only platform has no device. This program
   is run with the loader pointed at an empty folder of drivers, and at rusticl with nothing
   enabled. */
#include <string.h>

#include "device_support.h"

static void case_C30_no_platform_or_no_device(void **state)
{
    (void)state;
    cl_uint platforms = 0, devices = 0;
    cl_platform_id ids[8];
    char name[128] = "";
    if (clGetPlatformIDs(8, ids, &platforms) != CL_SUCCESS)
        platforms = 0;
    for (cl_uint i = 0; i < platforms && i < 8; i++) {
        cl_uint count = 0;
        clGetPlatformInfo(ids[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if (clGetDeviceIDs(ids[i], CL_DEVICE_TYPE_ALL, 0, NULL, &count) == CL_SUCCESS)
            devices += count;
    }
    if (devices > 0) {
        SUPPORT_SKIP("this OpenCL loader does not heed OCL_ICD_VENDORS");
        return;
    }
    const char *why = platforms == 0 ? "no OpenCL platform is installed on this machine"
                                     : "no OpenCL platform here offers a device:";
    size_t count = 77;
    parlin_device *device = NULL;
    parlin_device_info info;
    assert_ok(parlin_device_count(&count));
    assert_int_equal(count, 0);
    assert_refused(parlin_device_describe(0, &info), PARLIN_ERROR_ARGUMENT, "0 devices");
    assert_refused(parlin_device_open(NULL, &device), PARLIN_ERROR_NO_DEVICE, why, name);
    assert_null(strstr(parlin_last_error(), "1001"));
    assert_refused(parlin_device_open("gpu", &device), PARLIN_ERROR_NO_DEVICE, "\"gpu\"", why);
    assert_null(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(case_C30_no_platform_or_no_device)};
    return SUPPORT_RUN("device/none", tests);
}
