/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint of several files: {"weight_map": {"tensor's name": "file's name", ..}, ..}. The
   index decides: what a file holds beside the tensors that it is named for is not seen. */
#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

/* One line of the map. */
typedef struct place {
    const char *name;
    const char *file;
} place;

static int by_file(const void *a, const void *b)
{
    const place *one = a, *two = b;
    int order = strcmp(one->file, two->file);
    return order != 0 ? order : strcmp(one->name, two->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pl_entry *)a)->stored.name, ((const pl_entry *)b)->stored.name);
}

/* A file beside the index or below: nothing that leads out of the folder. */
static bool stays_inside(const char *file)
{
    if (file[0] == 0 || file[0] == '/')
        return false;
    for (const char *part = file; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == 0))
            return false;
    }
    return true;
}

/* places: room for as many as the map has. */
static parlin_status read_places(const char *path, const cJSON *map, place *places, size_t *count)
{
    char name[PL_QUOTE], file[PL_QUOTE];
    const cJSON *item;
    cJSON_ArrayForEach(item, map)
    {
        if (!cJSON_IsString(item))
            return pl_error(PARLIN_ERROR_FILE,
                            "checkpoint index %s: tensor '%s': its file's name is no text", path,
                            pl_quote(item->string, name));
        if (!stays_inside(item->valuestring))
            return pl_error(PARLIN_ERROR_FILE,
                            "checkpoint index %s: tensor '%s': file '%s' is not within the folder",
                            path, pl_quote(item->string, name), pl_quote(item->valuestring, file));
        places[(*count)++] = (place){item->string, item->valuestring};
    }
    return PARLIN_SUCCESS;
}

/* The files that the places name, each once. */
static parlin_status open_files(const char *path, const place *places, size_t count,
                                parlin_checkpoint *checkpoint)
{
    size_t files = 0;
    for (size_t i = 0; i < count; i++)
        files += i == 0 || strcmp(places[i].file, places[i - 1].file) != 0;
    checkpoint->files = calloc(files + 1, sizeof *checkpoint->files);
    checkpoint->entries = calloc(count + 1, sizeof *checkpoint->entries);
    if (checkpoint->files == NULL || checkpoint->entries == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint index %s: no host memory", path);

    const char *slash = strrchr(path, '/');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - path);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(places[i].file, places[i - 1].file) != 0) {
            char *where = pl_text("%.*s%s", folder, path, places[i].file);
            if (where == NULL)
                return pl_error(PARLIN_ERROR_MEMORY, "checkpoint index %s: no host memory", path);
            parlin_status status =
                pl_safetensors_open(where, &checkpoint->files[checkpoint->file_count]);
            free(where);
            PL_TRY(status);
            checkpoint->file_count++;
        }
        size_t file = checkpoint->file_count - 1;
        const parlin_stored *stored = pl_safetensors_find(&checkpoint->files[file], places[i].name);
        char name[PL_QUOTE];
        if (stored == NULL)
            return pl_error(PARLIN_ERROR_FILE,
                            "checkpoint index %s: tensor '%s' is not in %s, which the index names",
                            path, pl_quote(places[i].name, name), checkpoint->files[file].path);
        checkpoint->entries[checkpoint->count++] = (pl_entry){*stored, file};
    }
    return PARLIN_SUCCESS;
}

static parlin_status read_map(const char *path, const cJSON *json, parlin_checkpoint *checkpoint)
{
    const cJSON *map = NULL, *item;
    cJSON_ArrayForEach(item, json)
    {
        if (strcmp(item->string, "weight_map") != 0)
            continue;
        if (map != NULL)
            return pl_error(PARLIN_ERROR_FILE, "checkpoint index %s: weight_map is there twice",
                            path);
        map = item;
    }
    if (!cJSON_IsObject(map))
        return pl_error(PARLIN_ERROR_FILE, "checkpoint index %s: no weight_map of tensors to files",
                        path);
    size_t count = 0;
    place *places = calloc((size_t)cJSON_GetArraySize(map) + 1, sizeof *places);
    if (places == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint index %s: no host memory", path);
    parlin_status status = read_places(path, map, places, &count);
    if (status == PARLIN_SUCCESS) {
        qsort(places, count, sizeof *places, by_file);
        status = open_files(path, places, count, checkpoint);
    }
    free(places);
    PL_TRY(status);

    pl_entry *entries = checkpoint->entries;
    qsort(entries, count, sizeof *entries, by_name);
    for (size_t i = 1; i < count; i++) {
        char name[PL_QUOTE];
        if (by_name(&entries[i - 1], &entries[i]) == 0)
            return pl_error(PARLIN_ERROR_FILE, "checkpoint index %s: tensor '%s' is there twice",
                            path, pl_quote(entries[i].stored.name, name));
    }
    return PARLIN_SUCCESS;
}

parlin_status pl_index_open(const char *path, parlin_checkpoint *checkpoint)
{
    char *what = pl_text("checkpoint index %s: it", path);
    if (what == NULL)
        return pl_error(PARLIN_ERROR_MEMORY, "checkpoint index %s: no host memory", path);
    pl_map map = {0};
    cJSON *json = NULL;
    parlin_status status = pl_map_open(path, &map);
    if (status == PARLIN_SUCCESS)
        status = pl_json_parse(what, map.bytes, map.size, &json);
    if (status == PARLIN_SUCCESS)
        status = read_map(path, json, checkpoint);
    cJSON_Delete(json);
    pl_map_close(&map);
    free(what);
    return status;
}
