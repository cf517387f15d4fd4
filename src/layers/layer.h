/* SPDX-License-Identifier: Apache-2.0 */
/* The room's inner interface: one structure for the four kinds, which differ in what is cut,
   what is joined at the end, and what a configuration may say.

     kind     local weight                          input            joined by
     column   rows of W                             (rows, in)       all-gather, if asked
     merged   rows of each part, part after part    (rows, in)       all-gather of each part, if asked
     qkv      heads: rows of q, then k, then v      (rows, in)       nothing
     row      columns of W                          (rows, columns)  all-reduce, if asked */
#ifndef PL_LAYER_H
#define PL_LAYER_H

#include <parlin/layer.h>

#include "comm/comm.h"
#include "core/status.h"
#include "device/device.h"
#include "gemm/gemm.h"
#include "partition/partition.h"

/* The fields that every configuration begins with. */
typedef struct pl_common {
    PARLIN_LAYER_CONFIG_FIELDS
} pl_common;

/* A configuration that was found right, of any kind; fields that a kind does not have are 0. All
   of it but the name's address is agreed on at creation. */
typedef struct pl_spec {
    parlin_kind kind;
    pl_common common; /* name and dtypes resolved */
    size_t in_features;
    size_t out_features; /* all parts together */
    size_t parts;
    const size_t *part_rows; /* [parts]: rows of each full part */
    bool gather_output;
    bool input_is_parallel;
    bool reduce_results;
    bool gated;
    parlin_activation activation;
    /* qkv; row: where the input is cut at a qkv layer's heads (v_head_size columns each) */
    size_t heads;
    size_t kv_heads;
    size_t head_size;
    size_t v_head_size;
} pl_spec;

/* What this rank holds of one part's weight or bias. */
typedef struct pl_slot {
    pl_range range; /* of the full part's rows */
    size_t at;      /* its first row in the local stack */
    bool ready;     /* loaded or initialised */
} pl_slot;

typedef struct pl_part {
    pl_slot weight;
    pl_slot bias;
} pl_part;

/* Names of the tensors of a forward, ready for sentences: "forward of row layer 'o': x". */
typedef enum pl_label {
    PL_LABEL_X,
    PL_LABEL_Y,
    PL_LABEL_RESIDUAL,
    PL_LABEL_Q,
    PL_LABEL_K,
    PL_LABEL_V,
    PL_LABEL_COUNT
} pl_label;

struct parlin_layer {
    pl_spec spec; /* name and part_rows are the layer's own */
    parlin_group *group;
    parlin_device *device; /* the group's */
    size_t size;           /* p */
    size_t rank;           /* r */
    uint64_t number;       /* of the layer in its group: tells layers apart in agreements */
    uint64_t param_id;
    bool collective;     /* forward has a gather or a reduction */
    pl_range input;      /* columns of W here */
    size_t local_out;    /* rows of W here */
    size_t product_cols; /* columns of this rank's product, after gating */
    size_t output_cols;  /* of y */
    pl_weight *weight;
    cl_mem bias; /* f32 */
    size_t bias_rows;
    cl_mem added_bias; /* what this rank's epilogue adds; NULL: nothing */
    pl_part *parts;
    size_t output_parts; /* of y: parts, gated: 1 */
    size_t *lengths;     /* gather: [output part][rank], columns */
    pl_block *blocks;    /* room for one a part, filled by each forward */
    char *labels[PL_LABEL_COUNT];
    char *text; /* name and labels */
};

/* --- creation (spec.c, layer.c) --- */

/* "<doing> of <kind> layer '<name>': <sentence>"; doing NULL: from the kind on. Returns status. */
__attribute__((format(printf, 4, 5))) parlin_status pl_layer_error(const pl_spec *spec,
                                                                   parlin_status status,
                                                                   const char *doing,
                                                                   const char *format, ...);

/* Checks what all configurations share and takes it over. `config_size`: of the kind's struct. */
parlin_status pl_spec_begin(pl_spec *spec, parlin_kind kind, const void *config, size_t config_size,
                            parlin_layer *const *layer);

/* Adds up out_features from the parts, and refuses a weight whose bytes do not fit size_t. */
parlin_status pl_spec_total(pl_spec *spec);

/* Refuses a size of 0. */
parlin_status pl_spec_positive(const pl_spec *spec, const char *field, size_t value);

/* Refuses fewer units than the group has ranks. */
parlin_status pl_spec_units(const pl_spec *spec, const parlin_group *group, const char *units,
                            size_t count);

parlin_status pl_spec_activation(const pl_spec *spec);

/* Makes the layer where `local` is a success, and agrees. Collective. */
parlin_status pl_layer_create(parlin_group *group, parlin_status local, const pl_spec *spec,
                              parlin_layer **layer);

/* "column" and so on. */
const char *pl_kind_name(parlin_kind kind);

/* Rank r's rows of a full part, and its columns of W. */
pl_range pl_part_range(const pl_spec *spec, size_t p, size_t r, size_t part);
pl_range pl_input_range(const pl_spec *spec, size_t p, size_t r);

/* --- parameters (param.c) --- */

/* Bytes of host memory for a piece of a parameter on its way to or from the device; one row at
   least. */
enum { PL_CHUNK_BYTES = 4 << 20 };
size_t pl_chunk_rows(size_t row_bytes);

static inline pl_slot *pl_slot_of(const parlin_layer *layer, parlin_param param, size_t part)
{
    return param == PARLIN_BIAS ? &layer->parts[part].bias : &layer->parts[part].weight;
}

/* The parts that a shard names; refuses a parameter or a shard that the layer does not have. */
parlin_status pl_param_find(const parlin_layer *layer, const char *doing, parlin_param param,
                            parlin_shard shard, size_t *first, size_t *count);

/* "the weight", "part k of the weight": these parts in a sentence. */
enum { PL_PARAM_TEXT = 64 };
void pl_param_text(const parlin_layer *layer, parlin_param param, size_t first, size_t count,
                   char text[PL_PARAM_TEXT]);

/* Refuses a parameter of which one of these parts was never loaded. */
parlin_status pl_param_ready(const parlin_layer *layer, const char *doing, parlin_param param,
                             size_t first, size_t count);

/* Rows of these full parts together. */
size_t pl_param_rows(const parlin_layer *layer, size_t first, size_t count);

/* Columns of W, or the one column of a bias, that this rank holds. */
pl_range pl_param_cols(const parlin_layer *layer, parlin_param param);

/* What a parameter is stored in: a weight's dtype is the layer's, a bias is f32. */
parlin_dtype pl_param_dtype(const parlin_layer *layer, parlin_param param);

/* Rows of the local stack, dense on the host, in pl_param_dtype. Blocking. */
parlin_status pl_param_write(parlin_layer *layer, parlin_param param, size_t row, size_t rows,
                             const void *host);
parlin_status pl_param_read(const parlin_layer *layer, parlin_param param, size_t row, size_t rows,
                            void *host);

/* --- load.c --- */

/* `count` lines of `width` bytes, `pitch` bytes apart. */
typedef struct pl_lines {
    const char *first;
    size_t pitch;
    size_t width;
    size_t count;
} pl_lines;

/* Told of every block of a stored tensor before it is read and after; the tensor has a stride of
   1 in rows or in columns. */
typedef struct pl_load_watch {
    void *user;
    size_t (*most_lines)(size_t pitch, size_t width); /* wanted in one block; 1 at least */
    void (*before)(void *user, const pl_lines *lines);
    void (*after)(void *user, const pl_lines *lines);
} pl_load_watch;

/* All that a load refuses, with nothing changed. */
parlin_status pl_load_check(const parlin_layer *layer, parlin_param param, parlin_shard shard,
                            const parlin_host *tensor);

/* parlin_layer_load; watch may be NULL. */
parlin_status pl_load(parlin_layer *layer, parlin_param param, parlin_shard shard,
                      const parlin_host *tensor, const pl_load_watch *watch);

/* --- init.c --- */

/* Refuses an initialiser; `field` names it. */
parlin_status pl_init_check(const pl_spec *spec, parlin_init init, const char *field,
                            parlin_param param);

/* Gives every part its initial values. No-op for PARLIN_INIT_NONE. */
parlin_status pl_init_param(parlin_layer *layer, parlin_param param);

#endif
