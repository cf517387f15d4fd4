/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory. Pages of a mapping that are only read can be dropped at any time: they are the
   file's own, and come in again when touched. */
#define _DEFAULT_SOURCE /* madvise: POSIX's own does nothing for MADV_DONTNEED */

#include "checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Data are little-endian, and are handed out as they lie. */
static bool little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

static parlin_status map_file(const char *path, int fd, pl_map *map)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: fstat: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: a folder, wanted a file", path);
    if (!S_ISREG(about.st_mode))
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: no regular file", path);
    if (about.st_size == 0)
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: the file is empty", path);
    if ((uintmax_t)about.st_size > SIZE_MAX / 2)
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: %ju bytes cannot be mapped", path,
                        (uintmax_t)about.st_size);
    size_t size = (size_t)about.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: mmap of %zu bytes: %s", path, size,
                        strerror(errno));
    *map = (pl_map){bytes, size};
    return PARLIN_SUCCESS;
}

parlin_status pl_map_open(const char *path, pl_map *map)
{
    if (!little_endian())
        return pl_error(PARLIN_ERROR_UNSUPPORTED,
                        "checkpoint %s: its numbers are little-endian, this machine's are not",
                        path);
    /* O_NONBLOCK: a named pipe without a writer would be waited for */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return pl_error(PARLIN_ERROR_FILE, "checkpoint %s: open: %s", path, strerror(errno));
    parlin_status status = map_file(path, fd, map);
    close(fd);
    return status;
}

void pl_map_close(pl_map *map)
{
    if (map->bytes != NULL)
        munmap((void *)map->bytes, map->size);
    *map = (pl_map){0};
}

/* Advice is no more than that: where the system refuses it, nothing is lost but memory or time. */
static void advise(const pl_map *map, size_t first, size_t end, int advice)
{
    if (first < end)
        (void)madvise((void *)(map->bytes + first), end - first, advice);
}

void pl_map_read_ahead(const pl_map *map, bool on)
{
    advise(map, 0, map->size, on ? MADV_NORMAL : MADV_RANDOM);
}

/* [from, from + bytes) widened to multiples of `unit`, within the map. */
static void widen(const pl_map *map, const void *from, size_t bytes, size_t unit, size_t *first,
                  size_t *end)
{
    size_t begin = (size_t)((const unsigned char *)from - map->bytes);
    size_t last = begin + bytes;
    *first = begin - begin % unit;
    size_t more = (unit - last % unit) % unit;
    *end = map->size - last < more ? map->size : last + more;
}

void pl_map_will_need(const pl_map *map, const void *from, size_t bytes)
{
    size_t first, end;
    widen(map, from, bytes, (size_t)sysconf(_SC_PAGESIZE), &first, &end);
    advise(map, first, end, MADV_WILLNEED);
}

void pl_map_give_back(const pl_map *map, const void *from, size_t bytes)
{
    /* A fault maps the cached pages around it too, in Linux within an aligned run of 64 KiB */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first, end;
    widen(map, from, bytes, page > PL_MAP_WINDOW ? page : PL_MAP_WINDOW, &first, &end);
    advise(map, first, end, MADV_DONTNEED);
}
