/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "errors.h"

/* The largest power of two up to 64 that the device takes as a work-group. */
static size_t group_size(parlin_device *device)
{
    parlin_device_info info;
    size_t group = 1;
    if (!check(parlin_device_get_info(device, &info)))
        return 0;
    while (group < 64 && 2 * group <= info.max_work_group)
        group *= 2;
    return group;
}

static cl_program build(const kernels *k, parlin_device *device, const char *path)
{
    static char source[1 << 16], log[4096];
    const char *text = source;
    char options[64];
    cl_int code;
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(source, 1, sizeof source, file) : 0;
    if (file)
        fclose(file);
    if (length == 0 || length == sizeof source) {
        fail("%s: not there, empty or above 64 KiB", path);
        return NULL;
    }
    cl_program program =
        clCreateProgramWithSource(parlin_device_context(device), 1, &text, &length, &code);
    if (!check_cl(code, path))
        return NULL;
    cl_device_id id = parlin_device_id(device);
    snprintf(options, sizeof options, "-DHEAD_SIZE=%zu -DGROUP=%zu", k->head_size, k->group);
    code = clBuildProgram(program, 1, &id, options, NULL, NULL);
    if (code != CL_SUCCESS) {
        clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fail("%s does not build: OpenCL error %d: %s", path, code, log);
        clReleaseProgram(program);
        return NULL;
    }
    return program;
}

static cl_kernel named(cl_program program, const char *name)
{
    cl_int code;
    cl_kernel kernel = clCreateKernel(program, name, &code);
    check_cl(code, name);
    return kernel;
}

bool kernels_open(kernels *k, parlin_device *device, size_t head_size)
{
    *k = (kernels){
        .queue = parlin_device_queue(device), .head_size = head_size, .group = group_size(device)};
    cl_program program = k->group ? build(k, device, GENERATE_CL) : NULL;
    if (!program)
        return false;
    k->take = named(program, "take");
    k->norm = named(program, "rms_norm");
    k->rotate = named(program, "rotate_heads");
    k->attend = named(program, "attend");
    clReleaseProgram(program);
    return !failed();
}

void kernels_close(kernels *k)
{
    cl_kernel all[] = {k->take, k->norm, k->rotate, k->attend};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            clReleaseKernel(all[i]);
    *k = (kernels){0};
}

typedef struct argument {
    size_t size;
    const void *value;
} argument;

#define ARGUMENT(variable)                                                                         \
    {                                                                                              \
        sizeof(variable), &(variable)                                                              \
    }

static bool launch(const kernels *k, cl_kernel kernel, const char *name, const size_t global[3],
                   const size_t *local, const argument *arguments, cl_uint count)
{
    for (cl_uint i = 0; i < count; i++)
        if (!check_cl(clSetKernelArg(kernel, i, arguments[i].size, arguments[i].value), name))
            return false;
    return check_cl(clEnqueueNDRangeKernel(k->queue, kernel, 3, NULL, global, local, 0, NULL, NULL),
                    name);
}

#define LAUNCH(k, kernel, global, local, arguments)                                                \
    launch(k, kernel, __func__, global, local, arguments, sizeof arguments / sizeof *arguments)

bool kernels_take(const kernels *k, parlin_tensor table, parlin_tensor ids, parlin_tensor y)
{
    const cl_int kind = table.dtype == PARLIN_F32 ? 0 : table.dtype == PARLIN_F16 ? 1 : 2;
    const size_t global[3] = {y.cols, y.rows, 1};
    const argument arguments[] = {ARGUMENT(table.buffer), ARGUMENT(kind), ARGUMENT(ids.buffer),
                                  ARGUMENT(y.buffer)};
    return LAUNCH(k, k->take, global, NULL, arguments);
}

bool kernels_norm(const kernels *k, parlin_tensor x, parlin_tensor weight, double epsilon,
                  parlin_tensor y)
{
    const cl_ulong offset = x.offset, cols = x.cols;
    const cl_float eps = (cl_float)epsilon;
    const size_t global[3] = {k->group, x.rows, 1}, local[3] = {k->group, 1, 1};
    const argument arguments[] = {ARGUMENT(x.buffer),      ARGUMENT(offset), ARGUMENT(cols),
                                  ARGUMENT(weight.buffer), ARGUMENT(eps),    ARGUMENT(y.buffer)};
    return LAUNCH(k, k->norm, global, local, arguments);
}

bool kernels_rotate(const kernels *k, parlin_heads heads, parlin_tensor turns, size_t first)
{
    const cl_ulong offset = heads.offset, row_stride = heads.row_stride;
    const cl_ulong head_stride = heads.head_stride, position = first;
    const size_t global[3] = {k->head_size / 2, heads.heads, heads.rows};
    const argument arguments[] = {ARGUMENT(heads.buffer), ARGUMENT(offset),
                                  ARGUMENT(row_stride),   ARGUMENT(head_stride),
                                  ARGUMENT(turns.buffer), ARGUMENT(position)};
    return LAUNCH(k, k->rotate, global, NULL, arguments);
}

bool kernels_attend(const kernels *k, parlin_tensor q, parlin_tensor keys, parlin_tensor values,
                    size_t positions, parlin_tensor kv_of, size_t first, parlin_tensor out)
{
    const cl_ulong all = positions, position = first;
    const cl_float scale = (cl_float)(1 / sqrt((double)k->head_size));
    const size_t global[3] = {k->group, q.cols / k->head_size, q.rows};
    const size_t local[3] = {k->group, 1, 1};
    const argument arguments[] = {ARGUMENT(q.buffer),      ARGUMENT(keys.buffer),
                                  ARGUMENT(values.buffer), ARGUMENT(all),
                                  ARGUMENT(kv_of.buffer),  ARGUMENT(position),
                                  ARGUMENT(scale),         ARGUMENT(out.buffer)};
    return LAUNCH(k, k->attend, global, local, arguments);
}
