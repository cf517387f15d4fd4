/* SPDX-License-Identifier: Apache-2.0 */
/* One product on a device against the double reference, with poison around every view. */
#ifndef GEMM_CASE_H
#define GEMM_CASE_H

#include "support.h"

#include "gemm/engine.h"
#include "gemm/gemm.h"

typedef enum gemm_layout {
    GEMM_SIDE_BY_SIDE, /* blocks share rows of one matrix */
    GEMM_TOKEN_MAJOR,  /* each block its own matrix */
    GEMM_HEAD_MAJOR    /* each block its own, (heads, rows, head_size) */
} gemm_layout;

typedef enum gemm_residual { GEMM_NO_RESIDUAL, GEMM_SEPARATE, GEMM_IN_PLACE } gemm_residual;

#define GEMM_CASE_BLOCKS 5

typedef struct gemm_case {
    const char *engine; /* forced */
    const char *ran;    /* that must have run last; NULL: the forced one */
    size_t rows, out, in;
    bool bias, gated;
    parlin_activation activation;
    gemm_residual residual;
    gemm_layout layout;
    size_t blocks; /* 0: one dense block */
    struct {
        size_t heads, head_size;
    } block[GEMM_CASE_BLOCKS];
    size_t padding;       /* elements before and between rows of every view */
    bool integers;        /* small whole numbers: must come out exact */
    size_t scratch_limit; /* 0: as it is */
    size_t index_limit;   /* 0: as it is */
} gemm_case;

/* The device of this test program, opened once. */
parlin_device *gemm_device(void);
void gemm_device_close(void);

/* Float buffers. */
cl_mem gemm_buffer(const float *values, size_t n);
void gemm_buffer_read(cl_mem buffer, float *values, size_t n);
void gemm_buffer_write(cl_mem buffer, const float *values, size_t n);
void gemm_buffer_release(cl_mem buffer, size_t n);

/* A weight of the given values on the device, with an engine forced. */
pl_weight *gemm_weight(size_t out, size_t in, const float *values, const char *engine);

/* A dense tensor in a buffer. */
parlin_tensor gemm_tensor(cl_mem buffer, size_t rows, size_t cols);

/* y = x w^T and no more, all dense, y as it was before where the product does not write. */
void gemm_simple(pl_weight *weight, size_t rows, const float *x, float *y);

/* Runs the case on random numbers and fails the test where it is wrong. */
void gemm_check(const gemm_case *given, support_random *random);

#endif
