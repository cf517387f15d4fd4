/* SPDX-License-Identifier: Apache-2.0 */
/* The room's inner interface. A checkpoint is one or more safetensors files:

       header length n (8 bytes, little-endian)   header: n bytes of JSON   data

       {"__metadata__": {"key": "text", ..},
        "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..}

   Offsets count from the start of the data, of which every byte belongs to just one tensor. */
#ifndef PL_CHECKPOINT_H
#define PL_CHECKPOINT_H

#include <parlin/checkpoint.h>

#include "core/ref.h"
#include "core/status.h"

struct cJSON;

/* --- map.c: a file in memory --- */

typedef struct pl_map {
    const unsigned char *bytes;
    size_t size; /* > 0 */
} pl_map;

/* Errors: FILE, the sentence names the path. */
parlin_status pl_map_open(const char *path, pl_map *map);
void pl_map_close(pl_map *map); /* a cleared one is allowed */

/* While it is on, a page that is touched brings no other one from the disk. */
void pl_map_read_ahead(const pl_map *map, bool on);

/* Begins to read [from, from + bytes), and not more, into the system's cache. */
void pl_map_will_need(const pl_map *map, const void *from, size_t bytes);

/* Takes the pages that hold [from, from + bytes), and their neighbours that the system may have
   mapped along with them, out of this process. They come back when touched. */
void pl_map_give_back(const pl_map *map, const void *from, size_t bytes);

/* Bytes that one touched byte may make resident. */
enum { PL_MAP_WINDOW = 64 << 10 };

/* --- json.c: what cJSON lets pass, is refused here --- */

/* A name of a file's own, fit for a sentence: of bounded length, without control characters. */
enum { PL_QUOTE = 160 };
const char *pl_quote(const char *name, char quoted[PL_QUOTE]);

/* True for UTF-8. */
bool pl_json_is_text(const char *text);

enum { PL_JSON_MOST = 100000000 }; /* bytes */

/* Parses one JSON object. `what` begins the sentences: "checkpoint a.safetensors: the header".
   Refused: NUL bytes and escapes, invalid UTF-8, anything but white space after it, more than
   1000 levels, more than PL_JSON_MOST bytes. */
parlin_status pl_json_parse(const char *what, const unsigned char *text, size_t size,
                            struct cJSON **json);

/* Refuses numbers that are written other than in plain digits, and true, false, null. */
parlin_status pl_json_plain(const char *what, const unsigned char *text, size_t size);

/* --- safetensors.c: one file --- */

typedef struct pl_safetensors {
    char *path;
    pl_map map;
    parlin_stored *tensors; /* [count], by name */
    size_t count;
    parlin_metadata *metadata; /* [metadata_count], by key */
    size_t metadata_count;
    char *text; /* names, keys, values */
} pl_safetensors;

/* Checks all of the header. */
parlin_status pl_safetensors_open(const char *path, pl_safetensors *file);
void pl_safetensors_close(pl_safetensors *file); /* a cleared one is allowed */

/* NULL: there is none. */
const parlin_stored *pl_safetensors_find(const pl_safetensors *file, const char *name);
const char *pl_safetensors_metadata(const pl_safetensors *file, const char *key);

/* Completes dtype_name (to one that lives for ever), dtype and element_bytes; false, with
   element_bytes 0, where dtype_name is not known. */
bool pl_stored_dtype(parlin_stored *tensor);

/* bytes = element_bytes * product of dims; false where that is no size. */
bool pl_stored_bytes(const parlin_stored *tensor, size_t *bytes);

/* --- index.c, checkpoint.c: several files as one --- */

typedef struct pl_entry {
    parlin_stored stored;
    size_t file;
} pl_entry;

struct parlin_checkpoint {
    pl_ref ref;
    char *path; /* as given */
    pl_safetensors *files;
    size_t file_count;
    pl_entry *entries; /* [count], by name */
    size_t count;
};

/* Fills files and entries from an index file; the names in it are relative to its folder. What is
   made before a failure is left to the caller. */
parlin_status pl_index_open(const char *path, parlin_checkpoint *checkpoint);

/* Made of `format`; NULL: no memory. */
__attribute__((format(printf, 1, 2))) char *pl_text(const char *format, ...);

/* --- for layers --- */

void pl_checkpoint_retain(parlin_checkpoint *checkpoint);

/* SIZE_MAX: there is none. */
size_t pl_checkpoint_index(const parlin_checkpoint *checkpoint, const char *name);

/* As parlin_checkpoint_host. */
parlin_status pl_checkpoint_host(const parlin_checkpoint *checkpoint, size_t index,
                                 parlin_host *tensor);

const pl_map *pl_checkpoint_map(const parlin_checkpoint *checkpoint, size_t index);

/* For all files. */
void pl_checkpoint_read_ahead(const parlin_checkpoint *checkpoint, bool on);

#endif
