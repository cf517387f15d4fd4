/* SPDX-License-Identifier: Apache-2.0 */
/* A program's own OpenCL objects beside the library, for the tests of interop. */
#ifndef OWN_OPENCL_H
#define OWN_OPENCL_H

#include "support.h"

#include <parlin/opencl.h>

typedef struct own_opencl {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue; /* given to the library */
    cl_command_queue other; /* the program's second one, in order */
} own_opencl;

static inline void own_ok(cl_int code)
{
    assert_int_equal(code, CL_SUCCESS);
}

/* On the device that parlin would choose. Skips the test where `properties` cannot be had. */
static inline own_opencl own_begin(cl_command_queue_properties properties)
{
    own_opencl own = {0};
    parlin_device *chosen = NULL;
    assert_ok(parlin_device_open(NULL, &chosen));
    own.id = parlin_device_id(chosen);
    parlin_device_close(chosen);
    cl_command_queue_properties has = 0;
    own_ok(clGetDeviceInfo(own.id, CL_DEVICE_QUEUE_PROPERTIES, sizeof has, &has, NULL));
    if ((has & properties) != properties)
        SUPPORT_SKIP("the device has no such queue");
    cl_int code;
    own.context = clCreateContext(NULL, 1, &own.id, NULL, NULL, &code);
    own_ok(code);
    own.queue = clCreateCommandQueue(own.context, own.id, properties, &code);
    own_ok(code);
    own.other = clCreateCommandQueue(own.context, own.id, 0, &code);
    own_ok(code);
    return own;
}

static inline void own_end(own_opencl *own)
{
    if (own->queue)
        own_ok(clReleaseCommandQueue(own->queue));
    if (own->other)
        own_ok(clReleaseCommandQueue(own->other));
    if (own->context)
        own_ok(clReleaseContext(own->context));
    *own = (own_opencl){0};
}

/* A group of all ranks on the program's objects; the device is the group's alone. */
static inline parlin_group *own_group(const own_opencl *own)
{
    parlin_device *device = NULL;
    parlin_group *group = NULL;
    parlin_group_config config = parlin_group_defaults();
    config.timeout_seconds = 60;
    assert_ok(parlin_device_wrap(own->context, own->id, own->queue, &device));
    assert_ok(parlin_group_create(device, MPI_COMM_WORLD, &config, &group));
    parlin_device_close(device);
    return group;
}

static inline cl_mem own_buffer(const own_opencl *own, size_t floats)
{
    cl_int code;
    cl_mem buffer =
        clCreateBuffer(own->context, CL_MEM_READ_WRITE, floats * sizeof(float), NULL, &code);
    own_ok(code);
    return buffer;
}

/* Blocking, through the second queue: nothing but what has been waited for is ordered with it. */
static inline void own_write(const own_opencl *own, cl_mem buffer, const float *host, size_t n)
{
    own_ok(clEnqueueWriteBuffer(own->other, buffer, CL_TRUE, 0, n * sizeof *host, host, 0, NULL,
                                NULL));
}

static inline void own_read(const own_opencl *own, cl_mem buffer, float *host, size_t n)
{
    own_ok(
        clEnqueueReadBuffer(own->other, buffer, CL_TRUE, 0, n * sizeof *host, host, 0, NULL, NULL));
}

#endif
