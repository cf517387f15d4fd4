/* SPDX-License-Identifier: Apache-2.0 */
/* A device that fails: preloaded, the launch with the number BROKEN_LAUNCH (1: the first) and all
   later ones return CL_OUT_OF_RESOURCES. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl.h>

typedef cl_int launch(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                      const size_t *, cl_uint, const cl_event *, cl_event *);

__attribute__((visibility("default"))) cl_int
clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                       const size_t *global, const size_t *local, cl_uint count,
                       const cl_event *events, cl_event *event)
{
    static long launches;
    const char *limit = getenv("BROKEN_LAUNCH");
    if (limit && ++launches >= atol(limit))
        return CL_OUT_OF_RESOURCES;
    void *symbol = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
    launch *next;
    memcpy(&next, &symbol, sizeof next);
    return next(queue, kernel, dims, offset, global, local, count, events, event);
}
