/* SPDX-License-Identifier: Apache-2.0 */
/* The way of one collective call: enter, read to staging, agree, send, leave, write back. */
#ifndef PL_COMM_FLOW_H
#define PL_COMM_FLOW_H

#include "comm/group.h"
#include "comm/layout.h"

typedef struct pl_flow {
    parlin_group *group;
    const pl_call *call; /* NULL: agreed before */
    pl_staging staging;
    double lap; /* where the group is timed: when the part at hand began */
} pl_flow;

/* `name` serves in messages where call is NULL. */
parlin_status pl_flow_begin(pl_flow *flow, parlin_group *group, const pl_call *call,
                            const char *name);

/* flow->staging.host has `bytes` bytes; nothing is taken for 0. */
parlin_status pl_flow_stage(pl_flow *flow, size_t bytes);

/* As pl_agree. Without a record a failure here leaves the others waiting: the group is lost. */
parlin_status pl_flow_agree(pl_flow *flow, parlin_status local);

/* The last message is done (or the call failed): other calls may use MPI. */
void pl_flow_leave(pl_flow *flow);

/* Gives the staging back, in a lost group never. Returns `status`. */
parlin_status pl_flow_end(pl_flow *flow, parlin_status status);

/* Collectives beside those of comm.h. */
parlin_status pl_broadcast(parlin_group *group, parlin_status local, const pl_call *call, int root,
                           const parlin_tensor *tensor);
parlin_status pl_all_to_all(parlin_group *group, parlin_status local, const pl_call *call, int dim,
                            const size_t *send_lengths, const size_t *receive_lengths,
                            const parlin_tensor *source, const parlin_tensor *destination);

/* What a group of one does: destination = source. */
parlin_status pl_alone(parlin_group *group, parlin_status local, const parlin_tensor *source,
                       const parlin_tensor *destination);

#endif
