/* SPDX-License-Identifier: Apache-2.0 */
/* A group of one, MPI not started: every collective is the identity. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "views.h"

/* C34: MPI was started by the caller; the library says so when it is not. */
static void case_C34_mpi_not_started(void **state)
{
    (void)state;
    parlin_group *group = NULL;
    int started = 1;
    assert_refused(parlin_group_open(MPI_COMM_WORLD, NULL, &group), PARLIN_ERROR_STATE,
                   "parlin_group_open: MPI is not started", "MPI_Init");
    assert_null(group);
    assert_refused(parlin_group_create(NULL, MPI_COMM_WORLD, NULL, &group), PARLIN_ERROR_STATE,
                   "parlin_group_create: MPI is not started");
    MPI_Initialized(&started);
    assert_false(started);
}

static void test_every_collective_is_the_identity(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    float host[6] = {1, 2, 3, 4, 5, 6};
    const size_t two = 2, three = 3;
    assert_int_equal(parlin_group_size(group), 1);
    assert_int_equal(parlin_group_rank(group), 0);
    for (int call = 0; call < 6; call++) {
        test_view in = view_make(group, PARLIN_F32, 2, 3), out = view_make(group, PARLIN_F32, 2, 3);
        view_write(&in, host);
        switch (call) {
        case 0:
            assert_ok(parlin_all_reduce(group, in.tensor, out.tensor));
            break;
        case 1:
            assert_ok(parlin_all_gather(group, 0, &two, in.tensor, out.tensor));
            break;
        case 2:
            assert_ok(parlin_all_gather(group, 1, NULL, in.tensor, out.tensor));
            break;
        case 3:
            assert_ok(parlin_reduce_scatter(group, 1, &three, in.tensor, out.tensor));
            break;
        case 4:
            assert_ok(parlin_all_to_all(group, 0, NULL, &two, in.tensor, out.tensor));
            break;
        default:
            assert_ok(parlin_all_reduce(group, in.tensor, in.tensor));
            assert_ok(parlin_broadcast(group, 0, in.tensor));
            assert_ok(parlin_barrier(group));
            assert_ok(parlin_all_reduce(group, in.tensor, out.tensor));
        }
        assert_view(&in, host, "source");
        assert_view(&out, host, "destination");
        view_free(&in);
        view_free(&out);
    }
}

static void test_refusals_are_those_of_any_group(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    const size_t three = 3;
    test_view in = view_make(group, PARLIN_F32, 2, 3), out = view_make(group, PARLIN_F32, 2, 3);
    test_view half = view_make(group, PARLIN_BF16, 2, 3);
    assert_refused(parlin_all_reduce(group, half.tensor, half.tensor), PARLIN_ERROR_UNSUPPORTED,
                   "all-reduce", "bf16");
    assert_refused(parlin_all_gather(group, 0, &three, in.tensor, out.tensor), PARLIN_ERROR_SHAPE,
                   "lengths sum up to 3, but destination has 2 rows");
    assert_refused(parlin_all_gather(group, 0, NULL, in.tensor, in.tensor), PARLIN_ERROR_ARGUMENT,
                   "overlap");
    assert_refused(parlin_broadcast(group, 1, in.tensor), PARLIN_ERROR_ARGUMENT, "root is 1");
    assert_untouched(&out, "destination of refused calls");
    view_free(&in);
    view_free(&out);
    view_free(&half);
}

static void test_split_and_gather(void **state)
{
    (void)state;
    parlin_group *part = support_group();
    assert_ok(parlin_group_split(support_group(), -1, 0, &part));
    assert_null(part);
    assert_ok(parlin_group_split(support_group(), 3, 0, &part));
    assert_int_equal(parlin_group_size(part), 1);
    assert_ok(parlin_barrier(part));
    parlin_group_close(part);
    char from[4] = "abc", to[4] = "";
    const size_t bytes = 4;
    assert_ok(pl_gather_host(support_group(), 0, &bytes, from, to));
    assert_string_equal(to, "abc");
}

static void test_configuration_and_device(void **state)
{
    (void)state;
    parlin_group_config config = parlin_group_defaults();
    parlin_group *group = NULL;
    parlin_device *device;
    config.struct_size = 0;
    assert_refused(parlin_group_open_single(&config, &group), PARLIN_ERROR_ARGUMENT,
                   "parlin_group_open_single: config.struct_size is 0");
    config = parlin_group_defaults();
    config.device = "no such device";
    assert_refused(parlin_group_open_single(&config, &group), PARLIN_ERROR_NO_DEVICE,
                   "no such device");
    assert_refused(parlin_group_create_single(NULL, NULL, &group), PARLIN_ERROR_ARGUMENT,
                   "parlin_group_create_single: device is NULL");
    assert_refused(parlin_group_open_single(NULL, NULL), PARLIN_ERROR_ARGUMENT, "group is NULL");
    assert_null(group);

    assert_ok(parlin_device_open(NULL, &device));
    assert_ok(parlin_group_create_single(device, NULL, &group));
    assert_ptr_equal(parlin_group_device(group), device);
    parlin_device_close(device);
    parlin_tensor tensor;
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 2, 2, &tensor));
    parlin_group_close(group);
    parlin_tensor_destroy(&tensor);
    assert_refused(parlin_tensor_create(NULL, PARLIN_F32, 2, 2, &tensor), PARLIN_ERROR_ARGUMENT,
                   "parlin_tensor_create: group is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C34_mpi_not_started),
        cmocka_unit_test(test_every_collective_is_the_identity),
        cmocka_unit_test(test_refusals_are_those_of_any_group),
        cmocka_unit_test(test_split_and_gather),
        cmocka_unit_test(test_configuration_and_device),
    };
    return SUPPORT_RUN("comm_single", tests);
}
