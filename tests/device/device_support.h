/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of this room share. */
#ifndef DEVICE_SUPPORT_H
#define DEVICE_SUPPORT_H

#include "device/internal.h"
#include "support.h"

/* The device under test: PARLIN_DEVICE, else the best. */
parlin_device *open_device(void);

/* A new empty folder; removed by remove_folder with all that is in it. */
void make_temp_folder(char path[64]);
void remove_folder(const char *path);

/* The only program in a cache folder; fails where there is none or more, or a file half written. */
void only_file(const char *folder, char *path, size_t room);
size_t count_files(const char *folder);

unsigned char *read_file(const char *path, size_t *size);
void write_file(const char *path, const void *bytes, size_t size);

/* Kernels of tests/device/kernels instead of the library's. */
void use_test_kernels(void);

/* Builds and runs kernel `fill` with -DVALUE=value, and checks what it wrote. */
parlin_status try_fill(parlin_device *device, int value);
void run_fill(parlin_device *device, int value);

/* Resident memory of this process in bytes. */
size_t resident_bytes(void);

#endif
