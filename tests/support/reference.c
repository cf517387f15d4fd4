/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <math.h>

double reference_activation(parlin_activation activation, double z)
{
    switch (activation) {
    case PARLIN_RELU:
        return z < 0 ? 0 : z;
    case PARLIN_GELU:
        return 0.5 * z * (1 + erf(z / sqrt(2.0)));
    case PARLIN_GELU_TANH:
        return 0.5 * z * (1 + tanh(sqrt(2 / acos(-1.0)) * (z + 0.044715 * z * z * z)));
    case PARLIN_SILU:
        return z / (1 + exp(-z));
    case PARLIN_NO_ACTIVATION:
        break;
    }
    return z;
}

void reference_linear(size_t rows, size_t out, size_t in, const float *x, const float *w,
                      const float *b, parlin_activation activation, double *y)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t o = 0; o < out; o++) {
            double sum = b ? b[o] : 0;
            for (size_t k = 0; k < in; k++)
                sum += (double)x[i * in + k] * w[o * in + k];
            y[i * out + o] = reference_activation(activation, sum);
        }
}
