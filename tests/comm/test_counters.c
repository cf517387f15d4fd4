/* SPDX-License-Identifier: Apache-2.0 */
/* What a group says of its collectives: counted always, timed where asked, and the same results. */
#include "support.h"

enum { ROWS = 3, COLS = 5, N = ROWS * COLS, CALLS = 4 };

static parlin_group *open_group(bool timing)
{
    parlin_group_config config = parlin_group_defaults();
    parlin_group *group = NULL;
    assert_false(config.timing);
    config.timing = timing;
    config.timeout_seconds = 60;
    assert_ok(parlin_group_open(MPI_COMM_WORLD, &config, &group));
    return group;
}

/* sum over r of (r + 1) = p (p + 1) / 2 */
static void reduce(parlin_group *group)
{
    const int p = parlin_group_size(group);
    float in[N], out[N];
    parlin_tensor x, y;
    for (size_t i = 0; i < N; i++)
        in[i] = (float)(parlin_group_rank(group) + 1);
    assert_ok(parlin_tensor_create(group, PARLIN_F32, ROWS, COLS, &x));
    assert_ok(parlin_tensor_create(group, PARLIN_F32, ROWS, COLS, &y));
    assert_ok(parlin_tensor_write(x, in));
    for (int call = 0; call < CALLS; call++) {
        support_poison(out, N);
        assert_ok(parlin_tensor_write(y, out));
        assert_ok(parlin_all_reduce(group, x, y));
        assert_ok(parlin_tensor_read(y, out));
        for (size_t i = 0; i < N; i++)
            assert_float_equal(out[i], p * (p + 1) / 2, 0);
    }
    parlin_tensor_destroy(&x);
    parlin_tensor_destroy(&y);
}

static void check_counters(parlin_group *group, bool timing)
{
    const bool joined = parlin_group_size(group) > 1;
    parlin_group_counters before = parlin_group_get_counters(group);
    reduce(group);
    parlin_group_counters after = parlin_group_get_counters(group);
    assert_int_equal(after.collectives - before.collectives, joined ? CALLS : 0);
    const double seconds[] = {after.device_seconds - before.device_seconds,
                              after.staging_seconds - before.staging_seconds,
                              after.message_seconds - before.message_seconds};
    for (size_t i = 0; i < 3; i++)
        assert_true(joined && timing ? seconds[i] > 0 : seconds[i] == 0);
}

static void counts(void **state)
{
    (void)state;
    for (int timing = 0; timing < 2; timing++) {
        parlin_group *group = open_group(timing), *part = NULL;
        check_counters(group, timing);
        /* a part is timed like its whole, and counts by itself */
        assert_ok(parlin_group_split(group, parlin_group_rank(group) % 2, 0, &part));
        assert_int_equal(parlin_group_get_counters(part).collectives, 0);
        check_counters(part, timing);
        parlin_group_close(part);
        parlin_group_close(group);
    }
}

static void refused_calls_count_too(void **state)
{
    (void)state;
    parlin_group *group = open_group(true);
    const parlin_tensor none = {0};
    const uint64_t wanted = parlin_group_size(group) > 1 ? 1 : 0;
    assert_refused(parlin_all_reduce(group, none, none), PARLIN_ERROR_ARGUMENT, "all-reduce");
    assert_int_equal(parlin_group_get_counters(group).collectives, wanted);
    check_counters(group, true);
    parlin_group_close(group);
}

static void no_group(void **state)
{
    (void)state;
    parlin_group_counters none = parlin_group_get_counters(NULL);
    assert_int_equal(none.collectives, 0);
    assert_true(none.device_seconds == 0 && none.staging_seconds == 0 && none.message_seconds == 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(refused_calls_count_too),
        cmocka_unit_test(no_group),
    };
    return SUPPORT_RUN_MPI("comm_counters", tests);
}
