/* SPDX-License-Identifier: Apache-2.0 */
/* Built programs on disk. A file is one program:

       "PARLINB1"  key size  binary size  checksum   (8 bytes each)   key   binary

   The key is the full text of everything that the binary depends on, and the file is named by its
   hash; a file is used only where magic, sizes, checksum and the whole key are right. Files are
   written under a name of their own and renamed, so that ranks that build at once do not mix. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/option.h"
#include "device/internal.h"

static const char magic[8] = {'P', 'A', 'R', 'L', 'I', 'N', 'B', '1'};

typedef struct header {
    char magic[8];
    uint64_t key_size;
    uint64_t binary_size;
    uint64_t checksum;
} header;

/* FNV-1a, 64 bits */
static uint64_t hash(uint64_t state, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        state = (state ^ bytes[i]) * 0x100000001b3u;
    return state;
}

static const uint64_t hash_start = 0xcbf29ce484222325u;

static uint64_t checksum_of(const header *head, const void *key, const void *binary)
{
    uint64_t state = hash(hash_start, head, offsetof(header, checksum));
    state = hash(state, key, (size_t)head->key_size);
    return hash(state, binary, (size_t)head->binary_size);
}

/* Writes the folder's path; false where nothing is to be kept. */
static bool choose_folder(char *path, size_t room)
{
    if (!pl_option_flag(PL_OPTION_CACHE, true))
        return false;
    static const struct {
        pl_option_id id;
        const char *below;
    } places[] = {{PL_OPTION_CACHE_DIR, ""},
                  {PL_OPTION_XDG_CACHE_HOME, "/parlin"},
                  {PL_OPTION_HOME, "/.cache/parlin"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *parent = pl_option(places[i].id);
        if (parent)
            return (size_t)snprintf(path, room, "%s%s", parent, places[i].below) < room;
    }
    return false;
}

/* mkdir -p */
static bool make_folder(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s", folder);
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            if (mkdir(path, 0700) != 0 && errno != EEXIST)
                return false;
            *at = '/';
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

bool pl_cache_folder(char *path, size_t room)
{
    return choose_folder(path, room) && make_folder(path);
}

parlin_status pl_cache_key_make(const parlin_device *device, const char *file, const char *options,
                                const char *source, pl_cache_key *key)
{
    const parlin_device_info *info = &device->info;
    char platform_version[256] = "";
    cl_platform_id platform = NULL;
    if (clGetDeviceInfo(device->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) ==
        CL_SUCCESS)
        clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof platform_version - 1,
                          platform_version, NULL);
    const char *const fields[][2] = {
        {"parlin", PARLIN_VERSION},    {"platform", info->platform},
        {"version", platform_version}, {"device", info->name},
        {"vendor", info->vendor},      {"device version", info->version},
        {"driver", info->driver},      {"file", file},
        {"options", options},          {"source", source},
    };
    enum { FIELDS = sizeof fields / sizeof *fields };
    size_t room = 1;
    for (size_t i = 0; i < FIELDS; i++)
        room += strlen(fields[i][0]) + strlen(fields[i][1]) + 32;
    memset(key, 0, sizeof *key);
    key->text = malloc(room);
    if (!key->text)
        return pl_error(PARLIN_ERROR_MEMORY, "building %s: host memory ran out", file);
    /* The length of each field stands before it, so that no two keys read alike. */
    for (size_t i = 0; i < FIELDS; i++)
        key->size += (size_t)snprintf(key->text + key->size, room - key->size, "%s %zu: %s\n",
                                      fields[i][0], strlen(fields[i][1]), fields[i][1]);
    char name[32];
    snprintf(name, sizeof name, "/%016llx.bin",
             (unsigned long long)hash(hash_start, key->text, key->size));
    if (choose_folder(key->path, sizeof key->path - sizeof name)) {
        key->folder = strlen(key->path);
        memcpy(key->path + key->folder, name, strlen(name) + 1);
    } else {
        key->path[0] = 0;
    }
    return PARLIN_SUCCESS;
}

void pl_cache_key_free(pl_cache_key *key)
{
    free(key->text);
    key->text = NULL;
}

/* The binary of an open file, or NULL and in *fault what is wrong with the file. */
static unsigned char *read_checked(FILE *file, const pl_cache_key *key, size_t *size,
                                   const char **fault)
{
    header head;
    struct stat stat_of;
    *fault = "it is cut off";
    if (fstat(fileno(file), &stat_of) != 0 || fread(&head, sizeof head, 1, file) != 1)
        return NULL;
    *fault = "it belongs to another user"; /* what is in it would be run */
    if (stat_of.st_uid != geteuid() && stat_of.st_uid != 0)
        return NULL;
    *fault = "it is no program of parlin's";
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        return NULL;
    *fault = "it is another program's";
    if (head.key_size != key->size)
        return NULL;
    *fault = "its size is wrong";
    uint64_t rest = (uint64_t)stat_of.st_size - sizeof head;
    if (head.binary_size == 0 || rest < head.key_size || rest - head.key_size != head.binary_size)
        return NULL;
    *fault = "host memory ran out";
    char *stored_key = malloc(key->size);
    unsigned char *binary = malloc((size_t)head.binary_size);
    bool right = stored_key && binary;
    if (right) {
        *fault = "it is cut off";
        right = fread(stored_key, key->size, 1, file) == 1 &&
                fread(binary, (size_t)head.binary_size, 1, file) == 1;
    }
    if (right) {
        *fault = "its checksum is wrong";
        right = checksum_of(&head, stored_key, binary) == head.checksum;
    }
    if (right) {
        *fault = "it is another program's";
        right = memcmp(stored_key, key->text, key->size) == 0;
    }
    free(stored_key);
    if (!right) {
        free(binary);
        return NULL;
    }
    *size = (size_t)head.binary_size;
    return binary;
}

/* Anything but a plain file is left alone: a pipe of that name would wait for a writer. */
static FILE *open_file(const char *path)
{
    struct stat what;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return NULL;
    FILE *file =
        fstat(descriptor, &what) == 0 && S_ISREG(what.st_mode) ? fdopen(descriptor, "rb") : NULL;
    if (!file)
        close(descriptor);
    return file;
}

unsigned char *pl_cache_load(const pl_cache_key *key, size_t *size)
{
    FILE *file = key->path[0] ? open_file(key->path) : NULL;
    if (!file)
        return NULL;
    const char *fault;
    unsigned char *binary = read_checked(file, key, size, &fault);
    fclose(file);
    if (!binary)
        pl_log(PL_LOG_INFO, "cached program %s is not used: %s", key->path, fault);
    return binary;
}

static bool write_file(const char *folder, const pl_cache_key *key, const unsigned char *binary,
                       size_t size)
{
    char path[sizeof key->path + 16];
    snprintf(path, sizeof path, "%s/.new.XXXXXX", folder);
    int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (!file) {
        if (descriptor >= 0) {
            close(descriptor);
            unlink(path);
        }
        return false;
    }
    header head = {.key_size = key->size, .binary_size = size};
    memcpy(head.magic, magic, sizeof magic);
    head.checksum = checksum_of(&head, key->text, binary);
    bool right = fwrite(&head, sizeof head, 1, file) == 1 &&
                 fwrite(key->text, key->size, 1, file) == 1 && fwrite(binary, size, 1, file) == 1;
    right = fclose(file) == 0 && right;
    right = right && rename(path, key->path) == 0;
    if (!right) {
        int reason = errno;
        unlink(path);
        errno = reason;
    }
    return right;
}

void pl_cache_store(const pl_cache_key *key, const unsigned char *binary, size_t size)
{
    static atomic_bool told;
    if (!key->path[0])
        return;
    char folder[sizeof key->path];
    memcpy(folder, key->path, key->folder);
    folder[key->folder] = 0;
    if (make_folder(folder) && write_file(folder, key, binary, size))
        return;
    int reason = errno;
    if (!atomic_exchange(&told, true))
        pl_log(PL_LOG_INFO, "built programs are not kept: cannot write to %s: %s", folder,
               strerror(reason));
}
