/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share. */
#ifndef PL_DEVICE_INTERNAL_H
#define PL_DEVICE_INTERNAL_H

#include <stdint.h>

#include "core/ref.h"
#include "core/status.h"
#include "device/device.h"

/* --- list.c: the devices of this machine, found once in a process --- */
typedef struct pl_listed {
    cl_platform_id platform;
    cl_device_id id;
} pl_listed;

typedef struct pl_device_list {
    size_t count;
    pl_listed *handles;       /* [count] */
    parlin_device_info *info; /* [count] */
    char none[512];           /* where count is 0: why, as the end of a sentence */
} pl_device_list;

/* Lives as long as the process. Errors: MEMORY. */
parlin_status pl_device_list_get(const pl_device_list **list);

/* --- caps.c: asking one device --- */
struct pl_hardware;

/* True for a device that parlin can use: OpenCL 1.2, available, with a compiler. Else *why says
   what is missing. Place in the list is left to the caller. */
bool pl_caps_query(cl_platform_id platform, cl_device_id id, parlin_device_info *info,
                   struct pl_hardware *hardware, const char **why);

/* --- context.c --- */
typedef struct pl_kernel_entry {
    struct pl_kernel_entry *next;
    cl_kernel kernel;
    char *file, *name, *options;
} pl_kernel_entry;

typedef struct pl_program_entry {
    struct pl_program_entry *next;
    cl_program program;
    bool from_cache;
    char *file, *options;
} pl_program_entry;

typedef struct pl_attachment {
    struct pl_attachment *next;
    const void *key;
    void *state;
    void (*destroy)(void *state);
} pl_attachment;

/* Blocks that are not in use, of one kind. */
enum { PL_POOL_BLOCKS = 16 };
typedef struct pl_block_free {
    cl_mem buffer;
    void *host; /* staging only */
    size_t bytes;
    uint64_t given; /* when, by the pool's clock */
} pl_block_free;

typedef struct pl_pool {
    pl_block_free blocks[PL_POOL_BLOCKS];
    size_t count;
    uint64_t clock;
} pl_pool;

struct parlin_device {
    pl_ref ref;
    parlin_device_info info;
    cl_context context;
    cl_device_id id;
    cl_command_queue queue;
    bool shared_context; /* from the process's table, given back there */
    bool unordered;      /* the queue is out of order */
    parlin_device_counters counters;
    unsigned fail_after; /* test hook of pl_buffer_fail */
    pl_program_entry *programs;
    pl_kernel_entry *kernels;
    pl_attachment *attachments; /* last one first */
    pl_pool scratch;
    pl_pool staging;
};

/* --- source.c: texts of kernels/ --- */
/* The text of `file` with its #include "..." lines replaced by what they name. The caller frees it.
   Errors: FILE (names the file and who includes it), MEMORY. */
parlin_status pl_source_read(const char *file, char **source);

/* --- cache.c: built programs on disk --- */
typedef struct pl_cache_key {
    char *text; /* everything that a built program depends on */
    size_t size;
    char path[4096]; /* of its file; "" where nothing is kept */
    size_t folder;   /* length of the folder's part */
} pl_cache_key;

parlin_status pl_cache_key_make(const parlin_device *device, const char *file, const char *options,
                                const char *source, pl_cache_key *key);
void pl_cache_key_free(pl_cache_key *key);

/* The folder, made where it is missing; false where nothing is kept or it cannot be made. */
bool pl_cache_folder(char *path, size_t room);

/* The stored binary, or NULL where there is none that can be trusted. The caller frees it. */
unsigned char *pl_cache_load(const pl_cache_key *key, size_t *size);

/* Best effort: a folder that cannot be written is told once in the log. */
void pl_cache_store(const pl_cache_key *key, const unsigned char *binary, size_t size);

/* --- program.c, scratch.c: called when a device ends --- */
void pl_programs_release(parlin_device *device);
/* Releases the blocks that are not in use. True where there were any. */
bool pl_pools_drain(parlin_device *device);

/* --- buffer.c --- */
parlin_status pl_buffer_create_flags(parlin_device *device, size_t bytes, cl_mem_flags flags,
                                     cl_mem *buffer);

/* strdup, which is no C11. NULL where memory is out. */
char *pl_text_copy(const char *original);

#endif
