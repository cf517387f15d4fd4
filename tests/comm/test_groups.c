/* SPDX-License-Identifier: Apache-2.0 */
/* Making, splitting and closing groups; what is refused, and that it leaks nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/group.h"
#include "views.h"

static parlin_group *const untouched = (parlin_group *)(void *)&support_seed;

static bool is_last(void)
{
    return support_rank() == support_size() - 1;
}

/* sum over the group of `value` */
static float sum_of(parlin_group *group, float value)
{
    parlin_tensor tensor;
    assert_ok(parlin_tensor_create(group, PARLIN_F32, 1, 1, &tensor));
    assert_ok(parlin_tensor_write(tensor, &value));
    assert_ok(parlin_all_reduce(group, tensor, tensor));
    assert_ok(parlin_tensor_read(tensor, &value));
    parlin_tensor_destroy(&tensor);
    return value;
}

static void test_rank_and_size(void **state)
{
    (void)state;
    parlin_group *group = support_group();
    assert_int_equal(parlin_group_rank(group), support_rank());
    assert_int_equal(parlin_group_size(group), support_size());
    assert_non_null(parlin_group_device(group));
    assert_in_range(group->transport->local_rank, 0, group->transport->local_size - 1);
}

static void test_param_ids_count_up(void **state)
{
    (void)state;
    parlin_group *group;
    assert_ok(
        parlin_group_create(parlin_group_device(support_group()), MPI_COMM_WORLD, NULL, &group));
    assert_int_equal(pl_group_next_param_id(group), 1);
    assert_int_equal(pl_group_next_param_id(group), 2);
    parlin_group_close(group);
}

/* Even and odd ranks apart, each in reverse order: member k of n has world rank
   color + 2 (n-1-k). */
static void test_split_by_parity_in_reverse(void **state)
{
    (void)state;
    const int p = support_size(), r = support_rank(), color = r % 2;
    const int members = (p + 1 - color) / 2;
    parlin_group *part = NULL;
    assert_ok(parlin_group_split(support_group(), color, -r, &part));
    assert_int_equal(parlin_group_size(part), members);
    assert_int_equal(parlin_group_rank(part), members - 1 - r / 2);
    assert_ptr_equal(parlin_group_device(part), parlin_group_device(support_group()));

    float mine = (float)r, *wanted = support_alloc_floats((size_t)members);
    for (int k = 0; k < members; k++)
        wanted[k] = (float)(color + 2 * (members - 1 - k));
    test_view source = view_make(part, PARLIN_F32, 1, 1);
    test_view result = view_make(part, PARLIN_F32, (size_t)members, 1);
    view_write(&source, &mine);
    assert_ok(parlin_all_gather(part, 0, NULL, source.tensor, result.tensor));
    assert_view(&result, wanted, "all-gather in a sub-group");
    view_free(&source);
    view_free(&result);
    free(wanted);
    parlin_group_close(part);
}

static void test_a_negative_color_takes_no_part(void **state)
{
    (void)state;
    parlin_group *part = untouched;
    assert_ok(parlin_group_split(support_group(), is_last() ? -1 : 5, 0, &part));
    if (is_last()) {
        assert_null(part);
    } else {
        assert_int_equal(parlin_group_size(part), support_size() - 1);
        assert_true(sum_of(part, 2) == 2 * (float)(support_size() - 1));
    }
    parlin_group_close(part);
}

/* A sub-group outlives the group it came from, and is split again. */
static void test_closing_in_any_order(void **state)
{
    (void)state;
    parlin_group *group, *part, *pair;
    assert_ok(parlin_group_open(MPI_COMM_WORLD, NULL, &group));
    assert_ok(parlin_group_split(group, 0, 0, &part));
    parlin_group_close(group);
    assert_true(sum_of(part, 1) == (float)support_size());
    assert_ok(parlin_group_split(part, support_rank() / 2, 0, &pair));
    parlin_group_close(part);
    assert_true(sum_of(pair, 1) == (float)parlin_group_size(pair));
    parlin_group_close(pair);
}

static void test_split_refused_on_one_rank(void **state)
{
    (void)state;
    parlin_group *part = untouched;
    assert_refused(parlin_group_split(support_group(), 0, 0, is_last() ? NULL : &part),
                   PARLIN_ERROR_ARGUMENT, "parlin_group_split: part is NULL");
    assert_ptr_equal(part, untouched);
    assert_refused(parlin_group_split(NULL, 0, 0, &part), PARLIN_ERROR_ARGUMENT, "group is NULL");
    assert_true(sum_of(support_group(), 1) == (float)support_size());
}

/* The same failure on all ranks, that names the one with the bad configuration. */
static void config_refused(const parlin_group_config *config, parlin_status wanted,
                           const char *text)
{
    parlin_group *group = untouched;
    char prefix[32] = "parlin_group_open";
    if (support_size() > 1)
        snprintf(prefix, sizeof prefix, "rank %d: ", support_size() - 1);
    assert_refused(parlin_group_open(MPI_COMM_WORLD, config, &group), wanted, prefix, text);
    assert_ptr_equal(group, untouched);
}

static void test_a_configuration_refused_on_one_rank(void **state)
{
    (void)state;
    parlin_group_config config = parlin_group_defaults();
    assert_true(config.timeout_seconds == 300);
    assert_null(config.device);
    config.struct_size = is_last() ? 0 : sizeof config;
    config_refused(&config, PARLIN_ERROR_ARGUMENT, "config.struct_size is 0");
    config.struct_size = is_last() ? sizeof config + 8 : sizeof config;
    config_refused(&config, PARLIN_ERROR_ARGUMENT, "config.struct_size is");
    config.struct_size = sizeof config;
    config.timeout_seconds = is_last() ? -1 : 60;
    config_refused(&config, PARLIN_ERROR_ARGUMENT, "config.timeout_seconds is -1");
    config.timeout_seconds = is_last() ? (double)NAN : 60;
    config_refused(&config, PARLIN_ERROR_ARGUMENT, "config.timeout_seconds is");
}

static void test_a_device_missing_on_one_rank(void **state)
{
    (void)state;
    parlin_group_config config = parlin_group_defaults();
    parlin_group *group = untouched;
    if (is_last())
        config.device = "no such device";
    const char *text = "no such device";
    assert_refused(parlin_group_open(MPI_COMM_WORLD, &config, &group), PARLIN_ERROR_NO_DEVICE,
                   text);
    assert_ptr_equal(group, untouched);
    parlin_device *device = is_last() ? NULL : parlin_group_device(support_group());
    assert_refused(parlin_group_create(device, MPI_COMM_WORLD, NULL, &group), PARLIN_ERROR_ARGUMENT,
                   "parlin_group_create: device is NULL");
    assert_ptr_equal(group, untouched);
    assert_refused(parlin_group_open(MPI_COMM_WORLD, NULL, is_last() ? NULL : &group),
                   PARLIN_ERROR_ARGUMENT, "parlin_group_open: group is NULL");
    assert_ptr_equal(group, untouched);
}

static void test_no_communicator(void **state)
{
    (void)state;
    parlin_group *group = untouched;
    assert_refused(parlin_group_open(MPI_COMM_NULL, NULL, &group), PARLIN_ERROR_ARGUMENT,
                   "parlin_group_open: comm is MPI_COMM_NULL");
    assert_ptr_equal(group, untouched);
}

/* Some ranks bring a device, others open one; the caller's reference may go at once. */
static void test_open_and_create_in_one_group(void **state)
{
    (void)state;
    parlin_group *group;
    if (is_last()) {
        parlin_device *device;
        assert_ok(parlin_device_open(NULL, &device));
        assert_ok(parlin_group_create(device, MPI_COMM_WORLD, NULL, &group));
        assert_ptr_equal(parlin_group_device(group), device);
        parlin_device_close(device);
    } else {
        assert_ok(parlin_group_open(MPI_COMM_WORLD, NULL, &group));
    }
    assert_true(sum_of(group, 3) == 3 * (float)support_size());
    parlin_group_close(group);
}

/* MPICH has some 2000 communicators: one lost at each failed or closed group would be told (at one
   and two ranks; with more on few cores a split takes too long). */
static void test_failures_and_closing_leak_no_communicator(void **state)
{
    (void)state;
    parlin_group_config bad = parlin_group_defaults();
    parlin_device *device = parlin_group_device(support_group());
    const int times = support_size() <= 2 ? 1100 : 1;
    bad.timeout_seconds = is_last() ? -1 : 60;
    for (int i = 0; i < times; i++) {
        parlin_group *group = NULL, *part;
        parlin_status status = parlin_group_create(device, MPI_COMM_WORLD, &bad, &group);
        assert_int_equal(status, PARLIN_ERROR_ARGUMENT);
        assert_ok(parlin_group_create(device, MPI_COMM_WORLD, NULL, &group));
        assert_ok(parlin_group_split(group, 0, 0, &part));
        parlin_group_close(group);
        parlin_group_close(part);
    }
}

/* The time limit of a group is that of its parts. */
static void test_a_part_inherits_the_time_limit(void **state)
{
    (void)state;
    parlin_group_config config = parlin_group_defaults();
    parlin_group *group, *part;
    config.timeout_seconds = 17;
    assert_ok(
        parlin_group_create(parlin_group_device(support_group()), MPI_COMM_WORLD, &config, &group));
    assert_ok(parlin_group_split(group, 0, 0, &part));
    assert_true(part->transport->wait.limit == 17);
    parlin_group_close(group);
    parlin_group_close(part);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_and_size),
        cmocka_unit_test(test_param_ids_count_up),
        cmocka_unit_test(test_split_by_parity_in_reverse),
        cmocka_unit_test(test_a_negative_color_takes_no_part),
        cmocka_unit_test(test_closing_in_any_order),
        cmocka_unit_test(test_split_refused_on_one_rank),
        cmocka_unit_test(test_a_configuration_refused_on_one_rank),
        cmocka_unit_test(test_a_device_missing_on_one_rank),
        cmocka_unit_test(test_no_communicator),
        cmocka_unit_test(test_open_and_create_in_one_group),
        cmocka_unit_test(test_failures_and_closing_leak_no_communicator),
        cmocka_unit_test(test_a_part_inherits_the_time_limit),
    };
    return SUPPORT_RUN_MPI("comm_groups", tests);
}
