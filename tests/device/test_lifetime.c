/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing over and over, and several threads, each with a device of its own. */
#include <pthread.h>
#include <stdlib.h>

#include "device_support.h"

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    use_test_kernels();
    make_temp_folder(folder);
    setenv("PARLIN_CACHE_DIR", folder, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

static void use_once(void)
{
    parlin_device *device = open_device();
    pl_scratch scratch;
    pl_staging staging;
    run_fill(device, 2);
    assert_ok(pl_scratch_take(device, 100000, &scratch));
    assert_ok(pl_staging_take(device, 100000, &staging));
    pl_scratch_give(device, &scratch);
    pl_staging_give(device, &staging);
    parlin_device_close(device);
}

/* The device's part of C25. A leak of one of the 100 kB blocks would be 10 MB. */
static void case_C25_open_and_close(void **state)
{
    (void)state;
    enum { ALLOWED = 4 << 20 };
#ifdef __SANITIZE_ADDRESS__
    SUPPORT_SKIP("AddressSanitizer keeps what was freed, so that resident memory says nothing");
    return;
#endif
    for (int i = 0; i < 30; i++)
        use_once();
    size_t before = resident_bytes();
    for (int i = 0; i < 100; i++)
        use_once();
    size_t after = resident_bytes();
    if (after > before + ALLOWED)
        fail_msg("resident memory grew from %zu to %zu bytes in 100 rounds", before, after);
}

/* The argument, or NULL after a failure. */
static void *work(void *argument)
{
    parlin_status status = PARLIN_SUCCESS;
    for (int i = 0; i < 5 && status == PARLIN_SUCCESS; i++) {
        parlin_device *device = NULL;
        status = parlin_device_open(NULL, &device);
        if (status == PARLIN_SUCCESS)
            status = try_fill(device, *(int *)argument);
        parlin_device_close(device);
    }
    if (status != PARLIN_SUCCESS)
        print_error("%s\n", parlin_last_error());
    return status == PARLIN_SUCCESS ? argument : NULL;
}

static void threads_with_a_device_each(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int values[THREADS] = {11, 12, 13, 13};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &values[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &values[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(threads_with_a_device_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(case_C25_open_and_close, set_up, tear_down),
    };
    return SUPPORT_RUN("device/lifetime", tests);
}
