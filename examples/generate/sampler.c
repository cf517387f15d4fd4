/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler.h"

#include <math.h>
#include <stdlib.h>

#include "errors.h"

bool sampler_open(sampler *s, size_t vocabulary, double temperature, double top_p, uint64_t seed)
{
    *s = (sampler){.vocabulary = vocabulary,
                   .temperature = (float)temperature,
                   .top_p = (float)top_p,
                   .state = seed ? seed : 1,
                   .candidates = malloc(vocabulary * sizeof(candidate))};
    return s->candidates || fail("no memory to sample from a vocabulary of %zu", vocabulary);
}

void sampler_close(sampler *s)
{
    free(s->candidates);
    s->candidates = NULL;
}

/* In [0, 1), by xorshift*. */
static float random_number(sampler *s)
{
    s->state ^= s->state >> 12;
    s->state ^= s->state << 25;
    s->state ^= s->state >> 27;
    return (float)((uint32_t)((s->state * 0x2545f4914f6cdd1du) >> 32) >> 8) / 16777216.0f;
}

static int most_likely(const sampler *s, const float *logits)
{
    size_t best = 0;
    for (size_t i = 1; i < s->vocabulary; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int)best;
}

/* probabilities = softmax(logits / temperature), in place. */
static void soften(const sampler *s, float *logits)
{
    float largest = logits[most_likely(s, logits)], sum = 0;
    for (size_t i = 0; i < s->vocabulary; i++)
        sum += logits[i] = expf((logits[i] - largest) / s->temperature);
    for (size_t i = 0; i < s->vocabulary; i++)
        logits[i] /= sum;
}

static int descending(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->probability != b->probability)
        return a->probability > b->probability ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

/* Keeps the fewest tokens, the likeliest first, that together exceed top_p. Returns how many, and
   their sum. */
static size_t nucleus(sampler *s, const float *probabilities, float *sum)
{
    /* A token below this cannot be among them: the others would reach top_p without it. */
    const float least = (1.0f - s->top_p) / (float)(s->vocabulary > 1 ? s->vocabulary - 1 : 1);
    size_t count = 0;
    for (size_t i = 0; i < s->vocabulary; i++)
        if (probabilities[i] >= least)
            s->candidates[count++] = (candidate){probabilities[i], (int)i};
    qsort(s->candidates, count, sizeof *s->candidates, descending);
    *sum = 0;
    for (size_t i = 0; i < count; i++) {
        *sum += s->candidates[i].probability;
        if (*sum > s->top_p)
            return i + 1;
    }
    return count;
}

int sampler_next(sampler *s, float *logits)
{
    if (s->temperature <= 0)
        return most_likely(s, logits);
    soften(s, logits);
    float coin = random_number(s), sum = 0;
    if (s->top_p <= 0 || s->top_p >= 1) {
        for (size_t i = 0; i < s->vocabulary; i++) {
            sum += logits[i];
            if (coin < sum)
                return (int)i;
        }
        return (int)s->vocabulary - 1; /* roundings add up to less than the coin */
    }
    size_t count = nucleus(s, logits, &sum);
    if (count == 0) /* no number is a probability */
        return most_likely(s, logits);
    coin *= sum;
    sum = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        sum += s->candidates[i].probability;
        if (coin < sum)
            return s->candidates[i].token;
    }
    return s->candidates[count - 1].token;
}
