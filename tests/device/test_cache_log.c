/* SPDX-License-Identifier: Apache-2.0 */
/* What the log says of the program cache: a program of its own, because the log's level is read
   once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_support.h"

/* A folder that cannot be written (it lies below a file): the log says it once, and all goes on. */
static void unwritable_folder(void **state)
{
    (void)state;
    char folder[64], path[128], log[128];
    use_test_kernels();
    make_temp_folder(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    write_file(path, "x", 1);
    strcat(path, "/below");
    setenv("PARLIN_CACHE_DIR", path, 1);
    snprintf(log, sizeof log, "%s/log", folder);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    FILE *file = fopen(log, "w");
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    parlin_device *one = open_device(), *two = open_device();
    cl_kernel kernel;
    parlin_status status = pl_device_kernel(one, "fill.cl", "fill", "", &kernel);
    if (status == PARLIN_SUCCESS)
        status = pl_device_kernel(two, "fill.cl", "fill", "", &kernel);
    run_fill(one, 7);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    fclose(file);
    assert_ok(status);
    parlin_device_close(one);
    parlin_device_close(two);
    size_t size;
    unsigned char *text = read_file(log, &size);
    text = realloc(text, size + 1);
    assert_non_null(text);
    text[size] = 0;
    const char *first = strstr((char *)text, "built programs are not kept: cannot write to ");
    assert_non_null(first);
    assert_non_null(strstr(first, path));
    assert_null(strstr(first + 1, "built programs are not kept"));
    free(text);
    remove_folder(folder);
}

int main(void)
{
    setenv("PARLIN_LOG", "info", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(unwritable_folder)};
    return SUPPORT_RUN("device/cache_log", tests);
}
