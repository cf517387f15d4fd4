/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "device/internal.h"
#include "device/select.h"

enum { PLATFORM_NOT_FOUND_KHR = -1001 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pl_device_list *found;

/* One more entry at the end of the three arrays. */
static bool grow(pl_device_list *list, pl_hardware **hardware)
{
    pl_listed *handles = realloc(list->handles, (list->count + 1) * sizeof *handles);
    if (handles)
        list->handles = handles;
    parlin_device_info *info = realloc(list->info, (list->count + 1) * sizeof *info);
    if (info)
        list->info = info;
    pl_hardware *more = realloc(*hardware, (list->count + 1) * sizeof *more);
    if (more)
        *hardware = more;
    return handles && info && more;
}

static bool add_platform(pl_device_list *list, pl_hardware **hardware, cl_platform_id platform,
                         size_t platform_index)
{
    cl_uint count = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && count == 0))
        return true;
    cl_device_id *ids = code == CL_SUCCESS ? calloc(count, sizeof *ids) : NULL;
    if (code == CL_SUCCESS && !ids)
        return false;
    if (code == CL_SUCCESS)
        code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids, NULL);
    if (code != CL_SUCCESS) {
        /* A broken driver must not hide the others. */
        pl_log(PL_LOG_INFO, "platform %zu is left out: clGetDeviceIDs gave %s", platform_index,
               pl_cl_error_name(code));
        free(ids);
        return true;
    }
    bool memory = true;
    for (cl_uint i = 0; i < count && memory; i++) {
        memory = grow(list, hardware);
        if (!memory)
            break;
        parlin_device_info *info = &list->info[list->count];
        const char *why;
        if (!pl_caps_query(platform, ids[i], info, &(*hardware)[list->count], &why)) {
            pl_log(PL_LOG_INFO, "device %zu:%u (%s) is left out: %s", platform_index, i, info->name,
                   why);
            continue;
        }
        info->index = list->count;
        info->platform_index = platform_index;
        info->platform_device = i;
        list->handles[list->count] = (pl_listed){platform, ids[i]};
        list->count++;
    }
    free(ids);
    return memory;
}

static void say_none(pl_device_list *list, cl_int code, const cl_platform_id *platforms,
                     cl_uint count)
{
    if (code != CL_SUCCESS && code != PLATFORM_NOT_FOUND_KHR) {
        snprintf(list->none, sizeof list->none, "clGetPlatformIDs failed: %s",
                 pl_cl_error_name(code));
        return;
    }
    if (count == 0) {
        snprintf(
            list->none, sizeof list->none,
            "no OpenCL platform is installed on this machine: install one (Debian: "
            "pocl-opencl-icd for the CPU, the vendor's for a GPU), and see that its file is in "
            "/etc/OpenCL/vendors or OCL_ICD_VENDORS");
        return;
    }
    int used = snprintf(list->none, sizeof list->none, "no OpenCL platform here offers a device:");
    for (cl_uint i = 0; i < count && (size_t)used < sizeof list->none; i++) {
        char name[128] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        used += snprintf(list->none + used, sizeof list->none - (size_t)used, "%s %s", i ? "," : "",
                         name);
    }
}

static pl_device_list *make_list(void)
{
    pl_device_list *list = calloc(1, sizeof *list);
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(0, NULL, &count);
    cl_platform_id *platforms = calloc(count + 1, sizeof(cl_platform_id));
    pl_hardware *hardware = NULL;
    bool memory = list && platforms;
    if (code != CL_SUCCESS)
        count = 0;
    if (memory && count > 0)
        code = clGetPlatformIDs(count, platforms, NULL);
    if (code != CL_SUCCESS)
        count = 0;
    for (cl_uint i = 0; i < count && memory; i++)
        memory = add_platform(list, &hardware, platforms[i], i);
    if (memory) {
        pl_select_mark_same(list->info, hardware, list->count);
        say_none(list, code, platforms, count);
    } else if (list) {
        free(list->handles);
        free(list->info);
        free(list);
        list = NULL;
    }
    free(hardware);
    free(platforms);
    return list;
}

parlin_status pl_device_list_get(const pl_device_list **list)
{
    pthread_mutex_lock(&lock);
    if (!found)
        found = make_list();
    *list = found;
    pthread_mutex_unlock(&lock);
    if (!*list)
        return pl_error(PARLIN_ERROR_MEMORY, "list of devices: host memory ran out");
    return PARLIN_SUCCESS;
}

parlin_status parlin_device_count(size_t *count)
{
    if (!count)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_device_count: count is NULL");
    const pl_device_list *list;
    PL_TRY(pl_device_list_get(&list));
    *count = list->count;
    return PARLIN_SUCCESS;
}

parlin_status parlin_device_describe(size_t index, parlin_device_info *info)
{
    if (!info)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_device_describe: info is NULL");
    const pl_device_list *list;
    PL_TRY(pl_device_list_get(&list));
    if (index >= list->count)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "parlin_device_describe: index %zu, but the list has %zu devices", index,
                        list->count);
    *info = list->info[index];
    return PARLIN_SUCCESS;
}
