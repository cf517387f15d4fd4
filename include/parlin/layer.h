/* SPDX-License-Identifier: Apache-2.0 */
/* The four tensor-parallel linear layers: column, merged column, qkv, row.

     Y = act(X W^T + b) + residual
     X: (rows, in_features)   W: (out_features, in_features)   Y: (rows, out_features)

   n units are cut over p ranks into contiguous runs in rank order; where p does not divide n,
   earlier ranks take one more. A unit is a row of W (column), a row of each part (merged), a
   head (qkv), a column of W (row). The layers are those of Megatron-LM (Shoeybi et al., 2019)
   and vLLM. */
#ifndef PARLIN_LAYER_H
#define PARLIN_LAYER_H

#include <parlin/group.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct parlin_layer parlin_layer;

typedef enum parlin_kind {
    PARLIN_COLUMN = 1,
    PARLIN_MERGED = 2,
    PARLIN_QKV = 3,
    PARLIN_ROW = 4
} parlin_kind;

typedef enum parlin_param { PARLIN_WEIGHT = 1, PARLIN_BIAS = 2 } parlin_param;

/* Which part of a layer a tensor holds: PARLIN_WHOLE, a part's index (0, 1, ..) of a merged
   layer, or Q, K, V. */
typedef int parlin_shard;
enum { PARLIN_WHOLE = -1, PARLIN_Q = -2, PARLIN_K = -3, PARLIN_V = -4 };

/* Activations, applied to X W^T + b:
     relu      max(0, z)
     gelu      z/2 (1 + erf(z / sqrt 2))
     gelu_tanh z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3)))     (Hendrycks and Gimpel, 2016)
     silu      z / (1 + exp(-z)) */
typedef enum parlin_activation {
    PARLIN_NO_ACTIVATION = 0,
    PARLIN_RELU = 1,
    PARLIN_GELU = 2,
    PARLIN_GELU_TANH = 3,
    PARLIN_SILU = 4
} parlin_activation;

/* Initial values. They belong to the full matrix and do not depend on the number of ranks:
   element (row, column) is a pure function of (seed, parameter id, row, column). fan_in =
   in_features, fan_out = out_features of the full part.
     none            left to a load; a forward before that is refused
     zeros, ones
     constant        value
     uniform         [-value, value)
     normal          mean 0, standard deviation value
     he_uniform      uniform, bound sqrt(6 / ((1 + value^2) fan_in))    (He et al., 2015)
     xavier_uniform  uniform, bound sqrt(6 / (fan_in + fan_out))        (Glorot and Bengio, 2010)
     reference       weight: he_uniform(sqrt 5); bias: uniform(1 / sqrt(in_features)), as PyTorch
   A bias takes none of he_uniform and xavier_uniform. */
typedef enum parlin_init_kind {
    PARLIN_INIT_NONE = 0,
    PARLIN_INIT_ZEROS,
    PARLIN_INIT_ONES,
    PARLIN_INIT_CONSTANT,
    PARLIN_INIT_UNIFORM,
    PARLIN_INIT_NORMAL,
    PARLIN_INIT_HE_UNIFORM,
    PARLIN_INIT_XAVIER_UNIFORM,
    PARLIN_INIT_REFERENCE
} parlin_init_kind;

typedef struct parlin_init {
    parlin_init_kind kind;
    double value;
} parlin_init;

/* What every configuration has. struct_size is set by the function that gives the defaults. */
#define PARLIN_LAYER_CONFIG_FIELDS                                                                 \
    size_t struct_size;                                                                            \
    const char *name;           /* in messages; copied. NULL: the kind */                          \
    parlin_dtype param_dtype;   /* storage of weight and bias. Default f32 */                      \
    parlin_dtype compute_dtype; /* of the multiplication. Default: param_dtype */                  \
    parlin_dtype output_dtype;  /* of Y. Default: param_dtype */                                   \
    bool bias;                  /* the layer owns a bias */                                        \
    bool skip_bias_add;         /* it is not added: see parlin_layer_bias; no bias, no effect */   \
    parlin_init weight_init;                                                                       \
    parlin_init bias_init;                                                                         \
    uint64_t seed;     /* of the initial values */                                                 \
    uint64_t param_id; /* told apart in them; 0: the group's next id, alike on all ranks */

/* Column: W's rows are cut. Output: this rank's columns of Y, or all of them with gather_output
   (all-gather). Defaults: bias false. */
typedef struct parlin_column_config {
    PARLIN_LAYER_CONFIG_FIELDS
    size_t in_features;
    size_t out_features;
    bool gather_output;
    parlin_activation activation;
} parlin_column_config;

/* Merged column: `parts` matrices of out_features[i] rows on one input, each cut by itself.
   Output: the local parts side by side; with gather_output the full parts, in order. With
   `gated` (exactly two equal parts and an activation) the output is act(part 0) * part 1, of
   half width. Defaults: bias true. */
typedef struct parlin_merged_config {
    PARLIN_LAYER_CONFIG_FIELDS
    size_t in_features;
    size_t parts;
    const size_t *out_features; /* [parts]; copied */
    bool gather_output;
    parlin_activation activation;
    bool gated;
} parlin_merged_config;

/* QKV: heads are cut. Each rank holds a contiguous run of query heads and just the key/value
   heads these read: on key/value-group borders where p <= total_num_kv_heads, else on query-head
   borders (a key/value head then lives on several ranks). Output: [q | k | v] side by side, or
   three views of heads. total_num_heads must be a multiple of total_num_kv_heads. Defaults: bias
   true; total_num_kv_heads 0: as total_num_heads; v_head_size 0: as head_size. */
typedef struct parlin_qkv_config {
    PARLIN_LAYER_CONFIG_FIELDS
    size_t hidden_size; /* in_features */
    size_t head_size;
    size_t v_head_size;
    size_t total_num_heads;
    size_t total_num_kv_heads;
} parlin_qkv_config;

/* Row: W's columns are cut. Input: this rank's columns of X (input_is_parallel), or all of them
   and the layer takes its own. Output: the full sum on every rank (reduce_results, all-reduce),
   or this rank's part. The bias enters once. reduce_results false with a bias that is added is
   refused. `input_like` (borrowed during the call): a layer of the same group whose output is cut
   (not one with gather_output, nor a row layer); the input is cut where that is: at its query
   heads (in_features = total_num_heads v_head_size), at its columns, or, for a merged layer of
   equal parts, at the columns of one part. NULL: evenly. Defaults: bias true, input_is_parallel
   true, reduce_results true. */
typedef struct parlin_row_config {
    PARLIN_LAYER_CONFIG_FIELDS
    size_t in_features;
    size_t out_features;
    bool input_is_parallel;
    bool reduce_results;
    const parlin_layer *input_like;
} parlin_row_config;

/* Not collective. */
PARLIN_API parlin_column_config parlin_column_defaults(void);
PARLIN_API parlin_merged_config parlin_merged_defaults(void);
PARLIN_API parlin_qkv_config parlin_qkv_defaults(void);
PARLIN_API parlin_row_config parlin_row_defaults(void);

/* Makes a layer: allocates this rank's slice of the weight and bias and, where asked, fills it.
   The layer keeps a reference to the group. Ownership: the caller destroys it. Collective: where
   one rank fails, or ranks differ, none gets a layer. Errors: ARGUMENT (the sentence names the
   field), SHAPE (fewer units than ranks, with both numbers), UNSUPPORTED (a dtype this version
   does not compute in), MEMORY, MISMATCH, COMM, GROUP_LOST. */
PARLIN_API parlin_status parlin_column_create(parlin_group *group,
                                              const parlin_column_config *config,
                                              parlin_layer **layer);
PARLIN_API parlin_status parlin_merged_create(parlin_group *group,
                                              const parlin_merged_config *config,
                                              parlin_layer **layer);
PARLIN_API parlin_status parlin_qkv_create(parlin_group *group, const parlin_qkv_config *config,
                                           parlin_layer **layer);
PARLIN_API parlin_status parlin_row_create(parlin_group *group, const parlin_row_config *config,
                                           parlin_layer **layer);

/* NULL is allowed. Not collective. */
PARLIN_API void parlin_layer_destroy(parlin_layer *layer);

/* Loads a part from a full host tensor: every rank passes the whole, each keeps (and touches)
   its own slice only. A weight is (out_features, in_features) of the part named by `shard`, a
   bias (out_features, 1). PARLIN_WHOLE on a merged or qkv layer: all parts in one tensor, in
   tensor.order. The dtype may differ from the parameter's and is converted, to nearest even. A
   part may be loaded again. Nothing is kept of the host memory after the call. Errors: ARGUMENT
   (a shard this layer does not have, a bias it does not own, no such dtype, order), SHAPE, each
   with layer, parameter, given and wanted, and nothing changed; DEVICE: the device failed while
   the part was written, which then counts as never loaded. Not collective. */
PARLIN_API parlin_status parlin_layer_load(parlin_layer *layer, parlin_param param,
                                           parlin_shard shard, parlin_host tensor);

/* The inverse: rank `root` gets the full part, dense and row-major, in the parameter's dtype;
   `bytes` must be its exact size there and is ignored (as data is) on other ranks. PARLIN_WHOLE:
   all parts stacked. Collective. Errors: as the collectives; ARGUMENT, SHAPE, STATE (a part
   never loaded). */
PARLIN_API parlin_status parlin_layer_export(parlin_layer *layer, parlin_param param,
                                             parlin_shard shard, int root, void *data,
                                             size_t bytes);

/* What a layer is, and what this rank has of it. */
typedef struct parlin_layer_info {
    parlin_kind kind;
    const char *name;     /* lives as long as the layer */
    size_t in_features;   /* of the full layer */
    size_t out_features;  /* of the full layer: all parts together */
    size_t parts;         /* matrices in it: 1, merged: their number, qkv: 3 */
    size_t input_cols;    /* that forward wants here */
    size_t output_cols;   /* that forward gives here */
    size_t input_start;   /* row: first column of X that belongs to this rank; else 0 */
    size_t input_length;  /* row: how many; else in_features */
    size_t output_start;  /* column: first row of W here; merged: of part 0; else 0 */
    size_t output_length; /* rows of W here, all parts together */
    size_t weight_bytes;  /* on this rank */
    const char *engine;   /* that formed the last product: "plain", "clblast"; "none" before it */
    bool has_bias;
    bool collective; /* forward is collective (p > 1 and a gather or reduction) */
    parlin_dtype param_dtype, compute_dtype, output_dtype;
} parlin_layer_info;

PARLIN_API parlin_layer_info parlin_layer_get_info(const parlin_layer *layer);

/* This rank's rows (of W) or columns of part `part`: start and length in the full part. A bias
   follows the weight's rows. Errors: ARGUMENT. Not collective. */
PARLIN_API parlin_status parlin_layer_part(const parlin_layer *layer, size_t part, size_t *start,
                                           size_t *length);

/* A new dense tensor of the shape and dtype that forward gives here for `rows` rows. The caller
   destroys it. Its shape without making one: (rows, parlin_layer_get_info(layer).output_cols).
   Errors: MEMORY. Not collective. */
PARLIN_API parlin_status parlin_layer_output(const parlin_layer *layer, size_t rows,
                                             parlin_tensor *y);

/* The skipped bias as a tensor of (1, output_cols), borrowed, on every rank; for qkv [q | k |
   v]. Errors: STATE (the layer has no bias, adds it itself, or it was never loaded). Not
   collective. */
PARLIN_API parlin_status parlin_layer_bias(const parlin_layer *layer, parlin_tensor *bias);

/* y = layer(x). x: (rows, input_cols), y: (rows, output_cols), any strides, no overlap. rows may
   be 0 and may change from call to call. Only enqueues, unless the layer has a collective: then
   it returns when the last message is done and is collective, and all ranks pass the same rows.
   Errors: SHAPE, ARGUMENT, STATE (a part never loaded, by name), DEVICE and those of the
   collectives; y is not written where arguments are refused. */
PARLIN_API parlin_status parlin_layer_forward(parlin_layer *layer, parlin_tensor x,
                                              parlin_tensor y);

/* y = layer(x) + residual, the residual (rows, output_cols) added once, after the activation; it
   may be y itself. Where every rank gets the full output (gather_output, reduce_results), all
   ranks pass the same residual. Refused on a row layer with reduce_results false (it would enter
   p times) and on qkv layers. Otherwise as parlin_layer_forward. */
PARLIN_API parlin_status parlin_layer_forward_residual(parlin_layer *layer, parlin_tensor x,
                                                       parlin_tensor residual, parlin_tensor y);

/* What this rank has of a qkv layer. All 0 for NULL or another kind. Not collective. */
typedef struct parlin_qkv_shape {
    size_t heads; /* query heads here */
    size_t kv_heads;
    size_t first_head; /* global number of local query head 0 */
    size_t first_kv_head;
    size_t head_size;
    size_t v_head_size;
} parlin_qkv_shape;

PARLIN_API parlin_qkv_shape parlin_qkv_local(const parlin_layer *qkv);

/* The local kv head that local query head `head` reads; SIZE_MAX where there is no such head.
   Not collective. */
PARLIN_API size_t parlin_qkv_kv_head(const parlin_layer *qkv, size_t head);

/* Forward of a qkv layer into three views of heads: q (rows, heads, head_size), k (rows,
   kv_heads, head_size), v (rows, kv_heads, v_head_size), each with its own row and head stride;
   they must not overlap. Errors: as parlin_layer_forward. Not collective. */
PARLIN_API parlin_status parlin_qkv_forward(parlin_layer *qkv, parlin_tensor x, parlin_heads q,
                                            parlin_heads k, parlin_heads v);

#ifdef __cplusplus
}
#endif

#endif
