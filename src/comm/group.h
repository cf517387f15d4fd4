/* SPDX-License-Identifier: Apache-2.0 */
/* What a group is, inside the room. */
#ifndef PL_COMM_GROUP_H
#define PL_COMM_GROUP_H

#include "comm/comm.h"
#include "comm/transport.h"
#include "core/ref.h"
#include "device/device.h"

struct parlin_group {
    pl_ref ref;
    parlin_device *device;
    pl_transport *transport;
    int rank, size;
    uint64_t param_ids; /* given out so far */
    bool timing;
    parlin_group_counters counters;

    /* Work space of the collectives, [size] each. */
    size_t *lengths, *lengths_in; /* runs that the caller left to us */
    pl_piece *outgoing, *incoming;

    /* Host memory that only the wire uses; it grows and stays. */
    void *scratch;
    size_t scratch_bytes;

    /* Of the call in which the group was lost: never given back. */
    pl_staging kept, kept_result;
};

/* Refuses a configuration; NULL is the defaults. *out is valid in any case. */
parlin_status pl_group_check_config(const char *call, const parlin_group_config *config,
                                    parlin_group_config *out);

/* Ends the creation of a group on a transport, which it owns from now on: opens a device where
   `open` (else retains `device`), and agrees. `local` is a failure found before. Collective. */
parlin_status pl_group_form(const char *call, parlin_status local, pl_transport *transport,
                            bool open, parlin_device *device, const parlin_group_config *config,
                            parlin_group **out);

/* pl_agree inside a call that has entered the transport. */
parlin_status pl_agree_entered(pl_transport *transport, parlin_status local, const pl_call *call);

/* group->scratch has at least so many bytes. */
parlin_status pl_group_scratch(parlin_group *group, size_t bytes);

/* Units of rank r where n are cut over p ranks, earlier ranks taking one more (as partition/,
   which this room does not know, cuts everything), and the first of them. */
static inline size_t pl_even_length(size_t n, int p, int r)
{
    return n / (size_t)p + ((size_t)r < n % (size_t)p ? 1 : 0);
}

static inline size_t pl_even_start(size_t n, int p, int r)
{
    size_t more = n % (size_t)p;
    return n / (size_t)p * (size_t)r + ((size_t)r < more ? (size_t)r : more);
}

#endif
