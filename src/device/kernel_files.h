/* SPDX-License-Identifier: Apache-2.0 */
/* The files of kernels/, embedded at build time. */
#ifndef PL_DEVICE_KERNEL_FILES_H
#define PL_DEVICE_KERNEL_FILES_H

#include <stddef.h>

typedef struct pl_kernel_file {
    const char *name;
    const char *text; /* terminated */
    size_t size;      /* without the terminator */
} pl_kernel_file;

extern const pl_kernel_file pl_kernel_files[];
extern const size_t pl_kernel_file_count;

#endif
