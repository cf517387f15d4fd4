/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "device/internal.h"

static parlin_status kernel_error(cl_int code, cl_kernel kernel, const char *call, cl_uint argument)
{
    char name[128] = "?", what[256];
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, NULL);
    if (argument != UINT32_MAX)
        snprintf(what, sizeof what, "kernel %s: %s, argument %u", name, call, (unsigned)argument);
    else
        snprintf(what, sizeof what, "kernel %s: %s", name, call);
    return pl_cl_error(code, what);
}

parlin_status pl_launch(parlin_device *device, cl_kernel kernel, cl_uint dims, const size_t *global,
                        const size_t *local, const pl_arg *args, cl_uint arg_count)
{
    for (cl_uint i = 0; i < arg_count; i++) {
        cl_int code = clSetKernelArg(kernel, i, args[i].size, args[i].value);
        if (code != CL_SUCCESS)
            return kernel_error(code, kernel, "clSetKernelArg", i);
    }
    cl_int code =
        clEnqueueNDRangeKernel(device->queue, kernel, dims, NULL, global, local, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        return kernel_error(code, kernel, "clEnqueueNDRangeKernel", UINT32_MAX);
    device->counters.launches++;
    return pl_queue_fence(device);
}

void pl_count_launch(parlin_device *device)
{
    device->counters.launches++;
}

parlin_status pl_queue_after(parlin_device *device, cl_uint count, const cl_event *events)
{
    if (count == 0)
        return PARLIN_SUCCESS;
    /* Drivers differ in what a wait for a failed event does; some never end it. */
    for (cl_uint i = 0; i < count; i++) {
        cl_int state = CL_COMPLETE;
        clGetEventInfo(events[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (state < 0)
            return pl_error(PARLIN_ERROR_DEVICE, "waiting for events: event %u has failed: %s (%d)",
                            (unsigned)i, pl_cl_error_name(state), (int)state);
    }
    cl_int code = clEnqueueBarrierWithWaitList(device->queue, count, events, NULL);
    return code == CL_SUCCESS
               ? PARLIN_SUCCESS
               : pl_cl_error(code, "waiting for events: clEnqueueBarrierWithWaitList");
}

parlin_status pl_queue_mark(parlin_device *device, cl_event *event)
{
    cl_event made = NULL;
    cl_int code = clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &made);
    if (code != CL_SUCCESS)
        return pl_cl_error(code, "making an event: clEnqueueMarkerWithWaitList");
    /* It may be waited for on another queue, which flushes nothing here. */
    code = clFlush(device->queue);
    if (code != CL_SUCCESS) {
        clReleaseEvent(made);
        return pl_cl_error(code, "making an event: clFlush");
    }
    *event = made;
    return PARLIN_SUCCESS;
}

parlin_status pl_queue_fence(parlin_device *device)
{
    if (!device->unordered)
        return PARLIN_SUCCESS;
    cl_int code = clEnqueueBarrierWithWaitList(device->queue, 0, NULL, NULL);
    return code == CL_SUCCESS
               ? PARLIN_SUCCESS
               : pl_cl_error(code, "keeping the queue in order: clEnqueueBarrierWithWaitList");
}
