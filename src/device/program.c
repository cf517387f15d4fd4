/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "device/internal.h"
#include "device/select.h"

enum { ATTEMPTS = 3 };

/* The caller frees it; NULL where there is none. */
static char *build_log(cl_program program, cl_device_id id)
{
    size_t size = 0;
    char *log = NULL;
    if (clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS &&
        size > 1 && (log = calloc(size + 1, 1)))
        if (clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, size, log, NULL) != CL_SUCCESS)
            log[0] = 0;
    return log;
}

/* The device's part of a built program; the caller's context may have more devices. */
static unsigned char *fetch_binary(cl_program program, cl_device_id id, size_t *size)
{
    cl_uint count = 0;
    unsigned char *binary = NULL;
    if (clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL) !=
            CL_SUCCESS ||
        count == 0)
        return NULL;
    cl_device_id *ids = calloc(count, sizeof *ids);
    size_t *sizes = calloc(count, sizeof *sizes);
    unsigned char **binaries = calloc(count, sizeof *binaries);
    if (ids && sizes && binaries &&
        clGetProgramInfo(program, CL_PROGRAM_DEVICES, count * sizeof *ids, ids, NULL) ==
            CL_SUCCESS &&
        clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof *sizes, sizes, NULL) ==
            CL_SUCCESS)
        for (cl_uint i = 0; i < count; i++)
            if (ids[i] == id && sizes[i] > 0 && (binaries[i] = malloc(sizes[i]))) {
                /* A NULL entry is left out. */
                if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof *binaries,
                                     binaries, NULL) == CL_SUCCESS) {
                    binary = binaries[i];
                    *size = sizes[i];
                } else {
                    free(binaries[i]);
                }
                break;
            }
    free(ids);
    free(sizes);
    free(binaries);
    return binary;
}

static cl_program program_from_cache(parlin_device *device, const pl_cache_key *key,
                                     const char *file, const char *options)
{
    size_t size;
    unsigned char *binary = pl_cache_load(key, &size);
    if (!binary)
        return NULL;
    const unsigned char *bytes = binary;
    cl_int code, status = CL_SUCCESS;
    cl_program program =
        clCreateProgramWithBinary(device->context, 1, &device->id, &size, &bytes, &status, &code);
    if (program && code == CL_SUCCESS)
        code = status;
    if (program && code == CL_SUCCESS)
        code = clBuildProgram(program, 1, &device->id, options, NULL, NULL);
    free(binary);
    if (program && code == CL_SUCCESS) {
        device->counters.programs_loaded++;
        pl_log(PL_LOG_INFO, "loaded %s (%s) from %s", file, options, key->path);
        return program;
    }
    if (program)
        clReleaseProgram(program);
    pl_log(PL_LOG_INFO, "cached program %s is not used: the driver refused it: %s", key->path,
           pl_cl_error_name(code));
    return NULL;
}

static parlin_status program_from_source(parlin_device *device, const pl_cache_key *key,
                                         const char *file, const char *options, const char *source,
                                         cl_program *program)
{
    cl_int code;
    cl_program made;
    char *log;
    for (int attempt = 1;; attempt++) {
        made = clCreateProgramWithSource(device->context, 1, &source, NULL, &code);
        if (!made)
            return pl_cl_error(code, "building a program: clCreateProgramWithSource");
        code = clBuildProgram(made, 1, &device->id, options, NULL, NULL);
        log = build_log(made, device->id);
        /* A compiler that refuses a source says why; one that met another process in its files
           (PoCL, where no lock could be had) does not. */
        if (code != CL_BUILD_PROGRAM_FAILURE || attempt == ATTEMPTS ||
            (log && pl_text_holds(log, "error")))
            break;
        pl_log(PL_LOG_INFO, "building %s again: the first try failed without a reason", file);
        free(log);
        clReleaseProgram(made);
    }
    if (code != CL_SUCCESS) {
        parlin_status status = pl_error(
            PARLIN_ERROR_BUILD, "%s did not build with options \"%s\" on %s: %s; the log:\n%s",
            file, options, device->info.name, pl_cl_error_name(code), log ? log : "(none)");
        free(log);
        clReleaseProgram(made);
        return status;
    }
    device->counters.programs_built++;
    pl_log(PL_LOG_INFO, "built %s (%s)", file, options);
    if (log && log[0])
        pl_log(PL_LOG_DEBUG, "build log of %s: %s", file, log);
    free(log);
    if (key->path[0]) {
        size_t size;
        unsigned char *binary = fetch_binary(made, device->id, &size);
        if (binary)
            pl_cache_store(key, binary, size);
        free(binary);
    }
    *program = made;
    return PARLIN_SUCCESS;
}

/* `trust_cache` false: built from source, and the stored one replaced. */
static parlin_status make_program(parlin_device *device, const char *file, const char *options,
                                  bool trust_cache, cl_program *program, bool *from_cache)
{
    char *source;
    pl_cache_key key;
    PL_TRY(pl_source_read(file, &source));
    parlin_status status = pl_cache_key_make(device, file, options, source, &key);
    if (status == PARLIN_SUCCESS) {
        pl_build_lock();
        cl_program made = trust_cache ? program_from_cache(device, &key, file, options) : NULL;
        *from_cache = made != NULL;
        if (!made)
            status = program_from_source(device, &key, file, options, source, &made);
        pl_build_unlock();
        if (status == PARLIN_SUCCESS)
            *program = made;
        pl_cache_key_free(&key);
    }
    free(source);
    return status;
}

static parlin_status get_program(parlin_device *device, const char *file, const char *options,
                                 pl_program_entry **entry)
{
    for (pl_program_entry *one = device->programs; one; one = one->next)
        if (strcmp(one->file, file) == 0 && strcmp(one->options, options) == 0) {
            *entry = one;
            return PARLIN_SUCCESS;
        }
    pl_program_entry *one = calloc(1, sizeof *one);
    if (one) {
        one->file = pl_text_copy(file);
        one->options = pl_text_copy(options);
    }
    parlin_status status =
        one && one->file && one->options
            ? make_program(device, file, options, true, &one->program, &one->from_cache)
            : pl_error(PARLIN_ERROR_MEMORY, "building %s: host memory ran out", file);
    if (status != PARLIN_SUCCESS) {
        if (one) {
            free(one->file);
            free(one->options);
        }
        free(one);
        return status;
    }
    one->next = device->programs;
    device->programs = one;
    *entry = one;
    return PARLIN_SUCCESS;
}

static parlin_status create_kernel(parlin_device *device, pl_program_entry *entry, const char *name,
                                   cl_kernel *kernel)
{
    cl_int code;
    *kernel = clCreateKernel(entry->program, name, &code);
    if (!*kernel && entry->from_cache) {
        /* The driver took the stored program but cannot use it: never trusted further. */
        pl_log(PL_LOG_INFO, "cached program of %s is not used: clCreateKernel(%s) gave %s",
               entry->file, name, pl_cl_error_name(code));
        cl_program made;
        bool from_cache;
        PL_TRY(make_program(device, entry->file, entry->options, false, &made, &from_cache));
        clReleaseProgram(entry->program);
        entry->program = made;
        entry->from_cache = false;
        *kernel = clCreateKernel(entry->program, name, &code);
    }
    if (!*kernel)
        return pl_error(PARLIN_ERROR_BUILD, "kernel %s of %s, options \"%s\": %s", name,
                        entry->file, entry->options, pl_cl_error_name(code));
    return PARLIN_SUCCESS;
}

static void free_kernel_entry(pl_kernel_entry *entry)
{
    if (!entry)
        return;
    if (entry->kernel)
        clReleaseKernel(entry->kernel);
    free(entry->file);
    free(entry->name);
    free(entry->options);
    free(entry);
}

parlin_status pl_device_kernel(parlin_device *device, const char *file, const char *name,
                               const char *options, cl_kernel *kernel)
{
    if (!options)
        options = "";
    for (pl_kernel_entry *one = device->kernels; one; one = one->next)
        if (strcmp(one->name, name) == 0 && strcmp(one->file, file) == 0 &&
            strcmp(one->options, options) == 0) {
            *kernel = one->kernel;
            return PARLIN_SUCCESS;
        }
    pl_program_entry *program;
    PL_TRY(get_program(device, file, options, &program));
    pl_kernel_entry *one = calloc(1, sizeof *one);
    if (one) {
        one->file = pl_text_copy(file);
        one->name = pl_text_copy(name);
        one->options = pl_text_copy(options);
    }
    parlin_status status =
        one && one->file && one->name && one->options
            ? create_kernel(device, program, name, &one->kernel)
            : pl_error(PARLIN_ERROR_MEMORY, "kernel %s of %s: host memory ran out", name, file);
    if (status != PARLIN_SUCCESS) {
        free_kernel_entry(one);
        return status;
    }
    one->next = device->kernels;
    device->kernels = one;
    *kernel = one->kernel;
    return PARLIN_SUCCESS;
}

void pl_programs_release(parlin_device *device)
{
    while (device->kernels) {
        pl_kernel_entry *one = device->kernels;
        device->kernels = one->next;
        free_kernel_entry(one);
    }
    while (device->programs) {
        pl_program_entry *one = device->programs;
        device->programs = one->next;
        clReleaseProgram(one->program);
        free(one->file);
        free(one->options);
        free(one);
    }
}
