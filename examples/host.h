/* SPDX-License-Identifier: Apache-2.0 */
/* What the examples do on the host: input numbers, and the reference in double precision. Nothing
   of parlin. */
#ifndef EXAMPLES_HOST_H
#define EXAMPLES_HOST_H

#include <math.h>
#include <stddef.h>

/* Numbers in [-bound, bound), the same on every rank. */
static inline void fill(float *out, size_t n, float bound)
{
    static unsigned state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = bound * ((float)(state >> 8) / 8388608.0f - 1.0f);
    }
}

static inline void widen(const float *from, size_t n, double *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

/* y = x w^T + b. x: (rows, in), w: (out, in), b: (out) or NULL, y: (rows, out). */
static inline void linear(size_t rows, size_t out, size_t in, const double *x, const float *w,
                          const float *b, double *y)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (size_t j = 0; j < in; j++)
                sum += x[i * in + j] * w[o * in + j];
            y[i * out + o] = sum;
        }
}

/* ||y - wanted|| / ||wanted||. A NaN stays one. */
static inline double relative_error(const float *y, const double *wanted, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += (y[i] - wanted[i]) * (y[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    return sqrt(difference / norm);
}

#endif
