/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that never comes: the others get GROUP_LOST after the group's second, every later call at
   once, and all end cleanly. Run by 2 ranks and more. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/group.h"
#include "views.h"

/* MPI's profiling interface: how often the library calls what it would on a group that lives. */
static int mpi_calls;

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    mpi_calls++;
    return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

int MPI_Testall(int count, MPI_Request requests[], int *done, MPI_Status statuses[])
{
    mpi_calls++;
    return PMPI_Testall(count, requests, done, statuses);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    mpi_calls++;
    return PMPI_Comm_free(comm);
}

static bool missing(void)
{
    return support_rank() == support_size() - 1;
}

/* The ranks meet again, without parlin and without holding a core. */
static void meet(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        sched_yield();
    }
}

static parlin_group *short_group(void)
{
    parlin_group_config config = parlin_group_defaults();
    parlin_group *group;
    config.timeout_seconds = 1;
    assert_ok(
        parlin_group_create(parlin_group_device(support_group()), MPI_COMM_WORLD, &config, &group));
    return group;
}

/* Every call says so at once and makes no MPI call; the group's end neither. Closes the group. */
static void assert_lost(parlin_group *group, const parlin_tensor *tensor)
{
    parlin_group *part = NULL;
    size_t *bytes = support_alloc((size_t)support_size() * sizeof *bytes);
    assert_in_range(mpi_calls, 1, INT_MAX);
    mpi_calls = 0;
    memset(bytes, 0, (size_t)support_size() * sizeof *bytes);
    for (int times = 0; times < 200; times++) {
        assert_refused(parlin_barrier(group), PARLIN_ERROR_GROUP_LOST, "barrier: the group",
                       "was lost before");
        assert_int_equal(parlin_all_reduce(group, *tensor, *tensor), PARLIN_ERROR_GROUP_LOST);
        assert_int_equal(parlin_broadcast(group, 0, *tensor), PARLIN_ERROR_GROUP_LOST);
        assert_int_equal(parlin_group_split(group, 0, 0, &part), PARLIN_ERROR_GROUP_LOST);
        assert_int_equal(pl_gather_host(group, 0, bytes, NULL, NULL), PARLIN_ERROR_GROUP_LOST);
    }
    assert_null(part);
    free(bytes);
    parlin_group_close(group);
    assert_int_equal(mpi_calls, 0);
}

static void test_a_rank_that_never_comes(void **state)
{
    (void)state;
    parlin_group *group = short_group();
    test_view in = view_make(group, PARLIN_F32, 100, 70),
              out = view_make(group, PARLIN_F32, 100, 70);
    meet();
    if (!missing()) {
        char who[32];
        snprintf(who, sizeof who, "rank %d of %d", support_rank(), support_size());
        assert_refused(parlin_all_reduce(group, in.tensor, out.tensor), PARLIN_ERROR_GROUP_LOST,
                       "all-reduce: ", who, "timeout_seconds = 1", "the group is lost");
        assert_untouched(&out, "all-reduce that was lost before its agreement");
        assert_lost(group, &in.tensor);
    }
    view_free(&in);
    view_free(&out);
    meet();
    if (missing())
        parlin_group_close(group);
    assert_ok(parlin_barrier(support_group()));
}

/* Lost in the middle of the data: the missing rank agrees, and then sends nothing. Staging and
   requests outlive the group. */
static void test_a_rank_that_stops_after_the_agreement(void **state)
{
    (void)state;
    static const char *const names[] = {"rows", "cols", "dtype"};
    const pl_call call = {
        .operation = "all-reduce", .names = names, .number = {400, 300, PARLIN_F32}, .count = 3};
    parlin_group *group = short_group();
    parlin_tensor tensor;
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 400, 300, &tensor));
    meet();
    if (missing()) {
        assert_ok(pl_agree(group, PARLIN_SUCCESS, &call));
    } else {
        assert_refused(parlin_all_reduce(group, tensor, tensor), PARLIN_ERROR_GROUP_LOST,
                       "all-reduce: rank ");
        assert_non_null(group->kept.host); /* what the pending requests point to */
        assert_lost(group, &tensor);
    }
    parlin_tensor_destroy(&tensor);
    meet();
    if (missing())
        parlin_group_close(group);
    assert_ok(parlin_barrier(support_group()));
}

/* A rank that cannot follow what was agreed before leaves the group, and the others run out of
   time. */
static void test_a_failure_without_agreement_loses_the_group(void **state)
{
    (void)state;
    parlin_group *group = short_group();
    parlin_tensor tensor;
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 4, 3, &tensor));
    meet();
    parlin_status local = PARLIN_SUCCESS;
    if (missing())
        local = parlin_tensor_create(group, (parlin_dtype)99, 1, 1, &tensor);
    parlin_status status = pl_all_reduce(group, local, NULL, &tensor, &tensor);
    assert_int_equal(status, missing() ? local : PARLIN_ERROR_GROUP_LOST);
    assert_lost(group, &tensor);
    parlin_tensor_destroy(&tensor);
    meet();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_that_never_comes),
        cmocka_unit_test(test_a_rank_that_stops_after_the_agreement),
        cmocka_unit_test(test_a_failure_without_agreement_loses_the_group),
    };
    return SUPPORT_RUN_MPI("comm_time_limit", tests);
}
