/* SPDX-License-Identifier: Apache-2.0 */
/* C32, the part of this room: groups, a sub-group, tensors and the device released after
   MPI_Finalize, in both orders, with no MPI call (MPICH aborts on one); and calls that come too
   late are told so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <parlin/mpi.h>
#include <parlin/parlin.h>

static int failed;
static int late_calls;

/* MPI's profiling interface. */
int MPI_Comm_free(MPI_Comm *comm)
{
    int ended;
    MPI_Finalized(&ended);
    if (ended)
        return late_calls++, MPI_SUCCESS;
    return PMPI_Comm_free(comm);
}

static void check(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "%s: %s\n", what, parlin_last_error());
    failed = 1;
}

int main(int argc, char **argv)
{
    parlin_group *group, *part, *kept, *late = NULL;
    parlin_device *device;
    parlin_tensor tensor;
    MPI_Init(&argc, &argv);
    if (parlin_device_open(NULL, &device) || parlin_group_open(MPI_COMM_WORLD, NULL, &group) ||
        parlin_group_split(group, 0, 0, &part) ||
        parlin_group_create(device, MPI_COMM_WORLD, NULL, &kept) ||
        parlin_tensor_create(kept, PARLIN_F32, 3, 3, &tensor) ||
        parlin_all_reduce(kept, tensor, tensor)) {
        fprintf(stderr, "%s\n", parlin_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int size = parlin_group_size(group);
    MPI_Finalize();

    check(parlin_group_open(MPI_COMM_WORLD, NULL, &late) == PARLIN_ERROR_STATE, "open");
    check(strstr(parlin_last_error(), "MPI has ended") != NULL, "sentence");
    check(late == NULL, "group written");
    if (size > 1) {
        check(parlin_barrier(kept) == PARLIN_ERROR_STATE, "barrier");
        check(strstr(parlin_last_error(), "barrier: MPI has ended") != NULL, "sentence");
    }
    parlin_device_close(device);
    parlin_group_close(group);
    parlin_group_close(kept);
    parlin_tensor_destroy(&tensor);
    parlin_group_close(part);
    check(late_calls == 0, "MPI call after MPI_Finalize");
    return failed;
}
