/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/flow.h"

#include "core/status.h"

/* The time since the last lap goes to *seconds. */
static void lap(pl_flow *flow, double *seconds)
{
    if (!flow->group->timing)
        return;
    double now = pl_now();
    *seconds += now - flow->lap;
    flow->lap = now;
}

parlin_status pl_flow_begin(pl_flow *flow, parlin_group *group, const pl_call *call,
                            const char *name)
{
    *flow = (pl_flow){.group = group, .call = call, .lap = group->timing ? pl_now() : 0};
    group->counters.collectives++;
    return pl_transport_enter(group->transport, call ? call->operation : name,
                              call ? call->object : NULL);
}

parlin_status pl_flow_stage(pl_flow *flow, size_t bytes)
{
    parlin_group *group = flow->group;
    if (group->timing) {
        PL_TRY(parlin_device_finish(group->device));
        lap(flow, &group->counters.device_seconds);
    }
    if (bytes == 0)
        return PARLIN_SUCCESS;
    return pl_staging_take(group->device, bytes, &flow->staging);
}

parlin_status pl_flow_agree(pl_flow *flow, parlin_status local)
{
    pl_transport *transport = flow->group->transport;
    lap(flow, &flow->group->counters.staging_seconds);
    if (flow->call)
        return pl_agree_entered(transport, local, flow->call);
    if (local != PARLIN_SUCCESS)
        pl_transport_lose(transport);
    return local;
}

void pl_flow_leave(pl_flow *flow)
{
    pl_transport_leave(flow->group->transport);
    lap(flow, &flow->group->counters.message_seconds);
}

parlin_status pl_flow_end(pl_flow *flow, parlin_status status)
{
    lap(flow, &flow->group->counters.staging_seconds);
    if (!flow->group->transport->lost)
        pl_staging_give(flow->group->device, &flow->staging);
    else
        flow->group->kept = flow->staging;
    return status;
}

parlin_status pl_alone(parlin_group *group, parlin_status local, const parlin_tensor *source,
                       const parlin_tensor *destination)
{
    if (local != PARLIN_SUCCESS || pl_empty(source))
        return local;
    if (pl_tensor_same(source, destination))
        return PARLIN_SUCCESS;
    return pl_tensor_copy(group->device, source, destination);
}
