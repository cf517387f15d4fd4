/* SPDX-License-Identifier: Apache-2.0 */
/* Built programs on disk: used only where everything about them is right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/select.h"
#include "device_support.h"

enum { HEADER = 32 }; /* magic, key size, binary size, checksum */

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    use_test_kernels();
    make_temp_folder(folder);
    setenv("PARLIN_CACHE_DIR", folder, 1);
    unsetenv("PARLIN_CACHE");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_folder(folder);
    unsetenv("PARLIN_CACHE_DIR");
    unsetenv("PARLIN_CACHE");
    return 0;
}

/* Opens a device, builds and runs `fill` with VALUE, and checks where the program came from. */
static void expect(int value, unsigned built, unsigned loaded)
{
    parlin_device *device = open_device();
    run_fill(device, value);
    parlin_device_counters counters = parlin_device_get_counters(device);
    parlin_device_close(device);
    if (counters.programs_built != built || counters.programs_loaded != loaded)
        fail_msg("built %llu, loaded %llu; wanted %u, %u",
                 (unsigned long long)counters.programs_built,
                 (unsigned long long)counters.programs_loaded, built, loaded);
}

/* Not every implementation gives a binary that it takes back. */
static bool keeps_programs(void)
{
    parlin_device *device = open_device();
    run_fill(device, 90);
    parlin_device_close(device);
    device = open_device();
    run_fill(device, 90);
    bool keeps = parlin_device_get_counters(device).programs_loaded == 1;
    parlin_device_close(device);
    remove_folder(folder);
    if (!keeps)
        SUPPORT_SKIP("this OpenCL implementation does not take its own binaries back");
    return keeps;
}

static void second_device_loads(void **state)
{
    (void)state;
    char path[512];
    if (!keeps_programs())
        return;
    expect(7, 1, 0);
    only_file(folder, path, sizeof path);
    expect(7, 0, 1);
    expect(8, 1, 0); /* other options */
    assert_int_equal(count_files(folder), 2);
    expect(8, 0, 1);
    expect(7, 0, 1);
}

/* The sources count, not the file's name: a changed header alone gives another program. */
static void changed_source_is_built(void **state)
{
    (void)state;
    if (!keeps_programs())
        return;
    char kernels[64], path[128];
    make_temp_folder(kernels);
    setenv("PARLIN_KERNELS", kernels, 1);
    snprintf(path, sizeof path, "%s/fill.cl", kernels);
    const char source[] = "#include \"value.clh\"\n"
                          "__kernel void fill(ulong n, __global float *out)\n"
                          "{ size_t i = get_global_id(0); if (i < n) out[i] = V; }\n";
    write_file(path, source, sizeof source - 1);
    snprintf(path, sizeof path, "%s/value.clh", kernels);
    write_file(path, "#define V VALUE\n", 16);
    expect(5, 1, 0);
    expect(5, 0, 1);
    write_file(path, "#define V (VALUE)\n", 18);
    expect(5, 1, 0);
    assert_int_equal(count_files(folder), 2);
    remove_folder(kernels);
    use_test_kernels();
}

static void damage_is_found_and_mended(void **state)
{
    (void)state;
    char path[512];
    if (!keeps_programs())
        return;
    expect(7, 1, 0);
    only_file(folder, path, sizeof path);
    size_t size;
    unsigned char *whole = read_file(path, &size);
    uint64_t key_size, binary_size;
    memcpy(&key_size, whole + 8, sizeof key_size);
    memcpy(&binary_size, whole + 16, sizeof binary_size);
    assert_int_equal(HEADER + key_size + binary_size, size);
    const size_t binary = HEADER + (size_t)key_size;
    const size_t places[] = {0, 24, HEADER + 20, binary, size - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        whole[places[i]] ^= 0x10;
        write_file(path, whole, size);
        whole[places[i]] ^= 0x10;
        expect(7, 1, 0);
        expect(7, 0, 1); /* the damaged one was replaced */
        only_file(folder, path, sizeof path);
    }
    write_file(path, whole, size / 2);
    expect(7, 1, 0);
    expect(7, 0, 1);
    free(whole);
}

/* The same without a driver: every byte, every length. */
static void every_damage_is_found(void **state)
{
    (void)state;
    parlin_device *device = open_device();
    pl_cache_key key, other;
    unsigned char binary[50];
    size_t size = 0, got = 0;
    for (size_t i = 0; i < sizeof binary; i++)
        binary[i] = (unsigned char)(i * 37);
    assert_ok(pl_cache_key_make(device, "f.cl", "-DA", "source", &key));
    assert_null(pl_cache_load(&key, &got));
    pl_cache_store(&key, binary, sizeof binary);
    unsigned char *back = pl_cache_load(&key, &got);
    assert_non_null(back);
    assert_int_equal(got, sizeof binary);
    assert_memory_equal(back, binary, got);
    free(back);
    unsigned char *whole = read_file(key.path, &size);
    assert_int_equal(size, HEADER + key.size + sizeof binary);
    for (size_t i = 0; i < size; i++) {
        whole[i] ^= (unsigned char)(1u << (i % 8));
        write_file(key.path, whole, size);
        whole[i] ^= (unsigned char)(1u << (i % 8));
        if (pl_cache_load(&key, &got))
            fail_msg("byte %zu of %zu was damaged and the file used", i, size);
    }
    for (size_t length = 0; length < size; length++) {
        write_file(key.path, whole, length);
        if (pl_cache_load(&key, &got))
            fail_msg("the file was cut to %zu of %zu bytes and used", length, size);
    }
    unsigned char *longer = support_alloc(size + 3);
    memcpy(longer, whole, size);
    memset(longer + size, 0, 3);
    write_file(key.path, longer, size + 3);
    assert_null(pl_cache_load(&key, &got));
    free(longer);
    /* Keys differ where one field gives a character to the next. */
    assert_ok(pl_cache_key_make(device, "f.cl-", "DA", "source", &other));
    assert_true(key.size != other.size || memcmp(key.text, other.text, key.size) != 0);
    pl_cache_key_free(&other);
    pl_cache_key_free(&key);
    free(whole);
    parlin_device_close(device);
}

/* A whole and sound file of another program under this one's name. */
static void foreign_program_is_not_used(void **state)
{
    (void)state;
    char path[512], other[512];
    if (!keeps_programs())
        return;
    expect(7, 1, 0);
    only_file(folder, path, sizeof path);
    size_t size;
    unsigned char *seven = read_file(path, &size);
    unlink(path);
    expect(8, 1, 0); /* a key of the same length */
    only_file(folder, other, sizeof other);
    assert_string_not_equal(path, other);
    write_file(other, seven, size);
    expect(8, 1, 0); /* and not 7 */
    expect(8, 0, 1);
    free(seven);
}

/* What is no plain file is not waited for, and replaced. */
static void pipe_is_not_read(void **state)
{
    (void)state;
    char path[512];
    if (!keeps_programs())
        return;
    expect(7, 1, 0);
    only_file(folder, path, sizeof path);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect(7, 1, 0);
    expect(7, 0, 1);
}

/* Right in every respect, but the driver cannot use what is in it. */
static void driver_refuses(void **state)
{
    (void)state;
    if (!keeps_programs())
        return;
    parlin_device *device = open_device();
    char *source;
    pl_cache_key key;
    if (pl_text_holds(pl_device_info(device)->platform, "rusticl")) {
        parlin_device_close(device);
        SUPPORT_SKIP("rusticl ends the process on a binary that is none");
        return;
    }
    assert_ok(pl_source_read("fill.cl", &source));
    assert_ok(pl_cache_key_make(device, "fill.cl", "-DVALUE=7.0f", source, &key));
    unsigned char rubbish[1000];
    for (size_t i = 0; i < sizeof rubbish; i++)
        rubbish[i] = (unsigned char)(i * 37);
    pl_cache_store(&key, rubbish, sizeof rubbish);
    size_t size = 0;
    unsigned char *back = pl_cache_load(&key, &size);
    assert_non_null(back);
    assert_int_equal(size, sizeof rubbish);
    assert_memory_equal(back, rubbish, size);
    free(back);
    pl_cache_key_free(&key);
    free(source);
    parlin_device_close(device);
    expect(7, 1, 0);
    expect(7, 0, 1);
}

static void switched_off(void **state)
{
    (void)state;
    setenv("PARLIN_CACHE", "off", 1);
    expect(7, 1, 0);
    expect(7, 1, 0);
    assert_int_equal(count_files(folder), 0);
    /* Nothing is read either. */
    setenv("PARLIN_CACHE", "on", 1);
    expect(7, 1, 0);
    setenv("PARLIN_CACHE", "off", 1);
    expect(7, 1, 0);
}

/* PARLIN_CACHE_DIR, else XDG_CACHE_HOME/parlin, else HOME/.cache/parlin. */
static void where_programs_are_kept(void **state)
{
    (void)state;
    char *xdg = getenv("XDG_CACHE_HOME") ? pl_text_copy(getenv("XDG_CACHE_HOME")) : NULL;
    char *home = getenv("HOME") ? pl_text_copy(getenv("HOME")) : NULL;
    char path[512], below[128];
    snprintf(below, sizeof below, "%s/a/b", folder);
    setenv("PARLIN_CACHE_DIR", below, 1);
    expect(7, 1, 0);
    assert_true(count_files(below) <= 1);
    if (count_files(below) == 1) { /* an implementation may have no binary to keep */
        only_file(below, path, sizeof path);
        unsetenv("PARLIN_CACHE_DIR");
        snprintf(below, sizeof below, "%s/xdg", folder);
        setenv("XDG_CACHE_HOME", below, 1);
        expect(7, 1, 0);
        strcat(below, "/parlin");
        only_file(below, path, sizeof path);
        unsetenv("XDG_CACHE_HOME");
        snprintf(below, sizeof below, "%s/home", folder);
        setenv("HOME", below, 1);
        expect(7, 1, 0);
        strcat(below, "/.cache/parlin");
        only_file(below, path, sizeof path);
        unsetenv("HOME"); /* nowhere: nothing is kept */
        expect(7, 1, 0);
    }
    if (xdg)
        setenv("XDG_CACHE_HOME", xdg, 1);
    if (home)
        setenv("HOME", home, 1);
    free(xdg);
    free(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(second_device_loads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changed_source_is_built, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_is_found_and_mended, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_damage_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(foreign_program_is_not_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pipe_is_not_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(driver_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(switched_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_programs_are_kept, set_up, tear_down),
    };
    return SUPPORT_RUN("device/cache", tests);
}
