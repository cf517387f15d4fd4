/* SPDX-License-Identifier: Apache-2.0 */
/* compare GIVEN WANTED: two files of f32 are as long as each other and differ by at most 1e-4. */
#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    FILE *given = argc == 3 ? fopen(argv[1], "rb") : NULL;
    FILE *wanted = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (!given || !wanted) {
        fprintf(stderr, "compare: two files that can be read are wanted\n");
        return 2;
    }
    float a, b;
    size_t count = 0, more_a, more_b;
    for (;; count++) {
        more_a = fread(&a, sizeof a, 1, given);
        more_b = fread(&b, sizeof b, 1, wanted);
        if (more_a == 0 || more_b == 0)
            break;
        if (!(fabsf(a - b) <= 1e-4f)) {
            fprintf(stderr, "number %zu: %.7g, wanted %.7g\n", count, a, b);
            return 1;
        }
    }
    fclose(given);
    fclose(wanted);
    if (count == 0 || more_a != more_b) {
        fprintf(stderr, "one has %zu numbers, the other has more or both are empty\n", count);
        return 1;
    }
    return 0;
}
