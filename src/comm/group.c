/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/group.h"

#include <stdlib.h>

#include "core/log.h"
#include "core/status.h"

parlin_group_config parlin_group_defaults(void)
{
    return (parlin_group_config){.struct_size = sizeof(parlin_group_config),
                                 .timeout_seconds = 300};
}

parlin_status pl_group_check_config(const char *call, const parlin_group_config *config,
                                    parlin_group_config *out)
{
    *out = parlin_group_defaults();
    if (!config)
        return PARLIN_SUCCESS;
    if (config->struct_size != sizeof *config)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "%s: config.struct_size is %zu, wanted %zu: start from "
                        "parlin_group_defaults()",
                        call, config->struct_size, sizeof *config);
    if (!(config->timeout_seconds >= 0))
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "%s: config.timeout_seconds is %g, wanted 0 (no limit) or more", call,
                        config->timeout_seconds);
    *out = *config;
    return PARLIN_SUCCESS;
}

static void free_group(parlin_group *group)
{
    free(group->lengths);
    free(group->lengths_in);
    free(group->outgoing);
    free(group->incoming);
    free(group->scratch);
    free(group);
}

/* A group on a transport (which it does not own until the caller says so) without a device. */
static parlin_status make_group(const char *call, pl_transport *transport, parlin_group **out)
{
    const size_t size = (size_t)transport->size;
    parlin_group *group = calloc(1, sizeof *group);
    if (group) {
        group->lengths = calloc(size, sizeof *group->lengths);
        group->lengths_in = calloc(size, sizeof *group->lengths_in);
        group->outgoing = calloc(size, sizeof *group->outgoing);
        group->incoming = calloc(size, sizeof *group->incoming);
    }
    if (!group || !group->lengths || !group->lengths_in || !group->outgoing || !group->incoming) {
        if (group)
            free_group(group);
        return pl_error(PARLIN_ERROR_MEMORY, "%s: no host memory for a group of %zu ranks", call,
                        size);
    }
    pl_ref_init(&group->ref);
    group->transport = transport;
    group->rank = transport->rank;
    group->size = transport->size;
    *out = group;
    return PARLIN_SUCCESS;
}

/* A transport that was lost is kept, requests and all. */
static void drop_transport(pl_transport *transport)
{
    if (transport->lost)
        pl_keep_forever(transport);
    else
        transport->table->destroy(transport);
}

parlin_status pl_group_form(const char *call, parlin_status local, pl_transport *transport,
                            bool open, parlin_device *device, const parlin_group_config *config,
                            parlin_group **out)
{
    parlin_device *held = NULL;
    parlin_group *group = NULL;
    transport->wait.limit = config->timeout_seconds;
    if (local == PARLIN_SUCCESS)
        local = make_group(call, transport, &group);
    if (local == PARLIN_SUCCESS && open) {
        local =
            pl_device_open_for(config->device, transport->local_rank, transport->local_size, &held);
    } else if (local == PARLIN_SUCCESS) {
        pl_device_retain(device);
        held = device;
    }

    /* Some ranks may open a device while others bring one: the call's name is not compared. */
    const pl_call record = {.operation = "group creation"};
    parlin_status status = pl_transport_enter(transport, call, NULL);
    if (status == PARLIN_SUCCESS) {
        status = pl_agree_entered(transport, local, &record);
        pl_transport_leave(transport);
    }
    if (status != PARLIN_SUCCESS) {
        if (held)
            pl_device_release(held);
        if (group)
            free_group(group);
        drop_transport(transport);
        return status;
    }
    group->device = held;
    group->timing = config->timing;
    if (group->size > 1)
        pl_log_set_rank(group->rank);
    if (pl_log_enabled(PL_LOG_INFO))
        pl_log(PL_LOG_INFO, "group of %d: rank %d, place %d of %d on its node, on '%s'",
               group->size, group->rank, transport->local_rank, transport->local_size,
               pl_device_info(held)->name);
    *out = group;
    return PARLIN_SUCCESS;
}

static parlin_status single(const char *call, bool open, parlin_device *device,
                            const parlin_group_config *config, parlin_group **group)
{
    parlin_group_config checked;
    pl_transport *transport;
    PL_TRY(pl_group_check_config(call, config, &checked));
    if (!group)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: group is NULL", call);
    if (!open && !device)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: device is NULL", call);
    PL_TRY(pl_transport_self(&transport));
    return pl_group_form(call, PARLIN_SUCCESS, transport, open, device, &checked, group);
}

parlin_status parlin_group_open_single(const parlin_group_config *config, parlin_group **group)
{
    return single("parlin_group_open_single", true, NULL, config, group);
}

parlin_status parlin_group_create_single(parlin_device *device, const parlin_group_config *config,
                                         parlin_group **group)
{
    return single("parlin_group_create_single", false, device, config, group);
}

parlin_status parlin_group_split(parlin_group *group, int color, int key, parlin_group **part)
{
    const pl_call record = {.operation = "parlin_group_split"};
    if (!group)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_group_split: group is NULL");
    parlin_status local = PARLIN_SUCCESS;
    if (!part)
        local = pl_error(PARLIN_ERROR_ARGUMENT, "parlin_group_split: part is NULL");

    pl_transport *whole = group->transport, *split = NULL;
    parlin_group *made = NULL;
    PL_TRY(pl_transport_enter(whole, record.operation, NULL));
    parlin_status status = pl_agree_entered(whole, local, &record);
    if (status == PARLIN_SUCCESS) {
        local = whole->table->split(whole, color, key, &split);
        if (local == PARLIN_SUCCESS && split)
            local = make_group(record.operation, split, &made);
        status = whole->lost ? local : pl_agree_entered(whole, local, &record);
    }
    pl_transport_leave(whole);
    if (status != PARLIN_SUCCESS) {
        if (made)
            free_group(made);
        if (split)
            drop_transport(split);
        return status;
    }
    if (made) {
        pl_device_retain(group->device);
        made->device = group->device;
        made->timing = group->timing;
    }
    *part = made;
    return PARLIN_SUCCESS;
}

void pl_group_retain(parlin_group *group)
{
    pl_ref_retain(&group->ref);
}

void pl_group_release(parlin_group *group)
{
    if (!group || !pl_ref_release(&group->ref))
        return;
    if (group->transport->lost) {
        /* Requests are pending on its memory and staging, which belongs to the device. */
        pl_keep_forever(group);
        return;
    }
    group->transport->table->destroy(group->transport);
    pl_device_release(group->device);
    free_group(group);
}

void parlin_group_close(parlin_group *group)
{
    pl_group_release(group);
}

int parlin_group_rank(const parlin_group *group)
{
    return group ? group->rank : -1;
}

int parlin_group_size(const parlin_group *group)
{
    return group ? group->size : 0;
}

parlin_device *parlin_group_device(const parlin_group *group)
{
    return group ? group->device : NULL;
}

parlin_group_counters parlin_group_get_counters(const parlin_group *group)
{
    return group ? group->counters : (parlin_group_counters){0};
}

parlin_status parlin_tensor_create(parlin_group *group, parlin_dtype dtype, size_t rows,
                                   size_t cols, parlin_tensor *tensor)
{
    if (!group)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_tensor_create: group is NULL");
    return parlin_tensor_create_on(group->device, dtype, rows, cols, tensor);
}

parlin_status pl_group_may_call(parlin_group *group, const char *operation, const char *object)
{
    PL_TRY(pl_transport_enter(group->transport, operation, object));
    pl_transport_leave(group->transport);
    return PARLIN_SUCCESS;
}

uint64_t pl_group_next_param_id(parlin_group *group)
{
    return ++group->param_ids;
}

parlin_status pl_group_scratch(parlin_group *group, size_t bytes)
{
    if (bytes <= group->scratch_bytes)
        return PARLIN_SUCCESS;
    void *larger = malloc(bytes);
    if (!larger)
        return pl_error(PARLIN_ERROR_MEMORY, "%s: no %zu bytes of host memory",
                        group->transport->operation, bytes);
    free(group->scratch);
    group->scratch = larger;
    group->scratch_bytes = bytes;
    return PARLIN_SUCCESS;
}
