/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a token: greedy, by temperature, by nucleus. */
#include "support.h"

#include <math.h>

#include "sampler.h"

enum { VOCABULARY = 5, DRAWS = 20000 };

/* log of the probabilities 0.4, 0.3, 0.2, 0.06, 0.04, in another order. */
static const double probability[VOCABULARY] = {0.2, 0.4, 0.04, 0.3, 0.06};

static void set(float *logits, double temperature)
{
    for (size_t i = 0; i < VOCABULARY; i++)
        logits[i] = (float)(temperature * log(probability[i]) + 3);
}

static void draw(double temperature, double top_p, uint64_t seed, size_t *counts)
{
    sampler s;
    float logits[VOCABULARY];
    for (size_t i = 0; i < VOCABULARY; i++)
        counts[i] = 0;
    assert_true(sampler_open(&s, VOCABULARY, temperature, top_p, seed));
    for (size_t i = 0; i < DRAWS; i++) {
        set(logits, temperature > 0 ? temperature : 1);
        int token = sampler_next(&s, logits);
        assert_in_range(token, 0, VOCABULARY - 1);
        counts[token]++;
    }
    sampler_close(&s);
}

/* 5 standard deviations of a count. */
static void assert_share(size_t count, double share)
{
    double mean = DRAWS * share, deviation = sqrt(DRAWS * share * (1 - share));
    if (!(fabs((double)count - mean) <= 5 * deviation))
        fail_msg("drawn %zu times of %d, wanted %.0f", count, DRAWS, mean);
}

static void greedy_takes_the_first_of_the_largest(void **state)
{
    (void)state;
    sampler s;
    float logits[VOCABULARY] = {-3, 2, 1, 2, -9};
    assert_true(sampler_open(&s, VOCABULARY, 0, 0.9, 7));
    assert_int_equal(sampler_next(&s, logits), 1);
    logits[4] = 2.5f;
    assert_int_equal(sampler_next(&s, logits), 4);
    sampler_close(&s);
}

static void whole_distribution(void **state)
{
    (void)state;
    const double temperatures[] = {1, 0.5, 3}, all[] = {0, 1};
    for (size_t t = 0; t < 3; t++)
        for (size_t p = 0; p < 2; p++) {
            size_t counts[VOCABULARY];
            draw(temperatures[t], all[p], 11, counts);
            for (size_t i = 0; i < VOCABULARY; i++)
                assert_share(counts[i], probability[i]);
        }
}

static void nucleus_keeps_the_likeliest(void **state)
{
    (void)state;
    size_t counts[VOCABULARY];
    draw(1, 0.65, 5, counts); /* 0.4 + 0.3 exceed it */
    assert_share(counts[1], 4.0 / 7);
    assert_share(counts[3], 3.0 / 7);
    assert_int_equal(counts[0] + counts[2] + counts[4], 0);
    draw(1, 0.001, 5, counts);
    assert_int_equal(counts[1], DRAWS);
    draw(1, 0.95, 5, counts); /* all but the last, 0.04 */
    assert_int_equal(counts[2], 0);
    assert_share(counts[4], 0.06 / 0.96);
}

static void seed_decides(void **state)
{
    (void)state;
    size_t one[VOCABULARY], again[VOCABULARY], other[VOCABULARY];
    draw(1, 1, 3, one);
    draw(1, 1, 3, again);
    draw(1, 1, 4, other);
    assert_memory_equal(one, again, sizeof one);
    assert_memory_not_equal(one, other, sizeof one);
    draw(1, 1, 0, one); /* no seed is refused */
}

static void no_numbers_end_in_a_token(void **state)
{
    (void)state;
    sampler s;
    for (int p = 0; p < 2; p++) {
        float logits[VOCABULARY] = {NAN, NAN, NAN, NAN, NAN};
        assert_true(sampler_open(&s, VOCABULARY, 1, p ? 0.5 : 1, 1));
        assert_in_range(sampler_next(&s, logits), 0, VOCABULARY - 1);
        sampler_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_first_of_the_largest),
        cmocka_unit_test(whole_distribution),
        cmocka_unit_test(nucleus_keeps_the_likeliest),
        cmocka_unit_test(seed_decides),
        cmocka_unit_test(no_numbers_end_in_a_token),
    };
    return SUPPORT_RUN("model_sampler", tests);
}
