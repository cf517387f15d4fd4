/* SPDX-License-Identifier: Apache-2.0 */
/* Writing one safetensors file. */
#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "core/size.h"

parlin_stored parlin_stored_2d(const char *name, const void *data, parlin_dtype dtype, size_t rows,
                               size_t cols)
{
    static const char *const names[] = {
        [PARLIN_F32] = "F32", [PARLIN_F16] = "F16", [PARLIN_BF16] = "BF16"};
    size_t kind = (size_t)dtype;
    parlin_stored tensor = {.name = name,
                            .dtype_name = kind < sizeof names / sizeof *names ? names[kind] : NULL,
                            .dtype = dtype,
                            .dim_count = 2,
                            .dims = {rows, cols},
                            .data = data};
    if (tensor.dtype_name != NULL && pl_stored_dtype(&tensor) &&
        !pl_stored_bytes(&tensor, &tensor.bytes))
        tensor.bytes = SIZE_MAX; /* refused by the writer */
    return tensor;
}

parlin_stored parlin_stored_1d(const char *name, const void *data, parlin_dtype dtype, size_t n)
{
    parlin_stored tensor = parlin_stored_2d(name, data, dtype, n, 1);
    tensor.dim_count = 1;
    return tensor;
}

/* --- checks --- */

/* The caller's tensor, completed. */
static parlin_status check_tensor(const char *path, const parlin_stored *given, parlin_stored *out)
{
    char name[PL_QUOTE], dtype[PL_QUOTE];
    if (given->name == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT, "writing checkpoint %s: a tensor's name is NULL",
                        path);
    pl_quote(given->name, name);
    *out = *given;
    if (!pl_json_is_text(given->name))
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "writing checkpoint %s: tensor name '%s' is no UTF-8", path, name);
    if (out->dtype_name == NULL)
        out->dtype_name = parlin_stored_1d("", NULL, given->dtype, 0).dtype_name;
    if (out->dtype_name == NULL)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "writing checkpoint %s: tensor '%s': dtype %d is none of F32, F16, BF16",
                        path, name, (int)given->dtype);
    if (strcmp(out->name, "__metadata__") == 0)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "writing checkpoint %s: __metadata__ cannot be a tensor's name", path);
    if (out->dim_count > PARLIN_STORED_DIMS)
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "writing checkpoint %s: tensor '%s' has %zu dimensions, at most %d are "
                        "written",
                        path, name, out->dim_count, PARLIN_STORED_DIMS);
    bool known = pl_stored_dtype(out);
    size_t bytes = 0;
    if (!pl_stored_bytes(out, &bytes) || (known && bytes != out->bytes))
        return pl_error(PARLIN_ERROR_ARGUMENT,
                        "writing checkpoint %s: tensor '%s' of %s is given in %zu bytes, its shape "
                        "takes %zu",
                        path, name, pl_quote(out->dtype_name, dtype), out->bytes, bytes);
    if (out->data == NULL && out->bytes > 0)
        return pl_error(PARLIN_ERROR_ARGUMENT, "writing checkpoint %s: tensor '%s': data is NULL",
                        path, name);
    return PARLIN_SUCCESS;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* texts: of `count` names or keys; gets sorted. */
static parlin_status refuse_doubles(const char *path, const char **texts, size_t count)
{
    char name[PL_QUOTE];
    qsort(texts, count, sizeof *texts, by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(texts[i - 1], texts[i]) == 0)
            return pl_error(PARLIN_ERROR_ARGUMENT, "writing checkpoint %s: '%s' is there twice",
                            path, pl_quote(texts[i], name));
    return PARLIN_SUCCESS;
}

/* Wider elements first: all data are then as well aligned as the first. */
static void copy_widest_first(const parlin_stored *from, size_t count, parlin_stored *to)
{
    static const size_t widths[] = {8, 4, 2, 1, 0};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t i = 0; i < count; i++)
            if (from[i].element_bytes == widths[w])
                *to++ = from[i];
}

/* --- header --- */

/* Raw text, as cJSON would write large numbers with an exponent. */
static bool add_tensor(cJSON *header, const parlin_stored *tensor, size_t begin)
{
    char shape[PARLIN_STORED_DIMS * 22 + 3] = "[", offsets[64];
    size_t used = 1;
    for (size_t i = 0; i < tensor->dim_count; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%zu", i ? "," : "",
                                 tensor->dims[i]);
    snprintf(shape + used, sizeof shape - used, "]");
    snprintf(offsets, sizeof offsets, "[%zu,%zu]", begin, begin + tensor->bytes);
    cJSON *entry = cJSON_AddObjectToObject(header, tensor->name);
    return entry != NULL && cJSON_AddStringToObject(entry, "dtype", tensor->dtype_name) != NULL &&
           cJSON_AddRawToObject(entry, "shape", shape) != NULL &&
           cJSON_AddRawToObject(entry, "data_offsets", offsets) != NULL;
}

static bool add_all(cJSON *header, const parlin_stored *tensors, size_t count,
                    const parlin_metadata *metadata, size_t metadata_count)
{
    cJSON *texts = metadata_count > 0 ? cJSON_AddObjectToObject(header, "__metadata__") : NULL;
    for (size_t i = 0; i < metadata_count; i++)
        if (cJSON_AddStringToObject(texts, metadata[i].key, metadata[i].value) == NULL)
            return false;
    size_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        if (!add_tensor(header, &tensors[i], begin))
            return false;
        begin += tensors[i].bytes;
    }
    return true;
}

/* NULL: no memory. The caller frees it with cJSON_free. */
static char *header_text(const parlin_stored *tensors, size_t count,
                         const parlin_metadata *metadata, size_t metadata_count)
{
    cJSON *header = cJSON_CreateObject();
    char *text = NULL;
    if (header != NULL && add_all(header, tensors, count, metadata, metadata_count))
        text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return text;
}

/* --- file --- */

static bool write_all(int fd, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t done = write(fd, from, bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        from += done;
        bytes -= (size_t)done;
    }
    return true;
}

static bool write_file(int fd, const char *header, const parlin_stored *tensors, size_t count)
{
    /* spaces, so that the data begin at a multiple of 8 */
    size_t length = strlen(header), padding = (8 - length % 8) % 8;
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)(length + padding) >> (8 * i));
    if (!write_all(fd, size, sizeof size) || !write_all(fd, header, length) ||
        !write_all(fd, "        ", padding))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!write_all(fd, tensors[i].data, tensors[i].bytes))
            return false;
    return fsync(fd) == 0;
}

static parlin_status replace_file(const char *path, const char *header,
                                  const parlin_stored *tensors, size_t count)
{
    static atomic_uint number;
    char *draft = pl_text("%s.%ld.%u.part", path, (long)getpid(), atomic_fetch_add(&number, 1));
    if (draft == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "writing checkpoint %s: no host memory", path);
    const char *call = "open";
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool made = fd >= 0, done = made;
    if (made) {
        call = "write";
        done = write_file(fd, header, tensors, count);
        int reason = errno;
        if (close(fd) != 0)
            done = false;
        else
            errno = reason;
    }
    if (done) {
        call = "rename";
        done = rename(draft, path) == 0;
    }
    parlin_status status = PARLIN_SUCCESS;
    if (!done) {
        status = pl_error(PARLIN_ERROR_FILE, "writing checkpoint %s: %s of %s: %s", path, call,
                          draft, strerror(errno));
        if (made)
            unlink(draft);
    }
    free(draft);
    return status;
}

static parlin_status check_all(const char *path, const parlin_stored *tensors, size_t count,
                               const parlin_metadata *metadata, size_t metadata_count,
                               parlin_stored *checked, const char **texts)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        PL_TRY(check_tensor(path, &tensors[i], &checked[i]));
        texts[i] = tensors[i].name;
        if (!pl_size_add(total, checked[i].bytes, &total) || total >= (size_t)1 << 53)
            return pl_error(PARLIN_ERROR_ARGUMENT,
                            "writing checkpoint %s: all tensors together have 2^53 bytes or more",
                            path);
    }
    PL_TRY(refuse_doubles(path, texts, count));
    for (size_t i = 0; i < metadata_count; i++) {
        if (metadata[i].key == NULL || metadata[i].value == NULL)
            return pl_error(PARLIN_ERROR_ARGUMENT,
                            "writing checkpoint %s: metadata %zu has a NULL %s", path, i,
                            metadata[i].key == NULL ? "key" : "value");
        if (!pl_json_is_text(metadata[i].key) || !pl_json_is_text(metadata[i].value))
            return pl_error(PARLIN_ERROR_ARGUMENT,
                            "writing checkpoint %s: metadata %zu is no UTF-8", path, i);
        texts[i] = metadata[i].key;
    }
    return refuse_doubles(path, texts, metadata_count);
}

parlin_status parlin_checkpoint_write(const char *path, const parlin_stored *tensors, size_t count,
                                      const parlin_metadata *metadata, size_t metadata_count)
{
    if (path == NULL || (tensors == NULL && count > 0) || (metadata == NULL && metadata_count > 0))
        return pl_error(PARLIN_ERROR_ARGUMENT, "parlin_checkpoint_write: %s is NULL",
                        path == NULL                   ? "path"
                        : tensors == NULL && count > 0 ? "tensors"
                                                       : "metadata");
    size_t most = count > metadata_count ? count : metadata_count;
    parlin_stored *checked = calloc(count + 1, sizeof *checked);
    parlin_stored *ordered = calloc(count + 1, sizeof *ordered);
    const char **texts = calloc(most + 1, sizeof *texts);
    char *header = NULL;
    parlin_status status = PARLIN_SUCCESS;
    if (checked == NULL || ordered == NULL || texts == NULL)
        status = pl_error(PARLIN_ERROR_MEMORY, "writing checkpoint %s: no host memory", path);
    else
        status = check_all(path, tensors, count, metadata, metadata_count, checked, texts);
    if (status == PARLIN_SUCCESS) {
        copy_widest_first(checked, count, ordered);
        header = header_text(ordered, count, metadata, metadata_count);
        status = header == NULL
                     ? pl_error(PARLIN_ERROR_MEMORY,
                                "writing checkpoint %s: no host memory for its header", path)
                     : replace_file(path, header, ordered, count);
    }
    cJSON_free(header);
    free(checked);
    free(ordered);
    free((void *)texts);
    return status;
}
