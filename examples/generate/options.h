/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#ifndef GENERATE_OPTIONS_H
#define GENERATE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct options {
    const char *model;
    const char *prompt;        /* NULL: none */
    const char *prompt_tokens; /* NULL: none */
    size_t tokens;             /* 0: as much as fits, at most DEFAULT_TOKENS */
    double temperature;
    double top_p;
    uint64_t seed;
    bool seeded;        /* --seed was given */
    const char *device; /* NULL: as parlin chooses */
    const char *logits; /* NULL: not written */
    bool verbose;
    bool help;
} options;

enum { DEFAULT_TOKENS = 256 };

/* False, with the sentence, where the command line is wrong. */
bool options_read(int argc, char **argv, options *o);

extern const char options_usage[];

#endif
