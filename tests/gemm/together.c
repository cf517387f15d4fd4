/* SPDX-License-Identifier: Apache-2.0 */
/* Eight ranks without any stored program ask CLBlast for their first products at once. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device_support.h"
#include "gemm_case.h"

static void first_products(void)
{
    /* rows > 1: the matrix program; one row: the vector program */
    static const size_t rows[] = {3, 1};
    for (size_t i = 0; i < 2; i++) {
        gemm_case one = {.engine = "clblast", .rows = rows[i], .out = 20, .in = 30};
        support_random random = {support_seed() + i};
        gemm_check(&one, &random);
    }
}

static void case_C29_all_ranks_build_clblast_at_once(void **state)
{
    (void)state;
    /* Opens the device before the ranks meet, so that they build together. */
    gemm_device();
    assert_ok(parlin_barrier(support_group()));
    first_products();
    gemm_device_close();
    /* Waits without taking the core from the ranks that still build. */
    assert_ok(parlin_barrier(support_group()));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(case_C29_all_ranks_build_clblast_at_once)};
    /* Read by PoCL and parlin when they start: one empty folder for all ranks, as the launcher's
       ranks share a parent. */
    char folder[64], path[96];
    snprintf(folder, sizeof folder, "/tmp/parlin-test-together-%ld", (long)getppid());
    snprintf(path, sizeof path, "%s/pocl", folder);
    mkdir(folder, 0700);
    setenv("POCL_CACHE_DIR", path, 1);
    snprintf(path, sizeof path, "%s/parlin", folder);
    setenv("PARLIN_CACHE_DIR", path, 1);
    int failed = SUPPORT_RUN_MPI("gemm/together", tests);
    remove_folder(folder);
    return failed;
}
