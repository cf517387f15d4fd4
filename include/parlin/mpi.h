/* SPDX-License-Identifier: Apache-2.0 */
/* Groups over the caller's MPI communicator. MPI is started and ended by the caller. */
#ifndef PARLIN_MPI_H
#define PARLIN_MPI_H

#include <mpi.h>

#include <parlin/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A group over all ranks of `comm` (duplicated; the caller's stays as it is), each rank on the
   device that config or PARLIN_DEVICE names, else on one of its node's devices of the best
   class, by its place among the node's ranks. `config` may be NULL. A communicator of one rank
   works like any other. Ownership: the caller closes the group. Collective over comm. Errors:
   ARGUMENT, STATE (MPI not started, or ended), NO_DEVICE, DEVICE, COMM; where one rank fails,
   all do, and name it. */
PARLIN_API parlin_status parlin_group_open(MPI_Comm comm, const parlin_group_config *config,
                                           parlin_group **group);

/* The same on a device that is already open, of which the group keeps a reference. */
PARLIN_API parlin_status parlin_group_create(parlin_device *device, MPI_Comm comm,
                                             const parlin_group_config *config,
                                             parlin_group **group);

#ifdef __cplusplus
}
#endif

#endif
