/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and gathers.

   On the wire. p ranks, n elements on each. An all-reduce is formed by owners: n is cut into p
   slices; rank q gets everybody's part of slice q, adds them in rank order in f32, and the slices
   are gathered: 2 n (p-1)/p elements in and out of each rank, as with the usual algorithms.
   Where everything together is at most SMALL_BYTES, all parts are gathered and every rank adds
   them itself: one step in place of two. A reduce-scatter is the first half with the caller's
   runs as slices; an all-gather, the second. Which way is taken depends on the sizes alone.

   In memory. Source and result share one staging buffer of n elements (p n in the small
   all-reduce); runs along columns lie in it one after the other, see layout.h. Parts that come
   from the others, which the device never sees, lie in the group's scratch: (p-1)/p n.

   Order of things: read, agree, send, write. So that a refused argument, a failed allocation or a
   failed read still leaves every output as it was. */
#include <string.h>

#include "comm/flow.h"
#include "comm/reduce.h"
#include "core/size.h"
#include "core/status.h"

/* p x n x 4 bytes at most: gathered whole. */
enum { SMALL_BYTES = 32 << 10 };

/* Makes `pieces` the slices of n floats, and `parts` the place in scratch of each rank's part of
   slice `rank`. Returns the bytes of scratch. */
static size_t cut_slices(const parlin_group *group, size_t n, pl_piece *pieces, pl_piece *parts)
{
    const int p = group->size;
    size_t own = pl_even_length(n, p, group->rank) * sizeof(float);
    for (int q = 0; q < p; q++) {
        pieces[q].at = pl_even_start(n, p, q) * sizeof(float);
        pieces[q].bytes = pl_even_length(n, p, q) * sizeof(float);
        parts[q] = (pl_piece){.at = (size_t)q * own, .bytes = own};
    }
    return (size_t)p * own;
}

/* The first half of an all-reduce, and a reduce-scatter: rank q's run of data becomes the sum.
   group->outgoing holds the runs, group->incoming the parts of this rank's. */
static parlin_status sum_owned(parlin_group *group, void *data)
{
    pl_transport *transport = group->transport;
    const pl_piece own = group->outgoing[group->rank];
    PL_TRY(transport->table->exchange(transport, data, group->outgoing, group->scratch,
                                      group->incoming));
    float *run = (float *)(void *)((char *)data + own.at);
    const size_t n = own.bytes / sizeof(float);
    pl_sum_in_order(run, n, group->size, group->scratch, n, group->rank, run);
    return PARLIN_SUCCESS;
}

static parlin_status reduce_small(parlin_group *group, float *data, size_t n)
{
    pl_transport *transport = group->transport;
    PL_TRY(transport->table->all_gather(transport, data, group->outgoing));
    pl_sum_in_order(data, n, group->size, data, n, -1, NULL);
    return PARLIN_SUCCESS;
}

parlin_status pl_all_reduce(parlin_group *group, parlin_status local, const pl_call *call,
                            const parlin_tensor *source, const parlin_tensor *destination)
{
    if (group->size == 1)
        return pl_alone(group, local, source, destination);
    pl_transport *transport = group->transport;
    const size_t p = (size_t)group->size;
    size_t n = 0;
    bool small = false;
    pl_flow flow;
    PL_TRY(pl_flow_begin(&flow, group, call, "all-reduce"));
    if (local == PARLIN_SUCCESS) {
        n = source->rows * source->cols;
        small = n <= SMALL_BYTES / sizeof(float) / p;
        local = pl_flow_stage(&flow, (small ? p * n : n) * sizeof(float));
    }
    if (local == PARLIN_SUCCESS && small) {
        for (size_t q = 0; q < p; q++)
            group->outgoing[q] = (pl_piece){q * n * sizeof(float), n * sizeof(float)};
    } else if (local == PARLIN_SUCCESS) {
        local = pl_group_scratch(group, cut_slices(group, n, group->outgoing, group->incoming));
    }
    float *data = flow.staging.host;
    if (local == PARLIN_SUCCESS && n > 0)
        local = pl_run_read(group->device, source, small ? data + (size_t)group->rank * n : data);

    parlin_status status = pl_flow_agree(&flow, local);
    if (status == PARLIN_SUCCESS && n > 0 && small) {
        status = reduce_small(group, data, n);
    } else if (status == PARLIN_SUCCESS && n > 0) {
        status = sum_owned(group, data);
        if (status == PARLIN_SUCCESS)
            status = transport->table->all_gather(transport, data, group->outgoing);
    }
    pl_flow_leave(&flow);
    if (status == PARLIN_SUCCESS && n > 0)
        status = pl_run_write(group->device, destination, data);
    return pl_flow_end(&flow, status);
}

parlin_status pl_reduce_scatter(parlin_group *group, parlin_status local, const pl_call *call,
                                int dim, const size_t *lengths, const parlin_tensor *source,
                                const parlin_tensor *destination)
{
    if (group->size == 1)
        return pl_alone(group, local, source, destination);
    bool empty = true;
    pl_flow flow;
    PL_TRY(pl_flow_begin(&flow, group, call, "reduce-scatter"));
    if (local == PARLIN_SUCCESS) {
        empty = pl_empty(source);
        pl_layout_pieces(group->size, 1, lengths, dim == 0 ? source->cols : source->rows,
                         sizeof(float), group->outgoing);
        local = pl_flow_stage(&flow, pl_dense_bytes(source));
    }
    if (local == PARLIN_SUCCESS) {
        const size_t own = group->outgoing[group->rank].bytes;
        size_t bytes = 0;
        for (int q = 0; q < group->size; q++)
            group->incoming[q] = (pl_piece){.at = (size_t)q * own, .bytes = own};
        if (pl_size_mul((size_t)group->size, own, &bytes))
            local = pl_group_scratch(group, bytes);
        else
            local = pl_error(PARLIN_ERROR_MEMORY, "reduce-scatter: %d parts of %zu bytes",
                             group->size, own);
    }
    const pl_layout whole = {source, dim, group->size, 1, lengths, group->outgoing};
    if (local == PARLIN_SUCCESS)
        local = pl_layout_read(group->device, &whole, flow.staging.host);

    parlin_status status = pl_flow_agree(&flow, local);
    if (status == PARLIN_SUCCESS && !empty)
        status = sum_owned(group, flow.staging.host);
    pl_flow_leave(&flow);
    if (status == PARLIN_SUCCESS && !empty)
        status = pl_run_write(group->device, destination,
                              (char *)flow.staging.host + group->outgoing[group->rank].at);
    return pl_flow_end(&flow, status);
}

parlin_status pl_all_gather(parlin_group *group, parlin_status local, const pl_call *call, int dim,
                            size_t parts, const size_t *lengths, const parlin_tensor *source,
                            const parlin_tensor *destination)
{
    if (group->size == 1)
        return pl_alone(group, local, source, destination);
    pl_transport *transport = group->transport;
    bool empty = true;
    pl_flow flow;
    PL_TRY(pl_flow_begin(&flow, group, call, "all-gather"));
    if (local == PARLIN_SUCCESS) {
        empty = pl_empty(destination);
        pl_layout_pieces(group->size, parts, lengths,
                         dim == 0 ? destination->cols : destination->rows,
                         parlin_dtype_size(destination->dtype), group->outgoing);
        local = pl_flow_stage(&flow, pl_dense_bytes(destination));
    }
    char *data = flow.staging.host;
    if (local == PARLIN_SUCCESS && !pl_empty(source))
        local = pl_run_read(group->device, source, data + group->outgoing[group->rank].at);

    parlin_status status = pl_flow_agree(&flow, local);
    if (status == PARLIN_SUCCESS && !empty)
        status = transport->table->all_gather(transport, data, group->outgoing);
    pl_flow_leave(&flow);
    const pl_layout whole = {destination, dim, group->size, parts, lengths, group->outgoing};
    if (status == PARLIN_SUCCESS && !empty)
        status = pl_layout_write(group->device, &whole, data);
    return pl_flow_end(&flow, status);
}
