/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static struct {
    char **paths;
    size_t count;
} made;

const char *files_folder(void)
{
    if (folder[0] == 0) {
        char fresh[] = "/tmp/parlin-test-XXXXXX";
        if (mkdtemp(fresh) == NULL)
            fail_msg("no folder in /tmp");
        memcpy(folder, fresh, sizeof fresh);
    }
    return folder;
}

void files_remove(void)
{
    for (size_t i = made.count; i-- > 0; free(made.paths[i]))
        remove(made.paths[i]);
    free((void *)made.paths);
    made.paths = NULL;
    made.count = 0;
    if (folder[0] != 0)
        rmdir(folder);
    folder[0] = 0;
}

const char *files_path(const char *name)
{
    size_t size = strlen(files_folder()) + strlen(name) + 2;
    char *path = support_alloc(size);
    snprintf(path, size, "%s/%s", folder, name);
    for (size_t i = 0; i < made.count; i++)
        if (strcmp(made.paths[i], path) == 0) {
            free(path);
            return made.paths[i];
        }
    made.paths = realloc((void *)made.paths, (made.count + 1) * sizeof *made.paths);
    assert_non_null(made.paths);
    return made.paths[made.count++] = path;
}

const char *files_make_folder(const char *name)
{
    const char *path = files_path(name);
    assert_int_equal(mkdir(path, 0777), 0);
    return path;
}

static FILE *begin(const char *name, const char **path)
{
    *path = files_path(name);
    FILE *file = fopen(*path, "wb");
    if (file == NULL)
        fail_msg("cannot write %s", *path);
    return file;
}

static void put(FILE *file, const void *bytes, size_t count)
{
    if (count > 0)
        assert_int_equal(fwrite(bytes, 1, count, file), count);
}

const char *files_write(const char *name, const void *bytes, size_t count)
{
    const char *path;
    FILE *file = begin(name, &path);
    put(file, bytes, count);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *files_raw(const char *name, uint64_t length, const void *header, size_t header_bytes,
                      const void *data, size_t bytes)
{
    const char *path;
    FILE *file = begin(name, &path);
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> (8 * i) & 0xff), file);
    put(file, header, header_bytes);
    if (data != NULL)
        put(file, data, bytes);
    assert_int_equal(fclose(file), 0);
    if (data == NULL && bytes > 0)
        assert_int_equal(truncate(path, (off_t)(8 + header_bytes + bytes)), 0);
    return path;
}

const char *files_safetensors(const char *name, const char *header, const void *data, size_t bytes)
{
    return files_raw(name, strlen(header), header, strlen(header), data, bytes);
}

parlin_checkpoint *files_open(const char *path)
{
    parlin_checkpoint *checkpoint = NULL;
    assert_ok(parlin_checkpoint_open(path, &checkpoint));
    assert_non_null(checkpoint);
    return checkpoint;
}
