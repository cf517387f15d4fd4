/* SPDX-License-Identifier: Apache-2.0 */
/* One build at a time on a machine. Threads: compilers are the part of a driver that is least used
   to them. Processes: PoCL 3.1 fails, with an empty log, when several build the same program at
   once; and ranks that wait find the finished program in the cache and need not build it. Processes
   meet at a lock file in the cache folder; without a folder, and after LIMIT, nobody waits. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "device/internal.h"

enum { LIMIT_MS = 300000, STEP_MS = 2 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;

/* True where another process holds the lock; false once it is ours, and on a file system that has
   no locks. */
static bool held_elsewhere(int descriptor)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(descriptor, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN);
}

void pl_build_lock(void)
{
    char path[4096 + 16];
    pthread_mutex_lock(&mutex);
    if (!pl_cache_folder(path, 4096))
        return;
    size_t length = strlen(path);
    memcpy(path + length, "/.lock", sizeof "/.lock");
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    /* A lock is dropped when its process ends, however it ends. */
    for (int waited = 0; file >= 0 && held_elsewhere(file); waited += STEP_MS) {
        if (waited >= LIMIT_MS) {
            pl_log(PL_LOG_INFO, "building without %s, which another process has held for %d s",
                   path, LIMIT_MS / 1000);
            close(file);
            file = -1;
        } else {
            nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000}, NULL);
        }
    }
}

void pl_build_unlock(void)
{
    if (file >= 0)
        close(file);
    file = -1;
    pthread_mutex_unlock(&mutex);
}
