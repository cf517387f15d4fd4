/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in the safetensors format: reading, writing, and loading layers from them.

   A checkpoint is one file, or a folder with model.safetensors or with
   model.safetensors.index.json and the files that it names. It is mapped into memory, never read
   as a whole. */
#ifndef PARLIN_CHECKPOINT_H
#define PARLIN_CHECKPOINT_H

#include <parlin/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct parlin_checkpoint parlin_checkpoint;

#define PARLIN_STORED_DIMS 8 /* most dimensions of a stored tensor */

/* A tensor in a checkpoint: dense, row-major, little-endian. As a checkpoint gives it, name,
   dtype_name and data live as long as the checkpoint. */
typedef struct parlin_stored {
    const char *name;
    const char *dtype_name; /* as stored: "F64" "F32" "F16" "BF16" "I64" "I32" "I16" "I8" "U8"
                               "BOOL", or one that is not known here */
    parlin_dtype dtype;     /* F32, F16, BF16; PARLIN_DTYPE_DEFAULT: a layer cannot load it */
    size_t element_bytes;   /* 0 where the dtype is not known */
    size_t dim_count;       /* 0: a single number */
    size_t dims[PARLIN_STORED_DIMS]; /* [dim_count], outermost first */
    size_t bytes;
    const void *data; /* in the mapped file; of any alignment. Reading it may wait for the disk */
} parlin_stored;

/* --- reading --- */

/* Opens a safetensors file, an index file (named *.json) or a folder. Every header is checked in
   full: ranges that lie outside, overlap, leave gaps or disagree with the shape, names twice,
   files that an index names and that are not there. In a folder the index, where there is one,
   decides which file holds a tensor; else model.safetensors is read. The files must not change
   while they are open. Ownership: the caller closes it. Errors: ARGUMENT; FILE, the sentence
   names file and tensor; MEMORY. Not collective: each rank opens for itself. */
PARLIN_API parlin_status parlin_checkpoint_open(const char *path, parlin_checkpoint **checkpoint);

/* NULL is allowed. What a loader still needs stays until that one is destroyed. Not
   collective. */
PARLIN_API void parlin_checkpoint_close(parlin_checkpoint *checkpoint);

/* How many tensors; 0 for NULL. Not collective. */
PARLIN_API size_t parlin_checkpoint_count(const parlin_checkpoint *checkpoint);

/* Tensor `index`, in the byte order of their names. Errors: ARGUMENT. Not collective. */
PARLIN_API parlin_status parlin_checkpoint_get(const parlin_checkpoint *checkpoint, size_t index,
                                               parlin_stored *tensor);

/* True where there is a tensor of this name. Not collective. */
PARLIN_API bool parlin_checkpoint_has(const parlin_checkpoint *checkpoint, const char *name);

/* The tensor of this name, of any dtype. Errors: ARGUMENT, FILE (there is none). Not
   collective. */
PARLIN_API parlin_status parlin_checkpoint_find(const parlin_checkpoint *checkpoint,
                                                const char *name, parlin_stored *tensor);

/* The tensor of this name as parlin_layer_load takes it: (rows, cols) of two dimensions, (n, 1)
   of one. The data stay in the mapped file. Errors: ARGUMENT, FILE (there is none), SHAPE (other
   than one or two dimensions), UNSUPPORTED (not F32, F16 or BF16). Not collective. */
PARLIN_API parlin_status parlin_checkpoint_host(const parlin_checkpoint *checkpoint,
                                                const char *name, parlin_host *tensor);

/* Gives back the memory in which the system holds the mapped files for this process, for a program
   that has read tensors by itself; what is read later comes in again. Not collective. */
PARLIN_API void parlin_checkpoint_give_back(const parlin_checkpoint *checkpoint);

/* The text that a header's __metadata__ has under this key, of the first file that has it; NULL:
   none has. Lives as long as the checkpoint. Not collective. */
PARLIN_API const char *parlin_checkpoint_metadata(const parlin_checkpoint *checkpoint,
                                                  const char *key);

/* --- writing --- */

typedef struct parlin_metadata {
    const char *key;
    const char *value;
} parlin_metadata;

/* A matrix of (rows, cols), or a vector of n, for parlin_checkpoint_write. Nothing is copied. Not
   collective. */
PARLIN_API parlin_stored parlin_stored_2d(const char *name, const void *data, parlin_dtype dtype,
                                          size_t rows, size_t cols);
PARLIN_API parlin_stored parlin_stored_1d(const char *name, const void *data, parlin_dtype dtype,
                                          size_t n);

/* Writes one safetensors file, whole or not at all: under another name beside it first. Of a
   tensor count: name, dtype_name (NULL: that of dtype), dim_count, dims, bytes, data (may be NULL
   for no bytes). Wider elements come first, so that all are aligned. For parlin_layer_export's
   root. Errors: ARGUMENT (a name twice, bytes that do not fit the shape), FILE, MEMORY. Not
   collective. */
PARLIN_API parlin_status parlin_checkpoint_write(const char *path, const parlin_stored *tensors,
                                                 size_t count, const parlin_metadata *metadata,
                                                 size_t metadata_count);

/* --- loading layers --- */

/* A loader run says which stored tensor feeds which part of which layer, and then loads them all,
   with nothing missing and nothing twice. */
typedef struct parlin_loader parlin_loader;

/* How a tensor is stored. Never guessed. */
typedef struct parlin_layout {
    bool transposed; /* (in_features, out_features), as GPT-2's Conv1D. Weights only */
    parlin_qkv_order order;
} parlin_layout;

/* `done` of `total` bytes of this rank's slices, as stored. Called in the thread of the run: first
   with done 0, last with done = total. */
typedef void (*parlin_progress)(void *user, size_t done, size_t total);

/* The loader keeps the checkpoint. Ownership: the caller destroys it. Errors: ARGUMENT, MEMORY.
   Not collective. */
PARLIN_API parlin_status parlin_loader_create(parlin_checkpoint *checkpoint,
                                              parlin_loader **loader);

/* NULL is allowed; before or after the checkpoint is closed and the layers are destroyed. Not
   collective. */
PARLIN_API void parlin_loader_destroy(parlin_loader *loader);

/* `shard` of the layer is stored as "<prefix>.weight" and, where the layer owns a bias,
   "<prefix>.bias", both as they are. The layer is borrowed until the last run is over. Errors:
   ARGUMENT (a shard that the layer does not have, a part that is fed already), MEMORY; whether
   the tensors are there is looked at by the run. Not collective. */
PARLIN_API parlin_status parlin_loader_add(parlin_loader *loader, parlin_layer *layer,
                                           parlin_shard shard, const char *prefix);

/* The same in full: one parameter, the tensor's whole name, its layout (NULL: as it is). */
PARLIN_API parlin_status parlin_loader_add_tensor(parlin_loader *loader, parlin_layer *layer,
                                                  parlin_param param, parlin_shard shard,
                                                  const char *name, const parlin_layout *layout);

/* Tensors whose names begin with `prefix` are not counted as left over: the program reads them
   itself, or has no use for them. Errors: ARGUMENT, MEMORY. Not collective. */
PARLIN_API parlin_status parlin_loader_ignore(parlin_loader *loader, const char *prefix);

/* Checks everything, then loads. Only the bytes of this rank's slices are touched, each once,
   straight from the mapped file to the device, and their pages are given back on the way: what
   the process holds of the file stays below 32 MiB. progress may be NULL. A run may be repeated.
   Errors, with nothing loaded: FILE (tensors that are not there, by name; a bias stored beside a
   weight whose layer owns none), SHAPE, UNSUPPORTED (dtype), ARGUMENT (order), STATE (a part of a
   layer that nothing feeds and that has no values); while loading: DEVICE, MEMORY. Not
   collective: each rank runs its own loader, in its own time. */
PARLIN_API parlin_status parlin_loader_run(parlin_loader *loader, parlin_progress progress,
                                           void *user);

/* The checkpoint's tensors that no add names, in the order of their names: a report, not an error.
   Names live as long as the loader; NULL from the count on. Not collective. */
PARLIN_API size_t parlin_loader_left_over_count(parlin_loader *loader);
PARLIN_API const char *parlin_loader_left_over(parlin_loader *loader, size_t index);

/* A parlin_progress: one line on the terminal at stderr, for loads of more than a second; nothing
   where stderr is no terminal. `user` is not used. */
PARLIN_API void parlin_progress_terminal(void *user, size_t done, size_t total);

#ifdef __cplusplus
}
#endif

#endif
