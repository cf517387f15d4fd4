/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that only copy: broadcast, all-to-all, and the gather of host bytes. */
#include <string.h>

#include "comm/flow.h"
#include "core/status.h"

parlin_status pl_broadcast(parlin_group *group, parlin_status local, const pl_call *call, int root,
                           const parlin_tensor *tensor)
{
    if (group->size == 1)
        return local;
    pl_transport *transport = group->transport;
    size_t bytes = 0;
    pl_flow flow;
    PL_TRY(pl_flow_begin(&flow, group, call, "broadcast"));
    if (local == PARLIN_SUCCESS) {
        bytes = pl_dense_bytes(tensor);
        local = pl_flow_stage(&flow, bytes);
    }
    if (local == PARLIN_SUCCESS && bytes > 0 && group->rank == root)
        local = pl_run_read(group->device, tensor, flow.staging.host);

    parlin_status status = pl_flow_agree(&flow, local);
    if (status == PARLIN_SUCCESS)
        status = transport->table->broadcast(transport, root, flow.staging.host, bytes);
    pl_flow_leave(&flow);
    if (status == PARLIN_SUCCESS && bytes > 0 && group->rank != root)
        status = pl_run_write(group->device, tensor, flow.staging.host);
    return pl_flow_end(&flow, status);
}

/* Every rank learns what the others send to it, and compares. */
static parlin_status compare_lengths(parlin_group *group, const size_t *send_lengths,
                                     const size_t *receive_lengths, parlin_status *local)
{
    pl_transport *transport = group->transport;
    const int p = group->size;
    for (int q = 0; q < p; q++) {
        /* In the group's own memory, for it goes on the wire; lengths may be these arrays. */
        group->lengths[q] = send_lengths[q];
        group->lengths_in[q] = receive_lengths[q];
        group->outgoing[q] = (pl_piece){(size_t)q * sizeof(size_t), sizeof(size_t)};
    }
    size_t *announced = group->scratch;
    PL_TRY(transport->table->exchange(transport, group->lengths, group->outgoing, announced,
                                      group->outgoing));
    announced[group->rank] = group->lengths[group->rank];
    for (int q = 0; q < p && *local == PARLIN_SUCCESS; q++)
        if (announced[q] != group->lengths_in[q])
            *local = pl_error(PARLIN_ERROR_SHAPE,
                              "all-to-all: rank %d sends %zu, but receive_lengths[%d] is %zu", q,
                              announced[q], q, group->lengths_in[q]);
    return PARLIN_SUCCESS;
}

parlin_status pl_all_to_all(parlin_group *group, parlin_status local, const pl_call *call, int dim,
                            const size_t *send_lengths, const size_t *receive_lengths,
                            const parlin_tensor *source, const parlin_tensor *destination)
{
    if (group->size == 1)
        return pl_alone(group, local, source, destination);
    pl_transport *transport = group->transport;
    pl_staging result = {0};
    pl_flow flow;
    PL_TRY(pl_flow_begin(&flow, group, call, "all-to-all"));
    /* First that all mean the same call, then that the lengths fit, then the data. */
    if (local == PARLIN_SUCCESS)
        local = pl_group_scratch(group, (size_t)group->size * sizeof(size_t));
    parlin_status status = pl_agree_entered(transport, local, call);
    if (status == PARLIN_SUCCESS)
        status = compare_lengths(group, send_lengths, receive_lengths, &local);
    if (status != PARLIN_SUCCESS) {
        pl_flow_leave(&flow);
        return status;
    }
    const size_t element = parlin_dtype_size(source->dtype);
    const size_t across = dim == 0 ? source->cols : source->rows;
    pl_layout_pieces(group->size, 1, group->lengths, across, element, group->outgoing);
    pl_layout_pieces(group->size, 1, group->lengths_in, across, element, group->incoming);
    const pl_layout from = {source, dim, group->size, 1, group->lengths, group->outgoing};
    const pl_layout to = {destination, dim, group->size, 1, group->lengths_in, group->incoming};
    if (local == PARLIN_SUCCESS)
        local = pl_flow_stage(&flow, pl_dense_bytes(source));
    if (local == PARLIN_SUCCESS && !pl_empty(destination))
        local = pl_staging_take(group->device, pl_dense_bytes(destination), &result);
    if (local == PARLIN_SUCCESS)
        local = pl_layout_read(group->device, &from, flow.staging.host);

    status = pl_agree_entered(transport, local, call);
    if (status == PARLIN_SUCCESS)
        status = transport->table->exchange(transport, flow.staging.host, group->outgoing,
                                            result.host, group->incoming);
    pl_flow_leave(&flow);
    const pl_piece own = group->outgoing[group->rank];
    if (status == PARLIN_SUCCESS && own.bytes > 0)
        memcpy((char *)result.host + group->incoming[group->rank].at,
               (const char *)flow.staging.host + own.at, own.bytes);
    if (status == PARLIN_SUCCESS)
        status = pl_layout_write(group->device, &to, result.host);
    if (!transport->lost)
        pl_staging_give(group->device, &result);
    else
        group->kept_result = result;
    return pl_flow_end(&flow, status);
}

/* Bytes of one rank in one round of pl_gather_host, so that little memory is needed on root. */
enum { GATHER_BYTES = 1 << 20 };

/* One round: bytes [done, done + block) of every rank. Rank q's land in block q of root's scratch;
   the caller's memory is never handed to MPI, for it may be gone while a lost request lives on. */
static parlin_status gather_round(parlin_group *group, int root, const size_t *bytes, size_t done,
                                  size_t block, const char *source, char *destination)
{
    const int p = group->size, rank = group->rank;
    char *scratch = group->scratch;
    size_t mine = 0;
    for (int q = 0; q < p; q++) {
        size_t left = bytes[q] > done ? bytes[q] - done : 0;
        size_t here = left < block ? left : block;
        group->outgoing[q] = (pl_piece){0, 0};
        group->incoming[q] = (pl_piece){(size_t)q * block, rank == root ? here : 0};
        if (q == rank)
            mine = here;
    }
    if (rank != root)
        group->outgoing[root].bytes = mine;
    if (mine > 0)
        memcpy(scratch + (rank == root ? (size_t)root * block : 0), source + done, mine);
    PL_TRY(group->transport->table->exchange(group->transport, scratch, group->outgoing, scratch,
                                             group->incoming));
    for (int q = 0; q < p && rank == root; q++) {
        if (group->incoming[q].bytes > 0)
            memcpy(destination + done, scratch + group->incoming[q].at, group->incoming[q].bytes);
        destination += bytes[q];
    }
    return PARLIN_SUCCESS;
}

parlin_status pl_gather_host(parlin_group *group, int root, const size_t *bytes, const void *source,
                             void *destination)
{
    const size_t p = (size_t)group->size;
    if (p == 1) {
        if (bytes[0] > 0)
            memcpy(destination, source, bytes[0]);
        return PARLIN_SUCCESS;
    }
    pl_transport *transport = group->transport;
    size_t longest = 0;
    for (size_t q = 0; q < p; q++)
        longest = bytes[q] > longest ? bytes[q] : longest;
    PL_TRY(pl_transport_enter(transport, "gather of host memory", NULL));
    const size_t block = longest < GATHER_BYTES ? longest : GATHER_BYTES;
    parlin_status status = pl_group_scratch(group, (group->rank == root ? p : 1) * block);
    if (status != PARLIN_SUCCESS)
        pl_transport_lose(transport); /* the others wait for this rank */
    for (size_t done = 0; done < longest && status == PARLIN_SUCCESS; done += block)
        status = gather_round(group, root, bytes, done, block, source, destination);
    pl_transport_leave(transport);
    return status;
}
