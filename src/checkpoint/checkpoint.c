/* SPDX-License-Identifier: Apache-2.0 */
/* Opening whatever a path names, and what may be asked of it. */
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";

char *pl_text(const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

/* --- opening --- */

static parlin_status open_single(const char *path, parlin_checkpoint *checkpoint)
{
    checkpoint->files = calloc(1, sizeof *checkpoint->files);
    if (checkpoint->files == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint %s: no host memory", path);
    PL_TRY(pl_safetensors_open(path, checkpoint->files));
    checkpoint->file_count = 1;
    size_t count = checkpoint->files->count;
    checkpoint->entries = calloc(count + 1, sizeof *checkpoint->entries);
    if (checkpoint->entries == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint %s: no host memory for %zu tensors", path,
                        count);
    for (size_t i = 0; i < count; i++)
        checkpoint->entries[i].stored = checkpoint->files->tensors[i];
    checkpoint->count = count;
    return PARLIN_SUCCESS;
}

static bool exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

static parlin_status open_folder(const char *path, parlin_checkpoint *checkpoint)
{
    char *index = pl_text("%s/%s", path, index_name), *single = pl_text("%s/%s", path, single_name);
    parlin_status status;
    if (index == NULL || single == NULL)
        status = pl_error(PARLIN_ERROR_MEMORY, "checkpoint %s: no host memory", path);
    else if (exists(index))
        status = pl_index_open(index, checkpoint);
    else if (exists(single))
        status = open_single(single, checkpoint);
    else
        status = pl_error(PARLIN_ERROR_FILE, "checkpoint %s: the folder has neither %s nor %s",
                          path, single_name, index_name);
    free(index);
    free(single);
    return status;
}

static parlin_status open_path(const char *path, parlin_checkpoint *checkpoint)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: stat: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return open_folder(path, checkpoint);
    size_t length = strlen(path);
    if (length >= 5 && strcmp(path + length - 5, ".json") == 0)
        return pl_index_open(path, checkpoint);
    return open_single(path, checkpoint);
}

parlin_status parlin_checkpoint_open(const char *path, parlin_checkpoint **checkpoint)
{
    if (path == NULL || checkpoint == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_checkpoint_open: %s is NULL",
                        path == NULL ? "path" : "checkpoint");
    parlin_checkpoint *made = calloc(1, sizeof *made);
    if (made == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint %s: no host memory", path);
    pl_ref_init(&made->ref);
    made->path = pl_text("%s", path);
    parlin_status status =
        made->path == NULL ? pl_error(PARLIN_ERROR_MEMORY, "checkpoint %s: no host memory", path)
                           : open_path(path, made);
    if (status == PARLIN_SUCCESS)
        *checkpoint = made;
    else
        parlin_checkpoint_close(made);
    return status;
}

void pl_checkpoint_retain(parlin_checkpoint *checkpoint)
{
    pl_ref_retain(&checkpoint->ref);
}

void parlin_checkpoint_close(parlin_checkpoint *checkpoint)
{
    if (checkpoint == NULL || !pl_ref_release(&checkpoint->ref))
        return;
    for (size_t i = 0; i < checkpoint->file_count; i++)
        pl_safetensors_close(&checkpoint->files[i]);
    free(checkpoint->files);
    free(checkpoint->entries);
    free(checkpoint->path);
    free(checkpoint);
}

/* --- queries --- */

size_t parlin_checkpoint_count(const parlin_checkpoint *checkpoint)
{
    return checkpoint == NULL ? 0 : checkpoint->count;
}

parlin_status parlin_checkpoint_get(const parlin_checkpoint *checkpoint, size_t index,
                                    parlin_stored *tensor)
{
    if (checkpoint == NULL || tensor == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_checkpoint_get: %s is NULL",
                        checkpoint == NULL ? "checkpoint" : "tensor");
    if (index >= checkpoint->count)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "parlin_checkpoint_get: tensor %zu, checkpoint %s has %zu", index,
                        checkpoint->path, checkpoint->count);
    *tensor = checkpoint->entries[index].stored;
    return PARLIN_SUCCESS;
}

size_t pl_checkpoint_index(const parlin_checkpoint *checkpoint, const char *name)
{
    size_t first = 0, end = checkpoint->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        int order = strcmp(name, checkpoint->entries[middle].stored.name);
        if (order == 0)
            return middle;
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return SIZE_MAX;
}

bool parlin_checkpoint_has(const parlin_checkpoint *checkpoint, const char *name)
{
    return checkpoint != NULL && name != NULL && pl_checkpoint_index(checkpoint, name) != SIZE_MAX;
}

static parlin_status find(const parlin_checkpoint *checkpoint, const char *name, const void *tensor,
                          const char *call, size_t *index)
{
    if (checkpoint == NULL || name == NULL || tensor == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "%s: %s is NULL", call,
                        checkpoint == NULL ? "checkpoint"
                        : name == NULL     ? "name"
                                           : "tensor");
    size_t found = pl_checkpoint_index(checkpoint, name);
    char quoted[PL_QUOTE];
    if (found == SIZE_MAX)
        return pl_error(PARLIN_ERROR_FILE, "%s: checkpoint %s has no tensor '%s'", call,
                        checkpoint->path, pl_quote(name, quoted));
    *index = found;
    return PARLIN_SUCCESS;
}

parlin_status parlin_checkpoint_find(const parlin_checkpoint *checkpoint, const char *name,
                                     parlin_stored *tensor)
{
    size_t index = 0;
    PL_TRY(find(checkpoint, name, tensor, "parlin_checkpoint_find", &index));
    *tensor = checkpoint->entries[index].stored;
    return PARLIN_SUCCESS;
}

parlin_status pl_checkpoint_host(const parlin_checkpoint *checkpoint, size_t index,
                                 parlin_host *tensor)
{
    const parlin_stored *stored = &checkpoint->entries[index].stored;
    const char *path = checkpoint->files[checkpoint->entries[index].file].path;
    char quoted[PL_QUOTE], dtype[PL_QUOTE];
    if (stored->dtype == PARLIN_DTYPE_DEFAULT)
        return pl_error(PARLIN_ERROR_UNSUPPORTED,
                        "checkpoint %s: tensor '%s' is of dtype %s, wanted F32, F16 or BF16", path,
                        pl_quote(stored->name, quoted), pl_quote(stored->dtype_name, dtype));
    if (stored->dim_count != 1 && stored->dim_count != 2)
        return pl_error(PARLIN_ERROR_SHAPE,
                        "checkpoint %s: tensor '%s' has %zu dimensions, wanted one or two", path,
                        pl_quote(stored->name, quoted), stored->dim_count);
    size_t cols = stored->dim_count == 2 ? stored->dims[1] : 1;
    *tensor = parlin_host_2d(stored->data, stored->dtype, stored->dims[0], cols);
    return PARLIN_SUCCESS;
}

parlin_status parlin_checkpoint_host(const parlin_checkpoint *checkpoint, const char *name,
                                     parlin_host *tensor)
{
    size_t index = 0;
    PL_TRY(find(checkpoint, name, tensor, "parlin_checkpoint_host", &index));
    return pl_checkpoint_host(checkpoint, index, tensor);
}

const char *parlin_checkpoint_metadata(const parlin_checkpoint *checkpoint, const char *key)
{
    const char *value = NULL;
    if (checkpoint != NULL && key != NULL)
        for (size_t i = 0; i < checkpoint->file_count && value == NULL; i++)
            value = pl_safetensors_metadata(&checkpoint->files[i], key);
    return value;
}

/* --- pages --- */

const pl_map *pl_checkpoint_map(const parlin_checkpoint *checkpoint, size_t index)
{
    return &checkpoint->files[checkpoint->entries[index].file].map;
}

void pl_checkpoint_read_ahead(const parlin_checkpoint *checkpoint, bool on)
{
    for (size_t i = 0; i < checkpoint->file_count; i++)
        pl_map_read_ahead(&checkpoint->files[i].map, on);
}

void parlin_checkpoint_give_back(const parlin_checkpoint *checkpoint)
{
    if (checkpoint != NULL)
        for (size_t i = 0; i < checkpoint->file_count; i++)
            pl_map_give_back(&checkpoint->files[i].map, checkpoint->files[i].map.bytes,
                             checkpoint->files[i].map.size);
}
