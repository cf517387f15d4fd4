/* SPDX-License-Identifier: Apache-2.0 */
/* What the layer tests share: layers made from a short description, and a model by brute force
   of which rows and columns each rank holds. The model knows nothing of src/partition.

   Full weights and biases are numbered "stacked": all rows of part 0, then of part 1, ..; for
   qkv q, then k, then v. */
#ifndef LAYERS_H
#define LAYERS_H

#include "support.h"

#define LAYERS_MOST_PARTS 4

typedef struct layers_case {
    parlin_kind kind;
    size_t in;
    size_t out;                         /* column, row */
    size_t parts;                       /* merged */
    size_t part_out[LAYERS_MOST_PARTS]; /* merged */
    /* qkv; kv_heads 0: as heads, v_head_size 0: as head_size. A row layer with heads set is cut
       like a qkv layer with these heads (pass that layer as input_like) */
    size_t heads, kv_heads, head_size, v_head_size;
    bool bias;
    bool skip_bias_add;
    bool gather_output; /* column, merged */
    bool whole_input;   /* row: not input_is_parallel */
    bool partial;       /* row: not reduce_results */
    bool gated;         /* merged */
    parlin_activation activation;
    const parlin_layer *input_like;
    const char *name;
    parlin_init weight_init, bias_init;
    uint64_t seed, param_id;
} layers_case;

/* Makes the layer; the status is the library's. Collective over group. */
parlin_status layers_try(parlin_group *group, const layers_case *c, parlin_layer **layer);
/* The same, and fails the test where it is refused. */
parlin_layer *layers_create(parlin_group *group, const layers_case *c);

/* Every kind, with sizes that 2, 3, 4 and 8 do not divide, kv heads that are cut and kv heads
   that several ranks hold; all serve groups of up to 8 and layers_read_local. */
#define LAYERS_KINDS 10
extern const layers_case layers_kinds[LAYERS_KINDS];

/* --- the model --- */

/* Run of rank r where n units are dealt to p ranks, earlier ranks one more. */
void layers_deal(size_t n, size_t p, size_t r, size_t *start, size_t *length);

size_t layers_parts(const layers_case *c);                   /* qkv 3, merged parts, else 1 */
size_t layers_part_rows(const layers_case *c, size_t part);  /* of the full part */
size_t layers_part_start(const layers_case *c, size_t part); /* its first stacked row */
size_t layers_out(const layers_case *c);                     /* all parts together */
parlin_shard layers_shard(const layers_case *c, size_t part);
/* How a sentence names the part: "part k", "part 1"; "" where a layer has one part. */
void layers_part_text(const layers_case *c, size_t part, char text[32]);

/* Query and kv heads of rank r. */
void layers_heads(const layers_case *c, size_t p, size_t r, size_t *first, size_t *heads,
                  size_t *first_kv, size_t *kv_heads);

/* The global (stacked) rows, or columns, of W that rank r holds, in local order; the value is
   their number. `list` may be NULL. A row layer holds every row, the others every column. */
size_t layers_rows(const layers_case *c, size_t p, size_t r, size_t *list);
size_t layers_cols(const layers_case *c, size_t p, size_t r, size_t *list);

/* --- values --- */

/* New full stacked tensors of whole numbers, each element its own (weight below 2^24 in all). */
float *layers_weight(const layers_case *c);
float *layers_bias(const layers_case *c);

/* Loads full stacked tensors part by part with PARLIN_WHOLE (all orders stacked). bias may be
   NULL where the layer has none. */
void layers_load(parlin_layer *layer, const layers_case *c, const float *weight, const float *bias);

/* What this rank holds, by forwards of unit vectors: weight (local rows, local columns) of whole
   numbers, bias [local rows] where the layer adds one (either may be NULL). The layer must have
   no collective: gather_output false, and for a row layer `partial`. */
void layers_read_local(parlin_layer *layer, float *weight, float *bias);

/* layers_read_local gives just what the model says of these full tensors. */
void layers_check_local(parlin_group *group, parlin_layer *layer, const layers_case *c,
                        const float *weight, const float *bias);

/* parlin_layer_bias hands back just this rank's rows of `bias` (all of them with gather_output). */
void layers_check_skipped(parlin_group *group, parlin_layer *layer, const layers_case *c,
                          const float *bias);

/* An export to rank `root` gives these bits there. Collective over group. */
void layers_check_export_to(parlin_group *group, parlin_layer *layer, parlin_param param,
                            parlin_shard shard, const float *full, size_t count, int root);
/* The same to the last rank. */
void layers_check_export(parlin_group *group, parlin_layer *layer, parlin_param param,
                         parlin_shard shard, const float *full, size_t count);

/* --- groups and ranks --- */

/* Calls body for each p in the list that the world has room for, on the world's first p ranks
   as a group of their own; the other ranks wait. Skips the test where the world is smaller than
   all of them. */
#define LAYERS_ON(body, ...) layers_on(body, (const int[]){__VA_ARGS__, 0})
void layers_on(void (*body)(parlin_group *group), const int *sizes);

/* parlin_last_error is the same text on the world's first p ranks; all of these call. */
void layers_check_same_sentence(int p);

#endif
