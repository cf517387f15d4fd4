/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks build at once into one empty cache folder. */
#include <stdio.h>
#include <stdlib.h>

#include "device_support.h"

/* The worst over the ranks; a failing one tells its own. */
static int worst(parlin_status status)
{
    int mine = status, all = 0;
    if (status != PARLIN_SUCCESS)
        print_error("rank %d: %s\n", support_rank(), parlin_last_error());
    /* parlin's barrier waits without taking the core from the ranks that still build. */
    assert_ok(parlin_barrier(support_group()));
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* The library's own epilogue kernel, which no rank has built before. */
static parlin_status own_kernel(parlin_device *device, int salt)
{
    char options[32];
    cl_kernel kernel;
    snprintf(options, sizeof options, "-DSALT=%d", salt);
    unsetenv("PARLIN_KERNELS");
    parlin_status status = pl_device_kernel(device, "epilogue.cl", "epilogue", options, &kernel);
    use_test_kernels();
    return status;
}

/* `kept`: with the cache on disk, where one rank's build serves all; else all build. */
static void build_at_once(bool kept, int rounds)
{
    char folder[64] = "";
    int salt = 0;
    use_test_kernels();
    if (support_rank() == 0) {
        make_temp_folder(folder);
        salt = (int)(support_seed() % 100000) * 100 +
               (kept ? 0 : 50); /* OpenCL's own cache is new to it as well */
    }
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Bcast(&salt, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) {
        char place[96];
        snprintf(place, sizeof place, "%s/%d", folder, round);
        setenv("PARLIN_CACHE_DIR", place, 1);
        setenv("PARLIN_CACHE", kept ? "on" : "off", 1);
        parlin_device *device = open_device();
        assert_ok(parlin_barrier(support_group()));
        assert_int_equal(worst(try_fill(device, salt + round)), PARLIN_SUCCESS);
        parlin_device_counters counters = parlin_device_get_counters(device);
        assert_int_equal(counters.programs_built + counters.programs_loaded, 1);
        assert_int_equal(worst(own_kernel(device, salt + round)), PARLIN_SUCCESS);
        parlin_device_close(device);
        /* Two sound files are left, which serve whoever comes next. */
        size_t files = support_rank() == 0 && kept ? count_files(place) : 0;
        assert_true(files == 0 || files == 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (support_rank() == 0)
        remove_folder(folder);
}

static void case_C29_all_ranks_build_at_once(void **state)
{
    (void)state;
    build_at_once(true, 20);
}

static void case_C29_without_a_cache_folder(void **state)
{
    (void)state;
    build_at_once(false, 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_C29_all_ranks_build_at_once),
        cmocka_unit_test(case_C29_without_a_cache_folder),
    };
    return SUPPORT_RUN_MPI("device/together", tests);
}
