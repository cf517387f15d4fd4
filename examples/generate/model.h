/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder of the Llama family, cut over the ranks of a group. Each layer:

     h = norm1(x)                               own kernel
     q, k, v = qkv(h)                           parlin qkv; k and v go straight into the cache
     q, k = rotated                             own kernel, k in place in the cache
     a = attention(q, cache)                    own kernel, this rank's heads
     x = o(a) + x                               parlin row, cut like qkv; all-reduce
     h = norm2(x)
     g = silu(gate(h)) * up(h)                  parlin merged, gated
     x = down(g) + x                            parlin row, cut like gate and up; all-reduce
   and at the end
     logits = head(norm(x))                     parlin column, gathered

   Everything but x, h and the logits is this rank's share. */
#ifndef GENERATE_MODEL_H
#define GENERATE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <parlin/parlin.h>

#include "config.h"
#include "kernels.h"

typedef struct decoder_layer {
    parlin_layer *qkv, *o, *gate_up, *down;
    parlin_tensor norm1, norm2;
    parlin_tensor keys, values; /* (kv heads * positions, head size): the cache */
} decoder_layer;

typedef struct model {
    const model_config *config;
    parlin_group *group;
    size_t positions; /* that the cache has room for */
    size_t rows;      /* most tokens in one call */
    size_t heads, kv_heads;
    kernels kernels;
    decoder_layer *layers; /* [config->layers] */
    parlin_layer *head;
    parlin_tensor table, norm; /* the embedding, and the last norm's weight */
    parlin_tensor turns;       /* (positions, head size): cos and sin of each pair */
    parlin_tensor kv_of;       /* int32: the local kv head of each local query head */
    parlin_tensor ids;         /* int32 (rows) */
    parlin_tensor x, h, q, a, g, logits;
    int32_t *host_ids; /* [rows] */
    size_t weight_bytes, cache_bytes;
} model;

/* What model_load tells of the checkpoint. */
typedef struct load_report {
    size_t left_over; /* tensors that nothing needs */
    char first[256];  /* the first of them */
} load_report;

/* Makes the layers and loads FOLDER's weights, this rank's share of each. `positions` tokens can be
   fed, at most `rows` in a call, with logits for at most `logit_rows` of them. Collective; false
   where it failed on this rank, and to be closed in any case. */
bool model_create(model *m, parlin_group *group, const model_config *config, size_t positions,
                  size_t rows, size_t logit_rows);
bool model_load(model *m, const char *folder, load_report *report);
void model_close(model *m);

/* Feeds `count` tokens at positions first .. first + count - 1 and leaves the logits of the last
   `logit_rows` of them in the first rows of m->logits, on every rank. Collective; true on all ranks
   or false on all. It enqueues and returns, but for the collectives. */
bool model_feed(model *m, const int *tokens, size_t count, size_t first, size_t logit_rows);

/* Waits for the device. */
bool model_wait(model *m);

/* Reads the first `rows` rows of the logits. */
bool model_logits(model *m, size_t rows, float *logits);

#endif
