/* SPDX-License-Identifier: Apache-2.0 */
#include "device_support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

parlin_device *open_device(void)
{
    parlin_device *device = NULL;
    assert_ok(parlin_device_open(NULL, &device));
    return device;
}

void make_temp_folder(char path[64])
{
    strcpy(path, "/tmp/parlin-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char inner[512];
        struct stat what;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (lstat(inner, &what) == 0 && S_ISDIR(what.st_mode))
            remove_folder(inner);
        else
            unlink(inner);
    }
    closedir(folder);
    rmdir(path);
}

static bool is_program(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, ".lock") != 0;
}

size_t count_files(const char *path)
{
    size_t count = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        count += is_program(entry->d_name);
    closedir(folder);
    return count;
}

void only_file(const char *path, char *out, size_t room)
{
    DIR *folder = opendir(path);
    assert_non_null(folder);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!is_program(entry->d_name))
            continue;
        if (entry->d_name[0] == '.')
            fail_msg("%s was left in %s", entry->d_name, path);
        count++;
        snprintf(out, room, "%s/%s", path, entry->d_name);
    }
    closedir(folder);
    assert_int_equal(count, 1);
}

unsigned char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = support_alloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

void use_test_kernels(void)
{
    setenv("PARLIN_KERNELS", DEVICE_TEST_KERNELS, 1);
}

parlin_status try_fill(parlin_device *device, int value)
{
    enum { N = 100 };
    char options[64];
    float out[N];
    cl_kernel kernel;
    parlin_tensor tensor;
    snprintf(options, sizeof options, "-DVALUE=%d.0f", value);
    PL_TRY(pl_device_kernel(device, "fill.cl", "fill", options, &kernel));
    PL_TRY(parlin_tensor_create_on(device, PARLIN_F32, 1, N, &tensor));
    support_poison(out, N);
    parlin_status status = parlin_tensor_write(tensor, out);
    const size_t global = 128;
    const cl_ulong n = N;
    const pl_arg args[] = {PL_ARG(n), PL_ARG(tensor.buffer)};
    if (status == PARLIN_SUCCESS)
        status = pl_launch(device, kernel, 1, &global, NULL, args, 2);
    if (status == PARLIN_SUCCESS)
        status = parlin_tensor_read(tensor, out);
    for (size_t i = 0; status == PARLIN_SUCCESS && i < N; i++)
        if (out[i] != (float)value)
            status =
                pl_error(PARLIN_ERROR_DEVICE, "element %zu is %g, wanted %d", i, out[i], value);
    parlin_tensor_destroy(&tensor);
    return status;
}

void run_fill(parlin_device *device, int value)
{
    assert_ok(try_fill(device, value));
}

size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total, resident = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &total, &resident), 2);
    fclose(file);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}
