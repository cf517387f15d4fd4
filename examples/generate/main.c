/* SPDX-License-Identifier: Apache-2.0 */
/* generate: a Llama, Mistral or Qwen2 that writes text, on any number of ranks and devices.

     mpiexec -n 4 generate --model FOLDER --prompt "Once upon a time" --tokens 64 --temperature 0

   FOLDER is a Hugging Face folder (config.json, model.safetensors) with a tokenizer.bin;
   scripts/convert-llama2c makes one from a llama2.c checkpoint. With the stories260K model it prints,
   for every number of ranks,

     Once upon a time, there was a little girl named Lily. She loved to play outside in the park. ..

   Every projection is a parlin layer (model.h); what lies between is in kernels.cl. Rank 0 alone
   reads the logits, chooses the next token and tells the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <parlin/mpi.h>
#include <parlin/parlin.h>

#include "config.h"
#include "errors.h"
#include "model.h"
#include "options.h"
#include "report.h"
#include "sampler.h"
#include "tokenizer.h"

/* Most tokens of a prompt that are fed in one call. */
enum { BLOCK = 128 };

typedef struct run {
    options options;
    model_config config;
    tokenizer *tokenizer; /* NULL: token ids are read and printed */
    sampler sampler;
    parlin_group *group;
    model model;
    report report;
    int *tokens;         /* [positions + 1]: what is fed, and the last one chosen */
    size_t prompt_count; /* the first of them */
    size_t positions;    /* to feed at most */
    float *logits;       /* rank 0: as many rows as are read at once */
    FILE *logits_file;
    bool root;
} run;

/* --- the prompt --- */

static bool read_ids(run *r, const char *text, int **ids, size_t *count)
{
    *count = 0;
    *ids = malloc((strlen(text) / 2 + 1) * sizeof **ids);
    if (!*ids)
        return fail("no memory for the prompt");
    for (const char *at = text;;) {
        char *end;
        long id = strtol(at, &end, 10);
        if (*at < '0' || *at > '9' || (*end != ',' && *end))
            return fail("--prompt-tokens '%s': token ids with commas between are wanted", text);
        if (id < 0 || (size_t)id >= r->config.vocabulary)
            return fail("--prompt-tokens: token %.*s, the vocabulary ends at %zu", (int)(end - at),
                        at, r->config.vocabulary - 1);
        (*ids)[(*count)++] = (int)id;
        if (!*end)
            return true;
        at = end + 1;
    }
}

static bool take_prompt(run *r, const int *ids, size_t count, bool with_bos)
{
    const options *o = &r->options;
    size_t fed = count + (with_bos ? 1 : 0);
    if (fed == 0)
        return fail("nothing to begin with: the model has no bos_token_id; give a prompt");
    if (o->tokens > r->config.context)
        return fail("--tokens %zu: the model's context has %zu positions", o->tokens,
                    r->config.context);
    if (fed > r->config.context)
        return fail("the prompt has %zu tokens%s, the model's context %zu positions", fed,
                    with_bos ? " with bos" : "", r->config.context);
    r->positions = r->config.context < DEFAULT_TOKENS ? r->config.context : DEFAULT_TOKENS;
    if (o->tokens > 0)
        r->positions = o->tokens;
    if (fed > r->positions)
        return fail("the prompt has %zu tokens%s, --tokens %zu feeds fewer", fed,
                    with_bos ? " with bos" : "", r->positions);
    r->tokens = malloc((r->positions + 1) * sizeof *r->tokens);
    if (!r->tokens)
        return fail("no memory for %zu tokens", r->positions);
    if (with_bos)
        r->tokens[0] = r->config.bos;
    for (size_t i = 0; i < count; i++)
        r->tokens[fed - count + i] = ids[i];
    r->prompt_count = fed;
    return true;
}

static bool read_prompt(run *r)
{
    int *ids = NULL;
    size_t count = 0;
    bool fine = true;
    if (r->options.prompt_tokens)
        fine = read_ids(r, r->options.prompt_tokens, &ids, &count);
    else if (r->options.prompt && !r->tokenizer)
        fine =
            fail("--prompt: %s has no tokenizer.bin; --prompt-tokens takes ids", r->options.model);
    else if (r->options.prompt)
        fine = tokenizer_encode(r->tokenizer, r->options.prompt, &ids, &count);
    fine = fine && take_prompt(r, ids, count, !r->options.prompt_tokens && r->config.bos >= 0);
    free(ids);
    return fine;
}

/* --- making everything --- */

/* What needs no device. Every rank reads the same. */
static bool prepare(run *r)
{
    const options *o = &r->options;
    if (!config_read(o->model, &r->config) ||
        !tokenizer_open(o->model, r->config.vocabulary, &r->tokenizer) || !read_prompt(r))
        return false;
    if (!r->root)
        return true;
    size_t rows = o->logits && r->prompt_count > 1 ? r->prompt_count : 1;
    rows = rows < BLOCK ? rows : BLOCK;
    r->logits = malloc(rows * r->config.vocabulary * sizeof *r->logits);
    if (!r->logits)
        return fail("no memory for the logits of %zu tokens", rows);
    if (o->logits && !(r->logits_file = fopen(o->logits, "wb")))
        return fail("--logits %s cannot be opened for writing", o->logits);
    uint64_t seed = o->seeded ? o->seed : (uint64_t)time(NULL);
    return sampler_open(&r->sampler, r->config.vocabulary, o->temperature, o->top_p, seed);
}

static bool build(run *r)
{
    parlin_group_config config = parlin_group_defaults();
    config.device = r->options.device;
    config.timing = r->options.verbose;
    check_all(parlin_group_open(MPI_COMM_WORLD, &config, &r->group));
    if (!all_well(MPI_COMM_WORLD))
        return false;
    size_t rows = r->prompt_count < BLOCK ? r->prompt_count : BLOCK;
    model_create(&r->model, r->group, &r->config, r->positions, rows, r->options.logits ? rows : 1);
    if (!all_well(MPI_COMM_WORLD))
        return false;
    load_report loaded;
    model_load(&r->model, r->options.model, &loaded);
    if (!all_well(MPI_COMM_WORLD))
        return false;
    if (r->root && loaded.left_over > 0)
        fprintf(stderr, "generate: %zu tensors of the checkpoint are not used, the first is %s\n",
                loaded.left_over, loaded.first);
    return true;
}

static void unmake(run *r)
{
    model_close(&r->model);
    parlin_group_close(r->group);
    sampler_close(&r->sampler);
    tokenizer_close(r->tokenizer);
    if (r->logits_file)
        fclose(r->logits_file);
    free(r->logits);
    free(r->tokens);
}

/* --- running --- */

/* Prints token `index`: its bytes, a leading bos none; without a tokenizer its id. */
static void show(const run *r, size_t index)
{
    int token = r->tokens[index], before = index > 0 ? r->tokens[index - 1] : -1;
    if (!r->root)
        return;
    if (!r->tokenizer) {
        printf("%s%d", index > 0 ? " " : "", token);
    } else if (index > 0 || token != r->config.bos) {
        size_t length;
        const char *piece = tokenizer_piece(r->tokenizer, r->config.bos, before, token, &length);
        fwrite(piece, 1, length, stdout);
    }
    fflush(stdout);
}

/* Rank 0 reads the logits of the last `rows` tokens, writes them where wanted, and chooses. */
static int choose(run *r, size_t rows, bool last)
{
    const size_t vocabulary = r->config.vocabulary;
    report *t = &r->report;
    double start = report_now();
    if (r->options.verbose && !model_wait(&r->model))
        return -1;
    double waited = report_now();
    if (!model_logits(&r->model, rows, r->logits))
        return -1;
    double read = report_now();
    int next = 0;
    if (r->logits_file &&
        fwrite(r->logits, sizeof *r->logits * vocabulary, rows, r->logits_file) != rows)
        fail("--logits %s cannot be written", r->options.logits);
    if (last)
        next = sampler_next(&r->sampler, r->logits + (rows - 1) * vocabulary);
    t->own.device += waited - start;
    t->own.staging += read - waited;
    t->own.sampling += report_now() - read;
    return failed() ? -1 : next;
}

/* Feeds tokens first .. first + count - 1; `last`: all ranks then have the next in *next. */
static bool feed(run *r, size_t first, size_t count, bool last, int *next)
{
    size_t rows = r->options.logits ? count : last ? 1 : 0;
    if (!model_feed(&r->model, r->tokens + first, count, first, rows))
        return false;
    if (rows == 0)
        return true;
    *next = r->root ? choose(r, rows, last) : 0;
    double start = report_now();
    MPI_Request request;
    MPI_Ibcast(next, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    bool fine = finish(&request);
    r->report.own.mpi += report_now() - start;
    return fine && *next >= 0;
}

static bool feed_prompt(run *r, int *next)
{
    for (size_t first = 0; first < r->prompt_count; first += BLOCK) {
        size_t left = r->prompt_count - first, count = left < BLOCK ? left : BLOCK;
        if (!feed(r, first, count, count == left, next))
            return false;
    }
    return true;
}

static bool generate(run *r)
{
    report *t = &r->report;
    parlin_device *device = parlin_group_device(r->group);
    int next = 0;
    for (size_t i = 0; i < r->prompt_count; i++)
        show(r, i);
    t->prompt_tokens = r->prompt_count;
    t->started = report_stamp(t, r->group);
    if (!feed_prompt(r, &next))
        return false;
    t->prompted = t->steady = report_stamp(t, r->group);
    t->at_steady = parlin_device_get_counters(device);

    size_t at = r->prompt_count;
    while (!config_stops(&r->config, next)) {
        r->tokens[at] = next;
        show(r, at);
        if (at == r->positions)
            break;
        if (!feed(r, at, 1, true, &next))
            return false;
        at++;
        t->text_tokens++;
        if (t->text_tokens == 1) {
            t->steady = report_stamp(t, r->group);
            t->at_steady = parlin_device_get_counters(device);
        }
    }
    t->ended = report_stamp(t, r->group);
    t->at_end = parlin_device_get_counters(device);
    if (r->root) {
        putchar('\n');
        if (fflush(stdout) != 0 || ferror(stdout))
            fail("stdout cannot be written");
        if (r->logits_file && fflush(r->logits_file) != 0)
            fail("--logits %s cannot be written", r->options.logits);
    }
    if (r->root && r->options.verbose) {
        fprintf(stderr, "token ids fed:");
        for (size_t i = 0; i < at; i++)
            fprintf(stderr, " %d", r->tokens[i]);
        fputc('\n', stderr);
    }
    return true;
}

int main(int argc, char **argv)
{
    static run r;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    r.root = rank == 0;
    options_read(argc, argv, &r.options);
    bool fine = all_well(MPI_COMM_WORLD);
    int status = fine ? 0 : 2; /* the command line is wrong */
    if (fine && r.options.help) {
        if (r.root)
            fputs(options_usage, stdout);
    } else if (fine) {
        prepare(&r);
        fine = all_well(MPI_COMM_WORLD) && build(&r);
        if (fine) {
            if (!generate(&r) && r.root)
                putchar('\n'); /* the text ends here */
            fine = all_well(MPI_COMM_WORLD) && report_print(&r.report, &r.model, r.options.verbose);
        }
        status = fine ? 0 : 1;
    }
    unmake(&r);
    MPI_Finalize();
    return status;
}
