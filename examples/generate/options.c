/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

const char options_usage[] =
    "usage: [mpiexec -n P] generate --model DIR [options]\n"
    "\n"
    "Runs a decoder of the Llama family, cut over P ranks, and prints what it writes.\n"
    "\n"
    "  --model DIR            a Hugging Face folder: config.json, safetensors, and a "
    "tokenizer.bin\n"
    "                         for text; without one it prints token ids\n"
    "  --prompt TEXT          what the text begins with\n"
    "  --prompt-tokens 1,2,3  the same as token ids, fed as they are\n"
    "  --tokens N             positions to feed, prompt included (256, or the model's context)\n"
    "  --temperature T        0: always the likeliest token; 1 (default): as the model has it\n"
    "  --top-p P              only the likeliest tokens that together reach P (0.9; 1: all)\n"
    "  --seed S               of the random choices (the time)\n"
    "  --device SPEC          which OpenCL device; see parlin-info\n"
    "  --logits FILE          writes the raw f32 logits of every position\n"
    "  --verbose              where the time goes, and which rank holds what\n";

enum {
    MODEL = 1,
    PROMPT,
    PROMPT_TOKENS,
    TOKENS,
    TEMPERATURE,
    TOP_P,
    SEED,
    DEVICE,
    LOGITS,
    VERBOSE,
    HELP
};

static const struct option table[] = {{"model", required_argument, NULL, MODEL},
                                      {"prompt", required_argument, NULL, PROMPT},
                                      {"prompt-tokens", required_argument, NULL, PROMPT_TOKENS},
                                      {"tokens", required_argument, NULL, TOKENS},
                                      {"temperature", required_argument, NULL, TEMPERATURE},
                                      {"top-p", required_argument, NULL, TOP_P},
                                      {"seed", required_argument, NULL, SEED},
                                      {"device", required_argument, NULL, DEVICE},
                                      {"logits", required_argument, NULL, LOGITS},
                                      {"verbose", no_argument, NULL, VERBOSE},
                                      {"help", no_argument, NULL, HELP},
                                      {NULL, 0, NULL, 0}};

static bool whole(const char *name, const char *text, uint64_t least, uint64_t *value)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < least)
        return fail("%s '%s': a whole number from %llu on is wanted", name, text,
                    (unsigned long long)least);
    *value = number;
    return true;
}

static bool real(const char *name, const char *text, double most, double *value)
{
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= 0 && number <= most))
        return fail("%s '%s': a number from 0 to %g is wanted", name, text, most);
    *value = number;
    return true;
}

static bool take(int which, const char *argument, options *o)
{
    uint64_t number;
    switch (which) {
    case MODEL:
        o->model = argument;
        return true;
    case PROMPT:
        o->prompt = argument;
        return true;
    case PROMPT_TOKENS:
        o->prompt_tokens = argument;
        return true;
    case TOKENS:
        if (!whole("--tokens", argument, 1, &number))
            return false;
        o->tokens = (size_t)number;
        return true;
    case TEMPERATURE:
        return real("--temperature", argument, 1e6, &o->temperature);
    case TOP_P:
        return real("--top-p", argument, 1, &o->top_p);
    case SEED:
        o->seeded = true;
        return whole("--seed", argument, 0, &o->seed);
    case DEVICE:
        o->device = argument;
        return true;
    case LOGITS:
        o->logits = argument;
        return true;
    case VERBOSE:
        o->verbose = true;
        return true;
    case HELP:
        o->help = true;
        return true;
    default:
        return false;
    }
}

bool options_read(int argc, char **argv, options *o)
{
    *o = (options){.temperature = 1, .top_p = 0.9};
    opterr = 0;
    for (int which; (which = getopt_long(argc, argv, ":", table, NULL)) != -1;) {
        if (which == '?')
            return fail("%s is no option of this program; --help lists them", argv[optind - 1]);
        if (which == ':')
            return fail("%s wants a value; --help says which", argv[optind - 1]);
        if (!take(which, optarg, o))
            return false;
    }
    if (optind < argc)
        return fail("'%s': arguments begin with an option; --help lists them", argv[optind]);
    if (o->help)
        return true;
    if (!o->model)
        return fail("--model DIR is missing; --help lists the options");
    if (o->prompt && o->prompt_tokens)
        return fail("--prompt and --prompt-tokens: one of them is enough");
    return true;
}
