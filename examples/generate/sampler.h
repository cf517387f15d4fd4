/* SPDX-License-Identifier: Apache-2.0 */
/* The next token from the logits, as llama2.c does it. */
#ifndef GENERATE_SAMPLER_H
#define GENERATE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct candidate {
    float probability;
    int token;
} candidate;

typedef struct sampler {
    size_t vocabulary;
    float temperature; /* 0: the most likely token, the lowest of several */
    float top_p;       /* only the most likely tokens that together reach it; 0 or 1: all */
    uint64_t state;    /* of the random numbers; never 0 */
    candidate *candidates;
} sampler;

bool sampler_open(sampler *s, size_t vocabulary, double temperature, double top_p, uint64_t seed);
void sampler_close(sampler *s);

/* logits [vocabulary] are overwritten unless the temperature is 0. */
int sampler_next(sampler *s, float *logits);

#endif
