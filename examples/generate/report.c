/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <parlin/mpi.h>

#include "errors.h"

/* What a rank tells rank 0. */
typedef struct rank_report {
    lap text; /* per token, in seconds */
    parlin_qkv_shape heads;
    size_t inner, first_logit, logits; /* of the shares */
    double weights, cache, device, process;
    unsigned long long buffers, programs; /* made after the first token of text */
} rank_report;

double report_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

lap report_stamp(const report *r, const parlin_group *group)
{
    parlin_group_counters inside = parlin_group_get_counters(group);
    return (lap){.wall = report_now(),
                 .device = r->own.device + inside.device_seconds,
                 .staging = r->own.staging + inside.staging_seconds,
                 .mpi = r->own.mpi + inside.message_seconds,
                 .sampling = r->own.sampling};
}

static lap per_token(lap from, lap to, size_t tokens)
{
    const double n = tokens > 0 ? (double)tokens : 1;
    return (lap){.wall = (to.wall - from.wall) / n,
                 .device = (to.device - from.device) / n,
                 .staging = (to.staging - from.staging) / n,
                 .mpi = (to.mpi - from.mpi) / n,
                 .sampling = (to.sampling - from.sampling) / n};
}

static size_t steady_tokens(const report *r)
{
    return r->text_tokens > 1 ? r->text_tokens - 1 : 0;
}

static rank_report of_this_rank(const report *r, const model *m)
{
    rank_report out = {.text = per_token(r->steady, r->ended, steady_tokens(r)),
                       .heads = parlin_qkv_local(m->layers[0].qkv),
                       .inner = parlin_layer_get_info(m->layers[0].gate_up).output_cols,
                       .weights = (double)m->weight_bytes,
                       .cache = (double)m->cache_bytes,
                       .device = (double)r->at_end.bytes_peak};
    struct rusage usage;
    check(parlin_layer_part(m->head, 0, &out.first_logit, &out.logits));
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out.process = 1024.0 * (double)usage.ru_maxrss;
    out.buffers = r->at_end.buffers_created - r->at_steady.buffers_created;
    out.programs = r->at_end.programs_built - r->at_steady.programs_built +
                   r->at_end.programs_loaded - r->at_steady.programs_loaded;
    return out;
}

static void print_ranks(const rank_report *all, int size, size_t tokens)
{
    fprintf(stderr, "rank  query heads   kv heads    inner    logits\n");
    for (int i = 0; i < size; i++) {
        const parlin_qkv_shape *h = &all[i].heads;
        fprintf(stderr, "%4d  %4zu to %-4zu %3zu to %-4zu %6zu  %zu to %zu\n", i, h->first_head,
                h->first_head + h->heads - 1, h->first_kv_head, h->first_kv_head + h->kv_heads - 1,
                all[i].inner, all[i].first_logit, all[i].first_logit + all[i].logits - 1);
    }
    fprintf(stderr, "rank  MB: weights    cache   device  process\n");
    for (int i = 0; i < size; i++)
        fprintf(stderr, "%4d     %8.2f %8.2f %8.2f %8.2f\n", i, all[i].weights / 1e6,
                all[i].cache / 1e6, all[i].device / 1e6, all[i].process / 1e6);
    if (tokens == 0)
        return;
    fprintf(stderr, "rank  us a token: all  enqueue   device  staging      MPI  sampling\n");
    for (int i = 0; i < size; i++) {
        const lap *t = &all[i].text;
        double rest = t->wall - t->device - t->staging - t->mpi - t->sampling;
        fprintf(stderr, "%4d        %9.0f %8.0f %8.0f %8.0f %8.0f  %8.0f\n", i, 1e6 * t->wall,
                1e6 * rest, 1e6 * t->device, 1e6 * t->staging, 1e6 * t->mpi, 1e6 * t->sampling);
    }
    unsigned long long buffers = 0, programs = 0;
    for (int i = 0; i < size; i++) {
        buffers += all[i].buffers;
        programs += all[i].programs;
    }
    fprintf(stderr,
            "after the first token of text, on all ranks: %llu device buffers made, %llu programs "
            "built or loaded\n",
            buffers, programs);
}

static double speed(size_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : 0;
}

bool report_print(const report *r, const model *m, bool verbose)
{
    const int size = parlin_group_size(m->group);
    const bool root = parlin_group_rank(m->group) == 0;
    rank_report mine = of_this_rank(r, m), *all = calloc((size_t)size, sizeof *all);
    if (!all)
        fail("no memory for the reports of %d ranks", size);
    if (!all_well(MPI_COMM_WORLD)) {
        free(all);
        return false;
    }
    MPI_Request request;
    MPI_Igather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD,
                &request);
    bool fine = finish(&request);
    if (fine && root) {
        const double prompt = r->prompted.wall - r->started.wall;
        const double text = r->ended.wall - r->steady.wall;
        fprintf(stderr, "p = %d: prompt %zu tokens in %.1f ms", size, r->prompt_tokens,
                1e3 * prompt);
        if (steady_tokens(r) > 0)
            fprintf(stderr, "; text %zu tokens/s", (size_t)(speed(steady_tokens(r), text) + 0.5));
        double weights = 0, process = 0;
        for (int i = 0; i < size; i++) {
            weights = all[i].weights > weights ? all[i].weights : weights;
            process = all[i].process > process ? all[i].process : process;
        }
        fprintf(stderr,
                "; at most on a rank: weights %.3g MB, cache %.3g MB, whole process %.3g MB\n",
                weights / 1e6, all[0].cache / 1e6, process / 1e6);
        if (verbose)
            print_ranks(all, size, steady_tokens(r));
    }
    free(all);
    return fine;
}
