/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/option.h"
#include "device/internal.h"
#include "device/kernel_files.h"

/* Compilers of OpenCL find no embedded file, so #include "..." lines are replaced here. #line keeps
   the names and numbers of a build log right. */
enum { DEPTH_LIMIT = 8 };

typedef struct text {
    char *at;
    size_t size, room;
    bool failed; /* memory ran out */
} text;

static void put(text *out, const char *more, size_t size)
{
    if (out->failed)
        return;
    if (out->room - out->size <= size) {
        size_t room = 2 * (out->size + size) + 4096;
        char *at = realloc(out->at, room);
        if (!at) {
            out->failed = true;
            return;
        }
        out->at = at;
        out->room = room;
    }
    memcpy(out->at + out->size, more, size);
    out->size += size;
    out->at[out->size] = 0;
}

__attribute__((format(printf, 2, 3))) static void put_format(text *out, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    put(out, line, size < 0 ? 0 : (size_t)size < sizeof line ? (size_t)size : sizeof line - 1);
}

static parlin_status read_whole(const char *path, const char *by, char **content)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return pl_error(PARLIN_ERROR_FILE, "kernel file %s (%s): %s", path, by, strerror(errno));
    text out = {0};
    char piece[4096];
    size_t got;
    put(&out, "", 0);
    while ((got = fread(piece, 1, sizeof piece, file)) > 0)
        put(&out, piece, got);
    bool broken = ferror(file);
    fclose(file);
    if (!broken && !out.failed) {
        *content = out.at;
        return PARLIN_SUCCESS;
    }
    free(out.at);
    return broken ? pl_error(PARLIN_ERROR_FILE, "kernel file %s (%s): it cannot be read", path, by)
                  : pl_error(PARLIN_ERROR_MEMORY, "kernel file %s: host memory ran out", path);
}

/* The file as it is: of the folder PARLIN_KERNELS where that is set, else of the library. */
static parlin_status find(const char *name, const char *by, char **content)
{
    const char *folder = pl_option(PL_OPTION_KERNELS);
    if (folder) {
        char path[4096];
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
            return pl_error(PARLIN_ERROR_FILE,
                            "kernel file %s: the path of PARLIN_KERNELS is "
                            "longer than %zu characters",
                            name, sizeof path);
        return read_whole(path, by, content);
    }
    for (size_t i = 0; i < pl_kernel_file_count; i++)
        if (strcmp(pl_kernel_files[i].name, name) == 0) {
            *content = pl_text_copy(pl_kernel_files[i].text);
            return *content
                       ? PARLIN_SUCCESS
                       : pl_error(PARLIN_ERROR_MEMORY, "kernel file %s: host memory ran out", name);
        }
    return pl_error(PARLIN_ERROR_FILE, "kernel file %s (%s) is none of the library's", name, by);
}

/* The name in a line #include "name"; false for any other line. */
static bool include_name(const char *line, char *name, size_t room)
{
    line += strspn(line, " \t");
    if (*line++ != '#')
        return false;
    line += strspn(line, " \t");
    if (strncmp(line, "include", 7) != 0)
        return false;
    line += 7 + strspn(line + 7, " \t");
    size_t length = *line == '"' ? strcspn(line + 1, "\"\n") : 0;
    if (length == 0 || length >= room || line[1 + length] != '"')
        return false;
    memcpy(name, line + 1, length);
    name[length] = 0;
    return true;
}

static parlin_status expand(text *out, const char *name, const char *by, int depth)
{
    char *content;
    if (depth > DEPTH_LIMIT)
        return pl_error(PARLIN_ERROR_FILE,
                        "kernel file %s (%s): more than %d files include each other", name, by,
                        DEPTH_LIMIT);
    PL_TRY(find(name, by, &content));
    parlin_status status = PARLIN_SUCCESS;
    size_t number = 1;
    put_format(out, "#line 1 \"%s\"\n", name);
    for (const char *line = content; *line && status == PARLIN_SUCCESS; number++) {
        size_t length = strcspn(line, "\n");
        char included[256], from[300];
        if (include_name(line, included, sizeof included)) {
            snprintf(from, sizeof from, "included by %s", name);
            status = expand(out, included, from, depth + 1);
            put_format(out, "#line %zu \"%s\"\n", number + 1, name);
        } else {
            put(out, line, length);
            put(out, "\n", 1);
        }
        line += length + (line[length] == '\n');
    }
    free(content);
    if (status == PARLIN_SUCCESS && out->failed)
        status = pl_error(PARLIN_ERROR_MEMORY, "kernel file %s: host memory ran out", name);
    return status;
}

parlin_status pl_source_read(const char *file, char **source)
{
    text out = {0};
    parlin_status status = expand(&out, file, "PARLIN_KERNELS", 0);
    if (status == PARLIN_SUCCESS)
        *source = out.at;
    else
        free(out.at);
    return status;
}

char *pl_text_copy(const char *original)
{
    size_t size = strlen(original) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, original, size) : NULL;
}
