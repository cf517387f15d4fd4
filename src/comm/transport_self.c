/* SPDX-License-Identifier: Apache-2.0 */
/* A group of this process alone: nothing to send, and no MPI call. */
#include "comm/transport.h"

#include <stdlib.h>
#include <string.h>

#include "core/status.h"

static parlin_status self_enter(pl_transport *t)
{
    (void)t;
    return PARLIN_SUCCESS;
}

static void self_leave(pl_transport *t)
{
    (void)t;
}

static parlin_status self_max(pl_transport *t, const uint64_t *in, uint64_t *out, int count)
{
    (void)t;
    memcpy(out, in, (size_t)count * sizeof *out);
    return PARLIN_SUCCESS;
}

static parlin_status self_broadcast(pl_transport *t, int root, void *data, size_t bytes)
{
    (void)t, (void)root, (void)data, (void)bytes;
    return PARLIN_SUCCESS;
}

static parlin_status self_all_gather(pl_transport *t, void *data, const pl_piece *pieces)
{
    (void)t, (void)data, (void)pieces;
    return PARLIN_SUCCESS;
}

static parlin_status self_exchange(pl_transport *t, const void *send, const pl_piece *outgoing,
                                   void *receive, const pl_piece *incoming)
{
    (void)t, (void)send, (void)outgoing, (void)receive, (void)incoming;
    return PARLIN_SUCCESS;
}

static parlin_status self_split(pl_transport *t, int color, int key, pl_transport **part)
{
    (void)t, (void)key;
    *part = NULL;
    return color < 0 ? PARLIN_SUCCESS : pl_transport_self(part);
}

static void self_destroy(pl_transport *t)
{
    free(t);
}

static const pl_transport_table self_table = {
    .enter = self_enter,
    .leave = self_leave,
    .max = self_max,
    .broadcast = self_broadcast,
    .all_gather = self_all_gather,
    .exchange = self_exchange,
    .split = self_split,
    .destroy = self_destroy,
};

parlin_status pl_transport_self(pl_transport **transport)
{
    pl_transport *t = calloc(1, sizeof *t);
    if (!t)
        return pl_error(PARLIN_ERROR_MEMORY, "group of one: no %zu bytes of host memory",
                        sizeof *t);
    t->table = &self_table;
    t->size = 1;
    t->local_size = 1;
    *transport = t;
    return PARLIN_SUCCESS;
}
