/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/option.h"
#include "device/internal.h"
#include "device/select.h"

/* One context for each device and process: what a driver or CLBlast keeps for a context is then
   kept once, however often a device is opened. */
typedef struct shared_context {
    struct shared_context *next;
    cl_device_id id;
    cl_context context;
    size_t users;
} shared_context;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static shared_context *contexts;

static parlin_status take_context_locked(const pl_listed *listed, const char *name,
                                         cl_context *context)
{
    for (shared_context *one = contexts; one; one = one->next)
        if (one->id == listed->id) {
            one->users++;
            *context = one->context;
            return PARLIN_SUCCESS;
        }
    shared_context *one = malloc(sizeof *one);
    if (!one)
        return pl_error(PARLIN_ERROR_MEMORY, "opening device %s: host memory ran out", name);
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)listed->platform, 0};
    cl_int code;
    one->context = clCreateContext(properties, 1, &listed->id, NULL, NULL, &code);
    if (!one->context) {
        char what[400];
        snprintf(what, sizeof what, "opening device %s: clCreateContext", name);
        free(one);
        return pl_cl_error(code, what);
    }
    one->id = listed->id;
    one->users = 1;
    one->next = contexts;
    contexts = one;
    *context = one->context;
    return PARLIN_SUCCESS;
}

static parlin_status take_context(const pl_listed *listed, const char *name, cl_context *context)
{
    pthread_mutex_lock(&lock);
    parlin_status status = take_context_locked(listed, name, context);
    pthread_mutex_unlock(&lock);
    return status;
}

static void give_context(cl_context context)
{
    pthread_mutex_lock(&lock);
    for (shared_context **at = &contexts; *at; at = &(*at)->next)
        if ((*at)->context == context) {
            shared_context *one = *at;
            if (--one->users == 0) {
                *at = one->next;
                clReleaseContext(one->context);
                free(one);
            }
            break;
        }
    pthread_mutex_unlock(&lock);
}

static parlin_device *new_device(void)
{
    parlin_device *device = calloc(1, sizeof *device);
    if (device)
        pl_ref_init(&device->ref);
    else
        pl_error(PARLIN_ERROR_MEMORY, "opening a device: host memory ran out");
    return device;
}

static parlin_status open_listed(const pl_device_list *list, size_t index, parlin_device **device)
{
    const parlin_device_info *info = &list->info[index];
    parlin_device *made = new_device();
    if (!made)
        return PARLIN_ERROR_MEMORY;
    made->info = *info;
    made->id = list->handles[index].id;
    made->shared_context = true;
    parlin_status status = take_context(&list->handles[index], info->name, &made->context);
    if (status != PARLIN_SUCCESS) {
        free(made);
        return status;
    }
    cl_int code;
    made->queue = clCreateCommandQueue(made->context, made->id, 0, &code);
    if (!made->queue) {
        char what[400];
        snprintf(what, sizeof what, "opening device %s: clCreateCommandQueue", info->name);
        give_context(made->context);
        free(made);
        return pl_cl_error(code, what);
    }
    *device = made;
    return PARLIN_SUCCESS;
}

parlin_status pl_device_open_for(const char *spec, int local_rank, int local_size,
                                 parlin_device **device)
{
    const char *source = "opening a device";
    if (!device)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_device_open: device is NULL");
    if (!spec || !*spec) {
        spec = pl_option(PL_OPTION_DEVICE);
        if (spec)
            source = "PARLIN_DEVICE";
    }
    const pl_device_list *list;
    PL_TRY(pl_device_list_get(&list));
    pl_choice choice;
    PL_TRY(pl_select(list->info, list->count, list->none, source, spec, local_rank, &choice));
    PL_TRY(open_listed(list, choice.index, device));
    const parlin_device_info *info = &list->info[choice.index];
    if (local_rank == 0 && pl_select_crowded(info, &choice, local_size))
        pl_log(PL_LOG_WARN, "%d ranks on this node share %zu device%s of class %s", local_size,
               choice.candidates, choice.candidates == 1 ? "" : "s",
               pl_class_name(info->device_class));
    pl_log(PL_LOG_INFO, "device %zu (%zu:%zu): %s [%s, %s]", info->index, info->platform_index,
           info->platform_device, info->name, info->platform, pl_class_name(info->device_class));
    return PARLIN_SUCCESS;
}

parlin_status parlin_device_open(const char *spec, parlin_device **device)
{
    return pl_device_open_for(spec, 0, 1, device);
}

/* --- the caller's own objects --- */

/* Only for the sentence: PoCL lists the whole device for a context of its sub-device. */
static bool context_holds(cl_context context, cl_device_id id)
{
    cl_device_id ids[64];
    size_t size = 0;
    bool holds = false;
    if (clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof ids, ids, &size) == CL_SUCCESS)
        for (size_t i = 0; i < size / sizeof *ids; i++)
            holds |= ids[i] == id;
    return holds;
}

/* A queue was made for one device of one context, so that it answers for both. */
static parlin_status check_queue(cl_context context, cl_device_id id, cl_command_queue queue,
                                 bool *unordered)
{
    cl_context queue_context = NULL;
    cl_device_id queue_device = NULL;
    cl_command_queue_properties properties = 0;
    cl_int code =
        clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof queue_context, &queue_context, NULL);
    if (code == CL_SUCCESS)
        code =
            clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof queue_device, &queue_device, NULL);
    if (code == CL_SUCCESS)
        code =
            clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (code != CL_SUCCESS)
        return pl_cl_error(code, "parlin_device_wrap: clGetCommandQueueInfo");
    if (queue_context != context)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "parlin_device_wrap: the queue belongs to another context");
    if (queue_device != id)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "parlin_device_wrap: the queue belongs to another device%s",
                        context_holds(context, id) ? "" : ", and id is none of the context's");
    *unordered = properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    return PARLIN_SUCCESS;
}

/* What parlin's list says of the device; of one that it does not hold (a sub-device), what the
   device itself says. */
static parlin_status describe_wrapped(cl_device_id id, parlin_device_info *info)
{
    const pl_device_list *list;
    PL_TRY(pl_device_list_get(&list));
    for (size_t i = 0; i < list->count; i++)
        if (list->handles[i].id == id) {
            *info = list->info[i];
            return PARLIN_SUCCESS;
        }
    cl_platform_id platform = NULL;
    cl_int code = clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    if (code != CL_SUCCESS)
        return pl_cl_error(code, "parlin_device_wrap: clGetDeviceInfo(CL_DEVICE_PLATFORM)");
    pl_hardware hardware;
    const char *why;
    if (!pl_caps_query(platform, id, info, &hardware, &why))
        return pl_error(PARLIN_ERROR_UNSUPPORTED,
                        "parlin_device_wrap: device %s cannot be used: %s", info->name, why);
    info->index = info->platform_index = info->platform_device = SIZE_MAX;
    return PARLIN_SUCCESS;
}

parlin_status parlin_device_wrap(cl_context context, cl_device_id id, cl_command_queue queue,
                                 parlin_device **device)
{
    if (!context || !id || !queue || !device)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_device_wrap: %s is NULL",
                        !context ? "context"
                        : !id    ? "id"
                        : !queue ? "queue"
                                 : "device");
    bool unordered = false;
    parlin_device_info info;
    PL_TRY(check_queue(context, id, queue, &unordered));
    PL_TRY(describe_wrapped(id, &info));
    parlin_device *made = new_device();
    if (!made)
        return PARLIN_ERROR_MEMORY;
    made->info = info;
    made->context = context;
    made->id = id;
    made->queue = queue;
    made->unordered = unordered;
    clRetainContext(context);
    clRetainCommandQueue(queue);
    clRetainDevice(id); /* of a sub-device; no effect on others */
    pl_log(PL_LOG_INFO, "device of the caller: %s [%s, %s], queue %s order", info.name,
           info.platform, pl_class_name(info.device_class), unordered ? "out of" : "in");
    *device = made;
    return PARLIN_SUCCESS;
}

/* --- ownership --- */

void pl_device_retain(parlin_device *device)
{
    pl_ref_retain(&device->ref);
}

void pl_device_release(parlin_device *device)
{
    if (!device || !pl_ref_release(&device->ref))
        return;
    while (device->attachments) {
        pl_attachment *one = device->attachments;
        device->attachments = one->next;
        one->destroy(one->state);
        free(one);
    }
    pl_pools_drain(device);
    pl_programs_release(device);
    clReleaseCommandQueue(device->queue);
    if (device->shared_context) {
        give_context(device->context);
    } else {
        clReleaseContext(device->context);
        clReleaseDevice(device->id);
    }
    free(device);
}

void parlin_device_close(parlin_device *device)
{
    pl_device_release(device);
}

/* --- queries --- */

const parlin_device_info *pl_device_info(const parlin_device *device)
{
    return &device->info;
}

parlin_status parlin_device_get_info(const parlin_device *device, parlin_device_info *info)
{
    if (!device || !info)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_device_get_info: %s is NULL",
                        device ? "info" : "device");
    *info = device->info;
    return PARLIN_SUCCESS;
}

parlin_status parlin_device_finish(parlin_device *device)
{
    if (!device)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_device_finish: device is NULL");
    cl_int code = clFinish(device->queue);
    return code == CL_SUCCESS ? PARLIN_SUCCESS
                              : pl_cl_error(code, "parlin_device_finish: clFinish");
}

parlin_device_counters parlin_device_get_counters(const parlin_device *device)
{
    return device ? device->counters : (parlin_device_counters){0};
}

cl_context parlin_device_context(const parlin_device *device)
{
    return device ? device->context : NULL;
}

cl_device_id parlin_device_id(const parlin_device *device)
{
    return device ? device->id : NULL;
}

cl_command_queue parlin_device_queue(const parlin_device *device)
{
    return device ? device->queue : NULL;
}

/* --- state of higher rooms --- */

void *pl_device_attachment(const parlin_device *device, const void *key)
{
    for (const pl_attachment *one = device->attachments; one; one = one->next)
        if (one->key == key)
            return one->state;
    return NULL;
}

parlin_status pl_device_attach(parlin_device *device, const void *key, void *state,
                               void (*destroy)(void *state))
{
    pl_attachment *one = malloc(sizeof *one);
    if (!one)
        return pl_error(PARLIN_ERROR_MEMORY, "device %s: host memory ran out", device->info.name);
    *one = (pl_attachment){device->attachments, key, state, destroy};
    device->attachments = one;
    return PARLIN_SUCCESS;
}
