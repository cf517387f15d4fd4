/* SPDX-License-Identifier: Apache-2.0 */
/* Interop with a program that has its own OpenCL: hand over context, device and queue; get them;
   events in and out. */
#ifndef PARLIN_OPENCL_H
#define PARLIN_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

#include <parlin/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A device on the caller's objects, which are retained. Work goes to `queue`, in order or out of
   order; in an out-of-order queue parlin keeps its own commands in order by barriers. Ownership:
   the caller closes it. Errors: ARGUMENT (NULL, or device or queue of another context). Not
   collective. */
PARLIN_API parlin_status parlin_device_wrap(cl_context context, cl_device_id id,
                                            cl_command_queue queue, parlin_device **device);

/* The OpenCL objects of a device; borrowed. Not collective. */
PARLIN_API cl_context parlin_device_context(const parlin_device *device);
PARLIN_API cl_device_id parlin_device_id(const parlin_device *device);
PARLIN_API cl_command_queue parlin_device_queue(const parlin_device *device);

/* parlin_layer_forward that begins after `count` events and, where `done` is not NULL, returns
   an event that covers everything the call does; the caller releases it. `events` may be NULL
   where count is 0. Events must be of the device's context; for a layer with a collective they
   must not depend on what this thread does later. Errors: as parlin_layer_forward; ARGUMENT
   (events NULL with a count), DEVICE (an event of another context, or one that has failed).
   Collective where the layer's forward is. */
PARLIN_API parlin_status parlin_layer_forward_after(parlin_layer *layer, parlin_tensor x,
                                                    parlin_tensor y, cl_uint count,
                                                    const cl_event *events, cl_event *done);

/* The same for parlin_qkv_forward, with its errors and these. Not collective. */
PARLIN_API parlin_status parlin_qkv_forward_after(parlin_layer *qkv, parlin_tensor x,
                                                  parlin_heads q, parlin_heads k, parlin_heads v,
                                                  cl_uint count, const cl_event *events,
                                                  cl_event *done);

#ifdef __cplusplus
}
#endif

#endif
