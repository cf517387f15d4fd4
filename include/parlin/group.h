/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ranks, each with a device, and the collectives on device tensors.

   Every collective begins with an agreement of all ranks on the operation, sizes, types and
   options. Where one rank's arguments were refused or ranks differ, all return an error that
   names the rank and its reason, no output is written, and the group goes on. A collective
   blocks the host until its last message is done; waiting gives the core away. After
   `timeout_seconds` in one call the group is lost: that call and every later collective on the
   group return PARLIN_ERROR_GROUP_LOST at once. */
#ifndef PARLIN_GROUP_H
#define PARLIN_GROUP_H

#include <parlin/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct parlin_group parlin_group;

typedef struct parlin_group_config {
    size_t struct_size; /* set by parlin_group_defaults */
    /* Longest wait in one collective, in seconds; 0: no limit. Default 300. */
    double timeout_seconds;
    /* For parlin_group_open: a specification as in parlin_device_open. NULL: PARLIN_DEVICE, else by
       the rank's place on its node. Need not be alike on all ranks. */
    const char *device;
    /* Measure where the time of collectives goes, for parlin_group_get_counters. Each then waits
       once more for the device. Default false; need not be alike on all ranks. */
    bool timing;
} parlin_group_config;

PARLIN_API parlin_group_config parlin_group_defaults(void);

/* A group of this process alone. No MPI call is made, MPI need not be started, every collective
   is the identity. parlin_group_open_single opens the device itself, parlin_group_create_single
   uses an open one and keeps a reference. `config` may be NULL. Ownership: the caller closes the
   group. Errors: ARGUMENT, NO_DEVICE, DEVICE. Not collective. Groups of many ranks are made in
   <parlin/mpi.h>. */
PARLIN_API parlin_status parlin_group_open_single(const parlin_group_config *config,
                                                  parlin_group **group);
PARLIN_API parlin_status parlin_group_create_single(parlin_device *device,
                                                    const parlin_group_config *config,
                                                    parlin_group **group);

/* Sub-groups: ranks with the same `color` form one, ordered by `key`, then by rank; a negative
   color takes no part and gets *part = NULL. The device is shared. Collective over `group`.
   Errors: COMM, GROUP_LOST. */
PARLIN_API parlin_status parlin_group_split(parlin_group *group, int color, int key,
                                            parlin_group **part);

/* Gives up the caller's reference; layers keep theirs, and the communicator is freed with the
   last. Collective in the sense that all ranks close their groups in the same order. Safe after
   MPI_Finalize (no MPI call is made then) and on a lost group. NULL is allowed. */
PARLIN_API void parlin_group_close(parlin_group *group);

/* Not collective. */
PARLIN_API int parlin_group_rank(const parlin_group *group);
PARLIN_API int parlin_group_size(const parlin_group *group);

/* The group's device; borrowed, it lives as long as the group. Not collective. */
PARLIN_API parlin_device *parlin_group_device(const parlin_group *group);

/* What the group's collectives, those of layers included, have taken since it was formed. The
   seconds stay 0 without `timing`, and in a group of one. Not collective. */
typedef struct parlin_group_counters {
    uint64_t collectives;
    double device_seconds;  /* waiting until the device has computed what is sent */
    double staging_seconds; /* copies between device and staging memory */
    double message_seconds; /* agreement, messages, waiting for other ranks, adding up parts */
} parlin_group_counters;

PARLIN_API parlin_group_counters parlin_group_get_counters(const parlin_group *group);

/* parlin_tensor_create_on for the group's device. Not collective. */
PARLIN_API parlin_status parlin_tensor_create(parlin_group *group, parlin_dtype dtype, size_t rows,
                                              size_t cols, parlin_tensor *tensor);

/* The collectives. `dim` is 0 (rows) or 1 (columns); `lengths` gives each rank's extent along
   dim, NULL means the full extent cut as parlin cuts everything: contiguous, in rank order,
   earlier ranks take one more. Lengths may be 0. Sources and destinations must not overlap
   unless they are the same view, where that is allowed. Errors of all: ARGUMENT, SHAPE,
   UNSUPPORTED, MEMORY, DEVICE, COMM, MISMATCH, GROUP_LOST. All are collective. */

/* destination = sum over ranks of source, same shape everywhere; may be the same view. f32.
   Summed in f32 in rank order: all ranks hold the same bits, call after call. */
PARLIN_API parlin_status parlin_all_reduce(parlin_group *group, parlin_tensor source,
                                           parlin_tensor destination);

/* destination = the ranks' sources one after the other along dim, in rank order, on every rank. */
PARLIN_API parlin_status parlin_all_gather(parlin_group *group, int dim, const size_t *lengths,
                                           parlin_tensor source, parlin_tensor destination);

/* destination = this rank's run along dim of the sum of all sources. f32, as parlin_all_reduce. */
PARLIN_API parlin_status parlin_reduce_scatter(parlin_group *group, int dim, const size_t *lengths,
                                               parlin_tensor source, parlin_tensor destination);

/* tensor = rank root's tensor. */
PARLIN_API parlin_status parlin_broadcast(parlin_group *group, int root, parlin_tensor tensor);

/* source is cut along dim into one run for each rank (send_lengths), and destination is what the
   ranks sent to this one, in rank order along dim (receive_lengths). NULL: that extent cut
   evenly, as above. */
PARLIN_API parlin_status parlin_all_to_all(parlin_group *group, int dim, const size_t *send_lengths,
                                           const size_t *receive_lengths, parlin_tensor source,
                                           parlin_tensor destination);

/* Returns when every rank has called it. Does not wait for device work. */
PARLIN_API parlin_status parlin_barrier(parlin_group *group);

#ifdef __cplusplus
}
#endif

#endif
