/* SPDX-License-Identifier: Apache-2.0 */
/* check FOLDER IDS LOGITS PROMPT POSITIONS: a greedy run of generate against the reference.

     IDS        a file with the token ids fed
     LOGITS     what --logits wrote
     PROMPT     how many of the ids are the prompt
     POSITIONS  as --tokens

   |logits - reference| <= 1e-4; each token of the text is the likeliest one; the text is as long as
   asked, or the next token ends it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "reference.h"

static const double bound = 1e-4;

enum { MOST = 512 };

static size_t likeliest(const double *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static size_t read_ids(const char *path, size_t vocabulary, int *ids)
{
    FILE *file = fopen(path, "r");
    size_t count = 0;
    while (file && count < MOST && fscanf(file, "%d", &ids[count]) == 1) {
        if (ids[count] < 0 || (size_t)ids[count] >= vocabulary)
            return 0;
        count++;
    }
    if (file)
        fclose(file);
    return count;
}

static int compare(const float *logits, const double *wanted, size_t count, size_t vocabulary)
{
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < count * vocabulary; i++) {
        double difference = fabs(logits[i] - wanted[i]);
        if (!(difference <= worst)) { /* NaN is the worst */
            worst = isnan(difference) ? INFINITY : difference;
            at = i;
        }
    }
    if (worst <= bound)
        return 0;
    fprintf(stderr,
            "position %zu, token %zu: logit %.7g, reference %.7g: off by %.2g, at most %.2g\n",
            at / vocabulary, at % vocabulary, logits[at], wanted[at], worst, bound);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: check FOLDER IDS LOGITS PROMPT POSITIONS\n");
        return 2;
    }
    reference *r = reference_open(argv[1]);
    const size_t vocabulary = reference_vocabulary(r);
    const size_t prompt = (size_t)atoi(argv[4]), positions = (size_t)atoi(argv[5]);
    static int ids[MOST];
    const size_t count = read_ids(argv[2], vocabulary, ids);
    if (count < prompt || count > positions || prompt == 0) {
        fprintf(stderr, "%zu ids were fed, the prompt has %zu and --tokens is %zu\n", count, prompt,
                positions);
        return 1;
    }
    float *logits = malloc((count * vocabulary + 1) * sizeof *logits);
    double *wanted = malloc(count * vocabulary * sizeof *wanted);
    FILE *file = fopen(argv[3], "rb");
    size_t read =
        file && logits && wanted ? fread(logits, sizeof *logits, count * vocabulary + 1, file) : 0;
    if (read != count * vocabulary) {
        fprintf(stderr, "%s: %zu logits, wanted %zu rows of %zu\n", argv[3], read, count,
                vocabulary);
        return 1;
    }
    fclose(file);

    reference_logits(r, ids, count, wanted);
    int failures = compare(logits, wanted, count, vocabulary);
    for (size_t i = prompt - 1; i < count; i++) {
        const double *row = wanted + i * vocabulary;
        int best = (int)likeliest(row, vocabulary);
        if (i + 1 < count && row[ids[i + 1]] < row[best] - 2 * bound) {
            fprintf(stderr, "position %zu: token %d followed, wanted %d\n", i, ids[i + 1], best);
            failures++;
        }
        if (reference_stops(r, best) != (i + 1 == count && count < positions) &&
            !(i + 1 == positions)) {
            fprintf(stderr, "position %zu: token %d, and %zu of %zu positions were fed\n", i, best,
                    count, positions);
            failures++;
        }
    }
    free(logits);
    free(wanted);
    reference_close(r);
    return failures > 0;
}
