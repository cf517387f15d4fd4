/* SPDX-License-Identifier: Apache-2.0 */
/* One safetensors file: its header is read and checked in full, its data are never touched. */
#include "checkpoint/checkpoint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/size.h"

enum { LENGTH_BYTES = 8 };

/* cJSON's numbers are doubles: up to here every whole number is itself alone. */
static const double most_number = 0x1p53;

/* --- dtypes and sizes --- */

bool pl_stored_dtype(parlin_stored *tensor)
{
    static const struct {
        const char *name;
        size_t bytes;
        parlin_dtype dtype;
    } table[] = {
        {"F64", 8, PARLIN_DTYPE_DEFAULT}, {"F32", 4, PARLIN_F32},
        {"F16", 2, PARLIN_F16},           {"BF16", 2, PARLIN_BF16},
        {"I64", 8, PARLIN_DTYPE_DEFAULT}, {"I32", 4, PARLIN_DTYPE_DEFAULT},
        {"I16", 2, PARLIN_DTYPE_DEFAULT}, {"I8", 1, PARLIN_DTYPE_DEFAULT},
        {"U8", 1, PARLIN_DTYPE_DEFAULT},  {"BOOL", 1, PARLIN_DTYPE_DEFAULT},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(tensor->dtype_name, table[i].name) == 0) {
            tensor->dtype_name = table[i].name;
            tensor->dtype = table[i].dtype;
            tensor->element_bytes = table[i].bytes;
            return true;
        }
    tensor->dtype = PARLIN_DTYPE_DEFAULT;
    tensor->element_bytes = 0;
    return false;
}

bool pl_stored_bytes(const parlin_stored *tensor, size_t *bytes)
{
    /* each product is looked at, those before a dimension of 0 too */
    size_t product = tensor->element_bytes > 0 ? tensor->element_bytes : 1;
    for (size_t i = 0; i < tensor->dim_count; i++)
        if (!pl_size_mul(product, tensor->dims[i], &product))
            return false;
    *bytes = product;
    return true;
}

/* --- the parts of one tensor's entry --- */

typedef struct reader {
    pl_safetensors *file;
    const unsigned char *data; /* behind the header */
    size_t data_bytes;
    char *text; /* free room for names; ends nowhere before the last one fits */
} reader;

__attribute__((format(printf, 3, 4))) static parlin_status
refuse(const reader *in, const char *name, const char *format, ...)
{
    char quoted[PL_QUOTE], reason[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: tensor '%s': %s", in->file->path,
                    pl_quote(name, quoted), reason);
}

/* All decoded strings together are shorter than the header. */
static const char *keep(reader *in, const char *text)
{
    char *kept = in->text;
    size_t size = strlen(text) + 1;
    memcpy(kept, text, size);
    in->text += size;
    return kept;
}

static bool whole_number(const cJSON *item, size_t *value)
{
    double number = item->valuedouble;
    if (!cJSON_IsNumber(item) || !(number >= 0) || number >= most_number ||
        (double)(uint64_t)number != number || (uint64_t)number > SIZE_MAX)
        return false;
    *value = (size_t)number;
    return true;
}

static parlin_status read_shape(const reader *in, const char *name, const cJSON *shape,
                                parlin_stored *tensor)
{
    if (!cJSON_IsArray(shape))
        return refuse(in, name, "shape is no list");
    size_t count = 0;
    const cJSON *dim;
    cJSON_ArrayForEach(dim, shape)
    {
        if (count == PARLIN_STORED_DIMS)
            return refuse(in, name, "shape has more than %d dimensions", PARLIN_STORED_DIMS);
        if (!cJSON_IsNumber(dim))
            return refuse(in, name, "dimension %zu of its shape is no number", count);
        if (!whole_number(dim, &tensor->dims[count]))
            return refuse(in, name,
                          "dimension %zu of its shape is %.17g, wanted a whole number below 2^53",
                          count, dim->valuedouble);
        count++;
    }
    tensor->dim_count = count;
    return PARLIN_SUCCESS;
}

static parlin_status read_offsets(const reader *in, const char *name, const cJSON *offsets,
                                  parlin_stored *tensor)
{
    int count = cJSON_IsArray(offsets) ? cJSON_GetArraySize(offsets) : 0;
    if (count != 2)
        return refuse(in, name, "data_offsets is no list of two numbers");
    const cJSON *first = offsets->child, *last = first->next;
    if (!cJSON_IsNumber(first) || !cJSON_IsNumber(last))
        return refuse(in, name, "data_offsets is no list of two numbers");
    size_t begin, end;
    if (!whole_number(first, &begin) || !whole_number(last, &end))
        return refuse(in, name, "data_offsets are [%.17g, %.17g], wanted whole numbers below 2^53",
                      first->valuedouble, last->valuedouble);
    if (begin > end)
        return refuse(in, name, "data_offsets are [%zu, %zu]: it ends before it begins", begin,
                      end);
    if (end > in->data_bytes)
        return refuse(in, name, "data_offsets are [%zu, %zu], the file has %zu bytes of data",
                      begin, end, in->data_bytes);
    tensor->data = in->data + begin;
    tensor->bytes = end - begin;
    return PARLIN_SUCCESS;
}

/* The shape in a sentence. */
static const char *shape_text(const parlin_stored *tensor, char text[128])
{
    int used = snprintf(text, 128, "(");
    for (size_t i = 0; i < tensor->dim_count && used < 128; i++)
        used += snprintf(text + used, 128 - (size_t)used, "%s%zu", i ? ", " : "", tensor->dims[i]);
    if (used < 128)
        snprintf(text + used, 128 - (size_t)used, ")");
    return text;
}

static parlin_status check_bytes(const reader *in, const parlin_stored *tensor)
{
    char shape[128];
    size_t bytes;
    if (!pl_stored_bytes(tensor, &bytes))
        return refuse(in, tensor->name, "%s of shape %s are more bytes than 64 bits count",
                      tensor->dtype_name, shape_text(tensor, shape));
    if (tensor->element_bytes > 0 && bytes != tensor->bytes)
        return refuse(in, tensor->name, "%s of shape %s take %zu bytes, its data_offsets span %zu",
                      tensor->dtype_name, shape_text(tensor, shape), bytes, tensor->bytes);
    return PARLIN_SUCCESS;
}

static parlin_status read_tensor(reader *in, const cJSON *entry, parlin_stored *tensor)
{
    const char *name = entry->string;
    if (!cJSON_IsObject(entry))
        return refuse(in, name, "its entry is no object of dtype, shape and data_offsets");
    enum { DTYPE, SHAPE, OFFSETS, FIELDS };
    static const char *const fields[FIELDS] = {"dtype", "shape", "data_offsets"};
    const cJSON *found[FIELDS] = {NULL}, *field;
    cJSON_ArrayForEach(field, entry)
    {
        int i = 0;
        while (i < FIELDS && strcmp(field->string, fields[i]) != 0)
            i++;
        char quoted[PL_QUOTE];
        if (i == FIELDS)
            return refuse(in, name, "its entry has '%s', wanted dtype, shape and data_offsets",
                          pl_quote(field->string, quoted));
        if (found[i] != NULL)
            return refuse(in, name, "its entry has %s twice", fields[i]);
        found[i] = field;
    }
    for (int i = 0; i < FIELDS; i++)
        if (found[i] == NULL)
            return refuse(in, name, "its entry has no %s", fields[i]);
    if (!cJSON_IsString(found[DTYPE]))
        return refuse(in, name, "dtype is no text");
    PL_TRY(read_shape(in, name, found[SHAPE], tensor));
    PL_TRY(read_offsets(in, name, found[OFFSETS], tensor));
    tensor->name = keep(in, name);
    tensor->dtype_name = found[DTYPE]->valuestring;
    if (!pl_stored_dtype(tensor))
        tensor->dtype_name = keep(in, tensor->dtype_name);
    return check_bytes(in, tensor);
}

/* --- metadata --- */

static const char metadata_name[] = "__metadata__";

static int by_key(const void *a, const void *b)
{
    return strcmp(((const parlin_metadata *)a)->key, ((const parlin_metadata *)b)->key);
}

static parlin_status read_metadata(reader *in, const cJSON *entry)
{
    pl_safetensors *file = in->file;
    if (!cJSON_IsObject(entry))
        return refuse(in, metadata_name, "it is no object of texts");
    size_t count = (size_t)cJSON_GetArraySize(entry);
    file->metadata = calloc(count + 1, sizeof *file->metadata);
    if (file->metadata == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint %s: no host memory for its metadata",
                        file->path);
    char quoted[PL_QUOTE];
    const cJSON *item;
    cJSON_ArrayForEach(item, entry)
    {
        if (!cJSON_IsString(item))
            return refuse(in, metadata_name, "its '%s' is no text; it holds texts, and no tensor",
                          pl_quote(item->string, quoted));
        file->metadata[file->metadata_count++] =
            (parlin_metadata){keep(in, item->string), keep(in, item->valuestring)};
    }
    qsort(file->metadata, count, sizeof *file->metadata, by_key);
    for (size_t i = 1; i < count; i++)
        if (by_key(&file->metadata[i - 1], &file->metadata[i]) == 0)
            return refuse(in, metadata_name, "'%s' is there twice",
                          pl_quote(file->metadata[i].key, quoted));
    return PARLIN_SUCCESS;
}

/* --- all entries --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const parlin_stored *)a)->name, ((const parlin_stored *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const parlin_stored *one = a, *two = b;
    uintptr_t first = (uintptr_t)one->data, second = (uintptr_t)two->data;
    if (first != second)
        return first < second ? -1 : 1;
    /* one without bytes lies before the next that begins there */
    return one->bytes != two->bytes ? (one->bytes < two->bytes ? -1 : 1) : by_name(a, b);
}

/* Every byte of the data belongs to just one tensor. */
static parlin_status check_places(const reader *in)
{
    const pl_safetensors *file = in->file;
    size_t end = 0;
    char quoted[PL_QUOTE];
    for (size_t i = 0; i < file->count; i++) {
        const parlin_stored *tensor = &file->tensors[i];
        const char *before = i > 0 ? pl_quote(tensor[-1].name, quoted) : "the header";
        size_t begin = (size_t)((const unsigned char *)tensor->data - in->data);
        if (begin < end)
            return refuse(in, tensor->name, "it begins at %zu, within '%s', which ends at %zu",
                          begin, before, end);
        if (begin > end)
            return refuse(in, tensor->name,
                          "it begins at %zu, after a hole from %zu on, where %s%s%s ends", begin,
                          end, i ? "'" : "", before, i ? "'" : "");
        end = begin + tensor->bytes;
    }
    if (end == in->data_bytes)
        return PARLIN_SUCCESS;
    if (file->count == 0)
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: %zu bytes of data, and no tensor",
                        file->path, in->data_bytes);
    return refuse(in, file->tensors[file->count - 1].name,
                  "it is the last one and ends at %zu, the file has %zu bytes of data", end,
                  in->data_bytes);
}

static parlin_status read_entries(reader *in, const cJSON *header)
{
    pl_safetensors *file = in->file;
    const cJSON *entry;
    bool has_metadata = false;
    cJSON_ArrayForEach(entry, header)
    {
        if (strcmp(entry->string, metadata_name) != 0) {
            PL_TRY(read_tensor(in, entry, &file->tensors[file->count]));
            file->count++;
        } else if (has_metadata) {
            return refuse(in, metadata_name, "it is there twice");
        } else {
            PL_TRY(read_metadata(in, entry));
            has_metadata = true;
        }
    }
    size_t each = sizeof *file->tensors;
    qsort(file->tensors, file->count, each, by_name);
    for (size_t i = 1; i < file->count; i++)
        if (by_name(&file->tensors[i - 1], &file->tensors[i]) == 0)
            return refuse(in, file->tensors[i].name, "the name is there twice");
    qsort(file->tensors, file->count, each, by_place);
    PL_TRY(check_places(in));
    qsort(file->tensors, file->count, each, by_name);
    return PARLIN_SUCCESS;
}

static parlin_status read_header(pl_safetensors *file, const char *what,
                                 const unsigned char *header, size_t size)
{
    cJSON *json;
    PL_TRY(pl_json_parse(what, header, size, &json));
    reader in = {
        .file = file, .data = header + size, .data_bytes = file->map.size - LENGTH_BYTES - size};
    file->text = in.text = malloc(size);
    file->tensors = calloc((size_t)cJSON_GetArraySize(json) + 1, sizeof *file->tensors);
    parlin_status status;
    if (file->text == NULL || file->tensors == NULL)
        status = pl_error(PARLIN_ERROR_MEMORY, "%s: no host memory to read it", what);
    else
        status = read_entries(&in, json);
    cJSON_Delete(json);
    /* last, as the checks above know names */
    return status == PARLIN_SUCCESS ? pl_json_plain(what, header, size) : status;
}

static parlin_status read_file(pl_safetensors *file)
{
    const pl_map *map = &file->map;
    if (map->size < LENGTH_BYTES)
        return pl_error(PARLIN_ERROR_FILE,
                        "checkpoint %s: truncated: %zu bytes, the header's length alone takes %d",
                        file->path, map->size, LENGTH_BYTES);
    uint64_t size = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        size = size << 8 | map->bytes[i];
    if (size > PL_JSON_MOST)
        return pl_error(PARLIN_ERROR_FILE,
                        "checkpoint %s: a header of %ju bytes, at most %d are read", file->path,
                        (uintmax_t)size, PL_JSON_MOST);
    if (size > map->size - LENGTH_BYTES)
        return pl_error(PARLIN_ERROR_FILE,
                        "checkpoint %s: truncated: a header of %ju bytes, the file has %zu after "
                        "its length",
                        file->path, (uintmax_t)size, map->size - LENGTH_BYTES);
    char *what = pl_text("checkpoint %s: the header", file->path);
    if (what == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint %s: no host memory", file->path);
    const unsigned char *header = map->bytes + LENGTH_BYTES;
    parlin_status status = read_header(file, what, header, (size_t)size);
    free(what);
    pl_map_give_back(map, header, (size_t)size);
    return status;
}

parlin_status pl_safetensors_open(const char *path, pl_safetensors *file)
{
    pl_safetensors made = {.path = pl_text("%s", path)};
    if (made.path == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint %s: no host memory", path);
    parlin_status status = pl_map_open(path, &made.map);
    if (status == PARLIN_SUCCESS)
        status = read_file(&made);
    if (status == PARLIN_SUCCESS)
        *file = made;
    else
        pl_safetensors_close(&made);
    return status;
}

void pl_safetensors_close(pl_safetensors *file)
{
    pl_map_close(&file->map);
    free(file->path);
    free(file->tensors);
    free(file->metadata);
    free(file->text);
    *file = (pl_safetensors){0};
}

const parlin_stored *pl_safetensors_find(const pl_safetensors *file, const char *name)
{
    const parlin_stored key = {.name = name};
    return file->count == 0
               ? NULL
               : bsearch(&key, file->tensors, file->count, sizeof *file->tensors, by_name);
}

const char *pl_safetensors_metadata(const pl_safetensors *file, const char *key)
{
    const parlin_metadata wanted = {.key = key};
    if (file->metadata_count == 0)
        return NULL;
    const parlin_metadata *found =
        bsearch(&wanted, file->metadata, file->metadata_count, sizeof *file->metadata, by_key);
    return found == NULL ? NULL : found->value;
}
